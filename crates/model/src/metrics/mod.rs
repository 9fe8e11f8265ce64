//! How structured communication is: the figures that say whether placement can help at all.
//!
//! - Communication locality, DeLoc eq. 8 and 9 (there after Diener et al., "Characterizing communication and page usage
//!   of parallel applications", 2015, who call it heterogeneity): pairs normalised to the strongest, then the mean
//!   over tasks of the variance of a task's pairs. 0 where all pairs are alike.
//! - Imbalance of the tasks' volumes, max / mean - 1 (Pearce et al., "Quantifying the effectiveness of load balance
//!   algorithms", 2012).
//! - Partners a task effectively has: the inverse Simpson index of its pairs (Hill number of order 2), which is k where
//!   it communicates with k others alike.
//! - Shares of all communication: between neighbours in number, and that the busiest task takes part in.
//!
//! These are of one matrix; DeLoc's five, of which concurrency needs the groups of its clustering and the DRAM ratio
//! performance counters, are rows of [`table`], and what they come to is [`advice`]. Pairs are the sum of both
//! directions, and the diagonal counts nowhere.

pub mod advice;
pub mod table;

use crate::Matrix;
use serde::Serialize;

/// Figures of one matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metrics {
    /// Tasks.
    pub tasks: usize,
    /// Tasks that communicate with any other.
    pub communicating_tasks: usize,
    /// Pairs (unordered) that communicate.
    pub pairs: u64,
    /// Sum over all pairs.
    pub total: u128,
    /// Communication locality, 0 to 0.5 or so.
    pub locality: f64,
    /// Standard deviation of all pairs, silent ones included, over their mean; 0 where there are no pairs.
    pub pair_variation: f64,
    /// Largest over mean volume of the tasks, less 1.
    pub imbalance: f64,
    /// Mean over the communicating tasks of the partners each effectively has.
    pub effective_partners: f64,
    /// Share between tasks whose numbers differ by 1, the first and the last task being neighbours too.
    pub neighbour_share: f64,
    /// The task that takes part in most, and the share it takes part in; none where nothing is communicated.
    pub busiest: Option<(u32, f64)>,
}

/// What kind of pattern it is, as far as placement goes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Structure {
    /// No two tasks communicate.
    Silent,
    /// There is only one pair.
    OnePair,
    /// All pairs are alike.
    Uniform,
    /// One task takes part in nearly everything.
    Hub {
        /// That task.
        task: u32,
        /// Its share.
        share: f64,
    },
    /// Most is between neighbours in number.
    Neighbours {
        /// Their share.
        share: f64,
    },
    /// Each task has few partners, whoever they are.
    FewPartners {
        /// How many, effectively.
        partners: f64,
    },
    /// Some pairs communicate more than others, but most communicate.
    Weak,
}

/// Pairs that vary by less than this are alike.
const ALIKE: f64 = 0.10;
/// A task with such a share of everything is a hub.
const HUB_SHARE: f64 = 0.80;
/// Neighbours with such a share of what goes beyond pairs that are all alike make the pattern theirs.
const NEIGHBOUR_SHARE: f64 = 0.60;
/// Of the others that a task could communicate with, so many at most are few.
const FEW_OF_OTHERS: f64 = 0.75;

/// The figures of `weight`, in time proportional to its entries.
pub fn metrics(weight: &Matrix) -> Metrics {
    let graph = weight.symmetric();
    let tasks = graph.len();
    let strongest = graph.iter().flatten().map(|&(_, value)| value).max().unwrap_or(0);
    let volumes: Vec<f64> = graph.iter().map(|row| row.iter().map(|&(_, value)| value as f64).sum()).collect();
    let twice_total: u128 = graph.iter().flatten().map(|&(_, value)| u128::from(value)).sum();
    let sum: f64 = volumes.iter().sum();
    let silent = sum == 0.0;
    let share = |part: f64| if silent { 0.0 } else { part / sum };
    let rows =
        |row: &Vec<(u32, u64)>| row.iter().map(|&(_, value)| value as f64 / strongest as f64).collect::<Vec<_>>();
    let locality = graph.iter().map(|row| variance(&rows(row), tasks.saturating_sub(1))).sum::<f64>();
    let communicating = volumes.iter().filter(|&&volume| volume > 0.0).count();
    let partners: f64 = graph.iter().map(|row| effective_partners(row)).sum();
    let is_neighbour = |a: usize, b: usize| a.abs_diff(b) == 1 || a.abs_diff(b) + 1 == tasks;
    let near = |(task, row): (usize, &Vec<(u32, u64)>)| {
        row.iter()
            .filter(|&&(other, _)| is_neighbour(task, other as usize))
            .map(|&(_, value)| value as f64)
            .sum::<f64>()
    };
    let busiest = volumes.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    Metrics {
        tasks,
        communicating_tasks: communicating,
        pairs: graph.iter().map(|row| row.len() as u64).sum::<u64>() / 2,
        total: twice_total / 2,
        locality: if silent { 0.0 } else { locality / tasks as f64 },
        pair_variation: pair_variation(&graph),
        imbalance: if silent { 0.0 } else { volumes.iter().copied().fold(0.0, f64::max) * tasks as f64 / sum - 1.0 },
        effective_partners: partners / communicating.max(1) as f64,
        // A sum of nothing is -0.0.
        neighbour_share: share(0.0 + graph.iter().enumerate().map(near).sum::<f64>()),
        busiest: busiest.filter(|_| !silent).map(|(task, volume)| (task as u32, 2.0 * share(*volume))),
    }
}

