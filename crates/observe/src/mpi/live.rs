//! What ranks send one another, while they run: the library of `native/mpi` counts in files that are mapped, and these
//! are read again and again. Exact, whatever the messages go through, and without any privilege.

use super::files;
use super::install;
use super::launcher::{is_launcher, program_family, recognise};
use super::part::{Amount, Rank};
use super::scripts::called_within;
use crate::dbi::directory::Directory;
use cohabit_model::Result;
use cohabit_model::launcher::Family;
use std::collections::{BTreeMap, HashMap};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const PARTS: &str = "COHABIT_MPI_PARTS";
/// What launchers tell their ranks: Open MPI's, and others', whose MPI the program tells.
const RANK_OF_OPEN_MPI: &str = "OMPI_COMM_WORLD_RANK";
const RANKS: [&str; 3] = ["PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];

/// Reads what the ranks on this host have sent one another.
pub struct Messages {
    parts: Directory,
    library: PathBuf,
    /// What was known of each pair: the job, who counted, and the other rank.
    known: HashMap<(u64, u32, u32), Amount>,
}

/// What went between two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Process ids.
    pub processes: (i32, i32),
    /// Both ways together.
    pub amount: Amount,
}

impl Messages {
    /// Gets ready for a command whose ranks are to be preloaded with the library; none where it starts no ranks, is
    /// none, or these are counted by another cohabit.
    ///
    /// # Errors
    /// There is no library for the command's MPI, or no room for what ranks leave.
    pub fn start(command: &[OsString]) -> Result<Option<Self>> {
        if env::var_os(PARTS).is_some() {
            return Ok(None);
        }
        let Some(family) = family(command, |name| env::var_os(name).is_some()) else { return Ok(None) };
        let library = install::library(family)?;
        Ok(Some(Self { parts: Directory::create()?, library, known: HashMap::new() }))
    }

    /// The library to preload, and what it finds in its environment.
    pub fn environment(&self) -> (&Path, (String, OsString)) {
        (&self.library, (PARTS.to_owned(), self.parts.path().into()))
    }

    /// The ranks on this host by their process ids, and what has gone between each two of them since it was last read.
    pub fn read(&mut self) -> (Vec<i32>, Vec<Sent>) {
        // What cannot be read now is read the next time.
        let ranks = files::read_all(&[self.parts.path()]).map(|found| found.ranks).unwrap_or_default();
        let id = |rank: &Rank| (rank.head.job, rank.head.rank);
        let processes: HashMap<(u64, u32), i32> = ranks.iter().map(|rank| (id(rank), rank.head.pid as i32)).collect();
        let mut sent: BTreeMap<(i32, i32), Amount> = BTreeMap::new();
        for rank in &ranks {
            let (job, own) = id(rank);
            for (peer, all) in of_peers(rank) {
                // One on another host, or that is not ready yet: then it is counted when it is.
                let Some(&other) = processes.get(&(job, peer)).filter(|_| peer != own) else { continue };
                let known = self.known.entry((job, own, peer)).or_default();
                // A table that grows while it is read may lack some.
                let new = Amount {
                    messages: all.messages.saturating_sub(known.messages),
                    bytes: all.bytes.saturating_sub(known.bytes),
                };
                known.add(new);
                let process = rank.head.pid as i32;
                if new != Amount::default() {
                    sent.entry((process.min(other), process.max(other))).or_default().add(new);
                }
            }
        }
        let sent = sent.into_iter().map(|(processes, amount)| Sent { processes, amount });
        (processes.into_values().collect(), sent.collect())
    }
}

/// What a rank has exchanged with each of its own world.
fn of_peers(rank: &Rank) -> BTreeMap<u32, Amount> {
    let mut peers: BTreeMap<u32, Amount> = BTreeMap::new();
    for (peer, _, amount) in rank.cells.iter().filter(|(peer, ..)| peer.world == 0) {
        peers.entry(peer.rank).or_default().add(*amount);
    }
    peers
}

/// The MPI whose ranks a command starts, or may start, or is itself one of; `is_set` tells of variables.
fn family(command: &[OsString], is_set: impl Fn(&str) -> bool) -> Option<Family> {
    if is_launcher(command) {
        return recognise(command).ok().map(|recognised| recognised.family);
    }
    if is_set(RANK_OF_OPEN_MPI) {
        return Some(Family::OpenMpi);
    }
    if RANKS.iter().any(|name| is_set(name)) {
        return program_family(command);
    }
    called_within(command).map(|recognised| recognised.family)
}

#[cfg(test)]
mod tests {
    use super::super::many_tests::part_of;
    use super::*;

    #[test]
    fn the_launcher_tells_which_mpi_it_is_and_else_the_program_does() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(family(&words("sleep 1"), |_| false), None);
        assert_eq!(family(&words("sleep 1"), |name| name == "OMPI_COMM_WORLD_RANK"), Some(Family::OpenMpi));
        assert_eq!(family(&words("sleep 1"), |name| name == "PMI_RANK"), None);
        assert_eq!(family(&words("no-such-dir/mpirun -n 2 ./a"), |_| true), None);
    }

    #[test]
    fn what_was_sent_since_is_told_both_ways_together() {
        let (parts, known) = (Directory::create().unwrap(), HashMap::new());
        let mut messages = Messages { parts, library: PathBuf::new(), known };
        let folder = messages.parts.path().to_owned();
        let write = |rank: u32, sent: &[(u32, u64, u64)]| {
            std::fs::write(folder.join(format!("h-{rank}.{}", files::PART)), part_of(rank, sent)).unwrap();
        };
        let amount = |messages, bytes| Amount { messages, bytes };
        assert_eq!(messages.read(), (vec![], vec![]));
        // Rank 1 is not there yet, rank 9 is elsewhere, and what a rank sends itself goes nowhere.
        write(0, &[(1, 2, 200), (9, 5, 5), (0, 7, 7)]);
        assert_eq!(messages.read(), (vec![1000], vec![]));
        write(1, &[(0, 1, 50)]);
        let (mut ranks, sent) = messages.read();
        ranks.sort_unstable();
        assert_eq!((ranks, sent), (vec![1000, 1001], vec![Sent { processes: (1000, 1001), amount: amount(3, 250) }]));
        assert_eq!(messages.read().1, []);
        write(0, &[(1, 12, 1200), (1, 1, 1)]);
        assert_eq!(messages.read().1, [Sent { processes: (1000, 1001), amount: amount(11, 1001) }]);
        // A table that grows may lack what was there.
        write(0, &[]);
        assert_eq!(messages.read().1, []);
        write(0, &[(1, 13, 1301)]);
        assert_eq!(messages.read().1, [Sent { processes: (1000, 1001), amount: amount(0, 100) }]);
    }
}
