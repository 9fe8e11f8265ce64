//! What the running kernel says of itself that decides whether the eBPF detector can work: its release, its BTF, its
//! lockdown (kernel_lockdown(7)) and its process ids.

use cohabit_model::{Error, Result};
use std::fs;
use std::path::Path;

/// The first process-id namespace's inode number: BPF programs count in it.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// The oldest kernel that the detector is for (Debian 12's).
const OLDEST: (u32, u32) = (6, 1);

/// A kernel.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    /// As uname(2) says: `6.1.0-18-amd64`.
    release: String,
    has_btf: bool,
    /// `none [integrity] confidentiality`, the one in force in brackets; empty where there is none.
    lockdown: String,
    /// As the link in /proc says; empty where it is not known.
    pid_namespace: String,
}

impl Kernel {
    /// The one that runs.
    pub(super) fn running() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            release: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            has_btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            lockdown: text("/sys/kernel/security/lockdown"),
            pid_namespace: namespace.to_string_lossy().into_owned(),
        }
    }

    /// Whether the detector may be loaded, before it is tried.
    pub(super) fn check(&self) -> Result<()> {
        if self.version().is_some_and(|version| version < OLDEST) {
            let (major, minor) = OLDEST;
            return Err(Error::new(format!("Linux {} is too old for the eBPF detector", self.release))
                .remedy(format!("use Linux {major}.{minor} or later; until then perf events are used")));
        }
        if !self.has_btf {
            return Err(Error::new(
                "this kernel carries no BTF (/sys/kernel/btf/vmlinux), by which eBPF programs find its fields",
            )
            .remedy(
                "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are; until then perf events are used",
            ));
        }
        if !self.pid_namespace.is_empty() && self.pid_namespace != FIRST_PID_NAMESPACE {
            return Err(Error::new("process ids here are those of a container, and eBPF programs see the host's")
                .remedy("run cohabit on the host, or the container with --pid=host"));
        }
        Ok(())
    }

    /// What to do where it denied something.
    pub(super) fn remedy_for_denial(&self, is_root: bool) -> &'static str {
        if self.lockdown.contains("[confidentiality]") {
            return "the kernel is locked down (confidentiality), which forbids eBPF programs to read it; boot without it";
        }
        if is_root {
            return "root lacks capabilities here, as in a container: start it with --cap-add=BPF --cap-add=PERFMON --cap-add=SYS_RESOURCE";
        }
        "run as root, or give cohabit the rights: setcap cap_bpf,cap_perfmon,cap_sys_resource=ep"
    }

    fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.release.split(|character: char| !character.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_refused_by_cause_and_remedy() {
        let good = Kernel {
            release: "6.1.0-18-amd64".to_owned(),
            has_btf: true,
            lockdown: String::new(),
            pid_namespace: FIRST_PID_NAMESPACE.to_owned(),
        };
        let of = |release: &str| Kernel { release: release.to_owned(), ..good.clone() };
        for (kernel, cause, remedy) in [
            (of("5.10.0-28-amd64"), "Linux 5.10.0-28-amd64 is too old", "Linux 6.1 or later"),
            (of("6.0"), "Linux 6.0 is too old", "perf events are used"),
            // An old kernel without BTF is old first.
            (Kernel { has_btf: false, ..of("4.19.0") }, "Linux 4.19.0 is too old", "6.1"),
            (Kernel { has_btf: false, ..good.clone() }, "carries no BTF", "CONFIG_DEBUG_INFO_BTF=y"),
            (Kernel { pid_namespace: "pid:[1]".to_owned(), ..good.clone() }, "of a container", "--pid=host"),
        ] {
            let error = kernel.check().unwrap_err();
            assert!(error.cause.contains(cause), "{kernel:?}: {}", error.cause);
            assert!(error.remedy.as_ref().is_some_and(|said| said.contains(remedy)), "{kernel:?}: {error:?}");
        }
        for release in ["6.1.0", "6.18.44-x", "7.0-rc1", "10.2", "", "unheard of"] {
            assert_eq!(of(release).check(), Ok(()), "{release}");
        }
    }

    #[test]
    fn what_was_denied_has_a_remedy() {
        let kernel = |lockdown: &str| Kernel { lockdown: lockdown.to_owned(), ..Kernel::running() };
        for (lockdown, is_root, remedy) in [
            ("none integrity [confidentiality]", true, "locked down"),
            ("none [integrity] confidentiality", true, "--cap-add"),
            ("[none] integrity confidentiality", false, "setcap"),
            ("", false, "run as root"),
        ] {
            assert!(kernel(lockdown).remedy_for_denial(is_root).contains(remedy), "{lockdown} {is_root}");
        }
    }
}
