//! The number of bursts of planted series is found.

mod common;

use common::{Shape, right};

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
