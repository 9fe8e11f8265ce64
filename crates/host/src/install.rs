//! Where the profiler's parts are: the client, its launcher, and DynamoRIO.
//!
//! A build (`build/native/`) and an installed tree (`PREFIX/lib/cohabit/`) have the same layout:
//!
//! ```text
//! libcohabit_dbi.so  cohabit-dbi-launch  dynamorio/lib64/release/libdynamorio.so
//! ```

use cohabit_model::{Error, Result};
use std::env;
use std::path::{Path, PathBuf};

/// Names the folder that holds the profiler's parts, instead of the places where they are looked for.
pub const LIBDIR_VARIABLE: &str = "COHABIT_LIBDIR";
/// Names the root of the user's own DynamoRIO.
pub const DYNAMORIO_VARIABLE: &str = "COHABIT_DYNAMORIO";

const CLIENT: &str = "libcohabit_dbi.so";
const LAUNCHER: &str = "cohabit-dbi-launch";
const DYNAMORIO: &str = "dynamorio";
const CORE: &str = "lib64/release/libdynamorio.so";

/// Paths of all that the profiler consists of; each was there when it was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The DynamoRIO client.
    pub client: PathBuf,
    /// The program that starts others under it.
    pub launcher: PathBuf,
    /// DynamoRIO's root: the folder with `lib64/release/`.
    pub dynamorio: PathBuf,
}

impl Installation {
    /// Finds the profiler: where `COHABIT_LIBDIR` says, else in `../lib/cohabit` beside the folder of this program,
    /// else in `build/native` of the source tree that this program was built in. DynamoRIO is in that folder, unless
    /// `COHABIT_DYNAMORIO` names another.
    ///
    /// # Errors
    /// What is missing where, and how to get it.
    pub fn find() -> Result<Self> {
        let program =
            env::current_exe().map_err(|error| Error::new(format!("cannot tell where cohabit is: {error}")))?;
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        find(&program, set(LIBDIR_VARIABLE), set(DYNAMORIO_VARIABLE))
    }
}

fn find(program: &Path, libdir: Option<PathBuf>, dynamorio: Option<PathBuf>) -> Result<Installation> {
    let libdir = match libdir {
        Some(libdir) if libdir.join(CLIENT).is_file() => libdir,
        Some(libdir) => {
            let cause = format!("{LIBDIR_VARIABLE}={}: no {CLIENT} there", libdir.display());
            return Err(
                Error::new(cause).remedy(format!("unset {LIBDIR_VARIABLE}, or name the folder that holds {CLIENT}"))
            );
        }
        None => {
            let places = candidates(program);
            let Some(found) = places.iter().find(|place| place.join(CLIENT).is_file()) else {
                return Err(missing(&places));
            };
            found.clone()
        }
    };
    let launcher = present(libdir.join(LAUNCHER), "run `make` to build it again")?;
    let (dynamorio, remedy) = match dynamorio {
        Some(own) => (own, format!("name the root of a DynamoRIO release or build, or unset {DYNAMORIO_VARIABLE}")),
        None => (libdir.join(DYNAMORIO), format!("run `make`, or name DynamoRIO's root with {DYNAMORIO_VARIABLE}")),
    };
    present(dynamorio.join(CORE), &remedy)?;
    Ok(Installation { client: libdir.join(CLIENT), launcher, dynamorio })
}

/// Where the parts of a program at this path may be, the likeliest first.
pub fn candidates(program: &Path) -> Vec<PathBuf> {
    let folder = program.parent().unwrap_or(Path::new("/"));
    let installed = folder.parent().map(|prefix| prefix.join("lib/cohabit"));
    let built = program.ancestors().find(|ancestor| ancestor.file_name().is_some_and(|name| name == "target"));
    let built = built.and_then(Path::parent).map(|source| source.join("build/native"));
    installed.into_iter().chain(built).collect()
}

fn present(path: PathBuf, remedy: &str) -> Result<PathBuf> {
    match path.is_file() {
        true => Ok(path),
        false => {
            Err(Error::new(format!("the exact profiler is incomplete: {} is missing", path.display())).remedy(remedy))
        }
    }
}

fn missing(places: &[PathBuf]) -> Error {
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    Error::new(format!("the exact profiler is not installed: no {CLIENT} in {}", places.join(" or ")))
        .remedy(format!("run `make` (x86-64 only), or name the folder that holds it with {LIBDIR_VARIABLE}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(root: &Path, libdir: &str, files: &[&str]) -> PathBuf {
        for file in files {
            let path = root.join(libdir).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root.join(libdir)
    }

    const ALL: [&str; 3] = [CLIENT, LAUNCHER, "dynamorio/lib64/release/libdynamorio.so"];

    #[test]
    fn an_installed_tree_a_build_and_a_named_folder_are_found() {
        let root = tempfile::tempdir().unwrap();
        let rows = [
            ("usr/lib/cohabit", "usr/bin/cohabit", None),
            ("src/build/native", "src/target/release/cohabit", None),
            ("src/build/native", "src/target/debug/deps/test-1", None),
            ("else", "usr/bin/cohabit", Some(root.path().join("else"))),
        ];
        for (libdir, program, named) in rows {
            let libdir = tree(root.path(), libdir, &ALL);
            let found = find(&root.path().join(program), named, None).unwrap();
            assert_eq!(found.client, libdir.join(CLIENT), "{program}");
            assert_eq!(found.dynamorio, libdir.join(DYNAMORIO), "{program}");
        }
    }

    #[test]
    fn what_is_missing_is_named_with_a_remedy() {
        let root = tempfile::tempdir().unwrap();
        let whole = tree(root.path(), "whole", &ALL);
        let rows = [
            (None, None, "not installed", "make"),
            (Some(root.path().join("none")), None, "COHABIT_LIBDIR=", "unset"),
            (Some(tree(root.path(), "a", &ALL[..1])), None, LAUNCHER, "make"),
            (Some(tree(root.path(), "b", &ALL[..2])), None, "libdynamorio.so", DYNAMORIO_VARIABLE),
            (Some(whole.clone()), Some(root.path().join("own")), "own/lib64", "unset"),
        ];
        for (libdir, dynamorio, cause, remedy) in rows {
            let error = find(&root.path().join("bin/cohabit"), libdir, dynamorio).unwrap_err();
            assert!(error.cause.contains(cause) && error.remedy.as_deref().unwrap().contains(remedy), "{error}");
        }
        let own = tree(root.path(), "own", &["lib64/release/libdynamorio.so"]);
        assert_eq!(find(Path::new("/bin/x"), Some(whole), Some(own.clone())).unwrap().dynamorio, own);
    }
}
