//! The phases of a mapping that nothing announces: in which of them the program is, by what the session sees of it, and
//! its tasks moved to where that phase has them.

use super::report::own_cpu;
use crate::number::seconds;
use crate::picture::text::grouped;
use crate::show::time::what;
use cohabit_apply::Conductor;
use cohabit_model::Mapping;
use cohabit_model::mapping::Signature;
use cohabit_model::timeline::By;
use cohabit_online::evidence::{Evidence, Kind};
use cohabit_online::recognise::{Follower, Look, Pair, SHORTEST, Seen};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Changes that are kept, for `--json`.
const MOST_CHANGES: usize = 10_000;
/// Tasks that run are looked at no more often.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Follows a program from phase to phase.
pub struct Following {
    conductor: Conductor,
    follower: Follower,
    numbers: Vec<u64>,
    /// What was seen since the last look, by the session's numbers of tasks.
    seen: Seen,
    /// What came of it so far.
    sums: Followed,
}

/// What came of following.
#[derive(Debug, Clone)]
pub struct Followed {
    by: By,
    /// Each time that a phase was recognised: when, its number, and how many threads were to go elsewhere.
    changes: Vec<(Duration, u64, usize)>,
    /// How often, by number.
    times: BTreeMap<u64, u64>,
    moves: u64,
    not_worth: u64,
    events: f64,
    /// Until when.
    time: Duration,
    /// CPU time of this process then.
    own_cpu: Duration,
}

/// What phases are recognised by, with their numbers; none where they are announced, or there are none.
pub fn signatures(mapping: &Mapping) -> Vec<(u64, &Signature)> {
    let phases = mapping.phases.iter().flat_map(|phases| &phases.mappings);
    phases.filter_map(|phase| Some((phase.number, phase.recognised_by.as_ref()?))).collect()
}

/// Why none of the phases is looked for: all are over before it is known that they have begun.
pub fn too_short(mapping: &Mapping) -> Option<String> {
    let found = signatures(mapping);
    let longest = found.iter().map(|(_, signature)| signature.seconds).max_by(|a, b| {
        let key = |seconds: &Option<f64>| seconds.unwrap_or(f64::INFINITY);
        key(a).total_cmp(&key(b))
    })??;
    let by = mapping.phases.as_ref()?.by;
    let shortest = SHORTEST.as_secs_f64();
    (longest < shortest).then(|| {
        format!(
            "the {}s of the mapping last {} at most, on the mean, and {} at least are needed to recognise one: the one \
             mapping is kept",
            what(by),
            seconds(longest),
            seconds(shortest)
        )
    })
}

impl Following {
    /// The phases of a mapping; none where there are none that are recognised.
    pub fn of(mapping: &Mapping, conductor: Conductor) -> Option<Self> {
        let found = signatures(mapping);
        let by = mapping.phases.as_ref().filter(|_| !found.is_empty())?.by;
        Some(Self {
            conductor,
            follower: Follower::new(found.iter().map(|(_, signature)| *signature)),
            numbers: found.iter().map(|(number, _)| *number).collect(),
            seen: Seen::default(),
            sums: Followed::new(by),
        })
    }

    /// What two phases have too much in common to be told apart, in a line.
    pub fn alike(&self) -> Option<String> {
        let (a, b) = self.follower.recogniser().alike()?;
        let name = |at: usize| name(self.sums.by, self.numbers[at]);
        Some(format!("{}s {} and {} are too much alike to be told apart", what(self.sums.by), name(a), name(b)))
    }

    /// What came of it.
    pub fn finish(self) -> Followed {
        Followed { own_cpu: own_cpu(), ..self.sums }
    }

    /// How long it is from one look to the next.
    pub fn slice(&self) -> Duration {
        self.follower.slice()
    }

    /// Takes what was seen, unweighed: how much it tells is found out phase by phase. Of samples those of the last
    /// moments: the others show what was before, too.
    pub fn see(&mut self, seen: &[Evidence]) {
        for seen in seen {
            let row = seen.kind.row();
            let of_one = match seen.kind {
                Kind::Met => 1,
                Kind::Sampled => continue,
                _ => row.of_an_event.unwrap_or(1),
            };
            let of_class = if row.is_exact { &mut self.seen.exact } else { &mut self.seen.near };
            *of_class.entry(seen.pair).or_default() += seen.count as f64 / of_one as f64;
        }
    }

