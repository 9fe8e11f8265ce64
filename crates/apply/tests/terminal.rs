//! Signals and job control between a terminal, a launcher in a process of its own, and the command.
//!
//! `terminal --launch WAY CMD...` is that launcher: what `cohabit run` does, without its command line.

mod support;

use cohabit_apply::{Identify, LaunchPlan, Options, launch};
use nix::pty::openpty;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Programs, flat, plan};

/// The command is traced all the time, never, or until its second thread has started.
const WAYS: [&str; 3] = ["traced", "left-alone", "traced-at-first"];

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|argument| argument == "--launch") {
        std::process::exit(launcher(arguments[2].to_str().unwrap(), &arguments[3..]));
    }
    let Some(programs) = Programs::build(&["signals"], &[]) else { return };
    for way in WAYS {
        signals_to_the_launcher_are_passed_on(&programs, way);
        the_command_outlives_the_launcher(&programs, way);
        a_shell_stops_and_continues_both(&programs, way);
        println!("terminal: {way}: ok");
    }
}

fn launcher(way: &str, command: &[OsString]) -> i32 {
    let plan = match way {
        "traced" => plan(Identify::Order, &[(0, 0, None), (0, 900, Some(0))]),
        "left-alone" => LaunchPlan::default(),
        _ => flat(Identify::Order, 2),
    };
    let options = Options { pass_signals: true, ..Options::default() };
    launch(command, &plan, &options).map_or_else(|error| error.exit_code(), |outcome| outcome.status.shell_code())
}

/// The command line of a launcher whose command says who it is in `file` and waits for a signal.
fn waiting(programs: &Programs, way: &str, file: &Path) -> Vec<OsString> {
    let mut line = vec![std::env::current_exe().unwrap().into_os_string(), "--launch".into(), way.into()];
    line.extend(programs.command("signals", &["wait", file.to_str().unwrap()]));
    line
}

/// Polls until there is a value.
fn until<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    for _ in 0..20_000 {
        if let Some(value) = value() {
            return value;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("waited in vain for {what}");
}

/// The process that has written its number to `file`.
fn ready(file: &Path) -> Pid {
    until("the command", || {
        let text = std::fs::read_to_string(file).ok().filter(|text| text.ends_with('\n'))?;
        Some(Pid::from_raw(text.split(' ').next()?.parse().ok()?))
    })
}

/// The state letter of /proc/PID/stat; none for a process that is gone.
fn state(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn start(line: &[OsString]) -> std::process::Child {
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]);
    // SAFETY: only sigaction, between fork and exec.
    unsafe { command.pre_exec(default_signals) };
    command.spawn().unwrap()
}

/// What an interactive shell gives its jobs; whoever runs the tests may ignore these.
fn default_signals() -> std::io::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGTSTP] {
        // SAFETY: installs no handler.
        unsafe { sigaction(signal, &default) }?;
    }
    Ok(())
}

fn signals_to_the_launcher_are_passed_on(programs: &Programs, way: &str) {
    for (signal, code) in [(Signal::SIGUSR2, 41), (Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)]
    {
        let file = programs.path(&format!("{way}-{signal}"));
        let mut child = start(&waiting(programs, way, &file));
        ready(&file);
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{way}: {signal}");
    }
}

fn the_command_outlives_the_launcher(programs: &Programs, way: &str) {
    let file = programs.path(&format!("{way}-outlives"));
    let mut child = start(&waiting(programs, way, &file));
    let command = ready(&file);
    child.kill().unwrap();
    child.wait().unwrap();
    until("the tracer's end", || {
        let status = std::fs::read_to_string(format!("/proc/{command}/status")).unwrap();
        status.contains("TracerPid:\t0").then_some(())
    });
    assert!(matches!(state(command), Some('S' | 'R' | 'D')), "{way}: {:?}", state(command));
    kill(command, Signal::SIGUSR2).unwrap();
    until("the command's end", || matches!(state(command), None | Some('Z')).then_some(()));
}

/// Ctrl-Z stops both and gives the terminal back to the shell, `fg` continues both, Ctrl-C ends the command, and the
/// launcher lives to tell.
fn a_shell_stops_and_continues_both(programs: &Programs, way: &str) {
    let file = programs.path(&format!("{way}-shell"));
    let pty = openpty(None, None).unwrap();
    let mut terminal = File::from(pty.master);
    let mut shell = start_shell(&waiting(programs, way, &file), &pty.slave);
    drop(pty.slave);
    let command = ready(&file);
    let job = foreground(&terminal);
    assert_eq!(Some(job), nix::unistd::getpgid(Some(command)).ok(), "{way}: the command is in the foreground");

    terminal.write_all(b"\x1a").unwrap();
    until("the shell to have the terminal", || (foreground(&terminal) != job).then_some(()));
    assert!(matches!(state(command), Some('T' | 't')), "{way}: {:?}", state(command));
    terminal.write_all(b"go on\n").unwrap();
    until("the job to have the terminal", || (foreground(&terminal) == job).then_some(()));
    until("the command to run", || matches!(state(command), Some('S' | 'R')).then_some(()));
    terminal.write_all(b"\x03").unwrap();

    shell.wait().unwrap();
    let told = read_all(&mut terminal);
    assert!(told.contains("stopped 148") && told.contains("ended 130"), "{way}: {told}");
}

fn foreground(terminal: &File) -> Pid {
    nix::unistd::tcgetpgrp(terminal).unwrap()
}

/// A shell with job control whose controlling terminal this is.
fn start_shell(line: &[OsString], terminal: &OwnedFd) -> std::process::Child {
    let script = "set -m; \"$@\"; echo stopped $?; read -r line; fg; echo ended $?";
    let stream = || Stdio::from(terminal.try_clone().unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).args(line).stdin(stream()).stdout(stream()).stderr(stream());
    let number = terminal.as_raw_fd();
    let lead = move || {
        nix::unistd::setsid()?;
        // SAFETY: makes the open terminal the controlling one of the new leader.
        if unsafe { libc::ioctl(number, libc::TIOCSCTTY, 0) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        default_signals()
    };
    // SAFETY: only system calls, between fork and exec.
    unsafe { shell.pre_exec(lead) };
    shell.spawn().unwrap()
}

/// What is left to read of a terminal whose other side is closed (which reads as an error).
fn read_all(terminal: &mut File) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = terminal.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
