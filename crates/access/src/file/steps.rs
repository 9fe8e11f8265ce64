//! The steps of one task, decoded from a recording's stretches.

use super::RecordingFile;
use super::mappings::Table;
use super::order::ForcedOrder;
use super::steps_member;
use crate::coding::{Coded, Decoder, Next, Ran};
use crate::flow::Flow;
use crate::forced::ForcedWait;
use crate::polls::NO_FINGERPRINT;
use crate::scoreboard::{Dependences, Scoreboard};
use crate::segment::{Owner, Segment, SegmentAccess};
use crate::stage::{Mark, Stage};
use crate::{AccessKind, Reason, Recording, Sieve, Step, Steps, StridedAccess, Told};
use cohabit_model::{Error, Result};

/// Addresses of one image are below this (47 bits); those of different images are told apart above it.
pub(super) const IMAGE_SHIFT: u32 = 47;
/// What a large access moves with one instruction.
const LINE_BYTES: u32 = 64;
const PAGE_SHIFT: u32 = 12;

/// So many accesses before the place that is skipped to are told: what repeats is known by what came before.
const CONTEXT: u64 = 1 << 11;

/// Memory of accesses that is kept, at most.
const MOST_SPARE: usize = 64;

/// A segment that ran, held back: what lies within it comes after it in the stream.
#[derive(Debug, Default)]
struct Held {
    /// 0 times: none is held back.
    ran: Ran,
    waits: Vec<(u64, Step)>,
    /// It waits for a task that is left out.
    moves: bool,
}

/// How long instructions wait for one another.
struct Waiting<'a> {
    /// What they need, of the segments of each image.
    flows: &'a [Vec<Flow>],
    board: Scoreboard,
    /// Of the segment that is held back, by access, and what that is in each iteration.
    moved: Vec<u64>,
    each: Vec<u32>,
}

impl Waiting<'_> {
    /// The segment runs. What is left over of its accesses' latencies, of all iterations together.
    fn run(&mut self, segment: &Segment, image: usize, ran: &Ran) -> u64 {
        let Some(flow) = self.flows[image].get(ran.number as usize) else { return 0 };
        self.board.run(segment, flow, &ran.addresses, ran.times, &mut self.moved);
        self.each.clear();
        let (mut all, mut told) = (0u64, 0u64);
        if !segment.accesses.is_empty() {
            for &moved in &self.moved {
                all = all.saturating_add(moved);
                let each = u32::try_from(all / ran.times.max(1) - told).unwrap_or(u32::MAX);
                told += u64::from(each);
                self.each.push(each);
            }
        } else {
            all = self.moved.iter().fold(0, |sum: u64, moved| sum.saturating_add(*moved));
        }
        all - told.saturating_mul(ran.times).min(all)
    }
}

/// The steps of a task, as they come out of a stage.
pub(super) struct FileSteps<'a, T> {
    file: &'a RecordingFile,
    task: u32,
    /// The piece under way, its image, and the stretch of the task that comes next.
    piece: usize,
    image: usize,
    stretch: u64,
    left_in_piece: u64,
    decoder: Option<Decoder>,
    held: Held,
    /// It is in its MPI library.
    in_mpi: bool,
    /// What the image has mapped, as the task knows it.
    mapped: Table,
    code_page: Option<u64>,
    /// Of segments without accesses, and how long these wait for one another.
    instructions: u64,
    latency: u64,
    /// Where that is asked for.
    waiting: Option<Box<Waiting<'a>>>,
    /// Accesses that were told.
    position: u64,
    /// The waits that the program forces, in place of those that were recorded; none: these.
    forced: Option<ForcedOrder>,
    to: T,
    /// What its reader need not be told, if it sieves; else it is told all.
    sieve: Box<Sieve>,
    sieves: bool,
    /// Memory for the accesses of loops to come.
    spare: Vec<Vec<StridedAccess>>,
}

impl<'a, T: Stage> FileSteps<'a, T> {
    pub(super) fn new(file: &'a RecordingFile, task: u32, forced: Option<ForcedOrder>, mut to: T) -> Self {
        let about = &file.meta.tasks[task as usize];
        if let Some(start) = about.start {
            to.step(Step::Wait { task: start.task, position: start.position, reason: Reason::Start, polled: None });
        }
        let image = about.pieces.first().map_or(0, |piece| piece.image);
        let left_in_piece = about.pieces.first().map_or(0, |piece| piece.stretches);
        Self {
            file,
            task,
            piece: 0,
            image: image as usize,
            stretch: 0,
            left_in_piece,
            decoder: None,
            held: Held::default(),
            in_mpi: false,
            mapped: Table::new(own(image.into())),
            code_page: None,
            instructions: 0,
            latency: 0,
            waiting: None,
            position: 0,
            forced,
            to,
            sieve: Box::default(),
            sieves: false,
            spare: Vec::new(),
        }
    }

