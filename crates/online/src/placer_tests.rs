//! Tests of the placer, on real threads.

use super::*;
use cohabit_testing::{Cpuset, Killed, sleeper};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A ledger, a placer, what this process may use, and the first two PUs of it; none, said aloud, where there is one.
struct Bench {
    _folder: TempDir,
    ledger: Ledger,
    placer: Placer,
    all: CpuMask,
    pus: [u32; 2],
}

impl Bench {
    fn new(test: &str) -> Option<Self> {
        let all = CpuMask::of_thread(0).unwrap();
        let &[first, second, ..] = all.pus().as_slice() else {
            println!("skipped: {test}: one PU");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let (ledger, _) = Ledger::open(vec![folder.path().join("ledger")]).unwrap();
        Some(Self { _folder: folder, ledger, placer: Placer::new(), all, pus: [first, second] })
    }

    fn started(&mut self, tid: i32, parent: Option<i32>) {
        self.placer.started(&mut self.ledger, tid, tid, parent);
    }

    fn place(&mut self, tid: i32, pu: Option<u32>) {
        assert_eq!(self.placer.place(&mut self.ledger, &[(tid, pu)]).unwrap(), []);
    }

    /// How many were let go, and how many could not be.
    fn let_all_go(&mut self) -> (usize, usize) {
        let gone = self.placer.let_all_go(&mut self.ledger).unwrap();
        (gone.threads, gone.failed.len())
    }

    fn look(&mut self, tid: i32) -> Held {
        self.placer.look(&mut self.ledger, tid, &self.all)
    }

    /// A process that has this PU when it is seen to start, and what it may use then.
    fn child(&mut self, parent: i32, pu: u32) -> (Killed, CpuMask) {
        let child = sleeper();
        let tid = child.id() as i32;
        CpuMask::single(pu).apply(tid).unwrap();
        self.started(tid, Some(parent));
        (child, CpuMask::of_thread(tid).unwrap())
    }
}

#[test]
fn what_a_thread_may_use_when_it_is_moved_is_given_back() {
    let test = "what_a_thread_may_use_when_it_is_moved_is_given_back";
    let Some(mut bench) = Bench::new(test) else { return };
    let [first, second] = bench.pus;
    let creator = sleeper();
    let tid = creator.id() as i32;
    // Seen while the program holds it on a PU for a moment.
    CpuMask::single(first).apply(tid).unwrap();
    bench.started(tid, None);
    assert_eq!(bench.look(tid), Held::Own);
    bench.all.apply(tid).unwrap();
    assert_eq!(bench.look(tid), Held::Free);
    for pu in [first, second] {
        bench.place(tid, Some(pu));
        assert_eq!(bench.look(tid), Held::Ours(pu));
    }
    // One that it creates inherits the PU, and is let go to where its creator may run.
    assert_eq!(bench.child(tid, second).1, bench.all);
    bench.place(tid, None);
    assert_eq!(CpuMask::of_thread(tid).unwrap(), bench.all);
}

#[test]
fn what_comes_of_a_moved_thread_has_its_pus_from_it() {
    let Some(mut bench) = Bench::new("what_comes_of_a_moved_thread_has_its_pus_from_it") else { return };
    let ([first, second], all) = (bench.pus, bench.all.clone());
    let creator = sleeper();
    let tid = creator.id() as i32;
    bench.started(tid, None);
    assert_eq!(bench.child(tid, first).1, CpuMask::single(first), "nobody was moved yet");
    bench.place(tid, Some(first));
    // Its child has created another one before it was let go.
    let (child, may) = bench.child(tid, first);
    assert_eq!(may, all);
    let (grandchild, may) = bench.child(child.id() as i32, first);
    assert_eq!((may, bench.look(grandchild.id() as i32)), (all.clone(), Held::Free));
    // Created before the creator was moved again, or let go, and seen afterwards.
    bench.place(tid, Some(second));
    assert_eq!(bench.child(tid, first).1, all);
    bench.place(tid, None);
    assert_eq!(bench.child(tid, second).1, all);
    // What the program says itself is inherited by right.
    CpuMask::single(second).apply(tid).unwrap();
    assert_eq!(bench.look(tid), Held::Own);
    assert_eq!(bench.child(tid, second).1, CpuMask::single(second));
    // One whose creator nobody knows is of a process that is known, or comes of one.
    CpuMask::single(first).apply(tid).unwrap();
    bench.started(tid, None);
    assert_eq!(CpuMask::of_thread(tid).unwrap(), all);
}

/// A shell that starts a process and that another when it gets a line, and what these are.
struct Family(Killed);

impl Family {
    fn new() -> Self {
        let script = "read line; sh -c 'sleep 60 & wait' & wait";
        Self(Killed::spawn(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).process_group(0)))
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    fn grows(&mut self) -> [i32; 2] {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut pids = [0; 2];
        let mut parent = self.pid();
        for pid in &mut pids {
            *pid = loop {
                let child = crate::threads::processes().into_iter().find(|process| process.parent == parent);
                if let Some(child) = child {
                    break child.pid;
                }
                std::thread::yield_now();
            };
            parent = *pid;
        }
        pids
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(self.pid()), nix::sys::signal::SIGKILL);
    }
}

