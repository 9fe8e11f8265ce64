//! Who communicates in a recording, by the definition, and when: what mappers need of it.
//!
//! There is no clock in a recording. A window is so many accesses of all tasks together, in one of the orders that the recording
//! allows: what is in one window may happen at the same time.

use crate::compare::TURN_ACCESSES;
use crate::exact::Exact;
use crate::{Detector, Setting};
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
    /// Bytes that each task accesses.
    pub accessed_bytes: Vec<u64>,
    /// The same messages by window, a nanosecond an access.
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
    let mut accessed_bytes = vec![0u64; tasks];
    let (mut series, mut window, mut accesses) = (Vec::new(), WINDOW_ACCESSES, 0u64);
    let mut before = exact.counts.clone();
    in_turns(recording, TURN_ACCESSES, &mut |event| {
        if let Event::Access(access) = &event {
            let bytes = &mut accessed_bytes[access.task as usize];
            *bytes = bytes.saturating_add(access.size_bytes.into());
            if accesses % WINDOW_ACCESSES == 0 && accesses > 0 {
                series.extend(exact.counts.rows_since(&before, (accesses - 1) / window));
                before.clone_from(&exact.counts);
                if series.len() > 2 * MOST_ROWS {
                    (series, window) = bound_series(std::mem::take(&mut series), window, MOST_ROWS);
                }
            }
            accesses += 1;
        }
        exact.take(&event);
        Ok(())
    })?;
    series.extend(exact.counts.rows_since(&before, accesses.saturating_sub(1) / window));
    let (series, window_accesses) = bound_series(series, window, MOST_ROWS);
    Ok(Communication { messages: exact.counts.matrix(), accessed_bytes, series, window_accesses })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named;
    use cohabit_access::synthetic;

    #[test]
    fn windows_add_up_to_the_whole() {
        for text in ["ring:8:16:10", "pairs:4:1:2", "alone:3:64:4"] {
            let recording = synthetic::parse(text).unwrap();
            let found = communication(&recording).unwrap();
            let mut slow = (named("exact").unwrap().make)(&Setting::new(recording.tasks().len()));
            in_turns(&recording, TURN_ACCESSES, &mut |event| {
                slow.take(&event);
                Ok(())
            })
            .unwrap();
            assert_eq!(found.messages, slow.finish().matrix, "{text}");
            let sum = Matrix::from_triplets(
                recording.tasks().len(),
                found.series.iter().map(|row| (row.source, row.destination, row.messages)),
            );
            assert_eq!(sum, found.messages, "{text}");
            let total: u64 = recording.tasks().iter().filter_map(|task| task.accesses).sum();
            assert_eq!(found.accessed_bytes.iter().sum::<u64>(), 8 * total);
            assert!(found.series.iter().all(|row| row.bin <= total / found.window_accesses), "{text}");
        }
        // By hand: 16 lines of 64 bytes, read by the other in each of 2 rounds; each writes and reads 1 KiB a round.
        let pairs = communication(&synthetic::parse("pairs:4:1:2").unwrap()).unwrap();
        let weight = &pairs.messages;
        assert_eq!((weight.get(0, 1), weight.get(1, 0), weight.get(1, 2)), (32, 32, 0));
        assert_eq!(pairs.accessed_bytes, vec![2 * 2 * 1024; 4]);
        let ring = communication(&synthetic::parse("ring:8:16:10").unwrap()).unwrap();
        assert!(ring.series.iter().map(|row| row.bin).max() > Some(10), "several windows");
    }
}