impl Metrics {
    /// What kind of pattern these figures are of.
    pub fn structure(&self) -> Structure {
        let (hub, hub_share) = self.busiest.unwrap_or_default();
        let others = self.tasks.saturating_sub(1).max(1) as f64;
        // Of four tasks that all communicate alike two thirds is between neighbours.
        let neighbours = NEIGHBOUR_SHARE + (1.0 - NEIGHBOUR_SHARE) * (2.0 / others).min(1.0);
        let few = (self.communicating_tasks as f64 / 4.0).max(2.5).min(FEW_OF_OTHERS * others);
        if self.total == 0 {
            Structure::Silent
        } else if self.pairs == 1 {
            Structure::OnePair
        } else if self.pair_variation < ALIKE {
            Structure::Uniform
        } else if hub_share >= HUB_SHARE && self.communicating_tasks > 3 {
            Structure::Hub { task: hub, share: hub_share }
        } else if self.neighbour_share >= neighbours && self.tasks > 3 {
            Structure::Neighbours { share: self.neighbour_share }
        } else if self.effective_partners <= few {
            Structure::FewPartners { partners: self.effective_partners }
        } else {
            Structure::Weak
        }
    }
}

impl Structure {
    /// Whether it may matter which task is where, as far as the pattern goes. Where it does not, but tasks communicate
    /// and PUs are more than these, it may still matter which PUs stay idle.
    pub fn can_gain(self) -> bool {
        !matches!(self, Self::Silent | Self::Uniform)
    }

    /// One sentence for people, of a pattern beside which tasks had `channels` that nobody looked into
    /// ([`crate::profile::Meta::unseen_channels`]): what goes through these may be all there is.
    pub fn sentence_beside(self, noun: [&str; 2], channels: &[String]) -> String {
        if self.can_gain() || channels.is_empty() {
            return self.sentence_of(noun);
        }
        let what = match self {
            Self::Silent => format!("no two {} communicate", noun[1]),
            _ => "all pairs communicate alike".to_owned(),
        };
        let channels = channels.join(" and ");
        format!(
            "{what} through memory; what goes through {channels} is not seen, so what placement can gain is not known"
        )
    }

    /// One sentence for people.
    pub fn sentence(self) -> String {
        self.sentence_of(["task", "tasks"])
    }

    /// The same of tasks that are called otherwise: one of them, and several.
    pub fn sentence_of(self, [one, several]: [&str; 2]) -> String {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        match self {
            Self::Silent => format!("no two {several} communicate: there is nothing to place them by"),
            Self::OnePair => format!("one pair of {several} communicates: put the two together"),
            Self::Uniform => {
                format!("all pairs communicate alike: which {one} is where does not matter, which PUs stay idle may")
            }
            Self::Hub { task, share } => {
                let share = percent(share);
                format!(
                    "{one} {task} takes part in {share} of all communication: what matters is how near it is to the rest"
                )
            }
            Self::Neighbours { share } => {
                format!(
                    "the {several} communicate mostly with neighbours in number ({} of it): placement can help",
                    percent(share)
                )
            }
            Self::FewPartners { partners } => {
                format!("the {several} communicate mostly with {partners:.1} others each: placement can help")
            }
            Self::Weak => "most pairs communicate, some more than others: placement can help a little".into(),
        }
    }
}

/// Sample variance of `count` values, those not listed being 0; 0 for fewer than two.
fn variance(values: &[f64], count: usize) -> f64 {
    if count < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / count as f64;
    let listed: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (listed + (count - values.len()) as f64 * mean * mean) / (count - 1) as f64
}

fn effective_partners(row: &[(u32, u64)]) -> f64 {
    let sum: f64 = row.iter().map(|&(_, value)| value as f64).sum();
    let simpson: f64 = row.iter().map(|&(_, value)| (value as f64 / sum).powi(2)).sum();
    if sum == 0.0 { 0.0 } else { 1.0 / simpson }
}

