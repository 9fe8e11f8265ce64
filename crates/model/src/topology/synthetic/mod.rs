//! Synthetic topologies: `pack:2 core:14 pu:2`, in the language of hwloc (hwloc 2.9 manual, "Synthetic topologies").
//!
//! Parsed here because hwloc takes minutes at a million PUs. hwloc's names and their abbreviations are understood,
//! levels without names (`2 14 2`), NUMA nodes attached in brackets (`pack:2 [numa] core:8 pu:2`), and of the
//! attributes in parentheses `size`, `memory` and `indexes`; others are passed over. Differences: NUMA nodes come where
//! they are written, and where none are written there are none; instruction caches are no level; a level that could not
//! be inside the one before it (`core:4 pack:2`) is refused.

mod attributes;
mod indexes;

use super::builder::Builder;
use super::{Level, Pu, Topology};
use crate::{Error, Result};
use attributes::Attributes;

/// Nodes of the largest tree, PUs included: a machine of a million PUs with all its levels has fewer; about 1 GiB.
pub const MAX_NODES: u64 = 8 << 20;

/// What a synthetic string looks like, for errors.
const EXAMPLE: &str = "write levels with counts from the root down, such as \"pack:2 l3:4 core:8 pu:2\"";

/// One level of the tree below the root.
#[derive(Debug, Clone)]
struct Step {
    level: Level,
    /// How many in each node of the level above.
    arity: u64,
    /// How many in all.
    width: u64,
    size_bytes: u64,
    /// OS indices, in the tree's order; empty: 0, 1, 2, ...
    os_indices: Vec<u32>,
}

/// Reads a synthetic string.
///
/// # Errors
/// Where a word is no level, a count is 0, levels are in an impossible order, PUs are not the last, or there would be
/// more than [`MAX_NODES`] nodes.
pub fn parse(text: &str) -> Result<Topology> {
    let steps = steps(text).map_err(|error| if error.remedy.is_none() { error.remedy(EXAMPLE) } else { error })?;
    // Counted before: a vector that grows is twice as large now and then.
    let nodes = 1 + steps.iter().map(|step| step.width as usize).sum::<usize>();
    let mut builder = Builder::with_capacity(nodes, steps.last().map_or(0, |step| step.width as usize));
    builder.enter(Level::Machine, None, 0);
    grow(&mut builder, &steps, &mut vec![0; steps.len()], 0);
    builder.finish(text.into())
}

/// Adds the nodes of `steps[depth]` below the open node; `next` counts the nodes of each level so far.
fn grow(builder: &mut Builder, steps: &[Step], next: &mut [usize], depth: usize) {
    let step = &steps[depth];
    for _ in 0..step.arity {
        let number = next[depth];
        next[depth] += 1;
        let os_index = step.os_indices.get(number).copied().unwrap_or(number as u32);
        if step.level == Level::Pu {
            builder.pu(Pu::plain(os_index));
        } else {
            builder.enter(step.level, Some(os_index), step.size_bytes);
            grow(builder, steps, next, depth + 1);
            builder.leave();
        }
    }
}

/// A level as it is written: `core:8(indexes=...)`.
#[derive(Debug)]
struct Word<'a> {
    /// `core`, or nothing in `8`.
    name: &'a str,
    arity: u64,
    attributes: &'a str,
}

fn steps(text: &str) -> Result<Vec<Step>> {
    let words = split(text)?;
    let levels = levels(&words)?;
    let mut steps: Vec<Step> = Vec::new();
    let mut attributes_of = Vec::new();
    let (mut width, mut nodes, mut hidden) = (1u64, 1u64, 1u64);
    for (word, level) in words.iter().zip(levels) {
        let attributes = attributes::parse(word.attributes)?;
        let too_many = || Error::new(format!("more than {MAX_NODES} nodes at \"{}:{}\"", word.name, word.arity));
        let Some(level) = level else {
            // An instruction cache is no place of its own: what it holds moves up.
            hidden = hidden.checked_mul(word.arity).filter(|&all| all <= MAX_NODES).ok_or_else(too_many)?;
            continue;
        };
        let arity = word.arity.checked_mul(hidden).ok_or_else(too_many)?;
        width = width.checked_mul(arity).ok_or_else(too_many)?;
        nodes = nodes.checked_add(width).filter(|&nodes| nodes <= MAX_NODES).ok_or_else(too_many)?;
        hidden = 1;
        let Attributes { size_bytes, indexes } = attributes;
        steps.push(Step { level, arity, width, size_bytes, os_indices: Vec::new() });
        attributes_of.push(indexes);
    }
    check_order(&steps)?;
    let shape: Vec<_> = steps.iter().map(|step| (step.level, step.width)).collect();
    for (depth, text) in attributes_of.into_iter().enumerate() {
        if let Some(text) = text {
            steps[depth].os_indices = indexes::parse(text, &shape[..=depth])?;
        }
    }
    Ok(steps)
}

