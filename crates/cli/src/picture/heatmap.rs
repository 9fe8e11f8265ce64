//! A matrix as a heat map in the terminal: rows give, columns take.
//!
//! Cells are as large as the terminal allows: with their numbers, two columns wide, or half a line each; where even
//! that is too large, a cell is the sum over a block of tasks.

use super::palette::Palette;
use super::text::{fit, short, width};
use cohabit_model::Matrix;

/// What is drawn, and on what.
pub struct HeatMap<'a> {
    /// The matrix, `[source][destination]`.
    pub matrix: &'a Matrix,
    /// Names of the tasks, by id; empty where the id says as much.
    pub names: &'a [String],
    /// What rows are: `writer`, `sender`.
    pub rows: &'a str,
    /// What columns are: `reader`, `receiver`.
    pub columns: &'a str,
    /// What is counted: `messages`, `bytes`.
    pub unit: &'a str,
    /// Colours to use.
    pub palette: Palette,
    /// Columns of the terminal.
    pub width: usize,
    /// Lines the picture may take.
    pub height: usize,
}

const NUMBER_COLUMNS: usize = 7;
const NAME_COLUMNS: usize = 14;
/// Values further apart than this are drawn by their logarithm.
const LINEAR_RANGE: f64 = 30.0;

/// How a cell is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Number,
    Wide,
    Half,
    Letter,
}

impl Cell {
    fn columns(self) -> usize {
        match self {
            Self::Number => NUMBER_COLUMNS,
            Self::Wide => 2,
            Self::Half | Self::Letter => 1,
        }
    }

    fn rows_a_line(self) -> usize {
        if self == Self::Half { 2 } else { 1 }
    }
}

