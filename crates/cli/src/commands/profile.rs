//! `cohabit profile`: who communicates with whom in an unmodified program, exactly.

use super::Outcome;
use crate::exit::{End, Failure};
use crate::json::{JsonFileArgs, name_of};
use crate::number;
use crate::output::note;
use clap::ValueEnum;
use cohabit_model::Error;
use cohabit_model::file::check_writable;
use cohabit_observe::mpi::launcher::is_launcher;
use cohabit_observe::mpi::scripts::called_within;
use cohabit_observe::npz::write_profile;
use cohabit_observe::{dbi, hybrid, mpi};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  cohabit profile -- ./solver input              write cohabit.npz
  cohabit profile -o p.npz --hot -- ./solver     which data and code communicate
  cohabit profile --roi -- ./solver              only between markers (cohabit.h)
  cohabit profile --burst 10ms,90ms -- ./solver  a tenth of a long run
  cohabit profile -- mpirun -n 8 ./solver        which rank sends what to which
  cohabit profile --detector dbi,mpi -- mpirun -n 4 ./solver  ranks and threads

The program runs under DynamoRIO: slower, and with the same results. Ranks of
mpirun, mpiexec and srun run at full speed, with a library that sees their
calls of MPI. Streams, signals and exit status pass through.";

/// What looks at the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Detector {
    /// The exact profiler: loads and stores of threads
    Dbi,
    /// A library in MPI ranks: their messages
    Mpi,
}

/// Arguments of `cohabit profile`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Profile {
    /// Write the profile to P
    #[arg(short, long, value_name = "P", default_value = "cohabit.npz")]
    output: PathBuf,
    /// Bytes of memory in which a write and a read count as communication: a power of two from 16 to 4096
    #[arg(long, value_name = "N", default_value = "64", value_parser = block_bytes)]
    block: u32,
    /// Width of a bin of the time series: 1us or more
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = window)]
    window: Duration,
    /// Count sharing too: blocks that two tasks both touched within a window (slower)
    #[arg(long)]
    sharing: bool,
    /// Find out which data objects and which code communicate most (of ranks: which calls)
    #[arg(long)]
    hot: bool,
    /// Look only between the markers in the program (cohabit_roi_begin and _end in cohabit.h)
    #[arg(long)]
    roi: bool,
    /// Begin to look, and stop again, whenever the program gets this signal (USR2, say)
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    roi_signal: Option<i32>,
    /// Look for ON, then not for OFF, over and over (10ms,90ms): less slow, and no longer exact
    #[arg(long, value_name = "ON,OFF", value_parser = burst)]
    burst: Option<(Duration, Duration)>,
    /// What looks at the program, dbi,mpi being both: the threads of ranks [default: mpi for mpirun, mpiexec and srun, else dbi]
    #[arg(long, value_name = "D", value_delimiter = ',')]
    detector: Vec<Detector>,
    /// Leave Open MPI's monitoring off: collectives are then decomposed by their usual algorithms only
    #[arg(long)]
    no_monitoring: bool,
    #[command(flatten)]
    json: JsonFileArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Profile {
    /// Runs the program under the profiler, writes the profile, and ends as the program ended.
    pub fn run(self) -> Outcome {
        check_writable(&self.output)?;
        self.json.check()?;
        let outcome = self.observe()?;
        for line in &outcome.notes {
            note(line);
        }
        let profile = &outcome.profile;
        write_profile(&self.output, profile)?;
        self.json.emit(
            "profile",
            json!({
                "profile": name_of(&self.output), "tasks": profile.tasks(), "messages": number::sum(profile.messages.total()),
                "bytes": number::sum(profile.bytes.total()), "coverage": profile.meta.coverage,
                "status": status_fields(outcome.status), "notes": outcome.notes,
            }),
        )?;
        Ok(End::of(outcome.status))
    }

    fn observe(&self) -> Result<dbi::Outcome, Failure> {
        let (memory, ranks) = match &self.detector[..] {
            [] => (!is_launcher(&self.command), is_launcher(&self.command)),
            given => (given.contains(&Detector::Dbi), given.contains(&Detector::Mpi)),
        };
        if memory && ranks {
            return hybrid::profile(&self.command, &self.options(), &self.rank_options()).map_err(Failure::from);
        }
        if memory {
            if self.detector.is_empty() && called_within(&self.command).is_some() {
                note(
                    "a launcher of MPI is called within: what is seen is memory that processes share (put 'cohabit profile --' before mpirun, mpiexec or srun to see what ranks send)",
                );
            }
            return dbi::profile(&self.command, &self.options()).map_err(Failure::from);
        }
        let (region, signal) = (self.roi, self.roi_signal.is_some());
        let given = [
            ("--sharing", self.sharing),
            ("--roi", region),
            ("--roi-signal", signal),
            ("--burst", self.burst.is_some()),
        ];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
            let error = Error::new(format!("{option} is about memory, and ranks are observed by their messages"));
            return Err(Failure::usage(error.remedy("leave it out, or look at memory with --detector dbi")));
        }
        mpi::profile(&self.command, &self.rank_options()).map_err(Failure::from)
    }

    fn rank_options(&self) -> mpi::Options {
        mpi::Options {
            window: self.window,
            sites: self.hot,
            monitoring: !self.no_monitoring,
            shared: self.output.parent().unwrap_or(Path::new(".")).to_path_buf(),
            pass_signals: true,
        }
    }

    fn options(&self) -> dbi::Options {
        dbi::Options {
            block_bytes: self.block,
            window: self.window,
            sharing: self.sharing,
            hot: self.hot,
            region: self.roi,
            region_signal: self.roi_signal,
            burst: self.burst,
            pass_signals: true,
            ..dbi::Options::default()
        }
    }
}

