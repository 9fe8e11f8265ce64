//! Lists of pairs: a line for each source and destination, with a value or with messages and bytes.

use super::build::{Found, check_tasks};
use super::labels::Labels;
use super::table::{Row, count};
use cohabit_model::{Error, Matrix, Result};
use std::collections::{BTreeSet, HashSet};

const SOURCE: [&str; 7] = ["source", "src", "from", "sender", "writer", "row", "i"];
const DESTINATION: [&str; 10] =
    ["destination", "dest", "dst", "to", "target", "receiver", "reader", "column", "col", "j"];
const MESSAGES: [&str; 5] = ["messages", "msgs", "msg", "count", "counts"];
const BYTES: [&str; 3] = ["bytes", "size", "volume"];
/// Fewer lines of three numbers are no list without a heading: a matrix with a row too few looks the same.
const FEWEST_BARE: usize = 4;
/// Numbers that name this many more tasks than twice those that occur are no places in a list but thread ids or the
/// like.
const SILENT: usize = 64;

/// A list of pairs.
pub struct Edges<'a> {
    /// The words of the heading; empty where there is none.
    heading: Vec<String>,
    rows: &'a [Row],
}

/// What was read from it.
pub struct Read {
    /// The matrices.
    pub found: Found,
    /// The number that the file has for each task; empty where tasks are numbered from 0.
    pub numbers: Vec<u32>,
}

impl<'a> Edges<'a> {
    /// The list that these rows are, by their heading or by their numbers; none where they are no list.
    pub fn of(rows: &'a [Row]) -> Option<Self> {
        let (first, below) = rows.split_first()?;
        let words: Vec<String> = first.fields.iter().map(str::to_lowercase).collect();
        let begins = |word: &str, known: &[&str]| {
            let first = word.split(|letter: char| !letter.is_alphanumeric()).next();
            first.is_some_and(|first| known.contains(&first))
        };
        if words.len() >= 3 && begins(&words[0], &SOURCE) && begins(&words[1], &DESTINATION) {
            return Some(Self { heading: words, rows: below });
        }
        let is_bare = are_bare(rows) && !Labels::of(rows).above;
        is_bare.then_some(Self { heading: Vec::new(), rows })
    }

    /// The matrices.
    ///
    /// # Errors
    /// The line and column that is no number, or the line with a field too few or too many.
    pub fn read(&self) -> Result<Read> {
        let columns = self.heading.len().max(3);
        let mut pairs = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            if row.fields.len() != columns {
                let column = 1 + row.fields.len().min(columns);
                let place = format!("line {}, column {column}", row.line);
                return Err(Error::new(format!("{place}: {} fields, expected {columns}", row.fields.len())));
            }
            pairs.push((task(row, 0)?, task(row, 1)?, row));
        }
        let used: BTreeSet<u32> = pairs.iter().flat_map(|&(source, destination, _)| [source, destination]).collect();
        let tasks = used.last().map_or(0, |&last| last as usize + 1);
        let are_ids = tasks > 2 * used.len() + SILENT;
        let numbers: Vec<u32> = if are_ids { used.into_iter().collect() } else { Vec::new() };
        let tasks = if are_ids { numbers.len() } else { tasks };
        let index = |number: u32| match numbers.binary_search(&number) {
            Ok(index) => index as u32,
            Err(_) => number,
        };
        let matrix = |column: usize| -> Result<Matrix> {
            let entry = |&(source, destination, row): &(u32, u32, &Row)| {
                Ok((index(source), index(destination), count(row, &row.fields[column], column)?))
            };
            Ok(Matrix::from_triplets(check_tasks(tasks as u64)?, pairs.iter().map(entry).collect::<Result<Vec<_>>>()?))
        };
        let find = |names: &[&str]| {
            self.heading.iter().skip(2).position(|word| names.contains(&word.as_str())).map(|at| at + 2)
        };
        let found = match (find(&MESSAGES), find(&BYTES)) {
            (Some(messages), Some(bytes)) => Found::Both(matrix(messages)?, matrix(bytes)?),
            (Some(messages), None) => Found::Messages(matrix(messages)?),
            (None, Some(bytes)) => Found::Bytes(matrix(bytes)?),
            (None, None) => Found::Either(matrix(2)?),
        };
        Ok(Read { found, numbers })
    }
}

/// Whether lines of three numbers without a heading are a list: no pair comes twice, and numbers of tasks come again
/// and again, as values do not.
fn are_bare(rows: &[Row]) -> bool {
    let pair = |row: &Row| {
        let is_pair = row.fields.len() == 3 && row.fields[2].parse::<f64>().is_ok();
        is_pair.then(|| Some([row.fields[0].parse().ok()?, row.fields[1].parse().ok()?])).flatten()
    };
    let Some(pairs) = rows.iter().map(pair).collect::<Option<Vec<[u64; 2]>>>() else { return false };
    let (tasks, different): (HashSet<u64>, HashSet<[u64; 2]>) =
        (pairs.iter().flatten().copied().collect(), pairs.iter().copied().collect());
    rows.len() >= FEWEST_BARE && different.len() == pairs.len() && tasks.len() <= pairs.len() + 1
}

/// The number of a task, which is its index or its thread id.
fn task(row: &Row, column: usize) -> Result<u32> {
    let number = count(row, &row.fields[column], column)
        .map_err(|error| error.remedy("number the tasks from 0, a source and a destination in each line"))?;
    u32::try_from(number).map_err(|_| {
        let cause = format!("line {}, column {}: {number} is no task's number", row.line, column + 1);
        Error::new(cause).remedy("tasks are numbered from 0, or by thread ids below 2^32")
    })
}
