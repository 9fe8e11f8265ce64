//! Matrices and series as bytes that the page's script reads quickly: numbers in LEB128 (7 bits a byte, the lowest
//! first, the top bit saying that more follow), in base64. Cells are told by how far each is from the one before, row
//! by row.

use super::html::base64;
use crate::timeline::part_of_columns;
use cohabit_model::{Matrix, Profile, Timeline};

/// Tasks up to which a cell is a pair; of more, several tasks share a cell: the script keeps every cell.
pub const MOST_CELLS: usize = 2048;
/// Cells in a row where several tasks share one.
const SHARED_CELLS: usize = 1024;
/// Columns of the time line.
const MOST_COLUMNS: u64 = 400;
/// Rows of the time line that the script keeps; with more, columns become wider.
const MOST_ROWS: usize = 400_000;

/// How many tasks a cell stands for, each way.
pub fn each(tasks: usize) -> usize {
    if tasks <= MOST_CELLS { 1 } else { tasks.div_ceil(SHARED_CELLS) }
}

/// A matrix in cells of `each` tasks: for every cell that is not 0 the distance from the one before, and its value.
pub fn matrix(matrix: &Matrix, each: usize) -> String {
    let side = matrix.tasks().div_ceil(each.max(1)) as u64;
    let summed;
    let cells = if each > 1 {
        let entries = matrix.iter().map(|(a, b, value)| (a / each as u32, b / each as u32, value));
        summed = Matrix::from_triplets(side as usize, entries);
        &summed
    } else {
        matrix
    };
    let mut bytes = Vec::new();
    let mut before = 0;
    for (writer, reader, value) in cells.iter() {
        let at = u64::from(writer) * side + u64::from(reader);
        number(&mut bytes, at - before);
        number(&mut bytes, value);
        before = at;
    }
    base64(&bytes)
}

/// What is communicated when: columns of the time line.
pub struct Columns {
    /// How many there are.
    pub count: usize,
    /// How long one is: in ns, or in instructions of each task.
    pub each: f64,
    /// Messages in each.
    pub totals: Vec<f64>,
    /// For each the part of the run that most of its messages are of.
    pub parts: Vec<Option<usize>>,
    /// The cells of each column: how many, then as [`matrix`] has them.
    pub cells: String,
}

/// The columns of a profile's series; none where it has none.
pub fn columns(profile: &Profile, timeline: Option<&Timeline>, each: usize) -> Option<Columns> {
    let last = profile.series.last()?.bin;
    let side = profile.tasks().div_ceil(each.max(1)) as u64;
    let mut wide = last / MOST_COLUMNS + 1;
    loop {
        let mut cells: Vec<(u64, u64, u64)> = Vec::new();
        for row in &profile.series {
            let at = u64::from(row.source) / each as u64 * side + u64::from(row.destination) / each as u64;
            cells.push((row.bin / wide, at, row.messages));
        }
        cells.sort_unstable();
        cells.dedup_by(|cell, kept| {
            let same = (cell.0, cell.1) == (kept.0, kept.1);
            if same {
                kept.2 = kept.2.saturating_add(cell.2);
            }
            same
        });
        if cells.len() > MOST_ROWS && last / wide > 7 {
            wide *= 2;
            continue;
        }
        let count = usize::try_from(last / wide).unwrap_or(0) + 1;
        let length = wide as f64 * profile.meta.window().width() as f64;
        let mut bytes = Vec::new();
        let mut totals = Vec::with_capacity(count);
        let mut rest = &cells[..];
        for column in 0..count as u64 {
            let end = rest.partition_point(|cell| cell.0 == column);
            let (now, later) = rest.split_at(end);
            rest = later;
            number(&mut bytes, now.len() as u64);
            let mut before = 0;
            for &(_, at, value) in now {
                number(&mut bytes, at - before);
                number(&mut bytes, value);
                before = at;
            }
            // The sum of nothing is -0.
            totals.push(now.iter().fold(0.0, |sum, cell| sum + cell.2 as f64));
        }
        let parts =
            timeline.map_or_else(|| vec![None; count], |timeline| part_of_columns(profile, timeline, wide, count));
        return Some(Columns { count, each: length, totals, parts, cells: base64(&bytes) });
    }
}

fn number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use cohabit_model::profile::{Kind, Meta, SeriesRow};

    /// What the script does.
    fn numbers(text: &str) -> Vec<u64> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        let (mut found, mut value, mut shift) = (Vec::new(), 0u64, 0);
        for byte in bytes {
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                found.push(value);
                (value, shift) = (0, 0);
            }
        }
        found
    }

    fn cells(numbers: &[u64], side: u64) -> Vec<(u32, u32, u64)> {
        let mut at = 0;
        let cell = |pair: &[u64]| {
            at += pair[0];
            ((at / side) as u32, (at % side) as u32, pair[1])
        };
        numbers.chunks(2).map(cell).collect()
    }

    #[test]
    fn matrices_come_back() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for tasks in (1..9u32).cycle().take(200) {
            let count = draw() % 40;
            // Of all lengths in bits.
            let entries: Vec<_> =
                (0..count).map(|_| (draw() as u32 % tasks, draw() as u32 % tasks, draw() >> (draw() % 58))).collect();
            let given = Matrix::from_triplets(tasks as usize, entries.clone());
            let found = cells(&numbers(&matrix(&given, 1)), tasks.into());
            assert_eq!(Matrix::from_triplets(tasks as usize, found), given);
            // Shared cells hold the same in all.
            let small = entries.into_iter().map(|(a, b, value)| (a, b, value >> 16));
            let given = Matrix::from_triplets(tasks as usize, small);
            let side = u64::from(tasks.div_ceil(3));
            let shared: u128 = cells(&numbers(&matrix(&given, 3)), side).iter().map(|cell| u128::from(cell.2)).sum();
            assert_eq!(shared, given.total());
        }
    }

    #[test]
    fn a_series_comes_in_columns() {
        let matrix = Matrix::zero(3);
        let mut profile = Profile::new(Meta::new(Kind::Threads, "test", Vec::new()), matrix.clone(), matrix);
        assert!(columns(&profile, None, 1).is_none());
        profile.meta.window_ns = 1000;
        let row = |bin, source, destination, messages| SeriesRow { bin, source, destination, messages, bytes: 8 };
        profile.series = vec![row(0, 0, 1, 5), row(2, 1, 2, 7), row(2, 2, 0, 1)];
        let found = columns(&profile, None, 1).unwrap();
        assert_eq!((found.count, found.each, found.totals), (3, 1000.0, vec![5.0, 0.0, 8.0]));
        assert_eq!(numbers(&found.cells), [1, 1, 5, 0, 2, 5, 7, 1, 1]);
        // Ever so long a run has so many columns.
        profile.series.push(row(4_000_000, 0, 1, 9));
        let found = columns(&profile, None, 1).unwrap();
        assert!(found.count as u64 <= MOST_COLUMNS && found.totals.iter().sum::<f64>() == 22.0, "{}", found.count);
    }
}
