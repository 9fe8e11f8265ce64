//! Online: `run` without a profile, `attach` and `restore`, on real programs. Detection needs rights that tests may not
//! have; where they are missing that is said.

mod common;

use cohabit_host::memory_events::{DEVICES, MemoryEvents};
use cohabit_model::Topology;
use cohabit_online::policy::are_alike;
use cohabit_testing::{Killed, sleeper};
use common::{Ran, Room, can, sees_faults, workload};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SWITCH: &str = "/proc/sys/kernel/numa_balancing";
/// Processes in pairs, each pair on its own shared pages; says "right" at its end.
const PAIRS: &str = "shared_pairs";

fn is_root() -> bool {
    // SAFETY: reads this process's user id.
    unsafe { libc::geteuid() == 0 }
}

/// Runs cohabit online; none, said aloud, where page faults cannot be seen.
fn online(test: &str, room: &Room, arguments: &[&str]) -> Option<Ran> {
    sees_faults(test).then(|| Ran::of(room.command(arguments).output().unwrap()))
}

fn document(room: &Room, name: &str) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(room.path(name)).unwrap()).unwrap()
}

fn switch() -> String {
    std::fs::read_to_string(SWITCH).unwrap_or_default()
}

/// A setting of the machine is watched by several tests, one of which runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pairs that communicate much, from what `show` says.
fn partners(room: &Room, profile: &str) -> Vec<(u64, u64)> {
    let ran = room.run(&format!("show {profile} --json -"));
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let shown: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let pairs = shown["strongest_pairs"].as_array().unwrap_or_else(|| panic!("{}", ran.stdout));
    let number = |pair: &serde_json::Value, key: &str| pair[key].as_u64().unwrap();
    let strong = pairs.iter().filter(|pair| number(pair, "value") >= 32);
    let mut found: Vec<(u64, u64)> = strong
        .map(|pair| (number(pair, "source"), number(pair, "destination")))
        .map(|(a, b)| (a.min(b), a.max(b)))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn processes_that_share_memory_are_seen() {
    let _alone = alone();
    let test = "processes_that_share_memory_are_seen";
    let Some(program) = workload(test, PAIRS) else { return };
    let room = Room::new();
    let program = program.to_str().unwrap();
    let arguments = ["run", "--dry-run", "--faults", "none", "-o", "p.npz", "--json", "r.json", "--", program, "3"];
    let Some(ran) = online(test, &room, &arguments) else { return };
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "right\n"), "{}", ran.stderr);
    // The parent is task 0.
    assert_eq!(partners(&room, "p.npz"), [(1, 2), (3, 4), (5, 6)]);
    let document = document(&room, "r.json");
    assert_eq!((&document["command"], &document["tasks"]), (&"run".into(), &7.into()));
    assert_eq!(document["status"]["exited"], 0);
    assert_eq!(document["moves"], 0);
}

/// Where no PMU samples accesses, whoever asks for one is told so, in one line, and nobody else; where one does, there are
/// samples of it.
#[test]
fn a_pmu_that_is_not_there_is_missed_by_whoever_asks_for_it() {
    let test = "a_pmu_that_is_not_there_is_missed_by_whoever_asks_for_it";
    let Some(program) = workload(test, PAIRS) else { return };
    let is_there = MemoryEvents::find(Path::new(DEVICES)).is_ok();
    if is_there && !can(test, &[("PMU samples", "works")]) {
        return;
    }
    let (room, program) = (Room::new(), program.to_str().unwrap());
    for (which, is_asked_for) in [("pmu", true), ("auto", false)] {
        let arguments = ["run", "--dry-run", "--faults", which, "--json", "r.json", "--", program, "1"];
        let Some(ran) = online(test, &room, &arguments) else { return };
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "right\n"), "{}", ran.stderr);
        let said: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("samples by the PMU")).collect();
        let is_missed = said.iter().filter(|line| line.contains("no samples by the PMU: ")).count();
        let expected = (usize::from(is_there || is_asked_for), usize::from(!is_there && is_asked_for));
        assert_eq!((said.len(), is_missed), expected, "{}", ran.stderr);
        let samples = document(&room, "r.json")["samples_by_pmu"].as_u64().unwrap();
        assert_eq!(samples > 0, is_there, "{samples}");
    }
}

