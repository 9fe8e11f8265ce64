//! Files and folders that only this user can have made or changed, where other users of the machine may plant some:
//! links, pipes that nobody answers, folders of their own. As OpenSSH has it for its keys (sshd_config(5),
//! StrictModes).

use crate::file::{cannot_read, read_text_of};
use crate::{Error, Result};
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// May be written by others than the owner.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// In a folder that is in use, the file that is locked as long.
pub const LOCK: &str = "lock";

/// Makes a folder for this user alone, or makes sure that the one which is there is.
///
/// # Errors
/// As [`check`], and where it cannot be made.
pub fn make(folder: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| crate::file::cannot_write(folder, &error))?;
    check(folder)
}

/// Makes sure that a folder is this user's, no link, and that nobody else can write to it or put another in its place.
///
/// # Errors
/// What is wrong with it.
pub fn check(folder: &Path) -> Result<()> {
    let metadata = fs::symlink_metadata(folder).map_err(|error| cannot_read(folder, &error))?;
    let refused = |why: &str| Err(Error::new(format!("{}: {why}", folder.display())));
    if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
        return refused("not a folder of this user's");
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        return refused("others than this user can write to it");
    }
    let whole = fs::canonicalize(folder).map_err(|error| cannot_read(folder, &error))?;
    for above in whole.ancestors().skip(1) {
        let metadata = fs::symlink_metadata(above).map_err(|error| cannot_read(above, &error))?;
        if !is_trusted(&metadata) || metadata.mode() & OTHERS_WRITE != 0 && metadata.mode() & STICKY == 0 {
            return refused(&format!(
                "others than this user can put another in its place, for {} is theirs",
                above.display()
            ));
        }
    }
    Ok(())
}

/// Whether something is this user's or the administrator's, who within a user namespace is whoever `/` belongs to.
fn is_trusted(metadata: &Metadata) -> bool {
    let administrator = fs::metadata("/").map_or(0, |root| root.uid());
    [0, geteuid().as_raw(), administrator].contains(&metadata.uid())
}

/// Opens a plain file of this user's to read: never through a link, and without waiting for anybody.
///
/// # Errors
/// As open(2); permission is denied where it is no such file.
pub fn open(path: &Path) -> std::io::Result<File> {
    opened(OpenOptions::new().read(true), path)
}

/// Opens a plain file of this user's to be locked (flock(2)), and makes it where there is none.
///
/// # Errors
/// As [`open`].
pub fn lock_file(path: &Path) -> std::io::Result<File> {
    opened(OpenOptions::new().create(true).truncate(false).write(true).mode(0o600), path)
}

fn opened(options: &mut OpenOptions, path: &Path) -> std::io::Result<File> {
    let file = options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.uid() == geteuid().as_raw() {
        return Ok(file);
    }
    Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, "not a plain file of this user's"))
}

/// Locks (flock(2)) a file for as long as the returned is held, without waiting. What is locked is in use, by whomever:
/// unlike a process id, this is known in every container and on every host that shares the file system.
///
/// # Errors
/// `EAGAIN` where somebody else holds it; others where files cannot be locked there.
pub fn try_lock(file: File) -> nix::Result<Flock<File>> {
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno)
}

/// Removes what this user's cohabits that were killed have left in a folder under names that begin with `prefix`:
/// files, and folders with a file `lock` in them, that were made to be locked by who uses them and are locked by
/// nobody. `spare` may know more of them. Returns what was removed.
pub fn remove_abandoned(folder: &Path, prefix: &str, spare: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()));
    let remove = |path: &PathBuf| {
        // Held until it is gone: nobody may begin to use it in between.
        let lock = lock_abandoned(path);
        lock.is_some()
            && !spare(path)
            && if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.is_ok()
    };
    ours.map(|entry| entry.path()).filter(remove).collect()
}

fn lock_abandoned(path: &Path) -> Option<Flock<File>> {
    let metadata = fs::symlink_metadata(path).ok().filter(|metadata| metadata.uid() == geteuid().as_raw())?;
    let lock = if metadata.is_dir() { path.join(LOCK) } else { path.to_owned() };
    // To write: over NFS nothing else can be locked for oneself alone.
    let file = opened(OpenOptions::new().write(true), &lock).ok()?;
    try_lock(file).ok()
}

/// The whole of a text file of this user's, as [`crate::file::read_text`] has it.
///
/// # Errors
/// As there, and as [`open`].
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    let file = open(path).map_err(|error| cannot_read(path, &error))?;
    read_text_of(&file, path, limit)
}

/// Where a path leads, the links in it followed, its last part too, as the kernel does with fs.protected_symlinks
/// (sysctl of Linux, Documentation/admin-guide/sysctl/fs.rst): in a folder where everybody may put files, a link of a
/// user who is neither this one nor the folder's owner is not followed. What is there at the end, if anything is, is
/// held to the same. The part from which on there is nothing is left as it is.
///
/// # Errors
/// Permission is denied where somebody else has planted something; too many links.
pub fn resolve(path: &Path) -> std::io::Result<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut left: Vec<_> = parts(path);
    let mut at = if path.is_absolute() { PathBuf::from("/") } else { std::env::current_dir()? };
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let Ok(metadata) = fs::symlink_metadata(&next) else {
            at = next;
            continue;
        };
        if (metadata.is_symlink() || left.is_empty()) && is_planted(&at, &metadata) {
            let text = "another user has put it there, in a folder that is everybody's";
            return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, text));
        }
        if !metadata.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(nix::errno::Errno::ELOOP.into());
        }
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        left.extend(parts(&target));
    }
    Ok(at)
}

