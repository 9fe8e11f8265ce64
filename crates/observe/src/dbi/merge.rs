//! Makes one profile of the images of a run.

use super::coverage::{channels, coverage};
use super::hot::hot;
use super::image::{Image, ImageRow};
use super::tasks::{Tasks, identify};
use super::{Options, abi};
use cohabit_model::profile::{Kind, Marker, Meta, SeriesRow};
use cohabit_model::series::{DEFAULT_BOUND, Window, bound_profile_series};
use cohabit_model::{Matrix, Profile};

/// The name of this detector in profiles.
pub const DETECTOR: &str = "dbi";

const CLOCK: &str = "wall time of the instrumented run, stretched by the instrumentation";
const INSTRUCTIONS: &str = "instructions of each task, counted on from those of the task that made it; an event is in the window \
                            that its reader is in";

/// What is known of a run beside its parts.
pub struct Run<'a> {
    /// The command line.
    pub command: Vec<String>,
    /// The machine's name.
    pub host: &'a str,
    /// What was asked for.
    pub options: &'a Options,
    /// CLOCK_MONOTONIC when it was over.
    pub end_ns: u64,
}

/// Makes the profile of a run of its `images`.
pub fn merge(mut images: Vec<Image>, run: &Run) -> Profile {
    images.sort_by_key(|image| image.head.start_ns);
    let tasks = identify(&images, run.host);
    let count = tasks.tasks.len();
    let matrix = |of: Direction, value: fn(&abi::cohabit_cell_t) -> u64| {
        Matrix::from_triplets(count, triplets(&images, &tasks, of, value))
    };
    let messages = matrix(Direction::PartnerToMe, |cell| cell.messages);
    let bytes = matrix(Direction::PartnerToMe, |cell| cell.bytes);
    let invalidations = matrix(Direction::MeToPartner, |cell| cell.invalidations);
    // Of tasks that are the same in several images the parts of all are added first.
    let parts = matrix(Direction::PartnerToMe, |cell| cell.transfers);
    let part = u64::from(abi::COHABIT_TRANSFER_PARTS);
    let transfers = parts.iter().map(|(holder, reader, parts)| (holder, reader, (parts + part / 2) / part));
    let transfers = Matrix::from_triplets(count, transfers.filter(|cell| cell.2 > 0));
    let sharing = run.options.sharing.then(|| matrix(Direction::Both, |cell| cell.sharing));
    let mut meta = Meta::new(kind(&tasks), DETECTOR, tasks.tasks.clone());
    meta.block_bytes = images.first().map_or(run.options.block_bytes, |image| image.head.block_bytes).into();
    meta.clock = match run.options.window {
        Window::Time(_) => CLOCK,
        Window::Instructions(_) => INSTRUCTIONS,
    }
    .to_owned();
    meta.command.clone_from(&run.command);
    meta.programs = programs(&images, &tasks);
    meta.hosts = vec![run.host.to_owned()];
    meta.coverage = coverage(&images, &tasks, run);
    meta.unseen_channels = channels(&images, &tasks).into_iter().map(str::to_owned).collect();
    (meta.data, meta.hot) = hot(&images, &tasks);
    meta.markers = markers(&images);
    meta.created = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let mut profile = Profile::new(meta, messages, bytes);
    profile.invalidations = Some(invalidations);
    profile.transfers = Some(transfers);
    profile.sharing = sharing;
    for (totals, of) in [
        (&mut profile.accessed_bytes, (|task| task.accessed_bytes) as fn(&super::image::ImageTask) -> u64),
        (&mut profile.polled_bytes, |task| task.polled_bytes),
        (&mut profile.alone_bytes, |task| task.alone_bytes),
        (&mut profile.loads, |task| task.loads),
        (&mut profile.stores, |task| task.stores),
    ] {
        *totals = per_task(&images, &tasks, of);
    }
    if run.options.series_bound > 0 {
        set_series(&mut profile, &images, &tasks, run.options);
    }
    profile
}

/// When phases begin, of all images, counted from the first one's start. Tasks that all say the same are one that says
/// it.
fn markers(images: &[Image]) -> Vec<Marker> {
    let Some(first) = images.first() else { return Vec::new() };
    let ticks_per_second = u128::from(first.head.ticks_per_second.max(1));
    let mut phases: Vec<(u64, u64)> =
        images.iter().flat_map(|image| &image.phases).map(|phase| (phase.ticks, phase.number)).collect();
    phases.sort_unstable();
    phases.dedup_by_key(|phase| phase.1);
    let marker = |(ticks, number): (u64, u64)| {
        let since_start = u128::from(ticks.saturating_sub(first.head.start_ticks));
        let at_ns = u64::try_from(since_start * 1_000_000_000 / ticks_per_second).unwrap_or(u64::MAX);
        Marker { number, at_ns }
    };
    phases.into_iter().map(marker).collect()
}

