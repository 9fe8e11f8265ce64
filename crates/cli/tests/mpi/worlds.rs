//! Which ranks there are: those that others spawn, those of several contexts of a command, those without our library.

use super::*;

#[test]
fn spawned_processes_are_ranks_of_another_world() {
    for mpi in installed() {
        let room = Room::new();
        let spawn = program(&mpi, "spawn");
        let mut natively = Command::new(&mpi.launcher[0]);
        natively.args(&mpi.launcher[1..]).args(["-n", "3"]).arg(&spawn).arg("spawn");
        if !settle_open_mpi(&mut natively).output().is_ok_and(|ran| ran.status.success()) {
            println!("skipped: {}: MPI_Comm_spawn does not work here without cohabit either", mpi.name);
            continue;
        }
        let expect = room.path("expected").to_string_lossy().into_owned();
        let ran = profile(&room, &mpi, &[], 3, &spawn, &["spawn", "--expect", &expect]);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{}", mpi.name);
        let profile = read_profile(&room.path("p.npz")).unwrap();
        let version = Command::new(&mpi.launcher[0]).arg("--version").output().expect("a launcher").stdout;
        if profile.tasks() == 3 && String::from_utf8_lossy(&version).contains("(Open MPI) 5") {
            assert_unseen(&profile);
            continue;
        }
        assert_eq!(profile.tasks(), 5);
        assert_eq!(found(&profile), expected(&room, 3), "{}", mpi.name);
    }
}

/// That two spawned processes are missing is said.
#[track_caller]
fn assert_unseen(profile: &Profile) {
    let coverage = &profile.meta.coverage;
    let said = "the 2 processes that MPI_Comm_spawn started, and messages with them";
    assert!(coverage.not_seen.iter().any(|line| line.starts_with(said)) && !coverage.exact, "{coverage:?}");
    assert!(coverage.events_lost > 0, "messages to them");
}

/// As with Open MPI 5, whose spawned processes are without the library: their parts are taken away.
#[test]
fn spawned_processes_that_are_not_seen_are_said() {
    for mpi in installed() {
        let room = Room::new();
        let parts = room.path("parts");
        let library = build().join(format!("native/libcohabit-mpi-{}.so", mpi.name));
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "120"]).args(&mpi.launcher);
        for (name, value) in [("LD_PRELOAD", &library), ("COHABIT_MPI_PARTS", &parts)] {
            match mpi.name {
                "openmpi" => command.arg("-x").arg(format!("{name}={}", value.display())),
                _ => command.args(["-genv", name]).arg(value),
            };
        }
        command.args(["-n", "3"]).arg(program(&mpi, "spawn")).arg("spawn");
        if !settle_open_mpi(&mut command).output().is_ok_and(|ran| ran.status.success()) {
            println!("skipped: {}: MPI_Comm_spawn does not work here", mpi.name);
            continue;
        }
        let spawned = |bytes: &[u8]| bytes[12] & 2 != 0;
        let mut taken = 0;
        for part in std::fs::read_dir(&parts).unwrap().map(|entry| entry.unwrap().path()) {
            if spawned(&std::fs::read(&part).unwrap()) {
                std::fs::remove_file(&part).unwrap();
                taken += 1;
            }
        }
        done(&room.run("import parts -o p.npz"));
        let profile = read_profile(&room.path("p.npz")).unwrap();
        assert!([0, 2].contains(&taken) && profile.tasks() == 3, "{taken} of {}", mpi.name);
        assert_unseen(&profile);
    }
}

