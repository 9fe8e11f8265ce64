//! `cohabit doctor`: what works on this machine, and the remedy for what does not.

use super::Outcome;
use super::restore::{remove_leftovers, removed_text};
use crate::exit::End;
use crate::json::JsonArgs;
use crate::output::note;
use cohabit_host::memory_events::{DEVICES, MemoryEvents};
use cohabit_host::perf_event::{page_faults, refused};
use cohabit_map::{MAPPERS, Mapper, Options, Problem};
use cohabit_model::launcher::{Family, Launcher};
use cohabit_model::{Error, Matrix, Period, Result, Topology};
use cohabit_observe::dbi::{self, Installation};
use cohabit_observe::mpi;
use cohabit_online::allowance::OVERHEAD_PERCENT;
use cohabit_online::faults;
use cohabit_online::faults::PerfFaults;
use cohabit_online::watch::Watcher;
use cohabit_online::ways::{WAYS, Way};
use serde::Serialize;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that does nothing, by the one path that every system has.
const PROBE: [&str; 3] = ["/bin/sh", "-c", ":"];

const EXAMPLES: &str = "\
Examples:
  cohabit doctor            what works for this user
  sudo cohabit doctor       what works for root
  cohabit doctor --json -   the same for a program";

/// Arguments of `cohabit doctor`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    #[command(flatten)]
    json: JsonArgs,
}

/// How well something works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Works,
    Limited,
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    /// What was found.
    found: String,
    /// What it is needed for.
    needed_for: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Doctor {
    /// Looks at everything and prints a line each.
    pub fn run(self) -> Outcome {
        let removed = remove_leftovers();
        if !removed.is_empty() {
            note(&removed_text(&removed));
        }
        let mut checks =
            vec![topology(), mappers(), profiler(), ranks(), ptrace(), privileges(), perf(), ebpf(), copies()];
        checks.extend(WAYS.iter().filter_map(|row| of_way(row.way)));
        let text: String = checks.iter().map(Check::line).collect();
        self.json.emit("doctor", serde_json::json!({ "checks": checks }), &text)?;
        Ok(End::Done)
    }
}

impl Check {
    fn line(&self) -> String {
        let state = match self.state {
            State::Works => "works",
            State::Limited => "limited",
            State::Missing => "missing",
        };
        let mut line = format!("{:<8} {:<12} {} ({})\n", state, self.name, self.found, self.needed_for);
        if let Some(remedy) = &self.remedy {
            line.push_str(&format!("{:<21} {remedy}\n", ""));
        }
        line
    }
}

/// Whether a way of looking at programs works; that of messages is said of MPI.
fn of_way(way: Way) -> Option<Check> {
    match way {
        Way::Hint => Some(hint_faults()),
        Way::Agent => Some(agent()),
        Way::Sample => Some(samples()),
        Way::Pmu => Some(samples_by_pmu()),
        Way::Watch => Some(watchpoints()),
        Way::Messages => None,
    }
}

/// Whether the machine can be read, and how much of it this process may use.
fn topology() -> Check {
    let live = Topology::load("live");
    let found = match &live {
        Ok(live) => format!("{} PUs, {} of them allowed here", live.pus.len(), live.allowed().len()),
        Err(error) => error.cause.clone(),
    };
    Check {
        name: "hwloc",
        state: if live.is_ok() { State::Works } else { State::Missing },
        found,
        needed_for: "mapping onto this machine",
        remedy: live.err().and_then(|error| error.remedy),
    }
}

/// Every mapper is asked to map two tasks: one whose library is missing says so.
fn mappers() -> Check {
    let failed: Vec<(&str, Error)> =
        MAPPERS.iter().filter_map(|mapper| Some((mapper.name(), maps_two_tasks(*mapper).err()?))).collect();
    let names: Vec<&str> = MAPPERS.iter().map(|mapper| mapper.name()).collect();
    let failures =
        || failed.iter().map(|(name, error)| format!("{name}: {}", error.cause)).collect::<Vec<_>>().join("; ");
    Check {
        name: "mappers",
        state: if failed.is_empty() { State::Works } else { State::Limited },
        found: if failed.is_empty() { names.join(", ") } else { failures() },
        needed_for: "choosing where tasks run",
        remedy: failed.iter().find_map(|(_, error)| error.remedy.clone()),
    }
}

