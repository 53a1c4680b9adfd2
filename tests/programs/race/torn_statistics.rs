//@ rust
// Named threads update statistics that only their readers guard. The clerk naps on a condition
// that nobody signals, which always is a wait in the kernel.
use std::cell::UnsafeCell;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

struct Statistics(UnsafeCell<[u64; 2]>);

// Wrong on purpose: nothing orders the writers.
unsafe impl Sync for Statistics {}

static STATISTICS: Statistics = Statistics(UnsafeCell::new([0; 2]));
static READERS: Mutex<u32> = Mutex::new(0);
static NEVER: Condvar = Condvar::new();

#[inline(never)]
fn count_visit(amount: u64) {
    let slots = STATISTICS.0.get();
    unsafe {
        (*slots)[0] += 1; //~ race
        (*slots)[1] += amount; //~ race
    }
}

fn nap() {
    let mut readers = READERS.lock().unwrap();
    *readers += 1;
    let (guard, _) = NEVER.wait_timeout(readers, Duration::from_millis(2)).unwrap();
    drop(guard);
}

fn main() {
    let tellers: Vec<_> = (1..=2)
        .map(|number| {
            let named = thread::Builder::new().name(format!("teller-{number}"));
            named.spawn(move || (0..200).for_each(|_| count_visit(number))).unwrap()
        })
        .collect();
    let clerk = thread::Builder::new().name("clerk".into()).spawn(nap).unwrap();
    for teller in tellers {
        teller.join().unwrap();
    }
    clerk.join().unwrap();
    let visits = unsafe { (*STATISTICS.0.get())[0] };
    println!("{}", if visits <= 400 { "EXIT-SUCCESS" } else { "impossible" });
}
