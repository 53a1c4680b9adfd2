//! The page of rankings.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::inspect::{Collector, Inspected};
use super::large::Large;
use super::paper::{IMPRECISION, WORKLOADS, Workload};
use super::programs;
use crate::error::Result;
use crate::machine::Machine;
use crate::measure::Measured;
use crate::place;
use crate::table::{write, write_json};

/// The longest context that is measured.
pub const MOST_CONTEXT: u8 = 8;

/// What was measured of a kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The kernel.
    pub kernel: String,
    /// Its pattern.
    pub pattern: String,
    /// Runs made, and how many of them failed.
    pub runs: (usize, usize),
    /// By collector: the paper's score and ours, labelled and unlabelled.
    pub table2: Vec<(Collector, [Inspected; 2], [Inspected; 2])>,
    /// By context, from 0: the paper's score and ours; word, labelled.
    pub table4: Vec<[Inspected; 2]>,
    /// Shares of code points that line tracking, and the hardware, lose.
    pub lost: (f64, f64),
    /// For contexts of 0, 3, 5 and 8 events: the share of edges that each of 25 runs adds, in the mean of the trials.
    pub convergence: Vec<(u8, Vec<f64>)>,
    /// Nodes and edges of the sum of all runs without context, and with; bytes of the file with context.
    pub size: [usize; 5],
    /// What the simulated hardware did for each 10,000 accesses: read, write and upgrade misses, metadata and table
    /// writes.
    pub work: [f64; 5],
}

/// A kernel that is not of the paper.
#[derive(Clone, Debug, Serialize)]
pub struct Other {
    /// The kernel.
    pub kernel: String,
    /// Its pattern.
    pub pattern: String,
    /// Runs made, and how many of them failed.
    pub runs: (usize, usize),
    /// The paper's score, by word: labelled and unlabelled.
    pub paper: [Inspected; 2],
    /// Ours.
    pub ours: [Inspected; 2],
}

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Rankings {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// Decides what is left to chance.
    pub seed: u64,
    /// Trials, and runs of each sort in one.
    pub trials: (usize, usize),
    /// The paper's workloads.
    pub rows: Vec<Row>,
    /// Other kernels of the corpus.
    pub others: Vec<Other>,
    /// Large graphs.
    pub large: Option<Large>,
    /// Large programs.
    pub programs: Vec<Measured>,
    /// What could not be measured.
    pub problems: Vec<String>,
    /// Time that all this took.
    pub seconds: f64,
}

impl Rankings {
    fn of(&self, workload: &Workload) -> Option<&Row> {
        self.rows.iter().find(|row| row.kernel == workload.kernel)
    }

