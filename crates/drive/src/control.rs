//! The driver's side of a control file: asks for a controlled run, and reads what became of it. The layout is
//! `events::control`'s. Reading and writing go through the file, which the runtime has mapped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use selvedge_events::bytes::{array_at, u32_at, u64_at};
use selvedge_events::control::{self as layout, DivergenceKind, LogMode, NOBODY, RunState, SeatState, at, seat};
use selvedge_events::{SiteId, ThreadIx};
use selvedge_sched::{LoggedPoint, OpKind, Spec, Step};

use crate::plan::Control;

/// What a controlled run is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlRequest {
    /// The strategy.
    pub spec: Spec,
    /// The schedule of a replay.
    pub script: Vec<Step>,
    /// Which choices are logged.
    pub log: Log,
    /// More steps than this are a hang.
    pub most_steps: u64,
    /// A thread and its point at which the run stops.
    pub until: Option<(ThreadIx, u32)>,
    /// What the world looks like.
    pub world: World,
}

/// Which choices are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Those that differ from the default policy.
    Switches,
    /// Every one.
    All,
}

/// What the world looks like to a controlled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct World {
    /// Whether clocks show virtual time.
    pub virtual_time: bool,
    /// The seed of virtual random sources; `None` leaves them real.
    pub random: Option<u64>,
    /// One wait on a condition in so many ends for no reason; 0 for none.
    pub spurious: u32,
    /// Whether time-outs may fire while others could still run.
    pub eager_timeouts: bool,
    /// What the wall clock shows at the start, in nanoseconds.
    pub wall_ns: u64,
}

impl Default for World {
    fn default() -> World {
        // A fixed morning: two runs of one schedule must see the same clock.
        World {
            virtual_time: true,
            random: Some(0),
            spurious: 0,
            eager_timeouts: false,
            wall_ns: 1_767_225_600_000_000_000,
        }
    }
}

/// What became of a controlled run.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// How far it came.
    pub state: RunState,
    /// Choices made.
    pub steps: u64,
    /// A digest of all of them: equal for equal runs.
    pub digest: u64,
    /// The logged choices.
    pub log: Vec<LoggedPoint>,
    /// Choices that the log had no room for.
    pub lost: u64,
    /// Where the replay went another way.
    pub divergence: Option<DivergedAt>,
    /// How often the run differed from its schedule.
    pub divergences: u32,
    /// Switches of the schedule that were not met.
    pub unmet: u32,
    /// Times that a thread was seen to block where the model does not look.
    pub hidden_blocks: u64,
    /// Hooks in signal handlers that could not be points.
    pub handlers_outside: u64,
    /// The thread that ran last.
    pub running: Option<ThreadIx>,
    /// The threads as they were at the end.
    pub threads: Vec<Seat>,
}

impl Answer {
    /// Of a run that never began.
    pub fn empty() -> Answer {
        Answer {
            state: RunState::Idle,
            steps: 0,
            digest: 0,
            log: Vec::new(),
            lost: 0,
            divergence: None,
            divergences: 0,
            unmet: 0,
            hidden_blocks: 0,
            handlers_outside: 0,
            running: None,
            threads: Vec::new(),
        }
    }
}

/// The first place where a replay differed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivergedAt {
    /// How.
    pub kind: u32,
    /// The step.
    pub step: u64,
    /// The thread.
    pub thread: ThreadIx,
    /// Its point.
    pub point: u32,
    /// What was expected there.
    pub expected: (OpKind, SiteId),
    /// What came.
    pub came: (OpKind, SiteId),
}

impl DivergedAt {
    /// The kind, where this version knows it.
    pub fn how(&self) -> Option<DivergenceKind> {
        [DivergenceKind::NotEnabled, DivergenceKind::Unexpected, DivergenceKind::Passed]
            .into_iter()
            .find(|kind| *kind as u32 == self.kind)
    }
}

/// A thread as it was at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Which.
    pub thread: ThreadIx,
    /// What it did.
    pub state: SeatState,
    /// The operation that it was about to do, or waited in.
    pub kind: OpKind,
    /// Where, for an access.
    pub site: Option<SiteId>,
    /// Points passed.
    pub points: u32,
    /// The operation that it was about to do or waited in, from 1.
    pub operation: u32,
    /// The interposed function + 1; 0 for an access.
    pub slot: u32,
    /// What it was about.
    pub object: u64,
    /// The caller, as module and offset.
    pub pc: u64,
    /// Whether a time limits the wait.
    pub timed: bool,
    /// Locks that it holds: object and caller.
    pub held: Vec<(u64, u64)>,
}

