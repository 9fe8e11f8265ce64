//! The emulated cluster of `workloads/cluster`: created in a folder, gone when dropped.

use super::Ran;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Eight hosts, n0 to n7, of two processors; five and three on two subnets.
pub struct Cluster {
    parent: TempDir,
}

/// What exists on this machine because of a cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// Its namespaces.
    pub namespaces: Vec<String>,
    /// Links of the machine that bear its tag.
    pub links: Vec<String>,
    /// Processes whose network is one of its namespaces.
    pub processes: Vec<String>,
    /// Whether its folder is there.
    pub folder: bool,
}

/// The tool.
pub fn tool() -> Command {
    let mut command = Command::new("python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/cluster/cluster.py")).stdin(Stdio::null());
    command
}

impl Cluster {
    /// Creates it; none, said aloud, where that cannot be.
    pub fn create(test: &str) -> Option<Self> {
        Self::create_with(&[], test)
    }

    /// The same with options of the tool.
    pub fn create_with(options: &[&str], test: &str) -> Option<Self> {
        let parent = tempfile::tempdir().unwrap();
        match tool().args(options).arg("create").arg(parent.path().join("c")).output() {
            Ok(output) if output.status.success() => Some(Self { parent }),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                // A tool that is broken is not one that cannot run here.
                assert!(said.starts_with("cluster: ") && said.lines().count() == 1, "{said}");
                println!("skipped: {test}: {}", said.trim_start_matches("cluster: ").trim_end());
                None
            }
            Err(error) => {
                println!("skipped: {test}: python3: {error}");
                None
            }
        }
    }

    /// The folder of what belongs to it.
    pub fn folder(&self) -> PathBuf {
        self.parent.path().join("c")
    }

    /// The name that all of it bears.
    pub fn tag(&self) -> String {
        std::fs::read_to_string(self.folder().join("tag")).unwrap().trim().to_owned()
    }

    /// A command on a host.
    pub fn on(&self, host: &str) -> Command {
        self.on_for(host, 120)
    }

    /// The same, for so many seconds at most.
    pub fn on_for(&self, host: &str, seconds: u32) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", &seconds.to_string()]).arg(self.folder().join("on")).arg(host).stdin(Stdio::null());
        command
    }

    /// Removes it.
    pub fn destroy(&self) -> Output {
        tool().arg("destroy").arg(self.folder()).output().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.folder().exists() {
            self.destroy();
        }
    }
}

/// Whether a command that was given some seconds ran out of them.
pub fn is_late(ran: &Ran) -> bool {
    ran.status == Some(137) || ran.signal == Some(libc::SIGKILL)
}

/// Whether Open MPI has broken down in its own MPI_Init, as under srun it does now and then: the message of a rank that
/// is ahead finds no receiver yet, and the rank calls address 0 (open-mpi/ompi, issue 12495). Here 4.1.4 did without
/// cohabit in 12 of 150 runs.
fn is_broken(ran: &Ran) -> bool {
    ran.status != Some(0) && ran.stderr.contains("Failing at address: (nil)")
}

/// Runs a command that is given some seconds, up to five times until it ends within them: MPICH 4.0.2 often waits for
/// ever in its own MPI_Finalize when its ranks are on several hosts, some in UCX over TCP, others in the barrier behind
/// it.
pub fn until_it_ends(command: &mut Command) -> Ran {
    let mut run = || Ran::of(command.output().unwrap());
    let mut ran = run();
    for _ in 1..5 {
        if is_late(&ran) || is_broken(&ran) {
            ran = run();
        }
    }
    ran
}

/// Network namespaces by inode, of those whose name begins with the tag.
pub fn spaces(tag: &str) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let named = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    named
        .filter(|(name, _)| name.starts_with(tag))
        .filter_map(|(name, path)| Some((name, std::fs::metadata(path).ok()?.ino())))
        .collect()
}

/// What there is of a cluster, whose namespaces had these inodes.
pub fn traces(tag: &str, inodes: &[u64], folder: &Path) -> Traces {
    let inodes: HashSet<u64> = inodes.iter().copied().collect();
    let links = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let within = |path: &Path| std::fs::metadata(path.join("ns/net")).is_ok_and(|space| inodes.contains(&space.ino()));
    Traces {
        namespaces: spaces(tag).into_iter().map(|(name, _)| name).collect(),
        links: links
            .map(|link| link.file_name().to_string_lossy().into_owned())
            .filter(|name| name.contains(tag) || (0..8).any(|host| *name == format!("n{host}")))
            .collect(),
        processes: processes
            .filter(|process| within(&process.path()))
            .map(|process| process.file_name().to_string_lossy().into_owned())
            .collect(),
        folder: folder.exists(),
    }
}
