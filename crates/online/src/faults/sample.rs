//! Which pages of a process fault again, and when: a walk through all, and places, each of which is looked at over and
//! over for a while.
//!
//! A fault says who uses a page next. Only several of them on the same memory, at different moments, say who shares it.
//! A walk over all memory (CDSM, section 4: from where the last one ended) comes back to a page after seconds or
//! minutes, the later the more memory there is; with the same number of faults, places drawn at random and looked at
//! again soon show more.

use super::mappings::{byte_of, bytes};
use std::collections::BTreeMap;
use std::time::Duration;

/// Pages of a place: neighbours, which mostly show the same. The fewer, the more places there are for the same number
/// of faults.
const LEAST_PAGES: u64 = 2;
const MOST_PAGES: u64 = 16;
/// Places that are looked at in a second, at most: each is a TLB shootdown on all PUs where the process runs.
const MOST_LOOKS: f64 = 500.0;
/// So often a place is looked at.
const LOOKS: u32 = 4;
/// After this time, give or take a half, it is looked at again: others have had their turn by then.
const AGAIN: Duration = Duration::from_millis(50);
/// Memory that is searched for pages to protect at once.
const SEARCHED: u64 = 64 << 20;
/// After so many searches in one go that found nothing, none is made for a while.
const FRUITLESS: u32 = 4;
const REST: Duration = Duration::from_millis(500);
const PAGE_BYTES: u64 = 4096;

/// Write-protects up to so many pages of a range that are in memory and not protected.
pub trait Protect {
    /// How many, where the first of them starts, and how far it came. None where the kernel refuses.
    fn protect(&mut self, start: u64, end: u64, pages: u64) -> Option<(u64, u64, u64)>;
}

/// The places of a process that are looked at now.
#[derive(Debug, Default)]
pub struct Places {
    /// By when they are due; the number tells apart those that are due at once.
    due: BTreeMap<(Duration, u64), Place>,
    drawn: u64,
    /// Where the last walk ended.
    cursor: u64,
    /// When the next may begin.
    walks_at: Duration,
    random: fastrand::Rng,
    rests_until: Duration,
}

#[derive(Debug)]
struct Place {
    start: u64,
    end: u64,
    looks: u32,
}

impl Places {
    /// Protects up to `pages` pages from where the last walk ended, at most once around; how many. What is written to
    /// all the time, be it ever so little, is found so: the rest is protected still. Where that is less than might be
    /// protected, there is no walk for a while.
    pub fn walk(&mut self, now: Duration, ranges: &[(u64, u64)], pages: u64, kernel: &mut impl Protect) -> u64 {
        if now < self.walks_at {
            return 0;
        }
        let first = ranges.partition_point(|&(_, end)| end <= self.cursor);
        let (before, after) = ranges.split_at(first);
        let (mut protected, mut walked) = (0, 0);
        for &(start, end) in after.iter().chain(before) {
            let from = if (start..end).contains(&self.cursor) { self.cursor } else { start };
            let end = end.min(from + (SEARCHED - walked));
            let Some((count, _, walked_to)) = kernel.protect(from, end, pages - protected) else { continue };
            protected += count;
            walked += walked_to.saturating_sub(from).min(SEARCHED - walked);
            self.cursor = walked_to;
            if protected >= pages || walked >= SEARCHED {
                break;
            }
        }
        if protected < pages {
            self.walks_at = now + REST;
        }
        protected
    }

    /// Protects up to `pages` pages of `ranges` (ascending); how many. `rate` is how many that may be in a second in
    /// the long run, and `elapsed` the time since the last call.
    pub fn look(
        &mut self,
        now: Duration,
        elapsed: Duration,
        ranges: &[(u64, u64)],
        (pages, rate): (u64, f64),
        kernel: &mut impl Protect,
    ) -> u64 {
        let of_a_place = ((rate / MOST_LOOKS).ceil() as u64).clamp(LEAST_PAGES, MOST_PAGES);
        let looks = (MOST_LOOKS * elapsed.as_secs_f64()).ceil() as u32;
        let (mut protected, mut fruitless) = (0, 0);
        for _ in 0..looks {
            let most = of_a_place.min(pages - protected);
            if most == 0 {
                break;
            }
            let due = self.due.first_entry().filter(|entry| entry.key().0 <= now);
            if let Some(entry) = due {
                let mut place = entry.remove();
                let Some((count, ..)) = kernel.protect(place.start, place.end, most) else { continue };
                protected += count;
                place.looks += 1;
                // Where no other is to be found, those that are written to are all there is to see.
                if count > 0 && (place.looks < LOOKS || now < self.rests_until) {
                    self.put(now, place);
                }
                continue;
            }
            if now < self.rests_until {
                break;
            }
            match self.draw(ranges).and_then(|(start, end)| kernel.protect(start, end, most)) {
                Some((count, start, end)) if count > 0 => {
                    protected += count;
                    self.put(now, Place { start, end, looks: 1 });
                }
                _ => fruitless += 1,
            }
            if fruitless == FRUITLESS {
                self.rests_until = now + REST;
            }
        }
        protected
    }

    fn put(&mut self, now: Duration, place: Place) {
        let again = AGAIN.mul_f64(0.5 + self.random.f64());
        self.drawn += 1;
        self.due.insert((now + again, self.drawn), place);
    }

