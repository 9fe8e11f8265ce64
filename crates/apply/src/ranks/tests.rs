//! What each launcher is told, word for word.

use super::{Expected, Given, Host, RankLaunch, Seen, differences};
use crate::export::Placement;
use cohabit_model::launcher::Launcher;
use cohabit_model::mapping::{Cost, FORMAT, Placed, Weight};
use cohabit_model::{Mapping, Matrix, Topology};
use std::ffi::OsString;

fn mapping(places: &[(&str, u32)]) -> Mapping {
    let placed = |(task, &(host, pu)): (u32, &(&str, u32))| Placed {
        task,
        name: String::new(),
        host: host.to_owned(),
        process: task,
        rank: Some(task),
        spawn_index: 0,
        parent: None,
        pu,
        pus: String::new(),
        unknown: Default::default(),
    };
    Mapping {
        format: FORMAT,
        mapper: "test".into(),
        seed: 0,
        weight: Weight::Bytes,
        objective: "distance".into(),
        level_costs: Vec::new(),
        topology: String::new(),
        programs: Vec::new(),
        no_gain: None,
        tasks: (0..).zip(places).map(placed).collect(),
        cost: Cost::default(),
        phases: None,
        unknown: Default::default(),
    }
}

fn launched(launcher: (Launcher, u32), line: &str, places: &[(&str, u32)]) -> cohabit_model::Result<RankLaunch> {
    launched_by(launcher, line, &mapping(places))
}

fn launched_by(launcher: (Launcher, u32), line: &str, mapping: &Mapping) -> cohabit_model::Result<RankLaunch> {
    let topology = Topology::load("core:4 pu:1").unwrap();
    let weight = Matrix::zero(mapping.tasks.len());
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let given = Given::read(launcher.0, &words, |_| None)?;
    RankLaunch::new(launcher, &words, &given, &Placement::new(mapping, &topology, &weight)?)
}

/// The command with FOLDER in the place of the folder of its files.
fn words(launch: &RankLaunch) -> String {
    let line = launch.command.join(std::ffi::OsStr::new(" ")).into_string().unwrap();
    line.replace(launch.folder().to_str().unwrap(), "FOLDER")
}

#[test]
fn each_launcher_is_told_in_its_own_words() {
    let (open_mpi, hydra, srun) = (Launcher::OpenMpi, Launcher::Hydra, Launcher::Srun);
    let here = [("", 1), ("", 0)];
    let hosts = [("b", 1), ("a", 1), ("b", 0)];
    for (launcher, line, places, expected) in [
        (
            (open_mpi, 4),
            "mpirun -n 2 true",
            &here[..],
            "mpirun --mca rmaps_rank_file_physical 1 --use-hwthread-cpus --rankfile FOLDER/open_mpi_4 -n 2 true",
        ),
        (
            (open_mpi, 5),
            "mpirun true",
            &here,
            "mpirun --host localhost:2 --map-by rankfile:file=FOLDER/open_mpi_5:hwtcpus -n 2 true",
        ),
        (
            (open_mpi, 5),
            "mpirun -n 2 true",
            &[("", 1), ("", 1)],
            "mpirun --host localhost:2 --map-by rankfile:file=FOLDER/open_mpi_5:hwtcpus --bind-to hwthread:overload-allowed -n 2 true",
        ),
        (
            (open_mpi, 5),
            "mpirun -n 3 true",
            &hosts,
            "mpirun --host b:2,a:1 --map-by rankfile:file=FOLDER/open_mpi_5:hwtcpus -n 3 true",
        ),
        (
            (open_mpi, 5),
            "mpirun --host a:4,b:4 -n 3 true",
            &hosts,
            "mpirun --map-by rankfile:file=FOLDER/open_mpi_5:hwtcpus --host a:4,b:4 -n 3 true",
        ),
        ((hydra, 4), "mpiexec -n 2 true", &here, "mpiexec -bind-to user:1,0 -n 2 true"),
        ((hydra, 4), "mpiexec -hosts a,b -n 3 true", &hosts, "mpiexec -f FOLDER/mpich_hosts -n 3 true"),
        ((srun, 22), "srun -n2 true", &here, "srun --cpu-bind=map_cpu:1,0 -n2 true"),
        ((srun, 22), "srun -n 3 true", &hosts, "srun --distribution=arbitrary --cpu-bind=map_cpu:1,0 -n 3 true"),
    ] {
        if ["SLURM_JOB_ID", "PBS_NODEFILE"].iter().any(|name| std::env::var_os(name).is_some()) {
            println!("skipped: words for launchers: this is a job of a resource manager, which names the hosts");
            return;
        }
        let launch = launched(launcher, line, places).unwrap();
        assert_eq!(words(&launch), expected);
        assert_eq!(launch.notes, Vec::<String>::new());
        assert_eq!(launch.expected[0].pus, Some(vec![1]));
        assert_eq!(launch.expected[0].host.as_deref(), (places.len() == 3).then_some("b"));
        let hosted = launch.variables.iter().any(|(name, _)| name == "SLURM_HOSTFILE");
        assert_eq!(hosted, launcher.0 == srun && places.len() == 3);
    }
}

