//! The program on the command line: found as execvp(3) finds it, followed through scripts to what the kernel loads
//! (the injector loads ELF files and nothing else), and refused in words where the profiler cannot run it.

use super::Failure;
use cohabit_model::Error;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::FileHeader;
use object::{Endianness, FileKind};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How deep scripts may name scripts as their interpreters (the kernel's own limit).
const INTERPRETERS: usize = 4;
/// What the kernel reads of a file to tell what it is.
const HEAD_BYTES: u64 = 256;

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The file that was named, or that PATH led to.
    pub path: PathBuf,
    /// The file that the kernel loads: the same, or a script's interpreter.
    pub image: PathBuf,
    /// The arguments that `image` gets, its own name first.
    pub arguments: Vec<OsString>,
}

/// What an executable file is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Image {
    Elf { bits: u8, machine: u16 },
    Script { interpreter: PathBuf, argument: Option<OsString> },
    Other,
}

/// Finds a command and makes sure that the profiler can run it.
///
/// # Errors
/// Not found; or not executable, a directory, for another processor, 32-bit, or a program that would lose the
/// privileges that its file gives it.
pub fn check_profilable(command: &[OsString]) -> Result<Program, Failure> {
    let Some(name) = command.first().filter(|name| !name.is_empty()) else {
        return Err(Failure::NotFound(Error::new("no command given").remedy("name it after `--`")));
    };
    let path = locate(name)?;
    let mut program = Program { image: path.clone(), path, arguments: command.to_vec() };
    for _ in 0..=INTERPRETERS {
        match classify(&program.image)? {
            Image::Script { interpreter, argument } => program.interpret(interpreter, argument)?,
            image => return program.check(&image).map(|()| program),
        }
    }
    Err(unusable(&program.path, "too many interpreters of interpreters"))
}

impl Program {
    /// What the kernel does with a script (execve(2)): interpreter, its one argument, the script, the arguments.
    fn interpret(&mut self, interpreter: PathBuf, argument: Option<OsString>) -> Result<(), Failure> {
        let lost = |_| unusable(&self.path, &format!("its interpreter {} cannot be run", interpreter.display()));
        executable(&interpreter).map_err(lost)?;
        let script = std::mem::replace(&mut self.image, interpreter.clone()).into_os_string();
        let rest = self.arguments.drain(..).skip(1);
        self.arguments =
            [interpreter.into_os_string()].into_iter().chain(argument).chain([script]).chain(rest).collect();
        Ok(())
    }

    fn check(&self, image: &Image) -> Result<(), Failure> {
        let refused = |reason: &str, remedy: &str| {
            let error = Error::new(format!("cannot profile {}: {reason}", self.path.display()));
            Err(Failure::CannotRun(error.remedy(remedy)))
        };
        match *image {
            Image::Elf { bits: 64, machine: elf::EM_X86_64 } => {}
            Image::Elf { machine: elf::EM_386 | elf::EM_X86_64, .. } => {
                return refused("it is a 32-bit program", "build it for 64-bit x86 (without -m32 or -mx32)");
            }
            Image::Elf { machine, .. } => {
                let reason = format!("it is built for another processor ({})", machine_name(machine));
                return refused(&reason, "build it for x86-64");
            }
            Image::Script { .. } | Image::Other => {
                return refused(
                    "it is no program that the kernel loads",
                    "name an x86-64 program, or a script with a #! line",
                );
            }
        }
        match gained_privilege(&self.image) {
            None => Ok(()),
            Some(privilege) => refused(
                &format!("it is {privilege}, and would lose that privilege under the profiler"),
                "profile a copy without it, or run cohabit as the user that the program becomes",
            ),
        }
    }
}

fn locate(name: &OsStr) -> Result<PathBuf, Failure> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return executable(&path).map(|()| path);
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    let mut refused = None;
    for folder in std::env::split_paths(&folders) {
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        let candidate = folder.join(name);
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(failure @ Failure::CannotRun(_)) if candidate.is_file() => refused = refused.or(Some(failure)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| {
        let error = Error::new(format!("{}: command not found", name.to_string_lossy()));
        Failure::NotFound(error.remedy("check the spelling and PATH, or give the program's path"))
    }))
}

fn executable(path: &Path) -> Result<(), Failure> {
    let found = match path.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(unusable(path, "permission denied"));
        }
        Err(error) => {
            let error = Error::new(format!("cannot run {}: {error}", path.display()));
            return Err(Failure::NotFound(error.remedy("check the path")));
        }
    };
    if found.is_dir() {
        return Err(unusable(path, "it is a directory"));
    }
    // access(2) knows all of it: modes, owners, lists, and that root may not run what nobody may.
    nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).map_err(|errno| unusable(path, errno.desc()))
}

fn classify(path: &Path) -> Result<Image, Failure> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.map_err(|error| unusable(path, &error.to_string()))?;
    Ok(classify_head(&head))
}

fn classify_head(head: &[u8]) -> Image {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
        let end = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
        let (interpreter, argument) = (&line[..end], line[end..].trim_ascii());
        return match interpreter {
            b"" => Image::Other,
            path => Image::Script {
                interpreter: PathBuf::from(OsStr::from_bytes(path)),
                argument: (!argument.is_empty()).then(|| OsString::from_vec(argument.to_vec())),
            },
        };
    }
    let machine = match FileKind::parse(head) {
        Ok(FileKind::Elf32) => FileHeader32::<Endianness>::parse(head).and_then(|elf| Ok(elf.e_machine(elf.endian()?))),
        Ok(FileKind::Elf64) => FileHeader64::<Endianness>::parse(head).and_then(|elf| Ok(elf.e_machine(elf.endian()?))),
        _ => return Image::Other,
    };
    let bits = if head[4] == elf::ELFCLASS32 { 32 } else { 64 };
    machine.map_or(Image::Other, |machine| Image::Elf { bits, machine })
}

