// Appending one buffer to another asks the source for its length and then copies that many
// characters. Each call is synchronised on the source, the two together are not, and the
// source can be truncated in between.

use std::process;
use std::sync::Mutex;
use std::thread;

static SOURCE: Mutex<String> = Mutex::new(String::new());
static TARGET: Mutex<String> = Mutex::new(String::new());

#[inline(never)]
fn length() -> usize {
    SOURCE.lock().unwrap().len() //~ guilty
}

#[inline(never)]
fn copy_to(target: &mut String, count: usize) {
    let source = SOURCE.lock().unwrap();
    if source.len() < count { //~ guilty
        eprintln!("copying {} of {} characters", count, source.len());
        process::abort();
    }
    target.push_str(&source[..count]);
}

fn append() {
    let mut target = TARGET.lock().unwrap();
    let count = length();
    copy_to(&mut target, count);
}

fn set_length_zero() {
    SOURCE.lock().unwrap().clear(); //~ guilty
}

fn main() {
    SOURCE.lock().unwrap().push_str("selvedge");
    let writer = thread::spawn(append);
    let eraser = thread::spawn(set_length_zero);
    writer.join().unwrap();
    eraser.join().unwrap();
    let n = TARGET.lock().unwrap().len();
    println!("appended {}", if n == 8 || n == 0 { "all or nothing" } else { "a part" });
}
