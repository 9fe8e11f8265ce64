//! When the instructions of a task would end if nothing held them up but one another: a dataflow machine.
//!
//! An instruction begins when what it reads is there, and not before the one that comes a window before it is done and all
//! before that. As many begin at a time as can: how fast a core begins them is the simulator's affair. Loads take as long as
//! those that the L1 serves; what was stored at the same address just before is there when it was made. So what comes out
//! is a lower bound.

use crate::flow::{Flow, LAST, LOADS, NEXT, Part, RECORDED, REGISTERS, STORES};
use crate::segment::Segment;

/// In what latencies are told: so many are a cycle.
pub const PARTS_OF_A_CYCLE: u64 = 256;
/// A larger window is taken for this one.
const LARGEST_WINDOW: u64 = 1024;
/// Addresses of recent stores that are remembered, at most.
const STORES_KNOWN: usize = 1024;

/// Iterations of a run that are gone through one by one, at most: the rest take what the second half of them takes.
const MOST_ROUNDS: u64 = 1 << 16;

/// What a core is like for whom dependences between instructions are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependences {
    /// So many instructions are under way at a time; at least 1.
    pub window: u64,
    /// What a load from the first cache takes, in parts of a cycle.
    pub load: u64,
}

/// A value in memory, and since when it is there.
#[derive(Debug, Clone, Copy, Default)]
struct Stored {
    address: u64,
    at: u64,
}

/// The state of one task; all times are in parts of a cycle.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    load: u64,
    window: u64,
    /// Since when each register's value is there.
    ready: [u64; REGISTERS],
    /// When each of the last instructions and all before it were done, by number; and since when there is what it has
    /// stored.
    done: Vec<u64>,
    stored: Vec<u64>,
    /// The number of the next instruction.
    number: u64,
    /// When all until now are done.
    all_done: u64,
    memory: Vec<Stored>,
}

/// The state at some iteration of a loop.
struct Before {
    iteration: u64,
    all_done: u64,
    state: Vec<u64>,
    moved: Vec<u64>,
}

impl Scoreboard {
    pub fn new(core: Dependences) -> Self {
        let window = core.window.clamp(1, LARGEST_WINDOW);
        let kept = window.next_power_of_two() as usize;
        Self {
            load: core.load,
            window,
            ready: [0; REGISTERS],
            done: vec![0; kept],
            stored: vec![0; kept],
            number: 0,
            all_done: 0,
            memory: vec![Stored::default(); STORES_KNOWN],
        }
    }

    /// A segment runs so many times, its anchors beginning at these addresses and moving by these strides. By how much
    /// the end of all moves on up to each of its accesses (the last one's including what comes behind it), all times
    /// together; of a segment without accesses by how much in all.
    pub fn run(&mut self, segment: &Segment, flow: &Flow, anchors: &[(u64, i64)], times: u64, moved: &mut Vec<u64>) {
        moved.clear();
        moved.resize(segment.accesses.len().max(1), 0);
        if flow.parts.is_empty() {
            return;
        }
        // A loop is as its iterations when all that is under way is of it.
        let first = self.window.div_ceil(flow.instructions) + 1;
        let repeats = times > 2 * first && is_steady(segment, anchors, times);
        let mut before: Option<Before> = None;
        let mut half: Option<Before> = None;
        let mut iteration = 0;
        while iteration < times {
            if iteration == MOST_ROUNDS / 2 {
                half = Some(Before { iteration, all_done: self.all_done, state: Vec::new(), moved: moved.clone() });
            }
            if let Some(half) = half.as_ref().filter(|_| iteration == MOST_ROUNDS) {
                iteration += self.skip(half, iteration, times, flow, moved);
                self.remember(segment, flow, anchors, iteration);
                (iteration..times).for_each(|left| self.round(segment, flow, anchors, left, moved));
                return;
            }
            if repeats && iteration >= first {
                match &before {
                    Some(before) if self.state(flow).eq(before.state.iter().copied()) => {
                        iteration += self.skip(before, iteration, times, flow, moved);
                        self.remember(segment, flow, anchors, iteration);
                        (iteration..times).for_each(|left| self.round(segment, flow, anchors, left, moved));
                        return;
                    }
                    // It is looked for at twice the distance (Brent 1980): whatever the period is, it is found.
                    Some(before) if iteration < 2 * before.iteration => {}
                    _ => {
                        let state = self.state(flow).collect();
                        before = Some(Before { iteration, all_done: self.all_done, state, moved: moved.clone() });
                    }
                }
            }
            self.round(segment, flow, anchors, iteration, moved);
            iteration += 1;
        }
    }

