//! Each launcher with our file: programs that print their own affinity (workloads/placement) must be where the mapping
//! says. What is not installed is skipped aloud. Eight PUs, and numbers that differ from hwloc's, are in scripts/guest.

mod slurm;

use cohabit_apply::{Placement, exporter};
use cohabit_host::CpuMask;
use cohabit_model::mapping::{Cost, FORMAT, Placed, Weight};
use cohabit_model::{Mapping, Matrix, Topology};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A folder with the compiled programs and the exported files, and a PATH that begins with it.
struct Room {
    folder: TempDir,
    pus: Vec<u32>,
}

/// What the tasks are.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Threads,
    Ranks,
}

impl Room {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), pus: CpuMask::of_thread(0).unwrap().pus() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The PU of a task: never the one it would get by counting.
    fn pu(&self, task: usize) -> u32 {
        self.pus[(task * 3 + 1 + task / self.pus.len()) % self.pus.len()]
    }

    /// What the programs should print.
    fn expected(&self, tasks: usize) -> String {
        (0..tasks).map(|task| format!("{task} {}\n", self.pu(task))).collect()
    }

    /// Compiles a program of workloads/placement; none, said aloud, where the compiler is missing or cannot.
    fn program(&self, compiler: &str, source: &str, flags: &[&str], test: &str) -> Option<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/placement");
        let program = self.path(source);
        let built = Command::new(compiler)
            .args(flags)
            .arg("-pthread")
            .arg("-o")
            .arg(&program)
            .arg(folder.join(source).with_extension("c"))
            .output();
        match built {
            Ok(output) if output.status.success() => Some(program),
            Ok(output) => skip(
                test,
                &format!("{compiler}: {}", String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("")),
            ),
            Err(_) => skip(test, &format!("no {compiler} here")),
        }
    }

    fn mapping(&self, kind: Kind, hosts: &[&str]) -> Mapping {
        let placed = |(id, host): (u32, &&str)| Placed {
            task: id,
            name: String::new(),
            host: (*host).into(),
            process: if kind == Kind::Ranks { id } else { 0 },
            rank: (kind == Kind::Ranks).then_some(id),
            spawn_index: if kind == Kind::Ranks { 0 } else { id },
            parent: None,
            pu: self.pu(id as usize),
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
            tasks: (0..).zip(hosts).map(placed).collect(),
            cost: Cost::default(),
            phases: None,
            unknown: Default::default(),
        }
    }

    /// Writes the format's file.
    fn export(&self, format: &str, mapping: &Mapping) {
        let (topology, weight) = (Topology::load("live").unwrap(), Matrix::zero(mapping.tasks.len()));
        let text = exporter(format).unwrap().export(&Placement::new(mapping, &topology, &weight).unwrap()).unwrap();
        std::fs::write(self.path(&file(format)), text).unwrap();
    }

    /// A shell command in the folder.
    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "120", "sh", "-c", line]).current_dir(self.folder.path()).stdin(Stdio::null());
        // Open MPI refuses root unless told twice, and looks for a way to other hosts even where it needs none.
        for (name, value) in [
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("OMPI_MCA_plm_rsh_agent", "sh"),
            ("PRTE_MCA_plm_ssh_agent", "sh"),
            ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ] {
            command.env(name, value);
        }
        for name in
            ["OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_NUM_THREADS", "SLURM_CONF"]
        {
            command.env_remove(name);
        }
        command
    }

    /// What the command's tasks print, ordered by task.
    #[track_caller]
    fn seen(&self, line: &str) -> String {
        let output = self.shell(line).output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line}: {}\n{stdout}{stderr}", output.status);
        sorted(&stdout)
    }

    /// The usage that the format's own table row tells, with our file, number and program.
    fn usage(&self, format: &str, launcher: (&str, &str), tasks: usize, program: &Path) -> String {
        let usage = exporter(format).unwrap().usage().split("; for threads").next().unwrap();
        let words = usage
            .replace("HOSTFILE", "HOST\0")
            .replace("FILE", &file(format))
            .replace('\0', "FILE")
            .replace(launcher.0, launcher.1);
        words
            .replace("-n N", &format!("-n {tasks}"))
            .replace(":N", &format!(":{tasks}"))
            .replace("CMD", program.to_str().unwrap())
    }
}

