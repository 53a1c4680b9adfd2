//! One kernel of a bug of the paper: what passing runs teach, where locks go, and how schedules end without and with them.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use selvedge_analyze::atomicity::profile::{Atomicity, Profile};
use selvedge_corpus::Kernel;
use selvedge_drive::controlled::Prepared;
use selvedge_drive::enforce::compile::Enforced;
use selvedge_drive::enforce::deploy::counted;
use selvedge_drive::enforce::file::load;
use selvedge_drive::enforce::groups::{Groups, Said};
use selvedge_drive::enforce::profile::{ProfileOptions, profile};
use selvedge_drive::explore::Bench;
use selvedge_drive::guard::keys::images_of;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::program::Program;
use selvedge_drive::run::Stop;
use selvedge_events::enforce::{Counter, LOG_PREFIX};
use selvedge_findings::Outcome;
use serde::Serialize;

use crate::error::{Result, at, tool};
use crate::guard::runs::{Subject, world};

/// What a profile has, and what is placed for it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Placed {
    /// Shared variables.
    pub variables: usize,
    /// Of these, without a lock of their own.
    pub unprotected: usize,
    /// Pairs that others may read between.
    pub read: usize,
    /// Pairs that nobody may come between.
    pub exclusive: usize,
    /// Pairs that are enforced.
    pub enforced: usize,
    /// Pairs that cannot be.
    pub impossible: usize,
    /// Pairs whose points this build does not have.
    pub unknown: usize,
    /// Locks.
    pub locks: usize,
    /// Acquisitions for reading, exclusive ones, releases and weakenings, before deadlock resolution and after.
    pub before: [usize; 4],
    /// After it.
    pub after: [usize; 4],
    /// Groups of variables that belong together.
    pub groups: usize,
    /// Time that placing took.
    pub seconds: f64,
}

impl Placed {
    /// Of the file of a profile and a program.
    pub fn of_files(profile: &Path, program: &Path) -> Result<Placed> {
        let profile = tool("read the profile", load(profile))?;
        let program = tool("find the program", Program::find(program.as_os_str(), OsStr::new("")))?;
        let begin = Instant::now();
        let enforced = tool("place locks", Enforced::of(&profile, &images_of(&program)))?;
        Ok(Placed::of(&profile, &enforced, begin.elapsed().as_secs_f64()))
    }

    /// Of a profile and the locks that were made of it.
    pub fn of(profile: &Profile, enforced: &Enforced, seconds: f64) -> Placed {
        let count = |wanted| profile.atomic_pairs().filter(|(.., atomicity)| *atomicity == wanted).count();
        let resolved = &enforced.resolved;
        let locks: std::collections::BTreeSet<_> = resolved.wanted.lock_of.values().collect();
        let single = || profile.variables.values().filter(|variable| variable.members.is_empty());
        Placed {
            variables: single().count(),
            unprotected: single().filter(|variable| variable.locks.is_empty()).count(),
            read: count(Atomicity::Read),
            exclusive: count(Atomicity::Exclusive),
            enforced: resolved.wanted.pairs.len(),
            impossible: resolved.unenforced.len(),
            unknown: enforced.model.bound.unknown.len(),
            locks: locks.len(),
            before: resolved.unresolved.counts(),
            after: resolved.placement.counts(),
            groups: profile.variables.len() - single().count(),
            seconds,
        }
    }
}

/// How schedules ended.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Ended {
    /// Schedules.
    pub runs: u64,
    /// Those that failed.
    pub failing: u64,
    /// Those that did not end.
    pub hanging: u64,
    /// Locks taken.
    pub taken: u64,
    /// Locks waited for.
    pub waited: u64,
    /// Waits that were given up.
    pub escapes: u64,
}

