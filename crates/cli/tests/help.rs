//! Help, manual pages and completions come from one set of definitions, and every command is in each of them.

mod common;

use common::Room;

/// The commands that `cohabit --help` lists.
fn commands(room: &Room) -> Vec<String> {
    let help = room.run("--help").stdout;
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = named.map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

/// Those that are for packagers, and so not listed.
const UNLISTED: [&str; 2] = ["man", "completions"];

#[test]
fn every_command_has_help_a_manual_page_and_completions() {
    let room = Room::new();
    let names = commands(&room);
    for name in ["profile", "show", "map", "run", "import", "mpi", "topology", "mappers", "exporters", "doctor"] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
    assert_eq!(room.run("man pages").status, Some(0));
    for name in &names {
        let help = room.run(&format!("{name} --help"));
        assert_eq!((help.status, help.stderr.as_str()), (Some(0), ""), "{name}");
        assert!(help.stdout.contains("--json <FILE>"), "every command takes --json: {name}");
        let page = std::fs::read_to_string(room.path(&format!("pages/cohabit-{name}.1"))).unwrap();
        assert!(page.contains(&format!("cohabit\\-{name}")) || page.contains(&format!("cohabit-{name}")), "{name}");
    }
    assert!(room.path("pages/cohabit.1").exists());
    for shell in ["bash", "zsh", "fish"] {
        let script = room.run(&format!("completions {shell}")).stdout.replace('"', "");
        assert!(script.contains(&format!("COHABIT_COMPLETE={shell}")), "{script}");
        // The name of the function is the library's.
        let called = script.matches("_clap_dynamic_completer_cohabit").count();
        assert!(shell != "zsh" || called == 3, "defined, registered and called: {script}");
    }
    let completed = completed(&room, &["cohabit", ""]);
    assert!(names.iter().all(|name| completed.contains(name)), "{completed:?}");
}

/// What bash completes the last of these words to.
fn completed(room: &Room, words: &[&str]) -> Vec<String> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_cohabit"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let script = r#"
        source <(cohabit completions bash)
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        _clap_complete_cohabit cohabit "${@: -1}" "${@: -2:1}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"]).args(words).env("PATH", path).current_dir(room.path(""));
    let ran = common::Ran::of(bash.output().unwrap());
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{words:?}");
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_mappers_and_files_that_fit() {
    let room = Room::new();
    for name in ["p.npz", "q.npz", "m.json", "notes.txt"] {
        room.file(name, "");
    }
    std::fs::create_dir(room.path("more")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&room.run("mappers --json -").stdout).unwrap();
    let mappers: Vec<String> =
        document["mappers"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    for (line, expected) in [
        ("cohabit prof", vec!["profile"]),
        ("cohabit map --map", vec!["--mapper"]),
        ("cohabit map --mapper pac", vec!["packed"]),
        ("cohabit map p", vec!["p.npz"]),
        ("cohabit run --profile ", vec!["more/", "p.npz", "q.npz"]),
        ("cohabit run --mapping ", vec!["m.json", "more/"]),
        ("cohabit run --profile p.npz -- no", vec!["notes.txt"]),
        ("cohabit simulate --machine har", vec!["harpertown"]),
        ("cohabit map --topology li", vec!["live"]),
        ("cohabit profile --detector d", vec!["dbi"]),
        ("cohabit run --faults p", vec!["pmu"]),
        ("cohabit experiment tlb2012 --program no", vec!["notes.txt"]),
    ] {
        let mut found = completed(&room, &line.split(' ').collect::<Vec<_>>());
        found.sort();
        assert_eq!(found, expected, "{line}");
    }
    let mut found = completed(&room, &["cohabit", "map", "--mapper", ""]);
    found.sort();
    let mut wanted = mappers;
    wanted.sort();
    assert_eq!(found, wanted);
    let files = completed(&room, &["cohabit", "show", ""]);
    assert!(files.contains(&"p.npz".to_owned()) && !files.contains(&"notes.txt".to_owned()), "{files:?}");
    // A shell that is not known, or a line that has no end, is answered with nothing.
    let mut command = room.command(["--", "cohabit", "map"]);
    let ran = common::Ran::of(command.env("COHABIT_COMPLETE", "nonsense").output().unwrap());
    assert_eq!(ran.stdout, "");
}

#[test]
fn verbose_tells_every_step_of_every_command_and_quiet_none() {
    let room = Room::new();
    room.chain("p.npz", 4, 10);
    let machine = "--topology pu:4";
    let told = room.run(&format!("map p.npz {machine} -v"));
    assert_eq!(told.status, Some(0));
    for step in ["cohabit: reading the profile: ", "cohabit: mapping; J of packed 600: "] {
        assert!(told.stderr.contains(step), "{step} in {}", told.stderr);
    }
    assert_eq!(room.run(&format!("-v map p.npz {machine}")).stderr.lines().count(), told.stderr.lines().count());
    assert_eq!(room.run(&format!("map p.npz {machine}")).stderr, "");
    assert_eq!(room.run(&format!("map p.npz {machine} -q")).stderr, "");
    room.run(&format!("map p.npz {machine} -q -v")).assert_fails(2, "cannot be used with");
    for name in ["show", "run"] {
        assert!(room.run(&format!("{name} --help")).stdout.contains("-v, --verbose"), "{name}");
    }
}

#[test]
fn every_command_has_a_schema_of_its_document() {
    let schema: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(docs().join("schema.json")).unwrap()).unwrap();
    let of = |one: &serde_json::Value| {
        let command = &one["properties"]["command"];
        let listed = command["enum"].as_array().cloned().unwrap_or_else(|| vec![command["const"].clone()]);
        listed.iter().map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let known: Vec<String> = schema["anyOf"].as_array().unwrap().iter().flat_map(of).collect();
    let room = Room::new();
    for name in commands(&room) {
        let name = if name == "mpi" { "mpi build".to_owned() } else { name };
        assert!(known.contains(&name), "{name} is not in docs/schema.json");
    }
    // A build with debug assertions refuses to write what does not fit: here those that no other test asks for.
    room.file("m.csv", "0,1\n0,0\n");
    for line in ["import m.csv -o p.npz", "detectors", "show p.npz --hot", "topology"] {
        let ran = room.run(&format!("{line} --json -"));
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn every_command_has_examples_that_are_of_it() {
    let room = Room::new();
    let names = commands(&room);
    assert!(names.len() > 12, "{names:?}");
    for name in names.iter().map(String::as_str).chain(UNLISTED) {
        let help = room.run(&format!("{name} --help")).stdout;
        let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{name} has none: {help}"));
        assert!(examples.contains(&format!("cohabit {name}")), "{name}: {examples}");
        // `cohabit help NAME` is what people type first.
        let asked = room.run(&format!("help {name}"));
        assert_eq!(
            (asked.status, asked.stderr.as_str(), asked.stdout.as_str()),
            (Some(0), "", help.as_str()),
            "{name}"
        );
    }
    room.run("help nonsense").assert_fails(2, "nonsense");
}

#[test]
fn every_command_is_in_the_readme_and_every_importer() {
    let room = Room::new();
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let rows: String = readme.lines().filter(|line| line.starts_with("| `cohabit ")).collect();
    for name in commands(&room) {
        assert!(rows.contains(&format!("`cohabit {name}")), "{name} is in no row of the README's table");
    }
    let help = room.run("help import").stdout;
    let formats = help.split("possible values:").nth(1).map_or_else(
        || {
            let listed = help.lines().skip_while(|line| !line.contains("Possible values:")).skip(1);
            let named = listed.take_while(|line| !line.trim().is_empty());
            let named = named.filter_map(|line| line.trim().strip_prefix("- ")?.split(':').next());
            named.map(str::to_owned).collect::<Vec<_>>()
        },
        |list| list.split([',', ']']).map(|name| name.trim().to_owned()).collect(),
    );
    assert!(formats.iter().any(|name| name == "perf-script"), "{formats:?}");
    for name in formats {
        assert!(readme.contains(&format!("`{name}`")), "the format {name} is not in the README");
    }
}

#[test]
fn colours_and_quiet_go_with_every_command() {
    let room = Room::new();
    room.chain("p.npz", 4, 10);
    for name in commands(&room).iter().map(String::as_str).chain(UNLISTED) {
        let help = room.run(&format!("{name} --help")).stdout;
        assert!(help.contains("--quiet") && help.contains("--color <WHEN>"), "{name}: {help}");
    }
    let run = |line: &str, no_color: &str| {
        let mut command = room.command(line.split(' '));
        common::Ran::of(
            command.env("NO_COLOR", no_color).env("TERM", "xterm").env_remove("COLORTERM").output().unwrap(),
        )
    };
    for (line, no_color, coloured) in [
        ("show p.npz", "", false),
        ("show p.npz --color auto", "", false),
        ("show p.npz --color always", "", true),
        ("show p.npz --color always", "1", true),
        ("show p.npz --color=never", "", false),
        ("--color always show p.npz", "", true),
        ("show --help --color always", "", true),
        ("--color always help show", "", true),
        ("help show", "", false),
    ] {
        let ran = run(line, no_color);
        assert_eq!((ran.status, ran.stdout.contains('\x1b')), (Some(0), coloured), "{line}, NO_COLOR={no_color}");
    }
    assert!(run("show nowhere.npz --color always", "").stderr.starts_with("\x1b[1m"));
    run("show p.npz --color sometimes", "").assert_fails(2, "invalid value 'sometimes'");
    // An option of the program's own is the program's.
    let ran = run("run --profile p.npz -- echo --color always -q", "");
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "--color always -q\n"), "{}", ran.stderr);
    let (told, quiet) = (run("run --profile p.npz -- true", ""), run("run -q --profile p.npz -- true", ""));
    assert_eq!((quiet.status, quiet.stderr.as_str()), (Some(0), ""));
    assert!(told.stderr.starts_with("cohabit: "), "{}", told.stderr);
}

#[test]
fn the_mappers_are_named_wherever_one_is_chosen() {
    let room = Room::new();
    let mappers = room.run("mappers --json -").stdout;
    let document: serde_json::Value = serde_json::from_str(&mappers).unwrap();
    let names: Vec<&str> =
        document["mappers"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"packed") && names.contains(&"complace"), "{names:?}");
    for command in ["map", "run"] {
        let help = room.run(&format!("{command} --help")).stdout;
        assert!(names.iter().all(|name| help.contains(name)), "{command}: {help}");
    }
}

