//! What one part says: a program image, its tasks and what they exchanged, in plain data.

use super::abi;
use super::part::{Part, Source, text};
use cohabit_host::symbols::Module;
use cohabit_model::{Error, Result};
use std::collections::BTreeMap;

/// Windows doubled this often span years: more is damage.
const WINDOW_SHIFT_LIMIT: u32 = 40;

/// A program from its start, or from exec, to its end, or to exec.
pub struct Image {
    /// The part's head: process, clocks, flags, totals.
    pub head: abi::cohabit_part_t,
    /// Its tasks in the order of their creation; the first is its main thread.
    pub tasks: Vec<ImageTask>,
    /// Files it mapped for execution.
    pub modules: Vec<Module>,
    /// Data that was communicated through, by the offset in the part that blocks name it by.
    pub objects: BTreeMap<u64, abi::cohabit_object_t>,
    /// Blocks that were followed.
    pub hot: Vec<abi::cohabit_hot_t>,
    /// Phases that the program said to be in, the newest first.
    pub phases: Vec<abi::cohabit_phase_t>,
    /// Events that were lost, by the client's account and by ours.
    pub events_lost: u64,
    /// The widest windows in it, as doublings of `head.window_ticks`.
    pub window_shift: u32,
}

/// A task of an image. Partners and parents are indices of the image's tasks; partners from `COHABIT_COMMON_TASKS` on
/// are tasks of the whole run, by their number in memory that processes share.
#[derive(Default)]
pub struct ImageTask {
    /// Thread id.
    pub tid: u32,
    /// The task that created it, where that was seen.
    pub parent: Option<u32>,
    /// Its number among the tasks of the run that touched memory shared between processes; none where it touched none.
    pub common: Option<u32>,
    /// MPI made it for itself.
    pub of_mpi: bool,
    /// Its comm.
    pub name: String,
    /// Loads it made.
    pub loads: u64,
    /// Stores it made.
    pub stores: u64,
    /// Bytes of all its accesses.
    pub accessed_bytes: u64,
    /// Those of them that it read in loops that wait for others.
    pub polled_bytes: u64,
    /// Of what it accessed, before its image had a second thread.
    pub alone_bytes: u64,
    /// Its partners with what it counted for them (abi.h says who is who), ascending.
    pub cells: Vec<(u32, abi::cohabit_cell_t)>,
    /// What it read in each window.
    pub series: Vec<ImageRow>,
}

