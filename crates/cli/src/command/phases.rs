//! What a hunt does beside predicting: it watches free runs with noise, ranks lines by the runs that it has, and makes a guard for each
//! bug that did harm, and locks where they are asked for. Each phase has a share of the budget and says what it did in one line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use selvedge_analyze::invariant::select::Selection;
use selvedge_drive::clip::Clip;
use selvedge_drive::controlled::Prepared;
use selvedge_drive::detect::{DetectOptions, detect as watch};
use selvedge_drive::enforce::groups::{Groups, Said};
use selvedge_drive::enforce::profile::ProfileOptions;
use selvedge_drive::enforce::suppress::{SuppressOptions, suppress};
use selvedge_drive::explore::ExploreOptions;
use selvedge_drive::guard::compile::{GuardHow, Mode};
use selvedge_drive::guard::patch::CheckOptions;
use selvedge_drive::guard::tolerate::{TolerateOptions, tolerate};
use selvedge_drive::guard::train::{Schedules, TrainOptions};
use selvedge_drive::hunt::Hunted;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::run::{Guest, Stop};
use selvedge_drive::store::Store;
use selvedge_findings::{Guarded, Harm, RankedPoint};
use selvedge_image::lines::is_users_file;
use selvedge_report::view::printable;

use crate::args::HuntArgs;
use crate::command::bugs::{Bug, Bugs, GUARD, LOCKS};
use crate::command::guarding::counted;
use crate::command::{detect as detecting, explain, rank as ranking};
use crate::messages::{Failure, note};
use crate::outlet::Outlet;

/// What phases have in common.
#[derive(Clone, Copy)]
pub(crate) struct Hunting<'a> {
    pub(crate) args: &'a HuntArgs,
    pub(crate) store: &'a Store,
    pub(crate) guest: &'a Guest,
    pub(crate) prepared: &'a Prepared,
    pub(crate) stop: &'a Stop,
    /// When the hunt began.
    pub(crate) begin: Instant,
}

impl Hunting<'_> {
    /// Time that is left of the budget.
    fn left(&self) -> Duration {
        self.args.budget.saturating_sub(self.begin.elapsed())
    }
}

/// Time below which a phase is not worth while.
const LEAST: Duration = Duration::from_millis(500);

/// Watches free runs with noise; what is seen joins the bugs.
pub(crate) fn detect(hunting: &Hunting<'_>, share: Duration, bugs: &mut Bugs, outlet: &mut Outlet<'_>) {
    /// Runs that are enough.
    const RUNS: u32 = 20;
    if hunting.args.no_detect {
        return;
    }
    let share = share.min(hunting.left());
    if share < LEAST || hunting.stop.is_asked() {
        return note("noise: no time for free runs");
    }
    let options = DetectOptions {
        runs: RUNS,
        seed: hunting.args.seed,
        timeout: Some(hunting.args.trying.timeout),
        silent: true,
        stdin: Some(hunting.prepared.inputs.stdin.clone()),
        ..DetectOptions::default()
    };
    let begin = Instant::now();
    let stop = hunting.stop.by(begin + share);
    let detected = match watch(hunting.store, hunting.guest, &options, &stop, &mut |_| {}) {
        Ok(detected) => detected,
        Err(error) => return note(&format!("noise: free runs could not be watched: {error}")),
    };
    let seen = detecting::findings(&detected, hunting.guest);
    let races = seen.len();
    let mut new = 0;
    for (finding, text) in seen.into_iter().filter(|(finding, _)| !outlet.hides(finding)) {
        new += u32::from(bugs.join(finding, text));
    }
    let runs = detected.each.len();
    note(&format!(
        "noise: {}, {} seen in the act, {new} of them new; {:.1} s",
        counted(runs, "free run"),
        counted(races, "race"),
        begin.elapsed().as_secs_f64()
    ));
}

