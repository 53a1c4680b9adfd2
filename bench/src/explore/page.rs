//! The page: tables in Markdown, and the raw results as JSON.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::again::Again;
use super::bars::{Bar, RATE, SHORT, SMALL};
use super::counted::Counted;
use super::find::{Searched, WAYS};
use super::options::Amounts;
use super::rate::Rate;
use super::repeat::Repeated;
use super::stress::Stressed;
use super::twins::Twin;
use crate::bars::Verdict;
use crate::error::Result;
use crate::machine::Machine;
use crate::measure::median;
use crate::place;
use crate::table::{write, write_json};

/// Everything that one invocation measured.
#[derive(Debug, Serialize)]
pub struct Explore {
    /// The layout of this JSON.
    pub version: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// How much of everything was asked for.
    pub amounts: Amounts,
    /// The programs with a bug.
    pub kernels: Vec<Kernel>,
    /// The correct programs.
    pub correct: Vec<Twin>,
    /// Runs of one schedule.
    pub repeated: Vec<Repeated>,
    /// Bounded search on programs that were counted by hand.
    pub counted: Vec<Counted>,
    /// What could not be measured.
    pub problems: Vec<String>,
    /// The bars.
    pub bars: Vec<Bar>,
    /// Time that all this took.
    pub seconds: f64,
}

/// A program with a bug, and its fixed twin.
#[derive(Debug, Clone, Serialize)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Kind of bug.
    pub pattern: String,
    /// How a failing run shows, by the manifest.
    pub harm: String,
    /// How those that were found show.
    pub harms_seen: Vec<String>,
    /// Searches by strategy.
    pub searched: Vec<Searched>,
    /// Choices of the longest run.
    pub longest: u64,
    /// Plain native runs in the time of the best strategy.
    pub stressed: Option<Stressed>,
    /// Each distinct failure, again.
    pub again: Vec<Again>,
    /// The fixed twin.
    pub twin: Option<Twin>,
    /// Schedules in a second of the fixed twin.
    pub rate: Option<Rate>,
}

impl Explore {
    /// All programs without a bug.
    pub fn twins(&self) -> impl Iterator<Item = &Twin> {
        self.kernels.iter().filter_map(|kernel| kernel.twin.as_ref()).chain(&self.correct)
    }

    /// Schedules in a second of the fixed twins of small kernels, as `explore` makes them.
    pub fn small_rates(&self) -> Vec<(&str, f64)> {
        let small = self.kernels.iter().filter(|kernel| kernel.is_small());
        small.filter_map(|kernel| Some((&*kernel.name, kernel.twin.as_ref()?.rate()))).collect()
    }

    /// The page.
    pub fn page(&self) -> String {
        let mut page = String::from("# Exploring\n\n");
        let _ = writeln!(
            page,
            "Made by `cargo run --release -p selvedge-bench --bin explore -- {}--save` in {:.0} minutes. \
             Raw results: `bench/results/explore.json`.\n",
            self.amounts.arguments(),
            self.seconds / 60.0
        );
        for line in self.machine.lines() {
            let _ = writeln!(page, "- {line}");
        }
        self.bars(&mut page);
        self.found(&mut page);
        self.again(&mut page);
        self.twin_table(&mut page);
        self.repeated(&mut page);
        self.counted(&mut page);
        if !self.problems.is_empty() {
            page += "\n## Not measured\n\n";
            for problem in &self.problems {
                let _ = writeln!(page, "- {problem}");
            }
        }
        page
    }

    /// Writes the page and the raw results into the repository; where they are.
    pub fn save(&self) -> Result<[PathBuf; 2]> {
        let page = place::result_pages().join("explore.md");
        write(&page, &self.page())?;
        let raw = place::raw_results().join("explore.json");
        write_json(&raw, self)?;
        Ok([page, raw])
    }

    fn bars(&self, page: &mut String) {
        *page += "\n## Bars\n\n| what | figure | bar | |\n|---|---:|---:|---|\n";
        for bar in &self.bars {
            let verdict = match bar.verdict {
                Verdict::Met => "met",
                Verdict::Missed => "**MISSED**",
                Verdict::Unknown => "not measured",
            };
            let _ = writeln!(page, "| {} | {} | {} | {verdict} |", bar.what, bar.figure, bar.bar);
        }
        let slow: Vec<String> = self
            .small_rates()
            .iter()
            .filter(|(_, rate)| *rate < RATE)
            .map(|(name, rate)| format!("{name} {rate:.0}"))
            .collect();
        let _ = writeln!(
            page,
            "\nA kernel is small where a run of its fixed twin has at most {SMALL} choices, and a native run takes less than {SHORT} s.{}{}",
            if slow.is_empty() { "" } else { " Below the rate: " },
            slow.join(", ")
        );
    }

