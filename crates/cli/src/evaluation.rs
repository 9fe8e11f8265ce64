//! What `cohabit evaluate` says: a line a mapping, what communication waits for, and whether to leave the default
//! mapping.

use crate::number;
use crate::words::tasks_of;
use cohabit_evaluate::{Cost, Prediction, advised, largest, mpi_share};
use cohabit_model::hct::Direction;
use cohabit_model::mapping::Weight;
use cohabit_model::topology::{Level, label};
use cohabit_model::{Profile, Topology};
use cohabit_network::estimator::Resource;
use serde_json::{Value, json};

/// Bottlenecks of a mapping that are listed.
const BOTTLENECKS: usize = 3;
/// Phases of a mapping in the JSON document.
const PHASES: usize = 10_000;

/// A mapping with what it costs.
pub struct Evaluated {
    /// The file's name, or `linear`.
    pub name: String,
    /// J.
    pub distance: u128,
    /// The estimated time; none where the topology says nothing of ports.
    pub time: Option<Cost>,
}

/// All that is said; the first mapping is the default one.
pub struct Evaluation<'a> {
    /// Where the tasks go.
    pub topology: &'a Topology,
    /// What was observed.
    pub profile: &'a Profile,
    /// What J counts.
    pub weight: Weight,
    /// How much each phase counts.
    pub weights: &'a [f64],
    /// How many phases there are in the run.
    pub phases: f64,
    /// Whether the run is done over again under each mapping.
    pub replays: bool,
    /// The mappings.
    pub mappings: &'a [Evaluated],
}

impl Evaluation<'_> {
    /// What each mapping is predicted to save, of the run where its share of time in MPI is known, else of the
    /// communication.
    fn predictions(&self) -> Option<Vec<Prediction>> {
        let share = mpi_share(self.profile).unwrap_or(1.0);
        let default = self.mappings[0].time.as_ref()?;
        let of = |mapping: &Evaluated| Some(Prediction::new(default, mapping.time.as_ref()?, share));
        self.mappings.iter().map(of).collect()
    }

    /// One sentence: which mapping to take.
    fn verdict(&self) -> String {
        let of = if mpi_share(self.profile).is_some() { "the run" } else { "the time in communication" };
        let Some(predictions) = self.predictions() else {
            let (best, default) = (self.mappings.iter().min_by_key(|mapping| mapping.distance), &self.mappings[0]);
            return match best.filter(|best| best.distance < default.distance) {
                Some(best) => format!("{} has the least distance cost; no time is estimated", best.name),
                None => "keep the default mapping: no other has a lower distance cost".to_owned(),
            };
        };
        let saves = |number: usize| {
            let (name, prediction) = (&self.mappings[number].name, &predictions[number]);
            format!("{name} is predicted to save {:.1} % of {of}", 100.0 * prediction.gain)
        };
        if let Some(best) = advised(&predictions) {
            return saves(best);
        }
        match largest(&predictions).filter(|&best| !predictions[best].is_none()) {
            None => "keep the default mapping: no gain is predicted".to_owned(),
            Some(best) => {
                let why = match predictions[best].is_uncertain() {
                    true => "but its phases do not save as much both at once and one by one",
                    false => "which is too little to tell from none",
                };
                format!("keep the default mapping: {}, {why}", saves(best))
            }
        }
    }
}

