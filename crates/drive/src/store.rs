//! Runs on disk.
//!
//! ```text
//! DIR/runs/0001/run.json   what ran and how it ended (RunRecord)
//! DIR/runs/0001/plan       the plan it ran under
//! DIR/runs/0001/trace.*    one trace per process
//! DIR/runs/0001/stdout, stderr   the guest's output, where it was captured
//! DIR/survey/KEY.survey    what survey runs saw, by build-id and arguments
//! DIR/survey/direct/       surveys of programs started by hand under `record --survey-only --plan-only`
//! DIR/direct/              traces of programs started by hand under a plan of `record --plan-only`
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_findings::Outcome;
use selvedge_trace::Run;
use serde::{Deserialize, Serialize};

/// Where runs are kept unless the user says otherwise.
pub const DEFAULT_DIR: &str = ".selvedge";

/// Room that a run's record is given before the run.
const RECORD_ROOM: usize = 8 * 1024;

/// Bytes of the longest store name: the runtime keeps names of trace files in 1,024 bytes, below which come the
/// run's directory and the file.
const LONGEST_DIR: usize = 900;
/// Version of `run.json`.
///
/// 1: first.
pub const VERSION: u32 = 1;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The runtime has no room for such a name.
    #[error("the store's name is too long ({len} bytes, at most {LONGEST_DIR}): choose a shorter one with --out DIR")]
    LongName {
        /// Bytes of the name.
        len: usize,
    },
    /// The directory cannot be made.
    #[error("cannot create `{}`: choose a directory that can be written with --out DIR", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory or file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no such run.
    #[error("no run {id} in `{}`: `selvedge runs` lists what is there", dir.display())]
    NoRun {
        /// What was asked for.
        id: String,
        /// Where.
        dir: PathBuf,
    },
}

/// What ran and how it ended: `run.json`. Fields are only added within a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunRecord {
    /// [`VERSION`].
    pub version: u32,
    /// The run's number.
    pub id: u32,
    /// The program's file, resolved.
    pub program: String,
    /// The program as it was given, and its arguments.
    pub argv: Vec<String>,
    /// The program's build-id in hexadecimal; empty where it has none.
    pub build_id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Seconds that it ran.
    pub seconds: f64,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// Which plan it ran under: `record`.
    pub plan: String,
    /// What its traces hold.
    #[serde(flatten)]
    pub totals: Totals,
}

/// What the traces of a run hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Processes that left a trace.
    pub processes: usize,
    /// Threads.
    pub threads: usize,
    /// Events.
    pub events: u64,
    /// Bytes of event words: what threads wrote.
    pub bytes: u64,
    /// Bytes of the trace files.
    pub file_bytes: u64,
    /// Damaged places.
    pub damages: usize,
    /// Counters that are not zero, by their sentence.
    pub counters: BTreeMap<String, u64>,
}

impl Totals {
    /// Adds up a run.
    pub fn of(run: &Run) -> Totals {
        let mut totals = Totals { processes: run.processes.len(), ..Totals::default() };
        for process in &run.processes {
            let (file, summary) = (process.file(), process.summary());
            totals.threads += summary.threads.len();
            totals.events += summary.events;
            totals.bytes += summary.bytes;
            totals.file_bytes += file.len();
            totals.damages += file.damages().len();
            for (_, sentence, value) in file.header().counters() {
                *totals.counters.entry(sentence.to_owned()).or_default() += value;
            }
        }
        totals
    }
}

/// What is known of a run before it began.
#[derive(Clone, Debug)]
pub struct RunStart {
    /// The program's file, resolved.
    pub program: String,
    /// The program as it was given, and its arguments.
    pub argv: Vec<String>,
    /// The program's build-id in hexadecimal.
    pub build_id: String,
}

impl RunRecord {
    /// A record of the current version.
    pub fn new(
        id: u32,
        start: RunStart,
        outcome: Outcome,
        duration: Duration,
        started: u64,
        totals: Totals,
    ) -> RunRecord {
        let RunStart { program, argv, build_id } = start;
        let seconds = duration.as_secs_f64();
        RunRecord {
            version: VERSION,
            id,
            program,
            argv,
            build_id,
            outcome,
            seconds,
            started,
            plan: "record".into(),
            totals,
        }
    }

