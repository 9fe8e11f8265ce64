//! Matrix Market exchange files (Boisvert, Pozo, Remington: "The Matrix Market exchange formats", NISTIR 5935): rows
//! are sources, columns destinations.

use super::build::{Imported, UNSAID, check_tasks};
use super::{TEXT_LIMIT_BYTES, number, pair};
use cohabit_model::file::read_text;
use cohabit_model::profile::Kind;
use cohabit_model::{Error, Matrix, Profile, Result};
use std::path::Path;

/// Reads a Matrix Market file, with its counterpart (`x.count.mtx` and `x.size.mtx`) where there is one.
pub fn read(path: &Path) -> Result<Profile> {
    let (found, files) = pair::read(path, |path| parse(&read_text(path, TEXT_LIMIT_BYTES)?))?;
    let not_seen = vec![UNSAID.to_owned()];
    Imported { not_seen, ..Imported::new("matrix-market", Kind::Threads, files, found) }.profile()
}

struct Banner {
    coordinate: bool,
    pattern: bool,
    symmetric: bool,
}

fn parse(text: &str) -> Result<Matrix> {
    let mut lines = text.lines().zip(1u64..);
    let banner = parse_banner(lines.next().unwrap_or_default().0)?;
    let mut lines = lines.filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('%'));
    let (size, size_line) = lines.next().ok_or_else(|| Error::new("cut short: it has no size line"))?;
    let sizes = if banner.coordinate { "rows, columns and entries" } else { "rows and columns" };
    let size = size.split_whitespace().enumerate().map(|(column, text)| at(size_line, column, number::from_text(text)));
    let size: Vec<u64> = size.collect::<Result<_>>().map_err(|error| {
        error.remedy(format!("after the banner come comments, which begin with %, and then the numbers of {sizes}"))
    })?;
    let (rows, columns, promised) = match (&size[..], banner.coordinate) {
        (&[rows, columns, entries], true) => (rows, columns, Some(Promised { entries, size_line })),
        (&[rows, columns], false) => (rows, columns, None),
        _ => {
            let cause = format!("line {size_line}, column 1: {} sizes do not fit its banner", size.len());
            return Err(Error::new(cause).remedy(format!("write the numbers of {sizes} there")));
        }
    };
    if rows != columns {
        let cause = format!("line {size_line}, column 2: {rows} rows and {columns} columns");
        return Err(Error::new(cause).remedy("a matrix must be square: one row and one column a task"));
    }
    let tasks = check_tasks(rows)?;
    let entries = match promised {
        Some(promised) => coordinates(&banner, tasks, &promised, lines)?,
        None => array(&banner, tasks, lines)?,
    };
    let mirrored =
        entries.iter().filter(|entry| banner.symmetric && entry.0 != entry.1).map(|&(a, b, value)| (b, a, value));
    Ok(Matrix::from_triplets(tasks, entries.iter().copied().chain(mirrored)))
}

/// What the size line promises.
struct Promised {
    entries: u64,
    size_line: u64,
}

/// An error led in by where it is; `column` counts words, from 0.
fn at<T>(line: u64, column: usize, result: Result<T>) -> Result<T> {
    result.map_err(|error| error.at(format_args!("line {line}, column {}", column + 1)))
}

fn parse_banner(line: &str) -> Result<Banner> {
    let words: Vec<String> = line.split_whitespace().map(str::to_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["%%matrixmarket", "matrix", layout, field, symmetry, rest @ ..] = &words[..] else {
        return Err(Error::new("line 1: it does not start with \"%%MatrixMarket matrix LAYOUT FIELD SYMMETRY\""));
    };
    if let Some(text) = rest.first() {
        let cause = format!("line 1, column 6: {text:?} after the banner's five words");
        return Err(Error::new(cause).remedy("put comments on lines of their own, which begin with %"));
    }
    let known = matches!(*layout, "coordinate" | "array")
        && (matches!(*field, "integer" | "real" | "double") || (*field == "pattern" && *layout == "coordinate"))
        && matches!(*symmetry, "general" | "symmetric");
    if !known {
        let cause = format!("line 1: {layout} {field} {symmetry} matrices are not read");
        return Err(Error::new(cause).remedy("write it as coordinate or array, integer or real, general or symmetric"));
    }
    Ok(Banner {
        coordinate: *layout == "coordinate",
        pattern: *field == "pattern",
        symmetric: *symmetry == "symmetric",
    })
}

type Entries = Vec<(u32, u32, u64)>;

fn coordinates<'a>(
    banner: &Banner,
    tasks: usize,
    promised: &Promised,
    lines: impl Iterator<Item = (&'a str, u64)>,
) -> Result<Entries> {
    let Promised { entries: count, size_line } = *promised;
    let mut entries = Vec::new();
    for (text, line) in lines {
        if entries.len() as u64 == count {
            let cause = format!("line {line}, column 1: more entries than the {count} that line {size_line} promises");
            return Err(
                Error::new(cause).remedy(format!("write the number of entries as the last on line {size_line}"))
            );
        }
        entries.push(coordinate(banner, tasks, text, line)?);
    }
    if (entries.len() as u64) < count {
        return Err(Error::new(format!("it holds {} entries, but promises {count}: cut short?", entries.len())));
    }
    Ok(entries)
}

fn coordinate(banner: &Banner, tasks: usize, text: &str, line: u64) -> Result<(u32, u32, u64)> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let expected = if banner.pattern { 2 } else { 3 };
    if fields.len() != expected {
        let error = Err(Error::new(format!("{} fields, expected {expected}", fields.len())));
        return at(line, fields.len().min(expected), error);
    }
    let index = |column: usize| match number::from_text(fields[column])? {
        index if index >= 1 && index <= tasks as u64 => Ok(index as u32 - 1),
        index => Err(Error::new(format!("index {index} is not between 1 and {tasks}"))),
    };
    let (row, column) = (at(line, 0, index(0))?, at(line, 1, index(1))?);
    if banner.symmetric && row < column {
        return at(line, 2, Err(Error::new("an entry above the diagonal of a symmetric matrix")));
    }
    let value = fields.get(2).map_or(Ok(1), |text| number::from_text(text));
    Ok((row, column, at(line, 2, value)?))
}

/// Values column by column, of a symmetric matrix from the diagonal down.
fn array<'a>(banner: &Banner, tasks: usize, lines: impl Iterator<Item = (&'a str, u64)>) -> Result<Entries> {
    let words = |(text, line): (&'a str, u64)| {
        text.split_whitespace().enumerate().map(move |(column, value)| (value, line, column))
    };
    let mut values = lines.flat_map(words);
    let mut entries = Vec::new();
    for column in 0..tasks {
        for row in if banner.symmetric { column } else { 0 }..tasks {
            let (text, line, column_of_text) = values
                .next()
                .ok_or_else(|| Error::new(format!("cut short: no value for row {}, column {}", row + 1, column + 1)))?;
            let value = at(line, column_of_text, number::from_text(text))?;
            if value != 0 {
                entries.push((row as u32, column as u32, value));
            }
        }
    }
    match values.next() {
        Some((_, line, column)) => at(line, column, Err(Error::new(format!("more values than {tasks} x {tasks}")))),
        None => Ok(entries),
    }
}