impl HeatMap<'_> {
    /// The picture: axes, cells and a legend; lines end in newlines.
    pub fn draw(&self) -> String {
        let tasks = self.matrix.tasks();
        let labels = self.label_columns();
        let room = self.width.saturating_sub(labels + 1).max(8);
        let (cell, block) = self.layout(tasks, room);
        let cells = Cells::of(self.matrix, block);
        let mut out = self.column_axis(&cells, cell, labels);
        for row in (0..cells.side).step_by(cell.rows_a_line()) {
            let line: String = (0..cells.side).map(|column| self.cell(&cells, cell, row, column)).collect();
            out.push_str(&format!(
                "{} {}{}\n",
                self.row_label(&cells, cell, row, labels),
                self.without_blank_end(&line),
                self.palette.reset()
            ));
        }
        out.push_str(&self.legend(&cells, cell));
        out
    }

    /// Spaces at a line's end are nothing in letters, but cells in colours.
    fn without_blank_end<'a>(&self, line: &'a str) -> &'a str {
        if self.palette == Palette::Ascii { line.trim_end() } else { line }
    }

    /// The largest cells that fit, and how many tasks a cell holds each way.
    fn layout(&self, tasks: usize, room: usize) -> (Cell, usize) {
        let ascii = self.palette == Palette::Ascii;
        let smallest = if ascii { Cell::Letter } else { Cell::Half };
        let fits = |cell: Cell| tasks * cell.columns() <= room && tasks.div_ceil(cell.rows_a_line()) <= self.height;
        let all = [Cell::Number, Cell::Wide, smallest];
        if let Some(cell) = all.into_iter().find(|&cell| fits(cell) && (cell != Cell::Number || tasks <= 12)) {
            return (cell, 1);
        }
        let side = room.min(self.height.max(1) * smallest.rows_a_line()).max(1);
        let block = tasks.div_ceil(side);
        // Letters are twice as high as wide: two of them make a square.
        let square = ascii && tasks.div_ceil(block) * Cell::Wide.columns() <= room;
        (if square { Cell::Wide } else { smallest }, block)
    }

    fn label_columns(&self) -> usize {
        let longest = |names: &[String]| names.iter().map(|name| width(name)).max().unwrap_or(0);
        let last = self.matrix.tasks().saturating_sub(1).to_string().len();
        let longest = longest(self.names).min(NAME_COLUMNS);
        let names = if self.shows_names() && longest > 0 { 1 + longest } else { 0 };
        (1 + last + names).max(1 + self.rows.len())
    }

    fn shows_names(&self) -> bool {
        self.matrix.tasks() <= 64 && self.matrix.tasks() <= self.height && self.width >= 60
    }

    fn row_label(&self, cells: &Cells, cell: Cell, row: usize, columns: usize) -> String {
        let task = row * cells.block;
        if cells.block == 1 && cell.rows_a_line() == 1 && self.shows_names() {
            let digits = self.matrix.tasks().saturating_sub(1).to_string().len();
            let name = self.names.get(task).map_or("", String::as_str);
            return fit(&format!(" {task:>digits$} {name}"), columns);
        }
        let every = if cells.side <= 16 { cell.rows_a_line() } else { 8 };
        if row % every == 0 { format!("{task:>columns$}") } else { " ".repeat(columns) }
    }

    /// The name of the columns over them, then numbers where there is room for them.
    fn column_axis(&self, cells: &Cells, cell: Cell, labels: usize) -> String {
        let mut numbers = String::new();
        for column in 0..cells.side {
            let text = (column * cells.block).to_string();
            let at = column * cell.columns();
            match cell {
                Cell::Number => numbers.push_str(&format!("{text:^NUMBER_COLUMNS$}")),
                _ if numbers.len() + usize::from(column > 0) <= at && (column % 8 == 0 || cells.side <= 16) => {
                    numbers.push_str(&" ".repeat(at - numbers.len()));
                    numbers.push_str(&text);
                }
                _ => {}
            }
        }
        let row_axis = fit(&format!(" {}", self.rows), labels);
        let over = format!("{:>labels$} {}", "", self.palette.bold(self.columns));
        format!("{over}\n{} {}\n", self.palette.bold(&row_axis), self.palette.dim(numbers.trim_end()))
    }

    fn cell(&self, cells: &Cells, cell: Cell, row: usize, column: usize) -> String {
        let palette = self.palette;
        let strength = |row: usize| cells.strength(row, column);
        match cell {
            Cell::Half => match (strength(row), strength(row + 1)) {
                (None, None) => format!("{} ", palette.reset()),
                (Some(upper), None) => format!("{}{}▀", palette.reset(), palette.set(Some(upper), None)),
                (None, Some(lower)) => format!("{}{}▄", palette.reset(), palette.set(Some(lower), None)),
                (upper, lower) => format!("{}▀", palette.set(upper, lower)),
            },
            Cell::Letter => strength(row).map_or(' ', Palette::letter).to_string(),
            Cell::Wide if palette == Palette::Ascii => {
                let letter = strength(row).map_or(' ', Palette::letter);
                format!("{letter}{letter}")
            }
            Cell::Wide => match strength(row) {
                None => format!("{}{}", palette.reset(), palette.dim("· ")),
                strength => format!("{}  ", palette.set(None, strength)),
            },
            Cell::Number => self.number(cells, row, column),
        }
    }

    fn number(&self, cells: &Cells, row: usize, column: usize) -> String {
        let palette = self.palette;
        match cells.strength(row, column) {
            None => format!("{}{}", palette.reset(), palette.dim(&format!("{:^NUMBER_COLUMNS$}", "."))),
            Some(strength) => {
                let text = format!("{:^NUMBER_COLUMNS$}", short(cells.get(row, column)));
                format!("{}{}{text}", palette.set(None, Some(strength)), palette.readable(strength))
            }
        }
    }

    /// What the cells' letters, colours and blanks stand for: those that are drawn, and no others.
    fn legend(&self, cells: &Cells, cell: Cell) -> String {
        if cells.most == 0 {
            return format!("\n {} all zero\n", self.unit);
        }
        let scale = match (self.palette, cell) {
            (Palette::Ascii, Cell::Number) => String::new(),
            (Palette::Ascii, _) => format!(" {}", Self::letters(cells)),
            _ => format!(" {}", self.colours(cells)),
        };
        let nothing = match (self.palette, cell) {
            (_, Cell::Number) => ".",
            (Palette::Ascii, _) => "blank",
            (_, Cell::Wide) => "\u{b7}",
            _ => "no colour",
        };
        let nothing = if cells.values.contains(&0) { format!("; {nothing}: none") } else { String::new() };
        let block = match cells.block {
            1 => String::new(),
            block => {
                format!("\n each cell is the sum over {block} x {block} tasks: the terminal is too small for more")
            }
        };
        format!("\n {}{scale}{nothing}{block}\n", self.unit)
    }

    /// `12 .-+@ 4.00k`: the letters that occur, between the least value and the most.
    fn letters(cells: &Cells) -> String {
        let values = (0..cells.side).flat_map(|row| (0..cells.side).map(move |column| (row, column)));
        let strengths = values.filter_map(|(row, column)| cells.strength(row, column));
        let used: std::collections::HashSet<char> = strengths.map(Palette::letter).collect();
        let ramp: String = Palette::letters().filter(|letter| used.contains(letter)).collect();
        match cells.least == cells.most {
            true => format!("{ramp}: {}", short(cells.most)),
            false => format!("{} {ramp} {}{}", short(cells.least), short(cells.most), cells.scale()),
        }
    }

    fn colours(&self, cells: &Cells) -> String {
        // A linear scale starts at nothing, a logarithmic one cannot.
        let least = short(if cells.logarithmic { cells.least } else { 0 });
        let step = |at: u32| f64::from(at) / 23.0;
        let bar: String = (0..24).map(|at| self.palette.set(None, Some(step(at))) + " ").collect();
        format!("{least} {bar}{} {}{}", self.palette.reset(), short(cells.most), cells.scale())
    }
}

