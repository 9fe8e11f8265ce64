//! Reading a profile.

use super::archive::{Archive, Array};
use super::{
    DENSE_TASKS, MATRICES, META, PER_TASK, PHASE_COLLECTIVE, PHASE_ORDER, PHASES, SERIES, SIZES, TRACE_MESSAGES,
    TRACE_OPERATIONS, TRIPLET, VISITS, is_known,
};
use cohabit_model::calls::Visit;
use cohabit_model::mapping_file::{check_format, format_of};
use cohabit_model::profile::{FORMAT, Meta, NO_ORDER, PhaseRow, SentBy, SeriesRow, SizeRow, UnknownArray};
use cohabit_model::trace::{Does, Message, Operation};
use cohabit_model::{Error, Matrix, Profile, Result, Trace};
use std::path::Path;

/// A million tasks with long names stay below this.
const META_LIMIT_BYTES: u64 = 256 << 20;

/// Reads a profile file. Keys of `meta` and arrays that this version does not know are kept.
///
/// # Errors
/// The path, then where it is wrong: not a zip, cut short, an array whose shape or type does not fit, an index out of
/// range, a newer format, sizes beyond what a profile can need. Never panics and never allocates much more than the
/// file really holds, whatever it says.
pub fn read_profile(path: &Path) -> Result<Profile> {
    read(path).map_err(|error| {
        let named = error.cause.contains(&path.display().to_string());
        if named { error } else { error.at(path.display()) }
    })
}

fn read(path: &Path) -> Result<Profile> {
    let mut archive = Archive::open(path)?;
    let meta = read_meta(&mut archive)?;
    let tasks = meta.tasks.len();
    let [messages, bytes, invalidations, sharing, transfers] =
        MATRICES.map(|name| read_matrix(&mut archive, name, tasks));
    let required =
        |matrix: Option<Matrix>, name: &str| matrix.ok_or_else(|| Error::new(format!("it has no array {name:?}")));
    let [accessed_bytes, polled_bytes, alone_bytes, loads, stores, mpi_ns, run_ns] =
        PER_TASK.map(|name| read_per_task(&mut archive, name, tasks));
    Ok(Profile {
        messages: required(messages?, MATRICES[0])?,
        bytes: required(bytes?, MATRICES[1])?,
        invalidations: invalidations?,
        transfers: transfers?,
        sharing: sharing?,
        series: read_series(&mut archive, tasks)?,
        sizes: read_sizes(&mut archive, tasks)?,
        phases: read_phases(&mut archive, tasks)?,
        trace: read_trace(&mut archive, tasks)?,
        visits: read_visits(&mut archive, tasks, meta.call_places.len())?,
        accessed_bytes: accessed_bytes?,
        polled_bytes: polled_bytes?,
        alone_bytes: alone_bytes?,
        loads: loads?,
        stores: stores?,
        mpi_ns: mpi_ns?,
        run_ns: run_ns?,
        unknown: read_unknown(&mut archive)?,
        meta,
    })
}

fn read_meta(archive: &mut Archive) -> Result<Meta> {
    if !archive.has(META) {
        let cause = "it has no array \"meta\", so it is no profile of cohabit";
        return Err(Error::new(cause).remedy("turn matrices of other tools into a profile with `cohabit import`"));
    }
    let Array { header, mut data } = archive.array(META)?;
    if header.data_bytes() > META_LIMIT_BYTES {
        return Err(Error::new(format!("meta: {} bytes; at most {META_LIMIT_BYTES} are read", header.data_bytes())));
    }
    let bytes = header.bytes(&mut data).map_err(|error| error.at(META))?;
    parse_meta(&bytes).map_err(|error| error.at(META))
}

fn parse_meta(bytes: &[u8]) -> Result<Meta> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| Error::new(format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    check_format(format_of(text, "profile")?, FORMAT, "profile")?;
    let meta: Meta = serde_json::from_str(text).map_err(|error| Error::new(format!("not a profile: {error}")))?;
    for (index, task) in meta.tasks.iter().enumerate() {
        if task.id as usize != index {
            return Err(Error::new(format!("task {index} has id {}, it must be its place in the list", task.id)));
        }
        if task.parent.is_some_and(|parent| parent as usize >= meta.tasks.len()) {
            return Err(Error::new(format!("task {index} has a parent that is no task")));
        }
    }
    let tasks = meta.tasks.len();
    let of_blocks = meta.hot.iter().flat_map(|hot| hot.writers.iter().chain(&hot.readers));
    let objects = meta.data.iter().flat_map(|data| &data.objects);
    let of_objects = objects.flat_map(|object| object.writers.iter().chain(&object.readers));
    match of_blocks.chain(of_objects).flat_map(|site| &site.tasks).find(|&&task| task as usize >= tasks) {
        Some(task) => Err(Error::new(format!("code of hot data names task {task}, there are {tasks}"))),
        None => Ok(meta),
    }
}

