//! Where it happens: the data objects of the hottest blocks, and block by block what they hold and which code touches them.

use super::ShowOptions;
use super::summary::heading;
use crate::picture::label::{list, size};
use crate::picture::text::{clean, grouped, short};
use cohabit_model::Profile;
use cohabit_model::profile::{CodeSite, DataObject, HotBlock, data_objects};

/// Code sites listed for each block and direction.
const SITES: usize = 3;

/// The hottest blocks with their object, sharing, writers and readers.
pub fn hot_blocks(profile: &Profile, options: &ShowOptions) -> String {
    let hot = &profile.meta.hot;
    if hot.is_empty() {
        let how = "the profile does not say where it happens: make it again with `cohabit profile --hot`";
        return format!("{}  {how}\n", heading("hottest blocks", options.palette));
    }
    let mut out = objects(profile, options);
    let shown = hot.len().min(options.top);
    out += &heading(&format!("hottest blocks ({shown} of {})", hot.len()), options.palette);
    let total = profile.messages.total();
    out.extend(hot.iter().take(shown).zip(1..).map(|(block, place)| one(block, place, total, options)));
    out
}

/// The objects that most is communicated through, and what share of all messages the hot blocks have together.
fn objects(profile: &Profile, options: &ShowOptions) -> String {
    let objects = data_objects(&profile.meta.hot);
    let total = profile.messages.total();
    let seen = objects.iter().map(|object| u128::from(object.messages)).sum();
    let shown = objects.len().min(options.top);
    let title = format!(
        "data ({shown} of {} objects, in blocks with {:.1} % of all messages)",
        objects.len(),
        percent(seen, total)
    );
    let row = |object: &DataObject| {
        let falsely = match percent(object.false_sharing.into(), object.messages.into()) {
            share if share >= 0.05 => format!(", {share:.0} % of them by FALSE sharing"),
            _ => String::new(),
        };
        let (messages, blocks) = (short(object.messages.into()), grouped(object.blocks.into()));
        let plural = if object.blocks == 1 { "" } else { "s" };
        let share = percent(object.messages.into(), total);
        format!(
            "  {share:5.1} %  {}\n           {messages} messages in {blocks} block{plural}{falsely}\n",
            clean(object.object)
        )
    };
    objects.iter().take(shown).fold(heading(&title, options.palette), |out, object| out + &row(object))
}

fn percent(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// The object, and where in it the block lies.
fn label(block: &HotBlock) -> String {
    let sign = if block.offset < 0 { '-' } else { '+' };
    let offset = if block.offset == 0 { String::new() } else { format!("{sign}{:#x}", block.offset.unsigned_abs()) };
    let of = if block.object_bytes == 0 { String::new() } else { format!(" of {}", size(block.object_bytes)) };
    let place =
        if offset.is_empty() && of.is_empty() { String::new() } else { format!(", {}", (offset + &of).trim_start()) };
    clean(&block.object) + &place
}

fn one(block: &HotBlock, place: usize, total: u128, options: &ShowOptions) -> String {
    let share = percent(block.messages.into(), total);
    let object = options.palette.bold(&label(block));
    let messages = short(block.messages.into());
    let mut out = format!(
        "{place:>3}. {object}\n     {:#x}, {messages} messages ({share:.1} %), {}\n",
        block.block,
        sharing(block)
    );
    out += &sites("written by", &block.writers);
    out + &sites("read by", &block.readers)
}

fn sharing(block: &HotBlock) -> &'static str {
    match block.sharing {
        Some(true) => "true sharing: readers read what was written",
        Some(false) => "FALSE sharing: readers read only its neighbours; pad or separate them",
        None => "too few reads seen to tell true from false sharing",
    }
}

fn sites(role: &str, sites: &[CodeSite]) -> String {
    let line = |site: &CodeSite| {
        let line = if site.line.is_empty() { String::new() } else { format!(" at {}", clean(&site.line)) };
        let tasks = if site.tasks.is_empty() { String::new() } else { format!(", tasks {}", list(site.tasks.clone())) };
        format!("     {role:<10} {}{line}, {} times{tasks}\n", clean(&site.function), short(site.events.into()))
    };
    let mut out: String = sites.iter().take(SITES).map(line).collect();
    if sites.len() > SITES {
        out += &format!("     {:<10} and at {} places more\n", "", sites.len() - SITES);
    }
    out
}
