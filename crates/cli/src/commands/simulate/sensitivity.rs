//! Whether the order of mappings hangs on a machine's figures: each of them smaller and larger, and all mappings again.

use super::{Simulated, at_a_time};
use cohabit_access::Recording;
use cohabit_memory::machine::Parameter;
use cohabit_memory::{Machine, Options, simulate};
use cohabit_model::{Result, counted};
use serde_json::{Value, json};

/// What was found.
pub(super) struct Sensitivity {
    percent: u8,
    names: Vec<String>,
    /// Of the machine as it is.
    times: Vec<u64>,
    rows: Vec<Row>,
    /// Parameters that were left as they are.
    too_small: Vec<String>,
}

/// A parameter: times of all mappings with so much less of it and so much more, in fs.
struct Row {
    parameter: String,
    less: Vec<u64>,
    more: Vec<u64>,
}

/// Factors on a parameter.
fn factors(percent: u8) -> [f64; 2] {
    let part = f64::from(percent) / 100.0;
    [1.0 - part, 1.0 + part]
}

/// How many simulations that takes.
pub(super) fn runs(machine: &Machine, simulated: &[Simulated], percent: u8) -> usize {
    2 * parameters(machine, percent).0.len() * different(simulated).len()
}

/// The parameters that so little changes, and the names of those that it does not: whole numbers that are small.
fn parameters(machine: &Machine, percent: u8) -> (Vec<Parameter>, Vec<String>) {
    let changes =
        |parameter: &Parameter| factors(percent).into_iter().all(|factor| machine.with(parameter, factor) != *machine);
    let (changed, left): (Vec<_>, Vec<_>) = machine.parameters().into_iter().partition(changes);
    (changed, left.into_iter().map(|parameter| parameter.name).collect())
}

/// The first mapping of each that is the same.
fn different(simulated: &[Simulated]) -> Vec<usize> {
    (0..simulated.len()).filter(|&n| first(simulated, n) == n).collect()
}

fn first(simulated: &[Simulated], index: usize) -> usize {
    let same = |one: &Simulated| one.placement == simulated[index].placement;
    simulated.iter().position(same).expect("it is one itself")
}

impl Sensitivity {
    /// Simulates all mappings with each parameter `percent` smaller and larger, so many at a time.
    pub(super) fn find(
        recording: &dyn Recording,
        machine: &Machine,
        simulated: &[Simulated],
        options: &Options,
        (percent, threads): (u8, usize),
    ) -> Result<Self> {
        let ((parameters, too_small), different) = (parameters(machine, percent), different(simulated));
        let each = factors(percent).map(|factor| parameters.iter().map(move |one| (one, factor)));
        let machines: Vec<Machine> =
            each.into_iter().flatten().map(|(parameter, factor)| machine.with(parameter, factor)).collect();
        let found = at_a_time(machines.len() * different.len(), threads, |index| {
            let (machine, one) = (&machines[index / different.len()], &simulated[different[index % different.len()]]);
            let report = simulate(recording, machine, &one.placement, options);
            report.map(|report| report.time_fs).map_err(|error| error.at(&one.name))
        })?;
        let times = |machine: usize| -> Vec<u64> {
            let of = |n: usize| different.iter().position(|&other| other == first(simulated, n)).expect("it is one");
            (0..simulated.len()).map(|n| found[machine * different.len() + of(n)]).collect()
        };
        let row = |(n, parameter): (usize, &Parameter)| Row {
            parameter: parameter.name.clone(),
            less: times(n),
            more: times(parameters.len() + n),
        };
        Ok(Self {
            percent,
            names: simulated.iter().map(|one| one.name.clone()).collect(),
            times: simulated.iter().map(|one| one.report.time_fs).collect(),
            rows: parameters.iter().enumerate().map(row).collect(),
            too_small,
        })
    }

    /// Pairs of mappings the first of which is the faster one, and is the slower one with these times.
    fn turned(&self, times: &[u64]) -> Vec<(usize, usize)> {
        let all = 0..self.names.len();
        let pairs = all.clone().flat_map(|a| all.clone().map(move |b| (a, b)));
        pairs.filter(|&(a, b)| self.times[a] < self.times[b] && times[a] > times[b]).collect()
    }

