//! Whether other work disturbed a measurement. Its threads spin, so whoever of them did not run all the time was kept
//! from it: by another program on its PU, or, on a virtual machine, by the host (steal of proc_stat(5)). What neither
//! shows, as other work in the same cache, the spread of repeats does.

use std::fs;

/// Of a figure's time, from which part on its threads did not run it is disturbed.
const LOST: f64 = 0.05;
/// How many times as long the slowest repeat took as the one that counts.
const SPREAD: f64 = 2.0;
/// Of all figures, from which part on the measurement is.
const FIGURES: f64 = 0.05;
/// Of the machine's time, what the host may take.
const STEAL: f64 = 0.02;

/// How a figure was disturbed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Disturbance {
    /// Of the time of the repeat that counts, the part in which the thread that ran least did not run.
    pub(super) lost: f64,
    /// The slowest repeat's time by that of the one that counts.
    pub(super) spread: f64,
}

/// How a measurement was disturbed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Busy {
    figures: usize,
    disturbed: usize,
    /// Of the figures' times, the largest part that was lost.
    lost: f64,
    /// Ticks of all PUs, and those that the host took, when it began.
    began: Option<(u64, u64)>,
    /// Of the machine's time, what the host took, once it is over.
    steal: f64,
}

impl Busy {
    /// Begins.
    pub fn begin() -> Self {
        Self { began: ticks(&fs::read_to_string("/proc/stat").unwrap_or_default()), ..Self::default() }
    }

    pub(super) fn add(&mut self, figure: Disturbance) {
        self.figures += 1;
        self.disturbed += usize::from(figure.lost >= LOST || figure.spread >= SPREAD);
        self.lost = self.lost.max(figure.lost);
    }

    /// It is over.
    pub(super) fn end(&mut self) {
        let now = ticks(&fs::read_to_string("/proc/stat").unwrap_or_default());
        if let Some(((all, stolen), (all_now, stolen_now))) = self.began.zip(now) {
            self.steal = stolen_now.saturating_sub(stolen) as f64 / all_now.saturating_sub(all).max(1) as f64;
        }
    }

    /// What disturbed it, in a sentence; none where nothing did.
    pub fn warning(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.disturbed > 0 && self.disturbed as f64 >= FIGURES * self.figures as f64 {
            let lost = match (100.0 * self.lost).round() {
                lost if lost >= 100.0 * LOST => format!(" (up to {lost:.0} % of the time was others')"),
                _ => String::new(),
            };
            parts.push(format!("{} of {} figures were disturbed by other work{lost}", self.disturbed, self.figures));
        }
        if self.steal >= STEAL {
            parts.push(format!("the host took {:.0} % of this virtual machine's time", 100.0 * self.steal));
        }
        let found = parts.join(", and ");
        (!found.is_empty())
            .then(|| format!("measured while the machine was busy: {found}; times may be too long by a factor"))
    }
}

/// The ticks of all PUs together, and those stolen: the first line of /proc/stat.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let numbers: Vec<u64> =
        stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().flat_map(str::parse).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; those of guests are in user and nice.
    Some((numbers.iter().take(8).sum(), *numbers.get(7)?))
}

/// Of the time from one moment to another, how much all PUs together were busy: what runs beside a measurement whose
/// threads are not ours to look at.
pub(super) fn busy_share(before: &str, after: &str) -> Option<f64> {
    let idle = |stat: &str| {
        let numbers = stat.lines().next()?.split_whitespace().skip(4).take(2).map(str::parse::<u64>);
        numbers.sum::<Result<u64, _>>().ok()
    };
    let (all, idle_time) = (ticks(after)?.0.checked_sub(ticks(before)?.0)?, idle(after)?.checked_sub(idle(before)?)?);
    (all > 0).then(|| 1.0 - (idle_time as f64 / all as f64).min(1.0))
}

/// What to say of a host that was busy before a measurement began; none where it was not.
pub(super) fn busy_before(share: f64) -> Option<String> {
    const BUSY: f64 = 0.1;
    (share >= BUSY).then(|| {
        format!(
            "measured while this host was busy: other work used {:.0} % of its PUs' time; times may be too long by a factor",
            100.0 * share
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disturbs_a_measurement_is_said_and_nothing_else() {
        let quiet = Disturbance { lost: 0.01, spread: 1.2 };
        let (slow, spread) = (Disturbance { lost: 0.48, spread: 1.1 }, Disturbance { lost: 0.0, spread: 7.0 });
        for (quiet_figures, others, steal, expected) in [
            (20, vec![], 0.0, None),
            (40, vec![slow], 0.0, None),
            (
                10,
                vec![slow],
                0.0,
                Some("1 of 11 figures were disturbed by other work (up to 48 % of the time was others')"),
            ),
            (10, vec![spread], 0.0, Some("1 of 11 figures were disturbed by other work; times")),
            (10, vec![], 0.3, Some("the host took 30 % of this virtual machine's time")),
            (0, vec![], 0.0, None),
        ] {
            let mut busy = Busy { steal, ..Busy::default() };
            (0..quiet_figures).for_each(|_| busy.add(quiet));
            others.into_iter().for_each(|figure| busy.add(figure));
            let warning = busy.warning();
            assert_eq!(warning.is_some(), expected.is_some(), "{warning:?}");
            assert!(warning.is_none_or(|text| text.contains(expected.unwrap_or_default())), "{expected:?}");
        }
    }

    #[test]
    fn the_first_line_tells_of_all_pus() {
        let (before, after) = ("cpu  100 0 50 800 10 0 0 40 0 0\ncpu0 1 1", "cpu  160 0 60 820 20 0 0 50 9 9\n");
        assert_eq!((ticks(before), ticks(after)), (Some((1000, 40)), Some((1110, 50))));
        assert_eq!((ticks(""), ticks("cpu 1 2"), ticks("cpu0 1 2 3 4 5 6 7 8")), (None, None, None));
        // 110 ticks, of which 30 idle or waiting for a disk.
        assert!(busy_share(before, after).is_some_and(|share| (share - 80.0 / 110.0).abs() < 1e-9));
        assert_eq!(busy_share(before, before), None);
        assert!(busy_before(0.05).is_none() && busy_before(0.5).unwrap().contains("50 %"));
    }
}
