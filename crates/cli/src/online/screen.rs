//! What `cohabit top` draws: figures, the matrix as a heat map, where the tasks are, and what was decided.

use super::Snapshot;
use cohabit_model::topology::Level;
use cohabit_model::{Topology, counted};
use cohabit_online::placer::Held;
use cohabit_online::sure::Sureness;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shades from little to much; nothing is blank.
const SHADES: [Color; 6] = [
    Color::Indexed(17),
    Color::Indexed(19),
    Color::Indexed(27),
    Color::Indexed(44),
    Color::Indexed(220),
    Color::Indexed(196),
];
/// Columns of a cell of the heat map.
const CELL: usize = 2;

/// Events a second, from one look to the next.
#[derive(Debug, Default)]
pub struct Rates {
    last: Option<(Duration, u64, u64, u64)>,
    faults: f64,
    events: f64,
    protected: f64,
}

impl Rates {
    /// Adds a look; rates are over half a second at least.
    pub fn update(&mut self, now: &Snapshot) {
        let sums = (now.time, now.counters.faults, now.counters.events, now.pages_protected);
        let Some(last) = self.last else {
            self.last = Some(sums);
            return;
        };
        let elapsed = now.time.saturating_sub(last.0).as_secs_f64();
        if elapsed >= 0.5 {
            self.faults = (sums.1 - last.1) as f64 / elapsed;
            self.events = (sums.2 - last.2) as f64 / elapsed;
            self.protected = (sums.3 - last.3) as f64 / elapsed;
            self.last = Some(sums);
        }
    }
}

/// Draws the moment.
pub fn draw(frame: &mut Frame, now: &Snapshot, rates: &Rates) {
    let [figures, middle, log] =
        Layout::vertical([Constraint::Length(4), Constraint::Min(6), Constraint::Length(9)]).areas(frame.area());
    let [matrix, placement] =
        Layout::horizontal([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(middle);
    frame.render_widget(Paragraph::new(figure_lines(now, rates)), figures);
    let block = Block::bordered().title(" who communicates ");
    frame.render_widget(Paragraph::new(heat_map(now, block.inner(matrix))).block(block), matrix);
    let block = Block::bordered().title(" where they are ");
    frame.render_widget(Paragraph::new(places(now)).block(block), placement);
    let block = Block::bordered().title(" decisions ");
    frame.render_widget(Paragraph::new(decisions(now, block.inner(log).height.into())).block(block), log);
}

fn figure_lines(now: &Snapshot, rates: &Rates) -> Vec<Line<'static>> {
    let cpu = 100.0 * now.own_cpu.as_secs_f64() / now.time.as_secs_f64().max(0.001);
    vec![
        Line::from(format!(
            "cohabit top  {:.0} s  {}  {}  {}  next look in {} ms",
            now.time.as_secs_f64(),
            now.source,
            counted(now.tasks.living.len(), "task"),
            counted(now.moves as usize, "move"),
            now.interval.as_millis()
        ))
        .style(Style::new().add_modifier(Modifier::BOLD)),
        Line::from(format!(
            "page faults {:.0}/s  events {:.0}/s  pages protected {:.0}/s  events lost {}  own CPU {cpu:.2} % of one PU",
            rates.faults, rates.events, rates.protected, now.counters.events_lost
        )),
        Line::from(how_sure(now.sure)),
    ]
}

/// Of how many pairs it is known whether they communicate, and when it will be of the rest.
fn how_sure(sure: Sureness) -> String {
    let left = match sure.seconds_left {
        _ if sure.is_sure() => String::new(),
        Some(seconds) => format!("  the rest in some {seconds:.0} s"),
        None => "  too little was seen yet to say when the rest is".to_owned(),
    };
    format!("{} of {} pairs told apart{left}", sure.told, sure.pairs)
}

/// The tasks that fit, by their number, and a coloured cell for each pair.
fn heat_map(now: &Snapshot, area: Rect) -> Vec<Line<'static>> {
    const NAME: usize = 22;
    let fit = (usize::from(area.height).saturating_sub(1)).min((usize::from(area.width).saturating_sub(NAME)) / CELL);
    let tasks: Vec<u32> = now.tasks.living.keys().copied().take(fit).collect();
    let weights: BTreeMap<(u32, u32), f64> = now.matrix.iter().map(|(a, b, events)| ((a, b), events)).collect();
    let most = weights.values().copied().fold(0.0, f64::max);
    let header: String = tasks.iter().map(|task| format!("{:>CELL$}", task % 100)).collect();
    let mut lines = vec![Line::from(format!("{:NAME$}{header}", "task"))];
    for &row in &tasks {
        let living = &now.tasks.living[&row];
        let mut name: String = living.name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(13).collect();
        name = format!("{row:>4} {name:<16} ");
        let mut spans = vec![Span::raw(format!("{name:<NAME$}"))];
        for &column in &tasks {
            let events = weights.get(&(row.min(column), row.max(column))).copied().unwrap_or(0.0);
            spans.push(cell(if row == column { 0.0 } else { events }, most));
        }
        lines.push(Line::from(spans));
    }
    let hidden = now.tasks.living.len() - tasks.len();
    if hidden > 0 {
        lines.pop();
        lines.push(Line::from(format!("and {} more", hidden + 1)));
    }
    lines
}

