//! Graphviz's DOT (its language reference): a cluster for each part of the machine, a directed edge for each pair that
//! communicates, as thick as that is much.

use super::{Exporter, Placement};
use cohabit_model::Result;
use cohabit_model::topology::{NodeId, label};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of the heaviest edge, in points.
const THICKEST: f64 = 8.0;

/// A `.dot` file.
pub struct Dot;

impl Exporter for Dot {
    fn name(&self) -> &'static str {
        "dot"
    }
    fn about(&self) -> &'static str {
        "graph of the tasks for Graphviz, grouped by the part of the machine they are on"
    }
    fn usage(&self) -> &'static str {
        "dot -Tsvg FILE"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let mut parts: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (index, task) in placement.mapping.tasks.iter().enumerate() {
            let pu = placement.topology.pu_on(&task.host, task.pu);
            parts.entry(pu.map_or(0, |pu| placement.topology.part_of(pu))).or_default().push(index);
        }
        let mut text = "digraph tasks {\n  node [shape=circle];\n".to_owned();
        for (part, tasks) in parts {
            let name = quoted(&label::node(placement.topology, part, true));
            let _ = writeln!(text, "  subgraph cluster_{part} {{\n    label={name};");
            for task in tasks.into_iter().map(|index| &placement.mapping.tasks[index]) {
                let words = quoted(&format!("{} {}\nPU {}", task.task, task.name, task.pu));
                let _ = writeln!(text, "    {} [label={words}];", task.task);
            }
            text += "  }\n";
        }
        let most = placement.weight.max() as f64;
        let id = |index: u32| placement.mapping.tasks[index as usize].task;
        for (source, destination, value) in placement.weight.iter() {
            let width = (value as f64 / most * THICKEST).max(0.1);
            let (source, destination) = (id(source), id(destination));
            let _ = writeln!(
                text,
                "  {source} -> {destination} [weight={}, penwidth={width:.2}, label={value}];",
                rank_weight(width)
            );
        }
        Ok(text + "}\n")
    }
}

/// How much Graphviz pulls the ends of an edge together: whole numbers of a moderate size are what it takes.
fn rank_weight(width: f64) -> u32 {
    width.ceil() as u32
}

/// The part of the machine that a PU is in, in words: `package P#1`.
pub fn part_name(placement: &Placement, pu: usize) -> String {
    label::node(placement.topology, placement.topology.part_of(pu), true)
}

/// A string in DOT: quotes and backslashes escaped, a newline as `\n`, other control characters as blanks.
fn quoted(words: &str) -> String {
    let letter = |c: char| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        c if c.is_control() => " ".to_owned(),
        c => c.to_string(),
    };
    format!("\"{}\"", words.chars().map(letter).collect::<String>())
}
