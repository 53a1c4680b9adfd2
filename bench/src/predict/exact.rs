//! Against exact answers: small recorded traces of which every race is known, found beside the repository or in `$SELVEDGE_TRACES`.
//!
//! An answer is only taken where its file says that it is exact: all correct reorderings were explored.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use selvedge_analyze::foresee::every_race;
use selvedge_analyze::{Goal, Relation, std_text};
use serde::{Deserialize, Serialize};

use crate::error::{BenchError, Result, at};
use crate::place;

/// A trace, its answer and ours.
#[derive(Debug, Clone, Serialize)]
pub struct Exact {
    /// The file.
    pub name: String,
    /// Events that can race with an earlier one, by the answer.
    pub racy: u64,
    /// Of these, proved by schedulable happens-before, by a sync-preserving and by a lock-reversing reordering.
    pub found: [u64; 3],
    /// Proved, and not in the answer: none, or we have a false word.
    pub surplus: u64,
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    race_pairs_line0: Vec<(u64, u64)>,
}

/// The folder of the traces, where there is one.
pub fn folder() -> Option<PathBuf> {
    let beside = || place::repository().parent().map(|parent| parent.join("shared/traces"));
    std::env::var_os("SELVEDGE_TRACES").map(PathBuf::from).or_else(beside).filter(|folder| folder.is_dir())
}

/// Every trace of the folder with an exact answer.
pub fn all(folder: &Path) -> Result<Vec<Exact>> {
    let mut names: Vec<String> = at("list", folder, std::fs::read_dir(folder))?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".oracle.json").map(str::to_owned))
        .collect();
    names.sort();
    let mut rows = Vec::new();
    for name in names {
        let answer = folder.join(format!("{name}.oracle.json"));
        let text = at("read", &answer, std::fs::read(&answer))?;
        let answer: Answer =
            serde_json::from_slice(&text).map_err(|source| BenchError::Json { what: name.clone(), source })?;
        if answer.status != "exact" {
            continue;
        }
        let trace = folder.join(format!("{name}.std"));
        rows.push(judge(name, &at("read", &trace, std::fs::read(&trace))?, &answer)?);
    }
    Ok(rows)
}

fn judge(name: String, text: &[u8], answer: &Answer) -> Result<Exact> {
    let imported = std_text::parse(text).map_err(|error| BenchError::Wrong(format!("{name}: {error}")))?;
    let pairs: BTreeSet<(u64, u64)> = answer.race_pairs_line0.iter().map(|(a, b)| (*a.min(b), *a.max(b))).collect();
    let racy: BTreeSet<u64> = pairs.iter().map(|pair| pair.1).collect();
    let mut row = Exact { name, racy: racy.len() as u64, found: [0; 3], surplus: 0 };
    let line = |event: u32| imported.history.sources.get(event as usize).copied().unwrap_or(u64::MAX);
    for prediction in every_race(&imported.history) {
        let (Goal::Race(one, two), Some(proof)) = (&prediction.goal, &prediction.proof) else { continue };
        let (one, two) = (line(*one), line(*two));
        if !pairs.contains(&(one.min(two), one.max(two))) {
            row.surplus += 1;
            continue;
        }
        let tier = match proof.relation {
            Relation::Shb => 0,
            Relation::SyncPreserving => 1,
            _ => 2,
        };
        if let Some(count) = row.found.get_mut(tier) {
            *count += 1;
        }
    }
    Ok(row)
}
