//! Emergency patches: the guard of one bug, and nothing else.
//!
//! Paper: Zhang et al., TSE 2016, section 3.4.2: where a bug is known, its instructions alone are guarded until it is fixed.
//! Departures:
//! - The sets are learnt from runs under control, so few runs are enough.
//! - The patch is checked. The failure's own schedule is run with it, and fresh schedules are, with and without it. A patch is
//!   *verified* where no run with it failed.
//! - Where all passing runs together allow what fails, since each pair of the failure was harmless somewhere, variables that belong together
//!   are guarded as one, and what few runs showed is taken for all that is right. That costs stalls and no correctness, and
//!   what comes of it is checked like the rest.

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
use crate::guard::colours::learn_colours;
use crate::guard::compile::{CompileError, Guard, GuardHow};
use crate::guard::deploy::DeployError;
use crate::guard::file::InvariantsError;
use crate::guard::keys::Keyed;
use crate::guard::site_names::{FrameName, SiteNames};
use crate::guard::train::{TrainError, TrainOptions, Trained, train};
use crate::hunt::HuntError;
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

    /// Whether a frame is on it: as many directories as both have must be the same.
    fn is_at(&self, frame: &FrameName) -> bool {
        let (Some(file), Some(line)) = (&frame.file, frame.line) else { return false };
        line == self.line && (Path::new(file).ends_with(&self.file) || Path::new(&self.file).ends_with(file))
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What is to be guarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Lines with accesses.
    pub lines: BTreeSet<Line>,
    /// Functions whose accesses are meant where the lines have none, as those of a lock do not.
    pub functions: BTreeSet<String>,
}

impl Target {
    /// The sites that are meant; `wide` is with all of the functions.
    fn sites(&self, names: &SiteNames, wide: bool) -> BTreeSet<SiteKey> {
        let some = |meant: &dyn Fn(&FrameName) -> bool| -> BTreeSet<SiteKey> {
            let sites = names.sites.iter().filter(|site| site.frames.iter().any(meant));
            sites.map(|site| SiteKey(site.key.clone())).collect()
        };
        let mut meant = some(&|frame| self.lines.iter().any(|line| line.is_at(frame)));
        if meant.is_empty() || wide {
            meant.extend(some(&|frame| self.functions.contains(&frame.function)));
        }
        meant
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> = self.lines.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join(", "))
    }
}

