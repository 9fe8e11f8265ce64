//! Where ranks and their threads were to be, and where they were.

use std::fmt;

/// Where a rank is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Its host; none where the mapping is for the one machine that the launcher runs on.
    pub host: Option<String>,
    /// The PUs (OS indices) that it may use, ascending; none where the launcher could not be told.
    pub pus: Option<Vec<u32>>,
    /// The PU of each of its threads, in the order in which they are made; empty where it has one.
    pub threads: Vec<u32>,
}

/// Where a rank was when MPI_Init returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub rank: usize,
    /// Its host.
    pub host: String,
    /// Its affinity, ascending.
    pub affinity: Vec<u32>,
    /// The affinity of each of its threads, where these were to be placed; none of one that was not started.
    pub threads: Vec<Option<Vec<u32>>>,
}

/// A rank that was elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its number.
    pub rank: usize,
    /// Where it was to be.
    pub expected: Expected,
    /// Where it was; none where nothing was seen of it.
    pub seen: Option<Seen>,
}

/// The ranks that were not where they were to be.
pub fn differences(expected: &[Expected], seen: &[Seen]) -> Vec<Difference> {
    let compare = |(rank, expected): (usize, &Expected)| {
        let found = seen.iter().find(|seen| seen.rank == rank);
        let there = found.is_some_and(|seen| {
            expected.host.as_ref().is_none_or(|host| short(host) == short(&seen.host))
                && expected.pus.as_ref().is_none_or(|pus| *pus == seen.affinity)
        });
        (!there).then(|| Difference { rank, expected: expected.clone(), seen: found.cloned() })
    };
    expected.iter().enumerate().filter_map(compare).collect()
}

/// A sentence for each rank whose threads were not as the mapping has them; `seen` are in no order.
pub fn threads_elsewhere(expected: &[Expected], seen: &[Seen]) -> Vec<String> {
    let said = |(rank, expected): (usize, &Expected)| {
        let found = seen.iter().find(|seen| seen.rank == rank)?;
        let started = found.threads.iter().flatten().count();
        // The first one's is read when there is a second.
        let started = if found.threads.is_empty() { 0 } else { started.max(1) };
        if started < expected.threads.len() {
            let count = expected.threads.len();
            return Some(match started {
                0 => format!("the {count} threads of rank {rank} were not placed"),
                _ => format!("rank {rank} started {started} of the {count} threads that the mapping has"),
            });
        }
        let (number, pu, affinity) =
            (0..).zip(&expected.threads).zip(&found.threads).find_map(|((number, &pu), seen): ((u32, _), _)| {
                seen.as_ref().filter(|seen| **seen != [pu]).map(|seen| (number, pu, seen))
            })?;
        Some(format!("thread {number} of rank {rank} was to be on PU {pu}, and is on {}", place(None, Some(affinity))))
    };
    expected.iter().enumerate().filter(|(_, expected)| !expected.threads.is_empty()).filter_map(said).collect()
}

/// A host knows itself by its short name or by its long one.
fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rank {} was to be on {}",
            self.rank,
            place(self.expected.host.as_deref(), self.expected.pus.as_deref())
        )?;
        match &self.seen {
            Some(seen) => {
                let host = self.expected.host.is_some().then_some(seen.host.as_str());
                write!(f, ", and is on {}", place(host, Some(&seen.affinity)))
            }
            None => f.write_str(", and nothing was seen of it"),
        }
    }
}

fn place(host: Option<&str>, pus: Option<&[u32]>) -> String {
    let pus = pus.map(|pus| {
        let list = cohabit_host::CpuMask::from_pus(pus.iter().copied());
        if pus.len() == 1 { format!("PU {list}") } else { format!("PUs {list}") }
    });
    [host.map(str::to_owned), pus].into_iter().flatten().collect::<Vec<_>>().join(" ")
}
