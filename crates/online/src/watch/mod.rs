//! Watchpoints: who reads and writes the same eight bytes, by the processor's debug registers (perf_event_open(2),
//! PERF_TYPE_BREAKPOINT; Intel's manual, volume 3, "Debug Registers").
//!
//! For a window of time the same few addresses are watched in all tasks that can use them: those where a sample has
//! seen a task lately and others are likely to come (`chosen`), or, where there are none, addresses drawn at random
//! from the memory that is in use (`memory`). Each task that does is stopped there once, in the kernel, for about a
//! microsecond, and those that were are credited with one another, each with one or two others; where a task was seen
//! to write, they with that one, and where it was seen to read, it with those that write there: who only reads what
//! others read as well gets nothing from them; where it updates what is there (a lock, a barrier, a counter), it has
//! that from one of them. So pairs come in proportion to the memory that they share, readers included, without
//! privilege, in programs that were not started by cohabit too, and at a rate that is ours: what page faults do not do
//! all at once.
//!
//! What it takes, the watching itself and what the tasks lose by it (`price`), is measured, and the windows are so far
//! apart that it stays within a share of the time that the tasks run.

mod chosen;
mod length;
mod memory;
mod price;

use crate::allowance::{Allowance, own_time};
use crate::evidence::{Evidence, Kind};
use crate::sampling::Sighting;
use chosen::{Chosen, Draw};
use cohabit_host::perf_event::{Stops, Watchpoints, files_allowed, nothing, refused};
use cohabit_model::Error;
use length::{LENGTHS, Lengths, Takes};
use memory::{Memories, Place};
use price::Price;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::time::Duration;

/// Addresses watched at a time. x86 has four debug registers for a thread: one is left to debuggers.
const PLACES: usize = 3;
/// Tasks that are watched at a time, at most: any of them, where there are more.
const MOST_TASKS: usize = 128;
/// Of the files that may be open, how many may be watchpoints: each task needs one more than there are places.
const FILES: f64 = 0.25;
/// The least time between two windows.
const BETWEEN: Duration = Duration::from_millis(2);
/// The same where the program loses more in a window than may be taken, in lengths of it: what there is at first is not
/// all for the beginning.
const APART: u32 = 3;
/// What is taken for the time that goes by between two windows at most, in seconds, and in lengths of the first.
const LONGEST_APART: f64 = 10.0;
const MOST_APART: f64 = 1000.0;
/// How long to wait where nothing was found that could be watched, at least and at most.
const NOTHING_THERE: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(2);
/// How soon to look again where watching has taken what it may.
const LATER: Duration = Duration::from_millis(25);
/// How long a task that takes turns with others on a PU has it, at most, before it is another's; where it is given up
/// sooner, less.
const LONGEST_TURN: Duration = Duration::from_millis(5);
/// Of the time that the followed tasks run, what watching may take where all may take one percent, and for how long a
/// time that may be taken at once.
const SHARE: f64 = 0.005;
const SAVED: Duration = Duration::from_secs(10);

/// A task that lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Living {
    /// Its number.
    pub task: u32,
    /// Thread id.
    pub tid: i32,
    /// Process id.
    pub process: i32,
}

/// What was watched so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Windows of time.
    pub windows: u64,
    /// Places that at least two tasks could have used.
    pub places: u64,
    /// Those that any did.
    pub used: u64,
    /// Pairs of tasks that used the same place in a window.
    pub events: u64,
}

/// Watches places, a few at a time.
#[derive(Debug)]
pub struct Watcher {
    memories: Memories,
    chosen: Chosen,
    lengths: Lengths,
    price: Price,
    share: f64,
    allowance: Allowance,
    window: Option<Window>,
    /// How long a task had a PU on average in the last window in which any was given one.
    turn: Option<Duration>,
    next: Duration,
    pus: usize,
    random: fastrand::Rng,
    /// An event that stays, between windows too.
    _stays: File,
    seen: BTreeMap<(u32, u32), u64>,
    /// What was watched so far.
    pub sums: Sums,
}

