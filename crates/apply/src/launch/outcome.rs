//! What came of a launch.

use super::crowding::Spread;
use super::phases::PhasesReport;
use super::placement::Placement;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It returned or called exit.
    Exited(i32),
    /// A signal ended it.
    Signalled {
        /// The signal.
        signal: i32,
        /// Whether it left a core file.
        core_dumped: bool,
    },
}

impl Status {
    /// From what `waitpid(2)` returns.
    pub(crate) fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signalled { signal: libc::WTERMSIG(status), core_dumped: libc::WCOREDUMP(status) }
        } else {
            Self::Exited(libc::WEXITSTATUS(status))
        }
    }

    /// What a shell makes of it: the exit status, or 128 and the signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled { signal, .. } => 128 + signal,
        }
    }
}

/// How the starts of threads were noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Not at all: the plan was empty.
    NotNeeded,
    /// By ptrace: each thread was placed before its first instruction.
    Ptrace,
    /// By looking at /proc: threads ran elsewhere for a moment.
    ProcWatcher,
}

/// A task that was placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedReport {
    /// The task's id.
    pub task: u32,
    /// The thread it was.
    pub tid: i32,
    /// The PU it was to run on (OS index).
    pub pu: u32,
    /// All PUs it was given: that one, or all that serve as well (OS indices).
    pub pus: Vec<u32>,
    /// The affinity read back after it was set (OS indices).
    pub affinity: Vec<u32>,
    /// Whether the thread was confined to these. A main thread whose process never had a second thread was not.
    pub held: bool,
}

/// A planned thread that the kernel did not let us place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The task's id.
    pub task: u32,
    /// The thread it was.
    pub tid: i32,
    /// The PU it was to run on (OS index).
    pub pu: u32,
    /// What the kernel said.
    pub cause: String,
}

/// A placed thread whose affinity the program has changed afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repinned {
    /// The task's id.
    pub task: u32,
    /// The thread it was.
    pub tid: i32,
    /// The PU it was put on (OS index).
    pub pu: u32,
    /// All PUs it was given (OS indices).
    pub pus: Vec<u32>,
    /// Its affinity as last seen (OS indices).
    pub affinity: Vec<u32>,
}

/// A thread that the plan does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownThread {
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The affinity it was left with: the command's own, or what the program chose (OS indices).
    pub affinity: Vec<u32>,
}

/// What came of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How the command ended.
    pub status: Status,
    /// How the starts of threads were noticed.
    pub method: Method,
    /// The placed tasks, in the plan's order.
    pub placed: Vec<PlacedReport>,
    /// Planned threads that could not be placed.
    pub refused: Vec<Refusal>,
    /// Ids of planned tasks that never started.
    pub missing_tasks: Vec<u32>,
    /// No program of the plan was executed; [`Outcome::notes`] say so.
    pub program_missing: bool,
    /// Threads the plan does not know; the first 1,024 of them.
    pub unknown_threads: Vec<UnknownThread>,
    /// How many there were in all.
    pub unknown_thread_count: u64,
    /// Placed threads that the program pinned elsewhere, by task. Seen by looking now and then: a change in the last
    /// moments of a thread can be missed.
    pub repinned: Vec<Repinned>,
    /// What became of phases, where the plan has any.
    pub phases: Option<PhasesReport>,
    /// What the user should know besides, a sentence each.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Of a plan with phases, `announced` says how many of them the program announced; none where it was not asked to.
    pub(crate) fn new(
        status: Status,
        method: Method,
        mut placement: Placement,
        announced: Option<u64>,
        mut notes: Vec<String>,
    ) -> Self {
        let missing_tasks = placement.missing();
        notes.extend(differences(&placement, missing_tasks.len()));
        let has_phases = !placement.plan.phases.is_empty();
        let phases = has_phases.then(|| std::mem::take(&mut placement.phases).report(announced));
        let of_page = phases.as_ref().filter(|_| announced.is_some());
        if let (Some(phases), false) = (of_page, is_missing(&placement, missing_tasks.len())) {
            notes.extend(about_phases(phases));
        }
        notes.extend(placement.deprived.iter().map(|path| {
            let path = path.display();
            format!(
                "{path} ran without the rights it is meant to have (setuid), because it was traced: watch /proc instead"
            )
        }));
        Self {
            status,
            method,
            placed: placement.placed(),
            program_missing: is_missing(&placement, missing_tasks.len()),
            missing_tasks,
            refused: placement.refusals,
            unknown_threads: placement.unknown,
            unknown_thread_count: placement.unknown_count,
            repinned: placement.repinned.into_values().collect(),
            phases,
            notes,
        }
    }
}

/// What did not go as planned with phases, a sentence each.
fn about_phases(phases: &PhasesReport) -> Vec<String> {
    let PhasesReport { announced, seen, unknown, .. } = phases;
    let mut found = Vec::new();
    if *announced == 0 {
        found.push(
            "the program announced none of its phases, so that its threads stayed where they began: compile it with \
             the include/cohabit.h of this version"
                .to_owned(),
        );
    }
    if let missed @ 1.. = announced.saturating_sub(*seen) {
        let were = if missed == 1 { "was" } else { "were" };
        found.push(format!(
            "{missed} of the {announced} phases that the program announced {were} over before threads could be moved"
        ));
    }
    if !unknown.is_empty() {
        let numbers: Vec<String> = unknown.iter().map(u64::to_string).collect();
        let numbers = numbers.join(", ");
        found.push(format!("the mapping does not have these phases of the program: {numbers}; in them its threads stayed where they were"));
    }
    found
}

/// Whether none of the programs that the plan is of was executed.
fn is_missing(placement: &Placement, missing: usize) -> bool {
    let planned = placement.plan.tasks.len();
    planned > 0 && missing == planned && placement.census.knows_programs()
}

/// What differs from the run that the plan was made for, a sentence each.
fn differences(placement: &Placement, missing: usize) -> Vec<String> {
    let plan = &placement.plan;
    let mut found = Vec::new();
    if is_missing(placement, missing) {
        let mut programs: Vec<&str> =
            plan.programs.iter().map(String::as_str).filter(|program| !program.is_empty()).collect();
        programs.dedup();
        let (were, programs) = (if programs.len() == 1 { "was" } else { "were" }, programs.join(", "));
        found.push(format!("the profile is of {programs}, which {were} not executed here: nothing was placed"));
    }
    for program in &placement.rivals {
        found.push(format!("more processes of {program} ran at once than the profile has: none of them is placed"));
    }
    for (program, pus) in &placement.bound {
        found.push(format!("what started {program} had bound it to PUs {pus}: it is left there"));
    }
    let (spread, running) = placement.spread();
    let planned = plan.tasks.len();
    match spread {
        Spread::Planned => {}
        Spread::Remapped => found.push(format!("{running} of the {planned} tasks ran at once, and were mapped again")),
        Spread::Loose => found.push(format!(
            "{running} of the {planned} tasks ran at once: they are left where the system puts them, since by the mapping \
             some would have shared a PU while another is idle"
        )),
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn wait_statuses_are_read() {
        for (raw, status, code) in [
            (0, Status::Exited(0), 0),
            (0x2a00, Status::Exited(42), 42),
            (15, Status::Signalled { signal: 15, core_dumped: false }, 143),
            (0x8b, Status::Signalled { signal: 11, core_dumped: true }, 139),
        ] {
            assert_eq!(Status::from_wait(raw), status);
            assert_eq!(status.shell_code(), code);
        }
    }
}
