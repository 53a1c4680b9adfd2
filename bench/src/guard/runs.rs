//! Runs that are counted: schedules by number, the same with and without a guard, and free runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use selvedge_analyze::invariant::Invariants;
use selvedge_drive::control::{ControlRequest, Log, World};
use selvedge_drive::controlled::Prepared;
use selvedge_drive::explore::{Bench, switches};
use selvedge_drive::guard::choose::{Choice, choose};
use selvedge_drive::guard::compile::{Guard, GuardHow, Mode};
use selvedge_drive::guard::keys::Keyed;
use selvedge_drive::guard::log::{LogFile, take_logs};
use selvedge_drive::guard::train::free_plan;
use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::run::{Guest, GuestOutput, RunRequest, Stop, run_guest};
use selvedge_drive::server::ControlledRun;
use selvedge_events::guard::Note;
use selvedge_findings::Outcome;
use selvedge_sched::{Spec, Step, StrategyKind};
use serde::Serialize;

use crate::error::{Result, at, tool};

/// Most time of a run.
pub const LIMIT: Duration = Duration::from_secs(5);
/// Strategies, in turn.
const KINDS: [StrategyKind; 3] = [StrategyKind::Random, StrategyKind::Pct, StrategyKind::Pos];
/// Failing runs of which the whole schedule is kept.
pub const CLIPS: usize = 10;

/// The world of all runs.
pub fn world() -> World {
    World { random: Some(1), ..World::default() }
}

/// Schedules of a program, by number. Numbers of a series are never those of another one or of a training.
#[derive(Debug, Clone, Copy)]
pub struct Schedules {
    /// Which series.
    series: u64,
    /// Choices of a run, for PCT.
    length: u64,
    /// More choices are a hang.
    pub most_steps: u64,
}

/// The series that guards are judged by.
pub const JUDGED: u64 = 1;
/// The series that invariants learn from where they learn from traces.
pub const LEARNT: u64 = 2;

impl Schedules {
    /// Of a program whose run by the default policy has so many choices.
    pub fn new(series: u64, length: u64) -> Schedules {
        // A run that takes many times as long as the first one will not end.
        Schedules { series, length: length.max(2), most_steps: length.saturating_mul(20).clamp(20_000, 100_000) }
    }

    /// Another series of the same program.
    pub fn series(self, series: u64) -> Schedules {
        Schedules { series, ..self }
    }

    /// The strategy of a run.
    pub fn spec(&self, number: u64) -> Spec {
        let kind = KINDS[usize::try_from(number).unwrap_or(0) % KINDS.len()];
        let mut seed = (self.series << 48).wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        seed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        seed = (seed ^ seed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Spec { kind, seed: seed ^ seed >> 31, length: self.length, ..Spec::default() }
    }

    /// What a run is asked to do.
    pub fn request(&self, number: u64) -> ControlRequest {
        asked(self.spec(number), Vec::new(), self.most_steps)
    }
}

/// A request for a run.
pub fn asked(spec: Spec, script: Vec<Step>, most_steps: u64) -> ControlRequest {
    ControlRequest { spec, script, log: Log::Switches, most_steps, until: None, world: world() }
}

/// How runs ended, and what a guard noted in them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Counted {
    /// Runs.
    pub runs: u64,
    /// Those that did not pass.
    pub failing: u64,
    /// Of these, with a violation.
    pub noted_failing: u64,
    /// Runs that passed, with a violation.
    pub noted_passing: u64,
    /// Violations by pair, most often first.
    pub pairs: Vec<(String, u64)>,
    /// Stalls: all, those that ended because the awaited access came, those that ended because nobody could come.
    pub stalls: [u64; 3],
}

impl Counted {
    /// Runs that passed.
    pub fn passing(&self) -> u64 {
        self.runs - self.failing
    }

    /// Runs with a violation.
    pub fn noted(&self) -> u64 {
        self.noted_passing + self.noted_failing
    }

