//! The steps of one task, decoded from a recording's stretches.

use super::RecordingFile;
use super::mappings::Table;
use super::order::Decisions;
use super::steps_member;
use crate::coding::{Coded, Decoder};
use crate::forced::Decision;
use crate::looks::{Marked, MarkedSteps};
use crate::segment::{Owner, Segment};
use crate::{AccessKind, Reason, Step, StridedAccess};
use cohabit_model::{Error, Result};
use std::collections::VecDeque;
use std::io::Cursor;

/// Addresses of one image are below this (47 bits); those of different images are told apart above it.
pub(super) const IMAGE_SHIFT: u32 = 47;
/// What a large access moves with one instruction.
const LINE_BYTES: u32 = 64;
const PAGE_SHIFT: u32 = 12;

/// A segment that ran, held back: what lies within it comes after it in the stream.
#[derive(Debug)]
struct Held {
    number: u32,
    times: u64,
    addresses: Vec<(u64, i64)>,
    waits: Vec<(u64, Step)>,
    /// It waits for a task that is left out.
    moves: bool,
}

/// The steps of a task.
pub(super) struct FileSteps<'a> {
    file: &'a RecordingFile,
    task: u32,
    /// The piece under way, and the stretch of the task that comes next.
    piece: usize,
    stretch: u64,
    left_in_piece: u64,
    decoder: Option<Decoder<Cursor<Vec<u8>>>>,
    held: Option<Held>,
    ready: VecDeque<Marked>,
    /// It is in its MPI library.
    in_mpi: bool,
    /// What the image has mapped, as the task knows it.
    mapped: Table,
    code_page: Option<u64>,
    /// Of segments without accesses.
    instructions: u64,
    /// Which waits for data stay; none: all.
    decisions: Option<Decisions>,
}

impl<'a> FileSteps<'a> {
    pub(super) fn new(file: &'a RecordingFile, task: u32, decisions: Option<Decisions>) -> Self {
        let about = &file.meta.tasks[task as usize];
        let mut ready = VecDeque::new();
        if let Some(start) = about.start {
            let (task, position) = (start.task, start.position);
            ready.push_back(Marked::Step(Step::Wait { task, position, reason: Reason::Start, polled: None }));
        }
        let image = about.pieces.first().map_or(0, |piece| piece.image);
        let left_in_piece = about.pieces.first().map_or(0, |piece| piece.stretches);
        Self {
            file,
            task,
            piece: 0,
            stretch: 0,
            left_in_piece,
            decoder: None,
            held: None,
            ready,
            in_mpi: false,
            mapped: Table::new(own(image.into())),
            code_page: None,
            instructions: 0,
            decisions,
        }
    }

    fn image(&self) -> usize {
        self.file.meta.tasks[self.task as usize].pieces[self.piece].image as usize
    }

    fn address(&self, address: u64) -> u64 {
        self.mapped.address(address)
    }

    /// Opens the next stretch. False at the task's end.
    fn open_next(&mut self) -> Result<bool> {
        let pieces = &self.file.meta.tasks[self.task as usize].pieces;
        while self.left_in_piece == 0 {
            self.flush_held();
            if self.piece + 1 >= pieces.len() {
                return Ok(false);
            }
            self.piece += 1;
            self.left_in_piece = pieces[self.piece].stretches;
            self.code_page = None;
            self.mapped = Table::new(own(self.image() as u64));
        }
        let bytes = self.file.read(&steps_member(self.task, self.stretch))?;
        self.decoder = Some(Decoder::new(Cursor::new(bytes), self.file.segments[self.image()].len()));
        self.stretch += 1;
        self.left_in_piece -= 1;
        Ok(true)
    }

    /// Decodes until something is ready. False at the task's end.
    fn advance(&mut self) -> Result<bool> {
        let Some(decoder) = &mut self.decoder else {
            if self.open_next()? {
                return Ok(true);
            }
            self.flush_instructions();
            return Ok(!self.ready.is_empty());
        };
        let image = self.file.meta.tasks[self.task as usize].pieces[self.piece].image as usize;
        match decoder.next(&self.file.segments[image])? {
            None => self.decoder = None,
            Some(Coded::Segment { number, times }) => {
                let addresses = std::mem::take(&mut decoder.addresses);
                let before = self.held.replace(Held { number, times, addresses, waits: Vec::new(), moves: false });
                if let Some(before) = before {
                    let spare = self.tell(before);
                    if let Some(decoder) = &mut self.decoder {
                        decoder.addresses = spare;
                    }
                }
            }
            Some(Coded::Wait { order, in_run, task, position, kind }) => {
                self.wait(order, (in_run, task), position, kind)?;
            }
            Some(Coded::Mappings { order, version }) => {
                if order == 0 {
                    self.flush_held();
                }
                self.mapped.advance(&self.file.changes[image], version, &self.file.objects);
            }
            Some(other) => {
                self.flush_held();
                self.flush_instructions();
                self.event(&other)?;
            }
        }
        Ok(true)
    }

