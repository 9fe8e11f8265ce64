//! Phases of a mapping of ranks: what ranks are told of them, and what is said afterwards.

use cohabit_apply::ranks::Expected;
use cohabit_host::CpuMask;
use cohabit_model::mapping::PhaseMapping;
use cohabit_model::{Error, Mapping, Result, Topology};
use cohabit_observe::mpi::{Followed, Phase, Placed};

/// Where ranks are in each phase, in the PUs that `expected` says of a mapping: they are confined as their launcher
/// confines them. The mapping has no phases any more then.
///
/// # Errors
/// Ranks on several hosts, or with threads of their own in the mapping.
pub fn take(
    mapping: &mut Mapping,
    topology: &Topology,
    expected: impl Fn(&Mapping) -> Result<Vec<Expected>>,
) -> Result<Vec<Phase>> {
    let Some(phases) = mapping.phases.take() else { return Ok(Vec::new()) };
    let refused = |why: String| {
        let cause = format!("the mapping changes from phase to phase, {why}");
        Err(Error::new(cause).remedy("map the profile without --per-phase"))
    };
    let hosts = topology.hosts().count();
    if hosts > 1 {
        return refused(format!("which ranks do on one host, and it is for {hosts}"));
    }
    if mapping.tasks.iter().any(|task| task.spawn_index > 0) {
        return refused("which ranks do as a whole, and it is one of their threads".to_owned());
    }
    let planned = |phase: &PhaseMapping| {
        let mut there = mapping.clone();
        for (task, seat) in there.tasks.iter_mut().zip(&phase.tasks) {
            (task.pu, task.pus) = (seat.pu, seat.pus.clone());
        }
        let ranks = expected(&there)?.into_iter().map(|expected| expected.pus.unwrap_or_default()).collect();
        Ok(Phase { number: phase.number, begins_at: phase.begins_at.clone(), ranks })
    };
    phases.mappings.iter().map(planned).collect()
}

/// Where a rank was to be in a phase.
pub fn expected(phases: &[Phase], number: u64, rank: u32) -> &[u32] {
    let phase = phases.iter().find(|phase| phase.number == number);
    phase.and_then(|phase| phase.ranks.get(rank as usize)).map_or(&[], Vec::as_slice)
}

/// A sentence for what did not come to pass.
pub fn said(phases: &[Phase], ranks: &[Placed]) -> Vec<String> {
    if phases.is_empty() {
        return Vec::new();
    }
    let followed = || ranks.iter().flat_map(|rank| rank.phases.iter().map(move |phase| (rank.rank, phase)));
    if followed().next().is_none() {
        return vec![
            "no phase was followed: nothing was seen of the ranks, or no library was loaded into them (static and setuid \
             programs, and scripts that clear the environment, load none)"
                .to_owned(),
        ];
    }
    let began = |number: u64| followed().any(|(_, phase)| phase.number == number && phase.times > 0);
    let silent: Vec<String> =
        phases.iter().filter(|phase| !began(phase.number)).map(|phase| phase.number.to_string()).collect();
    if silent.len() == phases.len() {
        return vec![
            "no rank came to a call site at which a phase begins: the program may have been compiled anew since it was \
             profiled"
                .to_owned(),
        ];
    }
    let mut lines = Vec::new();
    if !silent.is_empty() {
        let several = if silent.len() == 1 { "" } else { "s" };
        lines.push(format!("no rank came to phase{several} {} of the mapping", silent.join(", ")));
    }
    let elsewhere = |(rank, phase): (u32, &Followed)| {
        let wanted = expected(phases, phase.number, rank);
        let list = |pus: &[u32]| {
            let mask = CpuMask::from_pus(pus.iter().copied());
            if pus.len() == 1 { format!("PU {mask}") } else { format!("PUs {mask}") }
        };
        (phase.times > 0 && phase.affinity != wanted).then(|| {
            format!(
                "rank {rank} was to be on {} in phase {}, and was on {}",
                list(wanted),
                phase.number,
                list(&phase.affinity)
            )
        })
    };
    lines.extend(followed().filter_map(elsewhere));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_observe::mpi::Ended;

    /// Two phases of two ranks, and what each rank says of them: how often, and where it was.
    fn said_of(of: &[[(u64, u32); 2]]) -> Vec<String> {
        let phase =
            |number, pus: [u32; 2]| Phase { number, begins_at: Vec::new(), ranks: pus.map(|pu| vec![pu]).into() };
        let phases = [phase(0, [0, 1]), phase(5, [1, 0])];
        let rank = |(rank, of): (u32, &[(u64, u32); 2])| Placed {
            rank,
            host: String::new(),
            affinity: Vec::new(),
            ended: Ended::Finalized,
            threads: Vec::new(),
            threads_made: 0,
            phases: [0, 5]
                .into_iter()
                .zip(of)
                .map(|(number, &(times, pu))| Followed { number, times, affinity: vec![pu] })
                .collect(),
        };
        said(&phases, &(0..).zip(of).map(rank).collect::<Vec<_>>())
    }

    #[test]
    fn what_did_not_come_to_pass_is_said() {
        assert_eq!(said_of(&[[(1, 0), (2, 1)], [(1, 1), (2, 0)]]), [""; 0]);
        assert_eq!(said_of(&[[(1, 0), (0, 0)], [(1, 1), (0, 0)]]), ["no rank came to phase 5 of the mapping"]);
        assert_eq!(
            said_of(&[[(1, 0), (1, 0)], [(1, 1), (1, 0)]]),
            ["rank 0 was to be on PU 1 in phase 5, and was on PU 0"]
        );
        assert!(said_of(&[[(0, 0), (0, 0)]])[0].contains("compiled anew"));
        assert!(said_of(&[])[0].contains("nothing was seen of the ranks"));
        assert_eq!(said(&[], &[]), [""; 0]);
    }
}
