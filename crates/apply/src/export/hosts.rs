//! Hosts of ranks: their names as launchers take them, and what each host is told of its own ranks.

use super::tasks::Rank;
use cohabit_model::{Error, Result, Topology};

/// The name of each rank's host. Where the topology is no cluster and the mapping names one host only, that is
/// whichever machine the launcher is started on.
///
/// # Errors
/// A name that no launcher would read as one.
pub fn names<'a>(topology: &Topology, ranks: &[Rank<'a>]) -> Result<Vec<&'a str>> {
    if topology.names.is_empty() && ranks.iter().all(|rank| rank.host == ranks[0].host) {
        return Ok(vec!["localhost"; ranks.len()]);
    }
    let sound = |name: &str| {
        let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        !name.is_empty() && letters && !name.starts_with('-')
    };
    match ranks.iter().find(|rank| !sound(rank.host)) {
        Some(rank) => Err(Error::new(format!("{:?} is no name of a host that a launcher takes", rank.host))
            .remedy("name the hosts in the cluster file as the network does")),
        None => Ok(ranks.iter().map(|rank| rank.host).collect()),
    }
}

/// What the ranks of one host are given, in their order there, for a launcher that tells every host the same.
///
/// # Errors
/// Where two hosts would have to be told different things.
pub fn same_on_each<T: PartialEq + Clone>(ranks: &[Rank<'_>], given: &[T], format: &str) -> Result<Vec<T>> {
    let mut hosts: Vec<(&str, Vec<T>)> = Vec::new();
    for (rank, value) in ranks.iter().zip(given) {
        match hosts.iter_mut().find(|(name, _)| *name == rank.host) {
            Some((_, values)) => values.push(value.clone()),
            None => hosts.push((rank.host, vec![value.clone()])),
        }
    }
    let Some(longest) = hosts.iter().max_by_key(|(_, values)| values.len()) else { return Ok(Vec::new()) };
    match hosts.iter().find(|(_, values)| !longest.1.starts_with(values)) {
        None => Ok(longest.1.clone()),
        Some((other, _)) => {
            let cause = format!(
                "{format} gives the n-th rank of every host the same PU, and hosts {} and {other} differ",
                longest.0
            );
            Err(Error::new(cause).remedy("export taskset, and start it with the launcher's own binding off"))
        }
    }
}
