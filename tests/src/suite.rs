//! A whole folder of programs: each is judged, all failures come in one list.

use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tempfile::TempDir;

use crate::compare::compare;
use crate::controlled::{Controlled, Effort, check_controlled, check_deadlock};
use crate::directives::{Deadlock, Ending};
use crate::gaps::Gaps;
use crate::mode::Mode;
use crate::program::Program;
use crate::run::{Outcome, Run};
use crate::toolchain::{BuildError, Built, Toolchain};

/// How many programs are built and run at a time.
pub const JOBS: usize = 2;

/// The last line that a program prints when it ends normally.
const LAST_LINE: &str = "EXIT-SUCCESS";

/// How much of a failed program's error output is shown.
const STDERR_LINES: usize = 6;

/// What became of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It did what it should.
    Pass,
    /// It could not be tried here, and why.
    Skip(String),
    /// It did not, and how.
    Fail(String),
}

/// What became of all programs, in their order.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the test in reports and in `known_gaps.tsv`.
    pub mode: String,
    /// Each program's name and verdict.
    pub verdicts: Vec<(String, Verdict)>,
}

/// Judges all programs, [`JOBS`] at a time.
pub fn run_all(mode: &str, programs: &[Program], judge: impl Fn(&Program) -> Verdict + Sync) -> Report {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(vec![None; programs.len()]);
    let work = || {
        while let Some((index, program)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            programs.get(index).map(|program| (index, program))
        } {
            let verdict = judge(program);
            if let Ok(mut verdicts) = verdicts.lock() {
                verdicts[index] = Some(verdict);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(work);
        }
    });
    let verdicts = verdicts.into_inner().unwrap_or_default();
    let names = programs.iter().map(|program| program.name.clone());
    let missing = || Verdict::Fail("the judge did not finish".into());
    let verdicts = verdicts.into_iter().map(|v| v.unwrap_or_else(missing));
    Report { mode: mode.to_owned(), verdicts: names.zip(verdicts).collect() }
}

/// Whether a program, natively, ends and prints as its directives say.
pub fn check_directive(toolchain: &Toolchain, program: &Program) -> Verdict {
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(verdict) => return verdict,
    };
    match native_outcome(toolchain, program, scratch.path()) {
        Ok(outcome) => match broken_promise(program, &outcome) {
            None => Verdict::Pass,
            Some(problem) => scratch.fail(problem, &outcome),
        },
        Err(verdict) => verdict,
    }
}

/// What in a native run is not as the program's directives say.
fn broken_promise(program: &Program, outcome: &Outcome) -> Option<String> {
    let (ending, wanted) = (outcome.ending, program.directives.ending);
    let last = outcome.stdout.lines().last().unwrap_or("");
    if ending != wanted {
        let problem = format!("natively ended by {ending}, but its directive says {wanted}");
        Some(problem)
    } else if matches!(wanted, Ending::Exit(_)) && last != LAST_LINE {
        Some(format!("natively its last line is {last:?}, not {LAST_LINE}"))
    } else {
        None
    }
}

/// Whether a program behaves in `mode` as it does natively. Traces of a failed run are kept.
pub fn check_against_native(native: &Toolchain, selvedge: &Path, mode: Mode, program: &Program) -> Verdict {
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(verdict) => return verdict,
    };
    let expected = match native_outcome(native, program, scratch.path()) {
        Ok(outcome) => outcome,
        Err(verdict) => return verdict,
    };
    if let Some(problem) = broken_promise(program, &expected) {
        return scratch.fail(problem, &expected);
    }
    let wrapped = native.wrapped_by(selvedge);
    let built = match wrapped.build(program, &scratch.path().join("wrapped")) {
        Ok(built) => built,
        Err(error) => return Verdict::Fail(format!("does not build with the wrapper: {error}")),
    };
    let dir = scratch.path().join(mode.name());
    let mut command = mode.prefix(selvedge, &dir.join("traces"));
    command.extend(built.command());
    let run =
        Run { command, env: program.directives.env.clone(), dir, timeout: mode.timeout(program.directives.timeout) };
    match run.execute() {
        Err(error) => Verdict::Fail(with_causes(&error)),
        Ok(seen) => match compare(mode, &expected, &seen) {
            Ok(()) => Verdict::Pass,
            Err(mismatch) => scratch.fail(mismatch.to_string(), &seen),
        },
    }
}

/// Whether a program behaves under every controlled schedule as it does natively, or deadlocks as its directive says.
pub fn check_under_control(native: &Toolchain, selvedge: &Path, program: &Program, effort: Effort) -> Verdict {
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(verdict) => return verdict,
    };
    let deadlocks = program.directives.deadlock != Deadlock::None;
    let expected = match native_outcome(native, program, scratch.path()) {
        Ok(outcome) if deadlocks => outcome,
        Ok(outcome) => match broken_promise(program, &outcome) {
            Some(problem) => return scratch.fail(problem, &outcome),
            None => outcome,
        },
        Err(verdict) => return verdict,
    };
    let built = match native.wrapped_by(selvedge).build(program, &scratch.path().join("wrapped")) {
        Ok(built) => built,
        Err(error) => return Verdict::Fail(format!("does not build with the wrapper: {error}")),
    };
    let directives = &program.directives;
    // One that hangs takes all of it in the survey; of the others only those that fail, so there is time enough for a
    // busy machine.
    let timeout = if deadlocks { directives.timeout } else { directives.timeout * 3 };
    let started = Controlled::start(selvedge, &built, &directives.env, scratch.path(), timeout);
    let judged = started.map_err(|error| error.to_string()).and_then(|mut controlled| match deadlocks {
        true => check_deadlock(&mut controlled, program, effort),
        false => check_controlled(&mut controlled, program, &expected, effort),
    });
    match judged {
        Ok(()) => Verdict::Pass,
        Err(problem) => {
            let kept = scratch.0.keep();
            Verdict::Fail(format!("{problem}\nfiles: {}", kept.display()))
        }
    }
}

