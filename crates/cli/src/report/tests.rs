use super::html::text;
use super::*;
use crate::command_line::shell;
use cohabit_model::profile::{Kind, Meta, SeriesRow, Task};
use cohabit_model::{Matrix, Profile, Topology};

/// What names of tasks, functions, objects and arms may be made of.
const HOSTILE: &str = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>&\"'";

fn observed(names: &str) -> Observed {
    let task =
        |id: u32| -> Task { serde_json::from_value(json!({ "id": id, "kind": "thread", "name": names })).unwrap() };
    let matrix = Matrix::from_triplets(4, [(0, 1, 900), (1, 0, 100), (2, 3, 50)]);
    let mut meta = Meta::new(Kind::Threads, "dbi", (0..4).map(task).collect());
    meta.command = vec!["./p".to_owned(), names.to_owned()];
    meta.arguments = ["profile", "--hot", "--window", "1ms", "--", "./p", names].map(String::from).to_vec();
    meta.window_ns = 1_000_000;
    meta.clock = names.to_owned();
    meta.coverage.not_seen = vec![names.to_owned()];
    let site = json!({ "function": names, "line": names, "events": 7, "tasks": [0] });
    let reader = json!({ "function": names, "line": "", "events": 7, "tasks": [1] });
    meta.hot = serde_json::from_value(json!([{
        "block": 64, "object": names, "writers": [site], "readers": [reader], "sharing": null, "true_reads": 1, "false_reads": 99, "messages": 500,
    }]))
    .unwrap();
    meta.data = serde_json::from_value(json!({
        "messages": 1050, "looked_at": 1050, "interval": 1,
        "objects": [{ "object": names, "bytes": 64, "messages": 600, "looked_at": 600, "blocks": 1, "true_reads": 1, "false_reads": 99,
            "writers": [site], "readers": [reader] }],
    }))
    .unwrap();
    let mut profile = Profile::new(meta, matrix.clone(), matrix);
    let row = |bin, source, destination, messages| SeriesRow { bin, source, destination, messages, bytes: messages };
    profile.series = vec![row(0, 0, 1, 900), row(3, 1, 0, 100), row(4, 2, 3, 50)];
    let topology = Topology::load("pack:2 core:2 pu:1").unwrap();
    let placed = Placed::new(&profile, &[], topology, None).map_err(|error| error.cause);
    Observed { path: "p.npz".to_owned(), profile, timeline: None, placed, dram: None }
}

fn page(names: &str) -> String {
    let observed = [observed(names)];
    Page { observed: &observed, measured: &Measured::default(), made_by: shell(["cohabit", "report", names]) }.html()
}

#[test]
fn hostile_names_stay_text() {
    let (plain, hostile) = (page("worker"), page(HOSTILE));
    assert!(hostile.contains(&text(HOSTILE)) && !hostile.contains(HOSTILE));
    for tag in ["<script", "</script", "<img", "<section", "<title"] {
        let of = |html: &str| html.matches(tag).count();
        assert_eq!(of(&hostile), of(&plain), "{tag}");
    }
    // The data is the names again.
    let from = hostile.find("id=\"data-0\">").unwrap() + "id=\"data-0\">".len();
    let until = from + hostile[from..].find("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(&hostile[from..until]).unwrap();
    assert_eq!(data["names"][2], HOSTILE);
    assert_eq!(data["places"][0]["object"], HOSTILE);
}

#[test]
fn nothing_is_fetched() {
    let html = page("worker");
    let style_and_script = STYLE.to_owned() + SCRIPT;
    for outside in ["http:", "https:", "//cdn", "@import", "url(", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!html.contains(outside) && !style_and_script.contains(outside), "{outside}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn every_section_has_what_it_is_of() {
    let html = page("worker");
    let section = |name: &str| {
        let from = html.find(&format!("<section id=\"{name}\"")).unwrap_or_else(|| panic!("no {name}"));
        &html[from..from + html[from..].find("</section>").unwrap()]
    };
    for (name, all) in [
        (
            "verdict-0",
            &["4 threads: 1,050 messages", "Advice: repair the false sharing", "CommLoc", "not known", "Lcomm"][..],
        ),
        ("matrix-0", &["data-profile=\"0\"", "<noscript>", "0 worker", "900", "85.7 %"]),
        ("placement-0", &["packed", "data:image/svg+xml;base64,", "Which PU each task is on"]),
        ("hot-0", &["FALSE sharing", "worker at worker (tasks 0)", "0x40", "57.1 %"]),
        ("coverage-0", &["coverage: exact, no event lost", "not seen: worker"]),
        ("made", &["cohabit profile --hot --window 1ms -- ./p worker", "cohabit report worker"]),
    ] {
        for said in all {
            assert!(section(name).contains(said), "{name}: {said:?} in {}", section(name));
        }
    }
    for mapper in cohabit_map::MAPPERS {
        assert!(
            section("mappers-0").contains(&format!("<th scope=\"row\">{}</th>", mapper.name())),
            "{}",
            mapper.name()
        );
    }
    // Every link has its place.
    for link in html.split("href=\"#").skip(1).map(|rest| &rest[..rest.find('"').unwrap()]) {
        assert!(html.contains(&format!("id=\"{link}\"")), "{link}");
    }
}

/// By a simulation that the page has; else with the option of this command that takes one.
#[test]
fn what_comes_from_dram_is_simulated_or_said_to_be_unknown() {
    let html = |dram| {
        let mut observed = Observed { dram, ..observed("worker") };
        observed.profile.accessed_bytes = vec![10_000; 4];
        Page { observed: &[observed], measured: &Measured::default(), made_by: String::new() }.html()
    };
    let known = html(Some(crate::show::Dram { bytes: 10_000, source: "purple, packed".to_owned() }));
    assert!(known.contains("25.00 %") && known.contains("; simulated: purple, packed"), "{known}");
    let unknown = html(None);
    assert!(unknown.contains("no counter was read (a simulation has it: --simulate)"), "{unknown}");
}

#[test]
fn mappers_that_would_take_long_are_said_to_be_left_out() {
    let cells = (0..90u32).flat_map(|a| (0..90).filter(move |&b| a != b).map(move |b| (a, b, u64::from(a + b))));
    let matrix = Matrix::from_triplets(90, cells);
    let profile = Profile::new(Meta::new(Kind::Ranks, "test", Vec::new()), matrix.clone(), matrix);
    let placed = Placed::new(&profile, &[], Topology::load("pack:2 core:45 pu:1").unwrap(), None).unwrap();
    let cost = |name: &str| placed.costs.iter().find(|cost| cost.mapper == name).unwrap().cost.clone();
    assert!(cost("best").unwrap_err().contains("'cohabit map --mapper best' does"));
    assert!(cost("exact").unwrap_err().contains("all placements"));
    let least = placed.costs.iter().filter_map(|cost| cost.cost.clone().ok()).min().unwrap();
    assert_eq!((placed.both()[1], placed.is_given), (least, false));
    assert!(placed.costs_html().contains("too many pairs"));
}
