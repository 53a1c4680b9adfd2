//! The serializability table: what others may do between two accesses of one thread to a variable.
//!
//! Table 1 of the paper (after AVIO, Lu et al., ASPLOS 2006) lists the four interleavings that no serial order
//! explains; what is allowed is everything else.

use serde::Serialize;

/// How an access treats its variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Reads and writes it at once.
    Update,
}

impl Mode {
    /// Whether it may write.
    pub fn writes(self) -> bool {
        self != Mode::Read
    }
}

/// What other threads may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Remote {
    /// Whether they may read.
    pub reads: bool,
    /// Whether they may write.
    pub writes: bool,
}

impl Remote {
    /// Anything.
    pub const ALL: Remote = Remote { reads: true, writes: true };
    /// Reads only.
    pub const READS: Remote = Remote { reads: true, writes: false };
    /// Writes only.
    pub const WRITES: Remote = Remote { reads: false, writes: true };
}

/// What others may do between an access and the next one by the same thread. An update ends with its write and begins
/// with its read.
pub fn allowed(entry: Mode, end: Mode) -> Remote {
    match (entry.writes(), end == Mode::Write) {
        // Two reads must see the same; a read must see what was written; a write must not undo what was not read.
        (false, false) | (true, false) | (false, true) => Remote::READS,
        // What is written over was not for others to see.
        (true, true) => Remote::WRITES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether "entry, remote, end" by two threads equals one of the two serial orders, in what each read returns and in
    /// what is left: values are numbers, each write writes its own.
    fn serializable(entry: Mode, remote: Mode, end: Mode) -> bool {
        let run = |order: [(u8, Mode); 3]| {
            let mut memory = 0;
            let mut seen = Vec::new();
            for (who, mode) in order {
                if mode != Mode::Write {
                    seen.push((who, memory));
                }
                if mode.writes() {
                    memory = who;
                }
            }
            seen.sort_unstable();
            (seen, memory)
        };
        let (one, two, other) = ((1, entry), (2, end), (3, remote));
        let real = run([one, other, two]);
        real == run([other, one, two]) || real == run([one, two, other])
    }

    #[test]
    fn the_table_is_what_serial_orders_say() {
        for entry in [Mode::Read, Mode::Write] {
            for end in [Mode::Read, Mode::Write] {
                let remote = Remote {
                    reads: serializable(entry, Mode::Read, end),
                    writes: serializable(entry, Mode::Write, end),
                };
                assert_eq!(allowed(entry, end), remote, "{entry:?} {end:?}");
            }
        }
    }

    #[test]
    fn updates_are_never_given_more_than_their_halves() {
        for mode in [Mode::Read, Mode::Write, Mode::Update] {
            assert_eq!(allowed(Mode::Update, mode), allowed(Mode::Write, mode));
            assert_eq!(allowed(mode, Mode::Update), allowed(mode, Mode::Read));
        }
    }
}
