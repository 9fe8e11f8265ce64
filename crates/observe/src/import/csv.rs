//! CSV: a square matrix, or a line for each pair.
//!
//! A first row that is not all numbers, or that makes one row more than there are columns, is the labels; so is a
//! first column that is one more than there are rows. Three columns without a square are source, destination and
//! value; with a heading that says so, any square too. A 3 x 3 of bare numbers is a matrix.

use super::build::{Found, Imported, check_tasks};
use super::table::{Row, count, rows, square};
use super::{TEXT_LIMIT_BYTES, pair};
use cohabit_model::file::read_text;
use cohabit_model::profile::Kind;
use cohabit_model::{Error, Matrix, Profile, Result};
use std::path::Path;

const SOURCE: [&str; 7] = ["source", "src", "from", "sender", "writer", "row", "i"];
const MESSAGES: [&str; 5] = ["messages", "msgs", "msg", "count", "counts"];
const BYTES: [&str; 3] = ["bytes", "size", "volume"];

/// Reads a CSV file, with its counterpart (`x.count.csv` and `x.size.csv`) where there is one.
pub fn read(path: &Path) -> Result<Profile> {
    let rows = rows(&read_text(path, TEXT_LIMIT_BYTES)?)?;
    let (labels, found, files) = match pairs_heading(&rows) {
        Some(heading) => (Vec::new(), read_pairs(heading, &rows)?, vec![path.to_path_buf()]),
        None => {
            let (found, files) = pair::read(path, |path| Ok(read_square(path)?.1))?;
            (read_square(path)?.0, found, files)
        }
    };
    let imported = Imported { kind: Kind::Threads, format: "csv", files, labels, found, not_seen: Vec::new() };
    imported.profile()
}

/// The heading of a list of pairs: an empty one where there is none but the rows are pairs; none where they are no pairs.
fn pairs_heading(rows: &[Row]) -> Option<Vec<String>> {
    let first = &rows.first()?.fields;
    let words: Vec<String> = first.iter().map(|field| field.to_lowercase()).collect();
    if words.len() >= 3 && SOURCE.contains(&words[0].as_str()) {
        return Some(words);
    }
    let bare = first.len() == 3 && rows.len() != 3 && first.iter().all(|field| is_number(field));
    // Three columns below a row of three labels are a matrix: that is four rows.
    (bare && (rows.len() != 4 || rows[1..].iter().any(|row| row.fields.len() != 3))).then(Vec::new)
}

fn read_pairs(heading: Vec<String>, rows: &[Row]) -> Result<Found> {
    let rows = if heading.is_empty() { rows } else { &rows[1..] };
    let columns = heading.len().max(3);
    let mut tasks = 0;
    let mut pairs = Vec::with_capacity(rows.len());
    for row in rows {
        if row.fields.len() != columns {
            let cause = format!("line {}: {} fields, expected {columns}", row.line, row.fields.len());
            return Err(Error::new(cause));
        }
        let [source, destination] = [0, 1].map(|column| task(row, column));
        let (source, destination) = (source?, destination?);
        tasks = tasks.max(check_tasks(u64::from(source.max(destination)) + 1)?);
        pairs.push((source, destination, row));
    }
    let matrix = |column: usize| -> Result<Matrix> {
        let entry = |&(source, destination, row): &(u32, u32, &Row)| {
            Ok((source, destination, count(row, &row.fields[column], column)?))
        };
        Ok(Matrix::from_triplets(tasks, pairs.iter().map(entry).collect::<Result<Vec<_>>>()?))
    };
    let find = |names: &[&str]| heading.iter().skip(2).position(|word| names.contains(&word.as_str())).map(|at| at + 2);
    Ok(match (find(&MESSAGES), find(&BYTES)) {
        (Some(messages), Some(bytes)) => Found::Both(matrix(messages)?, matrix(bytes)?),
        (Some(messages), None) => Found::Messages(matrix(messages)?),
        (None, Some(bytes)) => Found::Bytes(matrix(bytes)?),
        (None, None) => Found::Either(matrix(2)?),
    })
}

fn task(row: &Row, column: usize) -> Result<u32> {
    let index = count(row, &row.fields[column], column)
        .map_err(|error| error.remedy("number the tasks from 0, a source and a destination in each line"))?;
    Ok(check_tasks(index.saturating_add(1))? as u32 - 1)
}

/// The labels (or none) and the matrix of one file.
fn read_square(path: &Path) -> Result<(Vec<String>, Matrix)> {
    let rows = rows(&read_text(path, TEXT_LIMIT_BYTES)?)?;
    let Some(first) = rows.first() else { return Err(Error::new("there is nothing in it")) };
    let numeric_labels = rows.len() == first.fields.len() + 1 && are_consecutive(&first.fields);
    // A bare matrix starts with a number: its first field may be a row's label, its second is a value.
    let labelled = first.fields.iter().skip(1).any(|field| !is_number(field)) || numeric_labels;
    let labelled = labelled || first.fields.first().is_some_and(String::is_empty);
    let body = if labelled { &rows[1..] } else { &rows[..] };
    let skip = usize::from(!body.is_empty() && body.iter().all(|row| row.fields.len() == body.len() + 1));
    let labels = match (labelled, skip) {
        (true, _) => first.fields[first.fields.len().saturating_sub(body.len())..].to_vec(),
        (false, 1) => body.iter().map(|row| row.fields[0].clone()).collect(),
        (false, _) => Vec::new(),
    };
    Ok((labels, square(body, skip)?))
}

/// Whether these are the numbers of tasks, such as 0, 1, 2: a first row of them is a heading, any other is data.
fn are_consecutive(fields: &[String]) -> bool {
    let numbers: Option<Vec<u64>> = fields.iter().map(|field| field.parse().ok()).collect();
    numbers.is_some_and(|numbers| numbers.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1])))
}

fn is_number(field: &str) -> bool {
    field.parse::<f64>().is_ok()
}
