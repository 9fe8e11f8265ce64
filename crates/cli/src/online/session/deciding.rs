//! Deciding: how the program does, whether it communicates otherwise than before, and where its tasks should be.

use super::Session;
use crate::online::following::{Following, LOOK_EVERY};
use crate::output::is_verbose;
use cohabit_host::CpuMask;
use cohabit_map::{Options, Problem, mapper};
use cohabit_model::Result;
use cohabit_online::policy::{Decision, Request, View, time_of_event};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the mapper may search at each interval.
const MAP_BUDGET: Duration = Duration::from_micros(500);

impl Session {
    pub(super) fn decide(&mut self, now: Duration) -> Result<()> {
        self.tasks.look(&mut self.placer, &mut self.ledger);
        self.name_tasks();
        self.say_of_ranks(now);
        let sample = self.sample(now);
        self.progress.add(sample);
        let has_changed = self.matrix.look_for_change();
        self.look_how_sure(now, has_changed);
        if has_changed {
            let text = "tasks communicate otherwise than before, which is forgotten".to_owned();
            self.log.record(now, "changed", text, is_verbose());
            self.source.forget_samples();
        }
        let talking: BTreeSet<u32> = self.matrix.iter().flat_map(|(a, b, _)| [a, b]).collect();
        let tasks = self.tasks.view(&self.topology, |task| talking.contains(&task));
        let forbidden = self.forbidden(tasks.len());
        let view = View {
            now,
            topology: &self.topology,
            tasks: &tasks,
            forbidden: &forbidden,
            matrix: &self.matrix,
            has_changed,
            event: self.time_of_event(sample.ran),
            progress: &self.progress,
        };
        let decision = self.policy.decide(&view, &map)?;
        if !decision.mapping.is_empty() {
            self.last_mapping.clone_from(&decision.mapping);
        }
        self.decisions.add(decision.verdict);
        self.forbidden = forbidden;
        self.apply(now, decision)
    }

    /// How long it is from one look at phases to the next, where they are recognised.
    pub(super) fn slice(&self) -> Option<Duration> {
        self.following.as_ref().map(Following::slice)
    }

    /// Looks which phase of the mapping the program is in.
    pub(super) fn recognise(&mut self, now: Duration) {
        if now >= self.next_look {
            self.tasks.look(&mut self.placer, &mut self.ledger);
            self.next_look = now + LOOK_EVERY;
        }
        let Some(following) = &mut self.following else { return };
        let living = self.tasks.living.iter().map(|(&task, living)| (living.tid, task)).collect();
        if let Some(text) = following.look(now, &living) {
            self.log.record(now, "phase", text, is_verbose());
            // They show what was before.
            self.source.forget_samples();
        }
    }

    /// What an event stands for, on average, where the tasks have run so long.
    pub(super) fn time_of_event(&self, ran: Duration) -> Duration {
        let sampled = self.counters.sampled;
        let regular = sampled.samples + sampled.by_pmu;
        let apart = ran.checked_div(regular.try_into().unwrap_or(u32::MAX)).unwrap_or_default();
        // Samples after switches find tasks at work more often than they are.
        let telling = sampled.telling + sampled.telling_by_pmu;
        let all = (telling + sampled.telling_after_switches).max(1);
        let apart = apart.mul_f64(telling as f64 / all as f64);
        time_of_event(self.weighed, sampled.events as f64, apart)
    }

    /// PUs that are not to be used: those that the program may not use, and those that other cohabits have put threads
    /// on, as long as enough are left.
    pub(super) fn forbidden(&mut self, tasks: usize) -> Vec<usize> {
        let usable: CpuMask = self.placer.usual();
        let is_allowed = |pu: &usize| self.args.dry_run || usable.contains(self.topology.pus[*pu].os_index);
        let (allowed, mut forbidden): (Vec<usize>, Vec<usize>) = (0..self.topology.pus.len()).partition(is_allowed);
        let theirs: BTreeSet<u32> = self.ledger.used_by_others().into_iter().collect();
        let (taken, left): (Vec<usize>, Vec<usize>) =
            allowed.into_iter().partition(|pu| theirs.contains(&self.topology.pus[*pu].os_index));
        if left.len() >= tasks {
            forbidden.extend(taken);
        } else if !taken.is_empty() && !self.said_crowded {
            self.said_crowded = true;
            let text = "other cohabits use PUs here, and too few are free: they are shared".to_owned();
            self.log.tell(self.started.elapsed(), "warning", text, Vec::new());
        }
        forbidden
    }

    pub(super) fn apply(&mut self, now: Duration, decision: Decision) -> Result<()> {
        let os = |pu: usize| self.topology.pus[pu].os_index;
        let told: Vec<(u32, Option<u32>)> = decision.moves.iter().map(|&(task, pu)| (task, pu.map(os))).collect();
        let moves: Vec<(i32, Option<u32>)> =
            told.iter().filter_map(|&(task, pu)| Some((self.tasks.living.get(&task)?.tid, pu))).collect();
        if !moves.is_empty() {
            for (tid, cause) in self.placer.place(&mut self.ledger, &moves)? {
                self.log.tell(now, "warning", format!("thread {tid} could not be moved: {cause}"), Vec::new());
            }
            self.matrix.migrated();
            self.moves += moves.len() as u64;
        }
        self.say(now, &decision, told);
        Ok(())
    }
}

/// The mapper's own terms for what the policy asks.
fn map(request: &Request) -> Result<Vec<usize>> {
    let options = Options {
        pins: request.fixed.to_vec(),
        forbidden: request.forbidden.to_vec(),
        present: request.present.to_vec(),
        move_cost: request.move_cost,
        budget: Some(MAP_BUDGET),
        ..Options::default()
    };
    let problem = Problem {
        weight: request.weight,
        load: request.load,
        periods: &[],
        topology: request.topology,
        options: &options,
    };
    mapper("best")?.map(&problem)
}