    /// One iteration, instruction by instruction.
    fn round(&mut self, segment: &Segment, flow: &Flow, anchors: &[(u64, i64)], iteration: u64, moved: &mut [u64]) {
        let mask = self.done.len() - 1;
        let (mut access, mut from) = (0, 0);
        let mut told = self.all_done;
        let (mut floor, mut end, mut stored) = (self.floor(), 0, 0);
        for &Part { reads, writes, cycles, does } in &flow.parts {
            let mut begin = floor;
            for register in reads {
                begin = begin.max(self.ready[usize::from(register) % REGISTERS]);
            }
            let mut takes = u64::from(cycles) * PARTS_OF_A_CYCLE;
            if does & LOADS != 0 {
                takes += self.load;
                if does & RECORDED != 0 {
                    begin = begin.max(self.memory_at(address(segment, anchors, access, iteration)));
                }
            }
            let there = begin.saturating_add(takes);
            self.ready[usize::from(writes[0]) % REGISTERS] = there;
            self.ready[usize::from(writes[1]) % REGISTERS] = there;
            end = end.max(there);
            if does & STORES != 0 {
                self.store(address(segment, anchors, access, iteration), there);
                stored = stored.max(there);
            }
            access += usize::from(does & NEXT != 0);
            if does & LAST != 0 {
                self.all_done = self.all_done.max(end);
                let at = self.number as usize & mask;
                (self.done[at], self.stored[at]) = (self.all_done, stored);
                self.number += 1;
                (floor, end, stored) = (self.floor(), 0, 0);
                if access > from {
                    let at = from.min(moved.len() - 1);
                    moved[at] = moved[at].saturating_add(self.all_done - told);
                    told = self.all_done;
                    from = access;
                }
            }
        }
        let last = moved.len() - 1;
        moved[last] = moved[last].saturating_add(self.all_done - told);
    }

    /// Before that nothing begins any more.
    #[inline]
    fn floor(&self) -> u64 {
        match self.number.checked_sub(self.window) {
            Some(number) => self.done[number as usize & (self.done.len() - 1)],
            None => 0,
        }
    }

    /// What is under way of a loop, by when it is there, from the earliest moment on that still matters.
    fn state<'a>(&'a self, flow: &'a Flow) -> impl Iterator<Item = u64> + 'a {
        let floor = self.floor();
        let kept = self.done.len() as u64 - 1;
        let last = (self.number - self.window..self.number).map(move |number| (number & kept) as usize);
        let times = last.flat_map(|at| [self.done[at], self.stored[at]]);
        let registers = flow.registers.iter().map(|&register| self.ready[usize::from(register)]);
        registers.chain(times).map(move |time| time.saturating_sub(floor))
    }

    /// The state is as it was `before`: goes over as many iterations as are whole such periods. How many.
    fn skip(&mut self, before: &Before, iteration: u64, times: u64, flow: &Flow, moved: &mut [u64]) -> u64 {
        let period = iteration - before.iteration;
        let periods = (times - iteration) / period;
        let later = (self.all_done - before.all_done).saturating_mul(periods);
        for (now, then) in moved.iter_mut().zip(&before.moved) {
            *now = now.saturating_add((*now - then).saturating_mul(periods));
        }
        let late = |time: &mut u64| *time = time.saturating_add(later);
        flow.registers.iter().for_each(|&register| late(&mut self.ready[usize::from(register)]));
        self.done.iter_mut().chain(&mut self.stored).for_each(late);
        self.all_done = self.all_done.saturating_add(later);
        periods * period
    }

