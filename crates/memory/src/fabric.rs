//! What lies between the last caches and memory: controllers, links, a bus, a mesh.
//!
//! Latencies are those of the idle machine, by what two places have in common; queues add what a request waits.

use crate::clock::Time;
use crate::hash::spread;
use crate::machine::{Machine, Search};
use crate::queue::Queue;
use crate::report::ServerReport;
use crate::series::{ServerCounts, ServerSeries};

/// A request, an answer without data, the head of a message with data.
const HEAD_BYTES: u64 = 8;

#[derive(Debug)]
pub(crate) struct Fabric<'a> {
    machine: &'a Machine,
    line_bytes: u64,
    /// `[node * controllers + controller]`.
    controllers: Vec<Queue>,
    links: Vec<LinkQueues>,
    bus: Option<Queue>,
    /// A core of each domain, for latencies.
    first_core: Vec<usize>,
}

#[derive(Debug)]
struct LinkQueues {
    of_core: Vec<Option<usize>>,
    of_node: Vec<Option<usize>>,
    into: Vec<Queue>,
    out: Vec<Queue>,
}

/// One end of a message.
#[derive(Debug, Clone, Copy)]
enum End {
    Core(usize),
    Node(usize),
}

impl<'a> Fabric<'a> {
    pub fn new(machine: &'a Machine) -> Self {
        let line_bytes = 1 << machine.line_bits;
        let message = line_bytes + HEAD_BYTES;
        let memory = &machine.memory;
        let controller = Queue::new(memory.gb_s, line_bytes, &memory.curve);
        let links = machine.links.iter().map(|link| {
            let queues = vec![Queue::new(link.gb_s, message, &[]); link.count];
            LinkQueues {
                of_core: link.of_core.clone(),
                of_node: link.of_node.clone(),
                into: queues.clone(),
                out: queues,
            }
        });
        let mut first_core = Vec::new();
        for core in 0..machine.cores {
            if machine.domain(core) == first_core.len() {
                first_core.push(core);
            }
        }
        Self {
            machine,
            line_bytes,
            controllers: vec![controller; memory.nodes * memory.controllers],
            links: links.collect(),
            bus: machine.bus_gb_s.map(|gb_s| Queue::new(gb_s, message, &[])),
            first_core,
        }
    }

    /// A line from memory to a core: how long it takes.
    pub fn read(&mut self, core: usize, node: usize, line: u64, now: Time) -> Time {
        let idle = self.machine.memory.latency[core * self.machine.memory.nodes + node];
        let asked = self.pass(End::Core(core), End::Node(node), HEAD_BYTES, now);
        let on_bus = self.on_bus(self.line_bytes + HEAD_BYTES, now + asked);
        let served = self.controller(node, line).serve_line(now + asked + on_bus);
        let answered =
            self.pass(End::Node(node), End::Core(core), self.line_bytes + HEAD_BYTES, now + asked + on_bus + served);
        idle + asked + on_bus + served + answered + self.hops(core, line, None)
    }

    /// A line from a domain to memory. Nobody waits for it.
    pub fn write(&mut self, domain: usize, node: usize, line: u64, now: Time) {
        let core = self.first_core[domain];
        let passed = self.pass(End::Core(core), End::Node(node), self.line_bytes + HEAD_BYTES, now);
        let on_bus = self.on_bus(self.line_bytes + HEAD_BYTES, now + passed);
        self.controller(node, line).serve_line(now + passed + on_bus);
    }

    /// A line from the caches of another domain: how long it takes. `from` is a core there.
    pub fn transfer(&mut self, from: usize, to: usize, line: u64, now: Time) -> Time {
        let asked = self.pass(End::Core(to), End::Core(from), HEAD_BYTES, now);
        let on_bus = self.on_bus(self.line_bytes + HEAD_BYTES, now + asked);
        let answered = self.pass(End::Core(from), End::Core(to), self.line_bytes + HEAD_BYTES, now + asked + on_bus);
        self.machine.transfer(to, from) + asked + on_bus + answered + self.hops(to, line, Some(from))
    }

