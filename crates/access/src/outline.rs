//! The outline of a run: where it may be parted so that each part can be read without the others, and what each part
//! looks like. It is what a sample of the run is drawn by ([`crate::Excerpt`]).
//!
//! All tasks go on together, as if each instruction took the same time; a task that waits stands still. After equal
//! lengths of that time all are stopped: that is a *cut*. What a task has waited for lies before the same cut, so
//! whatever comes behind a cut can be done when all that lies before it is.

use crate::hashing::{Blocks, multiplied};
use crate::{AccessKind, Recording, Step, Steps, StridedAccess};
use cohabit_model::{Error, Result};

/// Intervals that a run is parted into, at least: of fewer little can be left out.
pub const INTERVALS: usize = 1024;
/// Kinds of code that are told apart.
const CODE: usize = 24;
/// What is known of an interval: instructions by kind of code, as shares; how many of the tasks were at work; pages
/// that were touched first; waits.
pub const FEATURES: usize = CODE + 3;

/// The length of intervals at first, in instructions of a task.
const SHORTEST: u64 = 1 << 14;
/// Turns of an interval.
const TURNS: u64 = 32;
/// Instructions in a nanosecond of sleep.
const PER_NS: u64 = 2;
const PAGE_SHIFT: u32 = 12;
const LINE_SHIFT: u32 = 6;
/// Pages of each task that are at hand.
const RECENT: usize = 64;
/// Pages that tasks touch in intervals, of all intervals together: 24 bytes each. Where there are more, intervals are
/// longer.
const MOST_TOUCHED: usize = 1 << 23;
/// Intervals times tasks: 48 bytes each. Of very many tasks there are fewer intervals.
const MOST_PLACES: usize = 1 << 20;

/// How far a task is: so many accesses, and behind the last of them so many instructions without access, and so much
/// sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Place {
    /// Accesses.
    pub position: u64,
    /// Instructions since.
    pub instructions: u64,
    /// Sleep since.
    pub idle_ns: u64,
}

/// Lines of a page of 4 KiB that a task touches in an interval, a bit a line of 64 bytes, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touched {
    /// Address over 4,096.
    pub page: u64,
    /// Lines that are read or written.
    pub lines: u64,
    /// Those that are written.
    pub written: u64,
}

/// What all tasks do from one cut to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// How far each task is at its end.
    pub end: Vec<Place>,
    /// Accesses of all tasks, polling left out.
    pub accesses: u64,
    /// Instructions of all tasks, polling left out.
    pub instructions: u64,
    /// What it looks like: numbers of the same size each.
    pub features: [f32; FEATURES],
    /// What each task touches, by page.
    pub touched: Vec<Vec<Touched>>,
}

/// The outline of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outline {
    /// What the run consists of, in its order.
    pub intervals: Vec<Interval>,
    /// Each page of 4 KiB, by address over 4,096, with the task that touches it first.
    pub first_touch: Vec<(u64, u32)>,
}

impl Outline {
    /// The outline of a recording, in at least `intervals` intervals and less than twice as many, where the run is long
    /// enough for that and has not very many tasks.
    ///
    /// # Errors
    /// The recording cannot be read, or its waits cannot be kept.
    ///
    /// # Panics
    /// If `intervals` is 0.
    pub fn of(recording: &dyn Recording, intervals: usize) -> Result<Self> {
        Self::within(recording, intervals, MOST_TOUCHED)
    }

    /// The same, with no more pages that tasks touch in intervals, where there is more than one.
    fn within(recording: &dyn Recording, intervals: usize, most_touched: usize) -> Result<Self> {
        assert!(intervals > 0, "a run has an interval");
        let intervals = intervals.min(MOST_PLACES / recording.tasks().len().max(1)).max(1);
        let mut walk = Walk::new(recording)?;
        let mut length = SHORTEST;
        let (mut until, mut next_cut) = (0, length);
        let mut found: Vec<Interval> = Vec::new();
        loop {
            let turn = (length / TURNS).max(1);
            until = (until + turn).min(next_cut);
            let moved = walk.go_on(until, until - turn.min(until))?;
            if !moved {
                match walk.earliest()? {
                    None => break,
                    Some(time) if time > until => until = (time / turn * turn).max(until),
                    Some(_) => {}
                }
            }
            if until >= next_cut {
                next_cut = until - until % length + length;
                found.extend(walk.cut());
                let touched = |interval: &Interval| interval.touched.iter().map(Vec::len).sum::<usize>();
                let many = found.len() > 1 && found.iter().map(touched).sum::<usize>() > most_touched;
                if found.len() >= 2 * intervals || many {
                    (found, length) = (in_pairs(found), 2 * length);
                    next_cut = until - until % length + length;
                }
            }
        }
        found.extend(walk.cut());
        let tasks = recording.tasks().len();
        found.iter_mut().for_each(|interval| interval.features = scaled(interval.features, length, tasks));
        Ok(Self { intervals: found, first_touch: walk.first_touch })
    }

