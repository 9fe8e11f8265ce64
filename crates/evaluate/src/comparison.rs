//! Mappings of one profile compared (IBM report, section 7.1): what each is estimated to cost, which port or switch it
//! waits for, and what it gains over the default mapping.

use cohabit_model::Hct;
use cohabit_model::{Profile, Result};
use cohabit_network::estimator::Resource;
use cohabit_network::{Run, Traffic, run};
use std::collections::BTreeMap;

/// A gain below this share of the run is none: two runs of the same mapping differ by more.
const LEAST_GAIN: f64 = 0.01;

/// Nor is one below this share of the communication: mappings that are estimated nearer to each other than that are
/// faster or slower by up to a tenth as it happens (benches/cluster.md).
const LEAST_SAVED: f64 = 0.07;

/// From this share on a replay is enough by itself; below it, the estimates by phases have to agree.
const LEAST_REPLAYED: f64 = 0.1;

/// What a mapping is predicted to save against the default one. Negative where it is slower; 0 where nothing is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The share of the communication's estimated time.
    pub saved: f64,
    /// The share of the whole run: that, times the share of the time that is spent in MPI (7.1).
    pub gain: f64,
    /// The share of the communication that is saved at least, whether phases overlap or not ([`Run::extremes_s`]).
    pub certain: f64,
    /// Whether the run was done over again, message by message ([`cohabit_network::replay`]).
    pub is_replayed: bool,
}

impl Prediction {
    /// The prediction for a mapping, by what its communication costs and that of the default one.
    pub fn new(default: &Cost, mapping: &Cost, mpi_share: f64) -> Self {
        let share = |default: f64, seconds: f64| if default > 0.0 { (default - seconds) / default } else { 0.0 };
        let saved = share(default.run.total.seconds, mapping.run.total.seconds);
        let of_extremes = default.run.extremes_s.iter().zip(&mapping.run.extremes_s);
        let certain = of_extremes.map(|(&default, &seconds)| share(default, seconds)).fold(saved, f64::min);
        Self { saved, gain: saved * mpi_share.clamp(0.0, 1.0), certain, is_replayed: mapping.run.is_replayed }
    }

    /// Whether nothing is saved, to a tenth of a percent of the run.
    pub fn is_none(&self) -> bool {
        self.gain < 0.0005
    }

    /// Whether it is worth leaving the default mapping for.
    pub fn is_gain(&self) -> bool {
        self.is_enough() && self.is_certain()
    }

    /// Whether it would be by the estimate, and is not both with all phases at once and with one after the other.
    pub fn is_uncertain(&self) -> bool {
        self.is_enough() && !self.is_certain()
    }

    fn is_certain(&self) -> bool {
        self.certain >= LEAST_SAVED || self.is_replayed && self.saved >= LEAST_REPLAYED
    }

    fn is_enough(&self) -> bool {
        self.saved >= LEAST_SAVED && self.gain >= LEAST_GAIN
    }
}

/// What communication takes under one mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// How long, by phase and in all.
    pub run: Run,
    /// What phases wait for, the one that costs most first: seconds of all phases that wait for it.
    pub bottlenecks: Vec<(Resource, f64)>,
}

/// Estimates a run; `mapping[task]` is a processing element.
///
/// # Errors
/// As for [`run`].
pub fn cost(hct: &Hct, traffic: &Traffic, mapping: &[usize]) -> Result<Cost> {
    let run = run(hct, traffic, mapping)?;
    let mut waits: BTreeMap<Resource, f64> = BTreeMap::new();
    for (phase, estimate) in traffic.phases.iter().zip(&run.phases) {
        if let Some(resource) = estimate.bottleneck {
            *waits.entry(resource).or_default() += phase.weight * estimate.seconds;
        }
    }
    let mut bottlenecks: Vec<(Resource, f64)> = waits.into_iter().collect();
    bottlenecks.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    Ok(Cost { run, bottlenecks })
}

/// The share of the run that ranks spend in MPI, over all of them; none where the profile does not know.
pub fn mpi_share(profile: &Profile) -> Option<f64> {
    let sum = |times: &[u64]| times.iter().map(|&ns| ns as f64).sum::<f64>();
    let (mpi, run) = (sum(&profile.mpi_ns), sum(&profile.run_ns));
    (!profile.mpi_ns.is_empty() && run > 0.0).then(|| (mpi / run).clamp(0.0, 1.0))
}

/// Which mapping is predicted to save most, the first of them.
pub fn largest(predictions: &[Prediction]) -> Option<usize> {
    let numbers = 0..predictions.len();
    numbers.max_by(|&a, &b| predictions[a].saved.total_cmp(&predictions[b].saved).then(b.cmp(&a)))
}

