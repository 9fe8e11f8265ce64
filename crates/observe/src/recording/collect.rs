//! Makes one recording of what the client left of each program image.

use super::abi;
use super::image::{ImageFile, Kind};
use super::kept::Kept;
use super::mpi_code::Known;
use crate::dbi::cut_short;
use crate::dbi::image::Image as PartImage;
use crate::dbi::part::text;
use crate::dbi::tasks::{Tasks, identify};
use cohabit_access::file::{FORMAT, Image, Meta, Piece, Start, Task, Writer};
use cohabit_model::Result;
use std::io::{Seek, Write};
use std::path::Path;

/// What a recording is made of.
pub(crate) struct Parts<'a> {
    /// The images of the run, by when they began.
    pub images: &'a [PartImage],
    /// Where the client left its files.
    pub directory: &'a Path,
    pub command: Vec<String>,
    pub host: &'a str,
    /// What is not as in the run.
    pub not_seen: Vec<String>,
    /// Only ranks are to be in it, where a launcher has started some.
    pub ranks: bool,
}

/// Writes the recording to `to`, and says how many accesses it has.
pub(crate) fn collect<W: Write + Seek>(parts: &Parts, to: W) -> Result<(W, u64)> {
    let found = identify(parts.images, parts.host);
    let mut files = Vec::new();
    for image in parts.images {
        let name = format!("{:016x}-{}.recording", image.head.start_ticks, image.head.pid);
        files.push(ImageFile::open(&parts.directory.join(name), image.tasks.len())?);
    }
    let ranks: Vec<_> = files.iter().map(|file| file.rank).collect();
    let ranks = parts.ranks.then(|| Kept::ranks(&found, parts.images, &ranks)).flatten();
    let kept = ranks.unwrap_or_else(|| Kept::all(&found));
    let mut meta = describe(parts, &found, &kept, &files);
    let mut writer = Writer::new(to);
    let mut stretches = vec![0; meta.tasks.len()];
    for (at, file) in files.iter().enumerate() {
        write_image(at, file, &mut writer, &mut stretches, &mut meta)?;
    }
    let made = meta.images.iter().flat_map(|image| image.tasks.iter().zip(&image.accesses));
    let accesses = made.filter(|(task, _)| task.is_some()).fold(0, |sum: u64, (_, made)| sum.saturating_add(*made));
    Ok((writer.finish(&meta)?, accesses))
}

/// Of what a process has done last a part lies in its own memory.
const LEFT_OF_CUT_SHORT: &str = "what it did last is missing, and all of it if that was little";

const _: () = assert!(cohabit_access::file::CHANNEL_BYTES == abi::COHABIT_CHANNEL_BYTES);

fn describe(parts: &Parts, found: &Tasks, kept: &Kept, files: &[ImageFile]) -> Meta {
    let tasks = kept.tasks.iter().map(|entry| Task {
        name: entry.name.clone(),
        process: entry.process,
        tid: found.tasks[entry.id as usize].tid,
        pieces: Vec::new(),
        start: None,
    });
    let mut meta = Meta {
        format: FORMAT,
        command: parts.command.clone(),
        host: parts.host.to_owned(),
        images: Vec::new(),
        tasks: tasks.collect(),
        events_lost: 0,
        not_seen: [&parts.not_seen[..], &cut_short(parts.images, found, LEFT_OF_CUT_SHORT)].concat(),
        channels: files.iter().map(|file| file.channels).max().unwrap_or(0),
    };
    let mut made = vec![0u64; meta.tasks.len()];
    let mut known = Known::default();
    for ((image, file), ids) in parts.images.iter().zip(files).zip(&found.ids) {
        let tasks: Vec<Option<u32>> = ids.iter().map(|&id| kept.number(id)).collect();
        if tasks.iter().any(Option::is_some) {
            meta.events_lost = meta.events_lost.saturating_add(file.lost);
        }
        let before = tasks.iter().map(|task| task.map_or(0, |task| made[task as usize])).collect();
        for (&task, thread) in tasks.iter().zip(&file.threads) {
            let Some(task) = task else { continue };
            made[task as usize] = made[task as usize].saturating_add(thread.accesses);
        }
        meta.images.push(Image {
            program: text(&image.head.program),
            pid: image.head.pid,
            tasks,
            before,
            accesses: file.threads.iter().map(|thread| thread.accesses).collect(),
            segments: file.segments,
            number: file.number,
            in_run: image.tasks.iter().map(|task| task.common.map_or(0, |number| number + 1)).collect(),
            mappings: 0,
            mpi: known.mpi_code(&image.modules),
        });
    }
    starts(&mut meta, files);
    meta
}

