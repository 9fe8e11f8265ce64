//! Where a program has the code of its MPI library, and its progress functions.

use cohabit_access::file::MpiCode;
use cohabit_host::symbols::Module;
use object::{Object, ObjectSymbol};
use std::collections::HashMap;

/// Functions that an MPI library calls again and again while it waits for messages: Open MPI's, and that of UCX, which
/// MPICH calls on each turn of its own loop.
const PROGRESS: [&str; 2] = ["opal_progress", "ucp_worker_progress"];
/// What the files of MPI libraries begin with, and those of libraries which only they use.
const OWN: [&str; 15] = [
    "libmpi",
    "libpmpi",
    "libcohabit-mpi",
    "libopen-",
    "libopal",
    "mca_",
    "libmca_",
    "libpmix",
    "libuc",
    "libfabric",
    "libpsm",
    "libevent",
    "libhwloc",
    "libibverbs",
    "librdmacm",
];
/// Those of libraries which programs use as well, and of what the kernel gives.
const COMMON: [&str; 11] =
    ["libc.", "libc-", "ld-", "libpthread", "libm.", "libm-", "librt", "libdl", "linux-vdso", "[vdso]", "libgcc_s"];

/// The progress functions of each file that was looked into, by their addresses in it.
#[derive(Debug, Default)]
pub(super) struct Known {
    files: HashMap<String, Vec<u64>>,
}

impl Known {
    /// What a program's modules say. None where none of them is of an MPI library with a progress function that is
    /// known.
    pub fn mpi_code(&mut self, modules: &[Module]) -> Option<MpiCode> {
        let mut code = MpiCode::default();
        for module in modules {
            let name = module.path.rsplit('/').next().unwrap_or_default();
            let begins = |with: &[&str]| with.iter().any(|begin| name.starts_with(begin));
            let range = (module.start, module.end);
            if begins(&OWN) {
                code.own.push(range);
                let known = self.files.entry(module.path.clone()).or_insert_with(|| progress_of(&module.path));
                let mapped = known.iter().map(|at| at.wrapping_sub(module.preferred).wrapping_add(module.start));
                code.progress.extend(mapped);
            } else if begins(&COMMON) {
                code.common.push(range);
            }
        }
        (!code.progress.is_empty()).then_some(code)
    }
}

fn progress_of(path: &str) -> Vec<u64> {
    let Ok(bytes) = std::fs::read(path) else { return Vec::new() };
    let Ok(file) = object::File::parse(&*bytes) else { return Vec::new() };
    let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let known = symbols.filter(|symbol| symbol.name().is_ok_and(|name| PROGRESS.contains(&name)));
    known.map(|symbol| symbol.address()).collect()
}