/// Runs a program online, as a user without rights; none, said aloud, where that cannot be, or that user may not use
/// perf events.
fn as_ordinary_user(test: &str, room: &Room, program: &Path, options: &[&str], arguments: &[&str]) -> Option<Ran> {
    if !is_root() {
        println!("skipped: {test}: only root can become another user");
        return None;
    }
    // Where another user can read them.
    std::fs::set_permissions(room.path("."), std::fs::Permissions::from_mode(0o777)).unwrap();
    for (from, to) in [(Path::new(env!("CARGO_BIN_EXE_cohabit")), "cohabit"), (program, "program")] {
        std::fs::copy(from, room.path(to)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "./cohabit", "run", "--dry-run"]);
    command.args(options).args(["-o", "p.npz", "--json", "r.json", "--", "./program"]).args(arguments);
    // What anybody may do, whatever root may.
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse().map_or(true, |level: i32| level > 2) {
        println!("skipped: {test}: kernel.perf_event_paranoid is {:?}", paranoid.trim());
        return None;
    }
    let Ok(output) = command.current_dir(room.path(".")).stdin(Stdio::null()).output() else {
        println!("skipped: {test}: no setpriv");
        return None;
    };
    let ran = Ran::of(output);
    assert!(ran.stderr.contains("no eBPF"), "the fallback is said: {}", ran.stderr);
    assert_eq!(document(room, "r.json")["source"], "page faults, by perf events");
    Some(ran)
}

#[test]
fn an_ordinary_user_sees_the_same() {
    let _alone = alone();
    let test = "an_ordinary_user_sees_the_same";
    let Some(program) = workload(test, PAIRS) else { return };
    let room = Room::new();
    let Some(ran) = as_ordinary_user(test, &room, &program, &["--faults", "none"], &["2"]) else { return };
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "right\n"), "{}", ran.stderr);
    assert_eq!(partners(&room, "p.npz"), [(1, 2), (3, 4)]);
}

/// Partners read what the other has written: nobody's page faults show that after the first touch.
#[test]
fn an_ordinary_user_sees_readers_by_watchpoints() {
    let _alone = alone();
    let test = "an_ordinary_user_sees_readers_by_watchpoints";
    let Some(program) = workload(test, "patterns-pthreads") else { return };
    if !can(test, &[("watchpoints", "works")]) {
        return;
    }
    let room = Room::new();
    let arguments = "pairs-near --threads 4 --blocks 65536 --block 64 --words 4 --expect /dev/null --rounds 800";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let Some(ran) = as_ordinary_user(test, &room, &program, &["--faults", "watch", "--overhead", "30"], &arguments)
    else {
        return;
    };
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let document = document(&room, "r.json");
    let number = |field: &str| document[field].as_u64().unwrap();
    assert!(number("events_watched") >= 10 && number("places_used") <= number("places_watched"), "{document}");
    assert!(number("places_watched") <= 3 * number("windows_watched"), "{document}");
    let detector = partners_stand_out(&room, "p.npz", 4, |a, b| a / 2 == b / 2);
    assert_eq!(detector, "page faults, by perf events, and watchpoints");
}

