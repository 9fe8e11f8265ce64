//! Runs a program under the profiler and makes its profile.

use super::directory::Directory;
use super::image::Image;
use super::merge::{Run, merge};
use super::program::check_profilable;
use super::{Options, Outcome, abi, clock};
use crate::recording::{Parts, collect};
use cohabit_access::file::with_order_and_outline;
use cohabit_host::install::Installation;
use cohabit_host::signals::Passing;
use cohabit_model::command::CommandError;
use cohabit_model::file::cannot_write;
use cohabit_model::series::Window;
use cohabit_model::{Error, Result};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// A process may have so many mappings (`vm.max_map_count`, 65,530 by default): with a guard page around each of
/// DynamoRIO's for a thread, 4,096 threads do not fit. Guard pages of stacks stay.
const DYNAMORIO_OPTIONS: &str = "-no_per_thread_guard_pages";

/// Runs `command` to its end and says who communicated with whom in it, exactly.
///
/// The program inherits streams, environment, limits and process group. It runs under DynamoRIO: slower, and to the
/// same results. What it leaves behind until a crash or a kill is kept, and coverage says so.
///
/// # Errors
/// [`CommandError::NotFound`] and [`CommandError::CannotRun`] for a command that the profiler cannot run,
/// [`CommandError::Failed`] where the profiler is missing or could not start, [`CommandError::Killed`] where a signal
/// ended the program before it began.
pub fn profile(command: &[OsString], options: &Options) -> Result<Outcome, CommandError> {
    let program = check_profilable(command)?;
    check_descriptors()?;
    let limits = getrlimit(Resource::RLIMIT_AS).unwrap_or((RLIM_INFINITY, RLIM_INFINITY));
    check_address_space(address_space_bytes(options.block_bytes), limits)?;
    let installation = Installation::find()?;
    let ticks_per_second = clock::ticks_per_second()?;
    let directory = Directory::create()?;
    directory.make_common();
    let mut launcher = Command::new(&installation.launcher);
    launcher.arg(&installation.dynamorio).arg(&installation.client);
    let recording = options.recording.as_deref().map(|to| Recording::begin(to, options)).transpose()?;
    let recorded_to = recording.as_ref().map(|recording| recording.directory.path());
    let client_options = client_options(directory.path(), recorded_to, ticks_per_second, options)?;
    launcher.arg(client_options).arg(DYNAMORIO_OPTIONS).arg("--");
    launcher.arg(&program.image).args(&program.arguments);
    launcher.envs(options.environment.iter().cloned());
    launcher.env("DYNAMORIO_CONFIGDIR", directory.configuration());
    options.on_begin.now(directory.path());
    let status = run(&mut launcher, options.pass_signals, || directory.has_begun())?;
    let (mut images, mut notes) = images_at_their_end(&directory)?;
    if images.is_empty() {
        return Err(not_started(&program.path, status));
    }
    if images.iter().any(outlives) {
        let path = directory.leave();
        notes.push(format!(
            "a process that the program started still runs, and keeps {}: a later run removes it",
            path.display()
        ));
    }
    let host = nix::unistd::gethostname().unwrap_or_default();
    let typed = options.typed.as_deref().unwrap_or(command);
    let command: Vec<String> = typed.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut recorded_accesses = 0;
    if let Some(recording) = recording {
        images.sort_by_key(|image| image.head.start_ns);
        recorded_accesses = recording.write(&images, command.clone(), &host.to_string_lossy(), &notes)?;
    }
    let end_ns = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64);
    let mut profile = merge(images, &Run { command, host: &host.to_string_lossy(), options, end_ns });
    profile.meta.coverage.exact &= notes.is_empty();
    profile.meta.coverage.not_seen.extend(notes.iter().cloned());
    if let Some(signal) = status.signal().map(signal_name) {
        let after = format!("what would have come after {signal}, which ended the program");
        profile.meta.coverage.not_seen.push(after);
        notes.push(format!("{signal} ended the program: what was counted until then is kept"));
    }
    // What an option that was asked for leaves out is said at once, too.
    notes.extend(profile.meta.coverage.not_seen.iter().filter(|line| line.starts_with("--")).cloned());
    Ok(Outcome { profile, status, notes, recorded_accesses })
}

