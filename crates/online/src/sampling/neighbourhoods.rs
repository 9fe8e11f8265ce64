//! Which samples of accesses lie near one another in memory.
//!
//! Two samples are hardly ever of the same line. So each is compared with those that are nearest to it, however far
//! that is: the more there are, the nearer they come, until they are of the same line. How many of the nearest tell who
//! shares memory, and how many are of others' memory that happens to lie beside it, is found out elsewhere (`scales`).

use super::sorted::{Place, Sorted};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// Neighbours that are looked at.
pub(super) const MOST_NEIGHBOURS: usize = 16;
/// Samples that are gone through where those of the task itself are passed over.
const MOST_PASSED: usize = MOST_NEIGHBOURS * MOST_NEIGHBOURS;
/// Those farther away say nothing.
const FARTHEST: u64 = 1 << 20;
/// Bytes of a cache line. No more samples than neighbours are kept so near one another.
pub(super) const LINE_BYTES: u64 = 64;
/// A line that is used all the time, a barrier's or a lock's, says the same again and again: so often it counts.
const LINE_EVERY: Duration = Duration::from_millis(50);
/// Samples that are kept: some 10 MiB.
const MOST_SAMPLES: usize = 1 << 17;
/// Those of tasks that have ended are taken out so often; until then they are left out.
const CLEAR_EVERY: Duration = Duration::from_secs(1);

/// The samples of each memory.
#[derive(Debug)]
pub(super) struct Neighbourhoods {
    memories: BTreeMap<u64, Sorted<Sample>>,
    samples: usize,
    most: usize,
    /// Neighbours that are looked at, at most.
    neighbours: usize,
    /// Tasks that have ended of which there may be samples still.
    ended: HashSet<u32>,
    cleared: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Nanoseconds since any moment.
    at: u64,
    /// Before that the line does not count, as far as this sample was asked.
    counts_from: u64,
    task: u32,
    writes: bool,
}

/// Whose samples are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    /// The task's own too.
    All,
    /// Those of others.
    Others,
}

/// A sample near another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) task: u32,
    pub(super) writes: bool,
    /// Bytes from one to the other.
    pub(super) distance: u64,
}

impl Default for Neighbourhoods {
    fn default() -> Self {
        Self::of(MOST_NEIGHBOURS)
    }
}

impl Neighbourhoods {
    /// Those of which so many neighbours are looked at.
    pub(super) fn of(neighbours: usize) -> Self {
        let (memories, ended) = (BTreeMap::new(), HashSet::new());
        Self { memories, samples: 0, most: MOST_SAMPLES, neighbours, ended, cleared: Duration::ZERO }
    }

    /// A task was seen at an address of a memory, writing or not: the samples nearest to it, the nearest first, of the
    /// task itself too. Where it is a line that has counted just now, none. None at all where it is the same moment
    /// still, and the task was seen there already. `now` is since any moment, and does not go back.
    pub(super) fn touch(
        &mut self,
        now: Duration,
        memory: u64,
        access: (u64, bool),
        task: u32,
    ) -> Option<Vec<Neighbour>> {
        self.touch_near(now, memory, access, (task, Whom::All))
    }

    /// The same, and the samples nearest to it of others, as far as the task's own do not lie before them in great
    /// number.
    pub(super) fn touch_others(
        &mut self,
        now: Duration,
        memory: u64,
        access: (u64, bool),
        task: u32,
    ) -> Option<Vec<Neighbour>> {
        self.touch_near(now, memory, access, (task, Whom::Others))
    }

