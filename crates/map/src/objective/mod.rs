//! What a mapping is to make small: an [`Objective`] a file, a row each in [`OBJECTIVES`]. Mappers name those that may
//! be asked of them ([`Mapper::objectives`]).

pub mod congestion;
mod distance;
mod time;

use crate::makespan::Time;
use crate::{Mapper, Problem};
use cohabit_model::cost::MOVE;
use cohabit_model::topology::NodeId;
use cohabit_model::{Error, Result, Topology};

/// A problem, and what else an objective may need.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The problem.
    pub problem: &'a Problem<'a>,
    /// Ports and messages; none where the topology has none.
    pub network: Option<Time<'a>>,
    /// Bytes that each task reads from memory, beyond all caches; empty where not known.
    pub memory: &'a [u64],
}

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: f64 = 64.0;

/// What is known of runs that change from one mapping to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Changing {
    /// Seconds for each unit of the cost.
    pub seconds_per_cost: f64,
    /// Costs are sums over tasks, and so is what moves cost; else tasks move at the same time, and the run waits once.
    pub adds_up: bool,
}

impl Changing {
    /// What a change is taken to cost at which so many tasks move, in seconds ([`MOVE`]).
    pub fn price(&self, moves: usize) -> f64 {
        let times = if self.adds_up { moves } else { moves.min(1) };
        times as f64 * MOVE.as_secs_f64()
    }
}

/// Something to make small.
pub trait Objective: Sync {
    /// The name `--objective` takes.
    fn name(&self) -> &'static str;
    /// One line for help and documentation.
    fn about(&self) -> &'static str;
    /// The unit of costs.
    fn unit(&self) -> &'static str;
    /// Whether it asks what happens at the same time ([`Problem::periods`]).
    fn asks_for_periods(&self) -> bool {
        false
    }
    /// How costs compare with what moving tasks costs; none where a run is taken to have one mapping. `lines` is how
    /// many cache lines a unit of weight is.
    fn changing(&self, topology: &Topology, lines: f64) -> Option<Changing> {
        let _ = (topology, lines);
        None
    }
    /// What a placement costs.
    ///
    /// # Errors
    /// What the objective needs is not there.
    fn cost(&self, case: &Case, placement: &[usize]) -> Result<f64>;
    /// What no placement costs less than; none where nothing better than 0 is known.
    ///
    /// # Errors
    /// As the mappers.
    fn bound(&self, case: &Case) -> Result<Option<f64>>;
    /// A placement with its cost kept up to date while tasks move.
    ///
    /// # Errors
    /// As [`Objective::cost`].
    fn state<'a>(&self, case: &'a Case, placement: &[usize]) -> Result<Box<dyn State + 'a>>;
    /// Whether a state costs what its placement does: where not, it leaves out what cannot be kept up to date.
    fn states_are_exact(&self, case: &Case) -> bool {
        let _ = case;
        true
    }
    /// A placement that is found from a mapper's.
    ///
    /// # Errors
    /// As [`Objective::cost`] and the mapper.
    fn least(&self, case: &Case, mapper: &dyn Mapper) -> Result<Vec<usize>>;
    /// The placement to take where such a one was found: itself, or one that is as good as far as the objective can
    /// tell and better for what it does not count.
    ///
    /// # Errors
    /// As the mappers.
    fn preferred(&self, case: &Case, mapper: &dyn Mapper, found: Vec<usize>) -> Result<Vec<usize>> {
        let _ = (case, mapper);
        Ok(found)
    }
}