fn maps_two_tasks(mapper: &dyn Mapper) -> Result<Vec<usize>> {
    let weight = Matrix::from_triplets(2, [(0, 1, 1)]);
    let topology = Topology::load("core:2 pu:1")?;
    let (messages, bytes) = (weight.clone(), weight.clone());
    let periods = [Period { number: 0, spans: std::iter::once(0..1).collect(), messages, bytes }];
    let options = Options::default();
    mapper.map(&Problem { weight: &weight, load: &[], periods: &periods, topology: &topology, options: &options })
}

fn privileges() -> Check {
    let found = match (is_root(), has_sys_admin()) {
        (true, true) => "root",
        (true, false) => "root without capabilities, as in a container",
        (false, true) => "an ordinary user with capabilities",
        (false, false) => "an ordinary user",
    };
    Check {
        name: "privileges",
        state: State::Works,
        found: found.to_owned(),
        needed_for: "profiling and placing one's own programs need none",
        remedy: None,
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Whether this process may do what administrators may (CAP_SYS_ADMIN, capabilities(7)).
fn has_sys_admin() -> bool {
    const SYS_ADMIN: u32 = 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << SYS_ADMIN) != 0)
}

/// Which launchers of MPI are in PATH, and whether there is a library for the ranks of each.
fn ranks() -> Check {
    let launchers = ["mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.mpich", "srun"];
    let mut found: Vec<(String, Option<Error>)> = Vec::new();
    for name in launchers {
        let Ok((launcher, major)) = mpi::launcher::version(&[name.into()]) else { continue };
        let title = match family_of(launcher) {
            Some(family) => format!("{} {major}", family.title()),
            None => "Slurm".to_owned(),
        };
        if !found.iter().any(|other| other.0 == title) {
            let missing = family_of(launcher).and_then(|family| mpi::install::library(family).err());
            found.push((title, missing));
        }
    }
    let missing = found.iter().find_map(|(_, missing)| missing.clone());
    let names: Vec<&str> = found.iter().map(|(title, _)| title.as_str()).collect();
    let (state, text, remedy) = match (&missing, names.is_empty()) {
        (_, true) => {
            let remedy = "install an MPI, or load its module; other programs need none".to_owned();
            (State::Missing, "no mpirun, mpiexec or srun in PATH".to_owned(), Some(remedy))
        }
        (Some(error), _) => (State::Limited, format!("{}; {}", names.join(", "), error.cause), error.remedy.clone()),
        (None, _) => (State::Works, names.join(", "), None),
    };
    Check { name: "MPI", state, found: text, needed_for: "ranks of mpirun, mpiexec and srun", remedy }
}

/// The MPI whose ranks a launcher starts; Slurm's starts those of any.
fn family_of(launcher: Launcher) -> Option<Family> {
    match launcher {
        Launcher::OpenMpi => Some(Family::OpenMpi),
        Launcher::Hydra => Some(Family::Mpich),
        Launcher::Srun | Launcher::Singleton => None,
    }
}

/// Whether the exact profiler is there and works, tried on a program that does nothing.
fn profiler() -> Check {
    let (state, found, remedy) = match tried_profiler() {
        Ok(place) => (State::Works, format!("DynamoRIO in {}", place.display()), None),
        Err(error) => (State::Missing, error.cause, error.remedy),
    };
    Check { name: "profiler", state, found, needed_for: "cohabit profile", remedy }
}

fn tried_profiler() -> Result<PathBuf> {
    let place = Installation::find()?.dynamorio;
    let tried =
        dbi::profile(&PROBE.map(Into::into), &dbi::Options::default()).map_err(|failure| failure.error().clone())?;
    if tried.status.success() && tried.notes.is_empty() {
        return Ok(place);
    }
    let notes = tried.notes.join("; ");
    Err(Error::new(format!("{} does not run under it: {} {notes}", PROBE[0], tried.status))
        .remedy("run 'make test' in the source tree, and report what fails"))
}

