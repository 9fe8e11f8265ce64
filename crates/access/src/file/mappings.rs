//! Where memory that several processes map lies in the recording: at one address, whatever address each of them has it
//! at.
//!
//! Each program image has a list of changes of what it maps ([`Change`]), and its tasks say from where on which version
//! of that list holds for them. An *object* is what can be mapped: a file, a System V segment, shared memory without a
//! name. Addresses of objects lie above those of all images.

use cohabit_model::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;

/// Bytes of a change in a file: five numbers of 64 bits.
const CHANGE_BYTES: usize = 40;
/// Objects begin at multiples of this, as do the largest pages that programs commonly have.
const ALIGNMENT: u64 = 1 << 21;
/// User addresses have 47 bits.
const ADDRESSES: u64 = 1 << 47;

/// What a range of an image's addresses is, from a version on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub version: u64,
    pub range: Range<u64>,
    /// 0: the process's own memory.
    pub object: u64,
    /// Where in the object the range begins.
    pub offset: u64,
}

/// Reads changes that follow one another.
pub(super) fn read_changes(from: &[u8]) -> Result<Vec<Change>> {
    let damaged = |what: &str| Error::new(format!("damaged: {what}")).remedy("record it again");
    let rows = from.chunks_exact(CHANGE_BYTES);
    if !rows.remainder().is_empty() {
        return Err(damaged("the last change of what is mapped is not whole"));
    }
    let change = |row: &[u8]| {
        let number = |at: usize| u64::from_le_bytes(row[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        let found = Change { version: number(0), range: number(1)..number(2), object: number(3), offset: number(4) };
        let length = found.range.end.checked_sub(found.range.start).filter(|&length| length > 0 && length <= ADDRESSES);
        let fits = length.is_some_and(|length| found.offset.checked_add(length).is_some());
        fits.then_some(found).ok_or_else(|| damaged("memory is mapped that has no end"))
    };
    let changes = rows.map(change).collect::<Result<Vec<_>>>()?;
    match changes.windows(2).all(|two| two[0].version <= two[1].version) {
        true => Ok(changes),
        false => Err(damaged("what is mapped changes backwards")),
    }
}

/// Where each object lies in the recording.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    /// By number: the address of its byte 0 (which may lie below all addresses), and the addresses of what was mapped
    /// of it.
    placed: HashMap<u64, (u64, Range<u64>)>,
    /// In the order of their addresses.
    order: Vec<u64>,
    /// The first address behind them.
    end: u64,
}

impl Objects {
    /// Places all objects of `changes`, from the address `first` on, in the order in which they are mapped first.
    pub fn place<'a>(changes: impl Iterator<Item = &'a Change>, first: u64) -> Result<Self> {
        let (mut extents, mut order): (HashMap<u64, Range<u64>>, _) = (HashMap::new(), Vec::new());
        for change in changes.filter(|change| change.object != 0) {
            let mapped = change.offset..change.offset + (change.range.end - change.range.start);
            let extent = extents.entry(change.object).or_insert_with(|| {
                order.push(change.object);
                mapped.clone()
            });
            *extent = extent.start.min(mapped.start)..extent.end.max(mapped.end);
        }
        let mut free = first.next_multiple_of(ALIGNMENT);
        let mut placed = HashMap::new();
        for &object in &order {
            let extent = &extents[&object];
            let below = extent.start / ALIGNMENT * ALIGNMENT;
            let base = free.wrapping_sub(below);
            let end =
                (extent.end - below).checked_next_multiple_of(ALIGNMENT).and_then(|bytes| free.checked_add(bytes));
            free = end.filter(|&end| end < 1 << 63).ok_or_else(|| {
                Error::new("damaged: more memory is shared than there are addresses").remedy("record it again")
            })?;
            placed.insert(object, (base, base.wrapping_add(extent.start)..base.wrapping_add(extent.end)));
        }
        Ok(Self { placed, order, end: free })
    }

    /// The first address behind all objects.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The addresses of what was mapped of each object.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, Range<u64>)> + '_ {
        self.order.iter().map(|object| self.placed[object].clone())
    }

    /// The addresses of bytes of an object, of which something was mapped.
    pub fn addresses(&self, object: u64, bytes: Range<u64>) -> Option<Range<u64>> {
        let (base, mapped) = self.placed.get(&object)?;
        let from_end = mapped.end.wrapping_sub(*base);
        let (start, end) = (bytes.start.min(from_end), bytes.end.min(from_end));
        (start < end).then(|| base.wrapping_add(start)..base.wrapping_add(end))
    }
}

