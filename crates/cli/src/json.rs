//! `--json FILE`: what a command found, for programs. Every document has `"format": 1`; docs/json.md describes them,
//! and docs/schema.json for programs.

#[cfg(debug_assertions)]
mod schema;

use crate::output;
use cohabit_model::file::{self, check_writable};
use cohabit_model::{Error, Result};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The format number in every document.
const FORMAT: u64 = 1;

/// `--json`, for commands that run no program: standard output is theirs.
#[derive(clap::Args, Debug)]
pub struct JsonArgs {
    /// Write the result as JSON to FILE; `-` is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// `--json`, for commands that run a program: standard output is the program's.
#[derive(clap::Args, Debug)]
pub struct JsonFileArgs {
    /// Write what cohabit found as JSON to FILE
    #[arg(long, value_name = "FILE", value_parser = json_file)]
    json: Option<PathBuf>,
}

/// A document of one command: the format, the command and the command's own fields.
#[derive(Serialize)]
struct Document<'a, T> {
    format: u64,
    command: &'a str,
    #[serde(flatten)]
    fields: T,
}

impl JsonArgs {
    /// As if it were not given.
    #[cfg(test)]
    pub fn none() -> Self {
        Self { json: None }
    }

    /// Whether the document goes to standard output, and so the text for people does not.
    pub fn takes_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Whether a document is asked for.
    pub fn is_asked(&self) -> bool {
        self.json.is_some()
    }

    /// Makes sure that the document can be written before there is anything to write.
    ///
    /// # Errors
    /// Where it could not.
    pub fn check(&self) -> Result<()> {
        self.json.as_deref().filter(|_| !self.takes_stdout()).map_or(Ok(()), check_writable)
    }

    /// Prints `text`, and writes the document where it was asked for.
    ///
    /// # Errors
    /// Where either cannot be written.
    pub fn emit(&self, command: &str, fields: impl Serialize, text: &str) -> Result<()> {
        if self.takes_stdout() {
            return output::print(&document(command, fields)?);
        }
        if let Some(path) = &self.json {
            write_text(path, &document(command, fields)?)?;
        }
        output::print(text)
    }
}

impl JsonFileArgs {
    /// Names another file for the one that was asked for.
    pub fn rename(&mut self, rename: impl Fn(&Path) -> PathBuf) {
        self.json = self.json.as_deref().map(rename);
    }

    /// Makes sure that the document can be written before the program runs.
    ///
    /// # Errors
    /// Where it could not.
    pub fn check(&self) -> Result<()> {
        self.json.as_deref().map_or(Ok(()), check_writable)
    }

    /// Writes the document where it was asked for.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn emit(&self, command: &str, fields: impl Serialize) -> Result<()> {
        match &self.json {
            Some(path) => write_text(path, &document(command, fields)?),
            None => Ok(()),
        }
    }
}

fn json_file(text: &str) -> std::result::Result<PathBuf, String> {
    match text {
        "-" => Err("standard output belongs to the program that runs: name a file".to_owned()),
        file => Ok(PathBuf::from(file)),
    }
}

fn document(command: &str, fields: impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(&Document { format: FORMAT, command, fields });
    #[cfg(debug_assertions)]
    text.iter().for_each(|text| schema::assert_fits(text));
    text.map(|text| text + "\n").map_err(|error| Error::new(format!("cannot write JSON: {error}")))
}

/// Writes a text file whole or not at all.
///
/// # Errors
/// The path with the system's reason.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    file::write_whole(path, text.as_bytes())
}

/// The name of a file as JSON has it: what is no UTF-8 in it is replaced, where serde would panic.
pub fn name_of(path: &Path) -> Value {
    Value::String(path.to_string_lossy().into_owned())
}
