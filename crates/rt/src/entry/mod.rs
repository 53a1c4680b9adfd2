//! The surface that instrumented code calls: default entries (what a site does when nobody armed it)
//! and the entries of the observers, which the patcher wires to armed sites.

pub mod access;
pub mod annotation;
pub mod atomic;
pub mod copy;
pub mod enforced;
#[cfg(not(feature = "stub"))]
pub mod fiber;
pub mod function;
pub mod guarded;
pub mod healed;
pub mod quick;
pub mod sectioned;
pub mod watched;

use selvedge_events::hooks::{Flavour, Hook, HookClass, HookIx, Rw};
use selvedge_events::pack::SHORT_SITE_BITS;
use selvedge_events::plan::Observe;

use crate::{detect, enforce, gate, guard, heal, sink};

/// The entry that an armed site of this hook is wired to under the current plan; `None` leaves the
/// site disarmed.
pub fn target(hook: &Hook, index: HookIx, id: u32) -> Option<usize> {
    if enforce::is_on()
        && let Some(target) = enforced::door_target(hook, id)
    {
        return Some(target);
    }
    match sink::observe() {
        _ if heal::is_own(id) => healed::target(hook, index),
        _ if gate::control::is_open() => controlled_target(hook, index, id),
        Observe::Nothing if detect::is_on() => watched_target(hook, index, id),
        Observe::Nothing if enforce::is_on() => match hook.class {
            _ if enforce::point_of(id) == 0 => None,
            HookClass::Access { .. } => Some(enforced::target(hook)),
            HookClass::Block => None,
            _ => record_target(hook, index, id),
        },
        Observe::Nothing => guarded_target(hook, index, id),
        Observe::Survey => survey_target(hook, index, id),
        Observe::Record => record_target(hook, index, id),
        Observe::Graph => graph_target(hook, index),
    }
}

/// Accesses that are watched.
fn watched_target(hook: &Hook, index: HookIx, id: u32) -> Option<usize> {
    match hook.class {
        HookClass::Access { .. } | HookClass::Block | HookClass::Function { .. } if detect::sections::is_on() => {
            sectioned::target(hook, detect::watches_volatile())
        }
        HookClass::Atomic { .. } if detect::sections::is_on() => record_target(hook, index, id),
        HookClass::Access { flavour: Flavour::Volatile | Flavour::UnalignedVolatile, .. }
            if !detect::watches_volatile() =>
        {
            None
        }
        HookClass::Access { rw, size, flavour } => watched::target(detect::class_of(id), rw, size, flavour, hook.args),
        HookClass::Range { rw } => Some(watched::range_target(rw)),
        HookClass::Atomic { .. } if !detect::watches_atomics() => None,
        HookClass::Function { entry: true } if detect::bursts::are_there() => {
            Some(function::hot_enter as *const () as usize)
        }
        HookClass::Function { .. } | HookClass::Block => None,
        _ => record_target(hook, index, id),
    }
}

/// Only what is guarded is armed.
fn guarded_target(hook: &Hook, index: HookIx, id: u32) -> Option<usize> {
    let site = guard::site_of(id);
    match hook.class {
        _ if site == 0 => None,
        HookClass::Access { size, .. } => guarded::target(site, size, hook.args),
        HookClass::Function { .. } | HookClass::Block => None,
        _ => record_target(hook, index, id),
    }
}

fn record_target(hook: &Hook, index: HookIx, id: u32) -> Option<usize> {
    Some(match hook.class {
        HookClass::Access { size, .. } if guard::site_of(id) != 0 || heal::site_of(id) != 0 => {
            guarded::recorded_target(size, hook.args)?
        }
        HookClass::Access { .. } if id < 1 << SHORT_SITE_BITS && hook.args == 1 => access::record as *const () as usize,
        HookClass::Access { .. } if hook.args == 1 => access::record_wide as *const () as usize,
        HookClass::Access { .. } => access::record_vptr_update as *const () as usize,
        HookClass::Range { rw: Rw::Read } => access::record_range_read as *const () as usize,
        HookClass::Range { .. } => access::record_range_write as *const () as usize,
        HookClass::Copy | HookClass::Libc => copy::target(index)?,
        HookClass::Atomic { .. } => atomic::target(index)?,
        HookClass::Function { .. } | HookClass::Block if heal::site_of(id) != 0 => healed::recorded_target(hook)?,
        HookClass::Function { entry: true } => function::enter as *const () as usize,
        HookClass::Function { entry: false } => function::exit as *const () as usize,
        HookClass::Block => access::record_block as *const () as usize,
        _ => return None,
    })
}

/// Who got data from whom: accesses of all sorts, and nothing about calls.
fn graph_target(hook: &Hook, index: HookIx) -> Option<usize> {
    Some(match hook.class {
        HookClass::Access { rw, size, .. } => access::graph_target(rw, size, hook.args)?,
        HookClass::Range { rw: Rw::Read } => access::record_range_read as *const () as usize,
        HookClass::Range { .. } => access::record_range_write as *const () as usize,
        HookClass::Copy | HookClass::Libc => copy::target(index)?,
        HookClass::Atomic { .. } => atomic::target(index)?,
        _ => return None,
    })
}

fn controlled_target(hook: &Hook, index: HookIx, id: u32) -> Option<usize> {
    match hook.class {
        HookClass::Access { rw, size, .. } if heal::site_of(id) != 0 => {
            Some(healed::controlled_target(rw, size, hook.args))
        }
        HookClass::Access { rw, size, .. } => Some(access::controlled_target(rw, size, hook.args)),
        HookClass::Function { .. } | HookClass::Block => record_target(hook, index, id),
        _ => record_target(hook, index, 0),
    }
}

fn survey_target(hook: &Hook, index: HookIx, id: u32) -> Option<usize> {
    if u64::from(id) >= crate::shadow::capacity() {
        return None;
    }
    Some(match hook.class {
        HookClass::Access { rw, size, .. } => access::survey_target(rw, size, hook.args)?,
        HookClass::Range { rw: Rw::Read } => access::survey_range_read as *const () as usize,
        HookClass::Range { .. } => access::survey_range_write as *const () as usize,
        HookClass::Copy | HookClass::Libc => copy::target(index)?,
        HookClass::Atomic { .. } => atomic::target(index)?,
        HookClass::Function { entry: true } => function::survey_enter as *const () as usize,
        HookClass::Function { entry: false } => function::exit as *const () as usize,
        _ => return None,
    })
}
