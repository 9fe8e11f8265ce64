//! What the page's script is given of a profile.

use super::html;
use super::observed::Observed;
use super::payload::{self, columns, each};
use crate::picture::palette::{CATEGORIES, NO_CATEGORY};
use crate::picture::text::clean;
use crate::show::hot::call_sites;
use crate::show::time;
use cohabit_model::profile::{CallSite, CodeSite};
use cohabit_model::series::Window;
use serde_json::{Value, json};

/// Places in the code that are named for pairs.
const MOST_PLACES: usize = 400;

/// The elements that hold it, none of them shown.
pub fn elements(number: usize, observed: &Observed) -> String {
    let profile = &observed.profile;
    let each = each(profile.tasks());
    let columns = columns(profile, observed.timeline.as_ref(), each);
    let mut out =
        element(&format!("data-{number}"), "application/json", &html::json(&summary(observed, each, &columns)));
    for (name, matrix) in [("messages", &profile.messages), ("bytes", &profile.bytes)] {
        if matrix.entries() > 0 {
            out += &element(&format!("{name}-{number}"), "text/plain", &payload::matrix(matrix, each));
        }
    }
    if let Some(columns) = columns {
        out += &element(&format!("time-{number}"), "text/plain", &columns.cells);
    }
    out
}

fn element(id: &str, kind: &str, content: &str) -> String {
    format!("<script type=\"{kind}\" id=\"{id}\">{content}</script>\n")
}

fn summary(observed: &Observed, each: usize, columns: &Option<payload::Columns>) -> Value {
    let profile = &observed.profile;
    let [rows, readers] = observed.axes();
    let [one, several] = observed.noun();
    let names: Vec<String> = profile.meta.tasks.iter().map(|task| clean(&task.name)).collect();
    let placed = observed.placed.as_ref().ok().map(|placed| {
        let pus = |placement: &[usize]| placement.iter().map(|&pu| placed.label(pu)).collect::<Vec<_>>();
        json!({ "before": pus(&placed.before), "after": pus(&placed.after), "name": clean(&placed.name), "order": placed.order(each) })
    });
    let parts = observed.timeline.as_ref().map(|timeline| {
        let name = |part: usize| format!("{} {}", time::what(timeline.by), time::name(timeline, part));
        (0..timeline.periods.len()).map(name).collect::<Vec<_>>()
    });
    let series = columns.as_ref().map(|columns| {
        let (each, unit) = match profile.meta.window() {
            Window::Time(_) => (columns.each * 1e-9, "s"),
            Window::Instructions(_) => (columns.each, "instructions"),
        };
        json!({ "columns": columns.count, "each": each, "unit": unit, "totals": columns.totals, "part_of": columns.parts, "parts": parts })
    });
    json!({
        "tasks": profile.tasks(), "each": each, "names": names, "rows": rows, "columns": readers, "one": one, "several": several,
        "placed": placed, "series": series, "places": places(observed),
        "categories": CATEGORIES.map(rgb), "no_category": rgb(NO_CATEGORY),
    })
}

fn rgb([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Code through which tasks communicate: of memory who writes and who reads an object or block there, of ranks the
/// calls of a pair.
fn places(observed: &Observed) -> Vec<Value> {
    let meta = &observed.profile.meta;
    let tasks = |sites: &[CodeSite]| {
        let mut tasks: Vec<u32> = sites.iter().flat_map(|site| site.tasks.iter().copied()).collect();
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    };
    let code = |sites: &[CodeSite]| sites.first().map(|site| place(&site.function, &site.line)).unwrap_or_default();
    let of_memory = |object: &str, writers: &[CodeSite], readers: &[CodeSite]| {
        json!({
            "object": clean(object), "writers": tasks(writers), "readers": tasks(readers),
            "written": code(writers), "read": code(readers),
        })
    };
    let blocks = meta.hot.iter().map(|block| of_memory(&block.object, &block.writers, &block.readers));
    let objects = meta.data.iter().flat_map(|data| data.by_name());
    let objects = objects.map(|object| of_memory(&object.object, &object.writers, &object.readers));
    let pairs = call_sites(&observed.profile).unwrap_or_default().iter().flat_map(|pair| {
        let call = move |site: &CallSite| {
            json!({ "object": "", "writers": [pair.source], "readers": [pair.destination], "written": place(&site.function, &site.line), "read": "" })
        };
        pair.sites.iter().take(3).map(call).collect::<Vec<_>>()
    });
    let has_tasks = |place: &Value| {
        ["writers", "readers"].iter().all(|role| place[role].as_array().is_some_and(|tasks| !tasks.is_empty()))
    };
    blocks.chain(objects).chain(pairs).filter(has_tasks).take(MOST_PLACES).collect()
}

/// `function at file:line`.
fn place(function: &str, line: &str) -> String {
    if line.is_empty() { clean(function) } else { format!("{} at {}", clean(function), clean(line)) }
}
