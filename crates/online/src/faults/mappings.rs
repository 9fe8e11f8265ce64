//! Memory that processes share, from `/proc/PID/maps` (proc_pid_maps(5)): the same page has another address in every
//! process, so its key is made of device, inode and offset.

use super::progress::PROGRESS_FILE;
use super::table::mix;

/// A shared mapping: bytes `start..end` of a process are bytes from `offset` on of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
    /// Hash of device and inode.
    pub object: u64,
    /// Where in the object `start` is.
    pub offset: u64,
}

/// The shared, writable mappings in the text of a `maps` file, ascending. What nobody can write to carries no
/// communication, and a device's memory has no pages to fault on that would say anything.
pub fn shared(maps: &str) -> Vec<Range> {
    maps.lines().filter_map(range).collect()
}

fn range(line: &str) -> Option<Range> {
    let mut words = line.split_ascii_whitespace();
    let (addresses, permissions, offset, device, inode) =
        (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    let path = words.next().unwrap_or("");
    let permissions = permissions.as_bytes();
    // An anonymous mapping that is shared has an inode on a hidden tmpfs, as System V segments have.
    if permissions.get(1) != Some(&b'w') || permissions.get(3) != Some(&b's') || inode == "0" {
        return None;
    }
    // Ours, which all the program's processes write to.
    if path == PROGRESS_FILE {
        return None;
    }
    if path.starts_with("/dev/") && !path.starts_with("/dev/shm/") && path != "/dev/zero" {
        return None;
    }
    let (start, end) = addresses.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (major, minor) = device.split_once(':')?;
    let object = mix(mix(hex(major)? << 32 | hex(minor)?).wrapping_add(inode.parse().ok()?));
    Some(Range { start: hex(start)?, end: hex(end)?, object, offset: hex(offset)? })
}

/// The stacks of threads in the text of a `maps` file, ascending, by the guard that the C library puts before them; what
/// is thread-local lies there too. The main thread's is no such: what a program's main function has is often for all.
pub fn stacks(maps: &str) -> Vec<(u64, u64)> {
    let mut guard_end = 0;
    let mut found = Vec::new();
    for ((start, end), permissions, _) in ranges(maps) {
        if permissions == "rw-p" && guard_end == start {
            found.push((start, end));
        }
        guard_end = if is_guard((start, end), permissions) { end } else { 0 };
    }
    found
}

/// Whether a mapping is one that is put before a stack.
fn is_guard((start, end): (u64, u64), permissions: &str) -> bool {
    permissions.starts_with("---") && end - start <= 64 << 10
}

/// The mappings in the text of a `maps` file: where, what is permitted, and the name.
fn ranges(maps: &str) -> impl Iterator<Item = ((u64, u64), &str, &str)> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (addresses, permissions) = (words.next()?, words.next()?);
        let (start, end) = addresses.split_once('-')?;
        let range = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        (range.0 < range.1).then_some((range, permissions, words.nth(3).unwrap_or("")))
    })
}

/// The writable memory in the text of a `maps` file in which extra faults can show communication, ascending: what is
/// shared, and, of a process with several threads, its own. Stacks are left out: the main one by its name, those of
/// threads by the guard that the C library puts before them.
pub fn armable(maps: &str, has_threads: bool) -> Vec<(u64, u64)> {
    let shared: Vec<(u64, u64)> = shared(maps).iter().map(|range| (range.start, range.end)).collect();
    let mut guard_end = 0;
    let mut found = Vec::new();
    for ((start, end), permissions, name) in ranges(maps) {
        let follows_guard = guard_end == start;
        guard_end = if is_guard((start, end), permissions) { end } else { 0 };
        let own =
            has_threads && permissions == "rw-p" && !follows_guard && (!name.starts_with('[') || name == "[heap]");
        if own || shared.contains(&(start, end)) {
            found.push((start, end));
        }
    }
    found
}

/// Bytes of ranges.
pub fn bytes(ranges: &[(u64, u64)]) -> u64 {
    ranges.iter().map(|(start, end)| end - start).sum()
}

