//! The slots that tasks may take: one a task, each on a PU, so that a mapping is a choice of different slots.
//!
//! Which PUs stay idle and how many tasks a crowded PU gets is settled here for every mapper. Slots are grouped in
//! units; a unit has a number of slots that may stay empty, its `spare`, and the others must be taken:
//! - tasks fit on the cores: a unit is a core with one slot; the fastest cores must be used, the slower ones idle
//!   first, also where nothing is known but which kind of core is the faster one;
//! - tasks fit on the PUs: a unit is a core with a slot a PU; every core gets a task before any core gets two;
//! - more tasks than PUs: a unit is a PU with its share of the tasks by its speed, rounded up; the rounding may stay
//!   empty, first on the slower kinds of cores.
//!
//! Where tasks may share cores a unit is a PU, or a core that has to have a task since slower ones have.

use crate::Problem;
use crate::usable::{Usable, preference, speed};
use cohabit_model::{Result, Topology};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The slots of a problem. There are at least as many as tasks.
#[derive(Debug, Clone)]
pub struct Slots {
    /// PU of each slot, ascending: slots follow the tree's order.
    pub pu: Vec<usize>,
    /// Unit of each slot, ascending.
    pub unit: Vec<usize>,
    /// How many slots of each unit may stay empty.
    pub spare: Vec<usize>,
    /// The slot each pinned task has.
    pub pinned: Vec<Option<usize>>,
}

/// The part of the slots that one unit has: slots a PU, in the order of PUs, and how many may stay empty.
struct Unit {
    slots: Vec<(usize, usize)>,
    spare: usize,
}

impl Slots {
    /// The slots of a problem.
    ///
    /// # Errors
    /// See [`Usable::new`].
    pub fn new(problem: &Problem) -> Result<Self> {
        let usable = Usable::new(problem)?;
        Ok(Self::of(&usable, problem))
    }

    /// As many slots on every PU as there are tasks: for searches that keep to a limit of load instead.
    ///
    /// # Errors
    /// See [`Usable::new`].
    pub fn unlimited(problem: &Problem) -> Result<Self> {
        let usable = Usable::new(problem)?;
        let tasks = usable.tasks();
        let unit = |&pu: &usize| Unit { slots: vec![(pu, tasks)], spare: tasks };
        Ok(Self::of_units(usable.pus.iter().map(unit).collect(), &usable))
    }

    /// The slots of the usable PUs.
    pub fn of(usable: &Usable, problem: &Problem) -> Self {
        let units = if usable.crowded() {
            crowded_units(usable, problem.topology)
        } else if problem.options.share_cores {
            sharing_units(usable, problem.topology)
        } else {
            core_units(usable, problem.topology)
        };
        Self::of_units(units, usable)
    }

    fn of_units(units: Vec<Unit>, usable: &Usable) -> Self {
        let mut slots = Self { pu: Vec::new(), unit: Vec::new(), spare: Vec::new(), pinned: Vec::new() };
        for unit in units {
            for (pu, count) in unit.slots {
                slots.pu.resize(slots.pu.len() + count, pu);
            }
            slots.unit.resize(slots.pu.len(), slots.spare.len());
            slots.spare.push(unit.spare);
        }
        slots.pinned = slots.place_pins(&usable.pin);
        slots
    }

    fn place_pins(&self, pins: &[Option<usize>]) -> Vec<Option<usize>> {
        let mut next = BTreeMap::new();
        let mut place = |pu: usize| {
            let slot = next.entry(pu).or_insert_with(|| self.pu.partition_point(|&other| other < pu));
            *slot += 1;
            *slot - 1
        };
        pins.iter().map(|pin| pin.map(&mut place)).collect()
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.pu.len()
    }

    /// Whether there is no slot: only where there is no task.
    pub fn is_empty(&self) -> bool {
        self.pu.is_empty()
    }

    /// The number of tasks.
    pub fn tasks(&self) -> usize {
        self.pinned.len()
    }

    /// Some of the slots. Those of pinned tasks have to be among them, and those that must be taken.
    pub fn keeping(&self, keep: &[bool]) -> Self {
        let mut slots = Self { pu: Vec::new(), unit: Vec::new(), spare: Vec::new(), pinned: Vec::new() };
        let mut unit_of = vec![None; self.spare.len()];
        let mut number = vec![0; self.len()];
        for slot in (0..self.len()).filter(|&slot| keep[slot]) {
            let unit = self.unit[slot];
            let own = *unit_of[unit].get_or_insert(slots.spare.len());
            if own == slots.spare.len() {
                slots.spare.push(self.spare[unit]);
            }
            number[slot] = slots.len();
            slots.pu.push(self.pu[slot]);
            slots.unit.push(own);
        }
        for slot in (0..self.len()).filter(|&slot| !keep[slot]) {
            unit_of[self.unit[slot]].into_iter().for_each(|own: usize| slots.spare[own] -= 1);
        }
        slots.pinned = self.pinned.iter().map(|pin| pin.map(|slot| number[slot])).collect();
        slots
    }

