// A customer looks under the lock whether an item is in stock, walks to the counter, and
// takes it under the lock. Another customer can take it on the way. There is no data race.

use std::process;
use std::sync::Mutex;
use std::thread;

static STOCK: Mutex<i32> = Mutex::new(1);
static SOLD: Mutex<i32> = Mutex::new(0);

#[inline(never)]
fn in_stock() -> bool {
    let stock = STOCK.lock().unwrap();
    *stock > 0 //~ guilty
}

#[inline(never)]
fn take_item() {
    let mut stock = STOCK.lock().unwrap();
    *stock -= 1; //~ guilty
    *SOLD.lock().unwrap() += 1;
}

fn customer() {
    if in_stock() {
        take_item();
    }
}

fn main() {
    let first = thread::spawn(customer);
    let second = thread::spawn(customer);
    first.join().unwrap();
    second.join().unwrap();
    let left = *STOCK.lock().unwrap();
    if left < 0 {
        eprintln!("{} items sold of 1", SOLD.lock().unwrap());
        process::exit(1);
    }
    println!("1 item sold");
}
