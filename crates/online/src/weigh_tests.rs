use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn seen(kind: Kind, pair: Pair, count: u64) -> Evidence {
    Evidence::of(kind, pair, count, Duration::ZERO)
}

/// How many events of a kind, and what part of them each pair has.
type OfKind<'a> = (Kind, u64, &'a [(Pair, f64)]);

/// Independent events of pairs that have these parts, so many a reading, fed for so many readings of a tenth of a
/// second.
fn fed(weigher: &mut Weigher, readings: u32, kinds: &[OfKind]) {
    let mut random = fastrand::Rng::with_seed(7);
    for reading in 0..readings {
        let mut all = Vec::new();
        for &(kind, events, parts) in kinds {
            for _ in 0..events {
                let mut at = random.f64();
                let pair = parts.iter().find(|(_, part)| {
                    at -= part;
                    at < 0.0
                });
                all.push(seen(kind, pair.unwrap_or(&parts[0]).0, 1));
            }
        }
        weigher.weigh(SECOND / 10 * reading, &all);
    }
}

const RING: [(Pair, f64); 4] = [((0, 1), 0.25), ((1, 2), 0.25), ((2, 3), 0.25), ((0, 3), 0.25)];
const WRONG: [(Pair, f64); 4] = [((0, 1), 0.7), ((1, 2), 0.1), ((2, 3), 0.1), ((0, 2), 0.1)];

#[test]
fn independent_events_count_in_full() {
    let mut weigher = Weigher::default();
    fed(&mut weigher, 60, &[(Kind::Sampled, 10, &RING), (Kind::Watched, 5, &RING), (Kind::Used, 8, &RING)]);
    for kind in [Kind::Sampled, Kind::Watched, Kind::Used] {
        assert!(weigher.weights().of(kind) > 0.6, "{kind:?} {:?}", weigher.weights());
    }
}

#[test]
fn what_is_off_comes_to_no_more_however_much_there_is() {
    let worth = |events: u64| {
        let mut weigher = Weigher::default();
        fed(&mut weigher, 100, &[(Kind::Watched, 5, &RING), (Kind::Used, events, &WRONG)]);
        events as f64 * weigher.weights().of(Kind::Used)
    };
    let (few, many) = (worth(10), worth(1000));
    assert!(few < 0.2 && many < 2.0 * few, "{few} {many}");
    // Beside as little that is exact as says nothing, they count.
    let mut weigher = Weigher::default();
    fed(&mut weigher, 1, &[(Kind::Watched, 2, &RING), (Kind::Used, 8, &RING)]);
    assert_eq!(weigher.weights().of(Kind::Used), 1.0);
}

#[test]
fn bursts_count_as_few() {
    let mut weigher = Weigher::default();
    for reading in 0..60u32 {
        let (pair, _) = RING[reading as usize * 7 % 4];
        weigher.weigh(SECOND / 10 * reading, &[seen(Kind::Used, pair, 256)]);
    }
    let weight = weigher.weights().of(Kind::Used);
    assert!((1.0 / 300.0..1.0 / 200.0).contains(&weight), "{weight}");
}

#[test]
fn a_mebibyte_is_an_event_and_none_is_lost() {
    let mut weigher = Weigher::default();
    let mut weighed = |bytes| weigher.weigh(SECOND, &[seen(Kind::Passed, (0, 1), bytes)]);
    assert_eq!([3 << 20, 700 << 10, 700 << 10].map(&mut weighed), [vec![(0, 1, 3)], vec![], vec![(0, 1, 1)]]);
    assert_eq!(weighed(0), []);
    assert_eq!(weigher.weigh(SECOND, &[seen(Kind::Met, (0, 1), 50)]), []);
    let joined =
        Weights::default().join([seen(Kind::Passed, (0, 1), 3 << 20), seen(Kind::Used, (0, 1), 2)].into_iter());
    assert_eq!(joined, BTreeMap::from([((0, 1), 5)]));
}

#[test]
fn tasks_that_are_gone_are_forgotten() {
    let mut weigher = Weigher::default();
    fed(&mut weigher, 10, &[(Kind::Used, 10, &RING)]);
    weigher.retain(|task| task != 3);
    let tally = &weigher.kinds[Kind::Used as usize];
    assert!(tally.pairs.keys().all(|pair| pair.1 != 3) && tally.pairs.len() == 2);
    assert!((tally.events - tally.pairs.values().map(|pair| pair.events).sum::<f64>()).abs() < 1e-9);
    weigher.forget();
    assert_eq!(weigher.weights(), Weights::default());
    weigher.retain(|_| false);
    assert_eq!(weigher.weigh(SECOND, &[seen(Kind::Used, (0, 1), 2)]), [(0, 1, 2)]);
}

proptest! {
    /// The definition: all readings kept.
    #[test]
    fn the_dispersion_is_as_its_definition_says(
        readings in prop::collection::vec(prop::collection::btree_map((0..3u32, 3..6u32), 1..20u32, 1..6), 1..20),
    ) {
        let mut tally = Tally::default();
        let readings: Vec<BTreeMap<Pair, f64>> =
            readings.into_iter().map(|of| of.into_iter().map(|(pair, n)| (pair, f64::from(n))).collect()).collect();
        readings.iter().for_each(|reading| tally.add(reading));
        let all: f64 = readings.iter().flat_map(BTreeMap::values).sum();
        let of = |pair: &Pair| readings.iter().filter_map(|reading| reading.get(pair)).sum::<f64>() / all;
        let pairs: Vec<Pair> = tally.pairs.keys().copied().collect();
        let (mut found, mut expected) = (0.0, 0.0);
        for reading in &readings {
            let of_all: f64 = reading.values().sum();
            for pair in &pairs {
                let part = of(pair);
                found += (reading.get(pair).copied().unwrap_or(0.0) - of_all * part).powi(2);
                expected += of_all * part * (1.0 - part);
            }
        }
        let dispersion = if expected > 1e-9 { (found / expected).max(1.0) } else { 1.0 };
        prop_assert!((tally.dispersion() - dispersion).abs() < 1e-6 * dispersion, "{} {dispersion}", tally.dispersion());
        prop_assert!(tally.worth(None) <= tally.events + 1e-9 && tally.worth(Some(&tally)) > 0.0);
    }
}
