//! What the standard library has.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::Duration;

mod correct {
    use super::*;

    #[test]
    fn mutex() {
        let count = Mutex::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| *count.lock().unwrap() += 1);
            }
        });
        assert_eq!(count.into_inner().unwrap(), 3);
    }

    #[test]
    fn try_lock() {
        let count = Mutex::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !count.try_lock().is_ok_and(|mut count| {
                        *count += 1;
                        true
                    }) {
                        thread::yield_now();
                    }
                });
            }
        });
        assert_eq!(count.into_inner().unwrap(), 2);
    }

    #[test]
    fn rwlock() {
        let table = RwLock::new((0, 0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut table = table.write().unwrap();
                    table.0 += 1;
                    table.1 += 1;
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    let table = table.read().unwrap();
                    assert_eq!(table.0, table.1);
                });
            }
        });
    }

    #[test]
    fn condvar() {
        let ready = (Mutex::new(0), Condvar::new());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let guard = ready.1.wait_while(ready.0.lock().unwrap(), |ready| *ready < 2).unwrap();
                    assert_eq!(*guard, 2);
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    *ready.0.lock().unwrap() += 1;
                    ready.1.notify_all();
                });
            }
        });
    }

    #[test]
    fn condvar_in_time() {
        let ready = (Mutex::new(false), Condvar::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                *ready.0.lock().unwrap() = true;
                ready.1.notify_one();
            });
            let guard = ready.0.lock().unwrap();
            let (guard, _) = ready.1.wait_timeout_while(guard, Duration::from_secs(3600), |ready| !*ready).unwrap();
            assert!(*guard);
        });
    }

    #[test]
    fn channel() {
        let (sender, receiver) = mpsc::channel();
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
        let (sender, receiver) = mpsc::sync_channel(1);
        thread::scope(|scope| {
            scope.spawn(move || (0..4).for_each(|n| sender.send(Box::new(n)).unwrap()));
            assert_eq!(receiver.into_iter().map(|n| *n).collect::<Vec<_>>(), [0, 1, 2, 3]);
        });
    }

    #[test]
    fn rendezvous() {
        let (sender, receiver) = mpsc::sync_channel(0);
        thread::scope(|scope| {
            scope.spawn(move || (0..2).for_each(|n| sender.send(Box::new(n)).unwrap()));
            assert_eq!(receiver.into_iter().map(|n| *n).collect::<Vec<_>>(), [0, 1]);
        });
    }

    #[test]
    fn barrier() {
        let (barrier, before, leaders) = (Barrier::new(3), AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    before.fetch_add(1, Ordering::Relaxed);
                    if barrier.wait().is_leader() {
                        leaders.fetch_add(1, Ordering::Relaxed);
                    }
                    assert_eq!(before.load(Ordering::Relaxed), 3);
                });
            }
        });
        assert_eq!(leaders.into_inner(), 1);
    }

    #[test]
    fn once() {
        static ONCE: Once = Once::new();
        static CELL: OnceLock<Box<u32>> = OnceLock::new();
        static MADE: AtomicU32 = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    ONCE.call_once(|| {
                        MADE.fetch_add(1, Ordering::Relaxed);
                    });
                    assert_eq!(**CELL.get_or_init(|| Box::new(MADE.load(Ordering::Relaxed))), 1);
                });
            }
        });
    }

    #[test]
    fn park() {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&flag);
        let sleeper = thread::spawn(move || {
            while !seen.load(Ordering::Acquire) {
                thread::park();
            }
        });
        flag.store(true, Ordering::Release);
        sleeper.thread().unpark();
        sleeper.join().unwrap();
    }

    #[test]
    fn panics_stay_in_their_thread() {
        let lock = Arc::new(Mutex::new(0));
        let poisoned = Arc::clone(&lock);
        let ended = thread::spawn(move || {
            let _guard = poisoned.lock().unwrap();
            panic!("on purpose");
        });
        assert!(ended.join().is_err());
        assert!(lock.is_poisoned());
    }
}

/// In each, what one look at shared state said is taken for true at the next.
mod buggy {
    use super::*;

    fn twice(work: impl Fn() + Sync) {
        thread::scope(|scope| {
            scope.spawn(&work);
            scope.spawn(&work);
        });
    }

    #[test]
    fn mutex() {
        let count = Mutex::new(0);
        twice(|| {
            let seen = *count.lock().unwrap();
            *count.lock().unwrap() = seen + 1;
        });
        assert_eq!(count.into_inner().unwrap(), 2);
    }

    #[test]
    fn rwlock() {
        let count = RwLock::new(0);
        twice(|| {
            let seen = *count.read().unwrap();
            *count.write().unwrap() = seen + 1;
        });
        assert_eq!(count.into_inner().unwrap(), 2);
    }

    #[test]
    fn condvar() {
        let ready = (Mutex::new(false), Condvar::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                let is_ready = *ready.0.lock().unwrap();
                // A notification between here and the wait is lost.
                if !is_ready {
                    let guard = ready.0.lock().unwrap();
                    drop(ready.1.wait(guard).unwrap());
                }
            });
            *ready.0.lock().unwrap() = true;
            ready.1.notify_one();
        });
    }

    #[test]
    fn channel() {
        let (sender, receiver) = mpsc::channel();
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
    fn barrier() {
        let (barrier, sum) = (Barrier::new(2), Mutex::new(0));
        let work = || {
            barrier.wait();
            *sum.lock().unwrap() += 1;
        };
        thread::scope(|scope| {
            scope.spawn(work);
            work();
            // The other one is past the barrier, not past its work.
            assert_eq!(*sum.lock().unwrap(), 2);
        });
    }

    #[test]
    fn once() {
        let (cell, made) = (OnceLock::new(), AtomicU32::new(0));
        twice(|| {
            if cell.get().is_none() {
                made.fetch_add(1, Ordering::Relaxed);
                drop(cell.set(1));
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn park() {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&flag);
        let sleeper = thread::spawn(move || {
            // Wakes for any reason, and does not look again.
            if !seen.load(Ordering::Acquire) {
                thread::park();
            }
            assert!(seen.load(Ordering::Acquire));
        });
        sleeper.thread().unpark();
        flag.store(true, Ordering::Release);
        sleeper.thread().unpark();
        sleeper.join().unwrap();
    }

    #[test]
    fn two_locks() {
        let (a, b) = (Mutex::new(()), Mutex::new(()));
        thread::scope(|scope| {
            scope.spawn(|| {
                let _a = a.lock().unwrap();
                let _b = b.lock().unwrap();
            });
            let _b = b.lock().unwrap();
            let _a = a.lock().unwrap();
        });
    }

    #[test]
    fn race() {
        struct Shared(std::cell::UnsafeCell<u32>);
        unsafe impl Sync for Shared {}
        impl Shared {
            fn add(&self) {
                unsafe { *self.0.get() += 1 }
            }
        }
        let shared = Shared(0.into());
        twice(|| shared.add());
        assert_eq!(shared.0.into_inner(), 2);
    }
}
