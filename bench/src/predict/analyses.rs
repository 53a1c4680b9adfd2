//! What is measured. A new analysis is a line of the table.

use selvedge_analyze::{History, deadlock, predict, serializability, sound};

/// One analysis.
#[derive(Debug, Clone, Copy)]
pub struct Analysis {
    /// Its name on the command line, in the table and in raw results.
    pub key: &'static str,
    /// Events a second that it has to reach from our own format and from RAPID's text, where the design says so; reading
    /// is included.
    pub bars: [Option<f64>; 2],
    /// Runs it; how much it found.
    pub run: fn(&History) -> usize,
}

/// All analyses, in the order of the table. The first is reading alone.
pub const ANALYSES: &[Analysis] = &[
    Analysis { key: "read", bars: [None, Some(4e6)], run: |history| usize::from(!history.is_empty()) },
    Analysis { key: "shb", bars: [Some(5e6), Some(2e6)], run: |history| sound::shb::races(history).len() },
    Analysis {
        key: "sync-preserving",
        bars: [Some(1e6), Some(0.7e6)],
        run: |history| sound::sync_preserving::races(history).len(),
    },
    Analysis {
        key: "all patterns",
        bars: [Some(0.5e6), None],
        run: |history| predict::predict(history, &predict::Options::default()).candidates.len(),
    },
    Analysis {
        key: "deadlocks",
        bars: [None, None],
        run: |history| deadlock::deadlocks(history, &deadlock::Options::default()).predictions.len(),
    },
    Analysis {
        key: "serializability",
        bars: [None, None],
        run: |history| serializability::violations(history, &serializability::Options::default()).predictions.len(),
    },
];
