//! What `show` says of known patterns, and that nothing in a profile can break it.

use super::*;
use cohabit_model::Task;
use cohabit_model::data::sharing;
use cohabit_model::profile::{
    CallSite, CodeSite, Coverage, Data, DataObject, HotBlock, Meta, PairSites, PhaseRow, SentBy, SeriesRow, SizeRow,
    TaskKind,
};

fn profile(tasks: u32, kind: Kind, value: impl Fn(u32, u32) -> u64) -> Profile {
    let task = |id| Task {
        pid: 1,
        tid: 1 + id,
        spawn_index: id,
        ..Task::new(id, TaskKind::Thread, if id == 0 { "main".into() } else { format!("worker {id}") })
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
    ShowOptions {
        weight: Weight::Messages,
        hot: true,
        top: 3,
        verbose: false,
        timeline: None,
        dram: None,
        palette,
        width: 80,
        height: 30,
    }
}

fn text(profile: &Profile) -> String {
    show(profile, &options(Palette::Ascii))
}

#[test]
fn patterns_have_their_verdicts() {
    let cases = [
        (ring(8), "the threads communicate mostly with neighbours in number (100 % of it): placement can help"),
        (
            profile(8, Kind::Threads, |a, b| u64::from(a != b)),
            "all pairs communicate alike: which thread is where does not matter, which PUs stay idle may",
        ),
        (
            profile(8, Kind::Threads, |a, b| u64::from(a == 0 && b > 0)),
            "thread 0 takes part in 100 % of all communication",
        ),
        (profile(8, Kind::Threads, |_, _| 0), "no two threads communicate: there is nothing to place them by"),
        (profile(1, Kind::Processes, |_, _| 0), "there is only one process: no placement can help"),
        (profile(0, Kind::Threads, |_, _| 0), "no two threads communicate: there is nothing to place them by"),
    ];
    for (profile, verdict) in cases {
        let text = text(&profile);
        assert!(text.contains(verdict), "{text}");
        assert!(document(&profile, &options(Palette::Ascii))["verdict"].as_str().unwrap().contains(verdict));
    }
}

#[test]
fn of_what_hardly_communicates_no_gain_is_promised() {
    let mut profile = ring(8);
    profile.accessed_bytes = vec![1 << 40; 8];
    let said =
        "next to nothing of what is accessed is communicated: no placement can help, whichever threads communicate";
    assert!(text(&profile).contains(said) && !text(&profile).contains("placement can help\n"), "{}", text(&profile));
    let told = document(&profile, &options(Palette::Ascii));
    assert_eq!((&told["can_gain"], &told["advice"]["kind"]), (&false.into(), &"nothing".into()));
    // What they read again and again while they waited does not make it less.
    profile.polled_bytes = vec![(1 << 40) - 10_000; 8];
    assert!(text(&profile).contains("(100 % of it): placement can help\n"), "{}", text(&profile));
    // Of what goes through sockets nothing is known.
    (profile.polled_bytes, profile.meta.unseen_channels) = (Vec::new(), vec!["sockets".to_owned()]);
    assert!(!text(&profile).contains("no placement can help, whichever"), "{}", text(&profile));
}

#[test]
fn axes_are_labelled_by_what_tasks_do() {
    let threads = text(&ring(4));
    assert!(
        threads.contains("writer") && threads.contains("reader") && threads.contains("4 threads of ./prog"),
        "{threads}"
    );
}

#[test]
fn what_a_task_gives_itself_is_no_part_of_all() {
    let pairs = |profile: &Profile| {
        let text = text(profile);
        text[text.find("strongest pairs").unwrap()..text.find("totals").unwrap()].to_owned()
    };
    let without = ring(4);
    let mut with = without.clone();
    with.messages = Matrix::from_triplets(4, without.messages.iter().chain([(2, 2, 1 << 40)]));
    with.bytes = Matrix::from_triplets(4, without.bytes.iter().chain([(2, 2, 1 << 40)]));
    with.transfers = None;
    assert_eq!(pairs(&with), pairs(&Profile { transfers: None, ..without }));
}

#[test]
fn threads_of_several_processes_are_said_to_be() {
    let mut several = ring(4);
    several.meta.tasks[3].process = 1;
    assert!(text(&several).starts_with("4 threads in 2 processes of ./prog\n"), "{}", text(&several));
}

#[test]
fn ranks_are_called_ranks() {
    let mut ranks = profile(5, Kind::Ranks, |a, b| u64::from(a + 1 == b) * 1000);
    for task in &mut ranks.meta.tasks {
        task.name = format!("rank {}", task.id);
    }
    (ranks.mpi_ns, ranks.run_ns) = (vec![100, 0, 900, 300, 500], vec![1000, 0, 1000, 1000, 1000]);
    let size = |source, class, bytes| SizeRow { source, destination: source + 1, class, messages: 10, bytes };
    ranks.sizes = vec![size(0, 0, 10), size(1, 10, 12_000), size(2, 10, 12_000)];
    let text = text(&ranks);
    for expected in [
        "5 MPI ranks of ./prog\n",
        "receiver\n sender ",
        "strongest pairs (sender -> receiver, messages, share of all)\n  rank 0 -> rank 1 ",
        "the ranks communicate mostly with neighbours in number",
        "partners of a rank ",
        "imbalance of the ranks ",
        "time in MPI (waiting for others included)\n  10 to 90 % of a rank's time, median 30 %\n",
        "  rank 2   90 %  900 ns of 1.00 us\n  rank 4   50 %  500 ns of 1.00 us\n  rank 3   30 %",
        "  0 or 1 B                10       10 B    0.0 %\n",
        "  1 KiB to 2 KiB          20   23.4 KiB  100.0 %\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    // What is said of metrics is the same of all kinds.
    let own: String = text.lines().filter(|line| !line.contains("(Lcomm)") && !line.contains("(CommR)")).collect();
    assert!(!own.contains("task") && !own.contains("thread"), "{text}");
    let ids = document(&ranks, &options(Palette::Ascii));
    assert_eq!(ids["message_sizes"][1], serde_json::json!({"class": 10, "messages": 20, "bytes": 24_000}));
    assert_eq!(ids["task_mpi_ns"][2], 900);
    let threads = text_of_ring();
    assert!(!threads.contains("time in MPI") && !threads.contains("message sizes"), "{threads}");
}

fn text_of_ring() -> String {
    text(&ring(4))
}

#[test]
fn the_picture_comes_first_and_coverage_last() {
    let mut profile = ring(4);
    profile.meta.coverage.not_seen = vec!["the first".into(), "the second".into()];
    let parts = |text: &str| {
        let heads =
            ["4 threads", " writer", "the threads communicate", "strongest pairs", "totals", "structure", "coverage: "];
        heads.map(|head| text.find(&format!("\n{head}")).map_or(0, |at| at + 1))
    };
    let brief = text(&profile);
    assert!(parts(&brief).is_sorted() && parts(&brief)[1] > 0, "{:?} in {brief}", parts(&brief));
    assert!(brief.ends_with("\ncoverage: exact, no event lost; -v lists 2 things that were not seen\n"), "{brief}");
    assert!(!brief.contains("by dbi") && !brief.contains("the second"), "{brief}");
    let all = show(&profile, &ShowOptions { verbose: true, ..options(Palette::Ascii) });
    assert!(all.contains("\nby dbi\n"), "{all}");
    let end = "coverage: exact, no event lost\n  not seen: the first\n  not seen: the second\n";
    assert!(all.ends_with(end) && !all.contains("-v"), "{all}");
}

#[test]
fn of_silence_no_figures_are_given() {
    let silent = text(&profile(4, Kind::Threads, |_, _| 0));
    assert!(!silent.contains("structure") && !silent.contains("locality"), "{silent}");
}

#[test]
fn figures_say_what_they_mean() {
    let mut profile = ring(4);
    (profile.accessed_bytes, profile.meta.block_bytes) = (vec![10_000; 4], 64);
    profile.invalidations = Some(profile.messages.clone());
    let text = text(&profile);
    for expected in [
        "  messages                    4,000     first reads of what another wrote, in 64-byte blocks\n",
        "  invalidations               4,000     copies that a write made stale\n",
        "  accessed by a thread        9.8 KiB\n",
        "  pairs that communicate      4 of 6\n",
        "  partners of a thread        2.0       others it communicates with; few messages count less\n",
        "  with neighbours in number   100 %     of all messages are between k and k + 1, or first and last\n",
        "  locality (CommLoc)          0.333     0: all pairs alike; the more, the more a few pairs stand out\n",
        "  imbalance of the threads    0 %       how far the busiest is above the mean\n",
        "  share of memory (CommR)     10.00 %   of all bytes accessed are communicated\n",
        "  concurrency (CommC)         unknown   the profile has no time series\n",
        "  DRAM share (DramR)          unknown   no counter was read (a simulation has it: --simulated)\n",
        "  communication load (Lcomm)  3.9 KiB   bytes that tasks give one another\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    // 64,000 bytes in lines, of 40,000 that are accessed: what is read again from memory counts again.
    let dram = Some(Dram { bytes: 64_000, source: "purple, packed".to_owned() });
    let text = show(&profile, &ShowOptions { dram, ..options(Palette::Ascii) });
    let row =
        "  DRAM share (DramR)          160.00 %  of all bytes accessed come from DRAM; simulated: purple, packed\n";
    assert!(text.contains(row), "{text}");
}

#[test]
fn coverage_is_always_said() {
    let coverage = |exact, sample_rate, events_lost, not_seen: &[&str]| {
        let not_seen = not_seen.iter().map(ToString::to_string).collect();
        coverage_lines(&Coverage { exact, sample_rate, events_lost, not_seen, unknown: Default::default() }, false)
    };
    assert_eq!(coverage(true, 1.0, 0, &[]), "coverage: exact, no event lost\n");
    assert_eq!(coverage(false, 0.001, 1234, &[]), "coverage: sampled, 0.10 % looked at, 1,234 events lost\n");
    assert_eq!(coverage(true, 1.0, 1, &["io_uring"]), "coverage: exact, 1 event lost; -v says what was not seen\n");
    assert_eq!(coverage(false, 1.0, 0, &[]), "coverage: not exact\n");
    assert_eq!(coverage(false, 1.0, 2, &[]), "coverage: not exact, 2 events lost\n");
    assert_eq!(coverage(false, 0.0, 0, &[]), "coverage: sampled, how much of it is not known\n");
    assert!(text(&ring(4)).ends_with("coverage: exact, no event lost\n"));
}

fn site(function: &str, line: &str) -> CodeSite {
    CodeSite { function: function.into(), line: line.into(), events: 5000, tasks: vec![1, 2, 3] }
}

fn hot_block(true_reads: u64, false_reads: u64) -> HotBlock {
    HotBlock {
        block: 0x40_1000,
        process: 0,
        object: "counters in prog".into(),
        offset: 64,
        object_bytes: 1 << 20,
        neighbours: vec!["flag in prog".into()],
        messages: 1000,
        writers: vec![site("work", "prog.c:12")],
        readers: (0..5).map(|at| site(&format!("sum{at}"), "")).collect(),
        sharing: sharing(true_reads, false_reads),
        true_reads,
        false_reads,
        unknown: Default::default(),
    }
}

fn data_object(object: &str, messages: u64) -> DataObject {
    DataObject { object: object.into(), messages, looked_at: messages / 10, bytes: 1 << 20, ..DataObject::default() }
}

#[test]
fn data_and_blocks_are_listed() {
    let mut profile = ring(4);
    assert!(text(&profile).contains("does not say where it happens: make it again with `cohabit profile --hot`"));
    profile.meta.hot = vec![hot_block(0, 500)];
    let objects = vec![data_object("counters in prog", 3000), data_object("rest", 1000)];
    profile.meta.data = Some(Data::new(4000, 400, 10, objects, &profile.meta.hot));
    let text = text(&profile);
    for expected in [
        "data (2 of 2 objects; 400 of 4.00k messages looked at)",
        "   75.0 % (± 4.0)  counters in prog, 1 MiB\n",
        "3.00k messages; in 1 block that was followed: FALSE sharing: 500 of 500 reads looked at \
         (99.2 to 100 % with 95 % confidence) met only what nobody else had written; pad or separate it\n",
        "written by work at prog.c:12, 5.00k times, tasks 1-3",
        "2 places more",
        "1. counters in prog, +0x40 of 1 MiB",
        "0x401000, 1.00k messages (25.0 %)\n",
        "beside it  flag in prog\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    assert!(!text.contains("make it again"), "{text}");
    let document = document(&profile, &options(Palette::Ascii));
    assert_eq!(document["hot"][0]["object"], "counters in prog");
    assert_eq!((&document["data"][0]["false_sharing"], &document["data_looked_at"]), (&3000.into(), &400.into()));
}

/// Whoever used `--hot` is not told to use it; what a verdict says is what the reads show.
#[test]
fn nothing_is_said_of_data_that_the_profile_does_not_show() {
    let mut profile = ring(4);
    profile.meta.data = Some(Data::new(0, 0, 32, Vec::new(), &[]));
    assert!(text(&profile).contains("nothing was communicated in memory"), "{}", text(&profile));
    assert!(!text(&profile).contains("--hot"), "{}", text(&profile));
    profile.meta.data = Some(Data::new(4, 4, 32, vec![data_object("a", 4)], &[]));
    let short = text(&profile);
    assert!(short.contains("  100.0 %  a") && !short.contains("--hot") && !short.contains("sharing"), "{short}");
    for (reads, said, not) in [
        ((0, 3), "3 reads looked at, too few to tell", "FALSE sharing"),
        ((500, 500), "partly FALSE sharing: 500 of 1.00k reads", "true sharing"),
        ((500, 3), "true sharing: 500 of 503 reads", "FALSE sharing"),
    ] {
        profile.meta.hot = vec![hot_block(reads.0, reads.1)];
        let text = text(&profile);
        assert!(text.contains(said) && !text.contains(not), "{said} {text}");
    }
}

#[test]
fn call_sites_of_ranks_are_listed() {
    let mut profile = profile(4, Kind::Ranks, |a, b| u64::from(a < b));
    assert!(text(&profile).contains("make it again"));
    profile.meta.sites = Some(Vec::new());
    assert!(text(&profile).contains("no message was sent") && !text(&profile).contains("make it again"));
    let site = CallSite { function: "halo".into(), line: "halo.c:12".into(), messages: 600, bytes: 2048 };
    profile.meta.sites =
        Some(vec![PairSites { source: 0, destination: 1, messages: 1, bytes: 2048, sites: vec![site] }]);
    let text = text(&profile);
    for expected in [
        "(1 of the 1 heaviest pair, ",
        "  0 -> 1  1 message, 2 KiB\n",
        "called in  halo at halo.c:12, 600 messages, 2 KiB\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    assert_eq!(document(&profile, &options(Palette::Ascii))["sites"][0]["sites"][0]["function"], "halo");
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

/// A ring in two bursts.
fn in_two_bursts() -> Profile {
    let mut profile = ring(4);
    let row = |bin, source| SeriesRow { bin, source, destination: (source + 1) % 4, messages: 50, bytes: 400 };
    let first = (10..20).flat_map(|bin| [row(bin, 0), row(bin, 1)]);
    profile.series = first.chain((200..210).flat_map(|bin| [row(bin, 2), row(bin, 3)])).collect();
    (profile.meta.window_ns, profile.meta.clock) = (1_000_000, "wall time\x1b".into());
    profile
}

#[test]
fn when_tasks_communicate_is_shown() {
    let profile = in_two_bursts();
    let timeline = cohabit_cluster::periods::preferred(&profile, &Default::default()).unwrap();
    let shown = time(&profile, &timeline, &options(Palette::Ascii));
    for expected in [
        "\nevents over time (profiled in windows of 1.00 ms; a column is one or several)\n",
        "aaa",
        "bbb",
        "  time: wall time \n",
        "\n2 clusters (Lc: its part of all messages)\n",
        " a 1       10.0 ms - 20.0 ms      4.8 %    1.00k   7.8 KiB        3  50.0 %  0 - 1 (25.0 %)\n",
        " b 2       200 ms - 210 ms        4.8 %    1.00k   7.8 KiB        3  50.0 %  0 - 3 (25.0 %)\n",
        "\ncluster 1\n",
    ] {
        assert!(shown.contains(expected), "{expected:?} in {shown}");
    }
    assert!(!shown.contains('\x1b') && shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    let coloured = time(&profile, &timeline, &options(Palette::TrueColour));
    assert!(coloured.contains("\x1b[38;2;0;114;178m█") && coloured.contains("\x1b[38;2;230;159;0m"), "{coloured}");
    let picture = svg(&profile, &timeline);
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n") && picture.matches("<rect x").count() == 20);
    let timed = ShowOptions { timeline: Some(timeline), ..options(Palette::Ascii) };
    let document = document(&profile, &timed);
    assert_eq!(document["timeline"]["by"], "clusters");
    assert_eq!(document["timeline"]["parts"][1]["spans"], serde_json::json!([[200, 210]]));
    assert_eq!(document["metrics"]["communication_concurrency"], 0.75);
    assert!(
        document["metrics"]["dram_to_memory"].is_null() && document["unknown_metrics"]["dram_to_memory"].is_string()
    );
}

#[test]
fn one_verdict_says_what_is_to_be_done() {
    let mut profile = in_two_bursts();
    let advice = |profile: &Profile| {
        let timeline = cohabit_cluster::periods::preferred(profile, &Default::default()).ok();
        let options = ShowOptions { timeline, ..options(Palette::Ascii) };
        let document = document(profile, &options);
        (document["advice"]["kind"].as_str().unwrap().to_owned(), show(profile, &options))
    };
    let (kind, text) = advice(&profile);
    // All at once, but nobody knows whether memory is in the way.
    assert!(kind == "locality" && !text.contains("congestion"), "{kind} {text}");
    profile.series.clear();
    let (kind, text) = advice(&profile);
    assert!(kind == "locality" && !text.contains("\nlocality"), "{kind} {text}");
    let object = DataObject { false_reads: 100, writers: vec![site("work", "a.c:7")], ..data_object("x", 4000) };
    profile.meta.data = Some(Data::new(4000, 4000, 1, vec![object], &[]));
    let (kind, text) = advice(&profile);
    let line = "\nrepair the false sharing at a.c:7 first: 100 % of all messages are through it\n";
    assert!(kind == "repair" && text.contains(line), "{kind} {text}");
}
