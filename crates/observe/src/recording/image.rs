//! Reads what the client left of one program image.

use super::abi;
use cohabit_model::file::cannot_read;
use cohabit_model::launcher::RankPlace;
use cohabit_model::{Error, Result};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const CHUNK_BYTES: u64 = abi::COHABIT_RECORDING_CHUNK_BYTES as u64;
const CHUNK_HEAD: usize = size_of::<abi::cohabit_chunk_t>();
const TASK_BYTES: usize = size_of::<abi::cohabit_recorded_task_t>();
const FORK_BYTES: usize = size_of::<abi::cohabit_recorded_fork_t>();

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Definitions of segments.
    Definitions,
    /// Changes of what is mapped.
    Mappings,
    /// Steps of this thread of the image; whether predictions begin anew.
    Steps { thread: u32, restart: bool },
}

/// What the image says of one of its threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct Thread {
    /// Accesses it made.
    pub accesses: u64,
    /// Who started it, and after how many accesses.
    pub parent: Option<(u32, u64)>,
}

/// A process that a thread of the image forked.
#[derive(Debug, Clone, Copy)]
pub struct Fork {
    pub pid: u32,
    pub thread: u32,
    pub position: u64,
}

/// The file of one image.
pub struct ImageFile {
    file: File,
    path: PathBuf,
    chunks: u64,
    pub lost: u64,
    pub segments: u64,
    pub threads: Vec<Thread>,
    pub forks: Vec<Fork>,
    /// Its number in the run, + 1; 0: it has none.
    pub number: u32,
    /// Channels that the run has at least: the greatest number of one that it used, + 1.
    pub channels: u64,
    /// Its rank, where a launcher of ranks started it.
    pub rank: Option<u32>,
}

impl ImageFile {
    /// Opens the file of an image of `threads` threads.
    pub fn open(path: &Path, threads: usize) -> Result<Self> {
        let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        let mut image = Self {
            file,
            path: path.to_owned(),
            chunks: 0,
            lost: 0,
            segments: 0,
            threads: Vec::new(),
            forks: Vec::new(),
            number: 0,
            channels: 0,
            rank: None,
        };
        let head = image.bytes(0, size_of::<abi::cohabit_recording_t>())?;
        if long(&head, offset_of!(abi::cohabit_recording_t, magic)) != abi::COHABIT_RECORDING_MAGIC {
            return Err(image.damaged("it is not what the client leaves"));
        }
        let version = word(&head, offset_of!(abi::cohabit_recording_t, version));
        if version != abi::COHABIT_RECORDING_VERSION {
            return Err(image.damaged(&format!("it is of version {version}")));
        }
        let length = image.file.metadata()?.len().saturating_sub(abi::COHABIT_RECORDING_HEAD_BYTES as u64);
        image.chunks = long(&head, offset_of!(abi::cohabit_recording_t, chunks)).min(length / CHUNK_BYTES);
        image.lost = long(&head, offset_of!(abi::cohabit_recording_t, lost));
        image.segments = long(&head, offset_of!(abi::cohabit_recording_t, segments));
        image.number = word(&head, offset_of!(abi::cohabit_recording_t, image));
        image.channels = long(&head, offset_of!(abi::cohabit_recording_t, channels));
        image.rank = image.read_rank()?;
        let forks = long(&head, offset_of!(abi::cohabit_recording_t, forks));
        image.read_threads(threads)?;
        image.read_forks(forks.min(abi::COHABIT_RECORDING_MAX_FORKS.into()) as usize)?;
        Ok(image)
    }

