//! A mapping for each phase of a run (`cohabit map --per-phase`): what goes to the file, and what is said of it.

use crate::mapping::Made;
use crate::number::seconds;
use crate::picture::text::{clean, grouped};
use crate::show::time::{name, what};
use cohabit_map::per_phase::PerPhase;
use cohabit_model::calls::CallPlace;
use cohabit_model::cost::MOVE;
use cohabit_model::mapping::{PHASED_FORMAT, PhaseMapping, Phases, Seat, Signature, Weight};
use cohabit_model::series::Window;
use cohabit_model::timeline::By;
use cohabit_model::{Mapping, Timeline, Topology};
use cohabit_online::recognise::SHORTEST;
use serde_json::{Value, json};

/// Phases with their mappings.
pub struct Phased {
    /// The phases.
    pub timeline: Timeline,
    /// The order in which they come: places in these.
    pub order: Vec<usize>,
    /// The call sites at which each begins, where that is by what they are told apart.
    pub begins_at: Vec<Vec<CallPlace>>,
    /// Their mappings.
    pub found: PerPhase,
    /// Of each mapping, where it puts each task.
    pub seats: Vec<Vec<Seat>>,
}

impl Phased {
    /// Puts the phases into a mapping; nothing where all have the one mapping.
    pub fn put_into(&self, mapping: &mut Mapping) {
        if self.found.is_single() {
            return;
        }
        // In the order in which they are written: signatures count mappings by it.
        let mut order: Vec<usize> = (0..self.timeline.periods.len()).collect();
        order.sort_by_key(|&at| self.timeline.periods[at].number);
        let is_recognised = matches!(self.timeline.by, By::Recurring | By::Clusters);
        let phase = |&at: &usize| PhaseMapping {
            number: self.timeline.periods[at].number,
            tasks: self.seats[self.found.of_phase[at]].clone(),
            begins_at: self.begins_at[at].clone(),
            recognised_by: is_recognised.then(|| self.signature(at, &order, mapping.weight)),
            unknown: Default::default(),
        };
        let mappings: Vec<PhaseMapping> = order.iter().map(phase).collect();
        mapping.format = PHASED_FORMAT;
        mapping.phases = Some(Phases { by: self.timeline.by, mappings, unknown: Default::default() });
    }

    /// How often a phase comes.
    fn visits(&self, phase: usize) -> u64 {
        self.order.iter().filter(|&&at| at == phase).count().max(1) as u64
    }

    /// How long it lasts when it comes, on the mean; none where windows are of instructions.
    fn seconds(&self, phase: usize) -> Option<f64> {
        let Window::Time(window_ns) = self.timeline.window else { return None };
        let windows: u64 = self.timeline.periods[phase].spans.iter().map(|span| span.end - span.start).sum();
        Some(windows as f64 * window_ns as f64 * 1e-9 / self.visits(phase) as f64)
    }

    /// What a run knows a phase again by, where mappings are those of phases in this order.
    fn signature(&self, phase: usize, order: &[usize], weight: Weight) -> Signature {
        let period = &self.timeline.periods[phase];
        let (own, visits) = (self.found.of_phase[phase], self.visits(phase) as f64);
        let mappings = || std::iter::once(0).chain(order.iter().map(|&other| self.found.of_phase[other]));
        Signature {
            seconds: self.seconds(phase).filter(|&seconds| seconds > 0.0),
            pairs: Signature::pairs_of(if weight == Weight::Bytes { &period.bytes } else { &period.messages }),
            takes_s: mappings().map(|mapping| self.found.takes_s[phase][mapping] / visits).collect(),
            moves_s: mappings().map(|mapping| self.found.moves_s[mapping][own]).collect(),
            unknown: Default::default(),
        }
    }

    /// What is said of phases that a run has to recognise.
    fn recognised(&self) -> String {
        let by = what(self.timeline.by);
        let shortest = SHORTEST.as_secs_f64();
        let all = 0..self.timeline.periods.len();
        let short: Vec<usize> =
            all.clone().filter(|&phase| self.seconds(phase).is_some_and(|length| length < shortest)).collect();
        if short.is_empty() {
            return format!("; 'cohabit run' recognises these {by}s while the program runs");
        }
        let longest = short.iter().filter_map(|&phase| self.seconds(phase)).fold(0.0, f64::max);
        let (longest, shortest) = (seconds(longest), seconds(shortest));
        if short.len() == all.len() {
            return format!(
                "; these {by}s last {longest} at most, on the mean, and 'cohabit run' needs {shortest} at least to recognise \
                 one: it keeps the mapping above"
            );
        }
        let named: Vec<String> = short.iter().map(|&phase| name(&self.timeline, phase)).collect();
        format!(
            "; 'cohabit run' recognises these {by}s while the program runs, but for {}: less than {shortest} is too short",
            named.join(", ")
        )
    }