/// Byte `at` of ranges that are laid end to end: its address, and where its range ends; none where they have no such
/// byte.
pub fn byte_of(ranges: &[(u64, u64)], mut at: u64) -> Option<(u64, u64)> {
    for &(start, end) in ranges {
        if at < end - start {
            return Some((start + at, end));
        }
        at -= end - start;
    }
    None
}

/// The range that an address lies in, of ascending ones.
pub fn find(ranges: &[Range], address: u64) -> Option<&Range> {
    let after = ranges.partition_point(|range| range.start <= address);
    ranges[..after].last().filter(|range| address < range.end)
}

/// What a process cannot write to and has for itself in the text of a `maps` file, ascending: code, constants, and the
/// kernel's clock (`[vvar]`), which everybody reads that asks for the time. Nobody communicates by it.
pub fn fixed(maps: &str) -> Vec<(u64, u64)> {
    let range = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let permissions = words.next()?.as_bytes();
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        (permissions.get(1) == Some(&b'-') && permissions.get(3) == Some(&b'p')).then_some((hex(start)?, hex(end)?))
    };
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (start, end) in maps.lines().filter_map(range) {
        match found.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => found.push((start, end)),
        }
    }
    found
}

/// The memory of a process, as far as it matters who can come to it.
#[derive(Debug, Clone, Copy)]
pub struct Reach<'a> {
    /// What it shares with others, ascending.
    pub shared: &'a [Range],
    /// What nobody can write to, ascending.
    pub fixed: &'a [(u64, u64)],
    /// Its id.
    pub process: i32,
    /// How many threads it has.
    pub threads: usize,
}

impl Reach<'_> {
    /// Which memory an address is in, and where in it: the same for all processes that share it. None where only one
    /// task can come to it, outside of what a process shares that has one thread, or nobody can write there.
    pub fn place(&self, address: u64) -> Option<(u64, u64)> {
        if let Some(range) = find(self.shared, address) {
            return Some((range.object | 1 << 63, address - range.start + range.offset));
        }
        let is_fixed = is_in(self.fixed, address);
        (self.threads > 1 && !is_fixed).then_some((self.process as u64, address))
    }

    /// The same, and none in these ranges, which are ascending.
    pub fn place_off(&self, ranges: &[(u64, u64)], address: u64) -> Option<(u64, u64)> {
        if is_in(ranges, address) { None } else { self.place(address) }
    }
}

