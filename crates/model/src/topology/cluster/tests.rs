//! What cluster files become, and what they are refused for.

use super::*;
use crate::hct::Direction;

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/clusters").join(name)
}

/// Two hosts of two cores below a switch, and what else is in the file.
fn two(rest: &str) -> Result<Topology> {
    let hosts = "[[host]]\nnames = 'n[1-2]'\ntopology = 'core:2 pu:1'\n[[switch]]\nname = 's'\nmembers = 'n[1-2]'\n";
    parse(&format!("{hosts}{rest}"))
}

#[test]
fn the_reports_cluster_is_one_tree() {
    let (topology, notes) = load(&fixture("xserve.toml")).unwrap();
    assert_eq!(notes, Vec::<String>::new());
    let hosts: Vec<&str> = topology.hosts().map(|(_, name)| name).collect();
    assert_eq!(hosts, (1..=8).map(|n| format!("xserve{n}")).collect::<Vec<_>>());
    assert_eq!(topology.pus.iter().map(|pu| pu.os_index).collect::<Vec<_>>(), [0, 1].repeat(8));
    assert_eq!([0, 9, 10, 15].map(|pu| topology.host_of(pu).unwrap()), ["xserve1", "xserve5", "xserve6", "xserve8"]);
    // Inside a host, in its subnet, across: two links, and four.
    assert_eq!([1, 2, 10].map(|pu| topology.distance(0, pu)), [20, 200, 400]);
    assert_eq!(topology.distance(10, 15), 200);
    let levels: Vec<_> = topology.branching().iter().map(|level| (level.level, level.nesting, level.nodes)).collect();
    assert_eq!(levels, [(Level::Switch, 0, 1), (Level::Switch, 1, 2), (Level::Machine, 0, 8)]);
    let costed = topology.clone().with_level_costs(&[9, 4, 1]).unwrap();
    assert_eq!([1, 2, 10].map(|pu| costed.distance(0, pu)), [1, 4, 9]);
    assert_eq!(Topology::parse_text(&topology.text).unwrap(), topology);
}

#[test]
fn slurms_file_gives_the_same_cluster() {
    let (topology, notes) = load(&fixture("slurm.toml")).unwrap();
    assert!(notes.len() == 1 && notes[0].contains("topology.conf: LinkSpeed is not used"), "{notes:?}");
    let (other, _) = load(&fixture("xserve.toml")).unwrap();
    assert_eq!((&topology.nodes, &topology.names), (&other.nodes, &other.names));
    assert_eq!(Topology::parse_text(&topology.text).unwrap(), topology);
}

#[test]
fn pus_are_named_by_host_and_index() {
    let (topology, _) = load(&fixture("xserve.toml")).unwrap();
    assert_eq!(
        (topology.pu_on("xserve2", 1), topology.pu_on("xserve2", 2), topology.pu_on("n", 0)),
        (Some(3), None, None)
    );
    assert_eq!(topology.pu_named("xserve8:0"), Ok(14));
    for (name, cause) in
        [("1", "PU 1 of which host?"), ("xserve9:0", "no PU xserve9:0 here"), ("x:y", "\"x:y\" is no PU")]
    {
        assert_eq!(topology.pu_named(name).unwrap_err().cause, cause);
    }
    let one = Topology::load("pu:4").unwrap();
    assert_eq!((one.pu_named("3"), one.pu_named("a:3").is_err()), (Ok(3), true));
}

#[test]
fn ports_and_switches_are_those_of_the_file() {
    let text = "\
[[port]]
of = 'n1'
out = { 64 = 10.0, 6400 = 100.0 }
in = '1 kB/s'
latency_ns = 5000
max_bandwidth = 2e3
asks_from = '64KiB'
[[port]]
level = 'core'
bandwidth = 4000
";
    let topology = two(text).unwrap();
    let hct = topology.hct().unwrap();
    let host = topology.hosts().next().unwrap().0;
    let port = hct.port(host);
    assert_eq!([64.0, 640.0, 1e6].map(|length| port.out.at(length).unwrap().round()), [10.0, 55.0, 100.0]);
    assert_eq!((port.inwards.at(1.0), port.latency_s, port.limit(Direction::Out)), (Some(1e3), 5e-6, Some(2e3)));
    assert_eq!(port.asks_from, Some(65536.0));
    let other = topology.hosts().nth(1).unwrap().0;
    assert_eq!(hct.port(other).asks_from, None);
    assert_eq!(hct.port(other).out.at(1.0), None);
    let cores: Vec<_> = topology.nodes_at(Level::Core).map(|core| hct.port(core).out.at(1.0)).collect();
    assert_eq!(cores, [Some(4e3); 4]);
    assert_eq!(hct.elements(), topology.nodes.len());
    assert!(topology.pus.iter().all(|pu| hct.is_processing(pu.node)));
    let limited = parse(&topology.text.replace("name = \"s\"", "name = \"s\"\nmax_bandwidth = '8 bit/s'")).unwrap();
    assert_eq!(limited.hct().unwrap().max_bandwidth(0), Some(1.0));
    assert!(Topology::load("pu:2").unwrap().hct().unwrap_err().cause.contains("how fast its ports"));
}

