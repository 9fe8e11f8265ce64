//! Reads the part that an MPI rank leaves (`native/mpi/abi.h`): bounds are checked, nothing is trusted.

use super::abi;
use cohabit_model::calls::CallPlace;
use cohabit_model::{Error, Result};
use std::cell::Cell;
use std::collections::HashMap;
use std::mem::size_of;

/// Ranks of a world at most: more are damage.
pub const MOST_RANKS: u32 = 1 << 20;

/// A record of the header.
///
/// # Safety
/// Any bytes are a value: integers and arrays of them, without padding that matters and without pointers.
pub unsafe trait Record: Copy {}

// SAFETY: structures of integers, generated from the header.
unsafe impl Record for abi::cohabit_mpi_part_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_mpi_cell_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_mpi_site_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_mpi_page_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_mpi_world_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_mpi_thread_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_mpi_operation_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_mpi_call_site_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_mpi_visit_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_mpi_phase_t {}
// SAFETY: an integer.
unsafe impl Record for u32 {}
// SAFETY: an integer.
unsafe impl Record for u64 {}

/// Whom messages were exchanged with, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    /// 0: this rank's own world, else the number of another in [`Rank::worlds`].
    pub world: u32,
    /// Rank in that world.
    pub rank: u32,
    /// How.
    pub kind: Kind,
}

/// How messages came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The program sent them.
    Sent,
    /// A collective did.
    Collective,
    /// One-sided, to the peer.
    Put,
    /// One-sided, from the peer.
    Got,
}

/// Messages and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
    /// Adds, saturating.
    pub fn add(&mut self, other: Amount) {
        self.messages = self.messages.saturating_add(other.messages);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// What was exchanged from one place in the code, in messages of one size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// With whom; that of collectives means nothing, unless the flag for call sites is set.
    pub peer: Peer,
    /// The size class.
    pub class: u32,
    /// Where the call returns to.
    pub address: u64,
    /// The same for all ranks of a program.
    pub place: u64,
    /// In which order they were first seen.
    pub order: u32,
    /// The round that it belongs to, one number for all that are one; 0 where there was no room to tell.
    pub round: u32,
    /// How much.
    pub amount: Amount,
}

/// Something that a rank did with messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// `COHABIT_MPI_DOES_`.
    pub does: u32,
    /// With whom; none of a wait, and where that was never known.
    pub peer: Option<Peer>,
    /// That were sent; of a wait the number of the operation that it waited for.
    pub bytes: u64,
    /// Of messages that one communicator's ranks tell apart.
    pub tag: u64,
}

/// Another world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// `COHABIT_MPI_WORLD_`.
    pub kind: u32,
    /// How many ranks.
    pub size: u32,
    /// When the call that made it known began and ended, CLOCK_REALTIME.
    pub known_ns: (u64, u64),
    /// Of a spawned world: the ranks that spawned it, in the order of their communicator.
    pub spawners: Vec<u32>,
}

/// What a rank left.
#[derive(Debug, Clone)]
pub struct Rank {
    /// The head.
    pub head: abi::cohabit_mpi_part_t,
    /// By peer and size class (0: empty, k + 1: from 2^k bytes on).
    pub cells: Vec<(Peer, u32, Amount)>,
    /// Of collectives, by peer and size class: how many messages the rank had sent in the round before the first of
    /// these, and `COHABIT_MPI_STEPS`.
    pub before: HashMap<(Peer, u32), u32>,
    /// Of the cells, what is known to have been called by one thread: its thread id, peer, size class.
    pub callers: Vec<(u32, Peer, u32, Amount)>,
    /// By window of `head.window_ticks << .0`: bin and peer.
    pub series: Vec<(u32, u64, Peer, Amount)>,
    /// By place in the code.
    pub sites: Vec<Site>,
    /// What it did, one after another, as far as that was kept.
    pub operations: Vec<Operation>,
    /// Other worlds; number 1 is the first.
    pub worlds: Vec<World>,
    /// The threads that were to be placed, in the order in which the program makes them.
    pub threads: Vec<abi::cohabit_mpi_thread_t>,
    /// The places in the code that called MPI, by [`abi::cohabit_mpi_visit_t::site`].
    pub call_places: Vec<CallPlace>,
    /// When they did.
    pub visits: Vec<abi::cohabit_mpi_visit_t>,
    /// The phases that it was to be moved in.
    pub phases: Vec<abi::cohabit_mpi_phase_t>,
    /// The lines of code of /proc/self/maps.
    pub maps: String,
}

