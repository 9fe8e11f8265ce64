//! Which memory tasks use, from their registers at moments that a clock chooses: a PMU's memory samples (PEBS, IBS, SPE) without a PMU.
//!
//! A timer's interrupt finds a task before some instruction. What that and the next few instructions read or write follows from
//! their bytes and the registers (`decode`), as precisely as if it had been run: a *sample*, of readers and writers alike,
//! in proportion to the time that they take. Who is sampled near one another in memory (`neighbourhoods`) shares it, as far as there are
//! samples enough to tell (`scales`).

mod decode;
mod delays;
mod neighbourhoods;
mod scales;
mod sorted;
mod waits;

use crate::allowance::OVERHEAD_PERCENT;
use crate::evidence::{Evidence, Kind};
pub use decode::Code;
use decode::{Access, Decode, Moment};
pub use delays::{DELAYS, DRAWN, Delays};
use neighbourhoods::{LINE_BYTES, Neighbour, Neighbourhoods};
use scales::{MEETING, Scales};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use waits::{Span, Waits};

/// How much time there is at least from one sample on a PU to the next where detection may take 1 % of what the tasks run, at the
/// timer's own interrupts. These come 100 to 1,000 times a second, mostly 250.
const BETWEEN: Duration = Duration::from_micros(1900);
/// And where each sample is an interrupt of its own, which takes up to 20 us on a virtual machine (benches/online.md).
const BETWEEN_INTERRUPTS: Duration = Duration::from_millis(8);
/// And where the timer is set for a sample after a switch, which adds an interrupt and no more.
const BETWEEN_SWITCHES: Duration = Duration::from_millis(4);
/// On many PUs it is more: what is found out of a sample takes some microseconds, and 20,000 a second are enough.
const FOR_EACH_PU: Duration = Duration::from_micros(50);

/// How long samples are recent: from half a second on until there are so many that tasks meet among them, and no longer than that.
const RECENT: Duration = Duration::from_millis(500);
const RECENT_SAMPLES: u32 = 250;
const RECENT_AT_MOST: Duration = Duration::from_secs(2);

/// What brings samples about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The interrupts that the kernel's timer makes anyway.
    Timer,
    /// Interrupts of their own.
    Clock,
    /// Interrupts of the timer that are set after switches.
    Switch,
}

/// How much time there is at least from one sample on a PU to the next, where detection may take so many percent of what the tasks
/// run; more than none.
pub fn between(by: By, overhead_percent: f64) -> Duration {
    let pus = std::thread::available_parallelism().map_or(1, usize::from);
    let at_least = match by {
        By::Timer => BETWEEN,
        By::Clock => BETWEEN_INTERRUPTS,
        By::Switch => BETWEEN_SWITCHES,
    };
    let between = at_least.max(FOR_EACH_PU * u32::try_from(pus).unwrap_or(u32::MAX));
    between.mul_f64((OVERHEAD_PERCENT / overhead_percent).clamp(1e-3, 1e3))
}

/// Whether samples show what a program does: not where its tasks wait for one another nearly all the time, in the kernel or in loops,
/// or where what they run cannot be read.
#[derive(Debug)]
pub struct Telling {
    /// Of running time, how much there is from one look to the next.
    every: Duration,
    /// When it was last looked at: how long the tasks had run, and how many samples had shown an access.
    since: (Duration, u64),
    are_taken: bool,
    tells: bool,
}

/// Samples with an access, in a second of it, that tell: a tenth of 250, or a quarter of 100.
const TELLING: f64 = 25.0;

impl Telling {
    /// For a source that samples, or does not, to be looked at every so much running time. One that does is trusted at first.
    pub fn new(samples: bool, every: Duration) -> Self {
        Self { every, since: (Duration::ZERO, 0), are_taken: samples, tells: samples }
    }

