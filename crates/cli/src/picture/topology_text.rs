//! The machine as a tree of text: a line for each place, the distance of PUs that part there in front. Siblings that
//! look alike are one line, and so is a node with those that are alone in it, so that a large machine fits a screen.

use super::label;
use cohabit_model::Topology;
use cohabit_model::topology::cluster::hostlist::compress;
use cohabit_model::topology::runs::{Run, Runs};
use cohabit_model::topology::{Level, NodeId};

/// NUMA nodes up to which their distances are shown as a table.
const TABLE: usize = 16;

/// Draws the tree; ends with a newline.
pub fn topology_text(topology: &Topology) -> String {
    let mut picture = Picture { topology, runs: Runs::new(topology), text: String::new() };
    picture.text += &format!("distance  {}\n", summary(topology));
    picture.line(&[0], "", true);
    picture.below(0, "", true);
    if topology.matrix.is_some() {
        picture.text += &distances(topology);
    }
    if let Some(distance) = topology.only_distance().filter(|_| topology.allowed().len() > 1) {
        picture.text +=
            &format!("\nEvery two allowed PUs are at distance {distance}: no placement is nearer than another.\n");
    }
    picture.text
}

struct Picture<'a> {
    topology: &'a Topology,
    runs: Runs<'a>,
    text: String,
}

impl Picture<'_> {
    /// The lines of all that is below the last node of `node`'s chain. `single`: the lines above stand for one node
    /// each.
    fn below(&mut self, node: NodeId, indent: &str, single: bool) {
        let end = self.end(node);
        let runs = self.runs.below(end);
        let last = runs.len().saturating_sub(1);
        for (number, run) in runs.into_iter().enumerate() {
            let (branch, beyond) = if number == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.line(&run.nodes, &format!("{indent}{branch}"), single);
            let Run { nodes } = run;
            self.below(nodes[0], &format!("{indent}{beyond}"), single && nodes.len() == 1);
        }
    }

    /// One line: the distance, how many there are, what they are, which PUs they hold.
    fn line(&mut self, nodes: &[NodeId], branch: &str, single: bool) {
        let topology = self.topology;
        let chain = self.runs.chain(nodes[0]);
        let end = &topology.nodes[self.end(nodes[0])];
        let distance = if end.level == Level::Pu { String::new() } else { end.cost.to_string() };
        let count = if nodes.len() > 1 { format!("{} × ", nodes.len()) } else { String::new() };
        let names: Vec<_> = chain.iter().map(|&id| label::node(topology, id, single && nodes.len() == 1)).collect();
        let mut line = format!("{distance:>8}  {branch}{count}{}", names.join(" · "));
        if end.level == Level::Pu {
            line += &label::peculiarity(topology, &topology.pus[end.pus.start]);
        }
        if single && nodes[0] != 0 && (end.level != Level::Pu || nodes.len() > 1) {
            line += &format!("   {}", self.held(nodes));
        }
        self.text += line.trim_end();
        self.text.push('\n');
    }

    /// What some nodes hold: the hosts of switches, the names of hosts, else PUs, of each node for a few, of all
    /// together for more.
    fn held(&self, nodes: &[NodeId]) -> String {
        let names = &self.topology.names;
        if nodes.len() > 1 && nodes.iter().all(|node| names.contains_key(node)) {
            return cut(compress(nodes.iter().map(|node| names[node].as_str())));
        }
        if self.topology.nodes[nodes[0]].level == Level::Switch {
            return cut(compress(
                self.topology
                    .hosts()
                    .filter(|host| self.topology.ancestors(host.0).any(|up| nodes.contains(&up)))
                    .map(|host| host.1),
            ));
        }
        let indices = |id: NodeId| {
            let pus = self.topology.nodes[id].pus.clone();
            self.topology.pus[pus].iter().map(|pu| pu.os_index)
        };
        let each = nodes.len() <= 4 && self.topology.nodes[nodes[0]].level != Level::Pu;
        let lists: Vec<_> = match each {
            true => nodes.iter().map(|&id| label::list(indices(id).collect())).collect(),
            false => vec![label::list(nodes.iter().flat_map(|&id| indices(id)).collect())],
        };
        cut(format!("P# {}", lists.join(" | ")))
    }

    fn end(&self, node: NodeId) -> NodeId {
        self.runs.chain(node).last().copied().unwrap_or(node)
    }
}

/// As much as fits a line.
fn cut(mut text: String) -> String {
    if let Some((cut, _)) = text.char_indices().nth(70) {
        text.truncate(cut);
        text += "...";
    }
    text
}

/// `56 PUs, 28 cores, 2 NUMA nodes; 4 PUs allowed`.
fn summary(topology: &Topology) -> String {
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut parts = vec![counted(topology.pus.len(), "PU")];
    if !topology.names.is_empty() {
        parts.push(counted(topology.hosts().count(), "host"));
    }
    for (level, what) in [(Level::Core, "core"), (Level::Numa, "NUMA node"), (Level::Package, "package")] {
        let count = topology.nodes_at(level).count();
        if count > 0 {
            parts.push(counted(count, what));
        }
    }
    let allowed = topology.allowed();
    let mut text = parts.join(", ");
    if allowed.len() < topology.pus.len() {
        let list = label::list(allowed.iter().map(|&pu| topology.pus[pu].os_index).collect());
        text += &format!("; allowed: {} (P# {list})", allowed.len());
    }
    text
}