/// The words of a string; attributes of the machine itself, which may come first, are left out.
fn split(text: &str) -> Result<Vec<Word<'_>>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    if let Some(machine) = rest.strip_prefix('(') {
        rest = past_attributes(machine)?.1.trim_start();
    }
    while !rest.is_empty() {
        let bracket = rest.starts_with('[');
        rest = rest.trim_start_matches('[');
        let end = rest.find(|c: char| c.is_whitespace() || "([]".contains(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let (attributes, after) = match after.strip_prefix('(') {
            Some(inside) => past_attributes(inside)?,
            None => ("", after),
        };
        rest = match (bracket, after.strip_prefix(']')) {
            (true, Some(after)) => after.trim_start(),
            (false, None) => after.trim_start(),
            _ => return Err(Error::new(format!("a bracket without its other half at {word:?}"))),
        };
        let (name, arity) = name_and_count(word, bracket)?;
        words.push(Word { name, arity, attributes });
    }
    Ok(words)
}

/// What is inside the parentheses, and what comes after them.
fn past_attributes(inside: &str) -> Result<(&str, &str)> {
    inside.split_once(')').ok_or_else(|| Error::new(format!("no ) after \"({inside}\"")))
}

fn name_and_count(word: &str, bracket: bool) -> Result<(&str, u64)> {
    if bracket {
        // hwloc attaches one memory for each node of the level before.
        return Ok((word, 1));
    }
    let (name, count) = match word.split_once(':') {
        Some(both) => both,
        None if word.starts_with(|c: char| c.is_ascii_digit()) => ("", word),
        None if level_named(word).is_some() => {
            return Err(Error::new(format!("{word:?} has no count")));
        }
        None => return Err(Error::new(format!("{word:?} is no level"))),
    };
    match count.parse::<u64>() {
        Ok(0) => Err(Error::new(format!("the count in {word:?} is 0"))),
        Ok(count) => Ok((name, count)),
        Err(_) => Err(Error::new(format!("{count:?} in {word:?} is no count"))),
    }
}

/// What hwloc makes levels without names, by how many there are: each count adds one of these.
const UNNAMED: [Level; 7] = [Level::Pu, Level::Numa, Level::Package, Level::Core, Level::L2, Level::L1, Level::L3];

/// The level of each word; none for an instruction cache.
fn levels(words: &[Word]) -> Result<Vec<Option<Level>>> {
    let unnamed = words.iter().filter(|word| word.name.is_empty()).count();
    if unnamed == 0 {
        let named = |word: &Word| {
            let unknown = || Error::new(format!("{:?} is no level", word.name));
            level_named(word.name).ok_or_else(unknown)
        };
        return words.iter().map(named).collect();
    }
    if unnamed < words.len() {
        return Err(Error::new("levels with names and levels without do not go together"));
    }
    let mut levels = vec![Level::Group; unnamed.saturating_sub(UNNAMED.len())];
    let mut inner: Vec<_> = UNNAMED.into_iter().take(unnamed).collect();
    inner.sort_by_key(|&level| rank(level));
    levels.extend(inner);
    Ok(levels.into_iter().map(Some).collect())
}

/// The level of this name, in any case: hwloc's names, those of its version 1, and abbreviations as hwloc takes them.
/// `Some(None)` is an instruction cache.
fn level_named(name: &str) -> Option<Option<Level>> {
    let name = name.to_ascii_lowercase();
    let short_for = |whole: &str, least: usize| name.len() >= least && whole.starts_with(&name);
    if let Some(cache) = name.strip_prefix('l') {
        return cache_named(cache);
    }
    if short_for("package", 4) || short_for("socket", 4) {
        return Some(Some(Level::Package));
    }
    if short_for("numanode", 4) || short_for("node", 4) {
        return Some(Some(Level::Numa));
    }
    let group = name.strip_prefix("group").is_some_and(|depth| depth.bytes().all(|byte| byte.is_ascii_digit()));
    if group || ["cluster", "module", "tile", "book", "drawer"].contains(&name.as_str()) {
        return Some(Some(Level::Group));
    }
    match name.as_str() {
        "die" => Some(Some(Level::Die)),
        "core" => Some(Some(Level::Core)),
        "pu" | "proc" => Some(Some(Level::Pu)),
        _ => None,
    }
}

/// The level of a cache, its name without the L: `2`, `1d`, `3u`, `2cache`, `1icache`.
fn cache_named(name: &str) -> Option<Option<Level>> {
    let (depth, kind) = name.split_at_checked(1)?;
    let level = match depth {
        "1" => Level::L1,
        "2" => Level::L2,
        "3" => Level::L3,
        "4" => Level::L4,
        "5" => Level::L5,
        _ => return None,
    };
    match kind.strip_suffix("cache").unwrap_or(kind) {
        "" | "d" | "u" => Some(Some(level)),
        "i" => Some(None),
        _ => None,
    }
}

/// Where a level is among the others: a larger one lies inside. Dies, groups and NUMA nodes may lie anywhere between
/// the machine and its cores.
fn rank(level: Level) -> u32 {
    match level {
        Level::Switch | Level::Machine => 0,
        Level::Package => 1,
        Level::Die | Level::Group => 2,
        Level::Numa => 3,
        Level::L5 => 4,
        Level::L4 => 5,
        Level::L3 => 6,
        Level::L2 => 7,
        Level::L1 => 8,
        Level::Core => 9,
        Level::Pu => 10,
    }
}

fn check_order(steps: &[Step]) -> Result<()> {
    let Some(last) = steps.last() else { return Err(Error::new("no level")) };
    if last.level != Level::Pu {
        return Err(Error::new(format!("the last level is {}, not PU", last.level)).remedy("end it with pu:1 or pu:2"));
    }
    let anywhere = |level| matches!(level, Level::Group | Level::Numa);
    let mut above = Level::Machine;
    for step in &steps[..steps.len() - 1] {
        let beside = anywhere(step.level);
        if rank(step.level) > rank(Level::Core) || above == Level::Core || !beside && rank(step.level) <= rank(above) {
            let (inner, outer) = (step.level, if beside { Level::Core } else { above });
            return Err(Error::new(format!("a {inner} cannot be inside a {outer}")));
        }
        if !beside {
            above = step.level;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