/// The matrix in blocks of tasks.
struct Cells {
    side: usize,
    block: usize,
    values: Vec<u128>,
    least: u128,
    most: u128,
    logarithmic: bool,
}

impl Cells {
    fn of(matrix: &Matrix, block: usize) -> Self {
        let block = block.max(1);
        let side = matrix.tasks().div_ceil(block);
        let mut values = vec![0u128; side * side];
        for (source, destination, value) in matrix.iter() {
            values[source as usize / block * side + destination as usize / block] += u128::from(value);
        }
        let present = || values.iter().copied().filter(|&value| value > 0);
        let (least, most) = (present().min().unwrap_or(0), present().max().unwrap_or(0));
        let logarithmic = most as f64 > least as f64 * LINEAR_RANGE;
        Self { side, block, values, least, most, logarithmic }
    }

    /// What is to be said of the scale.
    fn scale(&self) -> &'static str {
        if self.logarithmic { ", log scale" } else { "" }
    }

    fn get(&self, row: usize, column: usize) -> u128 {
        if row < self.side { self.values[row * self.side + column] } else { 0 }
    }

    /// From 0 to 1; none for zero.
    fn strength(&self, row: usize, column: usize) -> Option<f64> {
        let value = self.get(row, column) as f64;
        let (least, most) = (self.least as f64, self.most as f64);
        if value == 0.0 {
            None
        } else if self.logarithmic {
            Some((value / least).ln() / (most / least).ln())
        } else {
            Some(value / most)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(tasks: usize, palette: Palette, width: usize, height: usize) -> String {
        let ring = (0..tasks as u32).map(|id| (id, (id + 1) % tasks as u32, 1000 * u64::from(id + 1)));
        let matrix = Matrix::from_triplets(tasks, ring);
        let names: Vec<String> = (0..tasks).map(|id| format!("worker {id}")).collect();
        let (rows, columns, unit) = ("writer", "reader", "messages");
        HeatMap { matrix: &matrix, names: &names, rows, columns, unit, palette, width, height }.draw()
    }

    fn without_colours(text: &str) -> String {
        let mut parts = text.split('\x1b');
        let first = parts.next().unwrap_or_default().to_string();
        parts.fold(first, |out, part| out + part.split_once('m').map_or("", |(_, rest)| rest))
    }

    #[test]
    fn four_tasks_have_their_numbers() {
        let expected = "                reader\n writer            0      1      2      3\n \
            0 worker 0       .    1.00k    .      .\n 1 worker 1       .      .    2.00k    .\n \
            2 worker 2       .      .      .    3.00k\n 3 worker 3     4.00k    .      .      .\n\n \
            messages; .: none\n";
        let squeezed = |text: &str| text.lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>();
        let lines = |text: &str| {
            squeezed(text).iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(lines(&draw(4, Palette::Ascii, 80, 40)), lines(expected));
        assert_eq!(lines(&without_colours(&draw(4, Palette::TrueColour, 80, 40)))[2..6], lines(expected)[2..6]);
    }

    #[test]
    fn the_legend_is_of_what_is_drawn() {
        let legend = |picture: &str| picture.lines().skip_while(|line| !line.is_empty()).nth(1).unwrap().to_owned();
        let bar = " ".repeat(26);
        for (tasks, palette, expected) in [
            (4, Palette::Ascii, "messages; .: none".to_owned()),
            (20, Palette::Ascii, "messages 1.00k .:-=+*#%@ 20.0k; blank: none".to_owned()),
            (4, Palette::TrueColour, format!("messages 0{bar}4.00k; .: none")),
            (20, Palette::TrueColour, format!("messages 0{bar}20.0k; \u{b7}: none")),
            (60, Palette::TrueColour, format!("messages 1.00k{bar}60.0k, log scale; no colour: none")),
        ] {
            let picture = without_colours(&draw(tasks, palette, 80, 60));
            assert_eq!(legend(&picture).trim(), expected, "{tasks} {palette:?}");
        }
        let of = |value: fn(u32, u32) -> u64| {
            let entries = (0..20).flat_map(|a| (0..20).map(move |b| (a, b, value(a, b))));
            let matrix = Matrix::from_triplets(20, entries);
            let (names, rows, columns, unit) = (&[][..], "writer", "reader", "messages");
            let palette = Palette::Ascii;
            legend(&HeatMap { matrix: &matrix, names, rows, columns, unit, palette, width: 80, height: 40 }.draw())
        };
        assert_eq!(of(|a, b| u64::from(a != b) * 7), " messages @: 7; blank: none");
        assert_eq!(of(|_, _| 7), " messages @: 7");
        assert_eq!(of(|a, b| if a < b { 10 } else { 20 }), " messages 10 +@ 20");
    }

    #[test]
    fn the_last_column_keeps_its_colour() {
        for tasks in [4, 16] {
            let picture = draw(tasks, Palette::TrueColour, 80, 40);
            let row = picture.lines().nth(tasks).unwrap();
            assert!(row.contains("\x1b[48;2;") && row.ends_with(" \x1b[0m"), "{row:?}");
        }
    }

    #[test]
    fn it_never_is_wider_or_higher_than_the_terminal() {
        for tasks in [0, 1, 2, 4, 13, 16, 33, 64, 100, 512, 5000] {
            for palette in [Palette::Ascii, Palette::Colours256, Palette::TrueColour] {
                for (columns, lines) in [(80, 24), (60, 20), (200, 50), (120, 40)] {
                    let picture = without_colours(&draw(tasks, palette, columns, lines));
                    let cells: Vec<_> = picture.lines().skip(2).take_while(|line| !line.is_empty()).collect();
                    assert!(cells.len() <= lines, "{tasks} tasks take {} lines of {lines}", cells.len());
                    let widest = picture.lines().take(2 + cells.len()).map(width).max().unwrap_or(0);
                    assert!(widest <= columns, "{tasks} tasks take {widest} columns of {columns}:\n{picture}");
                }
            }
        }
    }

    #[test]
    fn blocks_are_said_and_sum_to_the_whole() {
        let picture = draw(512, Palette::Ascii, 80, 40);
        assert!(picture.contains("each cell is the sum over 13 x 13 tasks"), "{picture}");
        let matrix = Matrix::from_triplets(5, [(0, 0, 1), (4, 4, 2), (1, 3, 4)]);
        let cells = Cells::of(&matrix, 2);
        assert_eq!((cells.side, cells.values.iter().sum::<u128>(), cells.get(0, 1)), (3, 7, 4));
    }
}
