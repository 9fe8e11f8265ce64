//! Names of hosts as Slurm writes them (`man scontrol`, "show hostlist"): `node[01-08,10]`, several brackets, commas
//! between names outside of brackets.

use crate::{Error, Result};

/// Names of the longest list.
const MOST: usize = 1 << 17;

/// Letters of the longest name that the network takes (RFC 1035, 2.3.4).
const LONGEST: usize = 255;

/// All names of a list, in its order.
///
/// # Errors
/// Where brackets do not match, a range runs backwards, a name is none that the network takes, or there are too many.
pub fn expand(list: &str) -> Result<Vec<String>> {
    let failed = |cause: String| Error::new(format!("{list:?}: {cause}")).remedy("write hosts as in node[01-08,10]");
    let mut names = Vec::new();
    for item in items(list).map_err(failed)? {
        // What is in brackets is no longer in the names than it is there.
        let ranges = |part: &str| part.split_once(']').map_or(0, |(ranges, _)| ranges.len() + 1);
        let outside = item.len() - item.split('[').skip(1).map(ranges).sum::<usize>();
        if outside > LONGEST {
            return Err(failed(format!("a name of more than {LONGEST} letters")));
        }
        let found = expand_item(item).map_err(failed)?;
        if names.len() + found.len() > MOST {
            return Err(failed(format!("more than {MOST} names")));
        }
        names.extend(found);
    }
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(failed(format!("{name:?} is no name: letters, digits, '-', '_' and '.' are"))),
        None => Ok(names),
    }
}

/// Refuses more names in all than a list may have.
///
/// # Errors
/// Where there are more.
pub(super) fn check_count(names: usize) -> Result<()> {
    match names > MOST {
        true => Err(Error::new(format!("more than {MOST} names")).remedy("write hosts as in node[01-08,10]")),
        false => Ok(()),
    }
}

/// Whether launchers and the network take it for a name.
fn is_name(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    !name.is_empty() && letters && !name.starts_with('-')
}

/// The parts between commas that are in no bracket.
fn items(list: &str) -> Result<Vec<&str>, String> {
    let (mut start, mut inside, mut items) = (0, false, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '[' if inside => return Err("a bracket in a bracket".to_owned()),
            ']' if !inside => return Err("a bracket is closed that none opened".to_owned()),
            '[' | ']' => inside = letter == '[',
            ',' if !inside => {
                items.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("a bracket is not closed".to_owned());
    }
    items.push(list[start..].trim());
    Ok(items)
}

/// The names of one item: every bracket multiplies them, the last one changing fastest.
fn expand_item(item: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, after) = after.split_once(']').ok_or("a bracket is not closed")?;
        let numbers = expand_ranges(ranges)?;
        if names.len().saturating_mul(numbers.len()) > MOST {
            return Err(format!("more than {MOST} names"));
        }
        let each = |name: String| numbers.iter().map(move |number| format!("{name}{before}{number}"));
        names = names.into_iter().flat_map(each).collect();
        rest = after;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// `01-08,10`: numbers with as many digits as the first of a range has.
fn expand_ranges(ranges: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in ranges.split(',').map(str::trim) {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u64>().map_err(|_| format!("[{ranges}]: {text:?} is no number")),
            false => Err(format!("[{ranges}]: {text:?} is no number")),
        };
        let (first, last) = (number(low)?, number(high)?);
        if low.len() > LONGEST {
            return Err(format!("a number of more than {LONGEST} digits"));
        }
        if first > last {
            return Err(format!("[{ranges}]: {range} runs backwards"));
        }
        if last - first >= MOST as u64 || numbers.len() + (last - first) as usize >= MOST {
            return Err(format!("more than {MOST} names"));
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}", width = low.len())));
    }
    Ok(numbers)
}

