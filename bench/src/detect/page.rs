//! The page.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::corpus::{Amounts, CorrectRow, KernelRow};
use super::cost;
use super::healing::HealRow;
use super::table::{self, Cell};
use crate::error::Result;
use crate::machine::Machine;
use crate::measure::Measured;
use crate::place;
use crate::table::{write, write_json};

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Detections {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// How much was done.
    pub amounts: Amounts,
    /// Runs of each cell of the table of costs.
    pub cost_runs: usize,
    /// Kernels.
    pub kernels: Vec<KernelRow>,
    /// Correct programs and fixed twins.
    pub correct: Vec<CorrectRow>,
    /// Real programs: name, and cells of Table 2.
    pub real: Vec<(String, Vec<Cell>)>,
    /// Healing.
    pub healing: Vec<HealRow>,
    /// Costs.
    pub costs: Vec<Measured>,
    /// What could not be measured.
    pub problems: Vec<String>,
    /// Time that all this took.
    pub seconds: f64,
}

/// Something that must hold.
#[derive(Debug)]
struct Bar {
    what: String,
    holds: bool,
    seen: String,
}

impl Detections {
    fn racy(&self) -> impl Iterator<Item = &KernelRow> {
        self.kernels.iter().filter(|row| row.races())
    }

    fn bars(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        if !self.is_of_costs() {
            self.bars_of_corpus(&mut bars);
            self.bars_of_healing(&mut bars);
        }
        self.bars_of_costs(&mut bars);
        bars
    }

    fn bars_of_corpus(&self, bars: &mut Vec<Bar>) {
        let missed: Vec<&str> = self.racy().filter(|row| row.first.is_none()).map(|row| row.name.as_str()).collect();
        let racy = self.racy().count();
        bars.push(Bar {
            what: format!("every kernel that races is seen within {} runs at the default budget", self.amounts.runs),
            holds: missed.is_empty() && racy > 0,
            seen: format!("{} of {racy}{}", racy - missed.len(), list(&missed)),
        });
        let accused: Vec<&str> =
            self.correct.iter().filter(|row| !row.reports.is_empty()).map(|row| row.name.as_str()).collect();
        let runs: u64 = self.correct.iter().map(|row| row.runs).sum();
        let each = self.runs_of_each();
        bars.push(Bar {
            what: "no report on correct programs and fixed twins".to_owned(),
            holds: accused.is_empty() && runs > 0,
            seen: format!(
                "{} in {runs} runs of {} programs, {each} each{}",
                accused.len(),
                self.correct.len(),
                list(&accused)
            ),
        });
        let blind: Vec<&str> = self.racy().filter(|row| !row.at_five_percent).map(|row| row.name.as_str()).collect();
        bars.push(Bar {
            what: format!("a budget of 5 % still sees races over {} runs", self.amounts.runs),
            holds: blind.len() * 2 < racy,
            seen: format!("{} of {racy} kernels{}", racy - blind.len(), list(&blind)),
        });
    }

    fn bars_of_costs(&self, bars: &mut Vec<Bar>) {
        for measured in &self.costs {
            for (ours, theirs, compiler) in [("detect", "tsan", "gcc"), ("detect-clang", "tsan-clang", "clang")] {
                if let (Some(ours), Some(theirs)) = (slow_down(measured, ours), slow_down(measured, theirs)) {
                    bars.push(Bar {
                        what: format!("{}, {compiler}: slow-down at most half of ThreadSanitizer's", measured.row),
                        holds: ours <= theirs / 2.0,
                        seen: format!(
                            "{ours:.2}x, ThreadSanitizer {theirs:.2}x; time added {:.0} % of its{}",
                            (ours - 1.0).max(0.0) / (theirs - 1.0).max(0.01) * 100.0,
                            if theirs < 2.0 { " (half of its slow-down is faster than native)" } else { "" }
                        ),
                    });
                }
            }
            if matches!(measured.row, "memcached" | "zstd")
                && let (Some(with), Some(without)) =
                    (measured.median_seconds("detect-5"), measured.median_seconds("disarmed"))
            {
                let percent = (with / without - 1.0) * 100.0;
                bars.push(Bar {
                    what: format!("{}: a budget of 5 % is kept within 3 points", measured.row),
                    holds: percent <= 8.0,
                    seen: format!("{percent:+.1} % against the same binary disarmed"),
                });
            }
        }
    }

    /// How many runs of each correct program.
    fn runs_of_each(&self) -> String {
        let runs = self.correct.iter().map(|row| row.runs);
        match (runs.clone().min().unwrap_or(0), runs.max().unwrap_or(0)) {
            (fewest, most) if fewest == most => most.to_string(),
            (fewest, most) => format!("{fewest} to {most}"),
        }
    }

