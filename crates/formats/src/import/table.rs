//! Tables of numbers as text: rows of fields, and what a square of them is.

use super::build::check_tasks;
use super::number;
use cohabit_model::{Error, Matrix, Result};

/// The fields of a row, which lie together in memory.
pub type Fields = ::csv::StringRecord;

/// Fields of the largest table: as many as a file of NumPy may hold counts.
const FIELDS_LIMIT: usize = 64 << 20;

/// A row: where it is in the file, and its fields without the space around them.
pub struct Row {
    /// Line number, from 1.
    pub line: u64,
    /// The fields.
    pub fields: Fields,
}

/// The rows of a text, lines that are empty or start with `#` left out. Fields are separated by tabs, semicolons or
/// commas, by what the first row has; else by spaces. A separator at the end of every line separates nothing.
///
/// # Errors
/// The line that is no row, and where there are none.
pub fn rows(text: &str) -> Result<Vec<Row>> {
    let lines = || text.lines().zip(1u64..).filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let Some((first, line)) = lines().next() else { return Err(Error::new("there is nothing in it")) };
    if first.trim_start().starts_with(['[', '{']) {
        let column = 1 + first.len() - first.trim_start().len();
        let cause = format!("line {line}, column {column}: a list in brackets, where a table of numbers is expected");
        return Err(Error::new(cause).remedy(
            "in Python: numpy.savetxt(\"m.csv\", m, fmt=\"%d\", delimiter=\",\"), or numpy.save(\"m.npy\", m)",
        ));
    }
    match ['\t', ';', ','].into_iter().find(|&delimiter| first.contains(delimiter)) {
        Some(delimiter) => Ok(without_empty_column(separated(text, delimiter)?)),
        None => bounded(lines().map(|(text, line)| Ok(Row { line, fields: text.split_whitespace().collect() }))),
    }
}

/// All rows, if they are not too many for the memory that they take.
fn bounded(rows: impl Iterator<Item = Result<Row>>) -> Result<Vec<Row>> {
    let (mut all, mut fields) = (Vec::new(), 0);
    for row in rows {
        let row = row?;
        fields += row.fields.len();
        if fields > FIELDS_LIMIT {
            let cause = format!("line {}: more than {FIELDS_LIMIT} numbers", row.line);
            return Err(
                Error::new(cause).remedy("import a sparse file: Matrix Market, or lines of source, destination, value")
            );
        }
        all.push(row);
    }
    Ok(all)
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
        Ok(Row { line, fields: record })
    };
    let mut rows = bounded(reader.records().map(row))?;
    // A line of blanks is a row of one empty field to the reader.
    rows.retain(|row| row.fields.iter().any(|field| !field.is_empty()) || row.fields.len() > 1);
    Ok(rows)
}

/// Takes the last field away where it is empty in every row; the first may be without it, which is then a heading.
fn without_empty_column(mut rows: Vec<Row>) -> Vec<Row> {
    let ends_empty = |row: &Row| row.fields.len() > 1 && row.fields.iter().next_back().is_some_and(str::is_empty);
    let Some((first, below)) = rows.split_first() else { return rows };
    let is_shorter = below.iter().all(|row| row.fields.len() == first.fields.len() + 1) && !below.is_empty();
    if below.iter().all(ends_empty) && (ends_empty(first) || is_shorter) {
        rows.iter_mut().filter(|row| ends_empty(row)).for_each(|row| row.fields.truncate(row.fields.len() - 1));
    }
    rows
}

/// The square matrix in `rows`, each of which has as many fields as there are rows, after `skip` label fields.
///
/// # Errors
/// The line and column that is no count, or that is missing or one too many.
pub fn square(rows: &[Row], skip: usize) -> Result<Matrix> {
    let tasks = check_tasks(rows.len() as u64)?;
    let mut entries = Vec::new();
    for (source, row) in rows.iter().enumerate() {
        let values = row.fields.len().saturating_sub(skip);
        for (destination, text) in row.fields.iter().skip(skip).enumerate().take(tasks) {
            let value = count(row, text, skip + destination)?;
            if value != 0 {
                entries.push((source as u32, destination as u32, value));
            }
        }
        if values != tasks {
            return Err(not_square(row, skip + values.min(tasks), values, tasks));
        }
    }
    Ok(Matrix::from_triplets(tasks, entries))
}

fn not_square(row: &Row, column: usize, values: usize, tasks: usize) -> Error {
    let cause = format!("line {}, column {}: {values} values, but there are {tasks} rows", row.line, column + 1);
    Error::new(cause).remedy(
        "a matrix must be square, one row and one column a task; \
         a list of pairs needs the heading source,destination,value",
    )
}

/// The count in a field; `column` from 0.
///
/// # Errors
/// The line and column, when it is none.
pub fn count(row: &Row, text: &str, column: usize) -> Result<u64> {
    number::from_text(text).map_err(|error| error.at(format_args!("line {}, column {}", row.line, column + 1)))
}
