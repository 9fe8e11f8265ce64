//! A profile's parts of the page: what it comes to, who communicates when, where tasks go, through which data, and how
//! sure all that is.

use super::placement::Placed;
use super::{Section, html};
use crate::command_line::shell;
use crate::mapping::default_weight;
use crate::picture::label::{list, size};
use crate::picture::text::grouped;
use crate::plotting::matrix::{self, Order};
use crate::plotting::series;
use crate::show::coverage::coverage_lines;
use crate::show::hot::{call_sites, label, verdict, verdict_of};
use crate::show::summary::{self, reason_of, value_of};
use crate::show::{Dram, ShowOptions, axes};
use crate::words::{noun, tasks_of};
use cohabit_evaluate::verdict::as_far_as_seen;
use cohabit_model::metrics::advice::Advice;
use cohabit_model::metrics::table::{Known, METRICS};
use cohabit_model::profile::{CallSite, CodeSite, PairSites, Task};
use cohabit_model::{Profile, Timeline};

/// Width of pictures, in mm.
const WIDTH_MM: f64 = 120.0;
/// Rows of the tables of pairs, objects and lines.
const MOST_ROWS: usize = 20;
/// Places in the code that a row names.
const SITES: usize = 2;

/// A profile with what follows from it.
pub struct Observed {
    /// Its file.
    pub path: String,
    /// The profile.
    pub profile: Profile,
    /// Parts of its run; none where it has no series.
    pub timeline: Option<Timeline>,
    /// Where its tasks go, or why that is not known.
    pub placed: Result<Placed, String>,
    /// What comes from DRAM, where a simulation of the program is on the page.
    pub dram: Option<Dram>,
}

impl Observed {
    /// What it is of.
    pub fn title(&self) -> String {
        let meta = &self.profile.meta;
        match meta.command.is_empty() {
            true => self.path.clone(),
            false => shell(&meta.command),
        }
    }

    /// What rows and columns are.
    pub fn axes(&self) -> [&'static str; 2] {
        let (rows, columns) = axes(self.profile.meta.kind);
        [rows, columns]
    }

    /// One task and several.
    pub fn noun(&self) -> [&'static str; 2] {
        noun(self.profile.meta.kind)
    }

    fn options(&self) -> ShowOptions {
        ShowOptions { timeline: self.timeline.clone(), dram: self.dram.clone(), ..ShowOptions::detect(&self.profile) }
    }

    /// All of it; under the file's name where there are several.
    pub(super) fn sections(&self, number: usize, several: bool) -> Vec<Section> {
        let of = if several { format!(" of {}", self.path) } else { String::new() };
        let section = |name: &str, title: &str, html: String| Section {
            id: format!("{name}-{number}"),
            title: format!("{title}{of}"),
            html,
        };
        let costs = match &self.placed {
            Ok(placed) => placed.costs_html(),
            Err(why) => html::paragraph(&format!("Not known: {why}.")),
        };
        let placement = match &self.placed {
            Ok(placed) => placed.html(&self.profile),
            Err(why) => html::paragraph(&format!("Not shown: {why}.")),
        };
        vec![
            section("verdict", "What it comes to", self.verdict()),
            section("matrix", "Who communicates with whom, and when", self.matrix(number)),
            section("placement", "The machine before and after", placement),
            section("mappers", "Cost by every mapper", costs),
            section("hot", "Through which data and code", self.hot()),
            section("coverage", "How complete the figures are", self.coverage()),
        ]
    }

    fn verdict(&self) -> String {
        let (profile, options) = (&self.profile, self.options());
        let mut out = html::paragraph(&format!(
            "{}: {} messages, {}.",
            tasks_of(profile.meta.kind, profile.tasks()),
            grouped(profile.messages.total()),
            bytes(profile.bytes.total())
        ));
        out += &format!("<p class=\"verdict\">{}</p>\n", html::text(&summary::verdict(profile, &options)));
        let (advice, hopeless) =
            (summary::advice(profile, &options), self.placed.as_ref().ok().and_then(|placed| placed.hopeless(profile)));
        // What is said of the program holds on machines where it matters who is near whom.
        let of_placement = matches!(advice, Advice::Locality | Advice::Together | Advice::Congestion | Advice::Both);
        let on = if hopeless.is_some() && of_placement { ", where PUs are not alike" } else { "" };
        if let Some(reason) = hopeless {
            out +=
                &html::paragraph(&format!("On this page's machine there is nothing to gain from placement: {reason}."));
        }
        let sentence = match advice {
            Advice::Nothing => as_far_as_seen(advice.sentence(), &profile.meta.unseen_channels),
            _ => advice.sentence(),
        };
        out += &html::paragraph(&format!("Advice{on}: {sentence}."));
        let known = Known { profile, timeline: self.timeline.as_ref(), dram_bytes: options.dram_bytes() };
        let row = |metric: &cohabit_model::metrics::table::Metric| {
            let (value, says) = match (metric.value)(&known) {
                Ok(value) => match self.dram.as_ref().filter(|_| metric.key == "dram_to_memory") {
                    Some(dram) => (value_of(metric, value), format!("{}; simulated: {}", metric.says, dram.source)),
                    None => (value_of(metric, value), metric.says.to_owned()),
                },
                Err(reason) => ("not known".to_owned(), reason_of(reason, "--simulate")),
            };
            vec![format!("{} ({})", metric.name, metric.symbol), value, says, metric.equation.to_owned()]
        };
        let rows: Vec<_> = METRICS.iter().map(row).collect();
        out + &html::table("DeLoc's metrics", &["metric", "value", "what it says", "equation"], &rows)
    }

