//! Every bad input has one clear line and the right status: 1 for a failure, 2 for wrong usage, and where a program
//! runs 125 for cohabit's own failure, 126 for a program that cannot be run, 127 for none.

mod common;

use common::{Room, elf_head, executable};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;

#[test]
fn wrong_usage() {
    let room = Room::new();
    room.chain("p.npz", 4, 10);
    for (line, status, cause) in [
        ("nonsense", 2, "unrecognized subcommand 'nonsense'"),
        ("map", 2, "required arguments were not provided: <P>"),
        ("map p.npz --mapper nonsense", 2, "invalid value 'nonsense' for '--mapper <M>'"),
        ("map p.npz --pin 1", 2, "write a task and a PU"),
        ("map p.npz --seed x", 2, "--seed"),
        ("map p.npz --mapper packed --budget 10ms", 1, "--budget with --mapper packed, which does not search"),
        ("map p.npz --mapper exact --threads 2", 1, "--threads with --mapper exact"),
        ("show", 2, "<P>"),
        ("import x.csv", 2, "--output"),
        ("doctor --nonsense", 2, "unexpected argument '--nonsense'"),
        ("run --always --dry-run -- true", 125, "cannot be used with"),
        ("run --profile p.npz --always -- true", 125, "cannot be used with"),
        ("run --profile p.npz --overhead 2 -- true", 125, "cannot be used with"),
        ("run --mapping m.json --threads 4 -- true", 125, "cannot be used with"),
        ("run --mapping m.json --level-costs 2,1 -- true", 125, "cannot be used with"),
        ("run --mapper packed -- true", 125, "required arguments were not provided: --profile <P>"),
        ("run --identify tree -- true", 125, "required arguments were not provided"),
        ("attach", 2, "<PID>"),
        ("attach --block 100 1", 2, "power of two"),
        ("run --profile p.npz", 125, "there is no program to run"),
        ("run --profile p.npz --json - -- true", 125, "standard output belongs to the program"),
        ("run --profile p.npz --mapping m.json -- true", 125, "cannot be used with"),
        ("profile", 125, "there is no program to run"),
        ("show --top x p.npz", 2, "it is no whole number"),
        ("profile true", 125, "unexpected argument 'true'"),
        ("profile --block 100 -- true", 125, "a power of two"),
        ("profile --block 8 -- true", 125, "16"),
        ("profile --block 8192 -- true", 125, "4096"),
        ("profile --window soon -- true", 125, "--window"),
        ("profile --window 10ns -- true", 125, "1us"),
        ("profile --burst 10ms -- true", 125, "ON,OFF"),
    ] {
        let ran = room.run(line);
        ran.assert_fails(status, cause);
        assert_eq!(ran.stdout, "", "{line}");
    }
}

#[test]
fn no_command_shows_what_there_is() {
    let ran = Room::new().run("");
    ran.assert_fails(2, "no command was given");
    assert!(ran.stdout.contains("profile") && ran.stdout.contains("map"));
}

#[test]
fn programs_that_cannot_be_run() {
    let room = Room::new();
    room.chain("p.npz", 2, 10);
    room.file("plain", "no program");
    executable(&room.file("32-bit", elf_head(1, 3)));
    executable(&room.file("arm", elf_head(2, 183)));
    executable(&room.file("lost-interpreter", "#!/nowhere/python\n"));
    executable(&room.file("truncated", &elf_head(2, 62)[..18]));
    std::fs::create_dir(room.path("folder")).unwrap();
    for (program, status, cause) in [
        ("no-such-program", 127, "command not found"),
        ("./no-such-program", 127, "No such file"),
        ("./plain", 126, "ermission denied"),
        ("./folder", 126, "is a directory"),
        ("./lost-interpreter", 126, "interpreter"),
    ] {
        room.run(&format!("profile -- {program}")).assert_fails(status, cause);
        room.run(&format!("run -q --profile p.npz -- {program}")).assert_fails(status, cause);
        // Nothing is said of watching what cannot be run. (What the kernel alone refuses is only known when it is
        // started.)
        if program != "./lost-interpreter" {
            room.run(&format!("run -- {program}")).assert_fails(status, cause);
        }
    }
    for (program, cause) in [
        ("./32-bit", "it is a 32-bit program"),
        ("./arm", "it is built for another processor (AArch64)"),
        ("./truncated", "it is no program that the kernel loads"),
    ] {
        room.run(&format!("profile -- {program}")).assert_fails(126, cause);
    }
}