/// Sees that each of as many pairs (both ways) as `are_partners` names has more events than any other; what saw them.
fn partners_stand_out(room: &Room, profile: &str, count: usize, are_partners: fn(u64, u64) -> bool) -> String {
    let ran = room.run(&format!("show {profile} --json -"));
    let shown: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let pairs = shown["strongest_pairs"].as_array().unwrap_or_else(|| panic!("{}", ran.stdout));
    let number = |pair: &serde_json::Value, key: &str| pair[key].as_u64().unwrap();
    let of = |wanted: bool| {
        let is_wanted = move |pair: &&serde_json::Value| {
            are_partners(number(pair, "source"), number(pair, "destination")) == wanted
        };
        pairs.iter().filter(is_wanted).map(|pair| number(pair, "value")).collect::<Vec<_>>()
    };
    let (partners, others) = (of(true), of(false));
    assert_eq!(partners.len(), count, "{pairs:?}");
    assert!(partners.iter().all(|&events| others.iter().all(|&other| events > other)), "{pairs:?}");
    shown["detector"].as_str().unwrap().to_owned()
}

/// A program that was there before: it has no agent, and its pages have had their first faults.
#[test]
fn threads_of_a_program_that_runs_are_seen_by_watchpoints() {
    let _alone = alone();
    let test = "threads_of_a_program_that_runs_are_seen_by_watchpoints";
    let Some(path) = workload(test, "patterns-pthreads") else { return };
    if !sees_faults(test) || !can(test, &[("watchpoints", "works")]) {
        return;
    }
    let arguments = "pairs-far --threads 4 --blocks 65536 --block 64 --words 4 --expect /dev/null --rounds 1000000";
    let mut program = Command::new(path);
    let program = Killed::spawn(program.args(arguments.split(' ')).stdout(Stdio::null()).stderr(Stdio::null()));
    let threads = || std::fs::read_dir(format!("/proc/{}/task", program.id())).map_or(0, Iterator::count);
    while threads() < 4 {
        std::thread::yield_now();
    }
    let room = Room::new();
    let mut attach = Command::new("timeout");
    // It ends by itself, as soon as it is sure.
    attach.args(["-s", "INT", "60", env!("CARGO_BIN_EXE_cohabit"), "attach", "--dry-run", "--until-sure"]);
    attach.args(["--faults", "watch", "--overhead", "30", "--json", "a.json", "-o", "p.npz"]);
    attach.arg(program.id().to_string()).current_dir(room.path("."));
    let ran = Ran::of(attach.stdin(Stdio::null()).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    partners_stand_out(&room, "p.npz", 4, |a, b| a.abs_diff(b) == 2);
    let document = document(&room, "a.json");
    assert_eq!((&document["pairs"], &document["pairs_told_apart"]), (&6.into(), &6.into()), "{document}");
    assert!(ran.stderr.contains("all 6 pairs of tasks are told apart"), "{}", ran.stderr);
    assert!(ran.stderr.contains("6 of 6 pairs told apart"), "{}", ran.stderr);
    assert!(document["evidence"]["watched"]["count"].as_u64().unwrap() >= 10, "{document}");
}

/// A program that reports its progress, and does less where it is held on a PU: the move is undone, by what it reports.
#[test]
fn a_move_after_which_the_program_does_less_is_undone() {
    let _alone = alone();
    let test = "a_move_after_which_the_program_does_less_is_undone";
    let Some(program) = workload(test, "reluctant") else { return };
    if !can(test, &[("samples", "works")]) {
        return;
    }
    let room = Room::new();
    // Where nothing can be gained nothing is moved, and the program need not wait for it for a minute.
    let can_gain = !are_alike(&Topology::load("live").unwrap(), &[]);
    let seconds = if can_gain { "60" } else { "3" };
    let arguments = ["run", "--json", "r.json", "--", program.to_str().unwrap(), seconds];
    let Some(ran) = online(test, &room, &arguments) else { return };
    let document = document(&room, "r.json");
    if !can_gain {
        assert_eq!(document["moves"], 0, "{}", ran.stderr);
        println!("skipped: {test}: all PUs are alike here, so nothing is moved (make test-numa has others)");
        return;
    }
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "let go\n"), "{}", ran.stderr);
    let undone = document["log"].as_array().unwrap().iter().find(|entry| entry["what"] == "undone");
    let text = undone.unwrap_or_else(|| panic!("{}", ran.stderr))["text"].as_str().unwrap();
    assert!(text.contains("progress is"), "{text}");
}

