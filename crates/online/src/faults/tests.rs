//! The detector in the kernel against the one in Rust, and on real processes, where eBPF programs can be loaded.

use super::table::{Table, key, mix};
use super::{BpfFaults, Counters, Measuring, Options, PerfFaults, Source, TaskEvent};
use crate::evidence::{Evidence, Kind};
use crate::sampling::Sums;
use cohabit_host::memory_events::MemoryEvents;
use cohabit_testing::{Killed, sleeper};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The detector, where it can be loaded.
fn started(options: &Options) -> Option<BpfFaults> {
    BpfFaults::start(options).map_err(|error| println!("skipped: {}", error.cause)).ok()
}

/// The detector with a task in each of the slots 0 to `count` - 1, and the processes behind them.
fn with_tasks(options: &Options, count: u32) -> Option<(BpfFaults, Vec<Killed>)> {
    let mut source = started(options)?;
    let sleepers: Vec<Killed> = (0..count).map(|_| sleeper()).collect();
    sleepers.iter().for_each(|sleeper| source.follow(sleeper.id() as i32).unwrap());
    let tasks = source.read(Duration::ZERO, true).unwrap().tasks;
    let numbers: Vec<u32> = tasks
        .iter()
        .filter_map(|event| match event {
            TaskEvent::Started { task, .. } => Some(*task),
            _ => None,
        })
        .collect();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>());
    Some((source, sleepers))
}

#[test]
fn the_kernel_counts_what_the_table_counts() {
    // Blocks enough that none is pushed out, and so few that many are.
    for blocks in [1 << 12, 16] {
        let Some((mut source, _sleepers)) = with_tasks(&Options { blocks, ..Options::default() }, 7) else { return };
        let mut table = Table::new(blocks);
        let before = source.read(Duration::ZERO, true).unwrap().counters;
        let mut random = 1u64;
        for round in 0..20 {
            for _ in 0..300 {
                random = mix(random.wrapping_add(0x9e37_79b9_7f4a_7c15));
                // Two memories, and places in them that are in the same block or not, by its size.
                let (memory, shift) = (mix(1 + (random >> 10 & 1)), [4, 10, 16][(random >> 40) as usize % 3]);
                let byte = (1 + random % 48) << 9;
                let (block, task) = ((random >> 24) as u8 % 6, (random >> 32) as u32 % 7);
                source.replay((memory, byte, shift), block, task).unwrap();
                table.touch(key(memory, byte, shift), block, task);
            }
            let mut pairs = BTreeMap::new();
            for seen in source.take_pairs(Duration::ZERO).unwrap() {
                *pairs.entry(seen.pair).or_default() += seen.count;
            }
            let reading = source.read(Duration::ZERO, true).unwrap();
            let pairs: Vec<(u32, u32, u64)> = pairs.into_iter().map(|((a, b), events)| (a, b, events)).collect();
            assert_eq!(pairs, table.take_pairs(), "round {round} with {blocks} blocks");
            let now = reading.counters;
            let seen = (now.events - before.events, now.new_blocks - before.new_blocks);
            assert_eq!(seen, (table.events, table.new_blocks));
            assert_eq!((now.evictions - before.evictions, now.events_lost), (table.evictions, before.events_lost));
        }
    }
}

#[test]
fn tasks_are_followed_from_fork_to_exit() {
    let Some(mut source) = started(&Options::default()) else { return };
    // Waits for a line before it starts others, so that it is followed first.
    let script = "read line; sleep 0.01 & sleep 0.01 & wait; exec true";
    let mut shell = Killed::spawn(Command::new("bash").args(["-c", script]).stdin(Stdio::piped()));
    let pid = shell.id() as i32;
    source.follow(pid).unwrap();
    drop(shell.stdin.take());
    shell.wait().unwrap();
    let mut events = Vec::new();
    for _ in 0..100 {
        events.extend(source.read(Duration::ZERO, true).unwrap().tasks);
        if events.iter().filter(|event| matches!(event, TaskEvent::Ended { .. })).count() == 3 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let started: Vec<(u32, Option<u32>)> = events
        .iter()
        .filter_map(|event| match event {
            TaskEvent::Started { task, parent, .. } => Some((*task, *parent)),
            _ => None,
        })
        .collect();
    assert_eq!(started, [(0, None), (1, Some(0)), (2, Some(0))]);
    // Whoever starts a program may go on before exec is over: the shell's own may be among them.
    let execs = events.iter().filter(|event| matches!(event, TaskEvent::Exec { .. })).count();
    assert!((3..=4).contains(&execs), "{events:?}");
    assert_eq!(events.last(), Some(&TaskEvent::Ended { task: 0 }));
}

/// Threads that start and end, one after the other, while the process's are listed, so many times at most: what is lost
/// by that.
fn threads_come_and_go(mut source: impl Source, listings: usize) -> Counters {
    let (tell, told) = std::sync::mpsc::channel();
    let over = AtomicBool::new(false);
    let mut events = Vec::new();
    thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let tell = tell.clone();
                let next = thread::spawn(move || tell.send(nix::unistd::gettid().as_raw()).unwrap());
                next.join().unwrap();
            }
        });
        let _ends = Ends(over);
        let began = Instant::now();
        for _ in (0..listings).take_while(|_| began.elapsed() < Duration::from_secs(2)) {
            source.follow(std::process::id() as i32).unwrap();
            events.extend(source.read(Duration::ZERO, true).unwrap().tasks);
        }
    });
    let threads: Vec<i32> = told.into_iter().collect();
    source.refresh().unwrap();
    let last = source.read(Duration::ZERO, true).unwrap();
    events.extend(last.tasks);
    let ended = super::ended(&events);
    let started = events.iter().filter_map(|event| match event {
        TaskEvent::Started { task, tid, .. } if threads.contains(tid) => Some(task),
        _ => None,
    });
    let started: Vec<&u32> = started.collect();
    let left: Vec<&&u32> = started.iter().filter(|task| !ended.contains(**task)).collect();
    assert!(started.len() > 10 && left.is_empty(), "{} started, and {left:?} never ended", started.len());
    last.counters
}

