//@ crate: hashconsing 1.0.1
//@ advisory: RUSTSEC-2020-0107
//! A `Cell` is shared between threads.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::thread;

use hashconsing::{HConsign, HashConsign};

#[derive(Clone)]
struct Term {
    name: &'static str,
    uses: Cell<u32>,
}

impl PartialEq for Term {
    fn eq(&self, other: &Term) -> bool {
        self.name == other.name
    }
}

impl Eq for Term {}

impl Hash for Term {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

#[test]
fn every_use_counts() {
    let mut factory = HConsign::empty();
    let term = factory.mk(Term { name: "x", uses: Cell::new(0) });
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| term.get().uses.set(term.get().uses.get() + 1));
        }
    });
    assert_eq!(term.get().uses.get(), 2);
}
