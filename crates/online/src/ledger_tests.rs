//! Tests of the ledger.

use super::*;
use cohabit_testing::sleeper;
use std::os::unix::fs::{PermissionsExt, symlink};
use tempfile::TempDir;

const SWITCH: Setting = Setting::NumaBalancing;

/// A machine whose settings are plain files, and a folder for ledgers beside them.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn ledgers(&self) -> PathBuf {
        self.0.path().join("ledgers")
    }

    fn path(&self, setting: Setting) -> PathBuf {
        setting.path(self.0.path())
    }

    fn put(&self, setting: Setting, value: &str) {
        fs::create_dir_all(self.path(setting).parent().unwrap()).unwrap();
        fs::write(self.path(setting), value).unwrap();
    }

    fn value(&self, setting: Setting) -> String {
        fs::read_to_string(self.path(setting)).unwrap()
    }

    fn open(&self) -> (Ledger, Restored) {
        Ledger::open_below(vec![self.ledgers()], self.0.path().to_owned()).unwrap()
    }

    fn restore(&self) -> Result<Restored> {
        restore_below(&[self.ledgers()], self.0.path())
    }
}

fn before_of(list: &str) -> Before {
    Before { before: list.to_owned(), is_all: false }
}

/// A page of a cohabit that does not run.
fn of_the_dead(folder: &Path, mut entry: Entry) {
    entry.pid = i32::MAX;
    fs::write(page(folder, entry.pid), serde_json::to_vec(&entry).unwrap()).unwrap();
}

