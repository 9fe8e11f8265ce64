//! `cohabit plot`: every picture in every format, and what cannot be drawn.

mod common;

use common::Room;

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
    room.file("c.json", kept(&[[1.0, 0.8], [1.1, 0.9], [1.0, 0.85], [1.2, 0.9], [1.0, 0.8], [1.1, 0.8], [1.0, 0.79]]));
    let has_font = room.run("plot p.npz --what matrix -o try.png").status == Some(0);
    if !has_font {
        println!("skipped: every_picture_is_drawn_in_every_format: PNG and PDF: no font here");
    }
    for (what, input, holds) in [
        ("matrix", "p.npz", "writer"),
        ("placement", "p.npz", "tasks on"),
        ("topology", "", "<svg"),
        ("gains", "c.json", "near"),
    ] {
        let ran = room.run(&format!("plot {input} --what {what} -o {what}.svg"));
        assert_eq!((ran.status, ran.stderr.as_str(), ran.stdout.as_str()), (Some(0), "", ""), "{what}");
        let svg = std::fs::read_to_string(room.path(&format!("{what}.svg"))).unwrap();
        assert!(svg.contains(holds) && svg.trim_end().ends_with("</svg>"), "{what}");
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
    let json = room.run("plot p.npz --what matrix -o m.svg --json -").stdout;
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((found["what"].as_str(), found["picture"].as_str()), (Some("matrix"), Some("m.svg")));
}

#[test]
fn what_cannot_be_drawn_has_a_reason() {
    let room = Room::new();
    room.chain("p.npz", 3, 5);
    room.file("none.json", kept(&[]));
    for (line, status, cause) in [
        ("plot p.npz --what matrix -o m.gif", 2, "no kind of picture"),
        ("plot p.npz --what matrix", 2, "--output"),
        ("plot p.npz --what series -o s.svg", 1, "no time series"),
        ("plot --what matrix -o m.svg", 2, "no profile is named"),
        ("plot p.npz p.npz --what matrix -o m.svg", 2, "several profiles"),
        ("plot --what gains -o g.svg", 2, "no comparison is named"),
        ("plot p.npz --what gains -o g.svg", 1, "p.npz"),
        ("plot none.json --what gains -o g.svg", 1, "no block was finished"),
        ("plot nowhere.npz --what matrix -o m.svg", 1, "nowhere.npz"),
        ("plot p.npz --what matrix -o nowhere/m.svg", 1, "nowhere/m.svg"),
        ("plot p.npz --what matrix --width 5 -o m.svg", 2, "5"),
    ] {
        room.run(line).assert_fails(status, cause);
    }
}
