//! The page of real programs: what hunts did in their budgets, and every bug that they showed, with what there is to say of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::program::{Amounts, Hunted, Shown};
use crate::error::{Result, at};
use crate::machine::Machine;
use crate::place;
use crate::table::{write, write_json};

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Real {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// How to hunt.
    pub amounts: Amounts,
    /// The programs.
    pub programs: Vec<Hunted>,
    /// What could not be measured.
    pub problems: Vec<String>,
}

/// What people found out about bugs that are shown: by program and what the bug is about.
pub type Notes = BTreeMap<(String, String), String>;

/// Reads `bench/src/real/notes.tsv`: program, what it is about, what there is to say.
pub fn notes() -> Result<Notes> {
    let path = place::repository().join("bench/src/real/notes.tsv");
    let text = at("read", &path, std::fs::read_to_string(&path))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Notes {
    let row = |line: &str| {
        let mut cells = line.split('\t').map(str::to_owned);
        Some(((cells.next()?, cells.next()?), cells.next()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

impl Real {
    /// The page.
    pub fn page(&self, notes: &Notes) -> String {
        let mut page = format!(
            "# Real programs\n\nMade by `cargo run --release -p selvedge-bench --bin real -- --save`: `selvedge hunt --runs {} --budget {} \
             --seed {}` on programs that are not ours, built from their packages with `selvedge cc`. A hunt may take its budget, a tenth \
             of it and 5 s: {:.0} s. Raw results: `bench/results/real.json`.\n\n",
            self.amounts.runs,
            self.amounts.budget,
            self.amounts.seed,
            self.amounts.most()
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        page += "\n| program | runs recorded | passed | events | predictions | made to happen | with harm | refuted | not tried | bugs shown | \
                 exit | time | in budget |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n";
        for hunted in &self.programs {
            let figures = &hunted.figures;
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} s | {} |",
                hunted.name,
                hunted.recorded.0,
                hunted.recorded.1,
                figures.events,
                figures.predicted.values().sum::<u64>(),
                figures.confirmed,
                figures.harmful,
                figures.refuted,
                figures.untried,
                hunted.shown.len(),
                hunted.exit,
                hunted.seconds,
                if hunted.seconds <= self.amounts.most() { "yes" } else { "NO" }
            );
        }
        for hunted in &self.programs {
            let _ = writeln!(page, "\n## {}\n\n{}.\n", hunted.name, hunted.workload);
            page += "What the hunt said of itself:\n\n```\n";
            hunted.said.iter().for_each(|line| page += &format!("{line}\n"));
            page += "```\n";
            if hunted.shown.is_empty() {
                page += "\nNo bug was shown.\n";
            }
            for (number, shown) in (1..).zip(&hunted.shown) {
                bug(&mut page, number, hunted, shown, notes);
            }
        }
        if !self.problems.is_empty() {
            page += "\n## Not measured\n\n";
            self.problems.iter().for_each(|problem| page += &format!("- {problem}\n"));
        }
        page
    }

    /// Writes the page and the raw results.
    pub fn save(&self, notes: &Notes) -> Result<[PathBuf; 2]> {
        let (page, raw) = (place::result_pages().join("real.md"), place::raw_results().join("real.json"));
        write(&page, &self.page(notes))?;
        write_json(&raw, self)?;
        Ok([page, raw])
    }
}

fn bug(page: &mut String, number: usize, hunted: &Hunted, shown: &Shown, notes: &Notes) {
    let _ = writeln!(page, "\n### {number}. {}\n", shown.title);
    let how =
        if shown.has_clip { "a schedule makes it happen again" } else { "seen in the act in free runs with noise" };
    let _ =
        writeln!(page, "- `{}`, id `{}`; {how}; {} more of the same root cause", shown.about, shown.id, shown.others);
    let _ = writeln!(page, "- Harm: {}", shown.harm);
    if let Some(guard) = &shown.guard {
        let word = if guard.verified { "holds" } else { "none that holds" };
        let why = guard.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let _ = writeln!(
            page,
            "- Guard: {word}{why}; {} of {} failing and {} of {} fresh schedules pass with it",
            guard.clips - guard.clips_failed,
            guard.clips,
            guard.schedules - guard.failures,
            guard.schedules
        );
    }
    // Versions come and go; what a bug is about stays.
    let program = hunted.name.split('-').next().unwrap_or(&hunted.name);
    match notes.get(&(program.to_owned(), shown.about.clone())) {
        Some(note) => page.push_str(&format!("\n{note}\n")),
        None => page.push_str("\nNobody has looked into this one yet.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_rows_of_three_cells() {
        let notes = parse("# a comment\npbzip2\tf / g: x\tIt is known.\nbroken\n");
        assert_eq!(notes.len(), 1);
        assert_eq!(notes.get(&("pbzip2".into(), "f / g: x".into())).map(String::as_str), Some("It is known."));
    }

    #[test]
    fn the_notes_that_are_here_can_be_read() {
        let text = include_str!("notes.tsv");
        let rows = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count();
        assert_eq!(parse(text).len(), rows);
    }
}
