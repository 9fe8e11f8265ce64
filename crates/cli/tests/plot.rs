//! `cohabit plot`, `report` and `perfetto`: every picture in every format, the page in a browser, and what cannot be
//! drawn.

mod common;

use cohabit_formats::npz::write_profile;
use cohabit_model::Matrix;
use cohabit_model::profile::{Kind, Meta, Profile, SeriesRow, Task};
use common::{Ran, Room, executable};
use std::path::Path;
use std::process::Command;

/// A name that a program may give its threads.
const HOSTILE: &str = "</script><script>window.taken=1;document.title='taken'</script>";

/// A profile of four threads with a time series, all of that name.
fn timed(room: &Room, file: &str, name: &str) {
    let task = |id: u32| -> Task {
        serde_json::from_value(serde_json::json!({ "id": id, "kind": "thread", "name": name })).unwrap()
    };
    let mut meta = Meta::new(Kind::Threads, "dbi", (0..4).map(task).collect());
    meta.window_ns = 1_000_000;
    let matrix = Matrix::from_triplets(4, [(0, 1, 900), (1, 0, 100), (2, 3, 50)]);
    let mut profile = Profile::new(meta, matrix.clone(), matrix);
    let row = |bin, source, destination, messages| SeriesRow { bin, source, destination, messages, bytes: messages };
    profile.series = vec![row(0, 0, 1, 900), row(3, 1, 0, 100), row(4, 2, 3, 50)];
    profile.accessed_bytes = vec![10_000; 4];
    write_profile(&room.path(file), &profile).unwrap();
}

/// The seeds of the fuzzer are sound documents.
fn document(room: &Room, name: &str) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fuzz/documents");
    std::fs::copy(seeds.join(name), room.path(&format!("{name}.json"))).unwrap();
}

/// What `cohabit compare` keeps, of two arms whose values are given.
fn kept(values: &[[f64; 2]]) -> String {
    let usage = r#"{"wall_s":1,"user_s":1,"system_s":0,"voluntary_switches":0,"involuntary_switches":0,"minor_faults":0,"major_faults":0}"#;
    let run = |block: usize, arm: usize| {
        format!(
            r#"{{"block":{block},"arm":{arm},"value":{},"usage":{usage},"output":{{"text":"","words":""}}}}"#,
            values[block][arm]
        )
    };
    let runs: Vec<String> = (0..values.len()).flat_map(|block| [run(block, 0), run(block, 1)]).collect();
    format!(
        r#"{{"format":1,"kind":"comparison","program":["./p"],"seed":0,"by":"wall","higher_is_better":false,
            "arms":[{{"name":"system"}},{{"name":"near"}}],"runs":[{}]}}"#,
        runs.join(",")
    )
}

#[test]
fn every_picture_is_drawn_in_every_format() {
    let room = Room::new();
    room.chain("p.npz", 6, 100);
    timed(&room, "t.npz", "worker");
    document(&room, "detectors");
    document(&room, "simulation");
    room.file("c.json", kept(&[[1.0, 0.8], [1.1, 0.9], [1.0, 0.85], [1.2, 0.9], [1.0, 0.8], [1.1, 0.8], [1.0, 0.79]]));
    let has_font = room.run("plot p.npz --what matrix -o try.png").status == Some(0);
    if !has_font {
        println!("skipped: every_picture_is_drawn_in_every_format: PNG and PDF: no font here");
    }
    for (what, input, holds) in [
        ("matrix", "p.npz", "writer"),
        ("graph", "p.npz", "edges: "),
        ("placement", "p.npz", "tasks on"),
        ("topology", "", "<svg"),
        ("gains", "c.json", "lower is better"),
        ("series", "t.npz", "messages a second"),
        ("detectors", "detectors.json", "exact"),
        ("simulation", "simulation.json", "remote memory"),
    ] {
        let ran = room.run(&format!("plot {input} --what {what} -o {what}.svg"));
        assert_eq!((ran.status, ran.stderr.as_str(), ran.stdout.as_str()), (Some(0), "", ""), "{what}");
        let svg = std::fs::read_to_string(room.path(&format!("{what}.svg"))).unwrap();
        assert!(svg.contains(holds) && svg.trim_end().ends_with("</svg>"), "{what}");
        assert!(svg.contains("width=\"85mm\""), "{what}");
        // The same picture each time.
        room.run(&format!("plot {input} --what {what} -o again.svg"));
        assert_eq!(std::fs::read_to_string(room.path("again.svg")).unwrap(), svg, "{what}");
        for (ending, magic) in [("png", &b"\x89PNG"[..]), ("pdf", b"%PDF-")].into_iter().filter(|_| has_font) {
            let ran = room.run(&format!("plot {input} --what {what} -o {what}.{ending}"));
            assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{what}.{ending}");
            let bytes = std::fs::read(room.path(&format!("{what}.{ending}"))).unwrap();
            assert!(bytes.starts_with(magic) && bytes.len() > 1000, "{what}.{ending}: {} bytes", bytes.len());
        }
    }
    // The rows of a matrix by where their tasks run, and by who communicates.
    for (order, said) in [("placement --topology pu:6", "writer, by placement"), ("cluster", "writer, by cluster")] {
        let ran = room.run(&format!("plot p.npz --what matrix --order {order} -o ordered.svg"));
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{order}");
        assert!(std::fs::read_to_string(room.path("ordered.svg")).unwrap().contains(said), "{order}");
    }
    let json = room.run("plot p.npz --what matrix -o m.svg --json -").stdout;
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((found["what"].as_str(), found["picture"].as_str()), (Some("matrix"), Some("m.svg")));
}

