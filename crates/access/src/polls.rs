//! Waits that poll, found in what a task did.
//!
//! How often a waiting task looks at a flag says how busy the recorded machine was, and nothing of the program. So what
//! is read again and again until another task's write is seen is no sequence of accesses but a wait: [`Polls`] leaves
//! the repetitions out ([`Step::Polled`] counts them, so that positions stay), and says of the wait which address is
//! polled. Whoever reads the steps makes the polling again from the time that it gives the tasks.
//!
//! Polling is found by what it does: a unit of at most [`LONGEST_UNIT`] steps, its addresses constant, comes four times
//! and more, and then, at most [`NEAR`] steps on (a program that has spun for long enough asks the kernel to be woken),
//! a wait for another task at a block that the unit reads. Repetitions without such a wait stay as they are.

use crate::hashing::multiplied;
use crate::stage::Stage;
use crate::{BLOCK_SHIFT, Step, StridedAccess};
use std::collections::VecDeque;

/// Steps of what is repeated, at most.
const LONGEST_UNIT: usize = 8;
/// Steps between the last repetition and the wait, at most.
const NEAR: usize = 64;

/// What is ahead of the reader.
#[derive(Debug)]
enum Item {
    Step(Step),
    /// The steps of a unit so many times more, from one of them on.
    Again {
        unit: Vec<Step>,
        times: u64,
        from: usize,
        decided: bool,
    },
}

/// A unit whose repetitions are counted.
#[derive(Debug)]
struct Unit {
    /// Fingerprints of its steps.
    marks: Vec<u64>,
    /// The steps, as far as they were seen since.
    steps: Vec<Step>,
    times: u64,
    /// Steps of the repetition under way that are as the unit's.
    same: usize,
}

/// Finds out that the last steps are some unit again and again.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    /// Fingerprints of the last steps, the newest at `newest`; 0: none of a unit.
    recent: [u64; LONGEST_UNIT],
    newest: usize,
    /// `[p - 1]`: how many of the last steps are as the one `p` before them.
    same: [u32; LONGEST_UNIT],
    /// Whether one of these is not 0.
    any_same: bool,
}

impl Repetition {
    /// The fingerprint of the step so many before.
    fn recent(&self, back: usize) -> u64 {
        self.recent[(self.newest + LONGEST_UNIT + 1 - back) % LONGEST_UNIT]
    }

    /// Remembers a step by its fingerprint. The length of the shortest unit that the last steps are three times; else
    /// 0.
    fn repeats(&mut self, mark: u64) -> usize {
        let mut length = 0;
        if self.recent.contains(&mark) {
            for back in (1..=LONGEST_UNIT).rev() {
                self.same[back - 1] = if self.recent(back) == mark { self.same[back - 1] + 1 } else { 0 };
                if self.same[back - 1] as usize >= 2 * back {
                    length = back;
                }
            }
            self.any_same = true;
        } else if self.any_same {
            self.same = [0; LONGEST_UNIT];
            self.any_same = false;
        }
        self.newest = (self.newest + 1) % LONGEST_UNIT;
        self.recent[self.newest] = mark;
        length
    }

    /// Remembers a step. The fingerprints of a unit that the last steps are three times; then they are forgotten.
    pub fn unit_of(&mut self, mark: u64) -> Option<Vec<u64>> {
        if mark == 0 {
            *self = Self::default();
            return None;
        }
        let length = self.repeats(mark);
        let unit = (length > 0).then(|| (1..=length).rev().map(|back| self.recent(back)).collect());
        if length > 0 {
            *self = Self::default();
        }
        unit
    }
}

/// Steps with their polling told as such.
#[derive(Debug)]
pub(crate) struct Polls {
    repetition: Repetition,
    unit: Option<Unit>,
    ahead: VecDeque<Item>,
    ended: bool,
}

impl Polls {
    pub fn new() -> Self {
        Self { repetition: Repetition::default(), unit: None, ahead: VecDeque::new(), ended: false }
    }

