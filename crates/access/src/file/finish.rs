//! What is found out of a recording when the program has ended, and kept with it: the order that the program forces
//! ([`crate::forced`]), and of a long run the outline ([`crate::outline`]).

use super::order::{self, ForcedOrder};
use super::outline::{self, OUTLINE};
use super::steps::FileSteps;
use super::{RecordingFile, order_member};
use crate::forced::forced_waits;
use crate::outline::{INTERVALS, Outline};
use crate::polls::Polls;
use crate::stage::AsDecoded;
use crate::{Recording, Steps, TaskInfo};
use cohabit_model::{Error, Result};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Of a run of fewer accesses no outline is kept: all of it is simulated in a minute or two, and who wants a sample all
/// the same can have it made then.
const LEAST_OUTLINED: u64 = 1 << 29;

/// Finds out which waits of a recording the program forces, and writes the recording with these to `to`; of a long run
/// its outline as well. The recorder's blocks must not be larger than 64 bytes: in larger ones a task may read what
/// orders it without a wait of its own.
///
/// False where the recording is not sound: then nothing is written.
///
/// # Errors
/// It cannot be read or written.
pub fn with_order_and_outline(path: &Path, to: &Path) -> Result<bool> {
    let recording = RecordingFile::open(path)?;
    let Ok(waits) = forced_waits(&WithPolls(&recording), &AsRecorded(&recording)) else { return Ok(false) };
    let orders: Vec<Vec<u8>> = waits.iter().map(|waits| order::coded(waits)).collect();
    drop(waits);
    let accesses: u64 = recording.tasks().iter().filter_map(|task| task.accesses).sum();
    let outline = match accesses >= LEAST_OUTLINED {
        true => Outline::of(&Ordered(&recording, &orders), INTERVALS).ok(),
        false => None,
    };
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(format!("the recording cannot be written: {error}"))
            .remedy("make room, or write it elsewhere with -o")
    };
    std::fs::copy(path, to).map_err(|error| failed(&error))?;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(to)?;
    let mut writer = ZipWriter::new_append(file).map_err(|error| failed(&error))?;
    let orders = (0..).zip(orders).map(|(task, order)| (order_member(task), order));
    for (name, bytes) in orders.chain(outline.map(|found| (OUTLINE.to_owned(), outline::coded(&found)))) {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        writer.start_file(name, options).map_err(|error| failed(&error))?;
        std::io::Write::write_all(&mut writer, &bytes)?;
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

/// As it will be read, with the waits that were found.
struct Ordered<'a>(&'a RecordingFile, &'a [Vec<u8>]);

impl Recording for Ordered<'_> {
    fn tasks(&self) -> &[TaskInfo] {
        self.0.tasks()
    }

    fn steps(&self, task: u32) -> Result<Box<dyn Steps + '_>> {
        let order = ForcedOrder::new(self.1[task as usize].clone(), self.1.len())?;
        Ok(Box::new(FileSteps::new(self.0, task, Some(order), self.0.stages())))
    }
}
