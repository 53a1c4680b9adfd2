// Statics of Rust: atomics, cells, tuples, arrays of structs.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

pub struct Slot {
    pub key: u32,
    pub pair: (u64, u64),
}

static HITS: AtomicUsize = AtomicUsize::new(0);
static TOTAL: Mutex<i32> = Mutex::new(7);
static mut SLOTS: [Slot; 4] = [const { Slot { key: 1, pair: (2, 3) } }; 4];

#[inline(never)]
fn bump(at: usize) {
    unsafe { SLOTS[at].pair.1 += 1 }; //~ slot
    HITS.fetch_add(1, Ordering::SeqCst); //~ atomic
}

fn main() {
    let at = std::env::args().count();
    let thread = std::thread::spawn(move || bump(at));
    thread.join().unwrap();
    *TOTAL.lock().unwrap() += 1;
    println!("ran {} {}", HITS.load(Ordering::SeqCst), TOTAL.lock().unwrap());
}
