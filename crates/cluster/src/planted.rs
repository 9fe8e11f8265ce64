//! Series with a known number of bursts, for tests: 400 windows, 200,000 events, a tenth of them scattered.

use crate::{Options, Windows, clusters};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Box,
    Bell,
}

const WINDOWS: u64 = 400;
const EVENTS: u64 = 200_000;

/// A series with so many bursts, apart from one another; of one length and size, or not.
fn planted(random: &mut fastrand::Rng, bursts: usize, shape: Shape, equal: bool) -> Windows {
    let room = WINDOWS / bursts as u64;
    let mut series = Vec::new();
    let sizes: Vec<f64> = (0..bursts).map(|_| if equal { 1.0 } else { 1.0 + 4.0 * random.f64() }).collect();
    let all: f64 = sizes.iter().sum();
    for (burst, size) in sizes.iter().enumerate() {
        let width = if equal { room / 4 } else { (room / 8).max(1) + random.u64(0..=room / 4) };
        let width = width.max(2);
        let start = burst as u64 * room + random.u64(0..=(room - width) / 2);
        for _ in 0..(0.9 * EVENTS as f64 * size / all) as u64 {
            let place = match shape {
                Shape::Box => random.f64(),
                Shape::Bell => (0..12).map(|_| random.f64()).sum::<f64>() / 12.0,
            };
            series.push((start + (place * width as f64) as u64, 1));
        }
    }
    (0..EVENTS / 10).for_each(|_| series.push((random.u64(0..WINDOWS), 1)));
    Windows::new(series)
}

fn right(shape: Shape, equal: bool, noise: bool, count: u64) -> u64 {
    let is_right = |seed: &u64| {
        let mut random = fastrand::Rng::with_seed(*seed);
        let bursts = 1 + random.usize(0..8);
        let windows = planted(&mut random, bursts, shape, equal);
        let found = clusters(&windows, &Options { noise, ..Options::default() });
        found.clusters == bursts
    };
    (0..count).filter(is_right).count() as u64
}

#[test]
fn bursts_of_one_length_are_counted() {
    let found = right(Shape::Box, true, false, 100);
    assert!(found >= 95, "{found} of 100");
}

/// The criterion alone takes the flanks of narrow bells for more bursts; with a uniform component it does not.
#[test]
fn noise_counts_bursts_that_differ() {
    for (shape, least) in [(Shape::Bell, 19), (Shape::Box, 19)] {
        let found = right(shape, false, true, 20);
        assert!(found >= least, "{shape:?}: {found} of 20");
    }
}

/// The table of docs/time.md: `cargo test -p cohabit-cluster --release planted -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table and takes long"]
fn table() {
    for noise in [false, true] {
        for shape in [Shape::Box, Shape::Bell] {
            for equal in [true, false] {
                println!("noise {noise} {shape:?} equal {equal}: {} of 100", right(shape, equal, noise, 100));
            }
        }
    }
}
