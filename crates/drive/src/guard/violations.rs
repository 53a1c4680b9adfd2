//! What logs say of violations, all processes together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use selvedge_events::guard::{LOG_COUNTERS_ALL, LogCounter, Note};

use crate::guard::log::{LogFile, logs_in};
use crate::guard::site_names::SiteNames;

/// A pair that does not belong together, over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Violation {
    /// The site, from 1.
    pub site: u32,
    /// The site before it; 0 is nil.
    pub other: u32,
    /// How often.
    pub count: u64,
    /// Stalls that ended because the awaited access came.
    pub resolved: u64,
    /// Stalls that ended by the time.
    pub timed_out: u64,
    /// Stalls that ended because nobody could come.
    pub futile: u64,
    /// All stalls together, in microseconds.
    pub stalled_us: u64,
    /// The longest, in microseconds.
    pub longest_us: u64,
    /// The first address, from the executable's base where it is above it.
    pub addr: u64,
    /// The executable's base in the same process.
    pub base: u64,
    /// The first thread, and the one before it.
    pub threads: (u32, Option<u32>),
}

/// What logs of one guard say.
#[derive(Clone, Debug, Default)]
pub struct Violations {
    /// What the numbers mean.
    pub names: SiteNames,
    /// The pairs, most often first.
    pub pairs: Vec<Violation>,
    /// Counters that are not zero, with their sentences.
    pub counters: Vec<(LogCounter, u64, &'static str)>,
    /// Processes.
    pub processes: usize,
}

/// Why logs cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadLogsError {
    /// A file or directory.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is none.
    #[error("no logs of a guard in `{}`: no guarded program has run, or they went elsewhere", path.display())]
    None {
        /// The directory.
        path: PathBuf,
    },
    /// A file of another sort.
    #[error("`{}` is no log of a guard", path.display())]
    NoLog {
        /// The file.
        path: PathBuf,
    },
    /// What the numbers mean is not known.
    #[error(
        "`{}` has no `sites.json` of this guard, which says what the numbers in the log mean: \
         keep logs in the directory that `selvedge guard` made for them",
        path.display()
    )]
    NoNames {
        /// The directory.
        path: PathBuf,
    },
}

/// The logs of a file or directory.
pub fn read_logs(path: &Path) -> Result<Vec<LogFile>, ReadLogsError> {
    let read = |source| ReadLogsError::Read { path: path.to_owned(), source };
    if !path.is_dir() {
        return Ok(vec![LogFile::read(path).map_err(read)?]);
    }
    let logs = logs_in(path).map_err(read)?;
    if logs.is_empty() { Err(ReadLogsError::None { path: path.to_owned() }) } else { Ok(logs) }
}

impl Violations {
    /// What a log, or the logs of a directory, say.
    pub fn read(path: &Path) -> Result<Violations, ReadLogsError> {
        let logs = read_logs(path)?;
        let dir = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
        let no_names = || ReadLogsError::NoNames { path: dir.to_owned() };
        let names = SiteNames::load(dir).ok_or_else(no_names)?;
        for file in &logs {
            let log = file.log().ok_or_else(|| ReadLogsError::NoLog { path: file.path.clone() })?;
            if log.sites as usize != names.sites.len() {
                return Err(no_names());
            }
        }
        Ok(Violations::of(&logs, names))
    }

    /// What these logs say.
    pub fn of(logs: &[LogFile], names: SiteNames) -> Violations {
        let mut pairs: BTreeMap<(u32, u32), Violation> = BTreeMap::new();
        let mut counters: BTreeMap<LogCounter, u64> = BTreeMap::new();
        for log in logs.iter().filter_map(LogFile::log) {
            for (counter, ..) in LOG_COUNTERS_ALL {
                *counters.entry(*counter).or_default() += log.counter(*counter);
            }
            for entry in log.entries().filter(|entry| entry.note == Note::Violation) {
                let first = Violation {
                    site: entry.site,
                    other: entry.other,
                    addr: entry.addr,
                    base: log.base,
                    threads: (entry.thread, Some(entry.other_thread).filter(|thread| *thread != u32::MAX)),
                    ..Violation::default()
                };
                let pair = pairs.entry((entry.site, entry.other)).or_insert(first);
                pair.count += u64::from(entry.count);
                pair.resolved += u64::from(entry.resolved);
                pair.timed_out += u64::from(entry.timed_out);
                pair.futile += u64::from(entry.futile);
                pair.stalled_us += u64::from(entry.stalled_us);
                pair.longest_us = pair.longest_us.max(u64::from(entry.longest_us));
            }
        }
        let mut pairs: Vec<Violation> = pairs.into_values().collect();
        pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.count), pair.site, pair.other));
        let sentence = |(counter, _, text): &(LogCounter, &str, &'static str)| {
            let count = counters.get(counter).copied().filter(|count| *count > 0)?;
            Some((*counter, count, *text))
        };
        Violations {
            names,
            pairs,
            counters: LOG_COUNTERS_ALL.iter().filter_map(sentence).collect(),
            processes: logs.len(),
        }
    }

    /// A counter over all processes.
    pub fn counter(&self, counter: LogCounter) -> u64 {
        self.counters.iter().find(|(other, ..)| *other == counter).map_or(0, |(_, count, _)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::log::tests::log_bytes;

    #[test]
    fn pairs_of_all_processes_add_up_and_the_most_frequent_come_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, notes: &[(Note, u32, u32, u32)]| {
            std::fs::write(dir.path().join(name), log_bytes(&[1, 1], notes)).expect("written");
        };
        write("guard-1", &[(Note::Violation, 1, 0, 2), (Note::Violation, 2, 1, 3)]);
        write("guard-2", &[(Note::Violation, 2, 1, 1), (Note::Member, 2, 1, 9)]);
        assert!(matches!(Violations::read(dir.path()), Err(ReadLogsError::NoNames { .. })));
        let names = |count| {
            let text = format!(r#"{{"version":1,"program":"p","build_id":"","invariants":"i","sites":[{}]}}"#, count);
            std::fs::write(dir.path().join("sites.json"), text).expect("written");
        };
        let site = r#"{"key":"a","hook":"","frames":[]}"#;
        names(site.to_owned());
        assert!(matches!(Violations::read(dir.path()), Err(ReadLogsError::NoNames { .. })), "of another guard");
        names(format!("{site},{site}"));
        let all = Violations::read(dir.path()).expect("read");
        let pairs: Vec<_> = all.pairs.iter().map(|pair| (pair.site, pair.other, pair.count)).collect();
        assert_eq!((pairs.as_slice(), all.processes), (&[(2, 1, 4), (1, 0, 2)][..], 2));
        let one = Violations::read(&dir.path().join("guard-2")).expect("read");
        assert_eq!((one.pairs.len(), one.processes), (1, 1));
        assert!(matches!(Violations::read(&dir.path().join("sites.json")), Err(ReadLogsError::NoLog { .. })));
    }
}
