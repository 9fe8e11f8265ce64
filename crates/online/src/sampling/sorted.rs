//! Values by address, of which those nearest to an address are found fast.
//!
//! In sorted pages of some KiB: the nearest lie side by side, so that few cache lines are read for them. That counts
//! more than anything else here, since the program has the caches between one sample and the next: a `BTreeMap` takes
//! three times as long.

use std::ops::{Index, IndexMut};

/// Values on a page.
const PAGE: usize = 64;

/// Values sorted by address; of those at the same address the one that came first is first.
#[derive(Debug)]
pub(super) struct Sorted<V> {
    pages: Vec<Page<V>>,
    len: usize,
}

#[derive(Debug)]
struct Page<V> {
    /// No address on the page is below it, and none on the pages before is above it.
    first: u64,
    /// At least one.
    values: Vec<(u64, V)>,
}

/// Where a value is, until one is inserted or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    page: usize,
    at: usize,
}

impl<V> Default for Sorted<V> {
    fn default() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }
}

impl<V> Index<Place> for Sorted<V> {
    type Output = V;

    fn index(&self, place: Place) -> &V {
        &self.pages[place.page].values[place.at].1
    }
}

impl<V> IndexMut<Place> for Sorted<V> {
    fn index_mut(&mut self, place: Place) -> &mut V {
        &mut self.pages[place.page].values[place.at].1
    }
}

