//! What an online session sees faults by: the best that works here, and what is lost said.

use super::Log;
use cohabit_model::{Error, Result};
use cohabit_observe::faults::{self, BpfFaults, PerfFaults, Source};
use std::time::Duration;

/// The best source that works here; what is lost by it is said.
pub fn source(options: &faults::Options, log: &mut Log) -> Result<Box<dyn Source>> {
    let source: Box<dyn Source> = match BpfFaults::start(options) {
        Ok(source) => Box::new(source),
        Err(error) => {
            // Without either, what the better one needs is what is worth knowing.
            let source = PerfFaults::start(options).map_err(|second| {
                let remedy = error.remedy.clone().unwrap_or_default();
                Error::new(format!("page faults cannot be seen: {}; {}", error.cause, second.cause))
                    .remedy(format!("{remedy}, or: {}", second.remedy.unwrap_or_default()))
            })?;
            let remedy = error.remedy.map(|remedy| format!(" ({remedy})")).unwrap_or_default();
            log.tell(Duration::ZERO, "warning", format!("no eBPF: {}{remedy}", error.cause), Vec::new());
            Box::new(source)
        }
    };
    log.tell(Duration::ZERO, "source", format!("watching {}", source.name()), Vec::new());
    Ok(source)
}
