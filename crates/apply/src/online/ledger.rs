//! What is to be put back, written down before it is changed: a file for each cohabit that runs, so that a next one, or
//! `cohabit restore`, can put back what one that was killed has left. It also tells cohabits which PUs the others use.

use super::threads::start_ticks;
use crate::affinity::CpuMask;
use cohabit_model::{Error, Result, file};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The format number of a ledger.
const FORMAT: u32 = 1;
/// No ledger is longer.
const LONGEST_BYTES: u64 = 64 << 20;

/// A thread whose affinity was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedAffinity {
    /// With the id, what tells the thread from a later one.
    pub start_ticks: u64,
    /// As it was, as a list of PUs (`0-3,8`).
    pub before: String,
    /// The PU (OS index) it was put on.
    pub pu: u32,
    /// The PU of ours that it comes from, while it is on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
}

/// A setting of the machine that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSetting {
    /// As it was before any cohabit changed it.
    pub before: String,
    /// What it was set to.
    pub set: String,
}

/// What one cohabit has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    format: u32,
    /// The cohabit's process id.
    pub pid: i32,
    /// With the id, what tells it from a later process.
    pub start_ticks: u64,
    /// By thread id.
    #[serde(default)]
    pub affinities: BTreeMap<i32, ChangedAffinity>,
    /// By path below /proc or /sys.
    #[serde(default)]
    pub settings: BTreeMap<PathBuf, ChangedSetting>,
}

/// This cohabit's page, and the folder with everybody's. When this is dropped, all is put back and the page goes.
#[derive(Debug)]
pub struct Ledger {
    folder: PathBuf,
    /// What is written on the page.
    pub entry: Entry,
}

/// What was put back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Threads that have their affinity back.
    pub threads: usize,
    /// Settings that have their value back: path and value.
    pub settings: Vec<(PathBuf, String)>,
    /// What could not be put back, and why.
    pub failed: Vec<String>,
}

/// Where ledgers are kept: gone with the machine, as what they put back is.
pub fn folder() -> PathBuf {
    if nix::unistd::geteuid().is_root() {
        return PathBuf::from("/run/cohabit");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_dir()) {
        Some(folder) => PathBuf::from(folder).join("cohabit"),
        None => std::env::temp_dir().join(format!("cohabit-{}", nix::unistd::geteuid())),
    }
}

impl ChangedAffinity {
    /// Whether this affinity is our doing.
    pub fn holds(&self, now: &CpuMask) -> bool {
        [Some(self.pu), self.from].into_iter().flatten().any(|pu| *now == CpuMask::single(pu))
    }
}

impl Ledger {
    /// A page for this process. What dead cohabits have left is put back first.
    ///
    /// # Errors
    /// Where the folder cannot be made or is somebody else's.
    pub fn open(folder: PathBuf) -> Result<(Self, Restored)> {
        make(&folder)?;
        let restored = restore(&folder)?;
        let pid = std::process::id() as i32;
        let entry = Entry {
            format: FORMAT,
            pid,
            start_ticks: start_ticks(pid).unwrap_or(0),
            affinities: BTreeMap::new(),
            settings: BTreeMap::new(),
        };
        Ok((Self { folder, entry }, restored))
    }

    /// Writes the page.
    ///
    /// # Errors
    /// Where it cannot be written; nothing may be changed then.
    pub fn write(&self) -> Result<()> {
        let text = serde_json::to_vec(&self.entry).map_err(|error| Error::new(format!("writing a ledger: {error}")))?;
        file::write_whole(&page(&self.folder, self.entry.pid), &text)
    }

    /// The PUs (OS indices) that other cohabits have put threads on which still run.
    pub fn used_by_others(&self) -> Vec<u32> {
        let others =
            entries(&self.folder).into_iter().filter(|(_, entry)| entry.pid != self.entry.pid && entry.lives());
        let mut pus: Vec<u32> = others
            .flat_map(|(_, entry)| entry.affinities)
            .filter(|(tid, changed)| start_ticks(*tid) == Some(changed.start_ticks))
            .map(|(_, changed)| changed.pu)
            .collect();
        pus.sort_unstable();
        pus.dedup();
        pus
    }

