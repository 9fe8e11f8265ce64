//! How complete the figures are, in the words that every output carries.

use crate::picture::text::{clean, grouped};
use cohabit_model::profile::Coverage;

/// `coverage: exact, no event lost`, on one line, and what was not seen: how much there is of that, or where `all` is
/// wanted a line each; lines end in newlines.
pub fn coverage_lines(coverage: &Coverage, all: bool) -> String {
    let rate = coverage.sample_rate;
    let how = match (coverage.exact, rate < 1.0) {
        (true, false) => "exact".to_string(),
        (true, true) => format!("exact in the {} % of the run that was looked at", percent(rate)),
        (false, true) if rate == 0.0 => "sampled, how much of it is not known".to_string(),
        (false, true) => format!("sampled, {} % looked at", percent(rate)),
        (false, false) => "not exact".to_string(),
    };
    let lost = match coverage.events_lost {
        // Of what is not exact and no sample either nobody has counted what is lost.
        0 if !coverage.exact && (rate >= 1.0 || rate == 0.0) => String::new(),
        0 => ", no event lost".to_string(),
        1 => ", 1 event lost".to_string(),
        lost => format!(", {} events lost", grouped(lost.into())),
    };
    let (unseen, more) = match (coverage.not_seen.len(), all) {
        (0, _) => (&[][..], String::new()),
        (_, true) => (&coverage.not_seen[..], String::new()),
        (1, false) => (&[][..], "; -v says what was not seen".to_owned()),
        (count, false) => (&[][..], format!("; -v lists {} things that were not seen", grouped(count as u128))),
    };
    let mut lines = format!("coverage: {how}{lost}{more}\n");
    for what in unseen {
        lines.push_str(&format!("  not seen: {}\n", clean(what)));
    }
    lines
}

/// With the digits that small shares need.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent >= 10.0 { format!("{percent:.0}") } else { format!("{percent:.2}") }
}
