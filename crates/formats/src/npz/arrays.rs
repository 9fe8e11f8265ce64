//! Any arrays of counts as a `.npz` file, which `numpy.load` reads.

use super::archive::MEMBER_LIMIT_BYTES;
use super::{META, npy};
use cohabit_model::file::{cannot_write, write_whole};
use cohabit_model::{Error, Result};
use std::io::{self, Cursor, Write};
use std::path::Path;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// An array of counts, uint64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Its name.
    pub name: String,
    /// How long it is in each dimension.
    pub shape: Vec<usize>,
    /// Its elements, the last index running fastest.
    pub values: Vec<u64>,
}

/// Writes `meta` (JSON) and arrays, whole or not at all; the same ones give the same bytes.
///
/// # Errors
/// The path with the system's reason; an array that is larger than what is read again, or has not as many elements as
/// its shape says.
pub fn write_arrays(path: &Path, meta: &[u8], arrays: &[Counts]) -> Result<()> {
    for array in arrays {
        let cause = if array.shape.iter().product::<usize>() != array.values.len() {
            format!("{}: {} elements for a shape of {:?}", array.name, array.values.len(), array.shape)
        } else if array.values.len() as u64 * 8 > MEMBER_LIMIT_BYTES {
            format!("{} has {} elements, more than a file holds", array.name, array.values.len())
        } else {
            continue;
        };
        return Err(Error::new(cause).at(path.display()));
    }
    let packed = packed(meta, arrays).map_err(|error| cannot_write(path, &error))?;
    write_whole(path, &packed)
}

/// Packed in memory: a zip writer whose disk is full complains on standard error when it is dropped. Times are left
/// out.
fn packed(meta: &[u8], arrays: &[Counts]) -> io::Result<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut member = |name: &str, header: &[u8], bytes: &[u8]| {
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        zip.start_file(format!("{name}.npy"), options)?;
        zip.write_all(header)?;
        zip.write_all(bytes)
    };
    member(META, &npy::header_bytes("|u1", &[meta.len()]), meta)?;
    for array in arrays {
        let bytes: Vec<u8> = array.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        member(&array.name, &npy::header_bytes("<u8", &array.shape), &bytes)?;
    }
    Ok(zip.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npz::archive::Archive;
    use std::io::Read;

    #[test]
    fn arrays_are_read_again_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let array = |name: &str, shape: &[usize], values: &[u64]| Counts {
            name: name.to_owned(),
            shape: shape.to_vec(),
            values: values.to_vec(),
        };
        let arrays = [
            array("a", &[2, 1, 3], &[1, 2, 3, 4, 5, u64::MAX]),
            array("b", &[3], &[7, 8, 9]),
            array("c", &[0, 4], &[]),
        ];
        write_arrays(&path, b"{}", &arrays).unwrap();
        let mut archive = Archive::open(&path).unwrap();
        assert_eq!(archive.names(), ["a", "b", "c", "meta"]);
        for wanted in &arrays {
            let found = archive.array(&wanted.name).unwrap();
            assert_eq!(found.header.shape, wanted.shape.iter().map(|&length| length as u64).collect::<Vec<_>>());
            let (mut data, mut bytes) = (found.data, Vec::new());
            data.read_to_end(&mut bytes).unwrap();
            let words = bytes.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
            assert_eq!(words.collect::<Vec<_>>(), wanted.values, "{}", wanted.name);
        }
        let bytes = std::fs::read(&path).unwrap();
        write_arrays(&path, b"{}", &arrays).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let error = write_arrays(&path, b"{}", &[array("d", &[2, 2], &[1])]).unwrap_err();
        assert!(error.to_string().contains("d: 1 elements"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "what was there still is");
    }
}