    /// A step while a unit repeats.
    fn take_again(&mut self, step: Step) {
        let step = constant(step);
        if self.unit.as_mut().is_some_and(|unit| unit.takes(&step)) {
            return;
        }
        self.end_unit();
        self.take(step);
    }

    /// A step outside all repetitions.
    fn take(&mut self, step: Step) {
        if self.goes_on(&step) {
            return;
        }
        if is_a_spin(&step) {
            if let Step::Loop { accesses, iterations } = step {
                let unit = vec![Step::Loop { accesses, iterations: 1 }];
                self.ahead.push_back(Item::Again { unit, times: iterations, from: 0, decided: false });
            }
            self.repetition = Repetition::default();
            return;
        }
        let mark = fingerprint(&step);
        self.ahead.push_back(Item::Step(step));
        self.left_out(mark);
    }

    /// Whether the step is more of the same loop: a buffer that was full, or another stretch, parts it in two. However
    /// long a task has polled, it is one item.
    fn goes_on(&mut self, step: &Step) -> bool {
        let (Step::Loop { accesses, iterations }, Some(Item::Again { unit, times, from: 0, decided: false })) =
            (step, self.ahead.back_mut())
        else {
            return false;
        };
        let [Step::Loop { accesses: same, .. }] = &unit[..] else { return false };
        let unmoved = |(now, before): (&StridedAccess, &StridedAccess)| {
            let stride = if *iterations == 1 { 0 } else { now.stride };
            StridedAccess { stride, latency: before.latency, ..*now } == *before
        };
        let goes_on = accesses.len() == same.len() && accesses.iter().zip(same).all(unmoved);
        *times = times.saturating_add(if goes_on { *iterations } else { 0 });
        goes_on
    }

    /// The repetitions are over: what was swallowed is ahead.
    fn end_unit(&mut self) {
        let Some(Unit { marks, steps, times, same }) = self.unit.take() else { return };
        if steps.len() < marks.len() {
            return self.ahead.extend(steps.into_iter().map(Item::Step));
        }
        let rest: Vec<Item> = steps[..same].iter().cloned().map(Item::Step).collect();
        self.ahead.push_back(Item::Again { unit: steps, times, from: 0, decided: false });
        self.ahead.extend(rest);
    }

    /// Whether what is ahead has a wait at a block that the unit reads. It then says what is polled.
    fn finds_wait(&mut self, unit: &[Step]) -> bool {
        let blocks = blocks_read(unit);
        let mut waits = 0..0;
        for index in 0..NEAR.min(self.ahead.len()) {
            let next = match &self.ahead[index] {
                Item::Step(Step::Wait { .. }) => {
                    waits = if waits.end == index { waits.start..index + 1 } else { index..index + 1 };
                    continue;
                }
                Item::Step(Step::Loop { accesses, .. }) => &accesses[0],
                Item::Again { unit, .. } => match first_access(unit) {
                    Some(access) => access,
                    None => continue,
                },
                Item::Step(_) => continue,
            };
            if !waits.is_empty() && blocks.contains(&(next.base >> BLOCK_SHIFT)) {
                let address = next.base;
                for item in self.ahead.range_mut(waits) {
                    if let Item::Step(Step::Wait { polled, .. }) = item {
                        polled.get_or_insert(address);
                    }
                }
                return true;
            }
            waits = 0..0;
        }
        false
    }

    /// What comes of a unit's repetitions: one and a count, or all of them.
    fn again(&mut self, unit: Vec<Step>, times: u64, from: usize, decided: bool) -> Option<Step> {
        if times == 0 {
            return None;
        }
        if !decided && self.finds_wait(&unit) {
            let accesses: u64 = unit.iter().map(Step::access_count).sum();
            self.ahead.push_front(Item::Step(Step::Polled { accesses: accesses.saturating_mul(times - 1) }));
            unit.into_iter().rev().for_each(|step| self.ahead.push_front(Item::Step(step)));
            return None;
        }
        if let [Step::Loop { accesses, iterations: 1 }] = &unit[..] {
            return Some(Step::Loop { accesses: accesses.clone(), iterations: times });
        }
        let step = unit[from].clone();
        let (times, from) = if from + 1 == unit.len() { (times - 1, 0) } else { (times, from + 1) };
        self.ahead.push_front(Item::Again { unit, times, from, decided: true });
        Some(step)
    }
}

