//! The command runs as if it had been started directly: exit status, signals, stops, no process left behind.

mod support;

use cohabit_apply::{Identify, LaunchPlan, Options, Status, launch};
use cohabit_model::command::CommandError;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use support::{Programs, flat, plan};

/// The ways to run a command: traced with threads to come, traced with all placed, watched, left alone.
fn ways() -> [(&'static str, LaunchPlan, Options); 4] {
    let never_complete = plan(Identify::Order, &[(0, 0, None), (0, 900, Some(0))]);
    let watched = Options { watch_only: true, ..Options::default() };
    [
        ("traced", never_complete.clone(), Options::default()),
        ("placed", flat(Identify::Order, 2), Options::default()),
        ("watched", never_complete, watched),
        ("left alone", LaunchPlan::default(), Options::default()),
    ]
}

fn shell(script: &str) -> Vec<OsString> {
    ["sh", "-c", script].map(OsString::from).to_vec()
}

#[test]
fn the_end_is_passed_on() {
    for (way, plan, options) in ways() {
        for (script, status) in [
            ("exit 0", Status::Exited(0)),
            ("exit 42", Status::Exited(42)),
            ("kill -TERM $$", Status::Signalled { signal: libc::SIGTERM, core_dumped: false }),
            ("kill -KILL $$", Status::Signalled { signal: libc::SIGKILL, core_dumped: false }),
            ("ulimit -c 0; kill -SEGV $$", Status::Signalled { signal: libc::SIGSEGV, core_dumped: false }),
            ("(exit 3) & wait $!; exit $?", Status::Exited(3)),
            ("trap 'exit 9' USR1; kill -USR1 $$; exit 1", Status::Exited(9)),
        ] {
            let outcome = launch(&shell(script), &plan, &options).unwrap();
            assert_eq!(outcome.status, status, "{way}: {script}");
        }
    }
}

#[test]
fn signals_and_stops_are_as_without_us() {
    let Some(programs) = Programs::build(&["signals"], &[]) else { return };
    for (way, plan, options) in ways() {
        for (life, code) in [("handlers", 7), ("stop", 12), ("child-stop", 5), ("abandon", 6)] {
            let outcome = launch(&programs.command("signals", &[life, "-"]), &plan, &options).unwrap();
            assert_eq!(outcome.status, Status::Exited(code), "{way}: {life}");
        }
    }
}

#[test]
fn short_lives_are_no_trouble() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    // Processes that are gone before anybody looks, and a program that ends while its plan is far from complete.
    for (way, plan, options) in ways() {
        let script = "i=0; while [ $i -lt 50 ]; do /bin/true & i=$((i+1)); done; wait; exit 4";
        assert_eq!(launch(&shell(script), &plan, &options).unwrap().status, Status::Exited(4), "{way}");
        let path = programs.path("short");
        for _ in 0..20 {
            let command = programs.command("threads", &[path.to_str().unwrap(), "", "40"]);
            assert_eq!(launch(&command, &plan, &options).unwrap().status, Status::Exited(0), "{way}");
        }
    }
}

#[test]
fn nothing_is_left_behind() {
    for (_, plan, options) in ways() {
        // The background process outlives the command, and is not waited for.
        let started = std::time::Instant::now();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; exit 3", file.display());
        let outcome = launch(&shell(&script), &plan, &options).unwrap();
        assert_eq!(outcome.status, Status::Exited(3));
        assert!(started.elapsed().as_secs() < 300, "did not wait for the background process");
        let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        wait_until_untraced(pid);
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
        assert_eq!(zombie_children(), Vec::<String>::new());
    }
}

fn wait_until_untraced(pid: i32) {
    for _ in 0..10_000 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        if status.contains("TracerPid:\t0") {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("{pid} is still traced");
}

/// The `stat` lines of this process's children that have ended and were not collected, other tests' aside.
fn zombie_children() -> Vec<String> {
    let own = std::process::id().to_string();
    let stats = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').take(2).collect();
        (fields[0] == "Z" && fields[1] == own && stat.contains("(sleep)")).then(|| stat.clone())
    });
    stats.collect()
}

#[test]
fn what_cannot_be_run_is_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8], mode: u32| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.into_os_string()
    };
    let mut foreign = b"\x7fELF\x02\x01\x01".to_vec();
    foreign.resize(64, 0);
    foreign[16] = 2;
    // The one of these two machines that this is not.
    (foreign[18], foreign[19]) = if cfg!(target_arch = "s390x") { (243, 0) } else { (22, 0) };
    let cases = [
        (OsString::from("no-such-command-anywhere"), 127, "command not found"),
        (directory.path().join("absent").into_os_string(), 127, "No such file"),
        (OsString::new(), 127, "no command given"),
        (directory.path().as_os_str().to_owned(), 126, "is a directory"),
        (file("not-executable", b"#!/bin/sh\n", 0o644), 126, "chmod +x"),
        (file("foreign", &foreign, 0o755), 126, "is a program for"),
        (file("no-interpreter", b"#!/no/such/interpreter\n", 0o755), 126, "interpreter"),
        (file("garbage", b"\x01\x02\x00\x03", 0o755), 126, "not a program"),
    ];
    for (way, plan, options) in ways() {
        for (command, code, said) in &cases {
            let error = launch(std::slice::from_ref(command), &plan, &options).unwrap_err();
            assert_eq!(error.exit_code(), *code, "{way}: {command:?}: {error}");
            assert!(error.to_string().contains(said), "{way}: {error}");
        }
        let script = file("no-first-line", b"exit $1\n", 0o755);
        let outcome = launch(&[script, "21".into()], &plan, &options).unwrap();
        assert_eq!(outcome.status, Status::Exited(21), "{way}: a script without a first line is the shell's");
    }
}

#[test]
fn a_pu_that_is_not_there_is_refused_before_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("started");
    let mut plan = flat(Identify::Order, 2);
    plan.tasks[1].pu = 100_000;
    let error = launch(&shell(&format!("touch {}", mark.display())), &plan, &Options::default()).unwrap_err();
    assert!(matches!(error, CommandError::Failed(_)) && error.exit_code() == 125);
    assert!(error.to_string().contains("task 1 is to run on PU 100000"), "{error}");
    assert!(!mark.exists());
}

#[test]
fn the_command_starts_with_the_signals_we_were_started_with() {
    let field = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let own = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    // The Rust runtime ignores SIGPIPE; programs are not to.
    let ignored = field(&own, "SigIgn:") & !(1 << (libc::SIGPIPE - 1));
    let directory = tempfile::tempdir().unwrap();
    for (way, plan, options) in ways() {
        let file = directory.path().join(way);
        let command = ["cp", "/proc/self/status", file.to_str().unwrap()].map(OsString::from);
        assert_eq!(launch(&command, &plan, &options).unwrap().status, Status::Exited(0), "{way}");
        let status = std::fs::read_to_string(file).unwrap();
        assert_eq!((field(&status, "SigIgn:"), field(&status, "SigBlk:")), (ignored, field(&own, "SigBlk:")), "{way}");
    }
}
