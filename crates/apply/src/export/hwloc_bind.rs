//! A script of hwloc-bind(1), from hwloc: PUs by OS index (`--physical`).

use super::script::{Binder, bind};
use super::{Exporter, Placement};
use cohabit_model::Result;

/// A script that binds with hwloc-bind.
pub struct HwlocBind;

impl Exporter for HwlocBind {
    fn name(&self) -> &'static str {
        "hwloc-bind"
    }
    fn about(&self) -> &'static str {
        "script of hwloc-bind: binds each rank under any launcher, or the threads of a process that runs"
    }
    fn usage(&self) -> &'static str {
        "mpirun --bind-to none -n N sh FILE CMD; for threads: sh FILE PID"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let binder = Binder {
            start: |pus| {
                let places: Vec<String> = pus.iter().map(|pu| format!("pu:{pu}")).collect();
                format!("hwloc-bind --physical {} --", places.join(" "))
            },
            move_thread: |pu| format!("hwloc-bind --physical pu:{pu} --tid \"$tid\""),
        };
        bind(placement, self.name(), &binder)
    }
}
