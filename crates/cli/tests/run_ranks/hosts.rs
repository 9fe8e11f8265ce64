//! Ranks over several hosts: those of the emulated cluster.

use super::common::cluster::{Cluster, is_late, until_it_ends};
use super::common::slurm::{Slurm, TOPOLOGY};
use super::common::{Ran, Room};
use super::{Mpi, document, hybrid_mapping, installed, printed, printing, profile};
use std::process::Command;

/// Runs it, again where it did not end. None, said aloud, where it never ended and `alone`, the same ranks without
/// cohabit, does not always end either.
fn over_hosts(test: &str, command: &mut Command, alone: &mut Command) -> Option<Ran> {
    let ran = until_it_ends(command);
    if !is_late(&ran) {
        return Some(ran);
    }
    let stuck = (0..5).any(|_| is_late(&Ran::of(alone.output().unwrap())));
    assert!(stuck, "{test}: the launcher does not end, and without cohabit it does");
    println!("skipped: {test}: this MPI does not leave MPI_Finalize over several hosts, without cohabit too");
    None
}

#[test]
fn ranks_go_to_the_hosts_of_a_cluster() {
    let installed = installed();
    let Some(cluster) = (!installed.is_empty()).then(|| Cluster::create("ranks over hosts")).flatten() else { return };
    let topology = cluster.folder().join("cluster.toml");
    for mpi in installed {
        let room = Room::new();
        // Neighbours by number have nothing to do with one another.
        profile(&room, 6, &[(0, 3), (1, 4), (2, 5)]);
        for hosts in [&[][..], &["--host", "n6:2,n1:2,n2:2"], &["--hostfile", "hosts"]] {
            let hostfile =
                if mpi.name == "mpich" { "n6:2\nn1:2\nn2:2\n" } else { "n6 slots=2\nn1 slots=2\nn2 slots=2\n" };
            room.file("hosts", hostfile);
            let mut command = cluster.on("n0");
            command.args(["timeout", "-s", "KILL", "5"]).arg(env!("CARGO_BIN_EXE_cohabit")).args([
                "run",
                "--json",
                "ran.json",
                "--profile",
                "p.npz",
                "--topology",
            ]);
            command.arg(&topology).arg("--").arg(mpi.launcher[0]).args(hosts).args(["-n", "6"]);
            command.arg(mpi.program("patterns")).args(["ring", "--rounds", "5"]).current_dir(room.path(""));
            let mut alone = cluster.on("n0");
            alone.args(["timeout", "-s", "KILL", "5", mpi.launcher[0]]);
            alone.args(if mpi.name == "mpich" { ["-f", "hosts"] } else { ["--hostfile", "hosts"] });
            alone.args(["-n", "6"]).arg(mpi.program("patterns")).args(["ring", "--rounds", "5"]);
            alone.current_dir(room.path(""));
            let Some(ran) = over_hosts("ranks over hosts", &mut command, &mut alone) else { return };
            let ours = ran.stderr.lines().filter(|line| line.starts_with("cohabit")).collect::<Vec<_>>();
            assert!(ran.status == Some(0) && ours.is_empty(), "{} {hosts:?}: {}", mpi.name, ran.stderr);
            let document = document(&room);
            let ranks = document["ranks"].as_array().unwrap();
            assert_eq!(ranks.len(), 6);
            let host = |rank: usize| ranks[rank]["host"].as_str().unwrap();
            for rank in 0..6 {
                assert_eq!(ranks[rank]["host"], ranks[rank]["expected_host"]);
                assert_eq!(ranks[rank]["affinity"], ranks[rank]["expected_affinity"]);
                assert_eq!(host(rank), host((rank + 3) % 6), "a pair shares a host: {ranks:?}");
                assert!(hosts.is_empty() || ["n1", "n2", "n6"].contains(&host(rank)), "{hosts:?}: {ranks:?}");
            }
        }
    }
}

