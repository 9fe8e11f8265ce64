//! The application communication pattern: how many messages of which length go from which task to which (IBM report,
//! 3.2).

use crate::Profile;
use crate::profile::{SentBy, SizeRow};

/// Messages of one length between two tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Messages {
    /// Sender.
    pub source: usize,
    /// Receiver.
    pub destination: usize,
    /// Bytes of each.
    pub length: f64,
    /// How many.
    pub count: u64,
}

/// Messages of their average length.
impl From<&SizeRow> for Messages {
    fn from(row: &SizeRow) -> Self {
        Self {
            source: row.source as usize,
            destination: row.destination as usize,
            length: length(row.bytes, row.messages),
            count: row.messages,
        }
    }
}

fn length(bytes: u64, count: u64) -> f64 {
    bytes as f64 / count.max(1) as f64
}

/// All messages of a phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pattern {
    /// How many tasks there are.
    pub tasks: usize,
    /// The messages, in any order.
    pub messages: Vec<Messages>,
    /// Of each of `messages` its place among what its source sends at a time, 0 the first; empty where that is not
    /// known.
    pub order: Vec<u32>,
    /// Who sends it: in a collective tasks do nothing else.
    pub by: SentBy,
}

impl Pattern {
    /// Of a profile: a length for each size class of a pair, the average there; where sizes are not known, the pair's.
    pub fn of(profile: &Profile) -> Self {
        let by_class = profile.sizes.iter().map(Messages::from);
        let by_pair = profile.messages.iter().map(|(source, destination, count)| {
            let (source, destination) = (source as usize, destination as usize);
            Messages { source, destination, length: length(profile.bytes.get(source, destination), count), count }
        });
        let messages = if profile.sizes.is_empty() { by_pair.collect() } else { by_class.collect() };
        Self { tasks: profile.tasks(), messages, order: Vec::new(), by: SentBy::Program }
    }
}
