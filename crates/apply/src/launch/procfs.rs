//! What /proc tells about threads and processes. All of it may be out of date as it is read.

use std::fs;
use std::path::Path;

/// Whether thread `tid` is in process `pid`.
pub(crate) fn is_thread_of(pid: i32, tid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}

/// The threads of a process, ascending; none when it is gone.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut tids: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    tids
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
