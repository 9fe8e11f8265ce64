//! What is to be put back, written down before it is changed: a file for each cohabit that runs, so that a next one, or
//! `cohabit restore`, can put back what one that was killed has left. It also tells cohabits which PUs the others use.

use super::inherited::{self, Found, Inherited};
use super::setting::Setting;
use super::threads::start_ticks;
use cohabit_host::affinity::{Allowed, CpuMask};
use cohabit_host::cpuset;
use cohabit_model::{Error, Result, file, private};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The format number of a ledger.
const FORMAT: u32 = 1;
/// No ledger is longer.
const LONGEST_BYTES: u64 = 64 << 20;
const ROOT: &str = "/";
/// Threads are seen so long after their start at most, before others are put on PUs: a second.
const SEEN_WITHIN_TICKS: u64 = 100;
/// What to do where a folder cannot be trusted.
const OWN_FOLDER: &str = "remove it, or set XDG_RUNTIME_DIR to a folder of your own that nobody else can write to";

/// What a thread might use before it was put on a PU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// As a list of PUs (`0-3,8`).
    pub before: String,
    /// Whether these were all that its cpuset had.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_all: bool,
}

impl Before {
    /// To be written down.
    pub fn of(allowed: &Allowed) -> Self {
        Self { before: allowed.pus.to_string(), is_all: allowed.is_all }
    }

    /// As it was written down; none where that is no list.
    pub fn allowed(&self) -> Option<Allowed> {
        Some(Allowed { pus: CpuMask::parse(&self.before)?, is_all: self.is_all })
    }
}

/// A thread whose affinity was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedAffinity {
    /// With the id, what tells the thread from a later one.
    pub start_ticks: u64,
    /// As it was.
    #[serde(flatten)]
    pub before: Before,
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
    /// Where ids mean this: the boot of the machine, and the PID namespace. Pages of older versions do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// By thread id.
    #[serde(default)]
    pub affinities: BTreeMap<i32, ChangedAffinity>,
    /// What else than these is named on a page makes it one that is not understood.
    #[serde(default)]
    pub settings: BTreeMap<Setting, ChangedSetting>,
    /// What threads that nobody has seen start may have inherited, by process id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processes: BTreeMap<i32, Inherited>,
    /// When threads were last put on PUs (clock ticks of the machine): who had started before was seen to.
    #[serde(default)]
    pub seen_until: u64,
}

/// This cohabit's page, and the folder with everybody's. When this is dropped, all is put back and the page goes.
#[derive(Debug)]
pub struct Ledger {
    /// The first is where the page is; in others there may be pages, too.
    folders: Vec<PathBuf>,
    /// What the settings' paths begin with: `/`, but for tests.
    root: PathBuf,
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
    folders().swap_remove(0)
}

