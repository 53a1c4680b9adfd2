//! A timeline as the data that the page's script draws.

use serde::Serialize;

use crate::account::Account;

/// An event: number, thread, what, value, place, function, which access of the finding from 1 or 0, events left out before it.
type Row = (u64, usize, usize, usize, usize, usize, usize, u64);

/// Short, as a page has many. Texts are numbers of `s`; threads and events are positions.
#[derive(Serialize)]
struct Data<'a> {
    /// Texts.
    s: Vec<&'a str>,
    /// Threads: number, name.
    t: Vec<(u32, &'a str)>,
    /// Events.
    e: Vec<Row>,
    /// Arrows from event to event.
    a: &'a [(usize, usize)],
    /// Lock spans: thread, first event, last event or -1, name.
    l: Vec<(usize, usize, i64, usize)>,
    /// What threads wait for at the end: thread, text.
    w: Vec<(usize, usize)>,
}

/// The JSON of an account's timeline, fit to stand in a script block. `marks` are the numbers of the finding's events.
pub(super) fn data(account: &Account, marks: &[u64]) -> Option<String> {
    let timeline = &account.timeline;
    if timeline.events.is_empty() {
        return None;
    }
    let mut texts = Texts::default();
    let row = |thread: u32| timeline.threads.iter().position(|(index, _)| *index == thread);
    let events = timeline.events.iter().filter_map(|event| {
        let mark = marks.iter().position(|number| *number == event.number).map_or(0, |at| at + 1);
        let (what, value) = (texts.number(&event.what), texts.number(&event.value));
        let (place, function) = (texts.number(&event.place), texts.number(&event.function));
        Some((event.number, row(event.thread)?, what, value, place, function, mark, event.gap))
    });
    let events = events.collect();
    let locks = timeline.locks.iter().filter_map(|span| {
        let to = span.to.map_or(-1, |to| i64::try_from(to).unwrap_or(-1));
        Some((row(span.thread)?, span.from, to, texts.number(&span.name)))
    });
    let locks = locks.collect();
    let waits = account.undone.iter().filter_map(|(thread, text, _)| Some((row(*thread)?, texts.number(text))));
    let waits = waits.collect();
    let threads = timeline.threads.iter().map(|(number, name)| (*number, name.as_str())).collect();
    let data = Data { s: texts.all, t: threads, e: events, a: &timeline.arrows, l: locks, w: waits };
    serde_json::to_string(&data).ok().map(|text| inert(&text))
}

/// JSON in which nothing can end a script block or begin a comment.
fn inert(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => text.push(c),
        }
    }
    text
}

#[derive(Default)]
struct Texts<'a> {
    all: Vec<&'a str>,
    known: std::collections::BTreeMap<&'a str, usize>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a str) -> usize {
        let next = self.all.len();
        let number = *self.known.entry(text).or_insert(next);
        if number == next {
            self.all.push(text);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_data_ends_its_block() {
        let hostile = serde_json::to_string("</script><!-- & \u{2028}").expect("serialises");
        let text = inert(&hostile);
        assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).expect("is still JSON"), "</script><!-- & \u{2028}");
    }

    #[test]
    fn texts_are_kept_once() {
        let mut texts = Texts::default();
        assert_eq!([texts.number("a"), texts.number("b"), texts.number("a")], [0, 1, 0]);
        assert_eq!(texts.all, ["a", "b"]);
    }
}
