//! A ranking in words: each code point with the communication that speaks for it.

use std::io::{self, Write};

use selvedge_findings::{RankedEdge, RankedNode, RankedPoint};

/// What a ranking was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ground {
    /// Failing runs; all runs, where nobody said how they ended.
    pub failing: u32,
    /// Passing runs; 0 where nobody said how runs ended.
    pub passing: u32,
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
    let mut sentence = format!("{met}, {}", after(&to.context));
    if let Some(from) = edge.from.as_ref().filter(|from| !from.context.is_empty()) {
        sentence.push_str(&format!("; the other thread's {} came {}", from.access, after(&from.context)));
    }
    let runs = match ground.is_labelled() {
        true => format!(
            "in {} of {} failing runs and {} of {} passing ones",
            edge.failing, ground.failing, edge.passing, ground.passing
        ),
        false => format!("in {} of {} runs", edge.failing, ground.failing),
    };
    if edge.is_missing {
        return format!("missing: {sentence}: only {runs}");
    }
    let known = match (ground.is_labelled() && edge.passing == 0, edge.pair_passes) {
        (true, true) => "; passing runs have these two only in other contexts",
        (true, false) => "; passing runs never have these two together",
        (false, _) => "",
    };
    format!("{sentence}: {runs}{known}")
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

/// Writes a ranking; a file's directories are left out where the place says enough.
pub fn write_ranking(points: &[RankedPoint], ground: Ground, out: &mut dyn Write) -> io::Result<()> {
    match ground.is_labelled() {
        true => writeln!(
            out,
            "Code points by how much they tell {} failing runs from {} passing ones:",
            ground.failing, ground.passing
        )?,
        false => writeln!(out, "Code points by how rare what they do is in {} runs:", ground.failing)?,
    }
    for point in points {
        let place = match (&point.file, point.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            _ => point.evidence.first().map_or("?", |edge| edge.to.place.as_str()).to_owned(),
        };
        let function = point.function.as_ref().map_or_else(String::new, |function| format!(" in {function}"));
        writeln!(out, "\n  #{} {place}{function} (score {:.2})", point.rank, point.score)?;
        writeln!(out, "     {}.", point.why)?;
    }
    Ok(())
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
        let ground = Ground { failing: 25, passing: 25 };
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
            why(&first, Ground { failing: 25, passing: 0 }),
            "a.c:9 in pay read what no thread had written yet, before its thread had exchanged anything with others: in \
             20 of 25 runs"
        );
    }
}