/// Recorded runs that failed in a way that no bug so far explains are bugs too, where the schedule decides: the run is made small until one
/// switch is left that tells failing from passing.
pub(crate) fn failed(
    hunting: &Hunting<'_>,
    (hunted, clips): (&Hunted, &Path),
    bugs: &mut Bugs,
    outlet: &mut Outlet<'_>,
) -> Result<(), Failure> {
    /// Runs for making one small.
    const RUNS: u128 = 300;
    let mut told: Vec<&str> = Vec::new();
    for run in &hunted.recorded {
        let Some(signature) = run.clip.signature() else { continue };
        if told.contains(&signature.detail.as_str()) || bugs.fails_so(&signature.detail) {
            continue;
        }
        told.push(&signature.detail);
        // What never passes does not depend on the schedule.
        let share = hunting.left() / 3;
        if hunted.figures.tally.pass == 0 || share < LEAST || hunting.stop.is_asked() {
            continue;
        }
        let runs = (share.as_millis() / run.duration.as_millis().max(5)).min(RUNS);
        let none = Interventions::default();
        let timeout = hunting.args.trying.timeout;
        let stop = hunting.stop.by(Instant::now() + share);
        let Some(small) = explain::smaller(&run.clip, &none, u32::try_from(runs).unwrap_or(0), timeout, &stop)? else {
            continue;
        };
        if small.critical.is_none() {
            continue;
        }
        let name = hunting.prepared.program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = clips.join(format!("{name}-{}.clip", explain::short_id(&small.clip)));
        small.clip.save(&path).map_err(|error| Failure::usage(&error))?;
        let alike = hunted.recorded.iter().filter(|other| other.clip.signature() == Some(signature)).count();
        let mut lines = vec![format!(
            "{alike} of {} fail so; the switch to the other thread decides.",
            counted(hunted.recorded.len(), "recorded run")
        )];
        lines.extend(explain::again(&small.clip, &path, &none));
        let explain::Explained { text, mut finding } =
            explain::explain(&small.clip, &none, Some(&small), &lines, timeout)?;
        finding.clip = Some(path.display().to_string());
        finding.replay = Some(explain::replay_command(&path));
        finding.failure = Some(signature.detail.clone());
        if !outlet.hides(&finding) {
            bugs.add_failure(finding, text, small.clip.wrong.as_ref().map(|wrong| wrong.words.clone()));
        }
    }
    Ok(())
}

/// Ranks lines by the recorded runs, where some passed and some failed.
pub(crate) fn rank(hunting: &Hunting<'_>, hunted: &Hunted) -> Result<Option<Vec<RankedPoint>>, Failure> {
    let tally = &hunted.figures.tally;
    if tally.pass == 0 || tally.fail + tally.hang == 0 {
        return Ok(None);
    }
    if hunting.left() < LEAST {
        note("ranking: no time");
        return Ok(None);
    }
    let begin = Instant::now();
    let points = ranking::of_recorded(&hunted.recorded)?;
    note(&format!(
        "ranking: {} by {} passing and {} failing runs; {:.1} s",
        counted(points.len(), "line"),
        tally.pass,
        tally.fail + tally.hang,
        begin.elapsed().as_secs_f64()
    ));
    Ok(Some(points).filter(|points| !points.is_empty()))
}

/// The top of a ranking.
pub(crate) fn ranking_text(points: Option<&[RankedPoint]>) -> String {
    /// Lines that are shown.
    const TOP: usize = 3;
    // Nobody mends a library's lines: what they show is shown by the lines that call it, and `selvedge rank` has all.
    let is_shown = |point: &&RankedPoint| point.score >= 0.005 && point.file.as_deref().is_none_or(is_users_file);
    let points: Vec<&RankedPoint> = points.unwrap_or_default().iter().filter(is_shown).take(TOP).collect();
    if points.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nMost suspicious lines, by what failing runs have and passing runs have not:\n");
    for (number, point) in (1..).zip(points) {
        let file = point.file.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file)).unwrap_or("?");
        let line = point.line.map(|line| format!(":{line}")).unwrap_or_default();
        let function = point.function.as_ref().map(|function| format!(" in {function}")).unwrap_or_default();
        let place = printable(&format!("{file}{line}{function}"));
        text.push_str(&format!("{number:>3}  {place}  {:.2}\n     {}\n", point.score, printable(&point.why)));
    }
    text.push('\n');
    text
}

