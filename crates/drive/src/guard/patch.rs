//! Emergency patches: the guard of one bug, and nothing else.
//!
//! Paper: Zhang et al., TSE 2016, section 3.4.2: where a bug is known, its instructions alone are guarded until it is fixed.
//! Departure: the sets are learnt from runs under control, so few runs are enough, and the patch is checked. The failure's own schedule
//! is run with it, and fresh schedules are, with and without it. A patch is *verified* where no run with it failed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use selvedge_analyze::invariant::group::groups;
use selvedge_analyze::invariant::select::restrict;
use selvedge_analyze::invariant::{Invariants, SiteKey};
use selvedge_findings::{Outcome, Tally};
use selvedge_sched::StrategyKind;

use crate::clip::Clip;
use crate::controlled::Prepared;
use crate::explore::{ExploreError, ExploreOptions, Explored, Strategy, explore};
use crate::failure::Wrong;
use crate::guard::compile::{CompileError, Guard, GuardHow};
use crate::guard::keys::Keyed;
use crate::guard::site_names::SiteNames;
use crate::guard::train::{TrainError, Trained};
use crate::intervene::Interventions;
use crate::plan::WritePlanError;
use crate::replay::{ReplayError, bench, replay};
use crate::run::Stop;

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// The file, with or without directories.
    pub file: String,
    /// The line.
    pub line: u32,
}

impl Line {
    /// Reads `FILE:LINE`.
    pub fn parse(text: &str) -> Option<Line> {
        let (file, line) = text.rsplit_once(':')?;
        Some(Line { file: file.to_owned(), line: line.parse().ok()? }).filter(|_| !file.is_empty())
    }

    /// Whether a site is on it: as many directories as both have must be the same.
    fn is_at(&self, file: Option<&str>, line: Option<u32>) -> bool {
        let (Some(file), Some(line)) = (file, line) else { return false };
        line == self.line && (Path::new(file).ends_with(&self.file) || Path::new(&self.file).ends_with(file))
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Why there is no patch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// Training.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// Nothing was learnt.
    #[error("none of {runs} training runs passed: there is nothing to learn the right order from")]
    NothingPassed {
        /// How many.
        runs: u64,
    },
    /// No site is there.
    #[error(
        "no site that threads share is at {lines}: name lines that access shared memory, or train with more runs; \
         `selvedge sites PROGRAM` lists all"
    )]
    NoSite {
        /// Where.
        lines: String,
    },
    /// The guard.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The plan.
    #[error("cannot write the plan")]
    Plan(#[from] WritePlanError),
    /// A replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A check.
    #[error(transparent)]
    Explore(#[from] ExploreError),
}

/// What is known of the sites at some lines, and of all that touch the same memory.
pub fn around(
    trained: &Trained,
    images: &[Keyed],
    prepared: &Prepared,
    lines: &BTreeSet<Line>,
) -> Result<Invariants, PatchError> {
    let all = &trained.invariants;
    if trained.curve.is_empty() {
        return Err(PatchError::NothingPassed { runs: trained.tally.total() });
    }
    let guard = Guard::of(all, images, &GuardHow::default())?;
    let names = SiteNames::of(&guard, images, &prepared.program, Path::new(""));
    let named = |site: &crate::guard::site_names::SiteName| {
        lines.iter().any(|line| line.is_at(site.file.as_deref(), site.line)).then(|| SiteKey(site.key.clone()))
    };
    let meant: BTreeSet<SiteKey> = names.sites.iter().filter_map(named).collect();
    let wanted = groups(all).into_iter().filter(|group| group.is_shared && !group.sites.is_disjoint(&meant));
    let kept: BTreeSet<SiteKey> = wanted.flat_map(|group| group.sites).collect();
    if kept.is_empty() {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        return Err(PatchError::NoSite { lines: lines.join(", ") });
    }
    Ok(restrict(all, |key| kept.contains(key)))
}

/// How a patch did.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// How the failure's own schedule ended with it.
    pub replayed: Option<(Outcome, Option<Wrong>)>,
    /// How fresh schedules ended with it.
    pub with: Tally,
    /// How the same ones ended without it.
    pub without: Tally,
    /// The first failure with it.
    pub failure: Option<Wrong>,
}

