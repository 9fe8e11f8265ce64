//! Parts of a run, one after another, as if they were all of it.
//!
//! Positions stay those of the whole run. All tasks come to the end of a part before any begins the next one. What lies
//! between two parts is left out; in its place each task touches the lines that it touches there, once or twice each, so
//! that caches have what they would have.

use crate::outline::{Interval, Place, Touched};
use crate::{AccessKind, Dependences, Outline, Reason, Recording, Step, Steps, StridedAccess, TaskInfo};
use cohabit_model::Result;
use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;

/// So many accesses are read rather than skipped.
const LEAST_SKIPPED: u64 = 1 << 13;
const LINE_BYTES: u64 = 64;
const PAGE_SHIFT: u32 = 12;

/// A part of a run: from one cut of its outline to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The cut that it begins at.
    pub begin: usize,
    /// The cuts that the tasks tell of ([`Step::Cut`]): within the part, its begin and end counted; ascending.
    pub marks: Vec<usize>,
    /// The cut that it ends at: behind `begin`.
    pub end: usize,
}

/// A recording of parts of another one. Marks are numbered from 0 on through all parts.
pub struct Excerpt<'a> {
    recording: &'a dyn Recording,
    outline: &'a Outline,
    parts: Vec<Part>,
    /// Of each part, what each task does in place of what is left out before it.
    between: Vec<OnceLock<Vec<Vec<Step>>>>,
    tasks: Vec<TaskInfo>,
}

impl<'a> Excerpt<'a> {
    /// These parts of a recording, ascending and apart from one another; the outline is the recording's.
    ///
    /// # Panics
    /// If the parts are not so.
    pub fn new(recording: &'a dyn Recording, outline: &'a Outline, parts: Vec<Part>) -> Self {
        let cuts = outline.intervals.len();
        assert!(parts.iter().all(|part| part.begin < part.end && part.end <= cuts), "a part has a length");
        assert!(parts.windows(2).all(|two| two[0].end <= two[1].begin), "parts come one after another");
        let within = |part: &Part| part.marks.iter().all(|mark| (part.begin..=part.end).contains(mark));
        assert!(parts.iter().all(|part| within(part) && part.marks.is_sorted()), "marks lie within their part");
        let between = parts.iter().map(|_| OnceLock::new()).collect();
        let mut tasks = recording.tasks().to_vec();
        for (number, task) in tasks.iter_mut().enumerate() {
            let position = |cut: usize| outline.place(cut, number).position;
            let made = parts.iter().map(|part| position(part.end) - position(part.begin));
            task.accesses = Some(made.sum());
        }
        Self { recording, outline, parts, between, tasks }
    }

    /// What each task does in place of what is left out before a part: it touches each line that it touches there, when
    /// it last reads and when it last writes it, interval by interval, and is then where it is when the part begins. All
    /// meet between the intervals, and at the end: one task waits for all others, and they for that one.
    fn between(&self, number: usize) -> Vec<Vec<Step>> {
        let (before, begin) =
            (number.checked_sub(1).map_or(0, |before| self.parts[before].end), self.parts[number].begin);
        let count = self.tasks.len();
        let left_out = &self.outline.intervals[before..begin];
        let position = |cut: usize, task: usize| self.outline.place(cut, task).position;
        let mut at: Vec<u64> = (0..count).map(|task| position(before, task)).collect();
        let end: Vec<u64> = (0..count).map(|task| position(begin, task)).collect();
        let mut steps = vec![Vec::new(); count];
        // It has to tell the others each time, which takes an access of those that are left out.
        let Some(hub) = (0..count).max_by_key(|&task| end[task] - at[task]).filter(|&task| end[task] > at[task]) else {
            return steps;
        };
        let meets = left_out.len() as u64;
        let mut last: Vec<_> = (0..count).map(|task| last_touches(left_out, task).into_iter().peekable()).collect();
        for interval in 0..left_out.len() {
            for task in 0..count {
                let kept = if task == hub { meets } else { 0 };
                while let Some((_, touched)) = last[task].next_if(|(when, _)| *when == interval) {
                    let room = (end[task] - at[task]).saturating_sub(kept);
                    at[task] += touch(touched, room, &mut steps[task]);
                }
            }
            let is_last = interval + 1 == left_out.len();
            if !is_last && end[hub] - at[hub] <= 1 {
                continue;
            }
            for task in (0..count).filter(|&task| task != hub) {
                if is_last && end[task] > at[task] {
                    steps[task].push(Step::Skipped { accesses: end[task] - at[task] });
                    at[task] = end[task];
                }
                steps[hub].push(wait(task, at[task]));
            }
            let left = if is_last { end[hub] - at[hub] } else { 1 };
            steps[hub].push(Step::Skipped { accesses: left });
            at[hub] += left;
            (0..count).filter(|&task| task != hub).for_each(|task| steps[task].push(wait(hub, at[hub])));
        }
        steps
    }
}