    /// Tells how long instructions wait for one another on such a core.
    pub(super) fn with(mut self, core: Dependences) -> Self {
        let (flows, board) = (self.file.flows(), Scoreboard::new(core));
        self.waiting = Some(Box::new(Waiting { flows, board, moved: Vec::new(), each: Vec::new() }));
        self
    }

    /// Opens the next stretch. False at the task's end.
    fn open_next(&mut self) -> Result<bool> {
        let pieces = &self.file.meta.tasks[self.task as usize].pieces;
        while self.left_in_piece == 0 {
            self.flush_held()?;
            if self.piece + 1 >= pieces.len() {
                return Ok(false);
            }
            self.piece += 1;
            self.left_in_piece = pieces[self.piece].stretches;
            self.image = pieces[self.piece].image as usize;
            self.code_page = None;
            self.mapped = Table::new(own(self.image as u64));
        }
        let bytes = self.file.read(&steps_member(self.task, self.stretch))?;
        self.decoder = Some(Decoder::new(bytes, self.file.segments[self.image].len()));
        self.stretch += 1;
        self.left_in_piece -= 1;
        Ok(true)
    }

    /// Decodes what comes next and tells nothing of it, as far as it lies before a position. False where it does not,
    /// or at the task's end.
    fn advance_untold(&mut self, until: u64) -> Result<bool> {
        if self.held.ran.times > 0 {
            let segment = &self.file.segments[self.image][self.held.ran.number as usize];
            let accesses = self.held.ran.times.saturating_mul(segment.accesses.len() as u64);
            let behind = self.position.saturating_add(accesses);
            if behind > until {
                return Ok(false);
            }
            self.in_mpi = match segment.owner {
                Owner::Common => self.in_mpi,
                owner => owner != Owner::Program,
            };
            self.position = behind;
            self.held.ran.times = 0;
            self.held.moves = false;
            self.held.waits.clear();
        }
        let Some(decoder) = &mut self.decoder else { return self.open_next() };
        match decoder.next(&self.file.segments[self.image])? {
            Next::Segment => std::mem::swap(&mut self.held.ran, &mut decoder.ran),
            Next::Event => match decoder.event() {
                Some(Coded::Mappings { version, .. }) => {
                    self.mapped.advance(&self.file.changes[self.image], version, &self.file.objects);
                }
                Some(Coded::Access { .. } | Coded::Remote { .. } | Coded::Channel { .. }) => {
                    self.position = self.position.saturating_add(1);
                }
                _ => {}
            },
            Next::End => self.decoder = None,
        }
        Ok(true)
    }

    /// Decodes what comes next. False at the task's end.
    fn advance(&mut self) -> Result<bool> {
        let Some(decoder) = &mut self.decoder else {
            if self.open_next()? {
                return Ok(true);
            }
            while let Some(wait) = self.forced_before(u64::MAX)? {
                self.to.step(step_of(wait));
            }
            self.flush_instructions();
            return Ok(false);
        };
        match decoder.next(&self.file.segments[self.image])? {
            Next::Segment => {
                self.flush_held()?;
                if let Some(decoder) = &mut self.decoder {
                    std::mem::swap(&mut self.held.ran, &mut decoder.ran);
                }
            }
            Next::Event => {
                if let Some(event) = decoder.event() {
                    self.take(event)?;
                }
            }
            Next::End => self.decoder = None,
        }
        Ok(true)
    }

    fn take(&mut self, event: Coded) -> Result<()> {
        match event {
            Coded::Wait { order, in_run, task, position, kind } => self.wait(order, (in_run, task), position, kind),
            Coded::Mappings { order, version } => {
                if order == 0 {
                    self.flush_held()?;
                }
                self.mapped.advance(&self.file.changes[self.image], version, &self.file.objects);
                Ok(())
            }
            other => {
                self.flush_held()?;
                self.flush_instructions();
                self.event(&other)
            }
        }
    }

    fn wait(&mut self, order: u64, (in_run, number): (bool, u64), position: u64, kind: u64) -> Result<()> {
        let found = match in_run {
            true => self.file.in_run.get(&number).copied(),
            false => usize::try_from(number).ok().map(|number| (self.image, number)),
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
            match self.held.ran.times {
                0 => self.to.mark(Mark::Moves),
                _ => self.held.moves = true,
            }
            return Ok(());
        };
        if self.forced.is_some() && ForcedWait::is_found_of(reason) {
            return Ok(());
        }
        let wait = Step::Wait { task, position, reason, polled: None };
        if order > 0 && self.held.ran.times > 0 {
            self.held.waits.push((order - 1, wait));
        } else {
            self.flush_held()?;
            self.flush_instructions();
            self.to.step(wait);
        }
        Ok(())
    }