    fn found(&self, page: &mut String) {
        let names: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        let _ = writeln!(
            page,
            "\n## Schedules until the first failure\n\n\
             The median of {} seeds (round-robin and bounded, which has at most 2 preemptions, depend on none), and at most {} \
             schedules; PCT has depth 3. The first schedule is the default order. Time is that of the strategy with the fewest \
             schedules, from starting the servers to the failure; native runs go on one after the other for that time, but at least 0.2 s. A run of \
             more than {} choices counts as a hang.\n",
            self.amounts.seeds,
            self.amounts.schedules,
            super::find::MOST_STEPS
        );
        let _ = writeln!(page, "| kernel | pattern | harm | {} | time | native failures | |", names.join(" | "));
        let _ = writeln!(page, "|---|---|---|{}---:|---:|---|", "---:|".repeat(names.len()));
        for kernel in &self.kernels {
            let _ = write!(page, "| {} | {} | {} |", kernel.name, kernel.pattern, kernel.harm);
            for searched in &kernel.searched {
                let _ = write!(page, " {} |", searched.cell());
            }
            let time = kernel.best_seconds().map_or("-".to_owned(), |s| format!("{s:.3} s"));
            let native = kernel.stressed.map_or("-".to_owned(), |s| format!("{} of {}", s.failures, s.runs));
            let mut remark = String::new();
            let others: Vec<&str> = kernel.harms_seen.iter().filter(|h| **h != kernel.harm).map(|h| &**h).collect();
            if !others.is_empty() {
                remark = format!("also {}", others.join(", "));
            }
            if let Some(why) = kernel.searched.iter().find_map(|s| s.nondeterministic.as_ref()) {
                remark = format!("{remark} {why}").trim_start().to_owned();
            }
            let _ = writeln!(page, " {time} | {native} | {remark} |");
        }
        for (number, name) in names.iter().enumerate() {
            let of = self.kernels.iter().filter(|kernel| !kernel.searched.is_empty()).count();
            let medians: Vec<f64> = self.kernels.iter().filter_map(|k| k.searched.get(number)?.schedules()).collect();
            let (found, middle) = (medians.len(), median(medians).unwrap_or(0.0));
            let _ = write!(page, "{}{name} finds {found} of {of}", if number == 0 { "\n" } else { "; " });
            let _ = write!(page, " (median {middle:.0})");
        }
        let missed: Vec<&str> = self.kernels.iter().filter(|k| k.best_seconds().is_none()).map(|k| &*k.name).collect();
        let beaten = self.kernels.iter().filter(|k| k.stressed.is_some_and(|s| s.failures == 0));
        let _ = writeln!(
            page,
            ".\nNot found by any: {}. Native runs of equal time show nothing of {} kernels.",
            if missed.is_empty() { "none".to_owned() } else { missed.join(", ") },
            beaten.count()
        );
    }

