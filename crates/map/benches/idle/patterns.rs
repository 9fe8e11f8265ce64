//! Who talks with whom in the problems with fewer tasks than PUs: groups that do not fill what they could share, and
//! patterns that have no groups.

use cohabit_map::random::Random;
use cohabit_model::Matrix;

/// Patterns of who talks with whom: a name, and how heavy the edge between two tasks of so many is.
pub type Pattern = (&'static str, fn(usize, usize, usize, &mut Random) -> u64);

/// Tasks in groups of a size that talk much, and little with all others.
fn grouped(size: usize, a: usize, b: usize, random: &mut Random) -> u64 {
    let least = if a / size == b / size { 1_000 } else { 0 };
    least + random.below(20) as u64
}

/// The patterns.
pub const PATTERNS: &[Pattern] = &[
    ("pairs", |_, a, b, random| grouped(2, a, b, random)),
    ("triples", |_, a, b, random| grouped(3, a, b, random)),
    ("fours", |_, a, b, random| grouped(4, a, b, random)),
    ("fives", |_, a, b, random| grouped(5, a, b, random)),
    ("ring", |tasks, a, b, _| if b == a + 1 || b - a == tasks - 1 { 100 } else { 0 }),
    ("stencil", |tasks, a, b, _| {
        let side = (tasks as f64).sqrt().ceil() as usize;
        if (b == a + 1 && b % side > 0) || b == a + side { 100 } else { 0 }
    }),
    ("master", |_, a, b, random| if a == 0 { 50 + random.below(50) as u64 } else { (b == a + 1).into() }),
    ("sparse", |tasks, _, _, random| if random.below(tasks) < 3 { 1 + random.below(100) as u64 } else { 0 }),
    ("dense", |_, _, _, random| 1 + random.below(100) as u64),
];

/// The tasks of a pattern, under names at random.
pub fn graph(pattern: &Pattern, tasks: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed * 1_000 + tasks as u64);
    let mut name: Vec<u32> = (0..tasks as u32).collect();
    random.shuffle(&mut name);
    let mut entries = Vec::new();
    for (a, b) in (0..tasks).flat_map(|a| (a + 1..tasks).map(move |b| (a, b))) {
        let weight = pattern.1(tasks, a, b, &mut random);
        if weight > 0 {
            entries.extend([(name[a], name[b], weight), (name[b], name[a], weight)]);
        }
    }
    Matrix::from_triplets(tasks, entries)
}
