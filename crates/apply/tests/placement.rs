//! Threads are on their PUs before their first instruction, whoever creates them and however.

mod support;

use cohabit_apply::{Identify, LaunchPlan, MapAgain, Method, Options, Outcome, PhaseSeat, Status, launch};
use cohabit_host::CpuMask;
use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;
use support::{Programs, flat, plan, pu, pus};

/// What the program wrote to `file`: the PUs of each label's affinity, and the PU it was on.
fn seen(programs: &Programs, file: &str) -> HashMap<String, (Vec<u32>, u32)> {
    let text = std::fs::read_to_string(programs.path(file)).unwrap_or_default();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let pus = fields[1].split(',').map(|pu| pu.parse().unwrap()).collect();
        (fields[0].to_owned(), (pus, fields[2].parse().unwrap()))
    };
    text.lines().map(line).collect()
}

/// Launches without signal handlers and returns what came of it.
fn run(command: &[OsString], plan: &LaunchPlan) -> Outcome {
    launch(command, plan, &Options::default()).unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Each label saw itself on the PU of its task, in mask and in fact.
fn assert_placed(programs: &Programs, file: &str, labels: &[String], tasks: &[usize]) {
    let saw = seen(programs, file);
    for (label, &task) in labels.iter().zip(tasks) {
        assert_eq!(saw.get(label), Some(&(vec![pu(task)], pu(task))), "{label} is task {task}");
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
            assert_eq!(outcome.method, Method::Ptrace);
            assert_eq!(outcome.placed.len(), threads);
            assert!(outcome.placed.iter().all(|placed| placed.affinity == [placed.pu] && placed.held), "{outcome:?}");
            assert_eq!(outcome.missing_tasks, Vec::<u32>::new());
            assert_eq!(
                (outcome.unknown_thread_count, &outcome.repinned[..], &outcome.refused[..]),
                (0, &[][..], &[][..])
            );
            let labels: Vec<String> = (0..threads).map(|thread| thread.to_string()).collect();
            assert_placed(&programs, &file, &labels, &(0..threads).collect::<Vec<_>>());
            let start = seen(&programs, &file)["start"].0.clone();
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
            assert_eq!(seen(&programs, &file)["pstart"].0, pus(), "{way}: what a runtime counts its processors by");
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
    let saw = seen(&programs, "unknown");
    assert_eq!((&saw["2"].0, &saw["4"].0), (&pus(), &pus()));
    assert_eq!((outcome.unknown_thread_count, outcome.missing_tasks), (2, vec![3]));
    assert!(outcome.unknown_threads.iter().all(|thread| thread.affinity == pus()));
}

#[test]
fn what_placed_threads_start_later_does_not_inherit_their_pus() {
    let Some(programs) = Programs::build(&["late"], &[]) else { return };
    let path = programs.path("late.txt");
    // Both tasks on one PU: the thread that pins itself to the first PU cannot seem to have inherited that.
    let last = *pus().last().unwrap();
    let mut plan = flat(Identify::Order, 2);
    plan.tasks.iter_mut().for_each(|planned| (planned.pu, planned.pus) = (last, CpuMask::single(last)));
    let outcome = run(&programs.command("late", &[path.to_str().unwrap()]), &plan);
    let saw = seen(&programs, "late.txt");
    assert_eq!(outcome.status, Status::Exited(0));
    assert_eq!((&saw["planned"].0[..], &saw["main"].0[..]), (&[last][..], &[last][..]));
    assert_eq!((&saw["late"].0, &saw["forked"].0), (&pus(), &pus()));
    assert_eq!(saw["own"].0, [pus()[0]]);
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
    let command = programs.command("late", &[path.to_str().unwrap(), "waits"]);
    let outcome = launch(&command, &flat(Identify::Tree, 2), &options).unwrap();
    assert_eq!((outcome.status, outcome.method), (Status::Exited(0), Method::ProcWatcher));
    assert_eq!(outcome.missing_tasks, Vec::<u32>::new());
    assert!(outcome.placed.iter().all(|placed| placed.affinity == [placed.pu]), "{outcome:?}");
    for said in ["may have run elsewhere", "identified by their order"] {
        assert!(outcome.notes.iter().any(|note| note.contains(said)), "{:?}", outcome.notes);
    }
}

#[test]
fn where_tracing_is_not_permitted_proc_is_watched_and_that_is_said() {
    let Some(programs) = Programs::build(&["late"], &[]) else { return };
    let path = programs.path("refused.txt");
    let command = programs.command("late", &[path.to_str().unwrap(), "waits"]);
    // The filter binds this thread and what it starts, not the other tests.
    let outcome = std::thread::spawn(move || {
        refuse_ptrace();
        run(&command, &flat(Identify::Order, 2))
    });
    let outcome = outcome.join().unwrap();
    assert_eq!((outcome.status, outcome.method), (Status::Exited(0), Method::ProcWatcher));
    assert!(outcome.placed.iter().all(|placed| placed.affinity == [placed.pu]), "{outcome:?}");
    assert!(outcome.notes.iter().any(|note| note.contains("tracing is not permitted here")), "{:?}", outcome.notes);
}

/// Makes ptrace(2) fail with EPERM for the calling thread and all it starts, as container runtimes do (seccomp(2)).
fn refuse_ptrace() {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let unless_ptrace_skip_one = libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: 1,
        k: libc::SYS_ptrace as u32,
    };
    let mut filter = [
        // The number of the system call is the first word of what the filter is given.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        unless_ptrace_skip_one,
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the filter, which lives until the call returns.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// A plan for `program` with as many threads, of which every two in turn share a PU.
fn of_program(program: &str, threads: u32) -> LaunchPlan {
    LaunchPlan { programs: vec![format!("/elsewhere/{program}")], may_crowd: false, ..flat(Identify::Order, threads) }
}

#[test]
fn a_program_is_placed_behind_wrappers_and_their_children_are_not() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    let (threads, path) = (programs.path("threads"), programs.path("wrapped"));
    let line = format!("taskset -p $$ >/dev/null; (true); {} {} p 2; exit 3", threads.display(), path.display());
    let command: Vec<OsString> = ["sh", "-c", &line].map(OsString::from).into();
    let plan = LaunchPlan { may_crowd: true, ..of_program("threads", 2) };
    let outcome = run(&command, &plan);
    assert_eq!((outcome.status, &outcome.missing_tasks[..]), (Status::Exited(3), &[][..]));
    assert_eq!(outcome.unknown_thread_count, 0, "wrappers are no threads of the program");
    assert_placed(&programs, "wrapped", &["p0", "p1"].map(String::from), &[0, 1]);
    assert_eq!(seen(&programs, "wrapped")["pstart"].0, pus());
}

#[test]
fn a_program_that_is_not_the_plans_is_left_alone() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    let path = programs.path("another");
    let command = programs.command("threads", &[path.to_str().unwrap(), "", "2"]);
    let outcome = run(&command, &of_program("solver", 2));
    assert_eq!((outcome.placed.len(), outcome.missing_tasks.len()), (0, 2));
    assert!(seen(&programs, "another").values().all(|(affinity, _)| *affinity == pus()));
    assert!(outcome.notes.iter().any(|note| note.contains("/elsewhere/solver")), "{:?}", outcome.notes);
}

#[test]
fn what_something_else_has_bound_is_left_there() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    let last = *pus().last().unwrap();
    if std::process::Command::new("taskset").arg("-V").output().is_err() || pus().len() < 2 {
        println!("SKIPPED: no taskset, or one PU only");
        return;
    }
    let (threads, path) = (programs.path("threads"), programs.path("bound"));
    let command = ["taskset", "-c", &last.to_string(), threads.to_str().unwrap(), path.to_str().unwrap(), "", "2"];
    let outcome = run(&command.map(OsString::from), &of_program("threads", 2));
    assert!(seen(&programs, "bound").values().all(|(affinity, _)| *affinity == [last]));
    assert!(outcome.placed.is_empty() && outcome.notes.iter().any(|note| note.contains("left there")), "{outcome:?}");
}

