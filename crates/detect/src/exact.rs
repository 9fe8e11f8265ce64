//! Communication as COMPROF defines it (section III, counted at the read): a write, then the first read of that value
//! by each other task. The quick twin of [`crate::reference`].

use crate::hashing::{Blocks, forget, touched};
use crate::{Counts, Detected, Detector, Row, Setting};
use cohabit_access::order::Event;

pub const ROW: Row = Row {
    name: "exact",
    about: "a write, then the first read of that value by each other task",
    source: "COMPROF, section III",
    sees: "every access; directed, by block",
    symmetric: false,
    complete: true,
    make: |setting| Box::new(Exact::new(setting)),
};

/// A set of tasks that is a word where there are no more than 64 of them.
#[derive(Debug, Clone)]
enum Readers {
    Few(u64),
    Many(Box<[u64]>),
}

impl Readers {
    fn none(tasks: usize) -> Self {
        if tasks <= 64 { Self::Few(0) } else { Self::Many(vec![0; tasks.div_ceil(64)].into()) }
    }

    /// Whether the task was not among them.
    fn insert(&mut self, task: u32) -> bool {
        let word = match self {
            Self::Few(word) => word,
            Self::Many(words) => &mut words[task as usize / 64],
        };
        let bit = 1 << (task % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn clear(&mut self) {
        match self {
            Self::Few(word) => *word = 0,
            Self::Many(words) => words.fill(0),
        }
    }
}

#[derive(Debug)]
struct Block {
    writer: Option<u32>,
    readers: Readers,
}

pub(crate) struct Exact {
    tasks: usize,
    block_bytes: u64,
    blocks: Blocks<Block>,
    pub(crate) counts: Counts,
    /// Bytes that the reads which are counted read of their blocks.
    pub(crate) bytes: Counts,
    accesses: u64,
}

impl Exact {
    pub(crate) fn new(setting: &Setting) -> Self {
        Self {
            tasks: setting.tasks,
            block_bytes: setting.block_bytes,
            blocks: Blocks::default(),
            counts: Counts::new(setting.tasks),
            bytes: Counts::new(setting.tasks),
            accesses: 0,
        }
    }
}

impl Detector for Exact {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Access(access) => {
                self.accesses += 1;
                let tasks = self.tasks;
                for number in touched(access.address, access.size_bytes, self.block_bytes) {
                    let new = || Block { writer: None, readers: Readers::none(tasks) };
                    let block = self.blocks.entry(number).or_insert_with(new);
                    if access.kind.reads() && block.writer != Some(access.task) && block.readers.insert(access.task) {
                        if let Some(writer) = block.writer {
                            let block = number * self.block_bytes;
                            let from = access.address.max(block);
                            let end = access.address.saturating_add(access.size_bytes.into());
                            let some = end.min(block.saturating_add(self.block_bytes)).saturating_sub(from);
                            self.counts.add(writer, access.task);
                            self.bytes.add_times(writer, access.task, some);
                        }
                    }
                    if access.kind.writes() {
                        block.writer = Some(access.task);
                        block.readers.clear();
                    }
                }
            }
            Event::Clear(range) => forget(&mut self.blocks, range, self.block_bytes),
            Event::Code { .. } => {}
        }
    }

    fn finish(self: Box<Self>) -> Detected {
        Detected { matrix: self.counts.matrix(), looked: self.accesses, occasions: self.accesses, overhead: None }
    }
}
