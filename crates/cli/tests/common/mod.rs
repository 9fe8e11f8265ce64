//! Runs the binary as a user does, and makes the files that commands read.

#![allow(dead_code)] // each test binary uses a part of it

pub mod cluster;
pub mod slurm;

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A folder for one test, and the command line of cohabit in it.
pub struct Room {
    folder: TempDir,
}

/// What `cohabit doctor` finds here, asked once.
fn doctor() -> &'static serde_json::Value {
    static FOUND: OnceLock<serde_json::Value> = OnceLock::new();
    FOUND.get_or_init(|| serde_json::from_str(&Room::new().run("doctor --json -").stdout).unwrap())
}

/// Whether the machine can do what a test needs, each check of `cohabit doctor` being in that state or a better one;
/// what it cannot is said aloud. A test is skipped for what the machine is, never for what the product then did.
pub fn can(test: &str, needs: &[(&str, &str)]) -> bool {
    const STATES: [&str; 3] = ["missing", "limited", "works"];
    let rank = |state: &str| STATES.iter().position(|&known| known == state).unwrap();
    needs.iter().all(|&(name, least)| {
        let check = doctor()["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap();
        let enough = rank(check["state"].as_str().unwrap()) >= rank(least);
        if !enough {
            println!("skipped: {test}: {name}: {}", check["found"].as_str().unwrap());
        }
        enough
    })
}

/// Whether page faults can be seen here, one way or the other; said aloud where not.
pub fn sees_faults(test: &str) -> bool {
    let works = |name: &str| {
        doctor()["checks"].as_array().unwrap().iter().any(|check| check["name"] == name && check["state"] == "works")
    };
    works("eBPF") || can(test, &[("perf events", "works")])
}

/// How a run ended.
pub struct Ran {
    /// The exit status; none when a signal killed it.
    pub status: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// What it wrote.
    pub stdout: String,
    /// What it and cohabit wrote.
    pub stderr: String,
}

impl Room {
    /// An empty folder.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A folder to profile in; none, said aloud, where the profiler does not work.
    pub fn to_profile(test: &str) -> Option<Self> {
        can(test, &[("profiler", "works")]).then(Self::new)
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// A command that runs cohabit in the folder, without a terminal and with nothing to read.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cohabit"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
        command
    }

    /// Runs cohabit with these words, blanks between them.
    pub fn run(&self, line: &str) -> Ran {
        Ran::of(self.command(line.split_whitespace()).output().unwrap())
    }

    /// A profile of a chain: task i writes `weight` values that task i + 1 reads.
    pub fn chain(&self, name: &str, tasks: usize, weight: u64) -> PathBuf {
        let cell = |row: usize, column: usize| if column == row + 1 { weight } else { 0 }.to_string();
        let row = |row: usize| (0..tasks).map(|column| cell(row, column)).collect::<Vec<_>>().join(",");
        let csv = (0..tasks).map(|index| row(index) + "\n").collect::<String>();
        self.import(name, &csv)
    }

    /// A profile of a matrix in CSV.
    pub fn import(&self, name: &str, csv: &str) -> PathBuf {
        self.file("matrix.csv", csv);
        let ran = self.run(&format!("import matrix.csv -o {name}"));
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
        self.path(name)
    }
}

impl Ran {
    /// From what a process left.
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("cohabit writes UTF-8");
        Self {
            status: output.status.code(),
            signal: output.status.signal(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// What cohabit itself said on standard error, without the lines of the programs that it ran. Open MPI 5 leaves a
    /// zero byte where its own message ends.
    pub fn said(&self) -> Vec<&str> {
        let lines = self.stderr.lines().map(|line| line.trim_start_matches('\0'));
        lines.filter(|line| line.starts_with("cohabit: ")).collect()
    }

    /// Without the lines that tell of a profile that it is made and was made: only what is worth a line besides is
    /// left.
    pub fn without_narration(mut self) -> Self {
        let narrated = |line: &&str| line.contains("; its profile goes to ") || line.contains("; next: cohabit show ");
        let lines = self.stderr.split_inclusive('\n');
        self.stderr = lines.filter(|line| !(line.starts_with("cohabit: ") && narrated(line))).collect();
        self
    }

    /// Asserts a failure as cohabit tells it: this status, one line that holds `cause`, at most one with the remedy.
    #[track_caller]
    pub fn assert_fails(&self, status: i32, cause: &str) {
        assert_eq!(self.status, Some(status), "status; stderr: {}", self.stderr);
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert!(matches!(lines.len(), 1 | 2), "one line with the cause, one with the remedy: {}", self.stderr);
        assert!(lines[0].starts_with("cohabit: ") && lines[0].contains(cause), "{cause:?} in {:?}", lines[0]);
        assert!(lines.iter().skip(1).all(|remedy| remedy.starts_with("  ") && remedy.len() > 2), "{:?}", self.stderr);
    }
}

/// A file that is there and executable.
pub fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The first bytes of an ELF program: class 1 is 32-bit, 2 is 64-bit; the machine as in elf(5).
pub fn elf_head(class: u8, machine: u16) -> Vec<u8> {
    let mut head = vec![0; 64];
    head[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
    head[18..20].copy_from_slice(&machine.to_le_bytes());
    head
}

/// A workload that `make native` built; none, said aloud, where it was not.
pub fn workload(test: &str, name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../build/workloads").join(name);
    if !path.is_file() {
        println!("skipped: {test}: build/workloads/{name} was not built");
        return None;
    }
    Some(path)
}
