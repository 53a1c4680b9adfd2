//! AI, the anticipating invariant: the last access of another thread to the location is one that was seen there in correct runs
//! (Zhang et al., TSE 2016, section 2.1). Whether accesses read or write does not matter; *nil* stands for none.
//!
//! This is the reference that the others are compared with, learnt from traces; the guard learns in the program itself. No
//! departures, but that locations are exact to the byte.

use std::collections::{BTreeMap, BTreeSet};

use super::view::views;
use super::{Invariant, Violation};
use crate::invariant::accesses::Access;

/// Belonging sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ai {
    /// By site: the sites that belong; `None` is nil.
    pub sets: BTreeMap<u32, BTreeSet<Option<u32>>>,
}

impl Invariant for Ai {
    fn name(&self) -> &'static str {
        "AI"
    }

    fn learn(&mut self, run: &[Access]) {
        for (_, access, view) in views(run) {
            self.sets.entry(access.site).or_default().insert(view.remote.map(|remote| remote.site));
        }
    }

    fn first_violation(&self, run: &[Access]) -> Option<Violation> {
        views(run).find_map(|(number, access, view)| {
            let belongs = self.sets.get(&access.site)?.contains(&view.remote.map(|remote| remote.site));
            (!belongs).then(|| Violation::of(number, access, true))
        })
    }
}
