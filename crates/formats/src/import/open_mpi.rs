//! Open MPI's monitoring component (Bosilca et al., "Online dynamic monitoring of MPI communications", Euro-Par 2017),
//! as its own `ompi/mca/common/monitoring` writes at MPI_Finalize with `pml_monitoring_enable_output 3`.
//!
//! A file a rank, NAME.RANK.prof, in lines of `LETTER rank peer N bytes N msgs sent`. E: messages the program sent; I:
//! messages that collectives and the library sent (apart from E where the enabling level is 2); S and R: one-sided
//! puts and gets. C repeats collectives as logical pairs, not as the messages sent, and is left out; so are O2A, A2O
//! and A2A, which have no pair.

use super::build::{Found, Imported, check_tasks, file_name};
use super::table::{rows, square};
use super::{TEXT_LIMIT_BYTES, number, pair};
use cohabit_model::file::read_text;
use cohabit_model::profile::Kind;
use cohabit_model::{Error, Matrix, Profile, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Reads a rank's file and those of all other ranks beside it; or one file that holds the lines of all.
pub fn read_prof(path: &Path) -> Result<Profile> {
    let files = siblings(path)?;
    let mut traffic = Traffic::default();
    for file in &files {
        let text = read_text(file, TEXT_LIMIT_BYTES)?;
        traffic.add(&text).map_err(|error| error.at(file.display()))?;
    }
    let tasks = check_tasks(traffic.tasks)?;
    if tasks == 0 {
        let cause = "no line of Open MPI's monitoring in it";
        return Err(
            Error::new(cause).remedy("run with --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3")
        );
    }
    let ranks: BTreeSet<u64> = files.iter().filter_map(|file| rank_of(file)).map(|(_, rank)| rank).collect();
    let missing: Vec<String> =
        (0..tasks as u64).filter(|rank| !ranks.contains(rank)).map(|rank| rank.to_string()).collect();
    let not_seen = match (ranks.is_empty(), missing.is_empty()) {
        (true, _) => vec!["whether the lines of all ranks are in the file: they are in one".to_owned()],
        (false, false) => vec![format!("what ranks without a file sent: {}", missing.join(", "))],
        (false, true) => Vec::new(),
    };
    let matrix = |value: fn(&Line) -> u64| {
        Matrix::from_triplets(tasks, traffic.lines.iter().map(|line| (line.source, line.destination, value(line))))
    };
    let found = Found::Both(matrix(|line| line.messages), matrix(|line| line.bytes));
    // Open MPI counts every message, and a rank writes its file when it has counted them all.
    let exact = not_seen.is_empty();
    Imported { exact, not_seen, ..Imported::new("open-mpi", Kind::Ranks, files, found) }.profile()
}

/// Reads the matrices that monitoring_prof.so and profile2mat.pl make of them: symmetric, values separated by spaces.
pub fn read_matrix(path: &Path) -> Result<Profile> {
    let (found, files) = pair::read(path, |path| square(&rows(&read_text(path, TEXT_LIMIT_BYTES)?)?, 0))?;
    let not_seen = vec!["direction: Open MPI's tools average each pair's traffic over both".into()];
    Imported { not_seen, ..Imported::new("open-mpi-matrix", Kind::Ranks, files, found) }.profile()
}

/// What stands before the rank in NAME.RANK.prof (or NAME_RANK.prof), and the rank.
fn rank_of(path: &Path) -> Option<(String, u64)> {
    let name = file_name(path);
    let stem = name.strip_suffix(".prof")?;
    let digits = stem.len() - stem.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let (before, rank) = stem.split_at(stem.len() - digits);
    before.ends_with(['.', '_']).then(|| Some((before.to_string(), rank.parse().ok()?)))?
}

fn siblings(path: &Path) -> Result<Vec<PathBuf>> {
    let Some((before, _)) = rank_of(path) else { return Ok(vec![path.to_path_buf()]) };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|error| cohabit_model::file::cannot_read(directory, &error))? {
        let file = directory.join(entry?.file_name());
        if let Some((_, rank)) = rank_of(&file).filter(|(other, _)| *other == before) {
            found.push((rank, file));
        }
    }
    found.sort();
    if found.is_empty() {
        found.push((0, path.to_path_buf()));
    }
    Ok(found.into_iter().map(|(_, file)| file).collect())
}

struct Line {
    source: u32,
    destination: u32,
    messages: u64,
    bytes: u64,
}

#[derive(Default)]
struct Traffic {
    lines: Vec<Line>,
    tasks: u64,
}

impl Traffic {
    fn add(&mut self, text: &str) -> Result<()> {
        for (text, line) in text.lines().zip(1u64..) {
            let fields: Vec<&str> = text.split_whitespace().collect();
            self.line(&fields).map_err(|error| error.at(format_args!("line {line}")))?;
        }
        Ok(())
    }

    fn line(&mut self, fields: &[&str]) -> Result<()> {
        match fields {
            [] | ["O2A" | "A2O" | "A2A" | "C", ..] => Ok(()),
            ["#", ..] => Ok(()),
            ["D", .., ranks] => self.ranks(ranks),
            [letter @ ("E" | "I" | "S" | "R"), rank, peer, bytes, "bytes", messages, "msgs", "sent", ..] => {
                let [rank, peer] = [rank, peer].map(|text| self.rank(text));
                let (rank, peer) = (rank?, peer?);
                let (source, destination) = if *letter == "R" { (peer, rank) } else { (rank, peer) };
                let (messages, bytes) = (number::from_text(messages)?, number::from_text(bytes)?);
                self.lines.push(Line { source, destination, messages, bytes });
                Ok(())
            }
            _ => Err(Error::new("not a line that Open MPI's monitoring writes; cut short?")),
        }
    }

    /// A communicator's ranks, `0,1,2,3`: the world's name how many ranks there are, silent ones included.
    fn ranks(&mut self, ranks: &str) -> Result<()> {
        // A communicator's name may end the line where it has no ranks.
        if ranks.split(',').all(|rank| !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit())) {
            for rank in ranks.split(',') {
                self.rank(rank)?;
            }
        }
        Ok(())
    }

    fn rank(&mut self, text: &str) -> Result<u32> {
        let rank = number::from_text(text)?;
        self.tasks = self.tasks.max(check_tasks(rank.saturating_add(1))? as u64);
        Ok(rank as u32)
    }
}
