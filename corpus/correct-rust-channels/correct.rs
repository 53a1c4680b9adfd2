// Message passing in Rust: unbounded and bounded channels, park and unpark, acquire and release atomics with
// a fence, and thread-local values with destructors.

use std::cell::{Cell, UnsafeCell};
use std::process;
use std::sync::atomic::{fence, AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

const ITEMS: u32 = 30;

struct Slot(UnsafeCell<u32>);
unsafe impl Sync for Slot {}

static MESSAGE: Slot = Slot(UnsafeCell::new(0));
static SENT: AtomicBool = AtomicBool::new(false);
static GO: AtomicBool = AtomicBool::new(false);
static DROPPED: AtomicU32 = AtomicU32::new(0);

struct Local(Cell<u32>);

impl Drop for Local {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0.get(), Ordering::SeqCst);
    }
}

thread_local! {
    static LOCAL: Local = Local(Cell::new(0));
}

fn channels() -> u32 {
    let (many, inbox) = mpsc::channel();
    let (narrow, outbox) = mpsc::sync_channel(1);
    let producers: Vec<_> = (0..2)
        .map(|_| {
            let many = many.clone();
            thread::spawn(move || {
                for i in 1..=ITEMS {
                    many.send(i).unwrap();
                    LOCAL.with(|local| local.0.set(local.0.get() + 1));
                }
            })
        })
        .collect();
    drop(many);
    let relay = thread::spawn(move || {
        for item in inbox {
            narrow.send(item * 2).unwrap();
        }
    });
    let sum = outbox.iter().sum();
    for producer in producers {
        producer.join().unwrap();
    }
    relay.join().unwrap();
    sum
}

fn hand_over() -> u32 {
    let reader = thread::spawn(|| {
        while !GO.load(Ordering::Acquire) {
            thread::park();
        }
        while !SENT.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        fence(Ordering::Acquire);
        unsafe { MESSAGE.0.get().read() }
    });
    GO.store(true, Ordering::Release);
    reader.thread().unpark();
    unsafe { MESSAGE.0.get().write(42) };
    fence(Ordering::Release);
    SENT.store(true, Ordering::Relaxed);
    reader.join().unwrap()
}

fn main() {
    let sum = channels();
    let message = hand_over();
    let dropped = DROPPED.load(Ordering::SeqCst);
    if sum != 2 * ITEMS * (ITEMS + 1) || message != 42 || dropped != 2 * ITEMS {
        eprintln!("sum {}, message {}, dropped {}", sum, message, dropped);
        process::exit(1);
    }
    println!("every message arrived");
}
