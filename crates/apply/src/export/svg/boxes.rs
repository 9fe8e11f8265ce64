//! The machine as nested boxes in SVG, in the manner of lstopo: a box for each place with a bar for each level it is,
//! the distance of PUs that part there at the right. Self-contained: no font, style or script is fetched.

use super::super::xml::readable;
use cohabit_model::Topology;
use cohabit_model::topology::runs::Runs;
use cohabit_model::topology::{Level, NodeId, label};
use quick_xml::escape::escape;
use std::fmt::Write;

/// PUs up to which every box is drawn; beyond, siblings that look alike are one box and a count.
const DRAWN_PUS: usize = 512;

/// Height of a bar, of a PU's box, and the space between boxes, in pixels.
const BAR: f64 = 18.0;
const PU: f64 = 20.0;
const GAP: f64 = 6.0;
/// Side of the square that a task's circle takes.
pub(super) const CIRCLE: f64 = 24.0;
/// Width of a letter at the font size used, on average.
const LETTER: f64 = 7.0;
/// How much wider than high boxes are laid out.
const ASPECT: f64 = 1.7;

const STYLE: &str = "text{font:11px sans-serif;fill:#1a1a1a}.d{text-anchor:end;fill:#555}\
rect{stroke:#555;stroke-width:.7}.box{fill:#fff}.machine{fill:#e8e8e8}.package{fill:#d5dde8}.die,.group{fill:#e2ddea}\
.numa{fill:#f3dfc1}.cache{fill:#dfe9d8}.core{fill:#c9d3c4}.pu{fill:#fdfdf5}.slow{fill:#d7eef5}\
.off{fill:#bbb;stroke-dasharray:2 2}\
.edge{fill:none;stroke:#b03a2e;stroke-opacity:.55;stroke-linecap:round}circle{fill:#fff;stroke:#1a1a1a}\
.t{text-anchor:middle;font-size:10px}";

/// Draws the topology; a whole SVG document.
pub fn topology_svg(topology: &Topology) -> String {
    let boxes = Boxes::new(topology, topology.pus.len() <= DRAWN_PUS, &[]);
    let caption = match topology.matrix {
        Some(_) => "Distances come from a matrix: those at the boxes are its mean or largest",
        None => "The distance of two PUs is that of the innermost box with both of them",
    };
    document(&boxes, &format!("Topology: {} PUs", topology.pus.len()), caption, "")
}

/// The whole document: the boxes, what is drawn over them, a caption below.
pub(super) fn document(boxes: &Boxes, title: &str, caption: &str, over: &str) -> String {
    let root = &boxes.root;
    let width = root.width.max(caption.len() as f64 * LETTER) + 2.0 * GAP;
    let height = root.height + BAR + 2.0 * GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"box\" width=\"100%\" height=\"100%\" stroke=\"none\"/>\n"
    );
    boxes.draw(root, GAP, GAP, &mut svg);
    svg += over;
    text(&mut svg, GAP, height - GAP, "", caption);
    svg + "</svg>\n"
}

/// The machine laid out.
pub(super) struct Boxes<'a> {
    drawing: Drawing<'a>,
    root: Tile,
}

impl<'a> Boxes<'a> {
    /// Lays the machine out: every box, or where not `all` those that look alike once. `tasks` says how many circles
    /// each PU has room for; none of them where it is empty.
    pub fn new(topology: &'a Topology, all: bool, tasks: &'a [usize]) -> Self {
        let drawing = Drawing { topology, runs: Runs::new(topology), all, tasks };
        let root = drawing.lay_out(0, 1, true);
        Self { drawing, root }
    }

    fn draw(&self, tile: &Tile, x: f64, y: f64, svg: &mut String) {
        self.drawing.draw(tile, x, y, svg);
    }

    /// The centres of the circles of each PU, by index into `pus`.
    pub fn circles(&self) -> Vec<Vec<(f64, f64)>> {
        let mut circles = vec![Vec::new(); self.drawing.topology.pus.len()];
        self.drawing.circles(&self.root, GAP, GAP, &mut circles);
        circles
    }
}

/// A box with its place relative to the box it is in.
struct Tile {
    /// The nodes it is, outermost first: the last is a PU or branches.
    chain: Vec<NodeId>,
    labels: Vec<String>,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    inside: Vec<Tile>,
}

struct Drawing<'a> {
    topology: &'a Topology,
    runs: Runs<'a>,
    /// Every box is drawn, none stands for several.
    all: bool,
    /// Circles in each PU; empty where there are none at all.
    tasks: &'a [usize],
}