    /// Bytes of event words per event.
    pub fn bytes_per_event(&self) -> f64 {
        self.totals.bytes as f64 / self.totals.events.max(1) as f64
    }
}

/// A directory of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// A store to write to; its directories are made. The path is made absolute, because guests may run
    /// elsewhere.
    pub fn create(dir: &Path) -> Result<Store, StoreError> {
        let create = |source| StoreError::Create { path: dir.to_owned(), source };
        for part in ["runs", "survey"] {
            fs::create_dir_all(dir.join(part)).map_err(create)?;
        }
        let dir = dir.canonicalize().map_err(create)?;
        if dir.as_os_str().len() > LONGEST_DIR {
            return Err(StoreError::LongName { len: dir.as_os_str().len() });
        }
        // A directory that is there need not be writable.
        tempfile::tempfile_in(&dir).map_err(|source| StoreError::Create { path: dir.clone(), source })?;
        Ok(Store { dir })
    }

    /// A store to read from.
    pub fn open(dir: &Path) -> Store {
        Store { dir: dir.to_owned() }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where traces of programs started by hand go.
    pub fn direct_dir(&self) -> Result<PathBuf, StoreError> {
        let path = self.dir.join("direct");
        fs::create_dir_all(&path).map_err(|source| StoreError::Create { path: path.clone(), source })?;
        Ok(path)
    }

    /// Where surveys of programs started by hand go.
    pub fn direct_survey_dir(&self) -> Result<PathBuf, StoreError> {
        let path = self.dir.join("survey/direct");
        fs::create_dir_all(&path).map_err(|source| StoreError::Create { path: path.clone(), source })?;
        Ok(path)
    }

    /// The file for what surveys saw.
    pub fn survey_file(&self, key: &str) -> PathBuf {
        self.dir.join("survey").join(format!("{key}.survey"))
    }

    /// Makes a directory for the logs of a guard.
    pub fn new_guard(&self) -> Result<PathBuf, StoreError> {
        self.new_logs("guard")
    }

    /// Makes a directory for the logs of healing.
    pub fn new_heal(&self) -> Result<PathBuf, StoreError> {
        self.new_logs("heal")
    }

    fn new_logs(&self, name: &str) -> Result<PathBuf, StoreError> {
        let dir = self.dir.join(name);
        let create = |path: &Path, source| StoreError::Create { path: path.to_owned(), source };
        fs::create_dir_all(&dir).map_err(|source| create(&dir, source))?;
        for number in 1..=u32::MAX {
            let path = dir.join(format!("{number:04}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(create(&path, source)),
            }
        }
        Err(create(&dir, io::Error::from(io::ErrorKind::AlreadyExists)))
    }

    /// Makes a directory for a new run; its number is one above the greatest.
    pub fn new_run(&self) -> Result<(u32, PathBuf), StoreError> {
        let mut id = self.ids()?.last().copied().unwrap_or(0);
        loop {
            id = id.saturating_add(1);
            let path = self.run_dir(id);
            match fs::create_dir(&path) {
                Ok(()) => return Ok((id, path)),
                // Somebody else records into the same store.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && id < u32::MAX => {}
                Err(source) => return Err(StoreError::Create { path, source }),
            }
        }
    }

    /// The directory of a run.
    pub fn run_dir(&self, id: u32) -> PathBuf {
        self.dir.join("runs").join(format!("{id:04}"))
    }

    /// Takes the room for a run's record before the trace can take it all.
    pub fn reserve(&self, id: u32) -> Result<(), StoreError> {
        write_whole(&self.run_dir(id).join("run.json"), &[b' '; RECORD_ROOM])
    }

    /// Writes a run's record: into the room that was reserved where it fits, so that a full disk does not matter.
    pub fn save(&self, record: &RunRecord) -> Result<(), StoreError> {
        let path = self.run_dir(record.id).join("run.json");
        let write = |source| StoreError::Write { path: path.clone(), source };
        let mut text = serde_json::to_vec_pretty(record).map_err(|error| write(error.into()))?;
        text.push(b'\n');
        if text.len() > RECORD_ROOM {
            return write_whole(&path, &text);
        }
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(write)?;
        file.write_all(&text).map_err(write)?;
        file.set_len(text.len() as u64).map_err(write)
    }

    /// All runs that have a record, by number; and how many directories have none (a run that is still
    /// going on, or was killed together with us).
    pub fn runs(&self) -> Result<(Vec<RunRecord>, usize), StoreError> {
        let mut runs = Vec::new();
        let mut without = 0;
        for id in self.ids()? {
            match self.record(id) {
                Some(record) => runs.push(record),
                None => without += 1,
            }
        }
        Ok((runs, without))
    }

    /// A run's record.
    pub fn record(&self, id: u32) -> Option<RunRecord> {
        let text = fs::read(self.run_dir(id).join("run.json")).ok()?;
        let record: RunRecord = serde_json::from_slice(&text).ok()?;
        (record.version == VERSION).then_some(record)
    }

    /// What a user means by a run: its number here, a run directory, or a trace file.
    pub fn find(&self, run: &str) -> Result<PathBuf, StoreError> {
        if let Ok(id) = run.parse() {
            let path = self.run_dir(id);
            if path.is_dir() {
                return Ok(path);
            }
        }
        let path = PathBuf::from(run);
        if path.exists() {
            return Ok(path);
        }
        Err(StoreError::NoRun { id: run.to_owned(), dir: self.dir.clone() })
    }

    /// The greatest run number.
    pub fn latest(&self) -> Result<Option<u32>, StoreError> {
        Ok(self.ids()?.last().copied())
    }

    fn ids(&self) -> Result<Vec<u32>, StoreError> {
        let path = self.dir.join("runs");
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(StoreError::Read { path, source }),
        };
        let mut ids: Vec<u32> =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }
}

