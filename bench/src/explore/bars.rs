//! The bars on exploring, checked against what was measured.

use serde::Serialize;

use super::page::Explore;
use crate::bars::{Verdict, to_f64};
use crate::measure::median;

/// A program whose runs have at most so many choices is small.
pub const SMALL: u64 = 200;
/// And if a native run, with its start, takes less than so many seconds: others spend their time on their own work.
pub const SHORT: f64 = 0.004;
/// The fewest schedules of a program without a bug.
const SCHEDULES: f64 = 10_000.0;
/// The fewest schedules in a second on small programs.
pub const RATE: f64 = 500.0;

/// One bar.
#[derive(Debug, Clone, Serialize)]
pub struct Bar {
    /// What is compared.
    pub what: &'static str,
    /// What was measured.
    pub figure: String,
    /// What is asked for.
    pub bar: String,
    /// The outcome.
    pub verdict: Verdict,
}

/// Checks all bars.
pub fn check(explore: &Explore) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut share = |what, good: usize, of: usize| {
        let verdict = if of == 0 { Verdict::Unknown } else { met(good == of) };
        bars.push(Bar { what, figure: format!("{good} of {of}"), bar: "all".to_owned(), verdict });
    };
    let kernels = &explore.kernels;
    let found = kernels.iter().filter(|kernel| kernel.searched.iter().any(|s| s.schedules().is_some()));
    share("bugs that some strategy finds within the limit, by the median seed", found.count(), kernels.len());
    let twins: Vec<_> = explore.twins().collect();
    let sound = twins.iter().filter(|twin| twin.failures.is_empty()).count();
    share("programs without a bug that never failed", sound, twins.len());
    let failures: Vec<_> = kernels.iter().flat_map(|kernel| &kernel.again).collect();
    let replayed = failures.iter().filter(|again| again.replays.all()).count();
    share("failures that every replay shows with every choice the same", replayed, failures.len());
    let smaller = failures.iter().filter(|again| again.smaller_replays.all()).count();
    share("minimised failures of which this holds", smaller, failures.len());
    let same = explore.repeated.iter().filter(|repeated| repeated.all()).count();
    share("programs whose runs of one schedule are identical", same, explore.repeated.len());
    let agree = explore.counted.iter().filter(|counted| counted.agrees()).count();
    share("counts of bounded search that agree with those by hand", agree, explore.counted.len());
    let preemptive: Vec<f64> = failures.iter().map(|again| to_f64(again.after.preemptive as u64)).collect();
    let most = preemptive.iter().copied().reduce(f64::max);
    let mut limit = |what, figure: Option<f64>, bar: String, within: bool| {
        let verdict = if figure.is_none() { Verdict::Unknown } else { met(within) };
        bars.push(Bar { what, figure: figure.map_or("n/a".to_owned(), |f| format!("{f:.0}")), bar, verdict });
    };
    limit("preemptive switches of a minimised clip, most", most, "≤ 4".to_owned(), most.is_some_and(|m| m <= 4.0));
    let middle = median(preemptive);
    limit("the same, median", middle, "≤ 2".to_owned(), middle.is_some_and(|m| m <= 2.0));
    let fewest = twins.iter().map(|twin| to_f64(twin.schedules)).reduce(f64::min);
    limit(
        "schedules of a program without a bug, fewest",
        fewest,
        format!("≥ {SCHEDULES:.0}"),
        fewest.is_some_and(|f| f >= SCHEDULES),
    );
    let rates = explore.small_rates();
    let slow = rates.iter().filter(|(_, rate)| *rate < RATE).count();
    let middle = median(rates.iter().map(|(_, rate)| *rate).collect());
    limit(
        "schedules a second on small kernels, median",
        middle,
        format!("≥ {RATE:.0}"),
        middle.is_some_and(|m| m >= RATE),
    );
    let figure = (!rates.is_empty()).then(|| to_f64(slow as u64));
    limit("small kernels with fewer", figure, "0".to_owned(), slow == 0);
    bars
}

fn met(holds: bool) -> Verdict {
    if holds { Verdict::Met } else { Verdict::Missed }
}
