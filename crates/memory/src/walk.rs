//! A task's steps, as far as they are its core's own affair: loops through the L1, computing, and what else needs
//! nobody.

use crate::clock::{NS, Time};
use crate::engine::{Engine, Observer, Stop, count_miss};
use crate::report::Served;
use crate::task::{Task, Walk, Work};
use crate::tlb::{self, Found};
use cohabit_access::{AccessKind, PARTS_OF_A_CYCLE, Step};
use cohabit_model::Result;

impl<'a, O: Observer> Engine<'a, '_, O> {
    /// Runs a task until it is ahead of `horizon`, or comes to what has to be done in its turn.
    pub(crate) fn go_on(&mut self, task: &mut Task<'a>, each: Time, horizon: Time) -> Result<Stop> {
        loop {
            match &task.work {
                Work::Walk => match self.walk(task, each, horizon) {
                    None => task.work = Work::Nothing,
                    Some(stop) => return Ok(stop),
                },
                Work::Nothing => match task.steps.next_step()? {
                    None => {
                        task.clock.drain();
                        return Ok(Stop::Ended);
                    }
                    Some(Step::Loop { accesses, iterations }) if !accesses.is_empty() => {
                        let before = std::mem::replace(&mut task.walk, Walk::new(accesses, iterations));
                        task.steps.recycle(before.accesses);
                        task.work = Work::Walk;
                    }
                    Some(step) => task.work = Work::Step(step),
                },
                Work::Step(step) => match step {
                    Step::Wait { task: on, position, .. } => {
                        let (on, position) = (*on as usize, *position);
                        self.check_wait(task, on, position)?;
                        if self.passed(on, position).is_none_or(|passed| passed > task.clock.time) {
                            return Ok(Stop::Turn);
                        }
                        task.work = Work::Nothing;
                    }
                    Step::Unmap { .. } => return Ok(Stop::Turn),
                    Step::Polled { accesses } => {
                        task.position = task.position.saturating_add(*accesses);
                        task.made_at = task.clock.time;
                        task.report.polls_recorded = task.report.polls_recorded.saturating_add(*accesses);
                        task.work = Work::Nothing;
                    }
                    Step::Skipped { accesses } => {
                        task.position = task.position.saturating_add(*accesses);
                        task.made_at = task.clock.time;
                        task.work = Work::Nothing;
                    }
                    Step::Cut { number } => {
                        let number = *number;
                        self.note_cut(task, number);
                        task.work = Work::Nothing;
                    }
                    Step::Idle { time_ns } => {
                        let time = time_ns.saturating_mul(NS).min(crate::clock::LONGEST);
                        task.report.idle_fs = task.report.idle_fs.saturating_add(time);
                        task.work = Work::Nothing;
                        task.clock.drain();
                        return Ok(Stop::Sleeps(task.clock.time.saturating_add(time).min(crate::clock::NEVER - 1)));
                    }
                    Step::Compute { instructions, latency } => {
                        let (instructions, latency) = (*instructions, *latency);
                        let most = crate::clock::LONGEST / each.max(1);
                        task.note_at(task.clock.time);
                        if instructions > most {
                            // Told where times are checked.
                            task.clock.time = crate::clock::LONGEST + 1;
                        } else {
                            task.clock.advance(instructions, each);
                            self.depend(task, latency);
                        }
                        task.work = Work::Nothing;
                        if task.clock.time > horizon {
                            return Ok(Stop::Ahead);
                        }
                    }
                    Step::Code { page } => {
                        let page = *page;
                        self.fetch_code(task, page);
                        task.work = Work::Nothing;
                    }
                    Step::Phase { .. } | Step::Loop { .. } => task.work = Work::Nothing,
                },
            }
        }
    }

    /// Instructions come from another page of 4 KiB.
    fn fetch_code(&mut self, task: &mut Task<'a>, page: u64) {
        let Some(tlb) = self.tlbs.get_mut(task.core) else { return };
        let page = page << 12 >> self.machine.page_bits();
        let key = tlb::key(task.process, page);
        match tlb.find_code(key) {
            Found::First => {}
            found => {
                task.report.code_tlb_misses += 1;
                self.classify_code(task, key);
                pay(task, found);
            }
        }
    }

    /// Goes on with a loop; none where it is done.
    fn walk(&mut self, task: &mut Task<'a>, each: Time, horizon: Time) -> Option<Stop> {
        loop {
            let walk = &mut task.walk;
            if walk.iteration == walk.iterations {
                return None;
            }
            if !walk.begun {
                let access = &walk.accesses[walk.index];
                let address = access.address(walk.iteration);
                let end = address.saturating_add(u64::from(access.size_bytes.max(1)) - 1);
                (walk.line, walk.last) = (address >> self.machine.line_bits, end >> self.machine.line_bits);
                walk.straddles |= walk.line != walk.last;
                walk.begun = true;
                let (latency, atomic) = (access.latency, access.atomic);
                task.clock.advance(u64::from(access.instructions), each);
                self.depend(task, latency.into());
                if atomic {
                    task.clock.drain();
                }
            }
            if task.clock.time > horizon {
                return Some(Stop::Ahead);
            }
            debug_assert!(task.walk.line <= task.walk.last, "what is finished is not begun");
            while task.walk.line <= task.walk.last {
                if !self.access_alone(task) {
                    task.walk.hits = 0;
                    return Some(Stop::Turn);
                }
                task.walk.line += 1;
            }
            self.finish_access(task, each, horizon);
        }
    }

    /// The instructions begun last have waited for one another.
    #[inline]
    fn depend(&self, task: &mut Task<'a>, latency: u64) {
        if self.machine.core.dependences {
            task.clock.depend(self.time_of(latency));
        }
    }

    fn time_of(&self, latency: u64) -> Time {
        latency.saturating_mul(self.machine.core.cycle) / PARTS_OF_A_CYCLE
    }

    /// The next line of an access, where TLB and L1 can serve it.
    #[inline]
    pub(crate) fn access_alone(&mut self, task: &mut Task<'a>) -> bool {
        let walk = &task.walk;
        let (line, kind) = (walk.line, walk.accesses[walk.index].kind);
        let page = self.caches.pages.page_of(line << self.machine.line_bits);
        match self.tlbs.get_mut(task.core) {
            Some(tlb) if task.page != (page, tlb.generation) => {
                if !tlb.has_data(tlb::key(task.process, page)) {
                    return false;
                }
                task.page = (page, tlb.generation);
            }
            None if task.page.0 != page => {
                if !self.caches.pages.knows(page) {
                    return false;
                }
                task.page = (page, 0);
            }
            _ => {}
        }
        if !self.caches.hits_first(task.core, line, kind.writes()) {
            return false;
        }
        let served = match task.clock.joins(line, kind.reads()) {
            true => Served::FillBuffer,
            false => Served::L1,
        };
        if kind == AccessKind::Read {
            *task.report.loads_served.at(served) += 1;
            task.report.loads += 1;
        } else {
            *task.report.stores_served.at(served) += 1;
            task.report.stores += 1;
        }
        if kind.reads() && self.machine.core.window == 0 {
            task.clock.stall(self.hit_stall());
        }
        task.walk.hits += 1;
        if O::WATCHES {
            self.observer.access(task.number, task.core, line, kind.writes());
            self.caches.note_hit(task.core, line, kind.writes());
        }
        true
    }

    /// What each load that the L1 serves holds up a core that waits for it: a cycle of it is the instruction's own.
    fn hit_stall(&self) -> Time {
        match self.machine.core.window {
            0 => self.machine.levels[0].latency.saturating_sub(self.machine.core.cycle),
            _ => 0,
        }
    }

    pub(crate) fn finish_access(&mut self, task: &mut Task<'a>, each: Time, horizon: Time) {
        task.position += 1;
        task.made_at = task.clock.time;
        let walk = &mut task.walk;
        walk.begun = false;
        walk.index += 1;
        if walk.index < walk.accesses.len() {
            return;
        }
        walk.index = 0;
        walk.iteration += 1;
        let all_hit = walk.hits == walk.accesses.len() && !walk.straddles;
        walk.straddles = false;
        walk.hits = 0;
        if all_hit && walk.iteration < walk.iterations {
            self.repeat(task, each, horizon);
        }
    }

    /// Iterations that touch the lines of the one before, which the L1 served: nothing changes but time and counts.
    fn repeat(&mut self, task: &mut Task<'a>, each: Time, horizon: Time) {
        let walk = &task.walk;
        if walk.accesses.iter().any(|access| access.atomic) {
            return;
        }
        let reads = walk.accesses.iter().filter(|access| access.kind.reads()).count() as u64;
        let stall = reads * self.hit_stall();
        let latency = walk.latency;
        let cost = (walk.instructions * each + stall).max(self.time_of(latency));
        let ahead = horizon.saturating_sub(task.clock.time).checked_div(cost).unwrap_or(u64::MAX);
        let count = walk.in_same_lines(self.machine.line_bits).min(ahead);
        if count == 0 {
            return;
        }
        let (mut joined_loads, mut joined_stores) = (0, 0);
        for access in &walk.accesses {
            let line = access.address(walk.iteration) >> self.machine.line_bits;
            let under_way = task.clock.under_way(line).div_ceil(cost.max(1)).min(count);
            if access.kind == AccessKind::Read {
                joined_loads += under_way;
            } else {
                joined_stores += under_way;
            }
        }
        let (loads, stores) = (count * walk.loads, count * walk.stores);
        let report = &mut task.report;
        report.loads += loads;
        report.stores += stores;
        report.loads_served.l1 += loads - joined_loads;
        report.loads_served.fill_buffer += joined_loads;
        report.stores_served.l1 += stores - joined_stores;
        report.stores_served.fill_buffer += joined_stores;
        if O::WATCHES {
            for iteration in walk.iteration..walk.iteration + count {
                for access in &walk.accesses {
                    let line = access.address(iteration) >> self.machine.line_bits;
                    self.observer.access(task.number, task.core, line, access.kind.writes());
                }
            }
        }
        task.position += count * walk.accesses.len() as u64;
        task.clock.advance(count * walk.instructions, each);
        task.clock.stall(count * stall);
        self.depend(task, count.saturating_mul(latency));
        task.made_at = task.clock.time;
        task.walk.iteration += count;
    }

    /// The next line of an access, in its turn; or, where something has to be waited for first, that.
    pub(crate) fn access_in_turn(&mut self, task: &mut Task<'a>) {
        if self.translate(task) {
            return;
        }
        // What came in between may have brought the line.
        if self.access_alone(task) {
            task.walk.line += 1;
            return;
        }
        let access = &task.walk.accesses[task.walk.index];
        let (kind, atomic, line) = (access.kind, access.atomic, task.walk.line);
        let before = task.clock.time;
        task.clock.wait_for_buffer();
        if task.clock.time > before {
            return;
        }
        if O::WATCHES {
            self.observer.access(task.number, task.core, line, kind.writes());
        }
        let outcome = self.caches.access(task.core, line, kind.writes(), task.clock.time);
        let report = &mut task.report;
        count_miss(&mut report.private_misses, outcome.private_miss);
        count_miss(&mut report.last_misses, outcome.last_miss);
        if let Some(classifier) = &self.caches.classifier {
            classifier.count(&mut report.misses, outcome.served);
        }
        report.upgrades += u64::from(outcome.upgrade);
        report.invalidations += outcome.invalidations;
        report.snoops += outcome.snoops;
        if kind == AccessKind::Read {
            report.note_latency(outcome.served, outcome.latency);
        }
        *served(task, kind).at(outcome.served) += 1;
        task.clock.start(line, outcome.latency, kind.reads());
        if kind == AccessKind::Read {
            task.report.loads += 1;
        } else {
            task.report.stores += 1;
        }
        if atomic {
            task.clock.drain();
        }
        task.walk.hits = 0;
        task.walk.line += 1;
    }

    /// Finds the page of the next line. True where that took time, and the access has to wait for its turn again.
    fn translate(&mut self, task: &mut Task<'a>) -> bool {
        let address = task.walk.line << self.machine.line_bits;
        let page = self.caches.pages.page_of(address);
        let Some(tlb) = self.tlbs.get_mut(task.core) else {
            return self.touch_page(task, page);
        };
        let key = tlb::key(task.process, page);
        if task.page == (page, tlb.generation) {
            return false;
        }
        if tlb.has_data(key) {
            task.page = (page, tlb.generation);
            return false;
        }
        let found = tlb.miss_data(key);
        task.page = (page, tlb.generation);
        task.report.data_tlb_misses += 1;
        self.classify_data(task, key);
        let before = task.clock.time;
        pay(task, found);
        self.touch_page(task, page) || task.clock.time > before
    }

    /// Why the page was not in the first TLB of data.
    fn classify_data(&mut self, task: &mut Task<'a>, key: u64) {
        if let Some(lost) = self.tlbs[task.core].had_lost_data(key) {
            let copied = !lost && (0..self.tlbs.len()).any(|core| core != task.core && self.tlbs[core].holds_data(key));
            task.report.data_tlb.count(lost, copied);
        }
    }

    /// Why the page was not in the first TLB of code.
    fn classify_code(&mut self, task: &mut Task<'a>, key: u64) {
        if let Some(lost) = self.tlbs[task.core].had_lost_code(key) {
            let copied = !lost && (0..self.tlbs.len()).any(|core| core != task.core && self.tlbs[core].holds_code(key));
            task.report.code_tlb.count(lost, copied);
        }
    }

    /// Gives the page where nobody has touched it, or where it was unmapped for sampling. True where that took time.
    fn touch_page(&mut self, task: &mut Task<'a>, page: u64) -> bool {
        let near = self.machine.memory.node_of_core[task.core];
        if !self.caches.pages.touch(page, near).1 {
            return self.scans.is_some() && self.hint_fault(task, page, near);
        }
        task.report.first_touches += 1;
        task.clock.stall(self.machine.system.fault);
        self.machine.system.fault > 0
    }
}

fn served<'t>(task: &'t mut Task, kind: AccessKind) -> &'t mut crate::report::ServedCounts {
    if kind == AccessKind::Read { &mut task.report.loads_served } else { &mut task.report.stores_served }
}

/// The time that finding a page takes.
fn pay(task: &mut Task, found: Found) {
    match found {
        Found::First => {}
        Found::Second(time) => task.clock.stall(time),
        Found::Walk(time) => {
            task.report.page_walks += 1;
            task.clock.stall(time);
        }
    }
}
