//! The hardware communication topology: a tree of processing elements and switches, joined by ports (IBM report, 3.1,
//! Figure 2).
//!
//! Every element but the root has one port, to its parent. Outwards is from the element to its parent, inwards the
//! other way; both at once cost no more than each. A switch may bound what goes through it in all.

use crate::{Error, Result};
use std::collections::HashMap;

/// Bytes per second by message length, in one direction of a port.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bandwidth(Vec<(f64, f64)>);

impl Bandwidth {
    /// From (message length in bytes, bytes/s) in any order; none at all: the port is no limit in that direction.
    ///
    /// # Errors
    /// A length that comes twice, or a length or bandwidth that is not a number above 0.
    pub fn new(mut points: Vec<(f64, f64)>) -> Result<Self> {
        if let Some((length, rate)) = points.iter().find(|(length, rate)| !is_positive(*length) || !is_positive(*rate))
        {
            return Err(Error::new(format!("a bandwidth of {rate} bytes/s for messages of {length} bytes"))
                .remedy("both must be numbers above 0; leave a port out that limits nothing"));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        match points.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(Error::new(format!("two bandwidths for messages of {} bytes", pair[0].0))),
            None => Ok(Self(points)),
        }
    }

    /// The same for all lengths.
    ///
    /// # Errors
    /// Not a number above 0.
    pub fn flat(rate: f64) -> Result<Self> {
        Self::new(vec![(1.0, rate)])
    }

    /// Bytes per second for messages of that length: between two points linear in the logarithm of the length, beyond
    /// the first and the last as there. None where there is no limit.
    pub fn at(&self, length: f64) -> Option<f64> {
        let next = self.0.partition_point(|point| point.0 <= length);
        match (next.checked_sub(1).map(|at| self.0[at]), self.0.get(next)) {
            (None, None) => None,
            (Some(point), None) => Some(point.1),
            (None, Some(point)) => Some(point.1),
            (Some(low), Some(high)) => {
                let share = (length / low.0).ln() / (high.0 / low.0).ln();
                Some(low.1 + share * (high.1 - low.1))
            }
        }
    }

    /// The lowest of all lengths; none where there is no limit.
    pub fn lowest(&self) -> Option<f64> {
        self.0.iter().map(|point| point.1).reduce(f64::min)
    }

    /// The highest of all lengths.
    fn highest(&self) -> Option<f64> {
        self.0.iter().map(|point| point.1).reduce(f64::max)
    }
}

fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// What joins an element to its parent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Port {
    /// From the element to its parent.
    pub out: Bandwidth,
    /// From the parent to the element.
    pub inwards: Bandwidth,
    /// Of each message, in seconds; 0 where the bandwidths were measured with it, as a ping-pong does.
    pub latency_s: f64,
    /// Bytes/s in each direction when several pairs share the port; none: the highest of the direction's bandwidths.
    pub max_bandwidth: Option<f64>,
    /// Messages of so many bytes and more are asked for before they are sent through it; none: none is.
    pub asks_from: Option<f64>,
}

impl Port {
    /// The same bandwidth for all lengths and in both directions, no latency.
    ///
    /// # Errors
    /// Not a number above 0.
    pub fn flat(rate: f64) -> Result<Self> {
        let both = Bandwidth::flat(rate)?;
        Ok(Self { out: both.clone(), inwards: both, ..Self::default() })
    }

    /// A direction's bandwidths.
    pub fn towards(&self, direction: Direction) -> &Bandwidth {
        match direction {
            Direction::Out => &self.out,
            Direction::In => &self.inwards,
        }
    }

    /// What all that goes in a direction is bounded by.
    pub fn limit(&self, direction: Direction) -> Option<f64> {
        self.max_bandwidth.or_else(|| self.towards(direction).highest())
    }
}

/// Which way through a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the element to its parent.
    Out,
    /// From the parent to the element.
    In,
}

