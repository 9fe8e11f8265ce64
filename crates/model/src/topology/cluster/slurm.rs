//! Slurm's topology.conf (topology.conf(5), the tree plugin): which switch leads to which nodes and switches.

use super::file::{Names, SwitchTable};
use super::hostlist;
use crate::{Error, Result};

/// What cohabit reads.
const FORM: &str = "cohabit reads the tree plugin's lines: SwitchName=s0 Nodes=n[0-3], SwitchName=s1 Switches=s0";

/// The switches of the file, and what in it is not used.
///
/// # Errors
/// Where a line is none of the tree plugin's; it is named.
pub fn parse(text: &str) -> Result<(Vec<SwitchTable>, Vec<String>)> {
    let (mut switches, mut speeds) = (Vec::new(), 0);
    for (number, line) in logical_lines(text) {
        let (found, has_speed) = switch_line(&line)
            .map_err(|error| Error { remedy: error.remedy.or(Some(FORM.to_owned())), ..error })
            .map_err(|error| error.at(format!("line {number}")))?;
        switches.push(found);
        speeds += usize::from(has_speed);
    }
    if switches.is_empty() {
        return Err(Error::new("no switch is in it").remedy(FORM));
    }
    let note = "LinkSpeed is not used, neither by Slurm: give bandwidths in [[port]] of the cluster file";
    Ok((switches, if speeds > 0 { vec![note.to_owned()] } else { Vec::new() }))
}

/// Lines without comments, those that end with a backslash joined with the next; numbered from 1.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (part, more) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match lines.last_mut() {
            Some((_, last)) if goes_on => *last += &format!(" {part}"),
            _ => lines.push((number + 1, part.to_owned())),
        }
        goes_on = more;
    }
    lines.retain(|(_, line)| !line.trim().is_empty());
    lines
}

/// The switch of a line, and whether a speed was given.
fn switch_line(line: &str) -> Result<(SwitchTable, bool)> {
    let (mut name, mut members, mut has_speed) = (None, None, false);
    for word in line.split_whitespace() {
        let Some((key, value)) = word.split_once('=').filter(|(_, value)| !value.is_empty()) else {
            return Err(Error::new(format!("{word:?} is no key with a value")));
        };
        match key.to_ascii_lowercase().as_str() {
            "switchname" => name = Some(value.to_owned()),
            "nodes" | "switches" if members.is_some() => {
                return Err(Error::new("a switch with nodes and switches, which the tree plugin does not know"));
            }
            "nodes" | "switches" => members = Some(value.to_owned()),
            "linkspeed" => has_speed = true,
            "blockname" | "blocksizes" => return Err(Error::new("the block plugin describes no tree")),
            _ => return Err(Error::new(format!("unknown key {key:?}"))),
        }
    }
    let Some(name) = name else { return Err(Error::new("a line without SwitchName")) };
    if hostlist::expand(&name)?.len() != 1 {
        return Err(Error::new(format!("{name:?} names several switches, and each has a line of its own")));
    }
    let members = members.ok_or_else(|| {
        Error::new(format!("switch {name} has neither Nodes nor Switches")).remedy("name what its ports lead to")
    })?;
    Ok((SwitchTable { name, members: Names::one(members), max_bandwidth: None }, has_speed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hostile_files_are_errors_or_switches(
            lines in prop::collection::vec("(SwitchName|Nodes|Switches|LinkSpeed|x)?[=a-c0-9,\\[\\]#\\\\ -]{0,12}", 0..6)
        ) {
            if let Ok((switches, _)) = parse(&lines.join("\n")) {
                prop_assert!(!switches.is_empty() && switches.iter().all(|switch| !switch.members.lists().is_empty()));
            }
        }
    }

    #[test]
    fn the_manuals_example_is_read() {
        let text = "\
# Switch Configuration
SwitchName=s0 Nodes=tux[0-3]
switchname=s1 nodes=tux[4-7] LinkSpeed=100
SwitchName=s2 \\
  Switches=s[0-1]   # the spine
";
        let (switches, notes) = parse(text).unwrap();
        let read: Vec<_> = switches.iter().map(|s| (s.name.as_str(), s.members.lists().join(","))).collect();
        let expected = [("s0", "tux[0-3]"), ("s1", "tux[4-7]"), ("s2", "s[0-1]")];
        assert_eq!(read, expected.map(|(name, members)| (name, members.to_owned())));
        assert!(notes.len() == 1 && notes[0].contains("LinkSpeed"));
    }

    #[test]
    fn other_lines_are_refused() {
        for (text, cause) in [
            ("", "no switch is in it"),
            ("\n\nSwitchName=s0", "line 3: switch s0 has neither Nodes nor Switches"),
            ("Nodes=a", "line 1: a line without SwitchName"),
            ("SwitchName=s Nodes=a Switches=b", "line 1: a switch with nodes and switches"),
            ("BlockName=b Nodes=a", "line 1: the block plugin describes no tree"),
            ("SwitchName=s Nodes=", "line 1: \"Nodes=\" is no key with a value"),
            ("SwitchName=s Colour=a", "line 1: unknown key \"Colour\""),
            ("SwitchName=s[0-1] Nodes=a", "line 1: \"s[0-1]\" names several switches"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.cause.starts_with(cause) && error.remedy.is_some(), "{text:?}: {error}");
        }
    }
}