impl Stage for Polls {
    #[inline]
    fn step(&mut self, step: Step) {
        if self.unit.is_none() { self.take(step) } else { self.take_again(step) }
    }

    fn end(&mut self) {
        self.end_unit();
        self.ended = true;
    }

    fn forget(&mut self, _: bool) {
        *self = Self::new();
    }

    #[inline]
    fn is_clear(&self) -> bool {
        self.unit.is_none() && self.ahead.is_empty()
    }

    #[inline]
    fn left_out(&mut self, mark: u64) {
        if let Some(marks) = self.repetition.unit_of(mark) {
            self.unit = Some(Unit { marks, steps: Vec::new(), times: 0, same: 0 });
        }
    }

    #[inline]
    fn is_short(&self) -> bool {
        !self.ended
            && match self.ahead.front() {
                None => true,
                Some(Item::Again { decided: false, .. }) => self.ahead.len() <= NEAR,
                Some(_) => false,
            }
    }

    #[inline]
    fn next(&mut self) -> Option<Step> {
        loop {
            match self.ahead.pop_front() {
                None => return None,
                Some(Item::Step(step)) => return Some(step),
                Some(Item::Again { unit, times, from, decided }) => {
                    if let Some(step) = self.again(unit, times, from, decided) {
                        return Some(step);
                    }
                }
            }
        }
    }
}

impl Unit {
    /// Whether the step is the next of the unit, as it was before.
    fn takes(&mut self, step: &Step) -> bool {
        if let Some(&mark) = self.marks.get(self.steps.len()) {
            if fingerprint(step) != mark {
                return false;
            }
            self.steps.push(step.clone());
            self.times += u64::from(self.steps.len() == self.marks.len());
            return true;
        }
        if !is_alike(step, &self.steps[self.same]) {
            return false;
        }
        self.same += 1;
        if self.same == self.steps.len() {
            self.same = 0;
            self.times += 1;
        }
        true
    }
}

/// Whether steps are the same but for how long instructions wait for one another: what repeats is taken to wait for as
/// long each time.
fn is_alike(one: &Step, other: &Step) -> bool {
    match (one, other) {
        (Step::Loop { accesses, iterations }, Step::Loop { accesses: others, iterations: times }) => {
            let same = |(access, other): (&StridedAccess, &StridedAccess)| {
                StridedAccess { latency: other.latency, ..*access } == *other
            };
            iterations == times && accesses.len() == others.len() && accesses.iter().zip(others).all(same)
        }
        (Step::Compute { instructions, .. }, Step::Compute { instructions: others, .. }) => instructions == others,
        _ => one == other,
    }
}

/// Whether a step is a loop that accesses the same in each of several iterations.
pub(crate) fn is_a_spin(step: &Step) -> bool {
    matches!(step, Step::Loop { accesses, iterations }
        if *iterations > 3 && accesses.iter().all(|access| access.stride == 0))
}

/// A single iteration has no stride.
fn constant(mut step: Step) -> Step {
    if let Step::Loop { accesses, iterations: 1 } = &mut step {
        accesses.iter_mut().for_each(|access| access.stride = 0);
    }
    step
}

fn mix(word: u64) -> u64 {
    let product = multiplied(word);
    product ^ product >> 29
}

/// The fingerprint of accesses that are made once, one after another.
#[derive(Debug, Default)]
pub(crate) struct Fingerprint {
    sum: u64,
    accesses: u64,
}