/// Mapped memory: addresses of the process, and what is added to one to have that of the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    range: Range<u64>,
    shift: u64,
}

/// What an image has mapped, by one version.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// Sorted, apart from one another.
    rows: Vec<Row>,
    /// Of all other addresses.
    own: u64,
    /// Changes that it has.
    taken: usize,
    /// Around the address that was asked for last.
    last: (u64, Range<u64>),
}

impl Table {
    /// Nothing is shared; `own` is added to all addresses.
    pub fn new(own: u64) -> Self {
        Self { rows: Vec::new(), own, taken: 0, last: (own, 0..0) }
    }

    /// Goes on to a version.
    pub fn advance(&mut self, changes: &[Change], version: u64, objects: &Objects) {
        while let Some(change) = changes.get(self.taken).filter(|change| change.version <= version) {
            self.take(change, objects);
            self.taken += 1;
            self.last = (self.own, 0..0);
        }
    }

    fn take(&mut self, change: &Change, objects: &Objects) {
        let Range { start, end } = change.range;
        let first = self.rows.partition_point(|row| row.range.end <= start);
        let last = self.rows.partition_point(|row| row.range.start < end);
        let mut now = Vec::new();
        for row in &self.rows[first..last] {
            for rest in [row.range.start..row.range.end.min(start), row.range.start.max(end)..row.range.end] {
                if rest.start < rest.end {
                    now.push(Row { range: rest, shift: row.shift });
                }
            }
        }
        if let Some((base, _)) = objects.placed.get(&change.object) {
            let shift = base.wrapping_add(change.offset).wrapping_sub(start);
            now.push(Row { range: start..end, shift });
        }
        now.sort_by_key(|row| row.range.start);
        self.rows.splice(first..last, now);
    }

    /// Where the addresses around this one lie: what is added to them, and which they are.
    fn around(&self, address: u64) -> (u64, Range<u64>) {
        let next = self.rows.partition_point(|row| row.range.end <= address);
        match self.rows.get(next) {
            Some(row) if row.range.start <= address => (row.shift, row.range.clone()),
            row => {
                let start = if next > 0 { self.rows[next - 1].range.end } else { 0 };
                (self.own, start..row.map_or(u64::MAX, |row| row.range.start))
            }
        }
    }

    /// Whether all addresses are the process's own.
    pub fn is_plain(&self) -> bool {
        self.rows.is_empty()
    }

    /// The address in the recording.
    #[inline]
    pub fn address(&mut self, address: u64) -> u64 {
        if !self.last.1.contains(&address) {
            self.last = self.around(address);
        }
        address.wrapping_add(self.last.0)
    }

    /// How many of `most` accesses, each `stride` behind the one before, lie where the first does: at least one.
    pub fn together(&self, first: u64, stride: i64, most: u64) -> u64 {
        if self.is_plain() || stride == 0 {
            return most;
        }
        let (_, range) = self.around(first);
        let room = if stride > 0 { range.end.saturating_sub(first).saturating_sub(1) } else { first - range.start };
        most.min((room / stride.unsigned_abs()).saturating_add(1))
    }

