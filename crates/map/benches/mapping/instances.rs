//! The problems of the suite: graphs of the kinds that parallel programs make, labels shuffled, drawn with a seed.

use cohabit_map::random::Random;
use cohabit_model::{Matrix, Topology};

/// Kinds of graphs.
pub const KINDS: &[&str] = &["stencil2d", "stencil3d", "geometric", "powerlaw", "blocks", "dense"];

/// Sizes with the tree of each: children of a node, level by level.
pub const TREES: &[(usize, &str)] = &[
    (16, "pack:2 core:4 pu:2"),
    (32, "pack:2 core:8 pu:2"),
    (56, "pack:2 core:14 pu:2"),
    (64, "pack:4 core:8 pu:2"),
    (256, "pack:8 core:2 pu:16"),
    (512, "pack:8 core:2 pu:32"),
    (1024, "pack:16 core:2 pu:32"),
    (4096, "pack:64 core:2 pu:32"),
    (65_536, "pack:64 core:32 pu:32"),
    (1_048_576, "pack:64 core:128 pu:128"),
];

/// The tree of a size.
pub fn tree(size: usize) -> &'static str {
    TREES.iter().find(|tree| tree.0 == size).expect("a size of the suite").1
}

/// It as a topology with level costs 100, 10, 1.
pub fn topology(size: usize) -> Topology {
    Topology::load(tree(size))
        .and_then(|topology| topology.with_level_costs(&[100, 10, 1]))
        .expect("a tree of three levels")
}

/// The graph of a kind and seed.
pub fn graph(kind: &str, size: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed * 1_000 + size as u64);
    let edges = match kind {
        "stencil2d" => stencil(&[0, 0], size, &mut random),
        "stencil3d" => stencil(&[0, 0, 0], size, &mut random),
        "geometric" => geometric(size, &mut random),
        "powerlaw" => powerlaw(size, &mut random),
        "blocks" => blocks(size, &mut random),
        "dense" => dense(size, &mut random),
        _ => unreachable!("kinds are those of KINDS"),
    };
    let mut label: Vec<u32> = (0..size as u32).collect();
    random.shuffle(&mut label);
    let labelled = edges.into_iter().map(|(a, b, weight)| (label[a], label[b], weight));
    Matrix::from_triplets(size, labelled.flat_map(|(a, b, weight)| [(a, b, weight), (b, a, weight)]))
}

type Edges = Vec<(usize, usize, u64)>;

/// A grid of nearly equal sides; every axis has its weight.
fn stencil(axes: &[usize], size: usize, random: &mut Random) -> Edges {
    let mut sides = axes.iter().map(|_| 1).collect::<Vec<usize>>();
    let mut left = size;
    while left > 1 {
        let prime = (2..=left).rev().find(|&p| left % p == 0 && (2..p).all(|q| p % q != 0)).unwrap_or(left);
        let least = (0..sides.len()).min_by_key(|&axis| sides[axis]).unwrap_or(0);
        sides[least] *= prime;
        left /= prime;
    }
    let weight: Vec<u64> = sides.iter().map(|_| 50 + random.below(100) as u64).collect();
    let mut edges = Vec::new();
    for cell in 0..size {
        let mut stride = 1;
        for (axis, &side) in sides.iter().enumerate() {
            if cell / stride % side + 1 < side {
                edges.push((cell, cell + stride, weight[axis]));
            }
            stride *= side;
        }
    }
    edges
}

/// Points in the unit square, those near each other joined, the nearer the heavier; about eight neighbours each.
fn geometric(size: usize, random: &mut Random) -> Edges {
    let mut real = || (random.draw() >> 11) as f64 / (1_u64 << 53) as f64;
    let points: Vec<(f64, f64)> = (0..size).map(|_| (real(), real())).collect();
    let radius = (8.0 / (std::f64::consts::PI * size as f64)).sqrt();
    // Points by square cells that are as wide as the radius or a little wider: neighbours are in the same cell or in
    // the eight around it.
    let side = ((1.0 / radius) as usize).max(1);
    let cell = |at: f64| ((at * side as f64) as usize).min(side - 1);
    let mut cells: Vec<Vec<usize>> = vec![Vec::new(); side * side];
    let mut edges = Vec::new();
    for (a, &point) in points.iter().enumerate() {
        let (column, row) = (cell(point.0), cell(point.1));
        let rows = row.saturating_sub(1)..=(row + 1).min(side - 1);
        let columns = column.saturating_sub(1)..=(column + 1).min(side - 1);
        let around = rows.flat_map(|row| columns.clone().map(move |column| row * side + column));
        for &b in around.flat_map(|cell| &cells[cell]) {
            let distance = (point.0 - points[b].0).hypot(point.1 - points[b].1);
            if distance < radius {
                edges.push((a, b, (100.0 * (1.0 - distance / radius)) as u64 + 1));
            }
        }
        cells[row * side + column].push(a);
    }
    edges
}

/// Preferential attachment, three edges a vertex.
fn powerlaw(size: usize, random: &mut Random) -> Edges {
    let mut ends = vec![0, 1];
    let mut edges = vec![(0, 1, 10)];
    for vertex in 2..size {
        for _ in 0..3 {
            let other = ends[random.below(ends.len())];
            if other != vertex {
                edges.push((vertex, other, 1 + random.below(20) as u64));
                ends.extend([vertex, other]);
            }
        }
    }
    edges
}

/// Groups of eight that all talk, a ring through everything, and some noise.
fn blocks(size: usize, random: &mut Random) -> Edges {
    let mut edges = Vec::new();
    for vertex in 0..size {
        edges.extend((vertex / 8 * 8..vertex).map(|other| (vertex, other, 50 + random.below(100) as u64)));
        edges.push((vertex, (vertex + 1) % size, 30));
        edges.push((vertex, random.below(size), 1 + random.below(10) as u64));
    }
    edges.retain(|edge| edge.0 != edge.1);
    edges
}

/// Everybody with everybody, or with 64 others where there are more.
fn dense(size: usize, random: &mut Random) -> Edges {
    if size <= 64 {
        let pairs = (0..size).flat_map(|a| (0..a).map(move |b| (a, b)));
        return pairs.map(|(a, b)| (a, b, 1 + random.below(100) as u64)).collect();
    }
    let pairs = (0..size).flat_map(|a| (0..32).map(move |_| a)).collect::<Vec<_>>();
    let drawn = pairs.into_iter().map(|a| (a, random.below(size), 1 + random.below(100) as u64));
    drawn.filter(|edge| edge.0 != edge.1).collect()
}