    fn bars_of_healing(&self, bars: &mut Vec<Bar>) {
        if self.healing.is_empty() {
            return;
        }
        let locks = |row: &HealRow| row.with.first().copied().unwrap_or_default();
        let fails = |row: &&HealRow| row.pattern.is_some() && row.without.fail > 0;
        let all_locked = |row: &&HealRow| row.sections > 0 && row.locks == row.sections;
        let ours: Vec<&HealRow> = self.healing.iter().filter(fails).filter(all_locked).collect();
        let atomicity: Vec<&HealRow> = ours
            .into_iter()
            .filter(|row| row.pattern.as_deref().is_some_and(|pattern| pattern.contains("atomicity")))
            .collect();
        let left: Vec<&str> = atomicity.iter().filter(|row| locks(row).fail > 0).map(|row| row.name.as_str()).collect();
        bars.push(Bar {
            what: "atomicity violations all of whose sections may be locked are healed by locks".to_owned(),
            holds: left.is_empty() && !atomicity.is_empty(),
            seen: format!("{} of {}{}", atomicity.len() - left.len(), atomicity.len(), list(&left)),
        });
        let hangs = |row: &&HealRow| {
            let part = |hang: u64, runs: u64| hang as f64 / runs.max(1) as f64;
            let before = part(row.without.hang, row.without.runs);
            row.with.iter().any(|ends| ends.hang > 0 && part(ends.hang, ends.runs) > before + 0.05)
        };
        let hung: Vec<&str> = self.healing.iter().filter(hangs).map(|row| row.name.as_str()).collect();
        bars.push(Bar {
            what: "no program hangs by healing".to_owned(),
            holds: hung.is_empty(),
            seen: format!("{} of {}{}", hung.len(), self.healing.len(), list(&hung)),
        });
        let worse = |row: &&HealRow| row.pattern.is_none() && locks(row).fail > row.without.fail;
        let broken: Vec<&str> = self.healing.iter().filter(worse).map(|row| row.name.as_str()).collect();
        bars.push(Bar {
            what: "no correct program fails by healing".to_owned(),
            holds: broken.is_empty(),
            seen: format!("{}{}", broken.len(), list(&broken)),
        });
    }

