//! Clusters of windows (DeLoc, section II-C): weighted k-means on time, k by the Bayesian information criterion.
//!
//! The paper gives no formula for its criterion. Taken is that of X-means (Pelleg and Moore, ICML 2000, which the paper
//! cites): one variance for all clusters, a mixing term, 2k parameters. Its samples are the windows with events: with
//! events as samples a constant series would have as many clusters as allowed, and with windows it has one. The mixing
//! term counts windows too (by shares of events, scattered ones would get clusters of their own); the variance is of
//! events, that of the maximum likelihood, and an event is taken to lie anywhere in its window (Sheppard's correction,
//! 1/12), so that a cluster of one window has a likelihood too. All terms but the parameters' then cancel where a
//! constant series is divided evenly.

use crate::noise;
use crate::optimum::{Prefix, optima};
use crate::windows::{Scaled, Sums, Windows};

/// Windows, or runs of windows, among which the optimum is found; of more windows some are taken together, and the
/// borders are moved to where they belong afterwards.
const ITEMS: usize = 1 << 15;
/// Times that borders are moved, at most.
const MOVES: usize = 200;
/// Of an event within its window.
pub(crate) const WITHIN: f64 = 1.0 / 12.0;

/// How to look for clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Clusters at most; 0 is taken for 1.
    pub most: usize,
    /// Whether there is a uniform component beside the clusters: ours, not the paper's. Then clusters may differ in
    /// length, and what is scattered between them belongs to none.
    pub noise: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { most: 20, noise: false }
    }
}

/// Windows in a row that belong to one cluster, or to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First of them: an index into [`Windows::bins`].
    pub from: usize,
    /// The one behind the last of them.
    pub to: usize,
    /// Which cluster, from 0 on in the order of time; none for scattered windows.
    pub cluster: Option<usize>,
}

/// Which windows belong together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Clustering {
    /// All windows with events, from the first to the last.
    pub runs: Vec<Run>,
    /// How many clusters.
    pub clusters: usize,
    /// What equation 1 comes to: squared windows, summed over all events of clusters.
    pub objective: f64,
    /// By how much the optimum's may be less, at most, for as many clusters; 0: this is the optimum. Not known of
    /// clusters with noise, which equation 1 does not have.
    pub loss: f64,
    /// The criterion of 1, 2 ... clusters: the most is best.
    pub criterion: Vec<f64>,
}

impl Clustering {
    /// The cluster of each window with events.
    pub fn labels(&self) -> Vec<Option<usize>> {
        let length = self.runs.last().map_or(0, |run| run.to);
        let mut labels = vec![None; length];
        self.runs.iter().for_each(|run| labels[run.from..run.to].fill(run.cluster));
        labels
    }

    /// The cluster of a window of the series; none where nothing happens in it, or it belongs to none.
    pub fn of(&self, windows: &Windows, bin: u64) -> Option<usize> {
        let at = windows.bins().binary_search(&bin).ok()?;
        let run = self.runs.partition_point(|run| run.to <= at);
        self.runs.get(run)?.cluster
    }
}

/// The clusters of a series. A series without events has none.
pub fn clusters(windows: &Windows, options: &Options) -> Clustering {
    clusters_among(windows, options, ITEMS)
}

/// The same with the number of items as given.
pub(crate) fn clusters_among(windows: &Windows, options: &Options, items: usize) -> Clustering {
    if windows.is_empty() {
        return Clustering::default();
    }
    let scaled = windows.scaled();
    let most = options.most.max(1);
    let edges = edges(&scaled, items);
    let prefix = Prefix::new(edges.windows(2).map(|edge| sums(&scaled, edge[0], edge[1])));
    let all = prefix.sums(0, prefix.len());
    let is_whole = edges.len() == windows.len() + 1;
    let found: Vec<Found> = optima(&prefix, most)
        .into_iter()
        .map(|(starts, cost)| {
            let found = Found::new(&prefix, &edges, &starts);
            if is_whole { found } else { found.moved(&scaled, cost, &prefix) }
        })
        .collect();
    if options.noise {
        return noise::clusters(&scaled, &found.iter().map(|found| &found.starts[..]).collect::<Vec<_>>());
    }
    let criterion: Vec<f64> = found.iter().map(|found| found.criterion(windows.len(), all.weight)).collect();
    // The first of those alike: fewer clusters.
    let best = (0..criterion.len()).reduce(|best, k| if criterion[k] > criterion[best] { k } else { best });
    let best = &found[best.unwrap_or(0)];
    let scale = f64::from(1_u32 << scaled.time_shift.min(31)).powi(2);
    let ends = best.starts[1..].iter().copied().chain([windows.len()]);
    let runs = best.starts.iter().zip(ends).enumerate();
    Clustering {
        runs: runs.map(|(cluster, (&from, to))| Run { from, to, cluster: Some(cluster) }).collect(),
        clusters: best.starts.len(),
        objective: best.cost() * scale,
        loss: best.loss * scale,
        criterion,
    }
}

