//! Perf events of threads that are followed (perf_event_open(2)): page faults with their addresses, accesses to an
//! address, accesses that a PMU samples, and instructions.

use crate::memory_events::{Code, ELSEWHERE, MemoryEvent};
use cohabit_model::Error;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

/// The part of `struct perf_event_attr` (linux/perf_event.h, PERF_ATTR_SIZE_VER6) that is used.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    /// Of a breakpoint its address and length.
    rest: [u64; 3],
    registers: u64,
    stack: u32,
    clock: i32,
    last: [u64; 3],
}

/// PERF_TYPE_HARDWARE, what the processor counts.
pub const HARDWARE: u32 = 0;
const INSTRUCTIONS: u64 = 1;
/// PERF_TYPE_SOFTWARE, what the kernel counts.
pub const SOFTWARE: u32 = 1;
/// PERF_TYPE_HW_CACHE.
pub const CACHE: u32 = 3;
const PAGE_FAULTS: u64 = 2;
const CPU_CLOCK: u64 = 0;
const DUMMY: u64 = 9;
/// PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING: there may be fewer counters than events.
const WITH_TIMES: u64 = 3;
/// PERF_FORMAT_GROUP.
const FORMAT_GROUP: u64 = 1 << 3;
const BREAKPOINT: u32 = 5;
/// HW_BREAKPOINT_R | HW_BREAKPOINT_W (linux/hw_breakpoint.h).
const WRITES: u32 = 2;
const READS_AND_WRITES: u32 = 3;
/// PERF_SAMPLE_IP | TID | TIME | ADDR.
const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3;
/// PERF_SAMPLE_PERIOD | DATA_SRC. The period is not needed, and makes such a sample as long as no other.
const SAMPLE_SOURCE: u64 = 1 << 8 | 1 << 15;
/// PERF_SAMPLE_REGS_USER.
const SAMPLE_REGISTERS: u64 = 1 << 12;
/// The general registers and the instruction's address (asm/perf_regs.h), the order they come in being that of their
/// bits.
const REGISTERS: u64 = 0x1ff | 0xff << 16;
/// How many these are.
pub const REGISTER_COUNT: usize = 17;
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const COMM: u64 = 1 << 9;
const FREQUENCY: u64 = 1 << 10;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const TASK: u64 = 1 << 13;
/// `precise_ip` of 1: by PEBS, wherever it has the instruction.
const PRECISE: u64 = 1 << 15;
/// Records that are no samples have thread and time at their end, too.
const SAMPLE_ID_ALL: u64 = 1 << 18;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCK: u64 = 1 << 25;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// How many files this process may have open, each of which may be an event: as many as it may allow itself
/// (RLIMIT_NOFILE's hard limit), from now on. What it starts later has that limit too, so only once the program runs.
pub fn files_allowed() -> u64 {
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    if now < most && setrlimit(Resource::RLIMIT_NOFILE, most, most).is_ok() { most } else { now }
}

/// Page faults of one thread, and of all that it creates, on one PU (-1: on all), each a record.
pub fn page_faults(tid: i32, pu: i32) -> io::Result<File> {
    let attributes = Attributes {
        kind: SOFTWARE,
        config: PAGE_FAULTS,
        sample_period: 1,
        sample_type: SAMPLE_TYPE,
        flags: INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | COMM | TASK | COMM_EXEC | SAMPLE_ID_ALL,
        ..Attributes::default()
    };
    open(attributes, tid, pu)
}

/// Samples of one thread, and of all that it creates, on one PU (-1: on all): its registers each time that it has run
/// so long there, unless the kernel runs for it.
pub fn registers(tid: i32, pu: i32, every: Duration) -> io::Result<File> {
    let attributes = Attributes {
        kind: SOFTWARE,
        config: CPU_CLOCK,
        sample_period: every.as_nanos() as u64,
        sample_type: SAMPLE_TYPE | SAMPLE_REGISTERS,
        flags: INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        registers: REGISTERS,
        ..Attributes::default()
    };
    open(attributes, tid, pu)
}

/// What times are by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The one that all events have if nothing else is asked for. Those that write into one ring have the same.
    Default,
    /// CLOCK_MONOTONIC, as eBPF programs have it.
    Monotonic,
}

/// An event that samples accesses to memory, and what leads it.
#[derive(Debug)]
pub struct Accesses {
    /// What samples.
    pub event: File,
    /// What has to be open with it.
    pub leader: Option<File>,
}