#[test]
fn a_rank_may_use_all_that_serves_it_as_well_where_some_of_it_stays_idle() {
    let (open_mpi, hydra, srun) = (Launcher::OpenMpi, Launcher::Hydra, Launcher::Srun);
    // Two ranks may use any of four PUs; two more that may use two of them leave none idle there.
    let mut spare = mapping(&[("", 1), ("", 0)]);
    spare.tasks.iter_mut().for_each(|task| task.pus = "0-3".into());
    let mut full = mapping(&[("", 1), ("", 0)]);
    full.tasks.iter_mut().for_each(|task| task.pus = "0-1".into());
    for (mapping, slots, user, cpus, pus) in [
        (
            &spare,
            "rank 0=localhost slot=0,1,2,3\nrank 1=localhost slot=0,1,2,3\n",
            "0+1+2+3,0+1+2+3",
            "mask_cpu:0xf,0xf",
            vec![0, 1, 2, 3],
        ),
        (&full, "rank 0=localhost slot=1\nrank 1=localhost slot=0\n", "1,0", "map_cpu:1,0", vec![1]),
    ] {
        let launch = launched_by((open_mpi, 4), "mpirun -n 2 true", mapping).unwrap();
        assert_eq!(std::fs::read_to_string(launch.folder().join("open_mpi_4")).unwrap(), slots);
        assert_eq!(launch.expected[0].pus.as_ref(), Some(&pus));
        let launch = launched_by((hydra, 4), "mpiexec -n 2 true", mapping).unwrap();
        assert_eq!(words(&launch), format!("mpiexec -bind-to user:{user} -n 2 true"));
        let launch = launched_by((srun, 22), "srun -n2 true", mapping).unwrap();
        assert_eq!(words(&launch), format!("srun --cpu-bind={cpus} -n2 true"));
        assert_eq!(launch.expected[0].pus.as_ref(), Some(&pus));
    }
    // Open MPI 5 wants to be asked before two ranks share PUs.
    let launch = launched_by((open_mpi, 5), "mpirun -n 2 true", &spare).unwrap();
    assert!(words(&launch).contains("--bind-to hwthread:overload-allowed"));
    // One host has a PU to spare and the other has none: Slurm tells both the same, a PU each.
    let mut uneven = mapping(&[("a", 0), ("b", 0), ("b", 1)]);
    uneven.tasks.iter_mut().for_each(|task| task.pus = "0-1".into());
    let launch = launched_by((srun, 22), "srun -n 3 true", &uneven).unwrap();
    assert_eq!(words(&launch), "srun --distribution=arbitrary --cpu-bind=map_cpu:0,1 -n 3 true");
    assert_eq!(launch.expected.iter().map(|one| one.pus.clone().unwrap()).collect::<Vec<_>>(), [[0], [0], [1]]);
    assert_eq!(launch.notes, Vec::<String>::new());
    // What is no list with the rank's PU comes from no mapping of ours.
    uneven.tasks[0].pus = "2-3".into();
    let error = launched_by((srun, 22), "srun -n 3 true", &uneven).unwrap_err();
    assert!(error.cause.contains("are no list with its PU 0"), "{error}");
}

