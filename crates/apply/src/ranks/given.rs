//! What the command line of a launcher already says about its ranks: how many, on which hosts, and whether the user has
//! mapped or bound them (mpirun(1) of Open MPI 4.1 and 5.0, `mpiexec -help` of MPICH's Hydra, srun(1)).

use super::hostfile;
use cohabit_model::launcher::Launcher;
use cohabit_model::launcher::words::{Opt, contexts};
use cohabit_model::{Error, Result, Topology};
use std::ffi::OsString;
use std::ops::Range;

/// A host that the ranks may use, and how many of them it takes where that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its slots.
    pub slots: Option<usize>,
}

/// What is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Given {
    /// How many ranks are asked for.
    pub ranks: Option<usize>,
    /// The hosts that they may use, in the order they are named.
    pub hosts: Option<Vec<Host>>,
    /// Options and variables by which the user maps or binds ranks.
    pub placed_by: Vec<String>,
    /// The words that name the hosts.
    pub host_words: Vec<Range<usize>>,
}

/// Options of a launcher, without their hyphens.
struct Options {
    count: &'static [&'static str],
    hosts: &'static [&'static str],
    host_file: &'static [&'static str],
    /// That map or bind, and take a value.
    placing: &'static [&'static str],
    /// That map or bind, and take none.
    placing_flags: &'static [&'static str],
    variables: &'static [&'static str],
}

const OPEN_MPI: Options = Options {
    count: &["n", "np", "c"],
    hosts: &["host", "H"],
    host_file: &["hostfile", "machinefile", "default-hostfile"],
    placing: &[
        "map-by",
        "rank-by",
        "bind-to",
        "rankfile",
        "rf",
        "cpu-set",
        "cpu-list",
        "npernode",
        "N",
        "npersocket",
        "ppr",
        "cpus-per-proc",
        "cpus-per-rank",
        "slot-list",
    ],
    placing_flags: &[
        "bynode",
        "byslot",
        "bycore",
        "bysocket",
        "pernode",
        "bind-to-core",
        "bind-to-socket",
        "bind-to-none",
        "nolocal",
        "loadbalance",
    ],
    variables: &[
        "OMPI_MCA_rmaps_base_mapping_policy",
        "OMPI_MCA_rmaps_rank_file_path",
        "OMPI_MCA_hwloc_base_binding_policy",
        "PRTE_MCA_rmaps_default_mapping_policy",
        "PRTE_MCA_hwloc_default_binding_policy",
    ],
};

const HYDRA: Options = Options {
    count: &["n", "np"],
    hosts: &["hosts", "host", "hostlist", "machine", "machines", "machinelist"],
    host_file: &["f", "hostfile", "machinefile"],
    placing: &["bind-to", "binding", "map-by", "membind", "ppn", "perhost", "order-nodes", "rankmap"],
    placing_flags: &["rr", "skip-launch-node"],
    variables: &["HYDRA_BINDING", "HYDRA_MAPPING", "HYDRA_BIND_TO", "HYDRA_MAP_BY", "HYDRA_PPN"],
};

const SRUN: Options = Options {
    count: &["n", "ntasks"],
    hosts: &[],
    host_file: &[],
    placing: &[
        "m",
        "distribution",
        "cpu-bind",
        "ntasks-per-node",
        "tasks-per-node",
        "ntasks-per-core",
        "ntasks-per-socket",
        "r",
        "relative",
        "w",
        "nodelist",
        "F",
        "nodefile",
    ],
    placing_flags: &[],
    variables: &["SLURM_HOSTFILE", "SLURM_DISTRIBUTION", "SLURM_CPU_BIND"],
};

impl Given {
    /// Reads the command line, and of the environment what `variable` gives.
    ///
    /// # Errors
    /// A number of ranks that is none, a host file that cannot be read.
    pub fn read(launcher: Launcher, command: &[OsString], variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let options = match launcher {
            Launcher::OpenMpi => &OPEN_MPI,
            Launcher::Hydra => &HYDRA,
            Launcher::Srun => &SRUN,
            Launcher::Singleton => return Ok(Self::default()),
        };
        let mut given = Self::default();
        for option in contexts(launcher, command).iter().flat_map(|context| &context.options) {
            given.option(launcher, options, option)?;
        }
        let set = options.variables.iter().filter(|name| variable(name).is_some_and(|value| !value.is_empty()));
        given.placed_by.extend(set.map(|name| (*name).to_owned()));
        Ok(given)
    }

