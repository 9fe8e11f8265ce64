//! Makes one recording of what the client left of each program image.

use super::image::{ImageFile, Kind};
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
}

/// Writes the recording to `to`, and says how many accesses it has.
pub(crate) fn collect<W: Write + Seek>(parts: &Parts, to: W) -> Result<(W, u64)> {
    let found = identify(parts.images, parts.host);
    let mut files = Vec::new();
    for image in parts.images {
        let name = format!("{:016x}-{}.recording", image.head.start_ticks, image.head.pid);
        files.push(ImageFile::open(&parts.directory.join(name), image.tasks.len())?);
    }
    let mut meta = describe(parts, &found, &files);
    let mut writer = Writer::new(to);
    let mut stretches = vec![0; meta.tasks.len()];
    for (at, file) in files.iter().enumerate() {
        write_image(at, file, &found.ids[at], &mut writer, &mut stretches, &mut meta)?;
    }
    let accesses = meta.images.iter().flat_map(|image| &image.accesses).fold(0, |sum: u64, n| sum.saturating_add(*n));
    Ok((writer.finish(&meta)?, accesses))
}

fn describe(parts: &Parts, found: &Tasks, files: &[ImageFile]) -> Meta {
    let tasks = found.tasks.iter().map(|task| Task {
        name: task.name.clone(),
        process: task.process,
        tid: task.tid,
        pieces: Vec::new(),
        start: None,
    });
    let mut meta = Meta {
        format: FORMAT,
        command: parts.command.clone(),
        host: parts.host.to_owned(),
        images: Vec::new(),
        tasks: tasks.collect(),
        events_lost: files.iter().map(|file| file.lost).sum(),
        not_seen: parts.not_seen.clone(),
    };
    let mut made = vec![0u64; meta.tasks.len()];
    for ((image, file), ids) in parts.images.iter().zip(files).zip(&found.ids) {
        let before: Vec<u64> = ids.iter().map(|&id| made[id as usize]).collect();
        for (&id, thread) in ids.iter().zip(&file.threads) {
            made[id as usize] = made[id as usize].saturating_add(thread.accesses);
        }
        meta.images.push(Image {
            program: text(&image.head.program),
            pid: image.head.pid,
            tasks: ids.clone(),
            before,
            accesses: file.threads.iter().map(|thread| thread.accesses).collect(),
            segments: file.segments,
        });
    }
    starts(&mut meta, found, files);
    meta
}

/// Who started each task: threads by what their image says, the first thread of a process by who forked it.
fn starts(meta: &mut Meta, found: &Tasks, files: &[ImageFile]) {
    for (at, (file, ids)) in files.iter().zip(&found.ids).enumerate() {
        for (thread, &id) in file.threads.iter().zip(ids) {
            let Some((parent, position)) = thread.parent else { continue };
            let start =
                Start { task: ids[parent as usize], position: position + meta.images[at].before[parent as usize] };
            set_start(meta, id, start);
        }
        for fork in &file.forks {
            let child = (at + 1..files.len()).find(|&later| meta.images[later].pid == fork.pid);
            let (Some(child), Some(&parent)) = (child, ids.get(fork.thread as usize)) else { continue };
            let position = fork.position + meta.images[at].before[fork.thread as usize];
            if let Some(&first) = found.ids[child].first() {
                set_start(meta, first, Start { task: parent, position });
            }
        }
    }
}

fn set_start(meta: &mut Meta, task: u32, start: Start) {
    if start.task != task && meta.tasks[task as usize].start.is_none() {
        meta.tasks[task as usize].start = Some(start);
    }
}

fn write_image<W: Write + Seek>(
    at: usize,
    file: &ImageFile,
    ids: &[u32],
    writer: &mut Writer<W>,
    stretches: &mut [u64],
    meta: &mut Meta,
) -> Result<()> {
    let kinds = file.kinds()?;
    let mut of_threads = vec![Vec::new(); ids.len()];
    let mut definitions = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        match *kind {
            None => {}
            Some(Kind::Definitions) => definitions.push(file.content(number)?),
            Some(Kind::Steps { thread, restart }) => of_threads[thread as usize].push((number, restart)),
        }
    }
    writer.segments(at, &definitions.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    for (thread, chunks) in of_threads.iter().enumerate() {
        let id = ids[thread] as usize;
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
