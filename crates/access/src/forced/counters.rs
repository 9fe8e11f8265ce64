//! The order among those that count.
//!
//! A work counter, a number of references, of those that have arrived: tasks add to it by an atomic instruction that
//! takes no lock and always succeeds ([`StridedAccess::unconditional`](crate::StridedAccess)). In which order they do so is
//! luck, and where they shared cores when they were recorded, whoever had one came again and again before the others
//! did at all. What comes after must not wait for that. But who arrives last at a barrier, and lets the others go, waits
//! for all that have arrived before.
//!
//! So a wait of one that counts for another stays where it lets others go: where within the next [`NEAR`] accesses it
//! writes something that somebody waits for, at a word that tasks wait at, or in a system call. It then waits for all
//! that have counted there before, in the order in which all is gone through. Others are left out. Whoever reads the
//! counter, or writes it otherwise, waits as before, and so for all that have counted.

use super::ForcedWait;
use crate::Reason;
use std::collections::{HashMap, HashSet};

/// Accesses from one that counts to the write that lets others go, at most.
const NEAR: u64 = 64;

/// How a task accesses a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Read,
    /// By a store, or an atomic instruction that may take a lock.
    Write,
    /// It adds to it, whatever is there.
    Count,
    /// It has added to it just before, while another did.
    Counted,
}

impl By {
    /// Whether the wait goes where nobody's going on hangs on it.
    fn counts(self) -> bool {
        matches!(self, Self::Count | Self::Counted)
    }
}

/// A wait at a word that tasks wait at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    /// Its address.
    pub word: u64,
    /// In the order in which all is gone through.
    pub number: u64,
    /// Who waits.
    pub task: u32,
    /// Before the access that follows so many.
    pub at: u64,
    pub by: By,
    /// For whom, and until it has made so many accesses.
    pub on: (u32, u64),
}

impl Link {
    /// No word: what is waited for is a system call.
    pub(super) const NOWHERE: u64 = u64::MAX;
}

/// Leaves the waits of those that count where nobody's going on hangs on them, and lets those that others hang on wait
/// for all that they hang on.
pub(super) fn release(forced: &mut [Vec<ForcedWait>], mut links: Vec<Link>) {
    links.sort_unstable_by_key(|link| (link.word, link.number));
    let stays = staying(&links);
    if stays.iter().all(|stays| *stays) {
        return;
    }
    let mut gone: Vec<HashSet<(u64, u32, u64)>> = vec![HashSet::new(); forced.len()];
    let mut more: Vec<Vec<ForcedWait>> = vec![Vec::new(); forced.len()];
    // Of the word at hand: up to where each task has counted since somebody waited for all of them.
    let (mut word, mut counted) = (Link::NOWHERE, HashMap::new());
    for (link, stays) in links.iter().zip(stays) {
        if link.word != word {
            (word, counted) = (link.word, HashMap::new());
        }
        let (task, position) = link.on;
        if !stays {
            gone[link.task as usize].insert((link.at, task, position));
        }
        if link.word == Link::NOWHERE || link.by == By::Read {
            continue;
        }
        let known: &mut u64 = counted.entry(task).or_default();
        *known = position.max(*known);
        if stays {
            let others = counted.iter().map(|(task, position)| (*task, *position));
            let others = others.filter(|other| other.0 != link.task && *other != link.on);
            let wait = |(task, position)| ForcedWait { at: link.at, task, position, reason: Reason::Lock };
            more[link.task as usize].extend(others.map(wait));
            // Who comes next waits for the write, and so for all of them; one that has written before is not waited for.
            if link.by != By::Counted {
                counted.clear();
            }
        }
    }
    for ((forced, gone), more) in forced.iter_mut().zip(gone).zip(more) {
        forced.retain(|wait| wait.reason != Reason::Lock || !gone.contains(&(wait.at, wait.task, wait.position)));
        forced.extend(more);
        forced.sort_by_key(|wait| (wait.at, wait.task, wait.position));
    }
}

/// Positions of some that count, and which link each is.
type Counts = Vec<(u64, usize)>;

/// Which of the links stay, which are sorted by word.
fn staying(links: &[Link]) -> Vec<bool> {
    let mut stays: Vec<bool> = links.iter().map(|link| !link.by.counts()).collect();
    // Those that count: of each task, and of each at each word, by position.
    let (mut of_task, mut at_word) = (HashMap::<u32, Counts>::new(), HashMap::<(u64, u32), Counts>::new());
    for (number, link) in links.iter().enumerate().filter(|(_, link)| link.by.counts()) {
        of_task.entry(link.task).or_default().push((link.at, number));
        at_word.entry((link.word, link.task)).or_default().push((link.at, number));
    }
    of_task.values_mut().chain(at_word.values_mut()).for_each(|list| list.sort_unstable());
    let mut next: Vec<usize> = (0..links.len()).filter(|number| stays[*number]).collect();
    // Whose targets are dealt with.
    let mut done = vec![false; links.len()];
    while let Some(number) = next.pop() {
        let mut found = Vec::new();
        let mut target = |link: &Link| {
            let (task, position) = link.on;
            let before = |list: &Counts| list.partition_point(|(at, _)| *at < position);
            if let Some(list) = of_task.get(&task) {
                let near = list.partition_point(|(at, _)| *at < position.saturating_sub(NEAR));
                let others = list[near..before(list).max(near)].iter().map(|(_, number)| *number);
                found.extend(others.filter(|number| links[*number].word != link.word));
            }
            // Whoever reads waits for the last alone, who so waits for the others.
            if let (By::Read, Some(list)) = (link.by, at_word.get(&(link.word, task))) {
                found.extend(list[..before(list)].last().map(|(_, number)| *number));
            }
        };
        if links[number].by == By::Read {
            target(&links[number]);
        } else {
            // It waits for all that have counted there before.
            for at in (0..=number).rev() {
                let link = &links[at];
                if link.word != links[number].word || done[at] || at < number && stays[at] && link.by != By::Read {
                    break;
                }
                if link.by != By::Read {
                    done[at] = true;
                    target(link);
                }
            }
        }
        for number in found {
            if !std::mem::replace(&mut stays[number], true) {
                next.push(number);
            }
        }
    }
    stays
}
