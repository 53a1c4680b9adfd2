// The main thread waits for the worker's last result, locks the statistics and joins the worker
// while it holds them. The worker locks the statistics once more after its last result.
// Fixed: the worker is joined before the statistics are locked.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::thread;

static STATS: Mutex<u32> = Mutex::new(0);
static DONE: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn summarise() -> u64 {
    let mut x: u64 = 1;
    for _ in 0..1_500_000 {
        x = hint::black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
    x
}

fn worker() {
    DONE.store(true, Ordering::SeqCst);
    let mut stats = STATS.lock().unwrap();
    *stats += 1;
}

fn main() {
    let handle = thread::spawn(worker);
    while !DONE.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    let summary = summarise();
    handle.join().unwrap();
    let stats = STATS.lock().unwrap();
    println!("{} result, summary {}", *stats, if summary != 0 { "made" } else { "empty" });
}
