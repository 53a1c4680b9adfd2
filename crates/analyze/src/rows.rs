//! Clocks in rows of one table. A row that nothing uses any more is used again.

/// Makes `clock` the greater of both; whether that changed it. An empty one is zero.
pub(crate) fn join(clock: &mut [u32], other: &[u32]) -> bool {
    let mut changed = false;
    for (one, two) in clock.iter_mut().zip(other) {
        changed |= *one < *two;
        *one = (*one).max(*two);
    }
    changed
}

/// Clocks of one width, counted by use.
#[derive(Debug)]
pub(crate) struct Rows {
    width: usize,
    clocks: Vec<u32>,
    uses: Vec<u32>,
    free: Vec<u32>,
}

impl Rows {
    /// A clock of zeros, always there.
    pub(crate) const ZERO: u32 = 0;
    /// No row.
    pub(crate) const NONE: u32 = u32::MAX;

    /// None but the zero.
    pub(crate) fn new(width: usize) -> Rows {
        Rows { width, clocks: vec![0; width], uses: vec![0], free: Vec::new() }
    }

    /// How many numbers all of them have, with those that are not in use.
    pub(crate) fn numbers(&self) -> usize {
        self.clocks.len()
    }

    /// A clock.
    pub(crate) fn get(&self, row: u32) -> &[u32] {
        let start = row as usize * self.width;
        &self.clocks[start..start + self.width]
    }

    /// To change it.
    pub(crate) fn get_mut(&mut self, row: u32) -> &mut [u32] {
        let start = row as usize * self.width;
        &mut self.clocks[start..start + self.width]
    }

    /// Makes a row the greater of itself and another.
    pub(crate) fn join_rows(&mut self, row: u32, other: u32) {
        let (row, other) = (row as usize * self.width, other as usize * self.width);
        for at in 0..self.width {
            self.clocks[row + at] = self.clocks[row + at].max(self.clocks[other + at]);
        }
    }

    /// A row in use once.
    pub(crate) fn add(&mut self, clock: &[u32]) -> u32 {
        if let Some(row) = self.free.pop() {
            let start = row as usize * self.width;
            self.clocks[start..start + self.width].copy_from_slice(clock);
            self.uses[row as usize] = 1;
            return row;
        }
        self.clocks.extend_from_slice(clock);
        self.uses.push(1);
        self.uses.len() as u32 - 1
    }

    /// It is used once more.
    pub(crate) fn retain(&mut self, row: u32) {
        if row != Rows::ZERO {
            self.uses[row as usize] += 1;
        }
    }

    /// Whether that was its last use.
    pub(crate) fn release(&mut self, row: u32) -> bool {
        if row == Rows::ZERO {
            return false;
        }
        self.uses[row as usize] -= 1;
        if self.uses[row as usize] == 0 {
            self.free.push(row);
        }
        self.uses[row as usize] == 0
    }
}
