//! Tools that write one file for messages and one for bytes: which of the two a file is, by a word in its name, and
//! the other one beside it.

use super::build::{Found, file_name};
use cohabit_model::{Matrix, Result};
use std::path::{Path, PathBuf};

/// Words for messages, each with its counterpart for bytes.
const WORDS: [(&str, &str); 4] = [("count", "size"), ("msg", "size"), ("messages", "bytes"), ("msgs", "bytes")];

/// The matrices of `path` and of its counterpart, where that exists; and the files read.
///
/// # Errors
/// What `read` says of either file.
pub fn read(path: &Path, read: impl Fn(&Path) -> Result<Matrix>) -> Result<(Found, Vec<PathBuf>)> {
    let matrix = read(path)?;
    let name = file_name(path);
    for (messages, bytes) in WORDS {
        for (word, other, is_messages) in [(messages, bytes, true), (bytes, messages, false)] {
            let Some(counterpart) = replace_word(&name, word, other).map(|name| path.with_file_name(name)) else {
                continue;
            };
            if counterpart.is_file() {
                let second = read(&counterpart).map_err(|error| error.at(counterpart.display()))?;
                let (messages, bytes) = if is_messages { (matrix, second) } else { (second, matrix) };
                return Ok((Found::Both(messages, bytes), vec![path.to_path_buf(), counterpart]));
            }
        }
    }
    let says = |words: fn(&(&'static str, &'static str)) -> &'static str| {
        WORDS.iter().map(words).any(|word| replace_word(&name, word, "").is_some())
    };
    let found = match (says(|pair| pair.0), says(|pair| pair.1)) {
        (true, false) => Found::Messages(matrix),
        (false, true) => Found::Bytes(matrix),
        _ => Found::Either(matrix),
    };
    Ok((found, vec![path.to_path_buf()]))
}

/// `name` with the last whole word `from` replaced; none where there is no such word.
fn replace_word(name: &str, from: &str, to: &str) -> Option<String> {
    let at = name.rfind(from)?;
    let (before, after) = (&name[..at], &name[at + from.len()..]);
    let bounded = |neighbour: Option<char>| neighbour.is_none_or(|letter| !letter.is_alphanumeric());
    (bounded(before.chars().next_back()) && bounded(after.chars().next())).then(|| format!("{before}{to}{after}"))
}

#[cfg(test)]
mod tests {
    use super::replace_word;

    #[test]
    fn only_whole_words_are_replaced() {
        assert_eq!(replace_word("cg.count.csv", "count", "size").unwrap(), "cg.size.csv");
        assert_eq!(replace_word("monitoring_msg.mat", "msg", "size").unwrap(), "monitoring_size.mat");
        assert_eq!(replace_word("counter.csv", "count", "size"), None);
        assert_eq!(replace_word("resize.csv", "size", "count"), None);
    }
}
