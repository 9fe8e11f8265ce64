//! The contract of every format, what each writes, and what each refuses with a remedy.

use super::*;
use cohabit_model::mapping::{Cost, FORMAT, Placed, Weight};
use proptest::prelude::*;

const MACHINE: &str = "pack:2 core:2 pu:2";

/// A task: host, process, rank, spawn index, PU.
type Row = (&'static str, u32, Option<u32>, u32, u32);

/// Four ranks on one machine.
const RANKS: [Row; 4] =
    [("", 0, Some(0), 0, 6), ("", 1, Some(1), 0, 0), ("", 2, Some(2), 0, 5), ("", 3, Some(3), 0, 1)];
/// Four threads of one process.
const THREADS: [Row; 4] = [("", 0, None, 0, 6), ("", 0, None, 1, 0), ("", 0, None, 2, 5), ("", 0, None, 3, 0)];
/// Four threads, each on a PU of its own.
const APART: [Row; 4] = [("", 0, None, 0, 6), ("", 0, None, 1, 0), ("", 0, None, 2, 5), ("", 0, None, 3, 1)];
/// Two ranks of two threads.
const HYBRID: [Row; 4] =
    [("", 0, Some(0), 0, 6), ("", 0, Some(0), 1, 2), ("", 1, Some(1), 0, 5), ("", 1, Some(1), 1, 5)];
/// Four ranks on two hosts, the n-th of each on the same PU.
const HOSTS: [Row; 4] =
    [("b", 0, Some(0), 0, 6), ("a", 1, Some(1), 0, 6), ("a", 2, Some(2), 0, 5), ("b", 3, Some(3), 0, 5)];
/// The same with hosts that differ.
const UNLIKE: [Row; 4] =
    [("b", 0, Some(0), 0, 6), ("a", 1, Some(1), 0, 4), ("a", 2, Some(2), 0, 5), ("b", 3, Some(3), 0, 5)];

fn mapping(rows: &[Row]) -> Mapping {
    let placed = |(id, &(host, process, rank, spawn_index, pu)): (u32, &Row)| Placed {
        task: id,
        name: format!("task {id}"),
        host: host.into(),
        process,
        rank,
        spawn_index,
        parent: None,
        pu,
        pus: String::new(),
        unknown: Default::default(),
    };
    Mapping {
        format: FORMAT,
        mapper: "packed".into(),
        seed: 0,
        weight: Weight::Messages,
        objective: "distance".into(),
        level_costs: Vec::new(),
        topology: MACHINE.into(),
        programs: Vec::new(),
        no_gain: None,
        tasks: (0..).zip(rows).map(placed).collect(),
        cost: Cost::default(),
        phases: None,
        unknown: Default::default(),
    }
}

fn matrix(tasks: u32) -> Matrix {
    let pair = |task: u32| (task, (task + 1) % tasks, u64::from(task) + 1);
    Matrix::from_triplets(tasks as usize, (0..tasks).map(pair))
}

fn export(name: &str, mapping: &Mapping, weight: &Matrix) -> Result<String> {
    let topology = Topology::load(MACHINE).unwrap();
    exporter(name)?.export(&Placement::new(mapping, &topology, weight)?)
}

#[test]
fn the_table_is_whole() {
    for (index, row) in EXPORTERS.iter().enumerate() {
        let (name, about, usage) = (row.name(), row.about(), row.usage());
        assert!(EXPORTERS[..index].iter().all(|other| other.name() != name), "{name} twice");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'), "{name}");
        assert!(!about.is_empty() && !about.contains('\n'), "{name}");
        assert!(usage.contains("FILE") && !usage.contains('\n'), "{name}");
        assert_eq!(exporter(name).unwrap().name(), name);
    }
    assert!(exporter("open-mpi").err().unwrap().remedy.unwrap().contains("open-mpi-4, open-mpi-5"));
}

#[test]
fn every_format_ends_its_last_line() {
    for row in EXPORTERS {
        let rows = if row
            .export(&Placement::new(&mapping(&RANKS), &Topology::load(MACHINE).unwrap(), &matrix(4)).unwrap())
            .is_ok()
        {
            RANKS
        } else {
            APART
        };
        let text =
            export(row.name(), &mapping(&rows), &matrix(4)).unwrap_or_else(|error| panic!("{}: {error}", row.name()));
        assert!(text.ends_with('\n') && !text.contains('\0'), "{}", row.name());
        assert_eq!(export(row.name(), &mapping(&rows), &matrix(4)).unwrap(), text, "{}: the same bytes", row.name());
    }
}

#[test]
fn launchers_are_told_each_tasks_pu() {
    for (name, rows, expected) in [
        (
            "open-mpi-4",
            RANKS,
            "rank 0=localhost slot=6\nrank 1=localhost slot=0\nrank 2=localhost slot=5\nrank 3=localhost slot=1\n",
        ),
        ("open-mpi-4", HYBRID, "rank 0=localhost slot=2,6\nrank 1=localhost slot=5\n"),
        ("open-mpi-4", UNLIKE, "rank 0=b slot=6\nrank 1=a slot=4\nrank 2=a slot=5\nrank 3=b slot=5\n"),
        ("open-mpi-5", HYBRID, "rank 0=localhost slot=2,6\nrank 1=localhost slot=5\n"),
        ("mpich-binding", RANKS, "-bind-to user:6,0,5,1\n"),
        ("mpich-binding", HYBRID, "-bind-to user:2+6,5\n"),
        ("mpich-hosts", RANKS, "localhost:4 binding=user:6,0,5,1\n"),
        ("mpich-hosts", HYBRID, "localhost:2 binding=user:2+6,5\n"),
        ("mpich-hosts", UNLIKE, "b:1 binding=user:6\na:2 binding=user:4,5\nb:1 binding=user:5\n"),
        ("mpich-rank-order", RANKS, "1,3,2,0\n"),
        ("mpich-rank-order", HOSTS, "3,0,2,1\n"),
        ("slurm-hosts", HOSTS, "b\na\na\nb\n"),
        ("slurm-map-cpu", HOSTS, "--cpu-bind=map_cpu:6,5\n"),
        ("slurm-map-cpu", RANKS, "--cpu-bind=map_cpu:6,0,5,1\n"),
        ("slurm-mask-cpu", HYBRID, "--cpu-bind=mask_cpu:0x44,0x20\n"),
        (
            "omp-places",
            THREADS,
            "export OMP_PLACES='{6},{0},{5},{0}'\nexport OMP_PROC_BIND='close'\nexport OMP_NUM_THREADS='4'\n",
        ),
        ("gomp-cpu-affinity", THREADS, "export GOMP_CPU_AFFINITY='6 0 5 0'\nexport OMP_NUM_THREADS='4'\n"),
        (
            "kmp-affinity",
            THREADS,
            "export KMP_AFFINITY='granularity=fine,proclist=[6,0,5,0],explicit'\nexport OMP_NUM_THREADS='4'\n",
        ),
        ("metis", RANKS, "4 4 001\n2 1 4 4\n1 1 3 2\n2 2 4 3\n1 4 3 3\n"),
        (
            "matrix-market",
            RANKS,
            "%%MatrixMarket matrix coordinate integer general\n4 4 4\n1 2 1\n2 3 2\n3 4 3\n4 1 4\n",
        ),
    ] {
        assert_eq!(export(name, &mapping(&rows), &matrix(4)).unwrap(), expected, "{name}");
    }
    for (name, rows, expected) in [
        ("likwid-pin", APART, "exec likwid-pin -q -c 6,0,5,1 \"$@\"\n"),
        ("taskset", RANKS, "\n2) exec taskset -c 5 \"$@\" ;;\n"),
        ("taskset", HYBRID, "\n0) export OMP_PLACES='{6},{2}' OMP_PROC_BIND=close; exec taskset -c 2,6 \"$@\" ;;\n"),
        ("taskset", THREADS, "\ntid=$1; shift; taskset -cp 5 "),
        ("hwloc-bind", RANKS, "\n2) exec hwloc-bind --physical pu:5 -- \"$@\" ;;\n"),
        ("hwloc-bind", THREADS, "\ntid=$1; shift; hwloc-bind --physical pu:5 --tid "),
    ] {
        let text = export(name, &mapping(&rows), &matrix(4)).unwrap();
        assert!(text.contains(expected), "{name}: {text}");
    }
}

#[test]
fn what_a_format_cannot_say_is_refused_with_what_can() {
    let gap: [Row; 2] = [("", 0, Some(0), 0, 1), ("", 1, Some(2), 0, 2)];
    let missing: [Row; 2] = [("", 0, None, 0, 1), ("", 0, None, 2, 2)];
    let twice: [Row; 2] = [("", 0, None, 0, 1), ("", 0, None, 0, 2)];
    let half: [Row; 2] = [("", 0, Some(0), 0, 1), ("", 1, None, 0, 2)];
    let torn: [Row; 2] = [("a", 0, Some(0), 0, 1), ("b", 0, Some(0), 1, 2)];
    let odd_host: [Row; 2] = [("a b", 0, Some(0), 0, 1), ("c", 1, Some(1), 0, 2)];
    let option: [Row; 2] = [("-x", 0, Some(0), 0, 1), ("c", 1, Some(1), 0, 2)];
    let three: [Row; 4] =
        [("a", 0, Some(0), 0, 1), ("b", 1, Some(1), 0, 2), ("b", 2, Some(2), 0, 3), ("c", 3, Some(3), 0, 3)];
    let rows: &[(&str, &[Row], &str, &str)] = &[
        ("open-mpi-4", &THREADS, "4 tasks are threads of one process", "--kind ranks"),
        ("slurm-map-cpu", &HYBRID, "rank 0 has 2 threads on PUs 2,6", "slurm-mask-cpu"),
        ("mpich-rank-order", &HYBRID, "rank 0 has 2 threads", "open-mpi-4"),
        ("omp-places", &RANKS, "tasks 0 and 1 are of two processes", "cohabit run --mapping"),
        ("omp-places", &HYBRID, "tasks 0 and 2 are of two processes", "open-mpi-4"),
        ("likwid-pin", &HOSTS, "are of two processes", "taskset"),
        ("likwid-pin", &THREADS, "several threads are on PU 0", "omp-places"),
        ("mpich-binding", &HOSTS, "is for one host, and ranks 0 and 1 are on b and a", "mpich-hosts"),
        ("slurm-mask-cpu", &UNLIKE, "hosts a and b differ", "taskset"),
        ("open-mpi-5", &gap, "there is no rank 1, but a rank 2", "without gaps"),
        ("gomp-cpu-affinity", &missing, "no thread 1 of the process, but a thread 2", "run --mapping"),
        ("kmp-affinity", &twice, "two tasks are thread 0", "run --mapping"),
        ("mpich-hosts", &half, "task 1 has no rank", "ranks alone"),
        ("open-mpi-4", &torn, "rank 0 has threads on the hosts \"a\" and \"b\"", "again"),
        ("slurm-hosts", &odd_host, "\"a b\" is no name of a host", "cluster file"),
        ("mpich-hosts", &option, "\"-x\" is no name of a host", "cluster file"),
        ("mpich-rank-order", &three, "have 1 and 2 ranks", "slurm-hosts"),
        ("taskset", &[], "the mapping has no task", "map a profile"),
        ("omp-places", &[], "the mapping has no task", "map a profile"),
        ("open-mpi-4", &[], "the mapping has no task", "map a profile"),
    ];
    for (name, rows, cause, remedy) in rows {
        let error = export(name, &mapping(rows), &Matrix::zero(rows.len())).unwrap_err();
        assert!(error.cause.contains(cause), "{name}: {cause:?} in {:?}", error.cause);
        assert!(error.remedy.as_ref().is_some_and(|text| text.contains(remedy)), "{name}: {error:?}");
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let topology = Topology::load("pu:4").unwrap();
    for (weight, cause) in [(matrix(3), "the mapping has 4 tasks, the matrix 3"), (matrix(4), "task 0 is on PU 6")] {
        let error = Placement::new(&mapping(&RANKS), &topology, &weight).unwrap_err();
        assert!(error.cause.contains(cause), "{error}");
    }
}

#[test]
fn logical_slots_leave_out_what_the_cpuset_forbids() {
    let mut topology = Topology::load("pack:2 core:2 pu:2").unwrap();
    topology.pus[1].allowed = false;
    let (mapping, weight) = (mapping(&[("", 0, Some(0), 0, 0), ("", 1, Some(1), 0, 6)]), matrix(2));
    let text = exporter("open-mpi-5").unwrap().export(&Placement::new(&mapping, &topology, &weight).unwrap()).unwrap();
    assert_eq!(text, "rank 0=localhost slot=0\nrank 1=localhost slot=5\n");
}

#[test]
fn heavy_graphs_stay_within_what_metis_adds_up() {
    let weight = Matrix::from_triplets(4, [(0, 1, u64::MAX), (1, 2, u64::MAX), (2, 3, 1)]);
    let text = export("metis", &mapping(&RANKS), &weight).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("% weights are divided by "), "{text}");
    assert_eq!(lines[1], "4 3 001");
    let weights =
        lines[2..].iter().flat_map(|line| line.split(' ').skip(1).step_by(2)).map(|word| word.parse::<u64>().unwrap());
    let weights: Vec<u64> = weights.collect();
    assert!(weights.iter().sum::<u64>() <= i32::MAX as u64 && weights.iter().all(|&weight| weight > 0), "{weights:?}");
    assert_eq!(*weights.last().unwrap(), 1);
}

/// Every element that is opened is closed, every name is escaped, and there is no character that XML 1.0 does not have.
fn assert_xml(text: &str) {
    let is_of_xml =
        |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{1_0000}'..);
    assert!(text.chars().all(is_of_xml), "{text:?}");
    let mut reader = quick_xml::Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => break,
            Ok(quick_xml::events::Event::Text(text)) => drop(text.decode().unwrap()),
            Ok(_) => {}
            Err(error) => panic!("{error} at {}: {text}", reader.error_position()),
        }
    }
}

