//! A world of 10,000 ranks without as many processes: their parts, as `native/mpi` leaves them.

use super::abi::*;
use std::path::Path;

/// Ranks in each direction of a periodic grid.
const GRID: [u32; 3] = [25, 20, 20];
const RANKS: u32 = GRID[0] * GRID[1] * GRID[2];

/// The neighbours of a rank, one step away in each direction.
fn neighbours(rank: u32) -> Vec<u32> {
    let at = [rank / (GRID[1] * GRID[2]), rank / GRID[2] % GRID[1], rank % GRID[2]];
    let step = |axis: usize, by: u32| {
        let mut to = at;
        to[axis] = (to[axis] + by) % GRID[axis];
        (to[0] * GRID[1] + to[1]) * GRID[2] + to[2]
    };
    (0..3).flat_map(|axis| [step(axis, 1), step(axis, GRID[axis] - 1)]).collect()
}

fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: a structure of integers without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The part of a rank that sent each neighbour 3 messages of 1,000 bytes.
fn part(rank: u32) -> Vec<u8> {
    part_of(rank, &neighbours(rank).into_iter().map(|peer| (peer, 3, 3000)).collect::<Vec<_>>())
}

/// The part of a rank, process 1,000 and so many, that sent messages: to whom, how many, and how many bytes.
pub(super) fn part_of(rank: u32, sent: &[(u32, u64, u64)]) -> Vec<u8> {
    // SAFETY: integers, for which zeroes are values.
    let mut head: cohabit_mpi_part_t = unsafe { std::mem::zeroed() };
    let at = size_of::<cohabit_mpi_part_t>().next_multiple_of(64);
    let cells: Vec<cohabit_mpi_cell_t> = sent
        .iter()
        .map(|&(peer, messages, bytes)| cohabit_mpi_cell_t {
            key: (u64::from(peer) << COHABIT_MPI_KEY_RANK_SHIFT | 10) + 1,
            messages,
            bytes,
            window_messages: 0,
            window_bytes: 0,
            before: 0,
            reserved: 0,
        })
        .collect();
    (head.magic, head.version) = (COHABIT_MPI_PART_MAGIC, COHABIT_MPI_VERSION);
    (head.rank, head.size, head.pid, head.end) = (rank, RANKS, 1000 + rank, COHABIT_MPI_END_FINALIZED);
    (head.cells, head.cell_capacity, head.cell_count) = (at as u64, cells.len() as u64, cells.len() as u64);
    head.used = (at + size_of_val(&cells[..])) as u64;
    head.ticks_per_second = 1_000_000_000;
    let mut bytes = bytes_of(&head).to_vec();
    bytes.resize(at, 0);
    cells.iter().for_each(|cell| bytes.extend(bytes_of(cell)));
    bytes
}

fn check(path: &Path) {
    let profile = super::import(path).unwrap();
    assert_eq!(profile.tasks(), RANKS as usize);
    assert!(profile.meta.coverage.exact, "{:?}", profile.meta.coverage.not_seen);
    assert_eq!(profile.messages.entries(), 6 * RANKS as usize);
    for rank in [0, 1, 4711, RANKS - 1] {
        for peer in 0..RANKS {
            let expected = if neighbours(rank).contains(&peer) { (3, 3000) } else { (0, 0) };
            let found = |matrix: &cohabit_model::Matrix| matrix.get(rank as usize, peer as usize);
            assert_eq!((found(&profile.messages), found(&profile.bytes)), expected, "{rank} to {peer}");
        }
    }
    // The file of so many tasks is sparse, and reads back.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.npz");
    cohabit_formats::npz::write_profile(&file, &profile).unwrap();
    assert!(std::fs::metadata(&file).unwrap().len() < 100 * u64::from(RANKS), "sparse");
    assert_eq!(cohabit_formats::npz::read_profile(&file).unwrap().messages, profile.messages);
}

#[test]
fn ten_thousand_parts_are_one_profile() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..RANKS {
        std::fs::write(folder.path().join(format!("h-{rank}-0.{}", super::files::PART)), part(rank)).unwrap();
    }
    check(folder.path());
}
