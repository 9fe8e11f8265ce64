//! Documents that cohabit wrote by `--json`, read back to be drawn: what is drawn of them, and no more.

pub mod detectors;
pub mod run;
pub mod simulation;

use cohabit_model::{Error, Result, file};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

/// The format number of documents.
const FORMAT: u64 = 1;
/// No document is longer.
const LONGEST_BYTES: u64 = 1 << 30;

/// Reads the document of one of these commands.
///
/// # Errors
/// Where it is none, or is damaged: with the command that writes it.
fn read<T: DeserializeOwned>(path: &Path, commands: &[&str]) -> Result<T> {
    // What is no text at all is no such document either.
    let text = file::read_text(path, LONGEST_BYTES)
        .map_err(|error| if error.remedy.is_none() { error.remedy(remedy(commands)) } else { error })?;
    parse(&text, commands).map_err(|error| error.at(path.display()))
}

fn remedy(commands: &[&str]) -> String {
    format!("give the file that 'cohabit {} --json FILE' wrote", commands[0])
}

fn parse<T: DeserializeOwned>(text: &str, commands: &[&str]) -> Result<T> {
    let not_one = |cause: String| Error::new(cause).remedy(remedy(commands));
    let document: Value = serde_json::from_str(text).map_err(|error| not_one(format!("no JSON document: {error}")))?;
    let command = document["command"].as_str().unwrap_or_default().to_owned();
    if !commands.contains(&command.as_str()) {
        let what = if command.is_empty() { "of no command".to_owned() } else { format!("of 'cohabit {command}'") };
        return Err(not_one(format!("a document {what}, not of 'cohabit {}'", commands[0])));
    }
    if document["format"].as_u64() != Some(FORMAT) {
        return Err(not_one(format!("a document in format {}, this is for {FORMAT}", document["format"])));
    }
    serde_json::from_value(document).map_err(|error| not_one(format!("a damaged document: {error}")))
}
