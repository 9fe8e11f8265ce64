//! What a task does, coded as what differs from a prediction (docs/formats.md, "Recording"; native/dbi/recorder_code.c
//! codes).
//!
//! For each segment it is remembered which one came after it, and for each of its anchors the last address and the
//! stride; what comes as predicted takes a part of a bit.

use crate::AccessKind;
use crate::segment::{ATOMIC, Segment, kind_of};
use cohabit_model::{Error, Result};

const RUN: u64 = 0;
const SEGMENT: u64 = 1;
const EVENT: u64 = 2;
const MASK: usize = 56;

const WAIT: u64 = 1;
const ACCESS: u64 = 2;
const UNMAP: u64 = 3;
const IDLE: u64 = 4;
const PHASE: u64 = 5;
const WAIT_IN_RUN: u64 = 6;
const MAPPINGS: u64 = 7;
const REMOTE: u64 = 8;
const CLEAR: u64 = 9;
const CHANNEL: u64 = 10;

/// What comes next in the coded stream of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// [`Decoder::ran`].
    Segment,
    /// [`Decoder::event`].
    Event,
    /// Nothing: it is the end of the stretch.
    End,
}

/// A segment ran so often in a row, each anchor moving by its stride.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub number: u32,
    pub times: u64,
    /// Of its anchors: where they were when it ran first, and their strides.
    pub addresses: Vec<(u64, i64)>,
}

/// What is not a segment that ran. Numbers of tasks and positions are those of the task's image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Coded {
    /// `order` 0: before what comes next; else within the last segment, before its access `order - 1`.
    Wait {
        order: u64,
        /// By its number in the run, not the image.
        in_run: bool,
        task: u64,
        position: u64,
        /// For data, for a lock, or in a system call.
        kind: u64,
    },
    Access {
        kind: AccessKind,
        /// At a word that is waited at.
        atomic: bool,
        address: u64,
        size_bytes: u64,
    },
    Unmap {
        start: u64,
        bytes: u64,
    },
    /// From here on, `order` > 0: from the last segment on, addresses are by this version of the mappings.
    Mappings {
        order: u64,
        version: u64,
    },
    /// An access of the memory of another image, by a version of its mappings.
    Remote {
        kind: AccessKind,
        image: u64,
        version: u64,
        address: u64,
        size_bytes: u64,
    },
    /// An access of the memory in which what goes through a channel lies meanwhile.
    Channel {
        kind: AccessKind,
        channel: u64,
        start: u64,
        size_bytes: u64,
    },
    /// Memory that processes share starts clean.
    Clear {
        object: u64,
        start: u64,
        bytes: u64,
    },
    Idle {
        time_ns: u64,
    },
    Phase {
        number: u64,
    },
}

#[derive(Debug, Clone, Copy, Default)]
struct Anchor {
    last: u64,
    stride: i64,
    candidate: i64,
}

#[derive(Debug, Clone)]
struct Prediction {
    next: Option<u32>,
    anchors: Box<[Anchor]>,
}

/// Decodes one stretch of a task's stream, from a restart of its predictions to the next.
#[derive(Debug)]
pub(crate) struct Decoder {
    from: Bytes,
    predictions: Vec<Option<Prediction>>,
    previous: Option<u32>,
    run: u64,
    last_address: u64,
    /// The segment that was decoded last, where it is what comes next: few bytes are moved for most of what there is.
    pub ran: Ran,
    event: Option<Coded>,
}

impl Decoder {
    pub fn new(from: Vec<u8>, segments: usize) -> Self {
        Self {
            from: Bytes::new(from),
            predictions: vec![None; segments],
            previous: None,
            run: 0,
            last_address: 0,
            ran: Ran::default(),
            event: None,
        }
    }

    /// Decodes what comes next.
    pub fn next(&mut self, segments: &[Segment]) -> Result<Next> {
        if self.run > 0 {
            return self.predicted();
        }
        let Some(token) = self.from.number_or_end()? else { return Ok(Next::End) };
        let value = token >> 2;
        match token & 3 {
            RUN if value > 0 => {
                self.run = value;
                self.predicted()
            }
            SEGMENT if value < 2 => self.segment(value == 1, segments),
            EVENT => {
                self.event = Some(self.decode_event(value)?);
                Ok(Next::Event)
            }
            _ => Err(damaged(&format!("token {token}"))),
        }
    }

    /// The event that was decoded last, once.
    pub fn event(&mut self) -> Option<Coded> {
        self.event.take()
    }

    /// One or more segments of a run: as many as are the same one.
    fn predicted(&mut self) -> Result<Next> {
        let previous = self.previous.and_then(|previous| self.predictions[previous as usize].as_ref());
        let number = previous.and_then(|previous| previous.next).ok_or_else(|| damaged("a run of nothing"))?;
        let again = self.previous == Some(number);
        let Some(prediction) = &mut self.predictions[number as usize] else { return Err(damaged("a run of nothing")) };
        // The last of a run may be followed by what lies within it: it is told by itself.
        let times = if again && self.run > 1 { self.run - 1 } else { 1 };
        self.ran.addresses.clear();
        for anchor in &mut prediction.anchors {
            self.ran.addresses.push((anchor.last.wrapping_add_signed(anchor.stride), anchor.stride));
            anchor.last = anchor.last.wrapping_add_signed(anchor.stride.wrapping_mul(times as i64));
        }
        self.previous = Some(number);
        self.run -= times;
        (self.ran.number, self.ran.times) = (number, times);
        Ok(Next::Segment)
    }

