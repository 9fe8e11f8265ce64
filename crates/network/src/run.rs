//! What a whole run is estimated to take: its phases, each as often as it comes (IBM report, 3.2).
//!
//! Where the profile has a trace, the run takes what doing that over again does ([`Replay`]), with a share for how full
//! ports are.
//!
//! Else, a profile that tells phases apart does not say how far they overlap: ranks go ahead of one another. The run
//! takes at least as long as all messages sent at once, and as the longest collective, order included; and at most as
//! all phases one after the other. It is estimated half-way (benches/estimates.md, "Phases").

use crate::Replay;
use crate::estimator::{Estimate, Total, estimate};
use crate::queues::{self, Followed};
use cohabit_model::profile::SentBy;
use cohabit_model::{Error, Result};
use cohabit_model::{Hct, Pattern};

/// How much the order of messages counts in phases that are no collective's, and where messages are asked for.
const ORDERED: f64 = 0.5;

/// A phase, and how much it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// How often it comes; of parts of a [`Phase::whole`] and of that itself a half.
    pub weight: f64,
    /// Whether it is the whole run sent at once, and the phases after it are its parts.
    pub is_whole: bool,
    /// What is sent in it.
    pub pattern: Pattern,
}

impl Phase {
    /// One that comes so many times.
    pub fn new(weight: f64, pattern: Pattern) -> Self {
        Self { weight, is_whole: false, pattern }
    }

    fn check(&self) -> Result<()> {
        match self.weight.is_finite() && self.weight >= 0.0 {
            true => Ok(()),
            false => Err(Error::new(format!("a phase has the weight {}", self.weight))),
        }
    }

    /// A run and the phases that are told apart in it.
    pub fn whole(run: Pattern, parts: impl IntoIterator<Item = Pattern>) -> Vec<Self> {
        let whole = Self { weight: 0.5, is_whole: true, pattern: run };
        std::iter::once(whole).chain(parts.into_iter().map(|part| Self::new(0.5, part))).collect()
    }
}

/// What is sent in a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Traffic {
    /// In phases.
    pub phases: Vec<Phase>,
    /// Message by message, where that is known.
    pub replay: Option<Replay>,
}

impl From<Vec<Phase>> for Traffic {
    fn from(phases: Vec<Phase>) -> Self {
        Self { phases, replay: None }
    }
}

/// What the phases of a run take under a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// All phases, each as often as it comes; the seconds are those of the replay, where there is one.
    pub total: Total,
    /// By phase, once each. Seconds are half-way between those of the last port, as if the order of messages did not
    /// matter, and those of [`queues::follow`], of a collective that does not ask these; and of a whole run at least
    /// those of the longest collective.
    pub phases: Vec<Estimate>,
    /// The seconds if all phases were sent at once, and if none began before the last was over everywhere; both are
    /// those of all phases where no parts of a whole run are told apart. Nothing of a replay is in them.
    pub extremes_s: [f64; 2],
    /// Whether there is a replay.
    pub is_replayed: bool,
}

/// Estimates a run; `mapping[task]` is a processing element of `hct`.
///
/// # Errors
/// As for [`estimate`], or a weight that is not a number from 0 on.
pub fn run(hct: &Hct, traffic: &Traffic, mapping: &[usize]) -> Result<Run> {
    let phases = &traffic.phases;
    let mut found = Vec::with_capacity(phases.len());
    for phase in phases {
        phase.check()?;
        let ports = estimate(hct, &phase.pattern, mapping)?;
        let followed = queues::follow(hct, &phase.pattern, mapping)?;
        let followed = followed.unwrap_or(Followed { seconds: ports.seconds, asks: false });
        // What an answer waits for is half chance, too.
        let is_certain = phase.pattern.by != SentBy::Program && !followed.asks;
        let ordered = if is_certain { 1.0 } else { ORDERED };
        found.push(Estimate { seconds: (1.0 - ordered) * ports.seconds + ordered * followed.seconds, ..ports });
    }
    let has_parts = phases.first().is_some_and(|first| first.is_whole);
    if let ([whole, parts @ ..], true) = (&mut found[..], has_parts) {
        let of_collectives = parts.iter().zip(&phases[1..]).filter(|(_, phase)| phase.pattern.by != SentBy::Program);
        whole.seconds = of_collectives.map(|(part, _)| part.seconds).fold(whole.seconds, f64::max);
    }
    let mut total = Total::default();
    phases.iter().zip(&found).for_each(|(phase, estimate)| total.add(phase.weight, estimate));
    let extremes_s = match &found[..] {
        [whole, parts @ ..] if has_parts => [whole.seconds, parts.iter().map(|part| part.seconds).sum()],
        _ => [total.seconds; 2],
    };
    if let Some(replay) = &traffic.replay {
        total.seconds = replay.seconds(hct, mapping)?;
    }
    Ok(Run { total, phases: found, extremes_s, is_replayed: traffic.replay.is_some() })
}