/// Accesses to memory of one thread, and of all that it creates, on one PU (-1: on all), as a PMU samples them: one each
/// time that it has run so long there, on average, unless the kernel runs for it.
pub fn accesses(event: &MemoryEvent, tid: i32, pu: i32, every: Duration, clock: Clock) -> io::Result<Accesses> {
    let most = std::fs::read_to_string(MOST_SAMPLES).ok().and_then(|text| text.trim().parse().ok());
    let frequency = (every.as_secs_f64().recip() as u64).min(most.unwrap_or(u64::MAX)).max(1);
    let (use_clock, clock) = match clock {
        Clock::Default => (0, 0),
        Clock::Monotonic => (USE_CLOCK, libc::CLOCK_MONOTONIC),
    };
    let attributes = |code: Code, exclude: u64| Attributes {
        kind: code.kind,
        config: code.config[0],
        rest: [code.config[1], code.config[2], 0],
        flags: INHERIT | exclude | use_clock,
        clock,
        ..Attributes::default()
    };
    let try_to = |exclude: u64| {
        let leader = event.leader.map(|leader| open(attributes(leader, exclude), tid, pu)).transpose()?;
        let attributes = attributes(event.code, exclude);
        let attributes = Attributes {
            sample_period: frequency,
            sample_type: SAMPLE_TYPE | SAMPLE_SOURCE,
            flags: attributes.flags | FREQUENCY | if event.code.precise { PRECISE } else { 0 },
            ..attributes
        };
        let event = open_in_group(attributes, tid, pu, leader.as_ref().map_or(-1, AsRawFd::as_raw_fd))?;
        Ok(Accesses { event, leader })
    };
    match try_to(EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR) {
        // A PMU that cannot leave the kernel out: its samples are left out later.
        Err(error) if is_invalid(&error) => {
            try_to(0).map_err(|second| if is_invalid(&second) { error } else { second })
        }
        opened => opened,
    }
}

/// Samples a second that the kernel allows.
const MOST_SAMPLES: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

fn is_invalid(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// What the kernel refused where accesses were to be sampled, and what to do about it.
pub fn refused_accesses(event: &MemoryEvent, error: io::Error) -> Error {
    let failed = Error::new(format!("{}: {error}", event.name));
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            failed.remedy("as root: sysctl kernel.perf_event_paranoid=2, or 1 for a PMU that cannot leave the kernel out, as AMD's IBS before Linux 6.14")
        }
        Some(libc::EINVAL) => failed.remedy("a kernel that samples single threads by this PMU (AMD's IBS: Linux 6.2 or later)"),
        Some(libc::EMFILE) => failed.remedy("raise the number of open files: ulimit -n"),
        Some(libc::EOPNOTSUPP | libc::ENOENT | libc::ENODEV) => failed.remedy(ELSEWHERE),
        _ => failed,
    }
}

/// An event of a thread that counts nothing. While one is open the kernel does not switch its scheduler's part of perf
/// events on and off with those that come and go: it patches its own code for that, and interrupts all PUs.
pub fn nothing(tid: i32) -> io::Result<File> {
    open(
        Attributes { kind: SOFTWARE, config: DUMMY, flags: EXCLUDE_KERNEL | DISABLED, ..Attributes::default() },
        tid,
        -1,
    )
}

/// Bytes that a watchpoint stands for, and that its address is a multiple of: all that one of x86's debug registers can
/// watch (Intel's manual, volume 3, "Breakpoint Field Recognition").
pub const WATCHED_BYTES: u64 = 8;

/// What a watchpoint stops a thread at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stops {
    /// Writes alone.
    Writes,
    /// Reads and writes.
    Accesses,
}

/// Accesses of one thread to a few addresses, system calls' excepted: which of them there are any to. A thread is
/// stopped at its first access to each, and at no further one.
///
/// One group, so that what interrupts a thread that runs is begun and read once for all: the leader counts nothing, and
/// until it is enabled the others can be added without telling the PU.
#[derive(Debug)]
pub struct Watchpoints {
    leader: File,
    events: Vec<File>,
}

impl Watchpoints {
    /// Watches a thread from now on.
    pub fn open(tid: i32, addresses: impl Iterator<Item = (u64, Stops)>) -> io::Result<Self> {
        let flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        let leader = Attributes {
            kind: SOFTWARE,
            config: DUMMY,
            read_format: FORMAT_GROUP,
            flags: flags | DISABLED,
            ..Attributes::default()
        };
        let leader = open(leader, tid, -1)?;
        let mut events = Vec::new();
        for (address, stops) in addresses {
            let event = Attributes {
                kind: BREAKPOINT,
                breakpoint: match stops {
                    Stops::Writes => WRITES,
                    Stops::Accesses => READS_AND_WRITES,
                },
                sample_period: 1,
                flags,
                // The address, and how many bytes of it.
                rest: [address, WATCHED_BYTES, 0],
                ..Attributes::default()
            };
            let event = match open_in_group(event, tid, -1, leader.as_raw_fd()) {
                // Somebody else has some of the thread's debug registers: those that are left have to do.
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && !events.is_empty() => break,
                event => event?,
            };
            // How often it may stop the thread.
            control(&event, REFRESH, 1)?;
            events.push(event);
        }
        control(&leader, ENABLE, 0)?;
        Ok(Self { leader, events })
    }

