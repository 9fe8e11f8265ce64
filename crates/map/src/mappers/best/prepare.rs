//! From a problem to what the search works on.

use super::layout::{Layout, Tree};
use super::net::Net;
use super::state::Rules;
use crate::Problem;
use crate::graph::Graph;
use crate::levels::Levels;
use crate::slots::Slots;
use cohabit_model::{Error, Result};

/// More slots than this are not searched with arbitrary distances: the tables would not fit.
const MOST_WITHOUT_TREE: usize = 8_192;

/// Distances have at most this many units.
const FINEST: u64 = 1 << 15;

/// The tables of a problem.
pub struct Prepared {
    /// The tasks.
    pub net: Net,
    /// The levels of the slots, where distances are a tree's.
    pub levels: Option<Levels>,
    /// Distance that a unit stands for.
    pub scale: u64,
}

impl Prepared {
    /// The tables of a problem.
    ///
    /// # Errors
    /// Arbitrary distances for more slots than the tables can hold.
    pub fn new(problem: &Problem, slots: &Slots, graph: &Graph) -> Result<Self> {
        let levels = Levels::new(problem.topology, slots);
        let greatest = match &levels {
            Some(levels) => levels.distance.first().copied().unwrap_or(1),
            None if slots.len() > MOST_WITHOUT_TREE => {
                let count = slots.len();
                return Err(Error::new(format!("{count} slots with distances that are no tree's are too many"))
                    .remedy(format!("up to {MOST_WITHOUT_TREE} can be mapped; a tree may have any number")));
            }
            None => {
                let pairs = (0..slots.len()).flat_map(|a| (0..slots.len()).map(move |b| (a, b)));
                pairs.map(|(a, b)| problem.topology.distance(slots.pu[a], slots.pu[b])).max().unwrap_or(1)
            }
        };
        let scale = (greatest / FINEST + 1).max(1);
        Ok(Self { net: Net::new(graph, slots.len(), greatest / scale), levels, scale })
    }

    /// The layout of all slots.
    pub fn layout(&self, problem: &Problem, slots: &Slots) -> Layout {
        match &self.levels {
            Some(levels) => Layout::of_tree(Tree::new(levels, slots.len()), &levels.distance, self.scale),
            // The search takes the mean of there and back; what is returned is judged by both.
            None => Layout::of_distances(slots.len(), |a, b| {
                let (a, b) = (slots.pu[a], slots.pu[b]);
                let both = u128::from(problem.topology.distance(a, b)) + u128::from(problem.topology.distance(b, a));
                (both / 2 / u128::from(self.scale)) as i32
            }),
        }
    }

    /// The rules of the slots, and where the present placement makes every task at home.
    pub fn rules(&self, problem: &Problem, slots: &Slots, tree: &Tree) -> Rules {
        let groups = tree.groups();
        let vertices = slots.len();
        let mut rules = Rules {
            fixed: slots.pinned.iter().map(Option::is_some).collect(),
            held: Vec::new(),
            domain: Vec::with_capacity(groups),
            spare: vec![0; groups + slots.spare.len()],
            spare_before: None,
            home: Vec::new(),
            move_cost: 0,
        };
        rules.fixed.resize(vertices, false);
        for group in 0..groups {
            let range = tree.slots_of(group);
            let (first, last) = (slots.unit[range.start], slots.unit[range.end - 1]);
            if first == last {
                rules.domain.push((groups + first) as u32);
                rules.spare[groups + first] = slots.spare[first] as u32;
            } else {
                rules.domain.push(group as u32);
                rules.spare[group] = slots.spare[first..=last].iter().sum::<usize>() as u32;
            }
        }
        rules.held = rules.fixed.clone();
        if must_be_taken(slots) {
            if rules.domain.windows(2).all(|two| two[0] != two[1]) {
                let before = rules.domain.iter().scan(0, |sum, &domain| {
                    *sum += rules.spare[domain as usize];
                    Some(*sum)
                });
                rules.spare_before = Some(std::iter::once(0).chain(before).collect());
            } else {
                // What may be empty in one group depends on what is in another.
                rules.held[slots.tasks()..].fill(true);
            }
        }
        self.settle_in(problem, slots, tree, &mut rules);
        rules
    }

    fn settle_in(&self, problem: &Problem, slots: &Slots, tree: &Tree, rules: &mut Rules) {
        let options = problem.options;
        let price = self.net.scaled(u128::from(options.move_cost) / u128::from(self.scale));
        if options.present.is_empty() || price == 0 {
            return;
        }
        let group_of_slot = tree.group_of_slots();
        let home = |pu: usize| {
            let slot = slots.pu.partition_point(|&other| other < pu);
            slots.pu.get(slot).filter(|&&other| other == pu).map(|_| group_of_slot[slot])
        };
        rules.home = options.present.iter().take(slots.tasks()).map(|pu| pu.and_then(home)).collect();
        rules.move_cost = price;
    }
}

/// Whether some slots may not stay empty, though others do.
pub fn must_be_taken(slots: &Slots) -> bool {
    let mut size = vec![0; slots.spare.len()];
    slots.unit.iter().for_each(|&unit| size[unit] += 1);
    slots.len() > slots.tasks() && size.iter().zip(&slots.spare).any(|(size, spare)| size != spare)
}
