// A function that holds a read lock calls another that takes the same read lock. That works until
// a writer queues up between the two: the second read waits for the writer, the writer for the
// first read.
// Fixed: the callee gets the value from its caller instead of locking again.

use std::sync::RwLock;
use std::thread;

static CHAIN: RwLock<u64> = RwLock::new(41);

#[inline(never)]
fn height(chain: &u64) -> u64 {
    *chain
}

#[inline(never)]
fn verify() -> bool {
    let chain = CHAIN.read().unwrap();
    *chain == height(&chain)
}

#[inline(never)]
fn import() {
    *CHAIN.write().unwrap() += 1;
}

fn main() {
    let verifier = thread::spawn(verify);
    let importer = thread::spawn(import);
    let same = verifier.join().unwrap();
    importer.join().unwrap();
    println!("verified: {}", same);
}
