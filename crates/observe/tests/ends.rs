//! However a program ends, its status comes through and what was counted until then is kept.

use cohabit_model::command::CommandError;
use cohabit_model::profile::Kind;
use cohabit_observe::dbi::{self, Installation, Options, Outcome};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;

/// Runs a command under the profiler; none, said aloud, where that is missing.
fn profile(command: &[&str]) -> Option<Result<Outcome, CommandError>> {
    if let Err(error) = Installation::find() {
        eprintln!("skipped: {}", error.cause);
        return None;
    }
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    Some(dbi::profile(&command, &Options::default()))
}

#[test]
fn statuses_come_through() {
    let rows = [
        ("exit 0", Some(0), None, true),
        ("exit 3", Some(3), None, true),
        ("exit 127", Some(127), None, true),
        // What is ignored stays so over an exec (nohup).
        ("trap '' USR2; exec /bin/sh -c 'kill -USR2 $$; exit 7'", Some(7), None, true),
        ("kill -KILL $$", None, Some(libc::SIGKILL), false),
        ("kill -SEGV $$", None, Some(libc::SIGSEGV), true),
    ];
    for (script, code, signal, exact) in rows {
        let Some(outcome) = profile(&["/bin/sh", "-c", script]) else { return };
        let outcome = outcome.unwrap_or_else(|failure| panic!("{script}: {failure}"));
        assert_eq!((outcome.status.code(), outcome.status.signal()), (code, signal), "{script}");
        let coverage = &outcome.profile.meta.coverage;
        assert_eq!(coverage.exact, exact, "{script}: {coverage:?}");
        assert_eq!(coverage.not_seen.iter().any(|line| line.contains("killed")), !exact, "{script}: {coverage:?}");
        assert_eq!(
            coverage.not_seen.iter().any(|line| line.contains("ended the program")),
            signal.is_some(),
            "{script}"
        );
        assert!(outcome.profile.loads[0] > 1000, "{script}");
    }
}

#[test]
fn scripts_and_what_they_start_are_followed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/bin/sh -e\n/bin/true\ntest \"$1\" = word\nexec /bin/true\n").expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let Some(outcome) = profile(&[script.to_str().expect("a plain path"), "word"]) else { return };
    let outcome = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(outcome.status.success());
    let meta = &outcome.profile.meta;
    let tasks: Vec<_> = meta.tasks.iter().map(|task| (task.name.as_str(), task.process, task.parent)).collect();
    assert_eq!(tasks, [("true", 0, None), ("true", 1, Some(0))]);
    assert_eq!(meta.kind, Kind::Processes);
    assert!(meta.coverage.exact, "{:?}", meta.coverage);
}

#[test]
fn a_program_is_told_its_name_as_it_was_typed() {
    let (by_path, by_name) = ("[ \"$0\" = /bin/sh ]", "[ \"$0\" = sh ]");
    for (typed, script) in [("/bin/sh", by_path), ("sh", by_name)] {
        let Some(outcome) = profile(&[typed, "-c", script]) else { return };
        let outcome = outcome.unwrap_or_else(|failure| panic!("{typed}: {failure}"));
        assert!(outcome.status.success(), "{typed}: {}", outcome.status);
    }
}

/// /proc, which DynamoRIO reads, is then of another namespace than the processes.
#[test]
fn processes_in_a_pid_namespace_of_their_own_are_followed() {
    let within = ["unshare", "--pid", "--fork"];
    let able = std::process::Command::new(within[0]).args(&within[1..]).arg("true").output();
    if !able.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no PID namespace can be made here (unshare, as root)");
        return;
    }
    let Some(outcome) = profile(&[&within[..], &["/bin/sh", "-c", "/bin/true; exit 3"]].concat()) else { return };
    assert_eq!(outcome.unwrap_or_else(|failure| panic!("{failure}")).status.code(), Some(3));
}

#[test]
fn what_cannot_start_is_told_from_what_failed() {
    let rows = [("/no/such/program", "no/such"), ("/etc", "directory"), ("/etc/passwd", "denied")];
    for (program, cause) in rows {
        let Some(outcome) = profile(&[program]) else { return };
        let failure = outcome.map(|outcome| outcome.status).expect_err(program);
        assert!(failure.error().cause.contains(cause), "{failure}");
        assert_eq!(matches!(failure, CommandError::NotFound(_)), program.starts_with("/no"), "{failure}");
    }
}
