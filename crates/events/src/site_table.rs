//! The site table: where in an image the hooks are called.
//!
//! The wrapper disassembles an image after linking and appends this table to it as a section that is
//! not loaded ([`SECTION`]). The runtime finds it through the file; a copied, installed or stripped
//! binary keeps it. Offsets count from the image's load base. Each entry carries the bytes that the
//! call must have, so nothing is patched that is not what the table says.
//!
//! ```text
//! 0   magic "SLVSITES"      8   version u32     12  entries u32
//! 16  checksum u64 of everything from 24 on
//! 24  build-id length u32   28  bodies u32      32  build-id, 32 bytes, zero-padded
//! 64  entries, 16 bytes each, by ascending offset:
//!     0 offset u32 | 4 hook u8 | 5 form u8 | 6 length u8 | 7 zero | 8 expected code, 8 bytes
//! ..  bodies, 8 bytes each:   0 where the jump goes u32 | 4 the hooked body u32
//! ..  ranges u32, entrances u32
//! ..  ranges, 16 bytes each, by ascending ordinal, none in another:
//!     0 first ordinal u32 | 4 sites u32 | 8 first entrance u32 | 12 entrances u32
//! ..  entrances: numbers of bodies, u32 each
//! ```
//!
//! A function may have two bodies, one without hooks. Its sites are reached only when a jump to the hooked body is written over
//! the room ([`ROOM`]) at the begin of the plain one. A *range* of sites is reached through its *entrances*, the bodies from
//! which there is a way to it; a site in no range is always reached.

use crate::bytes::{array_at, checksum, u32_at, u64_at};
use crate::hooks::HookIx;

/// The section's name.
pub const SECTION: &str = ".selvedge.sites";
/// First bytes.
pub const MAGIC: [u8; 8] = *b"SLVSITES";
/// Format version.
pub const VERSION: u32 = 2;
/// Bytes before the first entry.
pub const HEADER: usize = 64;
/// Bytes of an entry.
pub const ENTRY: usize = 16;
/// Bytes of a body.
pub const BODY: usize = 8;
/// Bytes of a range.
pub const RANGE: usize = 16;
/// What is at the begin of a plain body until a jump is written there.
pub const ROOM: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// Longest build-id.
pub const MAX_BUILD_ID: usize = 32;

/// How a site calls its hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Form {
    /// `E8 rel32`
    Call = 0,
    /// `67 E8 rel32`: a GOT call relaxed by the linker.
    CallPrefixed = 1,
    /// `FF 15 rel32`: through the GOT.
    CallIndirect = 2,
    /// `E9 rel32`: a tail call.
    Jump = 3,
    /// `FF 25 rel32`: a tail call through the GOT.
    JumpIndirect = 4,
}

impl Form {
    /// From its number.
    pub const fn from_u8(form: u8) -> Option<Form> {
        Some(match form {
            0 => Form::Call,
            1 => Form::CallPrefixed,
            2 => Form::CallIndirect,
            3 => Form::Jump,
            4 => Form::JumpIndirect,
            _ => return None,
        })
    }

    /// Bytes of the instruction.
    #[expect(clippy::len_without_is_empty, reason = "no instruction is empty")]
    pub const fn len(self) -> u8 {
        match self {
            Form::Call | Form::Jump => 5,
            _ => 6,
        }
    }

    /// The opcode bytes it begins with.
    pub const fn opcode(self) -> &'static [u8] {
        match self {
            Form::Call => &[0xe8],
            Form::CallPrefixed => &[0x67, 0xe8],
            Form::CallIndirect => &[0xff, 0x15],
            Form::Jump => &[0xe9],
            Form::JumpIndirect => &[0xff, 0x25],
        }
    }

    /// Whether control does not come back.
    pub const fn is_tail(self) -> bool {
        matches!(self, Form::Jump | Form::JumpIndirect)
    }
}

/// One site, as the patcher needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From the load base.
    pub offset: u32,
    /// Which hook is called.
    pub hook: HookIx,
    /// How.
    pub form: Form,
    /// The instruction, zero-padded.
    pub code: [u8; 8],
}

impl Entry {
    /// The packed form.
    pub fn pack(&self) -> [u8; ENTRY] {
        let mut out = [0; ENTRY];
        out[..4].copy_from_slice(&self.offset.to_le_bytes());
        out[4] = self.hook.0;
        out[5] = self.form as u8;
        out[6] = self.form.len();
        out[8..].copy_from_slice(&self.code);
        out
    }
}

/// A function with two bodies. Offsets are from the load base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Body {
    /// The room for a jump in the plain one.
    pub room: u32,
    /// The begin of the hooked one.
    pub hooked: u32,
}

/// Sites that are reached only through hooked bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first one's ordinal.
    pub first: u32,
    /// How many there are.
    pub sites: u32,
    entrance: u32,
    entrances: u32,
}

impl Range {
    /// Whether a site is one of them.
    pub const fn has(&self, ordinal: u32) -> bool {
        ordinal.wrapping_sub(self.first) < self.sites
    }
}

