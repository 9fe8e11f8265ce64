//! The hottest blocks: what lies there, and which code writes and reads it.

use super::abi;
use super::image::Image;
use super::symbols::{DataPlace, Place, Symbols};
use super::tasks::Tasks;
use cohabit_model::profile::{CodeSite, HotBlock};
use std::collections::{BTreeSet, HashMap};

/// Fewer reads than this, looked at byte by byte, say nothing about true and false sharing.
const READS_TO_TELL: u64 = 16;
/// Callers of an allocation that are named.
const CALLERS: usize = 4;
/// The kernel leaves this much address space, at least, to the stack of a process below its top (mmap_base in
/// arch/x86/mm/mmap.c), and what a program finds there when it starts lies above what it is told of by AT_RANDOM.
const STACK_BYTES: u64 = 128 << 20;
const STACK_ABOVE: u64 = 4 << 20;

/// The followed blocks of all images, hottest first.
pub fn hot_blocks(images: &[Image], tasks: &Tasks) -> Vec<HotBlock> {
    let mut symbols = Symbols::default();
    let mut blocks = Vec::new();
    for (at, image) in images.iter().enumerate() {
        for hot in &image.hot {
            let object = object(&mut symbols, image, hot);
            blocks.push(HotBlock {
                block: hot.block,
                process: tasks.process[at],
                object: object.name,
                offset: object.offset,
                object_bytes: object.bytes,
                messages: hot.messages,
                writers: sites(&mut symbols, &image.modules, &hot.writers, &tasks.ids[at]),
                readers: sites(&mut symbols, &image.modules, &hot.readers, &tasks.ids[at]),
                sharing: sharing(hot.true_reads, hot.false_reads),
                unknown: Default::default(),
            });
        }
    }
    blocks.sort_by(|a, b| (b.messages, a.process, a.block).cmp(&(a.messages, b.process, b.block)));
    blocks
}

/// The data object: a heap block or a mapping by the calls that made it, else a symbol or the first thread's stack.
fn object(symbols: &mut Symbols, image: &Image, hot: &abi::cohabit_hot_t) -> DataPlace {
    let modules = &image.modules;
    let what = match hot.allocation_kind {
        abi::COHABIT_ALLOCATION_HEAP => "heap block",
        abi::COHABIT_ALLOCATION_MAPPING => "mapping",
        _ => {
            if let Some(object) = symbols.data(modules, hot.block) {
                return object;
            }
            let top = image.head.stack_top;
            let stack = top.saturating_sub(STACK_BYTES)..top.saturating_add(STACK_ABOVE);
            let name = match top > 0 && stack.contains(&hot.block) {
                true => "stack of the process's first thread",
                false => "memory of no file and no known allocation",
            };
            return DataPlace { name: name.to_owned(), offset: 0, bytes: 0 };
        }
    };
    let addresses = hot.allocation_stack.iter().take_while(|&&address| address != 0).take(CALLERS);
    // A return address is that of the instruction after the call.
    let callers: Vec<String> = addresses.map(|address| named(symbols.code(modules, address - 1))).collect();
    let from = if callers.is_empty() { "unknown code".to_owned() } else { callers.join(" < ") };
    let offset = hot.block.wrapping_sub(hot.allocation) as i64;
    DataPlace { name: format!("{what} allocated in {from}"), offset, bytes: hot.allocation_bytes }
}

fn named(place: Place) -> String {
    if place.line.is_empty() { place.function } else { format!("{} ({})", place.function, place.line) }
}

/// Sites on the same line of the same function are one, the most active first.
fn sites(
    symbols: &mut Symbols,
    modules: &[abi::cohabit_module_t],
    sites: &[abi::cohabit_hot_site_t],
    ids: &[u32],
) -> Vec<CodeSite> {
    let mut found: HashMap<Place, (u64, BTreeSet<u32>)> = HashMap::new();
    for site in sites.iter().filter(|site| site.events > 0) {
        let place = match site.pc {
            0 => Place { function: "unknown code".to_owned(), line: String::new() },
            pc => symbols.code(modules, pc),
        };
        let (events, tasks) = found.entry(place).or_default();
        *events = events.saturating_add(site.events);
        let seen = &site.tasks[..(site.task_count as usize).min(site.tasks.len())];
        tasks.extend(seen.iter().filter_map(|&task| ids.get(task as usize)));
    }
    let site = |(place, (events, tasks)): (Place, (u64, BTreeSet<u32>))| CodeSite {
        function: place.function,
        line: place.line,
        events,
        tasks: tasks.into_iter().collect(),
    };
    let mut found: Vec<CodeSite> = found.into_iter().map(site).collect();
    found.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| (&a.function, &a.line).cmp(&(&b.function, &b.line))));
    found
}

