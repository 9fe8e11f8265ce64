//! What a program says of its own progress (native/include/cohabit_progress.h): two counters in a page that its
//! processes map.

use cohabit_host::page::SharedPage;
use cohabit_model::Result;
use std::ffi::OsString;
use std::sync::atomic::Ordering;

/// Names the file to the program.
const VARIABLE: &str = "COHABIT_PROGRESS";
/// As /proc/PID/maps has it.
pub(super) const PROGRESS_FILE: &str = "/memfd:cohabit-progress";

/// The counters.
pub struct ProgressPage(SharedPage);

impl ProgressPage {
    /// A page with nothing done yet.
    ///
    /// # Errors
    /// Where no memory can be had.
    pub fn new() -> Result<Self> {
        SharedPage::new(c"cohabit-progress").map(Self)
    }

    /// What a program's environment needs to find it.
    pub fn environment(&self) -> (&'static str, OsString) {
        (VARIABLE, self.0.path())
    }

    /// Units of work, and how often they were reported; none where the program has said nothing yet.
    pub fn read(&self) -> Option<(u64, u64)> {
        let counter = |index: usize| self.0.word(index).load(Ordering::Relaxed);
        Some((counter(0), counter(1))).filter(|&(_, reports)| reports > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn what_is_written_through_the_name_is_read() {
        let page = ProgressPage::new().unwrap();
        assert_eq!(page.read(), None);
        let (name, path) = page.environment();
        assert_eq!(name, "COHABIT_PROGRESS");
        let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&[700u64.to_ne_bytes(), 7u64.to_ne_bytes()].concat()).unwrap();
        assert_eq!(page.read(), Some((700, 7)));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.contains(PROGRESS_FILE));
    }
}