#[test]
fn threads_that_come_and_go_while_they_are_listed_start_and_end() {
    if let Some(source) = started(&Options::default()) {
        assert_eq!(threads_come_and_go(source, usize::MAX).tasks_lost, 0);
    }
    match PerfFaults::start(&Options::default()) {
        Ok(source) => drop(threads_come_and_go(source, 200)),
        Err(error) => println!("skipped: {}", error.cause),
    }
}

/// Set where a test's own binary is run to execute a program by another thread than the main one.
const EXECUTES: &str = "COHABIT_TEST_EXECUTES";

#[test]
fn a_program_that_another_thread_executes() {
    if std::env::var_os(EXECUTES).is_none() {
        return;
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    thread::spawn(|| panic!("{}", Command::new("sleep").arg("60").exec())).join().unwrap();
}

/// A process whose main thread ends as another executes a program is followed on.
fn another_thread_executes(mut source: impl Source) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "faults::tests::a_program_that_another_thread_executes"]).env(EXECUTES, "1");
    let mut program = Killed::spawn(command.stdin(Stdio::piped()).stdout(Stdio::null()));
    let pid = program.id() as i32;
    source.follow(pid).unwrap();
    drop(program.stdin.take());
    while !std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n") {
        thread::yield_now();
    }
    let mut events = source.read(Duration::ZERO, true).unwrap().tasks;
    for _ in 0..3 {
        source.refresh().unwrap();
        events.extend(source.read(Duration::ZERO, true).unwrap().tasks);
    }
    let mut living = BTreeMap::new();
    for event in &events {
        match *event {
            TaskEvent::Started { task, tid, .. } | TaskEvent::Exec { task, tid } => living.insert(task, tid),
            TaskEvent::Ended { task } => living.remove(&task),
        };
    }
    assert_eq!(living.into_values().collect::<Vec<_>>(), [pid], "{events:?}");
    assert!(events.iter().any(|event| matches!(event, TaskEvent::Exec { tid, .. } if *tid == pid)), "{events:?}");
}

#[test]
fn what_another_thread_executes_is_followed() {
    if let Some(source) = started(&Options::default()) {
        another_thread_executes(source);
    }
    match PerfFaults::start(&Options::default()) {
        Ok(source) => another_thread_executes(source),
        Err(error) => println!("skipped: {}", error.cause),
    }
}

