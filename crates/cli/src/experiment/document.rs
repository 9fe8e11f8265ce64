//! An experiment's results as JSON.

use cohabit_evaluate::experiment::{Experiment, Judged, MEASURES, Results, Verdict};
use serde_json::{Value, json};

/// What `--json` writes.
pub fn fields(experiment: &Experiment, results: &Results, judged: &[Judged], done: usize, of: usize) -> Value {
    json!({
        "experiment": experiment.name,
        "paper": experiment.paper,
        "cells": { "done": done, "of": of },
        "results": values(experiment, results),
        "claims": judged.iter().map(claim).collect::<Vec<_>>(),
    })
}

fn values(experiment: &Experiment, results: &Results) -> Vec<Value> {
    let detectors = cohabit_detect::DETECTORS.iter().map(|row| row.name);
    let names: Vec<&str> = experiment.arm.iter().map(|arm| arm.name.as_str()).chain(detectors).collect();
    let mut rows = Vec::new();
    for place in results.places() {
        for &name in &names {
            for measure in MEASURES {
                // An arm may be called as a detector is.
                let is_arm = experiment.arm(name).is_some();
                let Some(found) = results.summary(experiment, place, name, measure.name) else { continue };
                rows.push(json!({
                    "machine": place.machine, "scaled": place.scaled, "program": place.program,
                    (if is_arm && !measure.of_detector { "arm" } else { "detector" }): name,
                    "measure": measure.name, "unit": measure.unit,
                    "value": found.value, "standard_deviation": found.deviation, "draws": found.draws,
                }));
            }
        }
    }
    rows
}

fn claim(one: &Judged) -> Value {
    let (outcome, reason) = match &one.verdict {
        Verdict::CameOut => ("came out", None),
        Verdict::DidNot => ("did not", None),
        Verdict::NoResult(missing) => ("no result", Some(missing)),
        Verdict::CannotJudge(unseen) => ("cannot be judged", Some(unseen)),
        Verdict::CannotTry(reason) => ("cannot be tried", Some(reason)),
    };
    let ours: Vec<Value> =
        one.ours.iter().map(|(program, value)| json!({ "program": program, "value": value })).collect();
    json!({
        "says": one.says, "source": one.source, "machine": one.machine, "scaled": one.scaled,
        "paper_percent": one.paper_percent, "ours": ours, "in_percent": one.in_percent,
        "outcome": outcome, "reason": reason,
    })
}
