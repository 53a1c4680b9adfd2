//! Names, each kept once, numbered as they come.

use std::hint::black_box;

/// Names by number.
///
/// Costs a name's bytes and 40 to 70 more.
#[derive(Clone, Debug)]
pub struct Names {
    /// All names, one after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// Open addressing: a power of two, at most three quarters full.
    table: Vec<Entry>,
}

/// A name in the table, all of it where it is short: most look-ups touch nothing else.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: Key,
    /// Its number plus one; 0 for an empty place.
    number: u32,
}

/// What tells names apart: those of up to 16 bytes for certain, longer ones by hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Key {
    words: [u64; 2],
    len: u32,
}

impl Default for Names {
    fn default() -> Names {
        Names { bytes: Vec::new(), ends: Vec::new(), table: vec![Entry::default(); 64] }
    }
}

impl Names {
    /// The name of a number.
    pub fn get(&self, number: u32) -> Option<&[u8]> {
        let number = number as usize;
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.bytes.get(start..end)
    }

    /// The name of a number as text, with what is not text replaced; empty for a foreign number.
    pub fn text(&self, number: u32) -> String {
        String::from_utf8_lossy(self.get(number).unwrap_or_default()).into_owned()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of a name, a new one where it is not known.
    #[inline]
    pub(crate) fn number(&mut self, name: &[u8]) -> u32 {
        let key = Key::of(name);
        let mask = self.table.len() - 1;
        let mut at = key.hash() & mask;
        loop {
            let entry = self.table[at];
            let Some(number) = entry.number.checked_sub(1) else { return self.add(name, key, at) };
            if entry.key == key && (name.len() <= SHORT || self.get(number) == Some(name)) {
                return number;
            }
            at = (at + 1) & mask;
        }
    }

    /// Has what is known of a name brought near. Looking for several at once costs as much as looking for one.
    #[inline]
    pub(crate) fn warm(&self, name: &[u8]) {
        black_box(self.table[Key::of(name).hash() & (self.table.len() - 1)].number);
    }

    #[cold]
    fn add(&mut self, name: &[u8], key: Key, at: usize) -> u32 {
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
        self.table[at] = Entry { key, number: number + 1 };
        if self.ends.len() * 4 > self.table.len() * 3 {
            let mask = self.table.len() * 2 - 1;
            let mut table = vec![Entry::default(); mask + 1];
            for entry in self.table.iter().filter(|entry| entry.number != 0) {
                let mut at = entry.key.hash() & mask;
                while table[at].number != 0 {
                    at = (at + 1) & mask;
                }
                table[at] = *entry;
            }
            self.table = table;
        }
        number
    }
}

/// Bytes of a name that is all in its key.
const SHORT: usize = 16;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Key {
    #[inline]
    fn of(name: &[u8]) -> Key {
        // Two reads that may overlap have all bytes of a name, given its length.
        let words = match name.len() {
            0 => [0, 0],
            len @ 1..4 => [u64::from(name[0]) | u64::from(name[len / 2]) << 8 | u64::from(name[len - 1]) << 16, 0],
            4..8 => [first::<4>(name), last::<4>(name)].map(|half| u64::from(u32::from_le_bytes(half))),
            8..=SHORT => [first::<8>(name), last::<8>(name)].map(u64::from_le_bytes),
            _ => {
                let mut hash = FACTOR;
                let (words, _) = name.as_chunks::<8>();
                for word in words {
                    hash = mix(hash, u64::from_le_bytes(*word));
                }
                [hash, mix(hash, u64::from_le_bytes(last::<8>(name)))]
            }
        };
        Key { words, len: name.len() as u32 }
    }

    #[inline]
    fn hash(self) -> usize {
        let [one, two] = self.words;
        mix(mix(FACTOR ^ u64::from(self.len), one), two) as usize
    }
}

fn first<const N: usize>(name: &[u8]) -> [u8; N] {
    name.first_chunk().copied().unwrap_or([0; N])
}

fn last<const N: usize>(name: &[u8]) -> [u8; N] {
    name.last_chunk().copied().unwrap_or([0; N])
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let wide = u128::from(hash ^ word) * u128::from(FACTOR);
    wide as u64 ^ (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_and_found_again() {
        let mut names = Names::default();
        let all: Vec<String> = (0..10_000).map(|number| format!("V{}.{}", number * 7919, number % 10)).collect();
        for round in 0..2 {
            for (number, name) in all.iter().enumerate() {
                assert_eq!(names.number(name.as_bytes()), number as u32, "{round}");
            }
        }
        assert_eq!(names.number(b""), 10_000);
        assert_eq!(names.len(), 10_001);
        assert_eq!(names.text(1), all[1]);
        assert_eq!(names.get(10_000), Some(&b""[..]));
        assert_eq!(names.get(10_001), None);
    }

    #[test]
    fn names_of_every_length_are_told_apart() {
        let mut names = Names::default();
        let mut all: Vec<Vec<u8>> = Vec::new();
        for len in 0..40 {
            all.push(vec![b'a'; len]);
            for at in 0..len {
                let mut name = vec![b'a'; len];
                name[at] = b'b';
                all.push(name);
            }
        }
        for _ in 0..2 {
            for (number, name) in all.iter().enumerate() {
                assert_eq!(names.number(name), number as u32);
                assert_eq!(names.get(number as u32), Some(name.as_slice()));
            }
        }
    }
}