/// True sharing where most of the reads looked at met bytes that the writer had written.
fn sharing(true_reads: u64, false_reads: u64) -> Option<bool> {
    let enough = true_reads.saturating_add(false_reads) >= READS_TO_TELL;
    enough.then_some(true_reads >= false_reads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbi::image::Image;
    use crate::dbi::tasks::identify;
    use crate::dbi::testing::{PartBuilder, zeroed};

    const STACK_TOP: u64 = 0x7fff_0000_0000;

    fn followed(change: impl FnOnce(&mut abi::cohabit_hot_t)) -> abi::cohabit_hot_t {
        let mut hot: abi::cohabit_hot_t = zeroed();
        change(&mut hot);
        hot
    }

    fn blocks(hot: &[abi::cohabit_hot_t]) -> Vec<HotBlock> {
        let mut part = PartBuilder::new(5, 1, 0);
        part.head.stack_top = STACK_TOP;
        let part = part.task(None, "a").task(Some(0), "b").module(0x1000, 0x9000, 0, "/no/such/file");
        let part = hot.iter().fold(part, |part, hot| part.hot(*hot)).finish();
        let images = vec![Image::read(&part[..]).unwrap().unwrap()];
        let tasks = identify(&images, "h");
        hot_blocks(&images, &tasks)
    }

    #[test]
    fn objects_are_named_by_symbol_or_by_allocation() {
        let heap = followed(|hot| {
            (hot.messages, hot.block, hot.allocation, hot.allocation_bytes) = (3, 0x70040, 0x70010, 4096);
            hot.allocation_kind = abi::COHABIT_ALLOCATION_HEAP;
            hot.allocation_stack[..2].copy_from_slice(&[0x1011, 0x2001]);
        });
        let before = followed(|hot| {
            (hot.messages, hot.block, hot.allocation, hot.allocation_bytes) = (2, 0x70000, 0x70010, 16);
            hot.allocation_kind = abi::COHABIT_ALLOCATION_MAPPING;
        });
        let global = followed(|hot| (hot.messages, hot.block) = (9, 0x3000));
        let nowhere = followed(|hot| (hot.messages, hot.block) = (1, 0x99000));
        let stack = followed(|hot| (hot.messages, hot.block) = (0, STACK_TOP - 0x1000));
        let found = blocks(&[heap, before, global, nowhere, stack]);
        let objects: Vec<_> = found.iter().map(|hot| (hot.object.as_str(), hot.offset, hot.object_bytes)).collect();
        assert_eq!(
            objects,
            [
                ("file", 0x2000, 0),
                ("heap block allocated in file+0x10 < file+0x1000", 0x30, 4096),
                ("mapping allocated in unknown code", -0x10, 16),
                ("memory of no file and no known allocation", 0, 0),
                ("stack of the process's first thread", 0, 0),
            ]
        );
    }

    #[test]
    fn sites_are_joined_and_sorted() {
        let hot = followed(|hot| {
            for (site, (pc, events, task)) in
                hot.readers.iter_mut().zip([(0x1010, 2, 1), (0x1020, 9, 0), (0x1010, 3, 0), (0, 1, 7)])
            {
                (site.pc, site.events, site.task_count, site.tasks[0]) = (pc, events, 1, task);
            }
            hot.readers[9].pc = 0x1010;
            hot.readers[1].task_count = u32::MAX;
        });
        let found = blocks(&[hot]).remove(0);
        let readers: Vec<_> =
            found.readers.iter().map(|site| (site.function.as_str(), site.events, &site.tasks[..])).collect();
        assert_eq!(readers, [("file+0x20", 9, &[0][..]), ("file+0x10", 5, &[0, 1]), ("unknown code", 1, &[])]);
        assert!(found.writers.is_empty());
    }

    #[test]
    fn true_and_false_sharing_need_some_reads_to_tell() {
        for (true_reads, false_reads, expected) in
            [(0, 0, None), (15, 0, None), (16, 0, Some(true)), (1, 30, Some(false)), (u64::MAX, 1, Some(true))]
        {
            assert_eq!(sharing(true_reads, false_reads), expected, "{true_reads} {false_reads}");
        }
    }
}
