//! What Open MPI's monitoring component wrote at MPI_Finalize, as far as collectives are concerned: for each rank the
//! messages to each other rank, the program's and the library's, and how many there were of each size.
//!
//! The component takes some collectives (a pairwise all-to-all) for messages of the program; so what the program sent
//! is taken from its calls, and what is left is the library's. Lines of NAME.RANK.prof (see `import::open_mpi`): `I
//! rank peer N bytes N msgs sent`, and a histogram that ends the E line of a peer, or its I line where the program sent
//! it nothing: messages of both kinds by size, first the empty ones, then those from 2^k bytes on.

use super::part::Amount;
use cohabit_formats::import::number::from_text;
use cohabit_model::Result;
use cohabit_model::file::read_text;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A rank's part of the monitoring.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Monitored {
    /// All messages by peer in the world, and how many there are of each size class (0: empty, k + 1: from 2^k bytes
    /// on).
    pub peers: HashMap<u32, (Amount, BTreeMap<u32, u64>)>,
}

/// The files of a run in a directory, by rank. What cannot be read is left out: who misses it says so.
pub fn read(directory: &Path) -> HashMap<u32, Monitored> {
    let mut found = HashMap::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let rank = name.strip_suffix(".prof").and_then(|stem| stem.rsplit(['.', '_']).next()?.parse().ok());
        if let (Some(rank), Ok(text)) = (rank, read_text(&entry.path(), 1 << 30)) {
            if let Ok(monitored) = parse(&text) {
                found.insert(rank, monitored);
            }
        }
    }
    found
}

fn parse(text: &str) -> Result<Monitored> {
    let mut monitored = Monitored::default();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let ["E" | "I", _, peer, bytes, "bytes", messages, "msgs", "sent", rest @ ..] = fields.as_slice() else {
            continue;
        };
        let peer = from_text(peer)? as u32;
        let (total, sizes) = monitored.peers.entry(peer).or_default();
        total.add(Amount { messages: from_text(messages)?, bytes: from_text(bytes)? });
        if let [histogram] = rest {
            let counts = histogram.split(',').map(from_text).collect::<Result<Vec<u64>>>()?;
            let classes = (0u32..).zip(counts).filter(|(_, count)| *count > 0);
            *sizes = classes.collect();
        }
    }
    Ok(monitored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_sizes_are_read() {
        let text = "# POINT TO POINT\nE\t0\t1\t1000 bytes\t10 msgs sent\t4,0,0,2,3\nI\t0\t1\t52 bytes\t9 msgs sent\n\
                    I\t0\t2\t8 bytes\t1 msgs sent\t0,0,0,0,1\n# OSC\nS\t0\t1\t3000 bytes\t1 msgs sent\n\
                    C\t0\t1\t5 bytes\t3 msgs sent\nD\tMPI_COMM_WORLD\tprocs: 0,1,2,3\n";
        let found = parse(text).unwrap();
        let amount = |messages, bytes| Amount { messages, bytes };
        assert_eq!(found.peers[&1], (amount(19, 1052), BTreeMap::from([(0, 4), (3, 2), (4, 3)])));
        assert_eq!(found.peers[&2], (amount(1, 8), BTreeMap::from([(4, 1)])));
    }

    #[test]
    fn a_line_that_is_none_is_an_error() {
        assert!(parse("I\t0\tx\t1 bytes\t1 msgs sent\n").is_err());
        assert!(parse("I\t0\t1\t-1 bytes\t1 msgs sent\n").is_err());
        assert_eq!(parse("").unwrap(), Monitored::default());
    }
}
