//! Ranks of MPI that wait, found by the progress function of their library.
//!
//! A rank that waits for a message calls its library's progress function again and again, and how often says how busy
//! the recorded machine was. What the rank does from one call of it to the next, within one call of MPI, is a *look*.
//! [`Looks`] leaves out looks that found nothing ([`Step::Polled`] counts them, so that positions stay), and says of
//! waits within MPI which address is polled. Whoever reads the steps makes the polling again from the time that it
//! gives the ranks.
//!
//! A look found nothing if it waits for nobody, copies nothing from another process, writes nothing that processes
//! share, and does what an earlier one of the rank did, at the same addresses. What moves a message does none of that.
//! A wait belongs to the look that it is in: that look stays, and all that comes behind it until the next.

use crate::stage::{Mark, Stage};
use crate::{Reason, Step, StridedAccess};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Steps of a look that found nothing, at most.
const LONGEST_LOOK: usize = 1 << 14;
/// Looks that are remembered, at most: with one more all are forgotten.
const MOST_KNOWN: usize = 1 << 16;

/// Steps without looks that found nothing.
#[derive(Debug)]
pub(crate) struct Looks<T> {
    to: T,
    /// First address of memory that processes share.
    shared_from: u64,
    inside: bool,
    /// What the look under way has done; none where it has found something, or none is under way.
    look: Option<Vec<Step>>,
    /// Fingerprints of looks that waited for nobody.
    known: HashSet<u64>,
    /// Accesses of looks that are left out, not yet told.
    polled: u64,
    /// The last page of code that they ran.
    page: Option<u64>,
    /// A wait within MPI, and what came since: the address is that of the next access.
    waits: Vec<Step>,
}

impl<T: Stage> Looks<T> {
    pub fn new(to: T, shared_from: u64) -> Self {
        Self {
            to,
            shared_from,
            inside: false,
            look: None,
            known: HashSet::new(),
            polled: 0,
            page: None,
            waits: Vec::new(),
        }
    }

    /// A step within MPI, or before what came of it is told.
    fn within(&mut self, step: Step) {
        let waits = matches!(step, Step::Wait { reason: Reason::Data | Reason::Lock | Reason::Message, .. });
        if waits && self.inside {
            self.stays();
            return self.waits.push(step);
        }
        match &mut self.look {
            // It asks the kernel whether something has come, and does not sleep.
            Some(_) if matches!(step, Step::Idle { .. }) => {}
            Some(look) if look.len() < LONGEST_LOOK => look.push(step),
            _ => {
                self.stays();
                self.follow(step);
            }
        }
    }

