//! Plain accesses, ranges and blocks.
//!
//! The default entries do nothing: they are what an unpatched call reaches.

use core::arch::global_asm;

use selvedge_events::event::EventKind;
use selvedge_events::for_each_access_hook;
use selvedge_events::hooks::Rw;
use selvedge_events::pack;
use selvedge_events::plan::Observe;
use selvedge_sched::OpKind;

use crate::detect::{self, slots};
use crate::gate::{self, Arrival};
use crate::{enforce, graph, guard, heal, shadow, sink, stream};

macro_rules! default_entries {
    ($(($name:ident, $rw:ident, $size:literal, $flavour:ident))*) => {
        default_entries!(@ $($name)* __tsan_vptr_update __tsan_read_range __tsan_write_range __tsan_func_entry
            __tsan_func_exit __sanitizer_cov_trace_pc __sanitizer_cov_trace_pc_indir);
    };
    (@ $($name:ident)*) => {
        global_asm!(
            ".text",
            ".p2align 4",
            $(
                concat!(".globl ", stringify!($name)),
                concat!(".type ", stringify!($name), ",@function"),
                concat!(stringify!($name), ":"),
                "endbr64",
                "ret",
                concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            )*
        );
    };
}
for_each_access_hook!(default_entries);

/// An access under record.
pub extern "C" fn record(addr: u64, site: u32) {
    stream::short_access(addr, site);
}

/// An access under record, of a site without a short id.
pub extern "C" fn record_wide(addr: u64, site: u32) {
    stream::wide_access(addr, site);
}

/// `__tsan_vptr_update(vptr, new value)` under record: storing the same pointer again is no write.
pub extern "C" fn record_vptr_update(addr: u64, new: u64, site: u32) {
    if unchanged(addr, new) {
        return;
    }
    if site < 1 << pack::SHORT_SITE_BITS {
        stream::short_access(addr, site);
    } else {
        stream::wide_access(addr, site);
    }
}

/// Whether a pointer is stored that is there already.
pub fn unchanged(addr: u64, new: u64) -> bool {
    // SAFETY: I9: the guest is about to store a pointer there itself.
    unsafe { (addr as *const u64).read_volatile() == new }
}

/// `__tsan_read_range` under record.
pub extern "C" fn record_range_read(addr: u64, size: u64, site: u32) {
    range(addr, size, false, site);
}

/// `__tsan_write_range` under record.
pub extern "C" fn record_range_write(addr: u64, size: u64, site: u32) {
    range(addr, size, true, site);
}

/// A range of bytes, whatever is observed.
pub fn range(addr: u64, size: u64, write: bool, site: u32) {
    if size == 0 {
        return;
    }
    if gate::is_on() {
        let kind = if write { OpKind::Write } else { OpKind::Read };
        enforce::give(site);
        gate::point(Arrival::access(kind, addr, site));
    }
    guard::access(addr, size, site);
    heal::access(addr, size, site);
    enforce::access(site);
    detect::access(slots::Access { addr, size, writes: write, atomic: false }, site);
    match sink::observe() {
        Observe::Survey => return shadow::range(addr, size, write, site),
        Observe::Graph => return graph::access(addr, size, write, site),
        Observe::Nothing => return,
        Observe::Record => {}
    }
    match pack::extent(size, write) {
        extent if extent != 0 && site < 1 << pack::SHORT_SITE_BITS => stream::short_range(addr, site, extent),
        _ => stream::wide_range(addr, size, write, site),
    }
}

/// A basic block under record.
pub extern "C" fn record_block(site: u32) {
    stream::emit_at_site(EventKind::Block, site, 0, [0; 3], stream::now());
}

extern "C" fn survey<const SIZE: u64, const WRITE: bool>(addr: u64, site: u32) {
    shadow::access(addr, SIZE, WRITE, site);
}

extern "C" fn survey_vptr_update(addr: u64, new: u64, site: u32) {
    if !unchanged(addr, new) {
        shadow::access(addr, 8, true, site);
    }
}

/// `__tsan_read_range` under survey.
pub extern "C" fn survey_range_read(addr: u64, size: u64, site: u32) {
    shadow::range(addr, size, false, site);
}

/// `__tsan_write_range` under survey.
pub extern "C" fn survey_range_write(addr: u64, size: u64, site: u32) {
    shadow::range(addr, size, true, site);
}