/// Distances that are no tree's: between NUMA nodes where there are not too many, else their range.
fn distances(topology: &Topology) -> String {
    let mut nodes: Vec<(u32, usize)> = Vec::new();
    for pu in 0..topology.pus.len() {
        let node = topology.ancestor(pu, Level::Numa).and_then(|node| topology.nodes[node].os_index);
        if let Some(os_index) = node.filter(|os_index| !nodes.iter().any(|(known, _)| known == os_index)) {
            nodes.push((os_index, pu));
        }
    }
    if nodes.is_empty() || nodes.len() > TABLE {
        let matrix = topology.matrix.as_deref().unwrap_or_default();
        let nearest = matrix.iter().filter(|&&distance| distance > 0).min().unwrap_or(&0);
        let farthest = matrix.iter().max().unwrap_or(&0);
        return format!(
            "\nDistances between PUs come from a matrix, from {nearest} to {farthest}; the tree has no part in them.\n"
        );
    }
    let mut text = String::from("\nBetween NUMA nodes (from row, to column; the tree shows their mean):\n      ");
    nodes.iter().for_each(|(os_index, _)| text += &format!("{os_index:>6}"));
    for (from, a) in &nodes {
        text += &format!("\n{from:>6}");
        for (to, b) in &nodes {
            let distance = if from == to { "-".to_owned() } else { topology.distance(*a, *b).to_string() };
            text += &format!("{distance:>6}");
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> String {
        let path = format!("{}/../../testdata/topologies/{name}", env!("CARGO_MANIFEST_DIR"));
        topology_text(&Topology::load(&path).unwrap_or_else(|error| panic!("{error}")))
    }

    #[test]
    fn a_symmetric_machine_is_a_line_a_level() {
        let expected = "\
distance  56 PUs, 28 cores, 2 NUMA nodes, 2 packages
      20  machine
       5  └─ 2 × package · NUMA node 64 GiB · L3 35 MiB   P# 0-13,28-41 | 14-27,42-55
       1     └─ 14 × L2 256 KiB · core
                └─ 2 × PU
";
        assert_eq!(fixture("broadwell-2x14x2.xml"), expected);
    }

    #[test]
    fn unequal_cores_have_their_own_lines() {
        let expected = "\
distance  16 PUs, 12 cores, 1 NUMA node, 1 package
       5  machine · package P#0 · NUMA node P#0 16 GiB · L3 12 MiB
       1  ├─ 4 × L2 1.2 MiB · core   P# 0-1 | 2-3 | 4-5 | 6-7
          │  └─ 2 × PU (kind 1)
       3  └─ 2 × L2 2 MiB   P# 8-11 | 12-15
             └─ 4 × core · PU (kind 0)
";
        assert_eq!(fixture("hybrid-4p2-8e.xml"), expected);
    }

    #[test]
    fn what_is_not_allowed_is_marked() {
        let expected = "\
distance  16 PUs, 8 cores, 2 NUMA nodes, 2 packages; allowed: 4 (P# 0-1,8-9)
      20  machine
       5  ├─ package P#0 · NUMA node P#0 8 GiB · L3 16 MiB   P# 0-3,8-11
       1  │  ├─ 2 × core   P# 0,8 | 1,9
          │  │  └─ 2 × PU
       1  │  └─ 2 × core   P# 2,10 | 3,11
          │     └─ 2 × PU (not allowed)
       5  └─ package P#1 · NUMA node P#1 8 GiB · L3 16 MiB   P# 4-7,12-15
       1     └─ 4 × core   P# 4,12 | 5,13 | 6,14 | 7,15
                └─ 2 × PU (not allowed)
";
        assert_eq!(fixture("cpuset-2x4x2-allowed-4.xml"), expected);
    }

    #[test]
    fn distances_that_are_no_trees_are_a_table() {
        let text = fixture("opteron-ring-4numa-slit.xml");
        let table = "
Between NUMA nodes (from row, to column; the tree shows their mean):
           0     1     2     3
     0     -    16    22    16
     1    16     -    16    22
     2    22    16     -    16
     3    16    22    16     -
";
        assert!(text.ends_with(table), "{text}");
        let text = topology_text(&Topology::parse_text("matrix:\n0,1\n7,0").unwrap());
        assert!(text.contains("come from a matrix, from 1 to 7"), "{text}");
    }

    #[test]
    fn a_machine_with_one_distance_says_so() {
        let text = topology_text(&Topology::load("l3:1 core:2 pu:1").unwrap());
        assert!(
            text.ends_with("\nEvery two allowed PUs are at distance 5: no placement is nearer than another.\n"),
            "{text}"
        );
    }

    #[test]
    fn a_cluster_shows_its_hosts() {
        let expected = "\
distance  16 PUs, 8 hosts, 16 cores, 16 packages
     400  switch cisco
     200  ├─ switch netgear1   xserve[1-5]
      20  │  └─ 5 × host   xserve[1-5]
          │     └─ 2 × package · core · PU
     200  └─ switch netgear2   xserve[6-8]
      20     └─ 3 × host   xserve[6-8]
                └─ 2 × package · core · PU
";
        assert_eq!(fixture("../clusters/xserve.toml"), expected);
    }

    #[test]
    fn large_machines_fit_a_screen() {
        for machine in ["pack:2 numa:4 l3:4 l2:4 core:1 pu:2", "pack:64 l3:16 core:32 pu:2", "pu:100000"] {
            let text = topology_text(&Topology::load(machine).unwrap());
            assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 120), "{text}");
        }
        assert!(fixture("epyc-1x4numa-8l3-64x2.xml").lines().count() <= 24);
    }
}
