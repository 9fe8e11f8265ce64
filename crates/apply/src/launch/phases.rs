//! Phases of the program while it runs: it announces them in a page that it shares with us (`cohabit_phase`,
//! native/include/cohabit.h), and its threads are moved to where the phase has them.
//!
//! The program never waits for us: it writes two words and wakes whoever waits for them. So threads are moved a moment
//! after a phase has begun, phases that come faster than that are left out, and a program whose cohabit is gone runs
//! on.
//!
//! Of a program that announces none, whoever recognises them says so by a [`Conductor`].

use super::PlacedReport;
use super::lock;
use super::placement::Placement;
use super::plan::LaunchPlan;
use cohabit_host::affinity::CpuMask;
use cohabit_host::page::SharedPage;
use cohabit_model::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Names the page to the program.
const VARIABLE: &str = "COHABIT_PHASES";
/// How many phases were announced; the last one's number; how many of them have been carried out.
const ANNOUNCED: usize = 0;
const NUMBER: usize = 1;
const CARRIED_OUT: usize = 2;
/// Whoever waits is woken: this is for the case that the program has written over the words.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Numbers that are not in the mapping are listed up to this many.
const UNKNOWN_LISTED: usize = 16;

/// Where a planned task goes in a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseSeat {
    /// OS index of the PU.
    pub pu: u32,
    /// The PUs it is confined to.
    pub pus: CpuMask,
}

/// Says which phase a program is in that a launch runs, instead of the program.
#[derive(Debug, Clone, Default)]
pub struct Conductor(Arc<Mutex<Option<Arc<Mutex<Placement>>>>>);

impl Conductor {
    /// A phase has begun: the threads go to where the plan has them in it. How many that were, none of them before the
    /// program starts and after it has ended.
    pub fn begin(&self, number: u64) -> usize {
        lock(&self.0).as_ref().map_or(0, |placement| lock(placement).phase_began(number))
    }

    /// The tasks that run and are placed, by their ids in the plan, and the thread that each is.
    pub fn tasks(&self) -> Vec<(u32, i32)> {
        lock(&self.0).as_ref().map_or(Vec::new(), |placement| lock(placement).tasks())
    }

    /// From now on it is about this program, or about none.
    pub(crate) fn take(&self, placement: Option<Arc<Mutex<Placement>>>) {
        *lock(&self.0) = placement;
    }
}

/// What became of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseReport {
    /// Its number.
    pub number: u64,
    /// How often it was carried out.
    pub times: u64,
    /// The tasks that ran when it last was, and their affinities as they were read back then.
    pub placed: Vec<PlacedReport>,
}

/// What became of all phases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PhasesReport {
    /// How many the program announced, or were recognised.
    pub announced: u64,
    /// How many of them were seen before the next one came.
    pub seen: u64,
    /// Numbers that are not in the mapping; the first 16 of them.
    pub unknown: BTreeSet<u64>,
    /// Each that was carried out, by number.
    pub phases: Vec<PhaseReport>,
}

/// The page in which the program announces its phases.
#[derive(Debug)]
pub(crate) struct PhasePage {
    page: SharedPage,
    ended: AtomicBool,
}

impl PhasePage {
    /// A page for a plan with phases that the program announces; none for another.
    pub(crate) fn of(plan: &LaunchPlan, conductor: Option<&Conductor>) -> Result<Option<Self>> {
        if plan.phases.is_empty() || conductor.is_some() {
            return Ok(None);
        }
        Ok(Some(Self { page: SharedPage::new(c"cohabit-phases")?, ended: AtomicBool::new(false) }))
    }

    /// What the program finds it by.
    pub(crate) fn environment(&self) -> (String, OsString) {
        (VARIABLE.to_owned(), self.page.path())
    }

    /// Carries phases out as they are announced, until [`PhasePage::end`].
    pub(crate) fn follow(&self, placement: &Mutex<Placement>) {
        let mut seen = 0;
        while !self.ended.load(Ordering::SeqCst) {
            let announced = self.page.word(ANNOUNCED).load(Ordering::Acquire);
            if announced == seen {
                self.page.wait(ANNOUNCED, announced, LONGEST_WAIT);
                continue;
            }
            seen = announced;
            let number = self.page.word(NUMBER).load(Ordering::Relaxed);
            lock(placement).phase_began(number);
            self.page.word(CARRIED_OUT).store(seen, Ordering::Release);
        }
    }

    /// The program has ended.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.page.wake(ANNOUNCED);
    }

    /// How many phases were announced.
    pub(crate) fn announced(&self) -> u64 {
        self.page.word(ANNOUNCED).load(Ordering::Acquire)
    }
}

/// The phases of a plan as they are carried out.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    seen: u64,
    unknown: BTreeSet<u64>,
    carried_out: BTreeMap<u64, PhaseReport>,
}

impl Phases {
    /// A phase was seen whose number the plan does not have.
    pub(crate) fn unknown(&mut self, number: u64) {
        self.seen += 1;
        if self.unknown.len() < UNKNOWN_LISTED {
            self.unknown.insert(number);
        }
    }

    /// A phase was carried out, and the tasks are so.
    pub(crate) fn carried_out(&mut self, number: u64, placed: Vec<PlacedReport>) {
        self.seen += 1;
        let report = self.carried_out.entry(number).or_insert(PhaseReport { number, times: 0, placed: Vec::new() });
        report.times += 1;
        report.placed = placed;
    }

    /// What became of all of them, of which so many were announced; none where all were recognised.
    pub(crate) fn report(self, announced: Option<u64>) -> PhasesReport {
        let Self { seen, unknown, carried_out } = self;
        PhasesReport {
            announced: announced.unwrap_or(seen),
            seen,
            unknown,
            phases: carried_out.into_values().collect(),
        }
    }
}
