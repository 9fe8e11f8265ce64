//! Wrong usage in cohabit's own voice, and what is said about the whole tool.

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

Exit status: the program's own where one runs, with 125 if cohabit failed, 126
if the program cannot be run and 127 if there is none; else 0, 1 for failure and
2 for wrong usage.";

/// The command that a command line names: its first word after `cohabit` that is no option.
pub fn command_named(arguments: impl Iterator<Item = OsString>) -> Option<String> {
    arguments.skip(1).map(|word| word.to_string_lossy().into_owned()).find(|word| !word.starts_with('-'))
}

/// Whether this command runs a program: its exit statuses stay clear of the program's.
pub fn runs_program(command: &str) -> bool {
    matches!(command, "run" | "profile" | "record")
}

/// clap's complaint as cause and remedy; `command` is the one that was named, where there is such a command.
pub fn error(error: &ClapError, command: Option<&str>) -> Error {
    let rendered = error.render().to_string();
    let (first, rest) = rendered.split_once("\n\n").unwrap_or((&rendered, ""));
    let cause = first.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ");
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

/// What was probably meant as the program to run, where the `--` before it was forgotten.
fn program_without_dashes(error: &ClapError, command: &str) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word)))
            if runs_program(command) && !word.starts_with('-') =>
        {
            Some(word.clone())
        }
        _ => None,
    }
}
