//! A machine that is a little different: one parameter of its file larger or smaller. Of what comes in whole numbers
//! (sets, fill buffers) it is the nearest.

use super::{Machine, TlbLevel};
use crate::clock::Time;

/// What makes a parameter so many times as large.
type Multiply = Box<dyn Fn(&mut Machine, f64) + Send + Sync>;

/// One parameter.
pub struct Parameter {
    /// As in machine files.
    pub name: String,
    multiply: Multiply,
}

impl std::fmt::Debug for Parameter {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.name)
    }
}

fn time(time: &mut Time, factor: f64) {
    *time = (*time as f64 * factor).round() as Time;
}

fn count(number: &mut u64, factor: f64) {
    *number = ((*number as f64 * factor).round() as u64).max(1);
}

impl Machine {
    /// Its parameters: what a machine file says in numbers, as far as this machine has it.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut found = Vec::new();
        let mut add = |name: &str, multiply: Multiply| {
            found.push(Parameter { name: name.to_owned(), multiply });
        };
        add("core.frequency_ghz", Box::new(|machine, factor| machine.clock_faster(factor)));
        add(
            "core.instructions_per_cycle",
            Box::new(|machine, factor| machine.core.instruction.iter_mut().for_each(|each| time(each, 1.0 / factor))),
        );
        if self.core.instruction.len() > 2 {
            add(
                "core.smt_throughput",
                Box::new(|machine, factor| {
                    machine.core.instruction.iter_mut().skip(2).for_each(|each| time(each, 1.0 / factor));
                }),
            );
        }
        if self.core.window > 0 {
            add("core.window", Box::new(|machine, factor| count(&mut machine.core.window, factor)));
        }
        add(
            "core.fill_buffers",
            Box::new(|machine, factor| {
                machine.core.fill_buffers = ((machine.core.fill_buffers as f64 * factor).round() as usize).max(1);
            }),
        );
        for (index, level) in self.levels.iter().enumerate() {
            let number = level.number;
            add(
                &format!("cache {number}: size"),
                Box::new(move |machine, factor| count(&mut machine.levels[index].sets, factor)),
            );
            add(
                &format!("cache {number}: latency_cycles"),
                Box::new(move |machine, factor| time(&mut machine.levels[index].latency, factor)),
            );
        }
        for (name, far) in [("transfer_ns, same last cache", false), ("transfer_ns, other last caches", true)] {
            if self.pairs().any(|(a, b)| (self.domain(a) != self.domain(b)) == far) {
                add(name, Box::new(move |machine, factor| machine.transfers_longer(far, factor)));
            }
        }
        if let Some(tlb) = &self.tlb {
            add("tlb.data: entries", Box::new(|machine, factor| machine.each_tlb(0, factor)));
            if tlb.second.is_some() {
                add("tlb.second: entries", Box::new(|machine, factor| machine.each_tlb(1, factor)));
            }
            add(
                "tlb.walk_cycles",
                Box::new(|machine, factor| machine.tlb.iter_mut().for_each(|tlb| time(&mut tlb.walk, factor))),
            );
        }
        for (name, far) in [("memory.latency_ns, own node", false), ("memory.latency_ns, other nodes", true)] {
            if self.memory.nodes > usize::from(far) {
                add(name, Box::new(move |machine, factor| machine.memory_farther(far, factor)));
            }
        }
        if self.memory.gb_s.is_finite() {
            add("memory.bandwidth_gb_s", Box::new(|machine, factor| machine.memory.gb_s *= factor));
        }
        for (index, link) in self.links.iter().enumerate() {
            add(
                &format!("link {}: bandwidth_gb_s", link.name),
                Box::new(move |machine, factor| machine.links[index].gb_s *= factor),
            );
        }
        if self.bus_gb_s.is_some() {
            add(
                "bus.bandwidth_gb_s",
                Box::new(|machine, factor| machine.bus_gb_s.iter_mut().for_each(|gb_s| *gb_s *= factor)),
            );
        }
        if self.mesh.is_some() {
            add(
                "mesh.hop_cycles",
                Box::new(|machine, factor| machine.mesh.iter_mut().for_each(|mesh| time(&mut mesh.hop, factor))),
            );
        }
        add("system.fault_us", Box::new(|machine, factor| time(&mut machine.system.fault, factor)));
        // What is zero stays it.
        found.retain(|parameter| self.with(parameter, 2.0) != *self);
        found
    }

    /// The same machine with one parameter `factor` times as large.
    #[must_use]
    pub fn with(&self, parameter: &Parameter, factor: f64) -> Self {
        let mut machine = self.clone();
        (parameter.multiply)(&mut machine, factor);
        machine
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.cores).flat_map(|a| (0..self.cores).filter(move |&b| a != b).map(move |b| (a, b)))
    }

    /// All that machine files give in cycles takes less.
    fn clock_faster(&mut self, factor: f64) {
        let shorter = |of: &mut Time| time(of, 1.0 / factor);
        shorter(&mut self.core.cycle);
        self.core.instruction.iter_mut().for_each(shorter);
        self.levels.iter_mut().for_each(|level| shorter(&mut level.latency));
        if let Some(tlb) = &mut self.tlb {
            shorter(&mut tlb.walk);
            tlb.second.iter_mut().for_each(|level| shorter(&mut level.latency));
        }
        self.mesh.iter_mut().for_each(|mesh| shorter(&mut mesh.hop));
    }

    fn transfers_longer(&mut self, far: bool, factor: f64) {
        let pairs: Vec<_> = self.pairs().filter(|&(a, b)| (self.domain(a) != self.domain(b)) == far).collect();
        for (a, b) in pairs {
            time(&mut self.transfer[a * self.cores + b], factor);
        }
    }

    fn memory_farther(&mut self, far: bool, factor: f64) {
        for core in 0..self.cores {
            for node in 0..self.memory.nodes {
                if (self.memory.node_of_core[core] != node) == far {
                    time(&mut self.memory.latency[core * self.memory.nodes + node], factor);
                }
            }
        }
    }

    fn each_tlb(&mut self, which: usize, factor: f64) {
        let larger = |level: &mut TlbLevel| count(&mut level.sets, factor);
        if let Some(tlb) = &mut self.tlb {
            match which {
                // Fully associative ones have one set: they grow by ways.
                0 if tlb.data.sets == 1 => tlb.data.ways = ((tlb.data.ways as f64 * factor).round() as usize).max(1),
                0 => larger(&mut tlb.data),
                _ => tlb.second.iter_mut().for_each(larger),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::given::MACHINES;

    /// Each parameter of each machine that is given changes it, in both directions, and by factor 1 nothing.
    #[test]
    fn every_parameter_changes_the_machine() {
        for given in MACHINES {
            let machine = Machine::load(given.name).unwrap();
            let parameters = machine.parameters();
            assert!(parameters.len() > 10, "{}", given.name);
            for parameter in &parameters {
                let [less, same, more] = [0.5, 1.0, 1.5].map(|factor| machine.with(parameter, factor));
                assert_eq!(same, machine, "{}: {parameter:?}", given.name);
                assert!(less != machine && more != machine && less != more, "{}: {parameter:?}", given.name);
            }
        }
    }

    #[test]
    fn near_and_far_are_told_apart() {
        let machine = Machine::load("purple").unwrap();
        let of = |name: &str| machine.parameters().into_iter().find(|one| one.name.starts_with(name)).unwrap();
        let (near, far) = (of("memory.latency_ns, own"), of("memory.latency_ns, other"));
        let nodes = machine.memory.nodes;
        let latencies = |machine: &Machine| (machine.memory.latency[0], machine.memory.latency[nodes - 1]);
        let (own, other) = latencies(&machine);
        assert_eq!(latencies(&machine.with(&near, 1.2)), (own * 6 / 5, other));
        assert_eq!(latencies(&machine.with(&far, 0.8)), (own, other * 4 / 5));
    }
}
