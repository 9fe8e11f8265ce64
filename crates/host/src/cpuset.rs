//! What the cpuset of a thread lets it use (cpuset(7); Linux, Documentation/admin-guide/cgroup-v2.rst).

use crate::affinity::CpuMask;
use std::fs;
use std::path::{Path, PathBuf};

/// Where cgroups are, and in them what the kernel makes of the cpusets above: of version 1 and 2.
const OF_VERSION_1: (&str, &[&str]) = ("/sys/fs/cgroup/cpuset", &["cpuset.effective_cpus", "cpuset.cpus"]);
const OF_VERSION_2: (&str, &[&str]) = ("/sys/fs/cgroup", &["cpuset.cpus.effective"]);
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The PUs that a thread's cpuset lets it use (0: the calling thread's); all that are online where there are no
/// cpusets to be seen, and none where there is no such thread.
pub fn of_thread(tid: i32) -> Option<CpuMask> {
    let name = if tid == 0 { "thread-self".to_owned() } else { tid.to_string() };
    let text = fs::read_to_string(format!("/proc/{name}/cgroup")).ok()?;
    of_groups(&text, Path::new("/")).or_else(|| read(Path::new(ONLINE)))
}

/// Of the cgroups of a thread, as its file has them, below a root that is `/` but for tests.
fn of_groups(text: &str, root: &Path) -> Option<CpuMask> {
    let groups = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let groups: Vec<(&str, &str)> = groups.collect();
    let of_version_1 = groups.iter().find(|(controllers, _)| controllers.split(',').any(|name| name == "cpuset"));
    let of_version_2 = groups.iter().find(|(controllers, _)| controllers.is_empty());
    let ((base, files), group) = match (of_version_1, of_version_2) {
        (Some((_, group)), _) => (OF_VERSION_1, group),
        (None, Some((_, group))) => (OF_VERSION_2, group),
        (None, None) => return None,
    };
    // Above what may be seen from here.
    if group.split('/').any(|part| part == "..") {
        return None;
    }
    let base = root.join(base.trim_start_matches('/'));
    // A cgroup without cpuset has that of the one above.
    let group = PathBuf::from(group.trim_start_matches('/'));
    group.ancestors().find_map(|group| files.iter().find_map(|file| read(&base.join(group).join(file))))
}

fn read(path: &Path) -> Option<CpuMask> {
    let text = fs::read_to_string(path).ok()?;
    CpuMask::parse(text.trim()).filter(|mask| !mask.pus().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_uses_more_than_the_cpuset_has() {
        let allowed = of_thread(0).unwrap();
        assert!(CpuMask::of_thread(0).unwrap().pus().into_iter().all(|pu| allowed.contains(pu)));
        assert_eq!(of_thread(i32::MAX), None);
    }

    #[test]
    fn the_nearest_cgroup_with_a_cpuset_counts() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join("sys/fs/cgroup").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("cpuset.cpus.effective", "0-7\n");
        put("a/cpuset.cpus.effective", "0-3\n");
        put("a/b/cgroup.procs", "");
        put("cpuset/job/cpuset.effective_cpus", "4-5\n");
        for (text, expected) in [
            ("0::/a/b\n", Some("0-3")),
            ("0::/\n", Some("0-7")),
            ("0::/c\n", Some("0-7")),
            ("0::/../a\n", None),
            ("3:cpuset:/job\n0::/a\n", Some("4-5")),
            ("2:cpu,cpuset:/job\n", Some("4-5")),
            ("2:cpu:/job\n", None),
            ("", None),
        ] {
            assert_eq!(of_groups(text, root.path()), expected.and_then(CpuMask::parse), "{text}");
        }
    }
}
