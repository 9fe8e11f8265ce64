//! Communication as DeLoc defines it (II-B.2), read literally: two consecutive accesses of a line, a write by one task
//! and a read by another. Only the reader that comes directly after the write counts, where COMPROF counts the first
//! read of each.

use crate::hashing::{Blocks, forget, touched};
use crate::{Counts, Detected, Detector, Row, Setting};
use cohabit_access::order::Event;

pub const ROW: Row = Row {
    name: "deloc",
    about: "a write, and directly after it a read by another task",
    source: "DeLoc, II-B.2",
    sees: "every access; directed, by block",
    symmetric: false,
    complete: true,
    make: |setting| Box::new(Deloc::new(setting)),
};

struct Deloc {
    block_bytes: u64,
    /// Who wrote each block, where nobody has touched it since.
    written: Blocks<u32>,
    counts: Counts,
    accesses: u64,
}

impl Deloc {
    fn new(setting: &Setting) -> Self {
        let (block_bytes, counts) = (setting.block_bytes, Counts::new(setting.tasks));
        Self { block_bytes, written: Blocks::default(), counts, accesses: 0 }
    }
}

impl Detector for Deloc {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Access(access) => {
                self.accesses += 1;
                for block in touched(access.address, access.size_bytes, self.block_bytes) {
                    if access.kind.reads() {
                        if let Some(writer) = self.written.remove(&block).filter(|&writer| writer != access.task) {
                            self.counts.add(writer, access.task);
                        }
                    }
                    if access.kind.writes() {
                        self.written.insert(block, access.task);
                    }
                }
            }
            Event::Clear(range) => forget(&mut self.written, range, self.block_bytes),
            Event::Code { .. } => {}
        }
    }

    fn finish(self: Box<Self>) -> Detected {
        Detected { matrix: self.counts.matrix(), looked: self.accesses, occasions: self.accesses, overhead: None }
    }
}
