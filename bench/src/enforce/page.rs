//! The page of enforcing.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::kernel::Measured;
use super::programs::{BESIDE, Locked};
use crate::columns::COLUMNS;
use crate::error::Result;
use crate::machine::Machine;
use crate::measure::{self, Missing};
use crate::place;
use crate::table::{write, write_json};

/// Most that the paper's locks cost.
const MOST_COST: f64 = 1.17;

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Enforcing {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// Schedules that each kernel was tried under.
    pub runs: u64,
    /// Whether large programs had small inputs.
    pub quick: bool,
    /// The kernels.
    pub kernels: Vec<Measured>,
    /// The large programs.
    pub programs: Vec<measure::Measured>,
    /// What could not be measured.
    pub problems: Vec<String>,
    /// Time that all this took.
    pub seconds: f64,
}

impl Enforcing {
    /// The page.
    pub fn page(&self) -> String {
        let mut page = format!(
            "# Enforcing\n\nMade by `cargo run --release -p selvedge-bench --bin enforce -- {}--save` in {:.0} minutes. Raw results: \
             `bench/results/enforce.json`. The paper is Weeratunge, Zhang and Jagannathan, \"Accentuating the Positive\" (OOPSLA 2011).\n\n",
            if self.programs.is_empty() { "" } else { "--cost " },
            self.seconds / 60.0
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        self.bars(&mut page);
        self.bugs(&mut page);
        self.placement(&mut page);
        self.cost(&mut page);
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
        let failing: Vec<&Measured> = self.kernels.iter().filter(|one| one.fails_without()).collect();
        let gone = failing.iter().filter(|one| one.is_suppressed()).count();
        let verdict = |met| if met { "met" } else { "**MISSED**" };
        let all = failing.len();
        let _ = writeln!(
            page,
            "| bugs of which no schedule fails with the locks | {gone} of {all} | all | {} |",
            verdict(gone == all)
        );
        let escapes: u64 = self.kernels.iter().filter_map(|one| one.with).map(|with| with.escapes).sum();
        let _ = writeln!(page, "| waits given up in the kernels | {escapes} | 0 | {} |", verdict(escapes == 0));
        let hangs: u64 =
            self.kernels.iter().filter_map(|one| Some(one.with?.hanging.saturating_sub(one.without.hanging))).sum();
        let _ = writeln!(
            page,
            "| schedules that hang with the locks and not without | {hangs} | 0 | {} |",
            verdict(hangs == 0)
        );
        for program in &self.programs {
            if let Some(cost) = slowdown(program, "enforce") {
                let _ = writeln!(
                    page,
                    "| {}, enforced / native | {cost:.3}x | {MOST_COST}x | {} |",
                    program.row,
                    verdict(cost <= MOST_COST)
                );
            }
        }
    }

    fn bugs(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "\n## The paper's Table 1, measured\n\nOur kernels of the paper's bugs. Each was profiled under control; only runs that passed teach. Then {} \
             other schedules (random, PCT and POS in turn) were run without the locks and with them.\n\n\
             | kernel | bug in the paper | profiled, passed | fail without | fail with | hang with | waits given up | suppressed |\n\
             |---|---|---:|---:|---:|---:|---:|---|",
            self.runs
        );
        for one in &self.kernels {
            let _ = write!(
                page,
                "| {} | {} | {}, {} | {} |",
                one.name,
                one.bug,
                one.profiled.0,
                one.profiled.1,
                one.without.failing + one.without.hanging
            );
            let verdict = match one.with {
                None => "no: nothing to enforce",
                Some(_) if one.is_suppressed() => "yes",
                Some(_) if !one.fails_without() => "did not fail",
                Some(_) => "**no**",
            };
            match one.with {
                Some(with) => {
                    let _ = write!(page, " {} | {} | {} |", with.failing, with.hanging, with.escapes);
                }
                None => *page += " - | - | - |",
            }
            let _ = writeln!(page, " {verdict} |");
        }
        for one in &self.kernels {
            if let Some(why) = &one.refused {
                let _ = writeln!(page, "\n{}: {why}.", one.name);
            }
        }
    }

    fn placement(&self, page: &mut String) {
        *page += "\n## The paper's Table 3: profiles and placement\n\nBefore and after deadlock resolution. Of large programs without what would cost too much. In the paper, whole programs: 5 to 66 shared \
                  variables, 7 to 272 pairs, 2 to 15 locks.\n\n\
                  | program | shared, without a lock | groups | read pairs | exclusive pairs | enforced | cannot be | not in the build | locks | R acq | X acq | degrade | rel | placing |\n\
                  |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        let kernels = self.kernels.iter().map(|one| (one.name.as_str(), one.placed.as_ref()));
        let large =
            self.programs.iter().map(|one| (one.row, most_locked(one).and_then(|locked| locked.placed.as_ref())));
        for (name, placed) in kernels.chain(large) {
            let Some(placed) = placed else { continue };
            let both = |at: usize| format!("{}/{}", placed.before[at], placed.after[at]);
            let _ = writeln!(
                page,
                "| {name} | {}, {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.2} s |",
                placed.variables,
                placed.unprotected,
                placed.groups,
                placed.read,
                placed.exclusive,
                placed.enforced,
                placed.impossible,
                placed.unknown,
                placed.locks,
                both(0),
                both(1),
                both(3),
                both(2),
                placed.seconds
            );
        }
    }