/// Programs in several contexts are one world; `-x` is of one context only.
#[test]
fn every_context_of_a_command_is_observed() {
    for mpi in installed() {
        let room = Room::new();
        let patterns = program(&mpi, "patterns");
        let patterns = patterns.to_str().unwrap();
        let context = ["-n", "2", patterns, "ring"].map(str::to_owned);
        let mut commands = vec![[&context[..], &[":".to_owned()], &context[..]].concat()];
        if mpi.name == "openmpi" {
            let lines = format!("# two contexts\n{0}\n{0}\n", context.join(" "));
            commands.push(vec!["--app".to_owned(), room.file("contexts", lines).to_str().unwrap().to_owned()]);
        }
        for words in commands {
            let mut command = room.command(["profile", "-q", "-o", "p.npz", "--"]);
            command.args(&mpi.launcher).args(&words).env("OMPI_MCA_rmaps_base_oversubscribe", "1");
            let ran = Ran::of(settle_open_mpi(&mut command).output().unwrap());
            // Open MPI 5.0.7's launcher (Debian 13) ends by SIGSEGV where there are several contexts, and takes a
            // comment of a file of contexts for a program.
            let mut alone = Command::new(&mpi.launcher[0]);
            alone.args(&mpi.launcher[1..]).args(&words).env("OMPI_MCA_rmaps_base_oversubscribe", "1");
            if ran.status != Some(0) && !settle_open_mpi(&mut alone).output().unwrap().status.success() {
                println!("skipped: {words:?} with {}: its launcher fails, without cohabit too", mpi.name);
                continue;
            }
            assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{words:?}");
            let profile = read_profile(&room.path("p.npz")).unwrap();
            assert_eq!(profile.tasks(), 4, "{words:?}");
            assert!((0..4).all(|rank| profile.messages.get(rank, (rank + 1) % 4) > 0), "{words:?}");
        }
    }
}

/// What comes after the program is its own, whatever a launcher would take it for.
#[test]
fn a_program_has_its_arguments_as_they_are() {
    for mpi in installed() {
        let room = Room::new();
        let script = room.file("start", "#!/bin/sh\necho \"got $*\"\nexec \"$PATTERNS\" ring\n");
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        room.file("conf.txt", "-n 3 nothing\n");
        // All of them at once: starting ranks takes long.
        let arguments = "--app conf.txt -app no-such-file -x LD_PRELOAD=/no-such.so tail -genv LD_PRELOAD /no-such.so \
                         --mca pml_monitoring_enable 0";
        let mut command = room.command(["profile", "-o", "p.npz", "--"]);
        command.args(&mpi.launcher).args(["-n", "2", script.to_str().unwrap()]).args(arguments.split(' '));
        let ran = Ran::of(settle_open_mpi(&mut command).env("PATTERNS", program(&mpi, "patterns")).output().unwrap());
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        let got: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(got, vec![format!("got {arguments}"); 2], "{}", mpi.name);
        let profile = read_profile(&room.path("p.npz")).unwrap();
        assert!(profile.tasks() == 2 && profile.messages.get(0, 1) > 0, "{}", mpi.name);
    }
}

#[test]
fn ranks_without_the_library_are_not_waited_for() {
    for mpi in installed() {
        let room = Room::new();
        let script =
            "#!/bin/sh\ncase ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} in $LACK) unset LD_PRELOAD;; esac\nexec \"$@\"\n";
        let script = room.file("start", script);
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let patterns = program(&mpi, "patterns");
        for (lack, said, seen) in [("[13]", "2 of 4 ranks were not observed (1, 3)", 0), ("0", "1 of 4 ranks", 1)] {
            let mut command = room.command(["profile", "-o", "p.npz", "--"]);
            command.args(&mpi.launcher).args(["-n", "4", script.to_str().unwrap(), patterns.to_str().unwrap(), "ring"]);
            let ran = Ran::of(settle_open_mpi(&mut command).env("LACK", lack).output().unwrap());
            assert_eq!(ran.status, Some(0), "{}", ran.stderr);
            assert!(ran.stderr.contains(said), "{lack}: {}", ran.stderr);
            let profile = read_profile(&room.path("p.npz")).unwrap();
            assert!(profile.tasks() == 4 && !profile.meta.coverage.exact, "{lack}: {:?}", profile.meta.coverage);
            assert!(profile.messages.get(seen, seen + 1) > 0, "{lack}");
        }
    }
}
