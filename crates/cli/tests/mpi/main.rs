//! MPI ranks: programs whose messages are known exactly (`workloads/mpi`), under Open MPI and under MPICH, and what is
//! kept of ranks that end badly.

#[path = "../common/mod.rs"]
mod common;
mod recorded;
mod traces;
mod worlds;

use cohabit_formats::npz::read_profile;
use cohabit_model::profile::{Collectives, PhaseRow, SentBy};
use cohabit_model::trace::Does;
use cohabit_model::{Profile, Trace};
use common::{Ran, Room};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Messages and bytes by source and destination.
type Traffic = BTreeMap<(u64, u64), (u64, u64)>;

/// An MPI that is installed: its name, and its launcher with what it needs here.
struct Mpi {
    name: &'static str,
    launcher: Vec<String>,
}

fn build() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build")
}

fn program(mpi: &Mpi, name: &str) -> PathBuf {
    build().join("workloads/mpi").join(format!("{name}-{}", mpi.name))
}

/// The MPIs to test with; what is missing is said.
fn installed() -> Vec<Mpi> {
    let mut found = Vec::new();
    for (name, words) in [("openmpi", &["mpirun.openmpi", "--oversubscribe"][..]), ("mpich", &["mpirun.mpich"])] {
        let mpi = Mpi { name, launcher: words.iter().map(|&word| word.to_owned()).collect() };
        let library = build().join(format!("native/libcohabit-mpi-{name}.so"));
        let starts = Command::new(words[0]).arg("--version").output().is_ok();
        match (starts, library.exists() && program(&mpi, "patterns").exists()) {
            (true, true) => found.push(mpi),
            (true, false) => println!("skipped: {name}: its library or workloads were not built (make native)"),
            (false, _) => println!("skipped: {name}: {} is not installed", words[0]),
        }
    }
    found
}

/// What Open MPI needs here: it is run as root, and its TCP component complains where an interface other than the
/// loopback cannot reach itself (Open MPI 5 in a container).
fn settle_open_mpi(command: &mut Command) -> &mut Command {
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    // More ranks and threads than processors: who waits gives way.
    command.env("OMPI_MCA_mpi_yield_when_idle", "1").env("OMPI_MCA_btl_tcp_if_include", "lo")
}

/// Runs a program on so many ranks and profiles it.
fn profile(room: &Room, mpi: &Mpi, options: &[&str], ranks: u32, program: &Path, arguments: &[&str]) -> Ran {
    let ranks = ranks.to_string();
    let mut words: Vec<&str> = vec!["profile", "-o", "p.npz"];
    words.extend(options);
    words.push("--");
    words.extend(mpi.launcher.iter().map(String::as_str));
    words.extend(["-n", &ranks, program.to_str().unwrap()]);
    words.extend(arguments);
    let mut command = room.command(words);
    settle_open_mpi(&mut command).env("MPI_EXPECT", room.path("expected"));
    Ran::of(command.output().unwrap()).without_narration()
}

#[track_caller]
fn done(ran: &Ran) {
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
}

fn found(profile: &Profile) -> Traffic {
    let entries = profile.messages.iter().map(|(source, destination, messages)| {
        let bytes = profile.bytes.get(source as usize, destination as usize);
        ((source.into(), destination.into()), (messages, bytes))
    });
    entries.collect()
}

/// What the ranks say that they sent. Tasks of the spawned world follow those of the first.
fn expected(room: &Room, first_world: u64) -> Traffic {
    let mut traffic = Traffic::new();
    for entry in std::fs::read_dir(room.path("")).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_string_lossy().starts_with("expected.") {
            continue;
        }
        for line in std::fs::read_to_string(entry.path()).unwrap().lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let task = |text: &str| match text.strip_prefix('w').and_then(|text| text.split_once(':')) {
                Some((world, rank)) => world.parse::<u64>().unwrap() * first_world + rank.parse::<u64>().unwrap(),
                None => text.parse().unwrap(),
            };
            let amount: (u64, u64) = (fields[2].parse().unwrap(), fields[3].parse().unwrap());
            let pair = traffic.entry((task(fields[0]), task(fields[1]))).or_default();
            *pair = (pair.0 + amount.0, pair.1 + amount.1);
        }
        std::fs::remove_file(entry.path()).unwrap();
    }
    traffic.retain(|_, amount| amount.0 > 0);
    traffic
}

