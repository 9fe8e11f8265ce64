//! What `show` says of known patterns, and that nothing in a profile can break it.

use super::*;
use cohabit_model::Task;
use cohabit_model::profile::{CodeSite, Coverage, HotBlock, Meta, PhaseRow, SentBy, SizeRow};

fn profile(tasks: u32, kind: Kind, value: impl Fn(u32, u32) -> u64) -> Profile {
    let task = |id| Task {
        id,
        kind: "thread".into(),
        name: if id == 0 { "main".into() } else { format!("worker {id}") },
        host: String::new(),
        process: 0,
        pid: 1,
        tid: 1 + id,
        parent: None,
        rank: None,
        spawn_index: id,
        unknown: Default::default(),
    };
    let value = &value;
    let entries = (0..tasks).flat_map(|a| (0..tasks).map(move |b| (a, b, value(a, b))));
    let matrix = Matrix::from_triplets(tasks as usize, entries);
    let mut meta = Meta::new(kind, "dbi", (0..tasks).map(task).collect());
    meta.command = vec!["./prog".into()];
    Profile::new(meta, matrix.clone(), matrix)
}

fn ring(tasks: u32) -> Profile {
    profile(tasks, Kind::Threads, |a, b| if (a + 1) % tasks == b { 1000 } else { 0 })
}

fn options(palette: Palette) -> ShowOptions {
    ShowOptions { weight: Weight::Messages, hot: true, top: 3, palette, width: 80, height: 30 }
}

fn text(profile: &Profile) -> String {
    show(profile, &options(Palette::Ascii))
}

#[test]
fn patterns_have_their_verdicts() {
    let cases = [
        (ring(8), "each task talks mostly to its 2 neighbours (100 % of all communication): placement can help"),
        (profile(8, Kind::Threads, |a, b| u64::from(a != b)), "all pairs communicate alike: no placement can help"),
        (
            profile(8, Kind::Threads, |a, b| u64::from(a == 0 && b > 0)),
            "task 0 takes part in 100 % of all communication",
        ),
        (profile(8, Kind::Threads, |_, _| 0), "no two tasks communicate: no placement can help"),
        (profile(0, Kind::Threads, |_, _| 0), "no two tasks communicate: no placement can help"),
    ];
    for (profile, verdict) in cases {
        let text = text(&profile);
        assert!(text.contains(verdict), "{text}");
        assert!(document(&profile, &options(Palette::Ascii))["verdict"].as_str().unwrap().contains(verdict));
    }
}

#[test]
fn axes_are_labelled_by_what_tasks_do() {
    let threads = text(&ring(4));
    assert!(
        threads.contains("writer") && threads.contains("reader") && threads.contains("4 threads of ./prog"),
        "{threads}"
    );
    let ranks = text(&profile(4, Kind::Ranks, |a, b| u64::from(a < b)));
    assert!(
        ranks.contains("sender") && ranks.contains("receiver -> ") || ranks.contains("sender -> receiver"),
        "{ranks}"
    );
}

#[test]
fn coverage_is_always_said() {
    let coverage = |exact, sample_rate, events_lost, not_seen: &[&str]| {
        let not_seen = not_seen.iter().map(ToString::to_string).collect();
        coverage_lines(&Coverage { exact, sample_rate, events_lost, not_seen, unknown: Default::default() })
    };
    assert_eq!(coverage(true, 1.0, 0, &[]), "coverage: exact, no event lost\n");
    assert_eq!(coverage(false, 0.001, 1234, &[]), "coverage: sampled, 0.10 % looked at, 1,234 events lost\n");
    assert_eq!(coverage(true, 1.0, 1, &["io_uring"]), "coverage: exact, 1 event lost\nnot seen: io_uring\n");
    assert_eq!(coverage(false, 1.0, 0, &[]), "coverage: not exact\n");
    assert_eq!(coverage(false, 1.0, 2, &[]), "coverage: not exact, 2 events lost\n");
    assert_eq!(coverage(false, 0.0, 0, &[]), "coverage: sampled, how much of it is not known\n");
    assert!(text(&ring(4)).contains("coverage: exact, no event lost\n"));
}

#[test]
fn hot_blocks_are_listed() {
    let site = |function: &str, line: &str| CodeSite {
        function: function.into(),
        line: line.into(),
        events: 5000,
        tasks: vec![1, 2, 3],
    };
    let mut profile = ring(4);
    assert!(text(&profile).contains("does not say where it happens"));
    profile.meta.hot = vec![HotBlock {
        block: 0x40_1000,
        process: 0,
        object: "counters in prog".into(),
        offset: 64,
        object_bytes: 1 << 20,
        messages: 1000,
        writers: vec![site("work", "prog.c:12")],
        readers: vec![site("sum", ""); 5],
        sharing: Some(false),
        unknown: Default::default(),
    }];
    let text = text(&profile);
    for expected in [
        "data (1 of 1 objects, in blocks with 25.0 % of all messages)",
        " 25.0 %  counters in prog\n",
        "1.00k messages in 1 block, 100 % of them by FALSE sharing",
        "1. counters in prog, +0x40 of 1 MiB",
        "0x401000, 1.00k messages (25.0 %), FALSE sharing",
        "work at prog.c:12, 5.00k times, tasks 1-3",
        "2 places more",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    assert_eq!(document(&profile, &options(Palette::Ascii))["hot"][0]["object"], "counters in prog");
    assert_eq!(document(&profile, &options(Palette::Ascii))["data"][0]["false_sharing"], 1000);
}

#[test]
fn phases_are_counted() {
    let mut profile = ring(4);
    assert!(!text(&profile).contains("phases"));
    let size = |source| SizeRow { source, destination: (source + 1) % 4, class: 9, messages: 1, bytes: 1000 };
    profile.phases = (0..4)
        .map(|source| PhaseRow { phase: source / 3, size: size(source), order: 0, by: SentBy::Program })
        .collect();
    assert!(text(&profile).contains("2, the heaviest with 75 % of the bytes\n"), "{}", text(&profile));
    let phases = document(&profile, &options(Palette::Ascii))["phases"].clone();
    assert_eq!(phases, serde_json::json!([{"messages": 3, "bytes": 3000}, {"messages": 1, "bytes": 1000}]));
}

#[test]
fn names_cannot_steer_the_terminal() {
    let mut profile = ring(4);
    profile.meta.tasks[1].name = "\x1b]0;owned\x07".into();
    profile.meta.command = vec!["a\nb\x1b[2J".into()];
    profile.meta.coverage.not_seen = vec!["x\x1b[1m".into()];
    assert!(!text(&profile).contains('\x1b'));
}

#[test]
fn extremes_do_not_break_it() {
    let mut profile = profile(3, Kind::Threads, |a, b| if a == b { 0 } else { u64::MAX - u64::from(a) });
    profile.accessed_bytes = vec![u64::MAX; 3];
    for palette in [Palette::Ascii, Palette::Colours256, Palette::TrueColour] {
        for (width, height) in [(0, 0), (1, 1), (20, 5), (500, 500)] {
            assert!(!show(&profile, &ShowOptions { width, height, ..options(palette) }).is_empty());
        }
    }
}