/// How fast the memory of a host is, in bytes/s that are read of it; none: not known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemorySpeeds {
    /// By the PUs of a NUMA node of its own memory, all at once.
    pub node: Option<f64>,
    /// By the PUs of another NUMA node, all at once.
    pub remote: Option<f64>,
    /// By one PU.
    pub task: Option<f64>,
    /// By all PUs below a shared cache of what lies in that.
    pub cache: Option<f64>,
}

impl MemorySpeeds {
    /// All of them, in the order of their keys in a cluster file ([`crate::topology::cluster::MEMORY_KEYS`]).
    pub fn all(&self) -> [Option<f64>; 4] {
        [self.node, self.remote, self.task, self.cache]
    }
}

/// A processing element or a switch.
#[derive(Debug, Clone, PartialEq)]
struct Element {
    parent: usize,
    depth: usize,
    port: Port,
    is_switch: bool,
    max_bandwidth: Option<f64>,
    memory: MemorySpeeds,
}

/// The tree. Elements are named by the numbers that adding them returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Hct(Vec<Element>);

impl Hct {
    /// A tree with a switch as its root, element 0, and what it lets through in all, if that is limited.
    ///
    /// # Errors
    /// A limit that is not a number above 0.
    pub fn new(max_bandwidth: Option<f64>) -> Result<Self> {
        check_limit(max_bandwidth)?;
        Ok(Self(vec![Element {
            parent: 0,
            depth: 0,
            port: Port::default(),
            is_switch: true,
            max_bandwidth,
            memory: MemorySpeeds::default(),
        }]))
    }

    /// Adds a switch below another.
    ///
    /// # Errors
    /// The parent is no switch of the tree, or a limit or latency is not a number above 0.
    pub fn add_switch(&mut self, parent: usize, port: Port, max_bandwidth: Option<f64>) -> Result<usize> {
        self.add(parent, port, true, max_bandwidth)
    }

    /// Adds a processing element below a switch.
    ///
    /// # Errors
    /// As for [`Hct::add_switch`].
    pub fn add_processing(&mut self, parent: usize, port: Port) -> Result<usize> {
        self.add(parent, port, false, None)
    }

    fn add(&mut self, parent: usize, port: Port, is_switch: bool, max_bandwidth: Option<f64>) -> Result<usize> {
        check_limit(max_bandwidth)?;
        check_limit(port.max_bandwidth)?;
        if !(port.latency_s.is_finite() && port.latency_s >= 0.0) {
            return Err(Error::new(format!("a latency of {} seconds", port.latency_s)));
        }
        let Some(above) = self.0.get(parent).filter(|element| element.is_switch) else {
            return Err(Error::new(format!("element {parent} is no switch, nothing can be below it")));
        };
        let depth = above.depth + 1;
        let memory = above.memory;
        self.0.push(Element { parent, depth, port, is_switch, max_bandwidth, memory });
        Ok(self.0.len() - 1)
    }

    /// Says how fast memory is in an element, and in all that is added below it from now on.
    ///
    /// # Errors
    /// A speed that is not a number above 0.
    pub fn set_memory(&mut self, element: usize, memory: MemorySpeeds) -> Result<()> {
        memory.all().into_iter().try_for_each(check_limit)?;
        self.0[element].memory = memory;
        Ok(())
    }

    /// How fast memory is there.
    pub fn memory(&self, element: usize) -> &MemorySpeeds {
        &self.0[element].memory
    }

    /// How many elements there are.
    pub fn elements(&self) -> usize {
        self.0.len()
    }

    /// Whether tasks can be there.
    pub fn is_processing(&self, element: usize) -> bool {
        self.0.get(element).is_some_and(|element| !element.is_switch)
    }

    /// The element above; none for the root.
    pub fn parent(&self, element: usize) -> Option<usize> {
        (element > 0).then(|| self.0[element].parent)
    }

    /// The port of an element, to its parent.
    pub fn port(&self, element: usize) -> &Port {
        &self.0[element].port
    }

    /// Whether anything takes any time: a port has a bandwidth, a latency or a maximum, or a switch a maximum.
    pub fn limits(&self) -> bool {
        let of_port = |port: &Port| *port != Port::default();
        self.0.iter().any(|element| of_port(&element.port) || element.max_bandwidth.is_some())
    }

