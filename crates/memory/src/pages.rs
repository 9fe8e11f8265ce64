//! Which node each page is on, and which lines were ever touched.

use crate::hash::Numbers;
use cohabit_model::{Error, Result};
use std::ops::Range;

/// How many times as fast as Linux memory is balanced where nobody says: a second of its is a millisecond.
pub const AUTONUMA_FACTOR: u32 = 1000;
/// And how many at most.
const MOST_FACTOR: u32 = 1_000_000;

/// Where the pages of a program go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Placement {
    /// To the node of whoever touches them first.
    #[default]
    FirstTouch,
    /// To all nodes in turns, by page number.
    Interleave,
    /// All to one node.
    Bind(usize),
    /// To the node of whoever touches them first, and then to that of whoever goes on touching them, as Linux balances
    /// memory ([`crate::machine::System`]): so many times as fast as it does, because simulated runs are short.
    AutoNuma(u32),
    /// Addresses to nodes as listed, ascending and apart; all else to the node of whoever touches it first.
    Listed(Vec<(Range<u64>, usize)>),
}

impl Placement {
    /// As a user writes it: `first-touch`, `interleave`, `bind:N`, `autonuma` or `autonuma:FACTOR`.
    ///
    /// # Errors
    /// Where it is none of these.
    pub fn parse(text: &str) -> Result<Self> {
        match (text, text.strip_prefix("bind:").map(str::parse)) {
            ("first-touch", _) => Ok(Self::FirstTouch),
            ("interleave", _) => Ok(Self::Interleave),
            ("autonuma", _) => Ok(Self::AutoNuma(AUTONUMA_FACTOR)),
            (_, Some(Ok(node))) => Ok(Self::Bind(node)),
            _ => match text.strip_prefix("autonuma:").map(str::parse::<u32>) {
                Some(Ok(factor)) if (1..=MOST_FACTOR).contains(&factor) => Ok(Self::AutoNuma(factor)),
                Some(_) => Err(Error::new(format!("{text:?}: how many times as fast as Linux?"))
                    .remedy(format!("write a whole number from 1 to {MOST_FACTOR}, as in autonuma:{AUTONUMA_FACTOR}"))),
                None => Err(Error::new(format!("{text:?} is no placement of memory")).remedy(
                    "write first-touch, interleave, bind:N with the number of a NUMA node, autonuma, or autonuma:FACTOR",
                )),
            },
        }
    }

