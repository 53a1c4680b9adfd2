//! Plain accesses at watched sites. The common case, nobody near and no wait due, is nine instructions of machine
//! code; everything else is [`detect::slow`], which gets the registers that a walk of the stack begins with.

use core::arch::naked_asm;

use selvedge_events::hooks::{Flavour, Rw};

use crate::arch;
use crate::detect::noise::Class;
use crate::detect::slots::{self, Access};
use crate::detect::who::Registers;
use crate::detect::{self, At};

const WRITES: u32 = 1 << 8;
const CLASS_SHIFT: u32 = 16;

// The machine code below has these numbers in it.
const _: () = assert!(slots::LINE_SHIFT == 6 && slots::BUCKETS == 1024);

extern "C" fn slow(addr: u64, site: u32, what: u32, frame: usize, stack: usize) {
    let access = Access { addr, size: u64::from(what & 0xff), writes: what & WRITES != 0, atomic: false };
    let class = match what >> CLASS_SHIFT {
        0 => Class::Usual,
        1 => Class::Aimed,
        3 => Class::Rare,
        _ => Class::Quiet,
    };
    // Whoever came because somebody is near has not been counted down yet.
    let due = arch::due(class as usize);
    if due >= 0 {
        arch::set_due(class as usize, due - 1);
    }
    detect::slow(At { access, site, class, registers: Registers { frame, stack } });
}

macro_rules! entries {
    ($($name:ident($size:literal, $writes:expr, $class:literal);)*) => { $(
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                "mov eax, edi",
                "shr eax, 6",
                "and eax, 1023",
                "lea rcx, [rip + {table}]",
                "cmp qword ptr [rcx + rax*8], 0",
                "jne 2f",
                "dec dword ptr fs:[selvedge_rt_due@tpoff + {due}]",
                "js 2f",
                "ret",
                "2:",
                "mov edx, {what}",
                "mov rcx, rbp",
                "mov r8, rsp",
                "jmp {slow}",
                table = sym slots::TABLE,
                due = const 4 * $class,
                what = const $size | $writes | $class << CLASS_SHIFT,
                slow = sym slow,
            )
        }
    )* };
}

entries! {
    read1(1, 0, 0); read2(2, 0, 0); read4(4, 0, 0); read8(8, 0, 0);
    write1(1, WRITES, 0); write2(2, WRITES, 0); write4(4, WRITES, 0); write8(8, WRITES, 0);
    aimed_read1(1, 0, 1); aimed_read2(2, 0, 1); aimed_read4(4, 0, 1); aimed_read8(8, 0, 1);
    aimed_write1(1, WRITES, 1); aimed_write2(2, WRITES, 1); aimed_write4(4, WRITES, 1); aimed_write8(8, WRITES, 1);
    quiet_read1(1, 0, 2); quiet_read2(2, 0, 2); quiet_read4(4, 0, 2); quiet_read8(8, 0, 2);
    quiet_write1(1, WRITES, 2); quiet_write2(2, WRITES, 2); quiet_write4(4, WRITES, 2); quiet_write8(8, WRITES, 2);
    rare_read1(1, 0, 3); rare_read2(2, 0, 3); rare_read4(4, 0, 3); rare_read8(8, 0, 3);
    rare_write1(1, WRITES, 3); rare_write2(2, WRITES, 3); rare_write4(4, WRITES, 3); rare_write8(8, WRITES, 3);
}

/// Accesses that can reach over the end of a line.
macro_rules! wide {
    ($($name:ident $inner:ident($size:literal, $writes:literal);)*) => { $(
        extern "C" fn $inner(addr: u64, site: u32, frame: usize, stack: usize) {
            wide_access(Access { addr, size: $size, writes: $writes, atomic: false }, site, Registers { frame, stack });
        }

        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!("mov rdx, rbp", "mov rcx, rsp", "jmp {inner}", inner = sym $inner)
        }
    )* };
}

