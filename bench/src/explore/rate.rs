//! Schedules in a second, with a fork server and without.

use std::time::{Duration, Instant};

use selvedge_drive::controlled::Prepared;
use selvedge_drive::explore::Bench;
use selvedge_drive::intervene::Interventions;
use selvedge_events::plan::Observe;
use serde::Serialize;

use super::alone::{Alone, random};
use crate::error::{Result, tool};

/// How long each way is measured.
const TIME: Duration = Duration::from_millis(300);
/// Most time of a run.
const LIMIT: Duration = Duration::from_secs(10);

/// Schedules in a second of one program, one at a time.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rate {
    /// By a fork server.
    pub served: f64,
    /// With the program started for each.
    pub started: f64,
}

/// Measures a program that does not fail.
pub fn rate(prepared: &Prepared) -> Result<Rate> {
    let dir = prepared.scratch.path();
    let nothing = Interventions::default();
    let server = Bench::start(&prepared.inputs, &prepared.images, &nothing, &dir.join("rate"), None, LIMIT);
    let mut server = tool("start a server", server)?;
    let served = in_a_second(|seed| tool("make a run", server.run(&random(seed))).map(drop))?;
    let alone = Alone::new(prepared, Observe::Nothing, &dir.join("rate-alone"))?;
    let started = in_a_second(|seed| alone.run(&random(seed), LIMIT).map(drop))?;
    Ok(Rate { served, started })
}

fn in_a_second(mut run: impl FnMut(u64) -> Result<()>) -> Result<f64> {
    run(0)?;
    let begin = Instant::now();
    let mut runs = 0_u32;
    while begin.elapsed() < TIME {
        runs += 1;
        run(u64::from(runs))?;
    }
    Ok(f64::from(runs) / begin.elapsed().as_secs_f64())
}
