//! Clusters beside events that are scattered anywhere: `--noise`, ours and not the paper's.
//!
//! A mixture of k normal distributions, each with a variance of its own, and one uniform component over the whole time
//! (Banfield and Raftery, "Model-based Gaussian and non-Gaussian clustering", Biometrics 1993), by expectation
//! maximisation from the partitions of k-means; k by the same criterion as there, with 3k parameters. Several
//! components may make up one burst that is no bell: neighbours between which there is no dip are one cluster (Hennig,
//! "Methods for merging Gaussian mixture components", 2010, the ridgeline ratio).

use crate::kmeans::{Clustering, Run, WITHIN, sums};
use crate::windows::{Scaled, Sums};

/// Items that the mixture is fitted to, at most: windows, or runs of windows.
const ITEMS: usize = 1024;
/// Rounds of expectation maximisation.
const ROUNDS: usize = 100;
/// What the likelihood of a sample has to gain in a round for another.
const ENOUGH: f64 = 1e-7;
/// Clusters are two where the density between them falls below this part of the lower peak.
const DIP: f64 = 0.5;
/// Places between two peaks that are looked at.
const PLACES: u32 = 64;

struct Item {
    from: usize,
    to: usize,
    sums: Sums,
    time: f64,
    within: f64,
    /// Its share of all events.
    share: f64,
}

#[derive(Clone)]
struct Mixture {
    parts: Vec<Part>,
    /// Share of the uniform component.
    noise: f64,
    density: f64,
}

#[derive(Clone, Copy)]
struct Part {
    share: f64,
    mean: f64,
    variance: f64,
}

impl Part {
    fn density(&self, time: f64) -> f64 {
        let power = 0.5 * (time - self.mean).powi(2) / self.variance;
        // Less than any share of events could be.
        if power > 100.0 { 0.0 } else { self.share * (-power).exp() / (std::f64::consts::TAU * self.variance).sqrt() }
    }
}

/// The clusters of the best of these partitions, each made better.
pub(crate) fn clusters(scaled: &Scaled, partitions: &[&[usize]]) -> Clustering {
    let items = items(scaled);
    let samples = scaled.times.len() as f64;
    let fitted: Vec<(f64, Mixture)> = partitions.iter().map(|starts| fit(scaled, &items, starts)).collect();
    let criterion: Vec<f64> = fitted
        .iter()
        .map(|(likelihood, mixture)| samples * likelihood - 1.5 * mixture.parts.len() as f64 * samples.ln())
        .collect();
    let best = (0..criterion.len()).reduce(|best, k| if criterion[k] > criterion[best] { k } else { best });
    let mixture = &fitted[best.unwrap_or(0)].1;
    labelled(scaled, &items, mixture, criterion)
}

fn items(scaled: &Scaled) -> Vec<Item> {
    let count = scaled.times.len();
    let size = count.div_ceil(ITEMS / 2);
    let longest = scaled.times[count - 1] / (ITEMS as i64 / 2) + 1;
    let total: f64 = scaled.weights.iter().map(|&weight| weight as f64).sum();
    let mut items = Vec::new();
    let mut from = 0;
    for at in 1..=count {
        let is_end =
            at == count || count > ITEMS && (at - from >= size || scaled.times[at] - scaled.times[from] >= longest);
        if is_end || count <= ITEMS {
            let sums = sums(scaled, from, at);
            let within = sums.scatter() / sums.weight as f64 + WITHIN;
            items.push(Item { from, to: at, sums, time: sums.mean(), within, share: sums.weight as f64 / total });
            from = at;
        }
    }
    items
}

/// The mixture, and its log likelihood a sample.
fn fit(scaled: &Scaled, items: &[Item], starts: &[usize]) -> (f64, Mixture) {
    let ends = starts[1..].iter().copied().chain([scaled.times.len()]);
    let of = |(&from, to): (&usize, usize)| {
        let own = items.iter().filter(|item| (from..to).contains(&item.from));
        own.fold(Sums::default(), |sums, item| sums.plus(item.sums))
    };
    let parts: Vec<Sums> = starts.iter().zip(ends).map(of).collect();
    let total: f64 = parts.iter().map(|sums| sums.weight as f64).sum();
    let span = scaled.times[scaled.times.len() - 1] as f64 + 1.0;
    let noise = 0.1;
    let part = |sums: &Sums| Part {
        share: (1.0 - noise) * sums.weight as f64 / total,
        mean: sums.mean(),
        variance: sums.scatter() / sums.weight.max(1) as f64 + WITHIN,
    };
    let mut mixture = Mixture { parts: parts.iter().map(part).collect(), noise, density: 1.0 / span };
    let mut likelihood = f64::NEG_INFINITY;
    for _ in 0..ROUNDS {
        let (next, now) = mixture.step(items);
        if now - likelihood < ENOUGH {
            break;
        }
        (mixture, likelihood) = (next, now);
    }
    (mixture.step(items).1, mixture)
}

