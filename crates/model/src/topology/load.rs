//! From what a user types after `--topology`, or what a mapping file carries, to a topology.

use super::{Topology, cluster, matrix, synthetic, xml};
use crate::file::read_text_within;
use crate::{Error, Result};
use std::path::Path;

/// What `--topology` takes, for errors.
const FORMS: &str = "give live, an hwloc XML file, a synthetic string such as \"pack:2 core:14 pu:2\", a cluster file (.toml), \
                     or matrix:FILE.csv";

impl Topology {
    /// The topology a user names: `live`, a file of hwloc's XML (or of any text that [`Topology::parse_text`] takes), a
    /// synthetic string, a cluster file (`.toml`), or `matrix:FILE.csv`.
    ///
    /// # Errors
    /// Where it is none of these, a file cannot be read, or what it describes is no machine.
    pub fn load(text: &str) -> Result<Self> {
        let text = text.trim();
        if text == "live" {
            return live();
        }
        if let Some(file) = text.strip_prefix(matrix::PREFIX) {
            return matrix::parse(&read(file, matrix::most_bytes)?).map_err(|error| error.at(file));
        }
        let lower = text.to_ascii_lowercase();
        if lower.ends_with(".toml") {
            return cluster::load(Path::new(text)).map(|(topology, _)| topology);
        }
        if lower.ends_with(".xml") || Path::new(text).is_file() {
            return Self::parse_text(&read(text, most_bytes)?).map_err(|error| error.at(text));
        }
        if text.contains('/') || lower.ends_with(".csv") {
            return Err(Error::new(format!("{text}: no such file")).remedy(FORMS));
        }
        synthetic::parse(text).map_err(|error| error.at(format!("topology {text:?}")))
    }

    /// The topology of a mapping file's `topology` key: what [`Topology::text`] was. Reads no other file, asks no
    /// machine.
    ///
    /// # Errors
    /// Where the text is neither hwloc's XML, `matrix:` with CSV lines, a cluster file's, nor a synthetic string.
    pub fn parse_text(text: &str) -> Result<Self> {
        if text.trim_start().starts_with('<') {
            return xml::parse(text);
        }
        match text.strip_prefix(matrix::PREFIX) {
            Some(csv) => matrix::parse(csv),
            None if cluster::is_cluster(text) => cluster::parse(text),
            None => synthetic::parse(text.trim()),
        }
    }
}

/// Bytes of the longest file that begins so: the XML of a machine with a hundred thousand PUs, or any other text that
/// [`Topology::parse_text`] takes.
fn most_bytes(beginning: &str) -> u64 {
    match beginning.strip_prefix(matrix::PREFIX) {
        Some(csv) => matrix::most_bytes(csv),
        None => 64 << 20,
    }
}

fn read(file: &str, limit: impl Fn(&str) -> u64) -> Result<String> {
    read_text_within(Path::new(file), limit).map_err(|error| Error { remedy: Some(FORMS.to_owned()), ..error })
}

#[cfg(feature = "hwloc")]
use super::hwloc::live;

#[cfg(not(feature = "hwloc"))]
fn live() -> Result<Topology> {
    Err(Error::new("the live machine cannot be looked at: built without hwloc")
        .remedy("build with the feature hwloc, or give a file of lstopo or a synthetic string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_topology_says_what_would_be() {
        for (text, cause) in [
            ("nowhere/node", "nowhere/node: no such file"),
            ("node.csv", "node.csv: no such file"),
            ("nowhere/node.xml", "cannot read nowhere/node.xml: No such file or directory (os error 2)"),
            ("matrix:nowhere.csv", "cannot read nowhere.csv: No such file or directory (os error 2)"),
            ("matrix:", "cannot read : No such file or directory (os error 2)"),
            ("matrix:/dev/zero", "/dev/zero: not text: byte 0 is 0"),
        ] {
            let error = Topology::load(text).unwrap_err();
            assert_eq!(error.cause, cause);
            assert_eq!(error.remedy.as_deref(), Some(FORMS), "{text}");
        }
        assert_eq!(Topology::load("nonsense").unwrap_err().cause, "topology \"nonsense\": \"nonsense\" is no level");
        assert!(Topology::load("").is_err());
    }

    #[test]
    fn a_file_holds_any_text_a_mapping_holds() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["pack:2 core:2 pu:1", "matrix:\n0,1\n1,0\n"] {
            let file = folder.path().join("machine");
            std::fs::write(&file, text).unwrap();
            assert_eq!(Topology::load(file.to_str().unwrap()), Topology::parse_text(text));
        }
        let binary = folder.path().join("binary.xml");
        std::fs::write(&binary, [0xff, 0xfe]).unwrap();
        let error = Topology::load(binary.to_str().unwrap()).unwrap_err();
        assert!(error.cause.ends_with("binary.xml: not text as it is read here: it is UTF-16"), "{error}");
        let endless = folder.path().join("endless.xml");
        std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
        let error = Topology::load(endless.to_str().unwrap()).unwrap_err();
        assert!(error.cause.ends_with("endless.xml: not text: byte 0 is 0"), "{error}");
    }
}
