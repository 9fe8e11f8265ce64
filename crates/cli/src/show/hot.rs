//! Where it happens: the data objects that most is communicated through with the code that touches them, some of their
//! blocks in detail, and, of MPI ranks, the call sites of the heaviest pairs.

use super::ShowOptions;
use super::summary::heading;
use crate::picture::label::{list, size};
use crate::picture::text::{clean, grouped, short};
use cohabit_model::Profile;
use cohabit_model::data::{READS_TO_TELL, confidence, sharing};
use cohabit_model::profile::{CallSite, CodeSite, Data, DataObject, HotBlock, Kind, PairSites};

/// Code sites listed for each object, block and direction.
const SITES: usize = 3;
/// A share is said to be uncertain from so many per cent on.
const UNCERTAIN: f64 = 0.05;

/// What the profile knows of where communication happens; how to find it out where it knows nothing.
pub fn hot(profile: &Profile, options: &ShowOptions) -> String {
    let meta = &profile.meta;
    let sites = call_sites(profile);
    let mut out = String::new();
    if let Some(data) = &meta.data {
        out += &objects(data, options);
    }
    if !meta.hot.is_empty() {
        out += &blocks(profile, options);
    }
    if let Some(sites) = &sites {
        out += &pairs(sites, options);
    }
    if out.is_empty() {
        let how = "the profile does not say where it happens: make it again with `cohabit profile --hot`";
        out = format!("{}  {how}\n", heading("where it happens", options.palette));
    }
    out
}

/// The objects that most is communicated through.
fn objects(data: &Data, options: &ShowOptions) -> String {
    let objects: Vec<DataObject> = data.by_name().into_iter().filter(|object| object.messages > 0).collect();
    if objects.is_empty() {
        let what = if data.messages == 0 {
            "nothing was communicated in memory".to_owned()
        } else {
            format!("no object is known for the {} messages in memory", short(data.messages.into()))
        };
        return format!("{}  {what}\n", heading("data", options.palette));
    }
    let shown = objects.len().min(options.top);
    let title = format!(
        "data ({shown} of {} objects; {} of {} messages looked at)",
        objects.len(),
        short(data.looked_at.min(data.messages).into()),
        short(data.messages.into())
    );
    let rows = objects.iter().take(shown).map(|object| one_object(data, object));
    rows.fold(heading(&title, options.palette), |out, row| out + &row)
}

fn one_object(data: &Data, object: &DataObject) -> String {
    let share = percent(object.messages.into(), data.messages.into()).min(100.0);
    let (low, high) = data.share(object);
    let half = 50.0 * (high - low);
    let exactly = if half < UNCERTAIN { String::new() } else { format!(" (± {half:.1})") };
    let of = if object.bytes == 0 { String::new() } else { format!(", {}", size(object.bytes)) };
    let mut out = format!("  {share:5.1} %{exactly}  {}{of}\n", clean(&object.object));
    let messages = short(object.messages.into());
    let plural = if object.blocks == 1 { "" } else { "s" };
    let followed = match object.blocks {
        0 => String::new(),
        blocks => format!(
            "; in {} block{plural} that {} followed: ",
            grouped(blocks.into()),
            if blocks == 1 { "was" } else { "were" }
        ),
    };
    let told = if object.blocks == 0 { String::new() } else { verdict(object.true_reads, object.false_reads) };
    out += &format!("           {messages} messages{followed}{told}\n");
    out += &sites("           ", "written by", &object.writers);
    out + &sites("           ", "read by", &object.readers)
}