impl Checked {
    /// Whether no run with the patch failed, and there were some.
    pub fn is_verified(&self) -> bool {
        let replayed = self.replayed.as_ref().is_none_or(|(outcome, _)| *outcome == Outcome::Pass);
        replayed && self.with.total() > 0 && self.with.pass == self.with.total()
    }
}

/// How to check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Fresh schedules, with the patch and as many without.
    pub schedules: u64,
    /// Everything else.
    pub explore: ExploreOptions,
}

/// Checks a patch: the failure's own schedule, and fresh ones by three strategies.
pub fn check(
    guard: &Guard,
    prepared: &Prepared,
    clip: Option<&Clip>,
    options: &CheckOptions,
    stop: &Stop,
    each: &mut dyn FnMut(&Tally),
) -> Result<Checked, PatchError> {
    let interventions = Interventions::guard(guard.beside(&prepared.images).0.to_bytes()?);
    let mut checked = Checked::default();
    if let Some(clip) = clip {
        let on_clip = Interventions::guard(guard.beside(&clip.images).0.to_bytes()?);
        let dir = prepared.scratch.path().join("patch-replay");
        let timeout = options.explore.timeout.max(Duration::from_secs(1));
        let again = replay(clip, &mut bench(clip, &on_clip, &dir, timeout)?)?;
        checked.replayed = Some((again.outcome, again.wrong));
    }
    const KINDS: [StrategyKind; 3] = [StrategyKind::Random, StrategyKind::Pct, StrategyKind::Pos];
    for (turn, kind) in (0_u64..).zip(KINDS) {
        // A third for each, the rest for the first.
        let third = options.schedules / 3;
        let schedules = if turn == 0 { options.schedules - 2 * third } else { third };
        if schedules == 0 || stop.is_set() {
            continue;
        }
        let mut how = ExploreOptions {
            strategy: Strategy::Sampled(kind),
            schedules,
            interventions: interventions.clone(),
            ..options.explore.clone()
        };
        let done = checked.with;
        let explored = explore(prepared, &how, stop, &mut |explored| each(&sum(done, explored)))?;
        checked.with = sum(done, &explored);
        let first = explored.failures.into_values().min_by_key(|failure| failure.first);
        checked.failure = checked.failure.take().or(first.map(|failure| failure.wrong));
        how.interventions = Interventions::default();
        let explored = explore(prepared, &how, stop, &mut |_| {})?;
        checked.without = sum(checked.without, &explored);
    }
    Ok(checked)
}

fn sum(tally: Tally, explored: &Explored) -> Tally {
    let more = explored.tally;
    Tally {
        pass: tally.pass + more.pass,
        fail: tally.fail + more.fail,
        hang: tally.hang + more.hang,
        unknown: tally.unknown + more.unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_met_with_or_without_directories() {
        assert_eq!(Line::parse("bank.c:17"), Some(Line { file: "bank.c".to_owned(), line: 17 }));
        for wrong in ["bank.c", ":17", "bank.c:", "bank.c:x"] {
            assert_eq!(Line::parse(wrong), None, "{wrong}");
        }
        let line = |text: &str| Line::parse(text).expect("a line");
        let at = |text: &str, file: &str, number| line(text).is_at(Some(file), Some(number));
        assert!(at("bank.c:17", "/src/bank.c", 17) && at("src/bank.c:17", "/src/bank.c", 17));
        assert!(at("/src/bank.c:17", "bank.c", 17));
        assert!(!at("bank.c:17", "/src/bank.c", 18) && !at("ank.c:17", "/src/bank.c", 17));
        assert!(!line("bank.c:17").is_at(None, Some(17)));
    }

    #[test]
    fn a_patch_is_verified_only_where_something_ran_and_nothing_failed() {
        let pass = Tally { pass: 9, ..Tally::default() };
        let checked = |replayed, with| Checked { replayed, with, ..Checked::default() };
        assert!(checked(None, pass).is_verified());
        assert!(checked(Some((Outcome::Pass, None)), pass).is_verified());
        assert!(!checked(Some((Outcome::Hang, None)), pass).is_verified());
        assert!(!checked(None, Tally::default()).is_verified());
        assert!(!checked(None, Tally { fail: 1, ..pass }).is_verified());
        assert!(!checked(None, Tally { unknown: 1, ..pass }).is_verified());
    }
}
