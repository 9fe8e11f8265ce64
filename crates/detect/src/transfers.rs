//! From whom a task may get a value when it reads it first: any task that holds it, the writer or one that has read it
//! since.
//!
//! Exact communication counts the writer with each reader, and so values readers that are together at nothing. But the
//! second of them finds the value where the first has brought it. Here the read is one transfer as well, of which each
//! of the k tasks that hold the value at that moment gives a k-th: so there are as many transfers as messages, and
//! where a value has one reader both are the same.

use crate::hashing::{Blocks, forget, touched};
use crate::{Counts, Detected, Detector, Row, Setting};
use cohabit_access::order::Event;
use cohabit_model::Matrix;

/// Its row in the table.
pub const ROW: Row = Row {
    name: "transfers",
    about: "a read as in exact, from any task that holds the value, each a part of it",
    source: "ours",
    sees: "every access; directed, by block",
    symmetric: false,
    complete: true,
    make: |setting| Box::new(Transfers::new(setting)),
};

/// Parts that a transfer is counted in: those of up to 15 holders are whole. The same as in native/abi.h.
pub const PARTS: u64 = 360_360;

/// Counts them, one access after the other.
pub struct Transfers {
    block_bytes: u64,
    /// Who holds the value of each block that was written, the writer first.
    holders: Blocks<Vec<u32>>,
    /// In [`PARTS`].
    pub(crate) counts: Counts,
    accesses: u64,
}

impl Transfers {
    /// Of no access yet.
    pub fn new(setting: &Setting) -> Self {
        let (block_bytes, counts) = (setting.block_bytes, Counts::new(setting.tasks));
        Self { block_bytes, holders: Blocks::default(), counts, accesses: 0 }
    }

    /// Transfers so far, `[holder][reader]`, rounded.
    pub fn matrix(&self) -> Matrix {
        whole(&self.counts.matrix())
    }
}

/// Whole transfers of [`PARTS`].
pub fn whole(parts: &Matrix) -> Matrix {
    let whole = parts.iter().map(|(holder, reader, parts)| (holder, reader, (parts + PARTS / 2) / PARTS));
    Matrix::from_triplets(parts.tasks(), whole.filter(|cell| cell.2 > 0))
}

impl Detector for Transfers {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Access(access) => {
                self.accesses += 1;
                for block in touched(access.address, access.size_bytes, self.block_bytes) {
                    if access.kind.reads() {
                        if let Some(holders) = self.holders.get_mut(&block) {
                            if !holders.contains(&access.task) {
                                let part = PARTS / holders.len() as u64;
                                holders.iter().for_each(|&holder| self.counts.add_times(holder, access.task, part));
                                holders.push(access.task);
                            }
                        }
                    }
                    if access.kind.writes() {
                        let holders = self.holders.entry(block).or_default();
                        holders.clear();
                        holders.push(access.task);
                    }
                }
            }
            Event::Clear(range) => forget(&mut self.holders, range, self.block_bytes),
            Event::Code { .. } => {}
        }
    }

    fn finish(self: Box<Self>) -> Detected {
        Detected { matrix: self.matrix(), looked: self.accesses, occasions: self.accesses, overhead: None }
    }
}
