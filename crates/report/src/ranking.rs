//! A ranking in words: each code point with the communication that speaks for it.

use std::io::{self, Write};
use std::path::Path;

use selvedge_findings::{RankedEdge, RankedNode, RankedPoint};

use crate::names::shorten;

/// What a ranking was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ground {
    /// Failing runs; all runs, where nobody said how they ended.
    pub failing: u32,
    /// Passing runs; 0 where nobody said how runs ended.
    pub passing: u32,
    /// Whether nodes have contexts: an empty one says nothing where none has.
    pub has_contexts: bool,
}

impl Ground {
    /// Whether runs were told apart.
    pub fn is_labelled(self) -> bool {
        self.passing > 0
    }
}

/// Why an edge speaks for the bug: a sentence.
pub fn why(edge: &RankedEdge, ground: Ground) -> String {
    let to = &edge.to;
    let met = match &edge.from {
        None => format!("{} read what no thread had written yet", place(to)),
        Some(from) => {
            let did = match (from.access.as_str(), to.access.as_str()) {
                ("write", "read") => "read what was written by",
                ("write", "write") => "overwrote what was written by",
                ("read", "write") => "overwrote what was read by",
                _ => "came after",
            };
            format!("{} {did} {}", place(to), place(from))
        }
    };
    let mut sentence = met;
    if ground.has_contexts {
        sentence.push_str(&format!(", {}", after(&to.context)));
        if let Some(from) = edge.from.as_ref().filter(|from| !from.context.is_empty()) {
            sentence.push_str(&format!("; the other thread's {} came {}", from.access, after(&from.context)));
        }
    }
    match (edge.is_missing, ground.is_labelled()) {
        (true, true) => {
            return format!(
                "what is missing: {sentence}: in {} of {} passing runs, and in {} of {} failing ones",
                edge.passing, ground.passing, edge.failing, ground.failing
            );
        }
        (true, false) => {
            let lack = ground.failing.saturating_sub(edge.failing);
            return format!("what is missing in {lack} of {} runs: {sentence}", ground.failing);
        }
        _ => {}
    }
    let runs = match (ground.is_labelled(), ground.failing) {
        (true, _) => format!(
            "in {} of {} failing runs and {} of {} passing ones",
            edge.failing, ground.failing, edge.passing, ground.passing
        ),
        (false, 1) => "in this run".to_owned(),
        (false, all) => format!("in {} of {all} runs", edge.failing),
    };
    let known = match (ground.is_labelled() && edge.passing == 0, edge.pair_passes && ground.has_contexts) {
        (true, true) => "; passing runs have these two only in other contexts",
        (true, false) => "; passing runs never have these two together",
        (false, _) => "",
    };
    format!("{sentence}: {runs}{known}")
}

/// Why a code point is ranked: what speaks for it most; and where that is something missing, what happens instead.
pub fn whole_why(evidence: &[RankedEdge], ground: Ground) -> String {
    let Some(first) = evidence.first() else { return String::new() };
    let instead = evidence.iter().find(|edge| first.is_missing && !edge.is_missing);
    let more = instead.map_or_else(String::new, |edge| format!(". Instead: {}", why(edge, ground)));
    format!("{}{more}", why(first, ground))
}

fn place(node: &RankedNode) -> String {
    match &node.function {
        Some(function) => format!("{} in {function}", node.place),
        None => node.place.clone(),
    }
}

/// A context in words.
fn after(context: &[String]) -> String {
    if context.is_empty() {
        return "before its thread had exchanged anything with others".to_owned();
    }
    let words = |event: &String| match event.as_str() {
        "LcRd" => "had read from another thread",
        "LcWr" => "had overwritten another thread's data",
        "RmRd" => "had been read by another thread",
        "RmWr" => "had been overwritten by another thread",
        _ => "had met another thread",
    };
    let mut parts: Vec<(&str, usize)> = Vec::new();
    for part in context.iter().map(words) {
        match parts.last_mut().filter(|(last, _)| *last == part) {
            Some((_, times)) => *times += 1,
            None => parts.push((part, 1)),
        }
    }
    let said: Vec<String> = parts
        .into_iter()
        .map(|(part, times)| match times {
            1 => part.to_owned(),
            2 => format!("{part} twice"),
            _ => format!("{part} {times} times"),
        })
        .collect();
    format!("after its thread {}", said.join(", then "))
}