    /// What the last iterations before `iteration` have stored, as far as that is under way.
    fn remember(&mut self, segment: &Segment, flow: &Flow, anchors: &[(u64, i64)], iteration: u64) {
        let kept = self.done.len() as u64 - 1;
        for back in (1..=self.window.div_ceil(flow.instructions)).rev() {
            let first = self.number - back * flow.instructions;
            let (mut access, mut within) = (0, 0);
            for part in &flow.parts {
                if part.does & STORES != 0 && first + within + self.window >= self.number {
                    let at = self.stored[((first + within) & kept) as usize];
                    self.store(address(segment, anchors, access, iteration - back), at);
                }
                access += usize::from(part.does & NEXT != 0);
                within += u64::from(part.does & LAST != 0);
            }
        }
    }

    fn slot(address: u64) -> usize {
        ((address >> 3 ^ address >> 13) as usize) % STORES_KNOWN
    }

    fn memory_at(&self, address: u64) -> u64 {
        let stored = self.memory[Self::slot(address)];
        if stored.address == address { stored.at } else { 0 }
    }

    fn store(&mut self, address: u64, at: u64) {
        self.memory[Self::slot(address)] = Stored { address, at };
    }
}

/// The address of an access in an iteration of a run.
#[inline]
fn address(segment: &Segment, anchors: &[(u64, i64)], access: usize, iteration: u64) -> u64 {
    let Some(access) = segment.accesses.get(access) else { return 0 };
    let (base, stride) = anchors.get(usize::from(access.anchor)).copied().unwrap_or_default();
    base.wrapping_add_signed(access.offset.into()).wrapping_add_signed(stride.wrapping_mul(iteration as i64))
}