    fn read_rank(&self) -> Result<Option<u32>> {
        let text = self
            .bytes(abi::COHABIT_RECORDING_ENVIRONMENT_AT.into(), abi::COHABIT_RECORDING_ENVIRONMENT_BYTES as usize)?;
        let text = String::from_utf8_lossy(&text);
        let variables: Vec<(&str, &str)> = text.split('\0').filter_map(|word| word.split_once('=')).collect();
        let variable =
            |name: &str| variables.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned());
        Ok(RankPlace::of(variable).map(|place| place.rank))
    }

    fn read_threads(&mut self, threads: usize) -> Result<()> {
        let table = self.bytes(size_of::<abi::cohabit_recording_t>() as u64, threads * TASK_BYTES)?;
        let thread = |bytes: &[u8]| {
            let parent = word(bytes, offset_of!(abi::cohabit_recorded_task_t, parent)).checked_sub(1);
            let position = long(bytes, offset_of!(abi::cohabit_recorded_task_t, parent_position));
            let parent = parent.filter(|&parent| (parent as usize) < threads);
            Thread {
                accesses: long(bytes, offset_of!(abi::cohabit_recorded_task_t, accesses)),
                parent: parent.map(|parent| (parent, position)),
            }
        };
        self.threads = table.chunks_exact(TASK_BYTES).map(thread).collect();
        Ok(())
    }

    fn read_forks(&mut self, count: usize) -> Result<()> {
        let table = self.bytes(abi::COHABIT_RECORDING_FORKS_AT as u64, count * FORK_BYTES)?;
        let fork = |bytes: &[u8]| Fork {
            pid: word(bytes, offset_of!(abi::cohabit_recorded_fork_t, pid)),
            thread: word(bytes, offset_of!(abi::cohabit_recorded_fork_t, task)),
            position: long(bytes, offset_of!(abi::cohabit_recorded_fork_t, position)),
        };
        self.forks = table.chunks_exact(FORK_BYTES).map(fork).filter(|fork| fork.pid != 0).collect();
        Ok(())
    }

    /// What the chunks hold, in the order of the file; none of one that was not begun.
    pub fn kinds(&self) -> Result<Vec<Option<Kind>>> {
        (0..self.chunks).map(|number| Ok(self.head(number)?.0)).collect()
    }

    /// The content of a chunk.
    pub fn content(&self, number: usize) -> Result<Vec<u8>> {
        let used = self.head(number as u64)?.1;
        self.bytes(chunk_at(number as u64) + CHUNK_HEAD as u64, used)
    }

    fn head(&self, number: u64) -> Result<(Option<Kind>, usize)> {
        let head = self.bytes(chunk_at(number), CHUNK_HEAD)?;
        let kind = match word(&head, offset_of!(abi::cohabit_chunk_t, kind)) {
            0 => None,
            abi::COHABIT_CHUNK_DEFINITIONS => Some(Kind::Definitions),
            abi::COHABIT_CHUNK_MAPPINGS => Some(Kind::Mappings),
            abi::COHABIT_CHUNK_STEPS => {
                let thread = word(&head, offset_of!(abi::cohabit_chunk_t, task));
                if thread as usize >= self.threads.len() {
                    return Err(self.damaged(&format!("a chunk of thread {thread} of {}", self.threads.len())));
                }
                Some(Kind::Steps { thread, restart: word(&head, offset_of!(abi::cohabit_chunk_t, restart)) != 0 })
            }
            other => return Err(self.damaged(&format!("a chunk of kind {other}"))),
        };
        let used = word(&head, offset_of!(abi::cohabit_chunk_t, used)) as usize;
        if used + CHUNK_HEAD > CHUNK_BYTES as usize {
            return Err(self.damaged(&format!("a chunk of {used} bytes")));
        }
        Ok((kind, used))
    }

    fn bytes(&self, at: u64, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, at).map_err(|error| cannot_read(&self.path, &error))?;
        Ok(bytes)
    }

    fn damaged(&self, what: &str) -> Error {
        Error::new(format!("{}: damaged: {what}", self.path.display())).remedy("record it again")
    }
}

fn chunk_at(number: u64) -> u64 {
    abi::COHABIT_RECORDING_HEAD_BYTES as u64 + number * CHUNK_BYTES
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}
