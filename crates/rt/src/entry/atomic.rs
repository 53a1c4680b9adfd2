//! Atomic operations: performed here, with the order that was asked for or a stronger one.
//!
//! On x86-64 every load acquires, every store releases and every read-modify-write is a full barrier; the
//! only order that changes the code is that of a sequentially consistent store. Elsewhere
//! read-modify-writes are performed sequentially consistent: stronger than asked, never weaker.
//!
//! The time of an atomic event is read before the operation, the outcome of a compare-exchange after
//! it.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use selvedge_events::event::{EventKind, Order};
use selvedge_events::for_each_atomic_width;
use selvedge_events::hooks::{HookClass, HookIx};
use selvedge_events::pack::{self, PAYLOAD_FLAG};
use selvedge_events::plan::{Observe, POINT_AFTER};
use selvedge_sched::OpKind;

use crate::gate::{self, Arrival};
use crate::{arch, detect, graph, guard, heal, shadow, sink, stream};

#[inline(always)]
fn load_order(order: u32) -> Ordering {
    if order == 0 { Ordering::Relaxed } else { Ordering::SeqCst }
}

/// Before an atomic operation: under control, others may go first. The answer is its time.
#[inline(always)]
fn before(kind: OpKind, addr: u64, size: u64, site: u32) -> u64 {
    if gate::is_on() {
        crate::enforce::give(site & !POINT_AFTER);
        gate::point(Arrival::access(kind, addr, site & !POINT_AFTER));
        guard::atomic(addr, size, site & !POINT_AFTER);
        heal::access(addr, size, site & !POINT_AFTER);
        crate::enforce::access(site & !POINT_AFTER);
        stream::look(addr, size);
    } else {
        guard::atomic(addr, size, site & !POINT_AFTER);
        heal::access(addr, size, site & !POINT_AFTER);
        crate::enforce::access(site & !POINT_AFTER);
        let access = detect::slots::Access { addr, size, writes: kind != OpKind::Read, atomic: true };
        detect::atomic(access, site & !POINT_AFTER, kind != OpKind::Write);
    }
    stream::now()
}

/// After it: others may go now, where what follows has no points of its own.
#[inline(always)]
fn after(site: u32) {
    if site & POINT_AFTER != 0 && gate::is_on() {
        gate::point(Arrival { object: 0, ..Arrival::access(OpKind::Other, 0, site & !POINT_AFTER) });
    }
}

/// Notes an atomic operation; `tsc` was read before it.
fn note(addr: u64, size: u64, orders: u16, write: bool, failed: bool, site: u32, tsc: u64) {
    let site = site & !POINT_AFTER;
    if sink::observe() == Observe::Survey {
        shadow::access(addr, size, write, site);
        return shadow::seen_atomic(site);
    }
    match sink::observe() {
        Observe::Nothing => return,
        // What fails has read.
        Observe::Graph => return graph::access(addr, size, write && !failed, site),
        Observe::Survey | Observe::Record => {}
    }
    let flag = if failed { PAYLOAD_FLAG } else { 0 };
    stream::emit_at_site(EventKind::Atomic, site, flag, [pack::object(addr, orders), 0, 0], tsc);
}

/// Success order in bits 0 to 2, failure order in bits 3 to 5.
fn orders(success: u32, failure: u32) -> u16 {
    Order::from_abi(success) as u16 | (Order::from_abi(failure) as u16) << 3
}

