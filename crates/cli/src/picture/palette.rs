//! Colours by what the terminal can show: 24 bits, 256, or none but letters.

use crate::output;

/// What a picture may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// Any colour (COLORTERM is truecolor or 24bit).
    TrueColour,
    /// The 6 x 6 x 6 cube of 256-colour terminals.
    Colours256,
    /// Letters only: no terminal, no colours wanted, or a terminal that knows none.
    Ascii,
}

/// From little to much: dark blue over green to pale yellow, ever lighter, so that it reads without seeing hues too.
const GRADIENT: [[u8; 3]; 6] =
    [[44, 50, 112], [36, 88, 150], [24, 134, 142], [74, 184, 104], [190, 214, 56], [255, 246, 180]];
/// Colours of things that are told apart, whatever one's eyes (Okabe and Ito, "Color universal design", 2008).
pub const CATEGORIES: [[u8; 3]; 7] =
    [[0, 114, 178], [230, 159, 0], [0, 158, 115], [213, 94, 0], [86, 180, 233], [204, 121, 167], [240, 228, 66]];
/// Of none of them.
pub const NO_CATEGORY: [u8; 3] = [150, 150, 150];
/// The same for letters: ever more ink.
const LETTERS: &[u8] = b".:-=+*#%@";

impl Palette {
    /// What standard output can show, by `--color` and the environment.
    pub fn detect() -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let (coloured, forced) = (output::stdout_is_coloured(), output::colours_are_forced());
        Self::choose(coloured, forced, &variable("COLORTERM"), &variable("TERM"))
    }

    fn choose(coloured: bool, forced: bool, colorterm: &str, term: &str) -> Self {
        if !coloured || !forced && (term.is_empty() || term == "dumb") {
            Self::Ascii
        } else if matches!(colorterm, "truecolor" | "24bit") || term.ends_with("-direct") {
            Self::TrueColour
        } else if forced || term.contains("256") || !colorterm.is_empty() {
            Self::Colours256
        } else {
            Self::Ascii
        }
    }

    /// The letters there are, from the least to the most.
    pub fn letters() -> impl Iterator<Item = char> {
        LETTERS.iter().copied().map(char::from)
    }

    /// The letter for a strength from 0 to 1.
    pub fn letter(strength: f64) -> char {
        let last = LETTERS.len() - 1;
        char::from(LETTERS[((strength * last as f64).round() as usize).min(last)])
    }

    /// Sets foreground, background or both for strengths from 0 to 1; empty without colours.
    pub fn set(self, foreground: Option<f64>, background: Option<f64>) -> String {
        let of = |role: u8, strength: Option<f64>| {
            strength.map_or(String::new(), |strength| self.code(role, colour(strength)))
        };
        of(38, foreground) + &of(48, background)
    }

    /// Sets the foreground for the n-th of several things that are told apart; grey for none of them.
    pub fn category(self, number: Option<usize>) -> String {
        self.code(38, number.map_or(NO_CATEGORY, |number| CATEGORIES[number % CATEGORIES.len()]))
    }

    /// Sets black or white letters, whichever can be read on this strength.
    pub fn readable(self, strength: f64) -> String {
        let [red, green, blue] = colour(strength).map(f64::from);
        let light = 0.299 * red + 0.587 * green + 0.114 * blue > 120.0;
        self.code(38, if light { [0, 0, 0] } else { [255, 255, 255] })
    }

    /// Back to the terminal's own colours.
    pub fn reset(self) -> &'static str {
        if self == Self::Ascii { "" } else { "\x1b[0m" }
    }

    /// `text` in bold.
    pub fn bold(self, text: &str) -> String {
        if self == Self::Ascii { text.into() } else { format!("\x1b[1m{text}\x1b[0m") }
    }

    /// `text` dimmed.
    pub fn dim(self, text: &str) -> String {
        if self == Self::Ascii { text.into() } else { format!("\x1b[2m{text}\x1b[0m") }
    }

    fn code(self, role: u8, [red, green, blue]: [u8; 3]) -> String {
        match self {
            Self::TrueColour => format!("\x1b[{role};2;{red};{green};{blue}m"),
            Self::Colours256 => format!("\x1b[{role};5;{}m", cube([red, green, blue])),
            Self::Ascii => String::new(),
        }
    }
}

fn colour(strength: f64) -> [u8; 3] {
    let place = strength.clamp(0.0, 1.0) * (GRADIENT.len() - 1) as f64;
    let below = (place as usize).min(GRADIENT.len() - 2);
    let share = place - below as f64;
    std::array::from_fn(|channel| {
        let (from, to) = (f64::from(GRADIENT[below][channel]), f64::from(GRADIENT[below + 1][channel]));
        (from + share * (to - from)).round() as u8
    })
}

/// The nearest colour of xterm's cube, whose levels are 0, 95, 135, 175, 215, 255.
fn cube(colour: [u8; 3]) -> u32 {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest = |value: u8| (0..6u32).min_by_key(|&level| LEVELS[level as usize].abs_diff(value)).unwrap_or(0);
    let [red, green, blue] = colour.map(nearest);
    16 + 36 * red + 6 * green + blue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_decides() {
        let cases = [
            ((true, false, "truecolor", "xterm-256color"), Palette::TrueColour),
            ((true, false, "", "xterm-direct"), Palette::TrueColour),
            ((true, false, "", "screen-256color"), Palette::Colours256),
            ((true, false, "", "vt100"), Palette::Ascii),
            ((true, false, "", ""), Palette::Ascii),
            ((true, false, "truecolor", "dumb"), Palette::Ascii),
            ((true, true, "", ""), Palette::Colours256),
            ((true, true, "", "dumb"), Palette::Colours256),
            ((true, true, "truecolor", ""), Palette::TrueColour),
            ((false, false, "truecolor", "xterm-256color"), Palette::Ascii),
        ];
        for ((coloured, forced, colorterm, term), expected) in cases {
            assert_eq!(Palette::choose(coloured, forced, colorterm, term), expected, "{coloured} {colorterm} {term}");
        }
    }

    #[test]
    fn more_is_lighter() {
        let light = |step: u32| colour(f64::from(step) / 100.0).map(u32::from).iter().sum::<u32>();
        assert!((0..100).all(|step| light(step) < light(step + 1)));
        assert_eq!((cube([0, 0, 0]), cube([255, 255, 255]), cube([95, 135, 175])), (16, 231, 67));
        assert_eq!((Palette::letter(0.0), Palette::letter(1.0)), ('.', '@'));
        assert_eq!(Palette::Ascii.set(Some(0.5), Some(1.0)), "");
    }
}
