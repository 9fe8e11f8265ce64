//! Finds the libraries of the mappers `scotch` and `metis`, where their features are on.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (feature, library, package) in [("SCOTCH", "scotch", "libscotch-dev"), ("METIS", "metis", "libmetis-dev")] {
        if env::var_os(format!("CARGO_FEATURE_{feature}")).is_some() {
            link(library, &format!("{feature}_LIB_DIR"), package);
        }
    }
}

/// Links a library from the directory that the variable names, or from where the C compiler looks.
fn link(library: &str, variable: &str, package: &str) {
    println!("cargo::rerun-if-env-changed={variable}");
    let found = match env::var_os(variable) {
        Some(directory) => Some(PathBuf::from(directory)).filter(|directory| holds(directory, library)),
        None => compiler_finds(library),
    };
    let Some(directory) = found else {
        println!(
            "cargo::error=lib{library} was not found: install {package}, or name its directory in {variable}, \
             or build without the feature `{library}`"
        );
        return;
    };
    println!("cargo::rustc-link-search=native={}", directory.display());
    println!("cargo::rustc-link-lib=dylib={library}");
}

fn holds(directory: &Path, library: &str) -> bool {
    directory.join(format!("lib{library}.so")).exists() || directory.join(format!("lib{library}.a")).exists()
}

/// The C compiler prints the whole path of a library that it finds, and just the name of one that it does not.
fn compiler_finds(library: &str) -> Option<PathBuf> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let file = format!("-print-file-name=lib{library}.so");
    let output = Command::new(compiler).arg(file).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then(|| path.parent().map(Path::to_path_buf)).flatten()
}