fn read_matrix(archive: &mut Archive, name: &str, tasks: usize) -> Result<Option<Matrix>> {
    let triplet = TRIPLET.map(|ending| format!("{name}{ending}"));
    let in_triplets = triplet.iter().any(|column| archive.has(column));
    match (archive.has(name), in_triplets) {
        (false, false) => Ok(None),
        (true, true) => Err(Error::new(format!("{name}: stored both dense and as triplets"))),
        (true, false) => {
            let (_, entries) = archive.square(name, Some(tasks))?;
            Ok(Some(Matrix::from_triplets(tasks, entries)))
        }
        (false, true) => {
            let [sources, destinations, values] = triplet.map(|column| archive.counts(&column));
            let (sources, destinations, values) = (sources?, destinations?, values?);
            same_length(name, &[sources.len(), destinations.len(), values.len()])?;
            check_tasks(&format!("{name}_source"), &sources, tasks)?;
            check_tasks(&format!("{name}_destination"), &destinations, tasks)?;
            let pairs = sources.into_iter().zip(destinations).zip(values);
            Ok(Some(Matrix::from_triplets(
                tasks,
                pairs.map(|((source, destination), value)| (source as u32, destination as u32, value)),
            )))
        }
    }
}

fn read_per_task(archive: &mut Archive, name: &str, tasks: usize) -> Result<Vec<u64>> {
    if !archive.has(name) {
        return Ok(Vec::new());
    }
    let values = archive.counts(name)?;
    if values.len() == tasks {
        Ok(values)
    } else {
        Err(Error::new(format!("{name}: {} values for {tasks} tasks", values.len())))
    }
}

fn read_series(archive: &mut Archive, tasks: usize) -> Result<Vec<SeriesRow>> {
    if !SERIES.iter().any(|name| archive.has(name)) {
        return Ok(Vec::new());
    }
    let [bins, sources, destinations, messages, bytes] = SERIES.map(|name| archive.counts(name));
    let (bins, sources, destinations, messages, bytes) = (bins?, sources?, destinations?, messages?, bytes?);
    same_length("series", &[bins.len(), sources.len(), destinations.len(), messages.len(), bytes.len()])?;
    check_tasks(SERIES[1], &sources, tasks)?;
    check_tasks(SERIES[2], &destinations, tasks)?;
    let row = |index: usize| SeriesRow {
        bin: bins[index],
        source: sources[index] as u32,
        destination: destinations[index] as u32,
        messages: messages[index],
        bytes: bytes[index],
    };
    let mut rows: Vec<SeriesRow> = (0..bins.len()).map(row).collect();
    rows.sort_unstable();
    Ok(rows)
}

fn read_phases(archive: &mut Archive, tasks: usize) -> Result<Vec<PhaseRow>> {
    let [name, columns @ ..] = PHASES;
    let numbers = if archive.has(name) { archive.counts(name)? } else { Vec::new() };
    let rows = read_rows(archive, columns, tasks)?;
    let mut column = |name: &str, unknown: u32| match archive.has(name) {
        true => archive.counts(name),
        false => Ok(vec![u64::from(unknown); rows.len()]),
    };
    let (orders, collective) = (column(PHASE_ORDER, NO_ORDER)?, column(PHASE_COLLECTIVE, 0)?);
    same_length("phase", &[numbers.len(), rows.len(), orders.len(), collective.len()])?;
    for (name, numbers, what) in [(name, &numbers, "a phase"), (PHASE_ORDER, &orders, "a place")] {
        if let Some(at) = numbers.iter().position(|&number| number > u64::from(u32::MAX)) {
            return Err(Error::new(format!("{name}: element {at} is {}, {what} is below 2^32", numbers[at])));
        }
    }
    let sent_by = |(at, &number): (usize, &u64)| match number {
        0 => Ok(SentBy::Program),
        1 => Ok(SentBy::Collective),
        2 => Ok(SentBy::Steps),
        _ => Err(Error::new(format!("{PHASE_COLLECTIVE}: element {at} is {number}, it is 0, 1 or 2"))),
    };
    let by = collective.iter().enumerate().map(sent_by).collect::<Result<Vec<_>>>()?;
    let row = |at: usize| PhaseRow { phase: numbers[at] as u32, size: rows[at], order: orders[at] as u32, by: by[at] };
    let mut rows: Vec<PhaseRow> = (0..rows.len()).map(row).collect();
    rows.sort_unstable();
    Ok(rows)
}

