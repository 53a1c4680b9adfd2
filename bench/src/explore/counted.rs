//! Bounded search on programs whose schedules can be counted by hand. The formulas are in the programs, with a line for
//! each count: `//@ count N=2 M=3: 1 4 16 all 56` are the numbers for 0, 1 and 2 preemptions, and for any number.

use std::fs;
use std::path::Path;

use selvedge_drive::explore::{Strategy, explore};
use selvedge_drive::run::Stop;
use serde::Serialize;

use super::find::{WAYS, Way};
use super::workshop::Workshop;
use crate::error::{BenchError, Result, at, tool};
use crate::place;

/// More preemptions than any of the programs has points.
const ANY: u32 = 1000;
/// More schedules than any of the programs has.
const MOST: u64 = 100_000;

/// What a line of a program says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Sizes, as compiler flags.
    pub flags: Vec<String>,
    /// Most preemptions (`None` for any number) and schedules.
    pub schedules: Vec<(Option<u32>, u64)>,
}

/// A count by hand, and the tool's.
#[derive(Debug, Clone, Serialize)]
pub struct Counted {
    /// The program and its sizes.
    pub name: String,
    /// Most preemptions; `None` for any number.
    pub preemptions: Option<u32>,
    /// Schedules by hand.
    pub by_hand: u64,
    /// Schedules that were run.
    pub by_tool: u64,
    /// Whether the tool says that these are all.
    pub complete: bool,
}

impl Counted {
    /// Whether both agree.
    pub fn agrees(&self) -> bool {
        self.complete && self.by_hand == self.by_tool
    }
}

/// Counts the schedules of every program and size.
pub fn count_all(workshop: &Workshop) -> Result<Vec<Counted>> {
    let dir = place::programs().join("counted");
    let mut files = Vec::new();
    for entry in at("read", &dir, fs::read_dir(&dir))? {
        files.push(at("read", &dir, entry)?.path());
    }
    files.sort();
    let mut counted = Vec::new();
    for file in files {
        let text = at("read", &file, fs::read_to_string(&file))?;
        for count in counts(&text).ok_or_else(|| BenchError::Wrong(format!("the counts of {}", file.display())))? {
            count_one(workshop, &file, &count, &mut counted)?;
        }
    }
    Ok(counted)
}

fn count_one(workshop: &Workshop, file: &Path, count: &Count, counted: &mut Vec<Counted>) -> Result<()> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let sizes: Vec<&str> = count.flags.iter().map(|flag| flag.trim_start_matches("-D")).collect();
    let name = [&*stem, &sizes.join(" ")].join(" ").trim_end().to_owned();
    let executable = workshop.wrapped_file(file, &name.replace(' ', "-"), &count.flags)?;
    let prepared = workshop.prepare(&executable, &[])?;
    for (preemptions, by_hand) in &count.schedules {
        let way = Way { strategy: Strategy::Bounded(preemptions.unwrap_or(ANY)), ..WAYS[0] };
        let options = way.options(1, MOST);
        let explored = tool(format!("explore {name}"), explore(&prepared, &options, &Stop::default(), &mut |_| {}))?;
        counted.push(Counted {
            name: name.clone(),
            preemptions: *preemptions,
            by_hand: *by_hand,
            by_tool: explored.schedules(),
            complete: explored.complete && (preemptions.is_some() || explored.exhaustive),
        });
    }
    Ok(())
}

/// The counts that a program's text has; `None` where a line cannot be understood.
pub fn counts(text: &str) -> Option<Vec<Count>> {
    text.lines().filter_map(|line| line.strip_prefix("//@ count")).map(count).collect()
}

fn count(line: &str) -> Option<Count> {
    let (sizes, numbers) = line.split_once(':')?;
    let (bounded, any) = numbers.split_once(" all ").map_or((numbers, None), |(front, any)| (front, Some(any)));
    let mut schedules = Vec::new();
    for (preemptions, number) in (0..).zip(bounded.split_whitespace()) {
        schedules.push((Some(preemptions), number.parse().ok()?));
    }
    if let Some(any) = any {
        schedules.push((None, any.trim().parse().ok()?));
    }
    Some(Count { flags: sizes.split_whitespace().map(|size| format!("-D{size}")).collect(), schedules })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a size among the flags.
    fn size(count: &Count, name: &str) -> u64 {
        let prefix = format!("-D{name}=");
        count.flags.iter().find_map(|flag| flag.strip_prefix(&prefix)?.parse().ok()).unwrap()
    }

    fn choose(n: u64, k: u64) -> u64 {
        (0..k).fold(1, |product, i| product * (n - i) / (i + 1))
    }

    #[test]
    fn the_lines_are_what_the_formulas_say() {
        type Formula = fn(u64, u64) -> Vec<(Option<u32>, u64)>;
        let accesses: Formula = |n, m| {
            let bounded = [1, n + 2, n + 2 + (n + 1) * (m + 1)];
            let bounded = (0..).map(Some).zip(bounded);
            bounded.chain([(None, choose(n + m + 3, n + 1))]).collect()
        };
        let lock: Formula = |n, m| (0..).map(Some).zip([1, n + 4, n + 4 + 2 * (m + 3) + 2 * (n + 1)]).collect();
        for (name, formula) in [("accesses.c", accesses), ("lock.c", lock)] {
            let text = fs::read_to_string(place::programs().join("counted").join(name)).unwrap();
            let counts = counts(&text).unwrap();
            assert!(!counts.is_empty());
            for count in counts {
                assert_eq!(count.schedules, formula(size(&count, "N"), size(&count, "M")), "{name} {count:?}");
            }
        }
    }

    #[test]
    fn lines_are_understood_or_refused() {
        assert_eq!(count(" N=1: 1 2").unwrap().flags, ["-DN=1"]);
        assert_eq!(count(": 3").unwrap(), Count { flags: vec![], schedules: vec![(Some(0), 3)] });
        for bad in [" N=1 1 2", ": x", ": 1 all x"] {
            assert_eq!(count(bad), None, "{bad}");
        }
    }
}
