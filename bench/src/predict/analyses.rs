//! What is measured. A new analysis is a line of the table.

use selvedge_analyze::History;

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
pub const ANALYSES: &[Analysis] =
    &[Analysis { key: "read", bars: [None, Some(4e6)], run: |history| usize::from(!history.is_empty()) }];