fn read_trace(archive: &mut Archive, tasks: usize) -> Result<Option<Trace>> {
    if !TRACE_MESSAGES.iter().chain(&TRACE_OPERATIONS).any(|name| archive.has(name)) {
        return Ok(None);
    }
    let [sources, destinations, bytes] = TRACE_MESSAGES.map(|name| archive.counts(name));
    let (sources, destinations, bytes) = (sources?, destinations?, bytes?);
    same_length("the messages of the trace", &[sources.len(), destinations.len(), bytes.len()])?;
    let [of, does, numbers] = TRACE_OPERATIONS.map(|name| archive.counts(name));
    let (of, does, numbers) = (of?, does?, numbers?);
    same_length("the operations of the trace", &[of.len(), does.len(), numbers.len()])?;
    for (name, indices) in
        [(TRACE_MESSAGES[0], &sources), (TRACE_MESSAGES[1], &destinations), (TRACE_OPERATIONS[0], &of)]
    {
        check_tasks(name, indices, tasks)?;
    }
    let message =
        |at: usize| Message { source: sources[at] as u32, destination: destinations[at] as u32, bytes: bytes[at] };
    let mut trace = Trace { messages: (0..bytes.len()).map(message).collect(), operations: vec![Vec::new(); tasks] };
    for (at, &task) in of.iter().enumerate() {
        let does = match does[at] {
            0 => Does::Send,
            1 => Does::Post,
            2 => Does::Wait,
            other => {
                return Err(Error::new(format!("{}: element {at} is {other}, it is 0, 1 or 2", TRACE_OPERATIONS[1])));
            }
        };
        let beyond = || Error::new(format!("{}: element {at} names no message", TRACE_OPERATIONS[2]));
        let message = u32::try_from(numbers[at]).map_err(|_| beyond())?;
        trace.operations[task as usize].push(Operation { does, message });
    }
    trace.check()?;
    Ok(Some(trace))
}

fn read_visits(archive: &mut Archive, tasks: usize, places: usize) -> Result<Vec<Visit>> {
    if !VISITS.iter().any(|name| archive.has(name)) {
        return Ok(Vec::new());
    }
    let [of, at, begins, ends, calls] = VISITS.map(|name| archive.counts(name));
    let (of, at, begins, ends, calls) = (of?, at?, begins?, ends?, calls?);
    same_length("visit", &[of.len(), at.len(), begins.len(), ends.len(), calls.len()])?;
    check_tasks(VISITS[0], &of, tasks)?;
    if let Some(row) = at.iter().position(|&place| place >= places as u64) {
        return Err(Error::new(format!("{}: element {row} names place {}, there are {places}", VISITS[1], at[row])));
    }
    if let Some(row) = (0..of.len()).find(|&row| ends[row] < begins[row]) {
        return Err(Error::new(format!("{}: element {row} is before its beginning", VISITS[3])));
    }
    let visit = |row: usize| Visit {
        task: of[row] as u32,
        place: at[row] as u32,
        begin_ns: begins[row],
        end_ns: ends[row],
        calls: calls[row],
    };
    let mut visits: Vec<Visit> = (0..of.len()).map(visit).collect();
    visits.sort_unstable();
    Ok(visits)
}

fn read_sizes(archive: &mut Archive, tasks: usize) -> Result<Vec<SizeRow>> {
    let mut rows = read_rows(archive, SIZES, tasks)?;
    rows.sort_unstable();
    Ok(rows)
}

/// Rows of sizes, as they are in the file.
fn read_rows(archive: &mut Archive, columns: [&str; 5], tasks: usize) -> Result<Vec<SizeRow>> {
    if !columns.iter().any(|name| archive.has(name)) {
        return Ok(Vec::new());
    }
    let [sources, destinations, classes, messages, bytes] = columns.map(|name| archive.counts(name));
    let (sources, destinations, classes, messages, bytes) = (sources?, destinations?, classes?, messages?, bytes?);
    let what = columns[0].trim_end_matches("_source");
    same_length(what, &[sources.len(), destinations.len(), classes.len(), messages.len(), bytes.len()])?;
    check_tasks(columns[0], &sources, tasks)?;
    check_tasks(columns[1], &destinations, tasks)?;
    if let Some(at) = classes.iter().position(|&class| class >= 64) {
        return Err(Error::new(format!("{}: element {at} is {}, a class is below 64", columns[2], classes[at])));
    }
    let row = |index: usize| SizeRow {
        source: sources[index] as u32,
        destination: destinations[index] as u32,
        class: classes[index] as u32,
        messages: messages[index],
        bytes: bytes[index],
    };
    Ok((0..sources.len()).map(row).collect())
}

fn read_unknown(archive: &mut Archive) -> Result<Vec<UnknownArray>> {
    let names = archive.names().into_iter().filter(|name| !is_known(name));
    names.map(|name| Ok(UnknownArray { npy: archive.raw(&name)?, name })).collect()
}

fn same_length(name: &str, lengths: &[usize]) -> Result<()> {
    if lengths.iter().all(|&length| length == lengths[0]) {
        return Ok(());
    }
    Err(Error::new(format!("{name}: its columns differ in length: {lengths:?}")))
}

fn check_tasks(name: &str, indices: &[u64], tasks: usize) -> Result<()> {
    match indices.iter().position(|&index| index >= tasks as u64) {
        Some(at) => Err(Error::new(format!("{name}: element {at} names task {}, there are {tasks}", indices[at]))),
        None => Ok(()),
    }
}

const _: () = assert!(8 * DENSE_TASKS * DENSE_TASKS <= super::archive::MEMBER_LIMIT_BYTES as usize);
