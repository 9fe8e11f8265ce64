//! A mapping of ranks as words, variables and files of one launcher, in the syntax of its version (docs/launchers.md).

use super::compare::Expected;
use super::given::Given;
use super::here::MANAGERS;
use crate::export::hosts::names;
use crate::export::tasks::{Rank, ranks};
use crate::export::{Placement, exporter};
use cohabit_model::count::counted;
use cohabit_model::launcher::Launcher;
use cohabit_model::{Error, Result};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How a launcher is told, and what it should lead to. Its files live as long as it does.
#[derive(Debug)]
pub struct RankLaunch {
    /// The whole command.
    pub command: Vec<OsString>,
    /// Variables of the launcher.
    pub variables: Vec<(String, OsString)>,
    /// Where each rank is to be.
    pub expected: Vec<Expected>,
    /// What the launcher could not be told.
    pub notes: Vec<String>,
    files: TempDir,
}

/// What is put together.
struct Building<'a> {
    placement: &'a Placement<'a>,
    ranks: Vec<Rank<'a>>,
    hosts: Vec<&'a str>,
    given: &'a Given,
    folder: TempDir,
    words: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    notes: Vec<String>,
    bound: bool,
}

impl RankLaunch {
    /// The command of a launcher with a mapping added.
    ///
    /// # Errors
    /// Another number of ranks than is asked for, hosts that the launcher does not take, no place for files.
    pub fn new(
        (launcher, major): (Launcher, u32),
        command: &[OsString],
        given: &Given,
        placement: &Placement,
    ) -> Result<Self> {
        let ranks = ranks(placement, "a launcher")?;
        if let Some(asked) = given.ranks.filter(|&asked| asked != ranks.len()) {
            let cause = format!("the mapping has {}, and the command starts {asked}", counted(ranks.len(), "rank"));
            return Err(Error::new(cause).remedy("profile and map a run with as many ranks"));
        }
        let hosts = names(placement.topology(), &ranks)?;
        let folder = folder()?;
        let (words, variables, notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut building = Building { placement, ranks, hosts, given, folder, words, variables, notes, bound: true };
        let mut command = command.to_vec();
        match launcher {
            Launcher::OpenMpi => building.open_mpi(major)?,
            Launcher::Hydra => {
                building.hydra()?;
                // A second list of hosts would be an error; ours is of those that were given.
                if building.names_hosts() {
                    command = given.without_hosts(&command);
                }
            }
            Launcher::Srun => building.srun()?,
            Launcher::Singleton => return Err(Error::new("a single process is no launcher of ranks")),
        }
        if given.ranks.is_none() {
            building.word(["-n".into(), building.ranks.len().to_string()]);
        }
        let expected = building.expected();
        command.splice(1..1, building.words);
        let Building { variables, notes, folder, .. } = building;
        Ok(Self { command, variables, expected, notes, files: folder })
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.files.path()
    }
}

impl Building<'_> {
    fn word(&mut self, words: impl IntoIterator<Item = String>) {
        self.words.extend(words.into_iter().map(OsString::from));
    }

    /// Whether hosts are named: not where the mapping is for the one machine that the launcher runs on.
    fn names_hosts(&self) -> bool {
        self.hosts.iter().any(|host| *host != "localhost")
    }

    /// Whether two ranks have a PU in common: Open MPI 5 wants that to be asked for.
    fn shares_pus(&self) -> bool {
        let mut taken = HashSet::new();
        let mut pus =
            self.hosts.iter().zip(&self.ranks).flat_map(|(host, rank)| rank.room.iter().map(move |pu| (host, pu)));
        pus.any(|place| !taken.insert(place))
    }

    /// The content of a format, or why it cannot say what the mapping says.
    fn export(&self, format: &str) -> Result<String> {
        exporter(format)?.export(self.placement)
    }

