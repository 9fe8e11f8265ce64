//! Finds the command as a shell would, and says in time and in words why it cannot be run.

use cohabit_model::Error;
use cohabit_model::command::{self, CommandError};
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A command that was found.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) c_path: CString,
    pub(crate) arguments: Vec<CString>,
    /// What to run instead when the file turns out to be neither a binary nor a script with an interpreter: as
    /// execvp(3) does, the shell.
    pub(crate) shell_arguments: Option<Vec<CString>>,
}

/// The shell that runs scripts without a first line.
pub(crate) const SHELL: &std::ffi::CStr = c"/bin/sh";

impl Program {
    /// Finds the command in PATH, unless it holds a slash.
    pub(crate) fn find(command: &[OsString]) -> Result<Self, CommandError> {
        let path = command::find(command)?;
        let arguments = command.iter().map(|argument| c_string(argument)).collect::<Result<Vec<_>, _>>()?;
        let c_path = c_string(path.as_os_str())?;
        let shell_arguments = is_text(&path).then(|| {
            let script = [SHELL.to_owned(), c_path.clone()];
            script.into_iter().chain(arguments[1..].iter().cloned()).collect()
        });
        Ok(Self { path, c_path, arguments, shell_arguments })
    }

    /// Whether the file gives whoever runs it another's rights, which the kernel does not do for a traced program.
    pub(crate) fn gains_privileges(&self) -> bool {
        command::gained_privilege(&self.path).is_some()
    }

    /// Why execve(2) failed.
    pub(crate) fn refusal(&self, errno: i32) -> CommandError {
        let path = self.path.display();
        CommandError::CannotRun(match errno {
            libc::ENOEXEC => self.foreign(),
            libc::ENOENT => Error::new(format!("{path}: its interpreter or dynamic loader is missing"))
                .remedy("install what the program was built for (see `file` and `head -1` of it)"),
            libc::E2BIG => Error::new(format!("{path}: the arguments and environment are too long")),
            _ => Error::new(format!("{path}: {}", std::io::Error::from_raw_os_error(errno))),
        })
    }

    fn foreign(&self) -> Error {
        let path = self.path.display();
        let remedy = format!("run a program built for {}", env::consts::ARCH);
        match elf_machine(&beginning(&self.path)) {
            Some(machine) => {
                Error::new(format!("{path} is a program for {machine}, which this machine cannot run")).remedy(remedy)
            }
            None => Error::new(format!("{path} is not a program that this machine can run")).remedy(remedy),
        }
    }
}

fn c_string(text: &OsStr) -> Result<CString, CommandError> {
    CString::new(text.as_bytes()).map_err(|_| CommandError::CannotRun(Error::new("an argument holds a zero byte")))
}

fn beginning(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        let _ = file.take(256).read_to_end(&mut bytes);
    }
    bytes
}

/// Whether the file looks like a script: no byte of its beginning is zero.
fn is_text(path: &Path) -> bool {
    path.is_file() && !beginning(path).contains(&0)
}

/// The machine an ELF file is for (System V ABI, `e_machine`); none for other files.
fn elf_machine(bytes: &[u8]) -> Option<String> {
    if !bytes.starts_with(b"\x7fELF") || bytes.len() < 20 {
        return None;
    }
    let read = if bytes[5] == 2 { u16::from_be_bytes } else { u16::from_le_bytes };
    let number = read([bytes[18], bytes[19]]);
    let name = match number {
        3 => "x86 (32-bit)",
        8 => "MIPS",
        20 => "PowerPC",
        21 => "PowerPC (64-bit)",
        22 => "S/390",
        40 => "Arm (32-bit)",
        62 => "x86_64",
        183 => "AArch64",
        243 => "RISC-V",
        258 => "LoongArch",
        _ => return Some(format!("machine {number} of the ELF standard")),
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::elf_machine;

    #[test]
    fn machines_are_named() {
        let elf = |class_and_order: [u8; 2], machine: [u8; 2]| {
            let mut bytes = b"\x7fELF".to_vec();
            bytes.extend(class_and_order);
            bytes.resize(18, 0);
            bytes.extend(machine);
            bytes
        };
        for (bytes, machine) in [
            (elf([2, 1], [62, 0]), Some("x86_64")),
            (elf([2, 1], [183, 0]), Some("AArch64")),
            (elf([2, 2], [0, 22]), Some("S/390")),
            (elf([1, 1], [3, 0]), Some("x86 (32-bit)")),
            (elf([2, 1], [1, 2]), Some("machine 513 of the ELF standard")),
            (b"\x7fELF".to_vec(), None),
            (b"#!/bin/sh\n".to_vec(), None),
        ] {
            assert_eq!(elf_machine(&bytes).as_deref(), machine);
        }
    }
}