    fn matrix(&self, number: usize) -> String {
        let profile = &self.profile;
        let mut out = format!("<div class=\"explore\" data-profile=\"{number}\" hidden></div>\n<noscript>\n");
        let [rows, columns] = self.axes();
        out += &match matrix::svg(&profile.messages, "messages", &Order::default(), WIDTH_MM) {
            Ok(svg) => html::picture(&svg, &format!("messages from each {rows} (down) to each {columns} (across)")),
            Err(error) => html::paragraph(&error.cause),
        };
        if !profile.series.is_empty() {
            out += &match series::svg(profile, self.timeline.as_ref(), WIDTH_MM) {
                Ok(svg) => html::picture(&svg, "messages a second from the start of the run to its end"),
                Err(error) => html::paragraph(&error.cause),
            };
        }
        out += "</noscript>\n";
        if profile.series.is_empty() {
            out += &html::paragraph("The profile has no time series: when tasks communicate is not known.");
        }
        out + &self.strongest_pairs()
    }

    fn strongest_pairs(&self) -> String {
        let profile = &self.profile;
        let is_bytes = default_weight(profile) == cohabit_model::mapping::Weight::Bytes;
        let weight = if is_bytes { &profile.bytes } else { &profile.messages };
        let mut pairs: Vec<_> = weight.iter().filter(|pair| pair.0 != pair.1).collect();
        pairs.sort_unstable_by_key(|&(source, destination, value)| (std::cmp::Reverse(value), source, destination));
        let [rows, columns] = self.axes();
        let total = weight.total().max(1) as f64;
        let row = |&(source, destination, value): &(u32, u32, u64)| {
            let (messages, bytes_of) = (
                profile.messages.get(source as usize, destination as usize),
                profile.bytes.get(source as usize, destination as usize),
            );
            let share = format!("{:.1} %", 100.0 * value as f64 / total);
            vec![name(profile, source), name(profile, destination), grouped(messages.into()), size(bytes_of), share]
        };
        let table: Vec<_> = pairs.iter().take(MOST_ROWS).map(row).collect();
        let share = if is_bytes { "share of bytes" } else { "share of messages" };
        html::table(
            &format!("Pairs that communicate most ({} of {})", table.len(), grouped(pairs.len() as u128)),
            &[rows, columns, "messages", "bytes", share],
            &table,
        )
    }

