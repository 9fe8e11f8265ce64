//! Threads are on their PUs before their first instruction, whoever creates them and however.

mod support;

use cohabit_apply::{Identify, LaunchPlan, Method, Options, Status, launch};
use support::{Programs, flat, plan, pu, pus, run};

/// Labels `prefix0`, `prefix1`, ... saw themselves on the PUs of tasks `first`, `first + 1`, ...
fn assert_placed(programs: &Programs, file: &str, labels: &[String], tasks: &[usize]) {
    let seen = programs.seen(file);
    for (label, &task) in labels.iter().zip(tasks) {
        assert_eq!(seen.get(label), Some(&(vec![pu(task)], pu(task))), "{label} is task {task}");
    }
}

#[test]
fn every_thread_starts_on_its_pu() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    for identify in [Identify::Order, Identify::Tree] {
        for threads in [1usize, 2, 8, 64, 1000] {
            let file = format!("{identify:?}{threads}");
            let path = programs.path(&file);
            let command = programs.command("threads", &[path.to_str().unwrap(), "", &threads.to_string()]);
            let outcome = run(&command, &flat(identify, threads as u32));
            assert_eq!(outcome.status, Status::Exited(0));
            assert_eq!(outcome.method, if threads == 1 { Method::NotNeeded } else { Method::Ptrace });
            assert_eq!(outcome.placed.len(), threads);
            assert!(outcome.placed.iter().all(|placed| placed.affinity == [placed.pu] && placed.held), "{outcome:?}");
            assert_eq!(outcome.missing_tasks, Vec::<u32>::new());
            assert_eq!(
                (outcome.unknown_thread_count, &outcome.repinned[..], &outcome.refused[..]),
                (0, &[][..], &[][..])
            );
            let labels: Vec<String> = (0..threads).map(|thread| thread.to_string()).collect();
            assert_placed(&programs, &file, &labels, &(0..threads).collect::<Vec<_>>());
            let start = programs.seen(&file)["start"].0.clone();
            assert_eq!(
                start,
                if threads == 1 { vec![pu(0)] } else { pus() },
                "what a runtime counts its processors by"
            );
        }
    }
}

#[test]
fn the_main_thread_can_be_held_from_the_start() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    let path = programs.path("held");
    let command = programs.command("threads", &[path.to_str().unwrap(), "", "3"]);
    let options = Options { hold_main_from_start: true, ..Options::default() };
    assert_eq!(launch(&command, &flat(Identify::Order, 3), &options).unwrap().status, Status::Exited(0));
    assert_placed(&programs, "held", &["start", "0", "1", "2"].map(String::from), &[0, 0, 1, 2]);
}

#[test]
fn a_static_program_is_placed_as_well() {
    let Some(programs) = Programs::build(&["threads"], &["-static"]) else { return };
    let path = programs.path("static");
    let command = programs.command("threads", &[path.to_str().unwrap(), "", "8"]);
    assert_eq!(run(&command, &flat(Identify::Order, 8)).status, Status::Exited(0));
    assert_placed(
        &programs,
        "static",
        &(0..8).map(|thread| thread.to_string()).collect::<Vec<_>>(),
        &[0, 1, 2, 3, 4, 5, 6, 7],
    );
}

