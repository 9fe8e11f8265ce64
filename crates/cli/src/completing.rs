//! What shells complete: commands, options and their values, and of files those that an argument can be.
//!
//! The shell asks this program, by the environment variable [`ASKED_BY`] (clap_complete's engine, which is called
//! unstable: its version is held by Cargo.lock, and what a shell is told, `cohabit completions`, is installed with the
//! program that answers).

use crate::Cli;
use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{CompleteEnv, Shells};
use cohabit_memory::machine::given;
use std::ffi::OsStr;
use std::path::Path;

/// The variable that names the shell which asks; the words to complete are the arguments.
const ASKED_BY: &str = "COHABIT_COMPLETE";

/// zsh reads the script as the body of the function `_cohabit` when it first completes: without this, that one time in
/// vain.
const AUTOLOADED: &str = "
if [ \"$funcstack[1]\" = \"_cohabit\" ]; then
    _clap_dynamic_completer_cohabit \"$@\"
fi
";

/// What an argument takes that clap does not know of.
struct Values {
    /// Names of ours.
    names: fn() -> Vec<&'static str>,
    /// How the names of fitting files end; none: any file fits.
    endings: &'static [&'static str],
}

const ANY: &[&str] = &[];

fn none() -> Vec<&'static str> {
    Vec::new()
}

fn machines() -> Vec<&'static str> {
    given::MACHINES.iter().map(|machine| machine.name).collect()
}

fn live() -> Vec<&'static str> {
    vec!["live"]
}

/// By the name of the value, which means the same in every command. [`experiment`] has a `P` of its own.
const VALUES: &[(&str, Values)] = &[
    ("P", Values { names: none, endings: &["npz"] }),
    ("MAP", Values { names: none, endings: &["json"] }),
    ("C", Values { names: none, endings: &["json"] }),
    ("S", Values { names: none, endings: &["json"] }),
    ("D", Values { names: none, endings: &["json"] }),
    ("M", Values { names: machines, endings: &["toml"] }),
    ("T", Values { names: live, endings: &["xml", "toml"] }),
    ("R", Values { names: none, endings: ANY }),
    ("F", Values { names: none, endings: ANY }),
    ("FILE", Values { names: none, endings: ANY }),
    ("CMD", Values { names: none, endings: ANY }),
    ("LAUNCHER", Values { names: none, endings: ANY }),
];

/// Answers a shell that asks what a command line could go on with; false where none does.
pub fn answered() -> bool {
    let asked = CompleteEnv::with_factory(|| with_values(Cli::command())).var(ASKED_BY);
    // A word that cannot be completed, or a shell that is not known, is no reason to break the line that is being
    // typed.
    asked.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()).unwrap_or(true)
}

/// What a shell has to be told so that it asks: a script of its own language.
///
/// # Errors
/// Where there is no such shell.
pub fn script(shell: &str) -> std::io::Result<String> {
    let mut text = Vec::new();
    let shells = Shells::builtins();
    let told = shells.completer(shell).ok_or_else(|| std::io::Error::other(format!("{shell} is not known here")))?;
    told.write_registration(ASKED_BY, "cohabit", "cohabit", "cohabit", &mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok(if shell == "zsh" { text.into_owned() + AUTOLOADED } else { text.into_owned() })
}

/// The command line, each argument with what it takes.
fn with_values(command: Command) -> Command {
    let command = command.mut_args(with_value);
    command.mut_subcommands(|command| match command.get_name() {
        "experiment" => experiment(command),
        _ => with_values(command),
    })
}

fn with_value(argument: Arg) -> Arg {
    let known = |name: &str| VALUES.iter().find(|(known, _)| *known == name).map(|(_, values)| values);
    let names = argument.get_value_names().unwrap_or_default();
    let is_listed = !argument.get_possible_values().is_empty();
    match names.first().and_then(|name| known(name)).filter(|_| !is_listed) {
        Some(values) => argument.add(ArgValueCompleter::new(values)),
        None => argument,
    }
}

/// `--program` names one of the experiment's there, or a recording.
fn experiment(command: Command) -> Command {
    let any = || ArgValueCompleter::new(PathCompleter::any());
    let is_program = |argument: &Arg| argument.get_id() == "program";
    command.mut_args(|argument| if is_program(&argument) { argument.add(any()) } else { with_value(argument) })
}

impl ValueCompleter for &'static Values {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let names = (self.names)().into_iter().filter(|name| name.as_bytes().starts_with(current.as_encoded_bytes()));
        let endings = self.endings;
        let is_fit = move |path: &Path| {
            let end = path.extension().and_then(OsStr::to_str);
            path.is_file() && (endings.is_empty() || end.is_some_and(|end| endings.contains(&end)))
        };
        // Folders are among these: a file may lie below.
        let files = PathCompleter::any().filter(is_fit).complete(current);
        names.map(CompletionCandidate::new).chain(files).collect()
    }
}
