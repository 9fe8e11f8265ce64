//! What a matrix of communication looks like, as a few numbers: the papers show pictures.

use cohabit_model::Matrix;

/// A pattern. Each is of unordered pairs, both directions summed, relative to the mean of all pairs; none where nothing
/// communicates, or there are fewer than four tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pattern {
    /// The mean of pairs of neighbours, (i, i + 1).
    pub neighbours: f64,
    /// The first with the last, and half the machine away: the mean of pairs (i, i + n / 2) and (0, n - 1).
    pub distant: f64,
    /// The standard deviation of all pairs.
    pub variation: f64,
}

/// The pattern of a matrix.
pub fn pattern(matrix: &Matrix) -> Option<Pattern> {
    let tasks = matrix.tasks();
    let pair = |a: usize, b: usize| matrix.get(a, b) as f64 + matrix.get(b, a) as f64;
    let all: Vec<f64> = (0..tasks).flat_map(|b| (0..b).map(move |a| pair(a, b))).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    if tasks < 4 || all.iter().all(|&value| value == 0.0) {
        return None;
    }
    let middle = mean(&all);
    let near: Vec<f64> = (1..tasks).map(|task| pair(task - 1, task)).collect();
    let far: Vec<f64> = (0..tasks.div_ceil(2))
        .filter(|a| a + tasks / 2 < tasks)
        .map(|a| pair(a, a + tasks / 2))
        .chain([pair(0, tasks - 1)])
        .collect();
    let variance = all.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / all.len() as f64;
    Some(Pattern {
        neighbours: mean(&near) / middle,
        distant: mean(&far) / middle,
        variation: variance.sqrt() / middle,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_known_shapes() {
        let all =
            Matrix::from_triplets(4, (0..4).flat_map(|a| (0..4).filter(move |&b| b != a).map(move |b| (a, b, 5))));
        assert_eq!(pattern(&all), Some(Pattern { neighbours: 1.0, distant: 1.0, variation: 0.0 }));
        // Three of six pairs have 6: a mean of 3, a deviation of 3.
        let chain = Matrix::from_triplets(4, [(0, 1, 6), (2, 1, 6), (2, 3, 6)]);
        assert_eq!(pattern(&chain), Some(Pattern { neighbours: 2.0, distant: 0.0, variation: 1.0 }));
        // (0, 2), (1, 3) and (0, 3).
        let far = Matrix::from_triplets(4, [(0, 2, 6), (1, 3, 6), (3, 0, 6)]);
        assert_eq!(pattern(&far), Some(Pattern { neighbours: 0.0, distant: 2.0, variation: 1.0 }));
        assert_eq!(pattern(&Matrix::zero(4)), None);
    }
}
