//! Hashing of line and page numbers: one multiplication (Knuth, 6.4), since they are no attacker's.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from line or page numbers.
pub(crate) type Numbers<V> = HashMap<u64, V, BuildHasherDefault<Multiply>>;

/// 2^64 over the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug, Clone, Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = spread(self.0 ^ number);
    }
}

/// A number spread over all 64 bits.
#[inline]
pub(crate) fn spread(number: u64) -> u64 {
    let product = number.wrapping_mul(FACTOR);
    product ^ product >> 32
}
