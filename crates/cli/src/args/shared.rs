//! What several commands take.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use selvedge_drive::control::World;
use selvedge_drive::intervene::Asked;
use selvedge_drive::store::DEFAULT_DIR;
use selvedge_events::plan::Intervene;

use crate::messages::Failure;

/// What the world looks like to a controlled program.
#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    /// Whether clocks show virtual time, which passes with the program's steps
    #[arg(long, default_value = "on", default_missing_value = "on", num_args = 0..=1, require_equals = true, value_parser = ["on", "off"])]
    pub(crate) virtual_time: String,
    /// Whether getrandom and its relatives give what the seed says
    #[arg(long, default_value = "on", default_missing_value = "on", num_args = 0..=1, require_equals = true, value_parser = ["on", "off"])]
    pub(crate) virtual_random: String,
    /// Let one wait on a condition in N end for no reason; 0 for none
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) spurious: u32,
    /// Let time-outs fire while other threads could still run
    #[arg(long)]
    pub(crate) eager_timeouts: bool,
    #[command(flatten)]
    pub(crate) interventions: InterveneArgs,
}

impl ControlArgs {
    /// The world that was asked for.
    pub(crate) fn world(&self, seed: u64) -> World {
        World {
            virtual_time: self.virtual_time == "on",
            random: (self.virtual_random == "on").then_some(seed),
            spurious: self.spurious,
            eager_timeouts: self.eager_timeouts,
            ..World::default()
        }
    }

    /// What is to be done about bugs.
    pub(crate) fn interventions(&self) -> Result<Asked, Failure> {
        self.interventions.collect()
    }
}

/// What is to be done about bugs while a program runs.
#[derive(Debug, Args)]
pub(crate) struct InterveneArgs {
    /// Run with the guard of these invariants, or of a plan that has one
    #[arg(long, value_name = "FILE")]
    pub(crate) guard: Option<PathBuf>,
    /// Run with these atomic sections healed
    #[arg(long, value_name = "FILE")]
    pub(crate) heal: Option<PathBuf>,
    /// Run with these locks enforced
    #[arg(long, value_name = "FILE")]
    pub(crate) enforce: Option<PathBuf>,
}

impl InterveneArgs {
    /// Whether anything is to be done.
    pub(crate) fn is_any(&self) -> bool {
        self.guard.is_some() || self.heal.is_some() || self.enforce.is_some()
    }

    /// All of them, or why not.
    pub(crate) fn collect(&self) -> Result<Asked, Failure> {
        let mut all = Asked::default();
        for (kind, file) in
            [(Intervene::Guard, &self.guard), (Intervene::Heal, &self.heal), (Intervene::Enforce, &self.enforce)]
        {
            all.add(kind, file.as_deref()).map_err(|error| Failure::usage(&error))?;
        }
        Ok(all)
    }
}

/// Where runs are kept.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub(crate) out: PathBuf,
}

/// `10`, `10s`, `500ms`, `2m`, `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "us" => 0.000_001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("use a number and ms, s, m or h, as in 10s".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "use a number and ms, s, m or h, as in 10s".to_owned())?;
    let time = Duration::try_from_secs_f64(number * factor).map_err(|_| "too long".to_owned())?;
    if time.is_zero() { Err("must be more than nothing".to_owned()) } else { Ok(time) }
}