    /// Whether the machine has all nodes that are named.
    ///
    /// # Errors
    /// Where it has not.
    pub fn check(&self, nodes: usize) -> Result<()> {
        let named: Vec<usize> = match self {
            Self::Bind(node) => vec![*node],
            Self::Listed(ranges) => ranges.iter().map(|&(_, node)| node).collect(),
            _ => Vec::new(),
        };
        match named.into_iter().find(|&node| node >= nodes) {
            None => Ok(()),
            Some(node) => Err(Error::new(format!("memory on node {node}: the machine has {nodes}"))
                .remedy(format!("write a number below {nodes}"))),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Pages {
    placement: Placement,
    nodes: usize,
    page_bits: u32,
    node_of: Numbers<u32>,
    /// Pages that are unmapped for sampling.
    hinted: Numbers<()>,
    /// The node that took a page's last hint fault.
    last_fault: Numbers<u32>,
    /// 64 lines a word.
    touched: Numbers<u64>,
}

impl Pages {
    pub fn new(placement: Placement, nodes: usize, page_bits: u32) -> Self {
        Self {
            placement,
            nodes,
            page_bits,
            node_of: Numbers::default(),
            hinted: Numbers::default(),
            last_fault: Numbers::default(),
            touched: Numbers::default(),
        }
    }

    /// The page of an address.
    pub fn page_of(&self, address: u64) -> u64 {
        address >> self.page_bits
    }

    /// Whether the page may be touched without anybody taking note.
    pub fn knows(&self, page: u64) -> bool {
        self.node_of.contains_key(&page) && (self.hinted.is_empty() || !self.hinted.contains_key(&page))
    }

    /// Unmaps the next `count` pages for sampling, in the order of their numbers from `from` on, and around; those that
    /// were not yet.
    pub fn hint(&mut self, from: &mut u64, count: usize) -> Vec<u64> {
        let mut pages: Vec<u64> = self.node_of.keys().copied().collect();
        pages.sort_unstable();
        let first = pages.partition_point(|page| page < from);
        pages.rotate_left(first);
        *from = pages.get(count).copied().unwrap_or(*from);
        pages.truncate(count);
        pages.retain(|&page| self.hinted.insert(page, ()).is_none());
        pages
    }

    /// The page is mapped again, and nobody took a fault.
    pub fn unhint(&mut self, page: u64) {
        self.hinted.remove(&page);
    }

    /// A page that may be unmapped for sampling is touched from a core near node `near`. Where it was: it is not any
    /// more, and the node that it leaves for `near`, where it does.
    pub fn take_hint(&mut self, page: u64, near: usize) -> Option<Option<usize>> {
        if self.hinted.is_empty() {
            return None;
        }
        self.hinted.remove(&page)?;
        let again = self.last_fault.insert(page, near as u32) == Some(near as u32);
        let node = self.node_of.get_mut(&page)?;
        let from = *node as usize;
        if !again || from == near {
            return Some(None);
        }
        *node = near as u32;
        Some(Some(from))
    }

    /// The node of a page, touched from a core near node `near`, and whether this is the first touch.
    pub fn touch(&mut self, page: u64, near: usize) -> (usize, bool) {
        if let Some(&node) = self.node_of.get(&page) {
            return (node as usize, false);
        }
        let node = match &self.placement {
            Placement::FirstTouch | Placement::AutoNuma(_) => near,
            Placement::Interleave => (page % self.nodes as u64) as usize,
            Placement::Bind(node) => *node,
            Placement::Listed(ranges) => {
                let address = page << self.page_bits;
                let next = ranges.partition_point(|(range, _)| range.end <= address);
                ranges.get(next).filter(|(range, _)| range.contains(&address)).map_or(near, |&(_, node)| node)
            }
        };
        self.node_of.insert(page, node as u32);
        (node, true)
    }

    /// Notes that a line is touched; whether it was before.
    pub fn was_touched(&mut self, line: u64) -> bool {
        let word = self.touched.entry(line >> 6).or_default();
        let bit = 1 << (line & 63);
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    /// The memory at these addresses is new; the pages that were there, and the lines.
    pub fn unmap(&mut self, range: &Range<u64>, line_bits: u32) -> (Vec<u64>, Vec<u64>) {
        let within = self.page_of(range.start)..range.end.div_ceil(1 << self.page_bits);
        let pages = taken(&mut self.node_of, within);
        for (page, _) in &pages {
            self.hinted.remove(page);
            self.last_fault.remove(page);
        }
        let lines = range.start >> line_bits..range.end.div_ceil(1 << line_bits);
        let mut gone = Vec::new();
        for (word, bits) in taken(&mut self.touched, lines.start >> 6..lines.end.div_ceil(64)) {
            let here = (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| word << 6 | bit);
            let (inside, outside): (Vec<u64>, Vec<u64>) = here.partition(|line| lines.contains(line));
            gone.extend(inside);
            outside.into_iter().for_each(|line| {
                self.was_touched(line);
            });
        }
        (pages.into_iter().map(|(page, _)| page).collect(), gone)
    }
}

/// Takes all of a range of numbers out of a map, ascending.
fn taken<V: Copy>(map: &mut Numbers<V>, range: Range<u64>) -> Vec<(u64, V)> {
    let mut found: Vec<(u64, V)> = if range.end.saturating_sub(range.start) > map.len() as u64 {
        map.iter().filter(|(number, _)| range.contains(number)).map(|(&number, &value)| (number, value)).collect()
    } else {
        range.filter_map(|number| Some((number, *map.get(&number)?))).collect()
    };
    found.sort_unstable_by_key(|&(number, _)| number);
    found.iter().for_each(|(number, _)| {
        map.remove(number);
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_where_they_should() {
        let listed = Placement::Listed(vec![(0..0x2000, 1)]);
        for (placement, wanted) in [
            (Placement::FirstTouch, [2, 2, 2, 2]),
            (Placement::Interleave, [0, 1, 2, 0]),
            (Placement::Bind(1), [1; 4]),
            (listed, [1, 1, 2, 2]),
        ] {
            let mut pages = Pages::new(placement.clone(), 3, 12);
            for (page, node) in wanted.into_iter().enumerate() {
                assert_eq!(pages.touch(page as u64, 2), (node, true), "{placement:?}");
                assert_eq!(pages.touch(page as u64, 0), (node, false), "{placement:?}");
            }
        }
    }

    #[test]
    fn placements_are_read_and_checked() {
        for (text, nodes, good) in [
            ("first-touch", 1, true),
            ("interleave", 1, true),
            ("bind:1", 2, true),
            ("bind:2", 2, false),
            ("autonuma:7", 1, true),
        ] {
            assert_eq!(Placement::parse(text).unwrap().check(nodes).is_ok(), good, "{text}");
        }
        for text in ["", "bind", "bind:", "bind:-1", "first touch", "autonuma:", "autonuma:0", "autonuma:1e3"] {
            assert!(Placement::parse(text).is_err(), "{text}");
        }
    }

    /// Two pages a time, around; a second fault from the same node moves a page that is elsewhere.
    #[test]
    fn pages_are_sampled_in_turns() {
        let mut pages = Pages::new(Placement::AutoNuma(1), 3, 12);
        for page in [7, 3, 9, 5, 4] {
            pages.touch(page, 0);
        }
        let mut from = 0;
        assert_eq!([2, 2, 2, 2].map(|count| pages.hint(&mut from, count)), [vec![3, 4], vec![5, 7], vec![9], vec![]]);
        assert!(!pages.knows(3) && !pages.knows(9));
        assert_eq!([pages.take_hint(3, 1), pages.take_hint(3, 1)], [Some(None), None]);
        assert!(pages.knows(3));
        for (near, moves) in [(2, None), (1, None), (1, Some(0)), (1, None), (0, None), (0, Some(1))] {
            pages.hint(&mut 3, 1);
            assert_eq!(pages.take_hint(3, near), Some(moves), "{near}");
        }
        assert_eq!(pages.touch(3, 2), (0, false));
        pages.unmap(&(0x3000..0x10000), 6);
        assert!(pages.hinted.is_empty() && pages.last_fault.is_empty());
    }

    #[test]
    fn what_is_unmapped_is_new() {
        for large in [0x3000, u64::MAX] {
            let mut pages = Pages::new(Placement::FirstTouch, 2, 12);
            for page in 0..4 {
                pages.touch(page, 1);
                pages.was_touched(page << 6 | 5);
            }
            let (gone, lines) = pages.unmap(&(0x1000..large), 6);
            assert_eq!(gone.first(), Some(&1));
            assert_eq!(lines.first(), Some(&(1 << 6 | 5)));
            assert_eq!(pages.touch(1, 0), (0, true));
            assert_eq!(pages.touch(0, 0), (1, false));
            assert!(!pages.was_touched(1 << 6 | 5) && pages.was_touched(5));
        }
    }
}
