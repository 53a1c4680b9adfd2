//! Where a program takes its locks: calls of the blocking lock functions, with keys as sites have them.

use std::collections::{BTreeMap, BTreeSet};

use crate::functions::Functions;
use crate::image::{Bound, Image};
use crate::lines::Symboliser;
use crate::site_key::keys_of_code;
use crate::sites::stretches;
use crate::x86::{self, Target};

/// The functions that take a lock, and wait for it for as long as it takes.
const LOCKS: [&str; 5] =
    ["pthread_mutex_lock", "mtx_lock", "pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "pthread_spin_lock"];

/// A call that takes a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockCall {
    /// Where it returns to.
    pub returns: u32,
    /// Its name, as a site's, ending in `lock`.
    pub key: String,
}

/// The calls of an executable that take locks, by ascending offset; none of a library, which does not have the runtime's
/// functions in it. Calls through registers are not seen.
pub fn lock_calls(image: &Image) -> Vec<LockCall> {
    let named: BTreeSet<u64> = image
        .symbols()
        .iter()
        .filter(|symbol| LOCKS.contains(&image.symbol_name(symbol)))
        .map(|symbol| symbol.vaddr)
        .collect();
    if named.is_empty() {
        return Vec::new();
    }
    let leads = |bound: &Bound| match bound {
        Bound::Name(name) => LOCKS.contains(&name.as_str()),
        Bound::Address(vaddr) => named.contains(vaddr),
        Bound::Resolver(_) => false,
    };
    let slots: BTreeSet<u64> = image.slots().iter().filter(|(_, bound)| leads(bound)).map(|(slot, _)| *slot).collect();
    let stubs = image.stubs().iter().filter(|(_, slot)| slots.contains(slot)).map(|(stub, _)| *stub);
    let direct: BTreeSet<u64> = named.iter().copied().chain(stubs).collect();
    let mut calls: BTreeMap<u64, u32> = BTreeMap::new();
    for stretch in stretches(image, &Functions::new(image)) {
        x86::branches(stretch.code, stretch.vaddr, |branch| {
            let is_lock = match branch.target {
                Target::Direct(vaddr) => direct.contains(&vaddr),
                Target::Slot(vaddr) => slots.contains(&vaddr),
            };
            let form = branch.form.filter(|form| is_lock && !form.is_tail());
            let at = branch.at.checked_sub(image.base());
            if let (Some(form), Some(at)) = (form, at)
                && let Ok(returns) = u32::try_from(at + u64::from(form.len()))
            {
                calls.insert(at, returns);
            }
        });
    }
    let offsets: Vec<u64> = calls.keys().copied().collect();
    let keys = keys_of_code(&Symboliser::new(image), &offsets, "lock");
    calls.into_values().zip(keys).map(|(returns, key)| LockCall { returns, key }).collect()
}