impl Rank {
    /// The rank's host.
    pub fn host(&self) -> String {
        text(&self.head.host)
    }

    /// What its MPI calls itself.
    pub fn library(&self) -> String {
        text(&self.head.library).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Whether the flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.head.flags & flag != 0
    }

    /// Ticks in ns.
    pub fn ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.head.ticks_per_second.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// Text up to the first zero.
fn text(bytes: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The head of a part, where one begins there.
pub fn head(bytes: &[u8]) -> Result<Option<abi::cohabit_mpi_part_t>> {
    let Some(head) = record::<abi::cohabit_mpi_part_t>(bytes, 0) else { return Ok(None) };
    if head.magic != abi::COHABIT_MPI_PART_MAGIC {
        return Ok(None);
    }
    if head.version != abi::COHABIT_MPI_VERSION {
        return Err(Error::new(format!(
            "a part of format {}, this cohabit reads {}",
            head.version,
            abi::COHABIT_MPI_VERSION
        ))
        .remedy("read it with the cohabit whose library was preloaded"));
    }
    Ok(Some(head))
}

/// Reads a part; none where the rank ended before there was anything in it.
///
/// # Errors
/// Another version, or a list that leads out of the part.
pub fn read(bytes: &[u8]) -> Result<Option<Rank>> {
    let Some(head) = head(bytes)? else { return Ok(None) };
    let bytes = &Records::new(bytes);
    let damaged = |what: &str| Error::new(format!("the part of rank {} is damaged: {what}", head.rank));
    if head.rank >= head.size.min(MOST_RANKS) {
        return Err(damaged(&format!("it is of {} ranks", head.size)));
    }
    let cell_records = bytes.array::<abi::cohabit_mpi_cell_t>(head.cells, head.cell_capacity);
    let (mut cells, mut before) = (Vec::new(), HashMap::new());
    let mut series = Vec::new();
    let threads = bytes.array::<abi::cohabit_mpi_thread_t>(head.threads, head.thread_count.into());
    let threads: Vec<_> = threads.ok_or_else(|| damaged("its threads are not all there"))?.collect();
    let mut callers = Vec::new();
    for cell in cell_records.ok_or_else(|| damaged("its cells are not all there"))? {
        let Some((peer, class)) = key(cell.key) else { continue };
        let amount = Amount { messages: cell.messages, bytes: cell.bytes };
        cells.push((peer, class, amount));
        if peer.kind == Kind::Collective {
            let least: &mut u32 = before.entry((peer, class)).or_insert(cell.before);
            *least = cell.before.min(*least);
        }
        let place = ((cell.key - 1) >> abi::COHABIT_MPI_KEY_THREAD_SHIFT) as usize;
        callers.extend(
            place.checked_sub(1).and_then(|at| threads.get(at)).map(|thread| (thread.tid, peer, class, amount)),
        );
        if cell.window_messages > 0 && head.window_ticks > 0 {
            let amount = Amount { messages: cell.window_messages, bytes: cell.window_bytes };
            series.push((head.window_shift, head.window_bin, peer, amount));
        }
    }
    bytes
        .follow::<abi::cohabit_mpi_page_t>(head.pages, |page| {
            for row in page.rows.iter().take(page.count as usize) {
                if let Some((peer, _)) = key(row.key.wrapping_add(1)) {
                    series.push((
                        page.window_shift,
                        row.bin,
                        peer,
                        Amount { messages: row.messages, bytes: row.bytes },
                    ));
                }
            }
            page.next
        })
        .ok_or_else(|| damaged("its series leads nowhere"))?;
    let site_records = bytes.array::<abi::cohabit_mpi_site_t>(head.sites, head.site_capacity);
    let rounds = bytes.array::<u32>(head.rounds, head.round_count.min(abi::COHABIT_MPI_MAX_ROUNDS.into()));
    let rounds: Vec<u32> = rounds.ok_or_else(|| damaged("its rounds are not all there"))?.collect();
    let site = |site: abi::cohabit_mpi_site_t| {
        let (peer, class) = key(site.key)?;
        let amount = Amount { messages: site.messages, bytes: site.bytes };
        let round = first_round(&rounds, site.round);
        Some(Site { peer, class, address: site.address, place: site.place, order: site.order, round, amount })
    };
    let sites = site_records.ok_or_else(|| damaged("its call sites are not all there"))?.filter_map(site).collect();
    let operations = operations(bytes, &head).ok_or_else(|| damaged("its operations are not all there"))?;
    let places = bytes.array::<abi::cohabit_mpi_call_site_t>(head.call_sites, head.call_site_count.into());
    let place = |site: abi::cohabit_mpi_call_site_t| CallPlace { module: text(&site.module), offset: site.offset };
    let call_places: Vec<CallPlace> =
        places.ok_or_else(|| damaged("the places of its calls are not all there"))?.map(place).collect();
    let visits = bytes.array::<abi::cohabit_mpi_visit_t>(head.visits, head.visit_count.into());
    let visits = visits.ok_or_else(|| damaged("its visits are not all there"))?;
    let visits = visits.filter(|visit| (visit.site as usize) < call_places.len()).collect();
    let phases = bytes.array::<abi::cohabit_mpi_phase_t>(head.phases, head.phase_count.into());
    let phases = phases.ok_or_else(|| damaged("its phases are not all there"))?.collect();
    let mut worlds = Vec::new();
    let mut whole = true;
    bytes
        .follow::<abi::cohabit_mpi_world_t>(head.worlds, |world| {
            let spawners = bytes.array::<u32>(world.ranks, world.rank_count.into());
            whole &= spawners.is_some();
            worlds.push(World {
                kind: world.kind,
                size: world.size,
                known_ns: (world.began_ns, world.ended_ns),
                spawners: spawners.into_iter().flatten().collect(),
            });
            world.next
        })
        .filter(|()| whole)
        .ok_or_else(|| damaged("its list of worlds leads nowhere"))?;
    worlds.reverse();
    let maps = bytes.take(head.maps, head.maps_bytes).unwrap_or_default();
    let maps = String::from_utf8_lossy(if head.maps == 0 { &[] } else { maps }).into_owned();
    Ok(Some(Rank {
        head,
        cells,
        before,
        callers,
        series,
        sites,
        operations,
        worlds,
        threads,
        call_places,
        visits,
        phases,
        maps,
    }))
}

fn operations(bytes: &Records, head: &abi::cohabit_mpi_part_t) -> Option<Vec<Operation>> {
    let count = head.operation_count.min(abi::COHABIT_MPI_MAX_OPERATIONS);
    let mut found = Vec::new();
    let pages = u64::from(count.div_ceil(abi::COHABIT_MPI_OPERATIONS_PER_PAGE));
    for (number, page) in (0..).zip(bytes.array::<u64>(head.operations, pages)?) {
        let here = (count - number * abi::COHABIT_MPI_OPERATIONS_PER_PAGE).min(abi::COHABIT_MPI_OPERATIONS_PER_PAGE);
        for record in bytes.array::<abi::cohabit_mpi_operation_t>(page, here.into())? {
            let (peer, does) = key(record.key.wrapping_add(1)).unzip();
            let does = does.unwrap_or(0) & abi::COHABIT_MPI_DOES_MASK;
            let peer = peer.filter(|_| does & (abi::COHABIT_MPI_DOES_SEND | abi::COHABIT_MPI_DOES_POST) != 0);
            found.push(Operation { does, peer, bytes: record.bytes, tag: record.tag });
        }
    }
    Some(found)
}

/// The round that a round is one with: each names itself or one before it.
fn first_round(rounds: &[u32], mut round: u32) -> u32 {
    loop {
        match rounds.get(round as usize) {
            Some(&with) if with < round => round = with,
            Some(_) => return round,
            None => return 0,
        }
    }
}

/// A stored key (one more than the key; 0 is none) as peer and size class.
fn key(stored: u64) -> Option<(Peer, u32)> {
    let key = stored.checked_sub(1)?;
    let bits = |from: u32, to: u32| ((key >> from) & ((1 << (to - from)) - 1)) as u32;
    let kind = match bits(abi::COHABIT_MPI_KEY_KIND_SHIFT, abi::COHABIT_MPI_KEY_WORLD_SHIFT) {
        abi::COHABIT_MPI_KIND_SENT => Kind::Sent,
        abi::COHABIT_MPI_KIND_COLLECTIVE => Kind::Collective,
        abi::COHABIT_MPI_KIND_PUT => Kind::Put,
        abi::COHABIT_MPI_KIND_GOT => Kind::Got,
        _ => return None,
    };
    let world = bits(abi::COHABIT_MPI_KEY_WORLD_SHIFT, abi::COHABIT_MPI_KEY_RANK_SHIFT);
    let rank = bits(abi::COHABIT_MPI_KEY_RANK_SHIFT, abi::COHABIT_MPI_KEY_RANK_SHIFT + 32);
    Some((Peer { world, rank, kind }, bits(0, abi::COHABIT_MPI_KEY_KIND_SHIFT)))
}

fn slice(bytes: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}

fn record<T: Record>(bytes: &[u8], offset: u64) -> Option<T> {
    let bytes = slice(bytes, offset, size_of::<T>() as u64)?;
    // SAFETY: as many bytes as the record has, and any bytes are a value of it.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The records of a part, each of which has one owner: no byte is handed out twice, and so time and memory are bounded
/// whatever the offsets and the lengths say.
struct Records<'a> {
    bytes: &'a [u8],
    unread: Cell<u64>,
}

impl<'a> Records<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, unread: Cell::new(bytes.len() as u64) }
    }

