//! Controlled runs without a fork server: the program is started anew for each.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_drive::control::{Answer, ControlFile, ControlRequest, Log, World};
use selvedge_drive::controlled::Prepared;
use selvedge_drive::plan::PlanSpec;
use selvedge_drive::server::command_of;
use selvedge_events::plan::Observe;
use selvedge_sched::{Spec, StrategyKind};

use super::find::MOST_STEPS;
use crate::error::{Result, at, tool};
use crate::exec::{Ending, Limits, Running};

/// Starts a program again and again.
#[derive(Debug)]
pub struct Alone<'a> {
    prepared: &'a Prepared,
    dir: PathBuf,
    control: ControlFile,
    plan: PathBuf,
}

impl<'a> Alone<'a> {
    /// Prepares runs that leave what `observe` says; all files go to `dir`.
    pub fn new(prepared: &'a Prepared, observe: Observe, dir: &Path) -> Result<Alone<'a>> {
        let traces = dir.join("traces");
        at("create", dir, fs::create_dir_all(dir))?;
        let control = dir.join("control");
        let control = at("create", &control, ControlFile::create(&control, 1))?;
        let mut spec = PlanSpec::new(observe, &traces);
        spec.images.clone_from(&prepared.images);
        spec.control = Some(control.in_plan());
        let plan = dir.join("plan");
        at("write", &plan, fs::write(&plan, tool("write a plan", spec.to_bytes())?))?;
        Ok(Alone { prepared, dir: dir.to_owned(), control, plan })
    }

    /// Where the last run's traces are.
    pub fn traces(&self) -> PathBuf {
        self.dir.join("traces")
    }

    /// Makes one run.
    pub fn run(&self, request: &ControlRequest, limit: Duration) -> Result<(Ending, Answer)> {
        let traces = self.traces();
        if traces.exists() {
            at("remove", &traces, fs::remove_dir_all(&traces))?;
        }
        at("create", &traces, fs::create_dir_all(&traces))?;
        let control = self.control.path();
        at("write", control, self.control.ask(request, false))?;
        let running = Running::start(command_of(&self.prepared.inputs, &self.plan), "run", &self.dir)?;
        let ending = running.wait(&Limits::time(limit))?.ending;
        Ok((ending, at("read", control, self.control.answer())?))
    }
}

/// A run by the random strategy with this seed.
pub fn random(seed: u64) -> ControlRequest {
    ControlRequest {
        spec: Spec { kind: StrategyKind::Random, seed, ..Spec::default() },
        script: Vec::new(),
        log: Log::Switches,
        most_steps: MOST_STEPS,
        until: None,
        world: World { random: Some(seed), ..World::default() },
    }
}
