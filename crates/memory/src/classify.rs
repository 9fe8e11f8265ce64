//! Why lines were not in the caches where they were looked for: compulsory, capacity, conflict and coherence misses.
//!
//! The first three are Hill's ("Aspects of Cache Memory and Instruction Buffer Performance", 1987): a cache misses the
//! first access to a line whatever its size; what a fully associative LRU cache of the same size would have had is a
//! conflict; the rest is capacity. The fourth is a line that was lost to a write of others. Beside each cache there is
//! a fully associative one to which the same happens: the same lines are used, put in, given away and taken away by
//! writes. What an inclusive cache further out takes from those below it is not taken away here: it is room that was
//! lacking for no reason of theirs, a conflict.
//!
//! Beside these, the three kinds of the TLB paper (III-A-1), which knows no fourth: [`ByCopies`].

use crate::hash::Numbers;
use crate::machine::{Contents, Machine};
use crate::report::{ByCopies, LevelMisses, Served};
use crate::shadow::{LineSet, Shadow};

/// The kinds of the classical four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Compulsory,
    Capacity,
    Conflict,
    Coherence,
}

#[derive(Debug)]
pub(crate) struct Classifier<'a> {
    machine: &'a Machine,
    /// `[level][cache]`.
    shadows: Vec<Vec<Shadow>>,
    /// Lines that were ever looked for, `[level][cache]`.
    known: Vec<Vec<LineSet>>,
    /// By core: lines that its own caches lost to writes of others, and the lowest level that did.
    lost: Vec<Numbers<usize>>,
    /// By domain: lines that it lost so.
    lost_last: Vec<LineSet>,
    /// The core that wrote a line when no other has looked for it since.
    writers: Numbers<usize>,
    /// Of the access under way, by level: why it is not there, and whether another cache of the level has it.
    found: Vec<(Kind, bool)>,
}

impl<'a> Classifier<'a> {
    pub fn new(machine: &'a Machine) -> Self {
        let of_level = |level: &crate::machine::Level| {
            let lines = level.sets as usize * level.ways;
            vec![Shadow::new(lines); level.caches]
        };
        Self {
            machine,
            shadows: machine.levels.iter().map(of_level).collect(),
            known: machine.levels.iter().map(|level| vec![LineSet::default(); level.caches]).collect(),
            lost: vec![Numbers::default(); machine.cores],
            lost_last: vec![LineSet::default(); machine.domains()],
            writers: Numbers::default(),
            found: Vec::new(),
        }
    }

    /// The line is used in a cache, or comes into it.
    pub fn touch(&mut self, level: usize, cache: usize, line: u64) {
        self.shadows[level][cache].touch(line);
    }

    /// A cache gives the line to another, and does not keep it.
    pub fn give(&mut self, level: usize, cache: usize, line: u64) {
        self.shadows[level][cache].remove(line);
    }

    /// A core's cache of a level lost the line to a write of others.
    pub fn lose(&mut self, level: usize, core: usize, line: u64) {
        let lowest = self.lost[core].entry(line).or_insert(level);
        *lowest = level.min(*lowest);
    }

    /// A domain did.
    pub fn lose_last(&mut self, domain: usize, line: u64) {
        self.lost_last[domain].insert(line);
    }

    /// A core writes a line: no other cache has it any more.
    pub fn write(&mut self, core: usize, line: u64) {
        if self.writers.insert(line, core) == Some(core) {
            return;
        }
        let (own, last) = (self.machine.domain(core), self.machine.levels.len() - 1);
        for level in 0..self.machine.private_levels {
            for other in (0..self.machine.cores).filter(|&other| other != core) {
                if self.shadows[level][other].remove(line) {
                    self.lose(level, other, line);
                }
            }
        }
        if last >= self.machine.private_levels {
            for other in (0..self.machine.domains()).filter(|&other| other != own) {
                if self.shadows[last][other].remove(line) {
                    self.lose_last(other, line);
                }
            }
        }
    }

