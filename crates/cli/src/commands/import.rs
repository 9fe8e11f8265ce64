//! `cohabit import`: a matrix of another tool as a profile.

use super::Outcome;
use crate::command_line::given;
use crate::exit::End;
use crate::json::{JsonArgs, name_of};
use crate::{number, progress};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser};
use cohabit_formats::import::{FORMATS, Format, import, relabelled};
use cohabit_formats::npz::write_profile;
use cohabit_model::file::check_writable;
use cohabit_model::profile::Kind;
use serde_json::json;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  cohabit import matrix.csv -o p.npz                    a square matrix
  cohabit import matrix.csv --kind ranks -o p.npz       between MPI ranks
  cohabit import r.rec -o p.npz                         a recording, pipes and sockets with it
  cohabit import --format open-mpi run.0.prof -o p.npz  all ranks of an MPI run";

/// Arguments of `cohabit import`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Import {
    /// The file of the other tool
    file: PathBuf,
    /// Write the profile to P
    #[arg(short, long, value_name = "P")]
    output: PathBuf,
    /// What the file is, where its name does not say
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    format: Option<String>,
    /// What the tasks are, where the file does not say [default: threads, or what the format is about]
    #[arg(long, value_enum, hide_default_value = true)]
    kind: Option<KindArg>,
    #[command(flatten)]
    json: JsonArgs,
}

/// `--kind`.
#[derive(Clone, Copy, ValueEnum)]
enum KindArg {
    /// Threads of one process
    Threads,
    /// Processes of one thread each
    Processes,
    /// MPI ranks
    Ranks,
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Threads => Kind::Threads,
            KindArg::Processes => Kind::Processes,
            KindArg::Ranks => Kind::Ranks,
        }
    }
}

/// Files of other tools, and our own rooms' records.
fn formats() -> Vec<&'static Format> {
    FORMATS
        .iter()
        .chain([&crate::recording::FORMAT, &cohabit_observe::mpi::FORMAT, &cohabit_online::perf_script::FORMAT])
        .collect()
}

impl Import {
    /// Reads the file and writes the profile.
    pub fn run(self) -> Outcome {
        check_writable(&self.output)?;
        self.json.check()?;
        let mut profile =
            progress::during("reading the file", || import(&formats(), &self.file, self.format.as_deref()))?;
        if let Some(kind) = self.kind {
            profile = relabelled(profile, kind.into()).map_err(|error| error.at(self.file.display()))?;
        }
        profile.meta.arguments = given();
        write_profile(&self.output, &profile)?;
        let (tasks, messages, bytes) = (profile.tasks(), profile.messages.total(), profile.bytes.total());
        let noun = if tasks == 1 { "task" } else { "tasks" };
        let text = format!("{}: {tasks} {noun}, {messages} messages, {bytes} bytes\n", self.output.display());
        let fields = json!({
            "profile": name_of(&self.output), "tasks": tasks, "messages": number::sum(messages), "bytes": number::sum(bytes),
            "detector": profile.meta.detector,
        });
        self.json.emit("import", fields, &text)?;
        Ok(End::Done)
    }
}

fn format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(formats().into_iter().map(|format| PossibleValue::new(format.name).help(format.about)))
}
