//! Matrix Market exchange files (Boisvert, Pozo, Remington: "The Matrix Market exchange formats", NISTIR 5935): rows
//! are sources, columns destinations.

use super::build::{Imported, check_tasks};
use super::{TEXT_LIMIT_BYTES, number, pair};
use cohabit_model::file::read_text;
use cohabit_model::profile::Kind;
use cohabit_model::{Error, Matrix, Profile, Result};
use std::path::Path;

/// Reads a Matrix Market file, with its counterpart (`x.count.mtx` and `x.size.mtx`) where there is one.
pub fn read(path: &Path) -> Result<Profile> {
    let (found, files) = pair::read(path, |path| parse(&read_text(path, TEXT_LIMIT_BYTES)?))?;
    let imported = Imported {
        kind: Kind::Threads,
        format: "matrix-market",
        files,
        labels: Vec::new(),
        found,
        not_seen: Vec::new(),
    };
    imported.profile()
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
    let size = size.split_whitespace().map(number::from_text).collect::<Result<Vec<_>>>();
    let size = size.map_err(|error| error.at(format_args!("line {size_line}")))?;
    let (rows, columns, promised) = match (&size[..], banner.coordinate) {
        (&[rows, columns, entries], true) => (rows, columns, Some(entries)),
        (&[rows, columns], false) => (rows, columns, None),
        _ => return Err(Error::new(format!("line {size_line}: {} sizes do not fit its banner", size.len()))),
    };
    if rows != columns {
        let cause = format!("line {size_line}: {rows} rows and {columns} columns");
        return Err(Error::new(cause).remedy("a matrix must be square: one row and one column a task"));
    }
    let tasks = check_tasks(rows)?;
    let entries = match promised {
        Some(promised) => coordinates(&banner, tasks, promised, lines)?,
        None => array(&banner, tasks, lines)?,
    };
    let mirrored =
        entries.iter().filter(|entry| banner.symmetric && entry.0 != entry.1).map(|&(a, b, value)| (b, a, value));
    Ok(Matrix::from_triplets(tasks, entries.iter().copied().chain(mirrored)))
}

fn parse_banner(line: &str) -> Result<Banner> {
    let words: Vec<String> = line.split_whitespace().map(str::to_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let &["%%matrixmarket", "matrix", layout, field, symmetry] = &words[..] else {
        return Err(Error::new("line 1: it does not start with \"%%MatrixMarket matrix LAYOUT FIELD SYMMETRY\""));
    };
    let known = matches!(layout, "coordinate" | "array")
        && (matches!(field, "integer" | "real" | "double") || (field == "pattern" && layout == "coordinate"))
        && matches!(symmetry, "general" | "symmetric");
    if !known {
        let cause = format!("line 1: {layout} {field} {symmetry} matrices are not read");
        return Err(Error::new(cause).remedy("write it as coordinate or array, integer or real, general or symmetric"));
    }
    Ok(Banner { coordinate: layout == "coordinate", pattern: field == "pattern", symmetric: symmetry == "symmetric" })
}

type Entries = Vec<(u32, u32, u64)>;

fn coordinates<'a>(
    banner: &Banner,
    tasks: usize,
    promised: u64,
    lines: impl Iterator<Item = (&'a str, u64)>,
) -> Result<Entries> {
    let mut entries = Vec::new();
    for (text, line) in lines {
        let entry = coordinate(banner, tasks, text).map_err(|error| error.at(format_args!("line {line}")))?;
        entries.push(entry);
    }
    if entries.len() as u64 != promised {
        return Err(Error::new(format!("it holds {} entries, but promises {promised}: cut short?", entries.len())));
    }
    Ok(entries)
}

fn coordinate(banner: &Banner, tasks: usize, text: &str) -> Result<(u32, u32, u64)> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let expected = if banner.pattern { 2 } else { 3 };
    if fields.len() != expected {
        return Err(Error::new(format!("{} fields, expected {expected}", fields.len())));
    }
    let index = |text: &str| match number::from_text(text)? {
        index if index >= 1 && index <= tasks as u64 => Ok(index as u32 - 1),
        index => Err(Error::new(format!("index {index} is not between 1 and {tasks}"))),
    };
    let (row, column) = (index(fields[0])?, index(fields[1])?);
    if banner.symmetric && row < column {
        return Err(Error::new("an entry above the diagonal of a symmetric matrix"));
    }
    Ok((row, column, fields.get(2).map_or(Ok(1), |text| number::from_text(text))?))
}

/// Values column by column, of a symmetric matrix from the diagonal down.
fn array<'a>(banner: &Banner, tasks: usize, lines: impl Iterator<Item = (&'a str, u64)>) -> Result<Entries> {
    let mut values = lines.flat_map(|(text, line)| text.split_whitespace().map(move |value| (value, line)));
    let mut entries = Vec::new();
    for column in 0..tasks {
        for row in if banner.symmetric { column } else { 0 }..tasks {
            let (text, line) = values
                .next()
                .ok_or_else(|| Error::new(format!("cut short: no value for row {}, column {}", row + 1, column + 1)))?;
            let value = number::from_text(text).map_err(|error| error.at(format_args!("line {line}")))?;
            if value != 0 {
                entries.push((row as u32, column as u32, value));
            }
        }
    }
    match values.next() {
        Some((_, line)) => Err(Error::new(format!("line {line}: more values than {tasks} x {tasks}"))),
        None => Ok(entries),
    }
}