    /// Looks which phase it is; `living` has the session's numbers of tasks by their threads. What it came to, in words,
    /// where another phase is recognised.
    pub fn look(&mut self, now: Duration, living: &HashMap<i32, u32>) -> Option<String> {
        let tasks = self.conductor.tasks();
        let task_of: HashMap<u32, u32> =
            tasks.iter().filter_map(|(task, tid)| Some((*living.get(tid)?, *task))).collect();
        let running: BTreeSet<u32> = task_of.values().copied().collect();
        let Seen { exact, near } = std::mem::take(&mut self.seen);
        let mut sum = 0.0;
        let mut named = |events: BTreeMap<Pair, f64>| {
            let mut found: BTreeMap<Pair, f64> = BTreeMap::new();
            for ((a, b), count) in events {
                let (Some(&a), Some(&b)) = (task_of.get(&a), task_of.get(&b)) else { continue };
                *found.entry((a.min(b), a.max(b))).or_default() += count;
                sum += count;
            }
            found
        };
        let seen = Seen { exact: named(exact), near: named(near) };
        self.sums.events += sum;
        self.sums.time = now;
        let look = self.follower.look(now, &running, &seen);
        let (phase, moves) = match look {
            Look::Nothing => return None,
            Look::There(phase) => (phase, 0),
            Look::NotWorth(phase) => (phase, 0),
            Look::Move(phase) => (phase, self.conductor.begin(self.numbers[phase])),
        };
        let number = self.numbers[phase];
        self.sums.add(now, number, look, moves);
        let named = format!("{} {}", what(self.sums.by), name(self.sums.by, number));
        Some(match look {
            Look::Move(_) => format!("{named}: {}", counted(moves as u64, "thread", "moved")),
            Look::NotWorth(_) => format!("{named}: the rest of it does not pay for moving"),
            _ => format!("{named}: tasks are as well off where they are"),
        })
    }
}

/// What a phase is called: as `cohabit map` calls it.
fn name(by: By, number: u64) -> u64 {
    match by {
        By::Markers | By::Calls => number,
        By::Recurring | By::Clusters => number + 1,
    }
}

/// `1 thread moved`.
fn counted(count: u64, noun: &str, did: &str) -> String {
    format!("{} {noun}{} {did}", grouped(u128::from(count)), if count == 1 { "" } else { "s" })
}

impl Followed {
    fn new(by: By) -> Self {
        let (time, events) = (Duration::ZERO, 0.0);
        Self { by, changes: Vec::new(), times: BTreeMap::new(), moves: 0, not_worth: 0, events, time, own_cpu: time }
    }

    fn add(&mut self, now: Duration, number: u64, look: Look, moves: usize) {
        // One that did not pay at first was recognised then.
        let is_known = self.changes.last().is_some_and(|last| last.1 == number);
        if !is_known {
            *self.times.entry(number).or_default() += 1;
        }
        self.moves += moves as u64;
        self.not_worth += u64::from(matches!(look, Look::NotWorth(_)));
        if self.changes.len() < MOST_CHANGES {
            self.changes.push((now, number, moves));
        }
    }

    /// The sentence at the end.
    pub fn text(&self) -> String {
        let by = what(self.by);
        let times: u64 = self.times.values().sum();
        if times == 0 {
            let (events, time) = (grouped(self.events.round() as u128), seconds(self.time.as_secs_f64()));
            return format!(
                "it was never sure which {by} the program was in ({events} events in {time}): the one mapping was kept"
            );
        }
        let each: Vec<String> =
            self.times.iter().map(|(&number, times)| format!("{} {times}", name(self.by, number))).collect();
        let times = format!("{} time{}", grouped(u128::from(times)), if times == 1 { "" } else { "s" });
        let moved = match self.moves {
            0 => "no thread was moved".to_owned(),
            1 => "1 thread was moved".to_owned(),
            moves => format!("threads were moved {} times", grouped(u128::from(moves))),
        };
        let not_worth = match self.not_worth {
            0 => String::new(),
            1 => "; once the rest of it did not pay for moving".to_owned(),
            count => format!("; {count} times the rest of it did not pay for moving"),
        };
        format!("{by}s were recognised {times} ({}), and {moved}{not_worth}", each.join(", "))
    }