impl Drawing<'_> {
    /// Sizes the box of `node`, which stands for `count` that look alike, and places what is in it. `single`: the boxes
    /// around stand for one node each.
    fn lay_out(&self, node: NodeId, count: usize, single: bool) -> Tile {
        let chain = self.runs.chain(node);
        let single = single && count == 1;
        let mut labels: Vec<_> = chain.iter().map(|&id| label::node(self.topology, id, single)).collect();
        if count > 1 {
            labels[0] = format!("{count} × {}", labels[0]);
        }
        let end = chain[chain.len() - 1];
        let inside = self.inside(end, single);
        let distance = if inside.is_empty() { 0.0 } else { 14.0 };
        let letters = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0) as f64 + distance;
        let bars = labels.len() as f64 * BAR + if inside.is_empty() { PU - BAR } else { 0.0 };
        let (columns, rows) = self.circle_rows(end);
        let width = (letters * LETTER + GAP).max(columns as f64 * CIRCLE + GAP);
        let height = bars + rows as f64 * CIRCLE + if rows > 0 { GAP } else { 0.0 };
        let mut tile = Tile { chain, labels, x: 0.0, y: 0.0, width, height, inside };
        place(&mut tile);
        tile
    }

    /// Columns and rows of the circles in a node's box: of a PU where there are tasks. PUs without one have room too,
    /// so that boxes that look alike stay alike.
    fn circle_rows(&self, node: NodeId) -> (usize, usize) {
        let node = &self.topology.nodes[node];
        if node.level != Level::Pu || self.tasks.is_empty() {
            return (0, 0);
        }
        let tasks = self.tasks[node.pus.start].max(1);
        let columns = (tasks as f64).sqrt().ceil() as usize;
        (columns, tasks.div_ceil(columns))
    }

    fn circles(&self, tile: &Tile, x: f64, y: f64, circles: &mut [Vec<(f64, f64)>]) {
        let end = tile.chain[tile.chain.len() - 1];
        let (columns, rows) = self.circle_rows(end);
        if rows > 0 {
            let pu = self.topology.nodes[end].pus.start;
            let top = y + tile.height - GAP / 2.0 - rows as f64 * CIRCLE;
            let left = x + (tile.width - columns as f64 * CIRCLE) / 2.0;
            let centre = |index: usize| {
                let (row, column) = (index / columns, index % columns);
                (left + (column as f64 + 0.5) * CIRCLE, top + (row as f64 + 0.5) * CIRCLE)
            };
            circles[pu] = (0..self.tasks[pu]).map(centre).collect();
        }
        tile.inside.iter().for_each(|inner| self.circles(inner, x + inner.x, y + inner.y, circles));
    }

    fn inside(&self, node: NodeId, single: bool) -> Vec<Tile> {
        if self.all {
            return self.topology.nodes[node].children.iter().map(|&child| self.lay_out(child, 1, single)).collect();
        }
        let runs = self.runs.below(node);
        runs.iter().map(|run| self.lay_out(run.nodes[0], run.nodes.len(), single)).collect()
    }

    /// Writes a box at (`x`, `y`) and all that is in it.
    fn draw(&self, tile: &Tile, x: f64, y: f64, svg: &mut String) {
        rectangle(svg, x, y, tile.width, tile.height, "box");
        let mut top = y;
        for (&id, words) in tile.chain.iter().zip(&tile.labels) {
            let node = &self.topology.nodes[id];
            let high = if node.level == Level::Pu { PU } else { BAR };
            rectangle(svg, x, top, tile.width, high, self.class(id));
            text(svg, x + 4.0, top + 13.0, "", words);
            top += high;
        }
        if let Some(&end) = tile.chain.last().filter(|_| !tile.inside.is_empty()) {
            let distance = format!("distance {}", self.topology.nodes[end].cost);
            text(svg, x + tile.width - 4.0, top - BAR + 13.0, "d", &distance);
        }
        tile.inside.iter().for_each(|inner| self.draw(inner, x + inner.x, y + inner.y, svg));
    }

    fn class(&self, id: NodeId) -> &'static str {
        let node = &self.topology.nodes[id];
        match node.level {
            Level::Switch | Level::Machine => "machine",
            Level::Package => "package",
            Level::Die => "die",
            Level::Group => "group",
            Level::Numa => "numa",
            Level::Core => "core",
            Level::Pu => {
                let pu = &self.topology.pus[node.pus.start];
                let fastest = self.topology.pus.iter().map(|pu| pu.core_kind).max();
                match pu.allowed {
                    false => "off",
                    true if Some(pu.core_kind) < fastest => "slow",
                    true => "pu",
                }
            }
            _ => "cache",
        }
    }
}

