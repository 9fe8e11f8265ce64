//! Phases that ranks follow: a rank that comes to a call site at which one begins moves itself (`native/mpi/phases.c`).

use super::part::Rank;
use super::placement::pus;
use cohabit_model::calls::CallPlace;
use cohabit_model::command::find;
use cohabit_model::{Error, Result};
use std::ffi::OsString;
use std::fmt::Write;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A phase of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Its number.
    pub number: u64,
    /// The call sites at which it begins.
    pub begins_at: Vec<CallPlace>,
    /// The PUs (OS indices) of each rank in it.
    pub ranks: Vec<Vec<u32>>,
}

/// What became of a phase in a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Its number.
    pub number: u64,
    /// How often it began.
    pub times: u64,
    /// The PUs that the rank was allowed when it last began, ascending; of the first 1,024. Empty where it never did.
    pub affinity: Vec<u32>,
}

/// What became of the phases in a rank.
pub(super) fn followed(rank: &Rank) -> Vec<Followed> {
    let of = |phase: &super::abi::cohabit_mpi_phase_t| Followed {
        number: phase.number,
        times: phase.times,
        affinity: pus(&phase.cpus),
    };
    rank.phases.iter().map(of).collect()
}

/// The file that ranks read.
pub(super) fn text(phases: &[Phase]) -> String {
    let mut text = String::new();
    for phase in phases {
        let _ = writeln!(text, "phase {}", phase.number);
        for CallPlace { module, offset } in &phase.begins_at {
            let _ = writeln!(text, "site {offset} {module}");
        }
        for (rank, pus) in phase.ranks.iter().enumerate() {
            let pus: Vec<String> = pus.iter().map(u32::to_string).collect();
            let _ = writeln!(text, "rank {rank} {}", pus.join(" "));
        }
    }
    text
}

/// Whether the ranks of a command can follow phases, as far as its words tell.
///
/// # Errors
/// A module whose name no line can have; the first program in the command is linked statically, and loads no library.
pub(super) fn check(phases: &[Phase], command: &[OsString]) -> Result<()> {
    let mut places = phases.iter().flat_map(|phase| &phase.begins_at);
    if let Some(place) = places.find(|place| place.module.contains('\n')) {
        return Err(Error::new(format!("a phase begins at {:?}, which is no name of a file here", place.module))
            .remedy("give the program another name, and profile it again"));
    }
    let words = command.iter().skip(1).filter(|word| !word.as_bytes().starts_with(b"-"));
    let program = words.filter_map(|word| find(std::slice::from_ref(word)).ok()).find_map(|path| {
        let is_static = is_static(&path)?;
        Some((path, is_static))
    });
    match program {
        Some((path, true)) => Err(Error::new(format!(
            "{} is linked statically: the library by which ranks follow phases cannot be loaded into it",
            path.display()
        ))
        .remedy("link it dynamically, or map its profile without --per-phase")),
        _ => Ok(()),
    }
}

/// Whether a program is linked statically; none where the file is none for this machine (ELF, 64 bits, little-endian).
fn is_static(path: &Path) -> Option<bool> {
    const MOST_HEADERS: usize = 128;
    const EXECUTABLES: [u16; 2] = [2, 3];
    const INTERPRETER: u32 = 3;
    let mut start = Vec::new();
    std::fs::File::open(path).ok()?.take(1 << 16).read_to_end(&mut start).ok()?;
    let number = |at: usize, bytes: usize| {
        let bytes = start.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte)))
    };
    if !start.starts_with(b"\x7fELF\x02\x01") || !EXECUTABLES.contains(&(number(16, 2)? as u16)) {
        return None;
    }
    let (first, bytes, count) = (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)? as usize);
    let kind = |header: usize| number(first.checked_add(header * bytes)?, 4);
    Some(!(0..count.min(MOST_HEADERS)).any(|header| kind(header) == Some(u64::from(INTERPRETER))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(module: &str) -> Phase {
        let place = |offset| CallPlace { module: module.into(), offset };
        Phase { number: 3, begins_at: vec![place(16), place(u64::MAX)], ranks: vec![vec![0], vec![1, 4]] }
    }

    #[test]
    fn the_file_has_a_line_for_each_place_and_rank() {
        let expected = "phase 3\nsite 16 a program\nsite 18446744073709551615 a program\nrank 0 0\nrank 1 1 4\n";
        assert_eq!(text(&[phase("a program")]), expected);
    }

    /// A file with the head of a program, and one program header of a kind.
    fn program(folder: &Path, name: &str, kind: u8) -> OsString {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (bytes[16], bytes[32], bytes[54], bytes[56], bytes[64]) = (3, 64, 56, 1, kind);
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.into_os_string()
    }

    #[test]
    fn a_static_program_is_refused_and_what_is_none_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (fixed, linked) = (program(folder.path(), "static", 1), program(folder.path(), "dynamic", 3));
        let text = folder.path().join("script");
        std::fs::write(&text, "#!/bin/sh\n").unwrap();
        let phases = [phase("solver")];
        let check = |words: &[&OsString]| {
            let command: Vec<OsString> = ["mpirun", "-n", "4"]
                .map(OsString::from)
                .into_iter()
                .chain(words.iter().map(|&word| word.clone()))
                .collect();
            check(&phases, &command).map_err(|error| error.cause)
        };
        assert!(check(&[&fixed]).unwrap_err().contains("static is linked statically"));
        assert_eq!(check(&[&linked, &fixed]), Ok(()), "an argument");
        assert_eq!(check(&[&text.into_os_string()]), Ok(()));
        assert!(super::check(&[phase("a\nb")], &[]).is_err());
    }
}
