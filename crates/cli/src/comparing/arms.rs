//! The ways in which a program is run: where its tasks go, and what the memory is like.

use clap::ValueEnum;
use cohabit_apply::memory::{Memory, Policy};
use cohabit_host::CpuMask;
use cohabit_model::{Error, Mapping, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The name of the way in which the system places the program.
pub const SYSTEM: &str = "system";

/// `--memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MemoryArg {
    /// From the node of the thread that touches a page first
    FirstTouch,
    /// From all nodes in turn
    Interleave,
    /// From the nodes of the PUs that the program runs on
    Bind,
}

/// `--numa-balancing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// The kernel moves pages to the nodes that use them
    On,
    /// It leaves them where they are
    Off,
}

/// One way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// What it is called.
    pub name: String,
    /// Where the tasks go; none: where the system puts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<Mapping>,
    /// Where memory comes from; none: as cohabit itself was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Policy>,
    /// Whether NUMA balancing is on; none: as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_balancing: Option<bool>,
}

impl From<MemoryArg> for Policy {
    fn from(memory: MemoryArg) -> Self {
        match memory {
            MemoryArg::FirstTouch => Policy::FirstTouch,
            MemoryArg::Interleave => Policy::Interleave,
            MemoryArg::Bind => Policy::Bind,
        }
    }
}

impl Arm {
    /// The memory policy of what is started, where one was asked for.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub fn memory(&self) -> Result<Option<Memory>> {
        let Some(policy) = self.memory else { return Ok(None) };
        let pus = match &self.mapping {
            Some(mapping) => mapping.tasks.iter().map(|task| task.pu).collect(),
            None => CpuMask::of_thread(0)?.pus(),
        };
        Memory::new(policy, &pus).map(Some)
    }
}

/// The system's placement and the mappings, each under each policy and with balancing as asked for: the first of each
/// before the others, so that the first arm is the one that the others are held against.
pub fn crossed(mappings: Vec<(String, Mapping)>, memory: &[MemoryArg], balancing: &[Switch]) -> Vec<Arm> {
    let placements = std::iter::once((SYSTEM.to_owned(), None))
        .chain(mappings.into_iter().map(|(name, mapping)| (name, Some(mapping))));
    let policies: Vec<Option<MemoryArg>> = or_none(memory);
    let switches: Vec<Option<Switch>> = or_none(balancing);
    let mut arms = Vec::new();
    for (name, mapping) in placements {
        for policy in &policies {
            for switch in &switches {
                let named = |value: Option<String>| value.map(|name| format!(", {name}")).unwrap_or_default();
                let memory = policy.and_then(|policy| Some(policy.to_possible_value()?.get_name().to_owned()));
                let balanced =
                    switch.and_then(|switch| Some(format!("balancing {}", switch.to_possible_value()?.get_name())));
                arms.push(Arm {
                    name: format!("{name}{}{}", named(memory), named(balanced)),
                    mapping: mapping.clone(),
                    memory: policy.map(Policy::from),
                    numa_balancing: switch.map(|switch| switch == Switch::On),
                });
            }
        }
    }
    arms
}

fn or_none<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
}

/// Gives names that are there already a number.
pub fn unlike(mappings: &mut [(String, Mapping)]) {
    let mut known = BTreeSet::from([SYSTEM.to_owned()]);
    for (name, _) in mappings {
        let wanted = name.clone();
        for number in 2.. {
            if known.insert(name.clone()) {
                break;
            }
            *name = format!("{wanted}-{number}");
        }
    }
}