#[test]
fn what_a_launcher_cannot_be_told_is_said() {
    let launch = launched((Launcher::Srun, 22), "srun -n 2 true", &[("a", 1), ("b", 0)]).unwrap();
    assert!(launch.notes[0].contains("not bound there: slurm-mask-cpu gives"), "{:?}", launch.notes);
    assert_eq!(launch.expected[1], Expected { host: Some("b".into()), pus: None, threads: vec![] });
    let error = launched((Launcher::OpenMpi, 4), "mpirun -n 3 true", &[("", 1), ("", 0)]).unwrap_err();
    assert_eq!(error.cause, "the mapping has 2 ranks, and the command starts 3");
    let error = launched((Launcher::OpenMpi, 4), "mpirun -n 3 true", &[("", 1)]).unwrap_err();
    assert_eq!(error.cause, "the mapping has 1 rank, and the command starts 3");
}

#[test]
fn ranks_that_are_elsewhere_are_told() {
    let expected = |host: Option<&str>, pus: &[u32]| Expected {
        host: host.map(str::to_owned),
        pus: Some(pus.to_vec()),
        threads: vec![],
    };
    let seen = |rank, host: &str, affinity: &[u32]| Seen {
        rank,
        host: host.to_owned(),
        affinity: affinity.to_vec(),
        threads: vec![],
    };
    let wanted = [expected(Some("a"), &[1]), expected(None, &[0, 1]), expected(Some("b"), &[2])];
    let found = [seen(0, "a.example.org", &[1]), seen(1, "c", &[0, 1])];
    let lines: Vec<String> = differences(&wanted, &found).iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["rank 2 was to be on b PU 2, and nothing was seen of it"]);
    let found = [seen(0, "b", &[1]), seen(1, "c", &[1]), seen(2, "b", &[2])];
    let lines: Vec<String> = differences(&wanted, &found).iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["rank 0 was to be on a PU 1, and is on b PU 1", "rank 1 was to be on PUs 0-1, and is on PU 1"]);
}

#[test]
fn threads_that_are_elsewhere_are_told() {
    let expected = |threads: &[u32]| Expected { host: None, pus: None, threads: threads.to_vec() };
    let on = |pus: &[u32]| Some(pus.to_vec());
    for (threads, seen, said) in [
        (vec![1, 0], vec![on(&[1]), on(&[0])], None),
        (vec![1, 0], vec![on(&[1]), on(&[0, 1])], Some("thread 1 of rank 0 was to be on PU 0, and is on PUs 0-1")),
        (vec![1, 0], vec![on(&[0]), on(&[1])], Some("thread 0 of rank 0 was to be on PU 1, and is on PU 0")),
        (vec![1, 0, 2], vec![None; 3], Some("rank 0 started 1 of the 3 threads that the mapping has")),
        (vec![1, 0, 2], vec![on(&[1]), on(&[0]), None], Some("rank 0 started 2 of the 3 threads that the mapping has")),
        (vec![1, 0], vec![], Some("the 2 threads of rank 0 were not placed")),
        (vec![], vec![], None),
    ] {
        let seen = Seen { rank: 0, host: String::new(), affinity: vec![], threads: seen };
        let found = super::threads_elsewhere(&[expected(&threads)], std::slice::from_ref(&seen));
        assert_eq!(found, Vec::from_iter(said), "{threads:?} {seen:?}");
    }
}

#[test]
fn hosts_of_a_command_are_read() {
    let words: Vec<OsString> = ["mpirun", "-H", "a,a", "true"].map(OsString::from).into();
    let given = Given::read(Launcher::OpenMpi, &words, |_| None).unwrap();
    assert_eq!(given.hosts.unwrap(), vec![Host { name: "a".into(), slots: Some(1) }; 2]);
}
