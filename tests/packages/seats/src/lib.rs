//! Seats of a small cinema.

use std::sync::atomic::{AtomicU32, Ordering};

/// What is left.
#[derive(Debug)]
pub struct Seats {
    free: AtomicU32,
}

impl Seats {
    /// So many seats, all free.
    ///
    /// ```
    /// let seats = seats::Seats::new(1);
    /// assert!(seats.take());
    /// assert!(!seats.take());
    /// ```
    pub fn new(free: u32) -> Self {
        Self { free: AtomicU32::new(free) }
    }

    /// Takes a seat, if one is free.
    pub fn take(&self) -> bool {
        let free = self.free.load(Ordering::SeqCst);
        if free == 0 {
            return false;
        }
        self.free.store(free - 1, Ordering::SeqCst);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Seats;

    #[test]
    fn seats_run_out() {
        let seats = Seats::new(2);
        assert!(seats.take() && seats.take());
        assert!(!seats.take());
    }
}
