//! Reading a recording: what it says of itself at once, steps as they are wanted.

use super::mappings::{Change, Objects, read_changes};
use super::order::ForcedOrder;
use super::outline;
use super::steps::{FileSteps, IMAGE_SHIFT};
use super::{FORMAT, META, Meta, MpiCode, Task, mappings_member, segments_member};
use crate::flow::Flow;
use crate::looks::Looks;
use crate::polls::Polls;
use crate::segment::{FIRST_FORMAT_WITH_CODE, Owner, Segment, read_segments};
use crate::{Dependences, Outline, Recording, Steps, TaskInfo};
use cohabit_model::{Error, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use zip::ZipArchive;

/// What a member may say its length is before it is read: segments of a very large program.
const LONGEST_BYTES: u64 = 1 << 30;
/// Bytes of memory of each channel (native/recording_abi.h); a test compares the two.
pub const CHANNEL_BYTES: u64 = 128 << 20;
/// More than pipes and sockets there can be at a time, however many have come and gone.
const MOST_CHANNELS: u64 = 1 << 32;

/// A file that several readers read, each from where it is.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    file: Arc<File>,
    at: u64,
    length: u64,
}

impl Read for Shared {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buffer, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

impl Seek for Shared {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = target.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

/// A recording in a file.
#[derive(Debug)]
pub struct RecordingFile {
    pub(super) name: PathBuf,
    pub(super) meta: Meta,
    pub(super) segments: Vec<Vec<Segment>>,
    /// Of each image.
    pub(super) changes: Vec<Vec<Change>>,
    pub(super) objects: Objects,
    /// Image and thread by the thread's number in the run.
    pub(super) in_run: HashMap<u64, (usize, usize)>,
    tasks: Vec<TaskInfo>,
    archive: ZipArchive<Shared>,
    /// Of each image's segments, where they were asked for.
    flows: OnceLock<Vec<Vec<Flow>>>,
}

impl RecordingFile {
    /// Opens a recording.
    ///
    /// # Errors
    /// It cannot be read, is no recording, damaged, or of a newer format.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| cohabit_model::file::cannot_read(path, &error))?;
        let length = file.metadata()?.len();
        let no_recording = |error: &dyn std::fmt::Display| {
            Error::new(format!("{}: no recording: {error}", path.display()))
                .remedy("record one with `cohabit record -o FILE -- COMMAND`; a copy must be whole")
        };
        let shared = Shared { file: Arc::new(file), at: 0, length };
        let mut archive = ZipArchive::new(shared).map_err(|error| no_recording(&error))?;
        let meta = member(&mut archive, META).map_err(|error| no_recording(&error.cause))?;
        check_format(&meta, path)?;
        let meta: Meta = serde_json::from_slice(&meta).map_err(|error| no_recording(&format!("{META}: {error}")))?;
        let in_file = |error: Error| Error { cause: format!("{}: {}", path.display(), error.cause), ..error };
        check(&meta).map_err(in_file)?;
        let mut segments = Vec::new();
        for (number, image) in meta.images.iter().enumerate() {
            let bytes = member(&mut archive, &segments_member(number)).map_err(in_file)?;
            let mut read = read_segments(&bytes, meta.format).map_err(in_file)?;
            if let Some(mpi) = &image.mpi {
                read.iter_mut().for_each(|segment| segment.owner = owner(mpi, segment.pc));
            }
            segments.push(read);
        }
        let mut changes = Vec::new();
        for (number, image) in meta.images.iter().enumerate() {
            let some = image.mappings > 0;
            let bytes =
                if some { member(&mut archive, &mappings_member(number)).map_err(in_file)? } else { Vec::new() };
            changes.push(read_changes(&bytes).map_err(in_file)?);
        }
        let above = (meta.images.len() as u64) << IMAGE_SHIFT;
        let objects = Objects::place(changes.iter().flatten(), above).map_err(in_file)?;
        let tasks = infos(&meta);
        let in_run = in_run(&meta);
        Ok(Self {
            name: path.to_owned(),
            meta,
            segments,
            changes,
            objects,
            in_run,
            tasks,
            archive,
            flows: OnceLock::new(),
        })
    }

    /// What the recording says of itself.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Whether its waits for data are those that the program forces, by words; else they are by blocks, as the recorder
    /// keeps them.
    pub fn is_by_words(&self) -> bool {
        ForcedOrder::is_in(self)
    }

    /// Whether it has the code that ran, by which it is known which instructions wait for which. Recordings of formats 1
    /// to 4 have none.
    pub fn has_code(&self) -> bool {
        self.meta.format >= FIRST_FORMAT_WITH_CODE
    }

    /// What the instructions of each image's segments need.
    pub(super) fn flows(&self) -> &[Vec<Flow>] {
        let of_image = |segments: &Vec<Segment>| segments.iter().map(Flow::of).collect();
        self.flows.get_or_init(|| self.segments.iter().map(of_image).collect())
    }

    /// Memory that processes share, each piece of it by its addresses in the recording, with the address of the piece's
    /// first byte (which may not have been mapped).
    pub fn shared_memory(&self) -> impl Iterator<Item = (u64, Range<u64>)> + '_ {
        self.objects.ranges()
    }

    /// The memory in which what goes through pipes and sockets lies meanwhile: that of each direction of each, by its
    /// addresses in the recording.
    pub fn channels(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        (0..self.meta.channels).filter_map(|channel| {
            let start = self.channel_address(channel, 0, CHANNEL_BYTES)?;
            Some(start..start + CHANNEL_BYTES)
        })
    }