/// How the program ended, for `--json`: its exit status, or the signal that killed it.
pub fn status_fields(status: ExitStatus) -> Value {
    match status.signal() {
        None => json!({ "exited": status.code() }),
        Some(signal) => json!({ "signal": signal, "core_dumped": status.core_dumped() }),
    }
}

pub fn block_bytes(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok().filter(|bytes: &u32| bytes.is_power_of_two() && (16..=4096).contains(bytes));
    bytes.ok_or_else(|| "write a power of two from 16 to 4096".to_owned())
}

fn window(text: &str) -> Result<Duration, String> {
    let window = number::duration(text)?;
    if window < Duration::from_micros(1) { Err("it must be 1us or more".to_owned()) } else { Ok(window) }
}

fn burst(text: &str) -> Result<(Duration, Duration), String> {
    let (on, off) = text.split_once(',').ok_or("write two times, ON,OFF, as in 10ms,90ms")?;
    let (on, off) = (number::duration(on)?, number::duration(off)?);
    if on.is_zero() { Err("ON must be longer than nothing".to_owned()) } else { Ok((on, off)) }
}

/// A signal by name, with or without SIG, or by number.
fn signal(text: &str) -> Result<i32, String> {
    use nix::sys::signal::Signal;
    let by_number = text.parse::<i32>().ok().and_then(|number| Signal::try_from(number).ok());
    let by_name = || {
        let name = text.to_ascii_uppercase();
        format!("SIG{}", name.strip_prefix("SIG").unwrap_or(&name)).parse::<Signal>().ok()
    };
    let signal = by_number.or_else(by_name).ok_or("write a signal's name or number, as in USR2")?;
    match signal {
        Signal::SIGKILL | Signal::SIGSTOP => Err("that signal cannot be caught: take USR1 or USR2".to_owned()),
        signal => Ok(signal as i32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_powers_of_two() {
        for (text, expected) in [("16", Some(16)), ("64", Some(64)), ("4096", Some(4096))] {
            assert_eq!(block_bytes(text).ok(), expected);
        }
        for text in ["8", "8192", "100", "0", "-64", "64B", ""] {
            assert!(block_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        for (text, expected) in
            [("1us", Some(us(1))), ("100us", Some(us(100))), ("1ms", Some(ms(1))), ("2s", Some(ms(2000)))]
        {
            assert_eq!(window(text).ok(), expected, "{text}");
        }
        for text in ["999ns", "0s", "1", "ms", "-1ms", ""] {
            assert!(window(text).is_err(), "{text}");
        }
        assert_eq!(burst("10ms,90ms"), Ok((ms(10), ms(90))));
        assert_eq!(burst("1ms,0s"), Ok((ms(1), ms(0))));
        for text in ["10ms", "0s,1s", "10ms,", ",", "1,2"] {
            assert!(burst(text).is_err(), "{text}");
        }
    }

    #[test]
    fn signals_have_names_and_numbers() {
        for text in ["USR2", "SIGUSR2", "usr2", "12"] {
            assert_eq!(signal(text), Ok(libc::SIGUSR2), "{text}");
        }
        for text in ["KILL", "STOP", "9", "0", "nonsense", ""] {
            assert!(signal(text).is_err(), "{text}");
        }
    }
}
