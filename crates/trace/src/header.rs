//! The header page of a trace file.

use selvedge_events::bytes::{array_at, u32_at, u64_at};
use selvedge_events::counters::{COUNTERS, Counter};
use selvedge_events::trace_file::{self as layout, at};

use crate::read::OpenTraceError;

/// The file header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub ppid: u32,
    /// First counter reading and the monotonic nanoseconds of that instant.
    pub start: (u64, u64),
    /// The first offset that the process had not claimed.
    pub next: u64,
    /// Latest counter reading and the monotonic nanoseconds of that instant.
    pub last: (u64, u64),
    /// Wall clock at the start, in nanoseconds.
    pub wall_ns: u64,
    /// `FLAG_…` of the layout.
    pub flags: u32,
    /// The plan's `observe`.
    pub observe: u8,
    /// Threads made so far.
    pub threads: u32,
    /// log2 of the time unit in counter ticks.
    pub tick_shift: u32,
    counters: Vec<u64>,
}

impl Header {
    /// Whether the run was made under control: times are then event numbers, in one order over all threads.
    pub fn is_controlled(&self) -> bool {
        self.flags & layout::FLAG_CONTROLLED != 0
    }

    /// A counter's value.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize).copied().unwrap_or(0)
    }

    /// The counters that are not zero, with their sentences.
    pub fn counters(&self) -> impl Iterator<Item = (Counter, &'static str, u64)> + '_ {
        let all = COUNTERS.iter().map(|(counter, _, text)| (*counter, *text, self.counter(*counter)));
        all.filter(|(_, _, value)| *value > 0)
    }

    pub(crate) fn parse(page: &[u8]) -> Result<Header, OpenTraceError> {
        let short = || OpenTraceError::Short { have: page.len() as u64 };
        let magic: [u8; 8] = array_at(page, 0).ok_or_else(short)?;
        if magic != layout::MAGIC {
            return Err(OpenTraceError::Magic);
        }
        let found = u32_at(page, at::VERSION).ok_or_else(short)?;
        if found != layout::VERSION {
            return Err(OpenTraceError::Version { found });
        }
        if page.len() < layout::HEADER {
            return Err(short());
        }
        let word = |at| u64_at(page, at).unwrap_or(0);
        let half = |at| u32_at(page, at).unwrap_or(0);
        Ok(Header {
            pid: half(at::PID),
            ppid: half(at::PPID),
            start: (word(at::START_TSC), word(at::START_NS)),
            next: word(at::NEXT),
            last: (word(at::LAST_TSC), word(at::LAST_NS)),
            wall_ns: word(at::WALL_NS),
            flags: half(at::FLAGS),
            observe: page.get(at::OBSERVE).copied().unwrap_or(0),
            threads: half(at::THREADS),
            tick_shift: half(at::TICK_SHIFT),
            counters: (0..COUNTERS.len()).map(|ix| word(at::COUNTERS + 8 * ix)).collect(),
        })
    }
}
