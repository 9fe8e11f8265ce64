//! `cohabit record`: what each task of a program does to memory, for the simulator and for detectors.

use super::Outcome;
use crate::exit::{End, Failure};
use crate::json::JsonFileArgs;
use crate::output::{note, print};
use crate::recording::{self, Region};
use cohabit_access::file::RecordingFile;
use cohabit_access::{Recording, check};
use cohabit_model::Error;
use cohabit_model::file::check_writable;
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  cohabit record -o r.rec -- ./solver input   every load and store, task by task
  cohabit record --roi -o r.rec -- ./solver   only between markers (cohabit.h)
  cohabit record -o r.rec -- mpirun -n 4 CMD  every rank on this node
  cohabit record --roi=mpi -o r.rec -- mpirun -n 4 CMD
      what the ranks do between MPI_Init and MPI_Finalize
  cohabit record --check r.rec                whether a recording is sound

What is kept is each task's own sequence, and the order among tasks that the
program forces: who reads what another wrote, who waits for whose end. The
simulator (`cohabit simulate`) then gives them another machine and other times.";

/// Arguments of `cohabit record`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Record {
    /// Write the recording to R
    #[arg(short, long, value_name = "R", required_unless_present = "check")]
    output: Option<PathBuf>,
    /// Bytes of memory in which what two tasks do is ordered: a power of two from 32 to 4096
    #[arg(long, value_name = "N", default_value = "64", value_parser = block_bytes)]
    block: u32,
    /// Record only a region: between the markers in the program (cohabit_roi_begin and _end in cohabit.h), or, with
    /// =mpi, from where MPI_Init returns to where MPI_Finalize is called
    #[arg(long, value_name = "REGION", num_args = 0..=1, require_equals = true, default_missing_value = "markers")]
    roi: Option<Region>,
    /// Read a recording and say whether it is sound, and what it holds
    #[arg(long, value_name = "R", conflicts_with_all = ["output", "roi", "command"])]
    check: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFileArgs,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "check", value_name = "CMD")]
    command: Vec<OsString>,
}

impl Record {
    /// Records the program and ends as it ended, or checks a recording.
    pub fn run(self) -> Outcome {
        self.json.check()?;
        match (&self.check, &self.output) {
            (Some(recording), _) => self.check(recording),
            (None, Some(output)) => self.record(output),
            (None, None) => Err(Failure::usage(Error::new("no file to record to").remedy("name one with -o"))),
        }
    }

    fn record(&self, output: &PathBuf) -> Outcome {
        check_writable(output)?;
        let outcome = recording::record(&self.command, output, self.block, self.roi)?;
        for line in &outcome.notes {
            note(line);
        }
        let bytes = std::fs::metadata(output).map_or(0, |file| file.len());
        let recorded = RecordingFile::open(output)?;
        let tasks = recorded.tasks().len();
        for line in recorded.meta().not_seen.iter().filter(|line| !outcome.notes.contains(line)) {
            note(&format!("not seen: {line}"));
        }
        note(&format!(
            "{tasks} {}, {} accesses in {} bytes: {}",
            if tasks == 1 { "task" } else { "tasks" },
            outcome.recorded_accesses,
            bytes,
            output.display()
        ));
        let unsound = outcome.status.signal().and_then(|_| recording::unsound(output));
        if let Some(why) = &unsound {
            note(&format!(
                "the signal came between accesses that belong together, so nothing can be done with it: {why}"
            ));
        }
        self.json.emit(
            "record",
            json!({
                "recording": output, "tasks": tasks, "accesses": outcome.recorded_accesses, "bytes": bytes,
                "status": super::profile::status_fields(outcome.status), "notes": outcome.notes, "unsound": unsound,
            }),
        )?;
        Ok(End::of(outcome.status))
    }

    fn check(&self, path: &PathBuf) -> Outcome {
        let recording = RecordingFile::open(path)?;
        let found = check::check(&recording)?;
        let lost = recording.meta().events_lost;
        let mut lines = String::new();
        for (task, (info, sums)) in recording.tasks().iter().zip(&found.tasks).enumerate() {
            lines += &format!(
                "{task:>4} {:<16} {:>14} instructions {:>14} accesses {:>12} polls {:>10} waits\n",
                info.name, sums.instructions, sums.accesses, sums.polls, sums.waits,
            );
        }
        print(&lines)?;
        if lost > 0 {
            let (events, them) = if lost == 1 { ("event is", "it") } else { ("events are", "them") };
            note(&format!("{lost} {events} missing: there was no room for {them}"));
        }
        recording.meta().not_seen.iter().for_each(|line| note(&format!("not seen: {line}")));
        self.json.emit("record-check", json!({ "recording": path, "tasks": found.tasks, "events_lost": lost }))?;
        Ok(End::Done)
    }
}

/// Two tables of eight bytes a block have to fit into the address space.
fn block_bytes(text: &str) -> Result<u32, String> {
    let bytes = super::profile::block_bytes(text).ok().filter(|&bytes| bytes >= 32);
    bytes.ok_or_else(|| "write a power of two from 32 to 4096".to_owned())
}