#[test]
fn places_inside_hosts_bound_what_goes_through_them() {
    let cluster = |rest: &str| {
        parse(&format!("[[host]]\nnames = 'n[1-2]'\ntopology = 'pack:2 l3:1 core:2 pu:1'\n{rest}")).and_then(
            |topology| {
                let hct = topology.hct()?;
                Ok(topology.nodes_at(Level::L3).map(|node| hct.max_bandwidth(node)).collect::<Vec<_>>())
            },
        )
    };
    let place = |of: &str, level: &str| format!("[[place]]\n{of}level = '{level}'\nmax_bandwidth = '1 kB/s'\n");
    assert_eq!(cluster(&place("", "l3")), Ok(vec![Some(1e3); 4]));
    assert_eq!(cluster(&place("of = 'n2'\n", "l3")), Ok(vec![None, None, Some(1e3), Some(1e3)]));
    assert_eq!(cluster(&place("", "package")), Ok(vec![None; 4]));
    for (rest, cause) in [
        (place("", "pu"), "place pu: messages end at a PU"),
        (place("", "numa"), "place numa: n1 has no NUMA node"),
        (place("of = 'n3'\n", "l3"), "place l3: n3 is neither a host nor a switch"),
        (place("", "l3") + &place("of = 'n1'\n", "l3"), "place l3: a place has two maximum bandwidths"),
        (place("", "l3").replace("1 kB/s", "0 B/s"), "place l3: max_bandwidth"),
    ] {
        let found = cluster(&rest).unwrap_err().cause;
        assert!(found.contains(cause), "{found}");
    }
}

#[test]
fn memory_is_that_of_the_file() {
    let cluster = |rest: &str| {
        parse(&format!("[[host]]\nnames = 'n[1-2]'\ntopology = 'pack:2 l3:1 core:2 pu:1'\n{rest}")).and_then(
            |topology| {
                let hct = topology.hct()?;
                Ok(topology.nodes_at(Level::L3).map(|node| hct.memory(node).all()).collect::<Vec<_>>())
            },
        )
    };
    let all = "[[memory]]\nnode = '101 GB/s'\nremote = 35e9\ntask = 12e9\ncache = '350 GB/s'\n";
    assert_eq!(cluster(all), Ok(vec![[Some(101e9), Some(35e9), Some(12e9), Some(350e9)]; 4]));
    let (one, none) = ([None, None, Some(1e9), None], [None; 4]);
    assert_eq!(cluster("[[memory]]\nof = 'n2'\ntask = 1e9\n"), Ok(vec![none, none, one, one]));
    for (rest, cause) in [
        ("[[memory]]\n".to_owned(), "memory: nothing is said of it"),
        ("[[memory]]\nof = 'n3'\nnode = 1\n".to_owned(), "memory: n3 is neither a host nor a switch"),
        ("[[memory]]\nnode = 1\n[[memory]]\nof = 'n1'\nnode = 1\n".to_owned(), "memory: n1 is described twice"),
        ("[[memory]]\nnode = -1\n".to_owned(), "memory: node: a bandwidth of -1"),
        ("[[memory]]\nfast = 1\n".to_owned(), "unknown field `fast`"),
    ] {
        let found = cluster(&rest).unwrap_err().cause;
        assert!(found.contains(cause), "{found}");
    }
}

#[test]
fn hosts_need_no_switch_and_may_differ() {
    let alone = parse("[[host]]\nnames = 'n1'\ntopology = 'core:2 pu:2'").unwrap();
    assert_eq!((alone.nodes[0].level, alone.host_of(3)), (Level::Machine, Some("n1")));
    let text =
        "[[host]]\nnames = 'a'\ntopology = 'pu:2'\n[[host]]\nnames = 'b[1-2]'\ntopology = 'pack:2 core:2 pu:1'\n";
    let uneven = parse(text).unwrap();
    assert_eq!((uneven.pus.len(), uneven.nodes[0].level), (10, Level::Switch));
    assert_eq!(uneven.allowed_only().unwrap().hosts().map(|host| host.1).collect::<Vec<_>>(), ["a", "b1", "b2"]);
}

#[test]
fn files_lie_beside_the_cluster_file() {
    let folder = tempfile::tempdir().unwrap();
    let node = fixture("../topologies/snc-2x2numa-slit.xml");
    std::fs::copy(node, folder.path().join("node.xml")).unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(&file, "[[host]]\nnames = ['a', 'b']\ntopology = 'node.xml'\n").unwrap();
    let (topology, _) = load(&file).unwrap();
    // The host's own distances stay, and the text needs no file.
    let one = Topology::load(folder.path().join("node.xml").to_str().unwrap()).unwrap();
    assert_eq!(topology.distance(0, one.pus.len() - 1), one.nodes[0].cost);
    assert_eq!(Topology::load(file.to_str().unwrap()).unwrap(), topology);
    std::fs::remove_file(folder.path().join("node.xml")).unwrap();
    assert_eq!(Topology::parse_text(&topology.text).unwrap(), topology);
    assert!(load(&file).unwrap_err().cause.contains("node.xml"));
}