    fn wait(&mut self, order: u64, (in_run, number): (bool, u64), position: u64, kind: u64) -> Result<()> {
        let found = match in_run {
            true => self.file.in_run.get(&number).copied(),
            false => usize::try_from(number).ok().map(|number| (self.image(), number)),
        };
        let image = found.map(|(image, _)| &self.file.meta.images[image]);
        let (Some(image), Some((_, number))) =
            (image, found.filter(|(image, number)| *number < self.file.meta.images[*image].tasks.len()))
        else {
            return Err(self.damaged(&format!("a wait for thread {number}, which it has not")));
        };
        let reason = match position {
            _ if position >= image.accesses[number] => Reason::End,
            _ => match kind {
                0 => Reason::Data,
                1 => Reason::Lock,
                2 => Reason::Message,
                _ => return Err(self.damaged(&format!("a wait of kind {kind}"))),
            },
        };
        // Who was killed while it sent something did not get to where it would have been.
        let position = position.min(image.accesses[number]).saturating_add(image.before[number]);
        // Who is left out is not waited for; nor is what the task itself did before an exec.
        let Some(task) = image.tasks[number].filter(|&task| !in_run || task != self.task) else {
            match &mut self.held {
                Some(held) => held.moves = true,
                None => self.ready.push_back(Marked::Moves),
            }
            return Ok(());
        };
        let decision = match &mut self.decisions {
            Some(decisions) if reason == Reason::Data => decisions.next()?,
            _ => Decision::Keep,
        };
        let waits = match decision {
            Decision::Keep => vec![(task, position)],
            Decision::Instead(writes) => writes,
        };
        for (task, position) in waits {
            let wait = Step::Wait { task, position, reason, polled: None };
            match &mut self.held {
                Some(held) if order > 0 => held.waits.push((order - 1, wait)),
                _ => {
                    self.flush_held();
                    self.flush_instructions();
                    self.push(wait);
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Coded) -> Result<()> {
        match *event {
            Coded::Access { kind, address, size_bytes } => self.large_access(kind, self.address(address), size_bytes),
            Coded::Remote { kind, image, version, address, size_bytes } => {
                let address = self.remote_address(image, version, address)?;
                self.ready.push_back(Marked::Moves);
                self.large_access(kind, address, size_bytes);
            }
            Coded::Channel { kind, channel, start, size_bytes } => {
                let address = self.file.channel_address(channel, start, size_bytes);
                let address = address.ok_or_else(|| self.damaged(&format!("channel {channel}, which it has not")))?;
                self.ready.push_back(Marked::Moves);
                self.large_access(kind, address, size_bytes);
            }
            Coded::Unmap { start, bytes } => {
                let parts = self.mapped.own_parts(start..start.saturating_add(bytes));
                parts.into_iter().for_each(|range| self.push(Step::Unmap { range }));
            }
            Coded::Clear { object, start, bytes } => {
                let addresses = self.file.objects.addresses(object, start..start.saturating_add(bytes));
                self.ready.extend(addresses.map(|range| Marked::Step(Step::Unmap { range })));
            }
            Coded::Idle { time_ns } => self.push(Step::Idle { time_ns }),
            Coded::Phase { number } => self.push(Step::Phase { number }),
            Coded::Segment { .. } | Coded::Wait { .. } | Coded::Mappings { .. } => {}
        }
        Ok(())
    }

    /// The address that a process has something at, by what it had mapped.
    fn remote_address(&self, image: u64, version: u64, address: u64) -> Result<u64> {
        let images = &self.file.meta.images;
        let Some(image) = images.iter().position(|found| u64::from(found.number) == image.saturating_add(1)) else {
            return Err(self.damaged(&format!("memory of image {image}, which it has not")));
        };
        let mut mapped = Table::new(own(image as u64));
        mapped.advance(&self.file.changes[image], version, &self.file.objects);
        Ok(mapped.address(address))
    }

    /// An access of any size, by the kernel or a string instruction: one access, and as many instructions as it has
    /// lines.
    fn large_access(&mut self, kind: AccessKind, address: u64, size_bytes: u64) {
        let size = u32::try_from(size_bytes).unwrap_or(u32::MAX).max(1);
        let instructions = size.div_ceil(LINE_BYTES);
        self.push(Step::access(StridedAccess { instructions, ..StridedAccess::new(kind, address, size) }));
    }

    fn push(&mut self, step: Step) {
        self.ready.push_back(Marked::Step(step));
    }

    /// Says where the task enters its MPI library, looks for messages and leaves.
    fn mark(&mut self, owner: Owner) {
        let marked = match (owner, self.in_mpi) {
            (Owner::Common, _) | (Owner::Program, false) | (Owner::Mpi, true) => return,
            (Owner::Program, true) => Marked::Leaves,
            (Owner::Mpi, false) => Marked::Enters,
            (Owner::Progress, _) => Marked::Looks,
        };
        self.flush_instructions();
        if marked == Marked::Looks && !self.in_mpi {
            self.ready.push_back(Marked::Enters);
        }
        self.in_mpi = marked != Marked::Leaves;
        self.ready.push_back(marked);
    }

    fn flush_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.tell(held);
        }
    }

    fn flush_instructions(&mut self) {
        if self.instructions > 0 {
            self.push(Step::Compute { instructions: self.instructions });
            self.instructions = 0;
        }
    }

    /// Makes steps of a segment that ran. Gives its addresses' memory back.
    fn tell(&mut self, mut held: Held) -> Vec<(u64, i64)> {
        let file = self.file;
        let segment = &file.segments[self.image()][held.number as usize];
        self.mark(segment.owner);
        if held.moves {
            self.ready.push_back(Marked::Moves);
        }
        self.code(segment);
        if segment.accesses.is_empty() {
            self.instructions += held.times.saturating_mul(segment.instructions.into());
            return held.addresses;
        }
        if held.times > 1 {
            self.flush_instructions();
            debug_assert!(held.waits.is_empty(), "the last of a run is told by itself");
            let mut left = held.times;
            while left > 0 {
                let iterations = self.together(segment, &held.addresses, left);
                let accesses = self.accesses(segment, &held.addresses, 0..segment.accesses.len(), 0);
                self.push(Step::Loop { accesses, iterations });
                for (address, stride) in &mut held.addresses {
                    *address = address.wrapping_add_signed(stride.wrapping_mul(iterations as i64));
                }
                left -= iterations;
            }
            return held.addresses;
        }
        held.waits.sort_by_key(|(order, _)| *order);
        let (mut done, all) = (0, segment.accesses.len());
        for (order, wait) in held.waits {
            let order = usize::try_from(order).unwrap_or(all).min(all);
            self.some(segment, &held.addresses, done..order);
            done = order.max(done);
            self.push(wait);
        }
        self.some(segment, &held.addresses, done..all);
        held.addresses
    }

    /// In how many of `most` iterations each access lies in the memory that it lies in first.
    fn together(&self, segment: &Segment, addresses: &[(u64, i64)], most: u64) -> u64 {
        if self.mapped.is_plain() {
            return most;
        }
        segment.accesses.iter().fold(most, |most, access| {
            let (base, stride) = addresses[usize::from(access.anchor)];
            self.mapped.together(base.wrapping_add_signed(access.offset.into()), stride, most)
        })
    }

    /// Some of the accesses of a segment that ran once.
    fn some(&mut self, segment: &Segment, addresses: &[(u64, i64)], which: std::ops::Range<usize>) {
        if which.is_empty() {
            return;
        }
        let lead = u32::try_from(self.instructions).unwrap_or(u32::MAX);
        self.instructions -= u64::from(lead);
        let accesses = self.accesses(segment, addresses, which, lead);
        self.push(Step::Loop { accesses, iterations: 1 });
    }

    fn accesses(
        &self,
        segment: &Segment,
        addresses: &[(u64, i64)],
        which: std::ops::Range<usize>,
        lead: u32,
    ) -> Vec<StridedAccess> {
        let mut made: Vec<StridedAccess> = segment.accesses[which]
            .iter()
            .map(|access| {
                let (base, stride) = addresses[usize::from(access.anchor)];
                StridedAccess {
                    kind: access.kind,
                    atomic: access.atomic,
                    size_bytes: access.size_bytes,
                    base: self.address(base.wrapping_add_signed(access.offset.into())),
                    stride,
                    instructions: access.instructions,
                }
            })
            .collect();
        made[0].instructions = made[0].instructions.saturating_add(lead);
        made
    }

    fn code(&mut self, segment: &Segment) {
        let pc = segment.pc.wrapping_add(own(self.image() as u64));
        let first = pc >> PAGE_SHIFT;
        let last = pc.saturating_add(u64::from(segment.code_bytes.max(1)) - 1) >> PAGE_SHIFT;
        for page in first..=last.min(first + 1) {
            if self.code_page != Some(page) {
                self.flush_instructions();
                self.push(Step::Code { page });
                self.code_page = Some(page);
            }
        }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::new(format!("{}: damaged: {what}", self.file.name.display())).remedy("record it again")
    }
}

/// What is added to addresses of an image's own memory.
fn own(image: u64) -> u64 {
    image << IMAGE_SHIFT
}

impl MarkedSteps for FileSteps<'_> {
    fn next_marked(&mut self) -> Result<Option<Marked>> {
        while self.ready.is_empty() {
            if !self.advance()? {
                return Ok(None);
            }
        }
        Ok(self.ready.pop_front())
    }
}
