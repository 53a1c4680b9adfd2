//@ crate: tokio 1.13.0 sync
//@ advisory: RUSTSEC-2021-0124
//! A closed channel: the sender takes its value back while the receiver takes it as well.
#![forbid(unsafe_code)]

use std::thread;

use tokio::sync::oneshot;

#[test]
fn one_value_goes_to_one_side() {
    let (sender, mut receiver) = oneshot::channel();
    receiver.close();
    let sender = thread::spawn(move || sender.send(Box::new(7)).err());
    let received = receiver.try_recv().ok();
    let returned = sender.join().unwrap();
    let sides = [received, returned].iter().flatten().count();
    assert_eq!(sides, 1, "the value arrived {sides} times");
}
