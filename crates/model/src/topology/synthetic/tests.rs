use super::*;
use proptest::prelude::*;

fn shape(text: &str) -> Vec<(Level, usize)> {
    let topology = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut node = 0;
    let mut shape = Vec::new();
    while let Some(&child) = topology.nodes[node].children.first() {
        shape.push((topology.nodes[child].level, topology.nodes[node].children.len()));
        node = child;
    }
    let pus: usize = shape.iter().map(|&(_, arity)| arity).product();
    assert_eq!(topology.pus.len(), pus, "{text}");
    shape
}

#[test]
fn levels_are_read_by_all_their_names() {
    use Level::*;
    for (text, expected) in [
        ("pack:2 core:14 pu:2", vec![(Package, 2), (Core, 14), (Pu, 2)]),
        ("Package:2 L3Cache:4 L2:1 L1d:1 L1iCache:1 Core:8 PU:2", {
            vec![(Package, 2), (L3, 4), (L2, 1), (L1, 1), (Core, 8), (Pu, 2)]
        }),
        ("socket:2 numanode:1 l2u:2 core:2 proc:1", vec![(Package, 2), (Numa, 1), (L2, 2), (Core, 2), (Pu, 1)]),
        ("numa:2 l3:4 core:8 pu:2", vec![(Numa, 2), (L3, 4), (Core, 8), (Pu, 2)]),
        ("node:2 packag:2 pu:2", vec![(Numa, 2), (Package, 2), (Pu, 2)]),
        ("group0:2 group:2 die:2 l4:2 pu:1", vec![(Group, 2), (Group, 2), (Die, 2), (L4, 2), (Pu, 1)]),
        ("(memory=4GB) pack:2(x=y)  [numa(memory=2GB)] core:2(a=b c=d)pu:1", {
            vec![(Package, 2), (Numa, 1), (Core, 2), (Pu, 1)]
        }),
        ("l2:4 l1i:2 core:1 pu:1", vec![(L2, 4), (Core, 2), (Pu, 1)]),
        ("8", vec![(Pu, 8)]),
        ("4 2", vec![(Numa, 4), (Pu, 2)]),
        ("2 3 4 2", vec![(Package, 2), (Numa, 3), (Core, 4), (Pu, 2)]),
        ("2 2 2 2 2", vec![(Package, 2), (Numa, 2), (L2, 2), (Core, 2), (Pu, 2)]),
        ("2 1 1 1 1 1 1 1", {
            vec![(Group, 2), (Package, 1), (Numa, 1), (L3, 1), (L2, 1), (L1, 1), (Core, 1), (Pu, 1)]
        }),
    ] {
        assert_eq!(shape(text), expected, "{text}");
    }
}

#[test]
fn sizes_and_indices_are_taken() {
    let topology = parse("pack:2 [numa(memory=2GiB)] l2:1(size=1MB) core:2 pu:2(indexes=core:pu)").unwrap();
    let sizes = |level| topology.nodes_at(level).map(|node| topology.nodes[node].size_bytes).collect::<Vec<_>>();
    assert_eq!((sizes(Level::Numa), sizes(Level::L2)), (vec![2 << 30; 2], vec![1_000_000; 2]));
    let indices: Vec<_> = topology.pus.iter().map(|pu| pu.os_index).collect();
    assert_eq!(indices, [0, 4, 1, 5, 2, 6, 3, 7]);
    assert_eq!((0..8).map(|os| topology.pu_index(os)).collect::<Vec<_>>(), [0, 2, 4, 6, 1, 3, 5, 7].map(Some));
    assert_eq!(topology.pu_index(8), None);
}

#[test]
fn impossible_strings_say_why() {
    for (text, cause) in [
        ("", "no level"),
        ("core:4", "the last level is core, not PU"),
        ("pu:0", "the count in \"pu:0\" is 0"),
        ("core:2 pack:2 pu:1", "a package cannot be inside a core"),
        ("core:2 numa:2 pu:1", "a NUMA node cannot be inside a core"),
        ("pu:2 pu:2", "a PU cannot be inside a machine"),
        ("pack:2 pack:2 pu:2", "a package cannot be inside a package"),
        ("pack:-1 pu:1", "\"-1\" in \"pack:-1\" is no count"),
        ("pack:99999999999999999999 pu:1", "\"99999999999999999999\" in \"pack:99999999999999999999\" is no count"),
        ("pack:4000000000 core:4000000000", "more than 8388608 nodes at \"pack:4000000000\""),
        ("pack:4000 core:4000 pu:1", "more than 8388608 nodes at \"core:4000\""),
        ("l1i:4000000000 l1i:4000000000 pu:2", "more than 8388608 nodes at \"l1i:4000000000\""),
        ("machine:2 core:2 pu:1", "\"machine\" is no level"),
        ("pack core:2 pu:1", "\"pack\" has no count"),
        ("2 core:2 pu:1", "levels with names and levels without do not go together"),
        ("pack:2(size=1KB core:2", "no ) after \"(size=1KB core:2\""),
        ("pack:2 [numa core:2 pu:1", "a bracket without its other half at \"numa\""),
        ("pack:2] pu:1", "a bracket without its other half at \"pack:2\""),
        ("core:2 pu:2(indexes=1,2)", "indexes=1,2 do not number 4 nodes"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.cause, cause, "{text}");
        assert!(error.remedy.is_some(), "{text}");
    }
}

#[test]
fn a_million_pus_are_read() {
    let topology = parse("pack:64 l3:16 core:512 pu:2").unwrap();
    assert_eq!((topology.pus.len(), topology.arities()), (1 << 20, Some(vec![64, 16, 512, 2])));
    assert_eq!([1, 2, 1024, 1 << 14].map(|other| topology.distance(0, other)), [1, 5, 9, 20]);
    assert_eq!(topology.pu_index((1 << 20) - 1), Some((1 << 20) - 1));
}

/// The distance by arithmetic alone: the costs of the outermost level in whose numbering the two PUs differ.
fn distance_by_division(arities: &[usize], costs: &[u64], a: usize, b: usize) -> u64 {
    let mut below: usize = arities.iter().product();
    for (arity, cost) in arities.iter().zip(costs) {
        below /= arity;
        if a / below != b / below {
            return *cost;
        }
    }
    0
}

proptest! {
    #[test]
    fn hostile_strings_never_panic(text in "[ -~]{0,40}") {
        let _ = parse(&text);
    }

    #[test]
    fn almost_right_strings_never_panic(
        words in prop::collection::vec("(pack|numa|\\[numa\\]|l[0-6][diu]?|core|pu|group|die)?:?([0-9]{0,2}|4000000000)(\\([a-z=0-9*:,]{0,9}\\))?", 0..6)
    ) {
        let text = words.join(" ");
        if let Ok(topology) = parse(&text) {
            prop_assert_eq!(&parse(&topology.text).unwrap(), &topology);
        }
    }

    #[test]
    fn distances_are_those_of_the_levels(arities in prop::collection::vec(1usize..5, 3), a in 0usize..64, b in 0usize..64) {
        let text = format!("pack:{} core:{} pu:{}", arities[0], arities[1], arities[2]);
        let topology = parse(&text).unwrap();
        let (a, b) = (a % topology.pus.len(), b % topology.pus.len());
        prop_assert_eq!(topology.distance(a, b), distance_by_division(&arities, &[20, 9, 1], a, b));
        prop_assert_eq!(topology.distance(a, b), topology.distance(b, a));
        prop_assert_eq!(topology.distance(a, a), 0);
    }
}
