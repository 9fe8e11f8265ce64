//! Writing a profile.

use super::archive::MEMBER_LIMIT_BYTES;
use super::{
    DENSE_TASKS, MATRICES, META, PER_TASK, PHASE_COLLECTIVE, PHASE_ORDER, PHASES, SERIES, SIZES, TRACE_MESSAGES,
    TRACE_OPERATIONS, TRIPLET, VISITS, npy,
};
use cohabit_model::file::{cannot_write, write_whole};
use cohabit_model::profile::SizeRow;
use cohabit_model::{Error, Matrix, Profile, Result, Trace};
use std::io::{self, Cursor, Write};
use std::path::Path;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Writes a profile file, whole or not at all; the same profile gives the same bytes.
///
/// # Errors
/// The path with the system's reason; or what in the profile contradicts itself (a matrix of other size than there are
/// tasks), which a file must not carry on.
pub fn write_profile(path: &Path, profile: &Profile) -> Result<()> {
    check(profile).map_err(|error| error.at(path.display()))?;
    // Packed in memory: a zip writer whose disk is full complains on standard error when it is dropped.
    let mut out = Out { zip: ZipWriter::new(Cursor::new(Vec::new())) };
    let packed = out.profile(profile).and_then(|()| Ok(out.zip.finish()?));
    write_whole(path, packed.map_err(|error| cannot_write(path, &error))?.get_ref())
}

fn check(profile: &Profile) -> Result<()> {
    let tasks = profile.meta.tasks.len();
    for (name, matrix) in matrices(profile) {
        if matrix.tasks() != tasks {
            return Err(Error::new(format!("{name} has {} rows for {tasks} tasks", matrix.tasks())));
        }
        if matrix.entries() as u64 * 8 > MEMBER_LIMIT_BYTES {
            return Err(Error::new(format!("{name} has {} entries, more than a profile file holds", matrix.entries())));
        }
    }
    for (name, values) in per_task(profile) {
        if !values.is_empty() && values.len() != tasks {
            return Err(Error::new(format!("{name} has {} values for {tasks} tasks", values.len())));
        }
    }
    if let Some(trace) = &profile.trace {
        if trace.operations.len() != tasks {
            return Err(Error::new(format!("the trace is of {} tasks, there are {tasks}", trace.operations.len())));
        }
        trace.check()?;
    }
    if profile.series.len() as u64 * 8 > MEMBER_LIMIT_BYTES {
        let cause = format!("the series has {} rows, more than a profile file holds", profile.series.len());
        return Err(Error::new(cause).remedy("use a wider --window"));
    }
    Ok(())
}

fn matrices(profile: &Profile) -> impl Iterator<Item = (&'static str, &Matrix)> {
    let all = [
        Some(&profile.messages),
        Some(&profile.bytes),
        profile.invalidations.as_ref(),
        profile.sharing.as_ref(),
        profile.transfers.as_ref(),
    ];
    MATRICES.into_iter().zip(all).filter_map(|(name, matrix)| matrix.map(|matrix| (name, matrix)))
}

fn per_task(profile: &Profile) -> impl Iterator<Item = (&'static str, &[u64])> {
    let Profile { accessed_bytes, polled_bytes, alone_bytes, loads, stores, mpi_ns, run_ns, .. } = profile;
    let all = [accessed_bytes, polled_bytes, alone_bytes, loads, stores, mpi_ns, run_ns];
    PER_TASK.into_iter().zip(all.map(Vec::as_slice))
}

/// The zip being written.
struct Out {
    zip: ZipWriter<Cursor<Vec<u8>>>,
}

impl Out {
    fn profile(&mut self, profile: &Profile) -> io::Result<()> {
        let meta = serde_json::to_vec(&profile.meta)?;
        self.member(META, &npy::header_bytes("|u1", &[meta.len()]))?;
        self.zip.write_all(&meta)?;
        for (name, matrix) in matrices(profile) {
            if matrix.tasks() <= DENSE_TASKS { self.dense(name, matrix)? } else { self.triplets(name, matrix)? }
        }
        if !profile.series.is_empty() {
            let rows = &profile.series;
            let [bin, source, destination, messages, bytes] = SERIES;
            self.counts(bin, rows.len(), rows.iter().map(|row| row.bin))?;
            self.indices(source, rows.len(), rows.iter().map(|row| row.source))?;
            self.indices(destination, rows.len(), rows.iter().map(|row| row.destination))?;
            self.counts(messages, rows.len(), rows.iter().map(|row| row.messages))?;
            self.counts(bytes, rows.len(), rows.iter().map(|row| row.bytes))?;
        }
        if !profile.sizes.is_empty() {
            self.sizes(SIZES, profile.sizes.iter())?;
        }
        if !profile.phases.is_empty() {
            let [number, columns @ ..] = PHASES;
            self.indices(number, profile.phases.len(), profile.phases.iter().map(|row| row.phase))?;
            self.sizes(columns, profile.phases.iter().map(|row| &row.size))?;
            self.indices(PHASE_ORDER, profile.phases.len(), profile.phases.iter().map(|row| row.order))?;
            let collective = profile.phases.iter().map(|row| row.by as u32);
            self.indices(PHASE_COLLECTIVE, profile.phases.len(), collective)?;
        }
        if let Some(trace) = &profile.trace {
            self.trace(trace)?;
        }
        if !profile.visits.is_empty() {
            let (visits, count) = (&profile.visits, profile.visits.len());
            let [task, place, begin, end, calls] = VISITS;
            self.indices(task, count, visits.iter().map(|visit| visit.task))?;
            self.indices(place, count, visits.iter().map(|visit| visit.place))?;
            self.counts(begin, count, visits.iter().map(|visit| visit.begin_ns))?;
            self.counts(end, count, visits.iter().map(|visit| visit.end_ns))?;
            self.counts(calls, count, visits.iter().map(|visit| visit.calls))?;
        }
        for (name, values) in per_task(profile) {
            if !values.is_empty() {
                self.counts(name, values.len(), values.iter().copied())?;
            }
        }
        profile.unknown.iter().try_for_each(|array| self.member(&array.name, &array.npy))
    }

