//! How often the number of bursts is right (the table of docs/time.md), and how long clusters of long series take:
//! `cargo bench -p cohabit-cluster`.

#[path = "../tests/common/mod.rs"]
mod planted;

use cohabit_cluster::{Options, Windows, clusters};
use planted::{Shape, right};
use std::time::Instant;

fn main() {
    for noise in [false, true] {
        for shape in [Shape::Box, Shape::Bell] {
            for equal in [true, false] {
                println!("noise {noise} {shape:?} equal {equal}: {} of 100", right(shape, equal, noise, 100));
            }
        }
    }
    for windows in [1_000_u64, 32_768, 1_000_000, 10_000_000] {
        let mut random = fastrand::Rng::with_seed(windows);
        // Five bursts above some noise.
        let burst = |bin: u64| if (10 * bin / windows) % 2 == 1 { 100 } else { 5 };
        let series = Windows::new((0..windows).map(|bin| (bin, 1 + random.u64(0..burst(bin)))));
        for noise in [false, true] {
            let start = Instant::now();
            let found = clusters(&series, &Options { noise, ..Options::default() });
            let seconds = start.elapsed().as_secs_f64();
            let clusters = found.clusters;
            // With noise there is no sum of squares to be above.
            match noise {
                true => println!("{windows:>9} windows, noise: {seconds:.2} s, {clusters} clusters"),
                false => {
                    let lost = 100.0 * found.loss / found.objective;
                    println!(
                        "{windows:>9} windows: {seconds:.2} s, {clusters} clusters, at most {lost:.4} % above the optimum"
                    );
                }
            }
        }
    }
}