/// Whether a child may be traced, tried for real: a container's seccomp filter or Yama may forbid it.
fn ptrace() -> Check {
    let mut probe = Command::new(PROBE[0]);
    // The child asks to be traced and then gives up with ECANCELED, so that nothing is run.
    // SAFETY: only async-signal-safe system calls between fork and exec.
    unsafe {
        probe.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Err(std::io::Error::from_raw_os_error(libc::ECANCELED)),
        });
    }
    let error = probe.spawn().err().and_then(|error| error.raw_os_error());
    let works = error == Some(libc::ECANCELED);
    let scope = first_word("/proc/sys/kernel/yama/ptrace_scope");
    Check {
        name: "ptrace",
        state: if works { State::Works } else { State::Limited },
        found: match (works, scope.as_deref()) {
            (true, _) => "children can be traced".to_owned(),
            (false, Some("3")) => "forbidden (kernel.yama.ptrace_scope is 3)".to_owned(),
            (false, _) => "forbidden here".to_owned(),
        },
        needed_for: "placing each thread before its first instruction",
        remedy: (!works).then(|| "allow ptrace (a container: --cap-add=SYS_PTRACE); until then threads are placed a moment after they start".to_owned()),
    }
}

fn perf() -> Check {
    let level = first_word("/proc/sys/kernel/perf_event_paranoid");
    let level = level.map_or("not in this kernel".to_owned(), |level| format!("kernel.perf_event_paranoid is {level}"));
    let tried = page_faults(std::process::id() as i32, -1).map_err(refused);
    Check {
        name: "perf events",
        state: if tried.is_ok() { State::Works } else { State::Limited },
        found: tried.as_ref().map_or_else(|error| format!("{}; {level}", error.cause), |_| level.clone()),
        needed_for: "online detection of one's own programs without root",
        remedy: tried.err().and_then(|error| error.remedy),
    }
}

/// Whether the detector can be loaded into the kernel, by doing so.
fn ebpf() -> Check {
    let tried = faults::load_check(None);
    Check {
        name: "eBPF",
        state: if tried.is_ok() { State::Works } else { State::Limited },
        found: match &tried {
            Ok(()) => "page faults can be counted in the kernel".to_owned(),
            Err(error) => error.cause.clone(),
        },
        needed_for: "online detection; perf events are used without, and may lose events",
        remedy: tried.err().and_then(|error| error.remedy),
    }
}

/// Whether the kernel can be made to take pages away and see who uses them.
fn hint_faults() -> Check {
    const SWITCH: &str = "/proc/sys/kernel/numa_balancing";
    let now = first_word(SWITCH);
    let may_write = nix::unistd::access(SWITCH, nix::unistd::AccessFlags::W_OK).is_ok();
    let rate = cohabit_online::debugfs::folder().join("sched/numa_balancing/scan_delay_ms");
    let rate = std::fs::read_to_string(rate).is_ok();
    let works = now.as_deref().is_some_and(|now| now != "0") || now.is_some() && may_write;
    Check {
        name: "hint faults",
        state: match (works, rate) {
            (true, true) => State::Works,
            (true, false) => State::Limited,
            (false, _) => State::Missing,
        },
        found: match (&now, works, rate) {
            (None, ..) => "this kernel has no NUMA balancing".to_owned(),
            (Some(now), true, true) => format!("kernel.numa_balancing is {now}, and its rate can be set"),
            (Some(now), true, false) => format!("kernel.numa_balancing is {now}; its rate cannot be set"),
            (Some(now), false, _) => format!("kernel.numa_balancing is {now}, and may not be changed by this user"),
        },
        needed_for: "online detection: seeing pages more than once, reads as well as writes",
        remedy: match (&now, works, rate) {
            (None, ..) => Some("a kernel built with CONFIG_NUMA_BALANCING=y has it".to_owned()),
            (_, false, _) if is_root() => {
                Some("root of a container may not: on its host, sysctl kernel.numa_balancing=1".to_owned())
            }
            (_, false, _) => Some("run as root, or as root: sysctl kernel.numa_balancing=1".to_owned()),
            (_, true, false) => Some(
                "a kernel without lockdown, and root; without, hint faults are slow to begin, and back off".to_owned(),
            ),
            _ => None,
        },
    }
}