/// Where items begin, and the end: every window is one where there are few enough; else windows in a row that are no
/// more, and reach no farther, than twice the average.
fn edges(scaled: &Scaled, items: usize) -> Vec<usize> {
    let (times, count) = (&scaled.times, scaled.times.len());
    if count <= items {
        return (0..=count).collect();
    }
    let longest = times[count - 1] / (items as i64 / 2) + 1;
    let most = count.div_ceil(items / 2);
    let mut edges = vec![0];
    for at in 1..count {
        let start = edges[edges.len() - 1];
        if at - start >= most || times[at] - times[start] >= longest {
            edges.push(at);
        }
    }
    edges.push(count);
    edges
}

pub(crate) fn sums(scaled: &Scaled, from: usize, to: usize) -> Sums {
    let mut sums = Sums::default();
    scaled.times[from..to].iter().zip(&scaled.weights[from..to]).for_each(|(&time, &weight)| sums.add(time, weight));
    sums
}

/// One partition of the windows.
struct Found {
    /// The first window of each cluster, and the sums of its windows.
    starts: Vec<usize>,
    sums: Vec<Sums>,
    /// See [`Clustering::loss`].
    loss: f64,
}

impl Found {
    /// The partition of which these items are the first of each cluster.
    fn new(prefix: &Prefix, edges: &[usize], items: &[usize]) -> Self {
        let ends = items[1..].iter().copied().chain([prefix.len()]);
        let sums = items.iter().zip(ends).map(|(&from, to)| prefix.sums(from, to)).collect();
        Self { starts: items.iter().map(|&item| edges[item]).collect(), sums, loss: 0.0 }
    }

    /// The optimum of items taken as wholes, with its borders moved to half-way between the means of their clusters
    /// until they stay (Lloyd). What that may lose: were every item at its own mean, the optimum would be `cost` less
    /// the items' own scatter, and no clusters of the windows can be better than that by more than the items' scatter,
    /// as distances in the space of all windows (triangle inequality).
    fn moved(mut self, scaled: &Scaled, cost: f64, prefix: &Prefix) -> Self {
        for _ in 0..MOVES {
            if !self.move_borders(scaled) {
                break;
            }
        }
        let own: f64 = (0..prefix.len()).map(|item| prefix.sums(item, item + 1).scatter()).sum();
        let least = ((cost - own).max(0.0).sqrt() - own.sqrt()).max(0.0).powi(2);
        self.loss = (self.cost() - least).max(0.0);
        self
    }

    fn move_borders(&mut self, scaled: &Scaled) -> bool {
        let mut has_moved = false;
        for cluster in 1..self.starts.len() {
            let middle = 0.5 * (self.sums[cluster - 1].mean() + self.sums[cluster].mean());
            let from = self.starts[cluster - 1] + 1;
            let to = self.starts.get(cluster + 1).copied().unwrap_or(scaled.times.len());
            let old = self.starts[cluster];
            let new = from + scaled.times[from..to - 1].partition_point(|&time| time as f64 <= middle);
            if new == old {
                continue;
            }
            let between = sums(scaled, old.min(new), old.max(new));
            let (gains, loses) = if new > old { (cluster - 1, cluster) } else { (cluster, cluster - 1) };
            self.sums[gains] = self.sums[gains].plus(between);
            self.sums[loses] = self.sums[loses].less(between);
            self.starts[cluster] = new;
            has_moved = true;
        }
        has_moved
    }

