//! `cohabit profile -- srun ...`: ranks that Slurm's daemons start on several hosts are seen as those of mpirun are.

mod common;

use cohabit_formats::npz::read_profile;
use cohabit_model::Profile;
use cohabit_model::profile::Collectives;
use common::cluster::{Cluster, is_late, until_it_ends};
use common::slurm::Slurm;
use common::{Ran, Room, executable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const TEST: &str = "profiles under srun";
const RANKS: usize = 6;

/// srun on the emulated cluster, and the programs of one MPI.
struct Under<'a> {
    cluster: &'a Cluster,
    slurm: &'a Slurm,
    room: &'a Room,
    /// Of the programs and libraries: `openmpi`.
    mpi: &'a str,
    /// How srun starts ranks of it.
    kind: &'a str,
}

impl Under<'_> {
    fn built(&self, name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build").join(name)
    }

    /// Whether there is what is needed; what is missing is said.
    fn is_there(&self) -> bool {
        let parts = [format!("native/libcohabit-mpi-{}.so", self.mpi), format!("workloads/mpi/patterns-{}", self.mpi)];
        let there = parts.iter().all(|part| self.built(part).exists());
        if !there {
            println!("skipped: {TEST}: {}: our library for it or its workloads are not here (make)", self.mpi);
        }
        there
    }

    /// srun with these words of ours before it, options, and a program.
    fn srun(&self, before: &[&str], options: &[&str], program: &str) -> Command {
        let mut command = self.slurm.within(self.cluster, "n0", 30);
        command.args(before).args(["srun", self.kind]).args(options);
        command.args(["-n", &RANKS.to_string(), program]).current_dir(self.room.path(""));
        command
    }

    /// Profiles a pattern. None, said aloud, where srun does not start ranks of this MPI, or they do not end.
    fn profile(&self, options: &[&str], pattern: &str) -> Option<Profile> {
        let program = self.built("workloads/mpi").join(format!("patterns-{}", self.mpi));
        let pattern = [pattern, "--rounds", "5", "--expect", "expected"];
        let ours = [env!("CARGO_BIN_EXE_cohabit"), "profile", "-q", "-o", "p.npz", "--"];
        let ran = until_it_ends(self.srun(&ours, options, program.to_str().unwrap()).args(pattern));
        if ran.status != Some(0) {
            let alone =
                || Ran::of(self.srun(&[], &[], program.to_str().unwrap()).args(&pattern[..3]).output().unwrap());
            let failed = (0..5).map(|_| alone()).find(|alone| alone.status != Some(0));
            assert!(failed.is_some(), "{} {options:?}: {}", self.mpi, ran.stderr);
            let why = if failed.is_some_and(|ran| is_late(&ran)) {
                "they do not end"
            } else {
                "this Slurm does not start them"
            };
            println!("skipped: {TEST}: ranks of {}: {why}, without cohabit too", self.mpi);
            return None;
        }
        assert_eq!(ran.stderr, "", "{} {options:?}", self.mpi);
        Some(read_profile(&self.room.path("p.npz")).unwrap())
    }

    /// What the ranks say that they sent: messages and bytes by pair.
    fn expected(&self) -> BTreeMap<(usize, usize), (u64, u64)> {
        let mut found = BTreeMap::new();
        for rank in 0..RANKS {
            let text = std::fs::read_to_string(self.room.path(&format!("expected.{rank}"))).unwrap();
            for line in text.lines() {
                let fields: Vec<u64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
                found.insert((fields[0] as usize, fields[1] as usize), (fields[2], fields[3]));
            }
        }
        found
    }
}

fn traffic(profile: &Profile) -> BTreeMap<(usize, usize), (u64, u64)> {
    let pairs = profile.messages.iter().map(|(source, destination, messages)| {
        let pair = (source as usize, destination as usize);
        (pair, (messages, profile.bytes.get(pair.0, pair.1)))
    });
    pairs.collect()
}

/// As docs/compare.md has it: each block is a job of an array, wherever that runs.
fn blocks_run_as_an_array_of_jobs(cluster: &Cluster, slurm: &Slurm, room: &Room) {
    room.import("one.npz", "0\n");
    assert_eq!(room.run("map one.npz --mapper packed -o m.json").status, Some(0));
    executable(&room.file("solver", "#!/bin/sh\nsleep 0.03\n"));
    let compare =
        |part: &str| room.run(&format!("compare --mapping m.json --runs 2 --warm-up 0 -o c.json {part} -- ./solver"));
    room.file("blocks.sh", compare("--cells").stdout);
    let folder = Path::new(env!("CARGO_BIN_EXE_cohabit")).parent().unwrap();
    let mut sbatch = slurm.within(cluster, "n0", 60);
    sbatch
        .args(["sbatch", "--quiet", "--wait", "--array=1-2", "--exclusive", "--wrap"])
        .arg("sh -c \"$(sed -n ${SLURM_ARRAY_TASK_ID}p blocks.sh)\"")
        .env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()))
        .current_dir(room.path(""));
    let ran = Ran::of(sbatch.output().unwrap());
    let wrote = || {
        let files = std::fs::read_dir(room.path("")).unwrap().map(|entry| entry.unwrap().path());
        let logs = files.filter(|path| path.extension().is_some_and(|end| end == "out"));
        logs.map(|path| std::fs::read_to_string(path).unwrap()).collect::<String>()
    };
    assert_eq!(ran.status, Some(0), "{} {}", ran.stderr, wrote());
    let joined = compare("--collect");
    assert_eq!((joined.status, joined.stderr.as_str()), (Some(0), ""), "{}", wrote());
    assert!(joined.stdout.starts_with("./solver: 2 blocks"), "{}", joined.stdout);
}

#[test]
fn ranks_that_slurm_starts_are_seen() {
    let Some(cluster) = Cluster::create(TEST) else { return };
    let room = Room::new();
    let Some(slurm) = Slurm::start(&cluster, &room.path("slurm"), TEST) else { return };
    blocks_run_as_an_array_of_jobs(&cluster, &slurm, &room);
    for (mpi, kind) in [("openmpi", "--mpi=pmix"), ("mpich", "--mpi=pmi2")] {
        let under = Under { cluster: &cluster, slurm: &slurm, room: &room, mpi, kind };
        if !under.is_there() {
            continue;
        }
        // Two ranks on each host, neighbours on different ones; and what srun passes on when it is told to pass on
        // little.
        let path = format!("--export=PATH={}", std::env::var("PATH").unwrap());
        for options in [&["--distribution=cyclic"][..], &["--distribution=cyclic", &path]] {
            let Some(profile) = under.profile(options, "ring") else { break };
            assert_eq!(traffic(&profile), under.expected(), "{mpi} {options:?}");
            let hosts: Vec<_> = profile.meta.tasks.iter().map(|task| task.host.as_str()).collect();
            assert_eq!(hosts, ["n0", "n1", "n5", "n0", "n1", "n5"], "{mpi} {options:?}");
            assert_eq!(profile.mpi_ns.len(), RANKS);
            assert!(profile.meta.coverage.exact, "{mpi} {options:?}: {:?}", profile.meta.coverage);
        }
        let Some(profile) = under.profile(&[], "allreduce") else { continue };
        // Open MPI's monitoring is turned on by the environment here, where mpirun has an option for it.
        let how = if mpi == "openmpi" { Collectives::Monitored } else { Collectives::Decomposed };
        assert_eq!(profile.meta.collectives, Some(how));
        assert_eq!(profile.meta.coverage.exact, mpi == "openmpi", "{:?}", profile.meta.coverage);
    }
}
