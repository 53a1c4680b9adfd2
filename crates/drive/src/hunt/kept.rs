//! A hunt that is kept: what was recorded and what became of predictions so far, so that a hunt can go on where it was.
//!
//! A hunt has a directory of its own in the store. Recorded runs are there from the moment that they end, verdicts are lines
//! that are only ever added. What cannot be read is passed over: it is made again.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use selvedge_events::{ModuleIx, SiteId, ThreadIx};
use selvedge_trace::{Place, Run};
use serde::{Deserialize, Serialize};

use crate::clip::Clip;
use crate::confirm::{Happened, Refuted, Shown, Verdict};
use crate::course::Position;
use crate::hunt::{Recorded, Tried};
use crate::store::{Store, write_whole};

/// Version of the files.
///
/// 1: first.
pub const VERSION: u32 = 1;

/// How the hunt was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// [`VERSION`].
    pub version: u32,
    /// The words behind `selvedge`.
    pub words: Vec<String>,
    /// Where.
    pub dir: PathBuf,
}

/// A hunt's own directory.
#[derive(Debug)]
pub struct Kept {
    dir: PathBuf,
    known: BTreeMap<String, KeptVerdict>,
    /// Where the next verdict goes.
    verdicts: Mutex<File>,
}

/// What became of a prediction.
#[derive(Clone, Debug)]
pub struct KeptVerdict {
    /// The recorded run of the instance that was tried.
    pub run: usize,
    /// The numbers of its events there.
    pub events: Vec<u64>,
    /// What became of it.
    pub verdict: Verdict,
}

/// A verdict on disk.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    run: usize,
    events: Vec<u64>,
    #[serde(flatten)]
    verdict: SavedVerdict,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SavedVerdict {
    Confirmed { clip: PathBuf, numbers: Vec<u64>, never: Option<SavedPosition>, runs: u32, first_try: bool },
    Refuted(String),
}

#[derive(Serialize, Deserialize)]
struct SavedPosition {
    thread: u32,
    operation: u32,
    site: Option<u32>,
    code: Option<(u32, u32)>,
}

/// What is known of a recorded run beside its clip and trace.
#[derive(Serialize, Deserialize)]
struct SavedRun {
    nanos: u64,
}

const ASKED: &str = "hunt.json";
const VERDICTS: &str = "verdicts.jsonl";
const CLIP: &str = "run.clip";
const RUN: &str = "run.hunt.json";

impl Kept {
    /// A new hunt.
    pub fn begin(store: &Store, asked: &Asked) -> io::Result<Kept> {
        let all = store.dir().join("hunts");
        std::fs::create_dir_all(&all)?;
        let mut number = numbers(&all)?.last().map_or(1, |last| last + 1);
        let dir = loop {
            let dir = all.join(number.to_string());
            match std::fs::create_dir(&dir) {
                Ok(()) => break dir,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        };
        let text = serde_json::to_vec_pretty(asked)?;
        write_whole(&dir.join(ASKED), &text).map_err(io::Error::other)?;
        Kept::open(dir)
    }

    /// The latest hunt of a store that has something left to do, and how it was asked for.
    pub fn latest(store: &Store) -> io::Result<Option<(Kept, Asked)>> {
        let all = store.dir().join("hunts");
        for number in numbers(&all)?.into_iter().rev() {
            let dir = all.join(number.to_string());
            let text = std::fs::read(dir.join(ASKED)).unwrap_or_default();
            let asked = serde_json::from_slice::<Asked>(&text).ok().filter(|asked| asked.version == VERSION);
            if let Some(asked) = asked {
                return Ok(Some((Kept::open(dir)?, asked)));
            }
        }
        Ok(None)
    }

    fn open(dir: PathBuf) -> io::Result<Kept> {
        let path = dir.join(VERDICTS);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let known = lines.filter_map(|line| {
            let verdict = line.verdict.read(&dir)?;
            Some((line.key, KeptVerdict { run: line.run, events: line.events, verdict }))
        });
        let known = known.collect();
        let verdicts = Mutex::new(OpenOptions::new().create(true).append(true).open(path)?);
        Ok(Kept { dir, known, verdicts })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the run with this number is recorded.
    pub fn run_dir(&self, number: u32) -> PathBuf {
        self.dir.join(format!("recorded-{number}"))
    }

    /// The run with this number, if it was recorded before.
    pub fn recorded(&self, number: u32) -> Option<Recorded> {
        let dir = self.run_dir(number);
        let saved: SavedRun = serde_json::from_slice(&std::fs::read(dir.join(RUN)).ok()?).ok()?;
        let clip = Clip::load(&dir.join(CLIP)).ok()?;
        clip.check_build().ok()?;
        let run = Run::open(&dir).ok()?;
        let events = run.processes.iter().map(|process| process.summary().events).sum();
        Some(Recorded { clip, run, events, duration: Duration::from_nanos(saved.nanos) })
    }

    /// Keeps a run that was recorded in its directory.
    pub fn keep_run(&self, number: u32, recorded: &Recorded) -> io::Result<()> {
        let dir = self.run_dir(number);
        recorded.clip.save(&dir.join(CLIP)).map_err(io::Error::other)?;
        let nanos = u64::try_from(recorded.duration.as_nanos()).unwrap_or(u64::MAX);
        write_whole(&dir.join(RUN), &serde_json::to_vec(&SavedRun { nanos })?).map_err(io::Error::other)
    }

    /// What became of a prediction.
    pub fn verdict(&self, key: &str) -> Option<&KeptVerdict> {
        self.known.get(key)
    }

    /// How many verdicts were there when it was opened.
    pub fn verdicts(&self) -> usize {
        self.known.len()
    }

    /// Keeps what became of a prediction, if it was tried.
    pub fn keep(&self, key: &str, tried: &Tried) -> io::Result<()> {
        let Some(verdict) = &tried.verdict else { return Ok(()) };
        self.keep_verdict(key, (tried.run, &tried.events), verdict)
    }

    fn keep_verdict(&self, key: &str, (run, events): (usize, &[u64]), verdict: &Verdict) -> io::Result<()> {
        let verdict = SavedVerdict::write(verdict, &self.dir, key)?;
        let line = Line { key: key.to_owned(), run, events: events.to_vec(), verdict };
        let mut line = serde_json::to_vec(&line)?;
        line.push(b'\n');
        let mut file = self.verdicts.lock().map_err(|_| io::Error::other("a thread ended while it wrote"))?;
        file.write_all(&line)
    }

    /// Ends a hunt that has nothing left to do: its files go.
    pub fn finish(self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.dir)
    }
}

/// Numbers of the hunts in a directory, ascending.
fn numbers(dir: &Path) -> io::Result<Vec<u32>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_string_lossy().parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

impl SavedVerdict {
    fn write(verdict: &Verdict, dir: &Path, key: &str) -> io::Result<SavedVerdict> {
        let happened = match verdict {
            Verdict::Refuted(why) => return Ok(SavedVerdict::Refuted(why.name().to_owned())),
            Verdict::Confirmed(happened) => happened,
        };
        let clip = PathBuf::from(format!("{:016x}.clip", selvedge_events::bytes::checksum(key.as_bytes())));
        happened.clip.save(&dir.join(&clip)).map_err(io::Error::other)?;
        Ok(SavedVerdict::Confirmed {
            clip,
            numbers: happened.shown.numbers.clone(),
            never: happened.shown.never.map(SavedPosition::from),
            runs: happened.runs,
            first_try: happened.first_try,
        })
    }