fn machine_name(machine: u16) -> String {
    match machine {
        elf::EM_AARCH64 => "AArch64".to_owned(),
        elf::EM_ARM => "Arm".to_owned(),
        elf::EM_PPC64 => "PowerPC".to_owned(),
        elf::EM_S390 => "s390".to_owned(),
        elf::EM_RISCV => "RISC-V".to_owned(),
        other => format!("ELF machine {other}"),
    }
}

/// The privilege that running this file would add to what the caller has, in words.
fn gained_privilege(path: &Path) -> Option<&'static str> {
    let found = path.metadata().ok()?;
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let mode = found.mode();
    if mode & libc::S_ISUID != 0 && found.uid() != user.as_raw() {
        return Some("setuid");
    }
    if mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0 && found.gid() != group.as_raw() {
        return Some("setgid");
    }
    (!user.is_root() && has_capabilities(path)).then_some("given file capabilities")
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both are C strings; with no buffer the call only returns the attribute's size.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

fn unusable(path: &Path, reason: &str) -> Failure {
    let error = Error::new(format!("cannot run {}: {reason}", path.display()));
    Failure::CannotRun(error.remedy("name a program that may be executed (chmod +x)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn elf_head(class: u8, encoding: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, encoding, 1]);
        head[18..20].copy_from_slice(&machine);
        head
    }

    fn script(interpreter: &str, argument: Option<&str>) -> Image {
        Image::Script { interpreter: interpreter.into(), argument: argument.map(OsString::from) }
    }

    #[test]
    fn files_are_told_by_their_first_bytes() {
        let rows = [
            (elf_head(2, 1, [62, 0]), Image::Elf { bits: 64, machine: elf::EM_X86_64 }),
            (elf_head(1, 1, [3, 0]), Image::Elf { bits: 32, machine: elf::EM_386 }),
            (elf_head(1, 1, [62, 0]), Image::Elf { bits: 32, machine: elf::EM_X86_64 }),
            (elf_head(2, 2, [0, 22]), Image::Elf { bits: 64, machine: elf::EM_S390 }),
            (elf_head(2, 1, [62, 0])[..19].to_vec(), Image::Other),
            (b"#! /usr/bin/env  -S x y \nrest".to_vec(), script("/usr/bin/env", Some("-S x y"))),
            (b"#!/bin/sh".to_vec(), script("/bin/sh", None)),
            (b"#!\n".to_vec(), Image::Other),
            (Vec::new(), Image::Other),
        ];
        for (head, expected) in rows {
            assert_eq!(classify_head(&head), expected, "{head:?}");
        }
    }

    fn command(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn put(path: &Path, content: &[u8], mode: u32) -> String {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_script_is_its_interpreter_s_argument() {
        let folder = tempfile::tempdir().unwrap();
        let inner = put(&folder.path().join("inner"), b"#!/bin/sh -e\n", 0o755);
        let outer = put(&folder.path().join("outer"), format!("#!{inner} a b\n").as_bytes(), 0o755);
        let program = check_profilable(&command(&[&outer, "x"])).unwrap();
        assert_eq!(program.path, Path::new(&outer));
        assert_eq!(program.image, Path::new("/bin/sh"));
        assert_eq!(program.arguments, command(&["/bin/sh", "-e", &inner, "a b", &outer, "x"]));
        let itself = folder.path().join("loop");
        let itself = put(&itself, format!("#!{}\n", itself.display()).as_bytes(), 0o755);
        assert!(check_profilable(&command(&[&itself])).unwrap_err().to_string().contains("too many interpreters"));
    }

    #[test]
    fn what_cannot_run_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8], mode| put(&folder.path().join(name), content, mode);
        let rows = [
            ("".to_owned(), true, "no command"),
            ("no-such-program-anywhere".to_owned(), true, "command not found"),
            ("./no/such/program".to_owned(), true, "No such file"),
            ("/".to_owned(), false, "directory"),
            (file("plain", b"x", 0o644), false, "ermission denied"),
            (file("text", b"x", 0o755), false, "no program that the kernel loads"),
            (file("lost", b"#!/no/such/interpreter\n", 0o755), false, "interpreter /no/such/interpreter"),
            (file("32", &elf_head(1, 1, [3, 0]), 0o755), false, "32-bit"),
            (file("x32", &elf_head(1, 1, [62, 0]), 0o755), false, "32-bit"),
            (file("arm", &elf_head(2, 1, [183, 0]), 0o755), false, "AArch64"),
            (file("odd", &elf_head(2, 1, [1, 2]), 0o755), false, "ELF machine 513"),
        ];
        for (name, not_found, cause) in rows {
            let failure = check_profilable(&command(&[&name])).unwrap_err();
            assert!(failure.error().cause.contains(cause), "{failure}");
            assert!(failure.error().remedy.is_some(), "{failure}");
            assert_eq!(matches!(failure, Failure::NotFound(_)), not_found, "{failure}");
        }
    }

    #[test]
    fn privileges_that_would_be_lost_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        put(&path, &elf_head(2, 1, [62, 0]), 0o6755);
        assert_eq!(gained_privilege(&path), None, "one's own files add nothing");
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: only root can give a file away to try setuid");
            return;
        }
        for (user, group, expected) in [(1, 0, Some("setuid")), (0, 1, Some("setgid")), (0, 0, None)] {
            std::os::unix::fs::chown(&path, Some(user), Some(group)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
            assert_eq!(gained_privilege(&path), expected);
        }
    }
}
