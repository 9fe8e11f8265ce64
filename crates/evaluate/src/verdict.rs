//! What a mapping is worth, honestly: how it compares with placing without a profile, and when nothing can be gained.

use cohabit_model::latitude::latitude;
use cohabit_model::metrics::advice::{Advice, advice};
use cohabit_model::metrics::table::Known;
use cohabit_model::metrics::{Structure, metrics};
use cohabit_model::topology::NodeId;
use cohabit_model::{Matrix, Profile, Timeline, Topology};
use std::collections::HashSet;

/// Distance costs J of one problem: by the mapper that was asked for, and by two that ignore who communicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Costs {
    /// The mapping's.
    pub mapped: u128,
    /// Tasks in order on PUs in order.
    pub packed: u128,
    /// Tasks as far apart as they can be.
    pub scatter: u128,
}

/// Why placement gains nothing whatever the pattern is.
pub const LITTLE: &str = "next to nothing of what is accessed is communicated";

/// Whether placement can change anything here, and why.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Verdict {
    /// False where no placement is better than another.
    pub can_gain: bool,
    /// One sentence for people.
    pub text: String,
    /// What the profile's metrics advise.
    pub advice: Advice,
}

/// What a profile's metrics advise, its pattern judged by `weight`: the one verdict of `show` and `map`. No profile has
/// bytes from DRAM; a simulation of the program may have them.
pub fn advised(profile: &Profile, timeline: Option<&Timeline>, weight: &Matrix, dram_bytes: Option<u64>) -> Advice {
    advice(&Known { profile, timeline, dram_bytes }, weight)
}

impl Verdict {
    /// The same, with what the profile advises: where no placement is better than another, that is to mend what is
    /// wrong, if anything.
    ///
    /// Where there were `channels` that nobody looked into it is not known that too little is communicated.
    pub fn advised(mut self, advice: Advice, channels: &[String]) -> Self {
        match advice {
            Advice::Nothing if self.can_gain && !channels.is_empty() => {}
            // Here the machine is known: which PUs stay idle matters, or the tasks are not all alike.
            Advice::Together if self.can_gain => self.advice = Advice::Locality,
            Advice::Repair { .. } => self.advice = advice,
            // J may differ, and time does not.
            Advice::Nothing if self.can_gain => {
                let text = format!("nothing to gain: {LITTLE} ({})", self.text);
                self = Self { can_gain: false, text, advice };
            }
            _ if self.can_gain => self.advice = advice,
            _ => {}
        }
        self
    }

    /// The same, of a profile in which tasks had `channels` that nobody looked into: but on a machine where it does not
    /// matter where they run, nothing is known to be gained, which is not to say that nothing can be.
    pub fn beside(mut self, channels: &[String], tasks: usize, topology: &Topology) -> Self {
        if !self.can_gain && all_alike(tasks, topology).is_none() {
            self.text = as_far_as_seen(self.text, channels);
        }
        self
    }
}

/// The verdict on a mapping of `weight` to the allowed PUs of `topology`, by `mapper`.
pub fn verdict(weight: &Matrix, topology: &Topology, costs: Costs, mapper: &str) -> Verdict {
    match hopeless(weight, topology) {
        Some(reason) => {
            Verdict { can_gain: false, text: format!("nothing to gain: {reason}"), advice: Advice::Nothing }
        }
        None => Verdict { can_gain: true, text: compared(costs, mapper), advice: Advice::Locality },
    }
}

/// Why no placement gains anything that matters, where too little is communicated, as far as is seen.
pub fn little(profile: &Profile, weight: &Matrix) -> Option<String> {
    let unseen = !profile.meta.unseen_channels.is_empty();
    (!unseen && advised(profile, None, weight, None) == Advice::Nothing).then(|| LITTLE.to_owned())
}

