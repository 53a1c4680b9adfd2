// Each thread renders its rows and adds its part to a global checksum. The lock that each takes
// is its own, so the addition is a plain data race and a part is lost.

use std::cell::UnsafeCell;
use std::process;
use std::sync::Mutex;
use std::thread;

struct Shared(UnsafeCell<u64>);
unsafe impl Sync for Shared {}

static CHECKSUM: Shared = Shared(UnsafeCell::new(0));

#[inline(never)]
fn render(rows: u64) -> u64 {
    (0..rows).map(|row| row * 3 + 1).sum()
}

#[inline(never)]
fn finish(part: u64) -> u64 {
    let width = thread::current().name().map_or(0, str::len) as u64;
    part + width * 0
}

fn worker(rows: u64) {
    let part = render(rows);
    let own = Mutex::new(());
    let _hold = own.lock().unwrap();
    unsafe {
        let sum = CHECKSUM.0.get().read(); //~ guilty
        let next = sum + finish(part);
        CHECKSUM.0.get().write(next); //~ guilty
    }
}

fn main() {
    let first = thread::spawn(|| worker(8));
    let second = thread::spawn(|| worker(16));
    first.join().unwrap();
    second.join().unwrap();
    let sum = unsafe { CHECKSUM.0.get().read() };
    let expected = render(8) + render(16);
    if sum != expected {
        eprintln!("checksum is {}, expected {}", sum, expected);
        process::exit(1);
    }
    println!("checksum {}", sum);
}