/// A time in which places are watched.
#[derive(Debug)]
struct Window {
    began: Duration,
    /// Which of the lengths.
    length: usize,
    places: Vec<Drawn>,
    tasks: Vec<Watched>,
    /// How long they had run when it began, in how many turns.
    before: (Duration, u64),
    /// What it has taken.
    cost: Duration,
}

/// What a window has taken: of cohabit's own time and of that of the tasks, which ran so long meanwhile. And what it
/// has shown.
struct Cost {
    own: Duration,
    lost: Duration,
    ran: Duration,
    /// Places at which tasks met.
    met: u64,
}

/// A place that is watched.
#[derive(Debug)]
struct Drawn {
    place: Place,
    /// Where samples have led there.
    chosen: Option<Draw>,
}

/// What was seen of a place that was watched: by whom before, and who used it meanwhile.
struct Used {
    chosen: Option<Draw>,
    by: Vec<u32>,
}

impl Drawn {
    /// Of a task that was seen to read, those that write there are its partners.
    fn stops(&self) -> Stops {
        match self.chosen {
            Some(Draw::Seen(_, sighting)) if !sighting.writes => Stops::Writes,
            _ => Stops::Accesses,
        }
    }
}

/// A task that is watched.
#[derive(Debug)]
struct Watched {
    task: u32,
    tid: i32,
    points: Watchpoints,
    /// The places that they are at.
    places: Vec<usize>,
}

impl Watcher {
    /// Ready to watch; nobody is watched yet. All that detection takes may be so many percent of what the tasks run.
    ///
    /// # Errors
    /// Where the kernel, or this user's rights, do not allow it, or the machine has no debug registers.
    pub fn start(overhead_percent: f64) -> Result<Self, Error> {
        // Tried on this thread, so that the refusal comes before anything is run.
        let price = Price::measured().map_err(none_to_be_had)?;
        let share = SHARE * overhead_percent;
        Ok(Self {
            memories: Memories::default(),
            chosen: Chosen::default(),
            lengths: Lengths::default(),
            price,
            share,
            allowance: Allowance::new(share, SAVED),
            window: None,
            turn: None,
            next: Duration::ZERO,
            pus: std::thread::available_parallelism().map_or(1, usize::from),
            random: fastrand::Rng::new(),
            _stays: nothing(nix::unistd::gettid().as_raw()).map_err(none_to_be_had)?,
            seen: BTreeMap::new(),
            sums: Sums::default(),
        })
    }

    /// What share of the time that they are watched programs may lose, on this machine, whatever they do with the
    /// places.
    pub fn loss(&self) -> f64 {
        self.price.lost
    }

    /// Ends a window that is over, and begins another where it is time: when to come again. `now` is since any moment,
    /// `ran` how long the followed tasks have run since any.
    pub fn step(&mut self, now: Duration, ran: Duration, living: impl Iterator<Item = Living>) -> Duration {
        if let Some(window) = self.window.take_if(|window| now >= window.ends()) {
            let (began, length, shown, places) = (window.began, window.length, self.sums.events, window.places.len());
            let Cost { own, lost, ran, met } = self.end(now, window);
            self.allowance.take(own + lost);
            let apart = if self.price.lost > self.share { APART * LENGTHS[length] } else { BETWEEN };
            self.next = now + apart.max(BETWEEN);
            // How long the tasks have to run, at the rate of this window, until it may be taken again.
            let (seconds, ran) = ((now - began).as_secs_f64(), ran.as_secs_f64());
            let until = |cost: Duration| cost.as_secs_f64() / (self.share * ran / seconds).max(1e-9);
            let takes = Takes {
                once: until(own).min(LONGEST_APART),
                each_second: (until(lost) / seconds).clamp(1.0, MOST_APART),
            };
            self.lengths.learn(length, self.sums.events - shown, (met, places as u64), takes);
        } else if self.window.is_none() && now >= self.next {
            if self.allowance.debt(ran) > 0.0 {
                self.next = now + LATER;
                return self.next;
            }
            let living: Vec<Living> = living.collect();
            match self.begin(now, &living) {
                Ok(window) => self.window = Some(window),
                Err(cost) => {
                    self.allowance.take(cost);
                    self.next = now + cost.div_f64(self.share.max(1e-6)).clamp(NOTHING_THERE, REST);
                }
            }
        }
        self.window.as_ref().map_or(self.next, Window::ends)
    }

