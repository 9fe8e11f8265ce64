//! What is worth trying: the placements of all mappers, each once.

use crate::machine::MachineArgs;
use crate::mapping::{Made, MappingArgs, usable};
use cohabit_evaluate::verdict::hopeless_as_seen;
use cohabit_map::MAPPERS;
use cohabit_model::{Mapping, Profile, Result, Topology};
use std::collections::BTreeSet;

/// Mappers that are no candidates: one knows nothing of the program, the other may not end.
const LEFT_OUT: [&str; 2] = ["random", "exact"];

/// The candidates, best J first, and why there are none where every placement is as good as every other.
pub struct Candidates {
    /// Name and mapping.
    pub mappings: Vec<(String, Mapping)>,
    /// Why nothing can be gained, where that is known without a run.
    pub hopeless: Option<String>,
    /// Mappers whose placement was another's, or that failed, a line each.
    pub notes: Vec<String>,
}

/// Maps a profile by these mappers, or by all that there are.
///
/// # Errors
/// Where the first of them fails.
pub fn candidates(
    profile: &Profile,
    topology: &Topology,
    machine: &MachineArgs,
    asked: &[String],
    most: usize,
) -> Result<Candidates> {
    let names: Vec<&str> = match asked {
        [] => MAPPERS.iter().map(|mapper| mapper.name()).filter(|name| !LEFT_OUT.contains(name)).collect(),
        asked => asked.iter().map(String::as_str).collect(),
    };
    let mut found: Vec<(String, Made)> = Vec::new();
    let mut notes = Vec::new();
    let (mut known, mut same) = (BTreeSet::new(), Vec::new());
    // On a cluster whose ports have bandwidths, the least estimated time as well.
    let by_time = asked.is_empty() && topology.hct().is_ok_and(|hct| hct.limits());
    let ways = names.iter().map(|name| ((*name).to_owned(), vec!["--mapper", name]));
    let ways = ways.chain(by_time.then(|| ("best-by-time".to_owned(), vec!["--objective", "time"])));
    for (name, words) in ways {
        match MappingArgs::of(&words).map(profile, topology, machine.level_costs()?) {
            Ok(made) if known.insert(made.placement.clone()) => found.push((name, made)),
            Ok(_) => same.push(name),
            Err(error) if found.is_empty() => return Err(error),
            Err(error) => notes.push(format!("{name} is left out: {}", error.cause)),
        }
    }
    let hopeless =
        found.first().and_then(|(_, made)| hopeless_as_seen(profile, &made.weight, &usable(topology, &made.options)));
    // By J, and of equal ones in the table's order.
    found.sort_by_key(|(_, made)| made.mapping.cost.distance);
    let by_time: Vec<_> =
        found.iter().position(|(name, _)| name == "best-by-time").map(|at| found.remove(at)).into_iter().collect();
    let worse: Vec<&str> = found.iter().skip(most).map(|(name, _)| name.as_str()).collect();
    if !worse.is_empty() {
        notes.push(format!("left out, their J being no smaller: {}", worse.join(", ")));
    }
    if !same.is_empty() {
        notes.push(format!("these place the tasks as one of the others does: {}", same.join(", ")));
    }
    let mappings = by_time.into_iter().chain(found.into_iter().take(most)).map(|(name, made)| (name, made.mapping));
    Ok(Candidates { mappings: mappings.collect(), hopeless, notes })
}