impl Fingerprint {
    #[inline]
    pub fn add(&mut self, access: &StridedAccess) {
        self.accesses += 1;
        let about = u64::from(access.size_bytes) << 32 | u64::from(access.instructions);
        let how = self.accesses << 48 | (access.kind as u64) << 44;
        self.sum = self.sum.wrapping_add(mix(access.base.wrapping_add(mix(about.wrapping_add(how)))));
    }

    pub fn finish(&self) -> u64 {
        self.sum | 1
    }
}

/// Of a step that is no part of any unit.
pub(crate) const NO_FINGERPRINT: u64 = 0;

/// Of a step that may be of a unit, the same for equal ones; else [`NO_FINGERPRINT`]. Each access is mixed by itself, so that they need
/// not wait for one another.
pub(crate) fn fingerprint(step: &Step) -> u64 {
    match step {
        Step::Loop { accesses, iterations: 1 } => {
            let mut mark = Fingerprint::default();
            accesses.iter().for_each(|access| mark.add(access));
            mark.finish()
        }
        Step::Compute { instructions, .. } => mix(instructions.wrapping_add(2 << 56)) | 1,
        Step::Code { page } => mix(page.wrapping_add(3 << 56)) | 1,
        _ => NO_FINGERPRINT,
    }
}

fn first_access(unit: &[Step]) -> Option<&StridedAccess> {
    unit.iter().find_map(|step| match step {
        Step::Loop { accesses, .. } => accesses.first(),
        _ => None,
    })
}

