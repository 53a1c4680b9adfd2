// A customer looks under the lock whether an item is in stock, walks to the counter, and
// takes it under the lock. Another customer can take it on the way. There is no data race.
// Fixed: the lock is held from looking to taking.

use std::process;
use std::sync::Mutex;
use std::thread;

static STOCK: Mutex<i32> = Mutex::new(1);
static SOLD: Mutex<i32> = Mutex::new(0);

#[inline(never)]
fn in_stock(stock: &i32) -> bool {
    *stock > 0
}

#[inline(never)]
fn take_item(stock: &mut i32) {
    *stock -= 1;
    *SOLD.lock().unwrap() += 1;
}

fn customer() {
    let mut stock = STOCK.lock().unwrap();
    if in_stock(&stock) {
        take_item(&mut stock);
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