    fn segment(&mut self, other: bool, segments: &[Segment]) -> Result<Next> {
        let expected = self.previous.and_then(|previous| self.predictions[previous as usize].as_ref()?.next);
        let number = match expected {
            _ if other => u32::try_from(self.from.number()?).map_err(|_| damaged("the number of a segment"))?,
            Some(number) => number,
            None => return Err(damaged("a segment that follows nothing")),
        };
        let Some(segment) = segments.get(number as usize) else {
            return Err(damaged(&format!("segment {number} of {}", segments.len())));
        };
        if let Some(previous) = self.previous {
            if let Some(prediction) = &mut self.predictions[previous as usize] {
                prediction.next = Some(number);
            }
        }
        let anchors = || vec![Anchor::default(); segment.anchors as usize].into();
        let prediction =
            self.predictions[number as usize].get_or_insert_with(|| Prediction { next: None, anchors: anchors() });
        self.ran.addresses.clear();
        for some in prediction.anchors.chunks_mut(MASK) {
            let mask = self.from.number()?;
            for (bit, anchor) in some.iter_mut().enumerate() {
                let mut moved = anchor.stride;
                if mask >> bit & 1 == 1 {
                    moved = moved.wrapping_add(self.from.signed()?);
                    if moved == anchor.candidate {
                        anchor.stride = moved;
                    }
                    anchor.candidate = moved;
                }
                anchor.last = anchor.last.wrapping_add_signed(moved);
                self.ran.addresses.push((anchor.last, 0));
            }
        }
        self.previous = Some(number);
        (self.ran.number, self.ran.times) = (number, 1);
        Ok(Next::Segment)
    }

    fn decode_event(&mut self, event: u64) -> Result<Coded> {
        let first = self.from.number()?;
        Ok(match event {
            WAIT | WAIT_IN_RUN => {
                let (task, position) = (self.from.number()?, self.from.number()?);
                let in_run = event == WAIT_IN_RUN;
                Coded::Wait { order: first, in_run, task, position, kind: self.from.number()? }
            }
            ACCESS => {
                let (kind, atomic) = (kind(first)?, first & u64::from(ATOMIC) != 0);
                let size_bytes = self.from.number()?;
                self.last_address = self.last_address.wrapping_add_signed(self.from.signed()?);
                Coded::Access { kind, atomic, address: self.last_address, size_bytes }
            }
            UNMAP => Coded::Unmap { start: first, bytes: self.from.number()? },
            IDLE => Coded::Idle { time_ns: first },
            MAPPINGS => Coded::Mappings { order: first, version: self.from.number()? },
            REMOTE => {
                let (image, version) = (self.from.number()?, self.from.number()?);
                let (size_bytes, address) = (self.from.number()?, self.from.number()?);
                Coded::Remote { kind: kind(first)?, image, version, address, size_bytes }
            }
            CLEAR => Coded::Clear { start: first, object: self.from.number()?, bytes: self.from.number()? },
            CHANNEL => {
                let (channel, start) = (self.from.number()?, self.from.number()?);
                Coded::Channel { kind: kind(first)?, channel, start, size_bytes: self.from.number()? }
            }
            PHASE => Coded::Phase { number: first },
            _ => return Err(damaged(&format!("event {event}"))),
        })
    }
}

fn kind(number: u64) -> Result<AccessKind> {
    u16::try_from(number).ok().and_then(kind_of).ok_or_else(|| damaged("the kind of an access"))
}

fn damaged(what: &str) -> Error {
    Error::new(format!("damaged: {what}")).remedy("record it again")
}

/// Numbers of seven bits a byte.
#[derive(Debug)]
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    at: usize,
}

impl Bytes {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline]
    pub fn number_or_end(&mut self) -> Result<Option<u64>> {
        match self.bytes.get(self.at) {
            None => Ok(None),
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(Some(byte.into()))
            }
            Some(_) => self.long_number().map(Some),
        }
    }

    fn long_number(&mut self) -> Result<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = *self.bytes.get(self.at).ok_or_else(|| damaged("it ends within a number"))?;
            if shift > 63 {
                return Err(damaged("a number of more than 64 bits"));
            }
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    fn number(&mut self) -> Result<u64> {
        self.number_or_end()?.ok_or_else(|| damaged("it ends within a token"))
    }

    fn signed(&mut self) -> Result<i64> {
        let value = self.number()?;
        Ok(((value >> 1) as i64) ^ -((value & 1) as i64))
    }
}

/// Writes a number as [`Bytes`] reads it: seven bits a byte, lowest first, the top bit set in all but the last.
pub(crate) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
