//! The machines in testdata/topologies (how each was made is in the README there), loaded as a user would.

use cohabit_model::Topology;
use cohabit_model::topology::Level;
use proptest::prelude::*;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/topologies").join(name)
}

fn load(name: &str) -> Topology {
    Topology::load(path(name).to_str().unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

fn fixtures() -> Vec<String> {
    let entries = std::fs::read_dir(path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.ends_with(".xml")).collect()
}

/// (file, PUs, arities where symmetric, (level, distance) where it branches).
type Row = (&'static str, usize, Option<&'static [usize]>, &'static [(Level, u64)]);

const MACHINES: [Row; 10] = {
    use Level::*;
    [
        ("harpertown-2x4.xml", 8, Some(&[2, 2, 2]), &[(Numa, 10), (Package, 9), (L2, 3)]),
        ("sandybridge-2x8x2.xml", 32, Some(&[2, 8, 2]), &[(Machine, 20), (L3, 5), (Core, 1)]),
        ("nehalem-4x8x2.xml", 64, Some(&[4, 8, 2]), &[(Machine, 20), (L3, 5), (Core, 1)]),
        ("broadwell-2x14x2.xml", 56, Some(&[2, 14, 2]), &[(Machine, 20), (L3, 5), (Core, 1)]),
        ("epyc-1x4numa-8l3-64x2.xml", 128, Some(&[4, 2, 8, 2]), &[(Package, 15), (Numa, 10), (L3, 5), (Core, 1)]),
        ("hybrid-4p2-8e.xml", 16, None, &[(L3, 5), (L2, 3), (Core, 1)]),
        ("snc-2x2numa-slit.xml", 32, Some(&[2, 2, 4, 2]), &[(Machine, 21), (Package, 12), (L3, 5), (Core, 1)]),
        ("opteron-ring-4numa-slit.xml", 16, Some(&[4, 4]), &[(Machine, 18), (L3, 5)]),
        ("cpuset-2x4x2-allowed-4.xml", 16, Some(&[2, 4, 2]), &[(Machine, 20), (L3, 5), (Core, 1)]),
        ("hbm-cxl-2x4x2.xml", 16, Some(&[2, 4, 2]), &[(Machine, 20), (L3, 5), (Core, 1)]),
    ]
};

#[test]
fn machines_have_their_levels_and_distances() {
    for (file, pus, arities, branching) in MACHINES {
        let topology = load(file);
        assert_eq!(topology.pus.len(), pus, "{file}");
        assert_eq!(topology.arities().as_deref(), arities, "{file}");
        let levels: Vec<_> = topology.branching().iter().map(|level| (level.level, level.cost)).collect();
        assert_eq!(levels, branching, "{file}");
    }
}

#[test]
fn every_machine_is_a_tree_that_its_text_gives_again() {
    assert!(fixtures().len() > MACHINES.len());
    for file in fixtures() {
        let topology = load(&file);
        assert_eq!(Topology::parse_text(&topology.text).as_ref(), Ok(&topology), "{file}");
        check_tree(&topology);
        check_distances(&topology);
        let restricted = topology.allowed_only().unwrap();
        check_tree(&restricted);
        check_distances(&restricted);
    }
}

/// Parents come before children, PUs of a node are those of its children, costs grow towards the root.
fn check_tree(topology: &Topology) {
    assert_eq!((topology.nodes[0].parent, topology.nodes[0].pus.clone()), (None, 0..topology.pus.len()));
    for (id, node) in topology.nodes.iter().enumerate() {
        let mut next = node.pus.start;
        for &child in &node.children {
            let child = (child, &topology.nodes[child]);
            assert!(child.0 > id && child.1.parent == Some(id) && child.1.pus.start == next);
            assert!(child.1.cost <= node.cost, "{:?} in {:?}", child.1, node);
            next = child.1.pus.end;
        }
        match node.level {
            Level::Pu => assert!(node.pus.len() == 1 && topology.pus[node.pus.start].node == id && node.cost == 0),
            _ => assert!(next == node.pus.end && !node.pus.is_empty()),
        }
    }
}

/// The distance by looking at every node for the smallest one with both PUs.
fn slow_distance(topology: &Topology, a: usize, b: usize) -> u64 {
    let both = topology.nodes.iter().filter(|node| node.pus.contains(&a) && node.pus.contains(&b));
    both.min_by_key(|node| (node.pus.len(), node.cost)).map_or(0, |node| node.cost)
}

fn check_distances(topology: &Topology) {
    let numa = |pu| topology.ancestor(pu, Level::Numa);
    for a in 0..topology.pus.len() {
        assert_eq!(topology.distance(a, a), 0);
        for b in (0..topology.pus.len()).filter(|&b| b != a) {
            assert_eq!(topology.distance(a, b), topology.distance(b, a));
            assert!(topology.distance(a, b) > 0);
            if topology.matrix.is_none() || numa(a) == numa(b) {
                assert_eq!(topology.distance(a, b), slow_distance(topology, a, b));
            }
        }
    }
}

#[test]
fn smt_siblings_have_linuxs_numbers() {
    let topology = load("sandybridge-2x8x2.xml");
    let (first, second) = (topology.pu_index(0).unwrap(), topology.pu_index(16).unwrap());
    assert_eq!(topology.core_of(first), topology.core_of(second));
    assert_eq!(topology.distance(first, second), 1);
    assert_eq!(topology.distance(first, topology.pu_index(8).unwrap()), 20);
}

#[test]
fn unequal_cores_have_kinds() {
    let topology = load("hybrid-4p2-8e.xml");
    let kinds: Vec<_> = topology.pus.iter().map(|pu| pu.core_kind).collect();
    assert_eq!(kinds, [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(topology.nodes_at(Level::Core).count(), 12);
    assert_eq!([1, 2, 8, 9].map(|other| topology.distance(8, other)), [5, 5, 0, 3]);
    let costs = topology.with_level_costs(&[100, 10, 1]).unwrap();
    assert_eq!([0, 2, 8].map(|pu| costs.distance(pu, pu + 1)), [1, 1, 10]);
    assert_eq!(costs.distance(0, 2), 100);
}

#[test]
fn the_cpuset_says_what_is_allowed() {
    let topology = load("cpuset-2x4x2-allowed-4.xml");
    let allowed: Vec<_> = topology.allowed().iter().map(|&pu| topology.pus[pu].os_index).collect();
    assert_eq!(allowed, [0, 8, 1, 9]);
    assert_eq!((topology.only_distance(), topology.allowed_only().unwrap().arities()), (None, Some(vec![2, 2])));
    let mut none = topology.clone();
    none.pus.iter_mut().for_each(|pu| pu.allowed = false);
    assert_eq!(none.allowed_only().unwrap_err().cause, "the topology allows no PU");
    assert_eq!(none.only_distance(), Some(0));
    let mut siblings = topology;
    siblings.pus.iter_mut().for_each(|pu| pu.allowed = matches!(pu.os_index, 0 | 1));
    assert_eq!(siblings.only_distance(), Some(5));
}

#[test]
fn a_ring_of_numa_nodes_needs_the_matrix() {
    let topology = load("opteron-ring-4numa-slit.xml");
    assert!(topology.matrix.is_some());
    assert_eq!([1, 4, 8, 12].map(|other| topology.distance(0, other)), [5, 16, 22, 16]);
    let allowed = topology.allowed_only().unwrap();
    assert_eq!(allowed, topology);
    let level_costs = topology.with_level_costs(&[9, 1]).unwrap();
    assert_eq!((level_costs.distance(0, 8), level_costs.matrix), (9, None));
}

#[test]
fn memories_on_the_same_pus_are_in_each_other() {
    let topology = load("hbm-cxl-2x4x2.xml");
    let nearest = topology.ancestor(0, Level::Numa).unwrap();
    assert_eq!((topology.nodes[nearest].os_index, topology.nodes[nearest].size_bytes), (Some(0), 64 << 30));
    // Four nodes have PUs, the fifth is memory only.
    assert_eq!(topology.nodes_at(Level::Numa).count(), 4);
}

#[test]
fn version_1_of_the_format_gives_the_same_tree() {
    let old = load("version1-2x2x2.xml");
    let new = Topology::load("numa:2 pack:1 l3:1 l2:2 core:1 pu:2").unwrap();
    let shape =
        |topology: &Topology| topology.nodes.iter().map(|node| (node.level, node.pus.clone())).collect::<Vec<_>>();
    assert_eq!(shape(&old), shape(&new));
    assert_eq!(old.nodes[old.ancestor(0, Level::L2).unwrap()].size_bytes, 256 << 10);
}

#[test]
fn xml_that_is_no_machine_says_where() {
    let deep = format!("<topology><object type=\"Machine\">{}", "<object type=\"Group\">".repeat(100_000));
    let closed = format!("{deep}{}</object></topology>", "</object>".repeat(100_000));
    for (text, cause) in [
        ("<", "not XML: "),
        ("<a>", "not XML: "),
        ("<svg/>", "1:1: not hwloc's XML: its root is <svg>"),
        ("<topology/>", "1:1: hwloc's XML without a machine"),
        ("<topology>\n<object/></topology>", "1:1: hwloc's XML without a machine"),
        ("<topology><object type='Machine'/></topology>", "the topology has no PU"),
        ("<topology>\n<object type='Machine'>\n<object type='PU'/></object></topology>", "3:1: a PU without os_index"),
        ("<topology><object type='Machine'><object/></object></topology>", "1:34: an object without a type"),
        (
            "<topology><object type='Machine' allowed_cpuset='0xz'><object type='PU' os_index='0'/></object></topology>",
            "1:11: allowed_cpuset \"0xz\" is no set of hwloc's",
        ),
        (
            "<topology><object type='Machine'><object type='PU' os_index='4294967296'/></object></topology>",
            "1:34: os_index \"4294967296\" is no number, or too large a one",
        ),
        (
            "<topology><object type='Machine'><object type='PU' os_index='1'/><object type='PU' os_index='1'/></object></topology>",
            "the topology has two PUs with OS index 1",
        ),
        (
            "<topology><object type='Machine'><object type='PU' os_index='1'/></object>\
             <distances2 type='NUMANode' indexing='os' kind='5'><indexes>0 1</indexes><u64values>1</u64values></distances2></topology>",
            "1:75: 1 distances between 2 NUMA nodes",
        ),
        (&deep, "not XML: elements nested more than 64 deep"),
        (&closed, "not XML: elements nested more than 64 deep"),
        ("<!DOCTYPE a [<!ENTITY b '<c/>'> <!ENTITY d '&b;&b;&d;'>]><topology>&d;</topology>", "XML without a machine"),
    ] {
        let error = Topology::parse_text(text).unwrap_err();
        assert!(error.cause.contains(cause), "{} for {}", error.cause, &text[..text.len().min(200)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Files as they are, with a piece cut out, doubled or replaced by rubbish.
    #[test]
    fn damaged_files_never_panic(
        file in prop::sample::select(fixtures()),
        from in 0.0..1.0f64,
        length in 0usize..200,
        rubbish in "[ -~]{0,8}|-1|99999999999999999999|0xf\\.\\.\\.f|NUMANode|PU",
    ) {
        let text = std::fs::read_to_string(path(&file)).unwrap();
        let from = (text.len() as f64 * from) as usize;
        let to = (from + length).min(text.len());
        for damaged in [
            text[..from].to_owned(),
            format!("{}{}", &text[..from], &text[to..]),
            format!("{}{rubbish}{}", &text[..from], &text[to..]),
            format!("{}{}{}", &text[..to], &text[from..to], &text[to..]),
        ] {
            if let Ok(topology) = Topology::parse_text(&damaged) {
                check_tree(&topology);
            }
        }
    }

    /// The value of one attribute replaced: the file stays XML.
    #[test]
    fn wrong_values_never_panic(file in prop::sample::select(fixtures()), at in 0.0..1.0f64, value in "[a-zA-Z]{0,8}|-?[0-9]{0,22}|0x[0-9a-f,]{0,30}") {
        let text = std::fs::read_to_string(path(&file)).unwrap();
        let quotes: Vec<_> = text.match_indices('"').map(|(place, _)| place).collect();
        let pair = ((quotes.len() / 2) as f64 * at) as usize * 2;
        let damaged = format!("{}{value}{}", &text[..quotes[pair] + 1], &text[quotes[pair + 1]..]);
        if let Ok(topology) = Topology::parse_text(&damaged) {
            check_tree(&topology);
        }
    }
}