    /// How far a task is at a cut: cut 0 is the start, cut n the end of interval n - 1.
    pub fn place(&self, cut: usize, task: usize) -> Place {
        cut.checked_sub(1).map_or(Place::default(), |interval| self.intervals[interval].end[task])
    }

    /// Accesses of all tasks, polling left out.
    pub fn accesses(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.accesses).sum()
    }
}

/// Two intervals become one.
fn in_pairs(intervals: Vec<Interval>) -> Vec<Interval> {
    let mut pairs: Vec<Interval> = Vec::with_capacity(intervals.len().div_ceil(2));
    for (number, interval) in intervals.into_iter().enumerate() {
        match pairs.last_mut().filter(|_| number % 2 == 1) {
            None => pairs.push(interval),
            Some(pair) => {
                pair.end = interval.end;
                pair.accesses += interval.accesses;
                pair.instructions += interval.instructions;
                pair.features.iter_mut().zip(interval.features).for_each(|(sum, part)| *sum += part);
                let both = pair.touched.iter_mut().zip(interval.touched);
                both.for_each(|(one, other)| *one = joined(one, &other));
            }
        }
    }
    pairs
}

/// What is touched in either of two intervals.
fn joined(one: &[Touched], other: &[Touched]) -> Vec<Touched> {
    let mut joined: Vec<Touched> = Vec::with_capacity(one.len().max(other.len()));
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    loop {
        let next = match (left.peek(), right.peek()) {
            (Some(one), Some(other)) if one.page <= other.page => left.next(),
            (Some(_), None) => left.next(),
            _ => right.next(),
        };
        let Some(next) = next else { return joined };
        match joined.last_mut().filter(|last| last.page == next.page) {
            Some(last) => (last.lines, last.written) = (last.lines | next.lines, last.written | next.written),
            None => joined.push(*next),
        }
    }
}

/// Sums as numbers that can be compared: shares of instructions; the share of tasks at work; of pages and waits, which
/// may be few or many, the logarithm.
fn scaled(sums: [f32; FEATURES], length: u64, tasks: usize) -> [f32; FEATURES] {
    let mut scaled = sums;
    let all: f32 = sums[..CODE].iter().sum();
    scaled[..CODE].iter_mut().for_each(|share| *share /= all.max(1.0));
    scaled[CODE] = all / (length as f32 * tasks.max(1) as f32);
    scaled[CODE + 1] = sums[CODE + 1].ln_1p() / 4.0;
    scaled[CODE + 2] = sums[CODE + 2].ln_1p() / 8.0;
    scaled
}

/// A task that goes on.
struct Walker<'a> {
    steps: Box<dyn Steps + 'a>,
    /// The step under way, and how much of it is done: iterations, instructions or nanoseconds.
    now: Option<(Step, u64)>,
    place: Place,
    time: u64,
    ended: bool,
    waits: bool,
    code: u64,
    /// What it has touched since the last cut, by page; and pages of that which are at hand, by their lowest bits.
    touched: Blocks<Touched>,
    recent: [Touched; RECENT],
}

/// No page.
const NONE: Touched = Touched { page: u64::MAX, lines: 0, written: 0 };