    /// A range that starts at any page of `ranges`.
    fn draw(&mut self, ranges: &[(u64, u64)]) -> Option<(u64, u64)> {
        let at = self.random.u64(0..bytes(ranges).max(1)) / PAGE_BYTES * PAGE_BYTES;
        let (start, end) = byte_of(ranges, at)?;
        Some((start, end.min(start + SEARCHED)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const GO: Duration = Duration::from_millis(10);
    const BASE: u64 = 0x7000_0000_0000;

    /// Memory of which every page is there; how often each was protected, and whether it is now.
    #[derive(Default)]
    struct Memory {
        pages: BTreeMap<u64, (u32, bool)>,
        calls: u32,
    }

    impl Memory {
        fn of(ranges: &[(u64, u64)]) -> Self {
            let pages = ranges.iter().flat_map(|&(start, end)| (start..end).step_by(PAGE_BYTES as usize));
            Self { pages: pages.map(|page| (page, (0, false))).collect(), calls: 0 }
        }

        fn write_everywhere(&mut self) {
            self.pages.values_mut().for_each(|(_, protected)| *protected = false);
        }

        fn times(&self) -> impl Iterator<Item = u32> {
            self.pages.values().map(|&(times, _)| times)
        }
    }

    /// Places that are the same in every run.
    fn drawn_alike() -> Places {
        Places { random: fastrand::Rng::with_seed(1), ..Places::default() }
    }

    impl Protect for Memory {
        fn protect(&mut self, start: u64, end: u64, pages: u64) -> Option<(u64, u64, u64)> {
            self.calls += 1;
            let free = self.pages.range_mut(start..end).filter(|(_, (_, protected))| !protected);
            let (mut count, mut first, mut last) = (0, end, end);
            for (&page, (times, protected)) in free.take(pages as usize) {
                (*times, *protected) = (*times + 1, true);
                (count, first, last) = (count + 1, first.min(page), page + PAGE_BYTES);
            }
            Some((count, first, if count < pages { end } else { last }))
        }
    }

    /// Two ranges of 2,000 pages together, far apart.
    fn ranges() -> [(u64, u64); 2] {
        [(BASE, BASE + 500 * PAGE_BYTES), (BASE + (1 << 30), BASE + (1 << 30) + 1500 * PAGE_BYTES)]
    }

    #[test]
    fn places_are_looked_at_again_soon_and_then_given_up() {
        let (ranges, mut places) = (ranges(), drawn_alike());
        let mut memory = Memory::of(&ranges);
        let mut protected = 0;
        for go in 0..200 {
            memory.write_everywhere();
            let calls = memory.calls;
            let now = places.look(GO * go, GO, &ranges, (10, 1000.0), &mut memory);
            assert!(now <= 10 && memory.calls - calls <= 5);
            protected += now;
        }
        // Ten a go, and a few less where a place overlapped with one that had just been protected.
        assert!((1900..=2000).contains(&protected), "{protected}");
        let looked_at = memory.times().filter(|&times| times > 0).count() as u64;
        // Each again and again; some are in several places, which were drawn beside one another.
        assert!((protected / u64::from(2 * LOOKS)..protected / 2).contains(&looked_at), "{looked_at}");
        // No more places than can be looked at again in time: the others were given up.
        assert!((10..100).contains(&places.due.len()), "{}", places.due.len());
        let in_the_first = memory.pages.range(..BASE + (1 << 30)).filter(|(_, (times, _))| *times > 0).count() as u64;
        assert!((looked_at / 8..looked_at / 2).contains(&in_the_first), "{in_the_first} of {looked_at}");
    }

    #[test]
    fn a_walk_goes_on_where_it_ended_and_rests_where_little_is_left() {
        let (ranges, mut places) = (ranges(), Places::default());
        let mut memory = Memory::of(&ranges);
        let walked: Vec<u64> = (0..5).map(|go| places.walk(GO * go, &ranges, 450, &mut memory)).collect();
        assert_eq!(walked, [450, 450, 450, 450, 200]);
        assert!(memory.times().all(|times| times == 1));
        // Of all that is protected one page is written to: it is found, but not before the rest is over.
        memory.pages.insert(BASE, (1, false));
        let calls = memory.calls;
        assert_eq!((places.walk(GO * 5, &ranges, 450, &mut memory), memory.calls), (0, calls));
        assert_eq!(places.walk(GO * 4 + REST, &ranges, 450, &mut memory), 1);
    }

    #[test]
    fn the_higher_the_rate_the_larger_the_places() {
        let ranges = ranges();
        for (rate, pages) in [(10.0, LEAST_PAGES), (3.5 * MOST_LOOKS, 4), (1e9, MOST_PAGES)] {
            let (mut memory, mut places) = (Memory::of(&ranges), drawn_alike());
            assert_eq!(places.look(GO, GO, &ranges, (pages, rate), &mut memory), pages);
            assert_eq!(memory.calls, 1, "{rate}");
        }
    }

    #[test]
    fn a_program_that_does_not_write_is_left_alone() {
        let (ranges, mut places) = (ranges(), drawn_alike());
        let mut memory = Memory::of(&ranges);
        let mut protected = 0;
        for go in 0..1000 {
            protected += places.look(GO * go, GO, &ranges, (100, 10_000.0), &mut memory);
        }
        assert_eq!(protected as usize, memory.times().filter(|&times| times == 1).count());
        assert!(protected > 1900, "{protected}");
        let before = memory.calls;
        for go in 1000..2000 {
            assert!(places.look(GO * go, GO, &ranges, (100, 10_000.0), &mut memory) <= 100);
        }
        // A few searches each half second, in ten seconds, some of which find a page that was left.
        let searches = memory.calls - before;
        assert!((80..200).contains(&searches), "{searches}");
        // And no memory at all is no trouble.
        assert_eq!(Places::default().look(GO, GO, &[], (100, 10_000.0), &mut memory), 0);
    }
}