    /// Both together.
    pub fn and(mut self, other: &Counted) -> Counted {
        self.runs += other.runs;
        self.failing += other.failing;
        self.noted_failing += other.noted_failing;
        self.noted_passing += other.noted_passing;
        let mut pairs: BTreeMap<String, u64> = std::mem::take(&mut self.pairs).into_iter().collect();
        for (pair, count) in &other.pairs {
            *pairs.entry(pair.clone()).or_default() += count;
        }
        self.pairs = most_first(pairs);
        for (mine, theirs) in self.stalls.iter_mut().zip(other.stalls) {
            *mine += theirs;
        }
        self
    }
}

fn most_first(pairs: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut pairs: Vec<(String, u64)> = pairs.into_iter().collect();
    pairs.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    pairs
}

/// Counts as runs end.
#[derive(Debug, Default)]
struct Count {
    counted: Counted,
    pairs: BTreeMap<String, u64>,
}

impl Count {
    fn add(&mut self, outcome: Outcome, logs: &[LogFile], guard: Option<&Guard>) {
        let mut noted = false;
        for entry in logs.iter().filter_map(LogFile::log).flat_map(|log| log.entries().collect::<Vec<_>>()) {
            if entry.note != Note::Violation {
                continue;
            }
            noted = true;
            let key = |site: u32| {
                let site = (site as usize).checked_sub(1).and_then(|at| guard?.sites.get(at));
                site.map_or("nothing".to_owned(), |site| site.key.0.clone())
            };
            let how = if entry.own { "beyond" } else { "directly after" };
            *self.pairs.entry(format!("{} {how} {}", key(entry.site), key(entry.other))).or_default() += 1;
            let [all, resolved, futile] = &mut self.counted.stalls;
            *all += u64::from(entry.resolved) + u64::from(entry.timed_out) + u64::from(entry.futile);
            *resolved += u64::from(entry.resolved);
            *futile += u64::from(entry.futile);
        }
        let failed = outcome != Outcome::Pass;
        let counted = &mut self.counted;
        counted.runs += 1;
        counted.failing += u64::from(failed);
        counted.noted_failing += u64::from(failed && noted);
        counted.noted_passing += u64::from(!failed && noted);
    }

    fn done(self) -> Counted {
        Counted { pairs: most_first(self.pairs), ..self.counted }
    }
}

/// A failing run.
#[derive(Debug, Clone)]
pub struct Failing {
    /// Its number.
    pub number: u64,
    /// Its whole schedule, of the first ones.
    pub script: Option<Vec<Step>>,
}

/// A program that is run.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The program.
    pub prepared: &'a Prepared,
    /// Its images.
    pub images: Vec<Keyed>,
    /// Its schedules.
    pub schedules: Schedules,
}

impl<'a> Subject<'a> {
    /// Runs it once, to know how long its runs are.
    pub fn new(prepared: &'a Prepared) -> Result<Subject<'a>> {
        let images = Keyed::load_all(&prepared.surveyed.files());
        let mut subject = Subject { prepared, images, schedules: Schedules::new(JUDGED, 0) };
        let first = asked(Spec::default(), Vec::new(), 100_000);
        let (run, ..) = tool("make a run", subject.server(&Interventions::default(), "first")?.run(&first))?;
        subject.schedules = Schedules::new(JUDGED, run.answer.steps);
        Ok(subject)
    }

    /// A server; its files go to a directory with this name.
    pub fn server(&self, interventions: &Interventions, name: &str) -> Result<Bench<'static>> {
        let prepared = self.prepared;
        let dir = prepared.scratch.path().join(name);
        let server = Bench::start(&prepared.inputs, &prepared.images, interventions, &dir, None, LIMIT);
        tool("start a server", server)
    }

    /// The guard of these invariants.
    pub fn guard(&self, invariants: &Invariants, mode: Mode) -> Result<Guard> {
        let chosen = choose(invariants, &Choice::default()).invariants;
        let how = GuardHow { mode, ..GuardHow::default() };
        tool("make a guard", Guard::of(&chosen, &self.images, &how))
    }

    /// The same as an intervention in controlled runs.
    pub fn beside(&self, guard: &Guard) -> Result<Interventions> {
        let table = guard.beside(&self.prepared.images).0.to_bytes();
        Ok(Interventions::guard(tool("write a table", table)?))
    }

