//! Which of several mappings each phase has, so that phases and changes between them take least together.
//!
//! What a phase takes depends on its own mapping, and what a change takes on those of the two phases. Where no phase
//! comes again that is dynamic programming along the run. A phase that comes again has the same mapping every time, as
//! a run knows it again by its number: then phases are the nodes of a graph whose edges are changes, and they are
//! eliminated one after the other, those with the fewest neighbours first (nonserial dynamic programming: Bertelè and
//! Brioschi, "Nonserial Dynamic Programming", 1972). It is the optimum, as long as tables are small enough: a chain and
//! the cycle of an iteration need tables for two neighbours.

use std::collections::{BTreeMap, BTreeSet};

/// Entries of the largest table. Where one would be larger, the phase that can gain least keeps the first mapping.
const MOST_ENTRIES: usize = 1 << 16;

/// Costs, in any unit.
#[derive(Debug, Clone, Default)]
pub struct Costs {
    /// What each phase takes with each mapping, `[phase][mapping]`; as many mappings for each, one at least.
    pub phases: Vec<Vec<u128>>,
    /// How often one of two phases follows the other, the lower number first.
    pub changes: BTreeMap<(usize, usize), u64>,
    /// What a change between two mappings takes, the same in both directions, `[mapping][mapping]`.
    pub prices: Vec<Vec<u128>>,
}

impl Costs {
    /// What all takes together with these mappings.
    pub fn total(&self, choice: &[usize]) -> u128 {
        let phases: u128 = self.phases.iter().zip(choice).map(|(costs, &mapping)| costs[mapping]).sum();
        let change = |(&(a, b), &times): (&(usize, usize), &u64)| u128::from(times) * self.prices[choice[a]][choice[b]];
        phases + self.changes.iter().map(change).sum::<u128>()
    }

    /// Takes the changes of a run that begins with the first mapping and whose phases come in this order.
    pub fn along(&mut self, order: &[usize]) {
        for pair in order.windows(2).filter(|pair| pair[0] != pair[1]) {
            *self.changes.entry((pair[0].min(pair[1]), pair[0].max(pair[1]))).or_default() += 1;
        }
        if let Some(&first) = order.first() {
            self.phases[first].iter_mut().zip(&self.prices[0]).for_each(|(cost, price)| *cost += price);
        }
    }

    fn mappings(&self) -> usize {
        self.prices.len()
    }

    /// The mappings with which all takes least; among equals the first ones. Never more than with the first for every
    /// phase.
    pub fn least(&self) -> Vec<usize> {
        self.within(MOST_ENTRIES)
    }

    fn within(&self, most: usize) -> Vec<usize> {
        let mut tables = Tables { mappings: self.mappings(), tables: self.tables() };
        let mut left: BTreeSet<usize> = (0..self.phases.len()).collect();
        let mut eliminated = Vec::new();
        let mut choice = vec![0; self.phases.len()];
        while let Some((neighbours, phase)) = left.iter().map(|&phase| (tables.neighbours(phase).len(), phase)).min() {
            let fits = u32::try_from(neighbours)
                .ok()
                .and_then(|count| self.mappings().checked_pow(count))
                .is_some_and(|entries| entries <= most);
            if fits {
                eliminated.push(tables.eliminate(phase));
                left.remove(&phase);
            } else {
                let gain =
                    |&phase: &usize| self.phases[phase][0] - self.phases[phase].iter().min().expect("one at least");
                let least = *left.iter().min_by_key(|phase| gain(phase)).expect("one is left");
                tables.fix(least);
                left.remove(&least);
            }
        }
        for Eliminated { phase, table } in eliminated.iter().rev() {
            choice[*phase] = table.best[table.index(self.mappings(), |other| choice[other])];
        }
        choice
    }

    /// A table a phase, and one for each two between which there are changes.
    fn tables(&self) -> Vec<Table> {
        let phases = self.phases.iter().enumerate();
        let mut tables: Vec<Table> = phases
            .map(|(phase, costs)| Table { phases: vec![phase], costs: costs.clone(), best: Vec::new() })
            .collect();
        for (&(a, b), &times) in self.changes.iter().filter(|((a, b), _)| a != b) {
            let costs = self.prices.iter().flatten().map(|&price| u128::from(times) * price).collect();
            tables.push(Table { phases: vec![a, b], costs, best: Vec::new() });
        }
        tables
    }
}

/// Costs by the mappings of some phases: those of the last phase lie next to each other.
struct Table {
    phases: Vec<usize>,
    costs: Vec<u128>,
    /// Of a phase that has been eliminated, its best mapping, laid out as the costs.
    best: Vec<usize>,
}

impl Table {
    fn index(&self, mappings: usize, mapping_of: impl Fn(usize) -> usize) -> usize {
        self.phases.iter().fold(0, |index, &phase| index * mappings + mapping_of(phase))
    }
}

/// A phase with the table that says which mapping is best for it, by its neighbours' mappings.
struct Eliminated {
    phase: usize,
    table: Table,
}

struct Tables {
    mappings: usize,
    tables: Vec<Table>,
}

impl Tables {
    fn neighbours(&self, phase: usize) -> BTreeSet<usize> {
        let with = self.tables.iter().filter(|table| table.phases.contains(&phase));
        with.flat_map(|table| table.phases.iter().copied()).filter(|&other| other != phase).collect()
    }

