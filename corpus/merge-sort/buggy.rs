// A parallel merge sort asks how many threads are still available and takes one. Asking and
// taking are two atomic operations, so two sorters take the last one.

use std::process;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

static AVAILABLE: AtomicI32 = AtomicI32::new(1);
static TAKEN: AtomicI32 = AtomicI32::new(0);

#[inline(never)]
fn take_thread() -> bool {
    if AVAILABLE.load(Ordering::SeqCst) == 0 { //~ guilty
        return false;
    }
    AVAILABLE.fetch_sub(1, Ordering::SeqCst); //~ guilty
    true
}

fn sort(mut part: Vec<u32>) -> Vec<u32> {
    if take_thread() {
        TAKEN.fetch_add(1, Ordering::SeqCst);
    }
    part.sort();
    part
}

fn main() {
    let left = thread::spawn(|| sort(vec![5, 1, 4]));
    let right = thread::spawn(|| sort(vec![2, 6, 3]));
    let mut all = left.join().unwrap();
    all.extend(right.join().unwrap());
    all.sort();
    let taken = TAKEN.load(Ordering::SeqCst);
    if taken != 1 {
        eprintln!("{} threads taken, 1 was available", taken);
        process::exit(1);
    }
    println!("sorted {:?}", all);
}
