//! Cells run: the placement that the arm makes, simulated.

use super::files::{Folder, Found};
use super::inputs::{Program, recorded};
use crate::recording::{WITHOUT_COMMUNICATION, periods, place};
use cohabit_access::Recording;
use cohabit_detect::communication::communication;
use cohabit_detect::compare::compare_some;
use cohabit_detect::{Detected, Setting};
use cohabit_evaluate::experiment::pattern::pattern;
use cohabit_evaluate::experiment::results::Values;
use cohabit_evaluate::experiment::{Arm, By, Cell, DETECTION, Experiment, ranked, system};
use cohabit_map::{Options as MapOptions, Problem, mapper, objective};
use cohabit_memory::report::ServedCounts;
use cohabit_memory::{Exchange, Machine, Options, Placement, Report, simulate};
use cohabit_model::{Error, Matrix, Period, Result};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Where simulated placements are remembered: machine, scaling and program with the placement.
type Known = BTreeMap<(Cell, Vec<usize>), (u64, Values)>;

/// How arms place: another number where they come to place otherwise, so that cells run again. 2: nothing where a detector
/// saw nothing.
const ARMS: u32 = 2;

/// Runs cells of one experiment.
pub struct Runner<'a> {
    experiment: &'a Experiment,
    programs: &'a [Program],
    folder: &'a Folder,
    /// Many arms make the same placement of a program: it is simulated once.
    known: Mutex<Known>,
}

impl<'a> Runner<'a> {
    /// Of these programs, cells being kept in `folder`.
    pub fn new(experiment: &'a Experiment, programs: &'a [Program], folder: &'a Folder) -> Self {
        Self { experiment, programs, folder, known: Mutex::default() }
    }

    /// Runs a cell, and what it needs, where they have not run; what it found is kept.
    ///
    /// # Errors
    /// The recording cannot be made or read, a mapper fails, the simulation does.
    pub fn run(&self, cell: &Cell) -> Result<Found> {
        let at = |error: Error| error.at(cell.name());
        let program = self.programs.iter().find(|program| program.name == cell.program);
        let program = program.ok_or_else(|| at(Error::new("there is no such program")))?;
        let tasks = self.experiment.tasks_on(&cell.machine);
        let recording = recorded(program, tasks)?;
        let machine = self.machine(cell, program)?;
        let made_from = made_from(self.experiment, cell, &*recording, &program.recording(tasks), &machine);
        if let Some(found) = self.folder.read_made_from(cell, &made_from)? {
            self.remember(cell, &found);
            return Ok(found);
        }
        let one = One { runner: self, cell, program, recording: &*recording, machine: &machine };
        let found = Found::new(&self.experiment.name, cell, made_from);
        let found = if cell.arm == DETECTION { one.detect(found) } else { one.place(found) }.map_err(at)?;
        self.folder.write(cell, &found)?;
        self.remember(cell, &found);
        Ok(found)
    }

    fn machine(&self, cell: &Cell, program: &Program) -> Result<Machine> {
        let machine = Machine::load(&cell.machine)?;
        Ok(if cell.scaled { machine.with_last_caches_smaller_by(program.scale.size) } else { machine })
    }

    /// What is the same for all arms and draws.
    fn place_of(cell: &Cell) -> Cell {
        Cell { arm: String::new(), draw: 0, ..cell.clone() }
    }

    fn remember(&self, cell: &Cell, found: &Found) {
        let arm = self.experiment.arm(&cell.arm);
        let is_plain = found.exchanges == 0 && arm.is_some_and(|arm| arm.memory.is_none());
        if let (true, Some(values)) = (is_plain, found.values.get(&cell.arm)) {
            let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            known.insert((Self::place_of(cell), found.pus.clone()), (found.time_fs, values.clone()));
        }
    }
}

/// One cell that runs.
struct One<'a> {
    runner: &'a Runner<'a>,
    cell: &'a Cell,
    program: &'a Program,
    recording: &'a dyn Recording,
    machine: &'a Machine,
}

