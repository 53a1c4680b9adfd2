//! How much of what is there each tier finds, on made-up histories that are too large for chance to settle.

use selvedge_analyze::sound::{Effort, Prover, RacePair};
use selvedge_analyze::{EventNo, Relation};

use crate::generate::{Shape, build};
use crate::oracle::{Oracle, Reorderings};

const SHAPES: [Shape; 3] = [
    Shape { threads: 3, variables: 12, locks: 3, objects: 0, events: 60 },
    Shape { threads: 4, variables: 20, locks: 4, objects: 1, events: 48 },
    Shape { threads: 2, variables: 8, locks: 4, objects: 1, events: 90 },
];

#[test]
fn shares_of_made_up_histories() {
    let mut chance = 88_172_645_463_325_252_u64;
    let mut draw = move || {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        (chance >> 24) as u16
    };
    let (mut exact, mut proved, mut narrow) = (0, [0; 3], 0);
    for round in 0..10 {
        for shape in SHAPES {
            // Locks more often than the small histories have them.
            let mut choice = || {
                let what = draw() % 32;
                (draw(), if what < 3 { 15 + what as u8 } else { what as u8 }, draw() as u8)
            };
            let choices: Vec<(u16, u8, u8)> = (0..shape.events).map(|_| choice()).collect();
            let history = build(shape, round % 2 == 0, &choices);
            let races = Oracle::new(&history, Reorderings::All).races();
            exact += races.len();
            let prover = Prover::new(&history);
            let without = Prover::with_effort(&history, Effort { wide_steps: 0, ..Effort::default() });
            for second in 0..history.len() as EventNo {
                for first in 0..second {
                    let goal = RacePair { first, second }.goal();
                    let known = races.contains(&(first, second));
                    match prover.prove(&goal) {
                        Some(proof) => {
                            assert!(known, "{first} {second}");
                            proved[proof.relation as usize] += 1;
                            narrow += usize::from(without.prove(&goal).is_some());
                        }
                        None if known => println!("missed {first} {second} of {:?}", history.events),
                        None => {}
                    }
                }
            }
        }
    }
    let [shb, sync_preserving, reversing] = proved;
    println!(
        "of {exact} races: shb {shb}, sync-preserving {sync_preserving} more, lock-reversing {reversing} more; \
         {narrow} without the wide search"
    );
    assert!(shb + sync_preserving + reversing >= exact - exact / 200 && reversing > 0 && Relation::Shb as usize == 0);
}
