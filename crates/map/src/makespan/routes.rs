//! The routes between processing elements: which ports and switches that limit anything a message goes through.

use cohabit_model::Hct;
use cohabit_model::hct::{Bandwidth, Direction};
use std::collections::HashMap;

/// No resource.
pub const NONE: u32 = u32::MAX;

/// One direction of a port, or a switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Which of [`Routes::kinds`] says how long a message takes; [`NONE`] for switches.
    pub kind: u32,
    /// Of all bytes together; 0 without a limit.
    pub seconds_per_byte: f64,
    /// Which of [`Routes::wires`] it is of.
    pub wire: u32,
}

/// Ports through which messages take the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    bandwidth: Bandwidth,
    latency_s: f64,
}

impl Kind {
    /// Of one message.
    pub fn seconds(&self, length: f64) -> f64 {
        self.bandwidth.at(length).map_or(0.0, |rate| length / rate) + self.latency_s
    }

    /// Seconds a byte at most, and latency.
    pub fn slowest(&self) -> (f64, f64) {
        (self.bandwidth.lowest().map_or(0.0, f64::recip), self.latency_s)
    }
}

/// The tree with the resources of each element.
#[derive(Debug, Clone)]
pub struct Routes {
    /// What limits anything.
    pub resources: Vec<Resource>,
    /// The kinds of ports among them.
    pub kinds: Vec<Kind>,
    /// Resources through which exactly the same messages go.
    pub wires: Vec<Vec<u32>>,
    places: Vec<Place>,
}

#[derive(Debug, Clone)]
struct Place {
    parent: u32,
    depth: u32,
    out: u32,
    inwards: u32,
    switch: u32,
}

impl<'a> From<&'a Routes> for std::borrow::Cow<'a, Routes> {
    fn from(routes: &'a Routes) -> Self {
        Self::Borrowed(routes)
    }
}

impl From<Routes> for std::borrow::Cow<'_, Routes> {
    fn from(routes: Routes) -> Self {
        Self::Owned(routes)
    }
}

impl Routes {
    /// The routes of a hardware communication topology.
    pub fn new(hct: &Hct) -> Self {
        let places = Vec::with_capacity(hct.elements());
        let mut routes = Self { resources: Vec::new(), kinds: Vec::new(), wires: Vec::new(), places };
        for element in 0..hct.elements() {
            let (out, inwards) = match hct.parent(element) {
                Some(_) => (routes.port(hct, element, Direction::Out), routes.port(hct, element, Direction::In)),
                None => (NONE, NONE),
            };
            let switch = match hct.max_bandwidth(element) {
                Some(limit) => routes.add(Resource { kind: NONE, seconds_per_byte: 1.0 / limit, wire: NONE }),
                None => NONE,
            };
            let parent = hct.parent(element).unwrap_or(0);
            let depth = if element == 0 { 0 } else { routes.places[parent].depth + 1 };
            routes.places.push(Place { parent: parent as u32, depth, out, inwards, switch });
        }
        routes.gather(hct);
        routes
    }

    /// Finds out which resources are of one wire.
    fn gather(&mut self, hct: &Hct) {
        let Self { resources, wires, places, .. } = self;
        let (known, mut numbers) = (hct.wires(), HashMap::new());
        let new = |wires: &mut Vec<Vec<u32>>| {
            wires.push(Vec::new());
            wires.len() - 1
        };
        for (element, place) in places.iter().enumerate() {
            for (resource, direction) in
                [(place.out, Some(Direction::Out)), (place.inwards, Some(Direction::In)), (place.switch, None)]
            {
                if resource != NONE {
                    let wire = match direction {
                        Some(direction) => *numbers.entry(known.of(element, direction)).or_insert_with(|| new(wires)),
                        None => new(wires),
                    };
                    resources[resource as usize].wire = wire as u32;
                    wires[wire].push(resource);
                }
            }
        }
    }

    fn port(&mut self, hct: &Hct, element: usize, direction: Direction) -> u32 {
        let port = hct.port(element);
        let kind = Kind { bandwidth: port.towards(direction).clone(), latency_s: port.latency_s };
        let limit = port.limit(direction);
        if limit.is_none() && kind.latency_s == 0.0 {
            return NONE;
        }
        let known = self.kinds.iter().position(|known| *known == kind);
        let number = known.unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        let seconds_per_byte = limit.map_or(0.0, f64::recip);
        self.add(Resource { kind: number as u32, seconds_per_byte, wire: NONE })
    }

    fn add(&mut self, resource: Resource) -> u32 {
        self.resources.push(resource);
        self.resources.len() as u32 - 1
    }

    /// Calls `visit` with every resource on the way from one processing element to another, once each.
    #[inline]
    pub fn along(&self, from: usize, to: usize, mut visit: impl FnMut(usize)) {
        let (mut up, mut down) = (from, to);
        if up == down {
            return;
        }
        let mut pass = |resource: u32| {
            if resource != NONE {
                visit(resource as usize);
            }
        };
        // The deeper one climbs; a switch is passed by leaving it, the one where both meet at the end.
        while up != down {
            let (above, below) = (&self.places[up], &self.places[down]);
            if above.depth >= below.depth {
                pass(above.switch);
                pass(above.out);
                up = above.parent as usize;
            } else {
                pass(below.switch);
                pass(below.inwards);
                down = below.parent as usize;
            }
        }
        pass(self.places[up].switch);
    }
}
