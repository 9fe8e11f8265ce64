//! Maps by block number. The numbers are nobody's choice, so a multiplication is hash enough.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4): the upper bits of the product are mixed best.
#[inline]
pub(crate) fn multiplied(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The same as a hasher.
#[derive(Debug, Default, Clone, Copy)]
pub struct Multiplied(u64);

impl Hasher for Multiplied {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = multiplied(self.0 ^ value);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }
}

/// A map from block numbers.
pub type Blocks<T> = HashMap<u64, T, BuildHasherDefault<Multiplied>>;