    /// Copies in other domains are taken away: how long it takes until the farthest has answered.
    pub fn invalidate(&mut self, core: usize, others: &[usize], line: u64, now: Time) -> Time {
        let on_bus = self.on_bus(HEAD_BYTES, now);
        let mut longest = 0;
        for &other in others {
            let asked = self.pass(End::Core(core), End::Core(other), HEAD_BYTES, now + on_bus);
            let answered = self.pass(End::Core(other), End::Core(core), HEAD_BYTES, now + on_bus + asked);
            let time = asked + answered + self.machine.transfer(core, other) + self.hops(core, line, Some(other));
            longest = longest.max(time);
        }
        on_bus + longest
    }

    /// How many last caches are asked for a line that `holders` of them hold, or, where all are, besides one's own.
    pub fn snoops(&self, holders: u64) -> u64 {
        match self.machine.search {
            Search::Directory => holders,
            Search::Snooping => self.machine.domains() as u64 - 1,
        }
    }

    /// A core of each domain.
    pub fn first_core(&self, domain: usize) -> usize {
        self.first_core[domain]
    }

    fn controller(&mut self, node: usize, line: u64) -> Controller<'_> {
        let count = self.machine.memory.controllers;
        let number = node * count + (line % count as u64) as usize;
        Controller(&mut self.controllers[number], self.line_bytes)
    }

    fn on_bus(&mut self, bytes: u64, now: Time) -> Time {
        self.bus.as_mut().map_or(0, |bus| bus.serve(bytes, now))
    }

    /// What a message waits in the links on its way.
    fn pass(&mut self, from: End, to: End, bytes: u64, now: Time) -> Time {
        let mut waited = 0;
        for link in &mut self.links {
            let place = |end| match end {
                End::Core(core) => link.of_core[core],
                End::Node(node) => link.of_node[node],
            };
            let (out, into) = (place(from), place(to));
            if out == into {
                continue;
            }
            if let Some(out) = out {
                waited += link.out[out].serve(bytes, now + waited);
            }
            if let Some(into) = into {
                waited += link.into[into].serve(bytes, now + waited);
            }
        }
        waited
    }

    /// From a tile to the tile that knows the line, on to the one that has it, and back.
    fn hops(&self, core: usize, line: u64, owner: Option<usize>) -> Time {
        let Some(mesh) = &self.machine.mesh else { return 0 };
        let home = (spread(line) % mesh.tiles as u64) as usize;
        let at = |core| self.machine.domain(core);
        let distance = |a: usize, b: usize| {
            (a / mesh.columns).abs_diff(b / mesh.columns) + (a % mesh.columns).abs_diff(b % mesh.columns)
        };
        let hops = match owner {
            None => 2 * distance(at(core), home),
            Some(owner) => distance(at(core), home) + distance(home, at(owner)) + distance(at(owner), at(core)),
        };
        mesh.hop * hops as Time
    }

    /// From now on it is noted what each does over time.
    pub fn note_over_time(&mut self, window: Time) {
        let links = self.links.iter_mut().flat_map(|link| link.into.iter_mut().chain(&mut link.out));
        for queue in self.controllers.iter_mut().chain(links).chain(&mut self.bus) {
            queue.series = Some(Box::new(ServerCounts::new(window)));
        }
    }

    /// All servers with their names.
    fn servers(&self) -> Vec<(String, &Queue)> {
        let count = self.machine.memory.controllers;
        let mut servers = Vec::new();
        for (number, queue) in self.controllers.iter().enumerate() {
            servers.push((format!("memory {}.{}", number / count, number % count), queue));
        }
        for (link, queues) in self.machine.links.iter().zip(&self.links) {
            for (number, (into, out)) in queues.into.iter().zip(&queues.out).enumerate() {
                servers.push((format!("{} {number} in", link.name), into));
                servers.push((format!("{} {number} out", link.name), out));
            }
        }
        servers.extend(self.bus.as_ref().map(|bus| ("bus".to_owned(), bus)));
        servers
    }

    /// What each did.
    pub fn report(&self) -> Vec<ServerReport> {
        self.servers().into_iter().map(|(name, queue)| ServerReport { name, usage: queue.usage }).collect()
    }

    /// What each did over time.
    pub fn series(&self) -> Vec<ServerSeries> {
        let of = |(name, queue): (String, &Queue)| Some(queue.series.as_ref()?.report(&name));
        self.servers().into_iter().filter_map(of).collect()
    }
}

struct Controller<'a>(&'a mut Queue, u64);

impl Controller<'_> {
    fn serve_line(self, now: Time) -> Time {
        self.0.serve(self.1, now)
    }
}
