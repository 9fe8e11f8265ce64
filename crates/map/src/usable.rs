//! Which PUs a problem may use at all, and where its pinned tasks go; what is impossible is refused here, once for all
//! mappers.

use crate::Problem;
use cohabit_model::topology::Level;
use cohabit_model::{Error, Result, Topology, counted};

/// The PUs and pins of a problem, checked.
#[derive(Debug, Clone)]
pub struct Usable {
    /// PUs that may be used: allowed by the cpuset and not forbidden. Ascending indices into [`Topology::pus`].
    pub pus: Vec<usize>,
    /// The PU each task is pinned to.
    pub pin: Vec<Option<usize>>,
    /// How many tasks are pinned to each PU of the topology.
    pub pinned: Vec<usize>,
}

impl Usable {
    /// Checks a problem.
    ///
    /// # Errors
    /// A pin or a forbidden PU that does not exist, a task pinned twice, a pin to a PU that may not be used, no usable
    /// PU.
    pub fn new(problem: &Problem) -> Result<Self> {
        let (tasks, topology) = (problem.weight.tasks(), problem.topology);
        if !problem.load.is_empty() && problem.load.len() != tasks {
            return Err(Error::new(format!("{} for {}", counted(problem.load.len(), "load"), counted(tasks, "task")))
                .remedy("give a load for every task, or none"));
        }
        let mut free: Vec<bool> = topology.pus.iter().map(|pu| pu.allowed).collect();
        for &pu in &problem.options.forbidden {
            *free.get_mut(pu).ok_or_else(|| no_such_pu(pu, topology))? = false;
        }
        let (mut pin, mut pinned) = (vec![None; tasks], vec![0; topology.pus.len()]);
        for &(task, pu) in &problem.options.pins {
            check_pin(task, pu, &pin, &free, topology)?;
            pinned[pu] += usize::from(pin[task].is_none());
            pin[task] = Some(pu);
        }
        let pus: Vec<usize> = (0..free.len()).filter(|&pu| free[pu]).collect();
        if pus.is_empty() && tasks > 0 {
            let known = topology.pus.len();
            return Err(Error::new(format!("no PU is left to use: all {known} are forbidden or outside the cpuset"))
                .remedy("forbid fewer PUs, or run where the cpuset allows some"));
        }
        Ok(Self { pus, pin, pinned })
    }

    /// The number of tasks.
    pub fn tasks(&self) -> usize {
        self.pin.len()
    }

    /// The usable PUs core by core; a PU outside any core is its own.
    pub fn cores(&self, topology: &Topology) -> Vec<Vec<usize>> {
        let mut cores: Vec<Vec<usize>> = Vec::new();
        let mut previous = None;
        for &pu in &self.pus {
            let core = core_of(topology, pu);
            match cores.last_mut() {
                Some(last) if previous == Some(core) => last.push(pu),
                _ => cores.push(vec![pu]),
            }
            previous = Some(core);
        }
        cores
    }

    /// Whether there are more tasks than PUs to use.
    pub fn crowded(&self) -> bool {
        self.tasks() > self.pus.len()
    }
}

/// Speed of a PU relative to the fastest; 1 where the topology says nothing sensible.
pub fn speed(topology: &Topology, pu: usize) -> f64 {
    let capacity = topology.pus[pu].capacity;
    if capacity.is_finite() && capacity > 0.0 { capacity.clamp(1e-3, 1.0) } else { 1.0 }
}

/// By what PUs are preferred where not all are used: speed, and where speeds are the same or nobody knows them the rank
/// of the kind of core.
pub fn preference(topology: &Topology, pu: usize) -> (u64, u32) {
    // Speeds are positive, and the bits of such floats are ordered as they are.
    (speed(topology, pu).to_bits(), topology.pus[pu].core_kind)
}

/// The node of the core that a PU belongs to, or its own node.
fn core_of(topology: &Topology, pu: usize) -> usize {
    let own = topology.pus[pu].node;
    let mut node = own;
    while topology.nodes[node].level != Level::Core {
        match topology.nodes[node].parent {
            Some(parent) => node = parent,
            None => return own,
        }
    }
    node
}

fn check_pin(task: usize, pu: usize, pin: &[Option<usize>], free: &[bool], topology: &Topology) -> Result<()> {
    let Some(before) = pin.get(task) else {
        return Err(Error::new(format!("task {task} is pinned, of {}", counted(pin.len(), "task")))
            .remedy("tasks are numbered from 0; pin one that the profile has"));
    };
    match free.get(pu) {
        None => return Err(no_such_pu(pu, topology)),
        Some(false) => {
            let number = topology.pus[pu].os_index;
            return Err(Error::new(format!("task {task} is pinned to PU {number}, which may not be used"))
                .remedy("pin it to a PU that is in the cpuset and not forbidden"));
        }
        Some(true) => {}
    }
    match before {
        Some(other) if *other != pu => {
            let (first, second) = (topology.pus[*other].os_index, topology.pus[pu].os_index);
            Err(Error::new(format!("task {task} is pinned to PU {first} and to PU {second}"))
                .remedy("pin each task to one PU"))
        }
        _ => Ok(()),
    }
}

fn no_such_pu(pu: usize, topology: &Topology) -> Error {
    Error::new(format!("there is no PU of index {pu}: the topology has {}", topology.pus.len()))
        .remedy("see `cohabit topology` for the PUs there are")
}