#[test]
fn what_is_no_cluster_says_why() {
    for (rest, cause) in [
        ("x = 1", "line 7: unknown field `x`"),
        ("[[switch]]\nname = 't'\nmembers = []", "switch t has no ports"),
        ("[[switch]]\nname = 't'\nmembers = 'n3'", "switch t has the member n3, which is neither"),
        ("[[switch]]\nname = 't'\nmembers = 'n1'", "n1 is a member of s and of t"),
        ("[[switch]]\nname = 't'\nmembers = 't'", "the switches t are above one another"),
        ("[[switch]]\nname = 't'\nmembers = 'u'\n[[switch]]\nname = 'u'\nmembers = 't'", "the switches t, u are above"),
        ("[[switch]]\nname = 's'\nmembers = 'n1'", "s is described twice"),
        ("[[switch]]\nname = 'a b'\nmembers = 's'", "\"a b\": \"a b\" is no name"),
        ("[[switch]]\nname = 't[1-2]'\nmembers = 's'", "\"t[1-2]\" is no name of one switch"),
        ("[[host]]\nnames = 'n2'\ntopology = 'pu:1'", "n2 is described twice"),
        ("[[host]]\nnames = 'n3'\ntopology = 'pu:1'", "nothing joins n3, s"),
        ("[[host]]\nnames = 'n3'\ntopology = 'pu:x'", "[[host]] 2: "),
        ("[[host]]\nnames = 'n3'\ntopology = 'matrix:\\n0'", "[[host]] 2: a host is no cluster and no matrix"),
        ("[[host]]\nnames = 3\ntopology = 'pu:1'", "line 8: names are a string such as"),
        ("[[port]]\nof = 'n7'\nbandwidth = 1", "port of n7: n7 is neither a host nor a switch"),
        ("[[port]]\nof = 's'\nbandwidth = 1", "port of s: nothing is above s"),
        ("[[port]]\nof = 'n1'\nbandwidth = 0", "port of n1: bandwidth: a bandwidth of 0"),
        ("[[port]]\nof = 'n1'\nin = '0 Mbit/s'", "port of n1: in: a bandwidth of \"0 Mbit/s\""),
        ("[[port]]\nof = 'n1'\nmax_bandwidth = 'x'", "port of n1: max_bandwidth: \"x\" is no bandwidth"),
        ("[[port]]\nof = 'n1'\nlatency_ns = -1", "port of n1: a latency of -1 ns"),
        ("[[port]]\nof = 'n1'\nbandwidth = 1\nasks_from = true", "port of n1: asks_from: true is no message length"),
        (
            "[[port]]\nof = 'n1'\nbandwidth = 1\nasks_from = '64 years'",
            "port of n1: asks_from: \"64 years\" is no message length",
        ),
        ("[[port]]\nof = 'n1'\nasks_from = 1", "port of n1: nothing is said of it"),
        ("[[port]]\nof = 'n1'\nbandwidth = 1\nin = 1", "port of n1: bandwidth beside in or out"),
        ("[[port]]\nof = 'n1'", "port of n1: nothing is said of it"),
        ("[[port]]\nbandwidth = 1\n[[port]]\nof = 'n2'\nbandwidth = 1", "port of n2: n2 has two ports upwards"),
        ("[[port]]\nlevel = 'l3'\nbandwidth = 1", "port of l3 in all hosts: n1 has no L3"),
        ("[[port]]\nlevel = 'rack'\nbandwidth = 1", "port of rack in all hosts: \"rack\" is no level inside a host"),
    ] {
        let error = two(rest).unwrap_err();
        assert!(error.cause.starts_with(cause) && error.remedy.is_some(), "{rest:?}: {error}");
    }
    for (text, cause) in [
        (
            "format = 2\n[[host]]\nnames = 'a'\ntopology = 'pu:1'",
            "cluster format 2, but this version knows formats up to 1",
        ),
        ("[[host]]\ntopology = 'pu:1'", "the cluster has no host"),
        ("[[host]]\ntopology = 'pu:1'\n[[host]]\ntopology = 'pu:1'", "two [[host]] without names"),
        ("[[host]]\nnames = 'n[0-9999]'\ntopology = 'pu:1000'", "a cluster of 10010000 nodes; at most"),
        ("slurm = 't.conf'\n[[host]]\nnames = 'a'\ntopology = 'pu:1'", "the switches are in another file"),
        ("[[host]", "line 1: "),
    ] {
        assert!(parse(text).unwrap_err().cause.starts_with(cause), "{text:?}: {}", parse(text).unwrap_err());
    }
    assert!(load(Path::new("nowhere/cluster.toml")).unwrap_err().cause.contains("nowhere/cluster.toml"));
}
