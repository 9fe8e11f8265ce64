//! What the profiler did not see, in words that travel with the profile.

use super::abi;
use super::image::{Image, unknown_syscalls};
use super::merge::Run;
use super::tasks::Tasks;
use cohabit_model::profile::Coverage;
use std::collections::BTreeSet;

/// What no run of this profiler sees.
const NEVER_SEEN: [&str; 5] = [
    "what the kernel reads and writes by itself (page cache, signal frames, futex and robust list words)",
    "transfers by devices and io_uring",
    "what goes between processes through the kernel (pipes, sockets, files, cross-memory attach)",
    "the kernel's code in user space (vsyscall page)",
    "which of several accesses at the very same moment came first",
];

/// The coverage of a whole run.
pub fn coverage(images: &[Image], tasks: &Tasks, run: &Run) -> Coverage {
    let asked_burst = run.options.burst.is_some();
    let mut found = Coverage { not_seen: NEVER_SEEN.map(str::to_owned).into(), ..Coverage::default() };
    found.events_lost =
        images.iter().fold(tasks.of_unknown(images), |sum, image| u64::saturating_add(sum, image.events_lost));
    found.exact = found.events_lost == 0 && !asked_burst;
    found.sample_rate = sample_rate(images, tasks, run);
    let flagged = |flag: u32| images.iter().any(|image| image.head.flags & flag != 0);
    let mut doubts = Vec::new();
    if flagged(abi::COHABIT_FLAG_NO_SPACE) {
        doubts.push("some counts: there was no space for them in the temporary directory".to_owned());
    }
    if flagged(abi::COHABIT_FLAG_TASKS_LOST) {
        doubts.push(format!("threads of a process after its first {}", abi::COHABIT_MAX_TASKS));
    }
    if tasks.processes > 1 && flagged(abi::COHABIT_FLAG_ALONE) {
        doubts.push(
            "communication between processes through memory that they share: the temporary directory, or ulimit -f, \
             allows no file that is large enough to keep track of it, so each process is counted by itself"
                .to_owned(),
        );
    }
    if flagged(abi::COHABIT_FLAG_SEGMENTS) {
        doubts.push(format!(
            "communication between processes through shared memory beyond the first {} pieces of 16 MiB that were touched",
            abi::COHABIT_COMMON_SEGMENTS
        ));
    }
    if flagged(abi::COHABIT_FLAG_STALE_CODE) {
        doubts.push(
            "code that one process wrote into another (ptrace, process_vm_writev, /proc/PID/mem): what it replaced may have run on"
                .to_owned(),
        );
    }
    doubts.extend(cut_short(images, tasks, "what was counted until then is kept"));
    doubts.extend(never_counted(images, run));
    found.not_seen.extend(between_processes(images, tasks, run));
    found.exact &= doubts.is_empty();
    found.not_seen.extend(doubts);
    if asked_burst {
        found.not_seen.push("what happened between the bursts".to_owned());
    } else if found.sample_rate < 1.0 {
        found.not_seen.push("what happened outside the region of interest".to_owned());
    }
    if flagged(abi::COHABIT_FLAG_ONLY) {
        found.not_seen.push("what is in other memory than the program named (cohabit_only)".to_owned());
    }
    let calls: BTreeSet<u32> = images.iter().flat_map(|image| unknown_syscalls(&image.head)).collect();
    if !calls.is_empty() {
        let names: Vec<String> = calls.into_iter().map(syscall_name).collect();
        found.not_seen.push(format!("what these system calls did to memory: {}", names.join(", ")));
    }
    found
}

/// Why nothing was counted, where counting was to begin with a marker or a signal and never began in any process.
fn never_counted(images: &[Image], run: &Run) -> Option<String> {
    let unused = |image: &Image| image.head.flags & abi::COHABIT_FLAG_ROI_UNUSED != 0;
    (!images.is_empty() && images.iter().all(unused)).then(|| match run.options.region_signal {
        Some(_) => "--roi-signal: anything: the program never got the signal, so nothing was counted (send it while the program runs, or leave \
                    --roi-signal out)"
            .to_owned(),
        None if run.options.region_of_mpi => "--roi=mpi: anything: the program never called an MPI_Init that a library exports, so nothing was \
                    counted (link it with MPI dynamically, or leave --roi out)"
            .to_owned(),
        None => "--roi: anything: the program never began a region of interest, so nothing was counted (mark one with cohabit_roi_begin and \
                 cohabit_roi_end of cohabit.h, or leave --roi out)"
            .to_owned(),
    })
}

