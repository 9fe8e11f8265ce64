//! Sharing: blocks that two tasks both touched within one window, summed over windows. What faults and TLBs can see at
//! best, and their exact reference.

use crate::hashing::{Blocks, touched};
use crate::{Counts, Detected, Detector, Row, Setting};
use cohabit_access::order::Event;

pub const ROW: Row = Row {
    name: "sharing",
    about: "blocks that two tasks both touched within one window",
    source: "docs/formats.md, sharing",
    sees: "every access; without direction, by block",
    symmetric: true,
    complete: true,
    make: |setting| Box::new(Sharing::new(setting)),
};

struct Sharing {
    block_bytes: u64,
    window: u64,
    /// Who touched each block in the window under way.
    touched: Blocks<Vec<u32>>,
    counts: Counts,
    accesses: u64,
}

impl Sharing {
    fn new(setting: &Setting) -> Self {
        Self {
            block_bytes: setting.block_bytes,
            window: setting.window_accesses.max(1),
            touched: Blocks::default(),
            counts: Counts::new(setting.tasks),
            accesses: 0,
        }
    }
}

impl Detector for Sharing {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Access(access) => {
                if self.accesses % self.window == 0 {
                    self.touched.clear();
                }
                self.accesses += 1;
                for block in touched(access.address, access.size_bytes, self.block_bytes) {
                    let by = self.touched.entry(block).or_default();
                    if by.contains(&access.task) {
                        continue;
                    }
                    for &other in by.iter() {
                        self.counts.add_pair(other, access.task, 1);
                    }
                    by.push(access.task);
                }
            }
            Event::Clear(range) => crate::hashing::forget(&mut self.touched, range, self.block_bytes),
            Event::Code { .. } => {}
        }
    }

    fn finish(self: Box<Self>) -> Detected {
        Detected { matrix: self.counts.matrix(), looked: self.accesses, occasions: self.accesses, overhead: None }
    }
}
