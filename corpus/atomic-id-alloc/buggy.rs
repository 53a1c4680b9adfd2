// An identifier is taken by an atomic load and an atomic store of the next one. Each access is
// atomic and race free; two threads still load the same number.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

struct Session {
    id: u32,
    name: String,
}

#[inline(never)]
fn next_id() -> u32 {
    let id = NEXT_ID.load(Ordering::SeqCst); //~ guilty
    NEXT_ID.store(id + 1, Ordering::SeqCst); //~ guilty
    id
}

fn open(name: &str) -> Session {
    Session {
        id: next_id(),
        name: name.to_string(),
    }
}

fn main() {
    let a = thread::spawn(|| open("left"));
    let b = thread::spawn(|| open("right"));
    let a = a.join().unwrap();
    let b = b.join().unwrap();
    if a.id == b.id {
        eprintln!("sessions {} and {} share the id {}", a.name, b.name, a.id);
        process::exit(1);
    }
    println!("2 sessions, 2 ids");
}