impl Walker<'_> {
    /// Touches lines of a page. Whether the page was not at hand.
    #[inline]
    fn touch(&mut self, page: u64, lines: u64, writes: bool) -> bool {
        let recent = &mut self.recent[page as usize % RECENT];
        let is_other = recent.page != page;
        if is_other {
            let before = std::mem::replace(recent, Touched { page, ..NONE });
            put(&mut self.touched, before);
        }
        recent.lines |= lines;
        recent.written |= if writes { lines } else { 0 };
        is_other
    }

    /// What it has touched since the last cut.
    fn take_touched(&mut self) -> Vec<Touched> {
        for recent in &mut self.recent {
            put(&mut self.touched, std::mem::replace(recent, NONE));
        }
        let mut touched: Vec<Touched> = self.touched.drain().map(|(_, touched)| touched).collect();
        touched.sort_unstable_by_key(|touched| touched.page);
        touched
    }
}

fn put(to: &mut Blocks<Touched>, touched: Touched) {
    if touched.lines != 0 {
        let entry = to.entry(touched.page).or_insert(Touched { page: touched.page, ..NONE });
        (entry.lines, entry.written) = (entry.lines | touched.lines, entry.written | touched.written);
    }
}

/// The bits from one to another.
fn bits(first: u64, last: u64) -> u64 {
    (u64::MAX >> (63 - (last - first))) << first
}

struct Walk<'a> {
    tasks: Vec<Walker<'a>>,
    known: Blocks<()>,
    first_touch: Vec<(u64, u32)>,
    /// Of the interval under way.
    accesses: u64,
    instructions: u64,
    sums: [f32; FEATURES],
    moved: bool,
}

impl<'a> Walk<'a> {
    fn new(recording: &'a dyn Recording) -> Result<Self> {
        let open = |task| {
            Ok(Walker {
                steps: recording.steps(task)?,
                now: None,
                place: Place::default(),
                time: 0,
                ended: false,
                waits: false,
                code: 0,
                touched: Blocks::default(),
                recent: [NONE; RECENT],
            })
        };
        let tasks = (0..recording.tasks().len() as u32).map(open).collect::<Result<Vec<_>>>()?;
        let sums = [0.0; FEATURES];
        Ok(Self {
            tasks,
            known: Blocks::default(),
            first_touch: Vec::new(),
            accesses: 0,
            instructions: 0,
            sums,
            moved: false,
        })
    }

    /// All tasks go on until that time, those that wait from `since` on at the earliest. Whether any did.
    fn go_on(&mut self, until: u64, since: u64) -> Result<bool> {
        let mut any = false;
        loop {
            let mut moved = false;
            for number in 0..self.tasks.len() {
                while !self.tasks[number].ended && self.tasks[number].time < until {
                    if !self.advance(number, until, since)? {
                        break;
                    }
                    moved = true;
                }
            }
            if !moved {
                self.moved |= any;
                return Ok(any);
            }
            any = true;
        }
    }

    /// The earliest task that can go on; none where all have ended.
    fn earliest(&self) -> Result<Option<u64>> {
        let left = || self.tasks.iter().enumerate().filter(|(_, task)| !task.ended);
        match left().filter(|(_, task)| !task.waits).map(|(_, task)| task.time).min() {
            Some(time) => Ok(Some(time)),
            None => match left().next() {
                None => Ok(None),
                Some((number, _)) => {
                    Err(Error::new(format!("the recording cannot go on: task {number} waits for what never comes"))
                        .remedy("record it again"))
                }
            },
        }
    }

    /// What has been done since the last cut; none where that is nothing.
    fn cut(&mut self) -> Option<Interval> {
        if !std::mem::take(&mut self.moved) {
            return None;
        }
        let end = self.tasks.iter().map(|task| task.place).collect();
        let features = std::mem::replace(&mut self.sums, [0.0; FEATURES]);
        let touched = self.tasks.iter_mut().map(Walker::take_touched).collect();
        let accesses = std::mem::take(&mut self.accesses);
        Some(Interval { end, accesses, instructions: std::mem::take(&mut self.instructions), features, touched })
    }