#[test]
fn slots_are_given_out_again() {
    let Some(mut source) = started(&Options::default()) else { return };
    let script = "read line; for i in $(seq 300); do /bin/true; done";
    let mut shell = Killed::spawn(Command::new("bash").args(["-c", script]).stdin(Stdio::piped()));
    source.follow(shell.id() as i32).unwrap();
    drop(shell.stdin.take());
    shell.wait().unwrap();
    let (mut started, mut ended) = (0, 0);
    for _ in 0..100 {
        for event in source.read(Duration::ZERO, true).unwrap().tasks {
            started += u32::from(matches!(event, TaskEvent::Started { .. }));
            ended += u32::from(matches!(event, TaskEvent::Ended { .. }));
        }
        if ended >= 302 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // The shell, 300 programs, and the subshell of seq.
    assert!(started == ended && (301..=302).contains(&started), "{started} {ended}");
    // More than are remembered, so that some slots have been given back.
    assert_eq!((source.slots_in_use(), source.read(Duration::ZERO, true).unwrap().counters.tasks_lost), (0, 0));
}

/// As where cohabit was stopped for so long that the ring was full.
#[test]
fn starts_and_ends_that_the_kernel_had_no_room_for_are_found() {
    let Some((mut source, mut sleepers)) = with_tasks(&Options::default(), 3) else { return };
    let pids: Vec<i32> = sleepers.iter().map(|sleeper| sleeper.id() as i32).collect();
    source.lose(pids[0]);
    source.lose(pids[1]);
    sleepers[0].kill().unwrap();
    sleepers[0].wait().unwrap();
    let mut events = Vec::new();
    for _ in 0..3 {
        source.refresh().unwrap();
        events.extend(source.read(Duration::ZERO, true).unwrap().tasks);
    }
    let ended = super::ended(&events);
    assert_eq!(ended.into_iter().collect::<Vec<_>>(), [0, 1], "{events:?}");
    let again = TaskEvent::Started { task: 3, tid: pids[1], process: pids[1], parent: None };
    assert_eq!((events.len(), events.contains(&again)), (3, true), "{events:?}");
    assert_eq!(source.slots_in_use(), 2);
}

#[test]
fn shared_memory_that_the_kernel_has_no_room_for_is_counted_as_lost() {
    let Some((mut source, sleepers)) = with_tasks(&Options::default(), 1) else { return };
    let pid = sleepers[0].id() as i32;
    let maps = "7f0000000000-7f0000001000 rw-s 00000000 00:01 1234 /dev/shm/x\n";
    let lost = |source: &mut BpfFaults| {
        source.share(pid, maps).unwrap();
        source.read(Duration::ZERO, true).unwrap().counters.events_lost
    };
    source.fill_shared(true);
    assert_eq!([lost(&mut source), lost(&mut source)], [1, 1]);
    source.fill_shared(false);
    assert_eq!(lost(&mut source), 1);
    assert!(!source.is_untold(pid));
}

#[test]
fn a_process_that_is_gone_is_refused() {
    let Some(mut source) = started(&Options::default()) else { return };
    let error = source.follow(i32::MAX).unwrap_err();
    assert!(error.cause.contains("no process"), "{error:?}");
    assert!(BpfFaults::start(&Options { block_bytes: 100, ..Options::default() }).is_err());
}

/// Adds 1 to each word by one instruction, whatever a compiler makes of loops and atomics: unoptimised it has most samples
/// elsewhere.
fn add_to_all(memory: &[AtomicU64]) {
    let words = memory.as_ptr_range();
    // SAFETY: it writes within the slice, which is not empty and may be written to by several threads.
    unsafe {
        std::arch::asm!(
            "2: add qword ptr [{at}], 1",
            "add {at}, 8",
            "cmp {at}, {end}",
            "jne 2b",
            at = inout(reg) words.start => _,
            end = in(reg) words.end,
        );
    }
}

/// Four threads in pairs, each pair with memory of its own that both read and write: samples of theirs, which a timer
/// takes, show who is whose partner.
fn samples_show_partners(source: impl Source) {
    const BYTES: usize = 64 << 10;
    assert!(source.samples());
    let memory: [Vec<AtomicU64>; 2] = std::array::from_fn(|_| (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect());
    let sampled = partners_are_shown(source, |pair| add_to_all(&memory[pair]));
    assert!(sampled.events <= sampled.telling && sampled.telling <= sampled.samples);
}

/// Has four threads do `work` of their pairs until samples have shown enough of them.
fn partners_are_shown(mut source: impl Source, work: impl Fn(usize) + Sync) -> Sums {
    // Some 20 events come before it is known that the two memories, which may lie side by side, are not one.
    const SEEN: u64 = 400;
    let over = AtomicBool::new(false);
    let (tasks, seen, counters) = thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        for thread in 0..4 {
            let (tell, over, work) = (tell.clone(), &over, &work);
            scope.spawn(move || {
                tell.send((nix::unistd::gettid().as_raw(), thread)).unwrap();
                while !over.load(Ordering::Relaxed) {
                    work(thread % 2);
                }
            });
        }
        let _ends = Ends(&over);
        let threads: HashMap<i32, usize> = (0..4).map(|_| told.recv().unwrap()).collect();
        source.follow(std::process::id() as i32).unwrap();
        let (mut tasks, mut seen) = (HashMap::new(), BTreeMap::<_, u64>::new());
        let began = Instant::now();
        loop {
            let reading = source.read(Duration::ZERO, true).unwrap();
            for event in reading.tasks {
                if let TaskEvent::Started { task, tid, .. } = event {
                    threads.get(&tid).map(|thread| tasks.insert(task, *thread));
                }
            }
            // Those of other tests' threads set aside.
            let ours = |seen: &&Evidence| {
                seen.kind == Kind::Sampled && tasks.contains_key(&seen.pair.0) && tasks.contains_key(&seen.pair.1)
            };
            for found in reading.seen.iter().filter(ours) {
                *seen.entry(found.pair).or_default() += found.count;
            }
            if seen.values().sum::<u64>() >= SEEN || began.elapsed() > Duration::from_secs(30) {
                break (tasks, seen, reading.counters);
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(tasks.len(), 4);
    let among = |partners| {
        let are = |(a, b): &(u32, u32)| tasks[a] % 2 == tasks[b] % 2;
        seen.iter().filter(|(pair, _)| are(pair) == partners).map(|(_, events)| events).sum::<u64>()
    };
    let (partners, others) = (among(true), among(false));
    assert!(partners > SEEN * 3 / 5 && partners > 5 * others, "{partners} {others} {counters:?}");
    counters.sampled
}

/// Tells threads that it is over, however it ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_timers_samples_show_partners() {
    let options = Options { sampling: Some(10.0), ..Options::default() };
    if let Some(source) = started(&options) {
        samples_show_partners(source);
    }
}

#[test]
fn the_clocks_samples_show_partners() {
    let options = Options { sampling: Some(10.0), ..Options::default() };
    match PerfFaults::start(&options) {
        Ok(source) => samples_show_partners(source),
        Err(error) => println!("skipped: {}", error.cause),
    }
}

/// What sysfs would say of a PMU that is none: the kernel's page faults, which come with addresses too, and with no data
/// source that is known.
fn stand_in() -> MemoryEvents {
    let devices = tempfile::tempdir().unwrap();
    let files = [("type", "1\n"), ("events/mem-loads", "event=0x2\n"), ("format/event", "config:0-7\n")];
    for (path, text) in files {
        let path = devices.path().join("stand_in").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    MemoryEvents::find(devices.path()).unwrap()
}

/// Four threads in pairs, each pair with memory that it gives back to the kernel again and again: of the page faults that
/// come of it, some are told as accesses that a PMU has sampled, and they show who is whose partner.
fn accesses_show_partners(source: impl Source) {
    const PAGE: usize = 4096;
    const PAGES: usize = 16;
    // So far apart that nobody is near anybody of the other pair.
    const APART: usize = 2 << 20;
    assert!(!source.samples());
    let length = std::num::NonZeroUsize::new(2 * APART).unwrap();
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping, which is not touched but by the threads below, as atomics are.
    let memory = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE) }.unwrap();
    let (start, turn) = (memory.as_ptr() as usize, AtomicU64::new(0));
    let sampled = partners_are_shown(source, |pair| {
        let pages = start + pair * APART;
        for page in 0..PAGES {
            // Other lines each time: one that is used all the time counts now and then.
            let word = mix(turn.fetch_add(1, Ordering::Relaxed)) as usize % (PAGE / 8);
            // SAFETY: within the mapping, aligned, and all threads use it as atomics.
            let word = unsafe { &*((pages + page * PAGE + 8 * word) as *const AtomicU64) };
            word.fetch_add(1, Ordering::Relaxed);
        }
        let given_back = NonNull::new(pages as *mut libc::c_void).unwrap();
        // SAFETY: pages of the mapping, in which zeroes are as good as what was there.
        unsafe { madvise(given_back, PAGES * PAGE, MmapAdvise::MADV_DONTNEED) }.unwrap();
        thread::sleep(Duration::from_micros(500));
    });
    // SAFETY: the threads have ended.
    unsafe { munmap(memory, length.get()) }.unwrap();
    assert!(sampled.events <= sampled.telling_by_pmu && sampled.telling_by_pmu <= sampled.by_pmu);
    assert_eq!((sampled.samples, sampled.from_another), (0, 0));
}

fn by_stand_in() -> Options {
    Options { measuring: Some(Measuring { events: stand_in(), percent: 50.0 }), ..Options::default() }
}

#[test]
fn accesses_show_partners_besides_ebpf() {
    if let Some(source) = started(&by_stand_in()) {
        accesses_show_partners(source);
    }
}

#[test]
fn accesses_show_partners_besides_perf_events() {
    match PerfFaults::start(&by_stand_in()) {
        Ok(source) => accesses_show_partners(source),
        Err(error) => println!("skipped: {}", error.cause),
    }
}

#[test]
fn nobody_is_sampled_who_is_not_asked_to_be() {
    let Some((mut source, _sleepers)) = with_tasks(&Options::default(), 2) else { return };
    assert!(!source.samples());
    assert_eq!(source.read(Duration::ZERO, true).unwrap().counters.sampled, Sums::default());
}
