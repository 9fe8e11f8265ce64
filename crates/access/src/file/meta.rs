//! What a recording says of itself: `meta.json`.

use serde::{Deserialize, Serialize};

/// `meta.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the format.
    pub format: u32,
    /// The command that was recorded.
    pub command: Vec<String>,
    /// Name of the machine it ran on.
    pub host: String,
    /// Program images: a process has another one after each exec.
    pub images: Vec<Image>,
    /// The tasks; a task's number is its index.
    pub tasks: Vec<Task>,
    /// Events for which there was no room; what their tasks did after them is missing.
    pub events_lost: u64,
    /// What is not as in the run, a sentence each.
    pub not_seen: Vec<String>,
    /// Directions of pipes and sockets that its tasks have sent something through (formats 1 and 2: none is seen).
    #[serde(default)]
    pub channels: u64,
}

/// A program image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// File of the program.
    pub program: String,
    /// Process id.
    pub pid: u32,
    /// The task of the recording that each thread of the image is; none of one that is left out.
    pub tasks: Vec<Option<u32>>,
    /// Accesses that each of these tasks had made before the image: in images before it; 0 of one that is left out.
    pub before: Vec<u64>,
    /// Accesses that each of its threads made.
    pub accesses: Vec<u64>,
    /// How many segments it defines.
    pub segments: u64,
    /// Its number among those of the run, by which other images name it, + 1; 0: it has none (format 1).
    #[serde(default)]
    pub number: u32,
    /// The numbers of its threads among those of the run, by which threads of other images wait for them; + 1, 0 of one
    /// that has none (format 1: of all).
    #[serde(default)]
    pub in_run: Vec<u32>,
    /// How often what it maps of memory that processes share changes (format 1: never).
    #[serde(default)]
    pub mappings: u64,
    /// Where the code of its MPI library is; none where there is none, or it has no progress function that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<MpiCode>,
}

/// Where an image has the code of its MPI library: ranges of addresses, first and behind the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpiCode {
    /// Where its progress functions begin, which it calls again and again while it waits.
    pub progress: Vec<u64>,
    /// The library's code, and that of the libraries which only it uses.
    pub own: Vec<(u64, u64)>,
    /// Code that it uses as the program does: the C library's.
    pub common: Vec<(u64, u64)>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// As shown to people.
    pub name: String,
    /// Its process, numbered from 0.
    pub process: u32,
    /// Kernel's number of the thread.
    pub tid: u32,
    /// What it did, image by image.
    pub pieces: Vec<Piece>,
    /// Who started it; none where that was not seen.
    pub start: Option<Start>,
}

/// What a task did in one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The image.
    pub image: u32,
    /// How many stretches of steps it has; they are numbered on through the pieces of the task.
    pub stretches: u64,
}

/// That a task was started by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// By this task.
    pub task: u32,
    /// When that had made so many accesses.
    pub position: u64,
}
