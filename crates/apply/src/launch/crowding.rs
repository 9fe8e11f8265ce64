//! Where fewer threads run than the plan has, two of them may be on one PU while another is idle: a plan for more
//! threads than PUs puts those on one that have most to do with one another. Such threads are let loose at once, and
//! mapped again once it has settled which of them run.

use super::plan::LaunchPlan;
use cohabit_host::affinity::CpuMask;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How threads are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// As the plan says.
    Planned,
    /// Wherever the system puts them.
    Loose,
    /// As those that run were mapped again.
    Remapped,
}

/// Which of the plan's threads run, and how they are spread.
#[derive(Debug)]
pub(crate) struct Crowding {
    can_happen: bool,
    allowed: CpuMask,
    spread: Spread,
    remapped: BTreeMap<usize, CpuMask>,
    /// Those that ran when it was last asked whether this has settled.
    last: Option<Vec<usize>>,
    peak: (Spread, usize),
}

impl Crowding {
    pub(crate) fn new(plan: &LaunchPlan, allowed: &CpuMask) -> Self {
        let at_first = plan.tasks.iter().map(|planned| &planned.pus).collect();
        let in_phases = plan.phases.values().map(|seats| seats.iter().map(|seat| &seat.pus).collect());
        // Where each can have a PU of its own, so can each of some of them.
        let crowds = |masks: Vec<&CpuMask>| busy(masks.into_iter()) < plan.tasks.len();
        let can_happen = !plan.may_crowd && std::iter::once(at_first).chain(in_phases).any(crowds);
        let peak = (Spread::Planned, 0);
        let spread = Spread::Planned;
        Self { can_happen, allowed: allowed.clone(), spread, remapped: BTreeMap::new(), last: None, peak }
    }

    /// Whether any of the plan's threads can be in each other's way.
    pub(crate) fn can_happen(&self) -> bool {
        self.can_happen
    }

    /// What a task is confined to now.
    pub(crate) fn mask<'a>(&'a self, plan: &'a LaunchPlan, task: usize) -> &'a CpuMask {
        match self.spread {
            Spread::Planned => &plan.tasks[task].pus,
            Spread::Loose => &self.allowed,
            Spread::Remapped => self.remapped.get(&task).unwrap_or(&self.allowed),
        }
    }

    /// These tasks run now; whether they are to be confined otherwise than before.
    pub(crate) fn changed(&mut self, plan: &LaunchPlan, tasks: &[usize]) -> bool {
        let before = self.spread;
        let as_planned = busy(tasks.iter().map(|&task| &plan.tasks[task].pus));
        let is_mapped =
            || tasks.len() == self.remapped.len() && tasks.iter().all(|task| self.remapped.contains_key(task));
        self.spread = match before {
            _ if as_planned >= tasks.len().min(self.allowed.pus().len()) => Spread::Planned,
            Spread::Remapped if is_mapped() => Spread::Remapped,
            _ => Spread::Loose,
        };
        if self.spread != before {
            self.last = None;
        }
        self.note_peak(tasks.len());
        self.spread != before
    }

    fn note_peak(&mut self, tasks: usize) {
        if tasks >= self.peak.1 {
            self.peak = (self.spread, tasks);
        }
    }

    /// Whether threads are let loose, so that those that run may be mapped again.
    pub(crate) fn is_loose(&self) -> bool {
        self.spread == Spread::Loose
    }

    /// The loose tasks that run now, once, where they were the same when this was last asked.
    pub(crate) fn settled(&mut self, now: Vec<usize>) -> Option<Vec<usize>> {
        let same = self.last.as_ref() == Some(&now);
        self.last = Some(if same { Vec::new() } else { now.clone() });
        (same && !now.is_empty()).then_some(now)
    }

    /// What all that run were mapped to again; whether that is any better than being loose.
    pub(crate) fn mapped_again(&mut self, masks: BTreeMap<usize, CpuMask>) -> bool {
        let is_good = self.spread == Spread::Loose
            && busy(masks.values()) >= masks.len().min(self.allowed.pus().len())
            && masks.values().flat_map(CpuMask::pus).all(|pu| self.allowed.contains(pu));
        if is_good {
            (self.spread, self.remapped) = (Spread::Remapped, masks);
            self.note_peak(self.remapped.len());
        }
        is_good
    }

    /// How threads were spread when most of them ran, and how many these were.
    pub(crate) fn at_its_peak(&self) -> (Spread, usize) {
        self.peak
    }
}

