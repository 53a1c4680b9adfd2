//! What accesses of a run under control found in memory and left there.
//!
//! The trace has what each short access found. What it left is what the next one finds at the same address, as far as that
//! is one of the recorded accesses: a write by code that has no site shows as a change that nobody made.

use std::collections::BTreeMap;

use selvedge_events::hooks::Rw;
use selvedge_trace::Process;

/// What an access found, and what it left where that is known and something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Bytes.
    pub size: u64,
    /// Found.
    pub before: u64,
    /// Left, by a write.
    pub after: Option<u64>,
}

/// The values of a run, by the number of the event.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<u64, Change>);

impl Values {
    /// Reads them off a trace; empty where it was not made under control.
    pub fn of(process: &Process) -> Values {
        let mut values = BTreeMap::new();
        // The last write to an address: its number.
        let mut writes: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        if !process.is_controlled() {
            return Values::default();
        }
        for event in process.events() {
            let (Some(access), Some(before)) = (process.access(&event), event.before) else { continue };
            let number = process.number(event.time);
            let cell = (access.addr, access.size);
            if let Some(change) = writes.remove(&cell).and_then(|write| values.get_mut(&write)) {
                let Change { after, .. } = change;
                *after = Some(before);
            }
            values.insert(number, Change { size: access.size, before, after: None });
            if access.rw != Rw::Read {
                writes.insert(cell, number);
            }
        }
        Values(values)
    }

    /// The values of an event: ` = 100`, ` 100 → 110`; empty where they are not known.
    pub fn text(&self, number: u64, writes: bool) -> String {
        match self.0.get(&number) {
            None => String::new(),
            Some(Change { size, before, after: Some(after) }) if writes => {
                format!(" {} → {}", value(*before, *size), value(*after, *size))
            }
            Some(Change { size, before, .. }) if writes => format!(" (was {})", value(*before, *size)),
            Some(Change { size, before, .. }) => format!(" = {}", value(*before, *size)),
        }
    }
}

/// A value as a person would write it: small numbers with their sign, addresses and patterns in hexadecimal.
pub(crate) fn value(value: u64, size: u64) -> String {
    let bits = u32::try_from(size * 8).unwrap_or(64).clamp(8, 64);
    let signed = (value << (64 - bits)) as i64 >> (64 - bits);
    match signed {
        -65_536..=0xffff_ffff => signed.to_string(),
        _ => format!("{value:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_people_write_them() {
        let rows = [
            (100, 8, "100"),
            (0xff, 1, "-1"),
            (0xffff_ffff, 4, "-1"),
            (0x7fff_1234_5678, 8, "0x7fff12345678"),
            (0, 4, "0"),
            (u64::MAX, 8, "-1"),
        ];
        for (bits, size, text) in rows {
            assert_eq!(value(bits, size), text);
        }
    }

    #[test]
    fn a_write_shows_what_it_found_and_what_it_left() {
        let values = Values(BTreeMap::from([
            (1, Change { size: 4, before: 3, after: None }),
            (2, Change { size: 4, before: 3, after: Some(4) }),
        ]));
        assert_eq!(values.text(1, false), " = 3");
        assert_eq!(values.text(2, true), " 3 → 4");
        assert_eq!(values.text(1, true), " (was 3)");
        assert_eq!(values.text(9, true), "");
    }
}
