//! Where ranks were to be, and where they were.

use std::fmt;

/// Where a rank is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Its host; none where the mapping is for the one machine that the launcher runs on.
    pub host: Option<String>,
    /// The PUs (OS indices) that it may use, ascending; none where the launcher could not be told.
    pub pus: Option<Vec<u32>>,
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
        let list = crate::CpuMask::from_pus(pus.iter().copied());
        if pus.len() == 1 { format!("PU {list}") } else { format!("PUs {list}") }
    });
    [host.map(str::to_owned), pus].into_iter().flatten().collect::<Vec<_>>().join(" ")
}
