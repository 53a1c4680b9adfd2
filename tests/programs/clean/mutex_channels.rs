//@ rust
// Threads, Arc<Mutex>, Condvar and channels from the standard library.
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;

fn main() {
    let total = Arc::new(Mutex::new(0u64));
    let (sender, receiver) = mpsc::channel();
    let producers: Vec<_> = (0..3u64)
        .map(|id| {
            let (sender, total) = (sender.clone(), Arc::clone(&total));
            thread::spawn(move || {
                for i in 0..200 {
                    *total.lock().unwrap() += i;
                    sender.send(id * 1000 + i).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let received: u64 = receiver.iter().sum();
    for p in producers {
        p.join().unwrap();
    }
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let opener = {
        let gate = Arc::clone(&gate);
        thread::spawn(move || {
            *gate.0.lock().unwrap() = true;
            gate.1.notify_all();
        })
    };
    let mut open = gate.0.lock().unwrap();
    while !*open {
        open = gate.1.wait(open).unwrap();
    }
    drop(open);
    opener.join().unwrap();
    println!("total {} received {received}", total.lock().unwrap());
    assert_eq!(*total.lock().unwrap(), 59_700);
    assert_eq!(received, 600_000 + 59_700);
    println!("EXIT-SUCCESS");
}
