//! Who holds the same value: a block's last writer and all who read it since, readers with readers too.
//!
//! A value that n tasks hold goes from one to another n - 1 times, if they are all apart, and once less for each that
//! is with one who has it already, whether that is the writer or another reader. Exact communication counts the writer
//! with each reader, and so values readers that are together at nothing. Here each of the n (n - 1) / 2 pairs gets the
//! same part of the n - 1 transfers, 2 / n: a net as a clique, as circuits are partitioned (Alpert and Kahng,
//! Integration 19, 1995, section 2.1). What nobody has written yet comes from memory, once for each place that has no
//! holder: it counts alike.

use crate::hashing::{Blocks, touched};
use crate::transfers::{PARTS, whole};
use crate::{Counts, Detected, Detector, Row, Setting};
use cohabit_access::order::Event;

pub const ROW: Row = Row {
    name: "holders",
    about: "a value's writer and readers, each pair a part of its transfers",
    source: "ours; a net as a clique (Alpert and Kahng 1995)",
    sees: "every access; without direction, by block",
    symmetric: true,
    complete: true,
    make: |setting| Box::new(Holders::new(setting)),
};

struct Holders {
    block_bytes: u64,
    /// Who holds what is in each block, the writer first.
    holders: Blocks<Vec<u32>>,
    /// In [`PARTS`].
    counts: Counts,
    accesses: u64,
}

impl Holders {
    fn new(setting: &Setting) -> Self {
        let (block_bytes, counts) = (setting.block_bytes, Counts::new(setting.tasks));
        Self { block_bytes, holders: Blocks::default(), counts, accesses: 0 }
    }
}

/// The value is gone: what it was worth is counted.
fn count(counts: &mut Counts, holders: &[u32]) {
    // Whole up to 16 holders.
    let part = 2 * PARTS / (holders.len() as u64).max(1);
    for (at, &a) in holders.iter().enumerate() {
        holders[..at].iter().for_each(|&b| counts.add_pair(a, b, part));
    }
}

impl Detector for Holders {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Access(access) => {
                self.accesses += 1;
                for block in touched(access.address, access.size_bytes, self.block_bytes) {
                    let holders = self.holders.entry(block).or_default();
                    // What is read and then written was held as well.
                    if access.kind.reads() && !holders.contains(&access.task) {
                        holders.push(access.task);
                    }
                    if access.kind.writes() {
                        count(&mut self.counts, holders);
                        holders.clear();
                        holders.push(access.task);
                    }
                }
            }
            Event::Clear(range) => {
                let (counts, block_bytes) = (&mut self.counts, self.block_bytes);
                crate::hashing::forget_each(&mut self.holders, range, block_bytes, |holders| count(counts, &holders));
            }
            Event::Code { .. } => {}
        }
    }

    fn finish(mut self: Box<Self>) -> Detected {
        for holders in self.holders.values() {
            count(&mut self.counts, holders);
        }
        Detected {
            matrix: whole(&self.counts.matrix()),
            looked: self.accesses,
            occasions: self.accesses,
            overhead: None,
        }
    }
}
