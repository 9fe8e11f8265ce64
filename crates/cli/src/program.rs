//! The program on the command line: found as execvp(3) finds it, and looked at before it is run, so that what cannot
//! work is refused in words and not by a crash.

use crate::exit::Failure;
use cohabit_model::Error;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How deep scripts may name scripts as their interpreters (the kernel's own limit).
const INTERPRETERS: usize = 4;

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The file that was named, or that PATH led to.
    pub path: PathBuf,
    /// The file that the kernel loads: the same, or a script's interpreter.
    pub image: PathBuf,
}

/// What an executable file is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Image {
    Elf { bits: u8, machine: u16 },
    Script(PathBuf),
    Other,
}

/// Finds a program: a name with a slash is a path, any other is looked for in PATH.
///
/// # Errors
/// 127 where there is none, 126 where it cannot be executed.
pub fn find(name: &OsStr) -> Result<Program, Failure> {
    let path = locate(name)?;
    let image = image_of(&path, INTERPRETERS)?;
    Ok(Program { path, image })
}

/// Finds the program of a command line and refuses it where the profiler cannot run it.
///
/// # Errors
/// As [`find`]; 126 with the reason where it cannot be profiled.
pub fn check_profilable(command: &[OsString]) -> Result<(), Failure> {
    find(command.first().map_or(OsStr::new(""), OsString::as_os_str))?.check_for_profiling()
}

impl Program {
    /// Refuses what the profiler cannot run: another architecture than its own, and a program that would lose the
    /// privileges it gets from its file.
    ///
    /// # Errors
    /// 126 with the reason.
    pub fn check_for_profiling(&self) -> Result<(), Failure> {
        let refused = |reason: String, remedy: &str| {
            let error = Error::new(format!("cannot profile {}: {reason}", self.path.display())).remedy(remedy);
            Err(Failure::cannot_run(error))
        };
        match classify(&self.image)? {
            Image::Elf { bits: 64, machine: libc::EM_X86_64 } => {}
            Image::Elf { bits: 32, machine: libc::EM_386 | libc::EM_X86_64 } => {
                return refused("it is a 32-bit program".to_owned(), "build it for 64-bit x86 (without -m32 or -mx32)");
            }
            Image::Elf { machine, .. } => {
                let reason = format!("it is built for another processor ({})", machine_name(machine));
                return refused(reason, "build it for x86-64");
            }
            Image::Script(_) | Image::Other => {
                return refused("it is no program the kernel loads (ELF)".to_owned(), "name an x86-64 program or a script");
            }
        }
        if let Some(privilege) = gained_privilege(&self.image) {
            let remedy = "profile a copy without that privilege, or run cohabit as the user the program would become";
            return refused(format!("it is {privilege}, which it would lose under the profiler"), remedy);
        }
        Ok(())
    }
}

fn locate(name: &OsStr) -> Result<PathBuf, Failure> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(missing(name, "no such file")),
            Err(error) => Err(unusable(&path, &error.to_string())),
            Ok(_) => executable(&path).map(|()| path),
        };
    }
    let path_variable = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let mut found_unusable = None;
    for folder in std::env::split_paths(&path_variable) {
        let candidate = folder.join(name);
        if !candidate.is_file() {
            continue;
        }
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(failure) => found_unusable = found_unusable.or(Some(failure)),
        }
    }
    Err(found_unusable.unwrap_or_else(|| missing(name, "not found in PATH")))
}

fn executable(path: &Path) -> Result<(), Failure> {
    let found = path.metadata().map_err(|error| unusable(path, &error.to_string()))?;
    if found.is_dir() {
        return Err(unusable(path, "it is a directory"));
    }
    let text = std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(|error| unusable(path, &error.to_string()))?;
    // SAFETY: `text` is a C string that lives through the call.
    let denied = unsafe { libc::faccessat(libc::AT_FDCWD, text.as_ptr(), libc::X_OK, libc::AT_EACCESS) } != 0;
    if denied || found.permissions().mode() & 0o111 == 0 {
        return Err(unusable(path, "permission denied"));
    }
    Ok(())
}

