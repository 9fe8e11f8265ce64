//! What a recording has of the order that the program forces: of each task's waits for data and for atomic accesses
//! which stay, and for what ([`crate::forced`]).

use super::steps::FileSteps;
use super::{RecordingFile, order_member};
use crate::coding::Bytes;
use crate::forced::{Decision, decide};
use crate::polls::Polls;
use crate::stage::AsDecoded;
use crate::{Reason, Recording, Steps, TaskInfo};
use cohabit_model::{Error, Result};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const KEEP: u64 = 0;
/// The first format that decides of waits for atomic accesses.
const DECIDES_OF_ATOMICS: u32 = 4;

/// Finds out which waits of a recording the program forces, and writes the recording with that to `to`. Whatever reads
/// it leaves the other waits out. The recorder's blocks must not be larger than 64 bytes: in larger ones a task may read
/// what orders it without a wait of its own.
///
/// False where the recording is not sound: then nothing is written.
///
/// # Errors
/// It cannot be read or written.
pub fn with_forced_order(path: &Path, to: &Path) -> Result<bool> {
    let recording = RecordingFile::open(path)?;
    let Ok(decisions) = decide(&WithPolls(&recording), &AsRecorded(&recording)) else { return Ok(false) };
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(format!("the recording cannot be written: {error}"))
            .remedy("make room, or write it elsewhere with -o")
    };
    std::fs::copy(path, to).map_err(|error| failed(&error))?;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(to)?;
    let mut writer = ZipWriter::new_append(file).map_err(|error| failed(&error))?;
    for (task, decisions) in (0..).zip(decisions) {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        writer.start_file(order_member(task), options).map_err(|error| failed(&error))?;
        std::io::Write::write_all(&mut writer, &coded(&decisions))?;
    }
    writer.finish().map_err(|error| failed(&error))?.sync_all().map_err(|error| failed(&error))?;
    Ok(true)
}

/// The steps as they were recorded, all waits among them.
struct AsRecorded<'a>(&'a RecordingFile);

impl Recording for AsRecorded<'_> {
    fn tasks(&self) -> &[TaskInfo] {
        self.0.tasks()
    }

    fn steps(&self, task: u32) -> Result<Box<dyn Steps + '_>> {
        Ok(Box::new(FileSteps::new(self.0, task, None, AsDecoded::default())))
    }
}

/// The same, polling told as such.
struct WithPolls<'a>(&'a RecordingFile);

impl Recording for WithPolls<'_> {
    fn tasks(&self) -> &[TaskInfo] {
        self.0.tasks()
    }

    fn steps(&self, task: u32) -> Result<Box<dyn Steps + '_>> {
        Ok(Box::new(FileSteps::new(self.0, task, None, Polls::new())))
    }
}

/// Of each wait one more than the number of waits that it is replaced by, and each of these; numbers as in steps.
fn coded(decisions: &[Decision]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |mut number: u64| {
        while number > 0x7f {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    };
    for decision in decisions {
        match decision {
            Decision::Keep => put(KEEP),
            Decision::Instead(writes) => {
                put(writes.len() as u64 + 1);
                writes.iter().for_each(|&(task, position)| {
                    put(task.into());
                    put(position);
                });
            }
        }
    }
    bytes
}

/// The decisions of a task's waits, in their order.
#[derive(Debug)]
pub(super) struct Decisions {
    bytes: Bytes,
    tasks: u32,
    /// Of waits for data alone.
    data_alone: bool,
}

impl Decisions {
    /// In a recording of `format` that has so many tasks.
    pub fn new(bytes: Vec<u8>, tasks: usize, format: u32) -> Self {
        let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
        Self { bytes: Bytes::new(bytes), tasks, data_alone: format < DECIDES_OF_ATOMICS }
    }

    /// Whether there is a decision of each wait for this reason.
    pub fn are_made_of(&self, reason: Reason) -> bool {
        Decision::is_made_of(reason) && !(self.data_alone && reason == Reason::Lock)
    }

    /// Of the next wait.
    pub fn next(&mut self) -> Result<Decision> {
        let count = self.number()?;
        if count == KEEP {
            return Ok(Decision::Keep);
        }
        let mut writes = Vec::new();
        for _ in 1..count {
            let task = u32::try_from(self.number()?).ok().filter(|&task| task < self.tasks);
            writes.push((task.ok_or_else(|| damaged("a wait for a task that it has not"))?, self.number()?));
        }
        Ok(Decision::Instead(writes))
    }

    fn number(&mut self) -> Result<u64> {
        self.bytes.number_or_end()?.ok_or_else(|| damaged("fewer waits than there are"))
    }
}

fn damaged(what: &str) -> Error {
    Error::new(format!("damaged: in the order that is forced: {what}")).remedy("record it again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_read_as_they_were_written() {
        let decisions = [
            Decision::Keep,
            Decision::Instead(Vec::new()),
            Decision::Instead(vec![(3, 1 << 40), (0, 127), (2, 128)]),
            Decision::Keep,
        ];
        let mut read = Decisions::new(coded(&decisions), 4, 4);
        for decision in &decisions {
            assert_eq!(&read.next().unwrap(), decision);
        }
        assert!(read.next().unwrap_err().cause.contains("fewer waits"));
        let mut other = Decisions::new(coded(&decisions[2..]), 3, 4);
        assert!(other.next().unwrap_err().cause.contains("has not"));
        let mut long = Decisions::new(vec![0xff; 12], 3, 4);
        assert!(long.next().unwrap_err().cause.contains("64 bits"));
    }

    #[test]
    fn older_recordings_decide_of_data_alone() {
        for (format, of_locks) in [(3, false), (4, true)] {
            let decisions = Decisions::new(Vec::new(), 1, format);
            assert!(decisions.are_made_of(Reason::Data) && !decisions.are_made_of(Reason::Message));
            assert_eq!(decisions.are_made_of(Reason::Lock), of_locks);
        }
    }
}
