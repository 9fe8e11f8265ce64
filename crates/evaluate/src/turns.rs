//! Tasks that take turns: programs whose data flows from task to task, so that some send only when others have sent.
//!
//! The IBM report's model is of programs in which all tasks communicate at the same time; one without such
//! "non-concurrent communication" is its future work (section 9). Here it is recognised by the time series, and taken
//! step by step.

use cohabit_model::Profile;
use cohabit_model::profile::Kind;
use std::collections::BTreeMap;

/// The share of a task's bytes that may come before and after those that count: a barrier, or a word that all is well.
const ASIDE: f64 = 0.01;

/// The share of bytes that have to be between tasks of which one sends after the other.
const IN_TURNS: f64 = 0.99;

/// When each task's turn is, 0 the first: one more than that of the last of those who send to it. None where tasks do
/// not take turns, as where they exchange again and again, or that is not known: profiles of other tasks than ranks
/// have series that what observes has stretched.
pub fn turns(profile: &Profile) -> Option<Vec<usize>> {
    if profile.meta.kind != Kind::Ranks || profile.meta.window_ns == 0 {
        return None;
    }
    let tasks = profile.tasks();
    let (mut by_task, mut by_pair) = (vec![Vec::new(); tasks], BTreeMap::<_, Vec<(u64, u64)>>::new());
    for row in profile.series.iter().filter(|row| row.bytes > 0 && row.source != row.destination) {
        let (source, destination) = (row.source as usize, row.destination as usize);
        if source.max(destination) < tasks {
            by_task[source].push((row.bin, row.bytes));
            by_pair.entry((source, destination)).or_default().push((row.bin, row.bytes));
        }
    }
    let total = |sent: &[(u64, u64)]| sent.iter().map(|row| row.1 as f64).sum::<f64>();
    let sent_by: Vec<f64> = by_task.iter().map(|sent| total(sent)).collect();
    let first: Vec<Option<u64>> = by_task.into_iter().map(|sent| bounds(sent).map(|bounds| bounds.0)).collect();
    let (mut in_turns, mut all) = (0.0, 0.0);
    let mut before = vec![Vec::new(); tasks];
    for ((source, destination), sent) in by_pair {
        let bytes = total(&sent);
        let (Some(begins), Some((_, last))) = (first[destination], bounds(sent)) else { continue };
        all += bytes;
        if last < begins {
            in_turns += bytes;
            if bytes > ASIDE * sent_by[source] {
                before[destination].push(source);
            }
        }
    }
    if all == 0.0 || in_turns < IN_TURNS * all {
        return None;
    }
    // Who sends to a task has begun before it.
    let mut order: Vec<usize> = (0..tasks).collect();
    order.sort_by_key(|&task| first[task]);
    let mut turns = vec![0; tasks];
    for task in order {
        turns[task] = before[task].iter().map(|&sender: &usize| turns[sender] + 1).max().unwrap_or(0);
    }
    Some(turns)
}

/// The first and the last window of what was sent (window, bytes), but for what is set aside.
fn bounds(mut sent: Vec<(u64, u64)>) -> Option<(u64, u64)> {
    sent.sort_unstable();
    let aside = ASIDE * sent.iter().map(|row| row.1 as f64).sum::<f64>();
    Some((after(sent.iter(), aside)?, after(sent.iter().rev(), aside)?))
}

/// The window in which more than so many bytes have been sent.
fn after<'a>(sent: impl Iterator<Item = &'a (u64, u64)>, bytes: f64) -> Option<u64> {
    let mut so_far = 0.0;
    for &(window, sent) in sent {
        so_far += sent as f64;
        if so_far > bytes {
            return Some(window);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::Matrix;
    use cohabit_model::profile::{Meta, SeriesRow};

    /// Turns of six ranks with these rows (window, source, destination, bytes).
    fn found(rows: &[(u64, u32, u32, u64)]) -> Option<Vec<usize>> {
        let matrix = Matrix::from_triplets(6, rows.iter().map(|row| (row.1, row.2, row.3)));
        let mut profile = Profile::new(Meta::new(Kind::Ranks, "test", Vec::new()), matrix.clone(), matrix);
        profile.meta.window_ns = 1;
        let row = |&(bin, source, destination, bytes)| SeriesRow { bin, source, destination, messages: 1, bytes };
        profile.series = rows.iter().map(row).collect();
        let turns = turns(&profile);
        profile.meta.kind = Kind::Threads;
        assert_eq!(super::turns(&profile), None);
        turns
    }

    #[test]
    fn a_flow_is_told_from_an_exchange() {
        // Four to two to one; each sends when it has all.
        let flow = [(5, 0, 4, 999), (6, 1, 4, 999), (5, 2, 5, 999), (5, 3, 5, 999), (9, 4, 5, 999)];
        assert_eq!(found(&flow), Some(vec![0, 0, 0, 0, 1, 0]), "the last sends nothing");
        let mut back = flow.to_vec();
        back.push((20, 5, 0, 4));
        assert_eq!(found(&back), Some(vec![0, 0, 0, 0, 1, 2]), "a word that all is well does not matter");
        back.push((0, 4, 3, 4));
        assert_eq!(found(&back), Some(vec![0, 0, 0, 0, 1, 2]), "nor does a barrier");
        // From one to two to four: the second has gone on before the first has sent to the third.
        let out = [(0, 0, 1, 99), (3, 0, 2, 99), (2, 1, 3, 99), (4, 1, 4, 99), (6, 2, 5, 99), (9, 2, 3, 99)];
        assert_eq!(found(&out), Some(vec![0, 1, 1, 0, 0, 0]));
        // Neighbours that exchange twice, all of them once at the same time, and a pipeline.
        assert_eq!(found(&[(1, 0, 1, 99), (2, 1, 0, 99), (3, 0, 1, 99), (4, 1, 0, 99)]), None);
        assert_eq!(found(&[(1, 0, 1, 99), (1, 1, 2, 99), (1, 2, 0, 99)]), None);
        assert_eq!(found(&[(1, 0, 1, 99), (2, 0, 1, 99), (2, 1, 2, 99), (3, 1, 2, 99), (3, 2, 3, 9)]), None);
        assert_eq!(found(&[]), None);
    }
}