/// What is wrong with a table, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// Shorter than its header or its entries.
    Truncated {
        /// Bytes needed.
        need: u64,
        /// Bytes there.
        have: u64,
    },
    /// Not a site table.
    Magic,
    /// Another version.
    Version(u32),
    /// The checksum does not fit.
    Checksum,
    /// An entry makes no sense.
    Entry {
        /// Its byte offset in the table.
        at: u64,
    },
}

impl core::fmt::Display for TableError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            TableError::Truncated { need, have } => {
                write!(f, "truncated at offset {have}: {need} bytes needed")
            }
            TableError::Magic => write!(f, "not a site table (offset 0)"),
            TableError::Version(version) => {
                write!(
                    f,
                    "site table of version {version} (offset 8), this build reads {VERSION}: index the program again"
                )
            }
            TableError::Checksum => {
                write!(f, "checksum mismatch (offset 16): the table is damaged")
            }
            TableError::Entry { at } => write!(f, "impossible entry at offset {at}"),
        }
    }
}

impl core::error::Error for TableError {}

/// A checked view of a table's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    bytes: &'a [u8],
    count: u32,
    build_id_len: usize,
    bodies: u32,
    ranges: u32,
}

impl<'a> Table<'a> {
    /// Checks the header, the checksum and every entry; after that, access cannot fail.
    pub fn parse(bytes: &'a [u8]) -> Result<Table<'a>, TableError> {
        let have = bytes.len() as u64;
        let short = |need: u64| TableError::Truncated { need, have };
        let magic: [u8; 8] = array_at(bytes, 0).ok_or(short(HEADER as u64))?;
        if magic != MAGIC {
            return Err(TableError::Magic);
        }
        let version = u32_at(bytes, 8).ok_or(short(HEADER as u64))?;
        if version != VERSION {
            return Err(TableError::Version(version));
        }
        let count = u32_at(bytes, 12).ok_or(short(HEADER as u64))?;
        let sum = u64_at(bytes, 16).ok_or(short(HEADER as u64))?;
        let build_id_len = u32_at(bytes, 24).ok_or(short(HEADER as u64))? as usize;
        let bodies = u32_at(bytes, 28).ok_or(short(HEADER as u64))?;
        let counts = HEADER as u64 + u64::from(count) * ENTRY as u64 + u64::from(bodies) * BODY as u64;
        let ranges = u32_at(bytes, counts as usize).ok_or(short(counts + 8))?;
        let entrances = u32_at(bytes, counts as usize + 4).ok_or(short(counts + 8))?;
        let need = counts + 8 + u64::from(ranges) * RANGE as u64 + u64::from(entrances) * 4;
        let body = bytes.get(..need as usize).ok_or(short(need))?;
        if body.get(24..).map(checksum) != Some(sum) {
            return Err(TableError::Checksum);
        }
        if build_id_len > MAX_BUILD_ID {
            return Err(TableError::Entry { at: 24 });
        }
        let table = Table { bytes: body, count, build_id_len, bodies, ranges };
        let mut last = None;
        for ordinal in 0..count {
            let fits = |entry: &Entry| {
                entry.code.starts_with(entry.form.opcode())
                    && last.is_none_or(|last| last < entry.offset)
                    && entry.hook.get().is_some_and(crate::hooks::Hook::is_site)
            };
            match table.get(ordinal).filter(fits) {
                Some(entry) => last = Some(entry.offset),
                None => {
                    return Err(TableError::Entry { at: HEADER as u64 + u64::from(ordinal) * ENTRY as u64 });
                }
            }
        }
        let mut free = 0;
        for at in 0..ranges {
            let fits = |range: &Range| {
                let end = range.first.checked_add(range.sites).filter(|end| *end <= count);
                let last = range.entrance.checked_add(range.entrances).filter(|last| *last <= entrances);
                range.first >= free && end.is_some() && last.is_some()
            };
            match table.range(at).filter(fits) {
                Some(range) => free = range.first + range.sites,
                None => return Err(TableError::Entry { at: counts + 8 + u64::from(at) * RANGE as u64 }),
            }
        }
        let numbered = |at: &u32| table.entrance(*at).is_some_and(|body| body < bodies);
        match (0..entrances).find(|at| !numbered(at)) {
            None => Ok(table),
            Some(at) => Err(TableError::Entry { at: need - u64::from(entrances - at) * 4 }),
        }
    }

    /// The functions with two bodies.
    pub fn bodies(&self) -> impl ExactSizeIterator<Item = Body> + use<'a> {
        let table = *self;
        (0..self.bodies).map(move |at| table.body(at).unwrap_or(Body { room: 0, hooked: 0 }))
    }

    /// The body with this number.
    pub fn body(&self, number: u32) -> Option<Body> {
        let at = HEADER + self.count as usize * ENTRY + number as usize * BODY;
        (number < self.bodies).then_some(Body { room: u32_at(self.bytes, at)?, hooked: u32_at(self.bytes, at + 4)? })
    }

