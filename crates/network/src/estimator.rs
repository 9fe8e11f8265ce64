//! The cost estimator: how long a phase of concurrent communication takes on a tree of ports and switches, under a
//! mapping.
//!
//! After the IBM report, section 5 and Figure 4; what is changed, and why, is in docs/estimator.md. In short: a task's
//! messages go through a port one after another; different tasks' do so at once, as far as the port's maximum bandwidth
//! lets all their bytes through; switches have such a maximum too; the phase ends when the last port or switch is done.

use cohabit_model::hct::{Direction, Hct};
use cohabit_model::pattern::{Messages, Pattern};
use cohabit_model::{Error, Result, counted};
use std::collections::{HashMap, HashSet};

/// What a phase waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// One direction of the port of an element.
    Port(usize, Direction),
    /// A switch.
    Switch(usize),
}

/// Which norm of all ports' and switches' times tells apart mappings with the same longest one (Awerbuch, Azar, Grove,
/// Kao, Krishnan, Vitter, "Load balancing in the Lp norm", FOCS 1995): the fuller the others are as well, the larger it
/// is.
pub const NORM: i32 = 4;

/// Estimates nearer to each other than this share are the same: it is the norm that tells such mappings apart.
pub const SAME: f64 = 0.01;

/// How long a phase takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Seconds: the longest that a port or switch is busy.
    pub seconds: f64,
    /// Seconds: the [`NORM`]-norm of how long each port and switch is busy; ports of one wire ([`Hct::wires`]) count
    /// once. Not in the report; of mappings whose phases take as long, the one for which this is smaller is mostly
    /// faster (benches/estimates.md).
    pub norm_s: f64,
    /// What takes as long; none where nothing is sent through any port.
    pub bottleneck: Option<Resource>,
}

/// What all phases take together, each as often as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Total {
    /// Seconds.
    pub seconds: f64,
    /// Seconds: the phases' norms.
    pub norm_s: f64,
}

impl Total {
    /// Adds a phase that comes `weight` times.
    pub fn add(&mut self, weight: f64, phase: &Estimate) {
        self.seconds += weight * phase.seconds;
        self.norm_s += weight * phase.norm_s;
    }
}

/// What goes through a resource.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    /// Of the task under way, one message after another.
    task: usize,
    task_seconds: f64,
    /// The longest of all tasks.
    longest_seconds: f64,
    bytes: f64,
}

/// Estimates one phase; `mapping[task]` is a processing element of `hct`. Tasks on one element reach each other for
/// nothing. Order of messages and blocking are ignored, as in the report.
///
/// # Errors
/// The mapping does not have a processing element for every task.
pub fn estimate(hct: &Hct, pattern: &Pattern, mapping: &[usize]) -> Result<Estimate> {
    check(hct, pattern, mapping)?;
    let mut order: Vec<usize> = (0..pattern.messages.len()).collect();
    order.sort_unstable_by_key(|&at| (pattern.messages[at].source, pattern.messages[at].destination));
    let mut loads: HashMap<Resource, Load> = HashMap::new();
    let mut path = (usize::MAX, usize::MAX, (Vec::new(), Vec::new()));
    for at in order {
        let messages = pattern.messages[at];
        let (from, to) = (mapping[messages.source], mapping[messages.destination]);
        if (path.0, path.1) != (from, to) {
            path = (from, to, hct.path(from, to));
        }
        let count = messages.count as f64;
        let bytes = messages.length * count;
        for &(element, direction) in &path.2.0 {
            let port = hct.port(element);
            let transfer = port.towards(direction).at(messages.length).map_or(0.0, |rate| messages.length / rate);
            let load = loads.entry(Resource::Port(element, direction)).or_default();
            load.add(messages.source, (transfer + port.latency_s) * count, bytes);
        }
        for &switch in &path.2.1 {
            loads.entry(Resource::Switch(switch)).or_default().add(messages.source, 0.0, bytes);
        }
    }
    let seconds = |(resource, load): (Resource, Load)| {
        let limit = limit(hct, resource);
        (load.longest_seconds.max(limit.map_or(0.0, |limit| load.bytes / limit)), resource)
    };
    let mut busy: Vec<_> = loads.into_iter().map(seconds).filter(|(seconds, _)| *seconds > 0.0).collect();
    // Always in the same order: of several that take as long the same one is named, and sums are rounded alike.
    busy.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let last = busy.first();
    let longest = last.map_or(0.0, |last| last.0);
    let (wires, mut counted) = (hct.wires(), HashSet::new());
    let mut is_first = |resource: Resource| match resource {
        Resource::Port(element, direction) => counted.insert(wires.of(element, direction)),
        Resource::Switch(_) => true,
    };
    let power = |&(seconds, resource): &(f64, Resource)| is_first(resource).then(|| (seconds / longest).powi(NORM));
    let sum: f64 = busy.iter().filter_map(power).sum();
    let norm_s = longest * sum.powf(1.0 / f64::from(NORM));
    Ok(Estimate { seconds: longest, norm_s, bottleneck: last.map(|last| last.1) })
}

