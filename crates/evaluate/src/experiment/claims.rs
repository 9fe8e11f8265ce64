//! Which of a paper's statements came out.
//!
//! A change in numbers comes out where ours has its direction: less, more, or no more than the floor either way. Its
//! size is shown and not judged: what is simulated is a smaller input on a model of the machine.

use super::file::{Change, Claim, Expect, Experiment};
use super::results::{Place, Results};
use std::collections::BTreeMap;

/// How it went.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// As the paper says.
    CameOut,
    /// Otherwise.
    DidNot,
    /// What it is about has not been run, or not all of it, or cannot be divided by: of which programs.
    NoResult(String),
    /// An arm that it is about placed nothing, because its detector saw nothing: of which programs.
    CannotJudge(String),
    /// It cannot be tried, and why.
    CannotTry(String),
}

/// A statement and how it went.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What is said.
    pub says: String,
    /// Where.
    pub source: String,
    /// On which machine; none where it was not tried.
    pub machine: Option<String>,
    /// Whether its last caches were scaled; none where it was not tried.
    pub scaled: Option<bool>,
    /// What the paper found, in percent.
    pub paper_percent: Option<f64>,
    /// What was found here, by program: a change in percent, or a number.
    pub ours: Vec<(String, f64)>,
    /// Whether these are changes in percent.
    pub in_percent: bool,
    /// How it went.
    pub verdict: Verdict,
}

/// Judges all statements of an experiment on each machine and scaling that there are results of.
pub fn judge(experiment: &Experiment, results: &Results) -> Vec<Judged> {
    let mut places: BTreeMap<(&str, bool), Vec<&Place>> = BTreeMap::new();
    for place in results.places() {
        places.entry((&place.machine, place.scaled)).or_default().push(place);
    }
    let mut judged = Vec::new();
    for (&(machine, scaled), places) in &places {
        let at = Judgement { experiment, results, machine, scaled, places };
        for change in &experiment.change {
            judged.extend(change.percent.iter().filter_map(|(program, percent)| at.change(change, program, *percent)));
        }
        judged.extend(experiment.claim.iter().filter_map(|claim| at.claim(claim)));
    }
    judged.extend(experiment.not_tried.iter().map(|not| Judged {
        says: not.says.clone(),
        source: not.source.clone(),
        machine: None,
        scaled: None,
        paper_percent: None,
        ours: Vec::new(),
        in_percent: false,
        verdict: Verdict::CannotTry(not.reason.clone()),
    }));
    judged
}

struct Judgement<'a> {
    experiment: &'a Experiment,
    results: &'a Results,
    machine: &'a str,
    scaled: bool,
    places: &'a [&'a Place],
}

impl Judgement<'_> {
    fn judged(&self, says: String, source: &str, ours: Vec<(String, f64)>, verdict: Verdict) -> Judged {
        Judged {
            says,
            source: source.to_owned(),
            machine: Some(self.machine.to_owned()),
            scaled: Some(self.scaled),
            paper_percent: None,
            ours,
            in_percent: true,
            verdict,
        }
    }

    /// By how many percent a measure changes.
    fn percent(&self, program: &str, measure: &str, arm: &str, over: &str) -> Option<f64> {
        let value = |arm| self.value(program, measure, arm);
        let (of, over) = (value(arm)?, value(over)?);
        match (of, over) {
            (0.0, 0.0) => Some(0.0),
            (_, 0.0) => None,
            _ => Some(100.0 * (of / over - 1.0)),
        }
    }

    fn value(&self, program: &str, measure: &str, arm: &str) -> Option<f64> {
        let place = self.places.iter().find(|place| place.program == program)?;
        self.results.summary(self.experiment, place, arm, measure).map(|summary| summary.value)
    }

    /// Why there is no result of these programs under one of these arms.
    fn without_result(&self, programs: &[&str], arms: &[&str]) -> Verdict {
        let saw_nothing = |program: &&&str| {
            let place = self.places.iter().find(|place| place.program == **program);
            place.is_some_and(|place| arms.iter().any(|arm| self.results.saw_nothing(self.experiment, place, arm)))
        };
        let unseen: Vec<&str> = programs.iter().filter(saw_nothing).copied().collect();
        match unseen.is_empty() {
            true => Verdict::NoResult(programs.join(", ")),
            false => Verdict::CannotJudge(unseen.join(", ")),
        }
    }

    fn change(&self, change: &Change, program: &str, percent: f64) -> Option<Judged> {
        // What the suite at hand lacks is said once, in words.
        if !self.experiment.programs.iter().any(|known| known == program) {
            return None;
        }
        let says = format!("{program}: {} under {} over {}", change.measure, change.arm, change.over);
        let floor = self.experiment.floor_percent;
        let expect = if percent < -floor {
            Expect::Less
        } else if percent > floor {
            Expect::More
        } else {
            Expect::Same
        };
        let found = self.percent(program, &change.measure, &change.arm, &change.over);
        let (ours, verdict) = match found {
            Some(ours) => (vec![(program.to_owned(), ours)], verdict(holds(expect, ours, floor))),
            None => {
                let arms = [change.arm.as_str(), &change.over];
                (Vec::new(), self.without_result(&[program], &arms))
            }
        };
        Some(Judged { paper_percent: Some(percent), ..self.judged(says, &change.source, ours, verdict) })
    }

    fn claim(&self, claim: &Claim) -> Option<Judged> {
        if claim.machine.as_deref().is_some_and(|machine| machine != self.machine) {
            return None;
        }
        let named = if claim.programs.is_empty() { &self.experiment.programs } else { &claim.programs };
        let found = |program: &str| match &claim.over {
            Some(over) => self.percent(program, &claim.measure, &claim.arm, over),
            None => self.value(program, &claim.measure, &claim.arm),
        };
        let held = |found: f64| match claim.than {
            Some(than) => holds(claim.expect, found - than, 0.0),
            None => holds(claim.expect, found, self.experiment.floor_percent),
        };
        let (mut ours, mut missing) = (Vec::new(), Vec::new());
        for program in named {
            match found(program) {
                Some(found) => ours.push((program.clone(), found)),
                None => missing.push(program.as_str()),
            }
        }
        let mean = ours.iter().map(|(_, found)| found).sum::<f64>() / ours.len().max(1) as f64;
        let all = if claim.average { held(mean) } else { ours.iter().all(|&(_, found)| held(found)) };
        let verdict = match (ours.is_empty(), all, missing.is_empty()) {
            // One that does not is enough, whatever the others would; a mean is of all.
            (false, false, is_whole) if is_whole || !claim.average => Verdict::DidNot,
            (false, true, true) => Verdict::CameOut,
            _ => {
                let arms: Vec<&str> = std::iter::once(&claim.arm).chain(&claim.over).map(String::as_str).collect();
                self.without_result(&missing, &arms)
            }
        };
        if claim.average && missing.is_empty() {
            ours.insert(0, ("mean".to_owned(), mean));
        }
        Some(Judged {
            in_percent: claim.over.is_some(),
            ..self.judged(claim.says.clone(), &claim.source, ours, verdict)
        })
    }
}