impl<V> Sorted<V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All of them, by address.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.pages.iter().flat_map(|page| &page.values).map(|(_, value)| value)
    }

    /// All of them, the nearest to an address first: where they are, their addresses, and the values. Of two that are
    /// equally near the lower one comes first; of those at the same address the one that was inserted last, where they
    /// lie below, otherwise the first.
    pub(super) fn nearest(&self, address: u64) -> impl Iterator<Item = (Place, u64, &V)> {
        let mut above = self.start(address);
        let mut below = above;
        std::iter::from_fn(move || {
            let lower = self.before(below).map(|place| (place, self.address(place)));
            let upper = (above.page < self.pages.len()).then(|| (above, self.address(above)));
            let (place, found) = match (lower, upper) {
                (Some(lower), Some(upper)) if address - lower.1 <= upper.1 - address => lower,
                (_, Some(upper)) => upper,
                (lower, None) => lower?,
            };
            if found < address {
                below = place;
            } else {
                above = self.after(place);
            }
            Some((place, found, &self[place]))
        })
    }

    pub(super) fn insert(&mut self, address: u64, value: V) {
        self.len += 1;
        let page = self.pages.partition_point(|page| page.first <= address).saturating_sub(1);
        let Some(Page { first, values }) = self.pages.get_mut(page) else {
            self.pages.push(Page { first: address, values: vec![(address, value)] });
            return;
        };
        *first = address.min(*first);
        values.insert(values.partition_point(|&(there, _)| there <= address), (address, value));
        if values.len() == PAGE {
            let upper = values.split_off(PAGE / 2);
            self.pages.insert(page + 1, Page { first: upper[0].0, values: upper });
        }
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.len -= 1;
        self.pages[place.page].values.remove(place.at);
        if self.pages[place.page].values.is_empty() {
            self.pages.remove(place.page);
        }
    }

    /// Keeps those of which it is so.
    pub(super) fn retain(&mut self, keeps: impl Fn(&V) -> bool) {
        // Packed again, so that there are no more pages than values need.
        let kept = std::mem::take(&mut self.pages).into_iter().flat_map(|page| page.values);
        let mut kept = kept.filter(|(_, value)| keeps(value)).peekable();
        self.len = 0;
        while let Some(&(first, _)) = kept.peek() {
            let mut values = Vec::with_capacity(PAGE);
            values.extend(kept.by_ref().take(PAGE / 2));
            self.len += values.len();
            self.pages.push(Page { first, values });
        }
    }

    /// The first that is not below an address, or the end.
    fn start(&self, address: u64) -> Place {
        let after = self.pages.partition_point(|page| page.first < address);
        let Some(page) = after.checked_sub(1) else { return Place { page: 0, at: 0 } };
        let at = self.pages[page].values.partition_point(|&(there, _)| there < address);
        if at < self.pages[page].values.len() { Place { page, at } } else { Place { page: after, at: 0 } }
    }

    fn address(&self, place: Place) -> u64 {
        self.pages[place.page].values[place.at].0
    }

    fn before(&self, place: Place) -> Option<Place> {
        let Place { page, at } = place;
        match at.checked_sub(1) {
            Some(at) => Some(Place { page, at }),
            None => page.checked_sub(1).map(|page| Place { page, at: self.pages[page].values.len() - 1 }),
        }
    }

    /// The one after it, or the end.
    fn after(&self, place: Place) -> Place {
        let Place { page, at } = place;
        if at + 1 < self.pages[page].values.len() {
            Place { page, at: at + 1 }
        } else {
            Place { page: page + 1, at: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: the addresses and values of which those nearest to an address come first.
    fn nearest(all: &[(u64, usize)], address: u64) -> Vec<(u64, usize)> {
        let mut all = all.to_vec();
        // Sorting is stable, and those at the same address are in the order in which they were inserted.
        all.sort_by_key(|&(there, _)| there);
        let (mut below, above): (Vec<_>, Vec<_>) = all.into_iter().partition(|&(there, _)| there < address);
        below.reverse();
        below.extend(above);
        below.sort_by_key(|&(there, _)| there.abs_diff(address));
        below
    }

    #[test]
    fn pages_are_not_emptier_than_half_after_many_are_gone() {
        let mut sorted = Sorted::default();
        (0..10_000).for_each(|value: u64| sorted.insert(value * 7919 % 10_007, value));
        sorted.retain(|value| value % 50 == 0);
        assert_eq!((sorted.len(), sorted.pages.len()), (200, 200usize.div_ceil(PAGE / 2)));
        assert!(sorted.values().all(|value| value % 50 == 0));
        sorted.retain(|_| false);
        assert_eq!((sorted.len(), sorted.pages.len(), sorted.nearest(5).count()), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn the_nearest_are_those_of_the_definition(
            // Many at the same addresses; and what becomes of the first of them: it stays, goes, or half of all go.
            steps in prop::collection::vec((0..60u64, 0..4u64, 0..40u32), 0..600),
            asked in prop::collection::vec(any::<u64>(), 1..20),
        ) {
            let (mut sorted, mut all) = (Sorted::default(), Vec::new());
            for (value, (near, far, fate)) in steps.into_iter().enumerate() {
                let address = near + far * (u64::MAX / 4);
                sorted.insert(address, value);
                all.push((address, value));
                match fate {
                    0 => {
                        sorted.retain(|value| value % 2 == 0);
                        all.retain(|(_, value)| value % 2 == 0);
                    }
                    1..16 => {
                        let first = sorted.nearest(address).next().map(|(place, _, &value)| (place, value));
                        if let Some((place, value)) = first {
                            sorted.remove(place);
                            all.retain(|&(_, other)| other != value);
                        }
                    }
                    _ => {}
                }
                let found: Vec<_> = sorted.nearest(address).take(5).map(|(place, there, &value)| (sorted[place], there, value)).collect();
                prop_assert!(found.iter().all(|&(at_place, _, value)| at_place == value));
                prop_assert!(found.iter().map(|&(_, there, value)| (there, value)).eq(nearest(&all, address).into_iter().take(5)));
            }
            for address in asked.into_iter().flat_map(|far| [far % 64, far]) {
                let found: Vec<_> = sorted.nearest(address).map(|(_, there, &value)| (there, value)).collect();
                prop_assert_eq!(found, nearest(&all, address));
            }
            prop_assert_eq!(sorted.len(), all.len());
        }
    }
}