/// Makes a guard for each bug that did harm, and checks it.
pub(crate) fn guard(hunting: &Hunting<'_>, bugs: &mut Bugs) {
    let harmful = bugs.shown.iter().filter(|bug| is_for_a_guard(bug)).count();
    if hunting.args.no_guard || harmful == 0 {
        return;
    }
    let begin = Instant::now();
    // Half of it is for locks, where they are wanted.
    let until = hunting.left() / if hunting.args.locks { 2 } else { 1 };
    let (mut done, mut holds) = (0, 0);
    for bug in bugs.shown.iter_mut().filter(|bug| is_for_a_guard(bug)) {
        let share = until.saturating_sub(begin.elapsed()) / u32::try_from(harmful - done).unwrap_or(1).max(1);
        done += 1;
        let guarded = if share < LEAST || hunting.stop.is_asked() {
            Guarded { why: Some("there was no time for one".to_owned()), ..Guarded::default() }
        } else {
            against(hunting, bug, share)
        };
        holds += usize::from(guarded.verified);
        let mut line = words(&guarded, &hunting.prepared.program.path, ["holds", "does not hold"]);
        if guarded.plan.is_some() && !guarded.verified && !hunting.args.locks {
            line += "; `selvedge hunt --locks` tries locks";
        }
        bug.lines.push(format!("{GUARD}    {line}"));
        bug.lead.guard = Some(guarded);
    }
    note(&format!("guards: {holds} of {harmful} hold; {:.1} s", begin.elapsed().as_secs_f64()));
}

fn is_for_a_guard(bug: &Bug) -> bool {
    bug.lead.harm != Harm::NoneSeen && bug.lead.clip.is_some()
}

/// A guard against one bug.
fn against(hunting: &Hunting<'_>, bug: &Bug, share: Duration) -> Guarded {
    /// Runs to learn from.
    const TRAINING: u32 = 40;
    let clips = failing_clips(bug);
    let Some(clip) = clips.first() else { return Guarded::default() };
    let args = hunting.args;
    let training = TrainOptions {
        runs: TRAINING,
        until_converged: false,
        enough: None,
        oracle: clip.oracle.clone(),
        timeout: args.trying.timeout,
        schedules: Schedules::Controlled,
        seed: args.seed,
        most_steps: clip.most_steps,
        world: clip.world,
        colours: BTreeSet::new(),
        selection: Selection::default(),
    };
    let dir: PathBuf = hunting.store.dir().join("guards");
    if let Err(error) = std::fs::create_dir_all(&dir) {
        return Guarded { why: Some(error.to_string()), ..Guarded::default() };
    }
    let options = TolerateOptions {
        training,
        how: GuardHow { mode: Mode::Guard, ..GuardHow::default() },
        checks: checks(hunting, clip),
        dir,
    };
    tolerate(hunting.prepared, hunting.store, &bug.lead, &clips, &options, (share, hunting.stop))
}

/// Failing clips of a bug, as many as are run.
fn failing_clips(bug: &Bug) -> Vec<Clip> {
    const MOST: usize = 10;
    let all = std::iter::once(&bug.lead).chain(&bug.others).filter(|finding| finding.harm != Harm::NoneSeen);
    all.filter_map(|finding| Clip::load(finding.clip.as_deref()?.as_ref()).ok()).take(MOST).collect()
}

