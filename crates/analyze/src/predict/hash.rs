//! A quick hash for dense numbers. Maps made with it are only looked up, never walked, so their order shows nowhere.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from small keys of numbers.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// Folds each word in with a rotation and a multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        // The table takes its bucket from the low bits, the multiplication leaves its best in the high ones.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0xf135_7aea_2e62_a9c5);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}