    /// Takes an option.
    fn option(&mut self, launcher: Launcher, options: &Options, option: &Opt) -> Result<()> {
        let is = |names: &[&str]| names.contains(&option.name.as_str());
        let value = option.values.first().map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
        if is(options.count) {
            let count = value.parse().ok().filter(|&count: &usize| count > 0);
            let count = count.ok_or_else(|| Error::new(format!("{} {value:?} is no number of ranks", option.said)))?;
            // Several programs (`:`) have their own numbers.
            self.ranks = Some(self.ranks.unwrap_or(0) + count);
        } else if is(options.hosts) {
            self.add_hosts(hostfile::list(launcher, &value)?, option.words.clone());
        } else if is(options.host_file) {
            self.add_hosts(hostfile::read(value.as_ref())?, option.words.clone());
        } else if is(options.placing) || is(options.placing_flags) {
            self.placed_by.push(option.said.clone());
        } else if is(&["mca", "gmca", "prtemca", "gprtemca", "omca", "gomca"])
            && ["rmaps_", "hwloc_"].iter().any(|framework| value.starts_with(framework))
        {
            self.placed_by.push(format!("{} {value}", option.said));
        }
        Ok(())
    }

    fn add_hosts(&mut self, hosts: Vec<Host>, words: Range<usize>) {
        self.host_words.push(words);
        self.hosts.get_or_insert_default().extend(hosts);
    }

    /// Whether the topology has the hosts that are named.
    ///
    /// # Errors
    /// It lacks one; or is one machine's, and several are named.
    pub fn check_hosts(&self, topology: &Topology) -> Result<()> {
        let named = self.hosts.as_deref().unwrap_or_default();
        if topology.names.is_empty() {
            return match named.iter().find(|host| host.name != named[0].name) {
                None => Ok(()),
                Some(other) => {
                    let cause = format!(
                        "the command names the hosts {} and {}, and the topology is one machine's",
                        named[0].name, other.name
                    );
                    Err(Error::new(cause).remedy("describe the hosts in a cluster file, and name it with --topology"))
                }
            };
        }
        match named.iter().find(|host| topology.hosts().all(|(_, name)| name != host.name)) {
            None => Ok(()),
            Some(unknown) => {
                Err(Error::new(format!("the command names the host {}, which is not in the topology", unknown.name))
                    .remedy("'cohabit topology' lists the hosts of the cluster file: use their names"))
            }
        }
    }

    /// The topology with no more PUs than the named hosts have slots for, and none of other hosts.
    ///
    /// # Errors
    /// As [`Given::check_hosts`].
    pub fn restrict(&self, mut topology: Topology) -> Result<Topology> {
        self.check_hosts(&topology)?;
        let (Some(named), false) = (&self.hosts, topology.names.is_empty()) else { return Ok(topology) };
        let hosts: Vec<(String, Range<usize>)> =
            topology.hosts().map(|(node, name)| (name.to_owned(), topology.nodes[node].pus.clone())).collect();
        for (name, pus) in hosts {
            let slots = named.iter().filter(|host| host.name == name).map(|host| host.slots.unwrap_or(pus.len()));
            let slots: usize = slots.sum();
            let allowed = pus.filter(|&pu| topology.pus[pu].allowed).collect::<Vec<_>>();
            allowed.into_iter().skip(slots).for_each(|pu| topology.pus[pu].allowed = false);
        }
        Ok(topology)
    }

