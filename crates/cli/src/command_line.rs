//! Commands as text, for people and job runners to run.

/// Words as a shell reads them back.
pub fn shell<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:=,+@%".contains(letter);
    let quoted = |word: &str| match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_words_back() {
        for (words, expected) in [
            (&["cohabit", "show", "p.npz"][..], "cohabit show p.npz"),
            (&["a b", "", "it's", "$(x)"], "'a b' '' 'it'\\''s' '$(x)'"),
            (&["mg/harpertown/SM/0", "Locality by best"], "mg/harpertown/SM/0 'Locality by best'"),
        ] {
            assert_eq!(shell(words), expected);
        }
    }
}
