//! Tables of numbers as text: rows of fields, and what a square of them is.

use super::build::check_tasks;
use super::number;
use cohabit_model::{Error, Matrix, Result};

/// A row: where it is in the file, and its fields without the space around them.
pub struct Row {
    /// Line number, from 1.
    pub line: u64,
    /// The fields.
    pub fields: Vec<String>,
}

/// The rows of a text, lines that are empty or start with `#` left out. Fields are separated by tabs, semicolons or
/// commas, by what the first row has; else by spaces.
///
/// # Errors
/// The line that is no row.
pub fn rows(text: &str) -> Result<Vec<Row>> {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    match ['\t', ';', ','].into_iter().find(|&delimiter| first.contains(delimiter)) {
        Some(delimiter) => separated(text, delimiter),
        None => Ok(spaced(text)),
    }
}

fn separated(text: &str, delimiter: char) -> Result<Vec<Row>> {
    let mut reader = ::csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .delimiter(delimiter as u8)
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes());
    let row = |record: ::csv::Result<::csv::StringRecord>| {
        let record = record.map_err(|error| Error::new(error.to_string()))?;
        let line = record.position().map_or(0, ::csv::Position::line);
        let mut fields: Vec<String> = record.iter().map(String::from).collect();
        if fields.len() > 1 && fields.last().is_some_and(String::is_empty) {
            fields.pop();
        }
        Ok(Row { line, fields })
    };
    reader.records().map(row).collect()
}

fn spaced(text: &str) -> Vec<Row> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|(text, line)| Row { line, fields: text.split_whitespace().map(String::from).collect() }).collect()
}

/// The square matrix in `rows`, each of which has as many fields as there are rows, after `skip` label fields.
///
/// # Errors
/// The line and column that is no count, or the row of another length.
pub fn square(rows: &[Row], skip: usize) -> Result<Matrix> {
    let tasks = check_tasks(rows.len() as u64)?;
    let mut entries = Vec::new();
    for (source, row) in rows.iter().enumerate() {
        let values = row.fields.get(skip..).unwrap_or_default();
        if values.len() != tasks {
            let cause = format!("line {}: {} values, but there are {tasks} rows", row.line, values.len());
            return Err(Error::new(cause).remedy("a matrix must be square: one row and one column a task"));
        }
        for (destination, text) in values.iter().enumerate() {
            let value = count(row, text, skip + destination)?;
            if value != 0 {
                entries.push((source as u32, destination as u32, value));
            }
        }
    }
    Ok(Matrix::from_triplets(tasks, entries))
}

/// The count in a field; `column` from 0.
///
/// # Errors
/// The line and column, when it is none.
pub fn count(row: &Row, text: &str, column: usize) -> Result<u64> {
    number::from_text(text).map_err(|error| error.at(format_args!("line {}, column {}", row.line, column + 1)))
}