macro_rules! width {
    ($(($bits:literal, $int:ident, $atomic:ident))*) => { $(
        /// One width: default entries, and entries of armed sites (`…_seen`) with the site's id.
        pub mod $int {
            use super::*;
            const SIZE: u64 = size_of::<$int>() as u64;

            #[inline(always)]
            fn at(addr: u64) -> &'static $atomic {
                // SAFETY: I9: the guest's own atomic object, valid and aligned for this operation.
                unsafe { $atomic::from_ptr(addr as *mut $int) }
            }

            /// Default entry.
            #[unsafe(export_name = concat!("__tsan_atomic", $bits, "_load"))]
            pub extern "C" fn load(addr: u64, order: u32) -> $int {
                at(addr).load(load_order(order))
            }

            /// Armed entry.
            pub extern "C" fn load_seen(addr: u64, order: u32, site: u32) -> $int {
                let tsc = before(OpKind::Read, addr, SIZE, site);
                let value = load(addr, order);
                note(addr, SIZE, orders(order, 0), false, false, site, tsc);
                after(site);
                value
            }

            /// Default entry.
            #[unsafe(export_name = concat!("__tsan_atomic", $bits, "_store"))]
            pub extern "C" fn store(addr: u64, value: $int, order: u32) {
                match Order::from_abi(order) {
                    Order::SeqCst => at(addr).store(value, Ordering::SeqCst),
                    _ => at(addr).store(value, Ordering::Release),
                }
            }

            /// Armed entry.
            pub extern "C" fn store_seen(addr: u64, value: $int, order: u32, site: u32) {
                // Noted before it is visible, so that whoever reads the value has a later event.
                note(addr, SIZE, orders(order, 0), true, false, site, before(OpKind::Write, addr, SIZE, site));
                store(addr, value, order);
                after(site);
            }

            width!(@rmw $bits $int exchange exchange_seen "_exchange" |cell, value| cell.swap(value, Ordering::SeqCst));
            width!(@rmw $bits $int add add_seen "_fetch_add" |cell, value| cell.fetch_add(value, Ordering::SeqCst));
            width!(@rmw $bits $int sub sub_seen "_fetch_sub" |cell, value| cell.fetch_sub(value, Ordering::SeqCst));
            width!(@rmw $bits $int and and_seen "_fetch_and" |cell, value| cell.fetch_and(value, Ordering::SeqCst));
            width!(@rmw $bits $int or or_seen "_fetch_or" |cell, value| cell.fetch_or(value, Ordering::SeqCst));
            width!(@rmw $bits $int xor xor_seen "_fetch_xor" |cell, value| cell.fetch_xor(value, Ordering::SeqCst));
            width!(@rmw $bits $int nand nand_seen "_fetch_nand" |cell, value| cell.fetch_nand(value, Ordering::SeqCst));

            #[inline(always)]
            fn cas(addr: u64, expected: *mut $int, new: $int) -> bool {
                // SAFETY: I9: the guest's own variable for the expected value.
                let want = unsafe { expected.read() };
                match at(addr).compare_exchange(want, new, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => true,
                    Err(now) => {
                        // SAFETY: I9, as above.
                        unsafe { expected.write(now) };
                        false
                    }
                }
            }

            /// Default entry.
            #[unsafe(export_name = concat!("__tsan_atomic", $bits, "_compare_exchange_strong"))]
            pub extern "C" fn cas_strong(addr: u64, expected: *mut $int, new: $int, _: u32, _: u32) -> i32 {
                i32::from(cas(addr, expected, new))
            }

            /// Default entry.
            #[unsafe(export_name = concat!("__tsan_atomic", $bits, "_compare_exchange_weak"))]
            pub extern "C" fn cas_weak(addr: u64, expected: *mut $int, new: $int, _: u32, _: u32) -> i32 {
                i32::from(cas(addr, expected, new))
            }

            /// Default entry.
            #[unsafe(export_name = concat!("__tsan_atomic", $bits, "_compare_exchange_val"))]
            pub extern "C" fn cas_val(addr: u64, expected: $int, new: $int, _: u32, _: u32) -> $int {
                at(addr).compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst).unwrap_or_else(|now| now)
            }

            /// Armed entry of both.
            pub extern "C" fn cas_seen(addr: u64, expected: *mut $int, new: $int, ok: u32, fail: u32, site: u32) -> i32 {
                let tsc = before(OpKind::Update, addr, SIZE, site);
                let done = cas(addr, expected, new);
                note(addr, SIZE, orders(ok, fail), done, !done, site, tsc);
                after(site);
                i32::from(done)
            }

            /// Armed entry.
            pub extern "C" fn cas_val_seen(addr: u64, expected: $int, new: $int, ok: u32, fail: u32, site: u32) -> $int {
                let tsc = before(OpKind::Update, addr, SIZE, site);
                let old = cas_val(addr, expected, new, ok, fail);
                note(addr, SIZE, orders(ok, fail), old == expected, old != expected, site, tsc);
                after(site);
                old
            }

            /// Armed entries in the order of the hook table.
            pub const SEEN: [fn() -> usize; 12] = [
                || load_seen as *const () as usize, || store_seen as *const () as usize, || exchange_seen as *const () as usize,
                || add_seen as *const () as usize, || sub_seen as *const () as usize, || and_seen as *const () as usize,
                || or_seen as *const () as usize, || xor_seen as *const () as usize, || nand_seen as *const () as usize,
                || cas_seen as *const () as usize, || cas_seen as *const () as usize, || cas_val_seen as *const () as usize,
            ];
        }
    )* };
    (@rmw $bits:literal $int:ident $name:ident $seen:ident $suffix:literal |$cell:ident, $value:ident| $op:expr) => {
        /// Default entry.
        #[unsafe(export_name = concat!("__tsan_atomic", $bits, $suffix))]
        pub extern "C" fn $name(addr: u64, $value: $int, _order: u32) -> $int {
            let $cell = at(addr);
            $op
        }

        /// Armed entry.
        pub extern "C" fn $seen(addr: u64, value: $int, order: u32, site: u32) -> $int {
            let tsc = before(OpKind::Update, addr, SIZE, site);
            let old = $name(addr, value, order);
            note(addr, SIZE, orders(order, 0), true, false, site, tsc);
            after(site);
            old
        }
    };
}
for_each_atomic_width!(width);