/// Whose row and column a cell is: rows belong to the task that counted (abi.h).
#[derive(Clone, Copy)]
enum Direction {
    PartnerToMe,
    MeToPartner,
    Both,
}

/// A task is not its own partner: through memory shared between processes it may have read, after exec, what it wrote
/// before.
fn triplets(
    images: &[Image],
    tasks: &Tasks,
    direction: Direction,
    value: fn(&abi::cohabit_cell_t) -> u64,
) -> Vec<(u32, u32, u64)> {
    let mut found = Vec::new();
    for (at, (image, ids)) in images.iter().zip(&tasks.ids).enumerate() {
        for (task, &me) in image.tasks.iter().zip(ids) {
            for (partner, cell) in task.cells.iter().filter(|(_, cell)| value(cell) != 0) {
                let Some(partner) = tasks.partner(at, *partner).filter(|&partner| partner != me) else { continue };
                let value = value(cell);
                if !matches!(direction, Direction::MeToPartner) {
                    found.push((partner, me, value));
                }
                if !matches!(direction, Direction::PartnerToMe) {
                    found.push((me, partner, value));
                }
            }
        }
    }
    found
}

fn per_task(images: &[Image], tasks: &Tasks, of: fn(&super::image::ImageTask) -> u64) -> Vec<u64> {
    let mut totals = vec![0u64; tasks.tasks.len()];
    for (image, ids) in images.iter().zip(&tasks.ids) {
        for (task, &id) in image.tasks.iter().zip(ids) {
            totals[id as usize] = totals[id as usize].saturating_add(of(task));
        }
    }
    totals
}

/// The executable of each process: of the last of its images, which are in the order in which they were seen.
fn programs(images: &[Image], tasks: &Tasks) -> Vec<String> {
    let mut programs = vec![String::new(); tasks.processes as usize];
    for (image, &process) in images.iter().zip(&tasks.process) {
        programs[process as usize] = super::part::text(&image.head.program);
    }
    programs
}

/// Threads, unless there are several processes and none has threads of its own.
fn kind(tasks: &Tasks) -> Kind {
    let threads = tasks.tasks.iter().any(|task| task.spawn_index > 0);
    if tasks.processes > 1 && !threads { Kind::Processes } else { Kind::Threads }
}

/// Brings the series of all images to the widest windows among them, of time counted from the first image's start.
fn set_series(profile: &mut Profile, images: &[Image], tasks: &Tasks, options: &Options) {
    let shift = images.iter().map(|image| image.window_shift).max().unwrap_or(0);
    let requested = options.window;
    let width = requested.width().saturating_mul(1 << shift);
    profile.meta.set_window(match requested {
        Window::Time(_) => Window::Time(width),
        Window::Instructions(_) => Window::Instructions(width),
    });
    let start_ticks = images.first().map_or(0, |image| image.head.start_ticks);
    for (at, (image, ids)) in images.iter().zip(&tasks.ids).enumerate() {
        for (task, &destination) in image.tasks.iter().zip(ids) {
            let known = task.series.iter().filter_map(|row| Some((row, tasks.partner(at, row.writer)?)));
            let known = known.filter(|&(_, source)| source != destination);
            profile.series.extend(known.map(|(row, source)| SeriesRow {
                bin: bin(image, row, start_ticks, shift),
                source,
                destination,
                messages: row.messages,
                bytes: row.bytes,
            }));
        }
    }
    if shift > 0 {
        profile.meta.note_requested(requested);
    }
    let bound = usize::try_from(options.series_bound).unwrap_or(DEFAULT_BOUND);
    bound_profile_series(profile, width, bound);
}

/// The bin, of windows doubled `shift` times, in which the window of `row` begins.
fn bin(image: &Image, row: &ImageRow, start_ticks: u64, shift: u32) -> u64 {
    let width = u128::from(image.head.window_ticks.max(1));
    let since_image = (u128::from(row.bin) * width) << row.shift.min(63);
    let of_instructions = image.head.flags & abi::COHABIT_FLAG_INSTRUCTIONS != 0;
    let image_start = if of_instructions { 0 } else { image.head.start_ticks.saturating_sub(start_ticks) };
    let since_start = since_image.saturating_add(u128::from(image_start));
    u64::try_from(since_start / (width << shift.min(63))).unwrap_or(u64::MAX)
}