#[test]
fn a_picture_has_a_circle_a_task_and_a_line_a_heavy_pair() {
    let text = export("svg", &mapping(&THREADS), &matrix(4)).unwrap();
    assert_xml(&text);
    assert_eq!((text.matches("<circle ").count(), text.matches("class=\"edge\"").count()), (4, 3));
    assert!(text.contains("3 of 4 pairs that communicate are drawn: 90 % of the weight"), "{text}");
    assert!(
        text.contains("<title>0 and 3: 4</title>") && text.contains("<title>task 3 task 3 on PU 0</title>"),
        "{text}"
    );
    let silent = export("svg", &mapping(&THREADS), &Matrix::zero(4)).unwrap();
    assert!(silent.contains("no two tasks communicate"), "{silent}");
    let (large, one) = (Topology::load("pack:64 core:64 pu:2").unwrap(), mapping(&[("", 0, None, 0, 0)]));
    let error = exporter("svg").unwrap().export(&Placement::new(&one, &large, &Matrix::zero(1)).unwrap()).unwrap_err();
    assert!(error.cause.contains("8192 PUs") && error.remedy.unwrap().contains("graphml"));
}

#[test]
fn names_of_any_characters_are_xml() {
    let mut odd = mapping(&THREADS);
    odd.tasks[0].name = "a\u{1}\u{1b}<b>&\u{fffe}\u{0}".into();
    odd.mapper = "\u{8}best".into();
    for name in ["svg", "graphml"] {
        let text = export(name, &odd, &matrix(4)).unwrap();
        assert_xml(&text);
        assert!(text.contains("a  &lt;b&gt;&amp;  "), "{name}: {text}");
    }
    let mut cluster = Topology::parse_text(CLUSTER).unwrap();
    cluster.names.values_mut().for_each(|name| name.push_str("\u{1}<&"));
    assert_xml(&svg::topology_svg(&cluster));
}