/// How what was made against a bug is checked.
fn checks(hunting: &Hunting<'_>, clip: &Clip) -> CheckOptions {
    let args = hunting.args;
    let explore = ExploreOptions {
        // Other schedules than those of the training.
        seed: args.seed.wrapping_add(0x5eed),
        oracle: clip.oracle.clone(),
        timeout: args.trying.timeout,
        most_steps: clip.most_steps,
        world: clip.world,
        ..ExploreOptions::default()
    };
    CheckOptions { schedules: args.guard_schedules, against: false, explore }
}

/// Places locks, where they were asked for, and checks them against each bug that did harm.
pub(crate) fn locks(hunting: &Hunting<'_>, bugs: &mut Bugs) {
    /// Runs to learn from.
    const RUNS: u32 = 40;
    let mut harmful: Vec<&mut Bug> = bugs.shown.iter_mut().filter(|bug| is_for_a_guard(bug)).collect();
    let clips: Vec<Vec<Clip>> = harmful.iter().map(|bug| failing_clips(bug)).collect();
    let Some(clip) = clips.iter().flatten().next().filter(|_| hunting.args.locks) else { return };
    if hunting.left() < LEAST || hunting.stop.is_asked() {
        return note("locks: no time");
    }
    let (args, begin) = (hunting.args, Instant::now());
    let profile = ProfileOptions {
        runs: RUNS,
        seed: args.seed,
        timeout: args.trying.timeout,
        said: Said::default(),
        groups: Groups::default(),
    };
    let dir: PathBuf = hunting.store.dir().join("guards");
    if let Err(error) = std::fs::create_dir_all(&dir) {
        return note(&format!("locks: cannot make `{}`: {error}", dir.display()));
    }
    let name = hunting.prepared.program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = dir.join(format!("{name}.profile"));
    let options = SuppressOptions { profile, checks: checks(hunting, clip), file };
    let all = suppress(hunting.prepared, hunting.store, &clips, &options, (hunting.left(), hunting.stop));
    let holds = all.iter().filter(|guarded| guarded.verified).count();
    note(&format!("locks: hold against {holds} of {}; {:.1} s", all.len(), begin.elapsed().as_secs_f64()));
    for (bug, guarded) in harmful.iter_mut().zip(all) {
        let line = words(&guarded, &hunting.prepared.program.path, ["hold", "do not hold"]);
        bug.lines.push(format!("{LOCKS}    {line}"));
        bug.lead.locks = Some(guarded);
    }
}

/// How a guard did, or locks, without comfort.
fn words(guarded: &Guarded, program: &std::path::Path, [holds, fails]: [&str; 2]) -> String {
    let Some(plan) = &guarded.plan else {
        return format!("none: {}", guarded.why.as_deref().unwrap_or("it could not be made"));
    };
    let clips = format!("{} of {} failing schedules pass", guarded.clips - guarded.clips_failed, guarded.clips);
    let fresh = format!("{} of {} fresh ones", guarded.schedules - guarded.failures, guarded.schedules);
    if guarded.verified {
        return format!("{holds}: {clips}, {fresh}; in production: SELVEDGE_PLAN={plan} {}", program.display());
    }
    let why = guarded.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{fails}: {clips}, {fresh}{why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspicious_lines_are_the_users() {
        let point = |file: &str, score| RankedPoint {
            rank: 1,
            file: Some(file.to_owned()),
            line: Some(7),
            function: Some("f".to_owned()),
            score,
            why: "so it is".to_owned(),
            evidence: Vec::new(),
        };
        let library = point("/rustc/1/library/core/src/sync/atomic.rs", 0.9);
        let text = ranking_text(Some(&[library.clone(), point("/far/main.rs", 0.5), point("/far/low.rs", 0.001)]));
        assert!(text.contains("\n  1  main.rs:7 in f  0.50\n     so it is\n"), "{text}");
        assert!(!text.contains("atomic.rs") && !text.contains("low.rs"), "{text}");
        // A headline over nothing says less than nothing.
        assert_eq!(ranking_text(Some(&[library])), "");
        assert_eq!(ranking_text(None), "");
    }
}
