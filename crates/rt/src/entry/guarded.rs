//! Plain accesses at guarded sites: checked before they are made.

use selvedge_events::pack;

use crate::{guard, heal, stream};

extern "C" fn pair(addr: u64, site: u32) {
    guard::quick::pair(addr, site);
}

extern "C" fn coloured<const SIZE: u64>(addr: u64, site: u32) {
    guard::quick::coloured::<SIZE>(addr, site);
}

extern "C" fn slow<const SIZE: u64>(addr: u64, site: u32) {
    guard::at_site(addr, SIZE, site);
}

extern "C" fn by_id<const SIZE: u64>(addr: u64, id: u32) {
    guard::access(addr, SIZE, id);
}

extern "C" fn vptr_update_by_id(addr: u64, new: u64, id: u32) {
    if !super::access::unchanged(addr, new) {
        guard::access(addr, 8, id);
    }
}

/// `__tsan_vptr_update(vptr, new value)`: storing the same pointer again is no write.
extern "C" fn vptr_update(addr: u64, new: u64, site: u32) {
    if !super::access::unchanged(addr, new) {
        guard::at_site(addr, 8, site);
    }
}

extern "C" fn recorded<const SIZE: u64>(addr: u64, id: u32) {
    guard::access(addr, SIZE, id);
    heal::access(addr, SIZE, id);
    if id < 1 << pack::SHORT_SITE_BITS {
        stream::short_access(addr, id);
    } else {
        stream::wide_access(addr, id);
    }
}

extern "C" fn recorded_vptr_update(addr: u64, new: u64, id: u32) {
    if !super::access::unchanged(addr, new) {
        recorded::<8>(addr, id);
    }
}

/// The entry for a guarded site where nothing else is to be done. Where armed ids are site numbers it takes them for that.
pub fn target(site: u32, size: u8, args: u8) -> Option<usize> {
    if !guard::ids_are_sites() {
        return by_id_target(size, args);
    }
    if args == 2 {
        return Some(vptr_update as *const () as usize);
    }
    let (short, is_coloured) = (guard::is_short(), guard::is_coloured(site));
    Some(match size {
        1 if short && is_coloured => coloured::<1> as *const () as usize,
        2 if short && is_coloured => coloured::<2> as *const () as usize,
        4 if short && is_coloured => coloured::<4> as *const () as usize,
        8 if short && is_coloured => coloured::<8> as *const () as usize,
        1 | 2 | 4 | 8 if short => super::quick::target(size)?,
        16 if short && !is_coloured => pair as *const () as usize,
        1 => slow::<1> as *const () as usize,
        2 => slow::<2> as *const () as usize,
        4 => slow::<4> as *const () as usize,
        8 => slow::<8> as *const () as usize,
        16 => slow::<16> as *const () as usize,
        _ => return None,
    })
}

/// As [`target`], where the plan was made for a controlled run and its ids are those of other sites too: a child of that
/// run, which runs free.
fn by_id_target(size: u8, args: u8) -> Option<usize> {
    if args == 2 {
        return Some(vptr_update_by_id as *const () as usize);
    }
    Some(match size {
        1 => by_id::<1> as *const () as usize,
        2 => by_id::<2> as *const () as usize,
        4 => by_id::<4> as *const () as usize,
        8 => by_id::<8> as *const () as usize,
        16 => by_id::<16> as *const () as usize,
        _ => return None,
    })
}

/// The entry for a guarded site that is recorded too.
pub fn recorded_target(size: u8, args: u8) -> Option<usize> {
    if args == 2 {
        return Some(recorded_vptr_update as *const () as usize);
    }
    Some(match size {
        1 => recorded::<1> as *const () as usize,
        2 => recorded::<2> as *const () as usize,
        4 => recorded::<4> as *const () as usize,
        8 => recorded::<8> as *const () as usize,
        16 => recorded::<16> as *const () as usize,
        _ => return None,
    })
}