#[test]
fn settings_come_back() {
    let machine = Machine::new();
    machine.put(SWITCH, "0\n");
    let (mut ledger, restored) = machine.open();
    assert_eq!(restored, Restored::default());
    ledger.set(SWITCH, "1").unwrap();
    assert_eq!(machine.value(SWITCH), "1");
    assert!(ledger.set(Setting::ScanDelay, "1").is_err());
    assert_eq!(ledger.reset_settings().unwrap(), [(machine.path(SWITCH), "0".to_owned())]);
    assert_eq!(machine.value(SWITCH), "0");
    // Somebody else has changed it meanwhile: theirs stays.
    ledger.set(SWITCH, "1").unwrap();
    machine.put(SWITCH, "2");
    assert_eq!(ledger.reset_settings().unwrap(), []);
    assert_eq!(machine.value(SWITCH), "2");
    drop(ledger);
    let left: Vec<_> = fs::read_dir(machine.ledgers()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}

#[test]
fn a_pause_is_for_those_who_are_alone() {
    let machine = Machine::new();
    machine.put(SWITCH, "0\n");
    let (mut ledger, _) = machine.open();
    assert!(!ledger.pause(SWITCH, true).unwrap());
    ledger.set(SWITCH, "1").unwrap();
    assert!(ledger.pause(SWITCH, true).unwrap());
    assert_eq!((machine.value(SWITCH), ledger.pause(SWITCH, true).unwrap()), ("0".to_owned(), true));
    assert!(ledger.pause(SWITCH, false).unwrap());
    assert_eq!(machine.value(SWITCH), "1");
    // Somebody else's value stays.
    machine.put(SWITCH, "2");
    assert!(!ledger.pause(SWITCH, true).unwrap());
    machine.put(SWITCH, "1");
    // So does that of a cohabit which came later.
    let sleeper = sleeper();
    let pid = sleeper.id() as i32;
    let other = Entry { pid, start_ticks: start_ticks(pid).unwrap(), ..ledger.entry.clone() };
    let text = serde_json::to_vec(&other).unwrap();
    fs::write(page(&machine.ledgers(), pid), text).unwrap();
    assert!(!ledger.pause(SWITCH, true).unwrap());
    assert_eq!(machine.value(SWITCH), "1");
    drop(sleeper);
    // What ends in a pause is as it was before.
    assert!(ledger.pause(SWITCH, true).unwrap());
    drop(ledger);
    assert_eq!(machine.value(SWITCH), "0");
}

#[test]
fn what_the_dead_left_is_put_back_and_what_the_living_use_is_not() {
    let machine = Machine::new();
    let (ours, theirs) = (SWITCH, Setting::ScanDelay);
    for setting in [ours, theirs] {
        machine.put(setting, "1");
    }
    let sleeper = sleeper();
    let tid = sleeper.id() as i32;
    let before = CpuMask::of_thread(tid).unwrap();
    let pu = before.pus()[0];
    CpuMask::single(pu).apply(tid).unwrap();

    let (mut ledger, _) = machine.open();
    ledger.entry.settings.insert(ours, ChangedSetting { before: "0".to_owned(), set: "1".to_owned() });
    ledger.write().unwrap();
    let mut left = ledger.entry.clone();
    left.settings.insert(theirs, ChangedSetting { before: "0".to_owned(), set: "1".to_owned() });
    let changed = ChangedAffinity {
        start_ticks: start_ticks(tid).unwrap(),
        before: before_of(&before.to_string()),
        pu,
        from: None,
    };
    left.affinities.insert(tid, changed.clone());
    // A thread of the same id that is another one.
    left.affinities.insert(std::process::id() as i32, ChangedAffinity { start_ticks: 1, ..changed });
    of_the_dead(&machine.ledgers(), left);

    let restored = machine.restore().unwrap();
    assert_eq!((restored.threads, restored.failed.len()), (1, 0));
    assert_eq!(restored.settings, [(machine.path(theirs), "0".to_owned())]);
    assert_eq!(CpuMask::of_thread(tid).unwrap(), before);
    assert_eq!(machine.value(ours), "1");
    assert_eq!(machine.restore().unwrap(), Restored::default());
    // The next one knows what it was before all of them.
    assert_eq!(ledger.reset_settings().unwrap(), [(machine.path(ours), "0".to_owned())]);
}

/// A page of a cohabit that does not run, by which a file's text is put back.
fn page_about(path: &str) -> String {
    format!(
        r#"{{"format":1,"pid":{},"start_ticks":1,"settings":{{"{path}":{{"before":"theirs","set":"mine"}}}}}}"#,
        i32::MAX
    )
}

#[test]
fn damaged_pages_are_left_alone() {
    let machine = Machine::new();
    assert_eq!(machine.restore().unwrap(), Restored::default());
    private::make(&machine.ledgers()).unwrap();
    let file = machine.0.path().join("file");
    fs::write(&file, "mine").unwrap();
    let put = |name: &str, text: &str| fs::write(machine.ledgers().join(name), text).unwrap();
    put("7.json", "{\"format\": 1");
    put("8.json", "{\"format\": 99, \"pid\": 1, \"start_ticks\": 1}");
    // One that names what cohabit never changes.
    put("9.json", &page_about(file.to_str().unwrap()));
    nix::unistd::mkfifo(&machine.ledgers().join("10.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(machine.restore().unwrap(), Restored::default());
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn folders_and_pages_that_others_can_have_made_are_not_believed() {
    let machine = Machine::new();
    machine.put(SWITCH, "mine");
    private::make(&machine.ledgers()).unwrap();
    let text = page_about("/proc/sys/kernel/numa_balancing");
    let planted = machine.0.path().join("planted.json");
    fs::write(&planted, &text).unwrap();
    symlink(&planted, machine.ledgers().join("7.json")).unwrap();
    assert_eq!(machine.restore().unwrap(), Restored::default());
    fs::write(page(&machine.ledgers(), i32::MAX), text).unwrap();
    fs::set_permissions(machine.ledgers(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = machine.restore().unwrap_err();
    assert!(error.remedy.is_some_and(|remedy| remedy.contains("XDG_RUNTIME_DIR")), "{}", error.cause);
    assert!(Ledger::open_below(vec![machine.ledgers()], machine.0.path().to_owned()).is_err());
    assert_eq!(machine.value(SWITCH), "mine");
    // The page was one that would have been believed.
    fs::set_permissions(machine.ledgers(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(machine.restore().unwrap().settings, [(machine.path(SWITCH), "theirs".to_owned())]);
}

#[test]
fn what_killed_runs_left_beside_pages_is_removed() {
    let machine = Machine::new();
    private::make(&machine.ledgers()).unwrap();
    let at = |name: &str| machine.ledgers().join(name);
    for name in ["node-1.lock", "node-1.socket", "node-2.lock", "node-2.socket", ".cohabit-7-0.tmp", "other"] {
        fs::write(at(name), "").unwrap();
    }
    let leads = private::try_lock(private::lock_file(&at("node-2.lock")).unwrap()).unwrap();
    machine.restore().unwrap();
    let mut left: Vec<_> =
        fs::read_dir(machine.ledgers()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["lock", "node-2.lock", "node-2.socket", "other"]);
    drop(leads);
}

/// As when its user logs out: with it goes the page, and maybe the place to make it again.
#[test]
fn a_folder_that_vanishes_is_made_again_or_another_is_taken() {
    for can_be_made in [true, false] {
        let machine = Machine::new();
        let [login, temporary] = ["login", "temporary"].map(|name| machine.0.path().join(name));
        let folders = [&login, &temporary].map(|folder| folder.join("cohabit"));
        for setting in [SWITCH, Setting::ScanDelay] {
            machine.put(setting, "0");
        }
        let (mut ledger, _) = Ledger::open_below(folders.to_vec(), machine.0.path().to_owned()).unwrap();
        ledger.set(SWITCH, "1").unwrap();
        let pid = ledger.entry.pid;
        assert!(page(&folders[0], pid).exists());
        fs::remove_dir_all(&login).unwrap();
        if !can_be_made {
            fs::write(&login, "").unwrap();
        }
        ledger.set(Setting::ScanDelay, "1").unwrap();
        let at = &folders[usize::from(!can_be_made)];
        assert!(page(at, pid).exists(), "{can_be_made}");
        // Whoever comes from a login of its own finds it, too.
        if !can_be_made {
            fs::remove_file(&login).unwrap();
        }
        of_the_dead(at, ledger.entry.clone());
        ledger.entry.settings.clear();
        ledger.write().unwrap();
        let restored = restore_below(&folders, machine.0.path()).unwrap();
        assert_eq!((restored.settings.len(), restored.failed.len()), (2, 0), "{can_be_made}");
        assert_eq!(machine.value(SWITCH) + &machine.value(Setting::ScanDelay), "00");
        fs::remove_dir_all(at.parent().unwrap()).unwrap();
        ledger.set(SWITCH, "1").unwrap();
        drop(ledger);
        assert_eq!(machine.value(SWITCH), "0");
    }
}

/// In a folder that several hosts share, and where the machine was started anew.
#[test]
fn pages_of_other_hosts_are_left_alone() {
    let machine = Machine::new();
    machine.put(SWITCH, "1");
    let (mut ledger, _) = machine.open();
    let sleeper = sleeper();
    let pid = sleeper.id() as i32;
    let changed = ChangedSetting { before: "0".to_owned(), set: "1".to_owned() };
    let mut theirs = Entry { settings: [(SWITCH, changed)].into(), ..ledger.entry.clone() };
    theirs.place = Some("another boot".to_owned());
    of_the_dead(&machine.ledgers(), theirs.clone());
    // A process with the id of theirs.
    theirs.affinities.insert(
        pid,
        ChangedAffinity { start_ticks: start_ticks(pid).unwrap(), before: before_of("0"), pu: 0, from: None },
    );
    let living = Entry { pid, start_ticks: start_ticks(pid).unwrap(), ..theirs.clone() };
    fs::write(page(&machine.ledgers(), pid), serde_json::to_vec(&living).unwrap()).unwrap();
    assert_eq!(machine.restore().unwrap(), Restored::default());
    assert!(page(&machine.ledgers(), i32::MAX).exists() && machine.value(SWITCH) == "1");
    assert!(ledger.used_by_others().is_empty());
    ledger.set(SWITCH, "1").unwrap();
    assert_eq!(ledger.entry.settings[&SWITCH].before, "1");
    // Those of older versions do not say where they are from.
    of_the_dead(&machine.ledgers(), Entry { place: None, ..theirs });
    ledger.entry.settings.clear();
    ledger.write().unwrap();
    assert_eq!(machine.restore().unwrap().settings, [(machine.path(SWITCH), "0".to_owned())]);
}
