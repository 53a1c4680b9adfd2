//! tokio's runtime with two worker threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, Notify, mpsc};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

mod correct {
    use super::*;

    #[test]
    fn tasks() {
        let sum = runtime().block_on(async {
            let tasks: Vec<_> = (0..3).map(|n| tokio::spawn(async move { n })).collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 3);
    }

    #[test]
    fn mutex() {
        let count = Arc::new(Mutex::new(0));
        runtime().block_on(async {
            let tasks = [(); 2].map(|()| {
                let count = Arc::clone(&count);
                tokio::spawn(async move { *count.lock().await += 1 })
            });
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*count.lock().await, 2);
        });
    }

    #[test]
    fn channel() {
        runtime().block_on(async {
            let (sender, mut receiver) = mpsc::channel(1);
            tokio::spawn(async move {
                for n in 0..3 {
                    sender.send(n).await.unwrap();
                }
            });
            let mut all = Vec::new();
            while let Some(n) = receiver.recv().await {
                all.push(n);
            }
            assert_eq!(all, [0, 1, 2]);
        });
    }

    #[test]
    fn time_and_notice() {
        runtime().block_on(async {
            let notify = Arc::new(Notify::new());
            let other = Arc::clone(&notify);
            let task = tokio::spawn(async move { other.notified().await });
            tokio::time::sleep(Duration::from_millis(5)).await;
            notify.notify_one();
            task.await.unwrap();
        });
    }

    #[test]
    fn blocking() {
        let sum = runtime().block_on(async {
            let a = tokio::task::spawn_blocking(|| 1);
            let b = tokio::task::spawn_blocking(|| 2);
            a.await.unwrap() + b.await.unwrap()
        });
        assert_eq!(sum, 3);
    }
}

mod buggy {
    use super::*;

    #[test]
    fn tasks() {
        let count = Arc::new(AtomicU32::new(0));
        runtime().block_on(async {
            let tasks = [(); 2].map(|()| {
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    let seen = count.load(Ordering::SeqCst);
                    count.store(seen + 1, Ordering::SeqCst);
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn mutex() {
        let count = Arc::new(Mutex::new(0));
        runtime().block_on(async {
            let tasks = [(); 2].map(|()| {
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    let seen = *count.lock().await;
                    *count.lock().await = seen + 1;
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*count.lock().await, 2);
        });
    }
}
