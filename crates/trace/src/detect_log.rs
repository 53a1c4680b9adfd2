//! What a watched run left: the races that the runtime saw, near misses, and what came of each site. Owned, because a log is
//! read once and its file is thrown away.

use std::io;
use std::path::{Path, PathBuf};

use selvedge_events::detect::{
    BranchHits, Hits, LOG_COUNTERS_ALL, LOG_PREFIX, Log, LogCounter, NearMiss, Race, Side, UNSEEN, Violation,
};

/// An image that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedImage {
    /// Where offsets count from.
    pub base: u64,
    /// First address after it.
    pub end: u64,
    /// Its build-id.
    pub build_id: Vec<u8>,
    /// Its file.
    pub path: PathBuf,
}

/// One side of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActSide {
    /// The first byte.
    pub addr: u64,
    /// How many.
    pub size: u32,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it is an atomic operation.
    pub atomic: bool,
    /// The armed id; `None` where nobody was seen.
    pub site: Option<u32>,
    /// The thread.
    pub thread: u32,
    /// What was there just before, up to eight bytes.
    pub value: u64,
    /// Return addresses, innermost first; the first is the access's own. May be empty.
    pub frames: Vec<u64>,
    /// Locks held, innermost first: address, and the address where it was taken.
    pub locks: Vec<(u64, u64)>,
}

/// A race that was seen in the act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActRace {
    /// How often.
    pub count: u32,
    /// What the value was and became while the first side waited.
    pub values: Option<(u64, u64)>,
    /// The heap block: where it was allocated, its address and size.
    pub block: Option<(u64, u64, u64)>,
    /// The one that had announced itself, and the one that came.
    pub sides: [ActSide; 2],
}

/// An atomic section that was broken, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActViolation {
    /// How often.
    pub count: u32,
    /// Which way through which section; [`selvedge_events::detect::ANNOTATED`].
    pub branch: u32,
    /// How it began: nothing is known of the stack. The value is the one just before.
    pub begin: ActSide,
    /// The heap block: where it was allocated, its address and size.
    pub block: Option<(u64, u64, u64)>,
    /// Who came between, and who ended the section.
    pub sides: [ActSide; 2],
}

/// A log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectLog {
    /// Whose.
    pub pid: u32,
    /// The noise's seed.
    pub seed: u64,
    /// Races.
    pub races: Vec<ActRace>,
    /// Broken sections.
    pub violations: Vec<ActViolation>,
    /// What came of each branch of the checked sections.
    pub branches: Vec<BranchHits>,
    /// Near misses.
    pub nears: Vec<NearMiss>,
    /// What came of each id.
    pub hits: Vec<Hits>,
    /// Images.
    pub images: Vec<LoadedImage>,
    /// Counters, in their order.
    pub counters: Vec<u64>,
}

impl DetectLog {
    /// Reads a log's bytes; `None` where they are none.
    pub fn of(bytes: &[u8]) -> Option<DetectLog> {
        let log = Log::parse(bytes)?;
        let mut races: Vec<ActRace> = log.races().map(|race| race_of(&race)).collect();
        races.sort_by_key(|race| race.sides.each_ref().map(|side| side.site));
        let mut violations: Vec<ActViolation> = log.violations().map(|violation| violation_of(&violation)).collect();
        violations.sort_by_key(|one| (one.begin.site, one.sides.each_ref().map(|side| side.site)));
        let mut nears: Vec<NearMiss> = log.nears().collect();
        nears.sort_by_key(|near| near.sites);
        let image = |module: selvedge_events::detect::LogModule<'_>| LoadedImage {
            base: module.base,
            end: module.end,
            build_id: module.build_id.to_vec(),
            path: PathBuf::from(String::from_utf8_lossy(module.path).into_owned()),
        };
        Some(DetectLog {
            pid: log.pid,
            seed: log.seed,
            races,
            violations,
            branches: log.branches().collect(),
            nears,
            hits: log.hits().collect(),
            images: log.modules().map(image).collect(),
            counters: LOG_COUNTERS_ALL.iter().map(|(counter, ..)| log.counter(*counter)).collect(),
        })
    }

    /// All logs of a directory, one for each process, by their file names.
    pub fn all_in(dir: &Path) -> io::Result<Vec<DetectLog>> {
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LOG_PREFIX)) {
                files.push(path);
            }
        }
        files.sort();
        let mut logs = Vec::new();
        for file in files {
            logs.extend(DetectLog::of(&std::fs::read(file)?));
        }
        Ok(logs)
    }

    /// A counter.
    pub fn counter(&self, counter: LogCounter) -> u64 {
        self.counters.get(counter as usize).copied().unwrap_or(0)
    }
}

fn race_of(race: &Race<'_>) -> ActRace {
    let (pc, block, size) = race.block;
    ActRace {
        count: race.count,
        values: race.values,
        block: (block != 0).then_some((pc, block, size)),
        sides: race.sides.each_ref().map(side_of),
    }
}

fn violation_of(violation: &Violation<'_>) -> ActViolation {
    let (pc, block, size) = violation.block;
    let [between, end] = violation.sides.each_ref().map(side_of);
    ActViolation {
        count: violation.count,
        branch: violation.branch,
        begin: ActSide {
            addr: violation.addr,
            size: violation.size,
            writes: violation.writes,
            atomic: violation.atomic,
            site: Some(violation.entry),
            thread: end.thread,
            value: violation.value,
            frames: Vec::new(),
            locks: Vec::new(),
        },
        block: (block != 0).then_some((pc, block, size)),
        sides: [between, end],
    }
}

fn side_of(side: &Side<'_>) -> ActSide {
    ActSide {
        addr: side.addr,
        size: side.size,
        writes: side.writes,
        atomic: side.atomic,
        site: Some(side.site).filter(|site| *site != UNSEEN),
        thread: side.thread,
        value: side.value,
        frames: side.frames().collect(),
        locks: side.locks().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_log_is_none_and_an_empty_one_is_empty() {
        assert_eq!(DetectLog::of(b"SLVDTLO"), None);
        let mut bytes = vec![0_u8; 4096];
        bytes[..8].copy_from_slice(&selvedge_events::detect::LOG_MAGIC);
        bytes[8] = 2;
        bytes[16] = 7;
        let log = DetectLog::of(&bytes).expect("a log");
        assert_eq!((log.pid, log.races.len(), log.counter(LogCounter::Races)), (7, 0, 0));
    }
}