/// Sizes and series hold as much as the matrices.
fn check_sums(profile: &Profile) {
    let (messages, bytes) = (profile.messages.total(), profile.bytes.total());
    let sizes = profile.sizes.iter().fold((0, 0), |sum, row| (sum.0 + row.messages, sum.1 + row.bytes));
    let series = profile.series.iter().fold((0, 0), |sum, row| (sum.0 + row.messages, sum.1 + row.bytes));
    assert_eq!((sizes.0.into(), sizes.1.into()), (messages, bytes), "sizes");
    assert_eq!((series.0.into(), series.1.into()), (messages, bytes), "series");
    if !profile.phases.is_empty() {
        let mut phases = BTreeMap::new();
        for PhaseRow { size, .. } in &profile.phases {
            let sum: &mut (u64, u64) = phases.entry((size.source, size.destination, size.class)).or_default();
            *sum = (sum.0 + size.messages, sum.1 + size.bytes);
        }
        let sizes =
            profile.sizes.iter().map(|row| ((row.source, row.destination, row.class), (row.messages, row.bytes)));
        assert_eq!(phases, sizes.collect(), "phases");
    }
    for row in profile.sizes.iter().filter(|row| row.class > 0) {
        let (low, high) = (row.messages << row.class, row.messages << (row.class + 1));
        assert!((low..high).contains(&row.bytes), "{row:?}");
    }
}

#[test]
fn messages_are_those_that_the_ranks_know_of() {
    for mpi in installed() {
        let list = Command::new(program(&mpi, "patterns")).arg("--list").output().unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        let known =
            ["ring", "phases", "stencil_2d", "stencil_3d", "all_to_all", "every_send", "persistent", "partitioned"];
        let known = known.iter().chain(&[
            "one_sided",
            "threads",
            "threads_at_once",
            "split",
            "duplicate",
            "intercommunicator",
            "neighbours",
        ]);
        for pattern in known.filter(|pattern| list.contains(&format!("{pattern} "))) {
            for ranks in [3, 6] {
                let room = Room::new();
                let expect = room.path("expected").to_string_lossy().into_owned();
                let arguments = [pattern, "--rounds", "5", "--expect", &expect];
                let ran = profile(&room, &mpi, &["--no-monitoring"], ranks, &program(&mpi, "patterns"), &arguments);
                if ran.status == Some(77) {
                    println!("skipped: {pattern} with {}: {}", mpi.name, ran.stdout);
                    continue;
                }
                assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{pattern}, {ranks} of {}", mpi.name);
                let profile = read_profile(&room.path("p.npz")).unwrap();
                assert_eq!(found(&profile), expected(&room, 0), "{pattern}, {ranks} ranks of {}", mpi.name);
                assert_eq!(profile.meta.coverage.exact, *pattern != "neighbours", "{pattern}");
                check_sums(&profile);
                assert!(profile.mpi_ns.iter().zip(&profile.run_ns).all(|(mpi, run)| 0 < *mpi && mpi <= run));
            }
        }
    }
}

/// The pairs of each phase, and how many bytes all of them exchanged in it.
fn phases(profile: &Profile) -> Vec<(Vec<(u32, u32)>, u64)> {
    let of = |rows: &[PhaseRow]| {
        let pairs = rows.iter().map(|row| (row.size.source, row.size.destination)).collect();
        (pairs, rows.iter().map(|row| row.size.bytes).sum())
    };
    profile.phases.chunk_by(|a, b| a.phase == b.phase).map(of).collect()
}

/// To whom a rank sends in the phase with the most bytes, in the order of their places, and who does.
fn order_of(rank: u32, profile: &Profile) -> (Vec<u32>, Vec<SentBy>) {
    let phases = profile.phases.chunk_by(|a, b| a.phase == b.phase);
    let bytes = |rows: &&[PhaseRow]| rows.iter().map(|row| row.size.bytes).sum::<u64>();
    let mut rows = phases.max_by_key(bytes).unwrap_or_default().to_vec();
    rows.retain(|row| row.size.source == rank && row.size.destination != rank);
    rows.sort_by_key(|row| row.order);
    let mut by: Vec<SentBy> = rows.iter().map(|row| row.by).collect();
    by.dedup();
    (rows.iter().map(|row| row.size.destination).collect(), by)
}