    fn cost(&self) -> f64 {
        self.sums.iter().map(|sums| sums.scatter()).sum()
    }

    fn criterion(&self, samples: usize, total: i64) -> f64 {
        let variance = self.cost() / total as f64 + WITHIN;
        let ends = self.starts[1..].iter().copied().chain([samples]);
        let samples = samples as f64;
        let shares = self.starts.iter().zip(ends).map(|(&from, to)| (to - from) as f64 / samples);
        let mixing: f64 = shares.map(|share| share * share.ln()).sum();
        let likelihood = samples * (mixing - 0.5 * (std::f64::consts::TAU * variance).ln() - 0.5);
        likelihood - self.starts.len() as f64 * samples.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn k(windows: &Windows) -> usize {
        clusters(windows, &Options::default()).clusters
    }

    #[test]
    fn plain_series_have_the_obvious_clusters() {
        let hour_us = 3_600_000_000_u64;
        for (name, series, expected) in [
            ("empty", vec![], 0),
            ("one window", vec![(7, 1000)], 1),
            ("one burst", (500..540).map(|bin| (bin, 100)).collect(), 1),
            ("beginning and end", vec![(0, 100), (1_000_000, 300)], 2),
            ("constant, short", vec![(0, 5), (1, 5)], 1),
            ("constant, three", vec![(0, 5), (1, 5), (2, 5)], 1),
            ("constant", (0..400).map(|bin| (bin, 500)).collect(), 1),
            ("constant, long", (0..3000).map(|bin| (bin * 9, 1)).collect(), 1),
            ("an hour with a burst at each end", (0..60).flat_map(|at| [(at, 9), (hour_us - at, 9)]).collect(), 2),
        ] {
            let windows = Windows::new(series);
            let found = clusters(&windows, &Options::default());
            assert_eq!(found.clusters, expected, "{name}");
            assert_eq!((found.loss, found.labels().len()), (0.0, windows.len()), "{name}");
        }
        assert_eq!(k(&Windows::new([(u64::MAX, u64::MAX), (0, u64::MAX), (5, 1)])), 2);
    }

    #[test]
    fn no_more_clusters_than_allowed() {
        let windows = Windows::new((0..10).map(|burst| (burst * burst * 1000, 50)));
        for most in [0, 1, 4, 10, 100] {
            for noise in [false, true] {
                let found = clusters(&windows, &Options { most, noise });
                assert!((1..=most.max(1)).contains(&found.clusters), "{most} {found:?}");
                assert_eq!(found.criterion.len(), most.clamp(1, 10));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

        /// Among runs of windows the objective is at most what is said above the optimum, and every window has its
        /// cluster.
        #[test]
        fn what_is_lost_is_no_more_than_is_said(
            series in prop::collection::vec((0_u64..4000, 1_u64..100), 1..400),
            most in 1_usize..6,
        ) {
            let windows = Windows::new(series);
            let best = clusters_among(&windows, &Options { most, noise: false }, usize::MAX);
            let scaled = windows.scaled();
            let edges = edges(&scaled, 32);
            let prefix = Prefix::new(edges.windows(2).map(|edge| sums(&scaled, edge[0], edge[1])));
            prop_assert!(edges.len() <= windows.len() + 1 && edges.is_sorted());
            let whole = Prefix::new((0..windows.len()).map(|at| sums(&scaled, at, at + 1)));
            for ((starts, cost), (_, optimum)) in optima(&prefix, most).into_iter().zip(optima(&whole, most)) {
                let found = Found::new(&prefix, &edges, &starts).moved(&scaled, cost, &prefix);
                let tolerance = 1e-9 * found.cost().max(1.0);
                prop_assert!(found.cost() >= optimum - tolerance && found.cost() <= cost + tolerance);
                prop_assert!(found.cost() - found.loss <= optimum + tolerance, "{} {} {optimum}", found.cost(), found.loss);
                prop_assert!(found.starts.is_sorted_by(|a, b| a < b) && found.starts[0] == 0);
            }
            prop_assert_eq!(best.runs.last().map(|run| run.to), Some(windows.len()));
            for (at, label) in best.labels().into_iter().enumerate() {
                prop_assert_eq!(best.of(&windows, windows.bins()[at]), label);
            }
        }
    }
}