    fn table_of_healing(&self, page: &mut String) {
        if self.healing.is_empty() {
            return;
        }
        let _ = write!(
            page,
            "\n## Healing\n\nSchedules of each program under control, {} each unless they took too long, that fail or hang: without healing, and \
             with all atomic sections of the binary healed by each kind. Sections: all, and those that a lock may be put around; the others \
             sleep. Kernels that never failed are left out; correct programs and fixed twins are in the bars above.\n\n\
             | kernel | pattern | sections | locked | schedules | without | lock | yield | sleep | priority |\n\
             |---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
            self.amounts.schedules
        );
        for row in self.healing.iter().filter(|row| row.pattern.is_some() && row.without.percent() > 0.0) {
            let all = std::iter::once(&row.without).chain(&row.with);
            let cells: Vec<String> = all.clone().map(|ends| format!("{:.1} %", ends.percent())).collect();
            let fewest = all.map(|ends| ends.runs).min().unwrap_or(0);
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {fewest} | {} |",
                row.name,
                row.pattern.as_deref().unwrap_or_default(),
                row.sections,
                row.locks,
                cells.join(" | ")
            );
        }
    }

    /// The page.
    pub fn page(&self) -> String {
        let amounts = &self.amounts;
        let (title, option) = match self.is_of_costs() {
            true => ("What detecting in the act costs", "--cost --save"),
            false => ("Detecting in the act", "--save"),
        };
        let mut page = format!(
            "# {title}\n\nMade by `cargo run --release -p selvedge-bench --bin detect -- {option}` in {:.0} minutes. Raw results: \
             `bench/results/{}.json`.\n\n",
            self.seconds / 60.0,
            self.name()
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        page += "\n## What must hold\n\n| | holds | seen |\n|---|---|---|\n";
        for bar in self.bars() {
            let _ = writeln!(page, "| {} | {} | {} |", bar.what, if bar.holds { "yes" } else { "**no**" }, bar.seen);
        }
        self.table_of_costs(&mut page);
        if self.is_of_costs() {
            self.not_measured(&mut page);
            return page;
        }
        self.table_two(&mut page);
        let _ = write!(
            page,
            "\n## Kernels that race\n\n{} runs with `selvedge detect`, which waits longer from run to run and learns; {} runs with each \
             ThreadSanitizer. First: the run that first saw a race. Places: pairs of places that raced. TSan: distinct races told, by gcc's and \
             clang's. Kernels without one (their bugs are of other kinds: no manifest says that they race, and nobody saw it) are left out.\n\n\
             | kernel | pattern | first | places | at 5 % | gcc TSan | clang TSan |\n|---|---|---:|---:|---|---:|---:|\n",
            amounts.runs, amounts.tsan_runs
        );
        for row in self.racy() {
            let told = |races: Option<usize>| races.map_or("-".to_owned(), |races| races.to_string());
            let first = row.first.map_or("**none**".to_owned(), |run| run.to_string());
            let [gcc, clang] = row.tsan;
            let _ = writeln!(
                page,
                "| {} | {} | {first} | {} | {} | {} | {} |",
                row.name,
                row.pattern,
                row.pairs,
                if row.at_five_percent { "seen" } else { "-" },
                told(gcc),
                told(clang)
            );
        }
        self.yields(&mut page);
        self.table_of_healing(&mut page);
        let each = self.runs_of_each();
        let failed: u64 = self.correct.iter().map(|row| row.failed).sum();
        let _ = write!(
            page,
            "\n## Correct programs\n\n{} correct programs and fixed twins, {each} runs each (of {} wanted, as far as the time went): reports in the bars above; {failed} runs \
             ended otherwise than without noise (twins with time limits of their own).\n",
            self.correct.len(),
            amounts.correct_runs
        );
        self.not_measured(&mut page);
        page
    }

    /// Whether only costs were measured: they have a page of their own.
    fn is_of_costs(&self) -> bool {
        !self.costs.is_empty() && self.kernels.is_empty() && self.correct.is_empty()
    }

    fn name(&self) -> &'static str {
        if self.is_of_costs() { "detect-cost" } else { "detect" }
    }

    fn not_measured(&self, page: &mut String) {
        if !self.problems.is_empty() {
            page.push_str("\n## Not measured\n\n");
            for problem in &self.problems {
                let _ = writeln!(page, "- {problem}");
            }
        }
    }

    fn table_two(&self, page: &mut String) {
        let _ = write!(
            page,
            "\n## The paper's Table 2\n\nRaces per run / variables with a race per run, by heuristic, strength (of 1000) and duration (µs), {} runs each. \
             None announces every access and does not wait. Loc and Var aim at what `selvedge detect` had seen before. The corpus is the sum \
             over its racing kernels.\n\n| |",
            self.amounts.table_runs
        );
        for column in table::COLUMNS {
            let _ = write!(page, " {} |", column.title);
        }
        let _ = write!(page, "\n|---|{}\n", "---:|".repeat(table::COLUMNS.len()));
        let mut sums = vec![Cell::default(); table::COLUMNS.len()];
        for row in &self.kernels {
            for (sum, cell) in sums.iter_mut().zip(&row.cells) {
                sum.races += cell.races;
                sum.variables += cell.variables;
            }
        }
        let corpus = ("corpus".to_owned(), sums);
        for (name, cells) in std::iter::once(&corpus).chain(&self.real) {
            let _ = write!(page, "| {name} |");
            for cell in cells {
                let _ = write!(page, " {:.2} / {:.2} |", cell.races, cell.variables);
            }
            page.push('\n');
        }
    }

    fn yields(&self, page: &mut String) {
        let asked: Vec<&KernelRow> = self.racy().filter(|row| row.tsan.iter().all(Option::is_some)).collect();
        let cpu = |at: usize| asked.iter().filter_map(|row| row.cpu.get(at)).sum::<f64>();
        let told = |at: usize| asked.iter().filter_map(|row| row.tsan.get(at).copied().flatten()).sum::<usize>();
        let places: usize = asked.iter().map(|row| row.pairs).sum();
        let _ = write!(
            page,
            "\n### Races per processor second\n\nOver the {} racing kernels in C and C++; ours with survey, driver and all.\n\n\
             | | distinct races | processor seconds | races per second |\n|---|---:|---:|---:|\n",
            asked.len()
        );
        for (name, races, seconds) in
            [("selvedge detect", places, cpu(0)), ("gcc TSan", told(0), cpu(1)), ("clang TSan", told(1), cpu(2))]
        {
            let _ = writeln!(page, "| {name} | {races} | {seconds:.1} | {:.1} |", races as f64 / seconds.max(0.01));
        }
    }

    fn table_of_costs(&self, page: &mut String) {
        if self.costs.is_empty() {
            return;
        }
        let _ = write!(
            page,
            "\n## Slow-down and memory\n\nMedian of {} runs over the native program of the same compiler; in brackets peak memory over native. \
             Disarmed is the same binary without a plan: its functions run in their bodies without hooks.\n\n| |",
            self.cost_runs
        );
        let shown: Vec<_> = cost::COLUMNS.iter().filter(|column| !column.key.starts_with("native")).collect();
        for column in &shown {
            let _ = write!(page, " {} |", column.title);
        }
        let _ = write!(page, "\n|---|{}\n", "---:|".repeat(shown.len()));
        for measured in &self.costs {
            let _ = write!(page, "| {} |", measured.row);
            for column in &shown {
                let cell = match (measured.slowdown(**column), measured.memory(**column)) {
                    (Some((slow, _)), Some((_, memory))) => format!("{slow:.2} ({memory:.1})"),
                    _ => "-".to_owned(),
                };
                let _ = write!(page, " {cell} |");
            }
            page.push('\n');
        }
    }

    /// Writes page and raw results; their files.
    pub fn save(&self) -> Result<Vec<PathBuf>> {
        let name = self.name();
        let page = place::result_pages().join(format!("{name}.md"));
        let raw = place::raw_results().join(format!("{name}.json"));
        write(&page, &self.page())?;
        write_json(&raw, self)?;
        Ok(vec![page, raw])
    }
}

fn slow_down(measured: &Measured, key: &str) -> Option<f64> {
    let column = cost::COLUMNS.iter().find(|column| column.key == key)?;
    measured.slowdown(*column).map(|(median, _)| median)
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
}