impl Mixture {
    /// A round: the mixture after it, and the log likelihood of a sample before it.
    fn step(&self, items: &[Item]) -> (Self, f64) {
        let mut sums = vec![(0.0, 0.0, 0.0); self.parts.len()];
        let mut densities = vec![0.0; self.parts.len()];
        let (mut noise, mut likelihood) = (0.0, 0.0);
        for item in items {
            let scattered = self.noise * self.density;
            for (density, part) in densities.iter_mut().zip(&self.parts) {
                *density = part.density(item.time);
            }
            let all = scattered + densities.iter().sum::<f64>();
            if all <= 0.0 {
                likelihood += item.share * f64::MIN_POSITIVE.ln();
                continue;
            }
            likelihood += item.share * all.ln();
            noise += item.share * scattered / all;
            for ((sum, density), part) in sums.iter_mut().zip(&densities).zip(&self.parts) {
                let own = item.share * density / all;
                let away = item.time - part.mean;
                sum.0 += own;
                sum.1 += own * away;
                sum.2 += own * (away * away + item.within);
            }
        }
        let part = |(sum, part): (&(f64, f64, f64), &Part)| {
            if sum.0 <= 0.0 {
                return Part { share: 0.0, ..*part };
            }
            let shift = sum.1 / sum.0;
            Part { share: sum.0, mean: part.mean + shift, variance: (sum.2 / sum.0 - shift * shift).max(WITHIN) }
        };
        let parts = sums.iter().zip(&self.parts).map(part).collect();
        (Self { parts, noise, density: self.density }, likelihood)
    }

    fn parts_at(&self, time: f64) -> f64 {
        self.parts.iter().map(|part| part.density(time)).sum()
    }

    /// The components of each cluster, in the order of time.
    fn joined(&self) -> Vec<Vec<Part>> {
        let mut parts: Vec<Part> = self.parts.iter().copied().filter(|part| part.share > 0.0).collect();
        parts.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        let mut clusters: Vec<Vec<Part>> = Vec::new();
        for part in parts {
            let before = clusters.last().and_then(|cluster| cluster.last().copied());
            match (clusters.last_mut(), before) {
                (Some(cluster), Some(before)) if !self.dips(before.mean, part.mean) => cluster.push(part),
                _ => clusters.push(vec![part]),
            }
        }
        clusters
    }

    fn dips(&self, from: f64, to: f64) -> bool {
        let lower = self.parts_at(from).min(self.parts_at(to));
        let step = (to - from) / f64::from(PLACES);
        (1..PLACES).any(|place| self.parts_at(from + step * f64::from(place)) < DIP * lower)
    }
}

/// Every item to the cluster that it most likely is of. Clusters that get none are left out.
fn labelled(scaled: &Scaled, items: &[Item], mixture: &Mixture, criterion: Vec<f64>) -> Clustering {
    let clusters = mixture.joined();
    let density = |cluster: usize, time: f64| clusters[cluster].iter().map(|part| part.density(time)).sum::<f64>();
    let label = |item: &Item| {
        let best = (0..clusters.len())
            .map(|cluster| (density(cluster, item.time), cluster))
            .reduce(|best, other| if other.0 > best.0 { other } else { best });
        best.filter(|best| best.0 > mixture.noise * mixture.density).map(|best| best.1)
    };
    let labels: Vec<Option<usize>> = items.iter().map(label).collect();
    let kept: Vec<usize> = (0..clusters.len()).filter(|cluster| labels.contains(&Some(*cluster))).collect();
    let mut runs: Vec<Run> = Vec::new();
    let mut all = vec![Sums::default(); kept.len()];
    for (item, label) in items.iter().zip(labels) {
        let cluster = label.and_then(|label| kept.binary_search(&label).ok());
        if let Some(cluster) = cluster {
            all[cluster] = all[cluster].plus(item.sums);
        }
        match runs.last_mut() {
            Some(last) if last.cluster == cluster => last.to = item.to,
            _ => runs.push(Run { from: item.from, to: item.to, cluster }),
        }
    }
    let scale = f64::from(1_u32 << scaled.time_shift.min(31)).powi(2);
    let objective = all.iter().map(|sums| sums.scatter()).sum::<f64>() * scale;
    Clustering { runs, clusters: kept.len(), objective, loss: f64::NAN, criterion }
}
