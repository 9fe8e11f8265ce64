//! Which memory tasks use, from their registers at moments that a clock chooses, and from accesses that a PMU samples
//! (PEBS, IBS), where there is one.
//!
//! A timer's interrupt finds a task before some instruction. What that and the next few instructions read or write
//! follows from their bytes and the registers (`decode`), as precisely as if it had been run: a *sample*, of readers
//! and writers alike, in proportion to the time that they take. A PMU tells the address of one access, and where its data
//! came from (`data_source`). Who is sampled near one another in memory (`neighbourhoods`) shares it, as far as there are
//! samples enough to tell (`scales`). `rate` is how often samples are taken, `waits` which say nothing.

mod data_source;
mod decode;
mod delays;
mod neighbourhoods;
mod rate;
mod scales;
mod sorted;
mod waits;

use crate::evidence::{Evidence, Kind};
pub use data_source::DataSource;
pub use decode::Code;
use decode::{Access, Decode, FIRST_ADDRESS, Moment, USER_ADDRESSES};
pub use delays::{DELAYS, DRAWN, Delays};
use neighbourhoods::{LINE_BYTES, Neighbour, Neighbourhoods};
pub use rate::{By, Switches, Telling, between};
use scales::{MEETING, Scales};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use waits::{Span, Waits};

/// How long samples are recent: from half a second on until there are so many that tasks meet among them, and no longer
/// than that.
const RECENT: Duration = Duration::from_millis(500);
const RECENT_SAMPLES: u32 = 250;
const RECENT_AT_MOST: Duration = Duration::from_secs(2);

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
    /// Of both, those that found a task where others were seen as often as itself: near memory that it shares.
    pub meeting: u64,
    /// See there.
    pub meeting_after_switches: u64,
    /// Taken by a PMU, besides the others; those that showed an access to memory that others can come to, and those of
    /// lines that another core had written to.
    pub by_pmu: u64,
    /// See there.
    pub telling_by_pmu: u64,
    /// See there.
    pub from_another: u64,
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
    /// Whether one instruction was to write what it makes of what is there, as at locks, barriers and counters: each
    /// who does has it from one other, whoever was there before.
    pub updates: bool,
    /// How many samples nearest to it were looked at, and how many of these were of other tasks: the more of them, the
    /// likelier it is that others use the place.
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
    /// The same, of the last moments only: where tasks have changed what they work with, the others still tell what was
    /// before.
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
    /// A task was before an instruction of `code`. `place` finds the memory of an address, and where in it that is;
    /// none where nobody else can come to it, which says nothing, and `value` what is there now, where that can be
    /// read. `now` is since any moment. Whether it tells anything.
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
        let accesses: Vec<_> =
            accesses.into_iter().map(|(place, access)| (place, access.writes, access.updates)).collect();
        *telling += u64::from(!accesses.is_empty());
        sums.accesses += accesses.len() as u64;
        if let Some(meets) = self.see(now, task, &lines(&accesses, &addresses)) {
            let meeting = match taken {
                Taken::Regularly => &mut self.sums.meeting,
                Taken::AfterSwitch => &mut self.sums.meeting_after_switches,
            };
            *meeting += u64::from(meets);
        }
        !accesses.is_empty()
    }

    /// A PMU has sampled an access of a task. `place` and `now` as above. Whether it tells anything.
    pub fn add_access(
        &mut self,
        now: Duration,
        task: u32,
        address: u64,
        source: DataSource,
        place: impl Fn(u64) -> Option<(u64, u64)>,
    ) -> bool {
        self.sums.by_pmu += 1;
        let is_there = source.is_of_data() && (FIRST_ADDRESS..USER_ADDRESSES).contains(&address);
        let Some(place) = is_there.then(|| place(address)).flatten() else { return false };
        let (writes, updates, from_another) = (source.writes(), source.updates(), source.is_from_another());
        self.sums.telling_by_pmu += 1;
        self.sums.from_another += u64::from(from_another);
        self.sums.accesses += 1;
        self.see(now, task, &[Line { place, address, writes, updates, from_another }]);
        true
    }

    /// A task uses these lines at a moment: whether it is near others there, as far as that is known.
    fn see(&mut self, now: Duration, task: u32, lines: &[Line]) -> Option<bool> {
        let recent = now.saturating_sub(self.recent_since);
        if recent >= RECENT_AT_MOST || recent >= RECENT && self.recent_samples >= RECENT_SAMPLES {
            (self.recent, self.recent_since, self.recent_samples) = (Neighbourhoods::of(MEETING), now, 0);
        }
        self.recent_samples += u32::from(!lines.is_empty());
        let places = |neighbourhoods: &mut Neighbourhoods| -> Vec<(bool, Vec<Neighbour>)> {
            let place = |line: &Line| {
                let (memory, address) = line.place;
                // What came from another is an event, whole, of two of whom one wrote, however often the task itself was
                // seen there.
                let access = (address, line.writes);
                let near = if line.from_another {
                    neighbourhoods.touch_others(now, memory, access, task)?
                } else {
                    neighbourhoods.touch(now, memory, access, task)?
                };
                Some((line.writes || line.from_another, near))
            };
            lines.iter().filter_map(place).collect()
        };
        let seen = places(&mut self.neighbourhoods);
        self.scales.add(task, &seen);
        self.scales.meet(task, &places(&mut self.recent));
        // The first is what the task was about to use.
        let (line, (_, near)) = lines.first().zip(seen.first())?;
        let near = &near[..LOOKED_AT.min(near.len())];
        let others = near.iter().filter(|near| near.task != task).count();
        if self.sightings.len() == SIGHTINGS {
            self.sightings.pop_front();
        }
        self.sightings.push_back(Sighting {
            task,
            address: line.address,
            writes: line.writes,
            updates: line.updates,
            near: (near.len() as u32, others as u32),
        });
        Some(others > 0 && 2 * others >= near.len())
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

/// Accesses to a cache line: where the first was in its memory, and for the program, whether any writes, or updates, and
/// whether the line is known to have come from another core, which had written to it.
struct Line {
    place: (u64, u64),
    address: u64,
    writes: bool,
    updates: bool,
    from_another: bool,
}

/// Accesses to places of memories, at these addresses of the program, with those of a line made one.
fn lines(accesses: &[((u64, u64), bool, bool)], addresses: &[u64]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::with_capacity(accesses.len());
    for (&(place, writes, updates), &address) in accesses.iter().zip(addresses) {
        let is_same = |line: &&mut Line| line.place.0 == place.0 && line.place.1 / LINE_BYTES == place.1 / LINE_BYTES;
        match lines.iter_mut().find(is_same) {
            Some(line) => {
                line.writes |= writes;
                line.updates |= updates;
            }
            None => lines.push(Line { place, address, writes, updates, from_another: false }),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
