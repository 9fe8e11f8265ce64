//! Who uses the same memory, from samples of single accesses: those that were seen near one another, where "near" is as near as there are
//! samples enough to tell.
//!
//! Two samples are hardly ever of the same line. So memory is cut into blocks that hold a few samples each: a block with more than
//! ten is halved, down to a cache line. A task is credited with those that were seen in its block since it last was itself, as by CDSM (section
//! 2.3) of faults, so that what was there before a change of the pattern is soon forgotten.

use std::collections::BTreeMap;
use std::time::Duration;

/// Samples that a block holds before it is halved (docs/benchmarks-online.md).
const SAMPLES: usize = 10;
/// A block of no more than a cache line is not halved; one begins as large as this.
const LEAST_SHIFT: u32 = 6;
const MOST_SHIFT: u32 = 20;
/// A line that is used all the time, a barrier's or a lock's, says the same again and again: so often it counts.
const LINE_EVERY: Duration = Duration::from_millis(50);
/// Blocks that are kept: some 10 MiB.
const MOST_BLOCKS: usize = 1 << 15;

/// The blocks that there are samples of.
#[derive(Debug)]
pub(super) struct Neighbourhoods {
    /// By memory and first address. They do not overlap.
    blocks: BTreeMap<(u64, u64), Block>,
    most: usize,
}

#[derive(Debug)]
struct Block {
    shift: u32,
    /// The last one last.
    samples: Vec<Sample>,
    touched: Duration,
    /// When it counted last; of lines.
    counted: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Where in its block.
    within: u32,
    task: u32,
    writes: bool,
    /// In nanoseconds.
    at: u64,
}

/// A task that was seen nearby.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Near {
    pub(super) task: u32,
    /// Whether it was seen writing there.
    pub(super) writes: bool,
}

impl Default for Neighbourhoods {
    fn default() -> Self {
        Self { blocks: BTreeMap::new(), most: MOST_BLOCKS }
    }
}

impl Neighbourhoods {
    /// A task was seen at an address of a memory, writing or not: the tasks that were seen near it since it last was, the last ones
    /// only, in ascending order. None where it is the same moment still, in which it was seen there already. `now` is since any moment.
    pub(super) fn touch(
        &mut self,
        now: Duration,
        memory: u64,
        (address, writes): (u64, bool),
        task: u32,
    ) -> Option<Vec<Near>> {
        let start = self.block_of(memory, address, now);
        let block = self.blocks.get_mut(&(memory, start))?;
        // Accesses of one moment that are near one another are one.
        let at = now.as_nanos() as u64;
        if let Some(last) = block.samples.last_mut().filter(|last| last.task == task && last.at == at) {
            last.writes |= writes;
            return None;
        }
        block.touched = now;
        let since = block.samples.iter().rev().take_while(|sample| sample.task != task);
        let mut others: Vec<Near> = since.map(|sample| Near { task: sample.task, writes: sample.writes }).collect();
        // Of a task that was seen several times, writing comes first.
        others.sort_unstable_by_key(|near| (near.task, !near.writes));
        others.dedup_by_key(|near| near.task);
        if block.shift == LEAST_SHIFT && !others.is_empty() {
            match block.counted {
                Some(counted) if now < counted + LINE_EVERY => others.clear(),
                _ => block.counted = Some(now),
            }
        }
        block.samples.push(Sample { within: (address - start) as u32, task, writes, at });
        if block.samples.len() > SAMPLES {
            if block.shift == LEAST_SHIFT {
                block.samples.remove(0);
            } else {
                self.halve(memory, start);
            }
        }
        Some(others)
    }

    /// Where the block that holds an address starts; there is one from now on.
    fn block_of(&mut self, memory: u64, address: u64, now: Duration) -> u64 {
        let before = self.blocks.range((memory, 0)..=(memory, address)).next_back();
        let before = before.map(|(&(_, start), block)| (start, start + (1 << block.shift)));
        if let Some((start, _)) = before.filter(|&(_, end)| address < end) {
            return start;
        }
        if self.blocks.len() >= self.most {
            self.forget_half();
        }
        // The largest that is free: what is left of a block that was halved, where there was one.
        let after = self.blocks.range((memory, address)..=(memory, u64::MAX)).next().map(|(&(_, start), _)| start);
        let is_free = |shift: &u32| {
            let start = address >> shift << shift;
            before.is_none_or(|(_, end)| end <= start) && after.is_none_or(|after| start + (1 << shift) <= after)
        };
        let shift = (LEAST_SHIFT..=MOST_SHIFT).rev().find(is_free).unwrap_or(LEAST_SHIFT);
        let start = address >> shift << shift;
        let block = Block { shift, samples: Vec::with_capacity(SAMPLES + 1), touched: now, counted: None };
        self.blocks.insert((memory, start), block);
        start
    }