/// Why every placement of a profile's tasks is as good as every other, where it is as far as is seen.
pub fn hopeless_as_seen(profile: &Profile, weight: &Matrix, topology: &Topology) -> Option<String> {
    let reason = hopeless(weight, topology)?;
    Some(match all_alike(weight.tasks(), topology) {
        Some(_) => reason,
        None => as_far_as_seen(reason, &profile.meta.unseen_channels),
    })
}

/// What is said of communication through memory where there were `channels` that nobody looked into.
pub fn as_far_as_seen(said: String, channels: &[String]) -> String {
    match channels.is_empty() {
        true => said,
        false => format!("{said}, as far as memory goes; what goes through {} is not seen", channels.join(" and ")),
    }
}

/// Why every placement is as good as every other, where it is.
pub fn hopeless(weight: &Matrix, topology: &Topology) -> Option<String> {
    let structure = metrics(weight).structure();
    if structure == Structure::Silent {
        return Some("no task communicates with another".to_owned());
    }
    if let Some(reason) = all_alike(weight.tasks(), topology) {
        return Some(reason);
    }
    let reason = "every two tasks communicate alike, and together they fill the machine";
    (weight.tasks() == topology.allowed().len() && structure == Structure::Uniform).then(|| reason.to_owned())
}

/// Why it does not matter where the tasks (0: of an unknown number) run, whoever communicates, where the allowed PUs are all alike.
pub fn all_alike(tasks: usize, topology: &Topology) -> Option<String> {
    let pus = topology.allowed().len();
    if pus == 1 {
        return Some("only one PU may be used".to_owned());
    }
    let distance = topology.only_distance()?;
    let so = match tasks {
        0 => "so all that can differ is which tasks take turns on a PU, where there are more tasks than PUs",
        _ if tasks > pus => "so all that J counts is which tasks take turns on a PU",
        _ => "so it does not matter which task runs on which",
    };
    let shared = shared(topology);
    Some(format!("all {pus} PUs are equally far from one another (distance {distance}{shared}), {so}"))
}

/// The node of the tree whose PUs serve each task as well as its own: the root, where no placement is better than
/// another ([`hopeless`]). `placement` has an index into [`Topology::pus`] for each task, and those that are `fixed`
/// stay there.
pub fn rooms(
    weight: &Matrix,
    usable: &Topology,
    placement: &[usize],
    fixed: &HashSet<usize>,
    is_hopeless: bool,
) -> Vec<NodeId> {
    if !is_hopeless {
        return latitude(weight, usable, placement, fixed);
    }
    let room = |(task, &pu): (usize, &usize)| if fixed.contains(&task) { usable.pus[pu].node } else { 0 };
    placement.iter().enumerate().map(room).collect()
}

/// `, under one L3`: the lowest thing that holds all allowed PUs, where that is less than the machine.
fn shared(topology: &Topology) -> String {
    use cohabit_model::topology::Level;
    let allowed = topology.allowed();
    let (Some(&first), Some(&last)) = (allowed.first(), allowed.last()) else { return String::new() };
    match topology.nodes[topology.common(first, last)].level {
        Level::Machine | Level::Switch => String::new(),
        level => format!(", under one {level}"),
    }
}

fn compared(costs: Costs, mapper: &str) -> String {
    let Costs { mapped, packed, scatter } = costs;
    if mapped < packed.min(scatter) {
        return format!("J is {} packed and {} scatter", below(mapped, packed), below(mapped, scatter));
    }
    let (name, cost) = if packed <= scatter { ("packed", packed) } else { ("scatter", scatter) };
    // Of less than a thousandth no difference in time can be told.
    let alike = mapped - cost <= cost / 1000;
    let compared = if alike { "as good as" } else { "better than" };
    match mapper {
        "packed" | "scatter" | "random" if alike => {
            format!("{mapper} ignores who communicates: without --mapper {mapper} a mapping is searched for")
        }
        "packed" | "scatter" | "random" => format!(
            "'--mapper {name}' is better than this mapping ({cost}), and both ignore who communicates: without --mapper a mapping is searched for"
        ),
        _ if name == "packed" => {
            format!("'--mapper {name}' is {compared} this mapping ({cost}): the tasks' order already suits the machine")
        }
        _ => format!("'--mapper {name}' is {compared} this mapping ({cost})"),
    }
}