fn pair_variation(graph: &[Vec<(u32, u64)>]) -> f64 {
    let above = |(task, row): (usize, &Vec<(u32, u64)>)| {
        row.iter().filter(|&&(other, _)| other as usize > task).map(|&(_, value)| value as f64).collect::<Vec<_>>()
    };
    let values: Vec<f64> = graph.iter().enumerate().flat_map(above).collect();
    let count = graph.len() * graph.len().saturating_sub(1) / 2;
    let mean = values.iter().sum::<f64>() / count.max(1) as f64;
    if mean == 0.0 { 0.0 } else { variance(&values, count).sqrt() / mean }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tasks: u32, value: impl Fn(u32, u32) -> u64) -> Metrics {
        let value = &value;
        let entries = (0..tasks).flat_map(|a| (0..tasks).map(move |b| (a, b, value(a, b))));
        metrics(&Matrix::from_triplets(tasks as usize, entries))
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    }

    #[test]
    fn a_ring() {
        let ring = of(8, |a, b| if (a + 1) % 8 == b { 10 } else { 0 });
        assert_eq!((ring.pairs, ring.total, ring.communicating_tasks), (8, 80, 8));
        close(ring.effective_partners, 2.0);
        close(ring.neighbour_share, 1.0);
        close(ring.imbalance, 0.0);
        // Two ones among seven: mean 2/7, variance (2 * 25 + 5 * 4) / 49 / 6.
        close(ring.locality, 70.0 / 49.0 / 6.0);
        assert_eq!(ring.structure(), Structure::Neighbours { share: 1.0 });
    }

    #[test]
    fn every_structure_is_told() {
        let cases = [
            (of(0, |_, _| 0), Structure::Silent),
            (of(4, |a, b| u64::from(a == b)), Structure::Silent),
            (of(4, |a, b| u64::from(a == 0 && b == 2)), Structure::OnePair),
            (of(8, |a, b| if a == b { 0 } else { 100 + u64::from(a + b) % 3 }), Structure::Uniform),
            (of(8, |a, b| u64::from(a == 2) * u64::from(b != 2)), Structure::Hub { task: 2, share: 1.0 }),
            (of(16, |a, b| u64::from(a + 8 == b)), Structure::FewPartners { partners: 1.0 }),
            (of(8, |a, b| if a == b { 0 } else { u64::from((a * b) % 3 + 1) }), Structure::Weak),
            // Few tasks have few others, and most of those are neighbours: that says nothing by itself.
            (of(4, |a, b| if a == b { 0 } else { 4 + u64::from(a + b == 3) }), Structure::Weak),
            (of(4, |a, b| if a == b { 0 } else { 6 - 3 * u64::from(a + b == 2) }), Structure::Weak),
            (of(3, |a, b| if a == b { 0 } else { 4 + u64::from(a + b) }), Structure::Weak),
            (of(3, |a, b| u64::from(a == 0 && b > 0)), Structure::FewPartners { partners: 4.0 / 3.0 }),
        ];
        for (metrics, expected) in cases {
            assert_eq!(metrics.structure(), expected, "{metrics:?}");
            assert!(!expected.sentence().is_empty());
            // Of pairs that are all alike the machine decides.
            let is_silent = expected == Structure::Silent;
            assert_eq!(expected.sentence().contains("nothing to place them by"), is_silent);
            assert_eq!(expected.can_gain(), !is_silent && expected != Structure::Uniform);
        }
    }

    #[test]
    fn what_goes_through_unseen_channels_may_be_all_there_is() {
        let rows = [
            (Structure::Silent, &[][..], "no two tasks communicate: there is nothing to place them by"),
            (
                Structure::Uniform,
                &[],
                "all pairs communicate alike: which task is where does not matter, which PUs stay idle may",
            ),
            (
                Structure::Silent,
                &["sockets"],
                "no two tasks communicate through memory; what goes through sockets is not",
            ),
            (
                Structure::Uniform,
                &["sockets", "pipes"],
                "alike through memory; what goes through sockets and pipes is not",
            ),
            (Structure::OnePair, &["sockets"], "one pair of tasks communicates: put the two together"),
        ];
        for (structure, channels, expected) in rows {
            let channels: Vec<String> = channels.iter().map(ToString::to_string).collect();
            let said = structure.sentence_beside(["task", "tasks"], &channels);
            assert!(said.contains(expected), "{said}");
            assert!(channels.is_empty() || !said.contains("nothing to place them by"), "{said}");
        }
    }

    #[test]
    fn uniform_has_no_locality_and_extremes_do_not_overflow() {
        let uniform = of(5, |a, b| if a == b { 0 } else { u64::MAX });
        close(uniform.locality, 0.0);
        close(uniform.pair_variation, 0.0);
        assert!(uniform.effective_partners > 3.99 && uniform.total > u128::from(u64::MAX));
        let busiest = of(3, |a, b| u64::from(a == 1 && b == 0) * 3 + u64::from(a == 1 && b == 2)).busiest.unwrap();
        assert_eq!(busiest, (1, 1.0));
    }
}
