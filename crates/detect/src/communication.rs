//! Who communicates in a recording, by the definition, and when: what mappers need of it.
//!
//! There is no clock in a recording. A window is so many accesses of all tasks together, in one of the orders that the
//! recording allows: what is in one window may happen at the same time.

use crate::compare::TURN_ACCESSES;
use crate::exact::Exact;
use crate::transfers::Transfers;
pub use crate::transfers::{PARTS, whole};
use crate::work::Work;
use crate::{Counts, Detector, Setting};
use cohabit_access::Recording;
use cohabit_access::order::{Event, in_turns};
use cohabit_model::profile::SeriesRow;
use cohabit_model::series::bound_series;
use cohabit_model::{Matrix, Result};

/// Accesses of the narrowest window.
const WINDOW_ACCESSES: u64 = 1 << 14;
/// Rows of the series at most: it is made coarser until it has no more.
const MOST_ROWS: usize = 1 << 16;

/// Who communicates, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Communication {
    /// First reads of each value, `[writer][reader]`.
    pub messages: Matrix,
    /// Bytes that these reads read of the blocks which they are counted for.
    pub bytes: Matrix,
    /// The same reads, each from any task that holds the value then (the detector `transfers`), `[holder][reader]`.
    pub transfers: Matrix,
    /// How much each task accesses.
    pub work: Work,
    /// Messages by window, a nanosecond an access, and in the place of bytes transfers, in [`PARTS`].
    pub series: Vec<SeriesRow>,
    /// Accesses of a window.
    pub window_accesses: u64,
}

/// The communication of a recording.
///
/// # Errors
/// It cannot be read, or its waits cannot be kept.
pub fn communication(recording: &dyn Recording) -> Result<Communication> {
    let tasks = recording.tasks().len();
    let mut exact = Exact::new(&Setting::new(tasks));
    let mut transfers = Transfers::new(&Setting::new(tasks));
    let mut work = Work::of(recording)?;
    let (mut series, mut window, mut accesses) = (Vec::new(), WINDOW_ACCESSES, 0u64);
    let mut before = [exact.counts.clone(), transfers.counts.clone()];
    in_turns(recording, TURN_ACCESSES, &mut |event| {
        if let Event::Access(access) = &event {
            work.take(access);
            if accesses % WINDOW_ACCESSES == 0 && accesses > 0 {
                series.extend(rows_since([&exact.counts, &transfers.counts], &before, (accesses - 1) / window));
                before[0].clone_from(&exact.counts);
                before[1].clone_from(&transfers.counts);
                if series.len() > 2 * MOST_ROWS {
                    (series, window) = bound_series(std::mem::take(&mut series), window, MOST_ROWS);
                }
            }
            accesses += 1;
        }
        exact.take(&event);
        transfers.take(&event);
        Ok(())
    })?;
    series.extend(rows_since([&exact.counts, &transfers.counts], &before, accesses.saturating_sub(1) / window));
    let (series, window_accesses) = bound_series(series, window, MOST_ROWS);
    let (messages, bytes, transfers) = (exact.counts.matrix(), exact.bytes.matrix(), transfers.matrix());
    Ok(Communication { messages, bytes, transfers, work, series, window_accesses })
}

/// What has been counted since an earlier state, messages and transfers, as rows of a window.
fn rows_since<'a>(now: [&'a Counts; 2], before: &'a [Counts; 2], bin: u64) -> impl Iterator<Item = SeriesRow> + 'a {
    let tasks = now[0].tasks;
    let since = move |which: usize, at: usize| now[which].cells[at] - before[which].cells[at];
    let row = move |at: usize| SeriesRow {
        bin,
        source: (at / tasks) as u32,
        destination: (at % tasks) as u32,
        messages: since(0, at),
        bytes: since(1, at),
    };
    (0..tasks * tasks).map(row).filter(|row| row.messages > 0 || row.bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named;
    use cohabit_access::synthetic;

    #[test]
    fn windows_add_up_to_the_whole() {
        for text in ["all:4:16:10", "ring:8:16:10", "pairs:4:1:2", "alone:3:64:4"] {
            let recording = synthetic::parse(text).unwrap();
            let found = communication(&recording).unwrap();
            let mut slow = (named("exact").unwrap().make)(&Setting::new(recording.tasks().len()));
            in_turns(&recording, TURN_ACCESSES, &mut |event| {
                slow.take(&event);
                Ok(())
            })
            .unwrap();
            assert_eq!(found.messages, slow.finish().matrix, "{text}");
            // In pairs a value has one reader.
            assert_eq!(
                found.transfers == found.messages,
                ["pairs", "alone"].iter().any(|kind| text.starts_with(kind)),
                "{text}"
            );
            let [most, least] = [found.messages.total() + 16, found.messages.total().saturating_sub(16)];
            assert!((least..=most).contains(&found.transfers.total()), "{text}");
            let sum = Matrix::from_triplets(
                recording.tasks().len(),
                found.series.iter().map(|row| (row.source, row.destination, row.messages)),
            );
            assert_eq!(sum, found.messages, "{text}");
            let parts = found.series.iter().map(|row| (row.source, row.destination, row.bytes));
            assert_eq!(whole(&Matrix::from_triplets(recording.tasks().len(), parts)), found.transfers, "{text}");
            let total: u64 = recording.tasks().iter().filter_map(|task| task.accesses).sum();
            assert_eq!(found.work.accessed_bytes.iter().sum::<u64>(), 8 * total);
            assert!(found.series.iter().all(|row| row.bin <= total / found.window_accesses), "{text}");
        }
        // By hand: 16 lines of 64 bytes, read by the other in each of 2 rounds; each writes and reads 1 KiB a round.
        let pairs = communication(&synthetic::parse("pairs:4:1:2").unwrap()).unwrap();
        let weight = &pairs.messages;
        assert_eq!((weight.get(0, 1), weight.get(1, 0), weight.get(1, 2)), (32, 32, 0));
        assert_eq!(pairs.work.accessed_bytes, vec![2 * 2 * 1024; 4]);
        // Reads of 8 bytes, of which the first of a line is counted.
        assert_eq!((pairs.bytes.get(0, 1), pairs.bytes.total()), (32 * 8, 4 * 32 * 8));
        let ring = communication(&synthetic::parse("ring:8:16:10").unwrap()).unwrap();
        assert!(ring.series.iter().map(|row| row.bin).max() > Some(10), "several windows");
    }
}