    fn hot(&self) -> String {
        let meta = &self.profile.meta;
        let mut out = String::new();
        if let Some(data) = &meta.data {
            let objects: Vec<_> = data.by_name().into_iter().filter(|object| object.messages > 0).collect();
            let row = |object: &cohabit_model::profile::DataObject| {
                let told = if object.blocks == 0 {
                    "not followed".to_owned()
                } else {
                    verdict(object.true_reads, object.false_reads)
                };
                let share = (100.0 * object.messages as f64 / data.messages.max(1) as f64).min(100.0);
                vec![
                    object.object.clone(),
                    if object.bytes == 0 { "-".to_owned() } else { size(object.bytes) },
                    grouped(object.messages.into()),
                    format!("{share:.1} %"),
                    told,
                    sites(&object.writers),
                    sites(&object.readers),
                ]
            };
            let rows: Vec<_> = objects.iter().take(MOST_ROWS).map(row).collect();
            let caption = format!(
                "Data objects with the most messages ({} of {}); {} of {} messages were looked at",
                rows.len(),
                objects.len(),
                grouped(data.looked_at.min(data.messages).into()),
                grouped(data.messages.into())
            );
            let head = ["object", "size", "messages", "share", "sharing", "written by", "read by"];
            out += &html::table(&caption, &head, &rows);
        }
        if !meta.hot.is_empty() {
            let row = |block: &cohabit_model::profile::HotBlock| {
                vec![
                    label(block),
                    format!("{:#x}", block.block),
                    grouped(block.messages.into()),
                    verdict_of(block),
                    sites(&block.writers),
                    sites(&block.readers),
                ]
            };
            let rows: Vec<_> = meta.hot.iter().take(MOST_ROWS).map(row).collect();
            let caption = format!("Hottest lines ({} of {} that were followed)", rows.len(), meta.hot.len());
            let head = ["line of", "address", "messages", "sharing", "written by", "read by"];
            out += &html::table(&caption, &head, &rows);
        }
        let calls = call_sites(&self.profile).unwrap_or_default();
        if !calls.is_empty() {
            let row = |pair: &PairSites| {
                let call = |site: &CallSite| {
                    let line = if site.line.is_empty() { String::new() } else { format!(" at {}", site.line) };
                    format!("{}{line} ({} messages)", site.function, grouped(site.messages.into()))
                };
                let calls: Vec<_> = pair.sites.iter().take(SITES).map(call).collect();
                vec![pair.source.to_string(), pair.destination.to_string(), calls.join("; ")]
            };
            let rows: Vec<_> = calls.iter().take(MOST_ROWS).map(row).collect();
            out += &html::table("Calls of MPI of the heaviest pairs", &["sender", "receiver", "called in"], &rows);
        }
        match out.is_empty() {
            true => html::paragraph(
                "The profile does not say: make it again with 'cohabit profile --hot', and it names data and code.",
            ),
            false => out,
        }
    }

    fn coverage(&self) -> String {
        let meta = &self.profile.meta;
        let mut out: String = coverage_lines(&meta.coverage, true).lines().map(html::paragraph).collect();
        let block =
            if meta.block_bytes > 0 { format!(", in blocks of {} bytes", meta.block_bytes) } else { String::new() };
        out += &html::paragraph(&format!("Counted by the detector {}{block}.", meta.detector));
        if !meta.clock.is_empty() {
            let of = if meta.window_instructions > 0 { "Windows" } else { "Time" };
            out += &html::paragraph(&format!("{of}: {}.", meta.clock));
        }
        let unseen = &meta.unseen_channels;
        if !unseen.is_empty() {
            out += &html::paragraph(&format!("What goes through {} was not looked into.", unseen.join(", ")));
        }
        out
    }

    /// How the profile, and where it was made the mapping, came about.
    pub(super) fn made(&self) -> String {
        let meta = &self.profile.meta;
        let created = if meta.created.is_empty() { String::new() } else { format!(", {}", meta.created) };
        let mut out = html::paragraph(&format!("The profile {}{created}:", self.path));
        if !meta.arguments.is_empty() {
            return out
                + &html::command(&shell(std::iter::once("cohabit").chain(meta.arguments.iter().map(String::as_str))));
        }
        out += &match (meta.detector.as_str(), meta.command.is_empty()) {
            ("dbi" | "mpi" | "hybrid", false) => html::paragraph(&format!(
                "by 'cohabit profile', with options that were not kept, of {}.",
                shell(&meta.command)
            )),
            (other, _) if other.starts_with("import:") => html::paragraph(&format!(
                "by 'cohabit import' from {} in the format {}.",
                if meta.imported_from.is_empty() { "a file".to_owned() } else { meta.imported_from.join(", ") },
                &other["import:".len()..]
            )),
            (other, false) => html::paragraph(&format!("by {other}, of {}.", shell(&meta.command))),
            (other, true) => html::paragraph(&format!("by {other}, of a program whose command is not known.")),
        };
        out
    }
}

/// `3 worker`.
fn name(profile: &Profile, task: u32) -> String {
    let name = profile.meta.tasks.get(task as usize).map_or("", |task: &Task| task.name.as_str());
    format!("{task} {name}").trim_end().to_owned()
}

fn bytes(value: u128) -> String {
    size(u64::try_from(value).unwrap_or(u64::MAX))
}

fn sites(sites: &[CodeSite]) -> String {
    let site = |site: &CodeSite| {
        let line = if site.line.is_empty() { String::new() } else { format!(" at {}", site.line) };
        let tasks =
            if site.tasks.is_empty() { String::new() } else { format!(" (tasks {})", list(site.tasks.clone())) };
        format!("{}{line}{tasks}", site.function)
    };
    let mut words: Vec<String> = sites.iter().take(SITES).map(site).collect();
    if sites.len() > SITES {
        words.push(format!("and {} more", sites.len() - SITES));
    }
    words.join("; ")
}