    /// The slots of a range of PUs.
    pub fn of_pus(&self, pus: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        self.pu.partition_point(|&pu| pu < pus.start)..self.pu.partition_point(|&pu| pu < pus.end)
    }

    /// The PUs of a choice of slots.
    pub fn pus_of(&self, slot_of: &[usize]) -> Vec<usize> {
        slot_of.iter().map(|&slot| self.pu[slot]).collect()
    }
}

/// One slot a PU: the fastest PUs that the tasks fit on, and where slower cores are among these, every faster core has
/// to have a task.
fn sharing_units(usable: &Usable, topology: &Topology) -> Vec<Unit> {
    let cores = usable.cores(topology);
    let is_open = |pu: &&usize| usable.pinned[**pu] == 0;
    let mut room: BTreeMap<Reverse<(u64, u32)>, usize> = BTreeMap::new();
    for core in &cores {
        *room.entry(Reverse(fastness(core, topology))).or_default() += core.iter().filter(is_open).count();
    }
    let mut left = usable.pin.iter().filter(|pin| pin.is_none()).count();
    // For each kind of cores whether tasks go there, and whether there are more than it has room for.
    let goes: BTreeMap<_, _> = room
        .into_iter()
        .map(|(kind, room)| {
            let goes = (left > 0, left > room);
            left = left.saturating_sub(room);
            (kind, goes)
        })
        .collect();
    let units = |core: Vec<usize>| {
        let pinned = |pu: usize| usable.pinned[pu];
        let (is_used, overflows) = goes[&Reverse(fastness(&core, topology))];
        if is_used && overflows && core.iter().all(|&pu| pinned(pu) == 0) {
            return vec![unit_of_core(core, usize::MAX, 1, &usable.pinned)];
        }
        let open = |pu: usize| usize::from(is_used && pinned(pu) == 0);
        core.into_iter().map(|pu| Unit { slots: vec![(pu, pinned(pu) + open(pu))], spare: open(pu) }).collect()
    };
    cores.into_iter().flat_map(units).collect()
}

/// By what a core is preferred.
fn fastness(core: &[usize], topology: &Topology) -> (u64, u32) {
    core.iter().map(|&pu| preference(topology, pu)).max().unwrap_or_default()
}

/// Cores first: no core gets a second task while another has none.
fn core_units(usable: &Usable, topology: &Topology) -> Vec<Unit> {
    let cores = usable.cores(topology);
    let is_pinned = |core: &[usize]| core.iter().any(|&pu| usable.pinned[pu] > 0);
    let to_place = usable.pin.iter().filter(|pin| pin.is_none()).count();
    let mut fastest: Vec<(u64, u32)> =
        cores.iter().filter(|core| !is_pinned(core)).map(|core| fastness(core, topology)).collect();
    fastest.sort_unstable_by_key(|&fastness| Reverse(fastness));
    let spread = to_place <= fastest.len();
    let slowest =
        if to_place == 0 { (u64::MAX, u32::MAX) } else { fastest.get(to_place - 1).copied().unwrap_or_default() };
    let unit = |core: Vec<usize>| {
        let pinned = is_pinned(&core);
        let open = match (spread, pinned) {
            (true, true) => 0,
            (true, false) => usize::from(fastness(&core, topology) >= slowest),
            (false, _) => core.len(),
        };
        let must = match (spread, pinned) {
            (_, true) => 0,
            (true, false) => usize::from(fastness(&core, topology) > slowest),
            (false, false) => 1,
        };
        unit_of_core(core, open, must, &usable.pinned)
    };
    cores.into_iter().map(unit).collect()
}

/// A core's unit: a slot for each pinned task, up to `open` others on PUs without one, `must` of which have to be
/// taken.
fn unit_of_core(core: Vec<usize>, open: usize, must: usize, pinned: &[usize]) -> Unit {
    let mut left = open;
    let mut slots = Vec::with_capacity(core.len());
    for pu in core {
        let own = usize::from(pinned[pu] == 0 && left > 0);
        left -= own;
        slots.push((pu, pinned[pu] + own));
    }
    Unit { spare: (open - left).saturating_sub(must), slots }
}

