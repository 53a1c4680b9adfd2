//! Numbers in few bits: a binary arithmetic coder with models that learn, as in LZMA (Pavlov; Martin's range coder of 1979).
//!
//! A number is its length in bits, then what is below its top bit. The length and the three bits that follow have models of
//! their own for each column of a table, so that a column of equal numbers costs a fiftieth of a bit for each decision;
//! lower bits are noise and are stored as they are.
//!
//! Bytes that nobody wrote decode to some numbers or other; [`Decoder::number`] ends with `None` where there are no bytes left, so that who
//! reads never reads much more rows than there are bits.

/// What decides between two ways, as the chance of the first one in 1/2048.
type Chance = u16;

const EVEN: Chance = 1024;
const CHANCE_BITS: u32 = 11;
/// How fast chances learn.
const LEARN: u32 = 5;
/// A range below this is widened by a byte.
const NARROW: u32 = 1 << 24;

/// Decisions for a length of 0 to 64.
const LENGTH_BITS: u32 = 7;
/// Bits below the top one that have models.
const TOP_BITS: u32 = 3;

/// The models of one column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    length: Vec<Chance>,
    top: Vec<Chance>,
}

impl Default for Column {
    fn default() -> Column {
        Column { length: vec![EVEN; 1 << LENGTH_BITS], top: vec![EVEN; 65 << TOP_BITS] }
    }
}

/// Where the bits of a number go or come from.
trait Bits {
    /// A bit with a model; when coding, `bit` is it.
    fn modelled(&mut self, chance: &mut Chance, bit: u32) -> Option<u32>;
    /// A bit without.
    fn plain(&mut self, bit: u32) -> Option<u32>;

    /// Some bits by a tree of models, the highest first.
    fn tree(&mut self, chances: &mut [Chance], bits: u32, value: u32) -> Option<u32> {
        let mut at: u32 = 1;
        for shift in (0..bits).rev() {
            let bit = self.modelled(chances.get_mut(at as usize)?, value >> shift & 1)?;
            at = at << 1 | bit;
        }
        Some(at - (1 << bits))
    }

    /// A number.
    fn coded(&mut self, column: &mut Column, value: u64) -> Option<u64> {
        let length = self.tree(&mut column.length, LENGTH_BITS, 64 - value.leading_zeros())?;
        let Some(below) = length.checked_sub(1) else { return Some(0) };
        if below >= 64 {
            return None;
        }
        let top = below.min(TOP_BITS);
        let begin = (length as usize) << TOP_BITS;
        let chances = column.top.get_mut(begin..begin + (1 << TOP_BITS))?;
        let highest = self.tree(chances, top, (value >> (below - top)) as u32 & ((1 << top) - 1))?;
        let mut number = 1 << top | u64::from(highest);
        for shift in (0..below - top).rev() {
            number = number << 1 | u64::from(self.plain((value >> shift) as u32 & 1)?);
        }
        Some(number)
    }
}

/// Codes numbers.
#[derive(Debug)]
pub(super) struct Encoder {
    low: u64,
    range: u32,
    /// The last byte that a carry may still change, and how many bytes of ones follow it.
    held: u8,
    ones: u64,
    out: Vec<u8>,
}

impl Encoder {
    /// Nothing yet.
    pub(super) fn new() -> Encoder {
        Encoder { low: 0, range: u32::MAX, held: 0, ones: 0, out: Vec::new() }
    }

    /// Adds a number.
    pub(super) fn number(&mut self, column: &mut Column, number: u64) {
        let _ = self.coded(column, number);
    }

    /// The bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        for _ in 0..5 {
            self.shift();
        }
        self.out
    }

    fn shift(&mut self) {
        if self.low < 0xff00_0000 || self.low > u64::from(u32::MAX) {
            let carry = (self.low >> 32) as u8;
            self.out.push(self.held.wrapping_add(carry));
            for _ in 0..self.ones {
                self.out.push(0xff_u8.wrapping_add(carry));
            }
            self.ones = 0;
            self.held = (self.low >> 24) as u8;
        } else {
            self.ones += 1;
        }
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    fn widen(&mut self) {
        while self.range < NARROW {
            self.range <<= 8;
            self.shift();
        }
    }
}

