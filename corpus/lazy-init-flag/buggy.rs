// A lazy cell raises its flag when the computation starts instead of when its value is stored. A
// reader that sees the flag in between takes the old value.

use std::cell::UnsafeCell;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

struct Cell(UnsafeCell<u32>);
unsafe impl Sync for Cell {}

static VALUE: Cell = Cell(UnsafeCell::new(0));
static READY: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn compute() -> u32 {
    (1..=10u32).sum()
}

#[inline(never)]
fn init() {
    READY.store(true, Ordering::Release); //~ guilty
    let value = compute();
    unsafe { VALUE.0.get().write(value) }; //~ guilty
}

#[inline(never)]
fn read() -> Option<u32> {
    if READY.load(Ordering::Acquire) { //~ guilty
        Some(unsafe { VALUE.0.get().read() }) //~ guilty
    } else {
        None
    }
}

fn main() {
    let maker = thread::spawn(init);
    let reader = thread::spawn(read);
    maker.join().unwrap();
    let seen = reader.join().unwrap();
    if seen == Some(0) {
        eprintln!("a lazy value was read before it was stored");
        process::exit(1);
    }
    println!("value is absent or 55");
}