impl One<'_> {
    /// Detection in one run under the operating system's placement: how long a cycle is in accesses follows from that
    /// run.
    fn detect(&self, mut found: Found) -> Result<Found> {
        let tasks = self.recording.tasks().len();
        found.pus = system::placement(tasks, &self.machine.topology, 0);
        let report = simulate(self.recording, self.machine, &found.pus, &Options::default())?;
        found.time_fs = report.time_fs;
        let accesses = (report.total.loads + report.total.stores + report.total.polls_recorded).max(1);
        let cycles = report.time_fs as f64 / self.machine.core.cycle.max(1) as f64;
        let setting = Setting {
            cycles_per_access: (cycles * tasks as f64 / accesses as f64).max(f64::MIN_POSITIVE),
            time_scale: self.program.scale.time,
            ..Setting::new(tasks)
        };
        for each in compare_some(self.recording, &setting, &|name| self.runner.experiment.wants(name))?.found {
            let by_misses = each.row.name.starts_with("tlb-sm");
            // What looks at intervals looked so much more often as these were made shorter.
            let more_often = if by_misses { 1.0 } else { setting.time_scale };
            let mut values = of_detector(&each.detected, accesses, by_misses, more_often);
            values.extend(each.with_communication.correlation.map(|r| ("correlation".to_owned(), r)));
            found.values.insert(each.row.name.to_owned(), values);
            found.detected.insert(each.row.name.to_owned(), each.detected.matrix.iter().collect());
        }
        Ok(found)
    }

    fn place(&self, mut found: Found) -> Result<Found> {
        let name = &self.cell.arm;
        let arm = self.runner.experiment.arm(name).ok_or_else(|| Error::new(format!("there is no arm {name}")))?;
        let mut exchanges = Vec::new();
        let placement = match arm.by {
            By::System => {
                let placement = system::placement(self.recording.tasks().len(), &self.machine.topology, self.cell.draw);
                exchanges = self.exchanges(&placement)?;
                Some(placement)
            }
            By::Ranked => {
                let weight = self.runner.run(&self.cell.detection())?.matrix("exact")?;
                let most = self.runner.experiment.draws(arm) as usize;
                let (mut placements, _) = ranked::ranked(&weight, &self.machine.topology, most)?;
                (placements.len() > self.cell.draw as usize).then(|| placements.swap_remove(self.cell.draw as usize))
            }
            By::Mapper => self.mapped(arm)?,
        };
        // There may be fewer distinct placements than draws, or a detector saw nothing.
        let Some(placement) = placement else { return Ok(found) };
        let memory = arm.memory.as_deref().map_or(Ok(Placement::FirstTouch), Placement::parse)?;
        let (time_fs, values) = self.simulated(&placement, &exchanges, memory)?;
        found.time_fs = time_fs;
        found.values.insert(name.clone(), values);
        (found.pus, found.exchanges) = (placement, exchanges.len());
        Ok(found)
    }

    /// The operating system's migrations of this draw: as many as there would be in the paper's run.
    fn exchanges(&self, placement: &[usize]) -> Result<Vec<Exchange>> {
        let system = &self.runner.experiment.system;
        let run_s = system.run_s.get(&self.program.name).copied().unwrap_or(0.0);
        let expected = system.migrations_per_s * run_s;
        let drawn = system::migrations(placement, &self.machine.core_of_pu, expected, self.cell.draw);
        if drawn.is_empty() {
            return Ok(Vec::new());
        }
        let time_fs = self.runner.run(&self.cell.detection())?.time_fs;
        let exchange = |one: system::Migration| Exchange { at: (one.at * time_fs as f64) as u64, pus: one.pus };
        Ok(drawn.into_iter().map(exchange).collect())
    }

    /// None where the mapper looks at what was detected, and that is nothing: its mapping would be that of `packed`.
    fn mapped(&self, arm: &Arm) -> Result<Option<Vec<usize>>> {
        let by_draw = arm.mappers.get(self.cell.draw as usize).or(arm.mapper.as_ref());
        let algorithm = mapper(by_draw.map_or("best", String::as_str))?;
        let wanted = objective::objective(arm.objective.as_deref().unwrap_or("distance"))?;
        let weight: Matrix = self.runner.run(&self.cell.detection())?.matrix(&arm.detector)?;
        if weight.total() == 0 && !WITHOUT_COMMUNICATION.contains(&algorithm.name()) {
            return Ok(None);
        }
        let (periods, load): (Vec<Period>, Vec<u64>) = match algorithm.needs_periods() || wanted.asks_for_periods() {
            false => (Vec::new(), Vec::new()),
            true => {
                let known = communication(self.recording)?;
                (periods(&known, false)?, known.work.beside_others())
            }
        };
        let options =
            MapOptions { seed: u64::from(self.cell.draw), share_cores: arm.share_cores, ..MapOptions::default() };
        let topology = &self.machine.topology;
        place(
            &Problem { weight: &weight, load: &load, periods: &periods, topology, options: &options },
            algorithm,
            wanted,
        )
        .map(Some)
    }

    fn simulated(&self, pus: &[usize], exchanges: &[Exchange], memory: Placement) -> Result<(u64, Values)> {
        let key = (Runner::place_of(self.cell), pus.to_vec());
        if exchanges.is_empty() && memory == Placement::FirstTouch {
            let known = self.runner.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(found) = known.get(&key) {
                return Ok(found.clone());
            }
        }
        let options = Options { exchanges: exchanges.to_vec(), placement: memory, ..Options::default() };
        let report = simulate(self.recording, self.machine, pus, &options)?;
        Ok((report.time_fs, of_report(&report)))
    }
}

