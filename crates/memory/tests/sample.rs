//! What is estimated from a sample, beside what all of the run comes to.

use cohabit_access::outline::Outline;
use cohabit_access::{InMemory, synthetic};
use cohabit_memory::sample::Sample;
use cohabit_memory::{Machine, Options, Report, simulate};
use std::sync::Arc;

const PACKED: [usize; 4] = [0, 1, 2, 3];
const APART: [usize; 4] = [0, 4, 1, 5];

fn sampled(recording: &InMemory, outline: &Outline, share: f64, seed: u64, mapping: &[usize]) -> (Arc<Sample>, Report) {
    let machine = Machine::load("harpertown").unwrap();
    let sample = Arc::new(Sample::draw(outline.clone(), share, seed).unwrap());
    let options = Options { sample: Some(Arc::clone(&sample)), ..Options::default() };
    let report = simulate(&sample.excerpt(recording), &machine, mapping, &options).unwrap();
    (sample, report)
}

fn whole(recording: &InMemory, mapping: &[usize]) -> Report {
    simulate(recording, &Machine::load("harpertown").unwrap(), mapping, &Options::default()).unwrap()
}

/// One over the other.
fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other as f64
}

/// A task's time is what it ran, and what it did not.
fn adds_up(task: &cohabit_memory::report::TaskReport) {
    let parts = [task.running_fs, task.waiting_fs, task.polling_fs, task.idle_fs, task.queued_fs];
    assert_eq!(parts.iter().sum::<u64>(), task.end_fs, "{task:?}");
}

#[test]
fn a_sample_of_all_is_the_run() {
    let recording = synthetic::parse("ring:4:64:60").unwrap();
    let outline = Outline::of(&recording, 64).unwrap();
    let run = whole(&recording, &PACKED);
    let (sample, report) = sampled(&recording, &outline, 1.0, 1, &PACKED);
    assert_eq!((sample.measured(), sample.share()), (sample.intervals(), 1.0));
    let found = report.sampled.unwrap();
    assert_eq!((found.margin_fs, found.measured, found.intervals), (0, sample.intervals(), outline.intervals.len()));
    // What is still under way at the end is no part of any interval.
    assert!((0.999..=1.0).contains(&ratio(report.time_fs, run.time_fs)), "{} of {}", report.time_fs, run.time_fs);
    assert_eq!(report.total.instructions, run.total.instructions);
    assert_eq!(report.total.loads_served, run.total.loads_served);
    assert_eq!(report.total.stores_served, run.total.stores_served);
    assert_eq!(report.caches, run.caches);
    assert_eq!(report.total.invalidations, run.total.invalidations);
    for (found, wanted) in report.tasks.iter().zip(&run.tasks) {
        assert!((0.98..=1.02).contains(&ratio(found.end_fs, wanted.end_fs)), "{found:?} {wanted:?}");
        assert!((0.98..=1.02).contains(&ratio(found.running_fs, wanted.running_fs)), "{found:?} {wanted:?}");
        adds_up(found);
    }
}

/// The run lies in the intervals of its samples, and so does how much longer it takes elsewhere.
#[test]
fn the_run_lies_in_the_interval() {
    let recording = synthetic::parse("distant:4:16:200").unwrap();
    let outline = Outline::of(&recording, 128).unwrap();
    let (packed, apart) = (whole(&recording, &PACKED), whole(&recording, &APART));
    let wanted = ratio(apart.time_fs, packed.time_fs) - 1.0;
    let (mut of_time, mut of_difference) = (0, 0);
    for seed in 0..8 {
        let (sample, one) = sampled(&recording, &outline, 0.05, seed, &PACKED);
        let other = sampled(&recording, &outline, 0.05, seed, &APART).1;
        assert!(sample.share() < 0.3, "{}", sample.share());
        let found = one.sampled.unwrap();
        of_time += u32::from(one.time_fs.abs_diff(packed.time_fs) <= found.margin_fs);
        let difference = sample.difference(&other.sampled.unwrap(), &found);
        of_difference += u32::from((difference.value - wanted).abs() <= difference.margin);
        assert!((0.9..1.1).contains(&ratio(one.time_fs, packed.time_fs)), "{} {}", one.time_fs, packed.time_fs);
        assert!((0.9..1.1).contains(&ratio(one.total.instructions, packed.total.instructions)));
        one.tasks.iter().for_each(adds_up);
    }
    assert!(of_time >= 7 && of_difference >= 7, "{of_time} {of_difference}");
}

/// The same sample gives the same, and another seed is another one.
#[test]
fn a_sample_is_drawn_by_its_seed() {
    let recording = synthetic::parse("pairs:4:64:60").unwrap();
    let outline = Outline::of(&recording, 64).unwrap();
    let drawn = |seed| sampled(&recording, &outline, 0.1, seed, &PACKED);
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1).0, drawn(2).0);
}

/// Pages lie where they do in the run, also those that are touched first in what is left out.
#[test]
fn pages_are_where_they_are_touched_first() {
    let recording = synthetic::parse("distant:8:64:40").unwrap();
    let outline = Outline::of(&recording, 64).unwrap();
    let machine = Machine::load("purple").unwrap();
    let apart: Vec<usize> = (0..8).map(|task| task % 4 + task / 4 * 28).collect();
    let run = simulate(&recording, &machine, &apart, &Options::default()).unwrap();
    let sample = Arc::new(Sample::draw(outline, 0.1, 1).unwrap());
    let options = Options { sample: Some(Arc::clone(&sample)), ..Options::default() };
    let report = simulate(&sample.excerpt(&recording), &machine, &apart, &options).unwrap();
    let remote = |report: &Report| {
        let of = |served: cohabit_memory::report::ServedCounts| (served.local_memory, served.remote_memory);
        of(report.total.stores_served)
    };
    assert_eq!(remote(&run).1, 0, "each task writes its own pages: {:?}", remote(&run));
    assert_eq!(remote(&report).1, 0, "{:?}", remote(&report));
}

#[test]
fn a_short_run_is_refused() {
    let recording = synthetic::parse("ring:2:1:1").unwrap();
    let error = Sample::draw(Outline::of(&recording, 64).unwrap(), 0.05, 1).unwrap_err();
    assert!(error.cause.contains("too short"), "{error}");
}
