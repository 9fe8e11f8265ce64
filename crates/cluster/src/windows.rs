//! The windows of a time series that have events, and the sums of them that k-means needs.

use cohabit_model::profile::SeriesRow;

/// The last window is below this, counted from the first: squares of times, summed over all events, then fit 128 bits.
const LONGEST: u64 = 1 << 32;
/// Events in all, at most, for the same reason.
const MOST_EVENTS: u128 = 1 << 62;

/// Windows with events, ascending. The others say nothing and are not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windows {
    bins: Vec<u64>,
    events: Vec<u64>,
}

impl Windows {
    /// Of (window, events) in any order; events of the same window are added, saturating.
    pub fn new(pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut pairs: Vec<(u64, u64)> = pairs.into_iter().filter(|pair| pair.1 > 0).collect();
        if !pairs.is_sorted_by_key(|pair| pair.0) {
            pairs.sort_unstable_by_key(|pair| pair.0);
        }
        let mut windows = Self { bins: Vec::with_capacity(pairs.len()), events: Vec::with_capacity(pairs.len()) };
        for (bin, events) in pairs {
            match windows.bins.last() {
                Some(&last) if last == bin => {
                    let sum = windows.events.last_mut().expect("as many as bins");
                    *sum = sum.saturating_add(events);
                }
                _ => {
                    windows.bins.push(bin);
                    windows.events.push(events);
                }
            }
        }
        windows
    }

    /// The events of all pairs of tasks in each window of a profile's series. What a task sends to itself is of no
    /// pair.
    pub fn of_series(rows: &[SeriesRow]) -> Self {
        // The series is sorted by window.
        let sum = |rows: &[SeriesRow]| {
            let between = rows.iter().filter(|row| row.source != row.destination);
            between.map(|row| row.messages).fold(0, u64::saturating_add)
        };
        Self::new(rows.chunk_by(|a, b| a.bin == b.bin).map(|rows| (rows[0].bin, sum(rows))))
    }

    /// How many windows have events.
    pub fn len(&self) -> usize {
        self.bins.len()
    }

    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// The number of each window.
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }

    /// The events of each window.
    pub fn events(&self) -> &[u64] {
        &self.events
    }

    /// All events.
    pub fn total(&self) -> u128 {
        self.events.iter().map(|&events| u128::from(events)).sum()
    }

    /// Times from the first window on and weights, both small enough for exact sums of squares: of more than 2^32
    /// windows two, four and so on count as one, and of more than 2^62 events the lowest bits are left out.
    pub(crate) fn scaled(&self) -> Scaled {
        let (first, last) = (self.bins.first().copied().unwrap_or(0), self.bins.last().copied().unwrap_or(0));
        let time_shift = (0..64).find(|shift| (last - first) >> shift < LONGEST).expect("64 bits shifted by 32 fit");
        let total = self.total();
        let weight_shift = (0..128).find(|shift| total >> shift < MOST_EVENTS).expect("any number can be shifted to 0");
        // What is not zero stays so: as many more events as there are windows, which are fewer than 2^62.
        let weight = |events: u64| (events.checked_shr(weight_shift).unwrap_or(0)).max(1) as i64;
        Scaled {
            times: self.bins.iter().map(|bin| ((bin - first) >> time_shift) as i64).collect(),
            weights: self.events.iter().map(|&events| weight(events)).collect(),
            time_shift,
        }
    }
}

/// What [`Windows::scaled`] gives.
pub(crate) struct Scaled {
    /// Ascending from 0, below 2^32.
    pub times: Vec<i64>,
    /// Positive.
    pub weights: Vec<i64>,
    /// A time is so many doublings of a window.
    pub time_shift: u32,
}

/// Sums over a range of windows: of weights, of weights times time, and times time squared.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub weight: i64,
    pub first: i128,
    pub second: i128,
}

impl Sums {
    pub fn add(&mut self, time: i64, weight: i64) {
        let product = i128::from(weight) * i128::from(time);
        self.weight += weight;
        self.first += product;
        self.second += product * i128::from(time);
    }

    pub fn less(self, other: Self) -> Self {
        Self { weight: self.weight - other.weight, first: self.first - other.first, second: self.second - other.second }
    }

    pub fn plus(self, other: Self) -> Self {
        Self { weight: self.weight + other.weight, first: self.first + other.first, second: self.second + other.second }
    }

    pub fn mean(self) -> f64 {
        if self.weight == 0 { 0.0 } else { self.first as f64 / self.weight as f64 }
    }

    /// The weighted sum of squared distances from the mean. Sums are shifted to a whole number near the mean first,
    /// exactly, so that nothing cancels.
    pub fn scatter(self) -> f64 {
        if self.weight == 0 {
            return 0.0;
        }
        let near = self.mean().round() as i128;
        let weight = i128::from(self.weight);
        let first = (self.first - near * weight) as f64;
        let second = self.second - near * (2 * self.first - near * weight);
        (second as f64 - first * first / self.weight as f64).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_sorted_and_joined() {
        let windows = Windows::new([(5, 1), (2, 3), (5, 2), (9, 0)]);
        assert_eq!((windows.bins(), windows.events()), (&[2, 5][..], &[3, 3][..]));
        assert_eq!((windows.len(), windows.total()), (2, 6));
        assert!(Windows::new([(1, 0)]).is_empty());
    }

    #[test]
    fn extremes_are_scaled_until_sums_fit() {
        let windows = Windows::new([(3, u64::MAX), (3 + (1 << 40), u64::MAX), (u64::MAX, 1)]);
        let scaled = windows.scaled();
        assert_eq!(scaled.time_shift, 32);
        assert_eq!(scaled.times.last(), Some(&(((u64::MAX - 3) >> 32) as i64)));
        assert!(scaled.weights.iter().all(|&weight| weight >= 1));
        let mut sums = Sums::default();
        scaled.times.iter().zip(&scaled.weights).for_each(|(&time, &weight)| sums.add(time, weight));
        assert!(sums.scatter().is_finite() && sums.weight > 0);
    }

    #[test]
    fn the_scatter_of_few_far_away_is_exact() {
        let mut sums = Sums::default();
        [(1 << 31, 1), ((1 << 31) + 1, 1)].into_iter().for_each(|(time, weight)| sums.add(time, weight));
        assert_eq!(sums.scatter(), 0.5);
    }
}