    /// The command without the words that name hosts.
    pub fn without_hosts(&self, command: &[OsString]) -> Vec<OsString> {
        let named = |at: usize| self.host_words.iter().any(|words| words.contains(&at));
        let kept = command.iter().enumerate().filter(|(at, _)| !named(*at));
        kept.map(|(_, word)| word.clone()).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use cohabit_model::launcher::words::values_of;
    use std::ffi::OsStr;

    pub fn given(launcher: Launcher, line: &str) -> Given {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Given::read(launcher, &words, |_| None).unwrap()
    }

    #[test]
    fn numbers_of_ranks_are_found() {
        for (launcher, line, ranks) in [
            (Launcher::OpenMpi, "mpirun -n 4 true -n 9", Some(4)),
            (Launcher::OpenMpi, "mpirun --np 4 --oversubscribe true", Some(4)),
            (Launcher::OpenMpi, "mpirun -np 4 true : -np 2 true", Some(6)),
            (Launcher::OpenMpi, "mpirun true", None),
            (Launcher::Hydra, "mpiexec -genv A 1 -np 3 true", Some(3)),
            (Launcher::Srun, "srun -n3 true", Some(3)),
            (Launcher::Srun, "srun --ntasks=12 true", Some(12)),
            (Launcher::Srun, "srun --ntasks 12 true", Some(12)),
            // Values that are programs, too.
            (Launcher::Hydra, "mpiexec -genv X true -n 2 ./a", Some(2)),
            (Launcher::OpenMpi, "mpirun --report-uri test -n 2 ./a", Some(2)),
            (Launcher::Srun, "srun -A test -n 4 ./a", Some(4)),
            (Launcher::Srun, "srun --comment time --ntasks=4 ./a -n 5", Some(4)),
            // A program that is not found is one all the same.
            (Launcher::OpenMpi, "mpirun --wdir no-such-dir no-such-program -n 3", None),
        ] {
            assert_eq!(given(launcher, line).ranks, ranks, "{line}");
        }
    }

    #[test]
    fn what_the_user_placed_is_seen_up_to_the_program() {
        for (launcher, line, placed_by) in [
            (Launcher::OpenMpi, "mpirun --map-by node --bind-to core -n 2 true", "--map-by,--bind-to"),
            (Launcher::OpenMpi, "mpirun -n 2 true --map-by node", ""),
            (Launcher::OpenMpi, "mpirun --mca rmaps_base_mapping_policy node true", "--mca rmaps_base_mapping_policy"),
            (Launcher::OpenMpi, "mpirun --mca btl self,tcp -x MAP -n 2 true", ""),
            (Launcher::OpenMpi, "mpirun -bynode true", "-bynode"),
            (Launcher::Hydra, "mpiexec -bind-to core -ppn 2 true", "-bind-to,-ppn"),
            (Launcher::Hydra, "mpiexec -env X test -bind-to core ./a", "-bind-to"),
            (Launcher::Hydra, "mpiexec -genv X=true -bind-to=core ./a", "-bind-to"),
            (Launcher::Srun, "srun --cpu-bind=cores -m cyclic true", "--cpu-bind,-m"),
            (Launcher::Srun, "srun --mpi=pmi2 -n 2 true", ""),
        ] {
            assert_eq!(given(launcher, line).placed_by.join(","), placed_by, "{line}");
        }
        let set = |name: &str| (name == "HYDRA_BIND_TO").then(|| OsString::from("core"));
        let words = ["mpiexec".into(), "true".into()];
        assert_eq!(Given::read(Launcher::Hydra, &words, set).unwrap().placed_by, ["HYDRA_BIND_TO"]);
    }

    #[test]
    fn options_have_as_many_values_as_the_launcher_takes() {
        let launchers = [(Launcher::OpenMpi, &OPEN_MPI), (Launcher::Hydra, &HYDRA), (Launcher::Srun, &SRUN)];
        for (launcher, options) in launchers {
            let valued = [options.count, options.hosts, options.host_file, options.placing].concat();
            for name in valued {
                assert_eq!(values_of(launcher, name), Some(1), "{launcher:?} {name}");
            }
            for name in options.placing_flags {
                assert_eq!(values_of(launcher, name), Some(0), "{launcher:?} {name}");
            }
        }
    }

    #[test]
    fn hosts_are_found_and_can_be_taken_out() {
        let given = given(Launcher::OpenMpi, "mpirun --host a:2,b -n 3 true");
        let host = |name: &str, slots| Host { name: name.to_owned(), slots };
        assert_eq!(given.hosts, Some(vec![host("a", Some(2)), host("b", Some(1))]));
        let words: Vec<OsString> = "mpirun --host a:2,b -n 3 true".split(' ').map(OsString::from).collect();
        assert_eq!(given.without_hosts(&words).join(OsStr::new(" ")), "mpirun -n 3 true");
    }

    #[test]
    fn only_named_hosts_are_used() {
        let cluster = "[[host]]\nnames = \"n[0-2]\"\ntopology = \"core:4 pu:1\"\n";
        let topology = Topology::parse_text(cluster).unwrap();
        let found = given(Launcher::OpenMpi, "mpirun --host n2:2,n0,n0,n0 true").restrict(topology.clone()).unwrap();
        let allowed: Vec<_> =
            found.allowed().iter().map(|&pu| (found.host_of(pu).unwrap(), found.pus[pu].os_index)).collect();
        assert_eq!(allowed, [("n0", 0), ("n0", 1), ("n0", 2), ("n2", 0), ("n2", 1)]);
        let error = given(Launcher::Hydra, "mpiexec -hosts n0,n9 true").restrict(topology).unwrap_err();
        assert!(error.cause.contains("the host n9, which is not in the topology"), "{error}");
        let machine = Topology::load("core:4 pu:1").unwrap();
        assert!(given(Launcher::Hydra, "mpiexec -hosts a,a true").check_hosts(&machine).is_ok());
        let error = given(Launcher::Hydra, "mpiexec -hosts a,b true").check_hosts(&machine).unwrap_err();
        assert!(error.cause.contains("the topology is one machine's"), "{error}");
    }

    #[test]
    fn what_is_no_number_is_said() {
        let words = ["mpirun", "-n", "many", "true"].map(OsString::from);
        let error = Given::read(Launcher::OpenMpi, &words, |_| None).unwrap_err();
        assert!(error.cause.contains("\"many\" is no number of ranks"), "{error}");
    }
}