/// Threads that communicate with their neighbours, and then with those two away: they are moved again. On two PUs,
/// where partners are on the same one.
#[test]
fn a_program_that_changes_its_pattern_is_mapped_again() {
    let _alone = alone();
    let test = "a_program_that_changes_its_pattern_is_mapped_again";
    let Some(program) = workload(test, "patterns-pthreads") else { return };
    if std::thread::available_parallelism().map_or(1, usize::from) != 2 {
        println!("skipped: {test}: not two PUs here");
        return;
    }
    if !can(test, &[("samples", "works")]) {
        return;
    }
    let room = Room::new();
    let mut arguments = vec!["run", "--always", "--verbose", "--json", "r.json", "--", program.to_str().unwrap()];
    arguments.extend(["phases", "--threads", "4", "--rounds", "48000", "--blocks", "16384", "--block", "64"]);
    arguments.extend(["--expect", "/dev/null"]);
    let Some(ran) = online(test, &room, &arguments) else { return };
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let document = document(&room, "r.json");
    let (mut at, mut near, mut changed, mut far) = ([None; 4], false, false, false);
    for entry in document["log"].as_array().unwrap() {
        changed |= near && entry["what"] == "changed";
        for one in entry["moves"].as_array().into_iter().flatten() {
            at[one[0].as_u64().unwrap() as usize] = one[1].as_u64();
        }
        let together = |a: usize, b: usize| at[a].is_some() && at[a] == at[b];
        // Where partners began on one PU there was nothing to move.
        let began = entry["what"] == "holds" && !changed && at == [None; 4];
        near |= began || together(0, 1) && together(2, 3);
        far |= changed && together(0, 2) && together(1, 3);
    }
    assert!(near && changed && far, "{near} {changed} {far}: {}", ran.stderr);
    let verdict = document["verdict"]["text"].as_str().unwrap();
    assert_eq!(ran.stderr.lines().last(), Some(format!("cohabit: {verdict}").as_str()));
}

/// Threads that wait in loops nearly all the time are seen by samples shortly after switches to them.
#[test]
fn threads_that_wait_in_loops_are_sampled_after_switches() {
    let _alone = alone();
    let test = "threads_that_wait_in_loops_are_sampled_after_switches";
    let Some(program) = workload(test, "turns") else { return };
    if !can(test, &[("eBPF", "works"), ("samples", "works")]) {
        return;
    }
    let room = Room::new();
    let options = ["run", "--dry-run", "--json", "r.json", "-o", "p.npz", "--", program.to_str().unwrap(), "2", "8"];
    let Some(ran) = online(test, &room, &options) else { return };
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "right\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("page faults, by eBPF"), "{}", ran.stderr);
    let document = document(&room, "r.json");
    let count = |name: &str| document[name].as_u64().unwrap();
    let telling = (count("samples_telling"), count("samples_after_switches_telling"));
    assert!(ran.stderr.contains("shortly after switches") && telling.1 > 100.max(4 * telling.0), "{document:#}");
    partners_stand_out(&room, "p.npz", 4, |a, b| a.div_ceil(2) == b.div_ceil(2));
}

