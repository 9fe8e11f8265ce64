//! Runs block by block, every run kept in a file at once.

use super::results::Results;
use super::runner::{Ended, Runner};
use crate::online::stop::{asked_by, until_signalled};
use crate::progress::Line;
use cohabit_evaluate::compare::{Terms, blocks_needed, least_blocks, log_ratios, order};
use cohabit_model::{Error, Result, counted};
use std::path::Path;
use std::time::{Duration, Instant};

/// When it is enough.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// So many blocks; none: as many as the precision needs.
    pub blocks: Option<usize>,
    /// How narrow the interval of each change is to be, on either side, as a share.
    pub precision: f64,
    /// How long it may take.
    pub budget: Duration,
    /// Runs of each arm at the start that do not count.
    pub warm_up: usize,
    /// How changes are judged.
    pub terms: Terms,
}

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enough {
    /// There are as many blocks as were asked for, or as the precision needs.
    Done,
    /// The time was over.
    OutOfTime,
    /// A signal asked for it.
    Stopped(i32),
}

/// Numbers that make the order of warm-up runs unlike that of others.
const WARMING: usize = usize::MAX / 2;

/// Runs until it is enough. What was run is in `results` and in the file, however it ends.
///
/// # Errors
/// As [`Runner::run`]: the run is named, and so is what is kept.
pub fn go(results: &mut Results, file: &Path, runner: &mut Runner, wanted: &Wanted) -> Result<Enough> {
    let _ = until_signalled();
    let line = Line::new();
    let began = Instant::now();
    let arms = results.arms.len();
    if let Some(signal) = warm(results, file, runner, wanted, &line)? {
        return Ok(Enough::Stopped(signal));
    }
    let (counted_from, before) = (Instant::now(), results.blocks().len());
    results.write(file)?;
    loop {
        let values = results.values();
        let needed = needed(&values, arms, wanted);
        if values.len() >= needed {
            return Ok(Enough::Done);
        }
        let made = values.len() - before;
        let each = counted_from.elapsed().checked_div(made as u32).unwrap_or_default();
        let left = wanted.budget.saturating_sub(began.elapsed());
        // Without a block there is nothing to say.
        if !values.is_empty() && wanted.blocks.is_none() && (left.is_zero() || each > left) {
            return Ok(Enough::OutOfTime);
        }
        let all = each * u32::try_from(needed - values.len()).unwrap_or(u32::MAX);
        let remaining = if wanted.blocks.is_some() { all } else { all.min(left) };
        let number = results.next_block();
        let stopped = block(results, file, runner, number, &mut |arm| {
            let left = if made == 0 { String::new() } else { format!(", {} left", for_people(remaining)) };
            line.say(&format!("block {} of {needed}, {arm}{left}", values.len() + 1));
        })?;
        if let Some(signal) = stopped {
            return Ok(Enough::Stopped(signal));
        }
    }
}

/// Runs that do not count; the signal where one came.
///
/// # Errors
/// As [`go`].
pub fn warm(
    results: &mut Results,
    file: &Path,
    runner: &mut Runner,
    wanted: &Wanted,
    line: &Line,
) -> Result<Option<i32>> {
    for round in 0..wanted.warm_up {
        for arm in order(results.seed, WARMING + round, results.arms.len()) {
            line.say(&format!("warming up, {}", results.arms[arm].name));
            if let Some(signal) = once(results, file, runner, (round, arm, true))? {
                return Ok(Some(signal));
            }
        }
    }
    Ok(None)
}

/// Each arm once, in the order that belongs to the block; the signal where one came. `say` is told the arm.
///
/// # Errors
/// As [`go`].
pub fn block(
    results: &mut Results,
    file: &Path,
    runner: &mut Runner,
    number: usize,
    say: &mut dyn FnMut(&str),
) -> Result<Option<i32>> {
    for arm in order(results.seed, number, results.arms.len()) {
        say(&results.arms[arm].name);
        if let Some(signal) = once(results, file, runner, (number, arm, false))? {
            return Ok(Some(signal));
        }
    }
    Ok(None)
}

/// One run, kept; the signal where one came instead.
fn once(results: &mut Results, file: &Path, runner: &mut Runner, which: (usize, usize, bool)) -> Result<Option<i32>> {
    if let Some(signal) = asked_by() {
        return Ok(Some(signal));
    }
    let (block, arm, warm_up) = which;
    match runner.run(block, arm, warm_up) {
        Ok(Ended::Well(run)) => results.runs.push(*run),
        Ok(Ended::Stopped(signal)) => return Ok(Some(signal)),
        Err(error) => return Err(told(error, results, arm)),
    }
    results.write(file)?;
    Ok(None)
}

/// What others did before, which tells a program that fails from an arm that makes it fail.
fn told(error: Error, results: &Results, arm: usize) -> Error {
    let of = |arm: usize| results.runs.iter().filter(|run| run.arm == arm).count();
    let others: usize = (0..results.arms.len()).filter(|&other| other != arm).map(of).sum();
    let cause = format!("{} (after {} of this arm and {others} of others)", error.cause, counted(of(arm), "good run"));
    Error { cause, ..error }
}

/// How many blocks there are to be, by those that there are.
fn needed(values: &[Vec<f64>], arms: usize, wanted: &Wanted) -> usize {
    if let Some(blocks) = wanted.blocks {
        return blocks;
    }
    let confidence = wanted.terms.confidence;
    let least = least_blocks(confidence, arms - 1);
    let of = |arm: usize| blocks_needed(&log_ratios(values, arm), confidence, wanted.precision);
    // One more than the fewest: of so few nothing is left out.
    (1..arms).map(of).max().unwrap_or(0).max(least + 1)
}

/// `3:05`, in minutes and seconds.
fn for_people(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_blocks_as_the_widest_interval_needs() {
        let wanted = Wanted {
            blocks: None,
            precision: 0.01,
            budget: Duration::from_secs(60),
            warm_up: 0,
            terms: Terms::default(),
        };
        let of = |values: &[Vec<f64>]| needed(values, 3, &wanted);
        assert_eq!(of(&[]), 8);
        let steady = vec![vec![1.0, 1.001, 0.9]; 8];
        assert_eq!(of(&steady), 8);
        let noisy: Vec<Vec<f64>> = (0..8).map(|at| vec![1.0, 1.0, 1.0 + f64::from(at) / 10.0]).collect();
        assert!(of(&noisy) > 100);
        assert_eq!(needed(&noisy, 3, &Wanted { blocks: Some(5), ..wanted }), 5);
        assert_eq!(for_people(Duration::from_secs(185)), "3:05");
    }
}