/// What shows something with 95 % and not with 99 is judged as it was asked for, on every page and picture.
#[test]
fn comparisons_are_shown_as_sure_as_they_were_to_be() {
    let room = Room::new();
    room.chain("p.npz", 3, 5);
    // Seven of seven blocks on one side: p is 1.6 %.
    let usual = kept(&[[1.0, 0.8], [1.1, 0.9], [1.0, 0.85], [1.2, 0.9], [1.0, 0.8], [1.1, 0.8], [1.0, 0.79]]);
    let surer = usual.replace("\"by\":\"wall\"", "\"by\":\"wall\",\"confidence\":0.99");
    for (text, percent, shown) in [(usual, "95", true), (surer, "99", false)] {
        room.file("c.json", text);
        let ran = room.run("plot c.json --what gains -o g.svg");
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
        let svg = std::fs::read_to_string(room.path("g.svg")).unwrap();
        assert!(svg.contains(&format!("{percent} % intervals")), "{percent}");
        let ran = room.run("report p.npz --topology pu:3 --compare c.json -o r.html");
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        let page = std::fs::read_to_string(room.path("r.html")).unwrap();
        assert!(page.contains(&format!("{percent} % intervals")), "{percent}");
        assert_eq!(page.contains("too few blocks to show any"), !shown, "{percent}");
    }
}

#[test]
fn what_cannot_be_drawn_has_a_reason() {
    let room = Room::new();
    room.chain("p.npz", 3, 5);
    room.file("none.json", kept(&[]));
    room.file("c.json", kept(&[[1.0, 0.8]; 7]));
    room.file("r.json", kept(&[[1.0, 0.8]; 7]).replace("\"higher_is_better\":false", "\"higher_is_better\":true"));
    timed(&room, "t.npz", "worker");
    document(&room, "detectors");
    document(&room, "simulation");
    assert_eq!(room.run("map p.npz --topology pu:4 -o m.json").status, Some(0));
    for (line, status, cause) in [
        ("plot p.npz --what matrix -o m.gif", 2, "no kind of picture"),
        ("plot p.npz --what matrix", 2, "--output"),
        ("plot p.npz --what series -o s.svg", 1, "no time series"),
        ("plot --what matrix -o m.svg", 2, "no profile is named"),
        ("plot p.npz p.npz --what matrix -o m.svg", 2, "several files"),
        // What would change nothing is refused.
        ("plot p.npz --what series --bytes -o m.svg", 2, "--bytes does nothing for --what series"),
        ("plot p.npz --what matrix --mapping m.json -o m.svg", 2, "--mapping does nothing"),
        ("plot p.npz --what matrix --order cluster --mapping m.json -o m.svg", 2, "--mapping does nothing"),
        ("plot p.npz --what series --order placement -o m.svg", 2, "--order does nothing for --what series"),
        (
            "plot p.npz --what matrix --order placement --mapping m.json --topology pu:4 -o m.svg",
            2,
            "which has its own machine",
        ),
        ("plot p.npz --what matrix --topology pu:4 -o m.svg", 2, "--topology does nothing"),
        ("plot p.npz --what placement --mapping m.json --topology pu:4 -o m.svg", 2, "--topology with --mapping"),
        ("plot p.npz --what topology -o m.svg", 2, "draws a machine, no file"),
        ("plot c.json r.json --what gains -o g.svg", 1, "lower is better in one"),
        ("plot p.npz --what detectors -o m.svg", 1, "p.npz: not text"),
        ("plot simulation.json --what detectors -o m.svg", 1, "a document of 'cohabit simulate', not of"),
        ("plot detectors.json --what simulation -o m.svg", 1, "a document of 'cohabit compare-detectors', not of"),
        ("show t.npz --time -o x.gif", 2, "no kind of picture"),
        ("show p.npz --max-clusters 3", 2, "--max-clusters does nothing here: the profile has no time series"),
        ("show t.npz --time --by recurring --noise", 1, "--noise does nothing here: no clusters"),
        ("report p.npz q.npz --mapping m.json -o r.html", 2, "one mapping for several profiles"),
        ("report p.npz --mapping m.json --topology pu:4 -o r.html", 2, "--topology with --mapping"),
        ("report p.npz --mapping p.npz -o r.html", 1, "p.npz: a profile, not a mapping"),
        ("report p.npz --compare p.npz -o r.html", 1, "p.npz: not text"),
        ("report p.npz --simulate c.json -o r.html", 1, "of no command"),
        ("report none.json -o r.html", 1, "none.json"),
        ("report p.npz -o nowhere/r.html", 1, "nowhere/r.html"),
        ("report p.npz -o - --json -", 2, "several results for standard output"),
        ("perfetto p.npz -o t.json", 1, "no time series"),
        ("perfetto simulation.json -o t.json", 1, "a document of 'cohabit simulate', not of 'cohabit run'"),
        ("compare --mapping p.npz -- true", 1, "p.npz: a profile, not a mapping"),
        ("compare --mapping m.json -o - -- true", 2, "-o -"),
        ("compare --mapping m.json --csv - -- true", 2, "--csv -"),
        ("compare --mapping m.json --topology pu:4 -- true", 2, "--topology does nothing here"),
        ("tune -o - -- true", 2, "-o -"),
        ("plot --what gains -o g.svg", 2, "no comparison is named"),
        ("plot p.npz --what gains -o g.svg", 1, "p.npz"),
        ("plot none.json --what gains -o g.svg", 1, "no block was finished"),
        ("plot nowhere.npz --what matrix -o m.svg", 1, "nowhere.npz"),
        ("plot p.npz --what matrix -o nowhere/m.svg", 1, "nowhere/m.svg"),
        ("plot p.npz --what matrix --width 5 -o m.svg", 2, "5"),
    ] {
        room.run(line).assert_fails(status, cause);
    }
    for name in ["r.html", "t.json", "-", "m.svg", "g.svg", "x.gif"] {
        assert!(!room.path(name).exists(), "{name}: nothing is left half-made");
    }
}