    /// A core looks for a line in its caches up to `levels` of them, which do not have it; `copied` says whether
    /// another cache of a level has it. Before anything else happens.
    pub fn look_up(&mut self, core: usize, line: u64, levels: usize, copied: impl Fn(usize) -> bool) {
        if self.writers.get(&line).is_some_and(|&writer| writer != core) {
            self.writers.remove(&line);
        }
        self.found.clear();
        let lowest = self.lost[core].remove(&line);
        for level in 0..levels {
            let own = level < self.machine.private_levels;
            let cache = if own { core } else { self.machine.domain(core) };
            let lost = match own {
                true => lowest.is_some_and(|lowest| lowest <= level),
                false => self.lost_last[cache].remove(line),
            };
            let known = self.known[level][cache].insert(line);
            let shadow = &mut self.shadows[level][cache];
            let kind = match (lost, known) {
                (true, _) => Kind::Coherence,
                (false, false) => Kind::Compulsory,
                (false, true) if shadow.has(line) => Kind::Conflict,
                (false, true) => Kind::Capacity,
            };
            if self.machine.levels[level].contents == Contents::Exclusive {
                shadow.remove(line);
            }
            self.found.push((kind, copied(level)));
        }
    }

    /// Counts the misses of the access under way, now that it is known where it was served.
    pub fn count(&self, misses: &mut Vec<LevelMisses>, served: Served) {
        if misses.is_empty() {
            misses.extend(self.machine.levels.iter().map(|level| LevelMisses::new(level.number)));
        }
        let missed = match served {
            Served::L1 | Served::FillBuffer => 0,
            Served::L2 => 1,
            Served::L3 => 2,
            Served::L4 => 3,
            Served::NearCache => self.machine.private_levels,
            Served::FarCache | Served::LocalMemory | Served::RemoteMemory => self.machine.levels.len(),
        };
        for (misses, &(kind, copied)) in misses.iter_mut().zip(&self.found).take(missed) {
            *match kind {
                Kind::Compulsory => &mut misses.compulsory,
                Kind::Capacity => &mut misses.capacity,
                Kind::Conflict => &mut misses.conflict,
                Kind::Coherence => &mut misses.coherence,
            } += 1;
            misses.by_copies.count(kind == Kind::Coherence, copied);
        }
    }

    /// The memory of the line is new, or elsewhere: no cache has it. `new`: nor has anybody ever looked for it.
    pub fn forget(&mut self, line: u64, new: bool) {
        self.shadows.iter_mut().flatten().for_each(|shadow| {
            shadow.remove(line);
        });
        if new {
            self.known.iter_mut().flatten().chain(&mut self.lost_last).for_each(|set| {
                set.remove(line);
            });
            self.lost.iter_mut().for_each(|lost| {
                lost.remove(&line);
            });
            self.writers.remove(&line);
        }
    }
}

