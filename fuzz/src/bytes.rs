//! Numbers out of a byte string, zeros where it ends.

/// What is left of the bytes.
#[derive(Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes, as many as there are.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn u16(&mut self) -> u16 {
        self.number(2) as u16
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.number(4) as u32
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.number(8)
    }

    /// Words of eight bytes, at most `most`.
    pub(crate) fn words(&mut self, most: usize) -> Vec<u64> {
        let most = most.min(self.0.len().div_ceil(8));
        (0..most).map(|_| self.u64()).collect()
    }

    fn number(&mut self, len: usize) -> u64 {
        self.take(len).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