#[test]
fn threads_of_ranks_go_to_the_hosts_of_a_cluster() {
    let Some(mpi) = installed().into_iter().find(|mpi| mpi.name == "openmpi") else { return };
    let Some(program) = printing(&mpi) else { return };
    let Some(cluster) = Cluster::create("threads of ranks over hosts") else { return };
    let topology = cluster.folder().join("cluster.toml");
    let room = Room::new();
    let places = ["n3:1", "n3:0", "n1:0", "n1:1", "n6:1", "n6:0"].map(str::to_owned);
    hybrid_mapping(&room, topology.to_str().unwrap(), &places);
    let mut command = cluster.on("n0");
    command.args(["timeout", "-s", "KILL", "60"]).arg(env!("CARGO_BIN_EXE_cohabit"));
    command.args(["run", "--json", "ran.json", "--mapping", "m.json", "--", mpi.launcher[0], "-n", "3"]);
    let ran = Ran::of(command.arg(program).arg("2").current_dir(room.path("")).output().unwrap());
    let ours = ran.stderr.lines().filter(|line| line.starts_with("cohabit")).collect::<Vec<_>>();
    assert!(ran.status == Some(0) && ours.is_empty(), "{}", ran.stderr);
    let on = places.iter().map(|place| place.split_once(':').unwrap());
    let found: Vec<String> = printed(&ran).into_iter().map(|(_, pus)| pus).collect();
    assert_eq!(found, on.clone().map(|(_, pu)| pu).collect::<Vec<_>>());
    let document = document(&room);
    let hosts = document["ranks"].as_array().unwrap().iter().map(|rank| rank["host"].as_str().unwrap());
    assert_eq!(hosts.collect::<Vec<_>>(), on.step_by(2).map(|(host, _)| host).collect::<Vec<_>>());
    assert_eq!(document["ranks"][0]["threads"], serde_json::json!([[1], [0]]));
}

#[test]
fn srun_puts_ranks_on_hosts_and_pus() {
    const TEST: &str = "srun on the emulated cluster";
    let installed = installed();
    let Some(cluster) = (!installed.is_empty()).then(|| Cluster::create(TEST)).flatten() else { return };
    let room = Room::new();
    let Some(slurm) = Slurm::start(&cluster, &room.path("slurm"), TEST) else { return };
    profile(&room, 6, &[(0, 3), (1, 4), (2, 5)]);
    room.file("cluster.toml", TOPOLOGY);
    let srun = |mpi: &Mpi, words: &[&str], cohabit: bool| {
        let mut command = slurm.within(&cluster, "n0", 30);
        if cohabit {
            command.arg(env!("CARGO_BIN_EXE_cohabit")).args(["run", "--json", "ran.json", "--profile", "p.npz"]);
            command.args(["--topology", "cluster.toml", "--"]);
        }
        command.arg("srun").args(words).args(["-n", "6"]).arg(mpi.program("patterns"));
        command.args(["ring", "--rounds", "5"]).current_dir(room.path(""));
        command
    };
    for mpi in &installed {
        let kind = if mpi.name == "mpich" { "--mpi=pmi2" } else { "--mpi=pmix" };
        let (mut command, mut alone) = (srun(mpi, &[kind], true), srun(mpi, &[kind], false));
        if mpi.name == "openmpi" && until_it_ends(&mut alone).status != Some(0) {
            println!("skipped: {TEST}: ranks of Open MPI: this Slurm has no --mpi=pmix, or it does not work");
            continue;
        }
        let Some(ran) = over_hosts(TEST, &mut command, &mut alone) else { continue };
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{}", mpi.name);
        let document = document(&room);
        let launched = document["launched"].as_array().unwrap();
        let said = (&launched[1], &launched[2]);
        assert_eq!(said, (&"--distribution=arbitrary".into(), &"--cpu-bind=map_cpu:0,1".into()), "{}", mpi.name);
        let ranks = document["ranks"].as_array().unwrap();
        assert_eq!(ranks.len(), 6);
        for (rank, seen) in ranks.iter().enumerate() {
            assert_eq!((&seen["host"], &seen["affinity"]), (&seen["expected_host"], &seen["expected_affinity"]));
            assert_eq!(seen["host"], ranks[(rank + 3) % 6]["host"], "a pair shares a host: {ranks:?}");
        }
        if mpi.name == "openmpi" {
            // What they need is said where it is missing.
            let ran = Ran::of(srun(mpi, &["--mpi=none"], true).output().unwrap());
            let ours: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("cohabit: ")).collect();
            assert!(ran.status != Some(0) && ours.len() == 1, "{}", ran.stderr);
            assert!(ours[0].contains("srun starts ranks of Open MPI with --mpi=pmix"), "{ours:?}");
        }
    }
}
