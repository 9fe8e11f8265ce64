//! What online detection says where it is not allowed what it would like, and that it falls back: each denial is made
//! for one command, in a mount namespace or with capabilities dropped.

mod common;

use cohabit_testing::sleeper;
use common::{Ran, Room};
use std::path::Path;
use std::process::{Command, Stdio};

fn is_root() -> bool {
    // SAFETY: reads this process's user id.
    unsafe { libc::geteuid() == 0 }
}

/// Runs a shell script that ends in cohabit's command line, `$COHABIT`, in a mount namespace of its own; none, said
/// aloud, where there can be none.
fn apart(test: &str, room: &Room, script: &str) -> Option<Ran> {
    let possible =
        is_root() && Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|ended| ended.success());
    if !possible {
        println!("skipped: {test}: no mount namespaces of one's own here");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", script]).env("COHABIT", env!("CARGO_BIN_EXE_cohabit"));
    Some(Ran::of(command.current_dir(room.path(".")).stdin(Stdio::null()).output().unwrap()))
}

/// That a program ran to its end by perf events, or that both sources were refused, each with its remedy.
fn fell_back(test: &str, ran: &Ran, cause: &str, remedy: &str) {
    if ran.stderr.contains("no cohabit.bpf.o in") {
        println!("skipped: {test}: eBPF was not built");
        return;
    }
    let line = ran.stderr.lines().find(|line| line.contains("no eBPF")).unwrap_or_else(|| panic!("{}", ran.stderr));
    assert!(line.contains(cause) && line.contains(remedy), "{line}");
    if ran.stderr.contains("by perf events") {
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(7), "out\n"), "{}", ran.stderr);
    } else {
        assert!(ran.status == Some(125) && ran.stderr.contains("perf_event_paranoid"), "{}", ran.stderr);
    }
}

const PROGRAM: &str = "run --faults none -- sh -c 'echo out; exit 7'";

#[test]
fn a_kernel_without_btf() {
    let script = format!("mount -t tmpfs none /sys/kernel/btf; exec $COHABIT {PROGRAM}");
    if !Path::new("/sys/kernel/btf").is_dir() {
        println!(
            "skipped: a_kernel_without_btf: this one has none, and tests of online detection show what is done then"
        );
        return;
    }
    let Some(ran) = apart("a_kernel_without_btf", &Room::new(), &script) else { return };
    fell_back("a_kernel_without_btf", &ran, "carries no BTF", "CONFIG_DEBUG_INFO_BTF=y");
}

#[test]
fn a_container_without_capabilities() {
    let script = format!("exec setpriv --bounding-set=-all --inh-caps=-all $COHABIT {PROGRAM}");
    let Some(ran) = apart("a_container_without_capabilities", &Room::new(), &script) else { return };
    // Where there is no BTF, or process ids are a container's, that is said first.
    let remedy = if ran.stderr.contains("permitted") { "--cap-add=BPF" } else { "" };
    fell_back("a_container_without_capabilities", &ran, "", remedy);
    let doctor = "exec setpriv --bounding-set=-all --inh-caps=-all $COHABIT doctor";
    let doctor = apart("a_container_without_capabilities", &Room::new(), doctor).unwrap();
    assert_eq!(doctor.status, Some(0), "{}", doctor.stderr);
    assert!(doctor.stdout.contains("root without capabilities"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("limited  eBPF"), "{}", doctor.stdout);
}

/// The kernel that refuses under lockdown says EPERM and nothing more; here it refuses for want of capabilities, and
/// the file that tells of a lockdown is put where the kernel would have it.
#[test]
fn a_kernel_that_is_locked_down() {
    let test = "a_kernel_that_is_locked_down";
    let script = format!(
        "mount -t tmpfs none /sys/kernel/security; echo 'none integrity [confidentiality]' >/sys/kernel/security/lockdown
        exec setpriv --bounding-set=-all --inh-caps=-all $COHABIT {PROGRAM}"
    );
    if !Path::new("/sys/kernel/security").is_dir() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        println!("skipped: {test}: the kernel has no /sys/kernel/security, or no BTF");
        return;
    }
    let Some(ran) = apart(test, &Room::new(), &script) else { return };
    if ran.stderr.contains("process ids here are those of a container") {
        println!("skipped: {test}: eBPF is refused for another reason in a container");
        return;
    }
    fell_back(test, &ran, "", "locked down (confidentiality)");
}

#[test]
fn a_process_of_another_user() {
    let test = "a_process_of_another_user";
    let sleeper = sleeper();
    let script = format!(
        "cp $COHABIT cohabit; chmod 755 . cohabit; exec setpriv --reuid 65534 --regid 65534 --clear-groups ./cohabit attach {}",
        sleeper.id()
    );
    let Some(ran) = apart(test, &Room::new(), &script) else { return };
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    let end: Vec<&str> = ran.stderr.lines().rev().take(2).collect();
    assert!(end[0].contains("root"), "the last line is the remedy: {}", ran.stderr);
    if ran.stderr.contains("by perf events") {
        let cause = format!("process {} is another user's", sleeper.id());
        assert!(end[1].contains(&cause), "{}", ran.stderr);
    }
}