fn wait(task: usize, position: u64) -> Step {
    Step::Wait { task: task as u32, position, reason: Reason::End, polled: None }
}

/// The lines that a task touches in intervals, by the interval, in their order: those that it last writes there, and
/// those that it last touches there.
fn last_touches(intervals: &[Interval], task: usize) -> Vec<(usize, Touched)> {
    let mut seen: HashMap<u64, Touched> = HashMap::new();
    let mut last = Vec::new();
    for (number, interval) in intervals.iter().enumerate().rev() {
        for one in interval.touched[task].iter().rev() {
            let later = seen.entry(one.page).or_insert(Touched { page: one.page, lines: 0, written: 0 });
            let written = one.written & !later.written;
            let lines = one.lines & !later.lines | written;
            if lines != 0 {
                last.push((number, Touched { page: one.page, lines, written }));
            }
            (later.lines, later.written) = (later.lines | one.lines, later.written | one.written);
        }
    }
    last.reverse();
    last
}

/// Touches lines of a page, those first that are written: at most so many. How many.
fn touch(touched: Touched, room: u64, steps: &mut Vec<Step>) -> u64 {
    let Touched { page, lines, written } = touched;
    let mut made = 0;
    for (kind, mut lines) in [(AccessKind::Write, written), (AccessKind::Read, lines & !written)] {
        while lines != 0 && made < room {
            let first = lines.trailing_zeros();
            let iterations = u64::from((lines >> first).trailing_ones()).min(room - made);
            let base = (page << PAGE_SHIFT) + u64::from(first) * LINE_BYTES;
            let access = StridedAccess { stride: LINE_BYTES as i64, ..StridedAccess::new(kind, base, 8) };
            steps.push(Step::Loop { accesses: vec![access], iterations });
            made += iterations;
            lines &= u64::MAX.checked_shl(first + iterations as u32).unwrap_or(0);
        }
    }
    made
}

impl Recording for Excerpt<'_> {
    /// Of the accesses of a task those are counted that it makes in these parts.
    fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    fn steps(&self, task: u32) -> Result<Box<dyn Steps + '_>> {
        Ok(Box::new(ExcerptSteps::new(self, task, None)))
    }

    fn steps_with(&self, task: u32, core: Dependences) -> Result<Box<dyn Steps + '_>> {
        Ok(Box::new(ExcerptSteps::new(self, task, Some(core))))
    }
}

struct ExcerptSteps<'a> {
    of: &'a Excerpt<'a>,
    task: u32,
    /// For which core it is told how long instructions wait for one another.
    core: Option<Dependences>,
    /// The part that is under way or next, and which of its marks is next.
    part: usize,
    mark: usize,
    /// Marks that were told of.
    number: u64,
    begun: bool,
    inner: Option<Box<dyn Steps + 'a>>,
    at: Place,
    /// To be told before anything else.
    ready: VecDeque<Step>,
    /// What was read and lies further on.
    ahead: VecDeque<Step>,
}

impl<'a> ExcerptSteps<'a> {
    fn new(of: &'a Excerpt<'a>, task: u32, core: Option<Dependences>) -> Self {
        Self {
            of,
            task,
            core,
            part: 0,
            mark: 0,
            number: 0,
            begun: false,
            inner: None,
            at: Place::default(),
            ready: VecDeque::new(),
            ahead: VecDeque::new(),
        }
    }

    fn place(&self, cut: usize) -> Place {
        self.of.outline.place(cut, self.task as usize)
    }

    /// Begins the next part: in place of what lies before it comes what is made up of that.
    fn begin(&mut self, part: &Part) -> Result<()> {
        self.ready
            .extend(self.of.between[self.part].get_or_init(|| self.of.between(self.part))[self.task as usize].clone());
        self.open(self.place(part.begin))
    }

