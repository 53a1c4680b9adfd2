//! Putting a guard to use: a plan with nothing but the guard, the directory that its logs go to, and the names of its sites there.

use std::path::{Path, PathBuf};

use crate::guard::compile::Guard;
use crate::guard::keys::Keyed;
use crate::guard::site_names::SiteNames;
use crate::guard::train::free_plan;
use crate::plan::WritePlanError;
use crate::program::Program;
use crate::store::{Store, StoreError, write_whole};

/// Why a guard cannot be put to use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeployError {
    /// The plan.
    #[error("cannot write the plan")]
    Plan(#[from] WritePlanError),
    /// Files.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A guard that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The plan.
    pub plan: PathBuf,
    /// Where logs go.
    pub logs: PathBuf,
}

/// Makes a guard ready: the plan goes to `plan`, or else beside the logs.
pub fn deploy(
    store: &Store,
    guard: &Guard,
    images: &[Keyed],
    (program, invariants): (&Program, &Path),
    plan: Option<&Path>,
) -> Result<Deployed, DeployError> {
    let logs = store.new_guard()?;
    SiteNames::of(guard, images, program, invariants).save(&logs)?;
    let (table, specs) = guard.alone(images);
    let bytes = free_plan(table.to_bytes()?, specs, &logs)?;
    let plan = plan.map_or_else(|| logs.join("plan"), Path::to_owned);
    write_whole(&plan, &bytes)?;
    // A program may be started elsewhere.
    let plan = plan.canonicalize().unwrap_or(plan);
    Ok(Deployed { plan, logs })
}
