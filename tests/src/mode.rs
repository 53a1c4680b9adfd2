//! How a wrapped program is run.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// A way of running a program that was built with the wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Plainly, without a plan: every site is a nop and the program must not notice.
    Disarmed,
    /// `selvedge record -n 0`: the survey that finds shared sites, and no recorded run.
    Survey,
    /// `selvedge record -n 1`: a survey and then one recorded run.
    Record,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::Disarmed, Mode::Survey, Mode::Record];

    /// The mode's name in reports and in `known_gaps.tsv`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Disarmed => "disarmed",
            Mode::Survey => "survey",
            Mode::Record => "record",
        }
    }

    /// The mode of a name.
    pub fn from_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The words to put before the program's own command line. Traces go to `out`.
    pub fn prefix(self, selvedge: &Path, out: &Path) -> Vec<OsString> {
        let how = match self {
            Mode::Disarmed => return Vec::new(),
            Mode::Survey => "--survey-only",
            Mode::Record => "--runs=1",
        };
        let words = [selvedge.as_os_str(), "record".as_ref()];
        let tail = [how.as_ref(), "--out".as_ref(), out.as_os_str(), "--".as_ref()];
        words.into_iter().chain(tail).map(Into::into).collect()
    }

    /// How often the program runs, and so how often its output may appear.
    pub fn guest_runs(self) -> usize {
        match self {
            Mode::Disarmed | Mode::Survey => 1,
            Mode::Record => 2,
        }
    }

    /// The time to allow where a native run is allowed `native`.
    pub fn timeout(self, native: Duration) -> Duration {
        match self {
            Mode::Disarmed => native,
            Mode::Survey => native * 2,
            Mode::Record => native * 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for mode in Mode::ALL {
            assert_eq!(Mode::from_name(mode.name()), Some(mode));
        }
        assert_eq!(Mode::from_name("native"), None);
    }

    #[test]
    fn a_disarmed_program_has_nothing_before_it() {
        let (bin, out) = (Path::new("selvedge"), Path::new("traces"));
        assert!(Mode::Disarmed.prefix(bin, out).is_empty());
        let record = ["selvedge", "record", "--runs=1", "--out", "traces", "--"];
        assert_eq!(Mode::Record.prefix(bin, out), record);
    }
}