/// Bytes of the header that are in use.
const ASKED: usize = 256;

/// A control file.
#[derive(Debug)]
pub struct ControlFile {
    file: File,
    path: PathBuf,
    capacity: u64,
}

impl ControlFile {
    /// Makes a control file; it takes disk only for what is used of it.
    pub fn create(path: &Path, log_capacity: u64) -> io::Result<ControlFile> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        // The runtime wants room for at least one entry.
        let log_capacity = log_capacity.max(1);
        file.set_len(layout::file_len(usize::try_from(log_capacity).unwrap_or(usize::MAX)) as u64)?;
        let mut header = [0; 128];
        put(&mut header, 0, &layout::MAGIC);
        put(&mut header, at::VERSION, &layout::VERSION.to_le_bytes());
        put(&mut header, at::HEADER_LEN, &(layout::HEADER as u32).to_le_bytes());
        file.write_all_at(&header, 0)?;
        Ok(ControlFile { file, path: path.to_owned(), capacity: log_capacity })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How a plan without a server names this file.
    pub fn in_plan(&self) -> Control {
        Control { file: self.path.as_os_str().as_encoded_bytes().to_vec(), server: None }
    }

    /// Says what the next run is to do. `server` is set where a fork server makes it.
    pub fn ask(&self, request: &ControlRequest, server: bool) -> io::Result<()> {
        let mut header = [0; ASKED];
        let world = &request.world;
        let flags = [
            (world.virtual_time, layout::FLAG_VIRTUAL_TIME),
            (world.random.is_some(), layout::FLAG_VIRTUAL_RANDOM),
            (server, layout::FLAG_SERVER),
            (world.eager_timeouts, layout::FLAG_EAGER_TIMEOUTS),
        ];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0_u32, |sum, (_, flag)| sum | flag);
        let log = match request.log {
            Log::Switches => LogMode::Switches,
            Log::All => LogMode::All,
        };
        let count = request.script.len().min(layout::SWITCHES);
        let (until_thread, until_point) = request.until.map_or((NOBODY, 0), |(thread, point)| (thread.0, point));
        put(&mut header, at::FLAGS, &flags.to_le_bytes());
        put(&mut header, at::LOG_MODE, &(log as u32).to_le_bytes());
        put(&mut header, at::STRATEGY, &request.spec.to_bytes());
        put(&mut header, at::SWITCHES, &(count as u64).to_le_bytes());
        put(&mut header, at::MOST_STEPS, &request.most_steps.to_le_bytes());
        put(&mut header, at::UNTIL_THREAD, &until_thread.to_le_bytes());
        put(&mut header, at::UNTIL_POINT, &until_point.to_le_bytes());
        put(&mut header, at::SPURIOUS, &world.spurious.to_le_bytes());
        put(&mut header, at::WALL_BASE, &world.wall_ns.to_le_bytes());
        put(&mut header, at::MONO_BASE, &1_000_000_000_000_u64.to_le_bytes());
        put(&mut header, at::LOG_CAPACITY, &self.capacity.to_le_bytes());
        put(&mut header, at::SEED, &world.random.unwrap_or(request.spec.seed).to_le_bytes());
        put(&mut header, at::UNMET, &(count as u32).to_le_bytes());
        // Whoever sat there in the last run has left.
        let mut threads = [0; 4];
        self.file.read_exact_at(&mut threads, at::THREADS as u64)?;
        let used = (u32::from_le_bytes(threads) as usize).min(layout::SEATS);
        self.file.write_all_at(&vec![0; used * layout::SEAT], layout::HEADER as u64)?;
        // Past what `create` wrote; the zeroes in between say that no run has begun.
        let asked = header.get(at::FLAGS..).unwrap_or(&[]);
        self.file.write_all_at(asked, at::FLAGS as u64)?;
        if count > 0 {
            let packed: Vec<u8> = request.script.iter().take(count).flat_map(Step::to_bytes).collect();
            self.file.write_all_at(&packed, layout::SWITCHES_AT as u64)?;
        }
        Ok(())
    }

    /// What became of the run.
    pub fn answer(&self) -> io::Result<Answer> {
        let mut header = [0; ASKED];
        self.file.read_exact_at(&mut header, 0)?;
        let word = |at| u32_at(&header, at).unwrap_or(0);
        let long = |at| u64_at(&header, at).unwrap_or(0);
        let logged = usize::try_from(long(at::LOG_LEN).min(self.capacity)).unwrap_or(0);
        let mut packed = vec![0; logged * layout::STEP];
        self.file.read_exact_at(&mut packed, layout::LOG_AT as u64)?;
        let row = |number| array_at(&packed, number * layout::STEP).map(|row| LoggedPoint::from_bytes(&row));
        let divergence = (word(at::DIVERGENCES) > 0).then(|| DivergedAt {
            kind: word(at::DIVERGENCE_KIND),
            step: long(at::DIVERGENCE_STEP),
            thread: ThreadIx(word(at::DIVERGENCE_THREAD)),
            point: word(at::DIVERGENCE_POINT),
            expected: (OpKind::from_u8(word(at::EXPECTED_KIND) as u8), SiteId(word(at::EXPECTED_SITE))),
            came: (OpKind::from_u8(word(at::CAME_KIND) as u8), SiteId(word(at::CAME_SITE))),
        });
        Ok(Answer {
            state: RunState::from_u32(word(at::STATE)).unwrap_or(RunState::Idle),
            steps: long(at::STEPS),
            digest: long(at::DIGEST),
            log: (0..logged).filter_map(row).collect(),
            lost: long(at::LOG_LOST),
            divergence,
            divergences: word(at::DIVERGENCES),
            unmet: word(at::UNMET),
            hidden_blocks: long(at::HIDDEN_BLOCKS),
            handlers_outside: long(at::HANDLERS_OUTSIDE),
            running: Some(word(at::RUNNING)).filter(|thread| *thread != NOBODY).map(ThreadIx),
            threads: self.seats(word(at::THREADS))?,
        })
    }

    fn seats(&self, count: u32) -> io::Result<Vec<Seat>> {
        let count = (count as usize).min(layout::SEATS);
        let mut rows = vec![0; count * layout::SEAT];
        self.file.read_exact_at(&mut rows, layout::HEADER as u64)?;
        Ok((0_u32..).zip(rows.chunks_exact(layout::SEAT)).map(|(thread, row)| seat_of(ThreadIx(thread), row)).collect())
    }
}