/// Sixteen bytes, by `cmpxchg16b`.
pub mod wide {
    use super::*;

    /// A pair of registers, as the C ABI passes and returns 128-bit integers.
    #[derive(Clone, Copy, Debug)]
    #[repr(C)]
    pub struct Pair {
        lo: u64,
        hi: u64,
    }

    impl From<u128> for Pair {
        fn from(value: u128) -> Pair {
            Pair { lo: value as u64, hi: (value >> 64) as u64 }
        }
    }

    impl From<Pair> for u128 {
        fn from(pair: Pair) -> u128 {
            u128::from(pair.hi) << 64 | u128::from(pair.lo)
        }
    }

    fn update(addr: u64, op: impl Fn(u128) -> u128) -> u128 {
        let mut old = 0;
        loop {
            // SAFETY: I9: the guest's own 16-byte atomic object.
            let (now, done) = unsafe { arch::cas128(addr as *mut u128, old, op(old)) };
            if done {
                return old;
            }
            old = now;
        }
    }

    fn cas(addr: u64, expected: *mut u128, new: u128) -> bool {
        // SAFETY: I9: the guest's own variable.
        let want = unsafe { expected.read_unaligned() };
        // SAFETY: I9: the guest's own 16-byte atomic object.
        let (now, done) = unsafe { arch::cas128(addr as *mut u128, want, new) };
        if !done {
            // SAFETY: I9, as above.
            unsafe { expected.write_unaligned(now) };
        }
        done
    }

    /// Default entry.
    #[unsafe(no_mangle)]
    pub extern "C" fn __tsan_atomic128_load(addr: u64, _: u32) -> Pair {
        // SAFETY: I9. Exchanging zero for zero reads without changing.
        unsafe { arch::cas128(addr as *mut u128, 0, 0) }.0.into()
    }

    extern "C" fn load_seen(addr: u64, order: u32, site: u32) -> Pair {
        let tsc = before(OpKind::Read, addr, 16, site);
        let value = __tsan_atomic128_load(addr, order);
        note(addr, 16, orders(order, 0), false, false, site, tsc);
        value
    }

    /// Default entry.
    #[unsafe(no_mangle)]
    pub extern "C" fn __tsan_atomic128_store(addr: u64, value: Pair, _: u32) {
        update(addr, |_| value.into());
    }

    extern "C" fn store_seen(addr: u64, value: Pair, order: u32, site: u32) {
        note(addr, 16, orders(order, 0), true, false, site, before(OpKind::Write, addr, 16, site));
        __tsan_atomic128_store(addr, value, order);
    }

