//! Judging mappings by the plain estimator: each once, and where messages are followed, which takes long, no more
//! mappings than an allowance pays for.

use super::Time;
use crate::Problem;
use cohabit_model::Result;
use cohabit_network::Total;
use std::collections::HashMap;

/// Pieces of messages that are followed in all, at most: phase by phase, and in replays, which follow each in a much
/// shorter time. Some seconds; a budget of time has no such limit.
const FOLLOWED: f64 = 4e6;
const REPLAYED: f64 = 4e7;

/// What mappings of a problem are estimated to take.
pub struct Judge<'a> {
    problem: &'a Problem<'a>,
    time: &'a Time<'a>,
    known: HashMap<Vec<usize>, Total>,
    /// Pieces that one mapping takes, and those that are left.
    work: f64,
    left: f64,
}

impl<'a> Judge<'a> {
    /// Of the mappings of a problem.
    pub fn new(problem: &'a Problem<'a>, time: &'a Time<'a>) -> Self {
        let left = match problem.options.budget {
            Some(_) => f64::INFINITY,
            None if time.traffic.replay.is_some() => REPLAYED,
            None => FOLLOWED,
        };
        Self { problem, time, known: HashMap::new(), work: time.work(), left }
    }

    /// Whether messages are followed.
    pub fn follows(&self) -> bool {
        self.work > 0.0
    }

    /// How many more mappings the allowance pays for.
    pub fn affords(&self) -> usize {
        if self.follows() { (self.left / self.work).max(0.0) as usize } else { usize::MAX }
    }

    /// Takes pieces from the allowance.
    pub fn spend(&mut self, pieces: f64) {
        self.left -= pieces;
    }

    /// What a mapping takes, whatever that costs.
    ///
    /// # Errors
    /// See [`Time::total`].
    pub fn total(&mut self, placement: &[usize]) -> Result<Total> {
        if let Some(known) = self.known.get(placement) {
            return Ok(*known);
        }
        let total = self.time.total(self.problem.topology, placement)?;
        self.spend(self.work);
        self.known.insert(placement.to_vec(), total);
        Ok(total)
    }

    /// The mappings that are known, or that the allowance pays for, with what they take.
    ///
    /// # Errors
    /// See [`Time::total`].
    pub fn priced(&mut self, placements: &[Vec<usize>]) -> Result<Vec<(Total, Vec<usize>)>> {
        let mut priced = Vec::with_capacity(placements.len());
        for placement in placements {
            if self.affords() > 0 || self.known.contains_key(placement) {
                priced.push((self.total(placement)?, placement.clone()));
            }
        }
        Ok(priced)
    }
}
