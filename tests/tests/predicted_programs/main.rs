//! Prediction and confirmation against all that small programs can do.
//!
//! Programs by chance are explored in every interleaving. Two runs of each become histories; what is predicted from them
//! is tried as `selvedge-drive` does it, with the programs interpreted instead of run. Then
//!
//! - everything that is confirmed can happen;
//! - everything that is proved is confirmed by the first order that is tried, also where what threads do depends on
//!   what they read;
//! - where nothing depends on values and nobody takes a semaphore, everything that is predicted and can happen is
//!   confirmed; and of what can happen between operations that the run did nothing is missed of
//!   - *races* of accesses that neither forks and joins nor atomics ordered in the run;
//!   - *triples*, unserializable accesses of one variable, where the two accesses of one thread belong together (in
//!     one region or in neighbouring ones, the first of them the last read or the last write before the second), neither
//!     forks and joins nor, for plain accesses, atomics order the third before or after them, and locks are nested;
//!   - *circles* of locks.
//!
//! Outside this model things are missed, and the shares are printed: a taker comes after all posts that came before it in the
//! run, though one would do; an atomic that ordered two accesses may not order them in other runs; with locks that are not
//! nested another thread may come in where no lock is held that was looked for; and a thread that reads something else
//! may not come to the operation at all.

mod chance;
mod compare;
mod everything;
mod machine;
mod recording;

use std::cell::RefCell;

use chance::{Sort, programs};
use compare::{Tally, compare};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Programs of each sort.
const CASES: u32 = 600;

fn over_programs(sort: Sort) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let tally = RefCell::new(Tally::default());
    let result = runner.run(&(programs(sort), 1..u64::MAX), |(program, seed)| {
        compare(sort, &program, seed, &mut tally.borrow_mut());
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    println!("{sort:?}: {}", tally.into_inner());
}

#[test]
fn plain_programs() {
    over_programs(Sort::Plain);
}

#[test]
fn programs_with_a_semaphore_and_atomics() {
    over_programs(Sort::Ordered);
}

#[test]
fn programs_with_locks_that_are_not_nested() {
    over_programs(Sort::Unnested);
}

#[test]
fn programs_that_depend_on_values() {
    over_programs(Sort::Branching);
}