/// What a task read from `writer` in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageRow {
    /// Number of the window since the image's start.
    pub bin: u64,
    /// Width of the window, as doublings of `head.window_ticks`.
    pub shift: u32,
    /// The task that wrote.
    pub writer: u32,
    /// Values read.
    pub messages: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl Image {
    /// Reads a whole part; none where its process ended before there was anything in it.
    ///
    /// # Errors
    /// It cannot be read, or is damaged: where and how.
    pub fn read<S: Source + ?Sized>(source: &S) -> Result<Option<Self>> {
        let Some(mut part) = Part::open(source)? else { return Ok(None) };
        let head = part.head;
        if head.tasks > abi::COHABIT_MAX_TASKS || head.shapes > abi::COHABIT_MAX_COUNTERS {
            return Err(Error::new(format!("damaged: {} tasks, {} block shapes", head.tasks, head.shapes)));
        }
        let window_shift = checked_shift(head.window_shift)?;
        let mut image = Self {
            head,
            tasks: Vec::new(),
            modules: Vec::new(),
            objects: BTreeMap::new(),
            hot: Vec::new(),
            phases: Vec::new(),
            events_lost: head.events_lost,
            window_shift,
        };
        let shapes = match head.shapes_at {
            0 => Vec::new(),
            at => part.records(at, head.shapes as usize)?,
        };
        for page in 0..head.tasks.div_ceil(abi::COHABIT_TASKS_PER_PAGE) {
            let offset = head.task_pages[page as usize];
            let records: Vec<abi::cohabit_task_t> = part.records(offset, abi::COHABIT_TASKS_PER_PAGE as usize)?;
            let in_page = (head.tasks - page * abi::COHABIT_TASKS_PER_PAGE).min(abi::COHABIT_TASKS_PER_PAGE);
            for record in &records[..in_page as usize] {
                let task = image.task(&mut part, record, &shapes)?;
                image.tasks.push(task);
            }
        }
        let modules = chain(&mut part, head.modules, |module: &abi::cohabit_module_t| module.next)?;
        image.modules = modules.iter().map(module).collect();
        image.objects = objects(&mut part, head.objects)?;
        image.hot = chain(&mut part, head.hot, |hot: &abi::cohabit_hot_t| hot.next)?;
        image.phases = chain(&mut part, head.phases, |phase: &abi::cohabit_phase_t| phase.next)?;
        Ok(Some(image))
    }

    /// A task of the image, or one of another.
    fn is_partner(&self, number: u32) -> bool {
        number < self.head.tasks || number >= abi::COHABIT_COMMON_TASKS
    }

    fn task<S: Source + ?Sized>(
        &mut self,
        part: &mut Part<S>,
        record: &abi::cohabit_task_t,
        shapes: &[abi::cohabit_shape_t],
    ) -> Result<ImageTask> {
        let Accesses { loads, stores, bytes, polled } = accesses(part, record, shapes)?;
        let mut task = ImageTask {
            tid: record.tid,
            parent: (record.parent < self.head.tasks).then_some(record.parent),
            common: record.common.checked_sub(1),
            of_mpi: record.of_mpi != 0,
            name: text(&record.name),
            loads,
            stores,
            accessed_bytes: bytes,
            polled_bytes: polled,
            alone_bytes: record.alone_bytes,
            cells: self.cells(part, record)?,
            series: Vec::new(),
        };
        self.series(part, record, &mut task)?;
        Ok(task)
    }

    fn cells<S: Source + ?Sized>(
        &mut self,
        part: &mut Part<S>,
        record: &abi::cohabit_task_t,
    ) -> Result<Vec<(u32, abi::cohabit_cell_t)>> {
        let mut cells = Vec::new();
        for (number, &offset) in record.directories.iter().enumerate().filter(|(_, offset)| **offset != 0) {
            let directory: abi::cohabit_directory_t = part.record(offset)?;
            for (row, &offset) in directory.rows.iter().enumerate().filter(|(_, offset)| **offset != 0) {
                let first = (number as u32 * abi::COHABIT_ROWS_PER_DIRECTORY + row as u32) * abi::COHABIT_CELLS_PER_ROW;
                let row: Vec<abi::cohabit_cell_t> = part.records(offset, abi::COHABIT_CELLS_PER_ROW as usize)?;
                for (partner, cell) in (first..).zip(row).filter(|(_, cell)| !is_empty(cell)) {
                    if self.is_partner(partner) {
                        cells.push((partner, cell));
                    } else {
                        // A partner newer than the head we read: its process is still running.
                        self.events_lost = self.events_lost.saturating_add(cell.messages);
                    }
                }
            }
        }
        Ok(cells)
    }

    /// The finished windows of a task, and the one under way.
    fn series<S: Source + ?Sized>(
        &mut self,
        part: &mut Part<S>,
        record: &abi::cohabit_task_t,
        task: &mut ImageTask,
    ) -> Result<()> {
        let pages = chain(part, record.series, |page: &abi::cohabit_series_page_t| page.next)?;
        for page in &pages {
            let shift = checked_shift(page.window_shift)?;
            self.window_shift = self.window_shift.max(shift);
            let Some(rows) = page.rows.get(..page.count as usize) else {
                return Err(Error::new(format!("damaged: {} rows in a page of the series", page.count)));
            };
            let rows = rows.iter().filter(|row| self.is_partner(row.writer) && row.messages != 0);
            task.series.extend(rows.map(|row| ImageRow {
                bin: row.bin,
                shift,
                writer: row.writer,
                messages: row.messages,
                bytes: row.bytes,
            }));
        }
        let shift = checked_shift(record.window_shift)?;
        self.window_shift = self.window_shift.max(shift);
        let under_way = task.cells.iter().filter(|(_, cell)| cell.window_messages != 0);
        task.series.extend(under_way.map(|&(writer, cell)| ImageRow {
            bin: record.window,
            shift,
            writer,
            messages: cell.window_messages,
            bytes: cell.window_bytes,
        }));
        Ok(())
    }
}

fn is_empty(cell: &abi::cohabit_cell_t) -> bool {
    cell.messages == 0 && cell.bytes == 0 && cell.invalidations == 0 && cell.sharing == 0 && cell.transfers == 0
}

