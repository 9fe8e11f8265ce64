//! The Python package's extension: profiles, topologies and mappers of the core crates, as plain numbers and text. What
//! people see, arrays and frames, is made of these in package/cohabit.
//!
//! Arrays pass as the bytes of little-endian 64-bit counts, row after row, which numpy reads without a copy.

use cohabit_evaluate::verdict::{hopeless, rooms};
use cohabit_evaluate::{comparison, phases};
use cohabit_map::{MAPPERS, Options, Problem, lower_bound, mapper};
use cohabit_model::cost::distance_cost;
use cohabit_model::mapping::{Cost, FORMAT, Placed, Weight};
use cohabit_model::profile::{Kind, Meta, TaskKind};
use cohabit_model::topology::label;
use cohabit_model::{Error, Matrix};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

create_exception!(cohabit, CohabitError, PyException, "What went wrong, and on a second line what to do about it.");

/// An error of the core, its remedy on a line of its own.
fn raised(error: Error) -> PyErr {
    let remedy = error.remedy.map(|remedy| format!("\n{remedy}")).unwrap_or_default();
    CohabitError::new_err(format!("{}{remedy}", error.cause))
}

fn refused(cause: impl Into<String>) -> PyErr {
    raised(Error::new(cause))
}

/// Who communicated with whom.
#[pyclass(frozen)]
struct Profile(cohabit_model::Profile);

/// Square, of so many tasks, from the bytes of its counts.
fn matrix(tasks: usize, counts: &[u8]) -> PyResult<Matrix> {
    let counts: Vec<u64> = counts_of(counts);
    if tasks.checked_mul(tasks) != Some(counts.len()) {
        return Err(refused(format!("{} values are no matrix of {tasks} x {tasks}", counts.len())));
    }
    Ok(Matrix::from_dense(tasks, &counts))
}

fn counts_of(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|eight| u64::from_le_bytes(eight.try_into().expect("eight bytes"))).collect()
}

fn bytes_of<'py>(python: Python<'py>, counts: impl IntoIterator<Item = u64>) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = counts.into_iter().flat_map(u64::to_le_bytes).collect();
    PyBytes::new(python, &bytes)
}

#[pymethods]
impl Profile {
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        cohabit_formats::npz::read_profile(&path).map(Self).map_err(raised)
    }

    #[staticmethod]
    fn of_matrix(tasks: usize, messages: &[u8], bytes: &[u8], kind: &str, names: Vec<String>) -> PyResult<Self> {
        let (kind, word) = match kind {
            "threads" => (Kind::Threads, TaskKind::Thread),
            "processes" => (Kind::Processes, TaskKind::Process),
            "ranks" => (Kind::Ranks, TaskKind::Rank),
            other => return Err(refused(format!("kind {other:?}: threads, processes or ranks"))),
        };
        let task = |(id, name): (u32, String)| {
            cohabit_model::Task {
                process: if kind == Kind::Threads { 0 } else { id },
                rank: (kind == Kind::Ranks).then_some(id),
                spawn_index: id,
                ..cohabit_model::Task::new(id, word, if name.is_empty() { format!("{word} {id}") } else { name })
            }
        };
        if names.len() != tasks {
            return Err(refused(format!("{} names for {tasks} tasks", names.len())));
        }
        let meta = Meta::new(kind, "python", (0..).zip(names).map(task).collect());
        Ok(Self(cohabit_model::Profile::new(meta, matrix(tasks, messages)?, matrix(tasks, bytes)?)))
    }

    fn save(&self, path: PathBuf) -> PyResult<()> {
        cohabit_formats::npz::write_profile(&path, &self.0).map_err(raised)
    }

    fn count(&self) -> usize {
        self.0.tasks()
    }

    fn messages<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        bytes_of(python, self.0.messages.to_dense())
    }

    fn bytes<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        bytes_of(python, self.0.bytes.to_dense())
    }

    /// Rows of bin, source, destination, messages and bytes.
    fn series<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        let row = |row: &cohabit_model::profile::SeriesRow| {
            [row.bin, row.source.into(), row.destination.into(), row.messages, row.bytes]
        };
        bytes_of(python, self.0.series.iter().flat_map(row))
    }

    /// All that is known besides, as JSON.
    fn meta(&self) -> PyResult<String> {
        serde_json::to_string(&self.0.meta).map_err(|error| refused(error.to_string()))
    }
}