/// The names in a path, the last one first.
fn parts(path: &Path) -> Vec<std::ffi::OsString> {
    use std::path::Component;
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

fn is_planted(folder: &Path, there: &Metadata) -> bool {
    const EVERYBODYS: u32 = STICKY | 0o002;
    let Ok(folder) = fs::metadata(folder) else { return false };
    folder.mode() & EVERYBODYS == EVERYBODYS && ![geteuid().as_raw(), folder.uid()].contains(&there.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    const SOMEBODY: u32 = 54321;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_is_this_users_alone_or_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("above/folder");
        make(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        for (mode, above, is_fine) in [
            (0o755, 0o755, true),
            (0o777, 0o755, false),
            (0o1777, 0o755, false),
            (0o770, 0o755, false),
            (0o700, 0o777, false),
            (0o700, 0o1777, true),
        ] {
            set_mode(&folder, mode);
            set_mode(folder.parent().unwrap(), above);
            assert_eq!((check(&folder).is_ok(), make(&folder).is_ok()), (is_fine, is_fine), "{mode:o} {above:o}");
        }
        let link = place.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(check(&link).is_err() && make(&link).is_err() && check(&place.path().join("none")).is_err());
        if geteuid().is_root() {
            chown(folder.parent().unwrap(), Some(SOMEBODY), None).unwrap();
            assert!(check(&folder).unwrap_err().cause.contains("above is theirs"));
            chown(folder.parent().unwrap(), Some(0), None).unwrap();
            chown(&folder, Some(SOMEBODY), None).unwrap();
            assert!(check(&folder).unwrap_err().cause.contains("not a folder of this user's"));
        }
    }

    #[test]
    fn only_plain_files_of_this_user_are_opened_and_nothing_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("plain"), "text").unwrap();
        symlink(at("plain"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(at("folder")).unwrap();
        assert_eq!(read_text(&at("plain"), 10).unwrap(), "text");
        assert!(lock_file(&at("plain")).is_ok() && lock_file(&at("new")).is_ok());
        for name in ["link", "pipe", "folder"] {
            assert!(open(&at(name)).is_err() && lock_file(&at(name)).is_err(), "{name}");
        }
        if geteuid().is_root() {
            chown(at("plain"), Some(SOMEBODY), None).unwrap();
            assert!(open(&at("plain")).is_err() && lock_file(&at("plain")).is_err());
        }
    }

    #[test]
    fn what_nobody_uses_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for name in [".c-left", ".c-used", ".c-others", ".c-spared", ".d-left"] {
            fs::write(at(name), "").unwrap();
        }
        for folder in [".c-folder", ".c-used-folder"] {
            fs::create_dir(at(folder)).unwrap();
            fs::write(at(folder).join(LOCK), "").unwrap();
        }
        fs::create_dir(at(".c-without-lock")).unwrap();
        symlink(at(".d-left"), at(".c-link")).unwrap();
        nix::unistd::mkfifo(&at(".c-pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(at(".c-with-pipe")).unwrap();
        nix::unistd::mkfifo(&at(".c-with-pipe").join(LOCK), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let locked = |path: PathBuf| try_lock(lock_file(&path).unwrap()).unwrap();
        let held = [".c-used", ".c-others", ".c-used-folder/lock"].map(|name| locked(at(name)));
        let remove = || {
            let mut removed = remove_abandoned(place.path(), ".c-", &|path| path.ends_with(".c-spared"));
            removed.sort();
            removed
        };
        assert_eq!(remove(), [at(".c-folder"), at(".c-left")]);
        drop(held);
        if geteuid().is_root() {
            for name in [".c-others", ".c-used-folder"] {
                chown(at(name), Some(SOMEBODY), None).unwrap();
            }
            assert_eq!(remove(), [at(".c-used")]);
            chown(at(".c-used-folder"), Some(0), None).unwrap();
            assert_eq!(remove(), [at(".c-used-folder")]);
        }
        assert!([".d-left", ".c-spared", ".c-without-lock"].iter().all(|name| at(name).exists()));
    }

    #[test]
    fn what_others_plant_where_everybody_may_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        let (ours, sticky) = (root.join("ours"), root.join("sticky"));
        for folder in [&ours, &sticky] {
            fs::create_dir(folder).unwrap();
        }
        set_mode(&sticky, 0o1777);
        symlink(&ours, sticky.join("folder")).unwrap();
        symlink("../ours/target", sticky.join("link")).unwrap();
        symlink("loop", ours.join("loop")).unwrap();
        fs::write(sticky.join("plain"), "").unwrap();
        let expected = [
            ("link", ours.join("target")),
            ("folder/new", ours.join("new")),
            ("plain", sticky.join("plain")),
            ("none/../new", sticky.join("new")),
        ];
        for (name, target) in &expected {
            assert_eq!(resolve(&sticky.join(name)).unwrap(), *target, "{name}");
        }
        assert!(resolve(&ours.join("loop")).is_err());
        if geteuid().is_root() {
            for name in ["folder", "link", "plain"] {
                std::os::unix::fs::lchown(sticky.join(name), Some(SOMEBODY), None).unwrap();
            }
            for (name, _) in &expected[..3] {
                assert_eq!(resolve(&sticky.join(name)).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
            }
            // Where not everybody may put files, whose they are says nothing.
            set_mode(&sticky, 0o755);
            assert_eq!(resolve(&sticky.join("link")).unwrap(), ours.join("target"));
        }
    }
}