/// A placement whose cost is kept up to date. Places are nodes of the topology: of a PU
/// [`Pu::node`](cohabit_model::topology::Pu).
pub trait State {
    /// The cost.
    fn cost(&self) -> f64;
    /// The same or a little more, and different where anything but the most costly part is.
    fn smooth(&self) -> f64;
    /// How full everything is.
    fn norm(&self) -> f64;
    /// Where a task is.
    fn at(&self, task: usize) -> NodeId;
    /// Puts tasks elsewhere.
    fn place(&mut self, moves: &[(usize, NodeId)]);
    /// Makes the sums again: additions and subtractions have left them a little wrong.
    fn refresh(&mut self);
    /// Remembers the sums.
    fn remember(&mut self);
    /// Takes what was remembered: the placement is that of then again.
    fn undone(&mut self);
    /// A pair of tasks that takes part in what costs most; none where there is none. `pick` chooses a number below its
    /// argument.
    fn critical(&self, pick: &mut dyn FnMut(usize) -> usize) -> Option<(usize, usize)>;
    /// A pair that communicates; none where none does.
    fn any_pair(&self, pick: &mut dyn FnMut(usize) -> usize) -> Option<(usize, usize)>;
    /// By how much moves change the cost; nothing is moved.
    fn delta(&mut self, moves: &[(usize, NodeId)]) -> f64 {
        let back: Vec<(usize, NodeId)> = moves.iter().map(|&(task, _)| (task, self.at(task))).collect();
        let before = self.cost();
        self.remember();
        self.place(moves);
        let after = self.cost();
        self.place(&back);
        self.undone();
        after - before
    }
}

/// Every objective there is. Names, help, documentation and the contract tests iterate it.
pub static OBJECTIVES: &[&dyn Objective] = &[&distance::Distance, &time::Makespan, &congestion::Congestion];

/// The objective of a name.
///
/// # Errors
/// That there is none, with the names there are.
pub fn objective(name: &str) -> Result<&'static dyn Objective> {
    let found = OBJECTIVES.iter().copied().find(|objective| objective.name() == name);
    found.ok_or_else(|| {
        let names = OBJECTIVES.iter().map(|objective| objective.name()).collect::<Vec<_>>().join(", ");
        Error::new(format!("there is no objective {name:?}")).remedy(format!("one of: {names}"))
    })
}

/// Whether an objective may be asked of a mapper.
///
/// # Errors
/// The mapper's row does not name it.
pub fn check(mapper: &dyn Mapper, objective: &dyn Objective) -> Result<()> {
    let name = objective.name();
    if !mapper.objectives().contains(&name) {
        let knows = |other: &&&dyn Mapper| other.objectives().contains(&name);
        let others: Vec<&str> = crate::MAPPERS.iter().filter(knows).map(|other| other.name()).collect();
        let why = mapper.only_distance().unwrap_or_default();
        let cause = format!("the mapper {} knows no {name}: {why}", mapper.name());
        return Err(Error::new(cause).remedy(format!("--objective {name} is for --mapper {}", others.join(" or "))));
    }
    Ok(())
}

/// A placement by a mapper for an objective.
///
/// # Errors
/// As [`least_for`] and [`Objective::preferred`].
pub fn map_for(case: &Case, mapper: &dyn Mapper, objective: &dyn Objective) -> Result<Vec<usize>> {
    let found = least_for(case, mapper, objective)?;
    objective.preferred(case, mapper, found)
}