/// Why there is no patch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// Training.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A recorded run.
    #[error(transparent)]
    Record(#[from] HuntError),
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
    /// The invariants.
    #[error(transparent)]
    Save(#[from] InvariantsError),
    /// The plan's files.
    #[error(transparent)]
    Deploy(#[from] DeployError),
}

/// What is known of the sites that are meant, and of all that touch the same memory.
fn around(
    trained: &Trained,
    images: &[Keyed],
    prepared: &Prepared,
    (target, wide): (&Target, bool),
) -> Result<Invariants, PatchError> {
    let all = &trained.invariants;
    if trained.curve.is_empty() {
        return Err(PatchError::NothingPassed { runs: trained.tally.total() });
    }
    let guard = Guard::of(all, images, &GuardHow::default())?;
    let names = SiteNames::of(&guard, images, &prepared.program, Path::new(""));
    let meant = target.sites(&names, wide);
    let wanted = groups(all).into_iter().filter(|group| group.is_shared && !group.sites.is_disjoint(&meant));
    let kept: BTreeSet<SiteKey> = wanted.flat_map(|group| group.sites).collect();
    if kept.is_empty() {
        return Err(PatchError::NoSite { lines: target.to_string() });
    }
    let mut meant = restrict(all, |key| kept.contains(key));
    // Whether the patch makes anybody wait for nothing is tried.
    meant.sites.values_mut().for_each(|site| site.unsettled = false);
    Ok(meant)
}

/// A way to learn: passing runs that are enough (`None` for all), whether variables that belong together are one, and whether all that
/// the functions access is guarded.
type Way = (Option<usize>, bool, bool);

/// From what makes fewest wait to what makes most wait.
const WAYS: [Way; 10] = [
    (None, false, false),
    (None, true, false),
    (Some(4), false, false),
    (Some(4), true, false),
    (Some(1), false, false),
    (Some(1), true, false),
    (None, false, true),
    (None, true, true),
    (Some(1), false, true),
    (Some(1), true, true),
];

/// A patch.
#[derive(Clone, Debug)]
pub struct Patch {
    /// What it goes by.
    pub invariants: Invariants,
    /// The guard.
    pub guard: Guard,
    /// The build that it is for.
    pub images: Vec<Keyed>,
    /// Passing runs that it was learnt from.
    pub runs: usize,
    /// Whether fewer than all were taken.
    pub tight: bool,
    /// Ways that were tried.
    pub ways: usize,
}

/// Makes a patch: the first that a quick check finds nothing against, else the one that it finds
/// least against.
pub fn make(
    prepared: &Prepared,
    clip: Option<&Clip>,
    target: &Target,
    (training, how): (&TrainOptions, &GuardHow),
    options: &CheckOptions,
    stop: &Stop,
) -> Result<Patch, PatchError> {
    /// Schedules of a quick check.
    const QUICK: u64 = 150;
    let images = Keyed::load_all(&prepared.surveyed.files());
    let mut quick = CheckOptions { schedules: options.schedules.min(QUICK), against: false, ..options.clone() };
    // What chose it must not be what it is judged by.
    quick.explore.seed = quick.explore.seed.wrapping_add(1 << 32);
    let mut colours = None;
    let mut best: Option<(u64, Patch)> = None;
    let mut ways = 0;
    for (enough, coloured, wide) in WAYS.into_iter().filter(|(_, _, wide)| !wide || !target.functions.is_empty()) {
        let mut training = TrainOptions { enough, ..training.clone() };
        if coloured {
            let known = match &colours {
                Some(known) => known,
                None => colours.insert(learn_colours(prepared, &training, stop)?),
            };
            if known.is_empty() {
                continue;
            }
            training.colours.clone_from(known);
        }
        let trained = train(prepared, Invariants::default(), &training, stop, &mut |_| {})?;
        let invariants = match around(&trained, &images, prepared, (target, wide)) {
            Ok(invariants) => invariants,
            // Few runs may not have been there.
            Err(PatchError::NoSite { .. }) if best.is_some() => continue,
            Err(error) => return Err(error),
        };
        let guard = Guard::of(&invariants, &images, how)?;
        let checked = check(&guard, prepared, clip, &quick, stop, &mut |_| {})?;
        ways += 1;
        let against = checked.with.total() - checked.with.pass + u64::from(!checked.replay_passed());
        let (runs, tight) = (trained.curve.len(), enough.is_some());
        if best.as_ref().is_none_or(|(least, _)| against < *least) {
            best = Some((against, Patch { invariants, guard, images: images.clone(), runs, tight, ways }));
        }
        if against == 0 || stop.is_set() {
            break;
        }
    }
    let best = best.map(|(_, patch)| Patch { ways, ..patch });
    best.ok_or(PatchError::NothingPassed { runs: u64::from(training.runs) })
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
    /// Whether the failure's own schedule passed, where it was run.
    fn replay_passed(&self) -> bool {
        self.replayed.as_ref().is_none_or(|(outcome, _)| *outcome == Outcome::Pass)
    }

    /// Whether no run with the patch failed, and there were some.
    pub fn is_verified(&self) -> bool {
        self.replay_passed() && self.with.total() > 0 && self.with.pass == self.with.total()
    }
}

/// How to check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Fresh schedules with the patch.
    pub schedules: u64,
    /// Whether the same ones are run without it too.
    pub against: bool,
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
    fresh(&mut checked, &interventions, prepared, options, stop, each)?;
    Ok(checked)
}

/// Runs fresh schedules with interventions, by three strategies.
pub fn fresh(
    checked: &mut Checked,
    interventions: &Interventions,
    prepared: &Prepared,
    options: &CheckOptions,
    stop: &Stop,
    each: &mut dyn FnMut(&Tally),
) -> Result<(), ExploreError> {
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
        if options.against {
            how.interventions = Interventions::default();
            let explored = explore(prepared, &how, stop, &mut |_| {})?;
            checked.without = sum(checked.without, &explored);
        }
    }
    Ok(())
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
    use crate::guard::site_names::SiteName;

    #[test]
    fn lines_are_read_and_met_with_or_without_directories() {
        assert_eq!(Line::parse("bank.c:17"), Some(Line { file: "bank.c".to_owned(), line: 17 }));
        for wrong in ["bank.c", ":17", "bank.c:", "bank.c:x"] {
            assert_eq!(Line::parse(wrong), None, "{wrong}");
        }
        let line = |text: &str| Line::parse(text).expect("a line");
        let frame = |function: &str, file: &str, line| FrameName {
            function: function.to_owned(),
            file: Some(file.to_owned()),
            line: Some(line),
        };
        let at = |text: &str, file: &str, number| line(text).is_at(&frame("f", file, number));
        assert!(at("bank.c:17", "/src/bank.c", 17) && at("src/bank.c:17", "/src/bank.c", 17));
        assert!(at("/src/bank.c:17", "bank.c", 17));
        assert!(!at("bank.c:17", "/src/bank.c", 18) && !at("ank.c:17", "/src/bank.c", 17));
        assert!(!line("bank.c:17").is_at(&FrameName { line: Some(17), ..FrameName::default() }));
        let site = |key: &str, frames: Vec<FrameName>| SiteName { key: key.to_owned(), hook: String::new(), frames };
        let mut names = SiteNames::default();
        names.sites = vec![
            site("a", vec![frame("load", "atomic.h", 3), frame("report", "/src/bank.c", 17)]),
            site("b", vec![frame("report", "/src/bank.c", 18)]),
            site("c", vec![frame("main", "/src/bank.c", 30)]),
        ];
        let sites = |lines: &[&str], wide| {
            let lines = lines.iter().map(|text| line(text)).collect();
            let target = Target { lines, functions: BTreeSet::from(["report".to_owned()]) };
            target.sites(&names, wide).into_iter().map(|key| key.0).collect::<Vec<_>>().concat()
        };
        assert_eq!(
            (sites(&["bank.c:17"], false), sites(&["bank.c:16"], false), sites(&["bank.c:30"], true)),
            ("a".into(), "ab".into(), "abc".into())
        );
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
