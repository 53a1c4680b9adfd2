//! A generated history as files: our format, and RAPID's text.

use std::io::{self, Write};

use selvedge_analyze::{Event, History, Op};
use selvedge_events::pack::{self, object, pc_payload};
use selvedge_events::{Acquire, EventKind, Mode, Primitive};
use selvedge_trace::write::{Stream, TraceBuilder};

/// Writes the text.
pub fn write_text(history: &History, to: &mut impl Write) -> io::Result<()> {
    for Event { op, thread, target, location, .. } in &history.events {
        let (word, letter) = match op {
            Op::Read => ("r", 'V'),
            Op::Write => ("w", 'V'),
            Op::Acquire => ("acq", 'L'),
            Op::Release => ("rel", 'L'),
            Op::Fork => ("fork", 'T'),
            Op::Join => ("join", 'T'),
            // Nothing else is generated.
            _ => continue,
        };
        writeln!(to, "T{thread}|{word}({letter}{target})|{location}")?;
    }
    Ok(())
}

const VARIABLES: u64 = 0x7f12_3400_0000;
const LOCKS: u64 = 0x5555_0000_0000;
const BASE: u64 = 0x5550_0000_0000;

/// The bytes of a trace file. Like the runtime, it has times for synchronisation and for the first and last access of a
/// burst; the order is that of the history all the same.
pub fn trace_file(history: &History) -> Vec<u8> {
    let hooks = ["__tsan_read4", "__tsan_write4"];
    let sites: Vec<(u32, u32, &str)> = (0..history.locations)
        .flat_map(|location| [0, 1].map(|hook| (2 * location + hook, 16 * location + 8 * hook, hooks[hook as usize])))
        .collect();
    let mut streams = vec![Stream::default(); history.threads as usize];
    let how = Acquire::of(Primitive::Mutex, Mode::Exclusive).pack();
    let mut last = None;
    for (number, event) in history.events.iter().enumerate() {
        let Event { op, thread, target, location, .. } = *event;
        let time = (number as u64 + 1) << pack::TICK_SHIFT;
        let stream = &mut streams[usize::from(thread)];
        let pc = pc_payload(0, 16 * location + 4);
        let lock = [object(LOCKS + 64 * u64::from(target), how), 0, 0];
        match op {
            Op::Read | Op::Write => {
                let next = history.events.get(number + 1);
                let inside =
                    last == Some(thread) && next.is_some_and(|next| next.thread == thread && next.op.is_access());
                let site = 2 * location + u32::from(op == Op::Write);
                stream.access(site, VARIABLES + 4 * u64::from(target), (!inside).then_some(time));
            }
            Op::Acquire => drop(stream.wide(EventKind::Acquire, time, pc, lock)),
            Op::Release => drop(stream.wide(EventKind::Release, time, pc, lock)),
            Op::Fork => drop(stream.wide(EventKind::ThreadCreate, time, pc, [u64::from(target), 0, 0])),
            Op::Join => drop(stream.wide(EventKind::ThreadJoin, time, pc, [u64::from(target), 0, 0])),
            _ => {}
        }
        last = op.is_access().then_some(thread);
    }
    let mut file = TraceBuilder::new();
    let end = BASE + 16 * u64::from(history.locations) + 64;
    file.module(0, BASE, end, &[1; 20], "/generated").sites(0, &sites);
    for (thread, stream) in (0..).zip(&streams) {
        file.stream(thread, stream);
    }
    file.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use selvedge_analyze::import::{self, Options};
    use selvedge_analyze::std_text;
    use selvedge_trace::{Process, TraceFile};

    use super::*;
    use crate::predict::generate::generate;
    use crate::predict::shapes::SHAPES;

    /// The same but for the numbers of things.
    fn same(one: &History, two: &History) {
        assert_eq!(one.len(), two.len());
        let mut known: BTreeMap<(u8, u32), u32> = BTreeMap::new();
        for (one, two) in one.events.iter().zip(&two.events) {
            assert_eq!((one.thread, one.op), (two.thread, two.op));
            let sort = if one.op.is_access() { 0 } else { 1 + u8::from(one.op.acquires() || one.op.releases()) };
            assert_eq!(*known.entry((sort, one.target)).or_insert(two.target), two.target);
        }
    }

    #[test]
    fn both_files_say_what_was_generated() {
        for shape in &SHAPES[..2] {
            let history = generate(shape);
            let mut text = Vec::new();
            write_text(&history, &mut text).unwrap();
            let read = std_text::parse(&text).unwrap();
            assert!(read.diagnostics.is_empty());
            same(&history, &read.history);
            let file = TraceFile::from_bytes(trace_file(&history)).unwrap();
            let process = Process::new(file, PathBuf::new());
            let read = import::import(&process, &Options { keep_private: true, ..Options::default() });
            same(&history, &read.history);
            assert!(import::import(&process, &Options::default()).history.len() < history.len());
        }
    }
}
