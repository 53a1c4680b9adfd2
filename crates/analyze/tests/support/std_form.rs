//! Recorded traces in RAPID's `std` text, with exact answers beside them.
//!
//! The folder is that of `SELVEDGE_TRACES`, or `shared/traces` beside the workspace.

use std::collections::HashMap;
use std::path::PathBuf;

use selvedge_analyze::{Event, History, Op};

/// The folder, where there is one.
pub(crate) fn folder() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("SELVEDGE_TRACES").map_or_else(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("passed over: no recorded traces (set SELVEDGE_TRACES)");
    None
}

#[derive(Default)]
struct Names(HashMap<String, u32>);

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(name.to_owned()).or_insert(next)
    }
}

/// The history of a trace. Re-entrant acquisitions are left out.
pub(crate) fn parse(text: &str) -> History {
    let (mut threads, mut variables, mut locks, mut places) =
        (Names::default(), Names::default(), Names::default(), Names::default());
    let mut depth: HashMap<(u32, u32), u32> = HashMap::new();
    let mut history = History::default();
    for (line, text) in text.lines().enumerate() {
        let mut fields = text.split('|');
        let (Some(thread), Some(what), place) = (fields.next(), fields.next(), fields.next()) else { continue };
        let thread = threads.number(thread);
        let (name, operand) = what.split_once('(').unwrap_or((what, ""));
        let operand = operand.trim_end_matches(')');
        let (op, target) = match name {
            "r" => (Op::Read, variables.number(operand)),
            "w" => (Op::Write, variables.number(operand)),
            "acq" => (Op::Acquire, locks.number(operand)),
            "rel" => (Op::Release, locks.number(operand)),
            "fork" => (Op::Fork, threads.number(operand)),
            "join" => (Op::Join, threads.number(operand)),
            "begin" => (Op::Enter, 0),
            "end" => (Op::Exit, 0),
            _ => continue,
        };
        let depth = depth.entry((thread, target)).or_default();
        match op {
            Op::Acquire => {
                *depth += 1;
                if *depth > 1 {
                    continue;
                }
            }
            Op::Release => {
                let was = *depth;
                *depth = was.saturating_sub(1);
                if was != 1 {
                    continue;
                }
            }
            _ => {}
        }
        let location = places.number(place.unwrap_or(""));
        history.events.push(Event::new(thread as u16, op, target, location));
        history.sources.push(line as u64);
    }
    history.threads = threads.0.len() as u32;
    history.variables = variables.0.len() as u32;
    history.locks = locks.0.len() as u32;
    history.locations = places.0.len() as u32;
    history
}