    /// Changes a setting of the machine, having written down what it was. Where another cohabit has set it already, what
    /// it was before that one counts.
    ///
    /// # Errors
    /// Where it cannot be read or written; it is then as it was.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<()> {
        let _lock = lock(&self.folder)?;
        let now = read_setting(path)?;
        let theirs = self.setting_of_others(path);
        let before = theirs.map_or(now.clone(), |changed| changed.before);
        let changed = ChangedSetting { before, set: value.to_owned() };
        self.entry.settings.insert(path.to_owned(), changed);
        self.write()?;
        if now == value {
            return Ok(());
        }
        let written = write_setting(path, value);
        if written.is_err() {
            self.entry.settings.remove(path);
            self.write()?;
        }
        written
    }

    /// Gives a setting that was changed the value it had before, for a while, or the changed one again. Nothing is done
    /// where another cohabit uses it too, or somebody else has changed it since. Whether it has that value now.
    ///
    /// # Errors
    /// Where it cannot be read or written.
    pub fn pause(&mut self, path: &Path, paused: bool) -> Result<bool> {
        let _lock = lock(&self.folder)?;
        let Some(changed) = self.entry.settings.get(path) else { return Ok(false) };
        let (from, to) = if paused { (&changed.set, &changed.before) } else { (&changed.before, &changed.set) };
        if self.setting_of_others(path).is_some() {
            return Ok(false);
        }
        match read_setting(path)? {
            now if now == *to => Ok(true),
            now if now == *from => write_setting(path, to).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Puts back every setting that no other cohabit uses.
    ///
    /// # Errors
    /// Where one cannot be put back; it stays on the page.
    pub fn reset_settings(&mut self) -> Result<Vec<(PathBuf, String)>> {
        let _lock = lock(&self.folder)?;
        let mut back = Vec::new();
        for (path, changed) in self.entry.settings.clone() {
            if self.setting_of_others(&path).is_none() && put_back(&path, &changed)? {
                back.push((path.clone(), changed.before));
            }
            self.entry.settings.remove(&path);
        }
        self.write()?;
        Ok(back)
    }

    fn setting_of_others(&self, path: &Path) -> Option<ChangedSetting> {
        let others =
            entries(&self.folder).into_iter().filter(|(_, entry)| entry.pid != self.entry.pid && entry.lives());
        others.filter_map(|(_, mut entry)| entry.settings.remove(path)).next()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Whatever ended the session early.
        self.entry.affinities.retain(|tid, changed| let_go(*tid, changed).is_err());
        if !self.entry.settings.is_empty() {
            let _ = self.reset_settings();
        }
        // What could not be put back stays written down.
        if self.entry.settings.is_empty() && self.entry.affinities.is_empty() {
            let _ = fs::remove_file(page(&self.folder, self.entry.pid));
        }
    }
}

impl Entry {
    /// Whether the cohabit still runs.
    pub fn lives(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// Puts back what cohabits that do not run any more have left in a folder.
///
/// # Errors
/// Where the folder is there and cannot be locked.
pub fn restore(folder: &Path) -> Result<Restored> {
    let mut restored = Restored::default();
    if !folder.is_dir() {
        return Ok(restored);
    }
    let _lock = lock(folder)?;
    let entries = entries(folder);
    let (living, dead): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(_, entry)| entry.lives());
    for (path, entry) in dead {
        let failed_before = restored.failed.len();
        for (tid, changed) in &entry.affinities {
            match let_go(*tid, changed) {
                Ok(true) => restored.threads += 1,
                Ok(false) => {}
                Err(error) => restored.failed.push(format!("the affinity of thread {tid}: {error}")),
            }
        }
        for (setting, changed) in &entry.settings {
            if living.iter().any(|(_, other)| other.settings.contains_key(setting)) {
                continue;
            }
            match put_back(setting, changed) {
                Ok(true) => restored.settings.push((setting.clone(), changed.before.clone())),
                Ok(false) => {}
                Err(error) => restored.failed.push(error.cause),
            }
        }
        if restored.failed.len() == failed_before {
            let _ = fs::remove_file(path);
        }
    }
    Ok(restored)
}

/// Gives a thread the affinity it had, if it is still the same thread and still where it was put; whether it did.
///
/// # Errors
/// As sched_setaffinity(2), a thread that has ended set aside.
pub fn let_go(tid: i32, changed: &ChangedAffinity) -> std::io::Result<bool> {
    if start_ticks(tid) != Some(changed.start_ticks) {
        return Ok(false);
    }
    let ended = |error: std::io::Error| if error.raw_os_error() == Some(libc::ESRCH) { Ok(false) } else { Err(error) };
    match CpuMask::of_thread(tid) {
        Ok(now) if changed.holds(&now) => {}
        Ok(_) => return Ok(false),
        Err(error) => return ended(error),
    }
    let before = CpuMask::parse(&changed.before).ok_or(std::io::ErrorKind::InvalidData)?;
    before.apply(tid).map(|()| true).or_else(ended)
}

/// Writes a setting's former value, if it still has the one it was set to; whether it did.
fn put_back(path: &Path, changed: &ChangedSetting) -> Result<bool> {
    if read_setting(path)? != changed.set || changed.before == changed.set {
        return Ok(false);
    }
    write_setting(path, &changed.before).map(|()| true)
}

fn read_setting(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).map_err(|error| file::cannot_read(path, &error))?;
    Ok(text.trim_end().to_owned())
}

fn write_setting(path: &Path, value: &str) -> Result<()> {
    // Not whole or not at all: files of /proc and /sys are written in place.
    fs::write(path, value).map_err(|error| file::cannot_write(path, &error))
}

fn page(folder: &Path, pid: i32) -> PathBuf {
    folder.join(format!("{pid}.json"))
}

/// The pages in a folder; what is none is left alone.
fn entries(folder: &Path) -> Vec<(PathBuf, Entry)> {
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let pages =
        files.filter_map(|file| Some(file.ok()?.path())).filter(|path| path.extension().is_some_and(|e| e == "json"));
    pages
        .filter_map(|path| {
            let text = file::read_text(&path, LONGEST_BYTES).ok()?;
            let entry: Entry = serde_json::from_str(&text).ok()?;
            (entry.format == FORMAT).then_some((path, entry))
        })
        .collect()
}

/// Makes the folder, for this user alone; refuses somebody else's.
fn make(folder: &Path) -> Result<()> {
    let failed = |error: std::io::Error| file::cannot_write(folder, &error);
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let metadata = fs::symlink_metadata(folder).map_err(failed)?;
    if !metadata.is_dir() || metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(Error::new(format!("{}: not a folder of this user's", folder.display()))
            .remedy("remove it, or set XDG_RUNTIME_DIR to a folder of your own"));
    }
    Ok(())
}

