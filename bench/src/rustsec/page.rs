//! The page of advisories.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::hunted::{Amounts, Found, Hunted};
use crate::error::Result;
use crate::machine::Machine;
use crate::place;
use crate::table::{write, write_json};

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Advisories {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// How to hunt.
    pub amounts: Amounts,
    /// The hunts.
    pub hunts: Vec<Hunted>,
    /// What could not be measured.
    pub problems: Vec<String>,
    /// Time that all this took.
    pub seconds: f64,
}

impl Advisories {
    /// The page.
    pub fn page(&self) -> String {
        let Amounts { budget, seed, plain, replays } = self.amounts;
        let mut page = format!(
            "# Advisories\n\nMade by `cargo run --release -p selvedge-bench --bin rustsec -- --save` in {:.0} minutes. Published versions of \
             crates that the RustSec advisory database lists, fetched by exact version. Each is used by a small test of ours in \
             `bench/programs/rustsec` (all but one of them safe Rust), and hunted: `cargo selvedge hunt --budget {budget} --seed {seed}`. \
             Raw results: `bench/results/rustsec.json`.\n\n",
            self.seconds / 60.0,
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        let found = self.hunts.iter().filter(|hunted| hunted.findings.iter().any(|found| found.harm.is_some())).count();
        let _ = writeln!(
            page,
            "\n{found} of {} advisories were made to do harm.\n\n\
             Plain: of {plain} runs of the instrumented test as it is, how many passed. Found: confirmed findings, and how many of these \
             did harm. Replayed: of {replays} replays of a clip, how many failed again; the least of the first three findings with harm.\n\n\
             | crate | advisory | the test | plain | found | with harm | worst | replayed | seconds |\n\
             |---|---|---|---:|---:|---:|---|---:|---:|",
            self.hunts.len(),
        );
        for hunted in &self.hunts {
            let _ = writeln!(page, "{}", row(hunted));
        }
        if !self.problems.is_empty() {
            page += "\n## Not measured\n\n";
            for problem in &self.problems {
                let _ = writeln!(page, "- {problem}");
            }
        }
        page
    }

    /// Writes the page and the raw results.
    pub fn save(&self) -> Result<[PathBuf; 2]> {
        let (page, raw) = (place::result_pages().join("rustsec.md"), place::raw_results().join("rustsec.json"));
        write(&page, &self.page())?;
        write_json(&raw, self)?;
        Ok([page, raw])
    }
}

fn row(hunted: &Hunted) -> String {
    let advisory = &hunted.advisory;
    let harmful: Vec<&Found> = hunted.findings.iter().filter(|found| found.harm.is_some()).collect();
    let worst = harmful.first().map_or_else(
        || "none".to_owned(),
        |found| format!("{} ({})", found.kind, found.harm.as_deref().unwrap_or_default()),
    );
    let replayed = hunted.findings.iter().filter_map(|found| found.replayed).min();
    format!(
        "| {} {} | {} | {} | {} | {} | {} | {worst} | {} | {:.0} |",
        advisory.crates[0].name,
        advisory.crates[0].version,
        advisory.id,
        advisory.about,
        hunted.plain_passes,
        hunted.findings.len(),
        harmful.len(),
        replayed.map_or("-".to_owned(), |replayed| replayed.to_string()),
        hunted.seconds
    )
}