    /// The next wait that the program forces before the task has made so many accesses.
    fn forced_before(&mut self, position: u64) -> Result<Option<ForcedWait>> {
        self.forced.as_mut().map_or(Ok(None), |forced| forced.take_before(position))
    }

    fn event(&mut self, event: &Coded) -> Result<()> {
        match *event {
            Coded::Access { kind, atomic, address, size_bytes } => {
                let address = self.mapped.address(address);
                self.large_access((kind, atomic), address, size_bytes)?;
            }
            Coded::Remote { kind, image, version, address, size_bytes } => {
                let address = self.remote_address(image, version, address)?;
                self.to.mark(Mark::Moves);
                self.large_access((kind, false), address, size_bytes)?;
            }
            Coded::Channel { kind, channel, start, size_bytes } => {
                let address = self.file.channel_address(channel, start, size_bytes);
                let address = address.ok_or_else(|| self.damaged(&format!("channel {channel}, which it has not")))?;
                self.to.mark(Mark::Moves);
                self.large_access((kind, false), address, size_bytes)?;
            }
            Coded::Unmap { start, bytes } => {
                let parts = self.mapped.own_parts(start..start.saturating_add(bytes));
                parts.into_iter().for_each(|range| self.to.step(Step::Unmap { range }));
            }
            Coded::Clear { object, start, bytes } => {
                let addresses = self.file.objects.addresses(object, start..start.saturating_add(bytes));
                if let Some(range) = addresses {
                    self.to.step(Step::Unmap { range });
                }
            }
            Coded::Idle { time_ns } => self.to.step(Step::Idle { time_ns }),
            Coded::Phase { number } => self.to.step(Step::Phase { number }),
            Coded::Wait { .. } | Coded::Mappings { .. } => {}
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
    fn large_access(&mut self, (kind, atomic): (AccessKind, bool), address: u64, size_bytes: u64) -> Result<()> {
        while let Some(wait) = self.forced_before(self.position.saturating_add(1))? {
            self.to.step(step_of(wait));
        }
        let size = u32::try_from(size_bytes).unwrap_or(u32::MAX).max(1);
        let instructions = size.div_ceil(LINE_BYTES);
        self.to.step(Step::access(StridedAccess { instructions, atomic, ..StridedAccess::new(kind, address, size) }));
        self.position += 1;
        Ok(())
    }

    /// Says where the task enters its MPI library, looks for messages and leaves.
    fn mark(&mut self, owner: Owner) {
        let mark = match (owner, self.in_mpi) {
            (Owner::Common, _) | (Owner::Program, false) | (Owner::Mpi, true) => return,
            (Owner::Program, true) => Mark::Leaves,
            (Owner::Mpi, false) => Mark::Enters,
            (Owner::Progress, _) => Mark::Looks,
        };
        self.flush_instructions();
        if mark == Mark::Looks && !self.in_mpi {
            self.to.mark(Mark::Enters);
        }
        self.in_mpi = mark != Mark::Leaves;
        self.to.mark(mark);
    }

    fn flush_held(&mut self) -> Result<()> {
        if self.held.ran.times > 0 {
            self.tell_held()?;
            self.held.ran.times = 0;
            self.held.moves = false;
        }
        Ok(())
    }

    fn flush_instructions(&mut self) {
        if self.instructions > 0 {
            let (instructions, latency) = (std::mem::take(&mut self.instructions), std::mem::take(&mut self.latency));
            self.step_or_leave_out(Step::Compute { instructions, latency });
        }
    }

    /// Tells instructions without accesses, or where they are fetched from, where that matters to the reader.
    fn step_or_leave_out(&mut self, step: Step) {
        let left_out = if self.sieves && self.to.is_clear() { self.sieve.leaves_out(&step) } else { None };
        match left_out {
            Some(mark) => self.to.left_out(mark),
            None => self.to.step(step),
        }
    }

    /// Makes steps of the segment that is held back.
    fn tell_held(&mut self) -> Result<()> {
        let file = self.file;
        let segment = &file.segments[self.image][self.held.ran.number as usize];
        self.mark(segment.owner);
        if self.held.moves {
            self.to.mark(Mark::Moves);
        }
        self.code(segment);
        let left_over = match &mut self.waiting {
            Some(waiting) => waiting.run(segment, self.image, &self.held.ran),
            None => 0,
        };
        if segment.accesses.is_empty() {
            self.instructions += self.held.ran.times.saturating_mul(segment.instructions.into());
            self.held.waits.clear();
        } else if self.held.ran.times > 1 {
            debug_assert!(self.held.waits.is_empty(), "the last of a run is told by itself");
            self.held.waits.clear();
            self.tell_run(segment)?;
        } else {
            self.tell_once(segment)?;
        }
        self.latency = self.latency.saturating_add(left_over);
        Ok(())
    }

    /// The segment that is held back ran once, with all waits within it.
    fn tell_once(&mut self, segment: &Segment) -> Result<()> {
        let all = segment.accesses.len();
        let before = self.position;
        while let Some(wait) = self.forced_before(before.saturating_add(all as u64))? {
            self.held.waits.push((wait.at.saturating_sub(before), step_of(wait)));
        }
        if self.held.waits.is_empty() {
            self.some(segment, 0..all);
            return Ok(());
        }
        let mut waits = std::mem::take(&mut self.held.waits);
        waits.sort_by_key(|(order, _)| *order);
        let mut done = 0;
        for (order, wait) in waits.drain(..) {
            let order = usize::try_from(order).unwrap_or(all).min(all);
            self.some(segment, done..order);
            done = order.max(done);
            self.to.step(wait);
        }
        self.some(segment, done..all);
        self.held.waits = waits;
        Ok(())
    }

    /// The segment that is held back ran several times.
    fn tell_run(&mut self, segment: &Segment) -> Result<()> {
        self.flush_instructions();
        let all = segment.accesses.len() as u64;
        let mut left = self.held.ran.times;
        while left > 0 {
            // Up to the iteration that has a wait.
            let without = match self.forced.as_ref().and_then(ForcedOrder::next_at) {
                Some(at) => (at.saturating_sub(self.position) / all).min(left),
                None => left,
            };
            let iterations = self.together(segment, without);
            if iterations > 0 {
                let accesses = self.accesses(segment, 0..segment.accesses.len(), (0, 0));
                // A single one is as what is made once.
                let may_be = self.sieves && iterations > 1 && self.to.is_clear();
                if may_be && self.sieve.leaves_out_loop(&accesses, iterations) {
                    self.to.left_out(NO_FINGERPRINT);
                    self.recycle(accesses);
                } else {
                    self.to.step(Step::Loop { accesses, iterations });
                }
                self.position = self.position.saturating_add(iterations.saturating_mul(all));
            } else {
                self.tell_once(segment)?;
            }
            let iterations = iterations.max(1);
            for (address, stride) in &mut self.held.ran.addresses {
                *address = address.wrapping_add_signed(stride.wrapping_mul(iterations as i64));
            }
            left -= iterations;
        }
        Ok(())
    }

    /// In how many of `most` iterations each access lies in the memory that it lies in first.
    fn together(&self, segment: &Segment, most: u64) -> u64 {
        if self.mapped.is_plain() {
            return most;
        }
        segment.accesses.iter().fold(most, |most, access| {
            let (base, stride) = self.held.ran.addresses[usize::from(access.anchor)];
            self.mapped.together(base.wrapping_add_signed(access.offset.into()), stride, most)
        })
    }

    /// Some of the accesses of the segment that is held back and ran once.
    fn some(&mut self, segment: &Segment, which: std::ops::Range<usize>) {
        if which.is_empty() {
            return;
        }
        let lead = u32::try_from(self.instructions).unwrap_or(u32::MAX);
        let latency = u32::try_from(self.latency).unwrap_or(u32::MAX);
        self.instructions -= u64::from(lead);
        self.latency -= u64::from(latency);
        let lead = (lead, latency);
        self.position = self.position.saturating_add(which.len() as u64);
        if self.sieves && self.to.is_clear() {
            let each = self.waiting.as_deref().map_or(&[][..], |waiting| &waiting.each[..]);
            let accesses = accesses(segment, which.clone(), each, &self.held.ran, &mut self.mapped, lead);
            if let Some(mark) = self.sieve.leaves_out_accesses(accesses) {
                self.to.left_out(mark);
                return;
            }
        }
        let accesses = self.accesses(segment, which, lead);
        self.to.step(Step::Loop { accesses, iterations: 1 });
    }

    fn accesses(&mut self, segment: &Segment, which: std::ops::Range<usize>, lead: (u32, u32)) -> Vec<StridedAccess> {
        let mut made = self.spare.pop().unwrap_or_default();
        let each = self.waiting.as_deref().map_or(&[][..], |waiting| &waiting.each[..]);
        made.extend(accesses(segment, which, each, &self.held.ran, &mut self.mapped, lead));
        made
    }

    /// The next step, or that none comes yet.
    fn go_on(&mut self) -> Result<Told> {
        loop {
            while self.to.is_short() {
                if self.sieves && self.sieve.most == 0 {
                    return Ok(Told::Later);
                }
                let goes_on = self.advance()?;
                self.hold_against_said(goes_on)?;
                if !goes_on {
                    self.to.end();
                }
            }
            match self.to.next() {
                Some(step) => return Ok(Told::Step(step)),
                None if self.to.is_short() => {}
                None => return Ok(Told::End),
            }
        }
    }

    fn code(&mut self, segment: &Segment) {
        let pc = segment.pc.wrapping_add(own(self.image as u64));
        let first = pc >> PAGE_SHIFT;
        let last = pc.saturating_add(u64::from(segment.code_bytes.max(1)) - 1) >> PAGE_SHIFT;
        for page in first..=last.min(first + 1) {
            if self.code_page != Some(page) {
                self.flush_instructions();
                self.step_or_leave_out(Step::Code { page });
                self.code_page = Some(page);
            }
        }
    }

    /// A few bytes may say that they stand for any number of accesses, so what comes of them is held against what the
    /// recording says of itself.
    fn hold_against_said(&self, goes_on: bool) -> Result<()> {
        match self.file.tasks()[self.task as usize].accesses {
            Some(said) if self.position > said || self.position < said && !goes_on => {
                let (task, found) = (self.task, self.position);
                let more = if goes_on { " or more" } else { "" };
                Err(self.damaged(&format!("task {task} makes {found}{more} accesses, and is said to make {said}")))
            }
            _ => Ok(()),
        }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::new(format!("{}: damaged: {what}", self.file.name.display())).remedy("record it again")
    }
}

/// Accesses of a segment that ran, with their latencies; the first of them behind so many instructions more, and so much
/// latency.
#[inline]
fn accesses<'a>(
    segment: &'a Segment,
    which: std::ops::Range<usize>,
    latencies: &'a [u32],
    ran: &'a Ran,
    mapped: &'a mut Table,
    mut lead: (u32, u32),
) -> impl Iterator<Item = StridedAccess> + 'a {
    let latencies = latencies.get(which.clone()).unwrap_or(&[]);
    segment.accesses[which].iter().enumerate().map(move |(number, access): (usize, &SegmentAccess)| {
        let (instructions, latency) = std::mem::take(&mut lead);
        let (base, stride) = ran.addresses[usize::from(access.anchor)];
        StridedAccess {
            kind: access.kind,
            atomic: access.atomic,
            unconditional: access.unconditional,
            size_bytes: access.size_bytes,
            base: mapped.address(base.wrapping_add_signed(access.offset.into())),
            stride,
            instructions: access.instructions.saturating_add(instructions),
            latency: latencies.get(number).copied().unwrap_or(0).saturating_add(latency),
        }
    })
}