/// `38 % below` the other cost.
fn below(mapped: u128, other: u128) -> String {
    match 100.0 * (1.0 - mapped as f64 / other as f64) {
        percent if percent < 1.0 => "less than 1 % below".to_owned(),
        percent => format!("{percent:.0} % below"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::profile::{Kind, Meta};

    fn all_to_all(tasks: u32, value: u64) -> Matrix {
        let pairs = (0..tasks).flat_map(|a| (0..tasks).filter(move |&b| a != b).map(move |b| (a, b, value)));
        Matrix::from_triplets(tasks as usize, pairs)
    }

    #[test]
    fn what_cannot_gain_says_why() {
        let chain = Matrix::from_triplets(4, [(0, 1, 9), (1, 2, 9), (2, 3, 9)]);
        let costs = Costs { mapped: 10, packed: 20, scatter: 40 };
        for (weight, machine, expected) in [
            (Matrix::from_triplets(2, [(0, 0, 7)]), "core:2 pu:1", "no task communicates with another"),
            (chain.clone(), "pu:1", "only one PU may be used"),
            (chain.clone(), "core:4 pu:1", "all 4 PUs are equally far from one another (distance 20)"),
            (
                chain.clone(),
                "l3:1 core:4 pu:1",
                "all 4 PUs are equally far from one another (distance 5, under one L3)",
            ),
            (chain.clone(), "core:2 pu:1", "(distance 20), so all that J counts is which tasks take turns on a PU"),
            (all_to_all(4, 50), "pack:2 core:2 pu:1", "every two tasks communicate alike"),
        ] {
            let verdict = verdict(&weight, &Topology::load(machine).unwrap(), costs, "best");
            assert!(!verdict.can_gain && verdict.text.contains(expected), "{machine}: {}", verdict.text);
        }
        let machine = Topology::load("pack:2 core:2 pu:1").unwrap();
        let gains = verdict(&chain, &machine, costs, "best");
        assert_eq!(gains.text, "J is 50 % below packed and 75 % below scatter");
        // What goes through sockets may be a lot.
        assert_eq!(gains.clone().advised(Advice::Nothing, &["sockets".to_owned()]), gains);
        let nothing = gains.advised(Advice::Nothing, &[]);
        assert!(!nothing.can_gain && nothing.text.starts_with("nothing to gain: next to nothing"), "{}", nothing.text);
        let mut profile = Profile::new(Meta::new(Kind::Threads, "test", Vec::new()), chain.clone(), chain.clone());
        profile.accessed_bytes = vec![1 << 40; 4];
        assert_eq!(little(&profile, &chain).as_deref(), Some(LITTLE));
        let unseen = vec!["sockets".to_owned()];
        let mut beside = profile.clone();
        beside.meta.unseen_channels = unseen;
        profile.accessed_bytes = vec![100; 4];
        assert_eq!([&profile, &beside].map(|profile| little(profile, &chain)), [None, None]);
    }

    /// The tasks' order suits the machine where a mapper that looks at what they communicate finds no better one.
    #[test]
    fn the_order_is_praised_for_what_it_is() {
        let praise = "the tasks' order already suits the machine";
        for (mapper, [mapped, packed, scatter], praised, said) in [
            ("best", [20, 20, 40], true, "'--mapper packed' is as good as this mapping (20)"),
            ("greedy", [30, 20, 40], true, "'--mapper packed' is better than this mapping (20)"),
            ("greedy", [30, 40, 20], false, "'--mapper scatter' is better than this mapping (20)"),
            ("packed", [40, 40, 20], false, "'--mapper scatter' is better than this mapping (20), and both ignore"),
            ("random", [60, 40, 20], false, "'--mapper scatter' is better than this mapping (20), and both ignore"),
            ("random", [20, 20, 40], false, "random ignores who communicates"),
        ] {
            let text = compared(Costs { mapped, packed, scatter }, mapper);
            assert!(text.starts_with(said) && text.contains(praise) == praised, "{text}");
        }
    }

    /// That memory is silent says nothing of sockets, but on a machine where it does not matter.
    #[test]
    fn nothing_is_known_of_what_is_not_seen() {
        let silent = Matrix::from_triplets(4, [(0, 0, 7)]);
        let mut profile = Profile::new(Meta::new(Kind::Threads, "test", Vec::new()), silent.clone(), silent.clone());
        let reason = |profile: &Profile, machine: &str| {
            hopeless_as_seen(profile, &silent, &Topology::load(machine).unwrap()).unwrap()
        };
        assert_eq!(reason(&profile, "pack:2 core:4 pu:1"), "no task communicates with another");
        profile.meta.unseen_channels = vec!["sockets".into(), "files".into()];
        assert_eq!(
            reason(&profile, "pack:2 core:4 pu:1"),
            "no task communicates with another, as far as memory goes; what goes through sockets and files is not seen"
        );
        assert!(!reason(&profile, "core:4 pu:1").contains("not seen"));
    }

    /// Where tasks are as many as PUs it is the same whoever is where; where they are fewer, it is not.
    #[test]
    fn all_alike_can_gain_where_pus_are_left() {
        let machine = Topology::load("pack:2 core:4 pu:1").unwrap();
        for (tasks, can_gain, advice) in [(8, false, Advice::Nothing), (4, true, Advice::Locality)] {
            let weight = all_to_all(tasks, 50);
            let costs = Costs { mapped: 108, packed: 108, scatter: 240 };
            let verdict = verdict(&weight, &machine, costs, "best").advised(Advice::Together, &[]);
            assert_eq!((verdict.can_gain, verdict.advice), (can_gain, advice), "{}", verdict.text);
        }
    }

    #[test]
    fn what_nobody_looked_into_is_said_where_it_could_matter() {
        let costs = Costs { mapped: 10, packed: 20, scatter: 40 };
        let sockets = ["sockets".to_owned()];
        let silent = Matrix::from_triplets(4, [(0, 0, 7)]);
        let chain = Matrix::from_triplets(4, [(0, 1, 9), (1, 2, 9), (2, 3, 9)]);
        for (weight, machine, channels, said) in [
            (&silent, "pack:2 core:2 pu:1", &sockets[..], true),
            (&silent, "pack:2 core:2 pu:1", &[], false),
            // Wherever the tasks run, it is the same.
            (&silent, "core:4 pu:1", &sockets, false),
            (&chain, "pack:2 core:2 pu:1", &sockets, false),
        ] {
            let topology = Topology::load(machine).unwrap();
            let verdict = verdict(weight, &topology, costs, "best").beside(channels, 4, &topology);
            assert_eq!(verdict.text.contains("what goes through sockets is not seen"), said, "{}", verdict.text);
        }
    }

    #[test]
    fn a_mapping_no_better_than_packed_is_called_so() {
        for (mapped, mapper, expected) in [
            (20_000, "best", "'--mapper packed' is as good as"),
            (20_020, "best", "'--mapper packed' is as good as"),
            (20_021, "best", "'--mapper packed' is better than"),
            (40_000, "scatter", "'--mapper packed' is better than"),
            (20_000, "packed", "without --mapper packed a mapping is searched for"),
        ] {
            let text = compared(Costs { mapped, packed: 20_000, scatter: 40_000 }, mapper);
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains(&format!("'--mapper {mapper}'")), "what was done is not advised: {text}");
        }
    }
}
