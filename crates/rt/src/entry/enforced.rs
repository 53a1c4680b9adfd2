//! Hooks at which locks are taken and given back.

use selvedge_events::hooks::{Hook, HookClass};

use super::function;
use crate::{enforce, thread_state};

extern "C" fn access(_addr: u64, id: u32) {
    enforce::access(id);
}

extern "C" fn vptr_update(addr: u64, new: u64, id: u32) {
    if !super::access::unchanged(addr, new) {
        enforce::access(id);
    }
}

extern "C" fn block(id: u32) {
    enforce::access(id);
}

extern "C" fn enter(call_pc: u64, site: u32, sp: u64) {
    function::enter(call_pc, site, sp);
    enforce::entered(call_pc);
}

extern "C" fn exit(site: u32, sp: u64) {
    let top = thread_state::current().and_then(|state| {
        let at = state.depth.checked_sub(1)?;
        state.frames.get(at as usize).map(|frame| frame.pc)
    });
    function::exit(site, sp);
    enforce::left(top.unwrap_or(0));
}

/// Entries and exits of functions, and blocks, whatever else is done.
pub fn door_target(hook: &Hook, id: u32) -> Option<usize> {
    match hook.class {
        HookClass::Function { entry: true } => Some(enter as *const () as usize),
        HookClass::Function { entry: false } => Some(exit as *const () as usize),
        HookClass::Block if enforce::point_of(id) != 0 => Some(block as *const () as usize),
        _ => None,
    }
}

/// Plain accesses, where nothing else is to be done.
pub fn target(hook: &Hook) -> usize {
    if hook.args == 2 { vptr_update as *const () as usize } else { access as *const () as usize }
}
