//! Maps by block number, and sets. The numbers are nobody's choice, so a multiplication is hash enough.

use crate::BLOCK_SHIFT;
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

/// Bits, one of which is set for each number put in: most others are told from these without a look into a map.
#[derive(Debug)]
pub(crate) struct Filter {
    bits: Vec<u64>,
    shift: u32,
}

impl Filter {
    const BITS_EACH: usize = 16;

    pub(crate) fn new(numbers: impl ExactSizeIterator<Item = u64>) -> Self {
        let bits = numbers.len().saturating_mul(Self::BITS_EACH).next_power_of_two().max(u64::BITS as usize);
        let shift = u64::BITS - bits.trailing_zeros();
        let mut filter = Self { bits: vec![0; bits / u64::BITS as usize], shift };
        for number in numbers {
            let bit = filter.bit(number);
            filter.bits[bit / u64::BITS as usize] |= 1 << (bit % u64::BITS as usize);
        }
        filter
    }

    fn bit(&self, number: u64) -> usize {
        (multiplied(number) >> self.shift) as usize
    }

    /// False: it was not put in.
    pub(crate) fn may_have(&self, number: u64) -> bool {
        let bit = self.bit(number);
        self.bits[bit / u64::BITS as usize] >> (bit % u64::BITS as usize) & 1 == 1
    }

    /// Whether one of the blocks of an access may have been put in.
    #[inline]
    pub(crate) fn may_have_some(&self, address: u64, size_bytes: u32) -> bool {
        let last_byte = address.saturating_add(u64::from(size_bytes.max(1)) - 1);
        let (first, last) = (address >> BLOCK_SHIFT, last_byte >> BLOCK_SHIFT);
        self.may_have(first) || (first != last && (last > first + 1 || self.may_have(last)))
    }
}
