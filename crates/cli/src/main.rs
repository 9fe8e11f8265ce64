//! `cohabit`: finds which threads, processes and ranks communicate, and puts them close together.
//!
//! The one room that prints or exits. It parses the command line, joins the stages (observe, map, apply) and shows
//! what they say; a file a command under `commands/`.

mod command_line;
mod commands;
mod comparing;
mod completing;
mod documents;
mod evaluation;
mod exit;
mod experiment;
mod export;
mod hosts;
mod json;
mod machine;
mod mapping;
mod measurement;
mod narration;
mod number;
mod numbered;
mod online;
mod output;
mod phased;
mod picture;
mod plotting;
mod progress;
mod recording;
mod report;
mod show;
mod timeline;
mod trace_events;
mod usage;
mod words;

use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory, Parser};
use cohabit_model::Error;
use exit::{End, Failure};
use std::any::Any;
use std::process::ExitCode;

/// What is told with every version and bug report.
const BUGS: &str = "this is a bug in cohabit: please report this line with the command that led to it";

/// Finds which threads of a program communicate, and puts them close together.
#[derive(Parser)]
#[command(
    name = "cohabit",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = usage::EXAMPLES
)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
    /// Say nothing on standard error but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say all: every step with its time, every decision, and what is only counted otherwise
    #[arg(short, long, global = true)]
    verbose: bool,
    /// When to use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    color: ColorChoice,
}

fn main() -> ExitCode {
    if completing::answered() {
        return ExitCode::SUCCESS;
    }
    let named = usage::command_named(std::env::args_os());
    let arguments = std::env::args_os;
    let runs = |command: &str| {
        usage::runs_program(command) && !usage::only_checks(command, arguments())
            || usage::records_first(command, arguments())
    };
    let runs_program = named.as_deref().is_some_and(runs);
    // Where no program runs, a reader that goes away ends cohabit as it ends any filter. A program's own disposition
    // is the default either way, and cohabit must outlive whoever reads its notes while a program runs.
    if !runs_program {
        output::die_of_closed_pipes();
    }
    output::outlive_file_limits();
    report_panics();
    // Help and complaints about the command line come before it is parsed, and are coloured or not all the same.
    output::configure(false, false, usage::colour_named(std::env::args_os()));
    let ended = match Cli::try_parse() {
        Ok(cli) => {
            output::configure(cli.quiet, cli.verbose, cli.color);
            std::panic::catch_unwind(|| cli.command.run())
        }
        Err(error) => Ok(not_parsed(&error, named.as_deref())),
    };
    match ended {
        Ok(Ok(end)) => end.exit(),
        Ok(Err(failure)) => {
            output::error(&failure.error);
            ExitCode::from(failure.status(runs_program))
        }
        Err(_panic) => ExitCode::from(if runs_program { exit::COHABIT_FAILED } else { exit::FAILURE }),
    }
}

/// What clap does not return as a command: help, the version, or a complaint.
fn not_parsed(error: &clap::Error, named: Option<&str>) -> commands::Outcome {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::print_styled(&error.render())?;
            Ok(End::Done)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::print_styled(&error.render())?;
            Err(Failure::usage(Error::new("no command was given").remedy("name one of the commands above")))
        }
        _ => {
            let known = named.filter(|name| Cli::command().find_subcommand(name).is_some());
            Err(Failure::usage(usage::error(error, known)))
        }
    }
}

/// A bug becomes one line that says where, and one that says what to do with it; a backtrace where one is asked for.
fn report_panics() {
    let with_backtrace = std::env::var_os("COHABIT_BACKTRACE").is_some();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let message = text_of(panic.payload());
        output::error(&Error::new(format!("internal error{place}: {message}")).remedy(BUGS));
        if with_backtrace {
            output::note(&std::backtrace::Backtrace::force_capture().to_string());
        }
    }));
}

/// The text of a panic, whichever way it was raised.
fn text_of(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_the_command_line_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_panic_has_a_text() {
        let texts: [Box<dyn Any>; 3] = [Box::new("short"), Box::new("made".to_owned()), Box::new(7)];
        assert_eq!(texts.each_ref().map(|payload| text_of(payload.as_ref())), ["short", "made", "no message"]);
    }
}
