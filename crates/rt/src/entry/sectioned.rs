//! Watched sites where atomic sections are checked too: accesses, and places at which sections are left.

use core::arch::naked_asm;

use selvedge_events::hooks::{Flavour, Hook, HookClass, Rw};

use super::watched::wide_access;
use crate::detect::slots::Access;
use crate::detect::who::Registers;
use crate::detect::{At, class_of, sections};

/// What an entry is for: `RACES` where races are looked for as well.
extern "C" fn access<const SIZE: u64, const WRITES: bool, const RACES: bool>(
    addr: u64,
    site: u32,
    frame: usize,
    stack: usize,
) {
    let access = Access { addr, size: SIZE, writes: WRITES, atomic: false };
    let at = At { access, site, class: class_of(site), registers: Registers { frame, stack } };
    sections::before(&at);
    if RACES {
        wide_access(access, site, at.registers);
    }
    sections::after(&at, !WRITES);
}

/// `__tsan_vptr_update(vptr, new value)`: storing the same pointer again is no write.
extern "C" fn vptr_update(addr: u64, new: u64, site: u32) {
    if !super::access::unchanged(addr, new) {
        access::<8, true, true>(addr, site, 0, 0);
    }
}

extern "C" fn passed(site: u32, frame: usize) {
    sections::passed(site, frame);
}

/// A block, or the end of a function.
#[unsafe(naked)]
extern "C" fn here() {
    naked_asm!("mov rsi, rbp", "jmp {inner}", inner = sym passed)
}

/// The begin of a function, whose first argument is its caller.
#[unsafe(naked)]
extern "C" fn function() {
    naked_asm!("mov edi, esi", "mov rsi, rbp", "jmp {inner}", inner = sym passed)
}

macro_rules! entries {
    ($($name:ident($size:literal, $writes:literal, $races:literal);)*) => { $(
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!("mov rdx, rbp", "mov rcx, rsp", "jmp {inner}", inner = sym access::<$size, $writes, $races>)
        }
    )* };
}

entries! {
    read1(1, false, true); read2(2, false, true); read4(4, false, true); read8(8, false, true); read16(16, false, true);
    write1(1, true, true); write2(2, true, true); write4(4, true, true); write8(8, true, true); write16(16, true, true);
    still_read1(1, false, false); still_read2(2, false, false); still_read4(4, false, false);
    still_read8(8, false, false); still_read16(16, false, false);
    still_write1(1, true, false); still_write2(2, true, false); still_write4(4, true, false);
    still_write8(8, true, false); still_write16(16, true, false);
}

/// The entry for a site.
pub fn target(hook: &Hook, watches_volatile: bool) -> Option<usize> {
    type Entry = extern "C" fn();
    const ENTRIES: [[[Entry; 5]; 2]; 2] = [
        [
            [still_read1, still_read2, still_read4, still_read8, still_read16],
            [still_write1, still_write2, still_write4, still_write8, still_write16],
        ],
        [[read1, read2, read4, read8, read16], [write1, write2, write4, write8, write16]],
    ];
    let entry: Entry = match hook.class {
        HookClass::Access { .. } if hook.args == 2 => return Some(vptr_update as *const () as usize),
        HookClass::Access { rw, size, flavour } => {
            let races = watches_volatile || !matches!(flavour, Flavour::Volatile | Flavour::UnalignedVolatile);
            let by_size = *ENTRIES.get(usize::from(races))?.get(usize::from(rw != Rw::Read))?;
            *by_size.get(size.is_power_of_two().then(|| size.trailing_zeros() as usize)?)?
        }
        HookClass::Block | HookClass::Function { entry: false } => here,
        HookClass::Function { entry: true } => function,
        _ => return None,
    };
    Some(entry as *const () as usize)
}
