//! The live machine, through libhwloc (hwloc 2.8 or later, by the hwlocality crate).
//!
//! libhwloc looks and writes its XML; [`super::xml`] reads that, so that a mapping file's text gives this topology
//! again.

use super::{Topology, xml};
use crate::{Error, Result};
use hwlocality::cpu::binding::CpuBindingFlags;
use hwlocality::topology::builder::BuildFlags;
use hwlocality::topology::editor::AllowSet;
use hwlocality::topology::export::xml::XMLExportFlags;

/// The machine this process runs on, with all its PUs that are online. Those are allowed that cgroup and cpuset let
/// hwloc use and that the calling thread's affinity mask holds: what a program started from here may run on.
///
/// # Errors
/// Where libhwloc cannot tell.
pub(super) fn live() -> Result<Topology> {
    let mut machine = hwlocality::Topology::builder()
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)
        .map_err(failed)?
        .build()
        .map_err(failed)?;
    // HWLOC_XMLFILE and HWLOC_SYNTHETIC make hwloc show another machine: there our affinity means nothing.
    if machine.is_this_system() {
        let mine = machine.cpu_binding(CpuBindingFlags::THREAD).map_err(failed)?;
        let allowed = &mine & &*machine.allowed_cpuset();
        machine.edit(|editor| editor.allow(AllowSet::from(&allowed))).map_err(failed)?;
    }
    let text = machine.export_xml(XMLExportFlags::default()).map_err(failed)?.as_str().to_owned();
    xml::parse(&text)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(format!("hwloc cannot describe this machine: {error}"))
        .remedy("see what lstopo says, or give a synthetic string")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::cpuset::CpuSet;

    #[test]
    fn the_live_machine_is_given_again_by_its_text() {
        let machine = live().unwrap();
        assert_eq!(Topology::parse_text(&machine.text), Ok(machine));
    }

    /// The kernel's own word: the mask of this thread, in the words that hwloc uses, too.
    #[test]
    #[cfg(target_os = "linux")]
    fn allowed_is_what_the_affinity_mask_allows() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).unwrap();
        let mask = CpuSet::parse(mask.trim()).unwrap();
        for pu in live().unwrap().pus {
            assert_eq!(pu.allowed, mask.contains(pu.os_index), "P#{}", pu.os_index);
        }
    }
}