fn checked_shift(shift: u32) -> Result<u32> {
    match shift {
        0..=WINDOW_SHIFT_LIMIT => Ok(shift),
        _ => Err(Error::new(format!("damaged: windows doubled {shift} times"))),
    }
}

/// What a task accessed.
struct Accesses {
    loads: u64,
    stores: u64,
    bytes: u64,
    /// The bytes that it read in loops that wait.
    polled: u64,
}

/// Of a task: its own sums, the three counters that are sums, and each block shape times its executions.
fn accesses<S: Source + ?Sized>(
    part: &mut Part<S>,
    record: &abi::cohabit_task_t,
    shapes: &[abi::cohabit_shape_t],
) -> Result<Accesses> {
    let counters: Vec<u64> = match record.counters {
        0 => Vec::new(),
        at => part.records(at, shapes.len().max(abi::COHABIT_FIRST_SHAPE as usize))?,
    };
    let counter = |number: u32| counters.get(number as usize).copied().unwrap_or(0);
    let sum = |own: u64, of: fn(&abi::cohabit_shape_t) -> u32| {
        let shaped = shapes.iter().zip(&counters).skip(abi::COHABIT_FIRST_SHAPE as usize);
        let shaped = shaped.map(|(shape, &executions)| u64::from(of(shape)).saturating_mul(executions));
        shaped.fold(own, u64::saturating_add)
    };
    let all = |own: u64, direct: u32, of| sum(own.saturating_add(counter(direct)), of);
    Ok(Accesses {
        loads: all(record.loads, abi::COHABIT_COUNTER_LOADS, |shape| shape.loads),
        stores: all(record.stores, abi::COHABIT_COUNTER_STORES, |shape| shape.stores),
        bytes: all(record.accessed_bytes, abi::COHABIT_COUNTER_BYTES, |shape| shape.bytes),
        polled: sum(0, |shape| if shape.spins > 0 { shape.bytes } else { 0 }),
    })
}

fn objects<S: Source + ?Sized>(part: &mut Part<S>, first: u64) -> Result<BTreeMap<u64, abi::cohabit_object_t>> {
    let mut found = BTreeMap::new();
    let mut offset = first;
    while offset != 0 {
        let object: abi::cohabit_object_t = part.record(offset)?;
        found.insert(offset, object);
        offset = object.next;
    }
    Ok(found)
}

fn module(module: &abi::cohabit_module_t) -> Module {
    let (start, end, preferred) = (module.start, module.end, module.preferred);
    Module { path: text(&module.path), start, end, preferred, unloaded: module.unloaded != 0 }
}

/// A list of records, each of which names the next; circles end in the error of [`Part::record`].
fn chain<S: Source + ?Sized, T: super::part::Record>(
    part: &mut Part<S>,
    first: u64,
    next: impl Fn(&T) -> u64,
) -> Result<Vec<T>> {
    let mut found = Vec::new();
    let mut offset = first;
    while offset != 0 {
        let record: T = part.record(offset)?;
        offset = next(&record);
        found.push(record);
    }
    Ok(found)
}

/// Numbers of the system calls whose effects on memory are not modelled.
pub fn unknown_syscalls(head: &abi::cohabit_part_t) -> impl Iterator<Item = u32> + '_ {
    (0u32..)
        .zip(head.unknown_syscalls)
        .flat_map(|(word, bits)| (0..64).filter(move |bit| (bits >> bit) & 1 == 1).map(move |bit| 64 * word + bit))
}
/// The thread ids of the tasks in a part, of a process that may still run.
///
/// # Errors
/// As [`Part::open`] and [`Part::records`].
pub fn thread_ids<S: Source + ?Sized>(source: &S) -> Result<Vec<u32>> {
    let Some(mut part) = Part::open(source)? else { return Ok(Vec::new()) };
    let mut tids = Vec::new();
    let pages = part.head.tasks.div_ceil(abi::COHABIT_TASKS_PER_PAGE) as usize;
    let offsets: Vec<u64> = part.head.task_pages.iter().copied().take(pages).collect();
    for offset in offsets {
        let records: Vec<abi::cohabit_task_t> = part.records(offset, abi::COHABIT_TASKS_PER_PAGE as usize)?;
        tids.extend(records.iter().map(|task| task.tid));
    }
    tids.truncate(part.head.tasks as usize);
    Ok(tids)
}