fn step_of(wait: ForcedWait) -> Step {
    Step::Wait { task: wait.task, position: wait.position, reason: wait.reason, polled: None }
}

/// What is added to addresses of an image's own memory.
fn own(image: u64) -> u64 {
    image << IMAGE_SHIFT
}

impl<T: Stage> Steps for FileSteps<'_, T> {
    fn next_step(&mut self) -> Result<Option<Step>> {
        match self.go_on()? {
            Told::Step(step) => Ok(Some(step)),
            Told::Later | Told::End => Ok(None),
        }
    }

    fn next_but(&mut self, sieve: &mut Box<Sieve>) -> Result<Told> {
        std::mem::swap(&mut self.sieve, sieve);
        self.sieves = true;
        let told = self.go_on();
        self.sieves = false;
        std::mem::swap(&mut self.sieve, sieve);
        told
    }

    fn recycle(&mut self, mut accesses: Vec<StridedAccess>) {
        if self.spare.len() < MOST_SPARE {
            accesses.clear();
            self.spare.push(accesses);
        }
    }

    fn skip_to(&mut self, position: u64) -> Result<Option<u64>> {
        let until = position.saturating_sub(CONTEXT);
        if self.position.saturating_add(CONTEXT) >= until {
            return Ok(None);
        }
        while self.position < until && self.advance_untold(until)? {}
        self.hold_against_said(true)?;
        while self.forced_before(self.position)?.is_some() {}
        (self.instructions, self.latency, self.code_page) = (0, 0, None);
        self.to.forget(self.in_mpi);
        Ok(Some(self.position))
    }
}