/// Address space that the profiler reserves, next to nothing of which is ever memory: a word for each block that the
/// program might touch, the state of memory that processes share, the part, and room for the program and DynamoRIO.
fn address_space_bytes(block_bytes: u32) -> u64 {
    const USER_BYTES: u64 = 1 << 47;
    const PART_AND_REST: u64 = 1 << 39;
    USER_BYTES / u64::from(block_bytes) * 8 + abi::COHABIT_COMMON_BYTES + PART_AND_REST
}

/// Refuses where address space is limited to less than `needed`: DynamoRIO, whose own is reserved first, ends the
/// program with a line that says neither why nor what to do.
fn check_address_space(needed: u64, (soft, hard): (rlim_t, rlim_t)) -> Result<()> {
    if soft >= needed {
        return Ok(());
    }
    let cause = format!(
        "the profiler reserves {} GiB of address space (not memory), and ulimit -v allows {:.1} GiB",
        needed >> 30,
        soft as f64 / f64::from(1 << 30)
    );
    let remedy = match hard >= needed {
        true => "lift the limit where you profile: ulimit -v unlimited",
        false => "have the limit lifted (a hard one: ulimit -Hv); memory itself is better limited by a control group",
    };
    Err(Error::new(cause).remedy(remedy))
}

/// DynamoRIO opens files of its own, and tries for ever where it may not.
fn check_descriptors() -> Result<(), CommandError> {
    const NEEDED: u64 = 16;
    // Of a limit that is not known it is not said that it is too low.
    let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(NEEDED, |(soft, _)| soft);
    if allowed < NEEDED {
        let cause = format!("{allowed} open files are allowed, and the profiler needs {NEEDED}");
        return Err(Error::new(cause).remedy("raise the number of open files: ulimit -n").into());
    }
    Ok(())
}

/// The client's options (`native/dbi/options.c`), as DynamoRIO parses them: words between spaces.
fn client_options(
    directory: &Path,
    recording: Option<&Path>,
    ticks_per_second: u64,
    options: &Options,
) -> Result<OsString> {
    let mut text = OsString::new();
    let mut add = |name: &str, value: &OsStr| {
        for part in ["-", name, " "] {
            text.push(part);
        }
        text.push(value);
        text.push(" ");
    };
    add("directory", directory.as_os_str());
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (burst_on, burst_off) = options.burst.unwrap_or_default();
    let window = match options.window {
        Window::Time(ns) => ("window_ns", ns),
        Window::Instructions(instructions) => ("window_instructions", instructions),
    };
    for (name, value) in [
        ("ticks_per_second", ticks_per_second),
        window,
        ("series_bound", options.series_bound),
        ("block", options.block_bytes.into()),
        ("sharing", options.sharing.into()),
        ("hot", options.hot.into()),
        ("region", (options.region || options.region_of_mpi || options.region_signal.is_some()).into()),
        ("region_of_mpi", options.region_of_mpi.into()),
        ("signal", options.region_signal.unwrap_or(0).unsigned_abs().into()),
        ("burst_on_ns", ns(burst_on)),
        ("burst_off_ns", ns(burst_off)),
    ] {
        if value != 0 || name == "series_bound" {
            add(name, OsStr::new(&value.to_string()));
        }
    }
    for (name, record) in [("record", options.record.as_deref()), ("recording", recording)] {
        let Some(record) = record else { continue };
        let record = std::path::absolute(record)?;
        if record.as_os_str().as_bytes().iter().any(|byte| b"\"'`;\\ \t\n".contains(byte)) {
            return Err(Error::new(format!("{}: the name holds a space, a quote or a semicolon", record.display()))
                .remedy("record to a directory with a plain name"));
        }
        add(name, record.as_os_str());
    }
    Ok(text)
}

/// A recording under way: the client's files lie beside the file that is made of them.
struct Recording<'a> {
    directory: tempfile::TempDir,
    to: &'a Path,
    ranks: bool,
    /// Order may be told by words.
    by_words: bool,
}

/// Bytes of blocks in which whoever reads what orders it has waited for that.
const MOST_BLOCK_BYTES: u32 = 64;

impl<'a> Recording<'a> {
    fn begin(to: &'a Path, options: &Options) -> Result<Self> {
        let place = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made = tempfile::Builder::new().prefix(".cohabit-recording-").tempdir_in(place);
        let directory = made.map_err(|error| cannot_write(to, &error))?;
        Ok(Self { directory, to, ranks: options.ranks, by_words: options.block_bytes <= MOST_BLOCK_BYTES })
    }

