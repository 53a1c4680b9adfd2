// The waiter tests an atomic flag under the lock and then waits. The notifier sets the flag and
// notifies without the lock, so both can happen after the test and before the wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;

static LOCK: Mutex<u32> = Mutex::new(0);
static WAKE: Condvar = Condvar::new();
static STOP: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn wait_for_stop() -> u32 {
    let mut wakeups = LOCK.lock().unwrap();
    while !STOP.load(Ordering::SeqCst) { //~ guilty
        wakeups = WAKE.wait(wakeups).unwrap(); //~ guilty
        *wakeups += 1;
    }
    *wakeups
}

#[inline(never)]
fn stop() {
    STOP.store(true, Ordering::SeqCst); //~ guilty
    WAKE.notify_one(); //~ guilty
}

fn main() {
    let waiter = thread::spawn(wait_for_stop);
    let stopper = thread::spawn(stop);
    stopper.join().unwrap();
    let wakeups = waiter.join().unwrap();
    println!("stopped, {}", if wakeups < 9 { "few wake-ups" } else { "many wake-ups" });
}
