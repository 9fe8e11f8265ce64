//! A script of taskset(1), from util-linux: no launcher's options, no library.

use super::script::{Binder, bind, list};
use super::{Exporter, Placement};
use cohabit_model::Result;

/// A script that binds with taskset.
pub struct Taskset;

impl Exporter for Taskset {
    fn name(&self) -> &'static str {
        "taskset"
    }
    fn about(&self) -> &'static str {
        "script of taskset: binds each rank under any launcher, or the threads of a process that runs"
    }
    fn usage(&self) -> &'static str {
        "mpirun --bind-to none -n N sh FILE CMD; for threads: sh FILE PID"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let binder = Binder {
            start: |pus| format!("taskset -c {}", list(pus)),
            move_thread: |pu| format!("taskset -cp {pu} \"$tid\" >/dev/null"),
        };
        bind(placement, self.name(), &binder)
    }
}