/// Whether the library that programs preload is there, and the kernel does what it asks for.
fn agent() -> Check {
    let tried = faults::Agent::start().and_then(|_| faults::agent_kernel_check());
    Check {
        name: "agent",
        state: if tried.is_ok() { State::Works } else { State::Missing },
        found: tried.as_ref().map_or_else(|error| error.cause.clone(), |()| "can be preloaded".to_owned()),
        needed_for: "online detection: seeing writes again without privilege, and shared mappings",
        remedy: tried.err().and_then(|error| error.remedy),
    }
}

/// Whether tasks can be sampled, and by what.
fn samples() -> Check {
    let sampling = Some(OVERHEAD_PERCENT);
    let by_clock = || PerfFaults::start(&faults::Options { sampling, ..faults::Options::default() });
    let (state, found, remedy) = match faults::load_check(sampling) {
        Ok(()) => (State::Works, "at the timer's interrupts, by eBPF".to_owned(), None),
        Err(error) => match by_clock() {
            Ok(_) => {
                (State::Limited, "by perf events, each an interrupt of its own, and so fewer".to_owned(), error.remedy)
            }
            Err(error) => (State::Missing, error.cause, error.remedy),
        },
    };
    Check {
        name: "samples",
        state,
        found,
        needed_for: "online detection: what tasks read and write, at next to no cost",
        remedy,
    }
}

/// Whether there is a PMU that samples accesses, and this user may have that.
fn samples_by_pmu() -> Check {
    let events = MemoryEvents::find(Path::new(DEVICES));
    let tried = events.and_then(|events| faults::pmu_check(&events).map(|()| events.names()));
    Check {
        name: "PMU samples",
        state: if tried.is_ok() { State::Works } else { State::Missing },
        found: tried.as_ref().map_or_else(|error| error.cause.clone(), Clone::clone),
        needed_for: "online detection: reads and writes with their addresses, and what another core had written",
        remedy: tried.err().and_then(|error| error.remedy),
    }
}

/// Whether it can be seen what processes copy from one another.
fn copies() -> Check {
    let tried = faults::copies_check();
    Check {
        name: "copies",
        state: if tried.is_ok() { State::Works } else { State::Limited },
        found: tried.as_ref().map_or_else(
            |error| error.cause.clone(),
            |()| "process_vm_readv and process_vm_writev can be seen, by eBPF".to_owned(),
        ),
        needed_for: "online detection with attach: large messages of MPI ranks (cohabit run counts messages in the ranks)",
        remedy: tried.err().map(|error| match error.remedy {
            // Where the detector itself cannot be loaded, that is what is wrong.
            Some(remedy) if faults::load_check(None).is_err() => remedy,
            _ => "a kernel that allows fentry programs (CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)".to_owned(),
        }),
    }
}

/// Whether the processor's debug registers can be had.
fn watchpoints() -> Check {
    let tried = Watcher::start(OVERHEAD_PERCENT);
    Check {
        name: "watchpoints",
        state: if tried.is_ok() { State::Works } else { State::Missing },
        found: tried.as_ref().map_or_else(|error| error.cause.clone(), can_be_set),
        needed_for: "online detection: who reads and who writes the same memory, at cohabit's own rate",
        remedy: tried.err().and_then(|error| error.remedy),
    }
}

/// And what that takes of a program here.
fn can_be_set(watcher: &Watcher) -> String {
    match 100.0 * watcher.loss() {
        1.0.. => {
            format!("can be set, seldom: a program may lose {:.0} % of the time it is watched", 100.0 * watcher.loss())
        }
        _ => "can be set".to_owned(),
    }
}

/// The first word of a small file of the kernel's; none where there is no such file.
fn first_word(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()?.split_whitespace().next().map(str::to_owned)
}