#[test]
fn a_program_that_would_gain_privileges_is_not_profiled() {
    let room = Room::new();
    let program = room.file("other", std::fs::read("/bin/true").unwrap());
    // Only root can give a file to somebody else; an ordinary user finds setuid programs lying about.
    let given = std::os::unix::fs::chown(&program, Some(65534), None).is_ok();
    let (program, cause) = if given {
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
        ("./other", "it is setuid")
    } else if ["/usr/bin/su", "/bin/su"].iter().any(|path| std::path::Path::new(path).exists()) {
        ("su", "it is setuid")
    } else {
        println!("skipped: setuid programs are refused: not root, and no setuid program here");
        return;
    };
    room.run(&format!("profile -- {program}")).assert_fails(126, cause);
}

#[test]
fn profiles_that_are_damaged_hostile_or_not_there() {
    let room = Room::new();
    let whole = std::fs::read(room.chain("whole.npz", 16, 1000)).unwrap();
    for length in [0, 1, 30, whole.len() / 2, whole.len() - 1] {
        room.file("cut.npz", &whole[..length]);
        for command in ["show cut.npz", "map cut.npz --topology pu:4"] {
            room.run(command).assert_fails(1, "cut.npz");
        }
        room.run("run --profile cut.npz -- true").assert_fails(125, "cut.npz");
    }
    std::fs::create_dir(room.path("folder")).unwrap();
    room.file("text.npz", "this is no zip file, only text that goes on for a while");
    for (line, status, cause) in [
        ("show text.npz", 1, "text.npz"),
        ("map text.npz", 1, "text.npz"),
        ("show nowhere.npz", 1, "nowhere.npz"),
        ("map nowhere.npz", 1, "nowhere.npz"),
        ("show folder", 1, "folder"),
        ("run --profile nowhere.npz -- true", 125, "nowhere.npz"),
        ("run --mapping nowhere.json -- true", 125, "nowhere.json"),
        ("import nowhere.csv -o p.npz", 1, "nowhere.csv"),
    ] {
        room.run(line).assert_fails(status, cause);
    }
}

#[test]
fn matrices_that_are_none() {
    let room = Room::new();
    for (content, cause) in [("1,2\n3\n", "m.csv"), ("1,2\n3,x\n", "m.csv"), ("", "m.csv"), ("1,-1\n0,0\n", "m.csv")] {
        room.file("m.csv", content);
        room.run("import m.csv -o p.npz").assert_fails(1, cause);
        assert!(!room.path("p.npz").exists(), "nothing is written where something failed");
    }
}

#[test]
fn mappings_that_are_damaged_or_do_not_fit() {
    let room = Room::new();
    room.chain("p.npz", 2, 10);
    let ran = room.run("map p.npz --topology pu:4 -o m.json");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let text = std::fs::read_to_string(room.path("m.json")).unwrap();
    room.file("cut.json", &text[..text.len() / 2]);
    room.file(
        "newer.json",
        text.replacen("\"format\": 1", "\"format\": 2", 1).replacen("\"format\":1", "\"format\":2", 1),
    );
    room.file("elsewhere.json", text.replace("\"pu\": 0", "\"pu\": 99999").replace("\"pu\":0", "\"pu\":99999"));
    for (file, cause) in [("cut.json", "cut.json"), ("newer.json", "2"), ("elsewhere.json", "99999")] {
        room.run(&format!("run --mapping {file} -- true")).assert_fails(125, cause);
    }
}

