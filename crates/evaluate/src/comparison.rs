//! Mappings of one profile compared (IBM report, section 7.1): what each is estimated to cost, which port or switch it waits
//! for, and what it gains over the default mapping.

use crate::phases::Phase;
use cohabit_model::estimator::Resource;
use cohabit_model::{Error, Hct, Profile, Result, estimate};
use std::collections::BTreeMap;

/// A gain below this share of the run is none: two runs of the same mapping differ by more, and so do estimate and run.
pub const LEAST_GAIN: f64 = 0.01;

/// What communication takes under one mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// All phases, each as often as it comes.
    pub seconds: f64,
    /// The same by phase, in their order; once each.
    pub phases: Vec<cohabit_model::Estimate>,
    /// What phases wait for, the one that costs most first: seconds of all phases that wait for it.
    pub bottlenecks: Vec<(Resource, f64)>,
}

/// Estimates all phases; `mapping[task]` is a processing element.
///
/// # Errors
/// As for [`estimate`], or a weight that is not a number from 0 on.
pub fn cost(hct: &Hct, phases: &[Phase], mapping: &[usize]) -> Result<Cost> {
    let mut cost = Cost { seconds: 0.0, phases: Vec::with_capacity(phases.len()), bottlenecks: Vec::new() };
    let mut waits: BTreeMap<Resource, f64> = BTreeMap::new();
    for phase in phases {
        if !(phase.weight.is_finite() && phase.weight >= 0.0) {
            return Err(Error::new(format!("a phase has the weight {}", phase.weight)));
        }
        let estimate = estimate(hct, &phase.pattern, mapping)?;
        let seconds = phase.weight * estimate.seconds;
        cost.seconds += seconds;
        if let Some(resource) = estimate.bottleneck {
            *waits.entry(resource).or_default() += seconds;
        }
        cost.phases.push(estimate);
    }
    cost.bottlenecks = waits.into_iter().collect();
    cost.bottlenecks.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    Ok(cost)
}

/// The share of the run that ranks spend in MPI, over all of them; none where the profile does not know.
pub fn mpi_share(profile: &Profile) -> Option<f64> {
    let sum = |times: &[u64]| times.iter().map(|&ns| ns as f64).sum::<f64>();
    let (mpi, run) = (sum(&profile.mpi_ns), sum(&profile.run_ns));
    (!profile.mpi_ns.is_empty() && run > 0.0).then(|| (mpi / run).clamp(0.0, 1.0))
}

/// By which share of the whole run a mapping is predicted to be faster than the default one: the difference in cost
/// times the share of the time that is spent in MPI (7.1). Negative where it is slower; 0 where nothing is sent.
pub fn predicted_gain(default_seconds: f64, seconds: f64, mpi_share: f64) -> f64 {
    if default_seconds > 0.0 { (default_seconds - seconds) / default_seconds * mpi_share.clamp(0.0, 1.0) } else { 0.0 }
}

/// Which of the gains is the largest, where that is one: else the default mapping stays.
pub fn advised(gains: &[f64]) -> Option<usize> {
    let best = gains.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?;
    (*best.1 >= LEAST_GAIN).then_some(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::Pattern;
    use cohabit_model::estimator::Resource::Port;
    use cohabit_model::hct::Direction::{In, Out};
    use cohabit_model::pattern::Messages;

    /// One message from one task to the other.
    fn phase(weight: f64, source: usize, length: f64) -> Phase {
        let messages = vec![Messages { source, destination: 1 - source, length, count: 1 }];
        Phase { weight, pattern: Pattern { tasks: 2, messages } }
    }

    #[test]
    fn phases_are_weighted_and_say_what_they_wait_for() {
        let mut hct = Hct::new(None).unwrap();
        let port = |rate| cohabit_model::hct::Port::flat(rate).unwrap();
        let cpu = [hct.add_processing(0, port(100.0)).unwrap(), hct.add_processing(0, port(200.0)).unwrap()];
        let phases = [phase(3.0, 0, 100.0), phase(0.5, 1, 400.0), phase(2.0, 0, 0.0)];
        let found = cost(&hct, &phases, &cpu).unwrap();
        assert_eq!((found.seconds, found.phases.len()), (5.0, 3));
        assert_eq!(found.bottlenecks, [(Port(cpu[0], Out), 3.0), (Port(cpu[0], In), 2.0)]);
        assert!(cost(&hct, &[phase(f64::NAN, 0, 1.0)], &cpu).is_err());
    }

    #[test]
    fn gains_are_of_the_whole_run() {
        for (default, seconds, share, gain) in
            [(4.0, 3.0, 0.5, 0.125), (4.0, 5.0, 0.5, -0.125), (0.0, 0.0, 0.5, 0.0), (4.0, 2.0, 7.0, 0.5)]
        {
            assert_eq!(predicted_gain(default, seconds, share), gain);
        }
        for (gains, best) in [(&[][..], None), (&[-0.1, 0.0], None), (&[0.0005], None), (&[0.1, 0.2, 0.2], Some(1))] {
            assert_eq!(advised(gains), best);
        }
    }
}
