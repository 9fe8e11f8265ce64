//! What /proc tells about threads and processes. All of it may be out of date as it is read.

use std::fs;
use std::path::Path;

/// Whether thread `tid` is in process `pid`.
pub(crate) fn is_thread_of(pid: i32, tid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}

/// The threads of a process in the order in which they were started; none when it is gone.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // One that has ended since is none of them.
    in_order_of_start(tids.filter_map(|tid| Some((started(pid, tid)?, tid))).collect(), pid)
}

/// Thread ids ascend until the highest there is has been given, and then begin again with the lowest that are free: of
/// two that started within one clock tick, the first is the one that comes sooner after the main thread's, all around.
fn in_order_of_start(mut threads: Vec<(u64, i32)>, main: i32) -> Vec<i32> {
    threads.sort_unstable_by_key(|&(started, tid)| (started, tid < main, tid));
    threads.into_iter().map(|(_, tid)| tid).collect()
}

/// When a thread was started, in clock ticks since the machine was (proc_pid_stat(5), field 22); none when it is gone.
fn started(pid: i32, tid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // The fields from the third on follow the name, which is in brackets and may hold any character.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

/// The file name of the program that a process executes; empty where that cannot be read.
pub(crate) fn program(pid: i32) -> String {
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()
}

/// The processes that a thread has created and that run or await their parent. Without CONFIG_PROC_CHILDREN: none.
pub(crate) fn children(pid: i32, tid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The process a thread is in and that process's parent.
pub(crate) fn process_and_parent(tid: i32) -> Option<(i32, i32)> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((field("Tgid:")?, field("PPid:")?))
}

/// Whether a process is stopped by a signal (not by a tracer).
pub(crate) fn is_stopped(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which is in brackets and may hold any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

#[cfg(test)]
mod tests {
    use super::{in_order_of_start, program, threads};

    #[test]
    fn threads_are_in_the_order_of_their_start_wherever_ids_have_wrapped_round() {
        for (main, found, expected) in [
            (100, vec![(5, 102), (5, 100), (5, 101)], vec![100, 101, 102]),
            (32_767, vec![(9, 301), (7, 300), (5, 32_767)], vec![32_767, 300, 301]),
            (32_766, vec![(5, 300), (5, 32_767), (5, 301), (5, 32_766)], vec![32_766, 32_767, 300, 301]),
            (32_000, vec![(5, 32_000), (8, 310), (7, 32_500), (8, 305)], vec![32_000, 32_500, 305, 310]),
        ] {
            assert_eq!(in_order_of_start(found, main), expected);
        }
    }

    #[test]
    fn threads_that_end_meanwhile_are_not_before_the_main_one() {
        let own = std::process::id() as i32;
        for _ in 0..300 {
            let ending: Vec<_> = (0..4).map(|_| std::thread::spawn(|| ())).collect();
            assert_eq!(threads(own)[0], own);
            ending.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }

    #[test]
    fn ones_own_are_read() {
        let own = std::process::id() as i32;
        assert_eq!(threads(own)[0], own);
        let path = std::env::current_exe().unwrap();
        assert_eq!(program(own), path.file_name().unwrap().to_str().unwrap());
        assert_eq!(program(i32::MAX), "");
    }
}