    /// Reads on from a place.
    fn open(&mut self, place: Place) -> Result<()> {
        let inner = match &mut self.inner {
            Some(inner) => inner,
            none => none.insert(match self.core {
                Some(core) => self.of.recording.steps_with(self.task, core)?,
                None => self.of.recording.steps(self.task)?,
            }),
        };
        if place.position > self.at.position.saturating_add(LEAST_SKIPPED) {
            if let Some(position) = inner.skip_to(place.position)? {
                self.ahead.clear();
                self.at = Place { position, ..Place::default() };
            }
        }
        let mut code = None;
        while let Some(step) = self.next_until(place)? {
            match step {
                Step::Code { .. } => code = Some(step),
                Step::Loop { accesses, .. } => self.recycle(accesses),
                _ => {}
            }
        }
        self.ready.extend(code);
        Ok(())
    }

    /// The next step that lies before a place; none where the task has come to it.
    fn next_until(&mut self, place: Place) -> Result<Option<Step>> {
        loop {
            if self.at >= place {
                return Ok(None);
            }
            let step = match self.ahead.pop_front() {
                Some(step) => step,
                None => match self.inner.as_mut().map_or(Ok(None), |inner| inner.next_step())? {
                    Some(step) => step,
                    None => return Ok(None),
                },
            };
            let count = step.access_count();
            let left = place.position.saturating_sub(self.at.position);
            if count > 0 {
                if left == 0 {
                    // It was to compute or sleep for longer; its next access lies behind the place in any case.
                    self.ahead.push_front(step);
                    return Ok(None);
                }
                if count <= left {
                    self.at = Place { position: self.at.position + count, ..Place::default() };
                    return Ok(Some(step));
                }
                let (before, after) = step.split(left);
                before.into_iter().chain(after).rev().for_each(|step| self.ahead.push_front(step));
                continue;
            }
            // Where accesses are left it is all before the place.
            let (most_instructions, most_idle) = match left {
                0 => (
                    place.instructions.saturating_sub(self.at.instructions),
                    place.idle_ns.saturating_sub(self.at.idle_ns),
                ),
                _ => (u64::MAX, u64::MAX),
            };
            return Ok(Some(match step {
                Step::Compute { instructions, latency } => {
                    let now = instructions.min(most_instructions);
                    let first = u128::from(latency) * u128::from(now) / u128::from(instructions.max(1));
                    let first = if now < instructions { first as u64 } else { latency };
                    self.at.instructions = self.at.instructions.saturating_add(now);
                    if now < instructions {
                        let rest = Step::Compute { instructions: instructions - now, latency: latency - first };
                        self.ahead.push_front(rest);
                    }
                    if now == 0 {
                        // Only sleep is left before the place.
                        return Ok(None);
                    }
                    Step::Compute { instructions: now, latency: first }
                }
                Step::Idle { time_ns } => {
                    let now = time_ns.min(most_idle);
                    self.at.idle_ns = self.at.idle_ns.saturating_add(now);
                    if now < time_ns {
                        self.ahead.push_front(Step::Idle { time_ns: time_ns - now });
                    }
                    if now == 0 {
                        return Ok(None);
                    }
                    Step::Idle { time_ns: now }
                }
                other => other,
            }));
        }
    }
}

impl Steps for ExcerptSteps<'_> {
    fn next_step(&mut self) -> Result<Option<Step>> {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return Ok(Some(step));
            }
            let of = self.of;
            let Some(part) = of.parts.get(self.part) else { return Ok(None) };
            if !self.begun {
                self.begin(part)?;
                self.begun = true;
                continue;
            }
            let goal = part.marks.get(self.mark).copied().unwrap_or(part.end);
            if let Some(step) = self.next_until(self.place(goal))? {
                return Ok(Some(step));
            }
            if self.mark < part.marks.len() {
                self.mark += 1;
                self.number += 1;
                return Ok(Some(Step::Cut { number: self.number - 1 }));
            }
            (self.part, self.mark, self.begun) = (self.part + 1, 0, false);
        }
    }

    fn recycle(&mut self, accesses: Vec<StridedAccess>) {
        if let Some(inner) = &mut self.inner {
            inner.recycle(accesses);
        }
    }
}
