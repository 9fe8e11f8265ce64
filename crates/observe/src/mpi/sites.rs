//! The call sites of the heaviest pairs: return addresses as functions and lines.

use super::abi::COHABIT_MPI_FLAG_SITES as FLAG;
use super::part::{Amount, Rank, Site};
use super::worlds::Worlds;
use cohabit_host::symbols::{Module, Place, Symbols};
use cohabit_model::profile::{CallSite, PairSites};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;

/// Pairs whose call sites are told.
const PAIRS: usize = 32;
/// Call sites of a pair.
const SITES: usize = 4;

/// What a pair exchanged, and where: the rank that counted it, a return address, how much.
type Pair = (Amount, Vec<(usize, u64, Amount)>);

/// The heaviest pairs first; none where sites were not followed.
pub fn heaviest(ranks: &[Rank], worlds: &Worlds) -> Option<Vec<PairSites>> {
    let mut pairs: BTreeMap<(u32, u32), Pair> = BTreeMap::new();
    for (at, rank) in ranks.iter().enumerate() {
        for &Site { peer, address, amount, .. } in rank.sites.iter().filter(|_| rank.has(FLAG)) {
            let Some(other) = worlds.peer(at, peer) else { continue };
            let own = worlds.task(ranks, at);
            let pair = if peer.kind == super::part::Kind::Got { (other, own) } else { (own, other) };
            let (total, sites) = pairs.entry(pair).or_default();
            total.add(amount);
            sites.push((at, address, amount));
        }
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(pair, (total, _))| (std::cmp::Reverse(total.bytes), std::cmp::Reverse(total.messages), *pair));
    let mut symbols = Symbols::default();
    let mut modules: HashMap<usize, Vec<Module>> = HashMap::new();
    let mut pair = |((source, destination), (total, sites)): ((u32, u32), Pair)| {
        let mut places: HashMap<Place, Amount> = HashMap::new();
        for (at, address, amount) in sites {
            let modules = modules.entry(at).or_insert_with(|| mapped(&ranks[at].maps));
            // A return address is that of the instruction after the call.
            places.entry(symbols.code(modules, address.wrapping_sub(1))).or_default().add(amount);
        }
        let mut places: Vec<(Place, Amount)> = places.into_iter().collect();
        places.sort_by(|a, b| {
            (b.1.bytes, b.1.messages, &a.0.function, &a.0.line).cmp(&(
                a.1.bytes,
                a.1.messages,
                &b.0.function,
                &b.0.line,
            ))
        });
        let site = |(place, Amount { messages, bytes }): (Place, Amount)| CallSite {
            function: place.function,
            line: place.line,
            messages,
            bytes,
        };
        let sites = places.into_iter().take(SITES).map(site).collect();
        PairSites { source, destination, messages: total.messages, bytes: total.bytes, sites }
    };
    let told: Vec<PairSites> = pairs.into_iter().take(PAIRS).map(&mut pair).collect();
    ranks.iter().any(|rank| rank.has(FLAG)).then_some(told)
}

/// The files mapped, from lines of /proc/PID/maps.
fn mapped(maps: &str) -> Vec<Module> {
    let mut files: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for line in maps.lines() {
        let Some(path) = line.find('/').map(|at| &line[at..]) else { continue };
        let Some((start, end)) = line.split(' ').next().and_then(|range| range.split_once('-')) else { continue };
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (Some(start), Some(end)) = (number(start), number(end)) else { continue };
        let range = files.entry(path).or_insert((start, end));
        *range = (range.0.min(start), range.1.max(end));
    }
    let module = |(path, (start, end)): (&str, (u64, u64))| {
        // What is linked to a fixed address has it in its tables.
        let preferred = if is_fixed(path) { start } else { 0 };
        Module { path: path.to_owned(), start, end, preferred, unloaded: false }
    };
    files.into_iter().map(module).collect()
}

fn is_fixed(path: &str) -> bool {
    let mut head = [0; 18];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.starts_with(b"\x7fELF") && head[16] == 2
}
