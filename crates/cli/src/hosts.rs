//! Threads on a cluster: those of one process run on one host, whatever a mapping says.

use cohabit_map::Options;
use cohabit_model::profile::Kind;
use cohabit_model::{Error, Profile, Result, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Keeps the tasks of a profile that share memory to one host: the PUs of all others are forbidden. Returns what is to
/// be said of that; none where there is one host, or the tasks are ranks.
///
/// # Errors
/// Where tasks are pinned to several hosts.
pub fn keep_to_one(profile: &Profile, topology: &Topology, options: &mut Options) -> Result<Option<String>> {
    let share_memory = matches!(profile.meta.kind, Kind::Threads | Kind::Processes);
    if !share_memory || topology.hosts().count() < 2 || profile.tasks() < 2 {
        return Ok(None);
    }
    let pinned: BTreeSet<&str> = options.pins.iter().filter_map(|&(_, pu)| topology.host_of(pu)).collect();
    if pinned.len() > 1 {
        let cause = format!("--pin puts tasks that share memory on {} hosts", pinned.len());
        return Err(Error::new(cause).remedy(remedy(profile, "pin them to PUs of one host; ")));
    }
    let mut free: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for pu in topology.allowed().into_iter().filter(|pu| !options.forbidden.contains(pu)) {
        free.entry(topology.host_of(pu).unwrap_or_default()).or_default().push(pu);
    }
    // The most PUs, and of hosts alike the first in the cluster.
    let largest = free.iter().max_by_key(|(_, pus)| (pus.len(), std::cmp::Reverse(pus[0]))).map(|host| *host.0);
    let Some(host) = pinned.first().copied().or(largest) else { return Ok(None) };
    let elsewhere = |pu: &usize| topology.host_of(*pu) != Some(host) && !options.forbidden.contains(pu);
    let others: Vec<usize> = (0..topology.pus.len()).filter(elsewhere).collect();
    options.forbidden.extend(others);
    let tasks = if profile.meta.kind == Kind::Threads { "threads" } else { "processes" };
    let remedy = remedy(profile, "");
    let remedy = if remedy.is_empty() { remedy } else { format!(" ({remedy})") };
    Ok(Some(format!("the tasks are {tasks} that share memory: all are on one host, {host}{remedy}")))
}

/// What to do, and of a matrix that was imported what it may be.
fn remedy(profile: &Profile, first: &str) -> String {
    let imported = "ranks may be on several: 'cohabit import --kind ranks' says that a matrix is of ranks";
    let imported = if profile.meta.detector.starts_with("import:") { imported } else { "" };
    format!("{first}{imported}").trim_end_matches("; ").to_owned()
}

/// What is to be said of a mapping that has the threads of one rank on several hosts; none of any other.
pub fn parted_ranks(profile: &Profile, topology: &Topology, placement: &[usize]) -> Option<String> {
    if profile.meta.kind != Kind::Hybrid {
        return None;
    }
    let mut hosts: BTreeMap<Option<u32>, BTreeSet<Option<&str>>> = BTreeMap::new();
    for (task, &pu) in profile.meta.tasks.iter().zip(placement) {
        hosts.entry(task.rank).or_default().insert(topology.host_of(pu));
    }
    let parted = hosts.iter().filter(|(rank, hosts)| rank.is_some() && hosts.len() > 1).count();
    let s = if parted == 1 { "" } else { "s" };
    let cause = format!("the threads of {parted} rank{s} are on several hosts each, where they cannot run");
    (parted > 0).then(|| format!("{cause}: map to hosts with more PUs, or fewer threads a rank"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::profile::Meta;
    use cohabit_model::{Matrix, Task};

    /// A profile of so many tasks, two in each rank where there are ranks.
    fn profile(kind: Kind, tasks: u32) -> Profile {
        let rank = |id: u32| matches!(kind, Kind::Ranks | Kind::Hybrid).then_some(id / 2);
        let task = |id: u32| serde_json::json!({"id": id, "kind": "thread", "name": "", "rank": rank(id)});
        let tasks: Vec<Task> = (0..tasks).map(|id| serde_json::from_value(task(id)).unwrap()).collect();
        let count = tasks.len();
        Profile::new(Meta::new(kind, "test", tasks), Matrix::zero(count), Matrix::zero(count))
    }

    fn cluster() -> Topology {
        let hosts =
            "[[host]]\nnames = 'a'\ntopology = 'core:2 pu:1'\n[[host]]\nnames = ['b', 'c']\ntopology = 'core:4 pu:1'\n";
        Topology::parse_text(hosts).unwrap()
    }

    #[test]
    fn what_shares_memory_stays_on_one_host() {
        let (cluster, machine) = (cluster(), Topology::load("pack:2 core:4 pu:1").unwrap());
        let pins = |pus: &[usize]| pus.iter().copied().enumerate().collect::<Vec<_>>();
        for (kind, topology, pinned, expected) in [
            (Kind::Threads, &cluster, &[][..], Some("on one host, b")),
            (Kind::Processes, &cluster, &[1], Some("processes that share memory: all are on one host, a")),
            (Kind::Ranks, &cluster, &[], None),
            (Kind::Hybrid, &cluster, &[], None),
            (Kind::Threads, &machine, &[], None),
        ] {
            let mut options = Options { pins: pins(pinned), ..Options::default() };
            let said = keep_to_one(&profile(kind, 4), topology, &mut options).unwrap();
            assert_eq!(said.is_some(), expected.is_some(), "{kind:?}");
            assert!(said.iter().zip(expected).all(|(said, expected)| said.contains(expected)), "{said:?}");
            let open: BTreeSet<_> = (0..topology.pus.len())
                .filter(|pu| !options.forbidden.contains(pu))
                .map(|pu| topology.host_of(pu))
                .collect();
            assert!(expected.is_none() || open.len() == 1, "{open:?}");
        }
        let mut options = Options { pins: pins(&[1, 2]), ..Options::default() };
        let error = keep_to_one(&profile(Kind::Threads, 4), &cluster, &mut options).unwrap_err();
        assert!(error.cause.contains("on 2 hosts"), "{}", error.cause);
        assert_eq!(error.remedy.as_deref(), Some("pin them to PUs of one host"));
        // Of a matrix nobody knows what its tasks are.
        let mut imported = profile(Kind::Threads, 4);
        imported.meta.detector = "import:csv".into();
        let said = keep_to_one(&imported, &cluster, &mut Options::default()).unwrap().unwrap();
        assert!(said.contains("b (ranks may be on several"), "{said}");
    }

    #[test]
    fn ranks_whose_threads_are_parted_are_told() {
        let said = |kind, placement: &[usize]| parted_ranks(&profile(kind, 4), &cluster(), placement);
        assert_eq!(said(Kind::Hybrid, &[0, 1, 2, 3]), None);
        assert!(said(Kind::Hybrid, &[0, 2, 3, 1]).unwrap().contains("threads of 2 ranks are on several hosts"));
        assert!(said(Kind::Hybrid, &[0, 2, 3, 4]).unwrap().contains("threads of 1 rank are on several hosts"));
        assert_eq!(said(Kind::Ranks, &[0, 2, 3, 1]), None);
    }
}