/// Follows a script to the file that the kernel loads for it.
fn image_of(path: &Path, depth: usize) -> Result<PathBuf, Failure> {
    match classify(path) {
        Ok(Image::Script(interpreter)) => {
            if depth == 0 {
                return Err(unusable(path, "too many interpreters of interpreters"));
            }
            let lost = |_| unusable(path, &format!("its interpreter {} cannot be run", interpreter.display()));
            executable(&interpreter).map_err(lost)?;
            image_of(&interpreter, depth - 1)
        }
        // A file may be executed that cannot be read: the kernel will say what it thinks of it.
        _ => Ok(path.to_owned()),
    }
}

fn classify(path: &Path) -> Result<Image, Failure> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_end(&mut head));
    read.map_err(|error| unusable(path, &error.to_string()))?;
    Ok(classify_head(&head))
}

/// ELF identification as in elf(5): class at byte 4, data encoding at 5, machine at 18.
fn classify_head(head: &[u8]) -> Image {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let interpreter = line.split(|byte| b" \t".contains(byte)).find(|word| !word.is_empty());
        return interpreter.map_or(Image::Other, |name| Image::Script(PathBuf::from(OsStr::from_bytes(name))));
    }
    if head.len() < 20 || !head.starts_with(b"\x7fELF") {
        return Image::Other;
    }
    let machine = [head[18], head[19]];
    let machine = if head[5] == 2 { u16::from_be_bytes(machine) } else { u16::from_le_bytes(machine) };
    Image::Elf { bits: if head[4] == 1 { 32 } else { 64 }, machine }
}

fn machine_name(machine: u16) -> String {
    match machine {
        libc::EM_AARCH64 => "AArch64".to_owned(),
        libc::EM_ARM => "Arm".to_owned(),
        libc::EM_PPC64 => "PowerPC".to_owned(),
        libc::EM_S390 => "s390".to_owned(),
        243 => "RISC-V".to_owned(),
        other => format!("ELF machine {other}"),
    }
}

/// The privilege that running this file would add to what the caller has, in words.
fn gained_privilege(path: &Path) -> Option<&'static str> {
    let found = path.metadata().ok()?;
    // SAFETY: reads this process's user and group id.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let mode = found.mode();
    if mode & libc::S_ISUID != 0 && found.uid() != user {
        return Some("setuid");
    }
    if mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0 && found.gid() != group {
        return Some("setgid");
    }
    (user != 0 && has_capabilities(path)).then_some("given file capabilities")
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both are C strings; with no buffer the call only returns the attribute's size.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

fn missing(name: &OsStr, reason: &str) -> Failure {
    let error = Error::new(format!("cannot run {}: {reason}", name.to_string_lossy()));
    Failure::not_found(error.remedy("check the name, or give the program's path"))
}

fn unusable(path: &Path, reason: &str) -> Failure {
    let error = Error::new(format!("cannot run {}: {reason}", path.display()));
    Failure::cannot_run(error.remedy("name a program that may be executed (chmod +x)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(class: u8, encoding: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, encoding]);
        head[18..20].copy_from_slice(&machine);
        head
    }

    #[test]
    fn files_are_told_by_their_first_bytes() {
        let rows = [
            (elf(2, 1, [62, 0]), Image::Elf { bits: 64, machine: 62 }),
            (elf(1, 1, [3, 0]), Image::Elf { bits: 32, machine: 3 }),
            (elf(2, 2, [0, 22]), Image::Elf { bits: 64, machine: 22 }),
            (elf(2, 1, [183, 0])[..19].to_vec(), Image::Other),
            (b"#! /usr/bin/env -S x\nrest".to_vec(), Image::Script("/usr/bin/env".into())),
            (b"#!\n".to_vec(), Image::Other),
            (Vec::new(), Image::Other),
        ];
        for (head, expected) in rows {
            assert_eq!(classify_head(&head), expected, "{head:?}");
        }
    }

    #[test]
    fn a_name_is_looked_for_in_path_and_a_path_is_not() {
        assert!(find(OsStr::new("sh")).unwrap().path.is_absolute());
        assert_eq!(find(OsStr::new("no-such-program")).unwrap_err().status(true), 127);
        assert_eq!(find(OsStr::new("./no-such-program")).unwrap_err().status(true), 127);
        assert_eq!(find(OsStr::new("/")).unwrap_err().status(true), 126);
        assert_eq!(find(OsStr::new("/etc/passwd")).unwrap_err().status(true), 126);
    }
}