    /// The page.
    pub fn page(&self) -> String {
        let mut page = format!(
            "# Ranking\n\nMade by `cargo run --release -p selvedge-bench --bin rank -- --save` in {:.0} minutes, seed {}. Raw results: \
             `bench/results/rank.json`. How rankings are made is in [the design](../design/rank.md).\n\n",
            self.seconds / 60.0,
            self.seed
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        let _ = writeln!(
            page,
            "\nThe paper measured full applications and kernels of 300 to 600 lines; ours are kernels of 30 to 60 lines, so the \
             absolute numbers of its large programs (MySQL-BinLog, Apache-LogSz, PBZip2-Order) are no equals. Runs are made under varied \
             controlled schedules (random, POS, PCT by turns). A labelled trial has {0} failing and {0} passing runs, an unlabelled \
             one {0} runs as they come, at least one of them failing; {1} trials. An inspection is a source line; the last one \
             counted is the first guilty line of the kernel's manifest; equals count in the mean. In brackets: functions. \
             *Paper's score*: the paper's rules and formula. *Ours*: the default of `selvedge rank`. Its rules and weights were \
             chosen with these thirteen kernels in sight; for those under [other bugs](#other-bugs) they were not.",
            self.trials.1, self.trials.0
        );
        self.bars(&mut page);
        self.table2(&mut page);
        self.table3(&mut page);
        self.table4(&mut page);
        self.figure7(&mut page);
        self.sizes(&mut page);
        self.others(&mut page);
        self.large(&mut page);
        if !self.programs.is_empty() {
            page += &programs::section(&self.programs);
        }
        if !self.problems.is_empty() {
            page += "\n## Could not be measured\n\n";
            for problem in &self.problems {
                let _ = writeln!(page, "- {problem}");
            }
        }
        page
    }

    /// Per way of the paper's Table 2: our mean, the paper's, and on which kernels ours is worse.
    fn bars(&self, page: &mut String) {
        *page += "\n## Bars\n\n| collector and labels | paper's numbers, mean | paper's score here | ours | kernels where ours needs more than the paper's number | |\n\
             |---|---:|---:|---:|---|---|\n";
        for (at, collector) in Collector::ALL.into_iter().enumerate() {
            for labels in 0..2 {
                let (mut theirs, mut here, mut ours, mut count) = (0.0, 0.0, 0.0, 0.0);
                let mut worse = Vec::new();
                let mut lost = Vec::new();
                for workload in &WORKLOADS {
                    let Some((_, paper, own)) = self.cells(workload, collector) else { continue };
                    let Some(bar) = workload.inspections.get(at * 2 + labels) else { continue };
                    let (Some(paper), Some(own)) = (paper.get(labels), own.get(labels)) else { continue };
                    theirs += bar;
                    here += paper.lines;
                    ours += own.lines;
                    count += 1.0;
                    if !own.is_found() || own.lines > bar + 1e-9 {
                        worse.push(format!("{} ({} for {bar:.1})", workload.name, own.cell()));
                    }
                    if !paper.is_found() {
                        lost.push(workload.name);
                    }
                }
                let mean = |sum: f64| sum / f64::max(count, 1.0);
                let lost = if lost.is_empty() { String::new() } else { format!(" (not found: {})", lost.join(", ")) };
                let verdict = if worse.is_empty() && ours < theirs { "met" } else { "**MISSED**" };
                let _ = writeln!(
                    page,
                    "| {} {} | {:.2} | {:.2}{lost} | {:.2} | {} | {verdict} |",
                    name(collector),
                    if labels == 0 { "labelled" } else { "unlabelled" },
                    mean(theirs),
                    mean(here),
                    mean(ours),
                    if worse.is_empty() { "none".to_owned() } else { worse.join(", ") }
                );
            }
        }
        for (labels, word) in ["labelled", "unlabelled"].into_iter().enumerate() {
            let best = |workload: &Workload| {
                let columns = workload.inspections.iter().skip(labels).step_by(2).copied();
                columns.fold(f64::INFINITY, f64::min)
            };
            let own = |workload: &Workload| {
                let ours = self.cells(workload, Collector::Word).and_then(|(_, _, ours)| ours.get(labels));
                ours.filter(|ours| ours.is_found()).map(|ours| ours.lines)
            };
            let worse: Vec<&str> = WORKLOADS
                .iter()
                .filter(|workload| own(workload).is_none_or(|own| own > best(workload) + 1e-9))
                .map(|workload| workload.name)
                .collect();
            let count = WORKLOADS.len() as f64;
            let mean: f64 = WORKLOADS.iter().map(best).sum::<f64>() / count;
            let ours: f64 = WORKLOADS.iter().filter_map(own).sum::<f64>() / count;
            let _ = writeln!(
                page,
                "| ours by word, {word}, against the best of the paper's three collectors | {mean:.2} | | {ours:.2} | {} | {} |",
                if worse.is_empty() { "none".to_owned() } else { worse.join(", ") },
                if worse.is_empty() && ours < mean { "met" } else { "**MISSED**" }
            );
        }
        if let Some(large) = &self.large {
            let total = large.union + large.difference + large.rank;
            let verdict = if total < 1000.0 { "met" } else { "**MISSED**" };
            let _ = writeln!(
                page,
                "\n{} edges: adding, subtracting and ranking take {total:.0} ms of processor time together; the bar is 1,000 ms: {verdict}.",
                large.edges
            );
        }
    }

    fn cells(&self, workload: &Workload, collector: Collector) -> Option<&(Collector, [Inspected; 2], [Inspected; 2])> {
        self.of(workload)?.table2.iter().find(|(own, ..)| *own == collector)
    }

    fn table2(&self, page: &mut String) {
        *page += "\n## Table 2: inspections\n\nContexts of five events. Each cell: the paper's number / the paper's score here / ours. *live*: ours, with graphs that the runtime collected without a \
             trace in the same schedules.\n\n| workload | kernel | runs, failing |";
        for collector in Collector::ALL {
            let _ = write!(page, " {0} labelled | {0} unlabelled |", name(collector));
        }
        *page += " live labelled | live unlabelled |\n|---|---|---:|---|---|---|---|---|---|---|---|\n";
        for workload in &WORKLOADS {
            let Some(row) = self.of(workload) else { continue };
            let _ = write!(page, "| {} | {} | {}, {} |", workload.name, row.kernel, row.runs.0, row.runs.1);
            for (at, (collector, paper, ours)) in row.table2.iter().enumerate() {
                if *collector == Collector::Live {
                    let _ = write!(page, " {} | {} |", ours[0].cell(), ours[1].cell());
                    continue;
                }
                for (labels, (paper, ours)) in paper.iter().zip(ours).enumerate() {
                    let number = workload.inspections.get(at * 2 + labels).copied().unwrap_or_default();
                    let functions = workload.functions.get(at * 2 + labels).copied().unwrap_or_default();
                    let _ = write!(page, " {number:.1} ({functions:.1}) / {} / {} |", paper.cell(), ours.cell());
                }
            }
            *page += "\n";
        }
    }

    fn table3(&self, page: &mut String) {
        *page += "\n## Table 3: what coarser collectors lose\n\nPer cent of the code points that communicate by word (paper's rules) and do not by line, or in the \
             simulated caches. Our kernels fit the caches, so nothing is lost to evictions; what is lost is what silent writes hide.\n\n\
             | program | kernel | line, paper | line, here | caches, paper | caches, here |\n|---|---|---:|---:|---:|---:|\n";
        for (name, kernel, line, caches) in IMPRECISION {
            let Some(row) = self.rows.iter().find(|row| row.kernel == kernel) else { continue };
            let _ = writeln!(
                page,
                "| {name} | {kernel} | {line:.1} | {:.1} | {caches:.1} | {:.1} |",
                row.lost.0 * 100.0,
                row.lost.1 * 100.0
            );
        }
    }

    fn table4(&self, page: &mut String) {
        *page += "\n## Table 4: inspections by length of context\n\nBy word, labelled. Each cell: the paper's number / the paper's score here / ours; a dash where the bug is not found.\n\n| workload | pattern |";
        for context in 0..=MOST_CONTEXT {
            let _ = write!(page, " {context} |");
        }
        let _ = writeln!(page, "\n|---|---|{}", "---|".repeat(usize::from(MOST_CONTEXT) + 1));
        for workload in &WORKLOADS {
            let Some(row) = self.of(workload) else { continue };
            let _ = write!(page, "| {} | {} |", workload.name, row.pattern);
            for (at, [paper, ours]) in row.table4.iter().enumerate() {
                let number = match workload.contexts.get(at) {
                    Some(Some(number)) => format!("{number:.1}"),
                    Some(None) => "-".to_owned(),
                    None => String::new(),
                };
                let short = |inspected: &Inspected| match inspected.found {
                    0 => "-".to_owned(),
                    found if found < inspected.trials => format!("{:.1}*", inspected.lines),
                    _ => format!("{:.1}", inspected.lines),
                };
                let _ = write!(page, " {number} / {} / {} |", short(paper), short(ours));
            }
            *page += "\n";
        }
        *page += "\n\\* not in all trials.\n\n";
        let differ: Vec<&str> = WORKLOADS
            .iter()
            .filter(|workload| {
                let first = self.of(workload).and_then(|row| row.table4.first());
                first.is_some_and(|[paper, _]| paper.is_found() != workload.without_context)
            })
            .map(|workload| workload.name)
            .collect();
        let _ = writeln!(
            page,
            "Without context and by the paper's rules, the paper finds one workload of thirteen. Here it is otherwise for: {}. Our kernels are \
             short, so a failing run often runs lines that no passing run reaches (the line that reports the failure is \
             one), or has a pair of lines meet that never do otherwise; in a large program both happen for other reasons too.",
            if differ.is_empty() { "none".to_owned() } else { differ.join(", ") }
        );
    }

    fn figure7(&self, page: &mut String) {
        const SHOWN: [usize; 8] = [1, 2, 3, 5, 10, 15, 20, 25];
        *page += "\n## Figure 7: convergence\n\nThe share of edges that a run adds to those of all runs before it, by number of the run.\n\n| program | context |";
        for run in SHOWN {
            let _ = write!(page, " {run} |");
        }
        let _ = writeln!(page, "\n|---|---:|{}", "---:|".repeat(SHOWN.len()));
        for (program, kernel) in
            [("MySQL", "mysql-binlog-rotate"), ("Apache", "apache-log-buffer"), ("PBZip2", "pbzip2-teardown")]
        {
            let Some(row) = self.rows.iter().find(|row| row.kernel == kernel) else { continue };
            for (context, shares) in &row.convergence {
                let _ = write!(page, "| {program} ({kernel}) | {context} |");
                for run in SHOWN {
                    let share = shares.get(run - 1).copied().unwrap_or_default();
                    let _ = write!(page, " {share:.3} |");
                }
                *page += "\n";
            }
        }
    }

    fn sizes(&self, page: &mut String) {
        *page += "\n## Sizes, and work of the simulated hardware\n\nOf all runs together, by word; the file is of the graph with contexts of five events. Work for each 10,000 \
             accesses that were recorded, which are those to shared memory (Table 5 counts all).\n\n\
             | workload | nodes | edges | nodes with context | edges with context | file, bytes | read misses | write misses | upgrades | metadata | table |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        for workload in &WORKLOADS {
            let Some(row) = self.of(workload) else { continue };
            let _ = write!(page, "| {} |", workload.name);
            for figure in row.size {
                let _ = write!(page, " {figure} |");
            }
            for figure in row.work {
                let _ = write!(page, " {figure:.0} |");
            }
            *page += "\n";
        }
    }