/// [`Run::total`] alone, which takes less time where there is a replay.
///
/// # Errors
/// As for [`run`].
pub fn total(hct: &Hct, traffic: &Traffic, mapping: &[usize]) -> Result<Total> {
    let Some(replay) = &traffic.replay else { return Ok(run(hct, traffic, mapping)?.total) };
    let mut total = Total::default();
    for phase in &traffic.phases {
        phase.check()?;
        total.add(phase.weight, &estimate(hct, &phase.pattern, mapping)?);
    }
    Ok(Total { seconds: replay.seconds(hct, mapping)?, ..total })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::Matrix;
    use cohabit_model::hct::Port;
    use cohabit_model::pattern::Messages;
    use cohabit_model::profile::{Kind, Meta, Profile};
    use cohabit_model::trace::{Does, Message, Operation, Trace};

    #[test]
    fn the_order_counts_half_and_the_longest_collective_bounds_the_whole() {
        let mut hct = Hct::new(None).unwrap();
        let mapping: Vec<usize> = (0..4).map(|_| hct.add_processing(0, Port::flat(100.0).unwrap()).unwrap()).collect();
        let message = |(source, destination)| Messages { source, destination, length: 100.0, count: 1 };
        let messages = |pairs: &[(usize, usize)]| pairs.iter().copied().map(message).collect::<Vec<_>>();
        let unknown = Pattern { tasks: 4, messages: messages(&[(0, 2), (0, 3), (1, 2), (1, 3)]), ..Pattern::default() };
        let ordered = Pattern { order: vec![0, 1, 0, 1], ..unknown.clone() };
        let followed = queues::follow(&hct, &ordered, &mapping).unwrap().unwrap().seconds;
        let of = |phases: &[Phase]| run(&hct, &phases.to_vec().into(), &mapping).unwrap();
        let [plain, half] = [&unknown, &ordered].map(|pattern| of(&[Phase::new(1.0, pattern.clone())]));
        assert!(followed > 3.0 && plain.total.seconds == 2.0, "{followed}");
        assert_eq!(
            (half.total.seconds, half.phases[0].bottleneck),
            ((2.0 + followed) / 2.0, plain.phases[0].bottleneck)
        );
        let collective = Pattern { by: SentBy::Collective, ..ordered.clone() };
        assert_eq!(of(&[Phase::new(1.0, collective)]).total.seconds, followed);
        let other = Pattern { messages: messages(&[(2, 0)]), ..unknown.clone() };
        let whole = Pattern { messages: [&unknown.messages[..], &other.messages].concat(), ..unknown.clone() };
        let collective = Pattern { by: SentBy::Collective, ..ordered.clone() };
        for (part, seconds, least) in [(ordered, half.total.seconds, 2.0), (collective, followed, followed)] {
            let found = of(&Phase::whole(whole.clone(), [part, other.clone()]));
            assert_eq!(found.extremes_s, [least, seconds + 1.0]);
            assert_eq!(found.total.seconds, (least + seconds + 1.0) / 2.0);
        }
        assert!(run(&hct, &vec![Phase::new(f64::NAN, unknown)].into(), &mapping).is_err());
    }

    #[test]
    fn a_replay_counts_and_leaves_phases_as_they_are() {
        let mut hct = Hct::new(None).unwrap();
        let mapping: Vec<usize> = (0..3).map(|_| hct.add_processing(0, Port::flat(100.0).unwrap()).unwrap()).collect();
        // From one to the next, and on when that has come: all at once it is over in a second, one by one in four.
        let messages = [(0, 1), (1, 2)].map(|(source, destination)| Message { source, destination, bytes: 100 });
        let operation = |does, message| Operation { does, message };
        let operations = vec![
            vec![operation(Does::Send, 0)],
            vec![operation(Does::Wait, 0), operation(Does::Send, 1)],
            vec![operation(Does::Wait, 1)],
        ];
        let trace = Trace { messages: messages.to_vec(), operations };
        let bytes = Matrix::from_triplets(3, [(0, 1, 100), (1, 2, 100)]);
        let meta = Meta::new(Kind::Ranks, "test", Vec::new());
        let profile = Profile { trace: Some(trace), ..Profile::new(meta, Matrix::zero(3), bytes) };
        let sent =
            [(0, 1), (1, 2)].map(|(source, destination)| Messages { source, destination, length: 100.0, count: 1 });
        let phases = vec![Phase::new(1.0, Pattern { tasks: 3, messages: sent.to_vec(), ..Pattern::default() })];
        let plain = run(&hct, &phases.clone().into(), &mapping).unwrap();
        let replay = Replay::of(&profile).unwrap();
        let replayed_s = replay.seconds(&hct, &mapping).unwrap();
        assert!(replayed_s > 4.0 && plain.total.seconds == 1.0, "{replayed_s}");
        let traffic = Traffic { phases, replay: Some(replay) };
        let found = run(&hct, &traffic, &mapping).unwrap();
        assert_eq!(found.total.seconds, replayed_s);
        assert!(found.is_replayed && !plain.is_replayed);
        assert_eq!((found.total.norm_s, found.extremes_s), (plain.total.norm_s, [1.0; 2]));
        assert_eq!(found.phases, plain.phases);
        assert_eq!(total(&hct, &traffic, &mapping).unwrap(), found.total);
        let wrong = Traffic { phases: vec![Phase::new(-1.0, Pattern { tasks: 3, ..Pattern::default() })], ..traffic };
        assert!(total(&hct, &wrong, &mapping).is_err());
    }
}
