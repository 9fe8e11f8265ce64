//! A command as the user names it: where execvp(3) would find it, why it cannot be run, and what running it would add
//! to one's rights. Whoever starts programs asks here, so that they all answer alike.

use crate::Error;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fmt};

/// Why a command came to nothing. The variants are the exit statuses of `env` and `timeout`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// There is no such program (127).
    NotFound(Error),
    /// The program is there and cannot be run, or not in this way (126).
    CannotRun(Error),
    /// cohabit itself failed (125).
    Failed(Error),
    /// A signal ended it before it had begun (128 and the signal's number, as shells have it).
    Killed(i32, Error),
}

impl CommandError {
    /// The exit status that says so: 127, 126, 125 or that of a signal.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotFound(_) => 127,
            Self::CannotRun(_) => 126,
            Self::Failed(_) => 125,
            Self::Killed(signal, _) => 128 + signal,
        }
    }

    /// What to tell the user.
    pub fn error(&self) -> &Error {
        match self {
            Self::NotFound(error) | Self::CannotRun(error) | Self::Failed(error) | Self::Killed(_, error) => error,
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

impl std::error::Error for CommandError {}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The file that a command names: itself where it holds a slash, else the first in PATH that may be run.
///
/// # Errors
/// None is there, or it may not be run.
pub fn find(command: &[OsString]) -> Result<PathBuf, CommandError> {
    let Some(name) = command.first().filter(|name| !name.is_empty()) else {
        return Err(CommandError::NotFound(Error::new("no command given").remedy("name it after `--`")));
    };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return check_executable(&path).map(|()| path);
    }
    search(name)
}

fn search(name: &OsStr) -> Result<PathBuf, CommandError> {
    let folders = env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    let mut refused = None;
    for folder in env::split_paths(&folders) {
        let candidate = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder }.join(name);
        match check_executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error @ CommandError::CannotRun(_)) if !candidate.is_dir() => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| {
        let error = Error::new(format!("{}: command not found", Path::new(name).display()));
        CommandError::NotFound(error.remedy("check the spelling and PATH, or give the program's path"))
    }))
}

/// Whether the file may be executed.
///
/// # Errors
/// It is not there, or not a file, or may not be run.
pub fn check_executable(path: &Path) -> Result<(), CommandError> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(cannot_run(path, "permission denied"));
        }
        Err(error) => {
            let error = Error::new(format!("cannot run {}: {error}", path.display()));
            return Err(CommandError::NotFound(error.remedy("check the path")));
        }
    };
    if metadata.is_dir() {
        let error = Error::new(format!("cannot run {}: it is a directory", path.display()));
        return Err(CommandError::CannotRun(error.remedy("name a program")));
    }
    // access(2) knows all of it: modes, owners, lists, and that root may not run what nobody may.
    nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).map_err(|errno| cannot_run(path, errno.desc()))
}

/// The error of a file that may not be run.
pub fn cannot_run(path: &Path, reason: &str) -> CommandError {
    let error = Error::new(format!("cannot run {}: {reason}", path.display()));
    CommandError::CannotRun(error.remedy(format!("name a program that may be executed (chmod +x {})", path.display())))
}

/// What running the file would add to the caller's rights, in words: traced or instrumented, it would not.
pub fn gained_privilege(path: &Path) -> Option<&'static str> {
    let found = path.metadata().ok()?;
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let mode = found.mode();
    if mode & libc::S_ISUID != 0 && found.uid() != user.as_raw() {
        return Some("setuid");
    }
    let set_group = libc::S_ISGID | libc::S_IXGRP;
    if mode & set_group == set_group && found.gid() != group.as_raw() {
        return Some("setgid");
    }
    (!user.is_root() && has_capabilities(path)).then_some("given file capabilities")
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: two strings that end in zero; with no buffer the call only returns the attribute's size.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn put(path: &Path, mode: u32) -> OsString {
        fs::write(path, b"x").expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        path.into()
    }

    #[test]
    fn commands_are_found_or_refused_with_the_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(find(&["/bin/sh".into()]).expect("a shell"), Path::new("/bin/sh"));
        assert!(find(&["sh".into()]).expect("a shell").ends_with("sh"));
        let rows: [(OsString, i32, &str); 5] = [
            (OsString::new(), 127, "no command"),
            ("no-such-program-anywhere".into(), 127, "command not found"),
            ("./no/such/program".into(), 127, "No such file"),
            ("/".into(), 126, "directory"),
            (put(&folder.path().join("plain"), 0o644), 126, "ermission denied"),
        ];
        for (name, code, cause) in rows {
            let error = find(&[name]).expect_err(cause);
            assert!(error.error().cause.contains(cause) && error.error().remedy.is_some(), "{error}");
            assert_eq!(error.exit_code(), code, "{error}");
        }
    }

    #[test]
    fn privileges_that_would_be_lost_are_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        put(&path, 0o6755);
        assert_eq!(gained_privilege(&path), None, "one's own files add nothing");
        assert_eq!(gained_privilege(Path::new("/bin/sh")), None);
        assert_eq!(gained_privilege(Path::new("/no/such/file")), None);
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: only root can give a file away to try setuid");
            return;
        }
        for (user, group, expected) in [(1, 0, Some("setuid")), (0, 1, Some("setgid")), (0, 0, None)] {
            std::os::unix::fs::chown(&path, Some(user), Some(group)).expect("given away");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).expect("a mode");
            assert_eq!(gained_privilege(&path), expected);
        }
    }
}
