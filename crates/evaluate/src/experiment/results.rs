//! What cells found, joined: a value for each program, machine, scaling, arm and measure.

use super::cells::{Cell, DETECTION};
use super::file::{Experiment, Take};
use std::collections::{BTreeMap, BTreeSet};

/// Something that is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    /// As files name it.
    pub name: &'static str,
    /// As people read it.
    pub about: &'static str,
    /// Its unit; empty for counts.
    pub unit: &'static str,
    /// Whether it is of a detector, not of a placement.
    pub of_detector: bool,
}

const fn measure(name: &'static str, about: &'static str, unit: &'static str) -> Measure {
    Measure { name, about, unit, of_detector: false }
}

const fn detected(name: &'static str, about: &'static str, unit: &'static str) -> Measure {
    Measure { name, about, unit, of_detector: true }
}

/// Every measure there is.
pub static MEASURES: &[Measure] = &[
    measure("time", "simulated time", "ms"),
    measure("invalidations", "copies that stores took away from other caches", ""),
    measure("cache-to-cache", "lines that came from other cores' caches", ""),
    measure("last-misses", "misses of the last caches", ""),
    measure("remote", "lines from behind another last cache or from another node's memory", ""),
    measure("queue", "waiting for memory controllers, together", "ms"),
    measure("link", "bytes over links between parts of the machine", "MiB"),
    measure("l1-loads", "loads that the L1 served", "%"),
    measure("local-loads", "of loads beyond the L2: served by memory of the own node", "%"),
    measure("remote-loads", "of loads beyond the L2: served by another node's memory or caches", "%"),
    detected("miss-rate", "misses of the detector's TLBs by accesses", "%"),
    detected("searched", "misses for which it searched", "%"),
    detected("overhead", "cycles of searching by the paper's figures, of a core's", "%"),
    detected("correlation", "with exact communication, over pairs", ""),
    detected("neighbours", "pairs (i, i + 1), over the mean of all pairs", ""),
    detected("distant", "pairs (i, i + n / 2) and (0, n - 1), over the mean of all pairs", ""),
    detected("variation", "standard deviation of all pairs, over their mean", ""),
];

/// What a cell found: by measure; in the cell of detection by detector, then measure.
pub type Values = BTreeMap<String, f64>;

/// Where a value belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The machine.
    pub machine: String,
    /// Whether its last caches are scaled.
    pub scaled: bool,
    /// The program.
    pub program: String,
}

/// Of several draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// What is taken: the mean, or that of the fastest draw.
    pub value: f64,
    /// Standard deviation over draws; none of one.
    pub deviation: Option<f64>,
    /// Draws.
    pub draws: usize,
}

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// By place, then by arm or detector, a draw each.
    found: BTreeMap<Place, BTreeMap<String, Vec<Values>>>,
    /// Arms with a cell in which nothing was placed.
    unplaced: BTreeSet<(Place, String)>,
}

impl Results {
    /// Takes what a cell found: by arm (or, of the cell of detection, by detector).
    pub fn take(&mut self, cell: &Cell, values: BTreeMap<String, Values>) {
        let place = Place { machine: cell.machine.clone(), scaled: cell.scaled, program: cell.program.clone() };
        if cell.arm != DETECTION && values.is_empty() {
            self.unplaced.insert((place.clone(), cell.arm.clone()));
        }
        let arms = self.found.entry(place).or_default();
        for (name, values) in values {
            let name = if cell.arm == DETECTION { name } else { cell.arm.clone() };
            arms.entry(name).or_default().push(values);
        }
    }

    /// Where there is anything.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.found.keys()
    }

    /// Whether an arm placed nothing, because its detector saw nothing.
    pub fn saw_nothing(&self, experiment: &Experiment, place: &Place, arm: &str) -> bool {
        self.unplaced.contains(&(place.clone(), arm.to_owned()))
            && self.summary(experiment, place, arm, "time").is_none()
    }

    /// What a measure is under an arm, or of a detector; none where nothing was found.
    pub fn summary(&self, experiment: &Experiment, place: &Place, arm: &str, measure: &str) -> Option<Summary> {
        let draws = self.found.get(place)?.get(arm)?;
        let values: Vec<f64> = draws.iter().filter_map(|values| values.get(measure).copied()).collect();
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = (values.len() > 1).then(|| (square / (values.len() - 1) as f64).sqrt());
        let value = match experiment.arm(arm).map(|arm| arm.take) {
            Some(Take::Fastest) => {
                let time = |values: &&Values| values.get("time").copied().unwrap_or(f64::INFINITY);
                *draws.iter().min_by(|a, b| time(a).total_cmp(&time(b)))?.get(measure)?
            }
            _ => mean,
        };
        Some(Summary { value, deviation, draws: values.len() })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Results of one program on one machine: (arm, measure, values of draws; none: nothing was placed).
    pub fn results(rows: &[(&str, &str, &[f64])]) -> (Results, Place) {
        let place = Place { machine: "harpertown".into(), scaled: false, program: "mg".into() };
        let mut results = Results::default();
        for (arm, measure, values) in rows {
            let cell = |draw| Cell {
                program: "mg".into(),
                machine: "harpertown".into(),
                scaled: false,
                arm: (*arm).to_owned(),
                draw,
            };
            if values.is_empty() {
                results.take(&cell(0), BTreeMap::new());
            }
            for (draw, value) in (0..).zip(*values) {
                let cell = cell(draw);
                let found = Values::from([((*measure).to_owned(), *value)]);
                results.take(&cell, BTreeMap::from([((*arm).to_owned(), found)]));
            }
        }
        (results, place)
    }

    #[test]
    fn draws_are_summed_up() {
        let experiment = Experiment::named("tlb2012").unwrap();
        let (results, place) = results(&[("OS", "time", &[1.0, 3.0]), ("SM", "time", &[2.5])]);
        let of = |arm| results.summary(&experiment, &place, arm, "time");
        assert_eq!(of("OS"), Some(Summary { value: 2.0, deviation: Some(2f64.sqrt()), draws: 2 }));
        assert_eq!(of("SM"), Some(Summary { value: 2.5, deviation: None, draws: 1 }));
        assert_eq!(of("HM"), None);
        let nothing = |results: &Results, arm| results.saw_nothing(&experiment, &place, arm);
        assert!(!nothing(&results, "OS") && !nothing(&results, "HM"));
        let (results, _) = self::results(&[("OS", "time", &[1.0]), ("HM", "time", &[])]);
        assert!(!nothing(&results, "OS") && nothing(&results, "HM") && !nothing(&results, "SM"));
    }
}