/// A machine as a tree.
#[pyclass(frozen)]
struct Topology(cohabit_model::Topology);

#[pymethods]
impl Topology {
    #[staticmethod]
    fn load(text: &str) -> PyResult<Self> {
        cohabit_model::Topology::load(text).map(Self).map_err(raised)
    }

    /// OS indices of the PUs that may be used.
    fn pus(&self) -> Vec<u32> {
        self.0.allowed().into_iter().map(|pu| self.0.pus[pu].os_index).collect()
    }

    /// Distances between these.
    fn distances<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        let allowed = self.0.allowed();
        let row = |&a: &usize| allowed.iter().map(move |&b| self.0.distance(a, b)).collect::<Vec<u64>>();
        bytes_of(python, allowed.iter().flat_map(row))
    }
}

/// What J counts: what is asked for, else bytes for ranks where they are known, transfers where the profile has them,
/// and messages.
fn weight_of<'a>(given: Option<&str>, profile: &'a cohabit_model::Profile) -> PyResult<(Weight, &'a Matrix)> {
    let of_ranks = matches!(profile.meta.kind, Kind::Ranks | Kind::Hybrid);
    let known = profile.bytes.entries() > 0 || profile.messages.entries() == 0;
    match given {
        Some("bytes") => Ok((Weight::Bytes, &profile.bytes)),
        Some("messages") => Ok((Weight::Messages, &profile.messages)),
        Some("transfers") => match &profile.transfers {
            Some(transfers) => Ok((Weight::Transfers, transfers)),
            None => Err(refused("weight \"transfers\": the profile has none".to_owned())),
        },
        Some(other) => Err(refused(format!("weight {other:?}: messages, bytes or transfers"))),
        None if of_ranks && known => Ok((Weight::Bytes, &profile.bytes)),
        None => Ok(match &profile.transfers {
            Some(transfers) => (Weight::Transfers, transfers),
            None => (Weight::Messages, &profile.messages),
        }),
    }
}

/// The text of a mapping file.
#[pyfunction]
#[pyo3(signature = (profile, topology, mapper_name, seed, weight, pins, forbidden, share_cores, steps, budget_s, threads))]
#[allow(clippy::too_many_arguments)] // named ones, on the other side
fn map_tasks(
    python: Python<'_>,
    profile: &Profile,
    topology: &Topology,
    mapper_name: &str,
    seed: u64,
    weight: Option<&str>,
    pins: Vec<(usize, String)>,
    forbidden: Vec<String>,
    share_cores: bool,
    steps: Option<u64>,
    budget_s: Option<f64>,
    threads: usize,
) -> PyResult<String> {
    let (profile, topology) = (&profile.0, &topology.0);
    let (weight, matrix) = weight_of(weight, profile)?;
    let algorithm = mapper(mapper_name).map_err(raised)?;
    if algorithm.needs_periods() {
        return Err(raised(
            Error::new(format!("{mapper_name} needs the profile's parts in time")).remedy("take 'cohabit map' for it"),
        ));
    }
    if (steps.is_some() || budget_s.is_some() || threads > 1) && !algorithm.searches() {
        return Err(refused(format!("{mapper_name} does not search: leave steps, budget and threads out")));
    }
    let budget = budget_s.map(Duration::try_from_secs_f64).transpose();
    let budget = budget.map_err(|error| refused(format!("budget: {error}")))?;
    let named = |pu: &str| topology.pu_named(pu).map_err(raised);
    let pin = |(task, pu): (usize, String)| match task < profile.tasks() {
        true => Ok((task, named(&pu)?)),
        false => Err(refused(format!("pins: there are {} tasks, numbered from 0, and no {task}", profile.tasks()))),
    };
    let pins = pins.into_iter().map(pin).collect::<PyResult<Vec<_>>>()?;
    let forbidden = forbidden.iter().map(|pu| named(pu)).collect::<PyResult<Vec<_>>>()?;
    let options = Options { seed, pins, forbidden, share_cores, steps, budget, threads, ..Options::default() };
    let problem =
        Problem { weight: matrix, load: &profile.accessed_bytes, periods: &[], topology, options: &options };
    let made = python.detach(|| Ok((algorithm.map(&problem)?, lower_bound(&problem)?)));
    let (placement, bound) = made.map_err(raised)?;
    let mut usable = topology.clone();
    options.forbidden.iter().for_each(|&pu| usable.pus[pu].allowed = false);
    let fixed: HashSet<usize> = options.pins.iter().map(|&(task, _)| task).collect();
    let no_gain = hopeless(matrix, &usable);
    let rooms = rooms(matrix, &usable, &placement, &fixed, no_gain.is_some());
    let placed = |((task, &pu), room): ((&cohabit_model::Task, &usize), usize)| {
        let own = room == topology.pus[pu].node || !topology.names.is_empty();
        let serving = usable.nodes[room].pus.clone().filter(|&pu| usable.pus[pu].allowed);
        let pus = if own { String::new() } else { label::list(serving.map(|pu| usable.pus[pu].os_index).collect()) };
        let host = topology.host_of(pu).unwrap_or(&task.host).to_owned();
        Placed { host, pus, ..Placed::new(task, topology.pus[pu].os_index) }
    };
    let distance = distance_cost(matrix, topology, &placement);
    let mapping = cohabit_model::Mapping {
        format: FORMAT,
        mapper: mapper_name.to_owned(),
        seed,
        weight,
        objective: "distance".to_owned(),
        level_costs: Vec::new(),
        topology: topology.text.clone(),
        programs: profile.meta.programs.clone(),
        no_gain,
        tasks: profile.meta.tasks.iter().zip(&placement).zip(rooms).map(placed).collect(),
        cost: Cost { distance, lower_bound: Some(bound), ..Cost::default() },
        phases: None,
        unknown: serde_json::Map::default(),
    };
    Ok(mapping.to_json())
}

