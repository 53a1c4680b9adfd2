//! `crossbeam`: channels, epochs, utilities.

use std::sync::atomic::Ordering;
use std::thread;

use crossbeam_channel::{bounded, select, unbounded};
use crossbeam_epoch::{self as epoch, Atomic, Owned};
use crossbeam_utils::sync::{Parker, ShardedLock, WaitGroup};

mod correct {
    use super::*;

    #[test]
    fn channel() {
        let (sender, receiver) = unbounded();
        thread::scope(|scope| {
            for worker in 0..2 {
                let sender = sender.clone();
                scope.spawn(move || (0..2).for_each(|n| sender.send(Box::new(worker * 10 + n)).unwrap()));
            }
            drop(sender);
            let mut all: Vec<i32> = receiver.into_iter().map(|n| *n).collect();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 10, 11]);
        });
    }

    #[test]
    fn bounded_channel() {
        let (sender, receiver) = bounded(1);
        thread::scope(|scope| {
            scope.spawn(move || (0..3).for_each(|n| sender.send(Box::new(n)).unwrap()));
            assert_eq!(receiver.into_iter().map(|n| *n).collect::<Vec<_>>(), [0, 1, 2]);
        });
    }

    #[test]
    fn selection() {
        let ((s1, r1), (s2, r2)) = (bounded(0), bounded(0));
        // Kept open: a closed channel is always ready.
        let _open = (s1.clone(), s2.clone());
        thread::scope(|scope| {
            scope.spawn(move || s1.send(Box::new(1)).unwrap());
            scope.spawn(move || s2.send(Box::new(2)).unwrap());
            let mut sum = 0;
            for _ in 0..2 {
                select! {
                    recv(r1) -> n => sum += *n.unwrap(),
                    recv(r2) -> n => sum += *n.unwrap(),
                }
            }
            assert_eq!(sum, 3);
        });
    }

    #[test]
    fn epochs() {
        let shared = Atomic::new(0_u32);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let guard = epoch::pin();
                    loop {
                        let now = shared.load(Ordering::Acquire, &guard);
                        let next = Owned::new(unsafe { now.deref() } + 1);
                        if let Ok(_) = shared.compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed, &guard) {
                            unsafe { guard.defer_destroy(now) };
                            break;
                        }
                    }
                });
            }
        });
        assert_eq!(*unsafe { shared.into_owned() }, 2);
    }

    #[test]
    fn utilities() {
        let (group, parker) = (WaitGroup::new(), Parker::new());
        let unparker = parker.unparker().clone();
        let table = ShardedLock::new(0);
        thread::scope(|scope| {
            let other = group.clone();
            scope.spawn(|| {
                *table.write().unwrap() += 1;
                drop(other);
            });
            group.wait();
            assert_eq!(*table.read().unwrap(), 1);
            scope.spawn(move || unparker.unpark());
            parker.park();
        });
    }
}

mod buggy {
    use super::*;

    #[test]
    fn channel() {
        let (sender, receiver) = unbounded();
        thread::scope(|scope| {
            scope.spawn({
                let sender = sender.clone();
                move || sender.send("first").unwrap()
            });
            scope.spawn(move || sender.send("second").unwrap());
            assert_eq!(receiver.recv(), Ok("first"));
        });
    }

    #[test]
    fn epochs() {
        let shared = Atomic::new(0_u32);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let guard = epoch::pin();
                    let now = shared.load(Ordering::Acquire, &guard);
                    let next = Owned::new(unsafe { now.deref() } + 1);
                    // What another put there in between is lost.
                    let old = shared.swap(next, Ordering::AcqRel, &guard);
                    unsafe { guard.defer_destroy(old) };
                });
            }
        });
        assert_eq!(*unsafe { shared.into_owned() }, 2);
    }
}
