//! Where it happens: the hottest blocks, what they hold and which code touches them.

use super::ShowOptions;
use super::summary::heading;
use crate::picture::label::list;
use crate::picture::text::{clean, short};
use cohabit_model::Profile;
use cohabit_model::profile::{CodeSite, HotBlock};

/// Code sites listed for each block and direction.
const SITES: usize = 3;

/// The hottest blocks with their object, sharing, writers and readers.
pub fn hot_blocks(profile: &Profile, options: &ShowOptions) -> String {
    let hot = &profile.meta.hot;
    if hot.is_empty() {
        let how = "the profile does not say where it happens: make it again with `cohabit profile --hot`";
        return format!("{}  {how}\n", heading("hottest blocks", options.palette));
    }
    let shown = hot.len().min(options.top);
    let mut out = heading(&format!("hottest blocks ({shown} of {})", hot.len()), options.palette);
    let total = profile.messages.total();
    out.extend(hot.iter().take(shown).zip(1..).map(|(block, place)| one(block, place, total, options)));
    out
}

fn one(block: &HotBlock, place: usize, total: u128, options: &ShowOptions) -> String {
    let share = if total == 0 { 0.0 } else { 100.0 * block.messages as f64 / total as f64 };
    let object = options.palette.bold(&clean(&block.object));
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