#[test]
fn impossible_topologies_pins_and_costs() {
    let room = Room::new();
    room.chain("p.npz", 4, 10);
    for (line, cause) in [
        ("topology nonsense", "nonsense"),
        ("topology pack:0", "pack"),
        ("topology nowhere.xml", "nowhere.xml"),
        ("topology pu:4 --level-costs 1,2,3", "level costs"),
        ("topology pu:4 --level-costs x", "level costs"),
        ("map p.npz --topology nonsense", "nonsense"),
        ("map p.npz --topology pu:4 --pin 0=9", "no PU 9 here"),
        ("map p.npz --topology pu:4 --pin 9=0", "the profile has 4 tasks"),
        ("map p.npz --topology pu:4 --forbid 9", "no PU 9 here"),
        ("map p.npz --topology pu:4 --forbid 0,1,2,3", "PU"),
    ] {
        room.run(line).assert_fails(1, cause);
    }
}

#[test]
fn output_that_cannot_be_written() {
    let room = Room::new();
    room.chain("p.npz", 4, 10);
    std::fs::create_dir(room.path("folder")).unwrap();
    for (line, cause) in [
        ("map p.npz --topology pu:4 -o /dev/full", "No space left on device"),
        ("map p.npz --topology pu:4 -o nowhere/m.json", "nowhere/m.json"),
        ("map p.npz --topology pu:4 -o folder", "folder"),
        ("map p.npz --topology pu:4 --json /dev/full", "No space left on device"),
        ("topology pu:4 --svg /dev/full", "No space left on device"),
        ("import matrix.csv -o nowhere/p.npz", "nowhere/p.npz"),
        ("import matrix.csv -o /dev/full", "No space left on device"),
        ("man /dev/null/man", "/dev/null/man"),
    ] {
        room.run(line).assert_fails(1, cause);
    }
    // Where a program runs, that is found out before it does.
    for (line, cause) in [
        ("profile -o nowhere/p.npz -- touch ran", "nowhere/p.npz"),
        ("profile -o folder -- touch ran", "folder"),
        ("profile --json nowhere/p.json -- touch ran", "nowhere/p.json"),
        ("run --profile p.npz --json nowhere/r.json -- touch ran", "nowhere/r.json"),
        (&format!("profile -o {} -- touch ran", "n".repeat(256)), "File name too long"),
        (&format!("profile --json {} -- touch ran", "n".repeat(256)), "File name too long"),
        (&format!("run --dry-run -o {} -- touch ran", "n".repeat(256)), "File name too long"),
    ] {
        room.run(line).assert_fails(125, cause);
        assert!(!room.path("ran").exists(), "{line}");
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = common::Ran::of(room.command(["mappers"]).stdout(full).output().unwrap());
    ran.assert_fails(1, "cannot write to standard output");
}

#[test]
fn outputs_may_have_any_name() {
    let room = Room::new();
    room.chain("p.npz", 4, 10);
    let names = [vec![b'n'; 255], vec![0xff; 250], b"a\xff\n\x1b".to_vec()];
    for name in names.map(OsString::from_vec) {
        for words in [
            &["import", "matrix.csv", "-o"][..],
            &["map", "p.npz", "--topology", "pu:4", "-o"],
            &["topology", "pu:4", "--svg"],
            &["show", "p.npz", "--json"],
            &["run", "--dry-run", "--faults", "none", "--json", "r.json", "-o"],
        ] {
            let program = ["--", "true"].iter().filter(|_| words[0] == "run").map(OsString::from);
            let line = words.iter().map(OsString::from).chain([name.clone()]).chain(program);
            let ran = common::Ran::of(room.command(line).output().unwrap());
            assert_eq!(ran.status, Some(0), "{words:?} {name:?}: {}", ran.stderr);
            std::fs::remove_file(room.path("").join(&name)).unwrap();
        }
    }
    assert!(std::fs::read_to_string(room.path("r.json")).unwrap().contains("\u{fffd}"), "what is no UTF-8 is replaced");
}
