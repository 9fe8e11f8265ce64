//! One run of one arm: by `cohabit run`, with what the program writes kept for the metric.

use super::args::How;
use super::arms::Arm;
use super::folder::{Folder, last_cause, last_line};
use super::results::{By, Output, Run};
use crate::exit::Failure;
use crate::online::stop::asked_by;
use cohabit_apply::memory::Memory;
use cohabit_apply::usage::Usage;
use cohabit_model::{Error, Result};
use cohabit_online::ledger::{self, Ledger};
use cohabit_online::settings::switch_balancing;
use regex::Regex;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long what a program has left running may take to end.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a signal may go unnoticed that comes just before a run is waited for, in milliseconds.
const LOOKED_AFTER_MS: i32 = 200;
/// How often it is looked whether a run has ended where the kernel does not tell (Linux before 5.3).
const WITHOUT_PIDFD: Duration = Duration::from_millis(5);
/// A shorter run is mostly its own start.
const SHORTEST: Duration = Duration::from_millis(10);

/// How runs are made.
pub struct Runner<'a> {
    command: &'a [OsString],
    input: Option<PathBuf>,
    how: How,
    metric: Option<Regex>,
    by: By,
    arms: Vec<Prepared>,
    ledger: Option<Ledger>,
    folder: Folder,
}

/// An arm with what its runs need.
struct Prepared {
    arm: Arm,
    mapping: Option<PathBuf>,
    memory: Option<Memory>,
}

/// How a run ended.
pub enum Ended {
    /// It counts.
    Well(Box<Run>),
    /// This process was asked to end by a signal, and so was the program.
    Stopped(i32),
}

impl<'a> Runner<'a> {
    /// Gets ready.
    ///
    /// # Errors
    /// Where an arm cannot be had here, or the expression is none.
    pub fn new(
        command: &'a [OsString],
        arms: &[Arm],
        by: By,
        how: How,
        input: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        cohabit_model::command::find(command)?;
        let metric = match &by {
            By::Metric(text) => Some(expression(text).map_err(Failure::usage)?),
            _ => None,
        };
        if let Some(path) = &input {
            File::open(path).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
        }
        let folder = Folder::create()?;
        let prepare = |(at, arm): (usize, &Arm)| -> Result<Prepared> {
            let mapping = arm.mapping.as_ref().map(|mapping| {
                let path = folder.path(&format!("arm-{at}.json"));
                mapping.write(&path).map(|()| path)
            });
            Ok(Prepared { arm: arm.clone(), mapping: mapping.transpose()?, memory: arm.memory()? })
        };
        let arms = arms.iter().enumerate().map(prepare).collect::<Result<Vec<_>>>()?;
        let switches = arms.iter().any(|prepared| prepared.arm.numa_balancing.is_some());
        let ledger = switches.then(|| Ledger::open(ledger::folders())).transpose()?.map(|(ledger, _)| ledger);
        // What a program leaves running becomes ours, and is seen.
        // SAFETY: a flag of this process.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        Ok(Self { command, input, how, metric, by, arms, ledger, folder })
    }

