//! Accesses to memory that a PMU samples, with their addresses (PEBS, IBS), of the threads that are followed.

use super::perf::has_room;
use super::ring::Rings;
use super::{Measuring, Options};
use crate::sampling::{By, between};
use cohabit_host::memory_events::MemoryEvents;
use cohabit_host::perf_event::{Clock, accesses, refused_accesses};
use cohabit_model::Result;
use std::time::Duration;

/// Has threads sampled.
pub(super) struct Pmu {
    events: MemoryEvents,
    /// Of a thread's time, how much there is from one sample to the next.
    every: Duration,
    clock: Clock,
}

impl Pmu {
    /// What was asked for, if it was.
    ///
    /// # Errors
    /// Where the kernel does not allow it.
    pub(super) fn start(options: &Options, clock: Clock) -> Result<Option<Self>> {
        let Some(Measuring { events, percent }) = options.measuring.clone() else { return Ok(None) };
        check(&events)?;
        Ok(Some(Self { events, every: between(By::Clock, percent), clock }))
    }

    /// Samples threads, all of them or, where that takes too many files, none: how many are left out.
    pub(super) fn follow(&self, tids: &[i32], pus: &[u32], rings: &mut Rings) -> u64 {
        let files = |pu: &u32| self.events.on(*pu).map(|event| event.files()).sum::<usize>();
        if !has_room(rings, tids.len() * pus.iter().map(files).sum::<usize>()) {
            return tids.len() as u64;
        }
        for (&tid, &pu) in tids.iter().flat_map(|tid| pus.iter().map(move |pu| (tid, pu))) {
            let events: Vec<_> = self.events.on(pu).collect();
            // All of them together as often as one would be alone.
            let every = self.every * events.len() as u32;
            for event in events {
                // A thread that has ended, or a PU that has gone.
                let Ok(opened) = accesses(event, tid, pu as i32, every, self.clock) else { continue };
                if rings.add(pu, opened.event).is_ok() {
                    opened.leader.into_iter().for_each(|leader| rings.keep(leader));
                }
            }
        }
        0
    }
}

/// Whether threads can be sampled by these events, tried on this one.
///
/// # Errors
/// Where the kernel does not allow it.
pub fn check(events: &MemoryEvents) -> Result<()> {
    let own = std::process::id() as i32;
    events.all().iter().try_for_each(|event| {
        let opened = accesses(event, own, -1, Duration::from_secs(1), Clock::Default);
        opened.map(drop).map_err(|error| refused_accesses(event, error))
    })
}
