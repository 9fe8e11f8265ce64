//! How many extra faults programs may be made to have, so that watching them costs no more than it may.
//!
//! The agent's are ours to give out: [`PageBudget`]. NUMA balancing's come at the kernel's rate, a pass over up to 256
//! MB of a process at once (`scan_size_mb`), so that all that can be done about them is to let it pause:
//! [`HintBudget`].

use crate::allowance::Allowance;
use std::collections::BTreeMap;
use std::time::Duration;

/// What an extra fault takes, the eBPF program in it included (benches/online.md).
const FAULT: Duration = Duration::from_nanos(1500);

/// Of the time that the followed tasks run, what hint faults may take where all may take one percent.
const HINT_SHARE: f64 = 0.0025;

/// Seconds that hint faults may take beyond it, before they pause.
const TOLERATED: f64 = 0.0075;

/// Budget that is saved up while there are few hint faults, as running time.
const SAVED: Duration = Duration::from_secs(2);

/// A task may cause this many extra faults a second, however little memory is in use and wherever else faults come
/// from, while the mapping is young: hint faults come in few passes, each of which shows one moment of the program.
pub const LEAST_A_TASK: f64 = 500.0;

/// From this mapping interval on it may cause fewer, in proportion: where the mapping holds there is little to find
/// out.
const YOUNG: Duration = Duration::from_millis(250);

/// Pages that are worth waking up for.
const GO: f64 = 16.0;

/// The longest time between two goes.
const LONGEST: Duration = Duration::from_millis(100);

/// How often rates are measured.
const EVERY: Duration = Duration::from_secs(1);

/// A process in which the agent may protect pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// Its id.
    pub process: i32,
    /// Tasks that live in it.
    pub tasks: usize,
    /// Pages that are in memory.
    pub resident_pages: u64,
}

/// The pages of each process that the agent may protect in a second.
#[derive(Debug, Clone)]
pub struct PageBudget {
    share: f64,
    measured: Duration,
    /// Faults and protected pages by then.
    sums: (u64, u64),
    /// Faults a second that are not the agent's doing.
    elsewhere: f64,
    rates: BTreeMap<i32, f64>,
}

impl PageBudget {
    /// A share of the pages in use, in percent, each second (CDSM, section 4 and Table 1: 1 %).
    pub fn new(percent: f64) -> Self {
        let (measured, sums) = (Duration::ZERO, (0, 0));
        Self { share: percent / 100.0, measured, sums, elsewhere: 0.0, rates: BTreeMap::new() }
    }

    /// The rates from now on. `faults` is how many there have been, whatever they came from, `protected` the pages that
    /// the agent has protected, each of which is one fault at most, and `interval` the mapping interval.
    pub fn update(&mut self, now: Duration, faults: u64, protected: u64, interval: Duration, watched: &[Watched]) {
        let elapsed = now.saturating_sub(self.measured);
        if elapsed >= EVERY {
            let others = faults.saturating_sub(self.sums.0).saturating_sub(protected.saturating_sub(self.sums.1));
            self.elsewhere = others as f64 / elapsed.as_secs_f64();
            (self.measured, self.sums) = (now, (faults, protected));
        }
        let least = LEAST_A_TASK * (YOUNG.as_secs_f64() / interval.as_secs_f64().max(1e-3)).min(1.0);
        let elsewhere = self.elsewhere / watched.len().max(1) as f64;
        let rate = |of: &Watched| {
            let most = self.share * of.resident_pages as f64 - elsewhere;
            (of.process, most.max(least * of.tasks as f64))
        };
        self.rates = watched.iter().map(rate).collect();
    }

    /// How often to protect some: `shortest` (CDSM: 10 ms), or longer where that would be a page or two.
    pub fn pace(&self, shortest: Duration) -> Duration {
        let most = self.rates.values().copied().fold(0.0, f64::max);
        Duration::from_secs_f64((GO / most.max(1.0)).min(LONGEST.as_secs_f64())).max(shortest)
    }

    /// Pages a second of a process.
    pub fn rate(&self, process: i32) -> f64 {
        self.rates.get(&process).copied().unwrap_or(0.0)
    }
}

/// Whether hint faults are to pause.
#[derive(Debug, Clone)]
pub struct HintBudget {
    allowance: Allowance,
    /// Hint faults when last asked.
    faults: Option<u64>,
    paused: bool,
}

impl HintBudget {
    /// A budget where all that detection takes may be so many percent of what the tasks run.
    pub fn new(overhead_percent: f64) -> Self {
        Self { allowance: Allowance::new(HINT_SHARE * overhead_percent, SAVED), faults: None, paused: false }
    }

    /// Whether they are to pause from now on. `faults` is how many hint faults the machine has had: where it is cohabit
    /// that has turned them on, those of programs that are not followed are its doing too. `ran` is how long the
    /// followed tasks have run.
    pub fn pauses(&mut self, faults: u64, ran: Duration) -> bool {
        let before = self.faults.replace(faults).unwrap_or(faults);
        self.allowance.take(FAULT.mul_f64(faults.saturating_sub(before) as f64));
        self.paused = self.allowance.debt(ran) > if self.paused { 0.0 } else { TOLERATED };
        self.paused
    }
}

/// What else than the agent there is to go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// Nothing that works here.
    None,
    /// Hint faults or watchpoints, which have shown little.
    Few,
    /// The same, and they have shown much.
    Many,
}

