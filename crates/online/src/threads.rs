//! What /proc tells of a thread that is mapped (proc_pid_stat(5), proc_pid_environ(5)): who it is, where it runs, how
//! much, and which MPI rank it is part of.

use cohabit_model::launcher::RankPlace;
use nix::time::{ClockId, clock_gettime};
use std::fs;
use std::io::Read;
use std::time::Duration;

/// A thread as it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Clock ticks from the machine's start to the thread's: with the id, what tells it from a later one.
    pub start_ticks: u64,
    /// The process that its own comes from, or that has taken it over.
    pub parent: i32,
    /// The PU (OS index) it last ran on.
    pub pu: u32,
    /// Clock ticks it ran, in user and in kernel mode.
    pub ticks: u64,
}

/// Looks at a thread; none where there is none.
pub fn look(tid: i32) -> Option<Thread> {
    parse(&fs::read_to_string(format!("/proc/{tid}/task/{tid}/stat")).ok()?)
}

/// When a thread started, in clock ticks of the machine; none where there is no such thread.
pub fn start_ticks(tid: i32) -> Option<u64> {
    look(tid).map(|thread| thread.start_ticks)
}

fn parse(stat: &str) -> Option<Thread> {
    parse_any(stat).filter(|(has_ended, _)| !has_ended).map(|(_, thread)| thread)
}

/// A thread, and whether it is there in name only: it has ended and was not waited for yet, or it is a main thread and
/// others of its process go on.
fn parse_any(stat: &str) -> Option<(bool, Thread)> {
    // The name is in brackets and may hold any character, brackets too.
    let (head, rest) = stat.rsplit_once(") ")?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let has_ended = matches!(fields.first(), Some(&"Z" | &"X"));
    // The first field here is the third of the manual page.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (start_ticks, parent) = (field(22)?, field(4)? as i32);
    let (pu, ticks) = (field(39)? as u32, field(14)? + field(15)?);
    Some((has_ended, Thread { name, start_ticks, parent, pu, ticks }))
}

/// How long a thread has run, and how long it has waited for a PU; none where it is gone or the kernel does not say.
pub fn run_and_wait(tid: i32) -> Option<(Duration, Duration)> {
    let text = fs::read_to_string(format!("/proc/{tid}/task/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok().map(Duration::from_nanos);
    Some((next()?, next()?))
}

/// Clock ticks of the machine until now, as in [`Thread::start_ticks`].
pub fn now_ticks() -> u64 {
    // As Linux has them everywhere (USER_HZ); the clock is the one that threads' starts are taken from.
    const TICKS_PER_SECOND: u128 = 100;
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from);
    (now.as_nanos() * TICKS_PER_SECOND / 1_000_000_000) as u64
}

/// A process that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// The process that it comes from, or that has taken it over.
    pub parent: i32,
    /// With the id, what tells it from a later one.
    pub start_ticks: u64,
}

/// Looks at a process, its main thread having ended or not; none where there is none.
pub fn process(pid: i32) -> Option<Process> {
    let (_, thread) = parse_any(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    Some(Process { pid, parent: thread.parent, start_ticks: thread.start_ticks })
}

/// The processes that are there, as far as this one may see them.
pub fn processes() -> Vec<Process> {
    let listing = fs::read_dir("/proc").into_iter().flatten();
    let pids = listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(process).collect()
}

/// The ids of a process's threads; none where it is gone.
pub fn of_process(process: i32) -> Vec<i32> {
    let listing = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The pages (of 4 KiB) of a process that are in memory; 0 where it is gone.
pub fn resident_pages(process: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

/// What launchers run on each node: its environment may look like a rank's, above all within a job of Slurm's.
const DAEMONS: [&str; 9] =
    ["orted", "prted", "orterun", "prterun", "mpirun", "mpiexec", "hydra_", "srun", "slurmstepd"];
/// No environment is read further.
const LONGEST_ENVIRONMENT: u64 = 4 << 20;

/// Which MPI rank a process is, by its environment; none where it is none, is gone, or is another user's.
pub fn rank_place(process: i32) -> Option<RankPlace> {
    let mut environment = Vec::new();
    let file = fs::File::open(format!("/proc/{process}/environ")).ok()?;
    file.take(LONGEST_ENVIRONMENT).read_to_end(&mut environment).ok()?;
    let place = RankPlace::of(|name| variable(&environment, name))?;
    let program = look(process)?.name;
    (!DAEMONS.iter().any(|daemon| program.starts_with(daemon))).then_some(place)
}

/// A variable in what an `environ` file holds: strings that end with a zero byte.
fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut strings = environment.split(|&byte| byte == 0);
    let value = strings.find_map(|string| string.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_testing::{Killed, sleeping};

    #[test]
    fn a_rank_is_known_by_its_environment() {
        let mut sleeper = sleeping();
        sleeper.env_clear().env("PATH", "/usr/bin:/bin").env("PMI_RANK", "3").env("PMI_SIZE", "4");
        let place = rank_place(Killed::spawn(&mut sleeper).id() as i32);
        assert_eq!(place, Some(RankPlace { rank: 3, size: Some(4), one_node: None, job: None }));
        assert_eq!(rank_place(i32::MAX), None);
        for (environment, found) in
            [(&b"A=1\0AB=2\0"[..], Some("2")), (b"AB=", Some("")), (b"ABC=1\0", None), (b"", None), (b"\xff\0", None)]
        {
            assert_eq!(variable(environment, "AB").as_deref(), found, "{environment:?}");
        }
    }

    #[test]
    fn a_line_is_taken_apart() {
        let numbers: Vec<String> = (1..=49).map(|number| number.to_string()).collect();
        let line = format!("77 (a) (b c) S {}", numbers.join(" "));
        let expected = Thread { name: "a) (b c".to_owned(), start_ticks: 19, parent: 1, pu: 36, ticks: 11 + 12 };
        assert_eq!(parse(&line), Some(expected));
        assert_eq!(parse(&line.replace(") S ", ") Z ")), None);
        for broken in
            ["", "1 (x", "1 (x) R", "1 (x) R a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4 5 6 7 8 9 0"]
        {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn this_thread_is_there() {
        let tid = nix::unistd::gettid().as_raw();
        assert!(look(tid).is_some_and(|thread| thread.start_ticks > 0));
        assert!(run_and_wait(tid).is_some());
        assert!(resident_pages(std::process::id() as i32) > 0);
        assert!(of_process(std::process::id() as i32).contains(&tid) && of_process(i32::MAX).is_empty());
        assert_eq!(start_ticks(i32::MAX), None);
        let before = now_ticks();
        let child = Killed::spawn(&mut sleeping());
        let found = processes().into_iter().find(|process| process.pid == child.id() as i32).unwrap();
        assert_eq!(found.parent, std::process::id() as i32);
        assert!((before..=now_ticks()).contains(&found.start_ticks), "{before} {found:?}");
    }
}
