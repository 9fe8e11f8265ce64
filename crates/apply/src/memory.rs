//! Where the memory of a program that is to be started comes from: on which NUMA nodes (set_mempolicy(2), which what is
//! started inherits).

use cohabit_host::CpuMask;
use cohabit_model::{Error, Result};
use std::fs;
use std::io;
use std::path::Path;

const NODES: &str = "/sys/devices/system/node";
const MPOL_DEFAULT: libc::c_int = 0;
const MPOL_BIND: libc::c_int = 2;
const MPOL_INTERLEAVE: libc::c_int = 3;
/// The kernel has no more nodes (CONFIG_NODES_SHIFT is at most 10).
const MOST_NODES: usize = 1024;
const WORD: usize = u64::BITS as usize;

/// Where memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// From the node of the thread that touches a page first: the system's own way.
    FirstTouch,
    /// From all nodes in turn, a page each.
    Interleave,
    /// From the nodes of the PUs that the program runs on, and from no others.
    Bind,
}

/// A policy with the nodes that it is about, ready to be set between fork and exec.
#[derive(Debug, Clone)]
pub struct Memory {
    mode: libc::c_int,
    mask: [u64; MOST_NODES / WORD],
}

impl Memory {
    /// For a program that runs on these PUs (OS indices).
    ///
    /// # Errors
    /// Where the machine has one node with memory, on which all policies are the same, or does not tell its nodes.
    pub fn new(policy: Policy, pus: &[u32]) -> Result<Self> {
        Self::below(Path::new(NODES), policy, pus)
    }

    fn below(folder: &Path, policy: Policy, pus: &[u32]) -> Result<Self> {
        let nodes = list(folder, "has_memory")?;
        if nodes.len() < 2 {
            return Err(Error::new("this machine has one NUMA node: memory comes from there whatever is asked for")
                .remedy("leave --memory out"));
        }
        let (mode, nodes) = match policy {
            Policy::FirstTouch => (MPOL_DEFAULT, Vec::new()),
            Policy::Interleave => (MPOL_INTERLEAVE, nodes),
            Policy::Bind => {
                let holds = |node: &u32| {
                    let own = list(&folder.join(format!("node{node}")), "cpulist").unwrap_or_default();
                    pus.iter().any(|pu| own.contains(pu))
                };
                (MPOL_BIND, nodes.into_iter().filter(holds).collect())
            }
        };
        if nodes.is_empty() && mode != MPOL_DEFAULT {
            return Err(Error::new("no NUMA node with memory has PUs that the program may run on")
                .remedy("leave --memory bind out"));
        }
        let mut mask = [0; MOST_NODES / WORD];
        for node in nodes.into_iter().map(|node| node as usize).filter(|&node| node < MOST_NODES) {
            mask[node / WORD] |= 1 << (node % WORD);
        }
        Ok(Self { mode, mask })
    }

    /// Sets it for the calling thread and what it starts. A system call and nothing else: for a forked child as well.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set(&self) -> io::Result<()> {
        // The kernel reads one bit less than it is told of, and the system's own way has no mask.
        let (mask, bits) = match self.mode {
            MPOL_DEFAULT => (std::ptr::null(), 0),
            _ => (self.mask.as_ptr(), MOST_NODES + 1),
        };
        // SAFETY: the mask has as many bits as the kernel reads, and is only read.
        match unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode, mask, bits) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn list(folder: &Path, name: &str) -> Result<Vec<u32>> {
    let path = folder.join(name);
    let text = fs::read_to_string(&path).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    Ok(CpuMask::parse(text.trim()).map(|mask| mask.pus()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any kernel takes these, whatever nodes it has.
    #[test]
    fn the_kernel_takes_each_mode() {
        let mut mask = [0; MOST_NODES / WORD];
        Memory { mode: MPOL_DEFAULT, mask }.set().unwrap();
        mask[0] = 1;
        // Of this thread, which ends.
        std::thread::spawn(move || {
            for mode in [MPOL_BIND, MPOL_INTERLEAVE, MPOL_DEFAULT] {
                Memory { mode, mask }.set().unwrap();
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn nodes_are_those_of_the_pus() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("has_memory", "0-1,65\n");
        put("node0/cpulist", "0-3\n");
        put("node1/cpulist", "4-7\n");
        put("node65/cpulist", "\n");
        for (policy, pus, mode, first, second) in [
            (Policy::FirstTouch, &[0][..], MPOL_DEFAULT, 0, 0),
            (Policy::Interleave, &[0], MPOL_INTERLEAVE, 0b11, 0b10),
            (Policy::Bind, &[5, 6], MPOL_BIND, 0b10, 0),
            (Policy::Bind, &[0, 4], MPOL_BIND, 0b11, 0),
        ] {
            let memory = Memory::below(root.path(), policy, pus).unwrap();
            assert_eq!((memory.mode, memory.mask[0], memory.mask[1]), (mode, first, second), "{policy:?}");
        }
        let refused = Memory::below(root.path(), Policy::Bind, &[99]).unwrap_err();
        assert!(refused.cause.contains("no NUMA node"), "{refused}");
        put("has_memory", "0\n");
        assert!(Memory::below(root.path(), Policy::Interleave, &[0]).unwrap_err().cause.contains("one NUMA node"));
    }
}