    /// Makes the recording, whole or not at all. How many accesses it has.
    fn write(self, images: &[Image], command: Vec<String>, host: &str, notes: &[String]) -> Result<u64> {
        let failed = |error: std::io::Error| cannot_write(self.to, &error);
        let parts = Parts {
            images,
            directory: self.directory.path(),
            command,
            host,
            not_seen: notes.to_vec(),
            ranks: self.ranks,
        };
        let path = self.directory.path().join("recording");
        let file = BufWriter::new(File::create(&path).map_err(failed)?);
        let (file, accesses) = collect(&parts, file)?;
        file.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
        std::fs::rename(&path, self.to).map_err(failed)?;
        // It takes a while, and whoever ends it has the recording nevertheless.
        if self.by_words && with_order_and_outline(self.to, &path)? {
            std::fs::rename(&path, self.to).map_err(failed)?;
        }
        Ok(accesses)
    }
}

/// Runs the launcher to its end. Signals are passed on once the profiler has `begun` in the program: while DynamoRIO
/// starts it may lose them.
fn run(launcher: &mut Command, pass_signals: bool, begun: impl Fn() -> bool) -> Result<ExitStatus> {
    const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
    const PATIENCE: Duration = Duration::from_secs(20);
    let passing = pass_signals.then(Passing::install);
    let started = launcher.spawn();
    let name = launcher.get_program().to_string_lossy().into_owned();
    let mut child: Child =
        started.map_err(|error| Error::new(format!("{name}: {error}")).remedy("run `make` again"))?;
    if let Some(passing) = &passing {
        let start = Instant::now();
        while !begun() && start.elapsed() < PATIENCE {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        passing.to(child.id());
    }
    Ok(child.wait()?)
}

fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string())
}

/// Why nothing was left behind: the launcher, or DynamoRIO, has said it on standard error.
fn not_started(program: &Path, status: ExitStatus) -> CommandError {
    if let Some(signal) = status.signal() {
        let cause = format!("{} ended {} before it had begun", signal_name(signal), program.display());
        return CommandError::Killed(signal, Error::new(cause).remedy("no profile was written"));
    }
    let error = Error::new(format!("the profiler could not start {}: {status}", program.display()))
        .remedy("the lines above say why; `cohabit doctor` says what works here");
    match status.code() {
        Some(127) => CommandError::NotFound(error),
        Some(126) => CommandError::CannotRun(error),
        _ => CommandError::Failed(error),
    }
}

/// What all processes left. Some end a moment after the one that was waited for (a launcher's daemon does): they get
/// it, and those that run on are left to run.
fn images_at_their_end(directory: &Directory) -> Result<(Vec<Image>, Vec<String>)> {
    const PATIENCE: Duration = Duration::from_secs(3);
    const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
    let found = directory.images()?;
    if !found.0.iter().any(outlives) {
        return Ok(found);
    }
    for _ in 0..PATIENCE.as_millis() / BETWEEN_LOOKS.as_millis() {
        std::thread::sleep(BETWEEN_LOOKS);
        if !found.0.iter().any(outlives) {
            break;
        }
    }
    directory.images()
}

/// Whether the image's process still runs: one that has ended and was not waited for has no program any more.
fn outlives(image: &Image) -> bool {
    let running = || std::fs::read_link(format!("/proc/{}/exe", image.head.pid)).is_ok();
    image.head.end == abi::COHABIT_END_RUNNING && running()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_address_space_is_said_with_what_to_do() {
        let (some, enough) = (4_096_000_000, address_space_bytes(64));
        assert_eq!(enough >> 30, 20_992);
        assert!(address_space_bytes(4096) < enough && enough < address_space_bytes(16));
        for (limits, said) in [
            ((RLIM_INFINITY, RLIM_INFINITY), None),
            ((enough, enough), None),
            ((some, RLIM_INFINITY), Some("ulimit -v unlimited")),
            ((some, some), Some("a hard one")),
        ] {
            let found = check_address_space(enough, limits).err();
            assert_eq!(found.is_some(), said.is_some(), "{limits:?}: {found:?}");
            if let (Some(error), Some(said)) = (found, said) {
                assert!(error.cause.contains("ulimit -v allows 3.8 GiB"), "{error}");
                assert!(error.remedy.is_some_and(|remedy| remedy.contains(said)));
            }
        }
    }
}
