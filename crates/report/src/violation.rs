//! A violation that a guard noted, for people: in ThreadSanitizer's familiar shape.

use std::io::{self, Write};

use selvedge_findings::{Access, Finding, Kind, Status};

use crate::fingerprint::of_accesses;

/// One of the two accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// `read`, `write`, …
    pub verb: String,
    /// `FILE:LINE in FUNCTION`.
    pub place: String,
    /// The thread, where it is known.
    pub thread: Option<u32>,
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// How stalls ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// The awaited access came.
    pub resolved: u64,
    /// The time was up.
    pub timed_out: u64,
    /// Nobody was left who could come.
    pub futile: u64,
    /// All together, in microseconds.
    pub stalled_us: u64,
    /// The longest, in microseconds.
    pub longest_us: u64,
}

/// An access that was about to follow one which does not belong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violation {
    /// The access.
    pub site: Side,
    /// The one before it; `None` for nil.
    pub before: Option<Side>,
    /// What it touched, where that has a name.
    pub variable: Option<String>,
    /// What it followed in runs that passed.
    pub belongs: Vec<String>,
    /// How often.
    pub count: u64,
    /// How stalls ended.
    pub stalls: Stalls,
    /// The command that takes it in.
    pub relax: String,
}

/// Writes it.
pub fn write_violation(one: &Violation, out: &mut dyn Write) -> io::Result<()> {
    /// More places are no help.
    const NAMED: usize = 6;
    let rule = "==================";
    writeln!(out, "{rule}\nWARNING: Selvedge: an order that no passing run had ({})", times(one.count))?;
    let thread = |side: &Side| side.thread.map_or_else(String::new, |thread| format!(" by T{thread}"));
    let what = one.variable.as_ref().map_or_else(String::new, |name| format!(" of `{name}`"));
    writeln!(out, "  {}{what} at {}{}", capital(&one.site.verb), one.site.place, thread(&one.site))?;
    match &one.before {
        Some(before) => {
            writeln!(out, "  came right after {} at {}{}", before.verb, before.place, thread(before))?;
        }
        None => writeln!(out, "  came before any access of another thread")?,
    }
    let mut belongs: Vec<String> = one.belongs.iter().take(NAMED).cloned().collect();
    if one.belongs.len() > NAMED {
        belongs.push(format!("{} more", one.belongs.len() - NAMED));
    }
    if !belongs.is_empty() {
        writeln!(out, "  In runs that passed it came after {}", belongs.join("; "))?;
    }
    writeln!(out)?;
    writeln!(out, "  {}", stalls(&one.stalls))?;
    writeln!(out, "  If this order is right: {}", one.relax)?;
    let before = one.before.as_ref().map_or("nothing", |before| before.place.as_str());
    writeln!(out, "SUMMARY: Selvedge: unknown order: {} after {before}\n{rule}", one.site.place)
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn stalls(stalls: &Stalls) -> String {
    let Stalls { resolved, timed_out, futile, stalled_us, longest_us } = *stalls;
    if resolved + timed_out + futile == 0 {
        return "Nobody waited.".to_owned();
    }
    let parts = [
        (resolved, "until the right access came"),
        (timed_out, "until the time was up"),
        (futile, "until nobody was left who could come"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, how)| format!("{} {how}", times(*count))).collect();
    let ms = |us: u64| format!("{:.1} ms", us as f64 / 1000.0);
    format!("Waited {}; {} together, {} at most.", parts.join(", "), ms(stalled_us), ms(longest_us))
}

impl Violation {
    /// The finding. It happened where nobody waited or nobody came; else the guard kept it from happening.
    pub fn finding(&self) -> Finding {
        let kind = if self.before.is_some() { Kind::AtomicityViolation } else { Kind::OrderViolation };
        let access = |side: &Side| Access {
            thread: side.thread.unwrap_or(0),
            op: side.verb.clone(),
            function: side.function.clone(),
            file: side.file.clone(),
            line: side.line,
            variable: self.variable.clone(),
            ..Access::default()
        };
        let accesses: Vec<Access> = self.before.iter().chain([&self.site]).map(access).collect();
        let mut finding = Finding::new(of_accesses(kind, &accesses), kind, accesses);
        if self.stalls.resolved < self.count {
            finding.status = Status::Confirmed;
        }
        finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(verb: &str, place: &str, thread: u32) -> Side {
        Side { verb: verb.to_owned(), place: place.to_owned(), thread: Some(thread), ..Side::default() }
    }

    #[test]
    fn a_violation_says_what_came_when_and_what_to_do() {
        let mut one = Violation {
            site: side("write", "bank.c:17 in withdraw", 2),
            before: Some(side("read", "bank.c:15 in withdraw", 1)),
            variable: Some("balance".to_owned()),
            belongs: vec!["bank.c:17 in withdraw".to_owned(), "nothing".to_owned()],
            count: 3,
            stalls: Stalls { resolved: 1, timed_out: 2, futile: 0, stalled_us: 20_300, longest_us: 10_000 },
            relax: "selvedge relax x".to_owned(),
        };
        let text = |one: &Violation| {
            let mut out = Vec::new();
            write_violation(one, &mut out).expect("written");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(
            text(&one),
            "==================\n\
             WARNING: Selvedge: an order that no passing run had (3 times)\n\
             \u{20} Write of `balance` at bank.c:17 in withdraw by T2\n\
             \u{20} came right after read at bank.c:15 in withdraw by T1\n\
             \u{20} In runs that passed it came after bank.c:17 in withdraw; nothing\n\
             \n\
             \u{20} Waited once until the right access came, 2 times until the time was up; 20.3 ms together, 10.0 ms at most.\n\
             \u{20} If this order is right: selvedge relax x\n\
             SUMMARY: Selvedge: unknown order: bank.c:17 in withdraw after bank.c:15 in withdraw\n\
             ==================\n"
        );
        assert_eq!((one.finding().kind, one.finding().status), (Kind::AtomicityViolation, Status::Confirmed));
        assert_eq!(one.finding().accesses.iter().map(|access| access.thread).collect::<Vec<_>>(), [1, 2]);
        one.before = None;
        one.stalls = Stalls { resolved: 3, ..Stalls::default() };
        assert!(text(&one).contains("before any access of another thread"), "{}", text(&one));
        assert_eq!((one.finding().kind, one.finding().status), (Kind::OrderViolation, Status::Predicted));
    }
}