    fn others(&self, page: &mut String) {
        if self.others.is_empty() {
            return;
        }
        *page += "\n## Other bugs\n\nKernels of the corpus that are not of this paper: the scores were not chosen with them in sight. One trial, by word; \
             bugs that are about locks alone (deadlocks) are left out, and those that did not fail often enough in the time. Each cell: the \
             paper's score / ours.\n\n| kernel | pattern | runs, failing | labelled | unlabelled |\n|---|---|---:|---|---|\n";
        for other in &self.others {
            let _ = write!(page, "| {} | {} | {}, {} |", other.kernel, other.pattern, other.runs.0, other.runs.1);
            for (paper, ours) in other.paper.iter().zip(&other.ours) {
                let _ = write!(page, " {} / {} |", paper.cell(), ours.cell());
            }
            *page += "\n";
        }
        for (labels, word) in ["labelled", "unlabelled"].into_iter().enumerate() {
            let both =
                || self.others.iter().filter_map(|other| Some((other.paper.get(labels)?, other.ours.get(labels)?)));
            let found = both().filter(|(_, ours)| ours.is_found()).count();
            let found_paper = both().filter(|(paper, _)| paper.is_found()).count();
            let common: Vec<_> = both().filter(|(paper, ours)| paper.is_found() && ours.is_found()).collect();
            let mean = |sum: f64| sum / f64::max(common.len() as f64, 1.0);
            let first = both().filter(|(_, ours)| ours.is_found() && ours.lines < 1.0 + 1e-9).count();
            let _ = writeln!(
                page,
                "\n{word}: ours finds {found} of {} (the paper's score {found_paper}), {first} of them at the first line; in the mean of \
                 those that both find, {:.2} inspections (the paper's score {:.2}).",
                self.others.len(),
                mean(common.iter().map(|(_, ours)| ours.lines).sum()),
                mean(common.iter().map(|(paper, _)| paper.lines).sum())
            );
        }
    }

    fn large(&self, page: &mut String) {
        let Some(large) = &self.large else { return };
        let _ = writeln!(
            page,
            "\n## Large graphs\n\nTwo made-up runs; the first has {} nodes and {} edges. Processor time of one thread.\n\n| what | ms |\n|---|---:|\n| add both | {:.0} |\n| subtract \
             one from the other | {:.0} |\n| rank one against the other | {:.0} |\n| write one ({} bytes) | {:.0} |\n| read it | {:.0} |",
            large.nodes, large.edges, large.union, large.difference, large.rank, large.bytes, large.write, large.read
        );
    }

    /// Writes the page and the raw results.
    pub fn save(&self) -> Result<[PathBuf; 2]> {
        let (page, raw) = (place::result_pages().join("rank.md"), place::raw_results().join("rank.json"));
        write(&page, &self.page())?;
        write_json(&raw, self)?;
        Ok([page, raw])
    }
}

fn name(collector: Collector) -> &'static str {
    match collector {
        Collector::Mesi => "hardware",
        Collector::Line => "line",
        Collector::Word => "word",
        Collector::Live => "live",
    }
}