#[test]
fn all_to_alls_have_the_order_of_each_mpi() {
    use SentBy::{Collective, Program, Steps};
    for mpi in installed() {
        let is_open_mpi = mpi.name == "openmpi";
        for (pattern, elements, rank, order, by) in [
            ("alltoall", "100", 1, if is_open_mpi { &[0, 3, 2][..] } else { &[2, 3, 0] }, Collective),
            ("alltoall", "150000", 1, if is_open_mpi { &[2, 3, 0] } else { &[0, 3, 2] }, Steps),
            // Some of these are empty.
            ("alltoallv", "100", 3, &[1, 2], Collective),
            ("alltoallv", "100", 2, if is_open_mpi { &[0, 3] } else { &[3, 0] }, Collective),
            ("ring", "100", 2, &[3], Program),
        ] {
            let room = Room::new();
            let arguments = [pattern, "--rounds", "5", "--elements", elements];
            done(&profile(&room, &mpi, &["--no-monitoring"], 4, &program(&mpi, "patterns"), &arguments));
            let found = order_of(rank, &read_profile(&room.path("p.npz")).unwrap());
            assert_eq!(found, (order.to_vec(), vec![by]), "{pattern} of {elements}, rank {rank}, {}", mpi.name);
        }
    }
}

#[test]
fn what_is_sent_at_different_times_is_in_phases_of_its_own() {
    for mpi in installed() {
        let room = Room::new();
        let arguments = ["phases", "--rounds", "5"];
        done(&profile(&room, &mpi, &[], 4, &program(&mpi, "patterns"), &arguments));
        let four = phases(&read_profile(&room.path("p.npz")).unwrap());
        let next = vec![(0, 1), (1, 2), (2, 3)];
        let both = vec![(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)];
        let known = [
            (both, 30_000),
            (next, 4500),
            (vec![(0, 1), (1, 0), (2, 3), (3, 2)], 10_000),
            (vec![(0, 2), (1, 3), (2, 0), (3, 1)], 10_000),
        ];
        // What else there is, is of MPI_Init and MPI_Finalize.
        let four: Vec<_> = four.into_iter().filter(|phase| phase.1 > 1000).collect();
        assert_eq!(four, known, "{}", mpi.name);
        // Not all of six have as many partners: they are of one phase.
        done(&profile(&room, &mpi, &[], 6, &program(&mpi, "patterns"), &arguments));
        let six = phases(&read_profile(&room.path("p.npz")).unwrap());
        let bytes: Vec<u64> = six.iter().map(|phase| phase.1).filter(|&bytes| bytes > 1000).collect();
        assert_eq!(bytes, [50_000, 7500, 35_000], "{}", mpi.name);
    }
}

#[test]
fn fortran_is_seen_by_each_of_its_interfaces() {
    for mpi in installed() {
        for interface in ["mpifh", "mpi", "f08"] {
            let ring = program(&mpi, &format!("ring-{interface}"));
            if !ring.exists() {
                println!("skipped: {}: no Fortran compiler for {}", ring.display(), mpi.name);
                continue;
            }
            let room = Room::new();
            done(&profile(&room, &mpi, &["--no-monitoring"], 4, &ring, &[]));
            let by_phase = phases(&read_profile(&room.path("p.npz")).unwrap());
            let around = vec![(0, 1), (1, 2), (2, 3), (3, 0)];
            assert_eq!(by_phase, [960, 800, 32, 80].map(|bytes| (around.clone(), bytes)), "{interface}, {}", mpi.name);
            let ran = profile(&room, &mpi, &["--no-monitoring", "--hot"], 4, &ring, &[]);
            assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{interface} of {}", mpi.name);
            let profile = read_profile(&room.path("p.npz")).unwrap();
            // Three of 80 bytes, one of 200, two of 4, and 20 put.
            let known: Traffic = (0..4).map(|rank| ((rank, (rank + 1) % 4), (7, 468))).collect();
            assert_eq!(found(&profile), known, "{interface} of {}", mpi.name);
            let sites = format!("{:?}", profile.meta.sites);
            assert!(sites.contains("ring") && !sites.contains("libmpi"), "{interface} of {}: {sites}", mpi.name);
            let shown = room.run("show p.npz --hot");
            for said in ["call sites of MPI (4 of the 4 heaviest pairs", "called in  ring at "] {
                assert!(shown.stdout.contains(said), "{interface} of {}: {}", mpi.name, shown.stdout);
            }
            assert!(!shown.stdout.contains("make it again"), "{}", shown.stdout);
        }
    }
}

