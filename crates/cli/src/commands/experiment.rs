//! `cohabit experiment`: a paper's experiment done again in simulation, cell by cell.

use super::Outcome;
use crate::command_line::shell;
use crate::exit::{End, Failure};
use crate::experiment::files::Folder;
use crate::experiment::inputs::{Inputs, Program, recorded};
use crate::experiment::page::{Run, cache_sizes, markdown};
use crate::experiment::runner::Runner;
use crate::experiment::{document, figures, tables};
use crate::json::{JsonArgs, write_text};
use crate::output::note;
use crate::usage::typed_as;
use clap::builder::PossibleValuesParser;
use cohabit_evaluate::experiment::{Cell, DETECTION, EXPERIMENTS, Experiment, Part, cells, judge};
use cohabit_memory::Machine;
use cohabit_model::file::check_writable;
use cohabit_model::{Error, Result};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const EXAMPLES: &str = "\
Examples:
  cohabit experiment tlb2012 --npb-omp npb/bin --class S -o tlb
  cohabit experiment tlb2012 --npb-omp npb/bin --program is --program mg -o tlb
  cohabit experiment tlb2012 --npb-omp npb/bin -o tlb --cells
      a command for each cell, for a job runner; the same command again without
      --cells then joins what they found, and runs what is left
  cohabit experiment tlb2012 -o tlb --collect --page tlb2012.md

What has run is kept below the folder that -o names, and not run again.
docs/experiments.md says what is shown and what is not.";

/// Arguments of `cohabit experiment`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExperimentCommand {
    /// The experiment
    #[arg(value_name = "NAME", value_parser = names())]
    name: String,
    /// Only on this machine, as `cohabit simulate --machine` takes it; may be repeated [default: the experiment's]
    #[arg(long, value_name = "M")]
    machine: Vec<String>,
    /// Only this program of the experiment, or a recording; may be repeated [default: all that are there]
    #[arg(long, value_name = "P")]
    program: Vec<String>,
    /// The folder with the NAS parallel benchmarks for OpenMP: mg.S, mg.W and others
    #[arg(long, value_name = "DIR")]
    npb_omp: Option<PathBuf>,
    /// The folder with the NAS parallel benchmarks for MPI: mg.S.16, mg.S.32 and others, which mpirun starts
    #[arg(long, value_name = "DIR")]
    npb_mpi: Option<PathBuf>,
    /// The folder with the programs of Splash-3: codes/ of its sources, built
    #[arg(long, value_name = "DIR")]
    splash: Option<PathBuf>,
    /// The folder with recordings, mg.S.8.rec and others [default: recordings, below the folder that -o names]
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,
    /// The class that is run
    #[arg(long, value_name = "C", default_value = "S")]
    class: String,
    /// Tasks of each program [default: the paper's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    tasks: Option<u32>,
    /// Last caches as they are, scaled to the smaller input, or both
    #[arg(long, value_name = "HOW", default_value = "both", value_parser = ["both", "scaled", "unscaled"])]
    caches: String,
    /// No more draws of an arm than this
    #[arg(long, value_name = "N", default_value_t = u32::MAX, hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..))]
    draws: u32,
    /// Cells that run at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// List the cells, a command each
    #[arg(long, conflicts_with_all = ["cell", "collect"])]
    cells: bool,
    /// Run this cell alone
    #[arg(long, value_name = "CELL", conflicts_with = "collect")]
    cell: Option<String>,
    /// Run nothing: join what there is
    #[arg(long)]
    collect: bool,
    /// Write a page in Markdown, its pictures into a folder of its name beside it
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// What the page says of the run: a commit, a machine
    #[arg(long, value_name = "TEXT", requires = "page")]
    note: Option<String>,
    /// The folder that cells are kept in
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(EXPERIMENTS.iter().map(|given| given.name))
}