/// Where they may be: first where this process keeps its own, then where others of this user's do, whose environment
/// says otherwise. A job has no XDG_RUNTIME_DIR, or another TMPDIR.
pub fn folders() -> Vec<PathBuf> {
    let user = nix::unistd::geteuid();
    if user.is_root() {
        return vec![PathBuf::from("/run/cohabit")];
    }
    // After `su` it may still name the folder of somebody else.
    let of_login = |folder: PathBuf| private::check(&folder).is_ok().then(|| folder.join("cohabit"));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").and_then(|folder| of_login(folder.into()));
    let usual = of_login(format!("/run/user/{user}").into());
    let temporary = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let mut temporary = temporary.into_iter().map(|folder| folder.join(format!("cohabit-{user}")));
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in runtime.into_iter().chain(temporary.next()).chain(usual).chain(temporary) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

impl ChangedAffinity {
    /// Whether this affinity is our doing.
    pub fn holds(&self, now: &CpuMask) -> bool {
        [Some(self.pu), self.from].into_iter().flatten().any(|pu| *now == CpuMask::single(pu))
    }

    /// Whether this affinity of the thread is the kernel's doing: its cpuset does not have the PU any more, and so it
    /// has all of that; until it has the PU again.
    pub fn is_pushed_out(&self, tid: i32, now: &CpuMask) -> bool {
        !now.contains(self.pu) && cpuset::of_thread(tid).is_some_and(|allowed| allowed == *now)
    }
}

impl Ledger {
    /// A page for this process, in the first of the folders. What dead cohabits have left in them is put back first.
    ///
    /// # Errors
    /// Where the folder cannot be made, or somebody else could write to it.
    pub fn open(folders: Vec<PathBuf>) -> Result<(Self, Restored)> {
        Self::open_below(folders, PathBuf::from(ROOT))
    }

    fn open_below(folders: Vec<PathBuf>, root: PathBuf) -> Result<(Self, Restored)> {
        private::make(&folders[0]).map_err(|error| error.remedy(OWN_FOLDER))?;
        let restored = restore_below(&folders, &root)?;
        let pid = std::process::id() as i32;
        let entry = Entry {
            format: FORMAT,
            pid,
            start_ticks: start_ticks(pid).unwrap_or(0),
            place: place(),
            affinities: BTreeMap::new(),
            settings: BTreeMap::new(),
            processes: BTreeMap::new(),
            seen_until: 0,
        };
        Ok((Self { folders, root, entry }, restored))
    }

    /// Writes the page.
    ///
    /// # Errors
    /// Where it cannot be written; nothing may be changed then.
    pub fn write(&mut self) -> Result<()> {
        let text = serde_json::to_vec(&self.entry).map_err(|error| Error::new(format!("writing a ledger: {error}")))?;
        let pid = self.entry.pid;
        file::write_whole(&page(self.folder()?, pid), &text)
    }

    /// The folder with the page. That of a login goes when its user has logged out (pam_systemd(8)): it is made again,
    /// or the next one is taken.
    fn folder(&mut self) -> Result<&Path> {
        if !is_missing(&self.folders[0]) {
            return Ok(&self.folders[0]);
        }
        match self.folders.iter().position(|folder| private::make(folder).is_ok()) {
            Some(at) => self.folders.swap(0, at),
            None => private::make(&self.folders[0]).map_err(|error| error.remedy(OWN_FOLDER))?,
        }
        Ok(&self.folders[0])
    }

    /// The PUs (OS indices) that other cohabits have put threads on which still run.
    pub fn used_by_others(&self) -> Vec<u32> {
        let mut pus: Vec<u32> = self
            .others()
            .flat_map(|entry| entry.affinities)
            .filter(|(tid, changed)| start_ticks(*tid) == Some(changed.start_ticks))
            .map(|(_, changed)| changed.pu)
            .collect();
        pus.sort_unstable();
        pus.dedup();
        pus
    }

    /// Changes a setting of the machine, having written down what it was. Where another cohabit has set it already,
    /// what it was before that one counts.
    ///
    /// # Errors
    /// Where it cannot be read or written; it is then as it was.
    pub fn set(&mut self, setting: Setting, value: &str) -> Result<()> {
        let _lock = lock(self.folder()?)?;
        let path = setting.path(&self.root);
        let now = read_setting(&path)?;
        // What was before the first change: it may be changed again.
        let earlier = self.entry.settings.get(&setting).cloned().or_else(|| self.setting_of_others(setting));
        let before = earlier.map_or(now.clone(), |changed| changed.before);
        let changed = ChangedSetting { before, set: value.to_owned() };
        let own = self.entry.settings.insert(setting, changed);
        self.write()?;
        if now == value {
            return Ok(());
        }
        let written = write_setting(&path, value);
        if written.is_err() {
            match own {
                Some(own) => self.entry.settings.insert(setting, own),
                None => self.entry.settings.remove(&setting),
            };
            self.write()?;
        }
        written
    }

    /// Gives a setting that was changed the value it had before, for a while, or the changed one again. Nothing is done
    /// where another cohabit uses it too, or somebody else has changed it since. Whether it has that value now.
    ///
    /// # Errors
    /// Where it cannot be read or written.
    pub fn pause(&mut self, setting: Setting, paused: bool) -> Result<bool> {
        let _lock = lock(self.folder()?)?;
        let path = setting.path(&self.root);
        let Some(changed) = self.entry.settings.get(&setting) else { return Ok(false) };
        let (from, to) = if paused { (&changed.set, &changed.before) } else { (&changed.before, &changed.set) };
        if self.setting_of_others(setting).is_some() {
            return Ok(false);
        }
        match read_setting(&path)? {
            now if now == *to => Ok(true),
            now if now == *from => write_setting(&path, to).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Puts back every setting that no other cohabit uses.
    ///
    /// # Errors
    /// Where one cannot be put back; it stays on the page.
    pub fn reset_settings(&mut self) -> Result<Vec<(PathBuf, String)>> {
        let _lock = lock(self.folder()?)?;
        let mut back = Vec::new();
        for (setting, changed) in self.entry.settings.clone() {
            let path = setting.path(&self.root);
            if self.setting_of_others(setting).is_none() && put_back(&path, &changed)? {
                back.push((setting.usual_path(&self.root), changed.before));
            }
            self.entry.settings.remove(&setting);
        }
        self.write()?;
        Ok(back)
    }

    fn setting_of_others(&self, setting: Setting) -> Option<ChangedSetting> {
        self.others().filter_map(|mut entry| entry.settings.remove(&setting)).next()
    }

    /// The pages of the other cohabits that run.
    fn others(&self) -> impl Iterator<Item = Entry> + use<'_> {
        let pages = self.folders.iter().flat_map(|folder| entries(folder)).map(|(_, entry)| entry);
        pages.filter(|entry| entry.pid != self.entry.pid && entry.lives())
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Whatever ended the session early.
        self.entry.affinities.retain(|tid, changed| let_go(*tid, changed).is_err());
        if self.entry.let_unseen_go().failed.is_empty() {
            self.entry.processes.clear();
        }
        if !self.entry.settings.is_empty() {
            let _ = self.reset_settings();
        }
        // What could not be put back stays written down.
        if self.entry.settings.is_empty() && self.entry.affinities.is_empty() && self.entry.processes.is_empty() {
            let _ = fs::remove_file(page(&self.folders[0], self.entry.pid));
        }
    }
}

impl Entry {
    /// Whether the cohabit still runs.
    pub fn lives(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }

    /// Lets threads go that this cohabit has not seen start, once those go that it has put on PUs: only these could have
    /// come later. What started before, the program has put where it is.
    fn let_unseen_go(&self) -> Found {
        inherited::let_go(&self.processes, self.seen_until.saturating_sub(SEEN_WITHIN_TICKS), |_| false)
    }
}

/// Puts back what cohabits that do not run any more have left in these folders.
///
/// # Errors
/// Where the first is there, and somebody else could write to it or it cannot be locked. Others that are so are left
/// alone: who knows whose they are.
pub fn restore(folders: &[PathBuf]) -> Result<Restored> {
    restore_below(folders, Path::new(ROOT))
}

fn restore_below(folders: &[PathBuf], root: &Path) -> Result<Restored> {
    let mut restored = Restored::default();
    for (at, folder) in folders.iter().enumerate().filter(|(_, folder)| !is_missing(folder)) {
        let locked = private::check(folder).map_err(|error| error.remedy(OWN_FOLDER)).and_then(|()| lock(folder));
        match locked {
            Ok(_lock) => restore_in(folder, folders, root, &mut restored),
            Err(error) if at == 0 => return Err(error),
            Err(_) => {}
        }
    }
    Ok(restored)
}

/// Puts back what was left in one of the folders, which is locked.
fn restore_in(folder: &Path, folders: &[PathBuf], root: &Path, restored: &mut Restored) {
    remove_leftovers(folder);
    let elsewhere = folders.iter().filter(|other| *other != folder).flat_map(|other| entries(other));
    let mut living: Vec<_> = elsewhere.filter(|(_, entry)| entry.lives()).collect();
    let (here, dead): (Vec<_>, Vec<_>) = entries(folder).into_iter().partition(|(_, entry)| entry.lives());
    living.extend(here);
    for (path, entry) in dead {
        let failed_before = restored.failed.len();
        for (tid, changed) in &entry.affinities {
            match let_go(*tid, changed) {
                Ok(true) => restored.threads += 1,
                Ok(false) => {}
                Err(error) => restored.failed.push(format!("the affinity of thread {tid}: {error}")),
            }
        }
        let Found { threads, failed } = entry.let_unseen_go();
        restored.threads += threads;
        restored.failed.extend(failed.iter().map(|(tid, error)| format!("the affinity of thread {tid}: {error}")));
        for (setting, changed) in &entry.settings {
            if living.iter().any(|(_, other)| other.settings.contains_key(setting)) {
                continue;
            }
            let path = setting.path(root);
            match put_back(&path, changed) {
                Ok(true) => restored.settings.push((setting.usual_path(root), changed.before.clone())),
                Ok(false) => {}
                Err(error) => restored.failed.push(error.cause),
            }
        }
        if restored.failed.len() == failed_before {
            let _ = fs::remove_file(path);
        }
    }
}

fn is_missing(folder: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    fs::symlink_metadata(folder).is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// What the names of files begin with by which the ranks of a job on this node find one another.
pub const NODE: &str = "node-";

/// Removes what killed cohabits have left in the folder beside pages.
fn remove_leftovers(folder: &Path) {
    file::remove_abandoned(folder);
    // Together with the lock of who led goes the socket that it had.
    private::remove_abandoned(folder, NODE, &|file| {
        let is_lock = file.extension().is_some_and(|extension| extension == "lock");
        if is_lock {
            let _ = fs::remove_file(file.with_extension("socket"));
        }
        !is_lock
    });
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
        Ok(now) if changed.holds(&now) || changed.is_pushed_out(tid, &now) => {}
        Ok(_) => return Ok(false),
        Err(error) => return ended(error),
    }
    let before = changed.before.allowed().ok_or(std::io::ErrorKind::InvalidData)?;
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

/// The page of a cohabit that runs here: other hosts have processes with the same ids.
pub(crate) fn page(folder: &Path, pid: i32) -> PathBuf {
    const TELLING: usize = 8;
    let place = place().unwrap_or_default();
    let boot = place.get(..TELLING).unwrap_or_default();
    folder.join(format!("{pid}-{boot}.json"))
}

/// The boot of this machine and this process's PID namespace; none where the kernel does not say.
fn place() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// The pages in a folder; what is none is left alone, and so are those of other hosts that share it, and of other boots.
fn entries(folder: &Path) -> Vec<(PathBuf, Entry)> {
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let here = place();
    let pages =
        files.filter_map(|file| Some(file.ok()?.path())).filter(|path| path.extension().is_some_and(|e| e == "json"));
    pages
        .filter_map(|path| {
            let text = private::read_text(&path, LONGEST_BYTES).ok()?;
            let entry: Entry = serde_json::from_str(&text).ok()?;
            let is_of_here = entry.place.is_none() || here.is_none() || entry.place == here;
            (entry.format == FORMAT && is_of_here).then_some((path, entry))
        })
        .collect()
}

fn lock(folder: &Path) -> Result<Flock<fs::File>> {
    let path = folder.join("lock");
    let failed = |error: std::io::Error| file::cannot_write(&path, &error);
    let file = private::lock_file(&path).map_err(failed)?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| failed(errno.into()))
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
