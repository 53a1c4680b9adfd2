//! The page of hunts: the paper's columns for every program of the corpus, and what must hold.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::program::{Amounts, Hunted};
use crate::error::Result;
use crate::machine::Machine;
use crate::place;
use crate::table::{write, write_json};

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Hunts {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// How to hunt.
    pub amounts: Amounts,
    /// Programs with a bug: pattern, harm and the hunt.
    pub kernels: Vec<(String, String, Hunted)>,
    /// Fixed twins.
    pub twins: Vec<Hunted>,
    /// Correct programs.
    pub correct: Vec<Hunted>,
    /// What could not be measured.
    pub problems: Vec<String>,
    /// Time that all this took.
    pub seconds: f64,
}

impl Hunts {
    /// The page.
    pub fn page(&self) -> String {
        let mut page = format!(
            "# Predicting\n\nMade by `cargo run --release -p selvedge-bench --bin hunt -- --save` in {:.0} minutes: `selvedge hunt --runs {} \
             --budget {} --seed {}` on every program of the corpus. Predictions are made from recorded runs that passed. Raw results: \
             `bench/results/hunt.json`. Speed and the exact answers are on [another page](predict-speed.md).\n\n",
            self.seconds / 60.0,
            self.amounts.runs,
            self.amounts.budget,
            self.amounts.seed
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        self.bars(&mut page);
        page += "\n## Programs with a bug\n\n\
             Columns as in the paper's Table 1: threads, shared variables (SV) and events of the recorded runs; recording, time of a \
             controlled recording over that of a plain run of the same binary; analysis, all runs; schedule, one order of events on average; \
             predicted races, atomicity violations (AV), atomic-set violations (ASV), and orders, deadlocks and lost wake-ups (other), \
             unique by source; REAL, made to happen; EXP, of these with harm; F, refuted. Guilty: a finding on the guilty lines of \
             the manifest was made to happen, and whether it did harm.\n\n\
             | program | pattern | threads | SV | events | recording | analysis | schedule | races | AV | ASV | other | REAL | EXP | F | guilty | harm |\n\
             |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|\n";
        for (pattern, harm, hunted) in &self.kernels {
            let guilty = match (hunted.guilty, hunted.guilty_harm) {
                (true, true) => "harm",
                (true, false) => "no harm seen",
                (false, _) => "**missed**",
            };
            let told = if hunted.harm_as_told { harm.clone() } else { format!("{harm} (not seen)") };
            let _ = writeln!(page, "{} {guilty} | {told} |", row(hunted, pattern));
        }
        page += "\n## Fixed twins\n\nNothing may do harm, and no race may happen. Orders that can be turned around and do no harm are no \
             findings.\n\n| program | | threads | SV | events | recording | analysis | schedule | races | AV | ASV | other | REAL | EXP | F | shown |\n\
             |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n";
        for hunted in self.twins.iter().chain(&self.correct) {
            let _ = writeln!(page, "{} {} |", row(hunted, ""), hunted.shown.join("; "));
        }
        if !self.problems.is_empty() {
            page += "\n## Could not be measured\n\n";
            for problem in &self.problems {
                let _ = writeln!(page, "- {problem}");
            }
        }
        page
    }

    fn bars(&self, page: &mut String) {
        let of = self.kernels.len();
        let guilty = self.kernels.iter().filter(|(_, _, hunted)| hunted.guilty).count();
        let harm = self.kernels.iter().filter(|(_, _, hunted)| hunted.guilty_harm).count();
        let without: Vec<&Hunted> = self.twins.iter().chain(&self.correct).collect();
        let clean = without.iter().filter(|hunted| hunted.failing() == 0 && hunted.races.0 == 0).count();
        let confirmed: u64 = self.kernels.iter().map(|(_, _, hunted)| hunted.figures.confirmed).sum();
        let first: u64 = self.kernels.iter().map(|(_, _, hunted)| hunted.figures.first_try).sum();
        let verdict = |met: bool| if met { "met" } else { "**MISSED**" };
        *page += "\n## Bars\n\n| what | figure | bar | |\n|---|---:|---:|---|\n";
        let rows = [
            (
                "bugs of which a finding on the guilty lines was made to happen, from passing runs".to_owned(),
                guilty,
                of,
            ),
            ("of these, with harm".to_owned(), harm, of),
            ("programs without a bug in which nothing did harm and no race happened".to_owned(), clean, without.len()),
        ];
        for (what, figure, of) in rows {
            let _ = writeln!(page, "| {what} | {figure} of {of} | all | {} |", verdict(figure == of));
        }
        let _ = writeln!(
            page,
            "| findings that happened, in the first run that tried | {first} of {confirmed} | all | {} |",
            verdict(first == confirmed)
        );
        let missed: Vec<&str> = self.kernels.iter().filter(|(_, _, h)| !h.guilty).map(|(_, _, h)| &*h.name).collect();
        let harmless: Vec<&str> =
            self.kernels.iter().filter(|(_, _, h)| h.guilty && !h.guilty_harm).map(|(_, _, h)| &*h.name).collect();
        let loud: Vec<&str> = without.iter().filter(|h| h.failing() > 0 || h.races.0 > 0).map(|h| &*h.name).collect();
        for (what, names) in [("Missed", missed), ("Without harm", harmless), ("Accused without a bug", loud)] {
            if !names.is_empty() {
                let _ = writeln!(page, "\n{what}: {}.", names.join(", "));
            }
        }
    }

    /// Writes the page and the raw results.
    pub fn save(&self) -> Result<[PathBuf; 2]> {
        let (page, raw) = (place::result_pages().join("predict.md"), place::raw_results().join("hunt.json"));
        write(&page, &self.page())?;
        write_json(&raw, self)?;
        Ok([page, raw])
    }
}

fn row(hunted: &Hunted, pattern: &str) -> String {
    use selvedge_findings::Kind;
    let figures = &hunted.figures;
    let predicted = |kind: Kind| figures.predicted.get(&kind).copied().unwrap_or(0);
    let others = predicted(Kind::OrderViolation) + predicted(Kind::Deadlock) + predicted(Kind::LostWakeup);
    format!(
        "| {} | {pattern} | {} | {} | {} | {} | {:.1} ms | {:.2} ms | {} | {} | {} | {others} | {} | {} | {} |",
        hunted.name,
        figures.threads,
        figures.variables,
        figures.events,
        hunted.recording.map_or("-".to_owned(), |ratio| format!("{ratio:.1}x")),
        figures.analysis_ms,
        figures.schedule_ms,
        predicted(Kind::DataRace),
        predicted(Kind::AtomicityViolation),
        predicted(Kind::AtomicSetViolation),
        hunted.real(),
        hunted.failing(),
        figures.refuted,
    )
}
