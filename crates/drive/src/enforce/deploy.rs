//! Putting locks to use: a plan with nothing else, the directory that its logs go to, and what these say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use selvedge_events::bytes::{array_at, u32_at, u64_at};
use selvedge_events::enforce::{
    COUNTERS, Counter, FOR_WAITING, FOR_WORK, LOG_COUNTERS, LOG_MAGIC, LOG_PREFIX, LOG_WAIT, LOG_WAITS,
};
use selvedge_events::plan::{Intervene, Observe};

use super::compile::Enforced;
use crate::guard::deploy::{DeployError, Deployed};
use crate::plan::PlanSpec;
use crate::store::{Store, write_whole};

/// Makes locks ready: the plan goes to `plan`, or else beside the logs.
pub fn deploy(store: &Store, enforced: &Enforced, plan: Option<&Path>) -> Result<Deployed, DeployError> {
    let logs = store.new_guard()?;
    let (table, images) = enforced.alone();
    let mut spec = PlanSpec::new(Observe::Nothing, &logs);
    spec.interventions = vec![(Intervene::Enforce, table.to_bytes()?)];
    spec.images = images;
    let plan = plan.map_or_else(|| logs.join("plan"), Path::to_owned);
    write_whole(&plan, &spec.to_bytes()?)?;
    // A program may be started elsewhere.
    let plan = plan.canonicalize().unwrap_or(plan);
    Ok(Deployed { plan, logs })
}

/// The logs in a directory, as far as they are logs.
fn read(logs: &Path) -> Vec<Vec<u8>> {
    let files: Vec<PathBuf> =
        std::fs::read_dir(logs).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let is_log = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LOG_PREFIX));
    let bytes = files.iter().filter(is_log).filter_map(|path| std::fs::read(path).ok());
    bytes.filter(|bytes| array_at(bytes, 0) == Some(LOG_MAGIC)).collect()
}

/// What all logs in a directory have counted together, by counter.
pub fn counted(logs: &Path) -> Vec<(Counter, u64)> {
    let logs = read(logs);
    let sum = |number: usize| logs.iter().filter_map(|log| u64_at(log, LOG_COUNTERS + number * 8)).sum::<u64>();
    COUNTERS.iter().map(|(counter, _)| (*counter, sum(*counter as usize))).collect()
}

/// The same in words, without what is zero; waits that were given up are told in any case.
pub fn counters(logs: &Path) -> Vec<(u64, &'static str)> {
    let all = counted(logs).into_iter().zip(COUNTERS).map(|((counter, count), (_, text))| (counter, count, *text));
    let told = all.filter(|(counter, count, _)| *count > 0 || *counter == Counter::Escapes);
    told.map(|(_, count, text)| (count, text)).collect()
}

/// What was waited for a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Which lock of the table.
    pub lock: u32,
    /// How often.
    pub waits: u64,
    /// How long in all, in nanoseconds.
    pub ns: u64,
    /// Processes that gave the lock up for that.
    pub given_up: u64,
    /// Processes that gave it up because it is taken too often.
    pub too_often: u64,
}

/// What was waited for locks, the longest first.
pub fn waited(logs: &Path) -> Vec<Waited> {
    let mut all: BTreeMap<u32, Waited> = BTreeMap::new();
    for log in read(logs) {
        for lock in 0..u32_at(&log, 12).unwrap_or(0) {
            let at = LOG_WAITS + lock as usize * LOG_WAIT;
            let row = (u32_at(&log, at), u32_at(&log, at + 4), u64_at(&log, at + 8));
            let (Some(waits), Some(given_up), Some(ns)) = row else { continue };
            if waits == 0 && given_up == 0 {
                continue;
            }
            let sum = all.entry(lock).or_insert(Waited { lock, ..Waited::default() });
            sum.waits += u64::from(waits);
            sum.ns += ns;
            sum.given_up += u64::from(given_up == FOR_WAITING);
            sum.too_often += u64::from(given_up == FOR_WORK);
        }
    }
    let mut all: Vec<Waited> = all.into_values().collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.ns));
    all
}