/// What processes copy from one another's memory touches no page that they share.
#[test]
fn what_processes_copy_from_one_another_is_seen() {
    let _alone = alone();
    let test = "what_processes_copy_from_one_another_is_seen";
    let Some(program) = workload(test, "copies") else { return };
    let room = Room::new();
    let options = ["run", "-v", "--dry-run", "--faults", "none", "--json", "r.json", "-o", "p.npz", "--"];
    let copies = [program.to_str().unwrap(), "4", "1000", "65536", "1000"];
    let Some(ran) = online(test, &room, &[&options[..], &copies[..]].concat()) else { return };
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "right\n"), "{}", ran.stderr);
    let document = document(&room, "r.json");
    if !can(test, &[("copies", "works")]) {
        // What is not seen is said.
        assert!(document["bytes_copied"].is_null() && ran.stderr.contains("cop"), "{}", ran.stderr);
        return;
    }
    assert_eq!(document["bytes_copied"], 4 * 1000 * 65536, "{}", ran.stderr);
    // A ring of those that were forked, each copying from the next: 62.5 MiB.
    let profile = cohabit_formats::npz::read_profile(&room.path("p.npz")).unwrap();
    for (a, b) in (1..5).flat_map(|b| (1..b).map(move |a| (a, b))) {
        let expected = if b - a == 1 || b - a == 3 { 62 } else { 0 };
        assert!(profile.messages.get(a, b).abs_diff(expected) <= 3, "{a} {b}: {}", profile.messages.get(a, b));
    }
}

/// A program that uses 200 MB again and again has a hint fault a page in every pass of the kernel's, more than they may
/// take.
#[test]
fn hint_faults_pause_where_they_would_take_too_much() {
    let _alone = alone();
    let test = "hint_faults_pause_where_they_would_take_too_much";
    let Some(program) = workload(test, "stencil") else { return };
    let pages = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let before = switch();
    if pages.contains("[always]") || before.trim() != "0" {
        println!("skipped: {test}: huge pages are on, or NUMA balancing is on already");
        return;
    }
    if !sees_faults(test) || !can(test, &[("hint faults", "limited")]) {
        return;
    }
    let room = Room::new();
    let program = program.to_str().unwrap();
    let mut command = room.command(["run", "--dry-run", "--faults", "hint", "--json", "r.json", "--", program]);
    let said = std::fs::File::create(room.path("said")).unwrap();
    let mut run = Killed::spawn(command.args(["2", "3600", "300"]).stdout(Stdio::null()).stderr(said));
    let (mut was_on, mut off_since, mut ended) = (false, None, false);
    let status = loop {
        if let Some(status) = run.try_wait().unwrap() {
            break status;
        }
        let is_on = switch().trim() == "1";
        was_on |= is_on;
        if was_on && !is_on && off_since.is_none() {
            off_since = Some(Instant::now());
        }
        // Long enough to be a pause: the program has nothing more to show.
        if off_since.is_some_and(|since: Instant| since.elapsed() > Duration::from_secs(1)) && !ended {
            ended = true;
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(run.id() as i32), nix::sys::signal::SIGTERM).unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = std::fs::read_to_string(room.path("said")).unwrap();
    assert_eq!(switch(), before);
    assert!(was_on, "{said}");
    assert!(ended && status.signal() == Some(libc::SIGTERM) || status.code() == Some(0), "{status}: {said}");
    // It is off at the end too: in a pause, it was for long by then.
    let off_for = off_since.map_or(Duration::ZERO, |since| since.elapsed());
    assert!(off_for > Duration::from_millis(500), "off for {off_for:?}: {said}");
    let log = document(&room, "r.json")["log"].to_string();
    assert!(log.contains("NUMA balancing is off now and then"), "{said}");
}

#[test]
fn settings_and_exit_status_are_as_without() {
    let _alone = alone();
    let test = "settings_and_exit_status_are_as_without";
    let room = Room::new();
    let before = switch();
    let Some(ran) = online(test, &room, &["run", "--", "sh", "-c", "echo out; echo err >&2; exit 42"]) else { return };
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(42), "out\n"), "{}", ran.stderr);
    assert!(ran.stderr.lines().any(|line| line == "err"));
    let Some(ran) = online(test, &room, &["run", "--", "sh", "-c", "ulimit -c 0; kill -SEGV $$"]) else { return };
    assert_eq!(ran.signal, Some(libc::SIGSEGV));
    assert_eq!(online(test, &room, &["run", "--", "./none"]).unwrap().status, Some(127));
    assert_eq!(switch(), before);
}

