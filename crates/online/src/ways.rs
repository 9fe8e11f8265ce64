//! The ways of looking at a live program, besides the page faults that it has anyway: one table, by which they are asked
//! for, explained, tried and documented.

use crate::evidence::Kind;

/// A way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// NUMA balancing's hint faults (`settings`).
    Hint,
    /// The agent's write protection (`faults::Agent`).
    Agent,
    /// A timer's samples of registers (`sampling`).
    Sample,
    /// A PMU's samples of accesses (`faults::pmu`).
    Pmu,
    /// Watchpoints (`watch`).
    Watch,
    /// Messages of MPI ranks.
    Messages,
}

/// A way, for people.
#[derive(Debug)]
pub struct Row {
    /// Which.
    pub way: Way,
    /// Its name, by which it is asked for.
    pub name: &'static str,
    /// What it is, and what it shows.
    pub about: &'static str,
    /// What it takes.
    pub needs: &'static str,
    /// What it gives evidence of.
    pub gives: &'static [Kind],
}

/// All ways, in the order in which they have their numbers.
pub const WAYS: [Row; 6] = [
    Row {
        way: Way::Hint,
        name: "hint",
        about: "NUMA balancing's hint faults, on one node too: reads and writes, of processes with several threads",
        needs: "root",
        gives: &[Kind::Used],
    },
    Row {
        way: Way::Agent,
        name: "agent",
        about: "write protection by a preloaded agent: writes",
        needs: "run only, Linux 6.7, a dynamically linked program",
        gives: &[Kind::Written],
    },
    Row {
        way: Way::Sample,
        name: "sample",
        about: "what tasks are about to read or write whenever a timer interrupts them; no extra faults",
        needs: "x86-64; eBPF, or perf events, which are run only where ptrace_scope is 1",
        gives: &[Kind::Sampled, Kind::Met],
    },
    Row {
        way: Way::Pmu,
        name: "pmu",
        about: "reads and writes that the processor samples (PEBS, IBS), and which got what another core wrote; no extra faults",
        needs: "perf events; a PMU with such samples",
        gives: &[Kind::Sampled, Kind::Met],
    },
    Row {
        way: Way::Watch,
        name: "watch",
        about: "watchpoints in the processor's debug registers: who reads and writes the same places; no extra faults",
        needs: "perf events; x86",
        gives: &[Kind::Watched],
    },
    Row {
        way: Way::Messages,
        name: "messages",
        about: "messages of MPI ranks on a host, counted by a library in them; no extra faults",
        needs: "run only, before or below mpirun, mpiexec or srun, or before a script that calls them",
        gives: &[Kind::Passed],
    },
];

impl Way {
    /// Its row.
    pub fn row(self) -> &'static Row {
        &WAYS[self as usize]
    }
}

/// Which ways are to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those that work here, as far as they are needed.
    Auto,
    /// One.
    Only(Way),
    /// None: the program's own faults are all there is.
    Nothing,
}

/// The names of those that are no way.
const AUTO: &str = "auto";
const NOTHING: &str = "none";

impl Wanted {
    /// What can be asked for: by its name, and what that is.
    pub fn all() -> impl Iterator<Item = (&'static str, String)> {
        let ways = WAYS.iter().map(|row| (row.name, format!("{} ({})", row.about, row.needs)));
        let auto = (AUTO, "all that work here, as far as they are needed".to_owned());
        [auto].into_iter().chain(ways).chain([(NOTHING, "the program's own faults only".to_owned())])
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            AUTO => Some(Self::Auto),
            NOTHING => Some(Self::Nothing),
            _ => WAYS.iter().find(|row| row.name == name).map(|row| Self::Only(row.way)),
        }
    }

    /// Whether a way is to be taken where it works.
    pub fn has(self, way: Way) -> bool {
        self == Self::Auto || self == Self::Only(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::KINDS;

    #[test]
    fn the_table_is_in_the_order_of_the_ways_and_gives_all_kinds() {
        for (number, row) in WAYS.iter().enumerate() {
            assert!(row.way as usize == number && row.way.row().name == row.name && !row.gives.is_empty());
        }
        assert!(KINDS.iter().all(|kind| WAYS.iter().any(|row| row.gives.contains(&kind.kind))));
    }

    #[test]
    fn what_can_be_asked_for_is_found_by_its_name() {
        for (name, about) in Wanted::all() {
            let wanted = Wanted::named(name).unwrap();
            let has = WAYS.iter().filter(|row| wanted.has(row.way)).count();
            assert!(
                !about.is_empty()
                    && has
                        == [0, 1, WAYS.len()]
                            [usize::from(wanted != Wanted::Nothing) + usize::from(wanted == Wanted::Auto)]
            );
        }
        assert_eq!((Wanted::named("watch"), Wanted::named("Watch")), (Some(Wanted::Only(Way::Watch)), None));
        assert_eq!(Wanted::all().count(), WAYS.len() + 2);
    }

    /// docs/online.md has a line of each.
    #[test]
    fn the_documentation_has_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/online.md");
        let text = std::fs::read_to_string(path).unwrap();
        for row in WAYS {
            let line = format!("| `{}` | {} | {} |", row.name, row.about, row.needs);
            assert!(text.lines().any(|found| found == line), "docs/online.md has no line\n{line}");
        }
    }
}