#[test]
fn nested_threads_are_identified_by_order_or_in_the_tree() {
    let Some(programs) = Programs::build(&["nested"], &[]) else { return };
    // Tasks 3, 4, 5 are the children 1.0, 2.0, 1.1 of a run that created them in the order 121.
    let rows = [(0, 0, None), (0, 1, Some(0)), (0, 2, Some(0)), (0, 3, Some(1)), (0, 4, Some(2)), (0, 5, Some(1))];
    for (identify, order, tasks) in [
        (Identify::Order, "121", [1, 2, 3, 4, 5]),
        (Identify::Order, "211", [1, 2, 4, 3, 5]),
        (Identify::Order, "112", [1, 2, 3, 5, 4]),
        (Identify::Tree, "121", [1, 2, 3, 4, 5]),
        (Identify::Tree, "211", [1, 2, 3, 4, 5]),
        (Identify::Tree, "112", [1, 2, 3, 4, 5]),
    ] {
        let file = format!("{identify:?}{order}");
        let path = programs.path(&file);
        let outcome = run(&programs.command("nested", &[path.to_str().unwrap(), order]), &plan(identify, &rows));
        assert_eq!((outcome.status, outcome.placed.len()), (Status::Exited(0), 6));
        assert_placed(&programs, &file, &["1", "2", "1.0", "2.0", "1.1"].map(String::from), &tasks);
    }
}

#[test]
fn processes_are_followed() {
    let Some(programs) = Programs::build(&["threads", "processes"], &[]) else { return };
    let threads = programs.path("threads");
    // The program's threads are 0, 1, 2 of another process, or the main thread and those after it of the same.
    let forked = vec![(0, 0, None), (1, 0, Some(0)), (1, 1, Some(1)), (1, 2, Some(1))];
    // A shell that does not become the program itself stands between.
    let shell = vec![(0, 0, None), (1, 0, Some(0)), (2, 0, Some(1)), (2, 1, Some(2)), (2, 2, Some(2))];
    let executed = vec![(0, 0, None), (0, 1, Some(0)), (0, 2, Some(0))];
    // The thread that executed is the main thread afterwards.
    let executed_by_thread = vec![(0, 0, None), (0, 1, Some(0)), (0, 2, Some(1)), (0, 3, Some(1))];
    for identify in [Identify::Order, Identify::Tree] {
        for (way, rows, tasks) in [
            ("fork", &forked, [1, 2, 3]),
            ("spawn", &forked, [1, 2, 3]),
            ("system", &shell, [2, 3, 4]),
            ("exec", &executed, [0, 1, 2]),
            ("exec-thread", &executed_by_thread, [1, 2, 3]),
        ] {
            let file = format!("{identify:?}{way}");
            let path = programs.path(&file);
            let command = [way, threads.to_str().unwrap(), path.to_str().unwrap()];
            let outcome = run(&programs.command("processes", &command), &plan(identify, rows));
            assert_eq!(outcome.status, Status::Exited(0), "{way}");
            assert_eq!((outcome.placed.len(), &outcome.missing_tasks[..]), (rows.len(), &[][..]), "{way}");
            assert_placed(&programs, &file, &["p0", "p1", "p2"].map(String::from), &tasks);
            assert_eq!(programs.seen(&file)["pstart"].0, pus(), "{way}: what a runtime counts its processors by");
        }
    }
}

#[test]
fn other_threads_than_planned_are_told_and_keep_the_affinity_of_the_command() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    // Threads 2 and 4 of five are not in the plan; 9 never comes, so that all of it is traced.
    let rows = [(0, 0, None), (0, 1, Some(0)), (0, 3, Some(0)), (0, 9, Some(0))];
    let path = programs.path("unknown");
    let command = programs.command("threads", &[path.to_str().unwrap(), "", "5"]);
    let outcome = run(&command, &plan(Identify::Order, &rows));
    assert_placed(&programs, "unknown", &["0", "1", "3"].map(String::from), &[0, 1, 2]);
    let seen = programs.seen("unknown");
    assert_eq!((&seen["2"].0, &seen["4"].0), (&pus(), &pus()));
    assert_eq!((outcome.unknown_thread_count, outcome.missing_tasks), (2, vec![3]));
    assert!(outcome.unknown_threads.iter().all(|thread| thread.affinity == pus()));
    assert!(outcome.notes.iter().any(|note| note.contains("OMP_NUM_THREADS")), "{:?}", outcome.notes);
}