fn any_mapping() -> impl Strategy<Value = (Mapping, Matrix)> {
    let host = prop::sample::select(vec!["", "a", "b<&\"", "n-1.cluster"]);
    let row = (host, 0u32..4, prop::option::of(0u32..4), 0u32..4, 0u32..8, ".{0,12}");
    prop::collection::vec(row, 0..6).prop_flat_map(|rows| {
        let tasks = rows.len() as u32;
        let plain: Vec<Row> = rows.iter().map(|row| (row.0, row.1, row.2, row.3, row.4)).collect();
        let mut mapping = mapping(&plain);
        mapping.tasks.iter_mut().zip(&rows).for_each(|(task, row)| task.name = row.5.clone());
        let entry = (0..tasks.max(1), 0..tasks.max(1), any::<u64>());
        let entries = prop::collection::vec(entry, 0..if tasks == 0 { 1 } else { 20 });
        (Just(mapping), entries)
            .prop_map(move |(mapping, entries)| (mapping, Matrix::from_triplets(tasks as usize, entries)))
    })
}

proptest! {
    #[test]
    fn any_mapping_is_exported_or_refused_with_a_remedy((mapping, weight) in any_mapping()) {
        for row in EXPORTERS {
            match export(row.name(), &mapping, &weight) {
                Ok(text) if ["svg", "graphml"].contains(&row.name()) => assert_xml(&text),
                Ok(text) => prop_assert!(!text.is_empty()),
                Err(error) => prop_assert!(error.remedy.is_some() && !error.cause.contains('\n'), "{}: {error:?}", row.name()),
            }
        }
    }
}

