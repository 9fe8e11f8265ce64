//! What tasks are called, by what they are: a rank is called a rank wherever one is named.

use crate::picture::text::grouped;
use cohabit_model::profile::Kind;

/// One of them and several: `rank`, `ranks`.
pub fn noun(kind: Kind) -> [&'static str; 2] {
    match kind {
        Kind::Threads => ["thread", "threads"],
        Kind::Processes => ["process", "processes"],
        Kind::Ranks => ["rank", "ranks"],
        // Threads of ranks: their numbers are neither's.
        Kind::Hybrid => ["task", "tasks"],
    }
}

/// So many of them: `1 thread`, `1,024 MPI ranks`.
pub fn tasks_of(kind: Kind, count: usize) -> String {
    let [one, several] = match kind {
        Kind::Threads | Kind::Processes => noun(kind),
        Kind::Ranks => ["MPI rank", "MPI ranks"],
        Kind::Hybrid => ["thread of MPI ranks", "threads of MPI ranks"],
    };
    format!("{} {}", grouped(count as u128), if count == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_several() {
        for (kind, count, expected) in [
            (Kind::Threads, 1, "1 thread"),
            (Kind::Processes, 0, "0 processes"),
            (Kind::Ranks, 1024, "1,024 MPI ranks"),
            (Kind::Hybrid, 8, "8 threads of MPI ranks"),
        ] {
            assert_eq!(tasks_of(kind, count), expected);
        }
    }
}
