//! How many instructions a cycle a machine begins, by a program that was run on it: the rate at which its simulation takes
//! as long as the program did.

use super::machine::round;
use crate::exit::Failure;
use crate::output::note;
use crate::progress;
use crate::recording::record;
use cohabit_access::Recording;
use cohabit_access::file::RecordingFile;
use cohabit_apply::usage::Meter;
use cohabit_memory::machine::file::MachineFile;
use cohabit_memory::{Machine, Options, simulate};
use cohabit_model::{Error, Result};
use cohabit_observe::dbi;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
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

/// The share of the time that a program is to compute: a rate says nothing of one that waits.
const BUSY: f64 = 0.8;

/// What was found.
pub struct Calibrated {
    program: String,
    /// The rate that is the nearest.
    nearest: f64,
    /// The rate that is assumed without.
    assumed: f64,
    /// Seconds that the program took, and that it takes in simulation at the nearest rate.
    took_s: f64,
    simulated_s: f64,
}

impl Calibrated {
    /// The rate, where one fits.
    pub fn rate(&self) -> Option<f64> {
        ((self.simulated_s / self.took_s - 1.0).abs() <= CLOSE).then_some(self.nearest)
    }

    /// Where the rate comes from, for the machine file.
    pub fn source(&self) -> String {
        match self.rate() {
            Some(_) => format!("calibrated on {}", self.program),
            None => format!("assumed, not calibrated: no rate fits {}", self.program),
        }
    }