    /// What a switch lets through in all.
    pub fn max_bandwidth(&self, element: usize) -> Option<f64> {
        self.0[element].max_bandwidth
    }

    /// The ports from one processing element to another, and the switches between; nothing from one to itself.
    pub fn path(&self, from: usize, to: usize) -> (Vec<(usize, Direction)>, Vec<usize>) {
        let (mut up, mut down) = (from, to);
        let (mut ports, mut switches) = (Vec::new(), Vec::new());
        let mut climb = |element: &mut usize, direction| {
            ports.push((*element, direction));
            *element = self.0[*element].parent;
            *element
        };
        while up != down {
            // The deeper one climbs; where both are as deep, both do.
            if self.0[up].depth >= self.0[down].depth {
                switches.push(climb(&mut up, Direction::Out));
            } else {
                switches.push(climb(&mut down, Direction::In));
            }
        }
        switches.sort_unstable();
        switches.dedup();
        (ports, switches)
    }

    /// The ports of [`Hct::path`] in the order in which a message goes through them.
    pub fn way(&self, from: usize, to: usize) -> Vec<(usize, Direction)> {
        let (ports, _) = self.path(from, to);
        let out = ports.iter().filter(|port| port.1 == Direction::Out);
        let into = ports.iter().rev().filter(|port| port.1 == Direction::In);
        out.chain(into).copied().collect()
    }

    /// Which ports exactly the same messages go through, whatever the mapping.
    pub fn wires(&self) -> Wires {
        let mut children = vec![0; self.0.len()];
        self.0.iter().skip(1).for_each(|element| children[element.parent] += 1);
        // The first switch that parts ways: nothing goes above it.
        let mut root = 0;
        let mut top: Vec<usize> = (0..self.0.len()).collect();
        let mut ends = Vec::new();
        for (at, &Element { parent, .. }) in self.0.iter().enumerate().skip(1) {
            match (parent == root, children[parent] == 1) {
                (true, true) => root = at,
                (true, false) => ends.push(at),
                (false, true) => top[at] = top[parent],
                (false, false) => {}
            }
        }
        Wires { top, ends: <[usize; 2]>::try_from(ends).ok() }
    }
}

/// Ports through which the same messages go: those of a switch and of the only element below it, and where the root has
/// two elements below it, what leaves one and what enters the other.
#[derive(Debug, Clone)]
pub struct Wires {
    /// The highest such element by element.
    top: Vec<usize>,
    /// The two below the root.
    ends: Option<[usize; 2]>,
}

impl Wires {
    /// The port that stands for all of its wire.
    pub fn of(&self, element: usize, direction: Direction) -> (usize, Direction) {
        let top = self.top[element];
        match (self.ends, direction) {
            (Some([one, other]), Direction::In) if top == one => (other, Direction::Out),
            (Some([one, other]), Direction::In) if top == other => (one, Direction::Out),
            _ => (top, direction),
        }
    }
}

/// Numbers of wires from 0 on, in the order in which they are asked for.
#[derive(Debug, Clone)]
pub struct Numbers {
    wires: Wires,
    known: HashMap<(usize, Direction), usize>,
}

impl Numbers {
    /// None is known yet.
    pub fn new(hct: &Hct) -> Self {
        Self { wires: hct.wires(), known: HashMap::new() }
    }

    /// The wires that these ports are, in their order, each with the slower of what two ports of one wire say.
    pub fn along<T>(
        &mut self,
        ports: impl IntoIterator<Item = (usize, Direction, T)>,
        slower: impl Fn(&T, &T) -> T,
    ) -> Vec<(usize, T)> {
        let mut found: Vec<(usize, T)> = Vec::new();
        for (element, direction, value) in ports {
            let next = self.known.len();
            let number = *self.known.entry(self.wires.of(element, direction)).or_insert(next);
            match found.last_mut() {
                Some(last) if last.0 == number => last.1 = slower(&last.1, &value),
                _ => found.push((number, value)),
            }
        }
        found
    }

    /// How many are known.
    pub fn count(&self) -> usize {
        self.known.len()
    }
}

