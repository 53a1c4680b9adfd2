//! What `selvedge trace --json` says, as data.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

/// The trace of one process.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What holds for all of it.
    pub header: Header,
    /// Its events, in the merged order.
    pub events: Vec<Event>,
}

/// The first line of a process.
#[derive(Clone, Debug, Deserialize)]
pub struct Header {
    /// How many events there are.
    pub events: u64,
    /// What one unit of the trace's clock is worth; 0 under control, where events are numbered.
    #[serde(default)]
    pub tick_ns: f64,
    /// The threads, by number.
    pub threads: Vec<Thread>,
    /// Counters that are not zero, each with its sentence.
    pub counters: Vec<(String, u64)>,
    /// A sentence for each damaged place.
    pub damages: Vec<String>,
    /// Who waited for what when the trace ended.
    pub blocked: Vec<Blocked>,
}

/// A thread.
#[derive(Clone, Debug, Deserialize)]
pub struct Thread {
    /// Its number.
    pub index: u32,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// How many events it has.
    pub events: u64,
}

/// A thread that was waiting.
#[derive(Clone, Debug, Deserialize)]
pub struct Blocked {
    /// The thread.
    pub thread: u32,
    /// The function that it was in.
    pub function: String,
    /// Where it called that.
    pub place: String,
}

/// An event.
#[derive(Clone, Debug, Deserialize)]
pub struct Event {
    /// Its thread.
    pub thread: u32,
    /// Its number in its thread.
    pub index: u64,
    /// What was done.
    pub op: String,
    /// To what.
    pub variable: Option<String>,
    /// Where that was in memory.
    pub address: Option<String>,
    /// How many bytes of it.
    pub size: Option<u64>,
    /// The function that did it.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

impl Trace {
    /// Reads the output of `selvedge trace --json`: each process is a header and its events.
    pub fn parse(text: &str) -> Result<Vec<Trace>, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(tag = "type", rename_all = "lowercase")]
        enum Line {
            Trace(Header),
            Event(Event),
        }
        let mut traces: Vec<Trace> = Vec::new();
        for line in text.lines() {
            match serde_json::from_str(line)? {
                Line::Trace(header) => traces.push(Trace { header, events: Vec::new() }),
                Line::Event(event) => {
                    if let Some(trace) = traces.last_mut() {
                        trace.events.push(event);
                    }
                }
            }
        }
        Ok(traces)
    }

    /// The number of the thread with this name.
    pub fn thread(&self, name: &str) -> Option<u32> {
        let named = self.header.threads.iter().find(|thread| thread.name.as_deref() == Some(name));
        named.map(|thread| thread.index)
    }

    /// The value of the counters whose sentence contains this.
    pub fn counter(&self, words: &str) -> u64 {
        self.header.counters.iter().filter(|(sentence, _)| sentence.contains(words)).map(|(_, value)| value).sum()
    }

    /// The lines of a source file that have events.
    pub fn lines(&self, file: &Path) -> BTreeSet<u32> {
        let there = self.events.iter().filter(|event| event.file.as_deref().map(Path::new) == Some(file));
        there.filter_map(|event| event.line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_their_events_are_told_apart() {
        let text = r#"{"type":"trace","version":1,"events":1,"tick_ns":1.5,"threads":[{"index":0,"name":"a","events":1}],"counters":[["sites armed",9]],"damages":[],"blocked":[]}
{"type":"event","thread":0,"index":0,"op":"write","variable":"x","address":"0x10","function":"f","file":"/x.c","line":4}
{"type":"trace","version":1,"events":0,"tick_ns":1.5,"threads":[],"counters":[],"damages":["damaged at offset 3"],"blocked":[]}
"#;
        let traces = Trace::parse(text).unwrap();
        assert_eq!(traces.len(), 2);
        assert_eq!((traces[0].events.len(), traces[1].events.len()), (1, 0));
        assert_eq!((traces[0].thread("a"), traces[0].thread("b")), (Some(0), None));
        assert_eq!((traces[0].counter("armed"), traces[1].counter("armed")), (9, 0));
        assert_eq!(traces[0].lines(Path::new("/x.c")), BTreeSet::from([4]));
        assert!(Trace::parse("{\"type\":\"other\"}").is_err());
    }
}
