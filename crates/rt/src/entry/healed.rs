//! Sites that take part in healing: accesses, and places at which a thread is seen past the end of a section.
//!
//! The frame pointer tells whether the frame that a section began in is still there.

use core::arch::naked_asm;

use selvedge_events::hooks::{Hook, HookClass, HookIx, Rw};

use super::access::{self, controlled, controlled_vptr_update};
use super::function;
use crate::{arch, heal};

extern "C" fn alone<const SIZE: u64>(addr: u64, id: u32) {
    heal::access(addr, SIZE, id);
}

/// `__tsan_vptr_update(vptr, new value)`: storing the same pointer again is no write.
extern "C" fn alone_vptr_update(addr: u64, new: u64, id: u32) {
    if !access::unchanged(addr, new) {
        heal::access(addr, 8, id);
    }
}

extern "C" fn enter(call_pc: u64, id: u32, sp: u64) {
    heal::passed(id, arch::take_frame());
    function::enter(call_pc, id, sp);
}

extern "C" fn exit(id: u32, sp: u64) {
    heal::passed(id, arch::take_frame());
    function::exit(id, sp);
}

extern "C" fn block(id: u32) {
    heal::passed(id, arch::take_frame());
    access::record_block(id);
}

/// Entries that leave the frame pointer for [`crate::arch::take_frame`].
macro_rules! framed {
    ($($name:ident => $inner:path;)*) => { $(
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                "mov qword ptr fs:[selvedge_rt_frame@tpoff], rbp",
                "jmp {inner}",
                inner = sym $inner,
            )
        }
    )* };
}

framed! {
    alone1 => alone::<1>; alone2 => alone::<2>; alone4 => alone::<4>; alone8 => alone::<8>; alone16 => alone::<16>;
    alone_vptr => alone_vptr_update;
    read1 => controlled::<1, false>; read2 => controlled::<2, false>; read4 => controlled::<4, false>;
    read8 => controlled::<8, false>; read16 => controlled::<0, false>;
    write1 => controlled::<1, true>; write2 => controlled::<2, true>; write4 => controlled::<4, true>;
    write8 => controlled::<8, true>; write16 => controlled::<0, true>;
    vptr => controlled_vptr_update;
    recorded_enter => enter; recorded_exit => exit; recorded_block => block;
}

extern "C" fn passed(id: u32, frame: usize) {
    heal::passed(id, frame);
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

type Entry = extern "C" fn();

/// The entry for a site that is armed for healing alone.
pub fn target(hook: &Hook, index: HookIx) -> Option<usize> {
    let entry: Entry = match hook.class {
        HookClass::Access { .. } if hook.args == 2 => alone_vptr,
        HookClass::Access { size, .. } => match size {
            1 => alone1,
            2 => alone2,
            4 => alone4,
            8 => alone8,
            16 => alone16,
            _ => return None,
        },
        HookClass::Block | HookClass::Function { entry: false } => here,
        HookClass::Function { entry: true } => function,
        HookClass::Range { rw: Rw::Read } => return Some(access::record_range_read as *const () as usize),
        HookClass::Range { .. } => return Some(access::record_range_write as *const () as usize),
        HookClass::Copy | HookClass::Libc => return super::copy::target(index),
        HookClass::Atomic { .. } => return super::atomic::target(index),
        _ => return None,
    };
    Some(entry as *const () as usize)
}

/// The entry for a site without an access that is recorded too.
pub fn recorded_target(hook: &Hook) -> Option<usize> {
    let entry: Entry = match hook.class {
        HookClass::Function { entry: true } => recorded_enter,
        HookClass::Function { entry: false } => recorded_exit,
        HookClass::Block => recorded_block,
        _ => return None,
    };
    Some(entry as *const () as usize)
}

/// The entry for an access under control.
pub fn controlled_target(rw: Rw, size: u8, args: u8) -> usize {
    let entry: Entry = match (rw, size) {
        _ if args == 2 => vptr,
        (Rw::Read, 1) => read1,
        (Rw::Read, 2) => read2,
        (Rw::Read, 4) => read4,
        (Rw::Read, 8) => read8,
        (Rw::Read, _) => read16,
        (_, 1) => write1,
        (_, 2) => write2,
        (_, 4) => write4,
        (_, 8) => write8,
        _ => write16,
    };
    entry as *const () as usize
}