    /// The same, for the user.
    pub fn said(&self) -> String {
        let (took, simulated) = (1e3 * self.took_s, 1e3 * self.simulated_s);
        let (program, nearest) = (&self.program, self.nearest);
        match self.rate() {
            Some(rate) => format!("{program} took {took:.1} ms, and takes as long with {rate:.2} instructions a cycle"),
            None => format!(
                "not calibrated: {program} took {took:.1} ms, and takes {simulated:.1} ms in simulation at the rate that is nearest, \
                 {nearest:.2} instructions a cycle; {:.2} are assumed: calibrate on a program that computes in its own code",
                self.assumed
            ),
        }
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
    let assumed = file.core.instructions_per_cycle;
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
    Ok(Calibrated { program, nearest: round(rate), assumed, took_s: wanted, simulated_s })
}

/// Simulated seconds of all of it, task after task on the PUs in order.
fn seconds(recording: &dyn Recording, file: &MachineFile) -> Result<f64> {
    let machine = Machine::parse(&file.to_toml(|_| None), None)?;
    let pus = machine.core_of_pu.len();
    let mapping: Vec<usize> = (0..recording.tasks().len()).map(|task| task % pus).collect();
    Ok(simulate(recording, &machine, &mapping, &Options::default())?.time_fs as f64 / FS)
}

/// The fastest of several runs, which write nowhere: how long it took, but for what others had its PU.
fn fastest(command: &[OsString], program: &str) -> Result<Duration> {
    let (mut fastest, mut computed, began) = (Duration::MAX, Duration::ZERO, Instant::now());
    for run in 0..RUNS {
        if run >= 2 && began.elapsed() > LONGEST {
            break;
        }
        let meter = Meter::start()?;
        let started = Instant::now();
        let mut child =
            Command::new(&command[0]).args(&command[1..]).spawn().map_err(|error| Error::from(error).at(program))?;
        // Its counts can be read until it is waited for.
        let _ = waitid(Id::Pid(Pid::from_raw(child.id() as i32)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        let took = started.elapsed();
        let without_pu = waited_for_a_pu(child.id());
        let status = child.wait().map_err(|error| Error::from(error).at(program))?;
        let usage = meter.stop()?;
        if !status.success() {
            return Err(Error::new(format!("{program}: it failed ({status})"))
                .remedy("calibrate on a program that ends with status 0"));
        }
        let took = took.saturating_sub(without_pu);
        if took < fastest {
            (fastest, computed) = (took, Duration::from_secs_f64(usage.cpu_s().max(0.0)));
        }
    }
    check(program, fastest, computed).map(|()| fastest)
}

/// How long the main thread of a process that has ended wanted a PU that others had; 0 where the kernel does not tell.
fn waited_for_a_pu(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let ns = text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// Whether a program that took so long, and computed so long in that, says what instructions take.
fn check(program: &str, took: Duration, computed: Duration) -> Result<()> {
    let [took, computed, shortest] = [took, computed, SHORTEST].map(|time| 1e3 * time.as_secs_f64());
    if computed < BUSY * took && took >= shortest {
        return Err(Error::new(format!("{program}: it takes {took:.1} ms, and computes for {computed:.1} of them"))
            .remedy("calibrate on a program that computes all the time"));
    }
    if computed < shortest {
        return Err(Error::new(format!("{program}: it computes for {computed:.1} ms, and much of that is its start"))
            .remedy(format!("calibrate on a program that computes for {shortest:.0} ms or more")));
    }
    Ok(())
}

/// What time a program takes, of which the rate of instructions is not known yet: `simulated` tells it for a rate. The
/// rate at which it takes `wanted`, to a hundredth, and what it takes then; the fastest or slowest rate where none does.
pub fn rate_for(wanted: f64, mut simulated: impl FnMut(f64) -> Result<f64>) -> Result<(f64, f64)> {
    // Time falls with the rate.
    let (mut low, mut high) = (0.05_f64, 16.0_f64);
    let mut found = (2.0, simulated(2.0)?);
    let mut before: Option<(f64, f64)> = None;
    for _ in 0..12 {
        let (rate, took) = found;
        if (took / wanted - 1.0).abs() < 0.01 {
            break;
        }
        if took > wanted {
            low = rate
        } else {
            high = rate
        }
        if high / low < 1.03 {
            break;
        }
        // Instructions take their time over the rate, and the rest what it takes: two runs tell both.
        let of_instructions = before.map(|(other, time)| (took - time) / (1.0 / rate - 1.0 / other));
        let by_both = of_instructions.map(|of| of / (wanted - (took - of / rate)));
        let next = by_both.filter(|next| next.is_finite() && *next > 0.0).unwrap_or(rate * took / wanted);
        // Not beyond what is known, and never the same again.
        let next = next.clamp(low * 1.01, high / 1.01);
        let next = if (next / rate - 1.0).abs() < 0.005 { (low * high).sqrt() } else { next };
        before = Some(found);
        found = (next, simulated(next)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_fit_is_not_called_calibrated() {
        let found = |simulated_s| Calibrated {
            program: "./a b".to_owned(),
            nearest: 16.0,
            assumed: 2.0,
            took_s: 1.0,
            simulated_s,
        };
        assert_eq!((found(1.01).source().as_str(), found(1.01).rate()), ("calibrated on ./a b", Some(16.0)));
        assert!(found(1.01).said().contains("takes as long"));
        let not = found(1.5);
        assert_eq!((not.source().as_str(), not.rate()), ("assumed, not calibrated: no rate fits ./a b", None));
        assert!(
            not.said().starts_with("not calibrated: ./a b took 1000.0 ms") && not.said().contains("; 2.00 are assumed")
        );
    }

    #[test]
    fn programs_that_fail_wait_or_are_short_are_refused() {
        let run = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            fastest(&words, "it").map_err(|error| error.cause)
        };
        assert!(run(&["false"]).unwrap_err().contains("it failed"));
        assert!(run(&["/nowhere/to/be/found"]).is_err());
        let check = |took, computed| {
            check("it", Duration::from_millis(took), Duration::from_millis(computed)).map_err(|error| error.cause)
        };
        assert_eq!(check(200, 1).unwrap_err(), "it: it takes 200.0 ms, and computes for 1.0 of them");
        assert_eq!(check(30, 23).unwrap_err(), "it: it takes 30.0 ms, and computes for 23.0 of them");
        assert_eq!(check(19, 19).unwrap_err(), "it: it computes for 19.0 ms, and much of that is its start");
        assert_eq!(check(19, 1).unwrap_err(), "it: it computes for 1.0 ms, and much of that is its start");
        assert_eq!((check(30, 28), check(20, 60)), (Ok(()), Ok(())));
    }

    #[test]
    fn the_rate_is_found_at_which_a_program_takes_what_it_took() {
        // 3 s of memory, 8 of instructions at one a cycle.
        let takes = |rate: f64| Ok::<_, cohabit_model::Error>(3.0 + 8.0 / rate);
        for rate in [0.3, 1.0, 2.0, 3.7, 9.0] {
            let mut runs = 0;
            let mut counted = |rate| {
                runs += 1;
                takes(rate)
            };
            let (found, time) = rate_for(3.0 + 8.0 / rate, &mut counted).unwrap();
            assert!(runs <= 4, "{runs} runs for {rate}");
            assert!((time / (3.0 + 8.0 / rate) - 1.0).abs() < 0.01, "{rate}: {found}");
        }
        let (rate, _) = rate_for(2.0, takes).unwrap();
        assert!(rate > 12.0, "none: the fastest that is tried ({rate})");
    }
}
