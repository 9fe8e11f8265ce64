//! From where in the code ranks called MPI, and when (`native/mpi/visits.c`): places of all ranks as one list, and their
//! visits in the time of the series.

use super::part::Rank;
use super::worlds::Worlds;
use cohabit_model::calls::{CallPlace, Visit};
use std::collections::BTreeMap;

/// All places that ranks called from, ascending, and the visits, sorted.
pub fn of(ranks: &[Rank], worlds: &Worlds) -> (Vec<CallPlace>, Vec<Visit>) {
    let mut numbers: BTreeMap<&CallPlace, u32> = BTreeMap::new();
    ranks.iter().flat_map(|rank| &rank.call_places).for_each(|place| {
        numbers.insert(place, 0);
    });
    (0..).zip(numbers.values_mut()).for_each(|(number, of)| *of = number);
    let mut visits = Vec::new();
    for (at, rank) in ranks.iter().enumerate() {
        let task = worlds.task(ranks, at);
        visits.extend(rank.visits.iter().map(|visit| Visit {
            task,
            place: numbers[&rank.call_places[visit.site as usize]],
            begin_ns: since_start(rank, visit.begin_ticks),
            end_ns: since_start(rank, visit.end_ticks.max(visit.begin_ticks)),
            calls: visit.calls.into(),
        }));
    }
    visits.sort_unstable();
    (numbers.into_keys().cloned().collect(), visits)
}

/// The time of a clock tick, as bins of the series count it.
fn since_start(rank: &Rank, ticks: u64) -> u64 {
    let began = rank.head.init_ns.saturating_sub(rank.head.zero_ns);
    match ticks.checked_sub(rank.head.init_ticks) {
        Some(after) => began.saturating_add(rank.ns(after)),
        None => began.saturating_sub(rank.ns(rank.head.init_ticks - ticks)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::abi::cohabit_mpi_visit_t;
    use super::super::many_tests::part_of;
    use super::super::part;
    use super::*;

    /// Ranks need not have seen places in the same order, and clocks of hosts begin anywhere.
    #[test]
    fn places_of_all_ranks_are_one_list_and_times_those_of_the_series() {
        let place = |module: &str, offset| CallPlace { module: module.into(), offset };
        let rank = |number: u32, places: &[CallPlace], visits: &[(u32, u64, u64)]| {
            let mut rank = part::read(&part_of(number, &[])).unwrap().unwrap();
            (rank.head.zero_ns, rank.head.init_ns) = (1_000, 1_500);
            (rank.head.init_ticks, rank.head.ticks_per_second) = (7_000, 500_000_000);
            rank.call_places = places.to_vec();
            let visit = |&(site, begin_ticks, end_ticks): &(u32, u64, u64)| cohabit_mpi_visit_t {
                begin_ticks,
                end_ticks,
                site,
                calls: 3,
            };
            rank.visits = visits.iter().map(visit).collect();
            rank
        };
        let [a, b, c] = [place("lib", 9), place("solver", 1), place("solver", 2)];
        let ranks = [
            rank(0, &[c.clone(), a.clone()], &[(0, 7_000, 7_100), (1, 6_900, 7_050)]),
            rank(1, &[b.clone(), a.clone()], &[(0, 7_010, 7_010)]),
        ];
        let (places, visits) = of(&ranks, &Worlds::of(&ranks));
        assert_eq!(places, [a, b, c]);
        let found: Vec<_> = visits.iter().map(|v| (v.task, v.place, v.begin_ns, v.end_ns, v.calls)).collect();
        assert_eq!(found, [(0, 0, 300, 600, 3), (0, 2, 500, 700, 3), (1, 1, 520, 520, 3)]);
    }
}