/// Which of those that are a gain saves most, the first of them; where none is, the default mapping stays.
pub fn advised(predictions: &[Prediction]) -> Option<usize> {
    let gains: Vec<usize> = (0..predictions.len()).filter(|&number| predictions[number].is_gain()).collect();
    let of_gains: Vec<Prediction> = gains.iter().map(|&number| predictions[number]).collect();
    largest(&of_gains).map(|best| gains[best])
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::Pattern;
    use cohabit_model::hct::Direction::{In, Out};
    use cohabit_model::pattern::Messages;
    use cohabit_network::estimator::Resource::Port;
    use cohabit_network::{Phase, Total};

    /// One message from one task to the other.
    fn phase(weight: f64, source: usize, length: f64) -> Phase {
        let messages = vec![Messages { source, destination: 1 - source, length, count: 1 }];
        Phase::new(weight, Pattern { tasks: 2, messages, ..Pattern::default() })
    }

    #[test]
    fn phases_are_weighted_and_say_what_they_wait_for() {
        let mut hct = Hct::new(None).unwrap();
        let port = |rate| cohabit_model::hct::Port::flat(rate).unwrap();
        let cpu = [hct.add_processing(0, port(100.0)).unwrap(), hct.add_processing(0, port(200.0)).unwrap()];
        let phases = vec![phase(3.0, 0, 100.0), phase(0.5, 1, 400.0), phase(2.0, 0, 0.0)];
        let found = cost(&hct, &phases.into(), &cpu).unwrap();
        // With two below the root what leaves one enters the other: one wire.
        assert_eq!((found.run.total, found.run.phases.len()), (Total { seconds: 5.0, norm_s: 5.0 }, 3));
        assert_eq!(found.bottlenecks, [(Port(cpu[0], Out), 3.0), (Port(cpu[0], In), 2.0)]);
        assert_eq!(found.run.extremes_s, [5.0; 2]);
        assert!(cost(&hct, &vec![phase(f64::NAN, 0, 1.0)].into(), &cpu).is_err());
    }

    /// What takes so long whether phases overlap or not, and by both.
    fn costs(seconds: f64, extremes_s: [f64; 2]) -> Cost {
        let total = Total { seconds, norm_s: seconds };
        Cost { run: Run { total, phases: Vec::new(), extremes_s, is_replayed: false }, bottlenecks: Vec::new() }
    }

    fn prediction(default: f64, seconds: f64, share: f64) -> Prediction {
        Prediction::new(&costs(default, [default; 2]), &costs(seconds, [seconds; 2]), share)
    }

    #[test]
    fn gains_are_of_the_whole_run() {
        for (default, seconds, share, gain) in
            [(4.0, 3.0, 0.5, 0.125), (4.0, 5.0, 0.5, -0.125), (0.0, 0.0, 0.5, 0.0), (4.0, 2.0, 7.0, 0.5)]
        {
            assert_eq!(prediction(default, seconds, share).gain, gain);
        }
        // Of 100 s with another mapping, in a program that spends half of its time in MPI.
        let all = |seconds: &[f64]| -> Vec<Prediction> {
            seconds.iter().map(|&seconds| prediction(100.0, seconds, 0.5)).collect()
        };
        for (seconds, best, saves) in [
            (&[][..], None, None),
            (&[110.0, 100.0], Some(1), None),
            (&[94.0], Some(0), None),
            (&[92.0], Some(0), Some(0)),
            (&[90.0, 80.0, 80.0], Some(1), Some(1)),
        ] {
            assert_eq!((largest(&all(seconds)), advised(&all(seconds))), (best, saves), "{seconds:?}");
        }
        assert!(prediction(100.0, 99.95, 0.5).is_none() && !prediction(100.0, 99.0, 0.5).is_none());
        // Much of a communication that takes no time.
        assert_eq!(advised(&[prediction(100.0, 50.0, 0.01)]), None);
    }

    #[test]
    fn what_is_a_gain_only_if_phases_do_not_overlap_is_none() {
        let default = costs(0.6, [0.4, 0.8]);
        let of = |seconds: f64, extremes_s: [f64; 2]| Prediction::new(&default, &costs(seconds, extremes_s), 1.0);
        let only_apart = of(0.5, [0.4, 0.6]);
        let both = of(0.54, [0.36, 0.72]);
        let little = of(0.59, [0.4, 0.78]);
        assert!(only_apart.is_uncertain() && !only_apart.is_gain() && only_apart.certain == 0.0);
        assert!(both.is_gain() && !both.is_uncertain());
        assert!(!little.is_gain() && !little.is_uncertain());
        assert_eq!((largest(&[only_apart, both, little]), advised(&[only_apart, both, little])), (Some(0), Some(1)));
        // A replay that saves a tenth is enough, whatever phases say.
        for (seconds, is_gain) in [(0.53, true), (0.55, false)] {
            let mut replayed = costs(seconds, [0.4, 0.8]);
            replayed.run.is_replayed = true;
            let found = Prediction::new(&default, &replayed, 1.0);
            assert_eq!((found.is_gain(), found.is_uncertain()), (is_gain, !is_gain), "{seconds}");
        }
        assert_eq!(advised(&[only_apart, little]), None);
    }

    #[test]
    fn extremes_are_all_at_once_and_one_after_the_other() {
        let mut hct = Hct::new(None).unwrap();
        let port = || cohabit_model::hct::Port::flat(100.0).unwrap();
        let cpu: Vec<usize> = (0..4).map(|_| hct.add_processing(0, port()).unwrap()).collect();
        let messages = |pairs: &[(usize, usize, f64)]| {
            let message = |&(source, destination, length)| Messages { source, destination, length, count: 1 };
            Pattern { tasks: 4, messages: pairs.iter().map(message).collect(), ..Pattern::default() }
        };
        let (one, other) = ([(0, 1, 100.0)], [(2, 3, 300.0)]);
        let parts = [messages(&one), messages(&other)];
        let phases = Phase::whole(messages(&[one[0], other[0]]), parts);
        let found = cost(&hct, &phases.into(), &cpu).unwrap();
        assert_eq!((found.run.extremes_s, found.run.total.seconds), ([3.0, 4.0], 3.5));
    }
}
