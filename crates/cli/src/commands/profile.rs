//! `cohabit profile`: who communicates with whom in an unmodified program, exactly.

use super::Outcome;
use crate::command_line::given;
use crate::exit::{End, Failure};
use crate::json::{JsonFileArgs, name_of};
use crate::narration::Narration;
use crate::output::note;
use crate::words::noun;
use crate::{number, numbered};
use clap::ValueEnum;
use cohabit_formats::npz::write_profile;
use cohabit_model::Error;
use cohabit_model::file::check_writable;
use cohabit_model::profile::Kind;
use cohabit_model::series::Window;
use cohabit_observe::begin::OnBegin;
use cohabit_observe::mpi::launcher::is_launcher;
use cohabit_observe::mpi::scripts::called_within;
use cohabit_observe::{dbi, hybrid, mpi};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  cohabit profile -- ./solver input              write cohabit.npz (one that is
                                                 there is kept as cohabit-1.npz)
  cohabit profile -o p.npz --hot -- ./solver     which data and code communicate
  cohabit profile --roi -- ./solver              only between markers (cohabit.h)
  cohabit profile --burst 10ms,90ms -- ./solver  a tenth of a long run
  cohabit profile -- mpirun -n 8 ./solver        which rank sends what to which
  cohabit profile --detector dbi,mpi -- mpirun -n 4 ./solver  ranks and threads

The program runs under DynamoRIO: slower, and with the same results. Ranks of
mpirun, mpiexec and srun run at full speed, with a library that sees their
calls of MPI. Streams, signals and exit status pass through; what cohabit has to
say comes on standard error.";

/// Where the profile goes unless the user says.
const DEFAULT_OUTPUT: &str = "cohabit.npz";

/// What looks at the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Detector {
    /// The exact profiler: loads and stores of threads
    Dbi,
    /// A library in MPI ranks: their messages
    Mpi,
}

/// What of the program is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Observed {
    Memory,
    Ranks,
    Both,
}

impl Observed {
    /// What the tasks are called while they run, one and several.
    fn noun(self) -> [&'static str; 2] {
        match self {
            Self::Memory | Self::Both => noun(Kind::Threads),
            Self::Ranks => noun(Kind::Ranks),
        }
    }

    /// How the program runs, for the line that says so.
    fn how(self) -> &'static str {
        match self {
            Self::Memory => "runs under the profiler, slower and with the same results",
            Self::Ranks => "runs with the messages of its ranks counted",
            Self::Both => "runs under the profiler, slower and with the same results, its messages counted",
        }
    }
}

/// Arguments of `cohabit profile`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Profile {
    /// Write the profile to P, over what is there [default: cohabit.npz; what is there is kept under a number]
    #[arg(short, long, value_name = "P")]
    output: Option<PathBuf>,
    /// Bytes of memory in which a write and a read count as communication: a power of two from 16 to 4096
    #[arg(long, value_name = "N", default_value = "64", value_parser = block_bytes)]
    block: u32,
    /// Width of a bin of the time series: 1us or more, or instructions of each thread (1Minstr; docs/time.md)
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = number::window)]
    window: Window,
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
    /// What looks at the program, dbi,mpi being both: the threads of ranks [default: mpi for mpirun, mpiexec and srun,
    /// else dbi]
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
        let output = self.output();
        check_writable(output)?;
        self.json.check()?;
        let observed = self.observed()?;
        let program = self.command[0].to_string_lossy();
        let (narration, on_begin) = Narration::new(&program, observed.how(), observed.noun(), output);
        let mut outcome = self.observe(observed, on_begin)?;
        outcome.profile.meta.arguments = given();
        for line in &outcome.notes {
            note(line);
        }
        let profile = &outcome.profile;
        let kept = if self.output.is_none() { numbered::keep(output)? } else { None };
        write_profile(output, profile)?;
        narration.end(output, kept.as_deref(), profile);
        self.json.emit(
            "profile",
            json!({
                "profile": name_of(output), "tasks": profile.tasks(), "messages": number::sum(profile.messages.total()),
                "bytes": number::sum(profile.bytes.total()), "coverage": profile.meta.coverage,
                "status": status_fields(outcome.status), "notes": outcome.notes,
            }),
        )?;
        Ok(End::of(outcome.status))
    }

    fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new(DEFAULT_OUTPUT))
    }

    /// What looks at the program, where that goes together with the other options.
    fn observed(&self) -> Result<Observed, Failure> {
        let (memory, ranks) = match &self.detector[..] {
            [] => (!is_launcher(&self.command), is_launcher(&self.command)),
            given => (given.contains(&Detector::Dbi), given.contains(&Detector::Mpi)),
        };
        if let Window::Instructions(_) = self.window {
            let why = match (ranks, self.sharing) {
                (true, _) => "messages of ranks come at a time",
                (_, true) => "--sharing asks who touches a block at about the same time",
                (false, false) => "",
            };
            if !why.is_empty() {
                let error = Error::new(format!("--window: instructions are for threads by themselves: {why}"));
                return Err(Failure::usage(error.remedy("give it a time, such as 1ms")));
            }
        }
        if memory {
            return Ok(if ranks { Observed::Both } else { Observed::Memory });
        }
        let (region, signal) = (self.roi, self.roi_signal.is_some());
        let given = [
            ("--sharing", self.sharing),
            ("--roi", region),
            ("--roi-signal", signal),
            ("--burst", self.burst.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            None => Ok(Observed::Ranks),
            Some((option, _)) => {
                let error = Error::new(format!("{option} is about memory, and ranks are observed by their messages"));
                Err(Failure::usage(error.remedy("leave it out, or look at memory with --detector dbi")))
            }
        }
    }

    fn observe(&self, observed: Observed, on_begin: OnBegin) -> Result<dbi::Outcome, Failure> {
        let outcome = match observed {
            Observed::Both => {
                let ranks = self.rank_options(OnBegin::default());
                hybrid::profile(&self.command, &self.options(on_begin), &ranks)
            }
            Observed::Memory => {
                if self.detector.is_empty() && called_within(&self.command).is_some() {
                    note(
                        "a launcher of MPI is called within: what is seen is memory that processes share (put 'cohabit profile --' before mpirun, mpiexec or srun to see what ranks send)",
                    );
                }
                dbi::profile(&self.command, &self.options(on_begin))
            }
            Observed::Ranks => mpi::profile(&self.command, &self.rank_options(on_begin)),
        };
        outcome.map_err(Failure::from)
    }

    fn rank_options(&self, on_begin: OnBegin) -> mpi::Options {
        mpi::Options {
            window: Duration::from_nanos(self.window.width()),
            sites: self.hot,
            monitoring: !self.no_monitoring,
            shared: self.output().parent().unwrap_or(Path::new(".")).to_path_buf(),
            pass_signals: true,
            on_begin,
        }
    }

    fn options(&self, on_begin: OnBegin) -> dbi::Options {
        dbi::Options {
            block_bytes: self.block,
            window: self.window,
            sharing: self.sharing,
            hot: self.hot,
            region: self.roi,
            region_signal: self.roi_signal,
            burst: self.burst,
            pass_signals: true,
            on_begin,
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
        let ms = Duration::from_millis;
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