#[test]
fn the_export_formats_are_named_where_one_is_chosen_and_documented() {
    let room = Room::new();
    let document: serde_json::Value = serde_json::from_str(&room.run("exporters --json -").stdout).unwrap();
    let rows = document["exporters"].as_array().unwrap();
    let help = room.run("map --help").stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/launchers.md")).unwrap();
    assert!(rows.len() > 15);
    for row in rows {
        let (name, usage) = (row["name"].as_str().unwrap(), row["usage"].as_str().unwrap());
        assert!(help.contains(name), "{name} in {help}");
        assert!(page.contains(&format!("`{name}`")) && page.contains(usage), "docs/launchers.md: {name}, {usage}");
    }
}

#[test]
fn no_output_is_longer_than_a_terminal_is_wide() {
    let room = Room::new();
    for name in commands(&room) {
        let help = room.run(&format!("{name} --help")).stdout;
        let long = help.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None, "{name}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_cohabit_quietly() {
    let (read_end, write_end) = nix::unistd::pipe().unwrap();
    drop(read_end);
    let ran = common::Ran::of(Room::new().command(["completions", "bash"]).stdout(write_end).output().unwrap());
    assert_eq!((ran.signal, ran.stderr.as_str()), (Some(libc::SIGPIPE), ""));
}

/// The source tree's documentation.
fn docs() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn the_book_has_every_page_and_every_link_leads_to_one() {
    let read =
        |name: &str| std::fs::read_to_string(docs().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    // What stands between "](" and ")", of links within the tree.
    let links = |text: &str| -> Vec<String> {
        let parts = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        parts.filter(|link| !link.contains("://")).map(str::to_owned).collect()
    };
    let summary = links(&read("SUMMARY.md"));
    for entry in std::fs::read_dir(docs()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".md") || name == "SUMMARY.md" {
            continue;
        }
        assert!(summary.contains(&name), "{name} is not in docs/SUMMARY.md");
        for link in links(&read(&name)) {
            let file = link.split('#').next().unwrap();
            assert!(file.is_empty() || docs().join(file).exists(), "{name} links to {link}, which is not there");
        }
    }
    assert!(summary.iter().all(|page| docs().join(page).exists()), "{summary:?}");
}

/// The commands of a page, which begin with a `$`, each with the lines that it shows, below it, of what they print.
fn shown(page: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut is_of_command = false;
    for line in page.lines() {
        let Some(line) = line.strip_prefix("    ") else {
            // Text ends what is shown; a blank line may be part of it.
            is_of_command &= line.is_empty();
            continue;
        };
        match (line.strip_prefix("$ cohabit "), found.last_mut()) {
            (Some(command), _) => found.push((command.to_owned(), Vec::new())),
            (None, Some((_, lines))) if is_of_command && line != "..." => lines.push(line.to_owned()),
            _ => {}
        }
        is_of_command |= line.starts_with("$ ");
    }
    found
}

/// Words as a shell takes them, of which some are in double quotes.
fn words(line: &str) -> Vec<String> {
    let quoted = line.split('"').enumerate().flat_map(|(at, part)| match at % 2 {
        1 => vec![part.to_owned()],
        _ => part.split_whitespace().map(str::to_owned).collect(),
    });
    quoted.collect()
}

/// Puts what a page uses into the folder: our workloads, and files that it shows. What is not there, of others' too.
fn missing(room: &Room, page: &str) -> Option<String> {
    let built = docs().join("../build");
    for name in ["patterns-pthreads", "patterns-openmp", "processes", "mpi/patterns-openmpi"] {
        let (program, file) = (built.join("workloads").join(name), name.rsplit('/').next().unwrap());
        if !page.contains(&format!("./{file} ")) {
            continue;
        }
        if std::fs::copy(&program, room.path(file)).is_err() {
            return Some(format!("{} is not built (make)", program.display()));
        }
    }
    if page.contains("-- mpirun ") {
        let version = std::process::Command::new("mpirun").arg("--version").output().ok();
        let is_open = version.is_some_and(|ran| String::from_utf8_lossy(&ran.stdout).contains("Open MPI"));
        if !is_open || !built.join("native/libcohabit-mpi-openmpi.so").exists() {
            return Some("no Open MPI, or our library for it is not built".to_owned());
        }
    }
    if let Some((_, shown)) = page.split_once("```toml\n") {
        room.file("cluster.toml", shown.split("```").next().unwrap());
    }
    None
}

#[test]
fn pages_show_what_their_commands_print() {
    // Asked once.
    let mut profiles = None;
    for name in [
        "verdict.md",
        "tour.md",
        "openmp.md",
        "on-a-cluster.md",
        "server.md",
        "no-root.md",
        "which-detector.md",
        "limits.md",
        "concepts.md",
    ] {
        let page = std::fs::read_to_string(docs().join(name)).unwrap();
        let commands = shown(&page);
        assert!(!commands.is_empty(), "{name}");
        if page.contains("$ cohabit profile") && !*profiles.get_or_insert_with(|| Room::to_profile(name).is_some()) {
            continue;
        }
        let room = Room::new();
        if let Some(missing) = missing(&room, &page) {
            println!("skipped: {name}: {missing}");
            continue;
        }
        room.file("even.csv", "0,9,9,9\n9,0,9,9\n9,9,0,9\n9,9,9,0\n");
        room.file("apart.csv", "0,0,90,0\n0,0,0,90\n90,0,0,0\n0,90,0,0\n");
        for (command, lines) in commands {
            let mut run = room.command(words(&command));
            run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            let ran = common::Ran::of(run.output().unwrap());
            assert_eq!(ran.status, Some(0), "{name}: {command}: {}", ran.stderr);
            let printed = ran.stdout + &ran.stderr;
            let mut rest = printed.lines();
            for line in lines {
                assert!(rest.any(|other| other.trim_end() == line), "{name}: {command}: {line:?} in\n{printed}");
            }
        }
    }
}
