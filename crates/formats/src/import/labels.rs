//! Which row and column of a square table are names, and which are counts already.
//!
//! A cell that somebody could not fill in (`NA`, `1,5`, `10k`, nothing) must never turn its whole row into names: names
//! are words, or the numbers of the tasks in their order, and the table must be square without them and in no other
//! way.

use super::table::{Fields, Row};

/// Words for a value that is not there.
const NO_VALUE: [&str; 14] =
    ["na", "n/a", "#n/a", "n.a.", "null", "none", "nil", "missing", "-", "--", "?", ".", "*", "#"];
/// What the corner over names at the side says where it is not empty.
const CORNER: [&str; 11] = ["task", "tasks", "thread", "tid", "process", "pid", "rank", "id", "index", "name", "label"];

/// Where the names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Labels {
    /// In the first row.
    pub above: bool,
    /// In the first field of each row.
    pub beside: bool,
}

impl Labels {
    /// Where the names of these rows are.
    pub fn of(rows: &[Row]) -> Self {
        let beside = rows.iter().filter_map(|row| row.fields.get(0));
        if rows.iter().all(|row| row.fields.len() == rows.len() + 1) && names(beside) {
            return Self { above: false, beside: true };
        }
        let Some((Row { fields: first, .. }, body)) = rows.split_first().filter(|(_, body)| !body.is_empty()) else {
            return Self { above: false, beside: false };
        };
        let has_width = |width: usize| body.iter().all(|row| row.fields.len() == width);
        let is_above = first.len() == body.len() && has_width(body.len());
        if is_above && (names(first) || numbers(first).is_some()) {
            return Self { above: true, beside: false };
        }
        let both = has_width(body.len() + 1) && are_on_both(first, body);
        Self { above: both, beside: both }
    }
}

/// Whether the first row names the columns of `body` and each row's first field that row; the first row may have a
/// corner over these.
fn are_on_both(first: &Fields, body: &[Row]) -> bool {
    let beside = || body.iter().map(|row| &row.fields[0]);
    let corner = match first.len().checked_sub(body.len()) {
        Some(0) => None,
        Some(1) => Some(first[0].to_lowercase()),
        _ => return false,
    };
    let above = || first.iter().skip(usize::from(corner.is_some()));
    let may_count = corner.as_ref().is_none_or(|corner| corner.is_empty() || CORNER.contains(&corner.as_str()));
    match (names(above()), numbers(above()), names(beside()), numbers(beside())) {
        (true, _, true, _) => true,
        // A square of numbers under words: its first column is the rows' names only where a corner says so.
        (true, _, _, Some(_)) => may_count,
        (_, Some(_), true, _) => may_count,
        // All is numbers. A matrix may look the same, but for its corner.
        (_, Some(across), _, Some(down)) => match corner.as_deref() {
            None => across == down,
            Some("") => across == 0 && down == 0,
            Some(_) => across == down && may_count,
        },
        _ => false,
    }
}

/// Whether all are words, and none a number or what stands for one.
fn names<'a>(fields: impl IntoIterator<Item = &'a str>) -> bool {
    fields.into_iter().all(|field| {
        let lower = field.to_lowercase();
        !field.is_empty() && !NO_VALUE.contains(&lower.as_str()) && !is_like_a_number(&lower)
    })
}

/// The first of fields that number the tasks, from 0 or 1 on.
fn numbers<'a>(fields: impl IntoIterator<Item = &'a str>) -> Option<u64> {
    let numbers: Vec<u64> = fields.into_iter().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let first = *numbers.first().filter(|&&first| first <= 1)?;
    numbers.iter().zip(first..).all(|(&number, expected)| number == expected).then_some(first)
}

/// Whether a field, in small letters, is a number or written as one is: `1,5`, `10k`, `3 MiB`, `7%`, `0x1f`.
fn is_like_a_number(field: &str) -> bool {
    if field.parse::<f64>().is_ok() {
        return true;
    }
    let unsigned = field.trim_start_matches(['+', '-']);
    let rest = unsigned.trim_start_matches(|letter: char| letter.is_ascii_digit() || ".,'_ ".contains(letter));
    let begins_so = unsigned.trim_start_matches(['.', ',']).starts_with(|letter: char| letter.is_ascii_digit());
    let unit = rest.strip_suffix("bytes").or_else(|| rest.strip_suffix('b')).unwrap_or(rest);
    let unit = unit.strip_suffix('i').unwrap_or(unit);
    let is_hexadecimal = unsigned
        .strip_prefix("0x")
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    is_hexadecimal || begins_so && matches!(unit, "" | "k" | "m" | "g" | "t" | "p" | "%")
}

#[cfg(test)]
mod tests {
    use super::super::table::rows;
    use super::*;

    #[test]
    fn names_are_told_from_counts() {
        let (bare, above, beside, both) = ((false, false), (true, false), (false, true), (true, true));
        for (text, expected) in [
            ("0,1\n1,0", bare),
            ("a,b\n0,1\n1,0", above),
            ("1,2\n0,1\n1,0", above),
            ("5,6\n0,1\n1,0", bare),
            ("a,0,1\nb,1,0", beside),
            ("0,0,1\n1,1,0", bare),
            (",0,1\n0,0,1\n1,1,0", both),
            (",1,2\n1,0,3\n2,3,0", bare),
            ("rank,1,2\n1,0,3\n2,3,0", both),
            ("0,1,2\n1,0,3\n2,3,0", bare),
            ("a b\n0 0 1\n1 1 0", both),
            ("x,a,b\na,0,1\nb,1,0", both),
            ("task,a,b\n0,0,1\n1,1,0", both),
            ("a,b,c\n1,2,3\n4,5,6", bare),
            ("a,b,c\n0,2,3\n1,5,6", bare),
            ("NA,1,2\n1,0,3\n2,3,0", bare),
            ("NA,NA,NA\n1,0,3\n2,3,0", bare),
            ("10k,20k\n1,2\n3,4", bare),
            ("0x1,worker[0]\n1,2\n3,4", bare),
            ("2nd,worker[0]\n1,2\n3,4", above),
        ] {
            let labels = Labels::of(&rows(text).unwrap());
            assert_eq!((labels.above, labels.beside), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_written_as_a_number_is_no_name() {
        let numbers =
            ["1", "1e3", "nan", "1,5", "-3,5", "10k", "3 mib", "2.5gb", "7%", "1'000", "0x1f", ".5", "64 bytes"];
        numbers.iter().for_each(|field| assert!(is_like_a_number(field), "{field}"));
        for field in ["main", "worker-1", "0:main", "2nd", "b", "k", "node01", "0x", "-"] {
            assert!(!is_like_a_number(field), "{field}");
        }
    }
}
