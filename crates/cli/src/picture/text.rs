//! Numbers and names as people read them.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Three digits and a decimal multiplier: `999`, `1.23k`, `45.6M`. At most 5 characters.
pub fn short(value: u128) -> String {
    const UNITS: [&str; 8] = ["", "k", "M", "G", "T", "P", "E", "Z"];
    let (mut value, mut unit) = (value as f64, 0);
    // 999.5 would be printed as 1000.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}{}", UNITS[unit])
}

/// The whole number with a comma at every third digit.
pub fn grouped(value: u128) -> String {
    let digits = value.to_string();
    let comma = |(at, digit): (usize, char)| {
        let separated = at > 0 && (digits.len() - at) % 3 == 0;
        separated.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

/// Without control characters: names come from files and must not steer the terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// `text` cut to `width` columns, the last one `~` where something is missing, and filled with spaces.
pub fn fit(text: &str, width: usize) -> String {
    let text = clean(text);
    let mut out = String::new();
    let mut used = 0;
    let too_long = text.width() > width;
    for letter in text.chars() {
        let columns = letter.width().unwrap_or(0);
        if used + columns > width - usize::from(too_long && width > 0) {
            break;
        }
        out.push(letter);
        used += columns;
    }
    if too_long && width > 0 {
        out.push('~');
        used += 1;
    }
    out + &" ".repeat(width - used)
}

/// Columns that `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short() {
        let cases = [(0, "0"), (999, "999"), (1000, "1.00k"), (1234, "1.23k"), (99_950, "100k"), (999_600, "1.00M")];
        for (value, expected) in cases {
            assert_eq!(short(value), expected);
        }
        assert!(short(u128::from(u64::MAX)).len() <= 5);
        assert_eq!((grouped(1), grouped(1234), grouped(123_456)), ("1".into(), "1,234".into(), "123,456".into()));
    }

    #[test]
    fn names_fit_their_column() {
        assert_eq!(fit("ab", 4), "ab  ");
        assert_eq!(fit("abcdef", 4), "abc~");
        assert_eq!(fit("日本語", 4), "日~ ");
        assert_eq!(fit("a\x1b[31m", 8), "a [31m  ");
        assert_eq!(fit("abc", 0), "");
    }
}
