//! Distances that are no tree's: a square of whole numbers in CSV, `[from][to]`, one row and column a PU.
//!
//! Separators are commas, semicolons, tabs or blanks; lines that begin with `#` and empty ones are passed over. PU i of
//! the file has OS index i. The diagonal is not read: a PU is at distance 0 from itself.

use super::builder::Builder;
use super::costs::MAX_DISTANCE;
use super::{Level, Pu, Topology};
use crate::{Error, Result};

/// What a topology of this kind begins with: before a file's name on the command line, before the lines in
/// [`Topology::text`].
pub const PREFIX: &str = "matrix:";

/// PUs of the largest matrix: 2 GiB of distances.
pub const MAX_PUS: usize = 16_384;

/// Reads the CSV text of a matrix.
///
/// The tree is a root with the PUs below it; the root costs the largest of the distances.
///
/// # Errors
/// Where it is empty, not square, too large, or an entry is no whole number of 0 to [`MAX_DISTANCE`]; lines and columns
/// are counted from 1.
pub fn parse(csv: &str) -> Result<Topology> {
    let (mut matrix, pus) = read_square(csv)?;
    for pu in 0..pus {
        matrix[pu * pus + pu] = 0;
    }
    let mut builder = Builder::default();
    builder.enter(Level::Machine, None, 0);
    (0..pus).for_each(|pu| builder.pu(Pu::plain(pu as u32)));
    let mut topology = builder.finish(format!("{PREFIX}\n{}\n", csv.trim()))?;
    topology.nodes[0].cost = matrix.iter().copied().max().unwrap_or(0);
    topology.matrix = Some(matrix);
    Ok(topology)
}

/// All entries, row by row, and how many rows and columns there are.
fn read_square(csv: &str) -> Result<(Vec<u64>, usize)> {
    let mut entries = Vec::new();
    let (mut rows, mut columns) = (0, 0);
    for (number, line) in csv.lines().enumerate().filter(|(_, line)| is_row(line)) {
        read_row(line, &mut entries).map_err(|error| error.at(format!("line {}", number + 1)))?;
        let width = entries.len() - rows * columns;
        if rows > 0 && width != columns {
            return Err(Error::new(format!("line {}: {width} entries where others have {columns}", number + 1)));
        }
        columns = width;
        rows += 1;
        if columns > MAX_PUS || rows > columns {
            break;
        }
    }
    if columns > MAX_PUS {
        return Err(Error::new(format!("a matrix of more than {MAX_PUS} PUs, which is the most that is supported")));
    }
    if rows != columns || rows == 0 {
        let rows = if rows > columns { format!("more than {columns}") } else { rows.to_string() };
        return Err(Error::new(format!("a matrix of {rows} rows and {columns} columns is not square"))
            .remedy("give one row and one column for each PU"));
    }
    Ok((entries, rows))
}

/// Bytes of the longest file of a matrix that begins so, by the columns of its first row: rows may have comments
/// between.
pub fn most_bytes(beginning: &str) -> u64 {
    // Ten digits, a separator and a blank or two.
    const ENTRY: u64 = 13;
    const COMMENTS: u64 = 1 << 20;
    let columns = beginning.lines().find(|line| is_row(line)).map_or(0, |line| fields(line).take(MAX_PUS + 1).count());
    (columns as u64).pow(2) * ENTRY + COMMENTS
}

/// The numbers of a row.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.trim().trim_end_matches([',', ';']).split([',', ';']).flat_map(str::split_whitespace)
}

fn is_row(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn read_row(line: &str, entries: &mut Vec<u64>) -> Result<()> {
    // More than there may be are not counted.
    for (column, word) in (1..).zip(fields(line).take(MAX_PUS + 1)) {
        let distance = word.parse().ok().filter(|&distance| distance <= MAX_DISTANCE);
        entries.push(distance.ok_or_else(|| {
            Error::new(format!("column {column}: {word:?} is no whole number of 0 to {MAX_DISTANCE}"))
                .remedy("scale fractions up: only ratios of distances matter to a mapping")
        })?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_square_of_numbers_is_a_topology() {
        for csv in ["0,1,7\n2,0,3\n9,4,0", "# hops\r\n0;1;7\r\n\r\n2;0;3;\r\n9;4;0\r\n", "10 1 7\n2 10 3\n9 4 10\n"] {
            let topology = parse(csv).unwrap();
            assert_eq!(topology.matrix, Some(vec![0, 1, 7, 2, 0, 3, 9, 4, 0]), "{csv}");
            assert_eq!((topology.pus.len(), topology.nodes[0].cost), (3, 9));
            assert_eq!((topology.distance(0, 2), topology.distance(2, 0), topology.distance(1, 1)), (7, 9, 0));
            assert!(!topology.has_symmetric_distances());
            assert_eq!(Topology::parse_text(&topology.text), Ok(topology));
        }
    }

    #[test]
    fn what_is_no_square_of_numbers_says_where() {
        for (csv, cause) in [
            ("", "a matrix of 0 rows and 0 columns is not square"),
            ("0,1", "a matrix of 1 rows and 2 columns is not square"),
            ("0,1\n1,0\n2,3", "a matrix of more than 2 rows and 2 columns is not square"),
            ("0,1\n1\n", "line 2: 1 entries where others have 2"),
            ("0,1\n\n1,x", "line 3: column 2: \"x\" is no whole number of 0 to 4294967295"),
            ("0,1.5\n1.5,0", "line 1: column 2: \"1.5\" is no whole number of 0 to 4294967295"),
            ("0,4294967296\n1,0", "line 1: column 2: \"4294967296\" is no whole number of 0 to 4294967295"),
        ] {
            assert_eq!(parse(csv).unwrap_err().cause, cause);
        }
        let wide = "0,".repeat(MAX_PUS + 1);
        assert_eq!(
            parse(&wide).unwrap_err().cause,
            "a matrix of more than 16384 PUs, which is the most that is supported"
        );
    }

    #[test]
    fn a_file_can_be_no_longer_than_its_first_row_says() {
        for (beginning, most) in [("", 1 << 20), ("# hops\n0,1,\n1,0\n", 4 * 13), ("0 1 2\n", 9 * 13)] {
            assert_eq!(most_bytes(beginning) & ((1 << 20) - 1), most & ((1 << 20) - 1), "{beginning}");
        }
        let endless = "1 ".repeat(4 * MAX_PUS);
        assert_eq!(most_bytes(&endless) >> 20, 1 + ((13 * (MAX_PUS as u64 + 1).pow(2)) >> 20));
        let mut entries = Vec::new();
        read_row(&endless, &mut entries).unwrap();
        assert_eq!(entries.len(), MAX_PUS + 1);
    }

    proptest! {
        #[test]
        fn hostile_text_is_an_error_or_a_square(csv in "[0-9,; \\n\\t#x.-]{0,60}") {
            if let Ok(topology) = parse(&csv) {
                prop_assert_eq!(topology.matrix.as_ref().unwrap().len(), topology.pus.len().pow(2));
            }
        }
    }
}