/// `cohabit attach` of a program that sleeps, with more options; what it finds is in `a.json`.
fn attached(room: &Room, options: &[&str], program: &Killed) -> Killed {
    let mut attach = room.command(["attach", "--json", "a.json"]);
    attach.args(options).arg(program.id().to_string());
    Killed::spawn(attach.stdout(Stdio::null()).stderr(Stdio::null()))
}

#[test]
fn attach_follows_until_it_is_interrupted() {
    let _alone = alone();
    let test = "attach_follows_until_it_is_interrupted";
    if !sees_faults(test) {
        return;
    }
    let (room, sleeper, before) = (Room::new(), sleeper(), switch());
    let mut attached = attached(&room, &[], &sleeper);
    std::thread::sleep(Duration::from_millis(500));
    let id = nix::unistd::Pid::from_raw(attached.id() as i32);
    assert!(attached.try_wait().unwrap().is_none(), "it watches");
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(attached.wait().unwrap().code(), Some(0));
    assert_eq!(document(&room, "a.json")["tasks"], 1);
    assert_eq!(switch(), before);
}

/// Batch systems warn with signals of all sorts before they kill.
#[test]
fn attach_ends_in_order_by_whatever_would_end_it() {
    let _alone = alone();
    let test = "attach_ends_in_order_by_whatever_would_end_it";
    if !sees_faults(test) {
        return;
    }
    let (room, sleeper, before) = (Room::new(), sleeper(), switch());
    let mut attached = attached(&room, &["--faults", "hint"], &sleeper);
    let id = nix::unistd::Pid::from_raw(attached.id() as i32);
    // It is started by tests that may ignore some.
    let mask = |field: &str| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim().to_owned();
        u64::from_str_radix(&line, 16).unwrap()
    };
    let is_in = |mask: u64, signal: i32| mask >> (signal - 1) & 1 == 1;
    let harmless = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];
    let stopping = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    let last = [libc::SIGKILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGSYS, 32, 33];
    let ending = |signal: &i32| ![&harmless[..], &stopping, &last].concat().contains(signal);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(attached.try_wait().unwrap().is_none(), "it watches");
        let handled = mask("SigCgt:") | mask("SigIgn:");
        let left: Vec<i32> = (1..=64).filter(ending).filter(|&signal| !is_in(handled, signal)).collect();
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{left:?} would end it");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(500));
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGUSR2).unwrap();
    assert_eq!(attached.wait().unwrap().code(), Some(0));
    assert_eq!(document(&room, "a.json")["tasks"], 1);
    assert_eq!(switch(), before);
}

/// What is had of samples is set against what the program ran while it was watched, and not before.
#[test]
fn a_program_that_has_run_for_long_is_seen_as_one_that_begins() {
    let _alone = alone();
    let test = "a_program_that_has_run_for_long_is_seen_as_one_that_begins";
    let Some(path) = workload(test, "patterns-pthreads") else { return };
    if !sees_faults(test) || !can(test, &[("samples", "limited")]) {
        return;
    }
    let arguments = "pairs-far --threads 4 --blocks 65536 --block 64 --words 4 --expect /dev/null --rounds 1000000";
    let mut program = Command::new(path);
    let program = Killed::spawn(program.args(arguments.split(' ')).stdout(Stdio::null()).stderr(Stdio::null()));
    std::thread::sleep(Duration::from_secs(3));
    let room = Room::new();
    let mut attach = Command::new("timeout");
    attach.args(["-s", "INT", "3", env!("CARGO_BIN_EXE_cohabit"), "attach", "--dry-run", "--json", "a.json"]);
    let ran = Ran::of(
        attach.arg(program.id().to_string()).current_dir(room.path(".")).stdin(Stdio::null()).output().unwrap(),
    );
    assert_eq!(ran.status, Some(124), "{}", ran.stderr);
    let document = document(&room, "a.json");
    let log = document["log"].to_string();
    assert!(document["samples_telling"].as_u64().unwrap() > 0, "{document}");
    assert!(!log.contains("NUMA balancing") && !log.contains("after switches"), "{log}");
}