    fn take(&self, offset: u64, length: u64) -> Option<&'a [u8]> {
        let found = slice(self.bytes, offset, length)?;
        self.unread.set(self.unread.get().checked_sub(length)?);
        Some(found)
    }

    /// `count` records at `offset`; none of them where the offset is 0.
    fn array<T: Record>(&self, offset: u64, count: u64) -> Option<impl Iterator<Item = T> + use<'a, T>> {
        let count = if offset == 0 { 0 } else { count };
        let all = self.take(if count == 0 { 0 } else { offset }, count.checked_mul(size_of::<T>() as u64)?)?;
        Some(all.chunks_exact(size_of::<T>()).filter_map(|chunk| record(chunk, 0)))
    }

    /// Goes along a list; `each` gives the next offset. None where it leads out of the part, or around.
    fn follow<T: Record>(&self, mut offset: u64, mut each: impl FnMut(T) -> u64) -> Option<()> {
        while offset != 0 {
            offset = each(record(self.take(offset, size_of::<T>() as u64)?, 0)?);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::many_tests::part_of;
    use super::*;

    #[test]
    fn lists_that_lead_around_end_before_they_take_memory() {
        let bytes_of = |head: &abi::cohabit_mpi_part_t| {
            // SAFETY: a structure of integers.
            unsafe { std::slice::from_raw_parts(std::ptr::from_ref(head).cast::<u8>(), size_of_val(head)) }.to_vec()
        };
        let whole = part_of(0, &[(1, 2, 200)]);
        assert_eq!(read(&whole).unwrap().unwrap().cells.len(), 1);
        type Change = fn(&mut abi::cohabit_mpi_part_t, u64);
        let changes: [(&str, Change); 3] = [
            ("its list of worlds leads nowhere", |head, at| head.worlds = at),
            ("its series leads nowhere", |head, at| head.pages = at),
            ("its cells are not all there", |head, _| head.cell_capacity = 1 << 28),
        ];
        for (what, change) in changes {
            let mut damaged = whole.clone();
            let at = damaged.len().next_multiple_of(64) as u64;
            // A record that names itself as the next one, wherever it keeps that.
            damaged.resize(at as usize, 0);
            damaged.extend(at.to_le_bytes().repeat(1024));
            let mut head = head(&damaged).unwrap().unwrap();
            change(&mut head, at);
            head.used = damaged.len() as u64;
            damaged.splice(..size_of_val(&head), bytes_of(&head));
            let error = read(&damaged).unwrap_err();
            assert!(error.cause.contains(what), "{what}: {}", error.cause);
        }
    }
}
