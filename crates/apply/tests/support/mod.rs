//! What the launch tests share: C programs compiled once, plans in a row, and what the programs saw of themselves.

use cohabit_apply::{Identify, LaunchPlan, PlannedTask};
use cohabit_host::CpuMask;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A directory with the test programs in it.
pub struct Programs {
    directory: TempDir,
}

impl Programs {
    /// Compiles `names`; none, said aloud, where there is no C compiler.
    pub fn build(names: &[&str], flags: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        for name in names {
            let mut compiler = Command::new("cc");
            compiler.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]);
            compiler.arg(directory.path().join(name)).arg(sources.join(format!("{name}.c"))).args(flags);
            match compiler.output() {
                Err(error) => {
                    println!("SKIPPED: no C compiler (cc: {error})");
                    return None;
                }
                Ok(output) if !output.status.success() => {
                    panic!("cc {name}.c: {}", String::from_utf8_lossy(&output.stderr));
                }
                Ok(_) => {}
            }
        }
        Some(Self { directory })
    }

    /// A file of the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The command line: a program and its arguments.
    pub fn command(&self, name: &str, arguments: &[&str]) -> Vec<OsString> {
        let program = self.path(name).into_os_string();
        std::iter::once(program).chain(arguments.iter().map(OsString::from)).collect()
    }
}

/// The PUs this test may use.
pub fn pus() -> Vec<u32> {
    cohabit_host::CpuMask::of_thread(0).unwrap().pus()
}

/// The `index`-th of the PUs that `spread` deals out: never the same one for all, as far as there are two.
pub fn pu(index: usize) -> u32 {
    let pus = pus();
    // Not simply alternating: an affinity set for one thread and found at another is to differ.
    pus[(index * index + index / 3 + 1) % pus.len()]
}

/// A plan of rows (process, spawn index, parent), where task i goes to `pu(i)`.
pub fn plan(identify: Identify, rows: &[(u32, u32, Option<u32>)]) -> LaunchPlan {
    let task = |(index, &(process, spawn_index, parent)): (usize, &(u32, u32, Option<u32>))| PlannedTask {
        task: index as u32,
        process,
        spawn_index,
        parent,
        pu: pu(index),
        pus: CpuMask::single(pu(index)),
        name: format!("task {index}"),
    };
    LaunchPlan {
        tasks: rows.iter().enumerate().map(task).collect(),
        identify,
        may_crowd: true,
        ..LaunchPlan::default()
    }
}

/// A plan for `threads` threads that the main thread creates.
pub fn flat(identify: Identify, threads: u32) -> LaunchPlan {
    let rows: Vec<_> = (0..threads).map(|index| (0, index, (index > 0).then_some(0))).collect();
    plan(identify, &rows)
}