fn verdict(came_out: bool) -> Verdict {
    if came_out { Verdict::CameOut } else { Verdict::DidNot }
}

fn holds(expect: Expect, found: f64, floor: f64) -> bool {
    match expect {
        Expect::Less => found < -floor,
        Expect::More => found > floor,
        Expect::Same => found.abs() <= floor,
        Expect::NotMore => found <= floor,
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    fn of<'a>(judged: &'a [Judged], says: &str) -> &'a Judged {
        judged.iter().find(|judged| judged.says.starts_with(says)).unwrap()
    }

    #[test]
    fn directions_are_judged_and_what_is_not_there_is_said() {
        let experiment = Experiment::named("tlb2012").unwrap();
        // The paper: time -4.3 % under SM, snoops -64 %.
        for (sm, came_out) in [(90.0, true), (98.0, false), (120.0, false)] {
            let (results, _) = results(&[("OS", "time", &[99.0, 101.0]), ("SM", "time", &[sm])]);
            let judged = judge(&experiment, &results);
            let row = of(&judged, "mg: time under SM over OS");
            assert_eq!(row.verdict, verdict(came_out), "{sm}");
            assert_eq!((row.machine.as_deref(), row.scaled), (Some("harpertown"), Some(false)));
            assert!((row.ours[0].1 - (sm - 100.0)).abs() < 1e-9);
            assert_eq!(of(&judged, "mg: time under HM").verdict, Verdict::NoResult("mg".to_owned()));
            assert!(matches!(of(&judged, "Standard deviations").verdict, Verdict::CannotTry(_)));
            // Of all programs: one that does not is enough; one that does is not.
            let all = of(&judged, "In all benchmarks performance is no worse than the system scheduler's (SM)");
            match sm > 103.0 {
                true => assert_eq!(all.verdict, Verdict::DidNot),
                false => assert!(matches!(&all.verdict, Verdict::NoResult(missing) if missing.contains("bt"))),
            }
        }
    }

    /// A detector that saw nothing has no mapping, and so no gain of its own.
    #[test]
    fn what_rests_on_a_detector_that_saw_nothing_cannot_be_judged() {
        let experiment = Experiment::named("tlb2012").unwrap();
        let (results, _) = results(&[("OS", "time", &[100.0]), ("SM", "time", &[90.0]), ("HM", "time", &[])]);
        let judged = judge(&experiment, &results);
        assert_eq!(of(&judged, "mg: time under SM over OS").verdict, Verdict::CameOut);
        assert_eq!(of(&judged, "mg: time under HM over OS").verdict, Verdict::CannotJudge("mg".to_owned()));
        let all = of(&judged, "In all benchmarks performance is no worse than the system scheduler's (HM)");
        assert_eq!(all.verdict, Verdict::CannotJudge("mg".to_owned()));
    }

    #[test]
    fn numbers_are_compared_without_a_floor() {
        let experiment = Experiment::named("tlb2012").unwrap();
        let (results, _) = results(&[("tlb-sm", "neighbours", &[1.3]), ("tlb-sm-1", "neighbours", &[2.6])]);
        let judged = judge(&experiment, &results);
        let row = of(&judged, "MG: all misses");
        assert_eq!((row.verdict.clone(), row.in_percent), (Verdict::CameOut, true));
        let neighbours = of(&judged, "SM: neighbours");
        assert_eq!((neighbours.ours.clone(), neighbours.in_percent), (vec![("mg".to_owned(), 1.3)], false));
    }
}