    /// Runs an arm once.
    ///
    /// # Errors
    /// Where the program fails, leaves something running, prints no such metric, or was not placed as the arm says.
    pub fn run(&mut self, block: usize, arm: usize, warm_up: bool) -> Result<Ended> {
        if let (Some(on), Some(ledger)) = (self.arms[arm].arm.numa_balancing, &mut self.ledger) {
            switch_balancing(ledger, on)?;
        }
        let status = self.start(arm)?;
        if let Some(signal) = asked_by() {
            return Ok(Ended::Stopped(signal));
        }
        self.check_nothing_runs_on()?;
        let document = self.document(arm, status)?;
        let name = &self.arms[arm].arm.name;
        let usage: Usage = serde_json::from_value(document["usage"].clone())
            .map_err(|error| Error::new(format!("what a run took cannot be read: {error}")))?;
        let mut notes: Vec<String> = document["notes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|note| Some(note.as_str()?.to_owned()))
            .collect();
        self.check_placed(arm, &document, &notes)?;
        if document["elsewhere"].as_array().is_some_and(|ranks| !ranks.is_empty()) {
            notes.push("some ranks ran elsewhere than the mapping says".to_owned());
        }
        let value = match &self.by {
            By::Wall => long_enough(usage.wall_s).map(|()| usage.wall_s)?,
            By::Cpu => long_enough(usage.wall_s).map(|()| usage.cpu_s())?,
            By::Metric(_) => self.measured(name)?,
        };
        if value <= 0.0 || !value.is_finite() {
            return Err(Error::new(format!(
                "{value} by {name}: what is compared must be above 0, for ways are compared by their ratio"
            ))
            .remedy("name another metric"));
        }
        let output = self.output()?;
        Ok(Ended::Well(Box::new(Run { block, arm, warm_up, value, usage, output, notes })))
    }

    /// Starts `cohabit run` and waits for it. Who asks this process to end asks the program.
    fn start(&self, arm: usize) -> Result<ExitStatus> {
        let Prepared { mapping, memory, .. } = &self.arms[arm];
        let _ = std::fs::remove_file(self.folder.path("run.json"));
        let mut run = Command::new(std::env::current_exe()?);
        run.args(["--quiet", "run", "--json"]).arg(self.folder.path("run.json"));
        match mapping {
            Some(path) => run.arg("--mapping").arg(path),
            None => run.arg("--unplaced"),
        };
        if mapping.is_some() {
            run.args(["--pinning", if self.how.always { "always" } else { "auto" }]);
            run.args(self.how.hold_main.then_some("--hold-main"));
        }
        run.arg("--").args(self.command);
        run.stdin(match &self.input {
            Some(path) => File::open(path)?.into(),
            None => Stdio::null(),
        });
        run.stdout(File::create(self.folder.path("out"))?).stderr(File::create(self.folder.path("err"))?);
        let memory = memory.clone();
        let prepare = move || {
            // What is killed takes its run with it.
            // SAFETY: a flag of this process.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
            memory.as_ref().map_or(Ok(()), Memory::set)
        };
        // SAFETY: two system calls, on memory that is there.
        let run = unsafe { run.pre_exec(prepare) };
        let mut child = run.spawn().map_err(|error| Error::new(format!("starting a run: {error}")))?;
        let (pid, mut told) = (child.id() as i32, false);
        loop {
            // A signal that came before this waits for the run is not noticed by waiting.
            if let (Some(signal), false) = (asked_by(), told) {
                told = true;
                // SAFETY: a child that has not been waited for.
                unsafe { libc::kill(pid, signal) };
            }
            match wait(pid) {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => {
                    let _ = child.kill();
                    return Err(Error::new(format!("waiting for a run: {error}")));
                }
            }
        }
    }

    /// What `cohabit run` found, where the program ended well.
    fn document(&self, arm: usize, status: ExitStatus) -> Result<Value> {
        let name = &self.arms[arm].arm.name;
        let last = || last_line(&self.folder.path("err")).or_else(|| last_line(&self.folder.path("out")));
        let text = std::fs::read_to_string(self.folder.path("run.json")).unwrap_or_default();
        let Ok(document) = serde_json::from_str::<Value>(&text) else {
            let said = last_cause(&self.folder.path("err")).or_else(last);
            return Err(Error::new(format!(
                "by {name}: {}",
                said.unwrap_or_else(|| format!("the run ended with {status}"))
            )));
        };
        if self.how.is_well(&document["status"]) {
            return Ok(document);
        }
        let program = self.command[0].to_string_lossy();
        let said = last().map(|line| format!(": {line}")).unwrap_or_default();
        let failed = |how: String| format!("by {name}, {program} {how}{said}");
        Err(match (status.signal(), status.code().and_then(|code| u8::try_from(code).ok())) {
            (Some(signal), _) => Error::new(failed(format!("was killed by signal {signal}"))),
            (None, Some(code)) => self.how.ill(failed(format!("ended with status {code}")), code),
            (None, None) => Error::new(failed(format!("ended with {status}"))),
        })
    }

    /// An arm that was not placed would be the system's under another name.
    fn check_placed(&self, arm: usize, document: &Value, notes: &[String]) -> Result<()> {
        let Some(mapping) = &self.arms[arm].arm.mapping else { return Ok(()) };
        let is_of_ranks = document["launched"].is_array();
        let is_placed = match is_of_ranks {
            true => !document["mapper"].is_null(),
            false => document["placed"].as_array().is_some_and(|placed| !placed.is_empty()),
        };
        let may_stay = mapping.no_gain.is_some() && !self.how.always;
        if is_placed || may_stay {
            return Ok(());
        }
        Err(not_placed(&self.arms[arm].arm.name, notes, is_of_ranks))
    }

    /// The program has gone on in the background: what it takes is not measured, and disturbs the next run.
    fn check_nothing_runs_on(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            // SAFETY: asks for any child that has ended; the run itself has been waited for.
            match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } {
                0 if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                0 => break,
                -1 => return Ok(()),
                _ => {}
            }
        }
        let program = self.command[0].to_string_lossy();
        let left = left_running().map(|name| format!(" ({name})")).unwrap_or_default();
        Err(Error::new(format!("{program} ended and left a process running{left}: what that takes cannot be measured"))
            .remedy("start the program so that it stays in the foreground until all is done"))
    }

    /// The number that the program printed: the last one that the expression finds.
    fn measured(&self, name: &str) -> Result<f64> {
        let Some(expression) = &self.metric else { return Ok(0.0) };
        let mut found = None;
        for file in ["out", "err"] {
            let bytes = std::fs::read(self.folder.path(file))?;
            let text = String::from_utf8_lossy(&bytes);
            found =
                expression.captures_iter(&text).filter_map(|groups| Some(groups.get(1)?.as_str().to_owned())).last();
            if found.is_some() {
                break;
            }
        }
        let Some(text) = found else {
            let last =
                last_line(&self.folder.path("out")).map(|line| format!("; its last line: {line}")).unwrap_or_default();
            return Err(Error::new(format!(
                "by {name} the program printed nothing that --metric '{expression}' finds{last}"
            ))
            .remedy("the expression has a group around the number, as in 'Time in seconds = +([0-9.]+)'"));
        };
        text.trim().parse().map_err(|_| {
            Error::new(format!("--metric found {text:?}, which is no number"))
                .remedy("put the group around the number alone")
        })
    }

    /// Sums of what the program wrote.
    fn output(&self) -> Result<Output> {
        let bytes = std::fs::read(self.folder.path("out"))?;
        let of = |bytes: &mut dyn Iterator<Item = u8>| format!("{:016x}", fnv(bytes));
        let words = &mut bytes.iter().copied().filter(|byte| !byte.is_ascii_digit());
        Ok(Output { text: of(&mut bytes.iter().copied()), words: of(words) })
    }
}