/// Whether each load meets the same store so many iterations before it, or none, all the time: those that move
/// differently never meet.
fn is_steady(segment: &Segment, anchors: &[(u64, i64)], times: u64) -> bool {
    let stride = |access: usize| anchors.get(usize::from(segment.accesses[access].anchor)).map_or(0, |anchor| anchor.1);
    let ends = |access: usize| {
        let ends = [0, times].map(|iteration| i128::from(address(segment, anchors, access, iteration)));
        (ends[0].min(ends[1]), ends[0].max(ends[1]))
    };
    let all = 0..segment.accesses.len();
    let mut stores = all.clone().filter(|&access| segment.accesses[access].kind.writes());
    stores.all(|store| {
        let moves = stride(store);
        let (first, last) = ends(store);
        all.clone().all(|other| {
            let (from, to) = if stride(other) == moves { return true } else { ends(other) };
            to < first || from > last
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AccessKind::{self, Read, Write};
    use crate::flow::tests::segment;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const CORE: Dependences = Dependences { window: 32, load: 4 * PARTS_OF_A_CYCLE };
    const ADD: &[u8] = &[0x48, 0x01, 0xd8]; // add rax, rbx
    const ADD_RCX: &[u8] = &[0x48, 0x01, 0xd9]; // add rcx, rbx
    const LEA_RDX: &[u8] = &[0x48, 0x8d, 0x13]; // lea rdx, [rbx]
    const FADD: &[u8] = &[0xf2, 0x0f, 0x58, 0xc1]; // addsd xmm0, xmm1
    const FLOAD_XMM1: &[u8] = &[0xf2, 0x0f, 0x10, 0x0b]; // movsd xmm1, [rbx]
    const FMUL_XMM1: &[u8] = &[0xf2, 0x0f, 0x59, 0xca]; // mulsd xmm1, xmm2
    const LOAD: &[u8] = &[0x48, 0x8b, 0x03]; // mov rax, [rbx]
    const STORE: &[u8] = &[0x48, 0x89, 0x03]; // mov [rbx], rax
    const CHASE: &[u8] = &[0x48, 0x8b, 0x00]; // mov rax, [rax]

    /// Cycles that a run takes, from nothing on.
    fn cycles(
        core: Dependences,
        code: &[&[u8]],
        accesses: &[(u32, AccessKind)],
        anchors: &[(u64, i64)],
        times: u64,
    ) -> f64 {
        let segment = segment(code, accesses);
        let mut board = Scoreboard::new(core);
        let mut moved = Vec::new();
        board.run(&segment, &Flow::of(&segment), anchors, times, &mut moved);
        assert_eq!(moved.iter().fold(0, |sum: u64, one| sum.saturating_add(*one)), board.all_done);
        board.all_done as f64 / PARTS_OF_A_CYCLE as f64
    }

    #[test]
    fn what_waits_for_one_another_takes_as_long_as_the_chain() {
        let still = &[(0x1000, 0), (0x1000, 0)][..];
        for (text, code, accesses, anchors, times, expected) in [
            ("a chain of additions", &[ADD][..], &[][..], &[][..], 1000, 1000.0),
            // A window of them at a time.
            ("what needs nothing of one another", &[LEA_RDX], &[], &[], 320, 10.0),
            ("two chains", &[ADD, ADD_RCX], &[], &[], 1000, 1000.0),
            ("a chain of floating-point additions", &[FADD], &[], &[], 100, 300.0),
            // Of each iteration only the addition is in the chain; the first waits for a load and a product.
            (
                "multiply and accumulate",
                &[FLOAD_XMM1, FMUL_XMM1, FADD],
                &[(0, Read)],
                &[(0x1000, 8)],
                1000,
                3000.0 + 6.0 + 3.0,
            ),
            ("a list", &[CHASE], &[(0, Read)], &[(0x1000, 64)], 100, 400.0),
            ("a counter in memory", &[LOAD, ADD, STORE], &[(0, Read), (2, Write)], still, 100, 600.0),
            // Each reads what the iteration before has written.
            (
                "a[i] = a[i - 1] + c",
                &[LOAD, ADD, STORE],
                &[(0, Read), (2, Write)],
                &[(0x1000, 8), (0x1008, 8)],
                100,
                600.0,
            ),
        ] {
            assert_eq!(cycles(CORE, code, accesses, anchors, times), expected, "{text}");
        }
    }

    /// Iterations of a chain of 32 that need nothing of one another.
    #[test]
    fn no_more_is_under_way_than_the_window() {
        let zero: &[u8] = &[0x31, 0xc0]; // xor eax, eax
        let mut code = vec![zero];
        code.extend([ADD; 31]);
        let of = |window| cycles(Dependences { window, ..CORE }, &code, &[], &[], 100);
        // The second begins with the first, the third where the first is done: two at a time, and the last one cycle later.
        assert_eq!(of(32), 50.0 * 32.0 + 1.0);
        assert!(of(64) < 1200.0 && of(64) > of(1024) && of(1024) < 150.0, "{} {}", of(64), of(1024));
    }

    /// A few bytes may say that something runs any number of times: that takes no time, and no time is too long.
    #[test]
    fn any_number_of_iterations_can_be_told() {
        let apart = &[(0x1000, 8), (0x1000 + (1 << 40), -8)][..];
        for times in [MOST_ROUNDS - 1, MOST_ROUNDS, 3 * MOST_ROUNDS + 5, 1 << 40, u64::MAX] {
            let found = cycles(CORE, &[LOAD, ADD, STORE], &[(0, Read), (2, Write)], apart, times);
            // Nothing is in the way of a load but the window, in which there are ten others.
            let expected = times as f64 * 6.0 / 10.0;
            let least = expected.min(u64::MAX as f64 / 256.0) / 2.0;
            assert!(found > least / 2.0 && found <= (4.0 * least).max(1e6), "{times}: {found}");
            assert!(cycles(CORE, &[ADD], &[], &[], times) >= (times as f64).min(7e16), "{times}");
        }
    }

    /// The same, obviously: each instruction by itself, and all that was ever stored remembered.
    struct Slow {
        core: Dependences,
        ready: [u64; REGISTERS],
        done: Vec<u64>,
        memory: HashMap<u64, u64>,
    }

    impl Slow {
        fn run(&mut self, segment: &Segment, flow: &Flow, anchors: &[(u64, i64)], times: u64) -> Vec<u64> {
            let mut moved = vec![0; segment.accesses.len().max(1)];
            for iteration in 0..times {
                let (mut access, mut first, mut end) = (0, 0, 0);
                let mut told = self.done.last().copied().unwrap_or(0);
                for part in &flow.parts {
                    let before = self.done.len().checked_sub(self.core.window as usize);
                    let mut begin = before.map_or(0, |number| self.done[number]);
                    for register in part.reads {
                        begin = begin.max(self.ready[register as usize]);
                    }
                    let mut there = begin + u64::from(part.cycles) * PARTS_OF_A_CYCLE;
                    if part.does & LOADS != 0 {
                        let at = address(segment, anchors, access, iteration);
                        let stored = if part.does & RECORDED != 0 { self.memory.get(&at).copied() } else { None };
                        there += stored.unwrap_or(0).saturating_sub(begin) + self.core.load;
                    }
                    for register in part.writes {
                        self.ready[register as usize] = there;
                    }
                    if part.does & STORES != 0 {
                        self.memory.insert(address(segment, anchors, access, iteration), there);
                    }
                    end = end.max(there);
                    access += usize::from(part.does & NEXT != 0);
                    if part.does & LAST != 0 {
                        let all = self.done.last().copied().unwrap_or(0).max(end);
                        self.done.push(all);
                        end = 0;
                        if access > first {
                            moved[first] += all - told;
                            (first, told) = (access, all);
                        }
                    }
                }
                *moved.last_mut().unwrap() += self.done.last().copied().unwrap_or(0) - told;
            }
            moved
        }
    }

    /// Instructions of three registers and memory, one of which makes no access, or reads, or writes.
    fn instruction() -> impl Strategy<Value = (Vec<u8>, Option<AccessKind>)> {
        let two =
            |opcode: u8| (0..3u8, 0..3u8).prop_map(move |(to, from)| (vec![0x48, opcode, 0xc0 | from << 3 | to], None));
        prop_oneof![
            two(0x01),
            two(0x89),
            (0..3u8, 0..3u8).prop_map(|(to, from)| (vec![0x48, 0x0f, 0xaf, 0xc0 | to << 3 | from], None)),
            (0..3u8).prop_map(|to| (vec![0x31, 0xc0 | to << 3 | to], None)),
            (0..3u8).prop_map(|to| (vec![0x48, 0x8b, 0x03 | to << 3], Some(Read))),
            (0..3u8).prop_map(|from| (vec![0x48, 0x89, 0x03 | from << 3], Some(Write))),
            (0..3u8).prop_map(|from| (vec![0x48, 0x01, 0x03 | from << 3], Some(AccessKind::ReadWrite))),
        ]
    }

    proptest! {
        /// Runs of several segments, one after another, loops among them.
        #[test]
        fn loops_are_as_their_iterations_one_by_one(
            code in prop::collection::vec(prop::collection::vec(instruction(), 1..10), 1..4),
            runs in prop::collection::vec((0..4usize, 1..200u64, prop::collection::vec((0..24u64, -2..3i64), 10)), 1..5),
            window in 1..70u64,
        ) {
            let core = Dependences { window, ..CORE };
            let made: Vec<(Segment, Flow)> = code.iter().map(|instructions| {
                let bytes: Vec<&[u8]> = instructions.iter().map(|one| &one.0[..]).collect();
                let accesses: Vec<_> =
                    (0..).zip(instructions).filter_map(|(at, one)| Some((at, one.1?))).collect();
                let segment = segment(&bytes, &accesses);
                let flow = Flow::of(&segment);
                (segment, flow)
            }).collect();
            let mut fast = Scoreboard::new(core);
            let mut slow = Slow { core, ready: [0; REGISTERS], done: Vec::new(), memory: HashMap::new() };
            let mut moved = Vec::new();
            for (which, times, anchors) in runs {
                let (segment, flow) = &made[which % made.len()];
                // Few enough that no store is forgotten.
                let anchors: Vec<(u64, i64)> =
                    anchors.into_iter().map(|(base, stride)| (0x10_1000 + base * 8, stride * 8)).collect();
                fast.run(segment, flow, &anchors, times, &mut moved);
                prop_assert_eq!(&moved, &slow.run(segment, flow, &anchors, times));
            }
        }
    }
}
