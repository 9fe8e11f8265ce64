//! Advice is for those who have not taken it: each sentence that proposes something is said where it is of use, and not
//! where it has been followed.

mod common;

use common::{Ran, Room, executable};

/// What is advised, a command line of which it is said, and one that follows it.
struct Advice {
    says: &'static str,
    when: &'static str,
    followed: &'static str,
}

const fn advice(says: &'static str, when: &'static str, followed: &'static str) -> Advice {
    Advice { says, when, followed }
}

/// Of commands that profile nothing.
const PLAIN: [Advice; 11] = [
    advice(
        "'--mapper packed' is as good",
        "map chain.npz --topology pack:2_core:2_pu:1",
        "map chain.npz --topology pack:2_core:2_pu:1 --mapper packed",
    ),
    advice(
        "without --mapper packed",
        "map chain.npz --topology pack:2_core:2_pu:1 --mapper packed",
        "map chain.npz --topology pack:2_core:2_pu:1",
    ),
    advice("put -- before the program", "profile true", "profile -- true"),
    advice("put -- before the program", "run true", "run --profile chain.npz -- true"),
    advice("see 'cohabit --help'", "nonsense", "--help"),
    advice("see 'cohabit show --help'", "show", "show --help"),
    advice("name one of the commands above", "", "mappers"),
    advice("name it with --format", "import matrix.xyz -o i.npz", "import matrix.xyz --format csv -o i.npz"),
    advice(
        "--objective time is for --mapper best",
        "map chain.npz --objective time --mapper packed",
        "map chain.npz --objective time",
    ),
    advice("add --objective time", "map chain.npz --bursts", "map chain.npz --bursts --objective time"),
    advice("a similar subcommand exists: 'profile'", "profil -- true", "profile --help"),
];

/// Of profiles, and so where the profiler works.
const PROFILED: [Advice; 4] = [
    advice("; -v ", "show p.npz", "show p.npz -v"),
    advice("next: cohabit show p.npz", "profile -o p.npz -- true", "show p.npz"),
    advice(
        "put 'cohabit profile --' before",
        "profile -o p.npz -- ./script",
        "profile -o p.npz --detector dbi -- ./script",
    ),
    advice("`cohabit profile --hot`", "show p.npz --hot", "show hot.npz --hot"),
];

fn run(room: &Room, line: &str) -> Ran {
    Ran::of(room.command(line.split_whitespace().map(|word| word.replace('_', " "))).output().unwrap())
}

#[track_caller]
fn check(room: &Room, Advice { says, when, followed }: &Advice) {
    let said = |line: &str| {
        let ran = run(room, line);
        ran.stdout + &ran.stderr
    };
    let before = said(when);
    assert!(before.contains(says), "cohabit {when} does not say {says:?}: {before}");
    let after = said(followed);
    assert!(!after.contains(says), "cohabit {followed} says {says:?}, which was done: {after}");
}

#[test]
fn advice_that_was_followed_is_not_given_again() {
    let room = Room::new();
    room.chain("chain.npz", 4, 10);
    std::fs::copy(room.path("matrix.csv"), room.path("matrix.xyz")).unwrap();
    PLAIN.iter().for_each(|advice| check(&room, advice));
}

#[test]
fn advice_about_profiles_that_was_followed_is_not_given_again() {
    let Some(room) = Room::to_profile("advice about profiles") else { return };
    executable(&room.file("script", "#!/bin/sh\nexit 0\nmpirun -n 2 ./solver\n"));
    assert_eq!(run(&room, "profile -o p.npz -- true").status, Some(0));
    assert_eq!(run(&room, "profile -o hot.npz --hot -- true").status, Some(0));
    PROFILED.iter().for_each(|advice| check(&room, advice));
}

/// Whoever is root is not told to become it.
#[test]
fn root_is_not_told_to_become_root() {
    let room = Room::new();
    let ran = room.run("doctor");
    let root = nix::unistd::geteuid().is_root();
    for advice in ["run as root", "as root:", "be root"] {
        assert!(!root || !ran.stdout.contains(advice), "{advice:?} in {}", ran.stdout);
    }
    let lacking = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_cohabit"), "doctor"];
    match std::process::Command::new(lacking[0]).args(&lacking[1..]).output() {
        Ok(output) if root && output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(!text.contains("run as root"), "{text}");
        }
        _ => println!("skipped: root without capabilities: not root, or no setpriv here"),
    }
}
