//! What a session says of what it has decided, and of what cannot be had.

use super::Session;
use crate::online::Log;
use crate::online::words::{list, not_worth, saves, shown};
use crate::output::is_verbose;
use cohabit_online::policy::{Decision, Verdict};
use cohabit_online::sampling::Sums;
use std::time::Duration;

impl Session {
    /// Says whether tasks are left out of the samples.
    pub(super) fn say_of_samples(&mut self, now: Duration) {
        let left_out = self.counters.tasks_not_sampled;
        if left_out > 0 && !std::mem::replace(&mut self.said_samples, true) {
            let tasks = if left_out == 1 { "task is" } else { "tasks are" };
            let text = format!(
                "{left_out} {tasks} not sampled: too many files would be open (ulimit -Hn); eBPF, as root, needs none"
            );
            self.log.tell(now, "warning", text, Vec::new());
        }
        let left_out = self.counters.tasks_without_pmu;
        if left_out > 0 && !std::mem::replace(&mut self.said_pmu, true) {
            let tasks = if left_out == 1 { "task is" } else { "tasks are" };
            let text = format!("{left_out} {tasks} not sampled by the PMU: too many files would be open (ulimit -Hn)");
            self.log.tell(now, "warning", text, Vec::new());
        }
    }

    /// Says what of a job cannot be seen or placed from here.
    pub(super) fn say_of_ranks(&mut self, now: Duration) {
        if !self.said_bound && self.tasks.ranks_are_bound() {
            self.said_bound = true;
            let text = "the launcher binds its ranks, so they stay where they are (--bind-to none, or srun's --cpu-bind=none, leaves them to cohabit)";
            self.log.tell(now, "warning", text.to_owned(), Vec::new());
        }
    }

    pub(super) fn say_of_other_nodes(&mut self, now: Duration) {
        let (seen, size) = (self.tasks.ranks.len(), self.tasks.ranks.values().flatten().max());
        let missing = size.map_or(0, |&size| (size as usize).saturating_sub(seen));
        if self.node.is_none() && missing > 0 {
            let were = if missing == 1 { "was" } else { "were" };
            let what = match self.page {
                Some(_) => "seen: they ran on other nodes (`mpirun ... cohabit run -- CMD` watches on each)",
                // Of those that were named, whoever started the others.
                None => "among the processes that were named",
            };
            let text = format!("{missing} of {} ranks {were} not {what}", seen + missing);
            self.log.tell(now, "warning", text, Vec::new());
        }
    }

    pub(super) fn say(&mut self, now: Duration, decision: &Decision, moves: Vec<(u32, Option<u32>)>) {
        let keep = |log: &mut Log, reason: &'static str, text: String| log.keep(now, reason, text, is_verbose());
        let log = &mut self.log;
        match decision.verdict {
            Verdict::AllAlike => {
                keep(log, "alike", "all PUs are equally far from one another, so nothing is moved".to_owned());
            }
            Verdict::TooFewEvents => keep(log, "few", "too few events yet to say anything".to_owned()),
            Verdict::NoStructure => {
                keep(
                    log,
                    "flat",
                    "no structure: all tasks communicate alike, so that it does not matter which of them is where"
                        .to_owned(),
                );
            }
            Verdict::Holds => {
                keep(log, "holds", "where the tasks are is as good as where the mapping has them".to_owned());
            }
            Verdict::Crowds => {
                let text = "the mapping would have tasks share a PU while another is idle: it is not taken";
                keep(log, "crowds", text.to_owned());
            }
            Verdict::Uncertain(gain) => keep(log, "uncertain", format!("{}: it may be chance", saves(gain))),
            Verdict::NotWorth(gain, saved) => keep(log, "not worth", not_worth(gain, saved)),
            Verdict::TriedBefore(gain) => keep(log, "tried", format!("{}, but it was tried and hurt", saves(gain))),
            Verdict::TooSoon(gain) => {
                keep(log, "too soon", format!("{}: first it is seen how the program does without", saves(gain)));
            }
            Verdict::Watching => keep(log, "watching", "the last move is being watched".to_owned()),
            Verdict::Moved(gain) => {
                log.tell(now, "moved", format!("moved {}: {}", list(&moves, &self.tasks), saves(gain)), moves);
                log.forget_kept();
            }
            Verdict::WouldMove(gain) => {
                let os = |pu: usize| self.topology.pus[pu].os_index;
                let moves: Vec<(u32, Option<u32>)> =
                    decision.mapping.iter().map(|&(task, pu)| (task, Some(os(pu)))).collect();
                let text = format!("would move {}: {}", list(&moves, &self.tasks), saves(gain));
                // Over and over, as nothing is done about it.
                if log.entries.last().is_none_or(|last| last.what != "would-move") || is_verbose() {
                    log.tell(now, "would-move", text, moves);
                }
            }
            Verdict::Proved(effect) => log.tell(now, "proved", format!("the move stays: {}", shown(effect)), moves),
            Verdict::Undone(effect) => {
                self.undone += 1;
                log.tell(now, "undone", format!("undone, for it hurt: {}", shown(effect)), moves);
                log.forget_kept();
            }
        }
    }
}

/// That samples are taken shortly after switches too, and what the others show that tell too little, where these are
/// needed.
pub(super) fn switches_too(sampled: Sums, are_needed: bool) -> &'static str {
    if !are_needed {
        "samples shortly after switches to tasks too, which find them near others' memory at least twice as often"
    } else if sampled.waiting > sampled.samples / 2 {
        "samples shortly after switches to tasks too, while the others mostly find them waiting"
    } else {
        "samples shortly after switches to tasks too, while the others tell too little"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_said_to_wait_where_no_sample_shows_it() {
        for (samples, waiting, says_so) in [(0, 0, false), (100, 0, false), (100, 40, false), (100, 60, true)] {
            let sums = Sums { samples, waiting, ..Sums::default() };
            assert_eq!(switches_too(sums, true).contains("waiting"), says_so, "{samples} {waiting}");
            // Where they are not needed, nothing is missing, and nothing is said to be.
            assert!(
                !switches_too(sums, false).contains("waiting") && !switches_too(sums, false).contains("too little")
            );
        }
    }
}
