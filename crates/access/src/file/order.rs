//! What a recording has of the order that the program forces: the waits of each task for data and for atomic accesses,
//! in place of those that the recorder kept ([`crate::forced`]).

use super::{RecordingFile, order_member};
use crate::coding::{Bytes, put_number};
use crate::forced::ForcedWait;
use crate::{Reason, Recording};
use cohabit_model::{Error, Result};

/// The first format that has waits so. What format 3 has instead is not read: its waits are by blocks.
const FIRST_FORMAT: u32 = 4;

/// Of each wait the accesses that the task has made since the wait before, twice, and 1 more for an atomic access; the
/// task that is waited for, and its position. Numbers are as in steps.
pub(super) fn coded(waits: &[ForcedWait]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |number: u64| put_number(&mut bytes, number);
    let mut at = 0;
    for wait in waits {
        put((wait.at - at) << 1 | u64::from(wait.reason == Reason::Lock));
        put(wait.task.into());
        put(wait.position);
        at = wait.at;
    }
    bytes
}

/// The waits of a task, in their order.
#[derive(Debug)]
pub(super) struct ForcedOrder {
    bytes: Bytes,
    tasks: u32,
    next: Option<ForcedWait>,
}

impl ForcedOrder {
    /// Of a task of a recording; none where its waits are as the recorder kept them.
    pub fn of(file: &RecordingFile, task: u32) -> Result<Option<Self>> {
        if !Self::is_in(file) {
            return Ok(None);
        }
        Self::new(file.read(&order_member(task))?, file.tasks().len()).map(Some)
    }

    /// Whether the recording's waits are these.
    pub fn is_in(file: &RecordingFile) -> bool {
        file.meta.format >= FIRST_FORMAT && (file.tasks().is_empty() || file.has(&order_member(0)))
    }

    /// Waits as [`coded`] has them, of a run of so many tasks.
    pub fn new(bytes: Vec<u8>, tasks: usize) -> Result<Self> {
        let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
        let mut order = Self { bytes: Bytes::new(bytes), tasks, next: None };
        order.next = order.read(0)?;
        Ok(order)
    }

    /// Before which access the next wait is; none: there is no other.
    pub fn next_at(&self) -> Option<u64> {
        self.next.map(|wait| wait.at)
    }

    /// The next wait, if it lies before so many accesses of the task.
    pub fn take_before(&mut self, position: u64) -> Result<Option<ForcedWait>> {
        let Some(wait) = self.next.filter(|wait| wait.at < position) else { return Ok(None) };
        self.next = self.read(wait.at)?;
        Ok(Some(wait))
    }

    fn read(&mut self, before: u64) -> Result<Option<ForcedWait>> {
        let Some(first) = self.bytes.number_or_end()? else { return Ok(None) };
        let mut number = || self.bytes.number_or_end()?.ok_or_else(|| damaged("it ends within a wait"));
        let (task, position) = (number()?, number()?);
        let task = u32::try_from(task).ok().filter(|&task| task < self.tasks);
        let task = task.ok_or_else(|| damaged("a wait for a task that it has not"))?;
        let reason = if first & 1 == 1 { Reason::Lock } else { Reason::Data };
        let at = before.checked_add(first >> 1).ok_or_else(|| damaged("a wait behind all accesses"))?;
        Ok(Some(ForcedWait { at, task, position, reason }))
    }
}

fn damaged(what: &str) -> Error {
    Error::new(format!("damaged: in the order that is forced: {what}")).remedy("record it again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_as_they_were_written() {
        let wait = |at, task, position, reason| ForcedWait { at, task, position, reason };
        let waits =
            [wait(0, 3, 1 << 40, Reason::Data), wait(0, 0, 127, Reason::Lock), wait(1 << 33, 2, 128, Reason::Data)];
        let mut read = ForcedOrder::new(coded(&waits), 4).unwrap();
        assert_eq!(read.take_before(0).unwrap(), None);
        for wait in waits {
            assert_eq!(read.next_at(), Some(wait.at));
            assert_eq!(read.take_before(wait.at).unwrap(), None);
            assert_eq!(read.take_before(wait.at + 1).unwrap(), Some(wait));
        }
        assert_eq!(read.next_at(), None);
        assert_eq!(read.take_before(u64::MAX).unwrap(), None);
        let cause = |bytes: Vec<u8>, tasks| ForcedOrder::new(bytes, tasks).unwrap_err().cause;
        assert!(cause(coded(&waits), 3).contains("has not"));
        assert!(cause(vec![0xff; 12], 3).contains("64 bits"));
        assert!(cause(vec![2, 1], 3).contains("within a wait"));
    }
}