    /// For scripts.
    pub(super) fn fields(&self) -> Value {
        let turned = |times: &[u64]| -> Vec<[&str; 2]> {
            self.turned(times).into_iter().map(|(a, b)| [self.names[b].as_str(), self.names[a].as_str()]).collect()
        };
        let row = |row: &Row| {
            json!({
                "name": row.parameter,
                "less": { "time_fs": row.less, "turned": turned(&row.less) },
                "more": { "time_fs": row.more, "turned": turned(&row.more) },
            })
        };
        json!({ "percent": self.percent, "left": self.too_small, "parameters": self.rows.iter().map(row).collect::<Vec<_>>() })
    }

    /// The table: times relative to the first mapping's.
    pub(super) fn text(&self) -> String {
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_by_key(|&n| self.times[n]);
        let named = |n: &usize| self.names[*n].clone();
        let ranking = order.iter().map(named).collect::<Vec<_>>().join(", ");
        let width = self.rows.iter().map(|row| row.parameter.chars().count()).max().unwrap_or(0);
        let others = 1..self.names.len();
        let column = |n: usize| self.names[n].chars().count().max(6);
        let heads = |sign: &str| {
            others.clone().map(|n| format!("  {sign} {:>1$}", self.names[n], column(n))).collect::<String>()
        };
        let mut text = format!(
            "\nfastest first: {ranking}\n\n{:<width$}{}{}  at {} %\n",
            format!("relative to {}", self.names[0]),
            heads("-"),
            heads("+"),
            self.percent
        );
        let mut changes = 0;
        for row in &self.rows {
            let relative = |times: &[u64]| -> String {
                let of = |n: usize| format!("  {:>1$.3}", times[n] as f64 / times[0].max(1) as f64, column(n) + 2);
                others.clone().map(of).collect()
            };
            let mut turned = Vec::new();
            for (sign, times) in [("-", &row.less), ("+", &row.more)] {
                let told = |(a, b): (usize, usize)| format!("{sign} {} overtakes {}", self.names[b], self.names[a]);
                turned.extend(self.turned(times).into_iter().map(told));
            }
            changes += usize::from(!turned.is_empty());
            let line = format!(
                "{:<width$}{}{}  {}",
                row.parameter,
                relative(&row.less),
                relative(&row.more),
                turned.join(", ")
            );
            text += line.trim_end();
            text.push('\n');
        }
        if !self.too_small.is_empty() {
            text +=
                &format!("left as they are, {} % being less than one: {}\n", self.percent, self.too_small.join(", "));
        }
        text + &match changes {
            0 => format!(
                "\nThe order stays with {} {} % smaller and larger.\n",
                if self.rows.len() == 1 {
                    "this parameter".to_owned()
                } else {
                    format!("each of these {} parameters", self.rows.len())
                },
                self.percent
            ),
            _ => format!(
                "\nThe order is another one with {changes} of {} {} % smaller or larger.\n",
                counted(self.rows.len(), "parameter"),
                self.percent
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: [u64; 3], less: [u64; 3], more: [u64; 3]) -> Sensitivity {
        Sensitivity {
            percent: 20,
            names: ["packed", "scatter", "best"].map(str::to_owned).to_vec(),
            times: times.to_vec(),
            too_small: Vec::new(),
            rows: vec![Row { parameter: "bus.bandwidth_gb_s".to_owned(), less: less.to_vec(), more: more.to_vec() }],
        }
    }

    #[test]
    fn the_order_is_said_to_stay_only_where_it_does() {
        let stays = of([10, 20, 10], [12, 30, 11], [9, 9, 8]);
        assert!(stays.text().contains("The order stays with this parameter 20 %"), "{}", stays.text());
        let turned = of([10, 20, 15], [10, 20, 25], [30, 20, 25]);
        let text = turned.text();
        assert!(!text.contains("stays") && text.contains("another one with 1 of 1 parameter 20 %"), "{text}");
        assert!(text.contains("fastest first: packed, best, scatter"), "{text}");
        let more =
            "- scatter overtakes best, + scatter overtakes packed, + best overtakes packed, + scatter overtakes best";
        let row = text.lines().find(|line| line.starts_with("bus")).unwrap();
        assert!(row.contains("2.000") && row.contains("0.833"), "{row}");
        for pair in more.split(", ") {
            assert!(row.contains(pair), "{pair}: {row}");
        }
    }
}