/// How many PUs can be busy at once with threads that are confined to these masks. The masks are parts of a tree: any
/// two are apart, or one is within the other, so that it is right to serve the smallest first.
fn busy<'a>(masks: impl Iterator<Item = &'a CpuMask>) -> usize {
    let mut counts: HashMap<&CpuMask, usize> = HashMap::new();
    masks.for_each(|mask| *counts.entry(mask).or_default() += 1);
    let mut counts: Vec<(Vec<u32>, usize)> = counts.into_iter().map(|(mask, count)| (mask.pus(), count)).collect();
    counts.sort_by_key(|(pus, _)| pus.len());
    let mut taken = HashSet::new();
    for (pus, count) in counts {
        let free: Vec<u32> = pus.into_iter().filter(|pu| !taken.contains(pu)).take(count).collect();
        taken.extend(free);
    }
    taken.len()
}

#[cfg(test)]
mod tests {
    use super::{Crowding, Spread, busy};
    use crate::launch::plan::{LaunchPlan, PlannedTask};
    use cohabit_host::affinity::CpuMask;
    use std::ops::Range;

    fn plan(rooms: &[Range<u32>]) -> LaunchPlan {
        let task = |(task, room): (u32, &Range<u32>)| PlannedTask {
            task,
            process: 0,
            spawn_index: task,
            parent: None,
            pu: room.start,
            pus: CpuMask::from_pus(room.clone()),
            name: String::new(),
        };
        LaunchPlan { tasks: (0..).zip(rooms).map(task).collect(), ..LaunchPlan::default() }
    }

    #[test]
    fn pus_that_can_be_busy_are_counted() {
        for (rooms, expected) in [
            (vec![0..1, 0..1, 1..2], 2),
            (vec![0..2, 0..1, 0..1], 2),
            (vec![0..4, 0..1, 1..2, 0..4], 4),
            (vec![0..2, 0..2, 0..2, 2..4], 3),
        ] {
            assert_eq!(busy(plan(&rooms).tasks.iter().map(|planned| &planned.pus)), expected, "{rooms:?}");
        }
    }

    #[test]
    fn threads_are_loose_while_a_pu_would_be_idle() {
        let allowed = CpuMask::from_pus(0..2);
        // Four threads on two PUs, the first two on one.
        let plan = plan(&[0..1, 0..1, 1..2, 1..2]);
        let mut crowding = Crowding::new(&plan, &allowed);
        assert!(crowding.can_happen());
        let mut spread = |tasks: &[usize]| {
            let changed = crowding.changed(&plan, tasks);
            (crowding.spread, changed)
        };
        assert_eq!(spread(&[0]), (Spread::Planned, false));
        assert_eq!(spread(&[0, 1]), (Spread::Loose, true));
        assert_eq!(spread(&[0, 1, 2]), (Spread::Planned, true), "both are busy");
        assert_eq!(spread(&[0, 1, 2, 3]), (Spread::Planned, false));
        assert_eq!(spread(&[2, 3]), (Spread::Loose, true));
        assert_eq!(crowding.at_its_peak(), (Spread::Planned, 4));
        assert_eq!(crowding.mask(&plan, 2), &allowed);
    }

    #[test]
    fn those_that_run_are_mapped_again_once_they_have_settled() {
        let (allowed, plan) = (CpuMask::from_pus(0..2), plan(&[0..1, 0..1, 1..2, 1..2]));
        let mut crowding = Crowding::new(&plan, &allowed);
        crowding.changed(&plan, &[0, 1]);
        assert_eq!(crowding.settled(vec![0, 1]), None);
        assert_eq!(crowding.settled(vec![0, 1]), Some(vec![0, 1]));
        assert_eq!(crowding.settled(vec![0, 1]), None, "once");
        let masks = |pus: [u32; 2]| [0, 1].into_iter().zip(pus.map(CpuMask::single)).collect();
        assert!(!crowding.mapped_again(masks([1, 1])), "that is no better");
        assert!(crowding.mapped_again(masks([1, 0])));
        assert_eq!((crowding.mask(&plan, 0), crowding.at_its_peak()), (&CpuMask::single(1), (Spread::Remapped, 2)));
        assert!(!crowding.changed(&plan, &[0, 1]) && crowding.changed(&plan, &[0, 1, 2]));
        assert_eq!(crowding.mask(&plan, 1), &CpuMask::single(0), "as planned");
    }

    #[test]
    fn threads_that_can_each_have_a_pu_are_never_in_the_way() {
        let allowed = CpuMask::from_pus(0..4);
        assert!(!Crowding::new(&plan(&[0..2, 0..2, 2..3]), &allowed).can_happen());
        let told_so = LaunchPlan { may_crowd: true, ..plan(&[0..1, 0..1]) };
        assert!(!Crowding::new(&told_so, &allowed).can_happen());
    }
}