impl Bits for Encoder {
    fn modelled(&mut self, chance: &mut Chance, bit: u32) -> Option<u32> {
        let bound = (self.range >> CHANCE_BITS) * u32::from(*chance);
        if bit == 0 {
            self.range = bound;
        } else {
            self.low += u64::from(bound);
            self.range -= bound;
        }
        learn(chance, bit);
        self.widen();
        Some(bit)
    }

    fn plain(&mut self, bit: u32) -> Option<u32> {
        self.range >>= 1;
        if bit != 0 {
            self.low += u64::from(self.range);
        }
        self.widen();
        Some(bit)
    }
}

/// Reads what an [`Encoder`] wrote.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
    range: u32,
    code: u32,
}

impl<'a> Decoder<'a> {
    /// `None` where there are too few bytes for any number.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Decoder<'a>> {
        let (begin, bytes) = bytes.split_first_chunk::<5>()?;
        let [_, code @ ..] = *begin;
        Some(Decoder { bytes, range: u32::MAX, code: u32::from_be_bytes(code) })
    }

    /// The next number; `None` past the end.
    pub(super) fn number(&mut self, column: &mut Column) -> Option<u64> {
        self.coded(column, 0)
    }

    /// Whether all bytes were used.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn widen(&mut self) -> Option<()> {
        while self.range < NARROW {
            let (next, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            self.range <<= 8;
            self.code = self.code << 8 | u32::from(*next);
        }
        Some(())
    }
}

impl Bits for Decoder<'_> {
    fn modelled(&mut self, chance: &mut Chance, _: u32) -> Option<u32> {
        let bound = (self.range >> CHANCE_BITS) * u32::from(*chance);
        let bit = u32::from(self.code >= bound);
        if bit == 0 {
            self.range = bound;
        } else {
            self.code -= bound;
            self.range -= bound;
        }
        learn(chance, bit);
        self.widen()?;
        Some(bit)
    }

    fn plain(&mut self, _: u32) -> Option<u32> {
        self.range >>= 1;
        let bit = u32::from(self.code >= self.range);
        if bit != 0 {
            self.code -= self.range;
        }
        self.widen()?;
        Some(bit)
    }
}

fn learn(chance: &mut Chance, bit: u32) {
    if bit == 0 {
        *chance += ((1 << CHANCE_BITS) - *chance) >> LEARN;
    } else {
        *chance -= *chance >> LEARN;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(numbers: &[u64]) -> Vec<u8> {
        let (mut encoder, mut column) = (Encoder::new(), Column::default());
        for number in numbers {
            encoder.number(&mut column, *number);
        }
        encoder.finish()
    }

    fn numbers_of(bytes: &[u8], count: usize) -> Option<Vec<u64>> {
        let (mut decoder, mut column) = (Decoder::new(bytes)?, Column::default());
        let numbers = (0..count).map(|_| decoder.number(&mut column)).collect::<Option<Vec<_>>>()?;
        decoder.is_empty().then_some(numbers)
    }

    #[test]
    fn equal_numbers_cost_next_to_nothing_and_carries_reach_far() {
        assert!(bytes_of(&[7; 10_000]).len() < 300);
        for number in [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63] {
            let all = vec![number; 3000];
            assert_eq!(numbers_of(&bytes_of(&all), all.len()), Some(all));
        }
    }

    #[test]
    fn few_bytes_are_no_endless_list() {
        for byte in [0, 0x55, 0xff] {
            let (bytes, mut column) = ([byte; 64], Column::default());
            let mut decoder = Decoder::new(&bytes).expect("enough to begin");
            let read = std::iter::from_fn(|| decoder.number(&mut column)).take(1 << 20).count();
            assert!(read < 64 * 64, "{read}");
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(
            numbers in proptest::collection::vec(prop_oneof![0_u64..4, any::<u64>(), any::<u32>().prop_map(u64::from)], 0..300)
        ) {
            let bytes = bytes_of(&numbers);
            prop_assert_eq!(numbers_of(&bytes, numbers.len()), Some(numbers.clone()));
            // One byte less is noticed.
            prop_assert_eq!(numbers_of(&bytes[..bytes.len() - 1], numbers.len()), None);
        }

        #[test]
        fn any_bytes_decode_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let Some(mut decoder) = Decoder::new(&bytes) else { return Ok(()) };
            let mut column = Column::default();
            let read = std::iter::from_fn(|| decoder.number(&mut column)).take(1 << 20).count();
            prop_assert!(read < 1 << 20);
        }
    }
}