    /// Looks again. `ran` is how long the tasks have run, `telling` how many samples showed an access.
    pub fn look(&mut self, ran: Duration, telling: u64) {
        let time = ran.saturating_sub(self.since.0);
        if time >= self.every {
            self.tells = telling.saturating_sub(self.since.1) as f64 >= TELLING * time.as_secs_f64();
            self.since = (ran, telling);
        }
    }

    /// Whether there are any at all.
    pub fn are_taken(&self) -> bool {
        self.are_taken
    }

    /// Whether they do.
    pub fn tells(&self) -> bool {
        self.tells
    }
}

/// A task's registers before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// The instruction's address.
    pub instruction: u64,
    /// By the numbers that x86-64's instructions have for them: ax, cx, dx, bx, sp, bp, si, di, r8 to r15.
    pub general: [u64; 16],
}

/// When a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// When it was time for one.
    Regularly,
    /// Shortly after a switch to the task.
    AfterSwitch,
}

/// Samples so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Taken at regular times, so that they stand for what the tasks do.
    pub samples: u64,
    /// Those that showed any access of a task at work to memory that others can come to.
    pub telling: u64,
    /// Those of tasks that waited in a loop for what others write.
    pub waiting: u64,
    /// Taken shortly after a switch to the task, besides the others, and those that showed such an access.
    pub after_switches: u64,
    /// See there.
    pub telling_after_switches: u64,
    /// The accesses that all showed.
    pub accesses: u64,
    /// Pairs of tasks credited.
    pub events: u64,
}

/// A task was seen at an address of its process, by a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// Its number.
    pub task: u32,
    /// Where.
    pub address: u64,
    /// Whether it was about to write there.
    pub writes: bool,
    /// How many samples nearest to it were looked at, and how many of these were of other tasks: the more of them, the likelier it is that
    /// others use the place.
    pub near: (u32, u32),
}

/// Sightings that are kept from one call to the next.
const SIGHTINGS: usize = 64;
/// Of a sighting, how many neighbours are looked at.
const LOOKED_AT: usize = 4;

/// Makes events of samples.
#[derive(Default)]
pub struct Sampler {
    decode: Decode,
    neighbourhoods: Neighbourhoods,
    /// The same, of the last moments only: where tasks have changed what they work with, the others still tell what was before.
    recent: Neighbourhoods,
    recent_since: Duration,
    /// That showed an access since then.
    recent_samples: u32,
    scales: Scales,
    waits: Waits,
    sightings: VecDeque<Sighting>,
    /// So far.
    pub sums: Sums,
}