/// Two hosts whose PUs have the same OS indices.
const CLUSTER: &str = "[[host]]\nnames = 'n[1-2]'\ntopology = 'core:2 pu:2(indexes=0,2,1,3)'\n";

fn export_to_cluster(name: &str, rows: &[Row]) -> Result<String> {
    let topology = Topology::parse_text(CLUSTER).unwrap();
    exporter(name)?.export(&Placement::new(&mapping(rows), &topology, &matrix(rows.len() as u32))?)
}

#[test]
fn in_a_cluster_hosts_are_named_and_pus_are_theirs() {
    const APART: [Row; 2] = [("n2", 0, Some(0), 0, 1), ("n1", 1, Some(1), 0, 1)];
    const TOGETHER: [Row; 2] = [("n2", 0, Some(0), 0, 1), ("n2", 1, Some(1), 0, 2)];
    for (name, rows, expected) in [
        ("open-mpi-4", APART, "rank 0=n2 slot=1\nrank 1=n1 slot=1\n"),
        ("open-mpi-5", APART, "rank 0=n2 slot=2\nrank 1=n1 slot=2\n"),
        ("mpich-hosts", APART, "n2:1 binding=user:1\nn1:1 binding=user:1\n"),
        ("slurm-hosts", APART, "n2\nn1\n"),
        // One host of several is named, too.
        ("open-mpi-4", TOGETHER, "rank 0=n2 slot=1\nrank 1=n2 slot=2\n"),
        ("slurm-hosts", TOGETHER, "n2\nn2\n"),
    ] {
        assert_eq!(export_to_cluster(name, &rows).unwrap(), expected, "{name}");
    }
    let dot = export_to_cluster("dot", &APART).unwrap();
    assert!(dot.contains("label=\"host n1\"") && dot.contains("label=\"host n2\""), "{dot}");
    let svg = export_to_cluster("svg", &APART).unwrap();
    assert!(svg.contains(">host n1<") && svg.contains(">switch<"), "{svg}");
    let unknown = export_to_cluster("dot", &[("n3", 0, Some(0), 0, 1)]).unwrap_err();
    assert_eq!(unknown.cause, "task 0 is on PU 1 of host \"n3\", which is not there");
}