#[test]
fn what_nobody_has_seen_start_is_let_go_at_the_end() {
    let Some(mut bench) = Bench::new("what_nobody_has_seen_start_is_let_go_at_the_end") else { return };
    let mut family = Family::new();
    bench.started(family.pid(), None);
    bench.place(family.pid(), Some(bench.pus[1]));
    let pids = family.grows();
    for pid in pids {
        assert_eq!(CpuMask::of_thread(pid).unwrap(), CpuMask::single(bench.pus[1]));
    }
    // One that is known is on a PU of its own, where the program has put it.
    bench.placer.threads.insert(pids[1], bench.placer.threads[&family.pid()].clone());
    assert_eq!(bench.let_all_go(), (2, 0));
    let of = |pid| CpuMask::of_thread(pid).unwrap();
    assert_eq!((of(family.pid()), of(pids[0])), (bench.all.clone(), bench.all.clone()));
    assert_eq!(of(pids[1]), CpuMask::single(bench.pus[1]));
}

/// However a session ends, and where it is killed, when another one comes.
#[test]
fn what_started_after_the_end_is_let_go_by_what_is_written_down() {
    let test = "what_started_after_the_end_is_let_go_by_what_is_written_down";
    for is_killed in [true, false] {
        let Some(mut bench) = Bench::new(test) else { return };
        let mut family = Family::new();
        bench.started(family.pid(), None);
        bench.place(family.pid(), Some(bench.pus[1]));
        let pids = family.grows();
        let folder = bench._folder.path().join("ledger");
        if is_killed {
            // As if it were another process's.
            let page = |pid: i32| crate::ledger::page(&folder, pid);
            let text = std::fs::read_to_string(page(std::process::id() as i32)).unwrap();
            let own = format!("\"pid\":{},", std::process::id());
            assert!(text.contains(&own), "{text}");
            std::fs::write(page(i32::MAX), text.replace(&own, &format!("\"pid\":{},", i32::MAX))).unwrap();
            let restored = crate::ledger::restore(std::slice::from_ref(&folder)).unwrap();
            assert_eq!((restored.threads, restored.failed.len()), (3, 0));
            assert!(!page(i32::MAX).exists());
        } else {
            drop(bench.ledger);
        }
        for pid in [family.pid(), pids[0], pids[1]] {
            assert_eq!(CpuMask::of_thread(pid).unwrap(), bench.all, "{is_killed}");
        }
    }
}

