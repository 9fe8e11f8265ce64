//! How many instructions a cycle a machine begins, by a program that was run on it: the rate at which its simulation takes
//! as long as the program did.

use super::machine::rate_for;
use crate::exit::Failure;
use crate::output::note;
use crate::progress;
use crate::recording::record;
use cohabit_access::Recording;
use cohabit_access::file::RecordingFile;
use cohabit_memory::machine::file::MachineFile;
use cohabit_memory::{Machine, Options, simulate};
use cohabit_model::{Error, Result};
use cohabit_observe::dbi;
use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs; the fastest counts.
const RUNS: u32 = 9;
/// All of them together, at most, once there were two.
const LONGEST: Duration = Duration::from_secs(30);
/// A program that takes less says little: starting it does.
const SHORTEST: Duration = Duration::from_millis(20);
/// By how much simulated time may differ from the measured one and still be called it.
const CLOSE: f64 = 0.02;
/// fs of a second.
const FS: f64 = 1e15;

/// What was found.
pub struct Calibrated {
    program: String,
    /// The rate.
    pub instructions_per_cycle: f64,
    /// Seconds that the program took, and that it takes in simulation.
    took_s: f64,
    simulated_s: f64,
}

impl Calibrated {
    /// Where the rate comes from, for the machine file.
    pub fn source(&self) -> String {
        match self.is_close() {
            true => format!("calibrated on {}", self.program),
            false => format!("the nearest to {}, which it does not fit", self.program),
        }
    }

    /// The same, for the user.
    pub fn said(&self) -> String {
        let rate = self.instructions_per_cycle;
        let (took, simulated) = (1e3 * self.took_s, 1e3 * self.simulated_s);
        match self.is_close() {
            true => {
                format!("{} took {took:.1} ms, and takes as long with {rate:.2} instructions a cycle", self.program)
            }
            false => format!(
                "{} took {took:.1} ms, and takes {simulated:.1} ms with {rate:.2} instructions a cycle: no rate fits better",
                self.program
            ),
        }
    }

    fn is_close(&self) -> bool {
        (self.simulated_s / self.took_s - 1.0).abs() <= CLOSE
    }
}

/// A program that was run.
pub struct Timed {
    command: Vec<OsString>,
    program: String,
    took: Duration,
}

/// Runs the program.
///
/// # Errors
/// It fails or is too short.
pub fn time(command: &[OsString]) -> Result<Timed> {
    let program: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let program: String = program.join(" ").chars().filter(|c| !c.is_control()).collect();
    // What it prints nobody asked for; all runs are started alike, so that starting them weighs the same.
    let quietly = ["sh", "-c", "exec \"$@\" </dev/null >/dev/null 2>&1", "sh"].map(OsString::from);
    let command: Vec<OsString> = quietly.into_iter().chain(command.iter().cloned()).collect();
    let took = progress::during("running the program", || fastest(&command, &program))?;
    Ok(Timed { command, program, took })
}

/// Records the program, and simulates it on the machine until that takes as long.
///
/// # Errors
/// It cannot be recorded.
pub fn calibrate(timed: Timed, mut file: MachineFile) -> Result<Calibrated, Failure> {
    let Timed { command, program, took } = timed;
    let folder = tempfile::Builder::new().prefix("cohabit-recording-").tempdir();
    let folder = folder.map_err(|error| Error::new(format!("cannot make a folder for the recording: {error}")))?;
    let path = folder.path().join("recording");
    let outcome = record(&command, &path, dbi::Options::default().block_bytes, None)?;
    outcome.notes.iter().for_each(|line| note(line));
    let recording = RecordingFile::open(&path)?;
    let wanted = took.as_secs_f64();
    let (rate, simulated_s) = progress::during("calibrating", || {
        rate_for(wanted, |rate| {
            file.core.instructions_per_cycle = rate;
            seconds(&recording, &file)
        })
    })?;
    Ok(Calibrated { program, instructions_per_cycle: super::machine::round(rate), took_s: wanted, simulated_s })
}

/// Simulated seconds of all of it, task after task on the PUs in order.
fn seconds(recording: &dyn Recording, file: &MachineFile) -> Result<f64> {
    let machine = Machine::parse(&file.to_toml(|_| None), None)?;
    let pus = machine.core_of_pu.len();
    let mapping: Vec<usize> = (0..recording.tasks().len()).map(|task| task % pus).collect();
    Ok(simulate(recording, &machine, &mapping, &Options::default())?.time_fs as f64 / FS)
}

/// The fastest of several runs, which write nowhere.
fn fastest(command: &[OsString], program: &str) -> Result<Duration> {
    let (mut fastest, began) = (Duration::MAX, Instant::now());
    for run in 0..RUNS {
        if run >= 2 && began.elapsed() > LONGEST {
            break;
        }
        let started = Instant::now();
        let status =
            Command::new(&command[0]).args(&command[1..]).status().map_err(|error| Error::from(error).at(program))?;
        if !status.success() {
            return Err(Error::new(format!("{program}: it failed ({status})"))
                .remedy("calibrate on a program that ends with status 0"));
        }
        fastest = fastest.min(started.elapsed());
    }
    match fastest < SHORTEST {
        true => Err(Error::new(format!(
            "{program}: it takes {:.1} ms, and much of that is its start",
            1e3 * fastest.as_secs_f64()
        ))
        .remedy(format!("calibrate on a program that takes {} ms or more", SHORTEST.as_millis()))),
        false => Ok(fastest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_fit_is_not_called_calibrated() {
        let found = |simulated_s| Calibrated {
            program: "./a b".to_owned(),
            instructions_per_cycle: 16.0,
            took_s: 1.0,
            simulated_s,
        };
        assert_eq!(found(1.01).source(), "calibrated on ./a b");
        assert!(found(1.01).said().contains("takes as long"));
        assert!(found(1.5).source().contains("does not fit") && !found(1.5).said().contains("takes as long"));
    }

    #[test]
    fn programs_that_fail_or_are_short_are_refused() {
        let run = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            fastest(&words, "it").map_err(|error| error.cause)
        };
        assert!(run(&["false"]).unwrap_err().contains("it failed"));
        assert!(run(&["true"]).unwrap_err().contains("much of that is its start"));
        assert!(run(&["/nowhere/to/be/found"]).is_err());
        assert!(run(&["sleep", "0.03"]).unwrap() >= Duration::from_millis(30));
    }
}