#[test]
fn a_page_has_all_that_it_is_given_and_works_in_a_browser() {
    let room = Room::new();
    timed(&room, "t.npz", HOSTILE);
    document(&room, "detectors");
    document(&room, "simulation");
    room.file("c.json", kept(&[[1.0, 0.8]; 7]).replace("\"near\"", &serde_json::to_string(HOSTILE).unwrap()));
    let line = "report t.npz --topology pack:2_core:2_pu:1 --compare c.json --simulate simulation.json --detectors detectors.json";
    let with = |rest: &[&str]| {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('_', " ")).collect();
        Ran::of(room.command(words.iter().map(String::as_str).chain(rest.iter().copied())).output().unwrap())
    };
    let ran = with(&["-o", "r.html", "--json", "r.json"]);
    assert_eq!((ran.status, ran.stderr.as_str(), ran.stdout.as_str()), (Some(0), "", ""));
    let html = std::fs::read_to_string(room.path("r.html")).unwrap();
    for said in [
        "What was measured",
        "-20.0 %",
        "Simulated",
        "remote memory",
        "Detectors compared",
        "by 'cohabit simulate' of a version that kept no command",
        "by 'cohabit compare' of a version that kept no command",
        "by 'cohabit compare-detectors' of a version that kept no command",
        "--topology 'pack:2 core:2 pu:1'",
        "How complete",
    ] {
        assert!(html.replace("&#39;", "'").contains(said), "{said}");
    }
    assert!(!html.contains("<script>window.taken") && html.trim_end().ends_with("</html>"));
    let found: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(room.path("r.json")).unwrap()).unwrap();
    assert_eq!((found["page"].as_str(), found["bytes"].as_u64()), (Some("r.html"), Some(html.len() as u64)));
    // The same bytes to standard output, and each time: but for the command itself.
    let piped = with(&["-o", "-"]);
    assert_eq!((piped.status, piped.stdout.replace(" -o -</code>", " -o r.html</code>") == html), (Some(0), true));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/page.py");
    match Command::new("python3").arg(script).arg(room.path("r.html")).arg(HOSTILE).output() {
        Err(error) => println!("skipped: a_page_has_all_that_it_is_given_and_works_in_a_browser: python3: {error}"),
        Ok(output) if output.status.code() == Some(77) => {
            let why = String::from_utf8_lossy(&output.stdout);
            println!("skipped: a_page_has_all_that_it_is_given_and_works_in_a_browser: {}", why.trim());
        }
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// The commands on a page, as a shell takes them.
fn commands_of(html: &str) -> Vec<String> {
    let each = html.split("<pre class=\"command\"><code>").skip(1).map(|rest| rest.split("</code>").next().unwrap());
    let plain =
        |text: &str| text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    each.map(|text| plain(text).replace("&amp;", "&")).collect()
}

/// With options that change what is found: what the page prints makes it again, to the byte.
#[test]
fn commands_on_a_page_make_the_same_again() {
    let room = Room::new();
    room.chain("p.npz", 1, 100);
    timed(&room, "t.npz", "worker");
    room.file("it's.txt", "");
    executable(&room.file("program", "#!/bin/sh\nsleep 0.05\n"));
    let run = |line: &str| {
        let ran = Ran::of(room.command(line.split(' ').map(|word| word.replace('_', " "))).output().unwrap());
        assert_eq!(ran.status, Some(0), "{line}: {}", ran.stderr);
    };
    run(
        "simulate synthetic:ring:4:1:1 --machine harpertown --objective congestion --share-cores --weight messages --mapper packed best --json s.json",
    );
    run(
        "simulate synthetic:ring:4:1:1 --machine harpertown --sensitivity=10 --classify --memory interleave --mapper packed --json t.json",
    );
    run(
        "compare-detectors synthetic:ring:4:1:1 --simulate harpertown --sampled 20 --time-scale 1000 --block 128 --tlb-entries 32 --json d.json",
    );
    run(
        "compare-detectors synthetic:ring:4:1:1 --topology pack:2_core:2_pu:1 --page 2m --cycles-per-access 3 --json e.json",
    );
    run(
        "compare --profile p.npz --mapper packed --topology core:1_pu:1 --by cpu --confidence 99% --status 0,3 --runs 1 --warm-up 0 --input it's.txt --seed 7 -o c.json -- ./program --resume",
    );
    room.file("m.csv", "0,1,0\n2,0,3\n0,4,0\n");
    run("import m.csv --format csv --kind ranks -o i.npz");
    run(
        "report t.npz --compare c.json --simulate s.json --simulate t.json --detectors d.json --detectors e.json -o r.html",
    );
    let html = std::fs::read_to_string(room.path("r.html")).unwrap();
    assert!(html.contains("come from DRAM; simulated: harpertown, packed"));
    run("report i.npz -o i.html");
    let imported = std::fs::read_to_string(room.path("i.html")).unwrap();
    let commands = [commands_of(&html), commands_of(&imported)].concat();
    // The other profile was made by none.
    assert_eq!(commands.len(), 8, "{commands:?}");
    for file in ["i.npz", "s.json", "t.json", "d.json", "e.json", "r.html", "c.json"] {
        let made = std::fs::read(room.path(file)).unwrap();
        let is_of = |command: &&String| command.contains(&format!(" {file}"));
        let command =
            commands.iter().find(|command| is_of(command) && (file == "r.html" || !command.contains(".html")));
        let command = command.unwrap_or_else(|| panic!("{file}: {commands:?}"));
        std::fs::remove_file(room.path(file)).unwrap();
        let bin = Path::new(env!("CARGO_BIN_EXE_cohabit"));
        let command = command.replacen("cohabit", &bin.display().to_string(), 1);
        let mut shell = Command::new("sh");
        let ran = Ran::of(shell.args(["-c", &command]).current_dir(room.path("")).output().unwrap());
        assert_eq!(ran.status, Some(0), "{command}: {}", ran.stderr);
        let again = std::fs::read(room.path(file)).unwrap();
        let kept = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
        match file {
            // Runs take another time each time.
            "c.json" => ["arms", "by", "seed", "treatment", "arguments", "program"]
                .iter()
                .for_each(|key| assert_eq!(kept(&again)[key], kept(&made)[key], "{key}")),
            _ => assert!(again == made, "{command}"),
        }
    }
}

#[test]
fn a_trace_is_written_for_what_has_a_time() {
    let room = Room::new();
    timed(&room, "t.npz", HOSTILE);
    document(&room, "run");
    let ran = room.run("perfetto t.npz run.json -o trace.json --json -");
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    let text = std::fs::read_to_string(room.path("trace.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(found["events"].as_u64(), Some(trace["traceEvents"].as_array().unwrap().len() as u64));
    let groups: Vec<&str> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(groups.len(), 4, "{groups:?}");
    assert!(
        groups[0].starts_with("t.npz: all threads") && groups[2].starts_with("run.json: cohabit run"),
        "{groups:?}"
    );
    assert_eq!(room.run("perfetto t.npz run.json -o -").stdout, text);
}