#[test]
fn a_process_that_is_gone_is_refused() {
    let _alone = alone();
    let ran = Room::new().run("attach 4194304");
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    ran.assert_fails(1, "no process 4194304");
}

#[test]
fn restore_has_nothing_to_do_by_itself() {
    let _alone = alone();
    let room = Room::new();
    let ran = room.run("restore --json -");
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.status, &document["command"]), (Some(0), &"restore".into()), "{}", ran.stderr);
}

/// Kills cohabit at random moments; COHABIT_KILLS says how often.
#[test]
fn a_killed_cohabit_leaves_the_program_and_the_settings() {
    let _alone = alone();
    let test = "a_killed_cohabit_leaves_the_program_and_the_settings";
    let Some(program) = workload(test, PAIRS) else { return };
    let room = Room::new();
    let before = switch();
    let kills = std::env::var("COHABIT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(5u32);
    let mut random = 12345u32;
    for kill in 0..kills {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let out = std::fs::File::create(room.path("out")).unwrap();
        let mut command = room.command(["run", "--always", "--faults", "hint"]);
        command.args(["--", program.to_str().unwrap(), "2", "3000", "64"]);
        let mut run = Killed::spawn(command.stdout(out).stderr(Stdio::null()));
        // It holds the file open as well.
        drop(command);
        std::thread::sleep(Duration::from_millis(u64::from(random >> 16) % 900));
        run.kill().unwrap();
        run.wait().unwrap();
        // The program has cohabit's standard output: it is over when nobody has the file open any more.
        let deadline = Instant::now() + Duration::from_secs(60);
        let said = || std::fs::read_to_string(room.path("out")).unwrap();
        while said().is_empty() && has_open(&room.path("out")) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let said = said();
        // Killed before the program began, it never begins.
        assert!(said == "right\n" || said.is_empty() && !has_open(&room.path("out")), "kill {kill}: {said}");
        let ran = room.run("restore");
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        assert_eq!(switch(), before, "kill {kill}");
    }
}

/// Ctrl-C, and again while everything is put back, or before the program has begun.
#[test]
// By SIGTERM: who runs the tests in the background may have SIGINT ignored, and then so does what they start.
fn asked_twice_to_end_it_puts_everything_back_all_the_same() {
    use nix::sys::signal::{Signal, kill};
    let _alone = alone();
    let room = Room::new();
    let before = switch();
    for (first_ms, second_ms) in [(0, 1), (30, 1), (400, 1), (400, 5), (400, 20), (400, 80)] {
        let mut command = room.command(["run", "--faults", "hint", "--", "sleep", "60"]);
        let mut run = Killed::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()));
        for after_ms in [first_ms, second_ms] {
            std::thread::sleep(Duration::from_millis(after_ms));
            kill(nix::unistd::Pid::from_raw(run.id() as i32), Signal::SIGTERM).unwrap();
        }
        let status = run.wait().unwrap();
        assert!(!status.success(), "{first_ms} {second_ms}");
        let pages = std::fs::read_dir("/run/cohabit").into_iter().flatten().flatten();
        let page = format!("{}-", run.id());
        let is_left = pages.map(|page| page.file_name()).any(|name| name.to_string_lossy().starts_with(&page));
        let left = (is_left, switch());
        assert_eq!(left, (false, before.clone()), "{first_ms} {second_ms}: {status}");
    }
}

/// Whether a process has the file open.
fn has_open(path: &Path) -> bool {
    let path = path.canonicalize().unwrap();
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes.filter_map(Result::ok).filter_map(|process| std::fs::read_dir(process.path().join("fd")).ok()).any(
        |files| {
            files.filter_map(Result::ok).any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target == path))
        },
    )
}
