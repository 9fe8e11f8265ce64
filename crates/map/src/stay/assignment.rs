//! The assignment problem: every row a column of its own, with the greatest sum (Kuhn 1955 and Munkres 1957, in the
//! form that grows one shortest augmenting path a row, O(n^3)).

/// More rows than this are assigned greedily.
const MOST_ROWS: usize = 400;

/// The greatest sum and the column of each row. `value` is none where a row may not have a column; some assignment
/// without such pairs must exist.
pub fn heaviest_assignment(rows: usize, value: impl Fn(usize, usize) -> Option<i64>) -> (i64, Vec<usize>) {
    let columns = if rows > MOST_ROWS { greedy(rows, &value) } else { exact(rows, &value) };
    let sum = columns.iter().enumerate().filter_map(|(row, &column)| value(row, column)).sum();
    (sum, columns)
}

/// What a forbidden pair costs: more than all others together, and far from overflow.
const FORBIDDEN: i64 = 1 << 50;

fn exact(rows: usize, value: &impl Fn(usize, usize) -> Option<i64>) -> Vec<usize> {
    // Each is asked for many times.
    let pairs = (0..rows).flat_map(|row| (0..rows).map(move |column| (row, column)));
    let costs: Vec<i64> = pairs.map(|(row, column)| value(row, column).map_or(FORBIDDEN, |value| -value)).collect();
    let cost = |row: usize, column: usize| costs[row * rows + column];
    // Column `rows` is where the path of each new row begins.
    let (mut row_price, mut column_price) = (vec![0_i64; rows], vec![0_i64; rows + 1]);
    let mut row_of = vec![usize::MAX; rows + 1];
    for row in 0..rows {
        let mut at = rows;
        row_of[at] = row;
        let mut slack = vec![i64::MAX; rows + 1];
        let mut before = vec![rows; rows + 1];
        let mut done = vec![false; rows + 1];
        while row_of[at] != usize::MAX {
            done[at] = true;
            let from = row_of[at];
            let mut next = (i64::MAX, rows);
            for column in (0..rows).filter(|&column| !done[column]) {
                let reduced = cost(from, column) - row_price[from] - column_price[column];
                if reduced < slack[column] {
                    slack[column] = reduced;
                    before[column] = at;
                }
                next = next.min((slack[column], column));
            }
            for column in 0..=rows {
                if done[column] {
                    row_price[row_of[column]] += next.0;
                    column_price[column] -= next.0;
                } else if slack[column] != i64::MAX {
                    slack[column] -= next.0;
                }
            }
            at = next.1;
        }
        while at != rows {
            row_of[at] = row_of[before[at]];
            at = before[at];
        }
    }
    let mut columns = vec![0; rows];
    row_of[..rows].iter().enumerate().for_each(|(column, &row)| columns[row] = column);
    columns
}

/// The heaviest pairs first, the rest in order.
fn greedy(rows: usize, value: &impl Fn(usize, usize) -> Option<i64>) -> Vec<usize> {
    let pairs = (0..rows).flat_map(|row| (0..rows).map(move |column| (row, column)));
    let mut heavy: Vec<(i64, usize, usize)> = pairs
        .filter_map(|(row, column)| value(row, column).filter(|&value| value > 0).map(|value| (value, row, column)))
        .collect();
    heavy.sort_unstable_by(|a, b| b.0.cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let (mut columns, mut taken) = (vec![usize::MAX; rows], vec![false; rows]);
    for (_, row, column) in heavy {
        if columns[row] == usize::MAX && !taken[column] {
            columns[row] = column;
            taken[column] = true;
        }
    }
    for row in 0..rows {
        if columns[row] == usize::MAX {
            let free = |column: &usize| !taken[*column] && value(row, *column).is_some();
            let column = (0..rows).find(free).or_else(|| (0..rows).find(|&column| !taken[column]));
            columns[row] = column.expect("as many columns as rows");
            taken[columns[row]] = true;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn brute(rows: usize, value: &impl Fn(usize, usize) -> Option<i64>, row: usize, taken: u32) -> Option<i64> {
        if row == rows {
            return Some(0);
        }
        let free = (0..rows).filter(|column| taken >> column & 1 == 0);
        free.filter_map(|column| Some(value(row, column)? + brute(rows, value, row + 1, taken | 1 << column)?)).max()
    }

    #[test]
    fn it_agrees_with_trying_all() {
        let mut random = Random::new(2);
        for _ in 0..200 {
            let rows = 1 + random.below(5);
            let values: Vec<Option<i64>> =
                (0..25).map(|at| (at % 6 == 0 || random.below(4) > 0).then(|| random.below(9) as i64)).collect();
            let value = |row: usize, column: usize| values[row * 5 + column];
            let (sum, columns) = heaviest_assignment(rows, value);
            assert_eq!(Some(sum), brute(rows, &value, 0, 0));
            let mut sorted = columns;
            sorted.sort_unstable();
            assert_eq!(sorted, (0..rows).collect::<Vec<_>>());
        }
    }

    #[test]
    fn many_rows_are_assigned_too() {
        let (sum, columns) = heaviest_assignment(500, |row, column| Some(i64::from(column == (row + 7) % 500)));
        assert_eq!((sum, columns[3]), (500, 10));
    }
}
