//! A timeline in Chrome's JSON, which Perfetto, Firefox's profiler and Chrome itself open.

use std::io::{self, Write};

use selvedge_trace::Run;
use serde_json::{Value, json};

use super::{Item, STEP, items, program};
use crate::names::Names;
use crate::view::Filter;

/// Writes a run.
pub fn write_chrome(run: &Run, filter: &Filter, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut first = true;
    let mut put = |value: &Value| -> io::Result<()> {
        out.write_all(if std::mem::take(&mut first) { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, value)?;
        Ok(())
    };
    for process in &run.processes {
        let (names, pid) = (Names::new(process), process.file().header().pid);
        let named = |what: &str, tid: u32, name: &str| json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}});
        put(&named("process_name", 0, &program(process)))?;
        for thread in &process.summary().threads {
            put(&named("thread_name", thread.index.0, &crate::view::printable(&names.thread(thread.index))))?;
        }
        // Arrows bind to slices only, so an event is a slice: half a step, or next to nothing.
        let length = if process.is_controlled() { micros(STEP / 2) } else { micros(1) };
        items(&names, filter, &mut |item| event(item, pid, &length).iter().try_for_each(&mut put))?;
    }
    out.write_all(b"\n]}\n")
}

/// The records of an item.
fn event(item: Item, pid: u32, length: &Value) -> Vec<Value> {
    match item {
        Item::Event { thread, at, name, args, from, to } => {
            let args: serde_json::Map<String, Value> =
                args.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
            let ts = micros(at);
            let mut all = vec![json!({"ph": "X", "cat": "event", "name": name, "pid": pid, "tid": thread, "ts": ts,
                                      "dur": length, "args": args})];
            let arrow = |ph: &str, id: u64| {
                json!({"ph": ph, "cat": "order", "name": "happens before", "id": format!("{pid}-{id}"), "bp": "e",
                       "pid": pid, "tid": thread, "ts": ts})
            };
            // One release lets several go on: each leg is a step, and viewers draw the first as the begin.
            all.extend(to.map(|id| arrow("s", id)));
            all.extend(from.map(|id| arrow("t", id)));
            all
        }
        Item::Taken { span, thread, at, name } => vec![json!({"ph": "b", "cat": "lock", "name": name,
            "id": format!("{pid}-lock-{span}"), "pid": pid, "tid": thread, "ts": micros(at)})],
        Item::Given { span, thread, at, .. } => vec![json!({"ph": "e", "cat": "lock", "name": "holds",
            "id": format!("{pid}-lock-{span}"), "pid": pid, "tid": thread, "ts": micros(at)})],
    }
}

/// Microseconds, to the nanosecond.
fn micros(nanos: u64) -> Value {
    if nanos.is_multiple_of(1000) { json!(nanos / 1000) } else { json!(nanos as f64 / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_with_both_ends_of_arrows_is_three_records_at_one_time() {
        let item = Item::Event {
            thread: 2,
            at: 1500,
            name: "lock m".into(),
            args: vec![("place", "a.c:3".into())],
            from: Some(1),
            to: Some(7),
        };
        let all = event(item, 9, &micros(500));
        let phases: Vec<&str> = all.iter().filter_map(|value| value["ph"].as_str()).collect();
        assert_eq!(phases, ["X", "s", "t"]);
        assert!(all.iter().all(|value| value["ts"] == 1.5 && value["tid"] == 2 && value["pid"] == 9));
        assert_eq!(all[0]["args"]["place"], "a.c:3");
        assert_eq!((&all[1]["id"], &all[2]["id"]), (&json!("9-7"), &json!("9-1")));
    }

    #[test]
    fn whole_microseconds_stay_whole() {
        assert_eq!(micros(3000), json!(3));
        assert_eq!(micros(1), json!(0.001));
    }
}