/// What a port or switch lets through in all, in bytes/s.
fn limit(hct: &Hct, resource: Resource) -> Option<f64> {
    match resource {
        Resource::Port(element, direction) => hct.port(element).limit(direction),
        Resource::Switch(element) => hct.max_bandwidth(element),
    }
}

/// A phase that grows: what [`estimate`] says of all messages so far, kept up to date as they are added.
pub struct Growing<'a> {
    hct: &'a Hct,
    mapping: &'a [usize],
    /// Seconds of each sending task by resource, and bytes of all.
    tasks: HashMap<(Resource, usize), f64>,
    bytes: HashMap<Resource, f64>,
    seconds: f64,
}

impl<'a> Growing<'a> {
    /// A phase without messages; `mapping[task]` is a processing element of `hct`.
    ///
    /// # Errors
    /// As for [`estimate`].
    pub fn new(hct: &'a Hct, tasks: usize, mapping: &'a [usize]) -> Result<Self> {
        check(hct, &Pattern { tasks, ..Pattern::default() }, mapping)?;
        Ok(Self { hct, mapping, tasks: HashMap::new(), bytes: HashMap::new(), seconds: 0.0 })
    }

    /// Seconds that the phase takes.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Adds messages. Those of tasks that there are not are left out.
    pub fn add(&mut self, messages: &Messages) {
        let at = |task: usize| self.mapping.get(task).copied();
        let (Some(from), Some(to)) = (at(messages.source), at(messages.destination)) else { return };
        let (count, (ports, switches)) = (messages.count as f64, self.hct.path(from, to));
        let seconds = |(element, direction): (usize, Direction)| {
            let port = self.hct.port(element);
            let transfer = port.towards(direction).at(messages.length).map_or(0.0, |rate| messages.length / rate);
            (Resource::Port(element, direction), (transfer + port.latency_s) * count)
        };
        let through = ports.into_iter().map(seconds).chain(switches.into_iter().map(|at| (Resource::Switch(at), 0.0)));
        for (resource, seconds) in through {
            let task = self.tasks.entry((resource, messages.source)).or_default();
            *task += seconds;
            let bytes = self.bytes.entry(resource).or_default();
            *bytes += messages.length * count;
            let shared = limit(self.hct, resource).map_or(0.0, |limit| *bytes / limit);
            self.seconds = self.seconds.max(*task).max(shared);
        }
    }

    /// Begins again.
    pub fn clear(&mut self) {
        self.tasks.clear();
        self.bytes.clear();
        self.seconds = 0.0;
    }
}

impl Load {
    fn add(&mut self, task: usize, seconds: f64, bytes: f64) {
        if self.task != task {
            self.task = task;
            self.task_seconds = 0.0;
        }
        self.task_seconds += seconds;
        self.longest_seconds = self.longest_seconds.max(self.task_seconds);
        self.bytes += bytes;
    }
}

/// Whether an estimate can be made.
pub(crate) fn check(hct: &Hct, pattern: &Pattern, mapping: &[usize]) -> Result<()> {
    if mapping.len() != pattern.tasks {
        return Err(Error::new(format!(
            "the mapping has {}, the profile {}",
            counted(mapping.len(), "task"),
            pattern.tasks
        )));
    }
    if let Some(task) = mapping.iter().position(|&element| !hct.is_processing(element)) {
        return Err(Error::new(format!("task {task} is mapped to {}, which is no processing element", mapping[task])));
    }
    let beyond = |messages: &&Messages| messages.source.max(messages.destination) >= pattern.tasks;
    match pattern.messages.iter().find(beyond) {
        Some(messages) => Err(Error::new(format!(
            "a message from task {} to {}, there are {}",
            messages.source, messages.destination, pattern.tasks
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "estimator_tests.rs"]
mod tests;