fn blocks_read(unit: &[Step]) -> Vec<u64> {
    let accesses = unit.iter().flat_map(|step| match step {
        Step::Loop { accesses, .. } => &accesses[..],
        _ => &[],
    });
    accesses.filter(|access| access.kind.reads()).map(|access| access.base >> BLOCK_SHIFT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessKind, Reason};

    fn read(address: u64) -> Step {
        Step::access(StridedAccess::new(AccessKind::Read, address, 4))
    }

    fn wait(polled: Option<u64>) -> Step {
        Step::Wait { task: 1, position: 9, reason: Reason::Data, polled }
    }

    fn told(steps: Vec<Step>) -> Vec<Step> {
        let (mut polls, mut told, mut steps) = (Polls::new(), Vec::new(), steps.into_iter());
        loop {
            while polls.is_short() {
                match steps.next() {
                    Some(step) => polls.step(step),
                    None => polls.end(),
                }
            }
            match polls.next() {
                Some(step) => told.push(step),
                None if polls.is_short() => {}
                None => return told,
            }
        }
    }

    fn positions(steps: &[Step]) -> u64 {
        steps.iter().map(Step::access_count).sum()
    }

    fn times(unit: &[Step], times: usize) -> Vec<Step> {
        unit.iter().cycle().take(unit.len() * times).cloned().collect()
    }

    const FLAG: u64 = 0x1008;

    #[test]
    fn what_is_read_until_another_writes_it_is_a_wait() {
        let pause = Step::compute(3);
        let stack = Step::access(StridedAccess::new(AccessKind::ReadWrite, 0x7000, 8));
        for unit in [vec![read(FLAG)], vec![read(FLAG), pause.clone()], vec![pause, read(FLAG), stack]] {
            for count in [4, 5, 1000] {
                // The last look sees the new value: the wait comes before it.
                let mut steps = times(&unit, count);
                steps.extend([wait(None), read(FLAG), read(0x2000)]);
                let found = told(steps.clone());
                assert_eq!(positions(&found), positions(&steps), "{unit:?} {count}");
                assert!(found.len() <= 4 * unit.len() + 5, "{found:?}");
                assert!(found.contains(&wait(Some(FLAG))), "{found:?}");
                assert!(!found.contains(&wait(None)));
            }
        }
    }

    /// As the recorder parts it: its buffer is full after 4096 looks, and the first of the next is decoded by itself.
    #[test]
    fn a_loop_that_was_parted_again_and_again_is_one() {
        let Step::Loop { accesses, .. } = read(FLAG) else { unreachable!() };
        for parts in [3, 40, 4000] {
            let many = Step::Loop { accesses: accesses.clone(), iterations: 4095 };
            let mut steps = times(&[read(FLAG), many], parts);
            steps.extend([wait(None), read(FLAG)]);
            let found = told(steps.clone());
            assert_eq!(positions(&found), positions(&steps), "{parts}");
            assert!(
                found.len() <= 8 && found.contains(&wait(Some(FLAG))),
                "{parts}: {} {:?}",
                found.len(),
                &found[..8]
            );
            let polled = |step: &Step| if let Step::Polled { accesses } = step { *accesses } else { 0 };
            assert!(positions(&found) - found.iter().map(polled).sum::<u64>() <= 6, "{found:?}");
        }
    }

    #[test]
    fn a_loop_of_one_segment_is_one_as_well() {
        let Step::Loop { accesses, .. } = read(FLAG) else { unreachable!() };
        let steps = vec![Step::Loop { accesses, iterations: 70 }, wait(None), read(FLAG)];
        assert_eq!(told(steps), [read(FLAG), Step::Polled { accesses: 69 }, wait(Some(FLAG)), read(FLAG)]);
    }

    #[test]
    fn who_asks_to_be_woken_after_a_while_has_polled_too() {
        let mut steps = times(&[read(FLAG)], 50);
        // The call, the kernel's look, and another round before the value is there.
        let call = [read(0x7000), read(0x7010), read(0x3000), read(FLAG), read(0x7018)];
        steps.extend(call.clone());
        steps.extend(times(&[read(FLAG)], 50));
        steps.extend(call);
        steps.extend([wait(None), Step::Code { page: 3 }, read(FLAG)]);
        let found = told(steps.clone());
        assert_eq!(positions(&found), positions(&steps));
        assert_eq!(found.iter().filter(|step| matches!(step, Step::Polled { .. })).count(), 2, "{found:?}");
        assert!(found.contains(&wait(Some(FLAG))));
    }

    /// A loop that polls is found however long its instructions wait for one another each time.
    #[test]
    fn how_long_instructions_wait_tells_no_repetition_apart() {
        let later = |mut step: Step, round: usize| {
            match &mut step {
                Step::Loop { accesses, .. } => accesses.iter_mut().for_each(|access| access.latency = round as u32 % 5),
                Step::Compute { latency, .. } => *latency = round as u64 % 3,
                _ => {}
            }
            step
        };
        for unit in [vec![read(FLAG)], vec![read(FLAG), Step::compute(3)]] {
            for end in [vec![wait(None), read(FLAG), read(0x2000)], vec![read(0x2000)]] {
                let mut steps = times(&unit, 40);
                steps.extend(end);
                let waiting = (0..).zip(&steps).map(|(round, step)| later(step.clone(), round)).collect();
                let (found, wanted) = (told(waiting), told(steps));
                assert_eq!(found.len(), wanted.len());
                assert!(found.iter().zip(&wanted).all(|(one, other)| is_alike(one, other)), "{found:?} {wanted:?}");
            }
        }
    }

    #[test]
    fn repetitions_that_wait_for_nothing_stay() {
        let unit = [read(FLAG), Step::compute(3), read(0x2000)];
        for count in [1, 2, 3, 4, 5, 6, 40] {
            for end in [vec![], vec![wait(None), read(0x9000)], vec![read(FLAG)], vec![read(FLAG), read(0x5000)]] {
                let mut steps = times(&unit, count);
                steps.extend(end);
                assert_eq!(told(steps.clone()), steps, "{count}");
            }
        }
        let one: Vec<_> = times(&[read(FLAG)], 9);
        assert_eq!(positions(&told(one.clone())), 9);
        assert!(told(one).iter().all(|step| matches!(step, Step::Loop { .. })));
    }
}
