//! Sells the only seat at two counters.

use std::process::ExitCode;
use std::thread;

use seats::Seats;

fn main() -> ExitCode {
    let seats = Seats::new(1);
    let sold = thread::scope(|scope| {
        let counters = [(); 2].map(|()| scope.spawn(|| seats.take()));
        counters.into_iter().map(|counter| counter.join().unwrap()).filter(|sold| *sold).count()
    });
    println!("{sold} sold");
    if sold == 1 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