#[test]
fn several_at_once_of_what_the_plan_has_once_are_left_alone() {
    if pus().len() < 2 {
        println!("SKIPPED: one PU only");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // Both wait for the pipe; they are looked at when the second executes what the first does.
    let script = "cd \"$1\" && mkfifo pipe && { exec 9<>pipe; cat pipe & first=$!; cat pipe & second=$!
        until [ \"$(readlink /proc/$second/exe)\" = \"$(readlink /proc/$first/exe)\" ] &&
            [ \"$(readlink /proc/$first/exe)\" != \"$(readlink /proc/$$/exe)\" ]; do sleep 0.01; done
        grep -h Cpus_allowed_list /proc/$first/status /proc/$second/status; kill $first $second; wait; } >seen";
    let command = ["sh", "-c", script, "sh", directory.path().to_str().unwrap()].map(OsString::from);
    let cat = std::fs::canonicalize(cohabit_model::command::find(&["cat".into()]).unwrap()).unwrap();
    let plan = LaunchPlan { may_crowd: true, ..of_program(cat.file_name().unwrap().to_str().unwrap(), 1) };
    let outcome = run(&command, &plan);
    let line = format!("Cpus_allowed_list:\t{}\n", CpuMask::from_pus(pus()));
    assert_eq!(std::fs::read_to_string(directory.path().join("seen")).unwrap(), line.repeat(2));
    assert!(outcome.notes.iter().any(|note| note.contains("none of them is placed")), "{:?}", outcome.notes);
    assert!(outcome.placed.is_empty(), "{outcome:?}");
}

#[test]
fn fewer_threads_than_planned_do_not_share_a_pu() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    let mut plan = of_program("threads", 3);
    let all = CpuMask::from_pus(pus());
    // The first two on one PU, as where three threads have two.
    for (planned, pu) in plan.tasks.iter_mut().zip([pus()[0], pus()[0], *pus().last().unwrap()]) {
        (planned.pu, planned.pus) = (pu, CpuMask::single(pu));
    }
    if pus().len() < 2 {
        println!("SKIPPED: one PU only");
        return;
    }
    let path = programs.path("fewer");
    let command = programs.command("threads", &[path.to_str().unwrap(), "", "2"]);
    let outcome = run(&command, &plan);
    let saw = seen(&programs, "fewer");
    assert_eq!((CpuMask::from_pus(saw["1"].0.clone()), outcome.missing_tasks), (all, vec![2]));
    assert!(outcome.notes.iter().any(|note| note.starts_with("2 of the 3 tasks ran at once")), "{:?}", outcome.notes);
}

#[test]
fn fewer_threads_than_planned_are_mapped_again() {
    let Some(programs) = Programs::build(&["late"], &[]) else { return };
    let (first, last) = (pus()[0], *pus().last().unwrap());
    if first == last {
        println!("SKIPPED: one PU only");
        return;
    }
    let mut plan = LaunchPlan { may_crowd: false, ..flat(Identify::Order, 3) };
    for (planned, pu) in plan.tasks.iter_mut().zip([first, first, last]) {
        (planned.pu, planned.pus) = (pu, CpuMask::single(pu));
    }
    let map = move |tasks: &[u32]| (tasks == [0, 1]).then(|| vec![CpuMask::single(last), CpuMask::single(first)]);
    let options = Options { map_again: Some(MapAgain(Arc::new(map))), ..Options::default() };
    let path = programs.path("again");
    // Its first two threads wait until each has one PU.
    let command = programs.command("late", &[path.to_str().unwrap(), "waits"]);
    assert_eq!(launch(&command, &plan, &options).unwrap().status, Status::Exited(0));
    assert_eq!(seen(&programs, "again")["main"].0, [last]);
}

#[test]
fn a_thread_that_is_scheduled_by_deadline_is_left_alone_and_told() {
    let Some(programs) = Programs::build(&["deadline"], &[]) else { return };
    let outcome = run(&programs.command("deadline", &[]), &flat(Identify::Order, 2));
    if outcome.status == Status::Exited(77) {
        println!("SKIPPED: scheduling by deadline is not permitted here");
        return;
    }
    assert_eq!(outcome.status, Status::Exited(0));
    let refused: Vec<_> = outcome.refused.iter().map(|refusal| refusal.task).collect();
    assert!(refused == [0] && outcome.refused[0].cause.contains("SCHED_DEADLINE"), "{outcome:?}");
    assert_eq!(outcome.placed.iter().filter(|placed| placed.held).count(), 1, "the other one");
}

#[test]
fn an_empty_plan_runs_the_command_as_it_is() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    let path = programs.path("empty");
    let outcome = run(&programs.command("threads", &[path.to_str().unwrap(), "", "3"]), &LaunchPlan::default());
    assert_eq!((outcome.status, outcome.method), (Status::Exited(0), Method::NotNeeded));
    assert_eq!((outcome.unknown_thread_count, outcome.placed.len()), (0, 0));
    assert!(seen(&programs, "empty").values().all(|(affinity, _)| *affinity == pus()));
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

/// Threads are where each phase has them, phases come again, and in one that the plan does not know they stay.
#[test]
fn threads_move_with_the_phases_of_the_program() {
    let include = format!("-I{}/../../native/include", env!("CARGO_MANIFEST_DIR"));
    let Some(programs) = Programs::build(&["phases"], &[&include]) else { return };
    let (threads, pus) = (4, pus());
    let seat = |at: usize| PhaseSeat { pu: pus[at % pus.len()], pus: CpuMask::single(pus[at % pus.len()]) };
    // In phase 3 thread t is on PU t, in phase 8 on the next, as far as there are two.
    let seats = |shift: usize| (0..threads).map(|thread| seat(thread + shift)).collect::<Vec<_>>();
    for watch_only in [false, true] {
        let phases = [(3, seats(0)), (8, seats(1))].into();
        let plan = LaunchPlan { phases, ..flat(Identify::Order, threads as u32) };
        let file = format!("phases{watch_only}");
        let path = programs.path(&file);
        let numbers = ["3", "8", "77", "3", "8", "3"];
        let command = [&[path.to_str().unwrap(), "4"], &numbers[..]].concat();
        let options = Options { watch_only, ..Options::default() };
        let outcome = launch(&programs.command("phases", &command), &plan, &options).unwrap();
        assert_eq!(outcome.status, Status::Exited(0), "{outcome:?}");
        let report = outcome.phases.unwrap();
        assert_eq!((report.announced, report.seen), (6, 6));
        assert_eq!(report.unknown.iter().copied().collect::<Vec<_>>(), [77]);
        let times: Vec<(u64, u64)> = report.phases.iter().map(|phase| (phase.number, phase.times)).collect();
        assert_eq!(times, [(3, 3), (8, 2)]);
        assert!(outcome.notes.iter().any(|note| note.contains("does not have these phases of the program: 77")));
        if watch_only {
            // Threads are found a moment after they start, which may be after a phase has begun.
            continue;
        }
        for (phase, shift) in [(0, 0), (1, 1)] {
            let placed = &report.phases[phase].placed;
            assert_eq!(placed.len(), threads);
            let expected: Vec<Vec<u32>> = seats(shift).iter().map(|seat| vec![seat.pu]).collect();
            assert_eq!(placed.iter().map(|placed| placed.affinity.clone()).collect::<Vec<_>>(), expected);
        }
        let saw = seen(&programs, &file);
        for (place, shift) in [0, 1, 1, 0, 1, 0].into_iter().enumerate() {
            for (thread, seat) in seats(shift).iter().enumerate() {
                assert_eq!(saw[&format!("{place}:{thread}")].0, [seat.pu], "phase {place}, thread {thread}");
            }
        }
    }
}

#[test]
fn a_program_that_announces_nothing_stays_and_that_is_said() {
    let Some(programs) = Programs::build(&["threads"], &[]) else { return };
    let seats = vec![PhaseSeat { pu: pu(0), pus: CpuMask::single(pu(0)) }; 2];
    let plan = LaunchPlan { phases: [(0, seats)].into(), ..flat(Identify::Order, 2) };
    let path = programs.path("silent");
    let command = programs.command("threads", &[path.to_str().unwrap(), "", "2"]);
    let outcome = run(&command, &plan);
    assert_eq!(outcome.phases.unwrap().phases, []);
    assert!(outcome.notes.iter().any(|note| note.contains("announced none of its phases")), "{:?}", outcome.notes);
    assert_placed(&programs, "silent", &["0", "1"].map(String::from), &[0, 1]);
    // Of a plan without phases nothing is said of them.
    let outcome = run(&command, &flat(Identify::Order, 2));
    assert!(outcome.phases.is_none() && outcome.notes.iter().all(|note| !note.contains("phase")));
}