impl Others {
    /// Of the time that the followed tasks run, what the agent may take beside them where all may take one percent.
    fn page_share(self) -> f64 {
        match self {
            Self::None => 0.01,
            Self::Few => 0.0025,
            Self::Many => 0.0005,
        }
    }
}

/// What the agent may take: its work and the faults that come of it.
#[derive(Debug, Clone)]
pub struct PageAllowance {
    allowance: Allowance,
    overhead_percent: f64,
}

impl PageAllowance {
    /// For an agent beside others, where all that detection takes may be so many percent of what the tasks run.
    pub fn new(others: Others, overhead_percent: f64) -> Self {
        Self { allowance: Allowance::new(others.page_share() * overhead_percent, SAVED), overhead_percent }
    }

    /// Whether pages may be protected. `ran` is how long the followed tasks have run.
    pub fn is_left(&mut self, others: Others, ran: Duration) -> bool {
        self.allowance.set_share(others.page_share() * self.overhead_percent);
        self.allowance.debt(ran) <= 0.0
    }

    /// Pages were protected, in so much time of cohabit's.
    pub fn take(&mut self, pages: u64, own: Duration) {
        self.allowance.take(own + FAULT.mul_f64(pages as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hint faults in a thousand seconds, asked once a second: `pass` pages are marked every `period` seconds in which
    /// hint faults do not pause, and used in the second after that.
    fn faults_of(pass: u64, period: u64, tasks_running: u32) -> (u64, usize) {
        let mut budget = HintBudget::new(1.0);
        let (mut faults, mut marked, mut on_for, mut paused, mut pauses) = (0, 0, 0, false, 0);
        for second in 0..1000 {
            faults += std::mem::take(&mut marked);
            on_for = if paused { 0 } else { on_for + 1 };
            if !paused && on_for % period == 0 {
                marked = pass;
            }
            let before = paused;
            paused = budget.pauses(faults, Duration::from_secs(second) * tasks_running);
            pauses += usize::from(paused && !before);
        }
        (faults, pauses)
    }

    #[test]
    fn hint_faults_are_held_to_their_share() {
        // 0.25 % of 2,000 s, at 1.5 us.
        let most = 3_333_333;
        let (faults, pauses) = faults_of(65_536, 1, 2);
        assert!(faults > most * 9 / 10 && faults < most + 3 * 65_536, "{faults}");
        assert!(pauses > 15, "{pauses}");
        // A program of which the budget is never used.
        assert_eq!(faults_of(2_000, 1, 2), (999 * 2_000, 0));
    }

    #[test]
    fn what_was_there_before_is_not_counted() {
        let mut budget = HintBudget::new(1.0);
        assert!(!budget.pauses(1 << 40, Duration::from_secs(1000)));
        // Those of two seconds, 3,333, and 5,000 that are tolerated.
        assert!(!budget.pauses((1 << 40) + 8_300, Duration::from_secs(1000)));
        assert!(budget.pauses((1 << 40) + 8_400, Duration::from_secs(1000)));
        // Two idle hours save no more than two seconds do.
        assert!(!budget.pauses((1 << 40) + 8_400, Duration::from_secs(8200)));
        assert!(!budget.pauses((1 << 40) + 16_700, Duration::from_secs(8200)));
        assert!(budget.pauses((1 << 40) + 16_800, Duration::from_secs(8200)));
    }

    #[test]
    fn the_agent_may_take_less_the_more_others_show() {
        for (others, seconds) in [(Others::None, 2.0), (Others::Few, 8.0), (Others::Many, 40.0)] {
            let mut allowance = PageAllowance::new(others, 2.0);
            assert!(allowance.is_left(others, Duration::ZERO));
            // 25 ms of its own and 10,000 faults of 1.5 us: 40 ms, as much as 2 s without others, and what may be had
            // at first.
            let at_first = allowance.allowance.clone().debt(Duration::ZERO);
            allowance.take(10_000, Duration::from_secs_f64(0.025 - at_first));
            assert!(!allowance.is_left(others, Duration::from_secs_f64(seconds - 0.01)), "{others:?}");
            assert!(allowance.is_left(others, Duration::from_secs_f64(seconds + 0.01)), "{others:?}");
        }
    }

    #[test]
    fn pages_are_protected_as_far_as_faults_leave_room() {
        let second = Duration::from_secs(1);
        let watched = |tasks, resident_pages| [Watched { process: 7, tasks, resident_pages }];
        let ten = Duration::from_millis(10);
        let mut budget = PageBudget::new(1.0);
        budget.update(Duration::ZERO, 0, 0, YOUNG, &watched(2, 0));
        assert_eq!((budget.rate(7), budget.pace(ten)), (1000.0, Duration::from_millis(16)));
        // The agent's own faults are no reason to do less; others are.
        budget.update(second, 800, 800, YOUNG, &watched(2, 300_000));
        assert_eq!((budget.rate(7), budget.pace(ten)), (3000.0, ten));
        budget.update(2 * second, 2800, 1600, YOUNG, &watched(2, 300_000));
        assert_eq!(budget.rate(7), 1800.0);
        budget.update(3 * second, 99_000, 1600, YOUNG, &watched(2, 300_000));
        assert_eq!((budget.rate(7), budget.rate(8)), (1000.0, 0.0));
        // Where the mapping holds there is less to find out.
        budget.update(4 * second, 99_000, 1600, 8 * YOUNG, &watched(2, 300));
        assert_eq!((budget.rate(7), budget.pace(ten)), (125.0, LONGEST));
    }
}