impl ExperimentCommand {
    /// Runs, joins and prints.
    pub fn run(self) -> Outcome {
        self.json.check()?;
        self.page.as_deref().map_or(Ok(()), check_writable)?;
        let given = Experiment::named(&self.name)?;
        let experiment = self.with_tasks(&given);
        let inputs = self.inputs();
        let on = if self.machine.is_empty() { &experiment.machines } else { &self.machine };
        let programs = inputs.programs(&experiment, on).map_err(Failure::usage)?;
        let (all, machines) = self.all_cells(&experiment, &programs)?;
        if self.cells {
            let typed = typed_as();
            let commands = all.iter().map(|cell| self.command_of(&typed, Some(cell)) + "\n");
            crate::output::print(&commands.collect::<String>())?;
            return Ok(End::Done);
        }
        let folder = Folder::new(&self.output);
        let runner = Runner::new(&experiment, &programs, &folder);
        if let Some(name) = &self.cell {
            folder.create()?;
            runner.run(&Cell::find(&all, name).map_err(Failure::usage)?)?;
            return Ok(End::Done);
        }
        if !self.collect {
            folder.create()?;
            for machine in on {
                programs.iter().try_for_each(|program| recorded(program, experiment.tasks_on(machine)).map(drop))?;
            }
            self.run_all(&runner, &all)?;
        }
        let is_as_large = |program: &&Program| program.scale.size <= 1.0 && experiment.programs.contains(&program.name);
        let as_large: Vec<&str> = programs.iter().filter(is_as_large).map(|program| program.name.as_str()).collect();
        let (results, done) = folder.results(&all, &as_large)?;
        if done == 0 {
            return Err(Error::new(format!("{}: no cell has run", self.output.display()))
                .remedy("leave --collect out, or run what --cells lists")
                .into());
        }
        let judged = judge(&experiment, &results);
        if let Some(path) = &self.page {
            let detectors: Vec<&str> = cohabit_detect::DETECTORS.iter().map(|row| row.name).collect();
            let figures = figures::matrices(&folder, &all, &detectors, path)?;
            let scale = |program: &Program| -> Result<_> {
                let sizes = machines.iter().map(|machine| cache_sizes(machine, program.scale.size));
                Ok((program.name.clone(), program.scale.size, program.scale.time, sizes.collect::<Result<Vec<_>>>()?))
            };
            let run = Run {
                command: &self.command_of("cohabit", None),
                date: &humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()[..10],
                note: self.note.as_deref(),
                class: &self.class,
                tasks: &tasks_by_machine(&experiment, on),
                paper_tasks: &tasks_by_machine(&given, &given.machines),
                draws: self.draws.min(experiment.system.draws),
                cells: [done, all.len()],
                scales: programs.iter().map(scale).collect::<Result<_>>()?,
            };
            write_text(path, &markdown(&experiment, &results, &judged, &run, &figures))?;
        }
        let mut text = format!("{}: {}\n{done} of {} cells\n\n", experiment.name, experiment.about, all.len());
        for table in tables::of_arms(&experiment, &results) {
            text += &(table.text() + "\n");
        }
        text += &tables::of_claims(&judged).text();
        self.json.emit("experiment", document::fields(&experiment, &results, &judged, done, all.len()), &text)?;
        Ok(End::Done)
    }

    /// The experiment with as many tasks as were asked for.
    fn with_tasks(&self, given: &Experiment) -> Experiment {
        let mut experiment = given.clone();
        if let Some(tasks) = self.tasks {
            experiment.tasks = tasks as usize;
            experiment.tasks_on.clear();
        }
        experiment
    }

    /// The folders of suites that were named, with the options that name them.
    fn suites(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        [("npb-omp", &self.npb_omp), ("npb-mpi", &self.npb_mpi), ("splash", &self.splash)]
            .into_iter()
            .filter_map(|(suite, folder)| Some((suite, folder.as_ref()?)))
    }

    fn inputs(&self) -> Inputs {
        Inputs {
            programs: self.program.clone(),
            suites: self.suites().map(|(suite, folder)| (suite.to_owned(), folder.clone())).collect(),
            recordings: self.recordings.clone().unwrap_or_else(|| self.output.join("recordings")),
            class: self.class.clone(),
        }
    }