/// A kernel, measured.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// The bug in the paper.
    pub bug: String,
    /// Profiled runs, and how many passed.
    pub profiled: (u64, u64),
    /// What is placed; nothing where the profile has no pairs for the build.
    pub placed: Option<Placed>,
    /// Why not.
    pub refused: Option<String>,
    /// Without locks.
    pub without: Ended,
    /// With them.
    pub with: Option<Ended>,
    /// Time that all this took.
    pub seconds: f64,
}

impl Measured {
    /// Whether it fails without locks.
    pub fn fails_without(&self) -> bool {
        self.without.failing + self.without.hanging > 0
    }

    /// Whether it does not fail any more.
    pub fn is_suppressed(&self) -> bool {
        self.fails_without() && self.with.is_some_and(|with| with.failing + with.hanging == 0)
    }
}

/// Measures a kernel: profiles `profiled` runs, then tries `runs` other schedules.
pub fn measure(kernel: &Kernel, prepared: &Prepared, profiled: u32, runs: u64) -> Result<Measured> {
    let begin = Instant::now();
    let subject = Subject::new(prepared)?;
    let base = prepared.clip(world(), subject.schedules.most_steps, None);
    let options = ProfileOptions {
        runs: profiled,
        seed: 1,
        timeout: Duration::from_secs(10),
        said: Said::default(),
        groups: Groups::default(),
    };
    let learnt = tool("profile", profile(prepared, &base, &options, &Stop::default(), &mut |_| {}))?;
    let without = ended(&subject, runs, &mut subject.server(&Interventions::default(), "without")?)?;
    let mut measured = Measured {
        name: kernel.name.clone(),
        bug: bug_of(&kernel.origin.source).to_owned(),
        profiled: (learnt.tally.total(), learnt.tally.pass),
        placed: None,
        refused: None,
        without,
        with: None,
        seconds: 0.0,
    };
    let placing = Instant::now();
    match Enforced::of(&learnt.profile, &prepared.surveyed.files()) {
        Err(error) => measured.refused = Some(error.to_string()),
        Ok(enforced) => {
            let placing = placing.elapsed().as_secs_f64();
            let mut interventions = Interventions::default();
            tool("write a plan", interventions.enforce(&enforced, &prepared.images))?;
            measured.with = Some(ended(&subject, runs, &mut subject.server(&interventions, "with")?)?);
            measured.placed = Some(Placed::of(&learnt.profile, &enforced, placing));
        }
    }
    measured.seconds = begin.elapsed().as_secs_f64();
    Ok(measured)
}

/// The part of a kernel's source that names the paper's bug.
fn bug_of(source: &str) -> &str {
    let part = source.split(';').map(str::trim).find_map(|part| part.strip_prefix("enforce "));
    part.map_or("", |part| part.strip_prefix("Table 1, ").unwrap_or(part))
}

fn ended(subject: &Subject<'_>, runs: u64, server: &mut Bench<'_>) -> Result<Ended> {
    let mut ended = Ended { runs, ..Ended::default() };
    for number in 0..runs {
        let (_, outcome, _) = tool("make a run", server.run(&subject.schedules.request(number)))?;
        ended.failing += u64::from(matches!(outcome, Outcome::Fail { .. }));
        ended.hanging += u64::from(outcome == Outcome::Hang);
        for (counter, count) in counted(server.dir()) {
            match counter {
                Counter::Taken => ended.taken += count,
                Counter::Waited => ended.waited += count,
                Counter::Escapes => ended.escapes += count,
                _ => {}
            }
        }
        remove_logs(server.dir())?;
    }
    Ok(ended)
}

fn remove_logs(dir: &Path) -> Result<()> {
    for entry in at("read", dir, std::fs::read_dir(dir))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(LOG_PREFIX) {
            at("remove", &entry.path(), std::fs::remove_file(entry.path()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_named_as_in_the_paper() {
        assert_eq!(bug_of("rank Table 1, X; enforce Table 1, mysql 791; guard Table 1 row W-W|R"), "mysql 791");
        assert_eq!(bug_of("guard Table 1"), "");
    }
}
