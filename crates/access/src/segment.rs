//! What a segment of a basic block does to memory, as recordings define it (docs/formats.md, "Recording").

use crate::AccessKind;
use cohabit_model::{Error, Result};

const HEAD_BYTES: usize = 32;
/// Before code was kept.
const HEAD_BYTES_WITHOUT_CODE: usize = 24;
/// The first format that has code.
pub(crate) const FIRST_FORMAT_WITH_CODE: u32 = 5;
/// Code ends with zeros, so that definitions begin at a multiple of this.
const ALIGN: usize = 8;
const ACCESS_BYTES: usize = 16;
const READ: u16 = 1;
const WRITE: u16 = 2;
pub(crate) const ATOMIC: u16 = 4;
const UNCONDITIONAL: u16 = 8;

/// Whose code a segment is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Owner {
    /// The program's.
    #[default]
    Program,
    /// That of a library which the program uses as its MPI library does.
    Common,
    /// The MPI library's.
    Mpi,
    /// The begin of a progress function, which the MPI library calls again and again while it waits.
    Progress,
}

/// One access of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentAccess {
    /// The anchor that its address is a constant distance from.
    pub anchor: u16,
    /// That distance.
    pub offset: i32,
    /// Length in bytes.
    pub size_bytes: u32,
    /// Load, store or both.
    pub kind: AccessKind,
    /// Whether it has a lock prefix or is an exchange.
    pub atomic: bool,
    /// [`crate::StridedAccess::unconditional`].
    pub unconditional: bool,
    /// Instructions since the access before, its own counted.
    pub instructions: u32,
}

/// Instructions that run one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Address of the first.
    pub pc: u64,
    /// Whose code they are.
    pub owner: Owner,
    /// From the first byte of its code to the last.
    pub code_bytes: u32,
    /// How many instructions.
    pub instructions: u32,
    /// Addresses that the run leaves for it.
    pub anchors: u32,
    /// Its accesses, in program order.
    pub accesses: Vec<SegmentAccess>,
    /// Its instructions as the processor reads them; of a very long segment without the last ones. Nothing in older
    /// recordings.
    pub code: Vec<u8>,
    /// Instructions behind the one that makes the last access.
    pub behind: u32,
}

/// Reads definitions that follow one another, in a recording of that format.
///
/// # Errors
/// They are cut short or contradict themselves.
pub fn read_segments(mut from: &[u8], format: u32) -> Result<Vec<Segment>> {
    let with_code = format >= FIRST_FORMAT_WITH_CODE;
    let mut segments = Vec::new();
    while !from.is_empty() {
        let (segment, rest) = read_segment(from, with_code)
            .ok_or_else(|| Error::new(format!("damaged: segment {} is not whole", segments.len())))?;
        segments.push(segment);
        from = rest;
    }
    Ok(segments)
}

fn read_segment(from: &[u8], with_code: bool) -> Option<(Segment, &[u8])> {
    let (head, rest) = from.split_at_checked(if with_code { HEAD_BYTES } else { HEAD_BYTES_WITHOUT_CODE })?;
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (anchors, count) = (word(head, 16), word(head, 20));
    let (accesses, rest) = rest.split_at_checked((count as usize).checked_mul(ACCESS_BYTES)?)?;
    let (code, behind) = if with_code { (word(head, 24) as usize, word(head, 28)) } else { (0, 0) };
    let (with_zeros, rest) = rest.split_at_checked(code.checked_next_multiple_of(ALIGN)?)?;
    let access = |bytes: &[u8]| {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (anchor, kind, size_bytes) = (half(8), half(10), word(bytes, 4));
        let fits = u32::from(anchor) < anchors && size_bytes > 0;
        let access = SegmentAccess {
            anchor,
            offset: word(bytes, 0) as i32,
            size_bytes,
            kind: kind_of(kind)?,
            atomic: kind & ATOMIC != 0,
            unconditional: kind & UNCONDITIONAL != 0,
            instructions: word(bytes, 12),
        };
        fits.then_some(access)
    };
    let segment = Segment {
        pc: u64::from_le_bytes(head[..8].try_into().expect("eight bytes")),
        owner: Owner::default(),
        instructions: word(head, 8),
        code_bytes: word(head, 12),
        anchors,
        accesses: accesses.chunks_exact(ACCESS_BYTES).map(access).collect::<Option<_>>()?,
        code: with_zeros[..code].to_vec(),
        behind,
    };
    (anchors <= count).then_some((segment, rest))
}

/// The kind that a number of the format stands for.
pub(crate) fn kind_of(number: u16) -> Option<AccessKind> {
    match number & (READ | WRITE) {
        READ => Some(AccessKind::Read),
        WRITE => Some(AccessKind::Write),
        0 => None,
        _ => Some(AccessKind::ReadWrite),
    }
}
