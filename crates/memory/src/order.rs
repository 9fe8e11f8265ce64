//! Whose turn it is: the PU with the earliest time, the lowest number among equals. A tournament, so that a change
//! costs a few comparisons.

use crate::clock::{NEVER, Time};

#[derive(Debug)]
pub(crate) struct Order {
    times: Vec<Time>,
    /// `[1]` is the first of all, below `n` are `2n` and `2n + 1`; the last half are the PUs themselves.
    first: Vec<u32>,
    leaves: usize,
}

impl Order {
    pub fn new(pus: usize) -> Self {
        let leaves = pus.next_power_of_two();
        let mut first: Vec<u32> = vec![0; 2 * leaves];
        for pu in 0..leaves {
            first[leaves + pu] = pu as u32;
        }
        let mut order = Self { times: vec![NEVER; leaves], first, leaves };
        (1..leaves).rev().for_each(|node| order.play(node));
        order
    }

    fn play(&mut self, node: usize) {
        let (a, b) = (self.first[2 * node], self.first[2 * node + 1]);
        // The left one has lower numbers.
        self.first[node] = if self.times[b as usize] < self.times[a as usize] { b } else { a };
    }

    /// Sets when it is a PU's turn.
    pub fn set(&mut self, pu: usize, time: Time) {
        if self.times[pu] == time {
            return;
        }
        self.times[pu] = time;
        let mut node = (self.leaves + pu) / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
        }
    }

    pub fn time(&self, pu: usize) -> Time {
        self.times[pu]
    }

    /// The first, with its time; the time is [`NEVER`] where it is nobody's turn.
    pub fn first(&self) -> (Time, usize) {
        let pu = if self.leaves == 1 { 0 } else { self.first[1] as usize };
        (self.times[pu], pu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_first_and_the_lowest_among_equals() {
        for pus in [1, 2, 3, 8, 56] {
            let mut order = Order::new(pus);
            assert_eq!(order.first().0, NEVER);
            let mut state = 7u64;
            for step in 0..1000u64 {
                state = crate::hash::spread(state ^ step);
                order.set(state as usize % pus, if state >> 62 == 0 { NEVER } else { state >> 40 & 7 });
                let wanted = (0..pus).map(|pu| (order.time(pu), pu)).min().unwrap();
                assert_eq!(order.first().0, wanted.0);
                assert!(wanted.0 == NEVER || order.first() == wanted);
            }
        }
    }
}