    fn read(self, dir: &Path) -> Option<Verdict> {
        match self {
            SavedVerdict::Refuted(name) => {
                Refuted::ALL.into_iter().find(|why| why.name() == name).map(Verdict::Refuted)
            }
            SavedVerdict::Confirmed { clip, numbers, never, runs, first_try } => {
                let clip = Clip::load(&dir.join(clip)).ok()?;
                let shown = Shown { numbers, never: never.map(Position::from) };
                Some(Verdict::Confirmed(Box::new(Happened { clip, shown, runs, first_try })))
            }
        }
    }
}

impl From<Position> for SavedPosition {
    fn from(at: Position) -> SavedPosition {
        let (site, code) = match at.place {
            Place::Site(site) => (Some(site.0), None),
            Place::Code { module, offset } => (None, Some((module.0, offset))),
            _ => (None, None),
        };
        SavedPosition { thread: at.thread.0, operation: at.operation, site, code }
    }
}

impl From<SavedPosition> for Position {
    fn from(saved: SavedPosition) -> Position {
        let place = match (saved.site, saved.code) {
            (Some(site), _) => Place::Site(SiteId(site)),
            (None, Some((module, offset))) => Place::Code { module: ModuleIx(module), offset },
            (None, None) => Place::Unknown,
        };
        Position { thread: ThreadIx(saved.thread), operation: saved.operation, place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_back() {
        for place in [Place::Unknown, Place::Site(SiteId(7)), Place::Code { module: ModuleIx(1), offset: 0x40 }] {
            let at = Position { thread: ThreadIx(3), operation: 9, place };
            assert_eq!(Position::from(SavedPosition::from(at)), at);
        }
    }

    #[test]
    fn verdicts_are_added_and_what_is_broken_is_passed_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::create(dir.path()).expect("a store");
        assert!(Kept::latest(&store).expect("readable").is_none());
        let asked = Asked { version: VERSION, words: vec!["hunt".into(), "./p".into()], dir: "/tmp".into() };
        let kept = Kept::begin(&store, &asked).expect("kept");
        kept.keep_verdict("a", (2, &[5, 6]), &Verdict::Refuted(Refuted::Diverged)).expect("kept");
        let path = kept.dir().join(VERDICTS);
        let mut text = std::fs::read_to_string(&path).expect("text");
        text.push_str("{\"key\":\"b\",\"inst");
        std::fs::write(&path, text).expect("written");
        let (again, how) = Kept::latest(&store).expect("readable").expect("there");
        assert_eq!((how, again.verdicts()), (asked, 1));
        let known = again.verdict("a").expect("there");
        assert!(matches!(known.verdict, Verdict::Refuted(Refuted::Diverged)));
        assert_eq!((known.run, &known.events[..]), (2, &[5, 6][..]));
        assert!(again.verdict("b").is_none() && again.recorded(0).is_none());
        again.finish().expect("gone");
        assert!(Kept::latest(&store).expect("readable").is_none());
    }
}
