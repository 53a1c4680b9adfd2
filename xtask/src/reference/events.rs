//! `events.md`.

use selvedge_events::event::{EventKind, Instant, KINDS};

use super::{code, head, table};
use crate::Outcome;
use crate::doc_comments;

/// The page; meanings are the doc comments of `EventKind` in `source`.
pub(super) fn page(source: &str) -> Outcome<String> {
    let meanings = doc_comments::variants(source, "EventKind");
    let mut rows = Vec::new();
    for kind in KINDS {
        let name = format!("{kind:?}");
        let meaning = meanings.iter().find(|(variant, _)| *variant == name).map(|(_, meaning)| meaning);
        let meaning = meaning.filter(|meaning| !meaning.is_empty()).ok_or(format!("EventKind::{name} has no doc"))?;
        rows.push(vec![
            (kind as u8).to_string(),
            code(kind.name()),
            if kind.has_number() { "1 or 2".to_owned() } else { kind.words().to_string() },
            instant(kind).to_owned(),
            if kind.at_site() { "site" } else { "code address" }.to_owned(),
            meaning.clone(),
        ]);
    }
    let rows = table(&["kind", "name", "words", "instant", "payload", "meaning"], rows);
    let instants = doc_comments::note(source, "Instants").ok_or("event.rs has no NOTE [Instants]")?;
    Ok(format!(
        "{}
What a trace can hold. `words` is how many words follow the first one of a record; `instant` is where the event is
recorded relative to what it stands for. Most accesses have a shorter form than the `access` and `range` records.

{rows}
## Instants

{instants}
",
        head("Events", "`crates/events/src/event.rs`")
    ))
}

fn instant(kind: EventKind) -> &'static str {
    match kind.instant() {
        Instant::Before => "before",
        Instant::At => "at",
        Instant::After => "after",
    }
}