impl ByCopies {
    /// Counts a miss.
    pub(crate) fn count(&mut self, invalidated: bool, copied: bool) {
        *match (invalidated, copied) {
            (true, _) => &mut self.invalidation,
            (false, true) => &mut self.replication,
            (false, false) => &mut self.capacity,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Options, Report, simulate};
    use cohabit_access::{AccessKind, InMemory, Step, StridedAccess, synthetic};

    /// An L1 of four sets of one line; an L2 for both cores of 16 lines, any line anywhere.
    const MACHINE: &str = "about = 'two'\ntopology = 'core:2 pu:1'\n[core]\nfrequency_ghz = 1\ninstructions_per_cycle = 1\n\
        window = 0\nfill_buffers = 2\n[[cache]]\nlevel = 1\nshared_by = 'core'\nsize = 256\nways = 1\nlatency_cycles = 1\n\
        [[cache]]\nlevel = 2\nshared_by = 'machine'\nsize = 1024\nways = 16\nlatency_cycles = 10\n\
        [transfer_ns]\nmachine = 50\n[memory]\nlatency_ns = { machine = 100 }\n\
        [tlb]\npage = 512\ndata = { entries = 2, ways = 2 }\nwalk_cycles = 5\n";

    fn touch(line: u64, kind: AccessKind) -> Step {
        Step::access(StridedAccess::new(kind, line * 64, 8))
    }

    fn reads(lines: &[u64]) -> Vec<Step> {
        lines.iter().map(|&line| touch(line, AccessKind::Read)).collect()
    }

    fn run(text: &str, steps: Vec<Vec<Step>>) -> Report {
        let machine = Machine::parse(text, None).unwrap();
        let mapping: Vec<usize> = (0..steps.len()).collect();
        let options = Options { classify: true, ..Options::default() };
        simulate(&InMemory::new(steps), &machine, &mapping, &options).unwrap()
    }

    /// Compulsory, capacity, conflict, coherence.
    fn kinds(report: &Report, task: usize, level: usize) -> [u64; 4] {
        let misses = report.tasks[task].misses[level];
        [misses.compulsory, misses.capacity, misses.conflict, misses.coherence]
    }

    /// Invalidation, capacity, replication.
    fn copies(by: ByCopies) -> [u64; 3] {
        [by.invalidation, by.capacity, by.replication]
    }

    #[test]
    fn kinds_by_hand() {
        for (lines, l1, l2) in [
            // Lines 0 and 4 are of one set.
            (&[0, 4, 0, 4][..], [2, 0, 2, 0], [2, 0, 0, 0]),
            (&[0, 1, 2, 3, 0, 1, 2, 3], [4, 0, 0, 0], [4, 0, 0, 0]),
            // Five lines in turns: four of any sets would have none of those that are missed either.
            (&[0, 1, 2, 3, 4, 0, 1, 2, 3, 4], [5, 2, 0, 0], [5, 0, 0, 0]),
            // Line 8 pushes 0 out, and so would five others.
            (&[0, 8, 1, 2, 3, 5, 0], [6, 1, 0, 0], [6, 0, 0, 0]),
        ] {
            let report = run(MACHINE, vec![reads(lines)]);
            assert_eq!((kinds(&report, 0, 0), kinds(&report, 0, 1)), (l1, l2), "{lines:?}");
        }
    }

    #[test]
    fn what_others_write_is_lost_by_hand() {
        let write_late = vec![Step::compute(1000), touch(0, AccessKind::Write)];
        let mut reader = reads(&[0]);
        reader.push(Step::compute(2000));
        reader.extend(reads(&[0]));
        let report = run(MACHINE, vec![reader.clone(), write_late.clone()]);
        assert_eq!((kinds(&report, 0, 0), kinds(&report, 1, 0)), ([1, 0, 0, 1], [1, 0, 0, 0]));
        // The last cache knows of both: the first access missed it.
        assert_eq!((kinds(&report, 0, 1), kinds(&report, 1, 1)), ([1, 0, 0, 0], [0; 4]));
        // The writer misses what the reader has: from then on there would be two of it.
        let by = |task: usize| copies(report.tasks[task].misses[0].by_copies);
        assert_eq!((by(0), by(1)), ([1, 1, 0], [0, 0, 1]));
        // Pushed out by its set before the write: without that a conflict, with it a line that the other took.
        let mut pushed = reads(&[0, 4]);
        pushed.push(Step::compute(2000));
        pushed.extend(reads(&[0]));
        assert_eq!(kinds(&run(MACHINE, vec![pushed.clone()]), 0, 0), [2, 0, 1, 0]);
        assert_eq!(kinds(&run(MACHINE, vec![pushed, write_late]), 0, 0), [2, 0, 0, 1]);
    }

    /// Pages of 512 bytes are 8 lines.
    #[test]
    fn pages_by_hand() {
        let mut first = reads(&[0, 8, 16, 0]);
        first.extend([Step::Unmap { range: 0..512 }]);
        first.extend(reads(&[0]));
        // Three pages, then one that had to make room; then one that was given back while it was there.
        let report = run(MACHINE, vec![first, vec![]]);
        assert_eq!(copies(report.tasks[0].data_tlb), [1, 4, 0]);
        assert_eq!(report.tasks[0].data_tlb_misses, 5);
        // The other core finds what the first one's TLB still has, and what it has not.
        let mut late = vec![Step::compute(5000)];
        late.extend(reads(&[8, 0]));
        let report = run(MACHINE, vec![reads(&[0, 16, 8]), late]);
        assert_eq!(copies(report.tasks[1].data_tlb), [0, 1, 1]);
    }

    /// Where any line may be anywhere and the oldest makes room there are no conflicts.
    #[test]
    fn fully_associative_caches_have_no_conflicts() {
        let text = MACHINE.replace("size = 256\nways = 1", "size = 256\nways = 4");
        let machine = Machine::parse(&text, None).unwrap();
        let options = Options { classify: true, ..Options::default() };
        for kind in ["ring:2:4:2", "all:2:1:3", "alone:2:8:2"] {
            let recording = synthetic::parse(kind).unwrap();
            let report = simulate(&recording, &machine, &[0, 1], &options).unwrap();
            assert_eq!(report.total.misses.iter().map(|misses| misses.conflict).sum::<u64>(), 0, "{kind}");
            assert!(report.total.misses.iter().all(|misses| misses.total() == report.misses(misses.level)), "{kind}");
            let direct = simulate(&recording, &Machine::parse(MACHINE, None).unwrap(), &[0, 1], &options).unwrap();
            assert!(direct.total.misses[0].total() >= report.total.misses[0].compulsory, "{kind}");
        }
    }
}
