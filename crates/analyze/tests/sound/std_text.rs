//! RAPID's `std` text, as far as the kept traces need it: one event a line, `T1|w(V1)|12`.

use std::collections::HashMap;

use selvedge_analyze::{Event, History, Op};

/// A history of the lines; those that are none of its events are passed over, numbers stay those of the lines.
pub(crate) fn parse(text: &str) -> History {
    let mut history = History::default();
    let mut names: HashMap<(char, String), u32> = HashMap::new();
    let mut counts: HashMap<char, u32> = HashMap::new();
    let mut number = |sort: char, name: &str| {
        *names.entry((sort, name.to_owned())).or_insert_with(|| {
            let count = counts.entry(sort).or_default();
            *count += 1;
            *count - 1
        })
    };
    // How often each thread holds each lock: only the outermost pair counts.
    let mut depths: HashMap<(u32, u32), u32> = HashMap::new();
    for (line, source) in text.lines().zip(0..) {
        let mut fields = line.split('|');
        let (Some(thread), Some(what), location) = (fields.next(), fields.next(), fields.next()) else { continue };
        let Some((op, operand)) = what.strip_suffix(')').and_then(|what| what.split_once('(')) else { continue };
        let thread = number('T', thread);
        let location = number('@', location.unwrap_or_default());
        let (op, target) = match op {
            "r" => (Op::Read, number('V', operand)),
            "w" => (Op::Write, number('V', operand)),
            "acq" | "rel" => {
                let lock = number('L', operand);
                let depth = depths.entry((thread, lock)).or_default();
                *depth = if op == "acq" { *depth + 1 } else { depth.saturating_sub(1) };
                match (op, *depth) {
                    ("acq", 1) => (Op::Acquire, lock),
                    ("rel", 0) => (Op::Release, lock),
                    _ => continue,
                }
            }
            "fork" => (Op::Fork, number('T', operand)),
            "join" => (Op::Join, number('T', operand)),
            _ => continue,
        };
        history.events.push(Event::new(thread as u16, op, target, location));
        history.sources.push(source);
    }
    let count = |sort: char| counts.get(&sort).copied().unwrap_or(0);
    (history.threads, history.variables, history.locks) = (count('T'), count('V'), count('L'));
    history.locations = count('@');
    history
}
