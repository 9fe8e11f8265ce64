//! What was seen of who communicates with whom, by whatever: one event type, and one table of the kinds that there are.

use std::time::Duration;

/// What an event is evidence by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A hint fault or a first touch of memory that another task has used.
    Used,
    /// A write to a protected page that another task has written to.
    Written,
    /// A stop at a watchpoint.
    Watched,
    /// Samples that lie near one another in memory.
    Sampled,
    /// Bytes that one copied from or to the other's process, or sent to it.
    Passed,
    /// Samples of the last moments, which show a change sooner and less exactly: counted as no event.
    Met,
}

/// A kind, for people and for what counts.
#[derive(Debug)]
pub struct Row {
    /// Which.
    pub kind: Kind,
    /// Its name in documents.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// How many of its counts are an event; none where it is no event.
    pub of_an_event: Option<u64>,
    /// The kind that it is another side of, and counts or does not count with.
    pub of: Option<Kind>,
    /// Whether whoever it names has used the very same bytes: then it is off by chance alone. The others are held
    /// against it.
    pub is_exact: bool,
}

/// Bytes that are an event: between what they cost, some 40 us where they come from far away, and what the others stand
/// for, an event of faults 10 us and one of samples 400.
pub const EVENT_BYTES: u64 = 1 << 20;

/// All kinds, in the order in which they have their numbers.
pub const KINDS: [Row; 6] = [
    Row {
        kind: Kind::Used,
        name: "used",
        about: "hint faults and first touches: who uses memory after whom",
        of_an_event: Some(1),
        of: None,
        is_exact: false,
    },
    Row {
        kind: Kind::Written,
        name: "written",
        about: "write protection: who writes after whom",
        of_an_event: Some(1),
        of: None,
        is_exact: false,
    },
    Row {
        kind: Kind::Watched,
        name: "watched",
        about: "watchpoints: who uses the same eight bytes",
        of_an_event: Some(1),
        of: None,
        is_exact: true,
    },
    Row {
        kind: Kind::Sampled,
        name: "sampled",
        about: "samples: who is seen near whom in memory",
        of_an_event: Some(1),
        of: None,
        is_exact: false,
    },
    Row {
        kind: Kind::Passed,
        name: "passed",
        about: "copies between processes and messages of ranks, in bytes",
        of_an_event: Some(EVENT_BYTES),
        of: None,
        is_exact: true,
    },
    Row {
        kind: Kind::Met,
        name: "met",
        about: "samples of the last moments, which tell a change",
        of_an_event: None,
        of: Some(Kind::Sampled),
        is_exact: false,
    },
];

impl Kind {
    /// Its row.
    pub fn row(self) -> &'static Row {
        &KINDS[self as usize]
    }

    /// Whether it is of page faults.
    pub fn is_of_faults(self) -> bool {
        matches!(self, Self::Used | Self::Written)
    }
}

/// Something that was seen of two tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evidence {
    /// By what.
    pub kind: Kind,
    /// Who, the smaller number first.
    pub pair: (u32, u32),
    /// How much of it.
    pub count: u64,
    /// When it was read, since following began: it was seen between the reading before and this one.
    pub time: Duration,
}

impl Evidence {
    /// Of two tasks, in either order.
    pub fn of(kind: Kind, (a, b): (u32, u32), count: u64, time: Duration) -> Self {
        Self { kind, pair: (a.min(b), a.max(b)), count, time }
    }

    /// Whole events that it comes to.
    pub fn events(&self) -> u64 {
        self.kind.row().of_an_event.map_or(0, |of_one| self.count / of_one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_kinds() {
        for (number, row) in KINDS.iter().enumerate() {
            assert!(row.kind as usize == number && row.kind.row().name == row.name && !row.about.is_empty());
        }
    }

    #[test]
    fn a_pair_is_the_same_both_ways_and_what_met_is_no_event() {
        let of = |kind, count| Evidence::of(kind, (7, 3), count, Duration::ZERO);
        assert_eq!(of(Kind::Used, 2).pair, (3, 7));
        let events = [of(Kind::Watched, 2), of(Kind::Passed, 5 << 19), of(Kind::Met, 9)].map(|seen| seen.events());
        assert_eq!(events, [2, 2, 0]);
    }
}
