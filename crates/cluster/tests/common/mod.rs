//! Series with a known number of bursts, for tests and benchmarks: 400 windows, 200,000 events, a tenth of them
//! scattered.

use cohabit_cluster::{Options, Windows, clusters};

/// What a burst looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// As many events anywhere in it.
    Box,
    /// Most in its middle.
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

/// Of so many series, how often the number of bursts is found.
pub fn right(shape: Shape, equal: bool, noise: bool, count: u64) -> u64 {
    let is_right = |seed: &u64| {
        let mut random = fastrand::Rng::with_seed(*seed);
        let bursts = 1 + random.usize(0..8);
        let windows = planted(&mut random, bursts, shape, equal);
        let found = clusters(&windows, &Options { noise, ..Options::default() });
        found.clusters == bursts
    };
    (0..count).filter(is_right).count() as u64
}
