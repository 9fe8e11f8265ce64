//! Hosts as mpirun and mpiexec are told of them: lists on the command line and host files (mpirun(1) of Open MPI,
//! "Specifying Host Nodes"; Hydra's "Using the Hydra Process Manager").

use super::given::Host;
use cohabit_model::file::read_text;
use cohabit_model::launcher::Launcher;
use cohabit_model::{Error, Result};
use std::path::Path;

/// More than a host file of the largest machines.
const LIMIT_BYTES: u64 = 64 << 20;

/// A list on the command line: `a:2,b`. Open MPI takes a name without a number for one slot.
///
/// # Errors
/// Slots that are no number.
pub fn list(launcher: Launcher, text: &str) -> Result<Vec<Host>> {
    let mut hosts = text.split(',').filter(|part| !part.is_empty()).map(counted).collect::<Result<Vec<_>>>()?;
    if launcher == Launcher::OpenMpi {
        hosts.iter_mut().for_each(|host| host.slots = host.slots.or(Some(1)));
    }
    Ok(hosts)
}

/// A host file: a host a line, `a slots=2` or `a:2`.
///
/// # Errors
/// It cannot be read, or a line of it cannot.
pub fn read(path: &Path) -> Result<Vec<Host>> {
    let text = read_text(path, LIMIT_BYTES)?;
    let mut hosts = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default();
        hosts.extend(of_line(line).map_err(|error| error.at(format_args!("{}, line {number}", path.display())))?);
    }
    match hosts.is_empty() {
        true => Err(Error::new(format!("{}: it names no host", path.display())).remedy("write a host a line")),
        false => Ok(hosts),
    }
}

fn of_line(line: &str) -> Result<Option<Host>> {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return Ok(None) };
    let mut host = counted(first)?;
    for slots in words.filter_map(|word| word.strip_prefix("slots=").or_else(|| word.strip_prefix("count="))) {
        host.slots = Some(number(slots)?);
    }
    Ok(Some(host))
}

fn counted(part: &str) -> Result<Host> {
    match part.rsplit_once(':') {
        // `a:*` is as many as there are cores.
        Some((name, "*")) => Ok(Host { name: name.to_owned(), slots: None }),
        Some((name, slots)) => Ok(Host { name: name.to_owned(), slots: Some(number(slots)?) }),
        None => Ok(Host { name: part.to_owned(), slots: None }),
    }
}

fn number(text: &str) -> Result<usize> {
    text.parse().map_err(|_| Error::new(format!("{text:?} is no number of slots")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_files_of_both_kinds_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        let host = |name: &str, slots| Host { name: name.to_owned(), slots };
        for (text, expected) in [
            ("# hosts\na slots=2 max_slots=4\n\nb\n", Ok(vec![host("a", Some(2)), host("b", None)])),
            ("a:2 binding=user:0\nb:*\n", Ok(vec![host("a", Some(2)), host("b", None)])),
            ("a\nb slots=two\n", Err("line 2: \"two\" is no number of slots")),
            ("# none\n", Err("it names no host")),
        ] {
            std::fs::write(&path, text).unwrap();
            match (read(&path), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(error), Err(cause)) => assert!(error.cause.contains(cause), "{error}"),
                (found, expected) => panic!("{found:?} for {expected:?}"),
            }
        }
    }
}
