//! The eBPF object of `native/bpf`: where it is, and loading it, with what to do where the kernel refuses.

use super::Options;
use super::abi;
use super::kernel::Kernel;
use super::table::lines;
use crate::sampling::{By, between};
use cohabit_host::install::{LIBDIR_VARIABLE, candidates};
use cohabit_model::{Error, Result};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, set_print};
use std::env;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The file's name, in the folder of the native parts.
pub const OBJECT: &str = "cohabit.bpf.o";

/// The programs that sample, which are not loaded unless that is asked for: by the timer, and what sets it after
/// switches.
const SAMPLER: &str = "on_timer";
const SWITCHES: &str = "on_switch";
const SAMPLERS: [&str; 3] = [SAMPLER, SWITCHES, "ready_timer"];
/// The programs that see what processes copy from one another, and the maps that they have in common with the others.
/// They are attached to functions, which not every kernel allows.
const COPIERS: [&str; 3] = ["on_reach", "on_read", "on_write"];
const MAPS_OF_COPIERS: [&str; 4] = ["followed", "reached", "matrix", "counters"];
/// The program by which tests hand it faults; the same.
const REPLAYER: &str = "replay";
/// A ring has at least a page, and a power of two of them (the kernel's Documentation/bpf/ringbuf.rst).
const LEAST_RING_BYTES: u32 = 4096;
/// 140 samples.
const RING_BYTES_A_PU: u32 = 1 << 16;
const MOST_RING_BYTES: u32 = 1 << 22;

/// What libbpf warned of, for the cause of a failure: it says more than the error number.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Where the object is.
///
/// # Errors
/// Where it was not built, or is not installed.
pub(crate) fn find() -> Result<PathBuf> {
    let program = env::current_exe().map_err(|error| Error::new(format!("cannot tell where cohabit is: {error}")))?;
    let named = env::var_os(LIBDIR_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let places = named.map_or_else(|| candidates(&program), |libdir| vec![libdir]);
    places.iter().map(|place| place.join(OBJECT)).find(|path| path.is_file()).ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        Error::new(format!("no {OBJECT} in {}", places.join(" or ")))
            .remedy("run `make native` where clang and libbpf's headers are installed (`make setup`)")
    })
}

/// Opens, sizes and loads the object.
///
/// # Errors
/// Where the kernel or this user's rights do not suffice.
pub(crate) fn load(path: &Path, options: &Options) -> Result<Object> {
    Kernel::running().check()?;
    let mut open = open(path)?;
    let line_count = lines(options.blocks);
    let sampling = options.sampling.is_some();
    let is_wanted = |name: &OsStr| {
        (sampling && SAMPLERS.iter().any(|sampler| name == *sampler)) || (cfg!(test) && name == REPLAYER)
    };
    for mut program in open.progs_mut().filter(|program| is_wanted(program.name())) {
        program.set_autoload(true);
    }
    for mut map in open.maps_mut() {
        let set = match map.name().to_str() {
            Some("blocks") => map.set_max_entries(line_count),
            Some("timers") => map.set_max_entries(pus()),
            Some("matrix") => map.set_max_entries(options.pairs.max(1)),
            Some("samples") => map.set_max_entries(options.sampling.map_or(LEAST_RING_BYTES, |_| ring_bytes())),
            Some(name) if name.ends_with(".rodata") => {
                let settings = abi::cohabit_fault_settings {
                    line_mask: u64::from(line_count - 1),
                    sample_every_ns: options
                        .sampling
                        .map_or(0, |percent| between(By::Timer, percent).as_nanos() as u64),
                    switch_every_ns: options
                        .sampling
                        .map_or(0, |percent| between(By::Switch, percent).as_nanos() as u64),
                    block_shift: options.block_bytes.ilog2(),
                    most_slots: abi::COHABIT_MAX_SLOTS,
                };
                map.initial_value_mut().map_or(Ok(()), |bytes| {
                    bytes[..size_of_val(&settings)].copy_from_slice(as_bytes(&settings));
                    Ok(())
                })
            }
            _ => Ok(()),
        };
        set.map_err(|error| refused("sizing", &error))?;
    }
    open.load().map_err(|error| refused("loading", &error))
}

fn open(path: &Path) -> Result<OpenObject> {
    warnings();
    set_print(Some((PrintLevel::Warn, |_, text| {
        if let Ok(mut warnings) = WARNINGS.lock() {
            warnings.push(text);
        }
    })));
    ObjectBuilder::default().open_file(path).map_err(|error| refused("opening", &error))
}

/// Bytes of the ring of samples: of all that come in the longest time between two readings.
fn ring_bytes() -> u32 {
    let pus = std::thread::available_parallelism().map_or(1, usize::from);
    (pus as u32 * RING_BYTES_A_PU).next_power_of_two().clamp(16 * LEAST_RING_BYTES, MOST_RING_BYTES)
}

/// Attaches every program but those for tests, and the one that samples only where it is wanted.
pub(crate) fn attach(object: &Object, samples: bool) -> Result<Vec<Link>> {
    let programs = object.progs_mut().filter(|program| program.section().as_encoded_bytes().starts_with(b"tp_btf/"));
    let programs = programs.filter(|program| program.name() != SWITCHES && (samples || program.name() != SAMPLER));
    programs.map(|program| program.attach().map_err(|error| refused("attaching", &error))).collect()
}