/// The table for people.
pub fn text(evaluation: &Evaluation) -> String {
    let Evaluation { topology, profile, weight, weights, phases, replays, mappings } = evaluation;
    let tasks = tasks_of(profile.meta.kind, profile.tasks());
    let mut text = format!("{tasks} on {} PUs; weight: {}", topology.allowed().len(), name_of(*weight));
    if *phases > 1.0 {
        text += &format!("; {phases} phases");
    }
    if *replays && mappings.iter().any(|mapping| mapping.time.is_some()) {
        text += "; replayed by its trace";
    }
    match mpi_share(profile) {
        Some(share) => text += &format!("; {:.1} % of the time in MPI\n", 100.0 * share),
        None if mappings.iter().any(|mapping| mapping.time.is_some()) => {
            text += "; the profile does not know the time in MPI, so gains are of communication alone\n";
        }
        None => text += "\n",
    }
    text += &format!("J is the distance cost: {} of each pair times the distance of its PUs\n", name_of(*weight));
    let predictions = evaluation.predictions();
    let name_width = mappings.iter().map(|mapping| mapping.name.chars().count()).max().unwrap_or(0);
    let cost_width = mappings.iter().map(|mapping| mapping.distance.to_string().len()).max().unwrap_or(0);
    for (number, mapping) in mappings.iter().enumerate() {
        text += &format!("{:<name_width$}  J {:>cost_width$}", mapping.name, mapping.distance);
        if let (Some(time), Some(predictions)) = (&mapping.time, &predictions) {
            let gain =
                if number == 0 { "default".to_owned() } else { format!("{:+.1} %", 100.0 * predictions[number].gain) };
            text += &format!("  time {:>9}  gain {gain:>8}", number::seconds(time.run.total.seconds));
            if let Some((resource, _)) = time.bottlenecks.first() {
                text += &format!("  {}", words(*resource, topology));
            }
        }
        text.push('\n');
        let others = mapping.time.iter().flat_map(|time| &time.bottlenecks).take(BOTTLENECKS);
        if weights.len() > 1 {
            for (resource, seconds) in others {
                text += &format!(
                    "{:name_width$}    {} waits for {}\n",
                    "",
                    number::seconds(*seconds),
                    words(*resource, topology)
                );
            }
        }
    }
    text + &evaluation.verdict() + "\n"
}

/// The document for programs.
pub fn fields(evaluation: &Evaluation) -> Value {
    let predictions = evaluation.predictions();
    let topology = evaluation.topology;
    let phase = |(estimate, weight): (&cohabit_network::Estimate, &f64)| {
        json!({
            "weight": weight, "seconds": estimate.seconds,
            "bottleneck": estimate.bottleneck.map(|resource| resource_fields(resource, topology)),
        })
    };
    let mapping = |(number, mapping): (usize, &Evaluated)| {
        let time = mapping.time.as_ref();
        let bottlenecks = time.map(|time| {
            let bottleneck = |&(resource, seconds): &(Resource, f64)| {
                let mut fields = resource_fields(resource, topology);
                fields["seconds"] = json!(seconds);
                fields
            };
            time.bottlenecks.iter().map(bottleneck).collect::<Vec<_>>()
        });
        let phases =
            time.map(|time| time.run.phases.iter().zip(evaluation.weights).take(PHASES).map(phase).collect::<Vec<_>>());
        json!({
            "name": mapping.name,
            "distance_cost": number::sum(mapping.distance),
            "estimated_seconds": time.map(|time| time.run.total.seconds),
            "norm_seconds": time.map(|time| time.run.total.norm_s),
            "extreme_seconds": time.map(|time| time.run.extremes_s),
            "predicted_gain": predictions.as_ref().map(|predictions| predictions[number].gain),
            "bottlenecks": bottlenecks,
            "phases": phases,
        })
    };
    json!({
        "weight": evaluation.weight,
        "replayed": evaluation.replays,
        "mpi_share": mpi_share(evaluation.profile),
        "mappings": evaluation.mappings.iter().enumerate().map(mapping).collect::<Vec<_>>(),
        "advised": predictions.as_deref().and_then(advised),
        "verdict": evaluation.verdict(),
        "coverage": evaluation.profile.meta.coverage,
    })
}

fn resource_fields(resource: Resource, topology: &Topology) -> Value {
    match resource {
        Resource::Port(node, direction) => json!({
            "kind": "port", "node": node, "of": place(node, topology),
            "direction": if direction == Direction::Out { "out" } else { "in" },
        }),
        Resource::Switch(node) => json!({ "kind": "switch", "node": node, "of": place(node, topology) }),
    }
}

/// `port of switch netgear1, out`.
fn words(resource: Resource, topology: &Topology) -> String {
    match resource {
        Resource::Port(node, Direction::Out) => format!("port of {}, out", place(node, topology)),
        Resource::Port(node, Direction::In) => format!("port of {}, in", place(node, topology)),
        Resource::Switch(node) => format!("{} in all", place(node, topology)),
    }
}

/// `host n1`, `core P#3 of n1`.
fn place(node: usize, topology: &Topology) -> String {
    let label = label::node(topology, node, true);
    let host = topology.ancestors(node).skip(1).find(|&above| topology.nodes[above].level == Level::Machine);
    match host.and_then(|host| topology.names.get(&host)) {
        Some(host) => format!("{label} of {host}"),
        None => label,
    }
}

fn name_of(weight: Weight) -> &'static str {
    match weight {
        Weight::Messages => "messages",
        Weight::Bytes => "bytes",
        Weight::Transfers => "transfers",
    }
}