/// Writes a ranking with the lines that it names; files are as seen from here.
pub fn write_ranking(points: &[RankedPoint], ground: Ground, out: &mut dyn Write) -> io::Result<()> {
    match ground.is_labelled() {
        true => writeln!(
            out,
            "Code points by how much they tell {} failing runs from {} passing ones:",
            ground.failing, ground.passing
        )?,
        false => writeln!(out, "Code points by how rare what they do is in {} runs:", ground.failing)?,
    }
    if points.is_empty() {
        writeln!(out, "\n  none: all runs did the same")?;
    }
    for point in points {
        let place = match (&point.file, point.line) {
            (Some(file), Some(line)) => format!("{}:{line}", shorten(Path::new(file))),
            _ => point.evidence.first().map_or("?", |edge| edge.to.place.as_str()).to_owned(),
        };
        let function = point.function.as_ref().map_or_else(String::new, |function| format!(" in {function}"));
        writeln!(out, "\n  #{} {place}{function} (score {:.2})", point.rank, point.score)?;
        if let Some(line) = source_line(point) {
            writeln!(out, "     > {line}")?;
        }
        writeln!(out, "     {}.", point.why)?;
    }
    Ok(())
}

/// The line itself, where its file is still there.
fn source_line(point: &RankedPoint) -> Option<String> {
    let text = std::fs::read_to_string(point.file.as_deref()?).ok()?;
    let line = text.lines().nth(usize::try_from(point.line?.checked_sub(1)?).ok()?)?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(place: &str, access: &str, context: &[&str]) -> RankedNode {
        RankedNode {
            place: place.to_owned(),
            function: Some("pay".to_owned()),
            access: access.to_owned(),
            context: context.iter().map(|event| (*event).to_owned()).collect(),
        }
    }

    #[test]
    fn edges_are_told_in_words() {
        let ground = Ground { failing: 25, passing: 25, has_contexts: true };
        let edge = RankedEdge {
            from: Some(node("a.c:7", "write", &["RmRd"])),
            to: node("a.c:9", "read", &["LcRd", "LcRd", "RmWr"]),
            failing: 20,
            passing: 0,
            pair_passes: true,
            is_missing: false,
        };
        assert_eq!(
            why(&edge, ground),
            "a.c:9 in pay read what was written by a.c:7 in pay, after its thread had read from another thread twice, then had \
             been overwritten by another thread; the other thread's write came after its thread had been read by another \
             thread: in 20 of 25 failing runs and 0 of 25 passing ones; passing runs have these two only in other contexts"
        );
        let first = RankedEdge { from: None, to: node("a.c:9", "read", &[]), pair_passes: false, ..edge };
        assert_eq!(
            why(&first, Ground { failing: 25, passing: 0, has_contexts: true }),
            "a.c:9 in pay read what no thread had written yet, before its thread had exchanged anything with others: in \
             20 of 25 runs"
        );
    }

    #[test]
    fn what_is_missing_is_told_with_what_happens_instead() {
        let ground = Ground { failing: 25, passing: 20, has_contexts: false };
        let happens = RankedEdge {
            from: Some(node("a.c:7", "write", &[])),
            to: node("a.c:9", "read", &[]),
            failing: 25,
            passing: 0,
            pair_passes: false,
            is_missing: false,
        };
        let missing = RankedEdge { from: None, failing: 1, passing: 19, is_missing: true, ..happens.clone() };
        assert_eq!(
            whole_why(&[missing, happens], ground),
            "what is missing: a.c:9 in pay read what no thread had written yet: in 19 of 20 passing runs, and in 1 of 25 failing \
             ones. Instead: a.c:9 in pay read what was written by a.c:7 in pay: in 25 of 25 failing runs and 0 of 20 passing \
             ones; passing runs never have these two together"
        );
        assert_eq!(whole_why(&[], ground), "");
    }
}
