//! A comparison in parts, each a command of its own for a job runner: a part (*cell*) is one block, which has each arm
//! once, so that only runs of one host and one time are held against one another wherever the cells run.

use super::results::Results;
use super::runner::Runner;
use super::session::{Enough, Wanted, block, warm};
use crate::command_line::shell;
use crate::online::stop::until_signalled;
use crate::progress::Line;
use cohabit_model::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Which part of a comparison is run here.
#[derive(clap::Args, Debug, Clone)]
pub struct CellArgs {
    /// List the blocks of --runs, a command each for a job runner, and run none
    #[arg(long, requires = "runs", conflicts_with_all = ["cell", "collect", "resume"])]
    pub cells: bool,
    /// Run this block alone, and keep it in the folder that belongs to -o
    #[arg(long, value_name = "N", requires = "runs", conflicts_with_all = ["collect", "resume"])]
    pub cell: Option<u32>,
    /// Run nothing: join the blocks that have run
    #[arg(long, requires = "runs", conflicts_with = "resume")]
    pub collect: bool,
}

/// The command that was typed, once for each of these blocks.
///
/// # Errors
/// Where a word of it is no UTF-8, and so cannot be written down.
pub fn commands(typed: impl Iterator<Item = OsString>, blocks: u32) -> Result<String> {
    let words = typed.map(|word| {
        let refused = |word: OsString| format!("{} is no UTF-8: --cells cannot list it", word.to_string_lossy());
        word.into_string().map_err(|word| Error::new(refused(word)))
    });
    let words = words.collect::<Result<Vec<String>>>()?;
    // What comes after -- is the program's.
    let at = words.iter().position(|word| word == "--cells" || word == "--").unwrap_or(words.len());
    let of_block = |number: u32| {
        let number = number.to_string();
        let before = words[..at].iter().map(String::as_str);
        let after = words[(at + 1).min(words.len())..].iter().map(String::as_str);
        shell(before.chain(["--cell", number.as_str()]).chain(after)) + "\n"
    };
    Ok((0..blocks).map(of_block).collect())
}

/// The folder of the blocks of a comparison: `runs.cells` for `runs.json`.
pub fn folder(output: &Path) -> PathBuf {
    output.with_extension("cells")
}

fn file(output: &Path, number: u32) -> PathBuf {
    folder(output).join(format!("{number}.json"))
}

/// Runs a block that has not run, and keeps it; one that was cut off is begun again.
///
/// # Errors
/// There is no such block, it is of another comparison, or a run fails.
pub fn run(output: &Path, number: u32, new: Results, runner: &mut Runner, wanted: &Wanted) -> Result<Enough> {
    let blocks = wanted.blocks.unwrap_or_default();
    if number as usize >= blocks {
        let cause = format!("there is no block {number}: --runs {blocks} makes blocks 0 to {}", blocks - 1);
        return Err(Error::new(cause).remedy("--cells lists them"));
    }
    std::fs::create_dir_all(folder(output))?;
    let path = file(output, number);
    if let Some(kept) = read(&path, number, &new)? {
        if kept.values().len() == 1 {
            return Ok(Enough::Done);
        }
    }
    let mut results = new;
    let _ = until_signalled();
    let line = Line::new();
    if let Some(signal) = warm(&mut results, &path, runner, wanted, &line)? {
        return Ok(Enough::Stopped(signal));
    }
    let stopped = block(&mut results, &path, runner, number as usize, &mut |arm| {
        line.say(&format!("block {number}, {arm}"));
    })?;
    Ok(stopped.map_or(Enough::Done, Enough::Stopped))
}

fn read(path: &Path, number: u32, new: &Results) -> Result<Option<Results>> {
    if !path.exists() {
        return Ok(None);
    }
    let kept = Results::read(path)?;
    kept.check_same(new).map_err(|error| error.at(path.display()))?;
    match kept.runs.iter().all(|run| run.warm_up || run.block == number as usize) {
        true => Ok(Some(kept)),
        false => {
            Err(Error::new("runs of another block").remedy("remove it, and run the block again").at(path.display()))
        }
    }
}

/// All blocks that have run, as one comparison, which is written to `output`.
///
/// # Errors
/// None has, one is of another comparison, or `output` has runs that would be lost.
pub fn collect(output: &Path, blocks: u32, new: Results) -> Result<Results> {
    let mut joined = new.clone();
    for number in 0..blocks {
        if let Some(kept) = read(&file(output, number), number, &new)?.filter(|kept| kept.values().len() == 1) {
            joined.runs.extend(kept.runs);
        }
    }
    if joined.runs.is_empty() {
        return Err(Error::new(format!("{}: no block has run", folder(output).display()))
            .remedy("run what --cells lists; --runs and -o as they were then"));
    }
    if output.exists() {
        let there = Results::read(output)?;
        if !there.runs.iter().all(|run| joined.runs.contains(run)) {
            let cause = format!("{} has runs of its own", output.display());
            return Err(
                Error::new(cause).remedy("-o names another file, whose folder of blocks goes with it; or remove it")
            );
        }
    }
    joined.write(output)?;
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_the_command_that_was_typed() {
        let typed = ["/usr/bin/cohabit", "compare", "--runs", "2", "--cells", "-o", "a b.json", "--", "./p", "--cells"];
        let text = commands(typed.iter().map(OsString::from), 2).unwrap();
        assert_eq!(
            text,
            "/usr/bin/cohabit compare --runs 2 --cell 0 -o 'a b.json' -- ./p --cells\n\
             /usr/bin/cohabit compare --runs 2 --cell 1 -o 'a b.json' -- ./p --cells\n"
        );
    }
}
