//! The bars that the design sets, checked against what was measured. A miss is shown with its figure.
//!
//! Here are the bars on the disarmed binary, on recording and on guards; those on detect and the analyses need
//! those commands and have measurements of their own.

use serde::Serialize;

use crate::measure::Measured;
use crate::rows::Class;

/// The most bytes that an event may take.
const BYTES_PER_EVENT: f64 = 12.0;

/// How a bar came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The figure is within the limit.
    Met,
    /// The figure is beyond the limit.
    Missed,
    /// There is no figure.
    Unknown,
}

/// One bar on one row.
#[derive(Debug, Clone, Serialize)]
pub struct Bar {
    /// The row's key.
    pub row: &'static str,
    /// What is compared.
    pub what: String,
    /// What was measured.
    pub figure: Option<f64>,
    /// What is allowed.
    pub limit: f64,
    /// The slowest native run of the row over its fastest, to judge a narrow outcome by.
    pub native_spread: Option<f64>,
    /// The outcome.
    pub verdict: Verdict,
}

/// Checks all bars on a row.
pub fn check(measured: &Measured) -> Vec<Bar> {
    let row = measured.described();
    let mut bars = Vec::new();
    let mut add = |what: &str, figure, limit| bars.push(bar(measured, what, figure, limit));
    let over = |a: &str, b: &str| over(measured, a, b);
    let disarmed = match row.class {
        Class::Lu => Some((2.7, 1.6)),
        Class::Io => Some((1.05, 1.05)),
        Class::Other => None,
    };
    if let Some((gcc, clang)) = disarmed {
        add("disarmed / native, gcc", over("disarmed", "native"), gcc);
        add("disarmed / native, clang", over("disarmed-clang", "native-clang"), clang);
    }
    add("record / gcc TSan", over("record", "tsan"), 1.0);
    add("record / clang TSan", over("record", "tsan-clang"), 1.0);
    add("record / clang TSan, clang", over("record-clang", "tsan-clang"), 1.0);
    if matches!(row.key, "pbzip2" | "memcached" | "zstd") {
        add("enforce / native", over("enforce", "native"), 1.17);
    }
    add("bytes an event", bytes_per_event(measured, "record"), BYTES_PER_EVENT);
    bars.extend(of_guards(measured));
    bars
}

/// Checks the bars on guards.
pub fn of_guards(measured: &Measured) -> Vec<Bar> {
    let ratio = |column: &str| over(measured, column, "native");
    match measured.row {
        "lu" | "lu_blocked" | "fft" => vec![
            bar(measured, "guard / native", ratio("guard"), 2.0),
            bar(measured, "guard, all / native", ratio("guard-all"), 8.0),
        ],
        "pbzip2" | "memcached" | "zstd" => vec![bar(measured, "guard / native", ratio("guard"), 1.01)],
        _ => Vec::new(),
    }
}

fn bar(measured: &Measured, what: &str, figure: Option<f64>, limit: f64) -> Bar {
    Bar {
        row: measured.row,
        what: what.to_owned(),
        figure,
        limit,
        native_spread: measured.spread(),
        verdict: judge(figure, limit),
    }
}

/// The median time in one column over that in another. Only cells that ran to the end and gave the right answer count.
pub fn over(measured: &Measured, a: &str, b: &str) -> Option<f64> {
    let seconds = |key: &str| {
        measured.cell(key).filter(|c| c.missing.is_none())?;
        measured.median_seconds(key)
    };
    Some(seconds(a)? / seconds(b)?)
}

/// Bytes an event over all recorded runs of a column.
pub fn bytes_per_event(measured: &Measured, key: &str) -> Option<f64> {
    let (mut events, mut bytes) = (0u64, 0u64);
    for trace in measured.cell(key)?.runs.iter().filter_map(|s| s.trace) {
        events += trace.events?;
        bytes += trace.bytes;
    }
    (events > 0).then(|| to_f64(bytes) / to_f64(events))
}

/// A count as a number to calculate with, rounded above 2^53.
pub fn to_f64(count: u64) -> f64 {
    count as f64
}

fn judge(figure: Option<f64>, limit: f64) -> Verdict {
    match figure {
        None => Verdict::Unknown,
        Some(f) if f <= limit => Verdict::Met,
        Some(_) => Verdict::Missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        assert_eq!(judge(None, 1.0), Verdict::Unknown);
        assert_eq!(judge(Some(1.0), 1.0), Verdict::Met);
        assert_eq!(judge(Some(1.01), 1.0), Verdict::Missed);
        assert_eq!(judge(Some(f64::NAN), 1.0), Verdict::Missed);
    }
}