/// Every PU its share of the tasks, by speed. A PU with more pins than its share has just these.
fn crowded_units(usable: &Usable, topology: &Topology) -> Vec<Unit> {
    let speeds: Vec<f64> = usable.pus.iter().map(|&pu| speed(topology, pu)).collect();
    let pinned = |at: usize| usable.pinned[usable.pus[at]];
    let mut full = vec![false; speeds.len()];
    let (mut tasks, mut total) = (usable.tasks(), speeds.iter().sum::<f64>());
    loop {
        let quota = |at: usize| tasks as f64 * speeds[at] / total;
        let over: Vec<usize> = (0..full.len()).filter(|&at| !full[at] && pinned(at) as f64 > quota(at)).collect();
        if over.is_empty() {
            break;
        }
        for at in over {
            full[at] = true;
            tasks -= pinned(at);
            total -= speeds[at];
        }
    }
    // A quota of 3 that the floating point made 3.0000001 is 3.
    let share = |at: usize| match full[at] {
        true => (pinned(at), pinned(at)),
        false => {
            let quota = tasks as f64 * speeds[at] / total;
            ((quota + 1e-7).floor() as usize, (quota - 1e-7).ceil() as usize)
        }
    };
    let mut shares: Vec<(usize, usize)> = (0..speeds.len()).map(share).collect();
    round_by_rank(&mut shares, &speeds, usable, topology);
    let unit = |(at, (low, high)): (usize, (usize, usize))| {
        let high = high.max(pinned(at));
        Unit { slots: vec![(usable.pus[at], high)], spare: high - low.min(high) }
    };
    shares.into_iter().enumerate().map(unit).collect()
}

