//! Through which data messages went: data objects, and what some of their blocks hold and which code touches them.

use super::abi;
use super::image::Image;
use super::tasks::Tasks;
use cohabit_host::symbols::{Module, Place, Symbols};
use cohabit_model::data::{join_sites, sharing};
use cohabit_model::profile::{CodeSite, Data, DataObject, HotBlock};
use std::collections::BTreeSet;

/// Callers of an allocation that are named.
const CALLERS: usize = 4;

/// The data objects of all images, none where no image looked at them, and the blocks that were followed, hottest
/// first.
pub fn hot(images: &[Image], tasks: &Tasks) -> (Option<Data>, Vec<HotBlock>) {
    let mut symbols = Symbols::default();
    let (mut objects, mut blocks) = (Vec::new(), Vec::new());
    let (mut messages, mut looked_at) = (0u64, 0u64);
    let asked = |image: &&Image| image.head.flags & abi::COHABIT_FLAG_HOT != 0;
    for (at, image) in images.iter().enumerate().filter(|(_, image)| asked(image)) {
        let seen = Seen::of(image);
        messages = messages.saturating_add(seen.messages);
        looked_at = looked_at.saturating_add(image.head.hot_looked_at);
        let process = tasks.process[at];
        objects.extend(image.objects.values().map(|object| DataObject {
            object: name(&mut symbols, &image.modules, object),
            process,
            bytes: object.bytes,
            messages: seen.stands_for(object.messages),
            looked_at: object.looked_at,
            ..DataObject::default()
        }));
        for hot in &image.hot {
            blocks.push(block(&mut symbols, image, hot, (process, &tasks.ids[at]), &seen));
        }
    }
    blocks.sort_by(|a, b| (b.messages, a.process, a.block).cmp(&(a.messages, b.process, b.block)));
    let data = || Data::new(messages, looked_at, abi::COHABIT_HOT_INTERVAL.into(), objects, &blocks);
    (images.iter().any(|image| asked(&image)).then(data), blocks)
}

/// What the messages that an image looked at stand for: all that it counted.
struct Seen {
    messages: u64,
    sampled: u64,
}

impl Seen {
    fn of(image: &Image) -> Self {
        let cells = image.tasks.iter().flat_map(|task| &task.cells);
        let messages = cells.map(|(_, cell)| cell.messages).fold(0, u64::saturating_add);
        let objects = image.objects.values().map(|object| object.messages).fold(0, u64::saturating_add);
        Self { messages, sampled: image.head.hot_messages.max(objects) }
    }