fn check_limit(limit: Option<f64>) -> Result<()> {
    match limit.filter(|limit| !is_positive(*limit)) {
        Some(limit) => Err(Error::new(format!("a maximum bandwidth of {limit} bytes/s"))
            .remedy("it must be a number above 0; leave it out where there is no limit")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_linear_in_the_logarithm_of_the_length() {
        let table = Bandwidth::new(vec![(100.0, 3e6), (1.0, 1e6)]).unwrap();
        for (length, rate) in [(0.0, 1e6), (1.0, 1e6), (10.0, 2e6), (100.0, 3e6), (1e9, 3e6)] {
            assert!((table.at(length).unwrap() - rate).abs() < 1e-6, "{length}");
        }
        assert_eq!(Bandwidth::default().at(5.0), None);
    }

    #[test]
    fn what_is_no_bandwidth_is_refused() {
        for points in [vec![(1.0, 0.0)], vec![(0.0, 1.0)], vec![(1.0, f64::NAN)], vec![(1.0, 1.0), (1.0, 2.0)]] {
            assert!(Bandwidth::new(points).is_err());
        }
        assert!(Hct::new(Some(0.0)).is_err() && Hct::new(Some(1.0)).unwrap().limits());
        let mut tree = Hct::new(None).unwrap();
        assert!(!tree.limits());
        let leaf = tree.add_processing(0, Port::default()).unwrap();
        assert!(
            tree.add_processing(leaf, Port::default()).is_err() && tree.add_switch(9, Port::default(), None).is_err()
        );
        assert!(tree.add_processing(0, Port { latency_s: -1.0, ..Port::default() }).is_err());
        assert!(tree.add_processing(0, Port { max_bandwidth: Some(-1.0), ..Port::default() }).is_err());
    }

    #[test]
    fn ports_of_one_wire_have_the_same_messages() {
        use Direction::{In, Out};
        // Above the switch that parts ways, two chains of switches, one of which ends in two processing elements; with
        // a third element there it is not the same messages that leave one and enter another.
        for third in [false, true] {
            let mut tree = Hct::new(None).unwrap();
            let mut switch = |parent| tree.add_switch(parent, Port::default(), None).unwrap();
            let root = switch(0);
            let (left, right) = (switch(root), switch(root));
            let deep = switch(left);
            let mut leaf = |parent| tree.add_processing(parent, Port::default()).unwrap();
            let leaves = [leaf(deep), leaf(right), leaf(right)];
            let leaves = leaves.into_iter().chain(third.then(|| leaf(root))).collect::<Vec<_>>();
            let wires = tree.wires();
            let pairs = || leaves.iter().flat_map(|&a| leaves.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b);
            let messages = |port| pairs().filter(|&(a, b)| tree.path(a, b).0.contains(&port)).collect::<Vec<_>>();
            let ports = || (1..tree.elements()).flat_map(|element| [(element, Out), (element, In)]);
            for one in ports().filter(|&port| !messages(port).is_empty()) {
                for other in ports().filter(|&port| !messages(port).is_empty()) {
                    let is_one = wires.of(one.0, one.1) == wires.of(other.0, other.1);
                    assert_eq!(is_one, messages(one) == messages(other), "{one:?} {other:?}, {third}");
                }
            }
        }
    }

    #[test]
    fn paths_meet_at_the_lowest_common_switch() {
        let mut tree = Hct::new(None).unwrap();
        let host = tree.add_switch(0, Port::default(), None).unwrap();
        let (a, b) =
            (tree.add_processing(host, Port::default()).unwrap(), tree.add_processing(host, Port::default()).unwrap());
        let far = tree.add_processing(0, Port::default()).unwrap();
        use Direction::{In, Out};
        assert_eq!(tree.path(a, b), (vec![(a, Out), (b, In)], vec![host]));
        let (mut ports, switches) = tree.path(a, far);
        ports.sort_unstable();
        assert_eq!((ports, switches), (vec![(host, Out), (a, Out), (far, In)], vec![0, host]));
        assert_eq!(tree.path(a, a), (vec![], vec![]));
    }
}
