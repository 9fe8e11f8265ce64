//! Wrong usage in cohabit's own voice, and what is said about the whole tool.

use clap::ColorChoice;
use clap::error::{ContextKind, ContextValue, Error as ClapError, ErrorKind};
use cohabit_model::Error;
use std::ffi::OsString;

/// The end of `cohabit --help`.
pub const EXAMPLES: &str = "\
The four steps, on a program as it is:
  cohabit profile -o p.npz -- ./program     who communicates with whom
  cohabit show p.npz                        the matrix as a heat map
  cohabit map p.npz                         where each task should run
  cohabit run --profile p.npz -- ./program  run it there

'cohabit help COMMAND' has examples of each command.

Exit status: the program's own where one runs, with 125 if cohabit failed, 126
if the program cannot be run and 127 if there is none; else 0, 1 for failure and
2 for wrong usage.";

/// The one option that takes a value and may come before the command.
const COLOUR: &str = "--color";

/// The command that a command line names: its first word after `cohabit` that is no option.
pub fn command_named(arguments: impl Iterator<Item = OsString>) -> Option<String> {
    let mut words = arguments.skip(1).map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        match word.as_str() {
            COLOUR => drop(words.next()),
            option if option.starts_with('-') => {}
            _ => return Some(word),
        }
    }
    None
}

/// What a command line says of colours, before it is known to be right: the last `--color` ahead of the program's
/// words.
pub fn colour_named(arguments: impl Iterator<Item = OsString>) -> ColorChoice {
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let own = words.iter().position(|word| word == "--").map_or(&words[..], |end| &words[..end]);
    let value = |(at, word): (usize, &String)| match word.strip_prefix(COLOUR)? {
        "" => own.get(at + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    };
    let named = own.iter().enumerate().filter_map(value).next_back();
    named.and_then(|value| value.parse().ok()).unwrap_or(ColorChoice::Auto)
}

/// Whether this command runs a program: its exit statuses stay clear of the program's.
pub fn runs_program(command: &str) -> bool {
    matches!(command, "run" | "profile" | "record")
}

/// Whether a command line runs none, though its command does: `record --check` looks at what another run left behind.
pub fn only_checks(command: &str, arguments: impl Iterator<Item = OsString>) -> bool {
    let mut own = arguments.take_while(|word| word != "--");
    command == "record" && own.any(|word| word.to_string_lossy().split('=').next() == Some("--check"))
}

/// Whether a command that reads recordings is given a program to record first, after `--`.
pub fn records_first(command: &str, arguments: impl Iterator<Item = OsString>) -> bool {
    let mut from_dashes = arguments.skip_while(|word| word != "--");
    matches!(command, "simulate" | "compare-detectors") && from_dashes.nth(1).is_some()
}

/// What cohabit was called as, for commands of its own that the user is to run.
pub fn typed_as() -> String {
    std::env::args_os().next().map_or_else(|| "cohabit".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Whether this command is given a program, after `--`.
fn takes_program(command: &str) -> bool {
    runs_program(command) || matches!(command, "compare" | "tune")
}

/// clap's complaint as cause and remedy; `command` is the one that was named, where there is such a command.
pub fn error(error: &ClapError, command: Option<&str>) -> Error {
    let rendered = error.render().to_string();
    let (first, rest) = rendered.split_once("\n\n").unwrap_or((&rendered, ""));
    let cause = first.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ");
    let cause = cause.replace("invalid digit found in string", "it is no whole number");
    if let Some(command) = command.filter(|name| lacks_program(error, name)) {
        let remedy =
            format!("name it after --, as in 'cohabit {command} -- ./program'; see 'cohabit {command} --help'");
        return Error::new("there is no program to run").remedy(remedy);
    }
    if let Some((command, program)) = command.and_then(|name| Some((name, program_without_dashes(error, name)?))) {
        let remedy = format!("put -- before the program: cohabit {command} ... -- {program}");
        return Error::new(cause).remedy(remedy);
    }
    // clap also proposes to pass an unknown option on as a value, which is seldom what was meant.
    let tip = rest.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).find(|tip| !tip.starts_with("to pass"));
    let help = match command {
        Some(command) => format!("see 'cohabit {command} --help'"),
        None => "see 'cohabit --help'".to_owned(),
    };
    Error::new(cause).remedy(match tip {
        Some(tip) => format!("{tip}; {help}"),
        None => help,
    })
}

/// Whether nothing but the program to run is missing.
fn lacks_program(error: &ClapError, command: &str) -> bool {
    let missing = |missing: &[String]| missing.iter().all(|name| name.starts_with("<CMD>"));
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(names))) => {
            takes_program(command) && missing(names)
        }
        _ => false,
    }
}

/// What was probably meant as the program to run, where the `--` before it was forgotten.
fn program_without_dashes(error: &ClapError, command: &str) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word)))
            if takes_program(command) && !word.starts_with('-') =>
        {
            Some(word.clone())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_whole_tool_may_come_before_the_command() {
        for (line, command, colour) in [
            ("cohabit", None, ColorChoice::Auto),
            ("cohabit run -- x", Some("run"), ColorChoice::Auto),
            ("cohabit --color never profile -- x", Some("profile"), ColorChoice::Never),
            ("cohabit --color=always -q map p.npz", Some("map"), ColorChoice::Always),
            ("cohabit map p.npz --color never --color always", Some("map"), ColorChoice::Always),
            ("cohabit run -- ls --color always", Some("run"), ColorChoice::Auto),
            ("cohabit --color", None, ColorChoice::Auto),
            ("cohabit --colours always show", Some("always"), ColorChoice::Auto),
        ] {
            let words = || line.split(' ').map(OsString::from);
            assert_eq!(command_named(words()).as_deref(), command, "{line}");
            assert_eq!(colour_named(words()), colour, "{line}");
        }
    }
}