/// The name of a format's file: without a hyphen, which Open MPI 5.0.7 refuses.
fn file(format: &str) -> String {
    format.replace('-', "_")
}

/// Lines that begin with a task's number, by that number.
fn sorted(lines: &str) -> String {
    let number = |line: &&str| line.split(' ').next().and_then(|word| word.parse::<u32>().ok());
    let mut lines: Vec<&str> = lines.lines().filter(|line| number(line).is_some()).collect();
    lines.sort_by_key(number);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn skip<T>(test: &str, reason: &str) -> Option<T> {
    println!("skipped: {test}: {reason}");
    None
}

/// What a program says of its version, where it is there.
fn version(program: &str) -> Option<String> {
    version_of(program, "--version")
}

fn version_of(program: &str, option: &str) -> Option<String> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).arg(option).env("PATH", path).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some(text)
}

/// The first of these programs that says it is `what`.
fn launcher(names: &[&'static str], what: &str, test: &str) -> Option<&'static str> {
    let found = names.iter().find(|name| version(name).is_some_and(|text| text.contains(what)));
    found.copied().or_else(|| skip(test, &format!("no {} of {what} here", names[0])))
}

/// The format for the Open MPI that is here, and its mpirun.
fn open_mpi(test: &str) -> Option<(&'static str, &'static str)> {
    let mpirun = launcher(&["mpirun", "mpirun.openmpi"], "Open", test)?;
    let version = version(mpirun)?;
    let format = if version.contains(" 4.") || version.contains(") 4.") { "open-mpi-4" } else { "open-mpi-5" };
    Some((format, mpirun))
}

#[test]
fn open_mpi_ranks() {
    let room = Room::new();
    let Some((format, mpirun)) = open_mpi("Open MPI's rankfile") else { return };
    let Some(program) = room.program(&mpirun.replace("run", "cc"), "mpi", &[], "Open MPI's rankfile") else { return };
    let tasks = room.pus.len().min(8);
    room.export(format, &room.mapping(Kind::Ranks, &vec![""; tasks]));
    let line = room.usage(format, ("mpirun", mpirun), tasks, &program);
    assert_eq!(room.seen(&line), room.expected(tasks), "{line}");
}

#[test]
fn mpich_ranks() {
    let room = Room::new();
    let Some(mpiexec) = launcher(&["mpiexec.mpich", "mpiexec"], "HYDRA", "MPICH's binding") else { return };
    let Some(program) = room.program(&mpiexec.replace("exec", "cc"), "mpi", &[], "MPICH's binding") else { return };
    let tasks = room.pus.len() + 1;
    room.export("mpich-binding", &room.mapping(Kind::Ranks, &vec![""; tasks]));
    let line = room.usage("mpich-binding", ("mpiexec", mpiexec), tasks, &program);
    assert_eq!(room.seen(&line), room.expected(tasks), "{line}");
}

#[test]
fn mpich_hosts() {
    let room = Room::new();
    let Some(mpiexec) = launcher(&["mpiexec.mpich", "mpiexec"], "HYDRA", "MPICH's machinefile") else { return };
    // In the place of ssh: what is to run on a host runs here and knows that host's name.
    let ssh =
        "#!/bin/sh\nwhile [ \"$1\" != a ] && [ \"$1\" != b ]; do shift; done\nexport ON=$1; shift\nexec sh -c \"$*\"\n";
    std::fs::write(room.path("ssh"), ssh).unwrap();
    let hosts = ["b", "a", "a", "b"];
    room.export("mpich-hosts", &room.mapping(Kind::Ranks, &hosts));
    let line = room.usage("mpich-hosts", ("mpiexec", mpiexec), hosts.len(), Path::new("sh -c 'echo $PMI_RANK $ON'"));
    let line =
        line.replace(" -n ", &format!(" -iface lo -launcher ssh -launcher-exec {} -n ", room.path("ssh").display()));
    executable(&room.path("ssh"));
    assert_eq!(room.seen(&line), "0 b\n1 a\n2 a\n3 b\n", "{line}");
    let Some(program) = room.program("cc", "rank", &[], "the PUs of MPICH's machinefile") else { return };
    let line = line.replace("sh -c 'echo $PMI_RANK $ON'", program.to_str().unwrap());
    assert_eq!(room.seen(&line), room.expected(4), "{line}");
}

fn executable(path: &Path) {
    set_mode(path, 0o755);
}

fn private(path: &Path) {
    set_mode(path, 0o600);
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A script between the launcher and the program.
fn ranks_under_a_launcher(format: &str, tool: &str) {
    let room = Room::new();
    if version(tool).is_none() {
        return skip(format, &format!("no {tool} here")).unwrap_or(());
    }
    let Some(program) = room.program("cc", "rank", &[], format) else { return };
    let tasks = room.pus.len() + 1;
    room.export(format, &room.mapping(Kind::Ranks, &vec![""; tasks]));
    let with_open_mpi = open_mpi(format).map(|(_, mpirun)| {
        let line = room.usage(format, ("mpirun", mpirun), tasks, &program);
        line.replace("--bind-to", &format!("--host localhost:{tasks} --bind-to"))
    });
    let with_mpich = launcher(&["mpiexec.mpich", "mpiexec"], "HYDRA", format)
        .map(|mpiexec| format!("{mpiexec} -n {tasks} sh {} {}", file(format), program.display()));
    for line in [with_open_mpi, with_mpich].into_iter().flatten() {
        assert_eq!(room.seen(&line), room.expected(tasks), "{line}");
    }
    let alone = room.shell(&format!("sh {} {}", file(format), program.display())).output().unwrap();
    assert!(!alone.status.success() && String::from_utf8_lossy(&alone.stderr).contains("no launcher has numbered"));
}

#[test]
fn ranks_that_taskset_binds() {
    ranks_under_a_launcher("taskset", "taskset");
}

#[test]
fn ranks_that_hwloc_bind_binds() {
    ranks_under_a_launcher("hwloc-bind", "hwloc-bind");
}

/// A script that pins the threads of a process that runs.
fn threads_that_run(format: &str, tool: &str) {
    let room = Room::new();
    if version(tool).is_none() {
        return skip(format, &format!("no {tool} here")).unwrap_or(());
    }
    let Some(program) = room.program("cc", "threads", &[], format) else { return };
    let threads = room.pus.len() + 2;
    room.export(format, &room.mapping(Kind::Threads, &vec![""; threads]));
    let mut child = Command::new(program)
        .args([&threads.to_string(), "wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It says "ready" when every thread is there, and looks at itself when its input ends.
    let mut output = child.stdout.take().unwrap();
    let mut ready = [0; 5];
    output.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready");
    let pinned = room.shell(&format!("sh {} {}", file(format), child.id())).output().unwrap();
    drop(child.stdin.take());
    let mut seen = String::new();
    output.read_to_string(&mut seen).unwrap();
    assert!(child.wait().unwrap().success() && pinned.status.success(), "{pinned:?}");
    assert_eq!(sorted(&seen), room.expected(threads));
    let too_few = room.shell(&format!("sh {} $$", file(format))).output().unwrap();
    assert!(!too_few.status.success() && String::from_utf8_lossy(&too_few.stderr).contains("the mapping has"));
}

#[test]
fn threads_that_taskset_pins() {
    threads_that_run("taskset", "taskset");
}

#[test]
fn threads_that_hwloc_bind_pins() {
    threads_that_run("hwloc-bind", "hwloc-bind");
}

/// A team of threads with an exported environment.
fn team(compiler: &str, formats: &[&str]) {
    let room = Room::new();
    let Some(program) = room.program(compiler, "openmp", &["-fopenmp"], &format!("OpenMP of {compiler}")) else {
        return;
    };
    // More threads than PUs too: a PU that several share is named several times.
    for threads in [room.pus.len(), 2 * room.pus.len() + 1] {
        for format in formats {
            room.export(format, &room.mapping(Kind::Threads, &vec![""; threads]));
            let line = room.usage(format, ("", ""), threads, &program) + &format!(" {threads}");
            assert_eq!(room.seen(&line), room.expected(threads), "{line}");
        }
    }
}

#[test]
fn gnu_openmp_threads() {
    team("gcc", &["omp-places", "gomp-cpu-affinity"]);
}

#[test]
fn llvm_openmp_threads() {
    team("clang", &["omp-places", "kmp-affinity", "gomp-cpu-affinity"]);
}

#[test]
fn threads_under_likwid_pin() {
    let room = Room::new();
    if version("likwid-pin").is_none() {
        return skip("likwid-pin", "no likwid-pin here").unwrap_or(());
    }
    let Some(program) = room.program("cc", "threads", &[], "likwid-pin") else { return };
    let threads = room.pus.len();
    room.export("likwid-pin", &room.mapping(Kind::Threads, &vec![""; threads]));
    let line = room.usage("likwid-pin", ("", ""), threads, &program) + &format!(" {threads}");
    assert_eq!(room.seen(&line), room.expected(threads), "{line}");
}

#[test]
fn slurm_ranks() {
    let room = Room::new();
    let Some(program) = room.program("cc", "rank", &[], "Slurm") else { return };
    let Some(cluster) = slurm::Cluster::start(&room.path("slurm"), room.pus.len()) else { return };
    let hosts = ["n1", "n0", "n0", "n1"];
    // The n-th rank of both nodes on the same PU: Slurm tells every node the same.
    let mut mapping = room.mapping(Kind::Ranks, &hosts);
    let pus = [room.pu(0), room.pu(0), room.pu(1), room.pu(1)];
    mapping.tasks.iter_mut().zip(pus).for_each(|(task, pu)| task.pu = pu);
    let expected: String = (0..4).map(|rank| format!("{rank} {}\n", pus[rank])).collect();
    let by_host: String = (0..4).map(|rank| format!("{rank} {}\n", hosts[rank])).collect();
    for format in ["slurm-hosts", "slurm-map-cpu", "slurm-mask-cpu"] {
        room.export(format, &mapping);
    }
    let srun = format!("env SLURM_CONF={} srun", cluster.configuration().display());
    let hosts = room.usage("slurm-hosts", ("srun", &srun), 4, Path::new("sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME'"));
    assert_eq!(room.seen(&hosts), by_host, "{hosts}");
    for format in ["slurm-map-cpu", "slurm-mask-cpu"] {
        let line = room.usage("slurm-hosts", ("srun", &format!("{srun} $(cat {})", file(format))), 4, &program);
        assert_eq!(room.seen(&line), expected, "{line}");
    }
}

#[test]
fn graphs_are_read_by_their_programs() {
    let room = Room::new();
    let mapping = room.mapping(Kind::Threads, &[""; 6]);
    let weight = Matrix::from_triplets(6, (0..6).map(|task| (task, (task + 1) % 6, u64::MAX - u64::from(task))));
    let topology = Topology::load("live").unwrap();
    let python = "import sys, xml.etree.ElementTree as tree; names = [e.tag.split('}')[1] for e in \
                  tree.parse(sys.argv[1]).iter()]; print(names.count('node'), names.count('edge'))";
    for (format, program, line, said) in [
        ("metis", "gpmetis", "gpmetis metis 2", "#Vertices: 6, #Edges: 6,"),
        ("dot", "dot", "dot -Tplain dot", "edge "),
        ("graphml", "python3", &format!("python3 -c \"{python}\" graphml"), "6 6"),
    ] {
        if version(program).is_none() {
            skip(format, &format!("no {program} here")).unwrap_or(());
            continue;
        }
        let text = exporter(format).unwrap().export(&Placement::new(&mapping, &topology, &weight).unwrap()).unwrap();
        std::fs::write(room.path(format), text).unwrap();
        let output = room.shell(line).output().unwrap();
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && found.contains(said),
            "{line}: {found}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