    /// A task takes a step, or goes on with one, until that time. False where it waits.
    fn advance(&mut self, number: usize, until: u64, since: u64) -> Result<bool> {
        let task = &mut self.tasks[number];
        let (step, done) = match task.now.take() {
            Some(now) => now,
            None => match task.steps.next_step()? {
                Some(step) => (step, 0),
                None => {
                    task.ended = true;
                    return Ok(true);
                }
            },
        };
        let room = until - task.time;
        match step {
            Step::Loop { accesses, iterations } => {
                let once: u64 = accesses.iter().map(|access| u64::from(access.instructions)).sum();
                let now = room.div_ceil(once.max(1)).min(iterations - done);
                self.make(number, &accesses, done, now, once);
                let task = &mut self.tasks[number];
                let made = now.saturating_mul(accesses.len() as u64);
                task.place = Place { position: task.place.position.saturating_add(made), ..Place::default() };
                task.time = task.time.saturating_add(now.saturating_mul(once.max(1)));
                self.accesses = self.accesses.saturating_add(made);
                self.instructions = self.instructions.saturating_add(now.saturating_mul(once));
                match done + now < iterations {
                    true => task.now = Some((Step::Loop { accesses, iterations }, done + now)),
                    false => task.steps.recycle(accesses),
                }
            }
            Step::Compute { instructions, .. } => {
                let now = room.min(instructions - done);
                task.place.instructions += now;
                task.time += now;
                self.instructions += now;
                self.sums[code_kind(task.code, 0, 0)] += now as f32;
                if done + now < instructions {
                    task.now = Some((step, done + now));
                }
            }
            Step::Idle { time_ns } => {
                let now = room.div_ceil(PER_NS).min(time_ns - done);
                task.place.idle_ns += now;
                task.time = task.time.saturating_add(now.saturating_mul(PER_NS));
                if done + now < time_ns {
                    task.now = Some((step, done + now));
                }
            }
            Step::Wait { task: on, position, .. } => {
                let Some(other) = self.tasks.get(on as usize) else {
                    return Err(Error::new(format!(
                        "the recording is damaged: task {number} waits for task {on}, which is not in it"
                    ))
                    .remedy("record it again"));
                };
                let comes = other.place.position >= position;
                let task = &mut self.tasks[number];
                task.waits = !comes;
                if !comes {
                    task.now = Some((step, 0));
                    return Ok(false);
                }
                task.time = task.time.max(since);
                self.sums[CODE + 2] += 1.0;
            }
            Step::Polled { accesses } | Step::Skipped { accesses } => {
                let position = task.place.position.saturating_add(accesses);
                task.place = Place { position, ..Place::default() };
            }
            Step::Code { page } => task.code = page,
            Step::Unmap { .. } | Step::Phase { .. } | Step::Cut { .. } => {}
        }
        Ok(true)
    }

    /// Notes what iterations of a loop do.
    fn make(&mut self, number: usize, accesses: &[StridedAccess], from: u64, iterations: u64, once: u64) {
        let Some(first) = accesses.first() else { return };
        let task = &mut self.tasks[number];
        let kind = u64::from(first.size_bytes) << 2 | first.kind as u64;
        self.sums[code_kind(task.code, accesses.len() as u64, once << 8 ^ kind)] += (iterations * once.max(1)) as f32;
        for access in accesses {
            let writes = access.kind != AccessKind::Read;
            let stride = access.stride.unsigned_abs();
            // What is walked without gaps is a range; else each access is one.
            let ranges = if stride <= 1 << LINE_SHIFT { 1 } else { iterations };
            for range in 0..ranges {
                let (one, other) = match ranges {
                    1 => (access.address(from), access.address(from + iterations.max(1) - 1)),
                    _ => (access.address(from + range), access.address(from + range)),
                };
                let start = one.min(other);
                // Addresses that go round the end of memory are no program's.
                let walked = if ranges == 1 { stride.saturating_mul(iterations) } else { 0 };
                let most = start.saturating_add(walked).saturating_add(u64::from(access.size_bytes));
                let end = one.max(other).saturating_add(u64::from(access.size_bytes.max(1)) - 1).min(most);
                let (first, last) = (start >> LINE_SHIFT, end >> LINE_SHIFT);
                for page in start >> PAGE_SHIFT..=end >> PAGE_SHIFT {
                    let lines = bits(first.max(page << 6) & 63, last.min(page << 6 | 63) & 63);
                    if task.touch(page, lines, writes) && self.known.insert(page, ()).is_none() {
                        self.first_touch.push((page, number as u32));
                        self.sums[CODE + 1] += 1.0;
                    }
                }
            }
        }
    }
}

/// Code on a page that looks like this.
fn code_kind(page: u64, accesses: u64, more: u64) -> usize {
    let mixed = multiplied(page ^ multiplied(accesses ^ multiplied(more)));
    ((mixed >> 32) % CODE as u64) as usize
}
