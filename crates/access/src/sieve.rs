//! Most of what tasks do, left out for who reads their steps for the waits in them.
//!
//! Nearly all accesses are of memory that no other task uses, one after another in pieces of code that do not repeat
//! at the same addresses. Such a piece is never made a step: its addresses are decoded, held against the blocks that
//! matter, and counted.

use crate::forced::blocks;
use crate::hashing::Filter;
use crate::looking::Looking;
use crate::polls::{Fingerprint, NO_FINGERPRINT, fingerprint};
use crate::{Step, StridedAccess};
use std::sync::Arc;

/// Loops over more bytes are told: the blocks of others are looked at one by one.
const LONGEST: u64 = 1 << 14;

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

    /// The same of all iterations of a loop; also true where that would take long to tell.
    fn may_have_any(&self, access: &StridedAccess, iterations: u64) -> bool {
        if access.stride == 0 {
            return self.may_have(access);
        }
        let (one, other) = (access.base, access.address(iterations - 1));
        let bytes = one.abs_diff(other).saturating_add(access.size_bytes.into());
        if bytes > LONGEST {
            return true;
        }
        let all = StridedAccess { base: one.min(other), size_bytes: bytes as u32, ..*access };
        let which = if access.kind.writes() { &self.written } else { &self.always };
        blocks(&all).any(|block| which.may_have(block))
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
        self.leave_out(count);
        Some(mark)
    }

    /// The same of a loop of several iterations, which has no fingerprint: whether it is left out.
    pub(crate) fn leaves_out_loop(&mut self, accesses: &[StridedAccess], iterations: u64) -> bool {
        if self.next_access || !self.looking.is_free() {
            return false;
        }
        let matters = |access: &StridedAccess| {
            access.atomic || self.blocks.as_ref().is_some_and(|blocks| blocks.may_have_any(access, iterations))
        };
        // One that looks at the same again and again is told.
        if accesses.iter().all(|access| access.stride == 0) || accesses.iter().any(matters) {
            return false;
        }
        self.looking.passes(NO_FINGERPRINT);
        self.leave_out(iterations.saturating_mul(accesses.len() as u64));
        true
    }

    fn leave_out(&mut self, count: u64) {
        self.left_out = self.left_out.saturating_add(count);
        self.most = self.most.saturating_sub(count);
    }
}
