//! Maps by block number. The numbers are nobody's choice, so a multiplication is hash enough.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4).
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
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }
}

/// A map from block numbers.
pub type Blocks<T> = HashMap<u64, T, BuildHasherDefault<Multiplied>>;