/// Why an arm is none: of ranks a mapping is left alone where their launcher was told itself where they go.
fn not_placed(name: &str, notes: &[String], is_of_ranks: bool) -> Error {
    let why = notes.first().map(|note| format!(": {note}")).unwrap_or_default();
    let error = Error::new(format!("by {name} nothing was placed{why}"));
    match is_of_ranks {
        true => error.remedy(
            "leave out what places the ranks already, in the command or in the environment: each arm's mapping is to say it",
        ),
        false => error.remedy("make the mapping from a profile of this program, as it is started here"),
    }
}

/// The expression, which must have a group.
fn expression(text: &str) -> Result<Regex> {
    let example = "as in 'Time in seconds = +([0-9.]+)'";
    let found = regex::RegexBuilder::new(text).multi_line(true).build();
    let found = found.map_err(|error| {
        let reason = error.to_string();
        Error::new(format!("--metric: {}", reason.lines().last().unwrap_or_default()))
            .remedy(format!("write a regular expression, {example}"))
    })?;
    if found.captures_len() < 2 {
        return Err(Error::new("--metric has no group").remedy(format!("put parentheses around the number, {example}")));
    }
    Ok(found)
}

/// Whether there was more to a run than its start.
fn long_enough(wall_s: f64) -> Result<()> {
    if wall_s >= SHORTEST.as_secs_f64() {
        return Ok(());
    }
    let text = format!(
        "the program ends within {:.1} ms, which is mostly its own start: where its tasks run cannot matter",
        wall_s * 1e3
    );
    Err(Error::new(text).remedy("give it more to do, or compare by a number that it prints (--metric)"))
}

/// Waits for a child until it ends, a signal comes, or some time is over: none but where it has ended.
fn wait(pid: i32) -> io::Result<Option<ExitStatus>> {
    let mut status = 0;
    // SAFETY: writes the status into an integer.
    match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        _ => return Ok(Some(ExitStatus::from_raw(status))),
    }
    // SAFETY: opens a descriptor of a child that has not been waited for.
    let end = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    if end < 0 {
        std::thread::sleep(WITHOUT_PIDFD);
        return Ok(None);
    }
    // SAFETY: nobody else has this descriptor.
    let end = unsafe { OwnedFd::from_raw_fd(end) };
    let mut polled = libc::pollfd { fd: end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&raw mut polled, 1, LOOKED_AFTER_MS) };
    Ok(None)
}

/// The name of a child of this process.
fn left_running() -> Option<String> {
    let children = std::fs::read_to_string("/proc/thread-self/children").ok()?;
    let pid = children.split_whitespace().next()?;
    Some(std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

/// FNV-1a with 64 bits: the same in every version and on every machine.
fn fnv(bytes: &mut dyn Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_are_all_start_are_not_compared() {
        assert!(long_enough(0.010).is_ok());
        assert!(long_enough(0.0099).unwrap_err().cause.contains("within 9.9 ms, which is mostly its own start"));
    }

    #[test]
    fn expressions_have_a_group_around_a_number() {
        assert!(expression("t = ([0-9.]+)").is_ok());
        for (text, cause) in [("t = [0-9.]+", "no group"), ("t = ([0-9", "--metric: ")] {
            let error = expression(text).unwrap_err();
            assert!(error.cause.contains(cause) && error.remedy.is_some(), "{error:?}");
        }
    }

    #[test]
    fn the_remedy_is_that_of_the_cause() {
        let note = ["--bind-to is given, so nothing is added: leave it out to place the ranks by cohabit".to_owned()];
        let (ranks, threads) = (not_placed("m", &note, true), not_placed("m", &[], false));
        assert!(ranks.cause.contains("--bind-to") && ranks.remedy.unwrap().contains("in the command"));
        assert!(threads.remedy.unwrap().contains("make the mapping"));
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        assert_eq!(fnv(&mut b"".iter().copied()), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(&mut b"a".iter().copied()), 0xaf63_dc4c_8601_ec8c);
    }
}
