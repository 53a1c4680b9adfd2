//! Sets of small numbers, one bit each.

/// A set of numbers below a bound that is fixed when it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// None of `count` numbers.
    pub(super) fn none(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(64)])
    }

    /// All of `count` numbers; those past it up to the next multiple of 64 too, which nobody asks for.
    pub(super) fn all(count: usize) -> Bits {
        Bits(vec![u64::MAX; count.div_ceil(64)])
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Puts a number in; says whether it was not there.
    pub(super) fn put(&mut self, number: usize) -> bool {
        let Some(word) = self.0.get_mut(number / 64) else { return false };
        let before = *word;
        *word |= 1 << (number % 64);
        before != *word
    }

    pub(super) fn take(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Adds all of another set; says whether there was something new.
    pub(super) fn add(&mut self, other: &Bits) -> bool {
        let mut grew = false;
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            grew |= *more & !*word != 0;
            *word |= more;
        }
        grew
    }

    /// Keeps what another set has too; says whether something went.
    pub(super) fn keep(&mut self, other: &Bits) -> bool {
        let mut shrank = false;
        for (word, less) in self.0.iter_mut().zip(&other.0) {
            shrank |= *word & !*less != 0;
            *word &= less;
        }
        shrank
    }

    /// The numbers below `count`, ascending.
    pub(super) fn iter(&self, count: usize) -> impl Iterator<Item = usize> + '_ {
        (0..count).filter(|&number| self.has(number))
    }
}
