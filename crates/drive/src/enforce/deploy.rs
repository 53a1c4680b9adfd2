//! Putting locks to use: a plan with nothing else, the directory that its logs go to, and what these say.

use std::path::{Path, PathBuf};

use selvedge_events::bytes::{array_at, u64_at};
use selvedge_events::enforce::{COUNTERS, Counter, LOG_COUNTERS, LOG_MAGIC, LOG_PREFIX};
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

/// What all logs in a directory have counted together, by counter.
pub fn counted(logs: &Path) -> Vec<(Counter, u64)> {
    let files: Vec<PathBuf> =
        std::fs::read_dir(logs).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let is_log = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LOG_PREFIX));
    let bytes: Vec<Vec<u8>> = files.iter().filter(is_log).filter_map(|path| std::fs::read(path).ok()).collect();
    let whole = || bytes.iter().filter(|bytes| array_at(bytes, 0) == Some(LOG_MAGIC));
    let sum = |number: usize| whole().filter_map(|bytes| u64_at(bytes, LOG_COUNTERS + number * 8)).sum::<u64>();
    COUNTERS.iter().map(|(counter, _)| (*counter, sum(*counter as usize))).collect()
}

/// The same in words, without what is zero; waits that were given up are told in any case.
pub fn counters(logs: &Path) -> Vec<(u64, &'static str)> {
    let all = counted(logs).into_iter().zip(COUNTERS).map(|((counter, count), (_, text))| (counter, count, *text));
    let told = all.filter(|(counter, count, _)| *count > 0 || *counter == Counter::Escapes);
    told.map(|(_, count, text)| (count, text)).collect()
}