    /// All cells that were asked for, and the machines. What is not of the suite has no smaller input than the paper's,
    /// and no scaled caches.
    fn all_cells(&self, experiment: &Experiment, programs: &[Program]) -> Result<(Vec<Cell>, Vec<String>), Failure> {
        let machines = if self.machine.is_empty() { &experiment.machines } else { &self.machine };
        for machine in machines {
            Machine::load(machine).map_err(Failure::usage)?;
        }
        let scaled = match self.caches.as_str() {
            "scaled" => vec![true],
            "unscaled" => vec![false],
            _ => vec![false, true],
        };
        let part = Part {
            programs: programs.iter().map(|program| program.name.clone()).collect(),
            machines: machines.clone(),
            scaled,
            draws: self.draws,
        };
        let is_smaller = |cell: &Cell| {
            let program = programs.iter().find(|program| program.name == cell.program);
            program.is_some_and(|program| program.scale.size > 1.0)
        };
        let mut all = cells(experiment, &part);
        all.retain(|cell| !cell.scaled || is_smaller(cell));
        if all.is_empty() {
            let cause = "--caches scaled: none of these inputs is smaller than the paper's";
            return Err(Failure::usage(Error::new(cause).remedy("leave it out")));
        }
        Ok((all, machines.clone()))
    }

    /// The same command for one cell, or for all of them.
    fn command_of(&self, cohabit: &str, cell: Option<&Cell>) -> String {
        let mut words = vec![cohabit.to_owned(), "experiment".to_owned(), self.name.clone()];
        let mut add = |option: &str, value: &str| words.extend([option.to_owned(), value.to_owned()]);
        self.machine.iter().for_each(|machine| add("--machine", machine));
        self.program.iter().for_each(|program| add("--program", program));
        for (suite, folder) in self.suites() {
            add(&format!("--{suite}"), &folder.to_string_lossy());
        }
        self.recordings.iter().for_each(|folder| add("--recordings", &folder.to_string_lossy()));
        add("--class", &self.class);
        self.tasks.iter().for_each(|tasks| add("--tasks", &tasks.to_string()));
        if self.caches != "both" {
            add("--caches", &self.caches);
        }
        if self.draws != u32::MAX {
            add("--draws", &self.draws.to_string());
        }
        add("-o", &self.output.to_string_lossy());
        cell.iter().for_each(|cell| add("--cell", &cell.name()));
        shell(words)
    }

    /// Cells of detection first, which others need; then all others.
    fn run_all(&self, runner: &Runner, all: &[Cell]) -> Result<()> {
        let done = AtomicUsize::new(0);
        for first in [true, false] {
            let some: Vec<&Cell> = all.iter().filter(|cell| (cell.arm == DETECTION) == first).collect();
            let next = AtomicUsize::new(0);
            let failed: Mutex<Option<Error>> = Mutex::new(None);
            let work = || {
                while let Some(cell) = some.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = runner.run(cell) {
                        // The others stop at their next cell: what they are at is kept.
                        next.store(usize::MAX / 2, Ordering::Relaxed);
                        failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                        return;
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if first || done % 50 == 0 {
                        note(&format!("{done} of {} cells: {}", all.len(), cell.name()));
                    }
                }
            };
            std::thread::scope(|scope| {
                for _ in 1..self.threads {
                    scope.spawn(work);
                }
                work();
            });
            if let Some(error) = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// `56, deloc 64`: how many tasks, where machines differ by machine.
fn tasks_by_machine(experiment: &Experiment, machines: &[String]) -> String {
    let others = machines.iter().filter(|machine| experiment.tasks_on(machine) != experiment.tasks);
    let others = others.map(|machine| format!(", {machine} {}", experiment.tasks_on(machine)));
    format!("{}{}", experiment.tasks, others.collect::<String>())
}
