//! Ids of findings: the same bug has the same id on every run and machine.
//!
//! What goes in must not depend on the run (addresses, thread numbers, event numbers) nor on the machine
//! (directories). The hash is FNV-1a, which needs no tables and will never change.

use selvedge_findings::{Access, Kind};

use crate::names::Source;

/// An id in the making.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Begins with the kind of the finding.
    pub fn new(kind: &str) -> Fingerprint {
        let mut fresh = Fingerprint(0xcbf2_9ce4_8422_2325);
        fresh.add(kind);
        fresh
    }

    /// Adds a part; `["ab", "c"]` and `["a", "bc"]` differ.
    pub fn add(&mut self, part: &str) {
        for byte in part.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The id: sixteen hexadecimal digits.
    pub fn id(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The id of accesses that make up a bug of this kind. Of a race it does not matter which comes first.
pub fn of_accesses(kind: Kind, accesses: &[Access]) -> String {
    let part = |access: &Access| {
        let file = access.file.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file));
        let function = access.function.as_deref().unwrap_or("");
        format!("{}|{function}@{}:{}", access.op, file.unwrap_or(""), access.line.unwrap_or(0))
    };
    let mut parts: Vec<String> = accesses.iter().map(part).collect();
    if kind == Kind::DataRace {
        parts.sort();
    }
    let mut print = Fingerprint::new(kind.words());
    parts.iter().for_each(|part| print.add(part));
    print.id()
}

/// A place as it is on every machine: function, file without directories, line.
pub(crate) fn place(source: Option<&Source>) -> String {
    let Some(source) = source else { return String::new() };
    let function = source.function.as_deref().unwrap_or("");
    match (source.file_name(), source.line) {
        (Some(file), Some(line)) => format!("{function}@{file}:{line}"),
        _ => {
            let code = source.code.as_ref().map(|(image, offset)| format!("{image}+{offset:#x}"));
            format!("{function}@{}", code.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(parts: &[&str]) -> String {
        let mut print = Fingerprint::new("deadlock");
        parts.iter().for_each(|part| print.add(part));
        print.id()
    }

    #[test]
    fn ids_keep_their_value() {
        // These are in the reports of users: they stay.
        assert_eq!(id(&[]), "52b1d1f0b8a6397d");
        assert_ne!(id(&["ab", "c"]), id(&["a", "bc"]));
        assert_ne!(id(&["a", "b"]), id(&["b", "a"]));
    }

    #[test]
    fn a_race_is_the_same_from_both_sides_and_an_order_is_not() {
        let access = |op: &str, line, dir: &str| Access {
            thread: line,
            op: op.into(),
            function: Some("f".into()),
            file: Some(format!("{dir}/x.c")),
            line: Some(line),
            variable: None,
            ..Access::default()
        };
        let here = [access("read", 1, "/a"), access("write", 2, "/a")];
        let there = [access("write", 2, "/b"), access("read", 1, "/b")];
        assert_eq!(of_accesses(Kind::DataRace, &here), of_accesses(Kind::DataRace, &there));
        assert_ne!(of_accesses(Kind::OrderViolation, &here), of_accesses(Kind::OrderViolation, &there));
        assert_ne!(of_accesses(Kind::DataRace, &here), of_accesses(Kind::OrderViolation, &here));
    }

    #[test]
    fn directories_and_columns_make_no_difference() {
        let at = |file: &str, column| Source {
            function: Some("main".into()),
            file: Some(file.into()),
            line: Some(3),
            column: Some(column),
            code: Some(("prog".into(), 9)),
        };
        assert_eq!(place(Some(&at("/home/a/x.c", 1))), "main@x.c:3");
        assert_eq!(place(Some(&at("/home/a/x.c", 1))), place(Some(&at("x.c", 2))));
        let bare = Source { code: Some(("prog".into(), 9)), ..Source::default() };
        assert_eq!(place(Some(&bare)), "@prog+0x9");
        assert_eq!(place(None), "");
    }
}
