//! Most of what tasks do, left out for who reads their steps for the waits in them.
//!
//! Nearly all accesses are of memory that no other task uses, one after another in pieces of code that do not repeat
//! at the same addresses. Such a piece is never made a step: its addresses are decoded, held against the blocks that
//! matter, and counted.

use crate::hashing::Filter;
use crate::looking::Looking;
use crate::polls::{Fingerprint, fingerprint};
use crate::{Step, StridedAccess};
use std::sync::Arc;

/// What is known of a task as far as its steps were told or left out, and what may be left out next.
#[derive(Debug, Default)]
pub struct Sieve {
    /// What it looks at again and again: such steps are told.
    pub(crate) looking: Looking,
    /// Blocks whose accesses are told; none: no access is told for the sake of where it is.
    pub(crate) blocks: Option<Arc<Matters>>,
    /// Whether the access that comes next is told, whatever it is.
    pub(crate) next_access: bool,
    /// So many accesses may be left out: after the step with which they are over, nothing is told or left out.
    pub(crate) most: u64,
    /// So many were left out since the last step.
    pub(crate) left_out: u64,
}

/// Blocks at which accesses matter to who looks for waits.
#[derive(Debug)]
pub(crate) struct Matters {
    /// All accesses there do: tasks wait for one another there, and have done so.
    pub always: Filter,
    /// Writes do.
    pub written: Filter,
}

impl Matters {
    #[inline]
    fn may_have(&self, access: &StridedAccess) -> bool {
        let which = if access.kind.writes() { &self.written } else { &self.always };
        which.may_have_some(access.base, access.size_bytes)
    }
}

/// What comes next of a task whose steps are not all told.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// A step.
    Step(Step),
    /// As much as may be was left out.
    Later,
    /// The task is at its end.
    End,
}

impl Sieve {
    /// Whether instructions without accesses, or where they are fetched from, are left out: their fingerprint, then.
    pub(crate) fn leaves_out(&mut self, step: &Step) -> Option<u64> {
        let mark = fingerprint(step);
        self.looking.passes(mark).then_some(mark)
    }

    /// The same of accesses that are made once, one after another.
    #[inline]
    pub(crate) fn leaves_out_accesses(&mut self, accesses: impl Iterator<Item = StridedAccess>) -> Option<u64> {
        if self.next_access || !self.looking.is_free() {
            return None;
        }
        let (mut mark, mut count) = (Fingerprint::default(), 0);
        for access in accesses {
            if access.atomic || self.blocks.as_ref().is_some_and(|blocks| blocks.may_have(&access)) {
                return None;
            }
            mark.add(&access);
            count += 1;
        }
        let mark = mark.finish();
        let passes = self.looking.passes(mark);
        debug_assert!(passes, "it was free");
        self.left_out = self.left_out.saturating_add(count);
        self.most = self.most.saturating_sub(count);
        Some(mark)
    }
}