impl Sampler {
    /// A task was before an instruction of `code`. `place` finds the memory of an address, and where in it that is; none where
    /// nobody else can come to it, which says nothing, and `value` what is there now, where that can be read. `now` is since any moment.
    /// Whether it tells anything.
    pub fn add(
        &mut self,
        (now, taken): (Duration, Taken),
        task: u32,
        registers: &Registers,
        code: &Code,
        place: impl Fn(u64) -> Option<(u64, u64)>,
        value: impl Fn(u64) -> Option<u64>,
    ) -> bool {
        let Moment { accesses, repeats, may_wait } = self.decode.next(registers, code);
        let sums = &mut self.sums;
        let (samples, telling) = match taken {
            Taken::Regularly => (&mut sums.samples, &mut sums.telling),
            Taken::AfterSwitch => (&mut sums.after_switches, &mut sums.telling_after_switches),
        };
        *samples += 1;
        if repeats {
            // Again and again the same: that says nothing of what it works with.
            if may_wait && taken == Taken::Regularly {
                let of_others = accesses.iter().filter_map(|access| Some((place(access.address)?, access)));
                let (reads, read): (Vec<Span>, Vec<&Access>) =
                    of_others.map(|(place, access)| (Span::of(place, access.bytes), access)).unzip();
                let value = |at: usize| Some(value(read[at].address)? & mask(read[at].bytes));
                sums.waiting += if reads.is_empty() { 0 } else { self.waits.reads(task, reads, value) };
            }
            return false;
        }
        let of_others = accesses.into_iter().filter_map(|access| Some((place(access.address)?, access)));
        let accesses: Vec<_> = of_others.collect();
        let written = accesses.iter().filter(|(_, access)| access.writes);
        sums.waiting +=
            written.map(|&(place, access)| self.waits.writes(task, Span::of(place, access.bytes))).sum::<u64>();
        let addresses: Vec<u64> = accesses.iter().map(|(_, access)| access.address).collect();
        let accesses: Vec<_> = accesses.into_iter().map(|(place, access)| (place, access.writes)).collect();
        *telling += u64::from(!accesses.is_empty());
        sums.accesses += accesses.len() as u64;
        let lines = lines(&accesses, &addresses);
        let recent = now.saturating_sub(self.recent_since);
        if recent >= RECENT_AT_MOST || recent >= RECENT && self.recent_samples >= RECENT_SAMPLES {
            (self.recent, self.recent_since, self.recent_samples) = (Neighbourhoods::of(MEETING), now, 0);
        }
        self.recent_samples += u32::from(!accesses.is_empty());
        let places = |neighbourhoods: &mut Neighbourhoods| -> Vec<(bool, Vec<Neighbour>)> {
            let place = |line: &Line| {
                let (memory, address) = line.place;
                Some((line.writes, neighbourhoods.touch(now, memory, (address, line.writes), task)?))
            };
            lines.iter().filter_map(place).collect()
        };
        let seen = places(&mut self.neighbourhoods);
        self.scales.add(task, &seen);
        self.scales.meet(task, &places(&mut self.recent));
        // The first is what the task was about to use.
        if let (Some(line), Some((_, near))) = (lines.first(), seen.first()) {
            let near = &near[..LOOKED_AT.min(near.len())];
            let others = near.iter().filter(|near| near.task != task).count();
            if self.sightings.len() == SIGHTINGS {
                self.sightings.pop_front();
            }
            let near = (near.len() as u32, others as u32);
            self.sightings.push_back(Sighting { task, address: line.address, writes: line.writes, near });
        }
        !accesses.is_empty()
    }

    /// Whole events since the last call, and how often tasks met, as read at `time`.
    pub fn take(&mut self, time: Duration) -> Vec<Evidence> {
        let taken = self.scales.take();
        self.sums.events += taken.iter().map(|seen| seen.sampled).sum::<u64>();
        let both = taken
            .into_iter()
            .flat_map(|seen| [(Kind::Sampled, seen.pair, seen.sampled), (Kind::Met, seen.pair, seen.met)]);
        both.filter(|seen| seen.2 > 0).map(|(kind, pair, count)| Evidence::of(kind, pair, count, time)).collect()
    }

    /// Where tasks were seen since the last call, the latest ones, in that order.
    pub fn take_sightings(&mut self) -> Vec<Sighting> {
        self.sightings.drain(..).collect()
    }

    /// These tasks have ended.
    pub fn end(&mut self, tasks: &BTreeSet<u32>) {
        if !tasks.is_empty() {
            for neighbourhoods in [&mut self.neighbourhoods, &mut self.recent] {
                tasks.iter().for_each(|&task| neighbourhoods.end(task));
            }
            self.scales.end(|task| tasks.contains(&task));
        }
    }

    /// Forgets what was seen: tasks use memory otherwise from now on.
    pub fn forget(&mut self) {
        self.neighbourhoods.forget();
        self.scales.forget();
    }
}

/// The bits that so many bytes of a word have.
fn mask(bytes: u64) -> u64 {
    if bytes < 8 { (1 << (8 * bytes)) - 1 } else { u64::MAX }
}

/// Accesses to a cache line: where the first was in its memory, and for the program, and whether any writes.
struct Line {
    place: (u64, u64),
    address: u64,
    writes: bool,
}

