//! NumPy files: a profile of cohabit as it is, else square arrays of counts (`numpy.save`, `numpy.savez`).

use super::build::{Found, Imported, UNSAID, check_tasks, file_name};
use crate::npz::archive::Archive;
use crate::npz::npy::{Entry, Header};
use crate::npz::read_profile;
use cohabit_model::file::cannot_read;
use cohabit_model::profile::Kind;
use cohabit_model::{Error, Matrix, Profile, Result};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

const MESSAGES: [&str; 4] = ["messages", "msgs", "count", "counts"];
const BYTES: [&str; 3] = ["bytes", "size", "sizes"];

/// Reads a `.npz` or `.npy` file.
pub fn read(path: &Path) -> Result<Profile> {
    let found = if file_name(path).to_lowercase().ends_with(".npy") {
        let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        let mut reader = BufReader::new(file);
        let header = Header::read(&mut reader)?;
        Found::Either(to_matrix(header.read_square(&mut reader, None)?)?)
    } else {
        let mut archive = Archive::open(path)?;
        if archive.has("meta") {
            return read_profile(path);
        }
        arrays(&mut archive)?
    };
    let files = vec![path.to_path_buf()];
    let not_seen = vec![UNSAID.to_owned()];
    Imported { not_seen, ..Imported::new("npz", Kind::Threads, files, found) }.profile()
}

fn arrays(archive: &mut Archive) -> Result<Found> {
    let names = archive.names();
    let find = |wanted: &[&str]| names.iter().find(|name| wanted.contains(&name.as_str()));
    let mut matrix = |name: &String| to_matrix(archive.square(name, None)?);
    match (find(&MESSAGES), find(&BYTES), &names[..]) {
        (Some(first), Some(second), _) => {
            let (messages, bytes) = (matrix(first)?, matrix(second)?);
            if messages.tasks() == bytes.tasks() {
                return Ok(Found::Both(messages, bytes));
            }
            let size = |matrix: &Matrix| format!("{0} x {0}", matrix.tasks());
            let cause = format!("{first:?} is {}, but {second:?} {}", size(&messages), size(&bytes));
            Err(Error::new(cause).remedy("save both with one row and one column for each task, or one of them alone"))
        }
        (Some(messages), None, _) => Ok(Found::Messages(matrix(messages)?)),
        (None, Some(bytes), _) => Ok(Found::Bytes(matrix(bytes)?)),
        (None, None, [only]) => Ok(Found::Either(matrix(only)?)),
        (None, None, []) => Err(Error::new("it holds no array")),
        (None, None, several) => {
            let cause = format!(
                "none of its {} arrays is named \"messages\" or \"bytes\": {}",
                several.len(),
                several.join(", ")
            );
            Err(Error::new(cause)
                .remedy("save the matrices under these names: numpy.savez(file, messages=..., bytes=...)"))
        }
    }
}

fn to_matrix((tasks, entries): (usize, Vec<Entry>)) -> Result<Matrix> {
    if tasks == 0 {
        return Err(Error::new("the array is empty"));
    }
    Ok(Matrix::from_triplets(check_tasks(tasks as u64)?, entries))
}