fn percent(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// True or false sharing, by how many reads, and how sure that is.
pub fn verdict(true_reads: u64, false_reads: u64) -> String {
    let reads = true_reads.saturating_add(false_reads);
    let of = |part: u64| {
        // Outwards, so that what is not certain does not look so.
        let (low, high) = confidence(part, reads);
        let ends = [(1000.0 * low).floor() / 10.0, (1000.0 * high).ceil() / 10.0];
        let [part, reads] = [part, reads].map(|count| short(count.into()));
        format!("{part} of {reads} reads looked at ({} to {} % with 95 % confidence)", ends[0], ends[1])
    };
    match sharing(true_reads, false_reads) {
        Some(true) => format!("true sharing: {} needed what others had written", of(true_reads)),
        Some(false) => {
            format!("FALSE sharing: {} met only what nobody else had written; pad or separate it", of(false_reads))
        }
        None if reads < READS_TO_TELL => {
            format!("{} reads looked at, too few to tell true from false sharing", grouped(reads.into()))
        }
        None => format!("partly FALSE sharing: {} met only what nobody else had written", of(false_reads)),
    }
}

fn blocks(profile: &Profile, options: &ShowOptions) -> String {
    let hot = &profile.meta.hot;
    let shown = hot.len().min(options.top);
    let total = profile.meta.data.as_ref().map_or(profile.messages.total(), |data| data.messages.into());
    let title = format!("hottest blocks ({shown} of {} that were followed)", hot.len());
    let rows = hot.iter().take(shown).zip(1..).map(|(block, place)| one_block(block, place, total, options));
    rows.fold(heading(&title, options.palette), |out, row| out + &row)
}

/// The object, and where in it the block lies.
pub fn label(block: &HotBlock) -> String {
    let sign = if block.offset < 0 { '-' } else { '+' };
    let offset = if block.offset == 0 { String::new() } else { format!("{sign}{:#x}", block.offset.unsigned_abs()) };
    let of = if block.object_bytes == 0 { String::new() } else { format!(" of {}", size(block.object_bytes)) };
    let place =
        if offset.is_empty() && of.is_empty() { String::new() } else { format!(", {}", (offset + &of).trim_start()) };
    clean(&block.object) + &place
}

fn one_block(block: &HotBlock, place: usize, total: u128, options: &ShowOptions) -> String {
    let share = percent(block.messages.into(), total).min(100.0);
    let object = options.palette.bold(&label(block));
    let messages = short(block.messages.into());
    let mut out = format!("{place:>3}. {object}\n     {:#x}, {messages} messages ({share:.1} %)\n", block.block);
    if !block.neighbours.is_empty() {
        let names: Vec<String> = block.neighbours.iter().take(SITES).map(|name| clean(name)).collect();
        let more = block.neighbours.len().saturating_sub(SITES);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        out += &format!("     beside it  {}{more}\n", names.join(", "));
    }
    out += &format!("     {}\n", verdict_of(block));
    out += &sites("     ", "written by", &block.writers);
    out + &sites("     ", "read by", &block.readers)
}

/// Profiles of older versions have the verdict without the reads.
pub fn verdict_of(block: &HotBlock) -> String {
    match (block.true_reads.saturating_add(block.false_reads), block.sharing) {
        (0, Some(true)) => "true sharing: readers read what was written".to_owned(),
        (0, Some(false)) => "FALSE sharing: readers read only its neighbours; pad or separate them".to_owned(),
        _ => verdict(block.true_reads, block.false_reads),
    }
}

fn sites(indent: &str, role: &str, sites: &[CodeSite]) -> String {
    let line = |site: &CodeSite| {
        let line = if site.line.is_empty() { String::new() } else { format!(" at {}", clean(&site.line)) };
        let tasks = if site.tasks.is_empty() { String::new() } else { format!(", tasks {}", list(site.tasks.clone())) };
        format!("{indent}{role:<10} {}{line}, {} times{tasks}\n", clean(&site.function), short(site.events.into()))
    };
    let mut out: String = sites.iter().take(SITES).map(line).collect();
    if sites.len() > SITES {
        let more = sites.len() - SITES;
        out += &format!("{indent}{:<10} and at {more} place{} more\n", "", if more == 1 { "" } else { "s" });
    }
    out
}

/// None where calls of MPI were not followed.
pub fn call_sites(profile: &Profile) -> Option<&[PairSites]> {
    let ranks = matches!(profile.meta.kind, Kind::Ranks | Kind::Hybrid);
    profile.meta.sites.as_deref().filter(|_| ranks)
}

fn pairs(pairs: &[PairSites], options: &ShowOptions) -> String {
    if pairs.is_empty() {
        return format!("{}  no message was sent\n", heading("call sites of MPI", options.palette));
    }
    let shown = pairs.len().min(options.top);
    let plural = if pairs.len() == 1 { "pair" } else { "pairs" };
    let title = format!("call sites of MPI ({shown} of the {} heaviest {plural}, sender -> receiver)", pairs.len());
    pairs.iter().take(shown).fold(heading(&title, options.palette), |out, pair| out + &one_pair(pair))
}

fn one_pair(pair: &PairSites) -> String {
    let amount = |messages: u64, bytes: u64| {
        let plural = if messages == 1 { "" } else { "s" };
        format!("{} message{plural}, {}", short(messages.into()), size(bytes))
    };
    let head = format!("  {} -> {}  {}\n", pair.source, pair.destination, amount(pair.messages, pair.bytes));
    let line = |site: &CallSite| {
        let line = if site.line.is_empty() { String::new() } else { format!(" at {}", clean(&site.line)) };
        format!("     called in  {}{line}, {}\n", clean(&site.function), amount(site.messages, site.bytes))
    };
    pair.sites.iter().map(line).fold(head, |out, line| out + &line)
}
