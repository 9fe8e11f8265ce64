//! The commands, a file each: its arguments, and a `run` that joins the stages.

mod attach;
mod compare;
mod compare_detectors;
mod completions;
mod detectors;
mod doctor;
pub mod evaluate;
mod experiment;
mod exporters;
mod import;
mod man;
mod map;
mod mappers;
mod measure;
mod mpi;
mod perfetto;
mod plot;
mod profile;
mod record;
mod report;
mod restore;
mod run;
mod run_ranks;
mod show;
mod simulate;
mod top;
mod topology;
mod tune;

use crate::exit::{End, Failure};

/// What a command returns.
pub type Outcome = Result<End, Failure>;

/// One row a command, in the order `--help` lists them.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Runs a program and counts exactly which of its threads communicate
    Profile(profile::Profile),
    /// Records what each task of a program does to memory, for the simulator and for detectors
    Record(record::Record),
    /// Shows who communicates with whom in a profile, and whether placement can help
    Show(show::Show),
    /// Says where each task of a profile should run, what that costs and whether it is worth it
    Map(map::Map),
    /// Says what mappings of a profile are worth: distance cost, estimated time of communication, predicted gain
    Evaluate(evaluate::Evaluate),
    /// Says what mappings of a recorded program are worth on a machine that is not at hand: caches, coherence and
    /// memory
    Simulate(simulate::Simulate),
    /// Runs a program with each thread on its PU, or watches it and moves its threads
    Run(run::Run),
    /// Runs a program under the system's placement and under mappings in turn, and says what differs, with intervals
    Compare(compare::Compare),
    /// Finds the best placement of a program by running it, and proves its gain, or says why there is none
    Tune(tune::Tune),
    /// Draws profiles, placements and comparisons as SVG, PNG or PDF
    Plot(plot::Plot),
    /// Puts all that is known of a program on one page that opens in any browser
    Report(report::Report),
    /// Writes what is known of time as a trace that Perfetto opens
    Perfetto(perfetto::Perfetto),
    /// Watches programs that run already, and moves their threads
    Attach(attach::Attach),
    /// Shows live who communicates, where they run and what is moved
    Top(top::Top),
    /// Puts back what a cohabit that was killed has left changed, and removes its temporary files
    Restore(restore::Restore),
    /// Shows a machine as a tree, with the distances between its PUs
    Topology(topology::TopologyCommand),
    /// Measures latency and bandwidth between PUs, or between hosts through MPI, by message length
    Measure(measure::Measure),
    /// Turns a matrix of another tool into a profile
    Import(import::Import),
    /// Builds what sees the messages of MPI ranks, for a site's own MPI
    Mpi(mpi::Mpi),
    /// Holds all detectors of communication against one another on one recorded run
    CompareDetectors(compare_detectors::CompareDetectors),
    /// Does the experiments of the papers again, in simulation, and says which of their statements came out
    Experiment(experiment::ExperimentCommand),
    /// Lists the detectors of communication
    Detectors(detectors::Detectors),
    /// Lists the mapping algorithms
    Mappers(mappers::Mappers),
    /// Lists the formats that a mapping is exported to
    Exporters(exporters::Exporters),
    /// Says what works on this machine, and the remedy for what does not
    Doctor(doctor::Doctor),
    /// Writes the manual pages
    #[command(hide = true)]
    Man(man::Man),
    /// Writes the completions of a shell
    #[command(hide = true)]
    Completions(completions::Completions),
}

impl Command {
    /// Carries the command out.
    ///
    /// # Errors
    /// What the user is told, with the kind of failure that the exit status follows from.
    pub fn run(self) -> Outcome {
        match self {
            Command::Profile(command) => command.run(),
            Command::Record(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Map(command) => command.run(),
            Command::Evaluate(command) => command.run(),
            Command::Simulate(command) => command.run(),
            Command::Run(command) => command.run(),
            Command::Compare(command) => command.run(),
            Command::Tune(command) => command.run(),
            Command::Plot(command) => command.run(),
            Command::Report(command) => command.run(),
            Command::Perfetto(command) => command.run(),
            Command::Attach(command) => command.run(),
            Command::Top(command) => command.run(),
            Command::Restore(command) => command.run(),
            Command::Topology(command) => command.run(),
            Command::Measure(command) => command.run(),
            Command::Import(command) => command.run(),
            Command::Mpi(command) => command.run(),
            Command::CompareDetectors(command) => command.run(),
            Command::Experiment(command) => command.run(),
            Command::Detectors(command) => command.run(),
            Command::Mappers(command) => command.run(),
            Command::Exporters(command) => command.run(),
            Command::Doctor(command) => command.run(),
            Command::Man(command) => command.run(),
            Command::Completions(command) => command.run(),
        }
    }
}
