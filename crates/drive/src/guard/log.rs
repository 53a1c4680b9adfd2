//! Logs that guards leave, and what they teach.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use selvedge_analyze::invariant::{First, Invariants, SiteKey};
use selvedge_events::guard::{Entry, LOG_PREFIX, Log, Note};
use selvedge_events::pack::split_pc;
use selvedge_image::LockCall;

/// A log with its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// The file.
    pub path: PathBuf,
    bytes: Vec<u8>,
}

impl LogFile {
    /// Reads a log.
    pub fn read(path: &Path) -> io::Result<LogFile> {
        Ok(LogFile { path: path.to_owned(), bytes: fs::read(path)? })
    }

    /// What it says; `None` where the file is no log.
    pub fn log(&self) -> Option<Log<'_>> {
        Log::parse(&self.bytes)
    }
}

/// The logs of a directory, by name.
pub fn logs_in(dir: &Path) -> io::Result<Vec<LogFile>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(LOG_PREFIX.as_bytes()) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    paths.iter().map(|path| LogFile::read(path)).collect()
}

/// As [`logs_in`]; the files are gone after that.
pub fn take_logs(dir: &Path) -> io::Result<Vec<LogFile>> {
    let logs = logs_in(dir)?;
    for log in &logs {
        fs::remove_file(&log.path)?;
    }
    Ok(logs)
}

/// What one run taught: the logs of its processes, whose sites have these keys, and whose locks are taken by these calls. `None` where a log is not of that guard.
pub fn learnt(logs: &[LogFile], keys: &[&SiteKey], locks: &[LockCall]) -> Option<Invariants> {
    let mut run = Invariants { runs: 1, ..Invariants::default() };
    for file in logs {
        let log = file.log().filter(|log| log.sites as usize == keys.len())?;
        let key = |site: u32| (site as usize).checked_sub(1).and_then(|at| keys.get(at)).copied();
        for (number, site) in (1_u32..).zip(keys) {
            let hits = log.hits(number);
            if hits > 0 {
                run.sites.entry((*site).clone()).or_default().hits += u64::from(hits);
            }
        }
        let section = |entry: &Entry| {
            let (module, returns) = split_pc(entry.addr)?;
            let call = locks.iter().find(|call| module == 0 && call.returns == returns)?;
            Some(SiteKey(call.key.clone()))
        };
        for entry in log.entries().filter(|entry| matches!(entry.note, Note::Entered | Note::First)) {
            let Some(call) = section(&entry) else { continue };
            let known = run.sections.entry(call).or_default();
            match key(entry.site) {
                None => known.entered += u64::from(entry.count),
                Some(site) => {
                    let first =
                        known.first.entry(site.clone()).or_insert(First { count: 0, distance: entry.distance() });
                    first.count += u64::from(entry.count);
                    first.distance = first.distance.filter(|distance| entry.distance() == Some(*distance));
                }
            }
        }
        for entry in log.entries() {
            let Some(site) = key(entry.site).filter(|_| entry.note != Note::First) else { continue };
            let known = run.sites.entry(site.clone()).or_default();
            match (entry.note, key(entry.other)) {
                (Note::Member, other) => drop(known.add(other, entry.own)),
                (Note::Touch, Some(other)) => {
                    known.touches.insert(other.clone());
                }
                (Note::Asked, _) => known.asked = true,
                (Note::Touch, None) | (Note::Violation | Note::Entered | Note::First, _) => {}
            }
        }
    }
    for known in run.sites.values_mut() {
        // What belongs has touched the same memory, of course.
        let members = known.members().into_iter().cloned().collect();
        known.touches = known.touches.difference(&members).cloned().collect();
    }
    Some(run)
}

#[cfg(test)]
pub(crate) mod tests {
    use selvedge_events::guard::{LOG_HEADER, LOG_MAGIC, LOG_VERSION, SLOT, key};

    use super::*;

    /// A log as the runtime writes it: hits of sites 1, 2, …, and notes with their counts.
    pub(crate) fn log_bytes(hits: &[u32], notes: &[(Note, u32, u32, u32)]) -> Vec<u8> {
        let slots = notes.len().next_power_of_two();
        let slots_at = LOG_HEADER + (hits.len() + 1) * 4;
        let mut bytes = vec![0; slots_at + slots * SLOT];
        bytes[..8].copy_from_slice(&LOG_MAGIC);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        for (at, value) in [(8, LOG_VERSION), (16, 7), (20, hits.len() as u32), (24, slots as u32)] {
            put(at, &value.to_le_bytes());
        }
        put(28, &(LOG_HEADER as u32).to_le_bytes());
        put(32, &(slots_at as u32).to_le_bytes());
        for (at, hits) in hits.iter().enumerate() {
            put(LOG_HEADER + (at + 1) * 4, &hits.to_le_bytes());
        }
        for (at, (note, site, other, count)) in notes.iter().enumerate() {
            put(slots_at + at * SLOT, &key(*note, *site, *other, false).to_le_bytes());
            put(slots_at + at * SLOT + 16, &count.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_run_teaches_what_its_processes_noted() {
        let dir = tempfile::tempdir().expect("a directory");
        let notes = [(Note::Member, 1, 0, 1), (Note::Member, 2, 1, 5), (Note::Touch, 2, 1, 5), (Note::Touch, 2, 2, 1)];
        fs::write(dir.path().join("guard-7.log"), log_bytes(&[3, 9, 0], &notes)).expect("written");
        let other = [(Note::Member, 1, 2, 1), (Note::Touch, 1, 0, 1)];
        fs::write(dir.path().join("guard-8.log"), log_bytes(&[1, 0, 0], &other)).expect("written");
        fs::write(dir.path().join("stdout"), "guard").expect("written");
        let logs = take_logs(dir.path()).expect("read");
        assert_eq!(logs.len(), 2);
        let key = |name: &str| SiteKey(name.to_owned());
        let keys = [key("a"), key("b"), key("c")];
        let run = learnt(&logs, &keys.each_ref(), &[]).expect("of this guard");
        assert_eq!(run.runs, 1);
        let known = |name: &str| run.sites.get(&key(name)).expect("known");
        let (a, b) = (known("a"), known("b"));
        assert_eq!((a.hits, a.predecessors()), (4, [None, Some(&key("b"))].into()));
        assert_eq!((b.hits, b.predecessors(), &b.touches), (9, [Some(&key("a"))].into(), &[key("b")].into()));
        assert_eq!(run.sites.len(), 2, "what did not run is not known");
        assert_eq!(learnt(&logs, &keys.each_ref()[..2], &[]), None, "another guard");
        assert!(take_logs(dir.path()).expect("read").is_empty());
    }
}