    /// What it comes to, for programs.
    pub fn fields(&self, made: &Made) -> Value {
        let PerPhase { placements, changes, moves, phase_s, move_s, single_s, .. } = &self.found;
        json!({
            "by": self.timeline.by, "phases": self.timeline.periods.len(), "mappings": placements.len(),
            "changes": changes, "moves": moves, "phase_seconds": phase_s, "move_seconds": move_s,
            "single_seconds": single_s, "text": self.verdict(made),
        })
    }

    /// What it comes to, for people: a table for each mapping beside the one, and a sentence.
    pub fn text(&self, made: &Made, table: impl Fn(&[usize], &Topology) -> String, topology: &Topology) -> String {
        let mut text = String::new();
        if !self.found.is_single() {
            for (at, placement) in self.found.placements.iter().enumerate() {
                let phases: Vec<String> = (0..self.timeline.periods.len())
                    .filter(|&phase| self.found.of_phase[phase] == at)
                    .map(|phase| name(&self.timeline, phase))
                    .collect();
                if phases.is_empty() {
                    continue;
                }
                let [one, several] = [what(self.timeline.by).to_owned(), format!("{}s", what(self.timeline.by))];
                let named = if phases.len() == 1 { one } else { several };
                text += &format!("{named} {}:", phases.join(", "));
                match at {
                    0 => text += " the mapping above\n",
                    _ => text += &format!("\n{}", table(placement, topology)),
                }
            }
            for (part, places) in self.begins_at.iter().enumerate().filter(|(_, places)| !places.is_empty()) {
                let places: Vec<String> = places.iter().map(CallPlace::to_string).collect();
                text += &clean(&format!("phase {} begins at {}", name(&self.timeline, part), places.join(", ")));
                text.push('\n');
            }
        }
        text + &self.verdict(made) + "\n"
    }

