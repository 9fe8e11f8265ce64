//! NUMA balancing's hint faults in a session: turned on once samples tell too little, and held to what they may take.

use super::Log;
use cohabit_model::Error;
use cohabit_online::faults::HintBudget;
use cohabit_online::ledger::Ledger;
use cohabit_online::settings::{HintFaults, can_have_hint_faults, enable_hint_faults};
use std::time::Duration;

/// How often what they take is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Hint faults, where they are asked for.
pub struct Hints {
    state: State,
    budget: HintBudget,
    next_look: Duration,
    said_pause: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not asked for, or not to be had.
    None,
    /// Not turned on yet: samples tell enough.
    Waiting,
    On {
        paused: bool,
    },
}

impl Hints {
    /// No hint faults: nothing is changed.
    pub fn none(overhead_percent: f64) -> Self {
        let budget = HintBudget::new(overhead_percent);
        Self { state: State::None, budget, next_look: Duration::ZERO, said_pause: false }
    }

    /// Turns them on if there are no `samples`, which come first, and says what there is. All detection may take so many
    /// percent of what the tasks run.
    pub fn start(overhead_percent: f64, samples: bool, ledger: &mut Ledger, log: &mut Log) -> Self {
        let mut hints = Self::none(overhead_percent);
        if !samples {
            hints.turn_on(Duration::ZERO, ledger, log);
        } else {
            match can_have_hint_faults() {
                Ok(()) => hints.state = State::Waiting,
                Err(error) => warn(Duration::ZERO, &error, log),
            }
        }
        hints
    }

    /// Whether there are any, or will be once they are needed.
    pub fn are_there(&self) -> bool {
        self.state != State::None
    }

    /// Turns them on where samples tell too little, and lets them pause where they take too much or samples tell enough
    /// again. `ran` is how long the followed tasks have run.
    pub fn limit(&mut self, now: Duration, ran: Duration, samples_tell: bool, ledger: &mut Ledger, log: &mut Log) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_EVERY;
        match self.state {
            State::None => {}
            State::Waiting if samples_tell => {}
            State::Waiting => self.turn_on(now, ledger, log),
            State::On { paused } => {
                let Some(faults) = HintFaults::so_far() else { return };
                let takes_too_much = self.budget.pauses(faults, ran);
                if (takes_too_much || samples_tell) != paused {
                    self.pause(now, !paused, takes_too_much, ledger, log);
                }
            }
        }
    }

    fn pause(&mut self, now: Duration, paused: bool, takes_too_much: bool, ledger: &mut Ledger, log: &mut Log) {
        match HintFaults::pause(ledger, paused) {
            Ok(true) => {
                self.state = State::On { paused };
                if takes_too_much && !std::mem::replace(&mut self.said_pause, true) {
                    let text =
                        "NUMA balancing is off now and then: its faults would take too much of the time (--overhead)";
                    log.tell(now, "setting", text.to_owned(), Vec::new());
                }
            }
            Ok(false) => {}
            Err(error) => {
                self.state = State::None;
                log.tell(now, "warning", format!("hint faults are not limited: {}", error.cause), Vec::new());
            }
        }
    }

    fn turn_on(&mut self, now: Duration, ledger: &mut Ledger, log: &mut Log) {
        match enable_hint_faults(ledger) {
            Ok(hint) => {
                self.state = State::On { paused: false };
                let switched = if hint.was_on { "was on already" } else { "turned on, and off again at the end" };
                let rate = match &hint.rate {
                    Ok(()) => "scan rate set".to_owned(),
                    Err(cause) => format!("scan rate left to the kernel: {cause}"),
                };
                let text = format!("extra faults by NUMA balancing ({switched}; {rate})");
                log.tell(now, "setting", text, Vec::new());
            }
            Err(error) => {
                self.state = State::None;
                warn(now, &error, log);
            }
        }
    }
}

fn warn(now: Duration, error: &Error, log: &mut Log) {
    let remedy = error.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    log.tell(now, "warning", format!("no extra faults by NUMA balancing: {}{remedy}", error.cause), Vec::new());
}