    macro_rules! rmw {
        ($($name:ident $seen:ident |$old:ident, $value:ident| $op:expr;)*) => { $(
            /// Default entry.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(addr: u64, value: Pair, _: u32) -> Pair {
                let $value: u128 = value.into();
                update(addr, |$old| $op).into()
            }

            extern "C" fn $seen(addr: u64, value: Pair, order: u32, site: u32) -> Pair {
                let tsc = before(OpKind::Update, addr, 16, site);
                let old = $name(addr, value, order);
                note(addr, 16, orders(order, 0), true, false, site, tsc);
                old
            }
        )* };
    }
    rmw! {
        __tsan_atomic128_exchange exchange_seen |_old, value| value;
        __tsan_atomic128_fetch_add add_seen |old, value| old.wrapping_add(value);
        __tsan_atomic128_fetch_sub sub_seen |old, value| old.wrapping_sub(value);
        __tsan_atomic128_fetch_and and_seen |old, value| old & value;
        __tsan_atomic128_fetch_or or_seen |old, value| old | value;
        __tsan_atomic128_fetch_xor xor_seen |old, value| old ^ value;
        __tsan_atomic128_fetch_nand nand_seen |old, value| !(old & value);
    }

    /// Default entry.
    #[unsafe(no_mangle)]
    pub extern "C" fn __tsan_atomic128_compare_exchange_strong(
        addr: u64,
        expected: *mut u128,
        new: Pair,
        _: u32,
        _: u32,
    ) -> i32 {
        i32::from(cas(addr, expected, new.into()))
    }

    /// Default entry.
    #[unsafe(no_mangle)]
    pub extern "C" fn __tsan_atomic128_compare_exchange_weak(
        addr: u64,
        expected: *mut u128,
        new: Pair,
        _: u32,
        _: u32,
    ) -> i32 {
        i32::from(cas(addr, expected, new.into()))
    }

    /// Default entry.
    #[unsafe(no_mangle)]
    pub extern "C" fn __tsan_atomic128_compare_exchange_val(
        addr: u64,
        expected: Pair,
        new: Pair,
        _: u32,
        _: u32,
    ) -> Pair {
        let mut old: u128 = expected.into();
        cas(addr, &raw mut old, new.into());
        old.into()
    }

    // All six integer argument registers are taken: the id comes in r11 and goes on as a seventh
    // argument on the stack.
    #[cfg(not(feature = "stub"))]
    core::arch::global_asm!(
        ".text",
        ".p2align 4",
        "selvedge_rt_cas128:",
        ".cfi_startproc",
        "push r11",
        ".cfi_adjust_cfa_offset 8",
        "call {inner}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        inner = sym cas_seen,
    );

    extern "C" fn cas_seen(addr: u64, expected: *mut u128, new: Pair, ok: u32, fail: u32, site: u64) -> i32 {
        let tsc = before(OpKind::Update, addr, 16, site as u32);
        let done = cas(addr, expected, new.into());
        note(addr, 16, orders(ok, fail), done, !done, site as u32, tsc);
        i32::from(done)
    }

    #[cfg(feature = "stub")]
    fn cas_shim() -> usize {
        0
    }

    #[cfg(not(feature = "stub"))]
    fn cas_shim() -> usize {
        let at: usize;
        // SAFETY: takes an address.
        unsafe { core::arch::asm!("lea {}, [rip + selvedge_rt_cas128]", out(reg) at, options(nomem, nostack)) };
        at
    }

    /// Armed entries in the order of the hook table. `compare_exchange_val` passes its expected value in
    /// registers and leaves none for an id: no compiler emits it, it is never armed.
    pub const SEEN: [fn() -> usize; 12] = [
        || load_seen as *const () as usize,
        || store_seen as *const () as usize,
        || exchange_seen as *const () as usize,
        || add_seen as *const () as usize,
        || sub_seen as *const () as usize,
        || and_seen as *const () as usize,
        || or_seen as *const () as usize,
        || xor_seen as *const () as usize,
        || nand_seen as *const () as usize,
        cas_shim,
        cas_shim,
        || 0,
    ];
}

/// Default entry.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_thread_fence(order: u32) {
    match Order::from_abi(order) {
        Order::Relaxed => {}
        Order::SeqCst => fence(Ordering::SeqCst),
        Order::Consume | Order::Acquire => fence(Ordering::Acquire),
        Order::Release => fence(Ordering::Release),
        Order::AcqRel => fence(Ordering::AcqRel),
    }
}

/// Default entry. The call itself is all the barrier that a compiler needs.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_signal_fence(_: u32) {}

extern "C" fn fence_seen(order: u32, site: u32) {
    let site = site & !POINT_AFTER;
    if gate::is_on() {
        gate::point(Arrival { object: 0, ..Arrival::access(OpKind::Fence, 0, site) });
    }
    if sink::observe() == Observe::Survey {
        shadow::seen_atomic(site);
    } else {
        let order = u64::from(Order::from_abi(order) as u8);
        stream::emit_at_site(EventKind::Fence, site, 0, [order, 0, 0], stream::now());
    }
    __tsan_atomic_thread_fence(order);
}

/// The armed entry of an atomic hook.
pub fn target(index: HookIx) -> Option<usize> {
    let hook = index.get()?;
    let HookClass::Atomic { op, size } = hook.class else {
        return None;
    };
    let row = op as usize;
    let address = match size {
        0 if hook.disarmed.is_none() => fence_seen as *const () as usize,
        1 => u8::SEEN.get(row)?(),
        2 => u16::SEEN.get(row)?(),
        4 => u32::SEEN.get(row)?(),
        8 => u64::SEEN.get(row)?(),
        16 => wide::SEEN.get(row)?(),
        _ => 0,
    };
    Some(address).filter(|address| *address != 0)
}
