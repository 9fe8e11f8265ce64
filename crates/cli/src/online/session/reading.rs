//! Taking what was seen: evidence of pairs, tasks that come and go, and how far the program has come.

use super::{MAPPINGS_SOON, Session};
use cohabit_model::Result;
use cohabit_online::evidence::{Evidence, Kind};
use cohabit_online::faults::{self, ProgressPage, Reading};
use cohabit_online::progress::{Reported, Sample};
use cohabit_online::sure::Sureness;
use cohabit_online::threads;
use std::collections::BTreeSet;
use std::time::Duration;

impl Session {
    /// Takes what was seen; whether tasks came or went.
    pub(super) fn read(&mut self, with_pairs: bool) -> Result<bool> {
        let now = self.started.elapsed();
        let Reading { tasks, mut seen, mut counters } = self.source.read(now, with_pairs)?;
        if let Some(messages) = &mut self.messages {
            messages.see(&tasks);
        }
        if with_pairs {
            seen.extend(self.extra.take_watched(now));
            self.take_messages(now, &mut seen);
        }
        seen.retain(|seen| self.args.counts(seen.kind));
        self.extra.saw(&seen);
        counters.events += self.extra.watched().events;
        let pairs = self.weigher.weigh(now, &seen);
        if let Some(following) = &mut self.following {
            following.see(&seen);
        }
        self.weighed += pairs.iter().map(|pair| pair.2 as f64).sum::<f64>();
        self.recorder.add_tasks(&tasks);
        self.recorder.add(&seen, &pairs, counters, now);
        let (mut ended, any) = (BTreeSet::new(), !tasks.is_empty());
        for event in tasks {
            // Another program or process maps its memory soon.
            let maps_soon = match event {
                faults::TaskEvent::Exec { .. } => true,
                faults::TaskEvent::Started { tid, process, .. } => tid == process,
                faults::TaskEvent::Ended { .. } => false,
            };
            if maps_soon {
                self.next_mappings = self.next_mappings.min(now + MAPPINGS_SOON);
            }
            self.tasks.event(&event, &mut self.placer, &mut self.ledger)?;
            self.name_task(&event);
            if let faults::TaskEvent::Ended { task } = event {
                ended.insert(task);
            }
        }
        self.matrix.forget(&ended);
        self.some_ended |= !ended.is_empty();
        if with_pairs {
            if std::mem::take(&mut self.some_ended) {
                let living = &self.tasks.living;
                self.since_change.retain(|(a, b), _| living.contains_key(a) && living.contains_key(b));
                self.weigher.retain(|task| self.tasks.living.contains_key(&task));
            }
            // Not each time somebody comes or goes, which may be thousands of times a second.
            self.matrix.fade(now - self.faded);
            self.faded = now;
        }
        // Blocks remember tasks for a while after they have ended.
        let lives = |task: u32| self.tasks.living.contains_key(&task);
        let living = pairs.into_iter().filter(|&(a, b, _)| lives(a) && lives(b));
        for (a, b, events) in living {
            self.matrix.add_untelling(a, b, events);
            *self.since_change.entry((a, b)).or_default() += events as f64;
        }
        // Of samples those of the last moments tell a change: the others show what was before, too. Watchpoints come
        // where these are.
        let weights = self.weigher.weights();
        for seen in seen.iter().filter(|seen| lives(seen.pair.0) && lives(seen.pair.1)) {
            match seen.kind {
                Kind::Met => self.matrix.tell_change(seen.pair.0, seen.pair.1, seen.count as f64),
                Kind::Sampled => {}
                Kind::Watched if self.source.samples() => {}
                _ => self.matrix.tell_change(seen.pair.0, seen.pair.1, weights.events(seen)),
            }
        }
        self.counters = counters;
        Ok(any)
    }

    /// Adds what ranks have sent one another. What faults show of these is the same, seen less well.
    pub(super) fn take_messages(&mut self, now: Duration, seen: &mut Vec<Evidence>) {
        let Some(messages) = &mut self.messages else { return };
        let (sent, are_new) = messages.take(now, &mut self.log);
        self.extra.ranks_are_counted |= !sent.is_empty();
        let process = |task: u32| self.tasks.living.get(&task).map_or(0, |living| living.process);
        seen.retain(|seen| !seen.kind.is_of_faults() || !messages.know(process(seen.pair.0), process(seen.pair.1)));
        if are_new {
            let ranks = self.tasks.living.iter().filter(|(_, living)| living.rank.is_some());
            self.matrix.forget(&ranks.map(|(&task, _)| task).collect());
            self.recorder.forget_faults(|a, b| messages.know(a, b));
        }
        seen.extend(sent);
    }

    /// Looks how sure it is who communicates, from all that was seen since tasks last did otherwise.
    pub(super) fn look_how_sure(&mut self, now: Duration, has_changed: bool) {
        if has_changed {
            self.since_change.clear();
            self.weigher.forget();
            self.changed = now;
        }
        let seconds = now.saturating_sub(self.changed).as_secs_f64();
        self.sure = Sureness::of(self.tasks.living.len(), self.since_change.values().copied(), seconds);
        self.extra.is_sure = self.sure.is_sure();
        if self.sure_at.is_none() && self.sure.is_sure() {
            self.sure_at = Some(now);
            let text = match self.sure.pairs {
                1 => "it is known of the one pair of tasks whether it communicates".to_owned(),
                pairs => format!("all {pairs} pairs of tasks are told apart"),
            };
            self.log.tell(now, "sure", text, Vec::new());
        }
    }

    /// Of all threads of a process that are there, and so of all that comes of them.
    pub(super) fn count_instructions(&mut self, process: i32) {
        for tid in threads::of_process(process) {
            if !self.instructions.follow(tid) {
                return;
            }
        }
    }

    /// How far the program has come.
    pub(super) fn sample(&mut self, now: Duration) -> Sample {
        let reported = self.page.as_ref().and_then(ProgressPage::read);
        let reported = reported.map(|(units, reports)| Reported { units: units as f64, reports: reports as f64 });
        Sample { reported, instructions: self.instructions.total(), ..self.tasks.progress(now) }
    }

    /// As they are called now; those of ranks by their ranks.
    pub(super) fn name_tasks(&mut self) {
        for (&task, living) in self.tasks.living.iter().filter(|(_, living)| !living.name.is_empty()) {
            self.recorder.name(task, &living.name);
            self.recorder.rank(task, living.rank);
            self.recorder.ran(task, living.ran);
        }
    }

    /// Names a task that has come or changed: it may end before the next decision.
    pub(super) fn name_task(&mut self, event: &faults::TaskEvent) {
        let (faults::TaskEvent::Started { task, .. } | faults::TaskEvent::Exec { task, .. }) = *event else { return };
        if let Some(living) = self.tasks.living.get(&task).filter(|living| !living.name.is_empty()) {
            self.recorder.name(task, &living.name);
            self.recorder.rank(task, living.rank);
        }
    }
}
