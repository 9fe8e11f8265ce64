//! What whoever waits for a profiled run may know of it: that it begins now, all else being checked, and how many tasks
//! there have been so far.

use crate::dbi::thread_ids;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Called when a command has been found fit to be profiled and is about to be started.
#[derive(Clone, Default)]
pub struct OnBegin(Option<Arc<dyn Fn(SoFar) + Send + Sync>>);

impl OnBegin {
    /// Calls `begins` then.
    pub fn call(begins: impl Fn(SoFar) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(begins)))
    }

    pub(crate) fn now(&self, parts: &Path) {
        if let Some(begins) = &self.0 {
            begins(SoFar { parts: parts.to_path_buf() });
        }
    }
}

impl fmt::Debug for OnBegin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "OnBegin" } else { "nothing" })
    }
}

/// Counts what has been seen of a run that goes on.
#[derive(Debug, Clone)]
pub struct SoFar {
    parts: PathBuf,
}

impl SoFar {
    /// Threads that have been started, or of ranks without their threads those on this host; none once the run is over.
    pub fn tasks(&self) -> usize {
        let entries = std::fs::read_dir(&self.parts).into_iter().flatten().flatten().map(|entry| entry.path());
        let (ranks, parts): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| is_of_rank(path));
        // A process that became another program goes on with the thread that did it, in a part of its own.
        let threads: HashSet<u32> = parts.iter().flat_map(|path| threads(path)).collect();
        ranks.len() + threads.len()
    }
}

fn is_of_rank(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(crate::mpi::PART.as_bytes())
}

/// The ids of the threads in a part; none where it cannot be read yet, or is none.
fn threads(path: &Path) -> Vec<u32> {
    let part = if path.extension() == Some(OsStr::new("part")) { File::open(path).ok() } else { None };
    part.and_then(|part| thread_ids(&part).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbi::testing::PartBuilder;

    #[test]
    fn tasks_are_counted_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let part = |name: &str, pid: u32, threads: usize| {
            let part = (0..threads).fold(PartBuilder::new(pid, 1, 0), |part, _| part.task(None, "thread"));
            std::fs::write(folder.path().join(name), part.finish()).expect("a part");
        };
        let so_far = SoFar { parts: folder.path().to_path_buf() };
        assert_eq!(so_far.tasks(), 0);
        part("1.part", 100, 1);
        part("2.part", 100, 4);
        part("3.part", 200, 2);
        std::fs::write(folder.path().join("4.part"), [0; 4096]).expect("a part that has not begun");
        std::fs::write(folder.path().join("5.part"), "short").expect("a part");
        std::fs::write(folder.path().join("lock"), "").expect("another file");
        assert_eq!(so_far.tasks(), 4 + 2);
        std::fs::write(folder.path().join(format!("host.7.{}", crate::mpi::PART)), "").expect("a rank's part");
        assert_eq!(so_far.tasks(), 7);
        assert_eq!(SoFar { parts: folder.path().join("gone") }.tasks(), 0);
    }
}