/// A line for each arm that places tasks as another does, before time is spent on both. `always`: every task is bound to
/// its PU, whatever that gains.
pub fn alike(arms: &[Arm], always: bool) -> Vec<String> {
    let same_memory = |a: &Arm, b: &Arm| (&a.memory, a.numa_balancing) == (&b.memory, b.numa_balancing);
    let placed = |arm: &Arm| {
        // A launcher is told of a mapping of ranks, whatever that gains.
        let of_ranks = |mapping: &Mapping| mapping.tasks.iter().any(|task| task.rank.is_some());
        let is_placed = |mapping: &&Mapping| always || mapping.no_gain.is_none() || of_ranks(mapping);
        let mapping = arm.mapping.as_ref().filter(is_placed)?;
        let pus = |pus: &String| if always { String::new() } else { pus.clone() };
        let seats = mapping.tasks.iter().map(|one| (one.task, one.host.clone(), one.pu, pus(&one.pus)));
        Some((seats.collect::<Vec<_>>(), mapping.phases.clone()))
    };
    let mut lines = Vec::new();
    for (number, arm) in arms.iter().enumerate() {
        let Some(mapping) = &arm.mapping else { continue };
        let same = |other: &&Arm| same_memory(other, arm) && placed(other) == placed(arm);
        let Some(first) = arms[..number].iter().find(same) else { continue };
        lines.push(match (&mapping.no_gain, &first.mapping) {
            (Some(reason), None) => {
                format!("by {} nothing is placed ({reason}), as by {}: what differs is chance", arm.name, first.name)
            }
            _ => format!("{} and {} put every task in the same place: what differs is chance", first.name, arm.name),
        });
    }
    lines
}

/// Makes sure that there is something to compare.
///
/// # Errors
/// Where there is one way only, or one of them cannot be had here.
pub fn check(arms: &[Arm]) -> Result<()> {
    if arms.len() < 2 {
        return Err(Error::new("there is nothing to compare the system's placement with").remedy(
            "name a mapping (--mapping m.json), or --mapper and --profile; 'cohabit tune' finds one by itself",
        ));
    }
    arms.iter().try_for_each(|arm| arm.memory().map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(pus: [u32; 2], no_gain: Option<&str>) -> Mapping {
        let task = |(number, pu): (usize, u32)| serde_json::json!({"task": number, "pu": pu, "pus": "0-3"});
        let tasks: Vec<_> = pus.into_iter().enumerate().map(task).collect();
        serde_json::from_value(serde_json::json!({
            "format": 1, "mapper": "best", "seed": 0, "weight": "messages", "objective": "distance",
            "level_costs": [], "topology": "", "tasks": tasks, "no_gain": no_gain, "cost": {"distance": 0},
        }))
        .unwrap()
    }

    #[test]
    fn arms_that_are_the_same_are_named_before_they_run() {
        let arms = |mappings: Vec<(&str, Mapping)>, memory: &[MemoryArg]| {
            crossed(mappings.into_iter().map(|(name, mapping)| (name.to_owned(), mapping)).collect(), memory, &[])
        };
        let none: [String; 0] = [];
        let unlike = arms(vec![("a", mapping([0, 1], None)), ("b", mapping([1, 0], None))], &[]);
        assert_eq!(alike(&unlike, false), none);
        let same = arms(vec![("a", mapping([0, 1], None)), ("b", mapping([0, 1], None))], &[]);
        assert_eq!(alike(&same, false), ["a and b put every task in the same place: what differs is chance"]);
        let hopeless = arms(vec![("a", mapping([0, 1], Some("nothing to gain: one PU")))], &[]);
        assert_eq!(
            alike(&hopeless, false),
            ["by a nothing is placed (nothing to gain: one PU), as by system: what differs is chance"]
        );
        assert_eq!(alike(&hopeless, true), none, "it is bound all the same");
        let mut ranks = hopeless;
        ranks[1].mapping.as_mut().unwrap().tasks[0].rank = Some(0);
        assert_eq!(alike(&ranks, false), none, "its launcher binds it");
        // Under each policy, the system's as well: no line for what differs by its memory.
        let policies = arms(vec![("a", mapping([0, 1], None))], &[MemoryArg::FirstTouch, MemoryArg::Interleave]);
        assert_eq!(alike(&policies, false), none);
    }
}
