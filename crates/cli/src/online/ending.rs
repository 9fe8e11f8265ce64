//! What an online session came to, in a sentence: whether there was anything to gain, and what was done about it.

use super::words::{not_worth, saves, shown};
use cohabit_evaluate::verdict::all_alike;
use cohabit_model::Topology;
use cohabit_online::gain::Gain;
use cohabit_online::policy::Verdict;
use cohabit_online::progress::Effect;

/// Whether there was anything to gain.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Ending {
    /// Whether a placement is better than others; none where that cannot be said.
    pub can_gain: Option<bool>,
    /// One sentence for people.
    pub text: String,
}

/// What was decided so far, as far as it says something of the whole.
#[derive(Debug, Default)]
pub struct Decisions {
    /// The last gain that tasks were moved for.
    moved: Option<Gain>,
    /// What came of those moves, where it is known, and whether they were undone.
    effect: Option<(Effect, bool)>,
    /// The last decision that says something of the pattern.
    last: Option<Verdict>,
}

impl Decisions {
    /// Takes note of a decision.
    pub fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::TooFewEvents | Verdict::Watching => {}
            Verdict::Moved(gain) => (self.moved, self.effect) = (Some(gain), None),
            Verdict::Proved(effect) => self.effect = Some((effect, false)),
            Verdict::Undone(effect) => self.effect = Some((effect, true)),
            _ => self.last = Some(verdict),
        }
    }

    /// What they come to for `tasks` on the PUs of `topology` that they might use.
    pub fn ending(&self, tasks: usize, topology: &Topology) -> Ending {
        let (can_gain, text) = match all_alike(tasks, topology) {
            Some(reason) => {
                let moved = if self.moved.is_some() { "; tasks were moved all the same (--always)" } else { "" };
                (Some(false), format!("nothing to gain: {reason}{moved}"))
            }
            None => self.moved.map_or_else(|| self.kept(tasks < topology.allowed().len()), |gain| self.moved(gain)),
        };
        Ending { can_gain, text }
    }

    fn moved(&self, gain: Gain) -> (Option<bool>, String) {
        match self.effect {
            Some((effect, true)) => {
                (Some(false), format!("nothing gained: a move hurt and was undone: {}", shown(effect)))
            }
            Some((effect, false)) => {
                (Some(true), format!("tasks were moved: {}; since then {}", saves(gain), shown(effect)))
            }
            None => {
                let measured =
                    "whether the program is faster for it, only runs with and without cohabit by turns can say";
                (Some(true), format!("tasks were moved: {}; {measured}", saves(gain)))
            }
        }
    }

    /// Where PUs stay idle, which ones may matter although no task is told apart from another.
    fn kept(&self, pus_stay_idle: bool) -> (Option<bool>, String) {
        match self.last {
            Some(Verdict::AllAlike) => {
                (Some(false), "nothing to gain: all PUs that were free are equally far from one another".to_owned())
            }
            Some(Verdict::NoStructure) if pus_stay_idle => {
                let text =
                    "all tasks communicate alike: which of them is where does not matter, which PUs stay idle may";
                (None, text.to_owned())
            }
            Some(Verdict::NoStructure) => {
                (Some(false), "nothing to gain: all tasks communicate alike, so no placement is better".to_owned())
            }
            Some(Verdict::Holds) => (
                Some(false),
                "nothing to gain: where the tasks were was as good as where the mapping has them".to_owned(),
            ),
            Some(Verdict::Crowds) => (
                None,
                "nothing was moved: the mapping would have had tasks share a PU while another is idle".to_owned(),
            ),
            Some(Verdict::Uncertain(gain)) => (None, format!("not sure of a gain: {}: it may be chance", saves(gain))),
            Some(Verdict::NotWorth(gain, saved)) => {
                (Some(false), format!("nothing to gain: {}", not_worth(gain, saved)))
            }
            Some(Verdict::TriedBefore(gain)) => {
                (Some(false), format!("nothing to gain: {}, but it was tried and hurt", saves(gain)))
            }
            Some(Verdict::TooSoon(gain)) => (Some(true), format!("over before tasks were moved: {}", saves(gain))),
            Some(Verdict::WouldMove(gain)) => (Some(true), format!("tasks would be moved: {}", saves(gain))),
            _ => (None, "nothing can be said of a gain: too few communication events".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAIN: Gain = Gain { before: 200.0, after: 50.0, deviation: 1.0 };

    #[test]
    fn a_session_comes_to_what_was_decided_last_and_says_something() {
        use Verdict::*;
        let two_nodes = Topology::load("pack:2 core:2 pu:1").unwrap();
        let saved = std::time::Duration::from_micros(20);
        for (verdicts, can_gain, text) in [
            (&[][..], None, "too few communication events"),
            (&[TooFewEvents, Uncertain(GAIN)], None, "distance cost 200 -> 50 (75 % less): it may be chance"),
            (
                &[Uncertain(GAIN), NotWorth(GAIN, saved), TooFewEvents],
                Some(false),
                "0.020 ms in a second: not worth the moves",
            ),
            (&[NotWorth(GAIN, saved), NoStructure], Some(false), "nothing to gain: all tasks communicate alike"),
            (&[Holds], Some(false), "nothing to gain: where the tasks were was as good"),
            (&[WouldMove(GAIN), TooFewEvents], Some(true), "tasks would be moved: distance cost 200 -> 50"),
            (&[TooSoon(GAIN)], Some(true), "over before tasks were moved"),
            (&[Moved(GAIN), Holds], Some(true), "only runs with and without cohabit"),
            (
                &[Moved(GAIN), Watching, Proved(Effect::Waiting(0.5, 0.25)), Holds],
                Some(true),
                "since then tasks waited for a PU 25 %",
            ),
            (
                &[Moved(GAIN), Undone(Effect::Waiting(0.1, 0.4)), TriedBefore(GAIN)],
                Some(false),
                "a move hurt and was undone",
            ),
            (&[Moved(GAIN), Proved(Effect::Unknown), Moved(GAIN)], Some(true), "only runs with and without cohabit"),
        ] {
            let mut decisions = Decisions::default();
            verdicts.iter().for_each(|&verdict| decisions.add(verdict));
            let ending = decisions.ending(4, &two_nodes);
            assert!(ending.can_gain == can_gain && ending.text.contains(text), "{verdicts:?}: {ending:?}");
        }
        let mut decisions = Decisions::default();
        decisions.add(NoStructure);
        let ending = decisions.ending(3, &two_nodes);
        assert!(ending.can_gain.is_none() && !ending.text.contains("nothing to gain"), "{ending:?}");
    }

    #[test]
    fn where_all_pus_are_alike_nothing_can_be_gained() {
        let mut decisions = Decisions::default();
        decisions.add(Verdict::AllAlike);
        let ending = decisions.ending(4, &Topology::load("l3:1 core:4 pu:1").unwrap());
        assert_eq!(ending.can_gain, Some(false));
        assert!(
            ending.text.starts_with("nothing to gain: all 4 PUs are equally far from one another"),
            "{}",
            ending.text
        );
        assert!(!ending.text.contains("moved"), "{}", ending.text);
        decisions.add(Verdict::Moved(GAIN));
        let text = decisions.ending(4, &Topology::load("l3:1 core:4 pu:1").unwrap()).text;
        assert!(text.starts_with("nothing to gain") && text.ends_with("moved all the same (--always)"), "{text}");
    }
}