fn cell(events: f64, most: f64) -> Span<'static> {
    if events <= 0.0 || most <= 0.0 {
        return Span::raw(" ".repeat(CELL));
    }
    let shade = (events / most * SHADES.len() as f64).ceil() as usize;
    Span::styled(" ".repeat(CELL), Style::new().bg(SHADES[shade.clamp(1, SHADES.len()) - 1]))
}

/// A line a PU, under its package or NUMA node, with the tasks on it; those that cohabit placed are marked.
fn places(now: &Snapshot) -> Vec<Line<'static>> {
    let mut on: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (task, living) in &now.tasks.living {
        let mark = match living.held {
            Held::Ours(_) => "*",
            Held::Own => "!",
            Held::Free => "",
        };
        if let Some(pu) = living.pu {
            on.entry(pu).or_default().push(format!("{task}{mark}"));
        }
    }
    let mut lines = vec![Line::from("* placed by cohabit   ! by the program")];
    let mut last = None;
    for (index, pu) in now.topology.pus.iter().enumerate().filter(|(_, pu)| on.contains_key(&pu.os_index)) {
        let group = group(now.topology, index);
        if group != last {
            lines.extend(group.clone().map(Line::from));
            last = group;
        }
        lines.push(Line::from(format!("  PU {:<4} {}", pu.os_index, on[&pu.os_index].join(" "))));
    }
    lines
}

/// The package, or else the NUMA node, that a PU is in.
fn group(topology: &Topology, pu: usize) -> Option<String> {
    [Level::Package, Level::Numa].into_iter().find_map(|level| {
        let node = &topology.nodes[topology.ancestor(pu, level)?];
        Some(format!("{} {}", level.name(), node.os_index.map_or(String::new(), |index| index.to_string())))
    })
}

fn decisions(now: &Snapshot, lines: usize) -> Vec<Line<'static>> {
    let entries = &now.log.entries;
    let last = entries.iter().skip(entries.len().saturating_sub(lines));
    last.map(|entry| Line::from(format!("{:>8.2} s  {}", entry.time_ms as f64 / 1000.0, entry.text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::online::Log;
    use crate::online::tasks::Tasks;
    use cohabit_online::aging::AgedMatrix;
    use cohabit_online::faults::Counters;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn the_moment_is_drawn() {
        let topology = Topology::load("pack:2 core:2 pu:1").unwrap();
        let (mut tasks, mut matrix, mut log) = (Tasks::default(), AgedMatrix::default(), Log::new(true));
        for task in 0..3 {
            tasks.add_for_test(task, "solver", task, if task == 2 { Held::Ours(2) } else { Held::Free });
        }
        matrix.add(0, 2, 10);
        log.tell(Duration::from_secs(1), "moved", "moved 2 to PU 2".to_owned(), Vec::new());
        let mut rates = Rates::default();
        let mut draw_at = |time: u64, faults: u64| {
            let now = Snapshot {
                time: Duration::from_secs(time),
                topology: &topology,
                tasks: &tasks,
                matrix: &matrix,
                counters: Counters { faults, ..Counters::default() },
                log: &log,
                sure: Sureness { told: 2, pairs: 3, seconds_left: Some(4.2) },
                interval: Duration::from_millis(100),
                moves: 1,
                pages_protected: 0,
                source: "page faults",
                own_cpu: Duration::from_millis(10),
            };
            rates.update(&now);
            let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
            terminal.draw(|frame| draw(frame, &now, &rates)).unwrap();
            terminal.backend().to_string()
        };
        draw_at(1, 100);
        let screen = draw_at(2, 150);
        for text in [
            "2 of 3 pairs told apart  the rest in some 4 s",
            "page faults 50/s",
            "3 tasks",
            "1 move ",
            "solver",
            "PU 2    2*",
            "moved 2 to PU 2",
            "package 1",
        ] {
            assert!(screen.contains(text), "{text} in\n{screen}");
        }
        // A terminal too small for anything is no reason to fall over.
        Terminal::new(TestBackend::new(3, 2))
            .unwrap()
            .draw(|frame| frame.render_widget(Paragraph::new(""), frame.area()))
            .unwrap();
    }
}