    fn again(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "\n## Failures again\n\n\
             Every distinct failure, replayed {} times: how many replays failed in the same way with every choice the same (the \
             digest). Then minimised, and the smaller clip replayed as often. Switches are the choices other than the default; \
             the preemptive ones, in brackets, stop a thread that could go on.\n",
            self.amounts.replays
        );
        *page += "| kernel | failure | found by | replays | switches | minimised | runs | replays | schedule |\n";
        *page += "|---|---|---|---:|---:|---:|---:|---:|---|\n";
        for kernel in &self.kernels {
            for again in &kernel.again {
                let shown = |s: super::again::Switches| format!("{} ({})", s.all, s.preemptive);
                let of = |r: super::again::Replays| format!("{}/{}", r.exact, r.of);
                let _ = writeln!(
                    page,
                    "| {} | {} | {} | {} | {} | {}{} | {} | {} | `{}` |",
                    kernel.name,
                    brief(&again.failure, 70),
                    again.way,
                    of(again.replays),
                    shown(again.before),
                    shown(again.after),
                    if again.minimal { "" } else { ", not minimal" },
                    again.runs,
                    of(again.smaller_replays),
                    brief(&again.schedule, 60)
                );
            }
        }
    }

    fn twin_table(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "\n## Programs without a bug\n\n\
             Fixed twins and correct programs under {} schedules, a third each by random, pct and pos. Rates are schedules a second: of these \
             runs, with a server for each core; one at a time by a fork server; and one at a time with the program started for each.\n",
            self.amounts.fixed
        );
        *page += "| program | schedules | failures | choices, longest | rate | 1 server | started |\n";
        *page += "|---|---:|---:|---:|---:|---:|---:|\n";
        let kernels = self.kernels.iter().filter_map(|kernel| Some((kernel.twin.as_ref()?, kernel.rate)));
        for (twin, rate) in kernels.chain(self.correct.iter().map(|twin| (twin, None))) {
            let failures: u64 = twin.failures.iter().map(|failed| failed.count).sum();
            let shown = |figure: Option<f64>| figure.map_or("-".to_owned(), |f| format!("{f:.0}"));
            let _ = writeln!(
                page,
                "| {} | {} | {failures} | {} | {:.0} | {} | {} |",
                twin.name,
                twin.schedules,
                twin.longest,
                twin.rate(),
                shown(rate.map(|r| r.served)),
                shown(rate.map(|r| r.started))
            );
        }
        let total: u64 = self.twins().map(|twin| twin.schedules).sum();
        let speedups = self.kernels.iter().filter_map(|kernel| kernel.rate.map(|r| r.served / r.started));
        let _ = writeln!(
            page,
            "\n{total} schedules in all. A fork server makes {:.1} times as many as starting the program does (median).",
            median(speedups.collect()).unwrap_or(0.0)
        );
        for twin in self.twins() {
            for failed in &twin.failures {
                let _ = writeln!(
                    page,
                    "- {} FAILED: {} ({}, first in schedule {}, {} times): `{}`",
                    twin.name, failed.failure, failed.way, failed.first, failed.count, failed.replay
                );
            }
            if twin.hidden_blocks > 0 {
                let _ = writeln!(
                    page,
                    "- {}: {} times a thread blocked where the model does not look",
                    twin.name, twin.hidden_blocks
                );
            }
        }
    }

    fn repeated(&self, page: &mut String) {
        let of = self.repeated.first().map_or(self.amounts.repeats, |repeated| repeated.of);
        let _ = writeln!(
            page,
            "\n## One schedule again and again\n\n\
             {of} recorded runs by the random strategy with one seed: how many have the events of the first (thread, number, kind and place \
             of every event in their one order, and `selvedge trace --std`), and how many its choices (the digest); and of {of} runs by a fork server, how \
             many have the choices of the first recorded one. A hidden block is a thread that seems to block where the model does not look.\n"
        );
        let whole: Vec<&Repeated> = self.repeated.iter().filter(|repeated| repeated.all()).collect();
        let events: usize = whole.iter().map(|repeated| repeated.events).sum();
        let _ = writeln!(
            page,
            "In {} of {} programs all {of} of {of} are the same in all three ways ({} events a run on average). Those in which something \
             differs, and the programs that are not of the corpus:\n",
            whole.len(),
            self.repeated.len(),
            events / whole.len().max(1)
        );
        *page +=
            "| program | events | choices | same events | same choices | served | hidden blocks | first difference |\n";
        *page += "|---|---:|---:|---:|---:|---:|---:|---|\n";
        for repeated in self.repeated.iter().filter(|repeated| !repeated.all() || repeated.foreign) {
            let of = repeated.of;
            let _ = writeln!(
                page,
                "| {} | {} | {} | {}/{of} | {}/{of} | {}/{of} | {} | {} |",
                repeated.name,
                repeated.events,
                repeated.steps,
                repeated.identical,
                repeated.same_choices,
                repeated.served,
                repeated.hidden_blocks,
                repeated.difference.as_deref().map_or(String::new(), |text| brief(text, 200))
            );
        }
    }

    fn counted(&self, page: &mut String) {
        *page += "\n## Bounded search, counted by hand\n\n\
             The formulas are in `bench/programs/counted`. The count must agree, and the search must say that it was complete.\n\n\
             | program | preemptions | by hand | by the tool | |\n|---|---:|---:|---:|---|\n";
        for counted in &self.counted {
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {} |",
                counted.name,
                counted.preemptions.map_or("any".to_owned(), |count| count.to_string()),
                counted.by_hand,
                counted.by_tool,
                match (counted.agrees(), counted.complete) {
                    (true, _) => "complete, agrees",
                    (false, true) => "complete, **DIFFERS**",
                    (false, false) => "**NOT COMPLETE**",
                }
            );
        }
    }
}

impl Kernel {
    /// Whether its runs are short: what they cost is then ours.
    fn is_small(&self) -> bool {
        let native = self.stressed.and_then(|stressed| stressed.shortest);
        self.twin.as_ref().is_some_and(|twin| twin.longest <= SMALL) && native.is_some_and(|seconds| seconds < SHORT)
    }

    /// The time of the strategy that needed the fewest schedules.
    pub fn best_seconds(&self) -> Option<f64> {
        super::find::best(&self.searched)?.seconds()
    }
}

/// Text for a cell: no bars, not too long.
fn brief(text: &str, most: usize) -> String {
    let text = text.replace('|', "\\|");
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_cells() {
        assert_eq!(brief("a|b", 9), "a\\|b");
        assert_eq!(brief("abcdef", 3), "abc…");
    }
}
