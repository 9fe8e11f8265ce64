//! Intervals that look alike, found by k-means (Lloyd's, from centres by k-means++) on their features, as SimPoint
//! finds the phases of a program.

use cohabit_access::outline::{FEATURES, Interval};

/// Groups, at most.
const MOST: usize = 12;
/// What is left of the squares of distances, over those to one centre, where more groups are of no use.
const LEFT: f64 = 0.02;
const ROUNDS: usize = 30;

type Point = [f64; FEATURES];

/// Groups of intervals, at most so many and none of them empty; each ascending. The first interval and the last one are
/// groups of their own: nothing comes before the one, and the other is shorter.
pub(super) fn alike(intervals: &[Interval], most: usize, random: &mut fastrand::Rng) -> Vec<Vec<usize>> {
    let (first, last) = (0, intervals.len() - 1);
    let between: Vec<usize> = (first + 1..last).collect();
    let points: Vec<Point> = between.iter().map(|&index| intervals[index].features.map(f64::from)).collect();
    let mut groups = vec![vec![first]];
    if !between.is_empty() {
        let mut best = by_centres(&points, 1, random);
        let one = best.1;
        for count in 2..=most.min(MOST).min(points.len()) {
            if best.1 <= LEFT * one {
                break;
            }
            best = by_centres(&points, count, random);
        }
        let mut of: Vec<Vec<usize>> = Vec::new();
        for (&interval, group) in between.iter().zip(best.0) {
            of.resize(of.len().max(group + 1), Vec::new());
            of[group].push(interval);
        }
        groups.extend(of.into_iter().filter(|group| !group.is_empty()));
    }
    if last > first {
        groups.push(vec![last]);
    }
    groups
}

/// The group of each point, and the sum of the squares of distances to the centres.
fn by_centres(points: &[Point], count: usize, random: &mut fastrand::Rng) -> (Vec<usize>, f64) {
    let mut centres = vec![points[random.usize(..points.len())]];
    while centres.len() < count {
        let distances: Vec<f64> = points.iter().map(|point| nearest(point, &centres).1).collect();
        let mut left = random.f64() * distances.iter().sum::<f64>();
        let drawn = distances.iter().position(|distance| {
            left -= distance;
            left < 0.0
        });
        centres.push(points[drawn.unwrap_or(points.len() - 1)]);
    }
    let mut groups = Vec::new();
    for _ in 0..ROUNDS {
        let now: Vec<usize> = points.iter().map(|point| nearest(point, &centres).0).collect();
        if now == groups {
            break;
        }
        groups = now;
        for (number, centre) in centres.iter_mut().enumerate() {
            let members = || points.iter().zip(&groups).filter(|(_, group)| **group == number).map(|(point, _)| point);
            let size = members().count();
            if size > 0 {
                *centre = std::array::from_fn(|axis| members().map(|point| point[axis]).sum::<f64>() / size as f64);
            }
        }
    }
    let squares = points.iter().zip(&groups).map(|(point, &group)| square(point, &centres[group])).sum();
    (groups, squares)
}

fn square(one: &Point, other: &Point) -> f64 {
    one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum()
}

fn nearest(point: &Point, centres: &[Point]) -> (usize, f64) {
    let each = centres.iter().enumerate().map(|(number, centre)| (number, square(point, centre)));
    each.fold((0, f64::INFINITY), |best, one| if one.1 < best.1 { one } else { best })
}
