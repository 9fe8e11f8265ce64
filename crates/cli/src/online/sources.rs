//! What an online session sees faults by: the best that works here, and what is lost said.

use super::Log;
use super::args::OnlineArgs;
use crate::output::is_verbose;
use cohabit_host::memory_events::{DEVICES, MemoryEvents};
use cohabit_model::{Error, Result};
use cohabit_online::faults::{self, BpfFaults, Measuring, PerfFaults, Source, pmu_check};
use cohabit_online::ways::{Wanted, Way};
use std::path::Path;
use std::time::Duration;

/// The best source that works here, with samples, as far as they are asked for and work; what is lost is said.
pub fn source(args: &OnlineArgs, log: &mut Log) -> Result<Box<dyn Source>> {
    let measured = if args.faults.has(Way::Pmu) { memory_events(args.faults, log) } else { None };
    let by_pmu = measured.as_ref().map(MemoryEvents::names);
    let by_timer = args.faults.has(Way::Sample);
    // Both together take no more than one.
    let percent = if by_timer && measured.is_some() { args.overhead() / 2.0 } else { args.overhead() };
    let options = faults::Options {
        block_bytes: args.block,
        sampling: by_timer.then_some(percent),
        measuring: measured.map(|events| Measuring { events, percent }),
        ..faults::Options::default()
    };
    let mut tell = |what, text: String| log.tell(Duration::ZERO, what, text, Vec::new());
    let source: Box<dyn Source> = match with_or_without_samples(&options, BpfFaults::start) {
        Ok((source, lost)) => {
            lost.into_iter().for_each(|error| tell("warning", no_samples(&error)));
            Box::new(source)
        }
        Err(error) => {
            // Without either, what the better one needs is what is worth knowing.
            let (source, lost) = with_or_without_samples(&options, PerfFaults::start).map_err(|second| {
                let remedy = error.remedy.clone().unwrap_or_default();
                Error::new(format!("page faults cannot be seen: {}; {}", error.cause, second.cause))
                    .remedy(format!("{remedy}, or: {}", second.remedy.unwrap_or_default()))
            })?;
            let remedy = error.remedy.map(|remedy| format!(" ({remedy})")).unwrap_or_default();
            tell("warning", format!("no eBPF: {}{remedy}", error.cause));
            lost.into_iter().for_each(|error| tell("warning", no_samples(&error)));
            Box::new(source)
        }
    };
    tell("source", format!("watching {}", source.name()));
    if source.samples() {
        tell("source", "samples: what tasks are about to read or write when a timer interrupts them".to_owned());
    }
    if let Some(names) = by_pmu {
        tell("source", format!("samples by the PMU: what tasks have read or written ({names})"));
    }
    Ok(source)
}

/// The events by which a PMU samples accesses; none where they cannot be had, which is said where nothing else is asked
/// for, and with -v where the machine has them.
fn memory_events(wanted: Wanted, log: &mut Log) -> Option<MemoryEvents> {
    let found = MemoryEvents::find(Path::new(DEVICES));
    let is_there = found.is_ok();
    match found.and_then(|events| pmu_check(&events).map(|()| events)) {
        Ok(events) => Some(events),
        Err(error) => {
            // The timer's samples are there without: many a machine keeps its PMU from users who are not root.
            if wanted != Wanted::Auto || is_there && is_verbose() {
                let remedy = error.remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
                let text = format!("no samples by the PMU: {}{remedy}", error.cause);
                log.tell(Duration::ZERO, "warning", text, Vec::new());
            }
            None
        }
    }
}

/// A source that samples, if that is wanted; why it does not, where it cannot.
fn with_or_without_samples<S>(
    options: &faults::Options,
    start: impl Fn(&faults::Options) -> Result<S>,
) -> Result<(S, Option<Error>)> {
    match start(options) {
        Err(error) if options.sampling.is_some() => {
            let without = faults::Options { sampling: None, ..options.clone() };
            Ok((start(&without)?, Some(error)))
        }
        source => Ok((source?, None)),
    }
}

fn no_samples(error: &Error) -> String {
    let remedy = error.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    format!("no samples: {}{remedy}", error.cause)
}
