//! A file under a default name never goes for good without a word: what there was is kept beside it under a number.

use cohabit_model::file::cannot_write;
use cohabit_model::{Error, Result};
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Numbers that are tried.
const MOST: u32 = 100_000;

/// Gives what is there under `path` another name too, `NAME-1.ENDING` or the next that is free, and returns that; none
/// where there is nothing. The file may then be replaced (by a rename, as [`cohabit_model::file::write_whole`] does).
///
/// # Errors
/// Where no other name can be made: nothing has changed then.
pub fn keep(path: &Path) -> Result<Option<PathBuf>> {
    let Ok(there) = fs::canonicalize(path) else { return Ok(None) };
    if !there.is_file() {
        return Ok(None);
    }
    for number in 1..=MOST {
        let name = numbered(path, number);
        match fs::hard_link(&there, &name).or_else(|error| copied(error, &there, &name)) {
            Ok(()) => return Ok(Some(name)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_write(&name, &error)),
        }
    }
    Err(Error::new(format!("{} and {MOST} numbered ones are there already", path.display())).remedy("use -o"))
}

/// Where a file system has no hard links, or does not let this user make one.
fn copied(error: std::io::Error, there: &Path, name: &Path) -> std::io::Result<()> {
    if error.kind() == ErrorKind::AlreadyExists {
        return Err(error);
    }
    let mut copy = OpenOptions::new().write(true).create_new(true).open(name)?;
    let copied = std::io::copy(&mut fs::File::open(there)?, &mut copy).and_then(|_| copy.sync_all());
    copied.inspect_err(|_| fs::remove_file(name).unwrap_or_default())
}

/// `cohabit-2.npz`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::file::write_whole;

    #[test]
    fn what_was_there_keeps_its_content_under_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cohabit.npz");
        assert_eq!(keep(&path).unwrap(), None);
        for number in 1..4 {
            write_whole(&path, format!("run {number}").as_bytes()).unwrap();
            let kept = keep(&path).unwrap().unwrap();
            assert_eq!(kept, folder.path().join(format!("cohabit-{number}.npz")));
        }
        write_whole(&path, b"run 4").unwrap();
        for (name, expected) in [("cohabit-1.npz", "run 1"), ("cohabit-3.npz", "run 3"), ("cohabit.npz", "run 4")] {
            assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), expected);
        }
    }

    #[test]
    fn a_link_keeps_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let [link, target] = ["cohabit.npz", "elsewhere"].map(|name| folder.path().join(name));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let kept = keep(&link).unwrap().unwrap();
        write_whole(&link, b"new").unwrap();
        assert_eq!([&kept, &target].map(|path| fs::read_to_string(path).unwrap()), ["old", "new"]);
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert_eq!(keep(&folder.path().join("folder")).unwrap(), None);
    }
}
