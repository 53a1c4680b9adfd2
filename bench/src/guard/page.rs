//! The page of guards.

use std::fmt::Write as _;
use std::path::PathBuf;

use selvedge_analyze::invariant::converge::plot;
use serde::Serialize;

use super::kernel::Measured;
use super::options::Amounts;
use super::quiet::Quiet;
use super::real::Real;
use super::runs::Counted;
use super::tables;
use super::training::Training;
use crate::bars::to_f64;
use crate::error::Result;
use crate::machine::Machine;
use crate::measure::median;
use crate::place;
use crate::table::{write, write_json};

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Guards {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// How much was run.
    pub amounts: Amounts,
    /// Programs with a bug.
    pub kernels: Vec<Measured>,
    /// Programs without one.
    pub quiet: Vec<Quiet>,
    /// pbzip2.
    pub real: Option<Real>,
    /// What could not be measured.
    pub problems: Vec<String>,
    /// Time that all this took.
    pub seconds: f64,
}

impl Guards {
    /// The page.
    pub fn page(&self) -> String {
        let mut page = format!(
            "# Guarding\n\nMade by `cargo run --release -p selvedge-bench --bin guard -- --save` in {:.0} minutes. Raw results: \
             `bench/results/guard.json`. What guarding costs is on [another page](guard-cost.md).\n\n",
            self.seconds / 60.0
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        self.bars(&mut page);
        self.table_2(&mut page);
        self.false_alarms(&mut page);
        self.convergence(&mut page);
        self.clips(&mut page);
        if !self.problems.is_empty() {
            page += "\n## Could not be measured\n\n";
            for problem in &self.problems {
                let _ = writeln!(page, "- {problem}");
            }
        }
        page
    }

    fn bars(&self, page: &mut String) {
        *page += "\n## Bars\n\n| what | figure | bar | |\n|---|---:|---:|---|\n";
        let mut bar = |what: &str, figure: usize, of: usize| {
            let verdict = if of == 0 {
                "not measured"
            } else if figure == of {
                "met"
            } else {
                "**MISSED**"
            };
            let _ = writeln!(page, "| {what} | {figure} of {of} | all | {verdict} |");
        };
        let failing: Vec<&Measured> = self.kernels.iter().filter(|one| one.without.failing > 0).collect();
        let detected = |one: &&&Measured| one.ours.watched.noted_failing == one.ours.watched.failing;
        let tolerated = |one: &&&Measured| one.ours.stalled.failing == 0;
        let claimed: Vec<&&Measured> = failing.iter().filter(tolerated).collect();
        bar("bugs of which every failing run had a violation", failing.iter().filter(detected).count(), failing.len());
        bar("bugs of which no run failed with the guard", claimed.len(), failing.len());
        let replayed = claimed.iter().filter(|one| one.clips.passing == one.clips.failing).count();
        bar("of these, with every failing clip passing under the guard", replayed, claimed.len());
        let shared: Vec<&Quiet> = self.quiet.iter().filter(|one| one.training.is_some()).collect();
        let silent = |one: &&&Quiet| one.all().noted() == 0;
        bar("programs without a bug and without a violation", shared.iter().filter(silent).count(), shared.len());
        let sound = shared.iter().filter(|one| one.all().failing == 0).count();
        bar("programs without a bug that never failed with the guard", sound, shared.len());
        let missed: Vec<&str> = failing.iter().filter(|one| !detected(one)).map(|one| &*one.name).collect();
        let left: Vec<&str> = failing.iter().filter(|one| !tolerated(one)).map(|one| &*one.name).collect();
        let loud: Vec<&str> = shared.iter().filter(|one| !silent(one)).map(|one| &*one.name).collect();
        for (what, names) in
            [("Failed without a violation", missed), ("Failed with the guard", left), ("False alarms", loud)]
        {
            if !names.is_empty() {
                let _ = writeln!(page, "\n{what}: {}.", names.join(", "));
            }
        }
        // Who guards less alarms less.
        for one in &shared {
            if let Some(training) = one.training.as_ref().filter(|training| training.unsettled > 0) {
                let (name, some, all) = (&one.name, training.unsettled, training.sites);
                let _ = writeln!(
                    page,
                    "\nGuarded in part: {name}, {some} of {all} sites left alone, since training did not settle there."
                );
            }
        }
    }

    fn table_2(&self, page: &mut String) {
        let Amounts { runs, traces, learnt, .. } = self.amounts;
        let _ = writeln!(
            page,
            "\n## The paper's Table 2, measured\n\n\
             Every program of the corpus whose bug is no deadlock and no lost wake-up, under {runs} controlled schedules (random, PCT and POS \
             in turn), the same for every column. A cell is the mean share over the programs of its row, and how many of them have all; \
             after the bar, the paper's mark: ✓ all manifestations, (✓) some interleavings, – none, ? a mark that the copy at hand does \
             not show clearly.\n\n\
             - *ours*: the guard as `selvedge train --until-converged` and `selvedge guard --all` make it: variables that are accessed together guarded as \
               one, a context bit, waits before the lock of a critical section. Detected: of the failing runs, those in which a guard that only watches noted a \
               violation. Tolerated: as many as fewer fail under the same schedules with the guard.\n\
             - *AI*: the same guard without what is not the paper's: none of these three; the same \
               training, the same schedules.\n\
             - The others, and AI once more for comparison, over traces: learnt from as many passing runs as the guard was, but at most {learnt}, \
               under schedules of their own; checked on up to {traces} of the failing runs of each program. Tolerated is tried: where the first violation comes \
               before anything is settled, the run is led to the same point, the thread is held there until all others wait or \
               have ended, and then let go; the share of failing traces that pass so. What is noticed too late counts as not tolerated.\n\
             - Use before initialisation is in row W-R, use after teardown in R-W, a late overwrite in W-W. Rows without marks are not the \
               paper's.\n\n### Detected\n"
        );
        tables::table_2(&self.kernels, page, false);
        *page += "\n### Tolerated\n\n";
        tables::table_2(&self.kernels, page, true);
        *page += "\nWhat is detected is worth as much as passing runs are left alone:\n\n";
        tables::flagged(&self.kernels, page);
        let _ = writeln!(
            page,
            "\n### By program\n\nTraining: passing runs; last new: the one that showed the last new member. Of {runs} schedules: failing without a \
             guard, detected among these, failing with the guard; the same with the paper's invariant (AI) and, where variables \
             are guarded as one, without that (`--colours none`). Clips: of up to {} failing schedules, replayed switch by \
             switch, those that pass under the guard. Flagged: passing runs with a violation.\n",
            super::runs::CLIPS
        );
        tables::kernels(&self.kernels, page);
    }

    fn false_alarms(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "\n## False alarms\n\nPrograms without a bug: the fixed twins and the correct programs, trained until nothing is new, then {} runs, \
             half of them watched and half guarded, half of each under schedules that training did not have, half free. Every violation is a false \
             alarm; it costs a stall of at most 10 ms. Failing: of all.\n",
            self.amounts.quiet
        );
        tables::quiet(&self.quiet, page);
        let loud: Vec<&Quiet> = self.quiet.iter().filter(|one| !one.all().pairs.is_empty()).collect();
        let sum = |of: fn(&Quiet) -> Counted| {
            self.quiet.iter().map(of).fold((0, 0), |(noted, runs), all| (noted + all.noted(), runs + all.runs))
        };
        let ((watched, of_watched), (guarded, of_guarded)) = (sum(Quiet::all_watched), sum(Quiet::all_guarded));
        let _ = writeln!(
            page,
            "\n{watched} of {of_watched} watched runs had a violation, and {guarded} of {of_guarded} guarded ones, which also look before \
             a lock is taken."
        );
        if !loud.is_empty() {
            *page += "\nEvery pair, with the runs that had it:\n\n";
        }
        for one in loud {
            for (pair, runs) in &one.all().pairs {
                let _ = writeln!(page, "- {}: `{pair}`, {runs}", one.name);
            }
        }
    }

