//! Weighted k-means in one dimension (DeLoc, equation 1), the optimum: clusters of the optimum are intervals, so
//! dynamic programming over their last borders finds it (Wang and Song, "Ckmeans.1d.dp", R Journal 2011), here by
//! divide and conquer, since the best border of a longer prefix is never before that of a shorter one: O(k n log n).

use crate::windows::Sums;

/// Items in a row that are put into clusters whole: windows, or runs of windows.
pub(crate) struct Prefix(Vec<Sums>);

impl Prefix {
    pub fn new(items: impl IntoIterator<Item = Sums>) -> Self {
        let mut sums = vec![Sums::default()];
        for item in items {
            sums.push(sums[sums.len() - 1].plus(item));
        }
        Self(sums)
    }

    pub fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// Of items `from..to`.
    pub fn sums(&self, from: usize, to: usize) -> Sums {
        self.0[to].less(self.0[from])
    }

    fn cost(&self, from: usize, to: usize) -> f64 {
        self.sums(from, to).scatter()
    }
}

/// The optimal partitions into 1 to `most` clusters: the first item of each cluster, and what equation 1 comes to. None
/// has more clusters than there are items.
pub(crate) fn optima(prefix: &Prefix, most: usize) -> Vec<(Vec<usize>, f64)> {
    let count = prefix.len();
    let most = most.min(count);
    // costs[to] of the first `to` items, in one cluster more in each round; splits[k][to] is where the last of these
    // begins.
    let mut costs: Vec<f64> = (0..=count).map(|to| prefix.cost(0, to)).collect();
    let mut splits: Vec<Vec<u32>> = vec![vec![0; count + 1]];
    let mut found = Vec::with_capacity(most);
    if count > 0 {
        found.push((vec![0], costs[count]));
    }
    for clusters in 2..=most {
        let mut layer = Layer {
            prefix,
            before: &costs,
            least: clusters - 1,
            costs: vec![f64::INFINITY; count + 1],
            splits: vec![0; count + 1],
        };
        layer.fill(clusters, count, clusters - 1, count - 1);
        let Layer { costs: next, splits: split, .. } = layer;
        costs = next;
        splits.push(split);
        let mut starts = vec![0; clusters];
        let mut to = count;
        for cluster in (1..clusters).rev() {
            to = splits[cluster][to] as usize;
            starts[cluster] = to;
        }
        found.push((starts, costs[count]));
    }
    found
}

struct Layer<'a> {
    prefix: &'a Prefix,
    before: &'a [f64],
    /// Items that the clusters before the last need.
    least: usize,
    costs: Vec<f64>,
    splits: Vec<u32>,
}

impl Layer<'_> {
    /// Prefixes of `first..=last` items, whose last cluster begins within `low..=high`.
    fn fill(&mut self, first: usize, last: usize, low: usize, high: usize) {
        if first > last {
            return;
        }
        let middle = first + (last - first) / 2;
        let (mut best, mut split) = (f64::INFINITY, low);
        for from in low.max(self.least)..=high.min(middle - 1) {
            let cost = self.before[from] + self.prefix.cost(from, middle);
            if cost < best {
                (best, split) = (cost, from);
            }
        }
        self.costs[middle] = best;
        self.splits[middle] = split as u32;
        self.fill(first, middle - 1, low, split);
        self.fill(middle + 1, last, split, high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What equation 1 comes to as a fraction, by its definition: W^2 times the sum of w (t - S / W)^2, over W^2, and
    /// that over all clusters brought to one denominator.
    fn exactly(items: &[(i64, i64)], starts: &[usize]) -> (i128, i128) {
        let ends = starts[1..].iter().copied().chain([items.len()]);
        let mut sum = (0_i128, 1_i128);
        for (&from, to) in starts.iter().zip(ends) {
            let weight: i128 = items[from..to].iter().map(|item| i128::from(item.1)).sum();
            let first: i128 = items[from..to].iter().map(|item| i128::from(item.0 * item.1)).sum();
            let squares: i128 = items[from..to]
                .iter()
                .map(|item| i128::from(item.1) * (i128::from(item.0) * weight - first).pow(2))
                .sum();
            // Of this cluster: squares / weight^2, which is a whole number over weight.
            let own = squares / weight;
            sum = (sum.0 * weight + own * sum.1, sum.1 * weight);
        }
        sum
    }

    fn partitions(count: usize, clusters: usize) -> Vec<Vec<usize>> {
        if clusters == 1 {
            return vec![vec![0]];
        }
        let shorter = |last: usize| {
            partitions(last, clusters - 1).into_iter().map(move |mut starts| {
                starts.push(last);
                starts
            })
        };
        (clusters - 1..count).flat_map(shorter).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        /// All partitions are tried, in whole numbers: where one alone is the best, it is the one; else it is one of
        /// these.
        #[test]
        fn the_partition_is_that_of_the_slow_optimum(
            items in prop::collection::btree_map(0_i64..60, 1_i64..12, 1..11),
            far in any::<bool>(),
        ) {
            let far = if far { 1 << 31 } else { 0 };
            let items: Vec<(i64, i64)> = items.into_iter().collect();
            let prefix = Prefix::new(items.iter().map(|&(time, weight)| {
                let mut sums = Sums::default();
                sums.add(time + far, weight);
                sums
            }));
            for (starts, cost) in optima(&prefix, 4) {
                let all = partitions(items.len(), starts.len());
                let less = |a: (i128, i128), b: (i128, i128)| a.0 * b.1 < b.0 * a.1;
                let own = exactly(&items, &starts);
                for other in &all {
                    prop_assert!(!less(exactly(&items, other), own), "{other:?} is better than {starts:?}");
                }
                let expected = own.0 as f64 / own.1 as f64;
                prop_assert!((cost - expected).abs() <= 1e-9 * expected.max(1.0), "{cost} {expected}");
            }
        }
    }

    /// Bursts in windows 50-250 and 300-310 with equal events part at 212, not in the gap between them.
    #[test]
    fn borders_are_where_equation_1_has_them() {
        let items = (50..250).map(|time| (time, 11)).chain((300..310).map(|time| (time, 220)));
        let items: Vec<(i64, i64)> = items.collect();
        let prefix = Prefix::new(items.iter().map(|&(time, weight)| {
            let mut sums = Sums::default();
            sums.add(time, weight);
            sums
        }));
        let (starts, _) = &optima(&prefix, 2)[1];
        let slow = (1..items.len()).min_by(|&a, &b| {
            let cost = |split: usize| prefix.cost(0, split) + prefix.cost(split, items.len());
            cost(a).total_cmp(&cost(b))
        });
        assert_eq!(Some(starts[1]), slow);
        assert!((205..220).contains(&items[starts[1]].0), "{}", items[starts[1]].0);
    }
}