    /// Which addresses the thread has used, in their order, as many as are watched; none where the kernel does not say.
    pub fn used(&mut self) -> Option<impl Iterator<Item = bool> + use<>> {
        // How many counts there are, the leader's, and the others'.
        let mut counts = vec![0; 8 * (2 + self.events.len())];
        let length = self.leader.read(&mut counts).ok()?;
        let count = move |at: usize| counts[8 * at..8 * at + 8].iter().any(|&byte| byte > 0);
        (length == 8 * (2 + self.events.len())).then(|| (2..2 + self.events.len()).map(count))
    }
}

const REFRESH: libc::c_ulong = 0x2402;
const ENABLE: libc::c_ulong = 0x2400;

fn control(event: &File, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: a descriptor that is open, and a number.
    match unsafe { libc::ioctl(event.as_raw_fd(), request, argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What an event has counted; none where the kernel does not say.
fn value(event: &mut File) -> Option<u64> {
    let mut value = [0; 8];
    let length = event.read(&mut value).ok()?;
    (length == value.len()).then(|| u64::from_ne_bytes(value))
}

/// Counts an event of whatever the calling thread, or one that it makes, starts from now on: the event is this
/// thread's, where it never begins, since that executes nothing; its children's begin with their `execve`. `in_kernel`:
/// also what happens there.
pub fn of_children(kind: u32, config: u64, in_kernel: bool) -> io::Result<File> {
    let kernel = if in_kernel { 0 } else { EXCLUDE_KERNEL };
    let flags = kernel | DISABLED | INHERIT | ENABLE_ON_EXEC | EXCLUDE_HYPERVISOR;
    open(Attributes { kind, config, read_format: WITH_TIMES, flags, ..Attributes::default() }, 0, -1)
}

/// The count of an event of [`of_children`], for the whole time where it was counted for a part of it only; none where
/// no counter was free.
pub fn scaled_count(event: &mut File) -> Option<f64> {
    let mut bytes = [0; 24];
    event.read_exact(&mut bytes).ok()?;
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let [count, enabled, running] = [word(0), word(8), word(16)];
    match (enabled, running) {
        // What never ran counted nothing.
        (0, _) => Some(0.0),
        (_, 0) => None,
        _ => Some(count as f64 * (enabled as f64 / running as f64)),
    }
}

fn open(attributes: Attributes, tid: i32, pu: i32) -> io::Result<File> {
    open_in_group(attributes, tid, pu, -1)
}

fn open_in_group(attributes: Attributes, tid: i32, pu: i32, leader: i32) -> io::Result<File> {
    let attributes = Attributes { size: size_of::<Attributes>() as u32, ..attributes };
    // SAFETY: the attributes are plain integers of the size that they name, and live through the call.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, tid, pu, leader, CLOSE_ON_EXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that nobody else has.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// What the kernel refused, and what to do about it.
pub fn refused(error: io::Error) -> Error {
    let failed = Error::new(format!("perf events: {error}"));
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            failed.remedy("as root: sysctl kernel.perf_event_paranoid=2 (a container: --cap-add=PERFMON); another user's programs need root")
        }
        Some(libc::ENOSYS | libc::ENOENT) => failed.remedy("this kernel was built without perf events"),
        Some(libc::EMFILE) => failed.remedy("raise the number of open files: ulimit -n"),
        _ => failed,
    }
}

/// Instructions that programs have retired, those of all that they start included, where the machine has a PMU and this
/// user may read it.
#[derive(Debug, Default)]
pub struct Instructions {
    events: Vec<File>,
}

impl Instructions {
    /// Counts those of a thread, and of all that it creates, from now on. Whether that is possible.
    pub fn follow(&mut self, tid: i32) -> bool {
        self.count(HARDWARE, INSTRUCTIONS, tid)
    }

    fn count(&mut self, kind: u32, config: u64, tid: i32) -> bool {
        let flags = INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        let event = open(Attributes { kind, config, flags, ..Attributes::default() }, tid, -1);
        self.events.extend(event.ok());
        !self.events.is_empty()
    }

    /// How many there have been; none where nothing is counted.
    pub fn total(&mut self) -> Option<f64> {
        let mut total = None;
        for event in &mut self.events {
            if let Some(value) = value(event) {
                *total.get_or_insert(0.0) += value as f64;
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_children_do_is_counted() {
        let mut instructions = Instructions::default();
        // As many machines have no PMU, and a container may forbid events: page faults are counted in the same way.
        let tid = nix::unistd::gettid().as_raw();
        if !instructions.count(SOFTWARE, PAGE_FAULTS, tid) {
            println!("skipped: what_children_do_is_counted: no perf events");
            return;
        }
        let before = instructions.total().unwrap();
        let thread = std::thread::spawn(|| std::hint::black_box(vec![1u8; 16 << 20]).len());
        assert_eq!(thread.join().unwrap(), 16 << 20);
        assert!(instructions.total().unwrap() > before);
        let mut instructions = Instructions::default();
        assert_eq!(instructions.follow(tid), instructions.total().is_some());
        assert!(!Instructions::default().follow(i32::MAX));
    }
}
