//@ crate: atomic-option 0.1.2
//@ advisory: RUSTSEC-2020-0113
//! An `Arc<Cell<_>>` reaches another thread.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use atomic_option::AtomicOption;

#[test]
fn every_addition_counts() {
    let count = Arc::new(Cell::new(0));
    let sent = AtomicOption::new(Box::new(Arc::clone(&count)));
    thread::scope(|scope| {
        scope.spawn(|| {
            let count = sent.take(Ordering::AcqRel).unwrap();
            count.set(count.get() + 1);
        });
        count.set(count.get() + 1);
    });
    assert_eq!(count.get(), 2);
}
