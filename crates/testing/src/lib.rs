//! What the tests of several rooms need: processes that end with the test, however it ends.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Killed(Child);

impl Killed {
    /// Starts a command.
    ///
    /// # Panics
    ///
    /// Where it cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sleeps longer than any test takes, with nothing to read.
pub fn sleeper() -> Killed {
    Killed::spawn(&mut sleeping())
}

/// The command that [`sleeper`] starts.
pub fn sleeping() -> Command {
    let mut command = Command::new("sleep");
    command.arg("60").stdin(Stdio::null());
    command
}

/// A cpuset of a process's own (cpuset(7)), of cgroups of version 1, for as long as this lives.
#[derive(Debug)]
pub struct Cpuset(PathBuf);

impl Cpuset {
    /// One with all PUs, and the process in it; none, said aloud, where there cannot be any.
    pub fn of(test: &str, pid: i32) -> Option<Self> {
        let above = Path::new("/sys/fs/cgroup/cpuset");
        let folder = above.join(format!("cohabit-test-{pid}"));
        let copy = |file: &str| fs::write(folder.join(file), fs::read(above.join(file))?);
        let made = fs::create_dir(&folder).and_then(|()| copy("cpuset.mems")).and_then(|()| copy("cpuset.cpus"));
        let cpuset = Self(folder);
        match made.and_then(|()| fs::write(cpuset.0.join("cgroup.procs"), pid.to_string())) {
            Ok(()) => Some(cpuset),
            Err(error) => {
                println!("skipped: {test}: no cpuset can be made: {error}");
                None
            }
        }
    }

    /// Lets it have these PUs, a list.
    ///
    /// # Panics
    ///
    /// Where they are not to be had.
    pub fn set(&self, pus: &str) {
        fs::write(self.0.join("cpuset.cpus"), pus).unwrap_or_else(|error| panic!("{pus}: {error}"));
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let processes = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in processes.lines() {
            let _ = fs::write("/sys/fs/cgroup/cpuset/cgroup.procs", pid);
        }
        let _ = fs::remove_dir(&self.0);
    }
}
