//! Names, each kept once, numbered as they come.

/// Names by number.
///
/// Costs a name's bytes, and some 20 more.
#[derive(Clone, Debug)]
pub struct Names {
    /// All names, one after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// Their hashes.
    hashes: Vec<u32>,
    /// Open addressing: number plus one; a power of two, at most half full.
    table: Vec<u32>,
}

impl Default for Names {
    fn default() -> Names {
        Names { bytes: Vec::new(), ends: Vec::new(), hashes: Vec::new(), table: vec![0; 64] }
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
        let hash = hash(name);
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.table[at].checked_sub(1) {
                None => return self.add(name, hash, at),
                Some(number) if self.hashes[number as usize] == hash && self.get(number) == Some(name) => {
                    return number;
                }
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    #[cold]
    fn add(&mut self, name: &[u8], hash: u32, at: usize) -> u32 {
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
        self.table[at] = number + 1;
        if self.ends.len() * 2 > self.table.len() {
            let mask = self.table.len() * 2 - 1;
            let mut table = vec![0; mask + 1];
            for (number, hash) in (1..).zip(&self.hashes) {
                let mut at = *hash as usize & mask;
                while table[at] != 0 {
                    at = (at + 1) & mask;
                }
                table[at] = number;
            }
            self.table = table;
        }
        number
    }
}

#[inline]
fn hash(name: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let wide = u128::from(hash ^ word) * u128::from(FACTOR);
        wide as u64 ^ (wide >> 64) as u64
    };
    let mut hash = name.len() as u64 ^ FACTOR;
    let (words, rest) = name.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    let rest = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    hash = mix(hash, rest);
    (hash ^ hash >> 32) as u32
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
}
