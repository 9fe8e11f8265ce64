//! Slurm on one host: a controller and two nodes with a configuration of their own, on the loopback, ended when
//! dropped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A controller and the nodes n0 and n1.
pub struct Cluster {
    daemons: Vec<Child>,
    configuration: PathBuf,
}

impl Cluster {
    /// Starts it in a folder of its own; none, said aloud, where that cannot be.
    pub fn start(folder: &Path, cpus: usize) -> Option<Self> {
        let skip = |reason: &str| {
            println!("skipped: Slurm: {reason}");
            None
        };
        // SAFETY: geteuid(2) only returns a number.
        if unsafe { libc::geteuid() } != 0 {
            return skip("its daemons need root");
        }
        let Some(version) =
            super::version_of("slurmctld", "-V").filter(|_| super::version_of("slurmd", "-V").is_some())
        else {
            return skip("no slurmctld and slurmd here");
        };
        std::fs::create_dir(folder).unwrap();
        let major: u32 = version.split([' ', '.']).find_map(|word| word.parse().ok()).unwrap_or(0);
        let configuration = folder.join("slurm.conf");
        let ports: Vec<u16> = free_ports(3);
        std::fs::write(&configuration, text(folder, major, &ports, cpus)).unwrap();
        if major >= 23 {
            std::fs::write(folder.join("cgroup.conf"), "CgroupPlugin=disabled\n").unwrap();
            std::fs::write(folder.join("slurm.key"), [7; 1024]).unwrap();
            super::private(&folder.join("slurm.key"));
        }
        let mut cluster = Self { daemons: Vec::new(), configuration };
        cluster.daemon("slurmctld", &["-D"]);
        cluster.daemon("slurmd", &["-D", "-N", "n0"]);
        cluster.daemon("slurmd", &["-D", "-N", "n1"]);
        // srun itself waits for nodes, but not for a controller that does not listen yet.
        let ready =
            || cluster.client("sinfo", &["-h", "-t", "idle", "-o", "%D"]).is_some_and(|nodes| nodes.trim() == "2");
        for _ in 0..300 {
            if ready() {
                return Some(cluster);
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let log = std::fs::read_to_string(folder.join("slurmctld.log")).unwrap_or_default();
        skip(&format!("it did not start: {}", log.lines().last().unwrap_or("no log")))
    }

    /// The file that SLURM_CONF names.
    pub fn configuration(&self) -> &Path {
        &self.configuration
    }

    fn daemon(&mut self, program: &str, arguments: &[&str]) {
        let mut command = self.command(program, arguments);
        self.daemons.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    fn client(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let output = self.command(program, arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        command.args(arguments).env("SLURM_CONF", &self.configuration).env("PATH", path).stdin(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            // SAFETY: signals a child that has not been waited for.
            unsafe { libc::kill(daemon.id() as i32, libc::SIGTERM) };
            if !(0..50).any(|_| ended(daemon)) {
                let _ = daemon.kill();
            }
            let _ = daemon.wait();
        }
    }
}

fn ended(daemon: &mut Child) -> bool {
    let ended = daemon.try_wait().is_ok_and(|status| status.is_some());
    if !ended {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    ended
}

fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// slurm.conf(5): nobody is authenticated, nothing but the loopback listens to it.
fn text(folder: &Path, major: u32, ports: &[u16], cpus: usize) -> String {
    let folder = folder.display();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let host = host.split('.').next().unwrap();
    let authentication = match major {
        ..23 => "AuthType=auth/none\nCredType=cred/none\n".to_owned(),
        _ => "AuthType=auth/slurm\nCredType=auth/slurm\n".to_owned(),
    };
    let nodes: String = (0..2)
        .map(|node| {
            format!("NodeName=n{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs={cpus}\n", ports[node + 1])
        })
        .collect();
    format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\n{authentication}MpiDefault=none\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/affinity\nSlurmUser=root\nSlurmdUser=root\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\nSlurmctldPidFile={folder}/slurmctld.pid\n\
         SlurmdPidFile={folder}/slurmd-%n.pid\nSlurmctldLogFile={folder}/slurmctld.log\n\
         SlurmdLogFile={folder}/slurmd-%n.log\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
         ReturnToService=2\nSlurmdParameters=config_overrides\n{nodes}\
         PartitionName=all Nodes=n0,n1 Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES\n",
        ports[0]
    )
}