/// Whether an address is in one of these ranges, which are ascending.
fn is_in(ranges: &[(u64, u64)], address: u64) -> bool {
    let after = ranges.partition_point(|range| range.0 <= address);
    ranges[..after].last().is_some_and(|range| address < range.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_is_that_of_processes_or_shared() {
        let range = |start| Range { start, end: start + 0x1000, object: 42, offset: 0x2000 };
        let (one, other) = ([range(0x10_0000)], [range(0x50_0000)]);
        let fixed = [(0x1000, 0x2000), (0x5000, 0x6000)];
        let of = |shared, process, threads| Reach { shared, fixed: &fixed, process, threads };
        assert_eq!(of(&one, 7, 1).place(0x10_0010), Some((42 | 1 << 63, 0x2010)));
        assert_eq!(of(&one, 7, 1).place(0x10_0010), of(&other, 8, 4).place(0x50_0010));
        assert_eq!((of(&one, 7, 2).place(0x10), of(&one, 7, 1).place(0x10)), (Some((7, 0x10)), None));
        // Where nobody can write.
        for (address, is_there) in [(0xfff, true), (0x1000, false), (0x1fff, false), (0x2000, true), (0x5800, false)] {
            assert_eq!(of(&one, 7, 2).place(address).is_some(), is_there, "{address:x}");
        }
    }

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r-xp 00000000 fe:00 1835014                    /usr/bin/prog
7f0000000000-7f0000010000 rw-s 00002000 00:01 1026                       /dev/zero (deleted)
7f0000020000-7f0000030000 rw-p 00000000 00:00 0
7f0000030000-7f0000031000 r--s 00000000 fe:00 99                         /usr/lib/gconv/gconv-modules.cache
7f0000040000-7f0000050000 rw-s 00000000 00:17 5                          /dev/shm/sm_segment.vm
7f0000060000-7f0000070000 rw-s 00000000 00:06 9                          /dev/nvidia0
7f0000070000-7f0000071000 rw-s 00000000 00:01 1027                       /memfd:cohabit-progress (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
garbage
";

    #[test]
    fn shared_writable_memory_is_found() {
        let ranges = shared(MAPS);
        let starts: Vec<u64> = ranges.iter().map(|range| range.start).collect();
        assert_eq!(starts, [0x7f00_0000_0000, 0x7f00_0004_0000]);
        assert_eq!(ranges[0].offset, 0x2000);
        for (address, found) in [
            (0x7eff_ffff_ffff, None),
            (0x7f00_0000_0000, Some(0)),
            (0x7f00_0000_ffff, Some(0)),
            (0x7f00_0001_0000, None),
            (0x7f00_0004_8000, Some(1)),
            (0x7f00_0005_0000, None),
        ] {
            assert_eq!(find(&ranges, address), found.map(|index: usize| &ranges[index]), "{address:x}");
        }
    }

    #[test]
    fn what_nobody_can_write_to_is_found() {
        assert_eq!(fixed(MAPS), [(0x55d0_c000_0000, 0x55d0_c000_1000)]);
        let maps = "1000-2000 r--p 0 0 0 a\n2000-4000 r-xp 0 0 0 a\n4000-5000 rw-p 0 0 0 a\n9000-a000 r--p 0 0 0 [vvar]\nx-y r--p\n";
        assert_eq!(fixed(maps), [(0x1000, 0x4000), (0x9000, 0xa000)]);
    }

    #[test]
    fn an_object_is_the_same_in_every_process_and_no_other() {
        let object = |line: &str| shared(line).first().map(|range| range.object);
        let here = object("7f0000000000-7f0000010000 rw-s 00000000 00:17 5 /dev/shm/a");
        let there = object("600000-610000 rw-s 00004000 00:17 5 /dev/shm/a");
        assert_eq!(here, there);
        assert_ne!(here, object("7f0000000000-7f0000010000 rw-s 00000000 00:17 6 /dev/shm/b"));
        assert_ne!(here, object("7f0000000000-7f0000010000 rw-s 00000000 00:18 5 /dev/shm/a"));
    }

    #[test]
    fn stacks_and_what_nobody_shares_are_left_alone() {
        let maps = "\
1000-2000 r-xp 00000000 fe:00 7 /bin/prog
2000-3000 rw-p 00001000 fe:00 7 /bin/prog
3000-5000 rw-p 00000000 00:00 0 [heap]
10000-11000 ---p 00000000 00:00 0
11000-91000 rw-p 00000000 00:00 0
a0000-b0000 rw-s 00000000 00:17 5 /dev/shm/x
c0000-d0000 rw-p 00000000 00:00 0 [stack]
";
        assert_eq!(armable(maps, true), [(0x2000, 0x3000), (0x3000, 0x5000), (0xa0000, 0xb0000)]);
        assert_eq!(armable(maps, false), [(0xa0000, 0xb0000)]);
        assert_eq!(stacks(maps), [(0x11000, 0x91000)]);
        let reach = Reach { shared: &[], fixed: &[(0x1000, 0x2000)], process: 7, threads: 2 };
        let place = |address| reach.place_off(&stacks(maps), address).is_some();
        assert_eq!([0x1800, 0x3000, 0x11000, 0x90fff, 0x91000].map(place), [false, true, false, false, true]);
    }

    #[test]
    fn bytes_of_ranges_are_counted_through() {
        let ranges = [(100, 110), (200, 201), (300, 305)];
        assert_eq!(bytes(&ranges), 16);
        let found: Vec<_> = [0, 9, 10, 11, 15, 16].map(|at| byte_of(&ranges, at)).into();
        let last = Some((304, 305));
        assert_eq!(found, [Some((100, 110)), Some((109, 110)), Some((200, 201)), Some((300, 305)), last, None]);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "\\PC*\n\\PC*") {
            shared(&text);
            armable(&text, true);
        }
    }
}
