//! What an online session sees faults by: the best that works here, and what is lost said.

use super::Log;
use cohabit_model::{Error, Result};
use cohabit_online::faults::{self, BpfFaults, PerfFaults, Source};
use std::time::Duration;

/// The best source that works here; what is lost by it is said.
pub fn source(options: faults::Options, log: &mut Log) -> Result<Box<dyn Source>> {
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
    Ok(source)
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