/// What the tasks had beside memory to exchange data through ([`cohabit_model::profile::Meta::unseen_channels`]). A
/// file is one between processes: that threads write files connects them to nobody.
pub fn channels(images: &[Image], tasks: &Tasks) -> Vec<&'static str> {
    let rows = [
        (abi::COHABIT_FLAG_SOCKETS, tasks.tasks.len() > 1, "sockets"),
        (abi::COHABIT_FLAG_PIPES, tasks.tasks.len() > 1, "pipes"),
        (abi::COHABIT_FLAG_FILES, tasks.processes > 1, "files"),
    ];
    let used = |flag: u32| images.iter().any(|image| image.head.flags & flag != 0);
    rows.into_iter().filter(|&(flag, several, _)| several && used(flag)).map(|(_, _, name)| name).collect()
}

/// What `--sharing` and `--hot` leave out, where several processes touched memory that they share.
pub fn between_processes(images: &[Image], tasks: &Tasks, run: &Run) -> Option<String> {
    let options = [(run.options.sharing, "--sharing"), (run.options.hot, "--hot")];
    let asked: Vec<&str> = options.into_iter().filter_map(|(asked, name)| asked.then_some(name)).collect();
    let touched = |image: &Image| image.tasks.iter().any(|task| task.common.is_some());
    let shares = images.iter().zip(&tasks.process).filter(|(image, _)| touched(image)).map(|(_, process)| process);
    let several = shares.collect::<BTreeSet<_>>().len() > 1;
    (several && !asked.is_empty()).then(|| {
        let look = if asked.len() > 1 { "look" } else { "looks" };
        let asked = asked.join(" and ");
        format!("{asked}: memory that processes share ({asked} {look} at each process by itself; messages and bytes have it)")
    })
}

/// Processes whose end was not seen, and what is left of each: its last image says how it ended.
pub(crate) fn cut_short(images: &[Image], tasks: &Tasks, left: &str) -> Vec<String> {
    let last = |process| tasks.process.iter().rposition(|&found| found == process);
    let ends = (0..tasks.processes).filter_map(|process| Some((process, &images[last(process)?])));
    let abrupt = ends.filter(|(_, image)| image.head.end == abi::COHABIT_END_RUNNING);
    abrupt
        .map(|(process, image)| {
            format!(
                "the end of process {process} (pid {}): it was killed, crashed, or still runs; {left}",
                image.head.pid
            )
        })
        .collect()
}

/// The share of the processes' time in which accesses were counted.
fn sample_rate(images: &[Image], tasks: &Tasks, run: &Run) -> f64 {
    if run.options.burst.is_none()
        && !run.options.region
        && !run.options.region_of_mpi
        && run.options.region_signal.is_none()
    {
        return 1.0;
    }
    let (mut on_ns, mut all_ns) = (0.0, 0.0);
    for (at, image) in images.iter().enumerate() {
        // An image that exec replaced ended when the next one began.
        let next = (at + 1..images.len()).find(|&next| tasks.process[next] == tasks.process[at]);
        let end_ns = match image.head.end_ns {
            0 => next.map_or(run.end_ns, |next| images[next].head.start_ns),
            end_ns => end_ns,
        };
        let under_way_ns = match image.head.on_since_ns {
            0 => 0,
            since_ns => end_ns.saturating_sub(since_ns),
        };
        let span_ns = end_ns.saturating_sub(image.head.start_ns);
        on_ns += image.head.on_ns.saturating_add(under_way_ns).min(span_ns) as f64;
        all_ns += span_ns as f64;
    }
    if all_ns > 0.0 { on_ns / all_ns } else { 1.0 }
}

fn syscall_name(number: u32) -> String {
    match syscalls::x86_64::Sysno::new(number as usize) {
        Some(call) => call.name().to_owned(),
        None => format!("number {number}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn system_calls_have_names() {
        assert_eq!(super::syscall_name(0), "read");
        assert_eq!(super::syscall_name(511), "number 511");
    }
}
