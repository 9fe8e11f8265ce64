//! Writing a recording: member by member, whole or not at all.

use super::{META, Meta, mappings_member, segments_member, steps_member};
use cohabit_model::{Error, Result};
use std::io::{Seek, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// How hard is compressed: a third of the time of the usual 6 for 5 % more bytes, where compressing is half of
/// recording.
const LEVEL: i64 = 3;

/// Writes a recording. What is not finished is no recording.
pub struct Writer<W: Write + Seek> {
    to: ZipWriter<W>,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(format!("the recording cannot be written: {error}")).remedy("make room, or write it elsewhere with -o")
}

impl<W: Write + Seek> Writer<W> {
    /// Writes to `to` from its beginning.
    pub fn new(to: W) -> Self {
        Self { to: ZipWriter::new(to) }
    }

    fn member(&mut self, name: String, content: &[&[u8]]) -> Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(LEVEL))
            .large_file(true);
        self.to.start_file(name, options).map_err(failed)?;
        for part in content {
            self.to.write_all(part).map_err(failed)?;
        }
        Ok(())
    }

    /// The definitions of an image's segments, in the order of their numbers.
    ///
    /// # Errors
    /// Writing fails.
    pub fn segments(&mut self, image: usize, definitions: &[&[u8]]) -> Result<()> {
        self.member(segments_member(image), definitions)
    }

    /// How an image's mappings of memory that processes share change, in the order in which they do.
    ///
    /// # Errors
    /// Writing fails.
    pub fn mappings(&mut self, image: usize, changes: &[&[u8]]) -> Result<()> {
        self.member(mappings_member(image), changes)
    }

    /// One stretch of a task's steps.
    ///
    /// # Errors
    /// Writing fails.
    pub fn steps(&mut self, task: u32, stretch: u64, coded: &[&[u8]]) -> Result<()> {
        self.member(steps_member(task, stretch), coded)
    }

    /// Ends the recording with what it says of itself.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self, meta: &Meta) -> Result<W> {
        let text = serde_json::to_vec_pretty(meta).map_err(failed)?;
        self.member(META.to_owned(), &[&text])?;
        self.to.finish().map_err(failed)
    }
}