    /// The parts of a range that are the process's own memory, by the addresses of the recording.
    pub fn own_parts(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut at = range.start;
        let mut end_part = |from: u64, to: u64| {
            if from < to {
                parts.push(from.wrapping_add(self.own)..from.wrapping_add(self.own).saturating_add(to - from));
            }
        };
        for row in &self.rows[self.rows.partition_point(|row| row.range.end <= range.start)..] {
            if row.range.start >= range.end {
                break;
            }
            end_part(at, row.range.start);
            at = row.range.end;
        }
        end_part(at, range.end);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(version: u64, range: Range<u64>, object: u64, offset: u64) -> Change {
        Change { version, range, object, offset }
    }

    fn bytes(changes: &[Change]) -> Vec<u8> {
        let numbers = |c: &Change| [c.version, c.range.start, c.range.end, c.object, c.offset];
        changes.iter().flat_map(numbers).flat_map(u64::to_le_bytes).collect()
    }

    /// Byte for byte: object and offset of each address that is mapped.
    fn slowly(changes: &[Change], version: u64) -> HashMap<u64, (u64, u64)> {
        let mut found = HashMap::new();
        for change in changes.iter().filter(|change| change.version <= version) {
            for address in change.range.clone() {
                match change.object {
                    0 => found.remove(&address),
                    object => found.insert(address, (object, change.offset + address - change.range.start)),
                };
            }
        }
        found
    }

    #[test]
    fn every_byte_lies_where_the_changes_say() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) % below
        };
        for _ in 0..60 {
            let changes: Vec<Change> = (0..next(9))
                .map(|number| {
                    let start = next(40);
                    change(1 + number, start..start + 1 + next(20), next(4), next(30))
                })
                .collect();
            let read = read_changes(&bytes(&changes)).unwrap();
            assert_eq!(read, changes);
            let own = 1 << 47;
            let objects = Objects::place(changes.iter(), 1 << 48).unwrap();
            let mut table = Table::new(own);
            for version in 0..10 {
                table.advance(&changes, version, &objects);
                let wanted = slowly(&changes, version);
                let place = |address: u64| match wanted.get(&address) {
                    None => address + own,
                    Some(&(object, offset)) => objects.placed[&object].0 + offset,
                };
                for address in 0..64 {
                    assert_eq!(table.address(address), place(address), "{changes:?} {version} {address}");
                    for stride in [-7, -1, 1, 3] {
                        let steps = table.together(address, stride, 5);
                        for step in 0..steps {
                            let there = address.wrapping_add_signed(stride * step as i64);
                            let from_first = table.address(address).wrapping_add_signed(stride * step as i64);
                            assert!(there > 64 || from_first == place(there), "{changes:?} {address} {stride} {step}");
                        }
                        assert!((1..=5).contains(&steps));
                    }
                }
                let own_bytes: Vec<u64> = table.own_parts(3..61).into_iter().flatten().collect();
                let own_wanted: Vec<u64> = (3..61).filter(|at| !wanted.contains_key(at)).map(|at| at + own).collect();
                assert_eq!(own_bytes, own_wanted);
            }
        }
    }

    #[test]
    fn objects_lie_apart_from_one_another_and_above_all_images() {
        let changes =
            [change(1, 0..4096, 7, 1 << 40), change(2, 0..8192, 9, 0), change(3, 0..4096, 7, (1 << 40) + 4096)];
        let objects = Objects::place(changes.iter(), 5 << 47).unwrap();
        let [(_, a), (_, b)] = <[_; 2]>::try_from(objects.ranges().collect::<Vec<_>>()).unwrap();
        assert_eq!((a.start, a.end - a.start, b.end - b.start), (5 << 47, 8192, 8192));
        assert!(b.start >= a.end && b.start % 4096 == 0);
        assert_eq!(objects.addresses(7, 1 << 40..u64::MAX), Some(a.clone()));
        assert_eq!(objects.addresses(7, (1 << 40) + 4096..(1 << 40) + 4100), Some(a.start + 4096..a.start + 4100));
        assert_eq!(objects.addresses(8, 0..9), None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let far = [change(1, 0..4096, 7, u64::MAX - 5)];
        let empty = change(1, 9..9, 7, 0);
        let backwards = [change(2, 0..9, 7, 0), change(1, 0..9, 7, 0)];
        for bad in [bytes(&far), bytes(&[empty]), bytes(&backwards), vec![0; 39], vec![0xff; 40]] {
            assert!(read_changes(&bad).is_err());
        }
        let wide = |object| change(1, 0..ADDRESSES, object, 0);
        let many: Vec<Change> = (1..70_000).map(wide).collect();
        assert!(Objects::place(many.iter(), 0).is_err());
    }
}