    fn touch_near(
        &mut self,
        now: Duration,
        memory: u64,
        (address, writes): (u64, bool),
        (task, whom): (u32, Whom),
    ) -> Option<Vec<Neighbour>> {
        self.clear_ended(now);
        if self.samples >= self.most {
            self.forget_half();
        }
        let at = nanoseconds(now);
        let samples = self.memories.entry(memory).or_default();
        let mut near = Vec::with_capacity(self.neighbours);
        let (mut in_line, mut oldest, mut counts_from): (usize, Option<(u64, Place)>, u64) = (0, None, 0);
        let mut same = None;
        for (passed, (place, there, sample)) in samples.nearest(address).enumerate() {
            let distance = there.abs_diff(address);
            let is_enough = near.len() == self.neighbours || whom == Whom::Others && passed == MOST_PASSED;
            if distance > FARTHEST || is_enough {
                break;
            }
            if sample.task == task && sample.at == at {
                // Accesses of one moment that are near one another are one.
                if near.is_empty() || distance < LINE_BYTES {
                    same = Some(place);
                    break;
                }
                continue;
            }
            if !self.ended.is_empty() && self.ended.contains(&sample.task) {
                continue;
            }
            if distance < LINE_BYTES {
                in_line += 1;
                counts_from = counts_from.max(sample.counts_from);
                oldest = oldest.into_iter().chain([(sample.at, place)]).min();
            }
            if whom == Whom::All || sample.task != task {
                near.push(Neighbour { task: sample.task, writes: sample.writes, distance });
            }
        }
        if let Some(same) = same {
            samples[same].writes |= writes;
            return None;
        }
        if in_line > 0 && near.iter().any(|near| near.task != task) {
            if at < counts_from {
                near.clear();
            } else {
                counts_from = at + nanoseconds(LINE_EVERY);
            }
        }
        if let Some((_, oldest)) = oldest.filter(|_| in_line >= self.neighbours) {
            samples.remove(oldest);
            self.samples -= 1;
        }
        samples.insert(address, Sample { at, counts_from, task, writes });
        self.samples += 1;
        Some(near)
    }

    /// Tasks that have ended share nothing any more.
    pub(super) fn end(&mut self, task: u32) {
        self.ended.insert(task);
    }

    /// Forgets all samples.
    pub(super) fn forget(&mut self) {
        self.memories.clear();
        self.ended.clear();
        self.samples = 0;
    }

    fn clear_ended(&mut self, now: Duration) {
        if !self.ended.is_empty() && now >= self.cleared + CLEAR_EVERY {
            let ended = std::mem::take(&mut self.ended);
            self.retain(|sample| !ended.contains(&sample.task));
            self.cleared = now;
        }
    }

    /// Makes room: the older half goes.
    fn forget_half(&mut self) {
        let mut times: Vec<u64> = self.memories.values().flat_map(Sorted::values).map(|sample| sample.at).collect();
        let middle = times.len() / 2;
        let (_, &mut middle, _) = times.select_nth_unstable(middle);
        self.retain(|sample| sample.at > middle);
    }

    fn retain(&mut self, keeps: impl Fn(&Sample) -> bool) {
        self.memories.values_mut().for_each(|samples| samples.retain(&keeps));
        self.memories.retain(|_, samples| samples.len() > 0);
        self.samples = self.memories.values().map(Sorted::len).sum();
    }
}

