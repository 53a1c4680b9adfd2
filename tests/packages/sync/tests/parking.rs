//! `parking_lot`.

use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, ReentrantMutex, RwLock};

mod correct {
    use super::*;

    #[test]
    fn mutex() {
        let count = Mutex::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| *count.lock() += 1);
            }
        });
        assert_eq!(count.into_inner(), 3);
    }

    #[test]
    fn reentrant() {
        let count = ReentrantMutex::new(std::cell::Cell::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let outer = count.lock();
                    let inner = count.lock();
                    inner.set(outer.get() + 1);
                });
            }
        });
        assert_eq!(count.into_inner().get(), 2);
    }

    #[test]
    fn rwlock() {
        let table = RwLock::new((0, 0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut table = table.write();
                    table.0 += 1;
                    table.1 += 1;
                });
            }
            scope.spawn(|| {
                let table = table.read();
                assert_eq!(table.0, table.1);
            });
            scope.spawn(|| {
                let table = table.upgradable_read();
                assert_eq!(table.0, table.1);
            });
        });
    }

    #[test]
    fn condvar() {
        let ready = (Mutex::new(0), Condvar::new());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut guard = ready.0.lock();
                    ready.1.wait_while(&mut guard, |ready| *ready < 2);
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    *ready.0.lock() += 1;
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
                *ready.0.lock() = true;
                ready.1.notify_one();
            });
            let mut guard = ready.0.lock();
            while !*guard {
                ready.1.wait_for(&mut guard, Duration::from_secs(3600));
            }
        });
    }
}

mod buggy {
    use super::*;

    #[test]
    fn mutex() {
        let count = Mutex::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let seen = *count.lock();
                    *count.lock() = seen + 1;
                });
            }
        });
        assert_eq!(count.into_inner(), 2);
    }

    #[test]
    fn rwlock() {
        let count = RwLock::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let seen = *count.read();
                    *count.write() = seen + 1;
                });
            }
        });
        assert_eq!(count.into_inner(), 2);
    }

    #[test]
    fn condvar() {
        let ready = (Mutex::new(false), Condvar::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                let is_ready = *ready.0.lock();
                if !is_ready {
                    ready.1.wait(&mut ready.0.lock());
                }
            });
            *ready.0.lock() = true;
            ready.1.notify_one();
        });
    }

    #[test]
    fn two_locks() {
        let (a, b) = (Mutex::new(()), Mutex::new(()));
        thread::scope(|scope| {
            scope.spawn(|| {
                let _a = a.lock();
                let _b = b.lock();
            });
            let _b = b.lock();
            let _a = a.lock();
        });
    }
}