/// An access under control, recorded where the plan says so.
pub extern "C" fn controlled<const SIZE: u64, const WRITE: bool>(addr: u64, site: u32) {
    enforce::give(site);
    gate::point(Arrival::access(if WRITE { OpKind::Write } else { OpKind::Read }, addr, site));
    guard::access(addr, if SIZE == 0 { 16 } else { SIZE }, site);
    heal::access(addr, if SIZE == 0 { 16 } else { SIZE }, site);
    enforce::access(site);
    stream::look(addr, SIZE);
    match sink::observe() {
        Observe::Record if site < 1 << pack::SHORT_SITE_BITS => stream::short_access(addr, site),
        Observe::Record => stream::wide_access(addr, site),
        Observe::Graph => graph::access(addr, if SIZE == 0 { 16 } else { SIZE }, WRITE, site),
        Observe::Survey | Observe::Nothing => {}
    }
}

/// The same, where storing the pointer that is there already is no write.
pub extern "C" fn controlled_vptr_update(addr: u64, new: u64, site: u32) {
    if !unchanged(addr, new) {
        controlled::<8, true>(addr, site);
    }
}

/// The entry for an access under control.
pub fn controlled_target(rw: Rw, size: u8, args: u8) -> usize {
    if args == 2 {
        return controlled_vptr_update as *const () as usize;
    }
    match (rw, size) {
        (Rw::Read, 1) => controlled::<1, false> as *const () as usize,
        (Rw::Read, 2) => controlled::<2, false> as *const () as usize,
        (Rw::Read, 4) => controlled::<4, false> as *const () as usize,
        (Rw::Read, 8) => controlled::<8, false> as *const () as usize,
        (Rw::Read, _) => controlled::<0, false> as *const () as usize,
        (_, 1) => controlled::<1, true> as *const () as usize,
        (_, 2) => controlled::<2, true> as *const () as usize,
        (_, 4) => controlled::<4, true> as *const () as usize,
        (_, 8) => controlled::<8, true> as *const () as usize,
        _ => controlled::<0, true> as *const () as usize,
    }
}

extern "C" fn collected<const SIZE: u64, const WRITE: bool>(addr: u64, site: u32) {
    if guard::is_on() {
        return collected_guarded(addr, SIZE, WRITE, site);
    }
    graph::quick::<SIZE, WRITE>(addr, site);
}

#[cold]
#[inline(never)]
fn collected_guarded(addr: u64, size: u64, write: bool, site: u32) {
    guard::access(addr, size, site);
    graph::access(addr, size, write, site);
}

extern "C" fn collected_vptr_update(addr: u64, new: u64, site: u32) {
    if !unchanged(addr, new) {
        collected::<8, true>(addr, site);
    }
}

/// The graph's entry for an access.
pub fn graph_target(rw: Rw, size: u8, args: u8) -> Option<usize> {
    if args == 2 {
        return Some(collected_vptr_update as *const () as usize);
    }
    Some(match (rw, size) {
        (Rw::Read, 1) => collected::<1, false> as *const () as usize,
        (Rw::Read, 2) => collected::<2, false> as *const () as usize,
        (Rw::Read, 4) => collected::<4, false> as *const () as usize,
        (Rw::Read, 8) => collected::<8, false> as *const () as usize,
        (Rw::Read, 16) => collected::<16, false> as *const () as usize,
        (_, 1) => collected::<1, true> as *const () as usize,
        (_, 2) => collected::<2, true> as *const () as usize,
        (_, 4) => collected::<4, true> as *const () as usize,
        (_, 8) => collected::<8, true> as *const () as usize,
        (_, 16) => collected::<16, true> as *const () as usize,
        _ => return None,
    })
}

/// The survey's entry for an access.
pub fn survey_target(rw: Rw, size: u8, args: u8) -> Option<usize> {
    if args == 2 {
        return Some(survey_vptr_update as *const () as usize);
    }
    Some(match (rw, size) {
        (Rw::Read, 1..=8) if size.is_power_of_two() => match size {
            1 => survey::<1, false> as *const () as usize,
            2 => survey::<2, false> as *const () as usize,
            4 => survey::<4, false> as *const () as usize,
            _ => survey::<8, false> as *const () as usize,
        },
        (Rw::Read, 16) => survey::<16, false> as *const () as usize,
        (_, 1) => survey::<1, true> as *const () as usize,
        (_, 2) => survey::<2, true> as *const () as usize,
        (_, 4) => survey::<4, true> as *const () as usize,
        (_, 8) => survey::<8, true> as *const () as usize,
        (_, 16) => survey::<16, true> as *const () as usize,
        _ => return None,
    })
}
