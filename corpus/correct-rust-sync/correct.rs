// The locks of Rust's standard library: Mutex, RwLock, Condvar with and without a time limit, Barrier, Once,
// OnceLock and Arc, in scoped and in plain threads.

use std::process;
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock};
use std::thread;
use std::time::Duration;

const ROUNDS: u32 = 40;

static ONCE: Once = Once::new();
static CELL: OnceLock<u32> = OnceLock::new();
static ONCE_RUNS: Mutex<u32> = Mutex::new(0);

struct Turns {
    turn: Mutex<u32>,
    changed: Condvar,
}

fn take_turns(turns: &Turns, me: u32) {
    for _ in 0..ROUNDS {
        let mut turn = turns.turn.lock().unwrap();
        while *turn % 2 != me {
            turn = turns.changed.wait(turn).unwrap();
        }
        *turn += 1;
        turns.changed.notify_all();
    }
}

fn init() -> u32 {
    ONCE.call_once(|| *ONCE_RUNS.lock().unwrap() += 1);
    *CELL.get_or_init(|| 7)
}

fn scoped() -> (u32, u32) {
    let table = RwLock::new(vec![0u32; 4]);
    let barrier = Barrier::new(2);
    let torn = Mutex::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            for i in 1..=ROUNDS {
                table.write().unwrap().iter_mut().for_each(|slot| *slot = i);
            }
        });
        scope.spawn(|| {
            barrier.wait();
            for _ in 0..ROUNDS {
                let view = table.read().unwrap();
                if view.iter().any(|slot| *slot != view[0]) {
                    *torn.lock().unwrap() += 1;
                }
            }
        });
    });
    let last = table.read().unwrap()[3];
    let torn = *torn.lock().unwrap();
    (last, torn)
}

fn main() {
    let turns = Arc::new(Turns { turn: Mutex::new(0), changed: Condvar::new() });
    let workers: Vec<_> = (0..2)
        .map(|me| {
            let turns = Arc::clone(&turns);
            thread::spawn(move || {
                take_turns(&turns, me);
                init()
            })
        })
        .collect();
    let cells: u32 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    let turn = turns.turn.lock().unwrap();
    let (turn, late) = turns.changed.wait_timeout(turn, Duration::from_millis(1)).unwrap();
    let (last, torn) = scoped();
    let once_runs = *ONCE_RUNS.lock().unwrap();
    let ok = *turn == 2 * ROUNDS && (late.timed_out() || *turn > 0) && cells == 14 && once_runs == 1;
    if !ok || last != ROUNDS || torn != 0 || Arc::strong_count(&turns) != 1 {
        eprintln!("a lock failed");
        process::exit(1);
    }
    println!("locks hold");
}
