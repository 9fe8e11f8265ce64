//! `cohabit evaluate`: what mappings of a profile are worth, beside the linear one (IBM report, sections 5 and 7.1).

use super::Outcome;
use crate::evaluation::{self, Evaluated, Evaluation};
use crate::exit::{End, Failure};
use crate::json::JsonArgs;
use crate::machine::LevelCostArgs;
use crate::mapping::{elements, linear, weight_of};
use crate::output::note;
use crate::progress::{self, read_profile};
use cohabit_evaluate::{comparison, phases};
use cohabit_model::cost::distance_cost;
use cohabit_model::{Error, Mapping, Profile, Result, Topology, counted};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  cohabit map p.npz --topology cluster.toml -o best.json
  cohabit evaluate p.npz --mapping best.json       against ranks in the order of hosts
  cohabit evaluate p.npz --topology measured.toml --mapping best.json other.json
  cohabit evaluate p.npz --mapping best.json --bursts
                                                   a phase for each burst of messages

The time is estimated from what a cluster file says of ports and switches
(docs/cluster.md); other topologies have the distance cost only.";

/// Arguments of `cohabit evaluate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Evaluate {
    /// The profile (.npz)
    #[arg(value_name = "P")]
    profile: PathBuf,
    /// The cluster file, or any other topology [default: that of the first mapping]
    #[arg(long, value_name = "T")]
    topology: Option<String>,
    #[command(flatten)]
    costs: LevelCostArgs,
    /// Mappings of the profile's tasks, as `cohabit map -o` writes them
    #[arg(long, value_name = "MAP", num_args = 1.., required = true)]
    mapping: Vec<PathBuf>,
    /// What the distance cost counts [default: bytes for MPI ranks; for threads and processes transfers, where the
    /// profile has them, else messages]
    #[arg(long, value_name = "WHAT", value_parser = ["messages", "bytes", "transfers"])]
    weight: Option<String>,
    /// Take each burst of the profile's time series by itself: messages are sent in it while others of it are on their
    /// way
    #[arg(long)]
    bursts: bool,
    #[command(flatten)]
    json: JsonArgs,
}

impl Evaluate {
    /// Estimates, compares with the linear mapping, and prints.
    pub fn run(self) -> Outcome {
        self.json.check()?;
        let profile = read_profile(&self.profile)?;
        let mappings = self.mapping.iter().map(|path| progress::read_mapping(path)).collect::<Result<Vec<_>>>()?;
        let topology = match &self.topology {
            Some(text) => self.costs.load(text)?,
            None => self.costs.parse(&mappings[0].topology, &mappings[0].level_costs)?,
        };
        if self.bursts && profile.series.is_empty() {
            let error = Error::new("the profile has no time series").remedy("leave --bursts out");
            return Err(Failure::usage(error));
        }
        let hct = topology.hct();
        let (weight, matrix) = weight_of(self.weight.as_deref(), &profile)?;
        let default = linear(matrix, &topology)?;
        let traffic = match &hct {
            Ok(hct) if self.bursts => phases::bursts(&profile, hct, &elements(&topology, &default), usize::MAX)?.into(),
            _ => phases::traffic(&profile),
        };
        let mut placements = vec![("linear".to_owned(), default)];
        for (path, mapping) in self.mapping.iter().zip(&mappings) {
            let name = path.display().to_string();
            let placement = placement(mapping, &profile, &topology).map_err(|error| error.at(&name))?;
            placements.push((name, placement));
        }
        let evaluate = |(name, placement): (String, Vec<usize>)| {
            let time = hct.as_ref().ok().map(|hct| comparison::cost(hct, &traffic, &elements(&topology, &placement)));
            let distance = distance_cost(matrix, &topology, &placement);
            Ok(Evaluated { name, distance, time: time.transpose()? })
        };
        let evaluated =
            progress::during("estimating", || placements.into_iter().map(evaluate).collect::<Result<Vec<_>>>())?;
        let weights: Vec<f64> = traffic.phases.iter().map(|phase| phase.weight).collect();
        let evaluation = Evaluation {
            topology: &topology,
            profile: &profile,
            weight,
            weights: &weights,
            phases: phases::count(&traffic.phases),
            replays: traffic.replay.is_some(),
            mappings: &evaluated,
        };
        if let Err(Error { cause, remedy }) = &hct {
            note(&format!("no time is estimated: {cause}; {}", remedy.as_deref().unwrap_or_default()));
        }
        self.json.emit("evaluate", evaluation::fields(&evaluation), &evaluation::text(&evaluation))?;
        Ok(End::Done)
    }
}

/// Where a mapping puts each task of the profile: indices into [`Topology::pus`].
///
/// # Errors
/// Where it is of another program or machine.
pub fn placement(mapping: &Mapping, profile: &Profile, topology: &Topology) -> Result<Vec<usize>> {
    let remedy = "make the mapping again from this profile and topology";
    let (placed, known) = (mapping.tasks.len(), profile.tasks());
    if placed != known {
        return Err(
            Error::new(format!("the mapping has {}, the profile {known}", counted(placed, "task"))).remedy(remedy)
        );
    }
    let hosts: std::collections::BTreeSet<&str> = mapping.tasks.iter().map(|task| task.host.as_str()).collect();
    if topology.names.is_empty() && hosts.len() > 1 {
        let cause = format!("the mapping is for {} hosts, the topology one machine", hosts.len());
        return Err(Error::new(cause).remedy("give the cluster file that the mapping was made with"));
    }
    let mut placement = vec![None; known];
    for task in &mapping.tasks {
        let Some(entry) = placement.get_mut(task.task as usize) else {
            return Err(Error::new(format!("the profile has no task {}", task.task)).remedy(remedy));
        };
        let pu = topology.pu_on(&task.host, task.pu);
        *entry = Some(pu.ok_or_else(|| {
            let host = if topology.names.is_empty() { String::new() } else { format!(" on host {:?}", task.host) };
            Error::new(format!("task {} is on PU {}{host}, which the topology lacks", task.task, task.pu))
                .remedy(remedy)
        })?);
    }
    // As many tasks as the profile has, none placed twice: all are there.
    Ok(placement.into_iter().flatten().collect())
}