    /// Runs the first schedules without a guard; with the runs that failed.
    pub fn without(&self, runs: u64, server: &mut Bench<'_>) -> Result<(Counted, Vec<Failing>)> {
        let mut count = Count::default();
        let mut failing = Vec::new();
        for number in 0..runs {
            let (run, outcome, _) = tool("make a run", server.run(&self.schedules.request(number)))?;
            count.add(outcome, &[], None);
            if outcome != Outcome::Pass {
                let script = (failing.len() < CLIPS && run.answer.lost == 0).then(|| switches(&run));
                failing.push(Failing { number, script });
            }
        }
        Ok((count.done(), failing))
    }

    /// Runs the first schedules with a guard.
    pub fn guarded(&self, runs: u64, guard: &Guard, name: &str) -> Result<Counted> {
        let mut server = self.server(&self.beside(guard)?, name)?;
        let mut count = Count::default();
        for number in 0..runs {
            let (_, outcome, _) = tool("make a run", server.run(&self.schedules.request(number)))?;
            count.add(outcome, &logs(server.dir().to_owned())?, Some(guard));
        }
        Ok(count.done())
    }

    /// Makes free runs with a guard and nothing else.
    pub fn free(&self, runs: u64, guard: &Guard, name: &str) -> Result<Counted> {
        let prepared = self.prepared;
        let dir = prepared.scratch.path().join(name);
        at("create", &dir, std::fs::create_dir_all(&dir))?;
        let (table, specs) = guard.alone(&self.images);
        let plan = tool("write a plan", table.to_bytes().and_then(|table| free_plan(table, specs, &dir)))?;
        let plan_file = dir.join("plan");
        at("write", &plan_file, std::fs::write(&plan_file, plan))?;
        let args = prepared.inputs.argv.iter().skip(1).cloned().collect();
        let guest = Guest { program: prepared.program.path.clone().into_os_string(), args };
        let stop = Stop::default();
        let mut count = Count::default();
        for _ in 0..runs {
            let request = RunRequest {
                guest: &guest,
                plan: &plan_file,
                output: GuestOutput::Files(dir.clone()),
                timeout: Some(LIMIT),
                stop: &stop,
            };
            let ended = run_guest(&request, &mut GuestInput::Reopen(prepared.inputs.stdin.clone()));
            let (end, _) = tool("make a free run", ended)?;
            count.add(end.outcome(), &logs(dir.clone())?, Some(guard));
        }
        Ok(count.done())
    }
}

fn logs(dir: PathBuf) -> Result<Vec<LogFile>> {
    at("read the logs of", &dir, take_logs(&dir))
}

/// Whether a run passes.
pub fn passes(server: &mut Bench<'_>, request: &ControlRequest) -> Result<bool> {
    let (_, outcome, _): (ControlledRun, _, _) = tool("make a run", server.run(request))?;
    if let Ok(left) = take_logs(server.dir()) {
        drop(left);
    }
    Ok(outcome == Outcome::Pass)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_run_has_a_schedule_of_its_own() {
        let one = Schedules::new(JUDGED, 100);
        let other = one.series(LEARNT);
        let seeds: BTreeSet<u64> =
            (0..1000).flat_map(|number| [one.spec(number).seed, other.spec(number).seed]).collect();
        assert_eq!(seeds.len(), 2000);
        let kinds: BTreeSet<_> = (0..3).map(|number| one.spec(number).kind as u8).collect();
        assert_eq!(kinds.len(), 3);
        assert_eq!(one.spec(7), one.spec(7));
    }

    #[test]
    fn counts_add_up() {
        let pair = |name: &str, count| (name.to_owned(), count);
        let one = Counted { runs: 3, failing: 1, pairs: vec![pair("a", 2), pair("b", 1)], ..Counted::default() };
        let both =
            one.clone().and(&Counted { runs: 2, noted_passing: 2, pairs: vec![pair("b", 4)], ..Counted::default() });
        assert_eq!((both.runs, both.failing, both.noted_passing, both.passing()), (5, 1, 2, 4));
        assert_eq!(both.pairs, [pair("b", 5), pair("a", 2)]);
    }
}