/// J of each placement, and the seconds that communication is estimated to take, where the topology says how fast its
/// ports are; the first of all is the linear placement. A placement is the PU of each task by its name.
#[pyfunction]
fn evaluate(
    python: Python<'_>,
    profile: &Profile,
    topology: &Topology,
    placements: Vec<Vec<String>>,
    weight: Option<&str>,
) -> PyResult<Vec<(u128, Option<f64>)>> {
    let (profile, topology) = (&profile.0, &topology.0);
    let (_, matrix) = weight_of(weight, profile)?;
    let indices = |names: &Vec<String>| {
        if names.len() != profile.tasks() {
            return Err(refused(format!("a placement of {} tasks, and the profile has {}", names.len(), profile.tasks())));
        }
        names.iter().map(|name| topology.pu_named(name).map_err(raised)).collect::<PyResult<Vec<usize>>>()
    };
    let options = Options::default();
    let problem = Problem { weight: matrix, load: &[], periods: &[], topology, options: &options };
    let mut all = vec![mapper("packed").and_then(|packed| packed.map(&problem)).map_err(raised)?];
    all.extend(placements.iter().map(indices).collect::<PyResult<Vec<_>>>()?);
    let hct = topology.hct().ok();
    let traffic = phases::traffic(profile);
    let of = |placement: &Vec<usize>| {
        let nodes: Vec<usize> = placement.iter().map(|&pu| topology.pus[pu].node).collect();
        let time = hct.as_ref().map(|hct| comparison::cost(hct, &traffic, &nodes)).transpose()?;
        Ok((distance_cost(matrix, topology, placement), time.map(|time| time.run.total.seconds)))
    };
    python.detach(|| all.iter().map(of).collect::<cohabit_model::Result<Vec<_>>>()).map_err(raised)
}

/// Name, description and source of each mapper.
#[pyfunction]
fn mappers() -> Vec<(&'static str, &'static str, &'static str)> {
    MAPPERS.iter().map(|mapper| (mapper.name(), mapper.about(), mapper.source())).collect()
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Profile>()?;
    module.add_class::<Topology>()?;
    module.add("CohabitError", module.py().get_type::<CohabitError>())?;
    module.add_function(wrap_pyfunction!(map_tasks, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(mappers, module)?)?;
    Ok(())
}