    /// Tasks were seen at these places.
    pub fn see(&mut self, now: Duration, sightings: &[Sighting], process_of: impl Fn(u32) -> Option<i32>) {
        for &sighting in sightings {
            if let Some(process) = process_of(sighting.task) {
                self.chosen.add(now, process, sighting);
            }
        }
    }

    /// Whether anything is watched at the moment.
    pub fn is_watching(&self) -> bool {
        self.window.is_some()
    }

    /// Who was seen with whom since the last call, as read at `time`.
    pub fn take(&mut self, time: Duration) -> impl Iterator<Item = Evidence> + use<> {
        let seen = std::mem::take(&mut self.seen);
        seen.into_iter().map(move |(pair, count)| Evidence::of(Kind::Watched, pair, count, time))
    }

    /// A window over places that are drawn now; what drawing has taken where nothing was found that could be watched.
    fn begin(&mut self, now: Duration, living: &[Living]) -> Result<Window, Duration> {
        let before = own_time();
        let mut processes: BTreeMap<i32, usize> = BTreeMap::new();
        living.iter().for_each(|task| *processes.entry(task.process).or_default() += 1);
        let mut places: Vec<Drawn> = Vec::new();
        for _ in 0..PLACES {
            let drawn = self.draw(now, living, &processes);
            // What one task has for itself is shared with nobody.
            let tasks = |drawn: &Drawn| drawn.place.keys().map(|process| processes[process]).sum::<usize>();
            let is_new = |drawn: &Drawn| places.iter().all(|other| other.place != drawn.place);
            let drawn = drawn.filter(|drawn| tasks(drawn) > 1 && is_new(drawn));
            places.extend(drawn);
        }
        let count = places.len() as u64;
        let watched = self.random.choose_multiple(living, most_tasks().min(living.len()));
        let window = Window::open(now, places, watched.into_iter().copied());
        // As long as they have run so far, at first.
        let turn = self.turn.or_else(|| mean(window.before.0, window.before.1)).unwrap_or(LONGEST_TURN);
        let turn = turn.min(LONGEST_TURN);
        let length = self.lengths.choose(living.len().div_ceil(self.pus), turn, &mut self.random);
        let window = Window { length, ..window };
        let cost = own_time().saturating_sub(before);
        if window.tasks.len() < 2 {
            return Err(cost);
        }
        self.sums.windows += 1;
        self.sums.places += count;
        Ok(Window { cost, ..window })
    }

    /// A place where a task was seen, or else any.
    fn draw(&mut self, now: Duration, living: &[Living], processes: &BTreeMap<i32, usize>) -> Option<Drawn> {
        while let Some(chosen) = self.chosen.draw(now, &mut self.random) {
            let (process, address) = chosen.place();
            if !processes.contains_key(&process) {
                self.chosen.forget(process);
                continue;
            }
            let place = self.memories.at(now, process, address, processes)?;
            return Some(Drawn { place, chosen: Some(chosen) });
        }
        let process = self.random.choice(living)?.process;
        let place = self.memories.draw(now, process, processes, &mut self.random)?;
        Some(Drawn { place, chosen: None })
    }

