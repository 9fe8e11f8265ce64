//! `best` without some of its parts against all of them: the same problems and budgets, one after the other.

use super::{Asked, budgets, instances, measured, tasks_of, without};
use cohabit_map::mappers::best::Best;
use cohabit_map::mappers::best::context::PARTS;
use cohabit_map::{Mapper, Problem};
use std::collections::BTreeMap;

/// The parts to leave out, several at once joined by `+`: those asked for, or nothing and then each by itself; none
/// where neither is asked for.
pub fn parts(some: Option<String>, each: bool) -> Option<Vec<String>> {
    match some {
        Some(some) => Some(some.split(',').map(str::to_owned).collect()),
        None => each.then(|| std::iter::once("").chain(PARTS.iter().map(|row| row.1)).map(str::to_owned).collect()),
    }
}

/// How much more J is without some parts.
struct Row {
    parts: String,
    best: Best,
    /// The logarithm of J over that with all parts (the mean of a run before and one after all others), problem by
    /// problem of each kind.
    logs: BTreeMap<String, Vec<f64>>,
}

/// The table: a row for each size, budget and what is left out.
pub fn table(asked: &Asked, parts: &[String]) {
    println!("| N | tasks | within | without | problems | J more, % | two standard errors | kinds beyond theirs, % |");
    println!("|---|---|---|---|---|---|---|---|");
    for (&used, &size) in asked.used.iter().flat_map(|used| asked.sizes.iter().map(move |size| (used, size))) {
        for ms in budgets(size) {
            let context = |parts: &String| {
                let parts: Vec<String> = parts.split('+').map(str::to_owned).collect();
                without(asked.best.context, &parts)
            };
            let row = |parts: &String| Row {
                parts: parts.clone(),
                best: Best { context: context(parts) },
                logs: BTreeMap::new(),
            };
            let mut rows: Vec<Row> = parts.iter().map(row).collect();
            for key in asked.keys().into_iter().filter(|key| key.0 == size) {
                let (topology, options) = (instances::topology(size), asked.options(Some(f64::from(ms))));
                let weight = instances::graph(&key.1, tasks_of(size, used), key.2);
                let problem =
                    Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
                let cost = |best: &Best| {
                    measured(&problem, |problem| best.map(problem).expect("the problem can be mapped")).cost as f64
                };
                let before = cost(&asked.best).ln();
                let costs: Vec<f64> = rows.iter().map(|row| cost(&row.best).ln()).collect();
                let all = (before + cost(&asked.best).ln()) / 2.0;
                rows.iter_mut()
                    .zip(costs)
                    .for_each(|(row, cost)| row.logs.entry(key.1.clone()).or_default().push(cost - all));
            }
            for Row { parts, logs, .. } in rows {
                let parts = if parts.is_empty() { "nothing" } else { &parts };
                let (tasks, count) = (tasks_of(size, used), logs.values().map(Vec::len).sum::<usize>());
                let (more, two, kinds) = summary(&logs);
                println!("| {size} | {tasks} | {ms} ms | {parts} | {count} | {more:+.2} | {two:.2} | {kinds} |");
            }
        }
    }
}

/// The mean over the kinds of graphs in percent, two standard errors of it (kinds are given, problems of a kind are
/// drawn), and the kinds whose own mean is further from nothing than its two standard errors.
fn summary(logs: &BTreeMap<String, Vec<f64>>) -> (f64, f64, String) {
    let (mut means, mut variances, mut kinds) = (0.0, 0.0, Vec::new());
    for (kind, logs) in logs {
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0) / count;
        if mean.abs() > 2.0 * variance.sqrt() {
            kinds.push(format!("{kind} {:+.2}", 100.0 * mean));
        }
        means += mean;
        variances += variance;
    }
    let count = logs.len() as f64;
    (100.0 * means / count, 200.0 * variances.sqrt() / count, kinds.join(", "))
}