    /// For `--json`.
    pub fn fields(&self) -> Value {
        let change = |&(at, number, moves): &(Duration, u64, usize)| json!({ "seconds": at.as_secs_f64(), "number": number, "moves": moves });
        json!({
            "by": self.by, "text": self.text(), "events": self.events, "seconds": self.time.as_secs_f64(),
            "own_cpu_seconds": self.own_cpu.as_secs_f64(),
            "moves": self.moves, "not_worth": self.not_worth,
            "phases": self.times.iter().map(|(number, times)| json!({ "number": number, "times": times })).collect::<Vec<_>>(),
            "changes": self.changes.iter().map(change).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::mapping::{PHASED_FORMAT, PhaseMapping, Phases};

    fn mapping(seconds: &[Option<f64>]) -> Mapping {
        let mut mapping: Mapping = serde_json::from_value(json!({
            "format": 1, "mapper": "best", "weight": "messages", "topology": "pu:2", "tasks": [], "cost": {"distance": 0},
        }))
        .unwrap();
        let phase = |(number, &seconds): (u64, &Option<f64>)| PhaseMapping {
            number,
            tasks: Vec::new(),
            begins_at: Vec::new(),
            recognised_by: Some(Signature {
                seconds,
                pairs: vec![(number as u32, number as u32 + 1, 1.0)],
                takes_s: vec![0.0; 3],
                moves_s: vec![0.0; 3],
                unknown: Default::default(),
            }),
            unknown: Default::default(),
        };
        let mappings = (0..).zip(seconds).map(phase).collect();
        mapping.format = PHASED_FORMAT;
        mapping.phases = Some(Phases { by: By::Recurring, mappings, unknown: Default::default() });
        mapping
    }

    #[test]
    fn phases_that_are_too_short_are_said_to_be_and_no_others() {
        let text = too_short(&mapping(&[Some(0.25), Some(0.125)])).unwrap();
        assert_eq!(
            text,
            "the patterns of the mapping last 250 ms at most, on the mean, and 1.00 s at least are needed to recognise one: \
             the one mapping is kept"
        );
        for seconds in [&[Some(0.25), Some(2.0)][..], &[Some(0.25), None], &[]] {
            assert_eq!(too_short(&mapping(seconds)), None);
        }
    }

    #[test]
    fn phases_that_are_alike_are_named_and_no_others() {
        let alike = |mapping: &Mapping| Following::of(mapping, Conductor::default()).unwrap().alike();
        let mut phases = mapping(&[Some(2.0), Some(2.0)]);
        assert_eq!(alike(&phases), None);
        let mappings = &mut phases.phases.as_mut().unwrap().mappings;
        mappings[1].recognised_by = mappings[0].recognised_by.clone();
        assert_eq!(alike(&phases).unwrap(), "patterns 1 and 2 are too much alike to be told apart");
        assert!(Following::of(&mapping(&[]), Conductor::default()).is_none());
    }

    #[test]
    fn what_came_of_it_is_said_as_it_was() {
        let mut followed = Followed::new(By::Recurring);
        (followed.events, followed.time) = (1234.4, Duration::from_secs(9));
        assert_eq!(
            followed.text(),
            "it was never sure which pattern the program was in (1,234 events in 9.00 s): the one mapping was kept"
        );
        followed.add(Duration::from_secs(1), 0, Look::There(0), 0);
        assert_eq!(followed.text(), "patterns were recognised 1 time (1 1), and no thread was moved");
        followed.add(Duration::from_secs(2), 1, Look::NotWorth(1), 0);
        assert!(followed.text().ends_with("; once the rest of it did not pay for moving"), "{}", followed.text());
        followed.add(Duration::from_secs(3), 1, Look::Move(1), 4);
        let text = followed.text();
        assert!(
            text.starts_with("patterns were recognised 2 times (1 1, 2 1), and threads were moved 4 times"),
            "{text}"
        );
        assert!(!text.contains("never sure"), "{text}");
        let mut moved = Followed::new(By::Clusters);
        moved.add(Duration::from_secs(3), 1, Look::Move(1), 1);
        assert_eq!(moved.text(), "clusters were recognised 1 time (2 1), and 1 thread was moved");
        assert_eq!(moved.fields()["changes"][0]["number"], 1);
    }
}