    /// Halves a block until no part of it holds too many samples.
    fn halve(&mut self, memory: u64, mut start: u64) {
        while let Some(block) = self.blocks.get_mut(&(memory, start)) {
            if block.samples.len() <= SAMPLES || block.shift == LEAST_SHIFT {
                return;
            }
            block.shift -= 1;
            let (shift, touched, half) = (block.shift, block.touched, 1u32 << block.shift);
            let upper = take_upper(&mut block.samples, half);
            let is_empty = block.samples.is_empty();
            let (lower, middle) = (start, start + u64::from(half));
            if !upper.is_empty() {
                if upper.len() > SAMPLES {
                    start = middle;
                }
                self.blocks.insert((memory, middle), Block { shift, samples: upper, touched, counted: None });
            }
            if is_empty {
                self.blocks.remove(&(memory, lower));
            }
        }
    }

    /// Makes room: the half that was touched longest ago goes.
    fn forget_half(&mut self) {
        let mut touched: Vec<Duration> = self.blocks.values().map(|block| block.touched).collect();
        let middle = touched.len() / 2;
        let (_, &mut middle, _) = touched.select_nth_unstable(middle);
        self.blocks.retain(|_, block| block.touched > middle);
    }
}

/// Takes the samples of the upper half out of a block's; where they are is counted from its start then.
fn take_upper(samples: &mut Vec<Sample>, half: u32) -> Vec<Sample> {
    let (mut upper, lower): (Vec<Sample>, Vec<Sample>) = samples.iter().partition(|sample| sample.within >= half);
    *samples = lower;
    upper.iter_mut().for_each(|sample| sample.within -= half);
    upper
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn touch(near: &mut Neighbourhoods, now: Duration, memory: u64, access: (u64, bool), task: u32) -> Vec<Near> {
        near.touch(now, memory, access, task).unwrap_or_default()
    }

    /// The definition: a tree for each piece of memory, of which a node is halved for good when it is too full.
    #[derive(Default)]
    struct Obvious {
        pieces: HashMap<(u64, u64), Node>,
    }

    enum Node {
        Block { samples: Vec<(u64, u32, Duration, bool)>, counted: Option<Duration> },
        Halves(Box<[Node; 2]>),
    }

    impl Node {
        fn new(samples: Vec<(u64, u32, Duration, bool)>, shift: u32) -> Self {
            if samples.len() <= SAMPLES || shift == LEAST_SHIFT {
                return Self::Block { samples, counted: None };
            }
            let half =
                |upper| samples.iter().copied().filter(|(address, ..)| (address >> (shift - 1)) & 1 == upper).collect();
            Self::Halves(Box::new([0, 1].map(|upper| Self::new(half(upper), shift - 1))))
        }

        fn touch(&mut self, now: Duration, (address, writes): (u64, bool), task: u32, shift: u32) -> Vec<Near> {
            let (samples, counted) = match self {
                Self::Halves(halves) => {
                    return halves[(address >> (shift - 1) & 1) as usize].touch(
                        now,
                        (address, writes),
                        task,
                        shift - 1,
                    );
                }
                Self::Block { samples, counted } => (samples, counted),
            };
            if let Some(last) = samples.last_mut() {
                if (last.1, last.2) == (task, now) {
                    last.3 |= writes;
                    return Vec::new();
                }
            }
            let since = samples.iter().rposition(|sample| sample.1 == task).map_or(0, |last| last + 1);
            let mut tasks: BTreeMap<u32, bool> = BTreeMap::new();
            samples[since..].iter().for_each(|sample| *tasks.entry(sample.1).or_default() |= sample.3);
            let mut others: Vec<Near> = tasks.into_iter().map(|(task, writes)| Near { task, writes }).collect();
            if shift == LEAST_SHIFT && !others.is_empty() {
                if counted.is_some_and(|counted| now < counted + LINE_EVERY) {
                    others.clear();
                } else {
                    *counted = Some(now);
                }
            }
            samples.push((address, task, now, writes));
            if samples.len() > SAMPLES {
                if shift == LEAST_SHIFT {
                    samples.remove(0);
                } else {
                    *self = Self::new(std::mem::take(samples), shift);
                }
            }
            others
        }
    }

    impl Obvious {
        fn touch(&mut self, now: Duration, memory: u64, access: (u64, bool), task: u32) -> Vec<Near> {
            let piece = self.pieces.entry((memory, access.0 >> MOST_SHIFT));
            piece.or_insert_with(|| Node::new(Vec::new(), MOST_SHIFT)).touch(now, access, task, MOST_SHIFT)
        }
    }

    #[test]
    fn who_came_since_is_near() {
        let mut near = Neighbourhoods::default();
        let mut seen = |at: u64, address, task| {
            let near = touch(&mut near, Duration::from_secs(at), 0, (address, false), task);
            near.into_iter().map(|near| near.task).collect::<Vec<u32>>()
        };
        assert!(seen(0, 0x1000, 0).is_empty());
        assert_eq!(seen(1, 0x1100, 1), [0]);
        assert_eq!(seen(2, 0x1200, 0), [1]);
        assert!(seen(3, 0x1200, 0).is_empty());
        assert_eq!(seen(4, 0x1300, 2), [0, 1]);
        assert_eq!(seen(5, 0x1300, 0), [2]);
        // Another block, and another memory.
        assert!(seen(6, 0x1000 + (1 << MOST_SHIFT), 1).is_empty());
        assert!(touch(&mut near, Duration::ZERO, 1, (0x1000, false), 1).is_empty());
    }

    #[test]
    fn accesses_of_one_moment_that_are_near_are_one() {
        let mut near = Neighbourhoods::default();
        let mut seen =
            |at: u64, address, writes, task| touch(&mut near, Duration::from_secs(at), 0, (address, writes), task);
        assert!(seen(0, 0x1000, false, 0).is_empty());
        assert_eq!(seen(1, 0x1000, false, 1), [Near { task: 0, writes: false }]);
        // It writes as well, a line further on.
        assert!(seen(1, 0x1040, true, 1).is_empty());
        assert_eq!(seen(2, 0x1000, false, 0), [Near { task: 1, writes: true }]);
    }

    #[test]
    fn blocks_become_smaller_where_there_are_many_samples() {
        let mut near = Neighbourhoods::default();
        let mut last = Vec::new();
        // Two tasks, each with its own page: neighbours only as long as little is known.
        for round in 0..40 {
            for task in 0..2 {
                last.push(
                    touch(&mut near, Duration::from_secs(round), 0, (u64::from(task) << 12 | (round * 64), true), task)
                        .len(),
                );
            }
        }
        assert_eq!(last.iter().take(SAMPLES).sum::<usize>(), SAMPLES - 1);
        assert_eq!(last.iter().skip(SAMPLES + 1).sum::<usize>(), 0);
    }

    #[test]
    fn a_line_counts_now_and_then() {
        let mut near = Neighbourhoods::default();
        let mut events = |from: u32, to: u32| {
            (from..to)
                .map(|at| touch(&mut near, Duration::from_millis(at.into()), 0, (0x1000, true), at % 2).len())
                .sum::<usize>()
        };
        // Until it is known to be but a line.
        events(0, 20);
        let many = events(20, 1020);
        assert!((19..=21).contains(&many), "{many}");
    }

    #[test]
    fn what_was_not_touched_for_longest_is_forgotten() {
        let mut near = Neighbourhoods { most: 100, ..Neighbourhoods::default() };
        for at in 0..1000 {
            touch(&mut near, Duration::from_secs(at), 0, (at << MOST_SHIFT, true), 0);
            assert!(near.blocks.len() <= 100);
        }
        assert_eq!(
            touch(&mut near, Duration::from_secs(1000), 0, (999 << MOST_SHIFT, true), 1),
            [Near { task: 0, writes: true }]
        );
        assert!(touch(&mut near, Duration::from_secs(1000), 0, (0, true), 1).is_empty());
    }

    proptest! {
        #[test]
        fn blocks_are_as_the_definition_says(
            samples in prop::collection::vec((0..2u64, 0..4u64, 0..10u64, 0..4u64, 0..5u32, 0..30u64, any::<bool>()), 0..400),
        ) {
            let (mut near, mut obvious, mut now) = (Neighbourhoods::default(), Obvious::default(), Duration::ZERO);
            for (memory, far, place, within, task, time, writes) in samples {
                // Some lines often, some pages, some all over.
                let address = (far << 19) + place * place * 4096 + within * 32;
                now += Duration::from_millis(time);
                let access = (address, writes);
                prop_assert_eq!(touch(&mut near, now, memory, access, task), obvious.touch(now, memory, access, task));
            }
        }
    }
}
