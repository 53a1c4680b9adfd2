// A transfer takes from one account and gives to another, each under the account's own lock.
// An audit that adds up both in between finds money missing. There is no data race.

use std::process;
use std::sync::Mutex;
use std::thread;

static SAVINGS: Mutex<i64> = Mutex::new(100);
static CHECKING: Mutex<i64> = Mutex::new(50);

#[inline(never)]
fn transfer(amount: i64) {
    {
        let mut savings = SAVINGS.lock().unwrap();
        *savings -= amount; //~ guilty
    }
    let mut checking = CHECKING.lock().unwrap();
    *checking += amount; //~ guilty
}

#[inline(never)]
fn audit() -> i64 {
    let savings = SAVINGS.lock().unwrap();
    let checking = CHECKING.lock().unwrap();
    let first = *savings; //~ guilty
    let second = *checking; //~ guilty
    first + second
}

fn main() {
    let teller = thread::spawn(|| transfer(30));
    let auditor = thread::spawn(audit);
    teller.join().unwrap();
    let total = auditor.join().unwrap();
    if total != 150 {
        eprintln!("audit found {} of 150", total);
        process::exit(1);
    }
    println!("audit found 150");
}
