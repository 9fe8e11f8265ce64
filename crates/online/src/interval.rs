//! When to look at the matrix again (CDSM, section 4): every 50 ms to 2 s, later while the mapping holds, sooner when
//! it changes.

use std::time::Duration;

/// The shortest interval, and how much longer it gets each time the mapping holds.
pub const SHORTEST: Duration = Duration::from_millis(50);
/// The longest interval.
pub const LONGEST: Duration = Duration::from_secs(2);

/// The mapping interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval(Duration);

impl Default for Interval {
    fn default() -> Self {
        Self(SHORTEST)
    }
}

impl Interval {
    /// How long until the next mapping.
    pub fn get(self) -> Duration {
        self.0
    }

    /// The mapping holds.
    pub fn held(&mut self) {
        self.0 = (self.0 + SHORTEST).min(LONGEST);
    }

    /// The mapping has changed.
    pub fn changed(&mut self) {
        self.0 = (self.0 / 2).max(SHORTEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_by_steps_and_halves() {
        let mut interval = Interval::default();
        let ms = |interval: Interval| interval.get().as_millis();
        interval.changed();
        assert_eq!(ms(interval), 50);
        let grown: Vec<u128> = (0..3)
            .map(|_| {
                interval.held();
                ms(interval)
            })
            .collect();
        assert_eq!(grown, [100, 150, 200]);
        interval.changed();
        assert_eq!(ms(interval), 100);
        (0..100).for_each(|_| interval.held());
        assert_eq!(ms(interval), 2000);
    }
}
