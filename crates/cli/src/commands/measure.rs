//! `cohabit measure`: what messages take between PUs of this node, or between hosts through MPI, and a cluster file of
//! it; or what cores, caches and memory take, and a machine file of that.

mod calibration;
mod machine;

use super::Outcome;
use crate::exit::{End, Failure};
use crate::json::{JsonArgs, write_text};
use crate::measurement;
use crate::output::note;
use crate::{number, progress};
use cohabit_memory::Machine;
use cohabit_model::file::check_writable;
use cohabit_model::topology::cluster::{self, ClusterFile};
use cohabit_model::{Error, Topology};
use cohabit_observe::measure::hosts::measure_hosts;
use cohabit_observe::measure::machine::measure_machine;
use cohabit_observe::measure::node::measure_node;
use cohabit_observe::measure::{LENGTHS, Options};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  cohabit measure                         between the PUs of this node
  cohabit measure -o node.toml            and write a cluster file of it
  cohabit measure -o cluster.toml -- mpirun -n 16 --hostfile hosts
                                          between hosts: the launcher with its
                                          options, and no program
  cohabit measure --topology switches.toml -o cluster.toml -- mpirun -n 16
                                          the hosts and switches of that file
  cohabit measure --machine here.toml     a machine file of this machine, for
                                          cohabit simulate --machine here.toml
  cohabit measure --machine here.toml -- ./solver small
                                          with as many instructions a cycle as
                                          this program was seen to have

Ask for two ranks or more on every host: what several pairs get at once through
one port is only seen then. Measure on hosts that are otherwise idle.";

/// Arguments of `cohabit measure`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Measure {
    /// Write what was found as a cluster file to T (docs/cluster.md)
    #[arg(short, long, value_name = "T")]
    output: Option<PathBuf>,
    /// Measure cores, caches, TLBs and memory instead, and write them as a machine file to M, which `cohabit simulate
    /// --machine` takes (docs/machines.md). A program after -- calibrates how many instructions a cycle are begun: it is
    /// run, recorded and simulated
    #[arg(long, value_name = "M", conflicts_with_all = ["output", "topology", "lengths", "json"])]
    machine: Option<PathBuf>,
    /// The cluster file with the hosts and switches to measure between [default: all hosts of the ranks on one switch]
    #[arg(long, value_name = "T", requires = "launcher")]
    topology: Option<PathBuf>,
    /// Lengths of messages in bytes
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = length, default_values_t = LENGTHS)]
    lengths: Vec<u64>,
    /// How long each figure is measured, at least
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = number::duration)]
    time: Duration,
    #[command(flatten)]
    json: JsonArgs,
    /// An MPI launcher with its options: mpirun, mpiexec or srun; with --machine, a program
    #[arg(last = true, value_name = "LAUNCHER")]
    launcher: Vec<OsString>,
}

impl Measure {
    /// Measures, prints, and writes the cluster file where that was asked for.
    pub fn run(self) -> Outcome {
        if let Some(path) = &self.output {
            check_writable(path)?;
        }
        self.json.check()?;
        if let Some(path) = &self.machine {
            return self.machine(path);
        }
        let mut lengths = self.lengths.clone();
        lengths.sort_unstable();
        lengths.dedup();
        let options = Options { lengths, time: self.time };
        match self.launcher.is_empty() {
            true => self.node(&options),
            false => self.hosts(&options),
        }
    }

    fn node(self, options: &Options) -> Outcome {
        let live = Topology::load("live")?;
        let node = progress::counted("measuring", |told| measure_node(&live, options, told))?;
        let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let name = name.filter(|name| cluster::hostlist::expand(name).is_ok_and(|names| names.len() == 1));
        let warning = node.busy.warning();
        self.write(&node.cluster(name.as_deref().unwrap_or("localhost"), &live), warning.as_deref())?;
        self.json.emit("measure", measurement::node_fields(&node), &measurement::node_text(&node))?;
        Ok(End::Done)
    }

    /// Measures what a machine file says, calibrates it where a program is given, and writes it.
    fn machine(&self, path: &Path) -> Outcome {
        check_writable(path)?;
        let timed = match self.launcher.is_empty() {
            true => None,
            false => Some(calibration::time(&self.launcher)?),
        };
        let live = Topology::load("live")?;
        let measured = progress::counted("measuring", |told| measure_machine(&live, self.time, told))?;
        let mut draft = machine::Draft::new(&measured, &live);
        draft.notes.iter().for_each(|line| note(line));
        let warning = measured.busy.warning();
        if let Some(timed) = timed {
            let found = calibration::calibrate(timed, draft.file.clone())?;
            draft.set_rate(&found);
            note(&found.said());
        }
        if let Some(warning) = &warning {
            note(&format!("{warning}; measure again when nothing else runs"));
        }
        let text = draft.to_toml();
        // What cannot be simulated is not written.
        Machine::parse(&text, None)?;
        let mark = warning.map(|warning| format!("# {warning}\n")).unwrap_or_default();
        write_text(path, &(mark + &text))?;
        note(&format!("a machine for cohabit simulate --machine: {}", path.display()));
        Ok(End::Done)
    }

    fn hosts(self, options: &Options) -> Outcome {
        let file = match &self.topology {
            None => None,
            Some(path) => {
                let (file, notes) = cluster::read(path)?;
                notes.iter().for_each(|line| note(line));
                Some(file)
            }
        };
        let hosts = progress::during("measuring", || {
            measure_hosts(&self.launcher, file.as_ref(), options).map_err(Failure::from)
        })?;
        if file.is_none() {
            note(
                "the hosts are taken to be on one switch, with a core for each of their ranks: --topology says otherwise",
            );
        }
        if let Some(length) = hosts.one_at_a_time {
            note(&measurement::one_at_a_time(length, hosts.family));
        }
        self.write(&hosts.file, hosts.busy.as_deref())?;
        self.json.emit("measure", measurement::hosts_fields(&hosts), &measurement::hosts_text(&hosts))?;
        Ok(End::Done)
    }

    /// Writes the file, and says in it and to the user what disturbed the measurement.
    fn write(&self, file: &ClusterFile, warning: Option<&str>) -> Result<(), Error> {
        if let Some(warning) = warning {
            note(&format!("{warning}; measure again when nothing else runs"));
        }
        let mark = warning.map(|warning| format!("# {warning}\n\n")).unwrap_or_default();
        self.output.as_ref().map_or(Ok(()), |path| write_text(path, &(mark + &file.to_toml())))
    }
}

/// The longest message that a C int counts, and then some room for two of them.
const LONGEST: u64 = 1 << 29;

fn length(text: &str) -> Result<u64, String> {
    let length = text.parse().ok().filter(|length| (1..=LONGEST).contains(length));
    length.ok_or_else(|| format!("write bytes from 1 to {LONGEST}"))
}