/// Writes a file so that a reader sees all of it or nothing.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let error = |source| StoreError::Write { path: path.to_owned(), source };
    let dir = path.parent().unwrap_or(Path::new("."));
    let readable = fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new().permissions(readable).tempfile_in(dir).map_err(error)?;
    file.write_all(bytes).map_err(error)?;
    file.persist(path).map_err(|failed| error(failed.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u32) -> RunRecord {
        let start = RunStart { program: "/bin/p".into(), argv: vec!["p".into(), "-x".into()], build_id: "ab".into() };
        let totals = Totals { processes: 1, threads: 2, events: 10, bytes: 90, ..Totals::default() };
        RunRecord::new(id, start, Outcome::of_signal(6), Duration::from_millis(1500), 7, totals)
    }

    #[test]
    fn runs_are_numbered_saved_and_found() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = Store::create(&dir.path().join("deep/store")).expect("created");
        let (first, path) = store.new_run().expect("made");
        assert_eq!((first, path.file_name().and_then(|name| name.to_str())), (1, Some("0001")));
        store.save(&record(1)).expect("saved");
        assert_eq!(store.new_run().expect("made").0, 2);
        assert_eq!(store.runs().expect("listed"), (vec![record(1)], 1));
        assert_eq!(store.find("1").expect("found"), path);
        assert_eq!(store.find(path.to_str().expect("text")).expect("found"), path);
        let error = store.find("77").expect_err("no such run").to_string();
        assert!(error.contains("no run 77") && error.contains("selvedge runs"), "{error}");
        assert!((record(1).bytes_per_event() - 9.0).abs() < 1e-9);
    }

    #[test]
    fn an_empty_store_has_no_runs_and_foreign_records_are_not_runs() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(Store::open(dir.path()).runs().expect("listed"), (vec![], 0));
        let store = Store::create(dir.path()).expect("created");
        let (id, path) = store.new_run().expect("made");
        let mut newer = record(id);
        newer.version = VERSION + 1;
        store.save(&newer).expect("saved");
        assert_eq!(store.record(id), None);
        fs::write(path.join("run.json"), "{").expect("written");
        assert_eq!(store.record(id), None);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_said_with_the_remedy() {
        let error = Store::create(Path::new("/proc/none")).expect_err("not writable").to_string();
        assert!(error.contains("--out DIR"), "{error}");
    }
}