    /// Whether a look that waited for nobody is one that found nothing.
    fn found_nothing(&mut self, look: &[Step]) -> bool {
        let mut hasher = DefaultHasher::new();
        for step in look {
            match step {
                Step::Loop { accesses, iterations } => {
                    if accesses.iter().any(|access| access.kind.writes() && access.base >= self.shared_from) {
                        return false;
                    }
                    // How long they wait for one another is no matter of what is found.
                    let alike = |access: &StridedAccess| StridedAccess { latency: 0, ..*access };
                    accesses.iter().map(alike).for_each(|access| access.hash(&mut hasher));
                    (accesses.len(), iterations).hash(&mut hasher);
                }
                Step::Compute { instructions, .. } => instructions.hash(&mut hasher),
                Step::Code { .. } => {} // it is told where it is another than before
                _ => return false,
            }
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        !self.known.insert(hasher.finish())
    }

    fn leave_out(&mut self, look: &[Step]) {
        for step in look {
            self.polled = self.polled.saturating_add(step.access_count());
            if let Step::Code { page } = step {
                self.page = Some(*page);
            }
        }
    }

    /// The look under way has found something, or nobody knows that it has not.
    fn stays(&mut self) {
        let look = self.look.take().unwrap_or_default();
        self.tell(look);
    }

    fn tell(&mut self, steps: Vec<Step>) {
        if self.polled > 0 {
            self.to.step(Step::Polled { accesses: std::mem::take(&mut self.polled) });
        }
        if let Some(page) = self.page.take() {
            self.to.step(Step::Code { page });
        }
        steps.into_iter().for_each(|step| self.follow(step));
    }

    /// A step that stays.
    fn follow(&mut self, step: Step) {
        if self.waits.is_empty() {
            return self.to.step(step);
        }
        let address = match &step {
            Step::Loop { accesses, .. } => accesses.first().map(|access| access.base),
            _ => None,
        };
        self.waits.push(step);
        if address.is_some() {
            self.tell_waits(address);
        }
    }

    fn tell_waits(&mut self, address: Option<u64>) {
        for mut step in self.waits.drain(..) {
            if let Step::Wait { reason: Reason::Data | Reason::Lock | Reason::Message, polled, .. } = &mut step {
                *polled = polled.or(address);
            }
            self.to.step(step);
        }
    }
}

impl<T: Stage> Stage for Looks<T> {
    #[inline]
    fn step(&mut self, step: Step) {
        // Outside MPI nothing is held back.
        match self.inside || self.look.is_some() || !self.waits.is_empty() {
            true => self.within(step),
            false => self.to.step(step),
        }
    }

    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::Enters => self.inside = true,
            Mark::Leaves => {
                self.stays();
                self.tell_waits(None);
                self.inside = false;
            }
            Mark::Moves => self.stays(),
            Mark::Looks => {
                self.tell_waits(None);
                match self.look.take() {
                    Some(look) if self.found_nothing(&look) => self.leave_out(&look),
                    look => self.tell(look.unwrap_or_default()),
                }
                self.look = Some(Vec::new());
            }
        }
    }

    fn end(&mut self) {
        self.stays();
        self.tell_waits(None);
        self.to.end();
    }

    fn forget(&mut self, in_mpi: bool) {
        self.to.forget(in_mpi);
        (self.inside, self.look, self.polled, self.page) = (in_mpi, None, 0, None);
        self.waits.clear();
    }

    #[inline]
    fn is_short(&self) -> bool {
        self.to.is_short()
    }

    #[inline]
    fn next(&mut self) -> Option<Step> {
        self.to.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AccessKind;
    use crate::stage::AsDecoded;

    const SHARED: u64 = 1 << 47;
    const FLAG: u64 = SHARED + 0x1008;

    /// What goes in.
    #[derive(Debug, Clone)]
    enum Marked {
        Step(Step),
        Mark(Mark),
    }
    const ENTERS: Marked = Marked::Mark(Mark::Enters);
    const LOOKS: Marked = Marked::Mark(Mark::Looks);
    const LEAVES: Marked = Marked::Mark(Mark::Leaves);

    fn told(marked: Vec<Marked>) -> Vec<Step> {
        let mut looks = Looks::new(AsDecoded::default(), SHARED);
        for each in marked {
            match each {
                Marked::Step(step) => looks.step(step),
                Marked::Mark(mark) => looks.mark(mark),
            }
        }
        looks.end();
        std::iter::from_fn(|| looks.next()).collect()
    }

    fn access(kind: AccessKind, address: u64) -> Marked {
        Marked::Step(Step::access(StridedAccess::new(kind, address, 8)))
    }

    fn read(address: u64) -> Marked {
        access(AccessKind::Read, address)
    }

    fn wait(reason: Reason, polled: Option<u64>) -> Step {
        Step::Wait { task: 1, position: 9, reason, polled }
    }

    fn plain(marked: &[Marked]) -> Vec<Step> {
        let steps = marked.iter().filter_map(|marked| match marked {
            Marked::Step(step) => Some(step.clone()),
            _ => None,
        });
        steps.collect()
    }

    fn positions(steps: &[Step]) -> u64 {
        steps.iter().map(Step::access_count).sum()
    }

    fn polls(steps: &[Step]) -> u64 {
        let of = |step: &Step| if let Step::Polled { accesses } = step { *accesses } else { 0 };
        steps.iter().map(of).sum()
    }

    /// Counts, sees the flag, asks the kernel.
    fn look() -> Vec<Marked> {
        let idle = Marked::Step(Step::Idle { time_ns: 77 });
        vec![LOOKS, access(AccessKind::ReadWrite, 0x2000), read(FLAG), idle, read(0x3000)]
    }

    /// A message comes after so many looks.
    fn receive(looks: usize) -> Vec<Marked> {
        let mut marked = vec![read(0x100), ENTERS, access(AccessKind::Write, 0x200)];
        (0..looks).for_each(|_| marked.extend(look()));
        marked.extend([LOOKS, access(AccessKind::ReadWrite, 0x2000), Marked::Step(wait(Reason::Data, None))]);
        marked.extend([Marked::Step(Step::Code { page: 7 }), read(FLAG), access(AccessKind::Write, 0x5000)]);
        marked.extend([LEAVES, read(0x108)]);
        marked
    }

    #[test]
    fn how_often_a_rank_looked_before_its_message_came_is_counted_and_no_more() {
        let mut wanted = plain(&receive(0));
        wanted.iter_mut().for_each(|step| {
            if let Step::Wait { polled, .. } = step {
                *polled = Some(FLAG);
            }
        });
        assert_eq!(told(receive(0)), wanted);
        // The first look of all is not known yet; a second message's are.
        for (first, second) in [(2, 0), (2, 1), (2, 900), (50, 3)] {
            let mut marked = receive(first);
            marked.extend(receive(second));
            let found = told(marked.clone());
            assert_eq!(positions(&found), positions(&plain(&marked)), "{first} {second}");
            assert_eq!(polls(&found), 3 * (first + second - 1) as u64, "{first} {second}");
            let second_message = &found[found.len() - wanted.len() - usize::from(second > 0)..];
            let rest: Vec<_> =
                second_message.iter().filter(|step| !matches!(step, Step::Polled { .. })).cloned().collect();
            assert_eq!(rest, wanted, "{first} {second}");
        }
    }

    #[test]
    fn how_long_instructions_wait_tells_no_look_apart() {
        let mut marked = vec![ENTERS];
        for round in 0..5 {
            let access = StridedAccess { latency: round, ..StridedAccess::new(AccessKind::Read, FLAG, 8) };
            marked.extend([LOOKS, Marked::Step(Step::access(access))]);
            marked.push(Marked::Step(Step::Compute { instructions: 3, latency: round.into() }));
        }
        marked.extend([LOOKS, LEAVES]);
        assert_eq!(polls(&told(marked)), 4);
    }

    #[test]
    fn what_moves_a_message_stays() {
        for does in
            [access(AccessKind::Write, SHARED + 64), Marked::Mark(Mark::Moves), Marked::Step(Step::Phase { number: 1 })]
        {
            let mut marked = vec![ENTERS];
            for _ in 0..4 {
                marked.extend(look());
                marked.push(does.clone());
            }
            marked.extend([LOOKS, LEAVES]);
            assert_eq!(polls(&told(marked)), 0, "{does:?}");
        }
        // Each copies another piece.
        let mut marked = vec![ENTERS];
        for piece in 0..4 {
            marked.extend(look());
            marked.push(access(AccessKind::Write, 0x8000 + piece * 64));
        }
        marked.extend([LOOKS, LEAVES]);
        assert_eq!(polls(&told(marked)), 0);
    }

    #[test]
    fn what_the_program_asks_itself_is_not_polling() {
        let mut marked = Vec::new();
        for _ in 0..5 {
            marked.push(ENTERS);
            marked.extend(look());
            marked.extend([LEAVES, read(0x100), Marked::Step(wait(Reason::Data, None)), read(0x9000)]);
        }
        let found = told(marked);
        assert_eq!(polls(&found), 0);
        assert!(found.contains(&wait(Reason::Data, None)) && !found.contains(&wait(Reason::Data, Some(0x9000))));
    }

    #[test]
    fn who_sleeps_until_a_task_ends_does_not_poll() {
        let marked = vec![ENTERS, Marked::Step(wait(Reason::End, None)), read(FLAG), LEAVES];
        assert_eq!(told(marked)[0], wait(Reason::End, None));
    }

    #[test]
    fn the_page_of_code_that_a_look_left_is_told() {
        let mut marked = vec![ENTERS];
        for page in [4, 4, 5] {
            marked.extend([LOOKS, Marked::Step(Step::Code { page }), read(FLAG)]);
        }
        marked.extend([LOOKS, LEAVES, read(0x100)]);
        let found = told(marked);
        assert_eq!(polls(&found), 2);
        let last = found.iter().rposition(|step| matches!(step, Step::Code { page: 5 }));
        assert_eq!(last, Some(found.len() - 2), "{found:?}");
    }
}
