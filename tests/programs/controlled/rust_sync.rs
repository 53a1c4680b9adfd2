// std's locks and what is built on them, which all come down to futexes in code without instrumentation.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

static ONCE: Once = Once::new();
static LOCK: OnceLock<u32> = OnceLock::new();

fn condvar() {
    let pair = Arc::new((Mutex::new(0), Condvar::new()));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                *pair.0.lock().unwrap() += 1;
                pair.1.notify_one();
            })
        })
        .collect();
    let mut count = pair.0.lock().unwrap();
    while *count < 3 {
        count = pair.1.wait(count).unwrap();
    }
    drop(count);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let begin = Instant::now();
    let guard = pair.0.lock().unwrap();
    let (_guard, timeout) = pair.1.wait_timeout_while(guard, Duration::from_millis(20), |n| *n < 9).unwrap();
    assert!(timeout.timed_out() && begin.elapsed() >= Duration::from_millis(20));
}

fn channels() {
    let (send, receive) = mpsc::channel();
    let (bounded, slow) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        for number in 0..2_u32 {
            let (send, bounded) = (send.clone(), bounded.clone());
            scope.spawn(move || {
                send.send(number).unwrap();
                bounded.send(number).unwrap();
                bounded.send(number).unwrap();
            });
        }
        drop((send, bounded));
        assert_eq!(receive.iter().take(2).sum::<u32>(), 1);
        assert_eq!(slow.iter().sum::<u32>(), 2);
        assert!(receive.recv_timeout(Duration::from_millis(5)).is_err());
    });
}

fn parking() {
    let flag = Arc::new(AtomicBool::new(false));
    let other = Arc::clone(&flag);
    let parked = thread::spawn(move || {
        while !other.load(Ordering::Acquire) {
            thread::park();
        }
        thread::park_timeout(Duration::from_millis(2));
    });
    flag.store(true, Ordering::Release);
    parked.thread().unpark();
    parked.join().unwrap();
}

fn others() {
    let (barrier, shared, leaders, ran) = (Barrier::new(3), RwLock::new(0), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                *shared.write().unwrap() += 1;
                if barrier.wait().is_leader() {
                    leaders.fetch_add(1, Ordering::Relaxed);
                }
                assert_eq!(*shared.read().unwrap(), 3);
                ONCE.call_once(|| {
                    ran.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!(*LOCK.get_or_init(|| 5), 5);
            });
        }
    });
    assert_eq!((leaders.into_inner(), ran.into_inner()), (1, 1));
}

fn main() {
    condvar();
    channels();
    parking();
    others();
    println!("EXIT-SUCCESS");
}
