//! Eigenvalues of a graph's Laplacian by Jacobi's rotations, each lowered by what is left beside the diagonal: by
//! Weyl's inequality none is then above the true one.

use crate::graph::Graph;

/// The eigenvalues from the smallest up, none above the true one, for the graph with isolated vertices up to `size`.
pub fn laplacian(graph: &Graph, size: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; size * size];
    for (a, b, weight) in graph.edges() {
        let weight = weight as f64;
        matrix[a * size + b] -= weight;
        matrix[b * size + a] -= weight;
        matrix[a * size + a] += weight;
        matrix[b * size + b] += weight;
    }
    let norm = matrix.iter().map(|entry| entry * entry).sum::<f64>().sqrt();
    for _ in 0..30 {
        if off_diagonal(&matrix, size) <= 1e-12 * norm {
            break;
        }
        sweep(&mut matrix, size);
    }
    // Rotations round too: each by less than an epsilon of the norm, and there are fewer than 30 n^2.
    let error = off_diagonal(&matrix, size) + norm * f64::EPSILON * 30.0 * size as f64;
    let mut values: Vec<f64> = (0..size).map(|at| matrix[at * size + at] - error).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The norm of all that is not on the diagonal.
fn off_diagonal(matrix: &[f64], size: usize) -> f64 {
    let beside = |at: usize| if at / size == at % size { 0.0 } else { matrix[at] * matrix[at] };
    (0..size * size).map(beside).sum::<f64>().sqrt()
}

/// One rotation for every pair of rows.
fn sweep(matrix: &mut [f64], size: usize) {
    for p in 0..size {
        for q in p + 1..size {
            let entry = matrix[p * size + q];
            if entry == 0.0 {
                continue;
            }
            let theta = (matrix[q * size + q] - matrix[p * size + p]) / (2.0 * entry);
            let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
            let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
            rotate(matrix, size, p, q, cosine, tangent * cosine);
        }
    }
}

fn rotate(matrix: &mut [f64], size: usize, p: usize, q: usize, cosine: f64, sine: f64) {
    for k in 0..size {
        let (a, b) = (matrix[k * size + p], matrix[k * size + q]);
        matrix[k * size + p] = cosine * a - sine * b;
        matrix[k * size + q] = sine * a + cosine * b;
    }
    let (upper, lower) = matrix.split_at_mut(q * size);
    let rows = upper[p * size..(p + 1) * size].iter_mut().zip(&mut lower[..size]);
    for (a, b) in rows {
        (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::Matrix;

    #[test]
    fn a_path_has_its_known_eigenvalues() {
        let size = 10;
        let path = Matrix::from_triplets(size, (0..9).map(|a| (a, a + 1, 1)));
        let values = laplacian(&Graph::new(&path), size);
        for (k, value) in values.iter().enumerate() {
            let known = 2.0 - 2.0 * (std::f64::consts::PI * k as f64 / size as f64).cos();
            assert!(*value <= known && known - value < 1e-9, "{k}: {value} {known}");
        }
    }
}
