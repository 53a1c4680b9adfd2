//@ crate: internment 0.3.12
//@ advisory: RUSTSEC-2020-0017
//! The last user of a value goes while a new one comes.
#![forbid(unsafe_code)]

use std::thread;

use internment::ArcIntern;

#[test]
fn the_new_user_has_the_value() {
    let old = ArcIntern::new(7_u64);
    let leaving = thread::spawn(move || drop(old));
    let new = ArcIntern::new(7_u64);
    leaving.join().unwrap();
    assert_eq!(*new, 7);
}
