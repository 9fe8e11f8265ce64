//! What messages take on the hardware at hand, by their length (IBM report, section 2 and Figure 1): one way and both
//! ways, pairs alone and several at once. Between PUs of a node ([`node`]) by threads, between hosts ([`hosts`]) by
//! MPI; what is found becomes ports of a cluster file. [`memory`] is how fast a node's memory is read, `pages` where
//! that lies. [`machine`] is what cores, caches and TLBs take, for a machine to simulate. `busy` tells whether other work disturbed it.

mod busy;
mod exchange;
pub mod hosts;
pub mod machine;
pub mod memory;
pub mod node;
mod pages;

pub use busy::Busy;
use cohabit_model::topology::cluster::PortTable;
use std::time::Duration;

/// Lengths of messages in bytes, where none are asked for.
pub const LENGTHS: [u64; 8] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// A switch, or a place inside a host, bounds what goes through it where all pairs at once get less than this share of
/// what they get alone.
const SHARED: f64 = 0.8;

/// How messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// To and fro: one message at a time, half a round trip each.
    OneWay,
    /// Both at once.
    BothWays,
}

impl Way {
    /// The word in tables and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneWay => "one way",
            Self::BothWays => "both ways",
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Lengths of messages, in bytes.
    pub lengths: Vec<u64>,
    /// How long each figure is measured, at least.
    pub time: Duration,
}

/// One length.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Bytes of a message.
    pub length: u64,
    /// Seconds that a message takes each pair.
    pub seconds: Vec<f64>,
}

impl Point {
    /// Bytes/s in each direction, of all pairs together.
    pub fn bandwidth(&self) -> f64 {
        self.seconds.iter().map(|seconds| self.length as f64 / seconds).sum()
    }

    /// Seconds of the slowest pair.
    pub fn slowest(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }
}

/// Messages of all lengths between the same places.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Between what: `cores`, `n1 and n2`.
    pub between: String,
    /// How messages go.
    pub way: Way,
    /// Pairs at once.
    pub pairs: usize,
    /// By length, ascending.
    pub points: Vec<Point>,
}

impl Series {
    /// The port that this is: bandwidths by length, and what several pairs get at once, if not less than one alone:
    /// `most` says what counts as that.
    fn port(
        &self,
        of: Option<String>,
        level: Option<&str>,
        several: Option<&Series>,
        most: impl Fn(&Series) -> f64,
    ) -> PortTable {
        let points: Vec<(u64, f64)> = self.points.iter().map(|point| (point.length, point.bandwidth())).collect();
        let max = several.map_or(0.0, &most).max(most(self));
        PortTable::measured(of, level, &points, Some(max))
    }

    /// The bandwidth of the longest messages: what a network keeps up when the buffers on the way are full, which let
    /// short messages through faster.
    pub fn sustained(&self) -> f64 {
        self.points.last().map_or(0.0, Point::bandwidth)
    }

    /// The highest bandwidth of all lengths: of memory, whose longest messages no cache holds.
    pub fn highest(&self) -> f64 {
        self.points.iter().map(Point::bandwidth).fold(0.0, f64::max)
    }
}