    fn file(&self, format: &str) -> Result<String> {
        // Without a hyphen, which Open MPI 5.0.7 refuses in the name of a rankfile.
        let path = self.folder.path().join(format.replace('-', "_"));
        std::fs::write(&path, self.export(format)?)?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// A rankfile. Its hosts have to be known to mpirun: by a resource manager, by the user, or by us.
    fn open_mpi(&mut self, major: u32) -> Result<()> {
        let by_manager = MANAGERS.iter().any(|name| std::env::var_os(name).is_some());
        if self.given.hosts.is_none() && !by_manager && (major >= 5 || self.names_hosts()) {
            let mut counts: Vec<(&str, usize)> = Vec::new();
            for &host in &self.hosts {
                match counts.iter_mut().find(|(name, _)| *name == host) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((host, 1)),
                }
            }
            let list = counts.iter().map(|(host, count)| format!("{host}:{count}")).collect::<Vec<_>>();
            let list = list.join(",");
            self.word(["--host".into(), list]);
        }
        if major >= 5 {
            let file = self.file("open-mpi-5")?;
            self.word(["--map-by".into(), format!("rankfile:file={file}:hwtcpus")]);
            if self.shares_pus() {
                self.word(["--bind-to".into(), "hwthread:overload-allowed".into()]);
            }
        } else {
            let file = self.file("open-mpi-4")?;
            let physical = ["--mca", "rmaps_rank_file_physical", "1", "--use-hwthread-cpus", "--rankfile"];
            self.word(physical.map(str::to_owned).into_iter().chain([file]));
        }
        Ok(())
    }

    fn hydra(&mut self) -> Result<()> {
        if self.names_hosts() {
            // The file says to which PUs, too.
            let file = self.file("mpich-hosts")?;
            self.word(["-f".into(), file]);
        } else {
            let binding = self.export("mpich-binding");
            self.bind(binding);
        }
        Ok(())
    }

    fn srun(&mut self) -> Result<()> {
        if self.names_hosts() {
            let file = self.file("slurm-hosts")?;
            self.variables.push(("SLURM_HOSTFILE".into(), file.into()));
            self.word(["--distribution=arbitrary".into()]);
        }
        // A list has a PU a rank. Where hosts differ in what they have to spare, a PU each may still be the same on
        // all.
        let listed = self.ranks.iter().all(|rank| rank.room.len() == 1);
        let masks = if listed { None } else { self.export("slurm-mask-cpu").ok() };
        let binding = masks.map_or_else(
            || {
                self.ranks.iter_mut().for_each(|rank| rank.room.clone_from(&rank.pus));
                self.export("slurm-map-cpu").or_else(|_| self.export("slurm-mask-cpu"))
            },
            Ok,
        );
        self.bind(binding);
        Ok(())
    }

    /// Where every host would have to be told something else, ranks are at least on the right one.
    fn bind(&mut self, words: Result<String>) {
        match words {
            Ok(words) => self.word(words.split_whitespace().map(str::to_owned).collect::<Vec<_>>()),
            Err(error) => {
                self.notes.push(format!("ranks are put on their hosts and not bound there: {}", error.cause));
                self.bound = false;
            }
        }
    }

    fn expected(&self) -> Vec<Expected> {
        let named = self.names_hosts();
        let of = |(rank, host): (&Rank, &&str)| Expected {
            host: named.then(|| (*host).to_owned()),
            pus: self.bound.then(|| rank.room.clone()),
            threads: if rank.threads.len() > 1 { rank.threads.clone() } else { Vec::new() },
        };
        self.ranks.iter().zip(&self.hosts).map(of).collect()
    }
}

/// A folder whose path Open MPI's and shells' lists take: no hyphen, comma, colon or blank.
fn folder() -> Result<TempDir> {
    let places = [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/dev/shm")];
    let plain = |path: &PathBuf| {
        path.to_string_lossy().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._".contains(&byte))
    };
    let made = places
        .iter()
        .filter(|place| plain(place))
        .find_map(|place| tempfile::Builder::new().prefix("cohabit").tempdir_in(place).ok());
    made.ok_or_else(|| {
        Error::new("no folder for the launcher's files").remedy("set TMPDIR to one whose name is of letters and digits")
    })
}
