//! How sure it is who communicates: of how many pairs of tasks it is known whether they do.
//!
//! A pair that communicates has about as many events as is usual among events (the mean over the events of how many
//! their pair has). A pair is told apart where Poisson's limits for its own events, at 95 %, lie on one side of a third
//! of that: it communicates, or it is silent. Counts have to be those of independent events (`weigh`).

/// One-sided limits at 95 %: standard deviations of a normal variate.
const DEVIATIONS: f64 = 1.645;
/// Of what is usual, where the border is between those that communicate and those that do not.
const BORDER: f64 = 1.0 / 3.0;
/// Longer than this is not said.
const LONGEST_SECONDS: f64 = 600.0;

/// How many pairs there are, and of how many it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sureness {
    /// Pairs that are told apart.
    pub told: u64,
    /// All pairs.
    pub pairs: u64,
    /// Seconds until the rest is, at the rate at which events came; none where that cannot be said, as of pairs at the
    /// border.
    pub seconds_left: Option<f64>,
}

impl Sureness {
    /// Of so many tasks, from the events of the pairs that have any, which came in so many seconds.
    pub fn of(tasks: usize, events: impl Iterator<Item = f64>, seconds: f64) -> Self {
        let pairs = tasks as u64 * (tasks as u64).saturating_sub(1) / 2;
        let counts: Vec<f64> = events.filter(|&events| events > 0.0).collect();
        let sum: f64 = counts.iter().sum();
        if pairs == 0 || sum <= 0.0 {
            return Self { told: 0, pairs, seconds_left: None };
        }
        let border = BORDER * counts.iter().map(|events| events * events).sum::<f64>() / sum;
        let silent = pairs.saturating_sub(counts.len() as u64);
        let told = counts.iter().filter(|&&events| is_told(events, border)).count() as u64
            + if is_told(0.0, border) { silent } else { 0 };
        // All counts grow alike: how many times as long it takes until the last pair is told.
        let with_silent = counts.iter().copied().chain((silent > 0).then_some(0.0));
        let times = with_silent.map(|events| times_until_told(events, border)).fold(1.0, f64::max);
        let left = seconds * (times - 1.0);
        let seconds_left = (left.is_finite() && left <= LONGEST_SECONDS).then_some(left);
        Self { told: told.min(pairs), pairs, seconds_left }
    }

    /// Whether all pairs are told apart.
    pub fn is_sure(&self) -> bool {
        self.pairs > 0 && self.told == self.pairs
    }
}

/// Whether Poisson's limits for so many events are on one side of the border (Garwood's, by the Wilson-Hilferty
/// approximation).
fn is_told(events: f64, border: f64) -> bool {
    if events < border { upper(events) < border } else { lower(events) > border }
}

fn upper(events: f64) -> f64 {
    let n = events + 1.0;
    n * (1.0 - 1.0 / (9.0 * n) + DEVIATIONS / (3.0 * n.sqrt())).powi(3)
}

fn lower(events: f64) -> f64 {
    if events <= 0.0 {
        return 0.0;
    }
    events * (1.0 - 1.0 / (9.0 * events) - DEVIATIONS / (3.0 * events.sqrt())).max(0.0).powi(3)
}

/// How many times as many events there have to be, of this pair and of all, until it is told apart.
fn times_until_told(events: f64, border: f64) -> f64 {
    let (mut least, mut most) = (1.0, 1.0);
    while !is_told(events * most, border * most) {
        (least, most) = (most, most * 2.0);
        if most > 1e6 {
            return f64::INFINITY;
        }
    }
    for _ in 0..20 {
        let middle = (least + most) / 2.0;
        if is_told(events * middle, border * middle) { most = middle } else { least = middle }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_poissons() {
        // Garwood 1936: for 0, 5 and 20 events, one-sided at 95 %.
        for (events, low, high) in [(0.0, 0.0, 2.996), (5.0, 1.970, 10.51), (20.0, 13.25, 29.06)] {
            assert!((lower(events) - low).abs() < 0.06, "{events}: {}", lower(events));
            assert!((upper(events) - high).abs() < 0.06, "{events}: {}", upper(events));
        }
    }

    #[test]
    fn pairs_are_told_apart_where_there_are_enough_events() {
        // A ring of eight: eight pairs of 28.
        let of = |events: f64| Sureness::of(8, std::iter::repeat_n(events, 8), 2.0);
        assert_eq!((of(0.0).told, of(0.0).pairs, of(0.0).seconds_left), (0, 28, None));
        let (few, enough) = (of(5.0), of(12.0));
        assert!(
            !few.is_sure() && few.told < 28 && few.seconds_left.is_some_and(|left| (0.5..4.0).contains(&left)),
            "{few:?}"
        );
        assert!(enough.is_sure() && enough.seconds_left == Some(0.0), "{enough:?}");
        // One at the border is not known for long, and one that has a few by chance is silent.
        let with = |last: f64| Sureness::of(8, std::iter::repeat_n(30.0, 8).chain([last]), 2.0);
        assert!(!with(10.0).is_sure() && with(3.0).is_sure(), "{:?} {:?}", with(10.0), with(3.0));
        assert_eq!(with(10.0).told, 27);
    }

    #[test]
    fn one_task_has_nobody() {
        assert!(!Sureness::of(1, std::iter::empty(), 1.0).is_sure());
        assert!(!Sureness::of(0, std::iter::empty(), 1.0).is_sure());
    }
}