/// What a mapper finds for an objective, before [`Objective::preferred`].
///
/// # Errors
/// As [`check`] and [`Objective::least`].
pub fn least_for(case: &Case, mapper: &dyn Mapper, objective: &dyn Objective) -> Result<Vec<usize>> {
    check(mapper, objective)?;
    match mapper.search_for() {
        Some(search) if objective.name() != "distance" => search(case, objective),
        _ => objective.least(case, mapper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{periods_of, problem, tree};
    use crate::{MAPPERS, Options};
    use cohabit_model::pattern::Messages;
    use cohabit_model::{Matrix, Pattern};
    use cohabit_network::Phase;

    #[test]
    fn names_are_found_and_unknown_ones_answered_with_the_list() {
        for row in OBJECTIVES {
            assert_eq!(objective(row.name()).unwrap().name(), row.name());
            assert!(!row.about().is_empty() && !row.unit().is_empty());
        }
        let error = objective("speed").err().unwrap();
        assert_eq!(error.remedy.as_deref(), Some("one of: distance, time, congestion"));
    }

    /// Every mapper works for every objective that its row names and refuses the others; costs are those of the states,
    /// which moves keep up to date, and none is below the bound.
    #[test]
    fn rows_say_what_may_be_asked() {
        let topology = tree(&[2, 2, 2], &[100, 10, 1]);
        let weight =
            Matrix::from_triplets(8, (0..8).flat_map(|task| [(task, (task + 3) % 8, 10), (task, task ^ 1, 7)]));
        let options = Options { steps: Some(20), ..Options::default() };
        let periods = periods_of(&weight);
        let problem = Problem { periods: &periods, ..problem(&weight, &topology, &options) };
        let case = Case { problem: &problem, network: None, memory: &[] };
        for mapper in MAPPERS {
            for objective in OBJECTIVES {
                let found = map_for(&case, *mapper, *objective);
                let knows = mapper.objectives().contains(&objective.name());
                match found {
                    Ok(placement) => {
                        assert!(knows);
                        crate::contract::judge_placement(mapper.name(), &problem, &placement);
                        let cost = objective.cost(&case, &placement).unwrap();
                        let mut state = objective.state(&case, &placement).unwrap();
                        assert!((state.cost() - cost).abs() <= 1e-9 * cost, "{}", objective.name());
                        assert!(objective.bound(&case).unwrap().is_none_or(|bound| bound <= cost * (1.0 + 1e-9)));
                        let mut swapped = placement.clone();
                        swapped.swap(0, 5);
                        let moves = [0, 5].map(|task| (task, topology.pus[swapped[task]].node));
                        let change = objective.cost(&case, &swapped).unwrap() - cost;
                        assert!((state.delta(&moves) - change).abs() <= 1e-9 * cost.max(1e-12));
                        assert!((state.cost() - cost).abs() <= 1e-9 * cost);
                    }
                    Err(error) => {
                        assert!(error.remedy.is_some(), "{}", error.cause);
                        assert!(!knows || objective.name() == "time" || ["scotch", "metis"].contains(&mapper.name()));
                    }
                }
            }
        }
    }

    /// What `exact` finds for an objective no placement is below, whoever made it, and what any other mapper finds
    /// least of all.
    #[test]
    fn exact_is_the_least_of_all_placements_for_every_objective() {
        let text = "[[host]]\nnames = 'n[1-3]'\ntopology = 'core:2 pu:1'\n[[switch]]\nname = 'top'\nmembers = 'n[1-3]'\n\
                    max_bandwidth = 300\n[[port]]\nbandwidth = 100\nlatency_ns = 1e7\n";
        let topology = Topology::parse_text(text).unwrap();
        let hct = topology.hct().unwrap();
        let mut random = crate::random::Random::new(7);
        for (tasks, pins, forbidden) in
            [(3, vec![], vec![]), (4, vec![(1, 2)], vec![5]), (6, vec![], vec![]), (5, vec![(0, 1)], vec![3, 4, 5])]
        {
            let mut end = || random.below(tasks);
            let rows: Vec<_> = (0..3 * tasks).map(|at| (end(), end(), 100 * (1 + at % 5))).collect();
            let messages = rows.iter().filter(|row| row.0 != row.1).map(|&(source, destination, length)| Messages {
                source,
                destination,
                length: length as f64,
                count: 3,
            });
            let pattern = Pattern { tasks, messages: messages.collect(), ..Pattern::default() };
            let entries = rows.iter().map(|&(a, b, length)| (a as u32, b as u32, 3 * length as u64));
            let weight = Matrix::from_triplets(tasks, entries.filter(|entry| entry.0 != entry.1));
            let traffic = vec![Phase::new(1.0, pattern)].into();
            let options = Options { pins, forbidden, steps: Some(20), ..Options::default() };
            let problem = problem(&weight, &topology, &options);
            for network in [None, Some(Time { hct: &hct, traffic: &traffic })] {
                let case = Case { problem: &problem, network, memory: &[] };
                for objective in OBJECTIVES.iter().filter(|row| row.name() != "time" || network.is_some()) {
                    let exact = map_for(&case, crate::mapper("exact").unwrap(), *objective).unwrap();
                    crate::contract::judge_placement("exact", &problem, &exact);
                    let found = objective.cost(&case, &exact).unwrap();
                    let costs = crate::contract::legal_placements(&problem);
                    let costs = costs.map(|placement| objective.cost(&case, &placement).unwrap());
                    let least = costs.fold(f64::INFINITY, f64::min);
                    assert!((found - least).abs() <= 1e-9 * least, "{}: {found}, not {least}", objective.name());
                }
            }
        }
    }
}
