use std::thread;

use seats::Seats;

#[test]
fn nobody_sits_on_a_lap() {
    let seats = Seats::new(1);
    let sold = thread::scope(|scope| {
        let sellers = [(); 2].map(|()| scope.spawn(|| seats.take()));
        sellers.into_iter().map(|seller| seller.join().unwrap()).filter(|sold| *sold).count()
    });
    assert_eq!(sold, 1, "one seat was sold {sold} times");
}

#[test]
fn a_sold_out_show_stays_sold_out() {
    let seats = Seats::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert!(!seats.take()));
        }
    });
}
