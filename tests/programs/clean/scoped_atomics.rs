//@ rust
// Scoped threads that share a stack frame by reference, atomics of several widths
// and a panic caught at join.
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::thread;

fn main() {
    let (wide, narrow, next) = (AtomicU64::new(0), AtomicU8::new(0), AtomicUsize::new(0));
    let ready = AtomicBool::new(false);
    let table = RwLock::new(vec![0u32; 100]);
    let mut parts = [0u64; 4];
    thread::scope(|scope| {
        for part in &mut parts {
            scope.spawn(|| {
                while !ready.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= 100 {
                        break;
                    }
                    table.write().unwrap()[i] += 1;
                    *part += u64::from(table.read().unwrap()[i]);
                    wide.fetch_add(3, Ordering::AcqRel);
                    narrow.fetch_add(3, Ordering::SeqCst);
                }
            });
        }
        ready.store(true, Ordering::Release);
    });
    assert_eq!(parts.iter().sum::<u64>(), 100);
    assert_eq!(wide.into_inner(), 300);
    assert_eq!(narrow.into_inner(), (300 % 256) as u8);
    std::panic::set_hook(Box::new(|_| {}));
    let caught = thread::spawn(|| panic!("on purpose")).join();
    assert!(caught.is_err());
    println!("100 claimed");
    println!("EXIT-SUCCESS");
}
