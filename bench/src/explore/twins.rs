//! Programs without a bug under many schedules: none may fail.

use std::path::Path;
use std::time::Duration;

use selvedge_drive::controlled::Prepared;
use selvedge_drive::explore::explore;
use selvedge_drive::run::Stop;
use serde::Serialize;

use super::find::WAYS;
use crate::bars::to_f64;
use crate::error::{Result, tool, without_paths};
use crate::place;

/// Most time of a strategy: a program whose runs are long has fewer of them, and the table says so.
const LIMIT: Duration = Duration::from_secs(120);

/// A program without a bug, explored.
#[derive(Debug, Clone, Serialize)]
pub struct Twin {
    /// Its name.
    pub name: String,
    /// Schedules that were run.
    pub schedules: u64,
    /// Time that they took.
    pub seconds: f64,
    /// Steps of the longest run.
    pub longest: u64,
    /// Runs in which a thread blocked where the model does not look.
    pub hidden_blocks: u64,
    /// What failed: nothing, one hopes.
    pub failures: Vec<Failed>,
}

/// A failure that should not be.
#[derive(Debug, Clone, Serialize)]
pub struct Failed {
    /// What went wrong.
    pub failure: String,
    /// The strategy.
    pub way: &'static str,
    /// The first schedule that showed it.
    pub first: u64,
    /// How many did.
    pub count: u64,
    /// The command that shows it again.
    pub replay: String,
}

impl Twin {
    /// Schedules in a second.
    pub fn rate(&self) -> f64 {
        to_f64(self.schedules) / self.seconds.max(1e-9)
    }
}

/// Explores a program, spread over the strategies of chance; clips of failures go to `clips`.
pub fn twin(name: &str, prepared: &Prepared, schedules: u64, clips: &Path) -> Result<Twin> {
    let mut twin =
        Twin { name: name.to_owned(), schedules: 0, seconds: 0.0, longest: 0, hidden_blocks: 0, failures: Vec::new() };
    let ways = WAYS.iter().filter(|way| way.seeded);
    let shares = ways.clone().count() as u64;
    for (number, way) in (0..shares).zip(ways) {
        let share = schedules / shares + u64::from(number < schedules % shares);
        let mut options = way.options(1, share);
        options.budget = Some(LIMIT);
        let explored = tool(format!("explore {name}"), explore(prepared, &options, &Stop::default(), &mut |_| {}))?;
        twin.schedules += explored.schedules();
        twin.seconds += explored.elapsed.as_secs_f64();
        twin.longest = twin.longest.max(explored.longest);
        twin.hidden_blocks += explored.hidden_blocks;
        for (kind, failure) in explored.failures.values().enumerate() {
            let path = clips.join(format!("{name}-{}-{kind}.clip", way.name));
            tool("keep a clip", failure.clip(prepared, &options).save(&path))?;
            twin.failures.push(Failed {
                failure: without_paths(&failure.wrong.signature.detail),
                way: way.name,
                first: failure.first,
                count: failure.count,
                replay: format!("selvedge replay {}", from_repository(&path)),
            });
        }
    }
    Ok(twin)
}

/// A path as it is from the repository, where Cargo's output is in its usual place.
fn from_repository(path: &Path) -> String {
    match path.strip_prefix(place::target()) {
        Ok(below) => format!("target/{}", below.display()),
        Err(_) => path.display().to_string(),
    }
}