/// Loads and attaches what sees copies, beside `object`.
pub(crate) fn attach_copiers(path: &Path, object: &Object) -> Result<Vec<Link>> {
    let mut open = open(path)?;
    let is_one_of = |name: &OsStr, names: &[&str]| names.iter().any(|known| name == *known);
    for mut program in open.progs_mut() {
        program.set_autoload(is_one_of(program.name(), &COPIERS));
    }
    for mut map_of_copiers in open.maps_mut() {
        let name = map_of_copiers.name().to_string_lossy().into_owned();
        let set = if MAPS_OF_COPIERS.contains(&name.as_str()) {
            map_of_copiers.reuse_fd(map(object, &name)?.as_fd())
        } else {
            map_of_copiers.set_autocreate(false)
        };
        set.map_err(|error| refused("sharing a map of", &error))?;
    }
    let copiers = open.load().map_err(|error| refused("loading", &error))?;
    let programs = copiers.progs_mut().filter(|program| is_one_of(program.name(), &COPIERS));
    programs.map(|program| program.attach().map_err(|error| refused("attaching", &error))).collect()
}

/// Attaches what sets the timer after switches.
pub(crate) fn attach_switches(object: &Object) -> Result<Link> {
    let program = object.progs_mut().find(|program| program.name() == SWITCHES);
    let program = program.ok_or_else(|| Error::new(format!("{OBJECT} has no program {SWITCHES}")))?;
    program.attach().map_err(|error| refused("attaching", &error))
}

/// How many PUs there may be, whether they are online or not.
pub(crate) fn pus() -> u32 {
    libbpf_rs::num_possible_cpus().map_or(1, |pus| pus as u32)
}

/// A map of the object, by the end of its name (libbpf leads the names of data sections in by the object's).
pub(crate) fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let found = object.maps().find(|map| map.name().as_encoded_bytes().ends_with(name.as_bytes()));
    let found = found.ok_or_else(|| {
        Error::new(format!("{OBJECT} has no map {name}"))
            .remedy("run `make` to build it again, with this version of cohabit")
    })?;
    MapHandle::try_from(&found).map_err(|error| refused("opening a map of", &error))
}

/// Whether the detector can be loaded and attached here, by doing so; also what samples, if that is wanted.
///
/// # Errors
/// As [`super::BpfFaults::start`].
pub fn load_check(sampling: Option<f64>) -> Result<()> {
    let object = load(&find()?, &Options { blocks: 64, pairs: 64, sampling, ..Options::default() })?;
    let links = attach(&object, sampling.is_some())?;
    let slot = map(&object, "followed")?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
    drop(links);
    slot.map(drop).map_err(|error| refused("reading a map of", &error))
}

/// Whether what processes copy from one another can be seen here, by doing so.
///
/// # Errors
/// As [`super::BpfFaults::start`], and where the kernel allows no programs on its functions.
pub fn copies_check() -> Result<()> {
    let path = find()?;
    let object = load(&path, &Options { blocks: 64, pairs: 64, sampling: None, ..Options::default() })?;
    attach_copiers(&path, &object).map(drop)
}

/// libbpf's warnings since the last call.
fn warnings() -> Vec<String> {
    WARNINGS.lock().map(|mut warnings| std::mem::take(&mut *warnings)).unwrap_or_default()
}

/// What the kernel refused, and what to do about it.
pub(crate) fn refused(doing: &str, error: &libbpf_rs::Error) -> Error {
    use libbpf_rs::ErrorKind::{NotFound, PermissionDenied};
    let warned = warnings();
    // What libbpf makes of it is guesswork then (RLIMIT_MEMLOCK, the kernel's configuration), and long.
    if error.kind() == PermissionDenied {
        let remedy = Kernel::running().remedy_for_denial(nix::unistd::geteuid().is_root());
        return Error::new(format!("{doing} {OBJECT} is not permitted here")).remedy(remedy);
    }
    let said = warned.iter().map(|line| line.trim()).find(|line| !line.is_empty());
    let said: Vec<&str> = said.into_iter().chain(verifiers_cause(&warned)).collect();
    let detail = if said.is_empty() { String::new() } else { format!(" ({})", said.join(": ")) };
    let failed = Error::new(format!("{doing} {OBJECT}: {error}{detail}"));
    match error.kind() {
        NotFound => failed.remedy("this kernel lacks what is attached to: Linux 6.1 or later on x86-64 is needed"),
        _ => failed.remedy("Linux 6.1 or later with CONFIG_BPF_SYSCALL is needed"),
    }
}

/// Why the kernel's verifier refused a program: what it says last before it counts what it has been through.
fn verifiers_cause(warned: &[String]) -> Option<&str> {
    let lines: Vec<&str> = warned.iter().flat_map(|text| text.lines()).map(str::trim).collect();
    let end = lines.iter().position(|line| line.starts_with("processed ") && line.contains(" insns "))?;
    lines[..end].last().copied()
}

/// The bytes of a record of `abi`.
pub(crate) fn as_bytes<T: Copy>(record: &T) -> &[u8] {
    // SAFETY: the records of `abi` are integers without padding between them.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast(), size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_cause_is_found() {
        let log = "-- BEGIN PROG LOAD LOG --\n0: R1=ctx(off=0,imm=0)\n12: (79) r1 = *(u64 *)(r0 +0)\nR0 invalid mem access 'scalar'\n\
                   processed 13 insns (limit 1000000) max_states_per_insn 0\n-- END PROG LOAD LOG --\n";
        let warned = ["prog 'on_fault': BPF program load failed\n".to_owned(), log.to_owned()];
        assert_eq!(verifiers_cause(&warned), Some("R0 invalid mem access 'scalar'"));
        assert_eq!(verifiers_cause(&warned[..1]), None);
    }
}
