//! Machines that need no file of the user's: testdata/machines, where every value names its source.

/// A machine that is known by name.
#[derive(Debug, Clone, Copy)]
pub struct Given {
    /// What `--machine` takes.
    pub name: &'static str,
    /// Its machine file.
    pub text: &'static str,
}

macro_rules! given {
    ($($name:literal),*) => {
        &[$(Given { name: $name, text: include_str!(concat!("../../../../testdata/machines/", $name, ".toml")) }),*]
    };
}

/// The machines of the papers, and two of other kinds.
pub const MACHINES: &[Given] = given!["harpertown", "xeon32", "xeon64", "purple", "deloc", "epyc", "mesh"];
