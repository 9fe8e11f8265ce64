//! Help, manual pages and completions come from one set of definitions, and every command is in each of them.

mod common;

use common::Room;

/// The commands that `cohabit --help` lists.
fn commands(room: &Room) -> Vec<String> {
    let help = room.run("--help").stdout;
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

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
        let completions = room.run(&format!("completions {shell}")).stdout;
        assert!(names.iter().all(|name| completions.contains(name.as_str())), "{shell}");
    }
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