/// Accesses to places of memories, at these addresses of the program, with those of a line made one.
fn lines(accesses: &[((u64, u64), bool)], addresses: &[u64]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::with_capacity(accesses.len());
    for (&(place, writes), &address) in accesses.iter().zip(addresses) {
        let is_same = |line: &&mut Line| line.place.0 == place.0 && line.place.1 / LINE_BYTES == place.1 / LINE_BYTES;
        match lines.iter_mut().find(is_same) {
            Some(line) => line.writes |= writes,
            None => lines.push(Line { place, address, writes }),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov [rbx], rax` and `mov rax, [rbx]`.
    const STORE: Code = Code { start: 0x40_1000, bytes: &[0x48, 0x89, 0x03] };
    const LOAD: Code = Code { start: 0x40_1000, bytes: &[0x48, 0x8b, 0x03] };

    const NO_VALUE: fn(u64) -> Option<u64> = |_| None;

    fn at(address: u64) -> Registers {
        let mut general = [0; 16];
        general[3] = address;
        Registers { instruction: 0x40_1000, general }
    }

    /// Pairs with events, and how many.
    fn taken(sampler: &mut Sampler) -> Vec<(u32, u32, u64)> {
        let taken = sampler.take(Duration::ZERO).into_iter().filter(|seen| seen.kind == Kind::Sampled);
        taken.map(|seen| (seen.pair.0, seen.pair.1, seen.count)).collect()
    }

    #[test]
    fn samples_of_the_same_place_are_events() {
        let mut sampler = Sampler::default();
        let mut sample = |time, task, address| {
            sampler.add(
                (Duration::from_secs(time), Taken::Regularly),
                task,
                &at(address),
                &STORE,
                |address| Some((1, address)),
                NO_VALUE,
            );
            taken(&mut sampler)
        };
        assert_eq!(sample(1, 5, 0x1000), []);
        assert_eq!(sample(2, 3, 0x1000), [(3, 5, 1)]);
        assert_eq!(sample(3, 7, 0), []);
        assert_eq!(sampler.sums, Sums { samples: 3, telling: 2, accesses: 2, events: 1, ..Sums::default() });
        // Those after switches are counted by themselves.
        let after = (Duration::from_secs(3), Taken::AfterSwitch);
        assert!(sampler.add(after, 3, &at(0x8000), &STORE, |address| Some((1, address)), NO_VALUE));
        assert!(!sampler.add(after, 3, &at(0), &STORE, |address| Some((1, address)), NO_VALUE));
        assert_eq!((sampler.sums.samples, sampler.sums.after_switches, sampler.sums.telling_after_switches), (3, 2, 1));
        // Tasks that have ended, and what is forgotten, are nobody's partners.
        sampler.end(&BTreeSet::from([3]));
        sampler.add(
            (Duration::from_secs(4), Taken::Regularly),
            6,
            &at(0x1000),
            &STORE,
            |address| Some((1, address)),
            NO_VALUE,
        );
        assert_eq!(taken(&mut sampler), [(5, 6, 1)]);
        sampler.forget();
        sampler.add(
            (Duration::from_secs(5), Taken::Regularly),
            7,
            &at(0x1000),
            &STORE,
            |address| Some((1, address)),
            NO_VALUE,
        );
        assert_eq!(taken(&mut sampler), []);
    }

    #[test]
    fn readers_alone_count_less() {
        let events = |code: Code| {
            let mut sampler = Sampler::default();
            for second in 0..100 {
                sampler.add(
                    (Duration::from_secs(second), Taken::Regularly),
                    second as u32 % 2,
                    &at(0x1000),
                    &code,
                    |address| Some((1, address)),
                    NO_VALUE,
                );
            }
            taken(&mut sampler)[0].2
        };
        assert_eq!(events(STORE) / 3, events(LOAD));
    }

    #[test]
    fn a_sample_is_one_event_however_many_accesses_are_in_one_place() {
        // mov [rbx], rax; add rbx, 8; jmp back: eight accesses of one block; and then of two blocks, a page apart.
        let round = [0x48, 0x89, 0x03, 0x48, 0x83, 0xc3, 8, 0xeb, 0xf7];
        let code = Code { start: 0x40_1000, bytes: &round };
        let mut sampler = Sampler::default();
        for task in 0..2 {
            sampler.add(
                (Duration::from_secs(task.into()), Taken::Regularly),
                task,
                &at(0x1000),
                &code,
                |address| Some((1, address)),
                NO_VALUE,
            );
        }
        assert_eq!((taken(&mut sampler), sampler.sums.accesses), (vec![(0, 1, 1)], 16));
        for task in 2..4 {
            let memory = |address: u64| Some((2 + (address >> 5 & 1), address));
            sampler.add(
                (Duration::from_secs(task.into()), Taken::Regularly),
                task,
                &at(0x1000),
                &code,
                memory,
                NO_VALUE,
            );
        }
        assert_eq!(taken(&mut sampler), [(2, 3, 1)]);
    }

    #[test]
    fn samples_are_recent_until_there_are_enough_of_them() {
        // How many samples there are, when another task comes to the place of the first, and whether they meet.
        for (samples, milliseconds, meet) in
            [(300, 400, true), (300, 600, false), (20, 600, true), (20, 1900, true), (20, 2100, false)]
        {
            let mut sampler = Sampler::default();
            let mut sample = |time: u64, task, place: u64| {
                let now = Duration::from_millis(10_000 + time);
                sampler.add(
                    (now, Taken::Regularly),
                    task,
                    &at(0x1000 + (place << 22)),
                    &STORE,
                    |address| Some((1, address)),
                    NO_VALUE,
                );
            };
            (0..samples).for_each(|at| sample(at, 3, at));
            sample(milliseconds, 5, 0);
            let found = sampler.take(Duration::ZERO);
            let met: u64 = found.iter().filter(|seen| seen.kind == Kind::Met).map(|seen| seen.count).sum();
            assert_eq!(met > 0, meet, "{samples} samples, {milliseconds} ms");
        }
    }

    #[test]
    fn accesses_of_a_line_are_one() {
        let accesses = [((1, 0x1008), false), ((1, 0x103f), true), ((2, 0x1008), false), ((1, 0x1040), false)];
        let addresses: Vec<u64> = (0..accesses.len() as u64).collect();
        let found: Vec<_> = lines(&accesses, &addresses).into_iter().map(|line| (line.place, line.writes)).collect();
        assert_eq!(found, [((1, 0x1008), true), ((2, 0x1008), false), ((1, 0x1040), false)]);
        assert_eq!(lines(&accesses, &addresses)[0].address, 0);
    }

    #[test]
    fn samples_come_as_often_as_they_may() {
        assert!(between(By::Timer, 1.0) >= BETWEEN && between(By::Clock, 1.0) >= BETWEEN_INTERRUPTS);
        assert_eq!(between(By::Timer, 10.0), between(By::Timer, 1.0) / 10);
        // As good as never.
        assert!(between(By::Clock, 0.0) >= Duration::from_secs(8));
    }

    #[test]
    fn what_waits_is_not_told_by_samples() {
        let second = Duration::from_secs(1);
        assert!(!Telling::new(false, 2 * second).tells());
        let mut telling = Telling::new(true, 2 * second);
        let mut look = |ran: u32, samples| {
            telling.look(second * ran, samples);
            telling.tells()
        };
        assert!(look(1, 0) && !look(2, 49) && !look(3, 1000) && look(4, 1000) && look(6, 1050) && !look(8, 1099));
        // Without a sampler there are never any.
        let mut without = Telling::new(false, 2 * second);
        without.look(second * 100, 0);
        assert!(!without.tells());
    }

    #[test]
    fn a_bound_that_a_loop_reads_is_not_waited_for() {
        // cmp qword [rbx], rdx; inc rdx; jmp back: until it has come to the bound.
        let counts = Code { start: 0x40_1000, bytes: &[0x48, 0x39, 0x13, 0x48, 0xff, 0xc2, 0xeb, 0xf8] };
        // cmp qword [rbx], rcx; inc rdx; jmp back: until somebody else has written there.
        let waits = Code { start: 0x40_1000, bytes: &[0x48, 0x39, 0x0b, 0x48, 0xff, 0xc2, 0xeb, 0xf8] };
        let waiting = |code: &Code, value: fn(u64) -> u64, is_shared: bool| {
            let mut sampler = Sampler::default();
            for second in 0..100 {
                let place = |address| is_shared.then_some((1, address));
                let now = (Duration::from_secs(second), Taken::Regularly);
                assert!(!sampler.add(now, 3, &at(0x1000), code, place, |_| Some(value(second))));
            }
            (sampler.sums.samples, sampler.sums.waiting)
        };
        assert_eq!(waiting(&waits, |_| 600_000_000, true), (100, 0));
        assert_eq!(waiting(&waits, |second| second, true), (100, 100));
        assert_eq!(waiting(&waits, |second| second, false), (100, 0));
        // The next bound is another one, and nobody was waited for.
        assert_eq!(waiting(&counts, |second| second, true), (100, 0));
        // addsd xmm0, xmm1 besides: a bound that all read is nothing that they share, and nobody waits.
        let code =
            Code { start: 0x40_1000, bytes: &[0xf2, 0x0f, 0x58, 0xc1, 0x48, 0x39, 0x13, 0x48, 0xff, 0xc2, 0xeb, 0xf4] };
        let mut sampler = Sampler::default();
        for second in 0..100 {
            let now = (Duration::from_secs(second), Taken::Regularly);
            let task = second as u32 % 4;
            assert!(!sampler.add(now, task, &at(0x1000), &code, |address| Some((1, address)), |_| Some(second)));
        }
        assert_eq!((taken(&mut sampler), sampler.sums), (vec![], Sums { samples: 100, ..Sums::default() }));
    }

    #[test]
    fn memory_of_one_task_says_nothing() {
        let mut sampler = Sampler::default();
        for task in 0..4 {
            assert!(!sampler.add((Duration::ZERO, Taken::Regularly), task, &at(0x1000), &STORE, |_| None, NO_VALUE));
        }
        assert_eq!((taken(&mut sampler), sampler.sums), (Vec::new(), Sums { samples: 4, ..Sums::default() }));
    }

    #[test]
    fn nothing_is_shared_between_memories() {
        let mut sampler = Sampler::default();
        for task in 0..8 {
            sampler.add(
                (Duration::ZERO, Taken::Regularly),
                task,
                &at(0x1000),
                &STORE,
                |address| Some((task.into(), address)),
                NO_VALUE,
            );
        }
        assert_eq!(taken(&mut sampler), []);
    }

    #[test]
    fn where_tasks_were_seen_is_told_once_and_who_else_is_near() {
        let mut sampler = Sampler::default();
        let mut sample = |second, task, code| {
            let at = (Duration::from_secs(second), Taken::Regularly);
            sampler.add(at, task, &super::tests::at(0x1000), &code, |address| Some((1, address + 7)), NO_VALUE);
            sampler.take_sightings()
        };
        let seen = |task, writes, near| vec![Sighting { task, address: 0x1000, writes, near }];
        assert_eq!(sample(1, 3, STORE), seen(3, true, (0, 0)));
        assert_eq!(sample(2, 5, LOAD), seen(5, false, (1, 1)));
        assert_eq!(sample(3, 5, STORE), seen(5, true, (2, 1)));
        for second in 0..3 * SIGHTINGS as u64 {
            let at = (Duration::from_secs(10 + second), Taken::Regularly);
            sampler.add(at, 3, &super::tests::at(second << 22), &STORE, |address| Some((1, address)), NO_VALUE);
        }
        assert_eq!(sampler.take_sightings().len(), SIGHTINGS);
    }
}