    fn stands_for(&self, sampled: u64) -> u64 {
        let part = u128::from(sampled.min(self.sampled)) * u128::from(self.messages) / u128::from(self.sampled.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

/// What an object is called: a symbol, memory by the calls that allocated it, a stack, a file.
fn name(symbols: &mut Symbols, modules: &[Module], object: &abi::cohabit_object_t) -> String {
    let what = match object.kind {
        abi::COHABIT_OBJECT_HEAP => "heap block",
        abi::COHABIT_OBJECT_MAPPING => "mapping",
        abi::COHABIT_OBJECT_STACK => return "stack of the process's first thread".to_owned(),
        abi::COHABIT_OBJECT_SYMBOL => {
            let symbol = symbols.data(modules, object.address);
            return symbol.map_or_else(|| format!("{:#x}, outside every file", object.address), |symbol| symbol.name);
        }
        abi::COHABIT_OBJECT_MODULE => {
            let file = Symbols::file(modules, object.address).map_or_else(|| "a file".to_owned(), |file| file.0);
            return format!("data of {file} without a symbol");
        }
        _ => return "memory of no file and no known allocation".to_owned(),
    };
    let addresses = object.stack.iter().take_while(|&&address| address != 0).take(CALLERS);
    // A return address is that of the instruction after the call.
    let callers: Vec<String> = addresses.map(|address| named(symbols.code(modules, address - 1))).collect();
    let from = if callers.is_empty() { "unknown code".to_owned() } else { callers.join(" < ") };
    format!("{what} allocated in {from}")
}

fn named(place: Place) -> String {
    if place.line.is_empty() { place.function } else { format!("{} ({})", place.function, place.line) }
}

fn block(
    symbols: &mut Symbols,
    image: &Image,
    hot: &abi::cohabit_hot_t,
    (process, ids): (u32, &[u32]),
    seen: &Seen,
) -> HotBlock {
    let modules = &image.modules;
    // An object for which the part had no room is not known.
    let unknown = || abi::cohabit_object_t {
        next: 0,
        address: 0,
        bytes: 0,
        messages: 0,
        looked_at: 0,
        kind: abi::COHABIT_OBJECT_UNKNOWN,
        blocks: 0,
        stack: [0; abi::COHABIT_HOT_STACK as usize],
    };
    // Where several symbols are in a block, most of its reads say which it is.
    let found = image.objects.get(&hot.object).copied().unwrap_or_else(unknown);
    let is_data = [abi::COHABIT_OBJECT_SYMBOL, abi::COHABIT_OBJECT_MODULE].contains(&found.kind);
    let symbol = if is_data { symbols.data(modules, hot.address).filter(|symbol| symbol.bytes > 0) } else { None };
    let (object, offset, object_bytes) = match symbol {
        Some(symbol) => {
            let start = hot.address.wrapping_sub(symbol.offset as u64);
            (symbol.name, hot.block.wrapping_sub(start) as i64, symbol.bytes)
        }
        None if is_data => {
            let linked = Symbols::file(modules, hot.block).map_or(0, |file| file.1);
            (name(symbols, modules, &found), linked as i64, 0)
        }
        None if hot.allocation != 0 => {
            (name(symbols, modules, &found), hot.block.wrapping_sub(hot.allocation) as i64, hot.allocation_bytes)
        }
        None => (name(symbols, modules, &found), 0, 0),
    };
    let neighbours = if is_data { neighbours(symbols, image, hot, &object) } else { Vec::new() };
    HotBlock {
        block: hot.block,
        process,
        object,
        offset,
        object_bytes,
        neighbours,
        messages: seen.stands_for(hot.messages),
        writers: sites(symbols, modules, &hot.writers, ids),
        readers: sites(symbols, modules, &hot.readers, ids),
        sharing: sharing(hot.true_reads, hot.false_reads),
        true_reads: hot.true_reads,
        false_reads: hot.false_reads,
        unknown: Default::default(),
    }
}

/// The symbols in a block, beside the one named, that were accessed while it was followed.
fn neighbours(symbols: &mut Symbols, image: &Image, hot: &abi::cohabit_hot_t, object: &str) -> Vec<String> {
    let granule = u64::from(image.head.block_bytes).div_ceil(abi::COHABIT_HOT_GRANULES.into()).max(1);
    let granules = (u64::from(image.head.block_bytes) / granule).min(abi::COHABIT_HOT_GRANULES.into());
    let used = (0..granules).filter(|at| hot.used[(at / 64) as usize] >> (at % 64) & 1 == 1);
    let mut found = BTreeSet::new();
    for at in used {
        let symbol = symbols.data(&image.modules, hot.block.wrapping_add(at * granule));
        found.extend(symbol.filter(|symbol| symbol.bytes > 0).map(|symbol| symbol.name));
    }
    found.remove(object);
    found.into_iter().collect()
}

/// Sites on the same line of the same function are one, the most active first.
fn sites(symbols: &mut Symbols, modules: &[Module], sites: &[abi::cohabit_hot_site_t], ids: &[u32]) -> Vec<CodeSite> {
    let site = |site: &abi::cohabit_hot_site_t| {
        let place = match site.pc {
            0 => Place { function: "unknown code".to_owned(), line: String::new() },
            pc => symbols.code(modules, pc),
        };
        let seen = &site.tasks[..(site.task_count as usize).min(site.tasks.len())];
        let tasks = seen.iter().filter_map(|&task| ids.get(task as usize).copied()).collect();
        CodeSite { function: place.function, line: place.line, events: site.events, tasks }
    };
    join_sites(sites.iter().filter(|site| site.events > 0).map(site).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbi::image::Image;
    use crate::dbi::tasks::identify;
    use crate::dbi::testing::{PartBuilder, zeroed};

    fn part() -> PartBuilder {
        let mut part = PartBuilder::new(5, 1, 0);
        part.head.flags = abi::COHABIT_FLAG_HOT;
        part.task(None, "a").cell(1, [100, 800, 0, 0, 0, 0]).task(Some(0), "b").module(
            0x1000,
            0x9000,
            0,
            "/no/such/file",
        )
    }

    fn object(kind: u32, messages: u64, change: impl FnOnce(&mut abi::cohabit_object_t)) -> abi::cohabit_object_t {
        let mut object: abi::cohabit_object_t = zeroed();
        (object.kind, object.messages, object.looked_at) = (kind, messages, messages);
        change(&mut object);
        object
    }

    fn followed(change: impl FnOnce(&mut abi::cohabit_hot_t)) -> abi::cohabit_hot_t {
        let mut hot: abi::cohabit_hot_t = zeroed();
        change(&mut hot);
        hot
    }

    fn read(part: PartBuilder) -> (Option<Data>, Vec<HotBlock>) {
        let images = vec![Image::read(&part.finish()[..]).unwrap().unwrap()];
        let tasks = identify(&images, "h");
        hot(&images, &tasks)
    }

    #[test]
    fn objects_are_named_and_share_all_messages() {
        let mut part = part();
        let heap = part.object(object(abi::COHABIT_OBJECT_HEAP, 30, |object| {
            object.stack[..2].copy_from_slice(&[0x1011, 0x2001]);
            object.bytes = 4096;
        }));
        let mapping = part.object(object(abi::COHABIT_OBJECT_MAPPING, 5, |_| ()));
        let file = part.object(object(abi::COHABIT_OBJECT_MODULE, 10, |object| object.address = 0x3000));
        let stack = part.object(object(abi::COHABIT_OBJECT_STACK, 3, |_| ()));
        let nowhere = part.object(object(abi::COHABIT_OBJECT_UNKNOWN, 2, |_| ()));
        let blocks = [
            (heap, 0x70040, 9, 0x70010, 4096),
            (mapping, 0x70000, 8, 0x70010, 16),
            (file, 0x3000, 7, 0, 0),
            (stack, 0x99000, 6, 0, 0),
            (nowhere, 0x99000, 5, 0, 0),
            (12345, 0x99000, 4, 0, 0),
        ];
        let part = blocks.into_iter().fold(part, |part, (object, block, messages, allocation, bytes)| {
            part.hot(followed(|hot| {
                (hot.object, hot.block, hot.address, hot.messages) = (object, block, block, messages);
                (hot.allocation, hot.allocation_bytes) = (allocation, bytes);
            }))
        });
        let (data, blocks) = read(part);
        let data = data.unwrap();
        let found: Vec<_> = data.objects.iter().map(|object| (object.object.as_str(), object.messages)).collect();
        // 100 messages were counted, and samples of 50 looked at.
        let named = [
            ("heap block allocated in file+0x10 < file+0x1000", 60),
            ("data of file without a symbol", 20),
            ("mapping allocated in unknown code", 10),
            ("stack of the process's first thread", 6),
            ("memory of no file and no known allocation", 4),
        ];
        assert_eq!(found, named);
        assert_eq!((data.messages, data.looked_at, data.objects[0].bytes, data.objects[4].blocks), (100, 50, 4096, 2));
        let blocks: Vec<_> =
            blocks.iter().map(|hot| (hot.object.as_str(), hot.offset, hot.object_bytes, hot.messages)).collect();
        let expected = [
            (named[0].0, 0x30, 4096, 18),
            (named[2].0, -0x10, 16, 16),
            (named[1].0, 0x2000, 0, 14),
            (named[3].0, 0, 0, 12),
            (named[4].0, 0, 0, 10),
            (named[4].0, 0, 0, 8),
        ];
        assert_eq!(blocks, expected);
    }

    #[test]
    fn shares_stay_within_all_messages_whatever_the_part_says() {
        let mut part = part();
        part.object(object(abi::COHABIT_OBJECT_HEAP, u64::MAX, |_| ()));
        part.object(object(abi::COHABIT_OBJECT_STACK, 0, |object| object.messages = u64::MAX));
        part.head.hot_messages = 3;
        let data = read(part).0.unwrap();
        assert!(data.objects.iter().all(|object| object.messages <= 100), "{data:?}");
        assert!(read(PartBuilder::new(5, 1, 0).task(None, "a")).0.is_none(), "nobody asked for it");
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
        let found = read(part().hot(hot)).1.remove(0);
        let readers: Vec<_> =
            found.readers.iter().map(|site| (site.function.as_str(), site.events, &site.tasks[..])).collect();
        assert_eq!(readers, [("file+0x20", 9, &[0][..]), ("file+0x10", 5, &[0, 1]), ("unknown code", 1, &[])]);
        assert!(found.writers.is_empty());
    }
}