fn seat_of(thread: ThreadIx, row: &[u8]) -> Seat {
    let word = |at| u32_at(row, at).unwrap_or(0);
    let long = |at| u64_at(row, at).unwrap_or(0);
    let held = (word(seat::HELD) as usize).min(seat::LOCKS_MOST);
    Seat {
        thread,
        state: SeatState::from_u32(word(seat::STATE)).unwrap_or(SeatState::Empty),
        kind: OpKind::from_u8(word(seat::KIND) as u8),
        site: Some(word(seat::SITE)).filter(|site| *site != seat::NO_SITE).map(SiteId),
        points: word(seat::POINTS),
        operation: word(seat::OPERATIONS),
        slot: word(seat::SLOT),
        object: long(seat::OBJECT),
        pc: long(seat::PC),
        timed: long(seat::DEADLINE) != u64::MAX,
        held: (0..held).map(|at| (long(seat::LOCKS + at * 16), long(seat::LOCKS + at * 16 + 8))).collect(),
    }
}

fn put(header: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(field) = header.get_mut(at..at + bytes.len()) {
        field.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_file_says_that_nothing_ran_and_keeps_what_was_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = ControlFile::create(&dir.path().join("control"), 4).expect("made");
        let request = ControlRequest {
            spec: Spec { seed: 7, ..Spec::default() },
            script: vec![Step::from_bytes(&[1; 16])],
            log: Log::All,
            most_steps: 9,
            until: Some((ThreadIx(1), 2)),
            world: World { spurious: 3, ..World::default() },
        };
        file.ask(&request, true).expect("asked");
        let answer = file.answer().expect("answered");
        // Until it is met, the one switch counts as not met.
        assert_eq!(answer, Answer { unmet: 1, running: Some(ThreadIx(0)), ..Answer::empty() });
        let bytes = std::fs::read(file.path()).expect("readable");
        assert_eq!(bytes.len(), layout::file_len(4));
        assert_eq!(bytes.get(..8), Some(&layout::MAGIC[..]));
        let word = |at| u32_at(&bytes, at);
        assert_eq!((word(at::UNTIL_THREAD), word(at::UNTIL_POINT), word(at::SPURIOUS)), (Some(1), Some(2), Some(3)));
        let spec: [u8; Spec::BYTES] = array_at(&bytes, at::STRATEGY).expect("there");
        assert_eq!(Spec::from_bytes(&spec), Some(request.spec));
        let script: [u8; 16] = array_at(&bytes, layout::SWITCHES_AT).expect("there");
        assert_eq!(Step::from_bytes(&script), request.script[0]);
    }
}
