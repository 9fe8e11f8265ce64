//! A recording as a file (docs/formats.md, "Recording"): a zip whose members are `meta.json`, the segments of each
//! program image, and the coded steps of each task, in stretches that can be decoded by themselves. Zip gives
//! checksums, an index and the compression, and tools that look into it.

mod finish;
mod mappings;
mod meta;
mod order;
mod outline;
mod read;
mod steps;
mod write;

pub use finish::with_order_and_outline;
pub use meta::{Image, Meta, MpiCode, Piece, Start, Task};
pub use read::{CHANNEL_BYTES, RecordingFile};
pub use write::Writer;

/// Version of the format.
pub const FORMAT: u32 = 5;
const META: &str = "meta.json";

fn segments_member(image: usize) -> String {
    format!("segments/{image}")
}

fn mappings_member(image: usize) -> String {
    format!("mappings/{image}")
}

fn order_member(task: u32) -> String {
    format!("order/{task}")
}

fn steps_member(task: u32, stretch: u64) -> String {
    format!("steps/{task}/{stretch}")
}