/// Where all PUs count as equally fast, the rounding goes to the higher ranks first: what is left over after every PU
/// has its share rounded down.
fn round_by_rank(shares: &mut [(usize, usize)], speeds: &[f64], usable: &Usable, topology: &Topology) {
    if speeds.iter().any(|&speed| speed != speeds[0]) {
        return;
    }
    let mut left = usable.tasks().saturating_sub(shares.iter().map(|share| share.0).sum());
    let mut by_rank: BTreeMap<Reverse<u32>, Vec<usize>> = BTreeMap::new();
    for at in (0..shares.len()).filter(|&at| shares[at].0 < shares[at].1) {
        by_rank.entry(Reverse(topology.pus[usable.pus[at]].core_kind)).or_default().push(at);
    }
    for members in by_rank.into_values() {
        for &at in &members {
            let (low, high) = shares[at];
            match left {
                0 => shares[at] = (low, low),
                _ if left >= members.len() => shares[at] = (high, high),
                _ => {}
            }
        }
        left = left.saturating_sub(members.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::testing::{problem, tree};
    use cohabit_model::Matrix;

    /// Slots a PU and how many of them must be taken in each unit.
    fn check(arities: &[usize], tasks: usize, options: &Options, expected: &[usize], must: &[usize]) {
        let (topology, weight) = (tree(arities, &[]), Matrix::zero(tasks));
        let slots = Slots::new(&problem(&weight, &topology, options)).unwrap();
        let count = |pu| slots.pu.iter().filter(|&&other| other == pu).count();
        assert_eq!((0..topology.pus.len()).map(count).collect::<Vec<_>>(), expected);
        let size = |unit| slots.unit.iter().filter(|&&other| other == unit).count();
        let taken: Vec<_> = (0..slots.spare.len()).map(|unit| size(unit) - slots.spare[unit]).collect();
        assert_eq!(taken, must);
    }

    #[test]
    fn no_core_is_shared_while_one_is_free() {
        let options = Options::default();
        check(&[2, 2, 2], 0, &options, &[0; 8], &[0; 4]);
        check(&[2, 2, 2], 3, &options, &[1, 0, 1, 0, 1, 0, 1, 0], &[0; 4]);
        check(&[2, 2, 2], 5, &options, &[1; 8], &[1; 4]);
        check(&[2, 2, 2], 3, &Options { share_cores: true, ..Options::default() }, &[1; 8], &[0; 8]);
    }

    #[test]
    fn a_crowd_is_shared_out_evenly() {
        check(&[2, 2], 9, &Options::default(), &[3; 4], &[2; 4]);
        check(&[2, 2], 8, &Options::default(), &[2; 4], &[2; 4]);
        check(&[2, 2], 9, &Options { forbidden: vec![1], ..Options::default() }, &[3, 0, 3, 3], &[3; 3]);
    }

    #[test]
    fn pins_keep_their_place() {
        let pins = |pins: &[(usize, usize)]| Options { pins: pins.to_vec(), ..Options::default() };
        check(&[2, 2], 2, &pins(&[(0, 1)]), &[0, 1, 1, 0], &[1, 0]);
        check(&[2, 2], 3, &pins(&[(0, 1)]), &[1, 1, 1, 1], &[1, 1]);
        check(&[2, 2], 2, &pins(&[(0, 1), (1, 1)]), &[0, 2, 0, 0], &[2, 0]);
        check(&[2, 2], 8, &pins(&[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]), &[5, 1, 1, 1], &[5, 1, 1, 1]);
    }

    #[test]
    fn slow_cores_stay_idle_first() {
        let mut topology = tree(&[4, 1], &[]);
        topology.pus[0].capacity = 0.5;
        topology.pus[2].capacity = 0.5;
        let weight = Matrix::zero(3);
        let options = Options::default();
        let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
        assert_eq!((&slots.pu[..], &slots.spare[..]), (&[0, 1, 2, 3][..], &[1, 0, 1, 0][..]));
        let weight = Matrix::zero(2);
        let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
        assert_eq!((&slots.pu[..], &slots.spare[..]), (&[1, 3][..], &[0, 1, 0, 1][..]));
        let weight = Matrix::zero(12);
        let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
        assert_eq!(slots.pu, [0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3]);
    }

    #[test]
    fn ranks_of_kinds_are_enough_to_know_the_slow_cores() {
        let mut topology = tree(&[4, 1], &[]);
        topology.pus[1].core_kind = 1;
        topology.pus[3].core_kind = 1;
        let options = Options::default();
        for (tasks, pus, spare) in [
            (2, &[1, 3][..], &[0, 1, 0, 1][..]),
            (3, &[0, 1, 2, 3], &[1, 0, 1, 0]),
            (5, &[0, 1, 1, 2, 3, 3], &[0, 1, 0, 1]),
            (6, &[0, 1, 1, 2, 3, 3], &[0, 0, 0, 0]),
            (7, &[0, 0, 1, 1, 2, 2, 3, 3], &[1, 0, 1, 0]),
        ] {
            let weight = Matrix::zero(tasks);
            let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
            assert_eq!((&slots.pu[..], &slots.spare[..]), (pus, spare), "{tasks} tasks");
        }
    }

    #[test]
    fn shared_cores_are_the_fast_ones_first() {
        let mut topology = tree(&[4, 2], &[]);
        topology.pus[2..6].iter_mut().for_each(|pu| pu.core_kind = 1);
        let options = Options { share_cores: true, ..Options::default() };
        for (tasks, pus, spare) in [
            (1, &[2, 3, 4, 5][..], &[0, 0, 1, 1, 1, 1, 0, 0][..]),
            (4, &[2, 3, 4, 5], &[0, 0, 1, 1, 1, 1, 0, 0]),
            // Both fast cores have to have one.
            (5, &[0, 1, 2, 3, 4, 5, 6, 7], &[1, 1, 1, 1, 1, 1]),
        ] {
            let weight = Matrix::zero(tasks);
            let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
            assert_eq!((&slots.pu[..], &slots.spare[..]), (pus, spare), "{tasks} tasks");
        }
    }

    #[test]
    fn what_is_kept_of_slots_is_numbered_again() {
        let (topology, weight) = (tree(&[4, 2], &[]), Matrix::zero(5));
        let options = Options { pins: vec![(1, 4)], ..Options::default() };
        let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
        assert_eq!((&slots.unit[..], &slots.spare[..]), (&[0, 0, 1, 1, 2, 2, 3, 3][..], &[1, 1, 1, 1][..]));
        let kept = slots.keeping(&[true, false, false, false, true, true, true, true]);
        assert_eq!(
            (&kept.pu[..], &kept.unit[..], &kept.spare[..]),
            (&[0, 4, 5, 6, 7][..], &[0, 1, 1, 2, 2][..], &[0, 1, 1][..])
        );
        assert_eq!(kept.pinned[1], Some(1));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let topology = tree(&[2], &[]);
        let cases = [
            (Options { forbidden: vec![0, 1], ..Options::default() }, "no PU is left"),
            (Options { forbidden: vec![2], ..Options::default() }, "no PU of index 2"),
            (Options { forbidden: vec![1], pins: vec![(0, 1)], ..Options::default() }, "may not be used"),
            (Options { pins: vec![(0, 7)], ..Options::default() }, "no PU of index 7"),
            (Options { pins: vec![(1, 0)], ..Options::default() }, "of 1 task"),
            (Options { pins: vec![(0, 0), (0, 1)], ..Options::default() }, "PU 0 and to PU 1"),
        ];
        for (options, expected) in cases {
            let error = Slots::new(&problem(&Matrix::zero(1), &topology, &options)).unwrap_err();
            assert!(error.cause.contains(expected) && error.remedy.is_some(), "{expected}: {}", error.cause);
        }
        let (weight, options) = (Matrix::zero(1), Options::default());
        let loads = Problem { load: &[1, 2], ..problem(&weight, &topology, &options) };
        assert!(Slots::new(&loads).unwrap_err().cause.contains("2 loads for 1 task"));
    }
}