/// What Open MPI's monitoring says of the same program without cohabit.
fn monitored(room: &Room, mpi: &Mpi, ranks: u32, arguments: &[&str]) -> Traffic {
    let mut command = Command::new(&mpi.launcher[0]);
    command.args(&mpi.launcher[1..]).args(["-n", &ranks.to_string()]);
    let file = room.path("m").to_string_lossy().into_owned();
    for (name, value) in
        [("pml_monitoring_enable", "2"), ("pml_monitoring_enable_output", "3"), ("pml_monitoring_filename", &file)]
    {
        command.args(["--mca", name, value]);
    }
    command.arg(program(mpi, "patterns")).args(arguments);
    settle_open_mpi(&mut command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    done(&room.run("import m.0.prof -o m.npz"));
    let mut traffic = found(&read_profile(&room.path("m.npz")).unwrap());
    traffic.retain(|_, amount| amount.0 > 0);
    traffic
}

#[test]
fn collectives_of_open_mpi_are_the_messages_that_it_monitors() {
    for mpi in installed().into_iter().filter(|mpi| mpi.name == "openmpi") {
        for pattern in
            ["barrier", "bcast", "allreduce", "alltoall", "gatherv", "reduce_scatter", "ibcast", "scan", "split"]
        {
            for ranks in [4, 7] {
                let room = Room::new();
                let arguments = [pattern, "--rounds", "2"];
                let known = monitored(&room, &mpi, ranks, &arguments);
                let ran = profile(&room, &mpi, &[], ranks, &program(&mpi, "patterns"), &arguments);
                assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{pattern}");
                let profile = read_profile(&room.path("p.npz")).unwrap();
                assert_eq!(profile.meta.collectives, Some(Collectives::Monitored), "{pattern}");
                assert_eq!(found(&profile), known, "{pattern}, {ranks} ranks");
                assert!(profile.meta.coverage.exact, "{:?}", profile.meta.coverage);
                check_sums(&profile);
            }
        }
    }
}

#[test]
fn what_ranks_sent_is_kept_however_one_of_them_ends() {
    for mpi in installed() {
        for end in ["abort", "kill", "exit"] {
            let room = Room::new();
            let ran = profile(&room, &mpi, &["--no-monitoring"], 3, &program(&mpi, "ends"), &[end]);
            assert!(ran.status != Some(0), "{end} of {}", mpi.name);
            let ours = ran.said();
            let said = if end == "abort" { "called MPI_Abort; what" } else { "without MPI_Finalize" };
            assert!(ours.len() == 1 && ours[0].contains(said), "{end} of {}: {}", mpi.name, ran.stderr);
            let profile = read_profile(&room.path("p.npz")).unwrap();
            for rank in 0..3 {
                let (messages, bytes) = found(&profile)[&(rank, (rank + 1) % 3)];
                assert!(messages >= 3 && bytes >= 300, "{end} of {}: {messages} {bytes}", mpi.name);
            }
            let coverage = profile.meta.coverage;
            assert!(
                !coverage.exact && coverage.not_seen.join("; ").contains("did not reach MPI_Finalize"),
                "{coverage:?}"
            );
        }
    }
}

/// A receive for anything from anybody, posted when MPI_Finalize is called, gets nothing of ours.
#[test]
fn what_is_left_posted_gets_nothing() {
    for mpi in installed() {
        let room = Room::new();
        let ran = profile(&room, &mpi, &[], 3, &program(&mpi, "ends"), &["posted"]);
        assert_eq!((ran.status, ran.said()), (Some(0), vec![]), "{}", mpi.name);
        // MPICH's UCX says there what is left.
        assert!(!ran.stdout.contains("nobody sent"), "{}: {}", mpi.name, ran.stdout);
        let profile = read_profile(&room.path("p.npz")).unwrap();
        assert!((0..3).all(|rank| found(&profile)[&(rank, (rank + 1) % 3)].0 >= 3), "{}", mpi.name);
    }
}

/// A rank on another host finds no file of cohabit's beside its part, and takes that where the hosts share a folder.
#[test]
fn parts_of_other_hosts_go_where_they_are_read() {
    for mpi in installed() {
        let room = Room::new();
        let library = build().join(format!("native/libcohabit-mpi-{}.so", mpi.name));
        let parts = |name: &str| {
            let entries = std::fs::read_dir(room.path(name)).map(|entries| entries.map(|entry| entry.unwrap().path()));
            entries.map_or(0, |entries| entries.filter(|path| path.extension() == Some("mpi-part".as_ref())).count())
        };
        room.file("here", "");
        std::fs::create_dir(room.path("shared")).unwrap();
        for (folder, here, shared, counts, said) in [
            ("first", "here", "shared", (3, 0), 0),
            ("second", "nowhere", "shared", (0, 3), 0),
            ("third", "nowhere", "unseen", (3, 3), 1),
        ] {
            let mut command = Command::new(&mpi.launcher[0]);
            command.args(&mpi.launcher[1..]).args(["-n", "3", "env"]).arg(format!("LD_PRELOAD={}", library.display()));
            for (name, value) in [("PARTS", folder), ("HERE", here), ("SHARED", shared)] {
                command.arg(format!("COHABIT_MPI_{name}={}", room.path(value).display()));
            }
            command.arg(program(&mpi, "patterns")).arg("ring");
            let ran = Ran::of(settle_open_mpi(&mut command).output().unwrap());
            assert_eq!((ran.status, ran.said().len()), (Some(0), said), "{folder}: {}", ran.stderr);
            assert_eq!((parts(folder), parts("shared")), counts, "{folder}");
        }
        for folder in ["shared", "third"] {
            done(&room.run(&format!("import {folder} -o p.npz")));
            assert_eq!(found(&read_profile(&room.path("p.npz")).unwrap()).len(), 3, "{folder}");
        }
    }
}

#[test]
fn what_cannot_be_observed_is_said_in_a_line() {
    let room = Room::new();
    room.run("profile -- no-such-dir/mpirun -n 2 true").assert_fails(127, "cannot run no-such-dir/mpirun");
    room.run("profile --sharing -- mpirun -n 2 true").assert_fails(125, "--sharing is about memory");
    room.run("profile --detector mpi -- true").assert_fails(126, "linked with none that is known");
    for mpi in installed() {
        let ran = profile(&room, &mpi, &[], 2, Path::new("true"), &[]);
        assert_eq!(ran.status, Some(125), "{}", ran.stderr);
        assert!(ran.stderr.contains("no MPI rank was observed"), "{}", ran.stderr);
        // The other MPI's library: the program runs on, unobserved.
        let other = if mpi.name == "openmpi" { "mpich" } else { "openmpi" };
        let library = build().join(format!("native/libcohabit-mpi-{other}.so"));
        if !library.exists() {
            println!("skipped: {} was not built", library.display());
            continue;
        }
        let mut command = room.command(["profile", "--detector", "mpi", "--"]);
        command.args(&mpi.launcher).args(["-n", "2"]).arg(program(&mpi, "patterns")).arg("ring");
        command.env("COHABIT_MPI_LIBRARY", &library);
        let ran = Ran::of(settle_open_mpi(&mut command).output().unwrap());
        assert_eq!(ran.status, Some(125), "{}", ran.stderr);
        assert!(ran.stderr.contains("the library preloaded is for"), "{}", ran.stderr);
    }
}

#[test]
fn parts_are_joined_by_import() {
    for mpi in installed() {
        let room = Room::new();
        let parts = room.path("parts");
        let library = build().join(format!("native/libcohabit-mpi-{}.so", mpi.name));
        let mut command = Command::new(&mpi.launcher[0]);
        command.args(&mpi.launcher[1..]).args(["-n", "3"]);
        // As a site's own script would: without cohabit, and without a place to gather.
        command.arg("env").arg(format!("LD_PRELOAD={}", library.display()));
        command.arg(format!("COHABIT_MPI_PARTS={}", parts.display()));
        command.arg(program(&mpi, "patterns")).args(["ring", "--rounds", "4"]);
        settle_open_mpi(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read_dir(&parts).unwrap().count(), 3);
        done(&room.run("import parts -o p.npz"));
        let known: Traffic = (0..3).map(|rank| ((rank, (rank + 1) % 3), (4, 4000))).collect();
        assert_eq!(found(&read_profile(&room.path("p.npz")).unwrap()), known);
        // A part cut short, one of nothing, and one of something else.
        let any = std::fs::read_dir(&parts).unwrap().next().unwrap().unwrap().path();
        let bytes = std::fs::read(&any).unwrap();
        for (length, cause) in [(0, "before anything was known"), (2000, "is damaged"), (7000, "is damaged")] {
            std::fs::write(&any, &bytes[..length]).unwrap();
            done(&room.run("import parts -o p.npz"));
            let coverage = read_profile(&room.path("p.npz")).unwrap().meta.coverage;
            assert!(coverage.not_seen.join("; ").contains(cause), "{length}: {coverage:?}");
        }
        std::fs::write(&any, "something else").unwrap();
        room.run("import parts -o p.npz").assert_fails(1, "no part of an MPI rank");
    }
}

/// Threads of ranks: memory within a rank, a file that ranks have mapped, and messages, all in bytes; MPI's own
/// transport through shared memory counts for nothing beside.
#[test]
fn ranks_and_their_threads_are_in_one_profile() {
    const RANKS: u32 = 3;
    if !build().join("native/libcohabit_dbi.so").exists() {
        println!("skipped: the profiler was not built (make native)");
        return;
    }
    for mpi in installed() {
        let program = program(&mpi, "hybrid");
        if !program.exists() {
            println!("skipped: {}: its workloads were not built (make native)", mpi.name);
            continue;
        }
        for all in [false, true] {
            let room = Room::new();
            let file = room.path("shared");
            let (threads, rounds, sent): (u32, u32, u32) = (3, 5, 100_000);
            let numbers = [threads, rounds, sent].map(|number| number.to_string());
            let mut arguments = vec![file.to_str().unwrap(), &numbers[0], &numbers[1], &numbers[2]];
            arguments.extend(all.then_some("all"));
            let mut words = vec!["--detector", "dbi,mpi"];
            words.extend(if mpi.name == "openmpi" { &["--no-monitoring"][..] } else { &[] });
            let ran = profile(&room, &mpi, &words, RANKS, &program, &arguments);
            if ran.status == Some(77) {
                println!("skipped: {}: no MPI_THREAD_MULTIPLE", mpi.name);
                continue;
            }
            done(&ran);
            let profile = read_profile(&room.path("p.npz")).unwrap();
            let who: Vec<_> = profile.meta.tasks.iter().map(|task| task.rank).collect();
            let expected: Vec<_> = (0..RANKS).flat_map(|rank| [Some(rank); 3]).collect();
            assert_eq!(who, expected, "{}", mpi.name);
            let first = |rank: u32| u64::from(rank % RANKS * threads);
            let mut known = BTreeMap::new();
            for rank in 0..RANKS {
                known.insert((first(rank), first(rank + 1)), u64::from(rounds * sent));
                known.insert((first(rank + 1), first(rank)), u64::from(rounds * 8));
                for thread in (1..threads).filter(|_| all) {
                    // Who sends is known, and who receives is not.
                    known.insert((first(rank) + u64::from(thread), first(rank + 1)), u64::from(rounds * sent));
                }
                for thread in 0..threads {
                    let (source, destination) = (u64::from((thread + 1) % threads), u64::from(thread));
                    known.insert((first(rank) + source, first(rank) + destination), u64::from(rounds * 4 * 8));
                }
            }
            // A barrier is empty messages; MPICH's, within a node, also a byte from rank 0 to each other.
            let barriers = u64::from(2 * rounds + 2);
            for rank in (1..RANKS).filter(|_| mpi.name == "mpich") {
                *known.entry((0, first(rank))).or_default() += barriers;
            }
            let found =
                profile.bytes.iter().map(|(source, destination, bytes)| ((source.into(), destination.into()), bytes));
            assert_eq!(found.collect::<BTreeMap<_, _>>(), known, "{}", mpi.name);
            let message = u64::from(rounds) * u64::from(sent).div_ceil(64) + barriers;
            assert_eq!(profile.messages.get(first(1) as usize, first(2) as usize), message, "{}", mpi.name);
            let mut map = room.command(["map", "p.npz", "--topology", "pack:3 core:3 pu:1", "-o", "m.json"]);
            let ran = Ran::of(map.args(["--weight", "bytes", "--export", "open-mpi-4=ranks"]).output().unwrap());
            assert_eq!(ran.status, Some(0), "{}", ran.stderr);
            let ranks = std::fs::read_to_string(room.path("ranks")).unwrap();
            assert_eq!(ranks.lines().filter(|line| line.split(',').count() == 3).count(), 3, "{ranks}");
        }
    }
}
