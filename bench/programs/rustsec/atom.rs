//@ crate: atom 0.3.5
//@ advisory: RUSTSEC-2020-0044
//! An `Arc<Cell<_>>` reaches another thread.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::Arc;
use std::thread;

use atom::Atom;

#[test]
fn every_addition_counts() {
    let count = Arc::new(Cell::new(0));
    let sent = Atom::new(Arc::clone(&count));
    thread::scope(|scope| {
        scope.spawn(|| {
            let count = sent.take().unwrap();
            count.set(count.get() + 1);
        });
        count.set(count.get() + 1);
    });
    assert_eq!(count.get(), 2);
}