    /// The ranges of sites that are reached through hooked bodies only, by ascending ordinal.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + use<'a> {
        let table = *self;
        (0..self.ranges).filter_map(move |at| table.range(at))
    }

    /// The numbers of the bodies from which there is a way to a range.
    pub fn entrances(&self, range: &Range) -> impl Iterator<Item = u32> + use<'a> {
        let table = *self;
        (range.entrance..range.entrance.saturating_add(range.entrances)).filter_map(move |at| table.entrance(at))
    }

    fn ranges_at(&self) -> usize {
        HEADER + self.count as usize * ENTRY + self.bodies as usize * BODY + 8
    }

    /// The range with this number.
    pub fn range(&self, number: u32) -> Option<Range> {
        if number >= self.ranges {
            return None;
        }
        let at = self.ranges_at() + number as usize * RANGE;
        let word = |by| u32_at(self.bytes, at + by);
        Some(Range { first: word(0)?, sites: word(4)?, entrance: word(8)?, entrances: word(12)? })
    }

    fn entrance(&self, at: u32) -> Option<u32> {
        u32_at(self.bytes, self.ranges_at() + self.ranges as usize * RANGE + at as usize * 4)
    }

    /// Number of entries.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The build-id of the image that the table was made for.
    pub fn build_id(&self) -> &'a [u8] {
        self.bytes.get(32..32 + self.build_id_len).unwrap_or(&[])
    }

    /// The entry with this ordinal.
    pub fn get(&self, ordinal: u32) -> Option<Entry> {
        let at = HEADER + ordinal as usize * ENTRY;
        let raw: [u8; ENTRY] = array_at(self.bytes, at)?;
        Some(Entry {
            offset: u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]),
            hook: HookIx(raw[4]),
            form: Form::from_u8(raw[5]).filter(|form| form.len() == raw[6])?,
            code: array_at(&raw, 8)?,
        })
    }
}

/// Fills in the 64 header bytes of a table with so many entries and bodies.
pub fn header(build_id: &[u8], entries: u32, bodies: u32) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    let id = build_id.get(..MAX_BUILD_ID).unwrap_or(build_id);
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&entries.to_le_bytes());
    out[24..28].copy_from_slice(&(id.len() as u32).to_le_bytes());
    out[28..32].copy_from_slice(&bodies.to_le_bytes());
    for (to, from) in out[32..].iter_mut().zip(id) {
        *to = *from;
    }
    out
}

/// The checksum that belongs at offset 16 of a table: over everything from offset 24 on.
pub fn seal(table: &mut [u8]) {
    if let Some(sum) = table.get(24..).map(checksum)
        && let Some(field) = table.get_mut(16..24)
    {
        field.copy_from_slice(&sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn sample() -> Vec<u8> {
        let entries = [
            Entry { offset: 0x1000, hook: HookIx(0), form: Form::Call, code: [0xe8, 1, 2, 3, 4, 0, 0, 0] },
            Entry { offset: 0x1010, hook: HookIx(5), form: Form::CallIndirect, code: [0xff, 0x15, 9, 9, 9, 9, 0, 0] },
        ];
        let body: Vec<u8> = entries.iter().flat_map(Entry::pack).collect();
        let mut table = header(&[0xaa; 20], 2, 2).to_vec();
        table.extend(body);
        // Two bodies; one range, the second site, which both lead to.
        for word in [0x800_u32, 0x1000, 0x900, 0x1100, 1, 2, 1, 1, 0, 2, 0, 1] {
            table.extend(word.to_le_bytes());
        }
        seal(&mut table);
        table
    }

    #[test]
    fn round_trip() {
        let bytes = sample();
        let table = Table::parse(&bytes).unwrap();
        assert_eq!(table.len(), 2);
        assert_eq!(table.build_id(), [0xaa; 20]);
        assert_eq!(table.get(1).unwrap().form, Form::CallIndirect);
        assert_eq!(table.get(2), None);
        assert_eq!(
            table.bodies().map(|body| (body.room, body.hooked)).collect::<Vec<_>>(),
            [(0x800, 0x1000), (0x900, 0x1100)]
        );
        let ranges: Vec<Range> = table.ranges().collect();
        assert_eq!(ranges.iter().map(|range| (range.first, range.sites)).collect::<Vec<_>>(), [(1, 1)]);
        assert_eq!(table.entrances(&ranges[0]).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn bodies_and_ranges_must_be_there() {
        // Words after the entries: bodies at 0, counts at 4, the range at 6, entrances at 10.
        let rows =
            [(6, 3_u32, "first site"), (7, 2, "sites"), (8, 1, "first entrance"), (9, 3, "entrances"), (10, 2, "body")];
        for (word, value, what) in rows {
            let mut bad = sample();
            let at = HEADER + 2 * ENTRY + word * 4;
            bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
            seal(&mut bad);
            assert!(Table::parse(&bad).is_err(), "{what}");
        }
    }

    #[test]
    fn damage_is_an_error_never_a_panic() {
        let good = sample();
        for len in 0..good.len() {
            assert!(Table::parse(&good[..len]).is_err(), "length {len}");
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(Table::parse(&bad).is_err(), "byte {at} bit {bit}");
            }
        }
    }
}