    fn convergence(&self, page: &mut String) {
        *page += "\n## Convergence\n\nThe paper's programs needed about 200 runs. Here, the passing run that showed the last new member:\n\n\
                  | programs | median | 9 in 10 | most | converged |\n|---|---:|---:|---:|---:|\n";
        let buggy: Vec<&Training> = self.kernels.iter().map(|one| &one.training).collect();
        let quiet: Vec<&Training> = self.quiet.iter().filter_map(|one| one.training.as_ref()).collect();
        for (name, all) in [("with a bug", buggy), ("without", quiet)] {
            let mut last: Vec<usize> = all.iter().map(|training| training.last_new()).collect();
            last.sort_unstable();
            let middle = median(last.iter().map(|run| to_f64(*run as u64)).collect());
            let ninth = last.len().checked_sub(1).and_then(|most| last.get(most * 9 / 10));
            let shown = |value: Option<&usize>| value.map_or("n/a".to_owned(), ToString::to_string);
            let converged = all.iter().filter(|training| training.converged).count();
            let _ = writeln!(
                page,
                "| {name} | {} | {} | {} | {converged} of {} |",
                middle.map_or("n/a".to_owned(), |run| format!("{run:.0}")),
                shown(ninth),
                shown(last.last()),
                all.len()
            );
        }
        if let Some(real) = &self.real {
            let _ = writeln!(
                page,
                "\n{}, free runs only, {:.0} s:\n\n```text\n{}```",
                real.name,
                real.seconds,
                plot(&real.training.curve)
            );
        }
    }

    fn clips(&self, page: &mut String) {
        let claimed = self.kernels.iter().filter(|one| one.without.failing > 0 && one.ours.stalled.failing == 0);
        let (mut of, mut passing, mut names) = (0, 0, Vec::new());
        for one in claimed {
            of += one.clips.failing;
            passing += one.clips.passing;
            if one.clips.passing < one.clips.failing {
                names.push(format!("{} ({} of {})", one.name, one.clips.passing, one.clips.failing));
            }
        }
        let _ = writeln!(
            page,
            "\n## Clips\n\nFailing schedules of the programs that never failed with the guard, replayed switch by switch: {of} fail again without \
             the guard, and {passing} of these pass with it.{}",
            if names.is_empty() { String::new() } else { format!(" Not all: {}.", names.join(", ")) }
        );
    }

    /// Writes the page and the raw results.
    pub fn save(&self) -> Result<[PathBuf; 2]> {
        let (page, raw) = (place::result_pages().join("guard.md"), place::raw_results().join("guard.json"));
        write(&page, &self.page())?;
        write_json(&raw, self)?;
        Ok([page, raw])
    }
}