/// Places the boxes inside in rows under the bars and grows the tile around them: as many in a row as brings the whole
/// nearest to [`ASPECT`] times as wide as high and leaves little of the last row empty.
fn place(tile: &mut Tile) {
    let count = tile.inside.len();
    if count == 0 {
        return;
    }
    let (bars, narrowest) = (tile.height, tile.width);
    let badness = |tile: &mut Tile, columns: usize| {
        (tile.width, tile.height) = rows(&mut tile.inside, columns, bars);
        let aspect = tile.width.max(narrowest) / tile.height / ASPECT;
        aspect.max(aspect.recip()) * (count.next_multiple_of(columns) as f64 / count as f64)
    };
    let mut best = (1, f64::INFINITY);
    // No box is so narrow that more of them in a row would look better; and time stays linear in their number.
    for columns in 1..=count.min(64) {
        let badness = badness(tile, columns);
        if badness < best.1 {
            best = (columns, badness);
        }
    }
    (tile.width, tile.height) = rows(&mut tile.inside, best.0, bars);
    tile.width = tile.width.max(narrowest);
}

/// Places tiles in rows of `columns`, the first below `top`; returns width and height of what holds them.
fn rows(tiles: &mut [Tile], columns: usize, top: f64) -> (f64, f64) {
    let (mut right, mut y) = (0.0f64, top + GAP);
    for row in tiles.chunks_mut(columns) {
        let (mut x, mut height) = (GAP, 0.0f64);
        for tile in row {
            (tile.x, tile.y) = (x, y);
            x += tile.width + GAP;
            height = height.max(tile.height);
        }
        right = right.max(x);
        y += height + GAP;
    }
    (right, y)
}

fn rectangle(svg: &mut String, x: f64, y: f64, width: f64, height: f64, class: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"/>"
    );
}

pub(super) fn text(svg: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let words = readable(words);
    let words = escape(&words);
    let _ = writeln!(svg, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &str) -> Topology {
        let path = format!("{}/../../testdata/topologies/{name}", env!("CARGO_MANIFEST_DIR"));
        Topology::load(&path).unwrap_or_else(|error| panic!("{error}"))
    }

    fn count(svg: &str, what: &str) -> usize {
        svg.matches(what).count()
    }

    #[test]
    fn every_pu_is_a_box() {
        let svg = topology_svg(&load("hybrid-4p2-8e.xml"));
        assert_eq!((count(&svg, "class=\"pu\""), count(&svg, "class=\"slow\"")), (8, 8));
        assert!(svg.contains(">PU P#15<") && svg.contains(">L3 12 MiB<") && svg.contains(">distance 5<"));
        let svg = topology_svg(&load("cpuset-2x4x2-allowed-4.xml"));
        assert_eq!((count(&svg, "class=\"pu\""), count(&svg, "class=\"off\"")), (4, 12));
    }

    #[test]
    fn large_machines_show_what_is_alike_once() {
        let svg = topology_svg(&Topology::load("pack:64 l3:16 core:32 pu:2").unwrap());
        assert!(svg.contains(">64 × package<") && svg.contains(">2 × PU<"));
        assert_eq!(count(&svg, "class=\"pu\""), 1);
    }

    #[test]
    fn boxes_lie_in_their_box_and_not_on_each_other() {
        fn check(tile: &Tile) {
            for (number, a) in tile.inside.iter().enumerate() {
                assert!(a.x >= GAP && a.y >= GAP && a.x + a.width <= tile.width && a.y + a.height <= tile.height);
                for b in &tile.inside[..number] {
                    let apart = a.x >= b.x + b.width || b.x >= a.x + a.width || a.y >= b.y + b.height;
                    assert!(apart, "{:?} on {:?}", a.labels, b.labels);
                }
                check(a);
            }
        }
        for name in ["broadwell-2x14x2.xml", "hybrid-4p2-8e.xml", "epyc-1x4numa-8l3-64x2.xml"] {
            let topology = load(name);
            let root = Boxes::new(&topology, true, &[]).root;
            check(&root);
            let tasks: Vec<usize> = (0..topology.pus.len()).map(|pu| pu % 4).collect();
            check(&Boxes::new(&topology, true, &tasks).root);
            assert!(root.width < 4.0 * root.height && root.height < 2.0 * root.width, "{name}");
        }
    }
}