    fn eliminate(&mut self, phase: usize) -> Eliminated {
        let neighbours: Vec<usize> = self.neighbours(phase).into_iter().collect();
        let (with, without) =
            std::mem::take(&mut self.tables).into_iter().partition(|table| table.phases.contains(&phase));
        let (with, mappings): (Vec<Table>, usize) = (with, self.mappings);
        self.tables = without;
        let entries = mappings.pow(neighbours.len() as u32);
        let mut found =
            Table { phases: neighbours, costs: Vec::with_capacity(entries), best: Vec::with_capacity(entries) };
        let mut chosen = vec![0; found.phases.len()];
        for entry in 0..entries {
            let mut rest = entry;
            for mapping in chosen.iter_mut().rev() {
                (*mapping, rest) = (rest % mappings, rest / mappings);
            }
            let cost = |own: usize| -> u128 {
                let mapping_of = |other: usize| match found.phases.binary_search(&other) {
                    Ok(at) => chosen[at],
                    Err(_) => own,
                };
                with.iter().map(|table| table.costs[table.index(mappings, mapping_of)]).sum()
            };
            let (least, best) = (0..mappings).map(|own| (cost(own), own)).min().expect("one mapping at least");
            found.costs.push(least);
            found.best.push(best);
        }
        let kept = Table { phases: found.phases.clone(), costs: std::mem::take(&mut found.costs), best: Vec::new() };
        self.tables.push(kept);
        Eliminated { phase, table: found }
    }

    /// The phase has the first mapping.
    fn fix(&mut self, phase: usize) {
        let mappings = self.mappings;
        for table in self.tables.iter_mut().filter(|table| table.phases.contains(&phase)) {
            let at = table.phases.iter().position(|&other| other == phase).expect("just found");
            let below = mappings.pow((table.phases.len() - 1 - at) as u32);
            let costs = table.costs.iter().enumerate();
            table.costs = costs.filter(|(index, _)| index / below % mappings == 0).map(|(_, &cost)| cost).collect();
            table.phases.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn costs(phases: usize, mappings: usize, changes: usize, random: &mut Random) -> Costs {
        let number = |random: &mut Random, below: usize| random.below(below) as u128;
        let table = (0..phases).map(|_| (0..mappings).map(|_| number(random, 40)).collect()).collect();
        let mut prices = vec![vec![0; mappings]; mappings];
        for (a, b) in (0..mappings).flat_map(|a| (0..a).map(move |b| (a, b))) {
            prices[a][b] = number(random, 12);
            prices[b][a] = prices[a][b];
        }
        let mut pairs = BTreeMap::new();
        for _ in 0..changes {
            let (a, b) = (random.below(phases), random.below(phases));
            if a != b {
                *pairs.entry((a.min(b), a.max(b))).or_default() += 1 + random.below(3) as u64;
            }
        }
        Costs { phases: table, changes: pairs, prices }
    }

    /// Every mapping for every phase.
    fn exhaustive(costs: &Costs) -> u128 {
        let (phases, mappings) = (costs.phases.len(), costs.prices.len());
        let choice = |number: usize| (0..phases).map(|phase| number / mappings.pow(phase as u32) % mappings).collect();
        let all = (0..mappings.pow(phases as u32))
            .map(|number| costs.total(&Vec::<usize>::from_iter::<Vec<_>>(choice(number))));
        all.min().unwrap()
    }

    #[test]
    fn it_is_the_least_of_all_choices() {
        let mut random = Random::new(11);
        for _ in 0..300 {
            let (phases, mappings, changes) = (1 + random.below(5), 1 + random.below(4), random.below(9));
            let costs = costs(phases, mappings, changes, &mut random);
            assert_eq!(costs.total(&costs.least()), exhaustive(&costs), "{costs:?}");
        }
    }

    /// Where tables are not to be large, it is still a choice no worse than the first mapping.
    #[test]
    fn with_small_tables_it_is_never_above_the_first() {
        let mut random = Random::new(5);
        for most in [1, 3, 9] {
            for _ in 0..50 {
                let costs = costs(6, 3, 14, &mut random);
                let choice = costs.within(most);
                assert!(costs.total(&choice) <= costs.total(&[0; 6]) && costs.total(&choice) >= exhaustive(&costs));
            }
        }
    }

    /// Dynamic programming along a run in which no phase comes again.
    #[test]
    fn along_a_chain_it_is_what_goes_step_by_step() {
        let mut random = Random::new(3);
        for _ in 0..20 {
            let mut costs = costs(40, 5, 0, &mut random);
            costs.changes = (1..40).map(|phase| ((phase - 1, phase), 1)).collect();
            let mut so_far = costs.phases[0].clone();
            for phase in &costs.phases[1..] {
                let step = |to: usize| (0..5).map(|from| so_far[from] + costs.prices[from][to]).min().unwrap();
                so_far = (0..5).map(|to| step(to) + phase[to]).collect();
            }
            assert_eq!(Some(costs.total(&costs.least())), so_far.into_iter().min());
        }
    }

    #[test]
    fn equals_are_the_first_mapping() {
        let prices = vec![vec![0; 3]; 3];
        let costs = Costs { phases: vec![vec![4; 3]; 2], changes: [((0, 1), 5)].into(), prices };
        assert_eq!(costs.least(), [0, 0]);
        assert_eq!(Costs::default().least(), Vec::<usize>::new());
    }
}