    fn cost(&self, page: &mut String) {
        if self.programs.is_empty() {
            *page += "\n## The paper's Table 4: cost\n\nNot measured in this run: it is a part of its own, `--cost`.\n";
            return;
        }
        *page += "\n## The paper's Table 4: cost\n\nEach program was recorded five times with a small input; the profile of these runs was enforced, without what would cost too much (`enforce --all` would keep it). A lock is given up in a run where waiting and taking need more than 30 ms and a hundredth of it; of runs the counts are those with the most locks taken. Medians \
                  against the native build, all columns in turn in one invocation. Disarmed is the same build without a plan: its functions run in their bodies without hooks. Native spread is the slowest native run over the fastest. The paper: 0 % to 17.3 %, on 8 cores.";
        if self.quick {
            *page += " The measured runs had small inputs too.";
        }
        *page += "\n\n| program | pairs | left out | locks taken | waited for | waits given up | locks given up | disarmed | enforced | gcc TSan | enforced / disarmed, processor time | native spread |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        for program in &self.programs {
            let locked = most_locked(program).cloned().unwrap_or_default();
            let _ = write!(
                page,
                "| {} | {} | {} | {} | {} | {} | {} |",
                program.row,
                locked.pairs,
                locked.left_out,
                locked.taken,
                locked.waited,
                locked.escapes,
                locked.given_up
            );
            for key in BESIDE {
                let told = slowdown(program, key).map(|ratio| format!(" {ratio:.3}x |"));
                *page += &told.unwrap_or_else(|| " n/a |".to_owned());
            }
            let told = program.busy_over("enforce", "disarmed").map(|ratio| format!(" {ratio:.3}x |"));
            *page += &told.unwrap_or_else(|| " n/a |".to_owned());
            let spread = program.spread().map_or_else(|| "n/a".to_owned(), |spread| format!("{spread:.2}"));
            let _ = writeln!(page, " {spread} |");
        }
        for program in &self.programs {
            for cell in &program.cells {
                if let Some(Missing::Unavailable(why) | Missing::Failed(why) | Missing::TooLong(why)) = &cell.missing {
                    let _ = writeln!(page, "\n{}, {}: {why}", program.row, cell.column);
                }
            }
        }
    }

    /// Writes the page and the raw results.
    pub fn save(&self) -> Result<[PathBuf; 2]> {
        let (page, raw) = (place::result_pages().join("enforce.md"), place::raw_results().join("enforce.json"));
        write(&page, &self.page())?;
        write_json(&raw, self)?;
        Ok([page, raw])
    }
}

/// What locks did in the run that took the most.
fn most_locked(program: &measure::Measured) -> Option<&Locked> {
    let runs = program.cell("enforce").into_iter().flat_map(|cell| &cell.runs);
    runs.filter_map(|run| run.locked.as_ref()).max_by_key(|locked| locked.taken)
}

fn slowdown(program: &measure::Measured, key: &str) -> Option<f64> {
    let column = COLUMNS.iter().find(|column| column.key == key)?;
    program.slowdown(*column).map(|(median, _)| median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enforce::kernel::Ended;

    fn kernel(without: u64, with: Option<u64>) -> Measured {
        let ended = |failing| Ended { runs: 10, failing, ..Ended::default() };
        Measured {
            name: "k".to_owned(),
            bug: "mysql 1".to_owned(),
            profiled: (40, 30),
            placed: None,
            refused: None,
            without: ended(without),
            with: with.map(ended),
            seconds: 0.0,
        }
    }

    #[test]
    fn only_what_failed_before_counts_as_suppressed() {
        let kernels = vec![kernel(5, Some(0)), kernel(5, Some(1)), kernel(0, Some(0)), kernel(3, None)];
        let page = Enforcing {
            version: 1,
            machine: Machine::describe(),
            runs: 10,
            quick: true,
            kernels,
            programs: Vec::new(),
            problems: vec!["x: y".to_owned()],
            seconds: 1.0,
        }
        .page();
        assert!(
            page.contains("| bugs of which no schedule fails with the locks | 1 of 3 | all | **MISSED** |"),
            "{page}"
        );
        assert!(page.contains("did not fail") && page.contains("no: nothing to enforce") && page.contains("- x: y"));
    }
}
