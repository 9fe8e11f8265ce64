//! What is known of MPI ranks beside who sends what to whom: their time in MPI, and how long their messages are.

use super::ShowOptions;
use super::summary::heading;
use crate::number::seconds;
use crate::picture::label::size;
use crate::picture::text::{grouped, short};
use crate::words::noun;
use cohabit_model::Profile;
use std::collections::BTreeMap;

/// The share of each rank's run that it spends in MPI, waiting included: the ranks with the most of it; nothing where
/// that is not known.
pub fn time_in_mpi(profile: &Profile, options: &ShowOptions) -> String {
    let mut ranks: Vec<(usize, u64, u64)> =
        (0..).zip(&profile.mpi_ns).zip(&profile.run_ns).map(|((task, &mpi), &run)| (task, mpi, run)).collect();
    ranks.retain(|rank| rank.2 > 0);
    if ranks.is_empty() {
        return String::new();
    }
    let share = |&(_, mpi, run): &(usize, u64, u64)| 100.0 * mpi as f64 / run as f64;
    ranks.sort_by(|a, b| share(b).total_cmp(&share(a)).then(a.0.cmp(&b.0)));
    let (most, median, least) = (share(&ranks[0]), share(&ranks[ranks.len() / 2]), share(&ranks[ranks.len() - 1]));
    let [one, _] = noun(profile.meta.kind);
    let mut out = heading("time in MPI (waiting for others included)", options.palette);
    out += &format!("  {least:.0} to {most:.0} % of a {one}'s time, median {median:.0} %\n");
    let shown = if options.verbose { ranks.len() } else { options.top };
    let width = ranks.iter().map(|rank| rank.0.to_string().len()).max().unwrap_or(0);
    for rank in ranks.iter().take(shown) {
        let [mpi, run] = [rank.1, rank.2].map(|ns| seconds(ns as f64 * 1e-9));
        out += &format!("  {one} {:>width$}  {:>3.0} %  {mpi} of {run}\n", rank.0, share(rank));
    }
    out
}

/// Messages by their length, in powers of two; nothing where lengths are not known.
pub fn message_sizes(profile: &Profile, options: &ShowOptions) -> String {
    let classes = classes(profile);
    if classes.is_empty() {
        return String::new();
    }
    let total = classes.values().map(|class| u128::from(class.1)).sum::<u128>().max(1);
    let mut out = heading("message sizes (messages, their bytes, share of all bytes)", options.palette);
    for (class, (messages, bytes)) in classes {
        let share = 100.0 * bytes as f64 / total as f64;
        out += &format!("  {:<18} {:>7} {:>10}  {share:5.1} %\n", lengths(class), short(messages.into()), size(bytes));
    }
    out
}

/// Messages and bytes by the class of [`cohabit_model::profile::SizeRow`], of all pairs.
pub fn classes(profile: &Profile) -> BTreeMap<u32, (u64, u64)> {
    let mut classes: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in &profile.sizes {
        let class = classes.entry(row.class).or_default();
        *class = (class.0.saturating_add(row.messages), class.1.saturating_add(row.bytes));
    }
    classes
}

/// `1 KiB to 2 KiB`: the least length in a class, and what is too long for it.
fn lengths(class: u32) -> String {
    let [from, to] = [class, class + 1].map(|power| 1u64.checked_shl(power).filter(|_| power < 64));
    match (class, from, to) {
        (0, ..) => "0 or 1 B".to_owned(),
        (_, Some(from), Some(to)) => format!("{} to {}", size(from), size(to)),
        _ => format!("class {}", grouped(class.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_lengths() {
        for (class, expected) in [(0, "0 or 1 B"), (1, "2 B to 4 B"), (10, "1 KiB to 2 KiB"), (63, "class 63")] {
            assert_eq!(lengths(class), expected);
        }
        assert_eq!(lengths(u32::MAX - 1), "class 4,294,967,294");
    }
}