/// What a cell is made from: another of these, and it is run again.
fn made_from(experiment: &Experiment, cell: &Cell, recording: &dyn Recording, path: &str, machine: &Machine) -> String {
    let accesses: u64 = recording.tasks().iter().filter_map(|task| task.accesses).sum();
    let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
    let names = || cohabit_detect::DETECTORS.iter().map(|row| row.name).filter(|name| experiment.wants(name));
    let detectors = || names().collect::<Vec<_>>().join(" ");
    let arm = experiment.arm(&cell.arm).map_or_else(detectors, |arm| format!("{arm:?} {ARMS}"));
    let rest = fnv(format!("{machine:?} {arm} {:?}", experiment.system).as_bytes());
    format!("{} tasks, {accesses} accesses, {bytes} bytes; {rest:016x}", recording.tasks().len())
}

/// FNV-1a (Fowler, Noll, Vo): the same with every compiler.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn of_report(report: &Report) -> Values {
    let last = report.caches.last().map_or(1, |cache| cache.level);
    let ms = |fs: u64| fs as f64 / 1e12;
    let servers =
        |wanted: &dyn Fn(&str) -> bool| report.servers.iter().filter(|one| wanted(&one.name)).collect::<Vec<_>>();
    let memory = servers(&|name| name.starts_with("memory "));
    // What leaves one part comes into another: it is counted where it leaves.
    let links = servers(&|name| name.ends_with(" out"));
    let mut values = Values::from([
        ("time".to_owned(), ms(report.time_fs)),
        ("invalidations".to_owned(), report.total.invalidations as f64),
        ("cache-to-cache".to_owned(), report.cache_to_cache() as f64),
        ("last-misses".to_owned(), report.misses(last) as f64),
        ("remote".to_owned(), report.remote() as f64),
        ("queue".to_owned(), ms(memory.iter().map(|one| one.usage.wait_fs).sum())),
    ]);
    values.extend(of_loads(&report.total.loads_served));
    if !links.is_empty() {
        let bytes: u64 = links.iter().map(|one| one.usage.bytes).sum();
        values.insert("link".to_owned(), bytes as f64 / f64::from(1 << 20));
    }
    values
}

/// Shares of loads by where they were served, in percent. Counters that sample loads of 30 cycles and more see those
/// beyond the L2.
fn of_loads(loads: &ServedCounts) -> Values {
    let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    let beyond = loads.total() - loads.l1 - loads.fill_buffer - loads.l2;
    Values::from([
        ("l1-loads".to_owned(), percent(loads.l1, loads.total())),
        ("local-loads".to_owned(), percent(loads.local_memory, beyond)),
        ("remote-loads".to_owned(), percent(loads.remote_memory + loads.far_cache, beyond)),
    ])
}

fn of_detector(detected: &Detected, accesses: u64, by_misses: bool, more_often: f64) -> Values {
    let mut values = Values::new();
    if by_misses {
        values.insert("miss-rate".to_owned(), 100.0 * detected.occasions as f64 / accesses as f64);
        values.insert("searched".to_owned(), 100.0 * detected.looked as f64 / detected.occasions.max(1) as f64);
    }
    values.extend(detected.overhead.map(|overhead| ("overhead".to_owned(), 100.0 * overhead / more_often)));
    if let Some(found) = pattern(&detected.matrix) {
        let named = [("neighbours", found.neighbours), ("distant", found.distant), ("variation", found.variation)];
        values.extend(named.map(|(name, value)| (name.to_owned(), value)));
    }
    values
}