/// Names as a list: neighbours that differ only in the number they end with, and count up, become a range.
pub fn compress<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    // (prefix, digits, first number, last number); without a number the digits are 0.
    let mut runs: Vec<(&str, usize, u64, u64)> = Vec::new();
    for name in names {
        let prefix = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let digits = name.len() - prefix.len();
        let Some(number) = name[prefix.len()..].parse::<u64>().ok() else {
            runs.push((name, 0, 0, 0));
            continue;
        };
        match runs.last_mut() {
            Some(run) if run.0 == prefix && follows(run.1, run.3, digits, number) => run.3 = number,
            _ => runs.push((prefix, digits, number, number)),
        }
    }
    let number = |digits: usize, number: u64| format!("{number:0digits$}");
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < runs.len() {
        let prefix = runs[at].0;
        let together = runs[at..].iter().take_while(|run| run.0 == prefix && run.1 > 0).count().max(1);
        let ranges = runs[at..at + together].iter().map(|&(_, digits, first, last)| match first == last {
            true => number(digits, first),
            false => format!("{}-{}", number(digits, first), number(digits, last)),
        });
        parts.push(match runs[at] {
            (_, 0, ..) => prefix.to_owned(),
            (_, digits, first, last) if together == 1 && first == last => format!("{prefix}{}", number(digits, first)),
            _ => format!("{prefix}[{}]", ranges.collect::<Vec<_>>().join(",")),
        });
        at += together;
    }
    parts.join(",")
}

/// Whether a number is the next of a range whose numbers have `width` digits at least.
fn follows(width: usize, last: u64, digits: usize, number: u64) -> bool {
    last.checked_add(1) == Some(number) && format!("{number:0width$}").len() == digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_expanded_and_compressed() {
        for (list, names) in [
            ("n1", "n1"),
            ("node[01-03,10]", "node01 node02 node03 node10"),
            ("a[1-2],b,c[9-11]", "a1 a2 b c9 c10 c11"),
            ("rack3-[7-8]", "rack3-7 rack3-8"),
            ("tux[008-010]", "tux008 tux009 tux010"),
        ] {
            let names: Vec<&str> = names.split(' ').collect();
            assert_eq!(expand(list).unwrap(), names, "{list}");
            assert_eq!(compress(names), list);
        }
        assert_eq!(expand("r[0-1]n[1-2]-ib").unwrap(), ["r0n1-ib", "r0n2-ib", "r1n1-ib", "r1n2-ib"]);
    }

    #[test]
    fn what_is_no_list_says_why() {
        for (list, cause) in [
            ("", "\"\" is no name"),
            ("a,,b", "\"\" is no name"),
            ("a b", "\"a b\" is no name"),
            ("n[1-", "a bracket is not closed"),
            ("n1]", "a bracket is closed that none opened"),
            ("n[[1]]", "a bracket in a bracket"),
            ("n[3-1]", "3-1 runs backwards"),
            ("n[]", "\"\" is no number"),
            ("n[x]", "\"x\" is no number"),
            ("n[0-99999999]", "more than 131072 names"),
            ("n[0-999][0-999]", "more than 131072 names"),
            ("n[99999999999999999999]", "is no number"),
            (&format!("n[{}1-9999]", "0".repeat(300)), "a number of more than 255 digits"),
            (&format!("{}[1-9999]", "n".repeat(300)), "a name of more than 255 letters"),
            (&format!("[1-9999]{}", "n".repeat(300)), "a name of more than 255 letters"),
        ] {
            let error = expand(list).unwrap_err();
            assert!(error.cause.contains(cause) && error.remedy.is_some(), "{list:?}: {}", error.cause);
        }
    }

    proptest! {
        #[test]
        fn what_is_compressed_expands_to_the_same(names in prop::collection::vec("[a-c]{0,2}[0-9]{1,3}", 1..12)) {
            let list = compress(names.iter().map(String::as_str));
            prop_assert_eq!(expand(&list).unwrap(), names);
        }

        #[test]
        fn hostile_lists_are_errors_or_names(list in "[a-b0-9,\\[\\] -]{0,24}") {
            if let Ok(names) = expand(&list) {
                prop_assert_eq!(expand(&compress(names.iter().map(String::as_str))).unwrap(), names);
            }
        }
    }
}
