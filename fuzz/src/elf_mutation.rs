//! Mutations that an image deserves: of one field of a header, to a value that matters.
//!
//! Mutating an ELF file byte by byte mostly changes debug text. Here a field of the file header, of a
//! program header or of a section header is set to a number of this file, near one, or far from all.

use selvedge_events::bytes::{u16_at, u64_at};

/// Sizes of the fields of a section header, in order.
const SECTION_FIELDS: [usize; 10] = [4, 4, 8, 8, 8, 8, 4, 4, 8, 8];
/// Sizes of the fields of a program header, in order.
const PROGRAM_FIELDS: [usize; 8] = [4, 4, 8, 8, 8, 8, 8, 8];
/// The file header's fields after the identification, in order.
const FILE_FIELDS: [usize; 13] = [2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2];

/// Changes one field of one header. False where the bytes are no image.
pub fn mutate_field(bytes: &mut [u8], seed: u32) -> bool {
    let mut dice = Dice(u64::from(seed) | 1 << 32);
    if !bytes.starts_with(b"\x7fELF") {
        return false;
    }
    let half = |at| usize::from(u16_at(bytes, at).unwrap_or(0));
    let long = |at| usize::try_from(u64_at(bytes, at).unwrap_or(0)).unwrap_or(usize::MAX);
    let (table, fields): (usize, &[usize]) = match dice.below(8) {
        0 => (16, &FILE_FIELDS),
        1 | 2 => (long(32).saturating_add(dice.below(half(56).max(1)) * 56), &PROGRAM_FIELDS),
        _ => (long(40).saturating_add(dice.below(half(60).max(1)) * 64), &SECTION_FIELDS),
    };
    let field = dice.below(fields.len());
    let at = table.saturating_add(fields.iter().take(field).sum());
    let len = fields.get(field).copied().unwrap_or(8);
    let value = value(bytes, at, &mut dice).to_le_bytes();
    let Some(room) = at.checked_add(len).and_then(|end| bytes.get_mut(at..end)) else { return false };
    for (to, from) in room.iter_mut().zip(value) {
        *to = from;
    }
    true
}

/// A number that may matter at this place.
fn value(bytes: &[u8], at: usize, dice: &mut Dice) -> u64 {
    let there = u64_at(bytes, at).unwrap_or(0);
    match dice.below(7) {
        0 => dice.below(16) as u64,
        1 => there.wrapping_add(dice.below(17) as u64).wrapping_sub(8),
        2 => bytes.len() as u64 + 4 - dice.below(9) as u64,
        3 => 1 << dice.below(64),
        4 => u64::MAX - dice.below(4096) as u64,
        5 => there ^ 1 << dice.below(64),
        // Some other header's number.
        _ => {
            let from = usize::try_from(u64_at(bytes, 40).unwrap_or(0)).unwrap_or(0);
            u64_at(bytes, from.saturating_add(dice.below(256) * 8)).unwrap_or(0)
        }
    }
}

/// Small random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        for shift in [13_i32, -7, 17] {
            self.0 ^= if shift > 0 { self.0 << shift } else { self.0 >> -shift };
        }
        (self.0 >> 16) as usize % bound.max(1)
    }
}
