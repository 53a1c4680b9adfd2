//! Large programs: what is placed for the profile of a short recorded run, and what that costs in longer ones.

use std::path::Path;

use selvedge_analyze::atomicity::heat::cool;
use selvedge_drive::enforce::deploy::counted;
use selvedge_events::enforce::Counter;
use serde::Serialize;

use super::kernel::Placed;
use crate::columns::Tools;
use crate::measure::Measured;
use crate::options::Options;
use crate::rank::programs::measure_beside;

/// The columns, after the native one.
pub const BESIDE: [&str; 3] = ["disarmed", "enforce", "tsan"];

/// What locks did in a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Locked {
    /// Pairs in the profile that no lock of the program keeps.
    pub pairs: usize,
    /// Of these, those that would cost too much.
    pub left_out: usize,
    /// Locks taken.
    pub taken: u64,
    /// Locks waited for.
    pub waited: u64,
    /// Waits that were given up.
    pub escapes: u64,
    /// Locks that were given up for what waiting took.
    pub given_up: u64,
    /// What was placed.
    pub placed: Option<Placed>,
}

impl Locked {
    /// Of a run that left its logs below a folder.
    pub fn of_run(dir: &Path, profile: &Path) -> Option<Locked> {
        let profile = selvedge_drive::enforce::file::load(profile).ok()?;
        let (pairs, left_out) = (profile.atomic_pairs().count(), cool(&profile).1.pairs());
        let mut locked = Locked { pairs, left_out, ..Locked::default() };
        for logs in std::fs::read_dir(dir.join("guard")).ok()?.flatten() {
            for (counter, count) in counted(&logs.path()) {
                match counter {
                    Counter::Taken => locked.taken += count,
                    Counter::Waited => locked.waited += count,
                    Counter::Escapes => locked.escapes += count,
                    Counter::Costly => locked.given_up += count,
                    _ => {}
                }
            }
        }
        Some(locked)
    }
}

/// Measures the programs that are wanted.
pub fn measure(tools: &Tools, options: &Options, say: &mut dyn FnMut(&str)) -> Vec<Measured> {
    measure_beside(&BESIDE, tools, options, say)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::COLUMNS;

    #[test]
    fn columns_are_there() {
        assert!(BESIDE.iter().all(|key| COLUMNS.iter().any(|column| column.key == *key)));
    }
}