wide! {
    wide_read2 in_wide_read2(2, false); wide_read4 in_wide_read4(4, false); wide_read8 in_wide_read8(8, false);
    wide_read16 in_wide_read16(16, false);
    wide_write2 in_wide_write2(2, true); wide_write4 in_wide_write4(4, true); wide_write8 in_wide_write8(8, true);
    wide_write16 in_wide_write16(16, true);
}

/// An access that may reach over the end of a line, or has no entry of its own.
pub fn wide_access(access: Access, site: u32, registers: Registers) {
    let class = detect::class_of(site);
    let due = arch::due(class as usize) - 1;
    arch::set_due(class as usize, due);
    let near = |addr: u64| slots::look(slots::bucket(addr)) != slots::There::Nothing;
    if due < 0 || near(access.addr) || near(access.addr.wrapping_add(access.size - 1)) {
        detect::slow(At { access, site, class, registers });
    }
}

/// `__tsan_vptr_update(vptr, new value)`: storing the same pointer again is no write.
extern "C" fn vptr_update(addr: u64, new: u64, site: u32) {
    if !super::access::unchanged(addr, new) {
        wide_access(Access { addr, size: 8, writes: true, atomic: false }, site, Registers::default());
    }
}

macro_rules! ranges {
    ($($name:ident => $inner:path;)*) => { $(
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                "mov qword ptr fs:[selvedge_rt_frame@tpoff], rbp",
                "mov qword ptr fs:[selvedge_rt_frame@tpoff + 8], rsp",
                "jmp {inner}",
                inner = sym $inner,
            )
        }
    )* };
}

ranges! {
    range_read => super::access::record_range_read;
    range_write => super::access::record_range_write;
}

/// The entry for a range of bytes.
pub fn range_target(rw: Rw) -> usize {
    let entry: extern "C" fn() = if rw == Rw::Read { range_read } else { range_write };
    entry as *const () as usize
}

/// The entry for a watched site.
pub fn target(class: Class, rw: Rw, size: u8, flavour: Flavour, args: u8) -> Option<usize> {
    type Entry = extern "C" fn();
    if args == 2 {
        return Some(vptr_update as *const () as usize);
    }
    let unaligned = matches!(flavour, Flavour::Unaligned | Flavour::UnalignedVolatile) && size > 1;
    let entry: Entry = match (rw == Rw::Read, size) {
        (true, 2) if unaligned => wide_read2,
        (true, 4) if unaligned => wide_read4,
        (true, 8) if unaligned => wide_read8,
        (true, 16) => wide_read16,
        (false, 2) if unaligned => wide_write2,
        (false, 4) if unaligned => wide_write4,
        (false, 8) if unaligned => wide_write8,
        (false, 16) => wide_write16,
        (reads, size) => {
            const READS: [[Entry; 4]; 4] = [
                [read1, read2, read4, read8],
                [aimed_read1, aimed_read2, aimed_read4, aimed_read8],
                [quiet_read1, quiet_read2, quiet_read4, quiet_read8],
                [rare_read1, rare_read2, rare_read4, rare_read8],
            ];
            const WRITES: [[Entry; 4]; 4] = [
                [write1, write2, write4, write8],
                [aimed_write1, aimed_write2, aimed_write4, aimed_write8],
                [quiet_write1, quiet_write2, quiet_write4, quiet_write8],
                [rare_write1, rare_write2, rare_write4, rare_write8],
            ];
            let by_size = match size {
                1 => 0,
                2 => 1,
                4 => 2,
                8 => 3,
                _ => return None,
            };
            *(if reads { READS } else { WRITES }).get(class as usize)?.get(by_size)?
        }
    };
    Some(entry as *const () as usize)
}

/// Makes so many checks, to see what they take.
pub fn measure(checks: u32) {
    arch::set_due(0, i32::MAX);
    let own = 0_u32;
    // SAFETY: the entry takes an address and an id in the first two registers, and clobbers what any call may.
    let check: extern "C" fn(usize, u32) = unsafe { core::mem::transmute(read4 as *const ()) };
    let check = core::hint::black_box(check);
    for _ in 0..checks {
        check(&raw const own as usize, 0);
    }
    arch::set_due(0, 0);
}