    fn trace(&mut self, trace: &Trace) -> io::Result<()> {
        let (messages, count) = (&trace.messages, trace.messages.len());
        let [source, destination, bytes] = TRACE_MESSAGES;
        self.indices(source, count, messages.iter().map(|message| message.source))?;
        self.indices(destination, count, messages.iter().map(|message| message.destination))?;
        self.counts(bytes, count, messages.iter().map(|message| message.bytes))?;
        let count = trace.operations.iter().map(Vec::len).sum();
        let each = || (0..).zip(&trace.operations).flat_map(|(task, own)| own.iter().map(move |one| (task, one)));
        let [task, does, message] = TRACE_OPERATIONS;
        self.indices(task, count, each().map(|(task, _)| task))?;
        self.indices(does, count, each().map(|(_, operation)| operation.does as u32))?;
        self.indices(message, count, each().map(|(_, operation)| operation.message))
    }

    fn sizes<'a>(
        &mut self,
        columns: [&str; 5],
        rows: impl ExactSizeIterator<Item = &'a SizeRow> + Clone,
    ) -> io::Result<()> {
        let [source, destination, class, messages, bytes] = columns;
        self.indices(source, rows.len(), rows.clone().map(|row| row.source))?;
        self.indices(destination, rows.len(), rows.clone().map(|row| row.destination))?;
        self.indices(class, rows.len(), rows.clone().map(|row| row.class))?;
        self.counts(messages, rows.len(), rows.clone().map(|row| row.messages))?;
        self.counts(bytes, rows.len(), rows.map(|row| row.bytes))
    }

    fn dense(&mut self, name: &str, matrix: &Matrix) -> io::Result<()> {
        let tasks = matrix.tasks();
        self.member(name, &npy::header_bytes("<u8", &[tasks, tasks]))?;
        let mut row = vec![0; tasks * 8];
        for source in 0..tasks {
            row.fill(0);
            for (destination, value) in matrix.row(source) {
                row[destination as usize * 8..][..8].copy_from_slice(&value.to_le_bytes());
            }
            self.zip.write_all(&row)?;
        }
        Ok(())
    }

    fn triplets(&mut self, name: &str, matrix: &Matrix) -> io::Result<()> {
        let [source, destination, value] = TRIPLET.map(|ending| format!("{name}{ending}"));
        self.indices(&source, matrix.entries(), matrix.iter().map(|entry| entry.0))?;
        self.indices(&destination, matrix.entries(), matrix.iter().map(|entry| entry.1))?;
        self.counts(&value, matrix.entries(), matrix.iter().map(|entry| entry.2))
    }

    fn counts(&mut self, name: &str, length: usize, values: impl Iterator<Item = u64>) -> io::Result<()> {
        self.member(name, &npy::header_bytes("<u8", &[length]))?;
        self.elements(values.map(u64::to_le_bytes))
    }

    fn indices(&mut self, name: &str, length: usize, values: impl Iterator<Item = u32>) -> io::Result<()> {
        self.member(name, &npy::header_bytes("<u4", &[length]))?;
        self.elements(values.map(u32::to_le_bytes))
    }

    fn elements<const BYTES: usize>(&mut self, elements: impl Iterator<Item = [u8; BYTES]>) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(1 << 16);
        for element in elements {
            buffer.extend(element);
            if buffer.len() >= 1 << 16 {
                self.zip.write_all(&buffer)?;
                buffer.clear();
            }
        }
        self.zip.write_all(&buffer)
    }

    /// Starts a member with its first bytes. Times are left out, so that equal profiles are equal files.
    fn member(&mut self, name: &str, start: &[u8]) -> io::Result<()> {
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        self.zip.start_file(format!("{name}.npy"), options)?;
        self.zip.write_all(start)
    }
}