    /// The address of bytes of a channel's memory; none where there is no such channel, or not so many bytes.
    pub(super) fn channel_address(&self, channel: u64, start: u64, bytes: u64) -> Option<u64> {
        let within = channel < self.meta.channels && start.checked_add(bytes)? <= CHANNEL_BYTES;
        within.then(|| self.objects.end() + channel * CHANNEL_BYTES + start)
    }

    /// What steps go through before they are read.
    pub(super) fn stages(&self) -> Looks<Polls> {
        Looks::new(Polls::new(), (self.meta.images.len() as u64) << IMAGE_SHIFT)
    }

    /// Whether the file has such a member.
    pub(super) fn has(&self, name: &str) -> bool {
        self.archive.index_for_name(name).is_some()
    }

    /// One member of the file.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>> {
        member(&mut self.archive.clone(), name)
            .map_err(|error| Error { cause: format!("{}: {}", self.name.display(), error.cause), ..error })
    }
}

fn member(archive: &mut ZipArchive<Shared>, name: &str) -> Result<Vec<u8>> {
    let damaged = |error: &dyn std::fmt::Display| Error::new(format!("{name}: {error}")).remedy("record it again");
    let mut found = archive.by_name(name).map_err(|error| damaged(&error))?;
    let length = found.size();
    if length > LONGEST_BYTES {
        return Err(damaged(&format!("{length} bytes, more than a recording has there")));
    }
    let mut bytes = Vec::new();
    // The checksum is compared where the end is read, which lies behind the last byte.
    found.by_ref().take(length + 1).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(damaged(&"another length than it says")),
    }
}

/// Of a newer format nothing else is understood.
fn check_format(meta: &[u8], path: &Path) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Version {
        format: u64,
    }
    match serde_json::from_slice::<Version>(meta) {
        Ok(Version { format }) if format > FORMAT.into() => Err(Error::new(format!(
            "{}: a recording of format {format}; this cohabit knows formats up to {FORMAT}",
            path.display()
        ))
        .remedy("use the cohabit that wrote it, or a newer one")),
        _ => Ok(()),
    }
}

/// Every number that refers to something refers to something.
fn check(meta: &Meta) -> Result<()> {
    let damaged = |what: String| Err(Error::new(format!("damaged: {what}")).remedy("record it again"));
    if meta.channels > MOST_CHANNELS {
        return damaged(format!("{} channels, more than a run has", meta.channels));
    }
    let tasks = meta.tasks.len();
    for (number, image) in meta.images.iter().enumerate() {
        let threads = image.tasks.len();
        let in_run = [0, threads].contains(&image.in_run.len());
        if image.before.len() != threads || image.accesses.len() != threads || !in_run {
            return damaged(format!("image {number} has {threads} threads and other numbers of positions"));
        }
        if image.tasks.iter().flatten().any(|&task| task as usize >= tasks) {
            return damaged(format!("image {number} has a task that the recording has not"));
        }
    }
    for (number, task) in meta.tasks.iter().enumerate() {
        if task.pieces.iter().any(|piece| piece.image as usize >= meta.images.len()) {
            return damaged(format!("task {number} ran in an image that the recording has not"));
        }
        if task.start.is_some_and(|start| start.task as usize >= tasks) {
            return damaged(format!("task {number} was started by one that the recording has not"));
        }
    }
    Ok(())
}

fn in_run(meta: &Meta) -> HashMap<u64, (usize, usize)> {
    let of_image = |(at, image): (usize, &super::Image)| {
        let numbers = image.in_run.iter().enumerate();
        let known = numbers.filter_map(move |(thread, number)| Some((number.checked_sub(1)?.into(), (at, thread))));
        known.collect::<Vec<_>>()
    };
    meta.images.iter().enumerate().flat_map(of_image).collect()
}

fn infos(meta: &Meta) -> Vec<TaskInfo> {
    let mut made = vec![0u64; meta.tasks.len()];
    for (task, &accesses) in meta.images.iter().flat_map(|image| image.tasks.iter().zip(&image.accesses)) {
        let Some(task) = *task else { continue };
        made[task as usize] = made[task as usize].saturating_add(accesses);
    }
    let info = |(task, accesses): (&Task, u64)| TaskInfo {
        name: task.name.clone(),
        process: task.process,
        accesses: Some(accesses),
    };
    meta.tasks.iter().zip(made).map(info).collect()
}

impl Recording for RecordingFile {
    fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    fn steps(&self, task: u32) -> Result<Box<dyn Steps + '_>> {
        let forced = ForcedOrder::of(self, task)?;
        Ok(Box::new(FileSteps::new(self, task, forced, self.stages())))
    }

    fn steps_with(&self, task: u32, core: Dependences) -> Result<Box<dyn Steps + '_>> {
        let forced = ForcedOrder::of(self, task)?;
        let steps = FileSteps::new(self, task, forced, self.stages());
        Ok(Box::new(if self.has_code() { steps.with(core) } else { steps }))
    }

    fn outline(&self) -> Result<Option<Outline>> {
        outline::read(self)
    }
}

/// Whose code begins at `pc`.
fn owner(mpi: &MpiCode, pc: u64) -> Owner {
    let within = |ranges: &[(u64, u64)]| ranges.iter().any(|&(start, end)| (start..end).contains(&pc));
    match () {
        () if mpi.progress.contains(&pc) => Owner::Progress,
        () if within(&mpi.own) => Owner::Mpi,
        () if within(&mpi.common) => Owner::Common,
        () => Owner::Program,
    }
}