    /// The sentence.
    fn verdict(&self, made: &Made) -> String {
        let found = &self.found;
        let by = what(self.timeline.by);
        let count = self.timeline.periods.len();
        let of = if made.mapping.objective == "congestion" { "the run" } else { "all tasks' waiting together" };
        if !found.is_single() {
            let [phase, moves, single] = [found.phase_s, found.move_s, found.single_s].map(seconds);
            let several = |count: u64, noun: &str| {
                format!("{} {noun}{}", grouped(u128::from(count)), if count == 1 { "" } else { "s" })
            };
            let (changes, moved) = (several(found.changes, "change"), several(found.moves, "move"));
            let again = match self.timeline.by {
                By::Markers | By::Calls => String::new(),
                // Ranks come to call sites.
                By::Recurring | By::Clusters if made.mapping.tasks.iter().any(|task| task.rank.is_some()) => {
                    format!("; 'cohabit run' moves ranks at call sites of MPI, and these are {by}s")
                }
                By::Recurring | By::Clusters => self.recognised(),
            };
            return format!(
                "per phase: {phase} and {moves} for {moved} in {changes}, against {single} with the mapping \
                 above (estimated, {of}){again}"
            );
        }
        let most = found.single_s - found.free_s;
        match (count, most > 0.0) {
            (1, _) => format!("per phase: there is one {by}, and the mapping above serves it"),
            (_, false) => format!(
                "per phase: no other mapping was found that serves any of the {count} {by}s better: one mapping for all"
            ),
            (_, true) => format!(
                "per phase: one mapping for all {count} {by}s, as moving costs more than it gains: {} at most (estimated, {of}), \
                 and a move is taken to cost {}",
                seconds(most),
                seconds(MOVE.as_secs_f64()),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use cohabit_access::{InMemory, Recording, Step, synthetic};
    use cohabit_detect::communication::communication;
    use cohabit_map::objective::{Case, map_for};
    use cohabit_map::per_phase::{Sequence, per_phase};
    use cohabit_map::{Options, Problem, mapper, objective};
    use cohabit_memory::{Exchange, Machine, Options as HowSimulated, simulate};
    use cohabit_model::cost::MOVE;
    use cohabit_model::mapping::Weight;
    use cohabit_model::{Matrix, Period};

    const TASKS: usize = 8;

    /// The steps of each task.
    fn steps(recording: &dyn Recording) -> Vec<Vec<Step>> {
        let of = |task| {
            let mut reader = recording.steps(task).unwrap();
            std::iter::from_fn(|| reader.next_step().unwrap()).collect()
        };
        (0..TASKS as u32).map(of).collect()
    }

    /// One recording after the other.
    fn joined(first: &dyn Recording, second: &dyn Recording) -> InMemory {
        let mut all = steps(first);
        let made: Vec<u64> = all.iter().map(|steps| steps.iter().map(Step::access_count).sum()).collect();
        for (steps, more) in all.iter_mut().zip(steps(second)) {
            steps.extend(more.into_iter().map(|step| match step {
                Step::Wait { task, position, reason, polled } => {
                    Step::Wait { task, position: position + made[task as usize], reason, polled }
                }
                other => other,
            }));
        }
        InMemory::new(all)
    }

    /// What changes places so that tasks come from one placement to another.
    fn exchanges(before: &[usize], after: &[usize], at: u64) -> Vec<Exchange> {
        let (mut now, mut found) = (before.to_vec(), Vec::new());
        for (task, &to) in after.iter().enumerate() {
            let from = now[task];
            if from != to {
                found.push(Exchange { at, pus: [from, to] });
                now.iter_mut().for_each(|pu| *pu = if *pu == to { from } else { *pu });
                now[task] = to;
            }
        }
        assert_eq!(now, after);
        found
    }

    /// In the simulator, which knows nothing of these estimates, a run that changes its mapping between phases takes
    /// less than with the one mapping where it was to change, and never longer by more than moves were taken to cost.
    #[test]
    fn mappings_of_phases_hold_in_the_simulator() {
        let machine = Machine::load("purple").unwrap();
        let topology = &machine.topology;
        for (rounds, has_changed) in [(2, false), (150, true)] {
            let parts =
                ["pairs", "distant"].map(|kind| synthetic::parse(&format!("{kind}:{TASKS}:8:{rounds}")).unwrap());
            let period = |(number, part): (usize, &InMemory)| {
                let messages = communication(part).unwrap().messages;
                let span = number as u64..number as u64 + 1;
                Period { number: number as u64, spans: vec![span], bytes: messages.clone(), messages }
            };
            let periods: Vec<Period> = parts.iter().enumerate().map(period).collect();
            let all = periods.iter().flat_map(|period| period.messages.iter());
            let weight = Matrix::from_triplets(TASKS, all);
            let options = Options { share_cores: true, ..Options::default() };
            let problem = Problem { weight: &weight, load: &[], periods: &periods, topology, options: &options };
            let case = Case { problem: &problem, network: None, memory: &[] };
            let asked = (mapper("best").unwrap(), objective("distance").unwrap());
            let sequence = Sequence { order: &[0, 1], indifferent: &[false; 2] };
            let single = map_for(&case, asked.0, asked.1).unwrap();
            let found = per_phase(&case, asked, Weight::Messages, sequence, &single).unwrap();
            assert_eq!(!found.is_single(), has_changed, "{found:?}");
            let of = |phase: usize| &found.placements[found.of_phase[phase]];
            let whole = joined(&parts[0], &parts[1]);
            let time_s = |recording: &InMemory, placement: &[usize], exchanges| {
                let how = HowSimulated { exchanges, ..HowSimulated::default() };
                simulate(recording, &machine, placement, &how).unwrap().time_fs as f64 * 1e-15
            };
            let middle = (time_s(&parts[0], of(0), vec![]) * 1e15) as u64;
            let mut changes = exchanges(&single, of(0), 0);
            changes.extend(exchanges(of(0), of(1), middle));
            let (with, without) = (time_s(&whole, &single, changes), time_s(&whole, &single, vec![]));
            assert!(with <= without + found.moves as f64 * MOVE.as_secs_f64());
            assert!(!has_changed || with < without, "{with} {without}");
        }
    }
}