#[test]
fn once_all_are_placed_nobody_traces_and_late_threads_are_looked_after() {
    let Some(programs) = Programs::build(&["late"], &[]) else { return };
    let path = programs.path("late.txt");
    // Both tasks on one PU: the thread that pins itself to the first PU cannot seem to have inherited that.
    let last = *pus().last().unwrap();
    let mut plan = flat(Identify::Order, 2);
    plan.tasks.iter_mut().for_each(|planned| planned.pu = last);
    let outcome = run(&programs.command("late", &[path.to_str().unwrap()]), &plan);
    let seen = programs.seen("late.txt");
    assert_eq!(outcome.status, Status::Exited(0));
    assert_eq!((&seen["planned"].0[..], &seen["untraced"].0[..]), (&[last][..], &[last][..]));
    assert_eq!((&seen["late"].0, &seen["forked"].0), (&pus(), &pus()));
    assert_eq!(seen["own"].0, [pus()[0]]);
    assert_eq!(outcome.unknown_thread_count, 3, "{:?}", outcome.unknown_threads);
    if pus().len() > 1 {
        let repinned: Vec<_> = outcome.repinned.iter().map(|repinned| (repinned.task, &repinned.affinity)).collect();
        assert_eq!(repinned, [(0, &pus())], "the main thread's own doing");
    }
}

#[test]
fn the_proc_watcher_places_threads_a_moment_later() {
    let Some(programs) = Programs::build(&["late"], &[]) else { return };
    let path = programs.path("watched.txt");
    let options = Options { watch_only: true, ..Options::default() };
    let command = programs.command("late", &[path.to_str().unwrap()]);
    let outcome = launch(&command, &flat(Identify::Tree, 2), &options).unwrap();
    assert_eq!((outcome.status, outcome.method), (Status::Exited(0), Method::ProcWatcher));
    assert_eq!(outcome.missing_tasks, Vec::<u32>::new());
    assert!(outcome.placed.iter().all(|placed| placed.affinity == [placed.pu]), "{outcome:?}");
    for said in ["may have run elsewhere", "identified by their order"] {
        assert!(outcome.notes.iter().any(|note| note.contains(said)), "{:?}", outcome.notes);
    }
}

#[test]
fn an_empty_plan_runs_the_command_as_it_is() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    let path = programs.path("empty");
    let outcome = run(&programs.command("threads", &[path.to_str().unwrap(), "", "3"]), &LaunchPlan::default());
    assert_eq!((outcome.status, outcome.method), (Status::Exited(0), Method::NotNeeded));
    assert_eq!((outcome.unknown_thread_count, outcome.placed.len()), (0, 0));
    assert!(programs.seen("empty").values().all(|(affinity, _)| *affinity == pus()));
}

#[test]
fn a_go_program_keeps_its_own_count_of_processors() {
    let Some(go) = find_go() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (source, binary) = (directory.path().join("main.go"), directory.path().join("main"));
    std::fs::write(&source, include_str!("programs/main.go")).unwrap();
    let built = std::process::Command::new(go)
        .args(["build", "-o"])
        .args([&binary, &source])
        .env("GO111MODULE", "off")
        .env("GOCACHE", directory.path().join("cache"))
        .status()
        .unwrap();
    assert!(built.success());
    // Go clones by itself, without the C library. Its thread numbers vary, the number of its processors must not.
    let command = [binary.into_os_string(), pus().len().to_string().into()];
    let outcome = run(&command, &flat(Identify::Order, 3));
    assert_eq!((outcome.status, outcome.method), (Status::Exited(0), Method::Ptrace));
    assert!(outcome.placed.iter().all(|placed| placed.affinity == [placed.pu]), "{outcome:?}");
    assert_eq!(outcome.placed.len(), 3);
}

fn find_go() -> Option<&'static str> {
    let found = std::process::Command::new("go").arg("version").output().is_ok();
    if !found {
        println!("SKIPPED: no Go compiler (go)");
    }
    found.then_some("go")
}
