//! One memory access of one task: what exact detectors are fed.

/// What an access does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store.
    Write,
    /// A load and then a store of the same bytes (`lock xadd`, `add [mem], reg`): no other task comes in between.
    ReadWrite,
}

impl AccessKind {
    /// Whether memory is read.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether memory is written.
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// One access, as one instruction (one iteration of a string instruction, one element of a gather) or one system call
/// makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// The task that makes it.
    pub task: u32,
    /// Its first byte.
    pub address: u64,
    /// Its length in bytes; an access of 0 bytes touches nothing.
    pub size_bytes: u32,
    /// Load, store or both.
    pub kind: AccessKind,
    /// When, in ns since the program's start.
    pub time_ns: u64,
}

impl Access {
    /// An access at time 0.
    pub fn new(task: u32, kind: AccessKind, address: u64, size_bytes: u32) -> Self {
        Self { task, address, size_bytes, kind, time_ns: 0 }
    }
}