fn lock(folder: &Path) -> Result<Flock<fs::File>> {
    let path = folder.join("lock");
    let failed = |error: std::io::Error| file::cannot_write(&path, &error);
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(failed)?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| failed(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_testing::sleeper;

    /// A page of a cohabit that does not run.
    fn of_the_dead(folder: &Path, mut entry: Entry) {
        entry.pid = i32::MAX;
        fs::write(page(folder, entry.pid), serde_json::to_vec(&entry).unwrap()).unwrap();
    }

    #[test]
    fn settings_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let setting = folder.path().join("setting");
        fs::write(&setting, "0\n").unwrap();
        let (mut ledger, restored) = Ledger::open(folder.path().join("ledgers")).unwrap();
        assert_eq!(restored, Restored::default());
        ledger.set(&setting, "1").unwrap();
        assert_eq!(fs::read_to_string(&setting).unwrap(), "1");
        assert!(ledger.set(&folder.path().join("none"), "1").is_err());
        assert_eq!(ledger.reset_settings().unwrap(), [(setting.clone(), "0".to_owned())]);
        assert_eq!(fs::read_to_string(&setting).unwrap(), "0");
        // Somebody else has changed it meanwhile: theirs stays.
        ledger.set(&setting, "1").unwrap();
        fs::write(&setting, "2").unwrap();
        assert_eq!(ledger.reset_settings().unwrap(), []);
        assert_eq!(fs::read_to_string(&setting).unwrap(), "2");
        drop(ledger);
        let left: Vec<_> =
            fs::read_dir(folder.path().join("ledgers")).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["lock"]);
    }

    #[test]
    fn a_pause_is_for_those_who_are_alone() {
        let folder = tempfile::tempdir().unwrap();
        let setting = folder.path().join("setting");
        let value = || fs::read_to_string(&setting).unwrap();
        fs::write(&setting, "0\n").unwrap();
        let (mut ledger, _) = Ledger::open(folder.path().join("ledgers")).unwrap();
        assert!(!ledger.pause(&setting, true).unwrap());
        ledger.set(&setting, "1").unwrap();
        assert!(ledger.pause(&setting, true).unwrap());
        assert_eq!((value(), ledger.pause(&setting, true).unwrap()), ("0".to_owned(), true));
        assert!(ledger.pause(&setting, false).unwrap());
        assert_eq!(value(), "1");
        // Somebody else's value stays.
        fs::write(&setting, "2").unwrap();
        assert!(!ledger.pause(&setting, true).unwrap());
        fs::write(&setting, "1").unwrap();
        // So does that of a cohabit which came later.
        let sleeper = sleeper();
        let pid = sleeper.id() as i32;
        let other = Entry { pid, start_ticks: start_ticks(pid).unwrap(), ..ledger.entry.clone() };
        let text = serde_json::to_vec(&other).unwrap();
        fs::write(page(&ledger.folder, pid), text).unwrap();
        assert!(!ledger.pause(&setting, true).unwrap());
        assert_eq!(value(), "1");
        drop(sleeper);
        // What ends in a pause is as it was before.
        assert!(ledger.pause(&setting, true).unwrap());
        drop(ledger);
        assert_eq!(value(), "0");
    }

    #[test]
    fn what_the_dead_left_is_put_back_and_what_the_living_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let ledgers = folder.path().join("ledgers");
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        for setting in [&ours, &theirs] {
            fs::write(setting, "1").unwrap();
        }
        let sleeper = sleeper();
        let tid = sleeper.id() as i32;
        let before = CpuMask::of_thread(tid).unwrap();
        let pu = before.pus()[0];
        CpuMask::single(pu).apply(tid).unwrap();

        let (mut ledger, _) = Ledger::open(ledgers.clone()).unwrap();
        ledger.entry.settings.insert(ours.clone(), ChangedSetting { before: "0".to_owned(), set: "1".to_owned() });
        ledger.write().unwrap();
        let mut left = ledger.entry.clone();
        left.settings.insert(theirs.clone(), ChangedSetting { before: "0".to_owned(), set: "1".to_owned() });
        let changed =
            ChangedAffinity { start_ticks: start_ticks(tid).unwrap(), before: before.to_string(), pu, from: None };
        left.affinities.insert(tid, changed.clone());
        // A thread of the same id that is another one.
        left.affinities.insert(std::process::id() as i32, ChangedAffinity { start_ticks: 1, ..changed });
        of_the_dead(&ledgers, left);

        let restored = restore(&ledgers).unwrap();
        assert_eq!((restored.threads, restored.failed.len()), (1, 0));
        assert_eq!(restored.settings, [(theirs.clone(), "0".to_owned())]);
        assert_eq!(CpuMask::of_thread(tid).unwrap(), before);
        assert_eq!(fs::read_to_string(&ours).unwrap(), "1");
        assert_eq!(restore(&ledgers).unwrap(), Restored::default());
        // The next one knows what it was before all of them.
        assert_eq!(ledger.reset_settings().unwrap(), [(ours.clone(), "0".to_owned())]);
    }

    #[test]
    fn damaged_pages_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("7.json"), "{\"format\": 1").unwrap();
        fs::write(folder.path().join("8.json"), "{\"format\": 99, \"pid\": 1, \"start_ticks\": 1}").unwrap();
        assert_eq!(restore(folder.path()).unwrap(), Restored::default());
        assert_eq!(restore(&folder.path().join("none")).unwrap(), Restored::default());
    }
}