fn native_outcome(toolchain: &Toolchain, program: &Program, scratch: &Path) -> Result<Outcome, Verdict> {
    let built: Built = match toolchain.build(program, &scratch.join("native")) {
        Ok(built) => built,
        Err(error @ BuildError::Missing(_)) => return Err(Verdict::Skip(error.to_string())),
        Err(error) => return Err(Verdict::Fail(format!("does not build natively: {error}"))),
    };
    let run = Run {
        command: built.command(),
        env: program.directives.env.clone(),
        dir: scratch.join("native-run"),
        timeout: program.directives.timeout,
    };
    run.execute().map_err(|error| Verdict::Fail(with_causes(&error)))
}

/// A directory for one program; removed at the end, kept after a failure.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Result<Scratch, Verdict> {
        let made = tempfile::Builder::new().prefix("selvedge-itest-").tempdir();
        made.map(Scratch).map_err(|error| Verdict::Fail(format!("no temporary directory: {error}")))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A failure that says what the program said last and where its files are.
    fn fail(self, problem: String, outcome: &Outcome) -> Verdict {
        let stderr: Vec<&str> = outcome.stderr.lines().collect();
        let shown = &stderr[stderr.len().saturating_sub(STDERR_LINES)..];
        let kept = self.0.keep();
        let mut text = problem;
        for line in shown {
            text += &format!("\nstderr: {line}");
        }
        text += &format!("\nfiles: {}", kept.display());
        Verdict::Fail(text)
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

impl Report {
    /// What is wrong in the light of the known gaps: failures without a row, and rows without a
    /// failure. Empty when all is as expected.
    pub fn problems(&self, gaps: &Gaps) -> Vec<String> {
        let problem = |(name, verdict): &(String, Verdict)| match (verdict, gaps.find(name, &self.mode)) {
            (Verdict::Fail(how), None) => Some(format!("{name}: {how}")),
            (Verdict::Pass, Some(gap)) => {
                Some(format!("{name}: passes now, so its row in known_gaps.tsv is to be removed ({})", gap.reason))
            }
            _ => None,
        };
        self.verdicts.iter().filter_map(problem).collect()
    }

    /// The list that a person reads, with skipped programs and known gaps.
    pub fn render(&self, gaps: &Gaps) -> String {
        let mut text = format!("{self}\n");
        for (name, verdict) in &self.verdicts {
            match (verdict, gaps.find(name, &self.mode)) {
                (Verdict::Skip(why), _) => text += &format!("skipped {name}: {why}\n"),
                (Verdict::Fail(_), Some(gap)) => {
                    text += &format!("known gap {name}: {}\n", gap.reason);
                }
                _ => {}
            }
        }
        for problem in self.problems(gaps) {
            text += &format!("FAILED {}\n", problem.replace('\n', "\n    "));
        }
        text
    }

    fn count(&self, wanted: fn(&Verdict) -> bool) -> usize {
        self.verdicts.iter().filter(|(_, v)| wanted(v)).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.count(|v| *v == Verdict::Pass);
        let skipped = self.count(|v| matches!(v, Verdict::Skip(_)));
        let failed = self.count(|v| matches!(v, Verdict::Fail(_)));
        let mode = &self.mode;
        write!(f, "{mode}: {passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdicts: &[(&str, Verdict)]) -> Report {
        let owned = verdicts.iter().map(|(n, v)| ((*n).to_owned(), v.clone()));
        Report { mode: "record".into(), verdicts: owned.collect() }
    }

    #[test]
    fn a_failure_needs_a_row_and_a_row_needs_a_failure() {
        let gaps =
            Gaps::parse("known.c\trecord\tx\nstale.c\trecord\tx\nskipped.c\trecord\tx\nnew.c\tdisarmed\tx").unwrap();
        let report = report(&[
            ("fine.c", Verdict::Pass),
            ("known.c", Verdict::Fail("as ever".into())),
            ("stale.c", Verdict::Pass),
            ("skipped.c", Verdict::Skip("nothing to link".into())),
            ("new.c", Verdict::Fail("broke".into())),
        ]);
        let problems = report.problems(&gaps);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("stale.c: passes now"));
        assert_eq!(problems[1], "new.c: broke");
        let text = report.render(&gaps);
        assert!(text.starts_with("record: 2 passed, 2 failed, 1 skipped\n"));
        assert!(text.contains("known gap known.c: x\n"));
        assert!(text.contains("skipped skipped.c: nothing to link\n"));
    }

    #[test]
    fn verdicts_keep_the_order_of_the_programs() {
        let program = |name: &str| Program { name: name.into(), source: name.into(), directives: Default::default() };
        let programs = ["a", "b", "c", "d", "e"].map(program);
        let report = run_all("record", &programs, |p| Verdict::Skip(p.name.clone()));
        for (name, verdict) in &report.verdicts {
            assert_eq!(verdict, &Verdict::Skip(name.clone()));
        }
        assert_eq!(report.verdicts.len(), 5);
    }
}
