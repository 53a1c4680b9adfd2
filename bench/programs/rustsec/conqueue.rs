//@ crate: conqueue 0.3.0
//@ advisory: RUSTSEC-2020-0117
//! An `Arc<Cell<_>>` reaches another thread.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::Arc;
use std::thread;

use conqueue::Queue;

#[test]
fn every_addition_counts() {
    let count = Arc::new(Cell::new(0));
    let (sender, mut receiver) = Queue::unbounded();
    sender.push(Arc::clone(&count));
    thread::scope(|scope| {
        scope.spawn(move || {
            let count: Arc<Cell<u32>> = receiver.pop().unwrap();
            count.set(count.get() + 1);
        });
        count.set(count.get() + 1);
    });
    assert_eq!(count.get(), 2);
}
