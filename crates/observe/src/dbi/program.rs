//! The program on the command line: found as execvp(3) finds it, followed through scripts to what the kernel loads
//! (the injector loads ELF files and nothing else), and refused in words where the profiler cannot run it.

use cohabit_model::Error;
use cohabit_model::command::{self, CommandError};
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::FileHeader;
use object::{Endianness, FileKind};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
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
pub fn check_profilable(command: &[OsString]) -> Result<Program, CommandError> {
    let path = command::find(command)?;
    let mut program = Program { image: path.clone(), path, arguments: command.to_vec() };
    for _ in 0..=INTERPRETERS {
        match classify(&program.image)? {
            Image::Script { interpreter, argument } => program.interpret(interpreter, argument)?,
            image => return program.check(&image).map(|()| program),
        }
    }
    Err(command::cannot_run(&program.path, "too many interpreters of interpreters"))
}

impl Program {
    /// What the kernel does with a script (execve(2)): interpreter, its one argument, the script, the arguments.
    fn interpret(&mut self, interpreter: PathBuf, argument: Option<OsString>) -> Result<(), CommandError> {
        let lost =
            |_| command::cannot_run(&self.path, &format!("its interpreter {} cannot be run", interpreter.display()));
        command::check_executable(&interpreter).map_err(lost)?;
        let script = std::mem::replace(&mut self.image, interpreter.clone()).into_os_string();
        let rest = self.arguments.drain(..).skip(1);
        self.arguments =
            [interpreter.into_os_string()].into_iter().chain(argument).chain([script]).chain(rest).collect();
        Ok(())
    }

    fn check(&self, image: &Image) -> Result<(), CommandError> {
        let refused = |reason: &str, remedy: &str| {
            let error = Error::new(format!("cannot profile {}: {reason}", self.path.display()));
            Err(CommandError::CannotRun(error.remedy(remedy)))
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
        match command::gained_privilege(&self.image) {
            None => Ok(()),
            Some(privilege) => refused(
                &format!("it is {privilege}, and would lose that privilege under the profiler"),
                "profile a copy without it, or run cohabit as the user that the program becomes",
            ),
        }
    }
}

fn classify(path: &Path) -> Result<Image, CommandError> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.map_err(|error| command::cannot_run(path, &error.to_string()))?;
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

    fn words(words: &[&str]) -> Vec<OsString> {
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
        let program = check_profilable(&words(&[&outer, "x"])).unwrap();
        assert_eq!(program.path, Path::new(&outer));
        assert_eq!(program.image, Path::new("/bin/sh"));
        assert_eq!(program.arguments, words(&["/bin/sh", "-e", &inner, "a b", &outer, "x"]));
        let itself = folder.path().join("loop");
        let itself = put(&itself, format!("#!{}\n", itself.display()).as_bytes(), 0o755);
        assert!(check_profilable(&words(&[&itself])).unwrap_err().to_string().contains("too many interpreters"));
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
            let failure = check_profilable(&words(&[&name])).unwrap_err();
            assert!(failure.error().cause.contains(cause), "{failure}");
            assert!(failure.error().remedy.is_some(), "{failure}");
            assert_eq!(matches!(failure, CommandError::NotFound(_)), not_found, "{failure}");
        }
    }
}
