//! The estimated time of communication, which the last port or switch decides ([`crate::makespan`]).

use super::{Case, Objective, State};
use crate::Mapper;
use crate::makespan::loads::Loads;
use crate::makespan::routes::Routes;
use crate::makespan::{Time, least};
use cohabit_model::topology::NodeId;
use cohabit_model::{Error, Result};

/// The objective `time`.
pub struct Makespan;

fn network<'a>(case: &Case<'a>) -> Result<Time<'a>> {
    let network = case.network.filter(|network| network.hct.limits());
    network.ok_or_else(|| {
        Error::new("the topology gives no port or switch a bandwidth: nothing takes any time").remedy(
            "'cohabit measure' fills the ports of a cluster file in (docs/cluster.md); or leave --objective time out",
        )
    })
}

impl Objective for Makespan {
    fn name(&self) -> &'static str {
        "time"
    }

    fn about(&self) -> &'static str {
        "the estimated time, which the last port or switch decides"
    }

    fn unit(&self) -> &'static str {
        "seconds"
    }

    fn cost(&self, case: &Case, placement: &[usize]) -> Result<f64> {
        Ok(network(case)?.total(case.problem.topology, placement)?.seconds)
    }

    fn bound(&self, _: &Case) -> Result<Option<f64>> {
        Ok(None)
    }

    /// Of ports and switches, as if the order of messages were not known.
    fn state<'a>(&self, case: &'a Case, placement: &[usize]) -> Result<Box<dyn State + 'a>> {
        let network = network(case)?;
        let elements: Vec<usize> = placement.iter().map(|&pu| case.problem.topology.pus[pu].node).collect();
        Ok(Box::new(Loads::new(Routes::new(network.hct), &network.traffic.phases, &elements)))
    }

    fn states_are_exact(&self, case: &Case) -> bool {
        case.network.is_some_and(|network| !network.knows_order())
    }

    fn least(&self, case: &Case, _: &dyn Mapper) -> Result<Vec<usize>> {
        least(case.problem, &network(case)?)
    }
}

impl State for Loads<'_> {
    fn cost(&self) -> f64 {
        self.seconds()
    }

    fn smooth(&self) -> f64 {
        Loads::smooth(self)
    }

    fn norm(&self) -> f64 {
        Loads::norm(self)
    }

    fn at(&self, task: usize) -> NodeId {
        self.element(task)
    }

    fn place(&mut self, moves: &[(usize, NodeId)]) {
        Loads::place(self, moves);
    }

    fn refresh(&mut self) {
        Loads::refresh(self);
    }

    fn remember(&mut self) {
        Loads::remember(self);
    }

    fn undone(&mut self) {
        Loads::undone(self);
    }

    fn critical(&self, pick: &mut dyn FnMut(usize) -> usize) -> Option<(usize, usize)> {
        Loads::critical(self, pick)
    }

    fn any_pair(&self, pick: &mut dyn FnMut(usize) -> usize) -> Option<(usize, usize)> {
        Loads::any_pair(self, pick)
    }
}