/// With the id of the main thread, whose place it takes, or with its own.
#[test]
fn what_a_moved_thread_executes_is_free_to_begin_with() {
    let Some(mut bench) = Bench::new("what_a_moved_thread_executes_is_free_to_begin_with") else { return };
    let [first, second] = bench.pus;
    let (thread, main) = (sleeper(), sleeper());
    let (former, tid) = (thread.id() as i32, main.id() as i32);
    for (pu, former) in [(first, former), (second, tid)] {
        bench.started(former, None);
        bench.place(former, Some(pu));
        // As it is with its new id.
        CpuMask::single(pu).apply(tid).unwrap();
        bench.placer.executed(&mut bench.ledger, former, tid).unwrap();
        assert_eq!(CpuMask::of_thread(tid).unwrap(), bench.all);
        assert_eq!((bench.ledger.entry.affinities.len(), bench.look(tid)), (0, Held::Free));
    }
    // What the program has put somewhere itself stays there.
    bench.place(tid, Some(first));
    CpuMask::single(second).apply(tid).unwrap();
    assert_eq!(bench.look(tid), Held::Own);
    bench.placer.executed(&mut bench.ledger, tid, tid).unwrap();
    assert_eq!(CpuMask::of_thread(tid).unwrap(), CpuMask::single(second));
}

#[test]
fn what_cannot_be_put_back_stays_written_down() {
    let Some(mut bench) = Bench::new("what_cannot_be_put_back_stays_written_down") else { return };
    let thread = sleeper();
    let tid = thread.id() as i32;
    bench.started(tid, None);
    bench.place(tid, Some(bench.pus[0]));
    let before = bench.all.to_string();
    bench.ledger.entry.affinities.get_mut(&tid).unwrap().before.before = "nowhere".to_owned();
    let failed = bench.placer.place(&mut bench.ledger, &[(tid, None)]).unwrap();
    assert_eq!((failed.len(), failed[0].0), (1, tid));
    assert_eq!((bench.let_all_go(), bench.look(tid)), ((0, 1), Held::Ours(bench.pus[0])));
    let page = crate::ledger::page(&bench._folder.path().join("ledger"), std::process::id() as i32);
    assert!(std::fs::read_to_string(&page).unwrap().contains("nowhere"));
    bench.ledger.entry.affinities.get_mut(&tid).unwrap().before.before = before;
    assert_eq!((bench.let_all_go(), CpuMask::of_thread(tid).unwrap()), ((1, 0), bench.all.clone()));
}

/// A process that was never confined has what its cpuset has, whatever that comes to be.
#[test]
fn what_is_put_back_follows_its_cpuset() {
    let test = "what_is_put_back_follows_its_cpuset";
    let Some(mut bench) = Bench::new(test) else { return };
    let [first, second] = bench.pus;
    let (one, both) = (CpuMask::single(first), CpuMask::from_pus([first, second]));
    let process = sleeper();
    let tid = process.id() as i32;
    let Some(cpuset) = Cpuset::of(test, tid) else { return };
    let of = || CpuMask::of_thread(tid).unwrap();
    cpuset.set(&one.to_string());
    bench.started(tid, None);
    bench.place(tid, Some(first));
    let child = bench.child(tid, first);
    assert_eq!(child.1, one);
    assert_eq!(bench.let_all_go(), (1, 0));
    cpuset.set(&both.to_string());
    assert_eq!(of(), both);
    // Where the cpuset loses the PU for a while, the thread is not somebody else's for that.
    bench.place(tid, Some(first));
    cpuset.set(&second.to_string());
    assert_eq!(of(), CpuMask::single(second));
    let held = bench.placer.look(&mut bench.ledger, tid, &CpuMask::single(second));
    assert_eq!((held, bench.ledger.entry.affinities.len()), (Held::Free, 1));
    cpuset.set(&both.to_string());
    bench.let_all_go();
    assert_eq!(of(), both);
    // Let go while the cpuset has not got it, the thread has what comes.
    bench.place(tid, Some(first));
    cpuset.set(&second.to_string());
    assert_eq!(bench.let_all_go(), (1, 0));
    cpuset.set(&both.to_string());
    assert_eq!(of(), both);
}