/// Who started each task: threads by what their image says, the first thread of a process by who forked it.
fn starts(meta: &mut Meta, files: &[ImageFile]) {
    for (at, file) in files.iter().enumerate() {
        let begun = |meta: &Meta, thread: usize, position: u64| {
            let image = &meta.images[at];
            let task = (*image.tasks.get(thread)?)?;
            Some(Start { task, position: position.saturating_add(image.before[thread]) })
        };
        for (number, thread) in file.threads.iter().enumerate() {
            let Some((parent, position)) = thread.parent else { continue };
            let start = begun(meta, parent as usize, position);
            set_start(meta, meta.images[at].tasks[number], start);
        }
        for fork in &file.forks {
            let child = (at + 1..files.len()).find(|&later| meta.images[later].pid == fork.pid);
            let Some(child) = child else { continue };
            let start = begun(meta, fork.thread as usize, fork.position);
            set_start(meta, meta.images[child].tasks.first().copied().flatten(), start);
        }
    }
}

fn set_start(meta: &mut Meta, task: Option<u32>, start: Option<Start>) {
    let (Some(task), Some(start)) = (task, start) else { return };
    if start.task != task && meta.tasks[task as usize].start.is_none() {
        meta.tasks[task as usize].start = Some(start);
    }
}

fn write_image<W: Write + Seek>(
    at: usize,
    file: &ImageFile,
    writer: &mut Writer<W>,
    stretches: &mut [u64],
    meta: &mut Meta,
) -> Result<()> {
    let kinds = file.kinds()?;
    let mut of_threads = vec![Vec::new(); file.threads.len()];
    let (mut definitions, mut changes) = (Vec::new(), Vec::new());
    for (number, kind) in kinds.iter().enumerate() {
        match *kind {
            None => {}
            Some(Kind::Definitions) => definitions.push(file.content(number)?),
            Some(Kind::Mappings) => changes.push(file.content(number)?),
            Some(Kind::Steps { thread, restart }) => of_threads[thread as usize].push((number, restart)),
        }
    }
    writer.segments(at, &definitions.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    meta.images[at].mappings =
        changes.iter().map(|some| some.len() / size_of::<abi::cohabit_mapping_t>()).sum::<usize>() as u64;
    if meta.images[at].mappings > 0 {
        writer.mappings(at, &changes.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    }
    for (thread, chunks) in of_threads.iter().enumerate() {
        let Some(id) = meta.images[at].tasks[thread] else { continue };
        let id = id as usize;
        let mut count = 0;
        let mut rest = &chunks[..];
        while let Some((first, others)) = rest.split_first() {
            let more = others.iter().take_while(|(_, restart)| !restart).count();
            let content = std::iter::once(first).chain(&others[..more]).map(|&(number, _)| file.content(number));
            let content = content.collect::<Result<Vec<_>>>()?;
            let slices: Vec<&[u8]> = content.iter().map(Vec::as_slice).collect();
            writer.steps(id as u32, stretches[id], &slices)?;
            stretches[id] += 1;
            count += 1;
            rest = &others[more..];
        }
        if count > 0 {
            meta.tasks[id].pieces.push(Piece { image: at as u32, stretches: count });
        }
    }
    Ok(())
}
