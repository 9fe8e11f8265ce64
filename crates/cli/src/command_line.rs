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

/// Options that say how a comparison is run, and not what is made: what a command makes is the same without them.
const HOW: [&str; 3] = ["--cells", "--collect", "--resume"];
/// One of these with a value.
const HOW_VALUED: &str = "--cell";

/// The arguments of this command, for files that say how they were made: without what only parts or repeats the work.
pub fn given() -> Vec<String> {
    whole(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
}

fn whole(words: impl Iterator<Item = String>) -> Vec<String> {
    let (mut kept, mut own, mut is_value) = (Vec::new(), true, false);
    for word in words {
        // What comes after -- is the program's.
        own &= word != "--";
        let is_left_out = own
            && (is_value
                || HOW.contains(&word.as_str())
                || word.strip_prefix(HOW_VALUED).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')));
        is_value = own && !is_value && word == HOW_VALUED;
        if !is_left_out {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_parts_the_work_is_left_out() {
        for (words, expected) in [
            (
                "compare --mapping m.json --runs 9 --cell 3 -o r -- ./p --cell 4",
                "compare --mapping m.json --runs 9 -o r -- ./p --cell 4",
            ),
            ("compare --resume --cell=3 --collect -- ./p --resume", "compare -- ./p --resume"),
            ("simulate r.rec --sample=3 --json s.json", "simulate r.rec --sample=3 --json s.json"),
        ] {
            assert_eq!(whole(words.split(' ').map(str::to_owned)).join(" "), expected);
        }
    }

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
