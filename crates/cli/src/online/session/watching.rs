//! Who and what is watched in a session, beside what the source sees by itself.

use super::Session;
use super::saying::switches_too;
use crate::online::node::Node;
use crate::output::is_verbose;
use cohabit_model::Result;
use std::time::Duration;

impl Session {
    /// Follows the processes that other cohabits of this node have handed over, and lets them become their programs.
    pub(super) fn welcome(&mut self) -> Result<()> {
        let newcomers = self.node.as_ref().map(Node::newcomers).unwrap_or_default();
        for newcomer in newcomers {
            let now = self.started.elapsed();
            if !self.said_leads {
                self.said_leads = true;
                self.log.tell(now, "source", "watching the other ranks on this node too".to_owned(), Vec::new());
            }
            if let Err(error) = self.source.follow(newcomer.pid) {
                let text = format!("process {} goes on unwatched: {}", newcomer.pid, error.cause);
                self.log.tell(now, "warning", text, Vec::new());
            }
            self.count_instructions(newcomer.pid);
            newcomer.answer(&self.environment());
        }
        Ok(())
    }

    /// Has samples taken after switches while the others tell too little. Where that cannot be had, the rest goes on.
    pub(super) fn sample_switches(&mut self, now: Duration) {
        // Where phases are recognised who communicates is to be seen all the time.
        let wanted = (self.extra.wants_switches() || self.following.is_some()) && !self.no_switches;
        let (needs, shows_more) = (self.extra.needs_switches(), self.extra.switches_show_more());
        let (what, text) = match self.source.sample_switches(wanted) {
            Ok(false) => return,
            // Not while they are only tried.
            Ok(true) if !needs && !shows_more || std::mem::replace(&mut self.said_switches, true) => return,
            Ok(true) => ("source", switches_too(self.counters.sampled, needs).to_owned()),
            // Where they are only tried, nothing is missed.
            Err(_) if !needs => {
                self.no_switches = true;
                return;
            }
            Err(error) => {
                self.no_switches = true;
                ("warning", format!("no samples after switches to tasks: {}", error.cause))
            }
        };
        self.log.tell(now, what, text, Vec::new());
    }

    /// Has what processes copy from one another seen, once there are several; that of ranks that are counted is known.
    pub(super) fn see_copies(&mut self, now: Duration) {
        if self.tried_copies || self.messages.is_some() || self.tasks.process_count() < 2 {
            return;
        }
        self.tried_copies = true;
        let (what, text) = match self.source.see_copies() {
            Ok(()) => ("source", "what processes copy from one another's memory (process_vm_readv)".to_owned()),
            Err(error) => {
                ("warning", format!("what processes copy from one another's memory is not seen: {}", error.cause))
            }
        };
        self.log.record(now, what, text, is_verbose());
    }
}