    /// Credits those who used a place with one another; what all of it has taken.
    fn end(&mut self, now: Duration, window: Window) -> Cost {
        let before = own_time();
        let (ran, turns) = turns(&window.tasks);
        let (ran, turns) = (ran.saturating_sub(window.before.0), turns.saturating_sub(window.before.1));
        self.turn = mean(ran, turns).or(self.turn);
        let (cost, mut met) = (window.cost, 0);
        for Used { chosen, by: mut used } in window.close() {
            self.sums.used += u64::from(!used.is_empty());
            used.sort_unstable();
            let mut credit = |a: u32, b: u32| {
                *self.seen.entry((a.min(b), a.max(b))).or_default() += 1;
                self.sums.events += 1;
            };
            let is_shared = match chosen {
                Some(Draw::Seen(_, sighting)) => {
                    used.retain(|&task| task != sighting.task);
                    if sighting.updates {
                        // What it finds there is of one of them.
                        self.random.shuffle(&mut used);
                        used.truncate(1);
                    }
                    used.iter().for_each(|&task| credit(sighting.task, task));
                    !used.is_empty()
                }
                // What is passed on there goes from one to each of the others, or on from each: one fewer than there
                // are.
                _ => {
                    self.random.shuffle(&mut used);
                    used.windows(2).for_each(|pair| credit(pair[0], pair[1]));
                    used.len() > 1
                }
            };
            met += u64::from(is_shared);
            if let Some(chosen) = chosen {
                self.chosen.learn(now, chosen.place(), is_shared);
            }
        }
        Cost { own: cost + own_time().saturating_sub(before), lost: self.price.lost(ran, turns), ran, met }
    }
}

impl Window {
    /// Watches places in the tasks that have them.
    fn open(began: Duration, places: Vec<Drawn>, tasks: impl Iterator<Item = Living>) -> Self {
        let mut watched: Vec<Watched> = Vec::new();
        for Living { task, tid, process } in tasks {
            let there = |place: usize| Some((place, (*places[place].place.get(&process)?, places[place].stops())));
            let (own, addresses): (Vec<usize>, Vec<(u64, Stops)>) = (0..places.len()).filter_map(there).unzip();
            if own.is_empty() {
                continue;
            }
            match Watchpoints::open(tid, addresses.into_iter()) {
                Ok(points) => watched.push(Watched { task, tid, points, places: own }),
                // No more files can be opened: those that are have to do.
                Err(error) if error.raw_os_error() == Some(libc::EMFILE) => break,
                // It has ended, or somebody else has its debug registers.
                Err(_) => {}
            }
        }
        let before = turns(&watched);
        Self { began, length: 0, places, tasks: watched, before, cost: Duration::ZERO }
    }

    fn ends(&self) -> Duration {
        self.began + LENGTHS[self.length]
    }

    /// Of each place, who was seen there before, and who used it meanwhile.
    fn close(self) -> Vec<Used> {
        let of_nobody = |drawn: Drawn| Used { chosen: drawn.chosen, by: Vec::new() };
        let mut users: Vec<Used> = self.places.into_iter().map(of_nobody).collect();
        for Watched { task, mut points, places, .. } in self.tasks {
            let used = points.used().into_iter().flatten();
            used.zip(places).filter(|&(used, _)| used).for_each(|(_, place)| users[place].by.push(task));
        }
        users
    }
}

/// Why there are no watchpoints, and what to do about it.
fn none_to_be_had(error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EBUSY) => Error::new("somebody else has the debug registers")
            .remedy("a debugger or tracer with watchpoints on all threads has them; online detection goes on without"),
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            Error::new("this kernel or machine has no watchpoints for reads and writes")
        }
        _ => refused(error),
    }
}

/// Tasks that can be watched with the files that this process may open.
fn most_tasks() -> usize {
    ((files_allowed() as f64 * FILES) as usize / (PLACES + 1)).clamp(2, MOST_TASKS)
}

/// How long a turn was on average.
fn mean(ran: Duration, turns: u64) -> Option<Duration> {
    ran.checked_div(u32::try_from(turns).ok()?)
}

/// How long tasks have run, and how often they have been given a PU, all together
/// (Documentation/scheduler/sched-stats.rst).
fn turns(tasks: &[Watched]) -> (Duration, u64) {
    let of = |task: &Watched| {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", task.tid)).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        Some((numbers.next()?.ok()?, numbers.nth(1)?.ok()?))
    };
    let (ran, turns) = tasks.iter().filter_map(of).fold((0, 0), |(ran, turns), of| (ran + of.0, turns + of.1));
    (Duration::from_nanos(ran), turns)
}

#[cfg(test)]
mod tests;