/// For five hundred years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn touch(near: &mut Neighbourhoods, at: u64, address: u64, task: u32) -> Option<Vec<(u32, u64)>> {
        let near = near.touch(Duration::from_secs(at), 0, (address, true), task)?;
        Some(near.into_iter().map(|near| (near.task, near.distance)).collect())
    }

    #[test]
    fn the_nearest_come_first() {
        let mut near = Neighbourhoods::default();
        assert_eq!(touch(&mut near, 0, 0x1000, 0), Some(vec![]));
        assert_eq!(touch(&mut near, 1, 0x1100, 1), Some(vec![(0, 0x100)]));
        assert_eq!(touch(&mut near, 2, 0x1080, 2), Some(vec![(0, 0x80), (1, 0x80)]));
        assert_eq!(touch(&mut near, 3, 0x2000, 0), Some(vec![(1, 0xf00), (2, 0xf80), (0, 0x1000)]));
        // Too far away, and another memory.
        assert_eq!(touch(&mut near, 4, 0x2001 + FARTHEST, 1), Some(vec![]));
        assert_eq!(near.touch(Duration::from_secs(5), 1, (0x1000, true), 1), Some(vec![]));
        for at in 6..26 {
            assert!(touch(&mut near, at, 0x1_0000 + at * 64, 0).unwrap().len() <= MOST_NEIGHBOURS);
        }
    }

    #[test]
    fn accesses_of_one_moment_that_are_near_are_one() {
        let mut near = Neighbourhoods::default();
        assert_eq!(touch(&mut near, 0, 0x1000, 0), Some(vec![]));
        assert_eq!(touch(&mut near, 1, 0x1200, 1), Some(vec![(0, 0x200)]));
        // Nearer to what it did in the same moment than to anybody; in the same line; and on its own.
        assert_eq!(touch(&mut near, 1, 0x1280, 1), None);
        assert_eq!(touch(&mut near, 1, 0x1000, 1), Some(vec![(0, 0)]));
        assert_eq!(touch(&mut near, 1, 0x1020, 1), None);
        assert_eq!(near.samples, 3);
        // What it does second may be writing.
        let second = Duration::from_secs(2);
        near.touch(second, 2, (0x1000, false), 0);
        near.touch(second, 2, (0x1008, true), 0);
        assert!(near.touch(second, 2, (0x1000, false), 1).unwrap()[0].writes);
    }

    #[test]
    fn others_are_found_behind_the_tasks_own() {
        let mut near = Neighbourhoods::default();
        touch(&mut near, 0, 0x1000, 0);
        // In a line, of which as many are kept as are looked at, and beyond.
        (0..200).for_each(|at| drop(touch(&mut near, 1 + at, 0x2000 + at % 8 * 64, 1)));
        assert!(touch(&mut near, 300, 0x2000, 1).unwrap().iter().all(|near| near.0 == 1));
        let kept = near.samples;
        let found = near.touch_others(Duration::from_secs(301), 0, (0x2000, false), 1).unwrap();
        assert_eq!((found.len(), found[0].task, found[0].distance), (1, 0, 0x1000));
        assert_eq!((near.samples, kept), (8 * MOST_NEIGHBOURS + 1, 8 * MOST_NEIGHBOURS + 1));
        // Behind so many they are not looked for.
        (0..600).for_each(|at| drop(touch(&mut near, 400 + at, 0x2000 + at * 64, 1)));
        assert_eq!(near.touch_others(Duration::from_secs(1001), 0, (0x4000, false), 1), Some(vec![]));
    }

    #[test]
    fn a_line_counts_now_and_then() {
        let mut near = Neighbourhoods::default();
        let mut seen = |from: u64, to: u64| {
            let at = |at: u64| near.touch(Duration::from_millis(at), 0, (0x1000, true), (at % 2) as u32);
            (from..to).filter_map(at).filter(|near| !near.is_empty()).count()
        };
        // The second sample is the first that sees somebody else.
        assert_eq!(seen(0, 20), 1);
        let many = seen(20, 1020);
        assert!((19..=21).contains(&many), "{many}");
        assert!(near.samples <= MOST_NEIGHBOURS + 1);
    }

    #[test]
    fn what_is_oldest_is_forgotten() {
        let mut near = Neighbourhoods { most: 100, ..Neighbourhoods::default() };
        for at in 0..1000 {
            touch(&mut near, at, at << 21, 0);
            assert!(near.samples <= 100);
        }
        assert_eq!(touch(&mut near, 1000, 999 << 21, 1), Some(vec![(0, 0)]));
        assert_eq!(touch(&mut near, 1000, 0, 1), Some(vec![]));
        near.forget();
        assert_eq!(touch(&mut near, 1001, 999 << 21, 1), Some(vec![]));
    }

    #[test]
    fn tasks_that_have_ended_are_nobodys_neighbours() {
        let mut near = Neighbourhoods::default();
        touch(&mut near, 10, 0x1000, 0);
        touch(&mut near, 10, 0x1000, 1);
        near.end(0);
        assert_eq!(touch(&mut near, 10, 0x1100, 2), Some(vec![(1, 0x100)]));
        assert_eq!(touch(&mut near, 12, 0x1200, 2), Some(vec![(2, 0x100), (1, 0x200)]));
        assert_eq!((near.samples, near.ended.len()), (3, 0));
    }

    /// The definition: all samples, sorted by distance.
    #[derive(Default)]
    struct Obvious(Vec<(u64, u64, Plain)>);

    struct Plain {
        task: u32,
        writes: bool,
        at: Duration,
        /// When the line counted last, as far as this sample was asked.
        counted: Option<Duration>,
    }

    impl Obvious {
        fn touch(
            &mut self,
            now: Duration,
            memory: u64,
            (address, writes): (u64, bool),
            task: u32,
        ) -> Option<Vec<Neighbour>> {
            let distance = |at: usize, of: &Self| of.0[at].1.abs_diff(address);
            let is_own = |at: usize, of: &Self| of.0[at].2.task == task && of.0[at].2.at == now;
            let mut near: Vec<usize> = (0..self.0.len()).filter(|&at| self.0[at].0 == memory).collect();
            near.retain(|&at| distance(at, self) <= FARTHEST);
            let side =
                |at: usize, of: &Self| (of.0[at].1 >= address, if of.0[at].1 < address { usize::MAX - at } else { at });
            near.sort_by_key(|&at| (distance(at, self), side(at, self)));
            let others = near.iter().position(|&at| !is_own(at, self)).unwrap_or(near.len());
            let limit = near.iter().filter(|&&at| !is_own(at, self)).nth(MOST_NEIGHBOURS - 1);
            let limit = limit.map_or(near.len(), |last| near.iter().position(|at| at == last).unwrap_or(0));
            let merged = near[..limit]
                .iter()
                .enumerate()
                .find(|&(rank, &at)| is_own(at, self) && (rank < others || distance(at, self) < LINE_BYTES));
            if let Some((_, &at)) = merged {
                self.0[at].2.writes |= writes;
                return None;
            }
            near.retain(|&at| !is_own(at, self));
            near.truncate(MOST_NEIGHBOURS);
            let in_line: Vec<usize> = near.iter().copied().filter(|&at| distance(at, self) < LINE_BYTES).collect();
            let mut counted = in_line.iter().filter_map(|&at| self.0[at].2.counted).max();
            let mut found: Vec<Neighbour> = near
                .iter()
                .map(|&at| {
                    let Plain { task, writes, .. } = self.0[at].2;
                    Neighbour { task, writes, distance: distance(at, self) }
                })
                .collect();
            if !in_line.is_empty() && found.iter().any(|near| near.task != task) {
                if counted.is_some_and(|counted| now < counted + LINE_EVERY) {
                    found.clear();
                } else {
                    counted = Some(now);
                }
            }
            if in_line.len() == MOST_NEIGHBOURS {
                let age = |at: usize| (self.0[at].2.at, self.0[at].1, at);
                self.0.remove(in_line.into_iter().min_by_key(|&at| age(at)).unwrap());
            }
            self.0.push((memory, address, Plain { task, writes, at: now, counted }));
            Some(found)
        }
    }

    proptest! {
        #[test]
        fn neighbours_are_as_the_definition_says(
            samples in prop::collection::vec((0..2u64, 0..4u64, 0..10u64, 0..4u64, 0..5u32, 0..30u64, any::<bool>()), 0..400),
        ) {
            let (mut near, mut obvious, mut now) = (Neighbourhoods::default(), Obvious::default(), Duration::ZERO);
            for (memory, far, place, within, task, time, writes) in samples {
                // Some lines often, some pages, some all over; and some at the same moment.
                let address = (far << 19) + place * place * 4096 + within * 32;
                now += Duration::from_millis(time / 3);
                let access = (address, writes);
                prop_assert_eq!(near.touch(now, memory, access, task), obvious.touch(now, memory, access, task));
            }
        }
    }
}
