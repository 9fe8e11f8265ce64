//! What an online session sees faults by, and what it has faults made by: the best that works here, and what is lost said.

use super::Log;
use super::args::ExtraFaults;
use cohabit_apply::online::ledger::Ledger;
use cohabit_apply::online::settings::{HintFaults, enable_hint_faults};
use cohabit_model::{Error, Result};
use cohabit_observe::faults::{self, Agent, BpfFaults, PerfFaults, Source};
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

/// Gets extra faults from the kernel, if they are asked for, and says which there are. None where there are no hint faults.
pub fn extra_faults(which: ExtraFaults, ledger: &mut Ledger, log: &mut Log) -> Option<HintFaults> {
    let mut tell = |what, text: String| log.tell(Duration::ZERO, what, text, Vec::new());
    match which {
        ExtraFaults::Auto | ExtraFaults::Hint => {}
        ExtraFaults::Agent => return None,
        ExtraFaults::None => {
            tell("source", "no extra faults: each page is seen once, when it is first touched".to_owned());
            return None;
        }
    }
    let enabled = enable_hint_faults(ledger);
    match &enabled {
        Ok(hint) => {
            let switched = if hint.was_on { "was on already" } else { "turned on, and off again at the end" };
            let rate = match &hint.rate {
                Ok(()) => "scan rate set".to_owned(),
                Err(cause) => format!("scan rate left to the kernel: {cause}"),
            };
            tell("setting", format!("extra faults by NUMA balancing ({switched}; {rate})"));
        }
        Err(error) => {
            let remedy = error.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
            tell("warning", format!("no extra faults by NUMA balancing: {}{remedy}", error.cause));
        }
    }
    let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if huge.contains("[always]") {
        tell(
            "warning",
            "transparent huge pages are on: a fault shows 2 MiB as one place, so less is seen of memory in them"
                .to_owned(),
        );
    }
    enabled.ok()
}

/// The agent, where it is asked for and a program is to be run.
pub fn agent(which: ExtraFaults, runs_program: bool, log: &mut Log) -> Option<Agent> {
    if !runs_program || !matches!(which, ExtraFaults::Auto | ExtraFaults::Agent) {
        return None;
    }
    match Agent::start() {
        Ok(agent) => Some(agent),
        Err(error) => {
            log.tell(Duration::ZERO, "warning", format!("no agent: {}", error.cause), Vec::new());
            None
        }
    }
}
