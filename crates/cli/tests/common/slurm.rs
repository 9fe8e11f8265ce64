//! Slurm on the emulated cluster: a controller on n0 and a daemon on each of four hosts, two of either subnet.

use super::cluster::Cluster;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The nodes and their addresses.
const NODES: [(&str, &str); 4] = [("n0", "10.77.0.1"), ("n1", "10.77.0.2"), ("n5", "10.77.0.6"), ("n6", "10.77.0.7")];

/// For how many seconds its daemons live, should nobody end them: longer than ten runs that do not end
/// ([`Slurm::within`]).
const LIFE: u32 = 600;

/// Its daemons end with the cluster, or when this is dropped.
pub struct Slurm {
    daemons: Vec<Child>,
    configuration: PathBuf,
}

impl Slurm {
    /// Starts it with its files in `folder`; none, said aloud, where that cannot be.
    pub fn start(cluster: &Cluster, folder: &Path, test: &str) -> Option<Self> {
        let skip = |reason: &str| {
            println!("skipped: {test}: {reason}");
            None
        };
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let version = |program: &str| Command::new(program).arg("-V").env("PATH", &path).output().ok();
        let (Some(controller), Some(_)) = (version("slurmctld"), version("slurmd")) else {
            return skip("no slurmctld and slurmd here");
        };
        let version = String::from_utf8_lossy(&controller.stdout).into_owned();
        let major: u32 = version.split([' ', '.']).find_map(|word| word.parse().ok()).unwrap_or(0);
        std::fs::create_dir(folder).unwrap();
        // The nodes share a file system here, and PMIx wants a folder of each node's own.
        for (name, _) in NODES {
            std::fs::create_dir(folder.join(format!("tmp-{name}"))).unwrap();
        }
        let configuration = folder.join("slurm.conf");
        std::fs::write(&configuration, text(folder, major)).unwrap();
        if major >= 23 {
            std::fs::write(folder.join("cgroup.conf"), "CgroupPlugin=disabled\n").unwrap();
            let key = folder.join("slurm.key");
            std::fs::write(&key, [7; 1024]).unwrap();
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let mut slurm = Self { daemons: Vec::new(), configuration };
        let hosts = NODES.iter().map(|(name, _)| (*name, vec!["slurmd", "-D", "-N", name]));
        for (host, words) in std::iter::once(("n0", vec!["slurmctld", "-D"])).chain(hosts) {
            let mut daemon = cluster.on_for(host, LIFE);
            daemon
                .env("SLURM_CONF", &slurm.configuration)
                .args(words)
                .env("PATH", &path)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            slurm.daemons.push(daemon.spawn().unwrap());
        }
        // srun waits for nodes, but not for a controller that does not listen yet.
        for _ in 0..300 {
            let idle = slurm.on(cluster, "n0").args(["sinfo", "-h", "-t", "idle", "-o", "%D"]).output().unwrap();
            if String::from_utf8_lossy(&idle.stdout).trim() == NODES.len().to_string() {
                return Some(slurm);
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let log = std::fs::read_to_string(folder.join("slurmctld.log")).unwrap_or_default();
        skip(&format!("it did not start: {}", log.lines().last().unwrap_or("no log")))
    }

    /// A command on a host that uses this Slurm.
    pub fn on(&self, cluster: &Cluster, host: &str) -> Command {
        let mut command = cluster.on(host);
        command.env("SLURM_CONF", &self.configuration);
        command
    }

    /// A command on a host that is killed after so many seconds. What one before it that was killed has left on the
    /// nodes ends first: srun leaves its ranks there, and the next would wait for the nodes.
    pub fn within(&self, cluster: &Cluster, host: &str, seconds: u32) -> Command {
        let mut command = self.on(cluster, host);
        let words = "scancel --quiet --user=$(id -u); while [ -n \"$(squeue -h)\" ]; do sleep 0.1; done; exec timeout -s KILL \"$@\"";
        command.args(["sh", "-c", words, "sh", &seconds.to_string()]);
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // `timeout` is between: it passes the signal on.
        for daemon in self.daemons.iter_mut().rev() {
            // SAFETY: signals a child that has not been waited for.
            unsafe { libc::kill(daemon.id() as i32, libc::SIGTERM) };
        }
        let ended: Vec<_> = self.daemons.iter_mut().map(|daemon| daemon.wait()).collect();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.configuration.with_file_name("slurmctld.log")).unwrap_or_default();
            let first = log.lines().count().saturating_sub(40);
            println!("Slurm ended with {ended:?}; the controller's log:");
            log.lines().skip(first).for_each(|line| println!("  {line}"));
        }
    }
}

/// The cluster file of its nodes.
pub const TOPOLOGY: &str = "\
[[host]]
names = \"n[0-1],n[5-6]\"
topology = \"core:2 pu:1\"
[[switch]]
name = \"s0\"
members = \"n[0-1]\"
[[switch]]
name = \"s1\"
members = \"n[5-6]\"
[[switch]]
name = \"trunk\"
members = \"s[0-1]\"
";

/// slurm.conf(5): nobody is authenticated; the network is the cluster's alone.
fn text(folder: &Path, major: u32) -> String {
    let folder = folder.display();
    let authentication = match major {
        ..23 => "AuthType=auth/none\nCredType=cred/none\n",
        _ => "AuthType=auth/slurm\nCredType=auth/slurm\n",
    };
    let nodes: String = NODES.iter().map(|(name, at)| format!("NodeName={name} NodeAddr={at} CPUs=2\n")).collect();
    format!(
        "ClusterName=emulated\nSlurmctldHost=n0({})\n{authentication}MpiDefault=none\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/affinity\nSlurmUser=root\nSlurmdUser=root\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\nTmpFS={folder}/tmp-%n\nSlurmctldPidFile={folder}/slurmctld.pid\n\
         SlurmdPidFile={folder}/slurmd-%n.pid\nSlurmctldLogFile={folder}/slurmctld.log\n\
         SlurmdLogFile={folder}/slurmd-%n.log\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
         ReturnToService=2\nSlurmdParameters=config_overrides\n{nodes}\
         PartitionName=all Nodes={} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES\n",
        NODES[0].1,
        NODES.map(|(name, _)| name).join(","),
    )
}
