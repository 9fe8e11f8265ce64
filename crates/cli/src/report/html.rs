//! Words of HTML. Whatever comes from a file (names of tasks, functions, arms) is hostile until it went through
//! [`text`] or [`json`]: nothing here takes markup from outside.

use crate::picture::text::clean;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

/// What is longer is a sentence that begins with a number.
const LONGEST_NUMBER: usize = 40;

/// As text between tags and in quoted attributes, without control characters.
pub fn text(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for letter in clean(words).chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            // What turns the direction of all text after it.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

/// As JSON that may stand within `<script>`: nothing in it ends that element or begins a comment.
///
/// # Panics
/// Where `value` cannot be written as JSON, which nothing of ours is.
pub fn json(value: &impl Serialize) -> String {
    let plain = serde_json::to_string(value).expect("plain data");
    // Outside strings JSON has none of these.
    plain.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Bytes as text that is safe anywhere.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A picture within the page. As an image it runs no script, fetches nothing, and its styles stay its own.
pub fn picture(svg: &str, says: &str) -> String {
    format!(
        "<img class=\"picture\" loading=\"lazy\" decoding=\"async\" alt=\"{}\" src=\"data:image/svg+xml;base64,{}\">\n",
        text(says),
        base64(svg.as_bytes())
    )
}

/// A table: its head, then its rows. Cells are escaped here; those that begin with a digit or a sign stand on the
/// right.
pub fn table(caption: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let mut out =
        format!("<div class=\"wide\" tabindex=\"0\"><table><caption>{}</caption>\n<thead><tr>", text(caption));
    for cell in head {
        out += &format!("<th scope=\"col\">{}</th>", text(cell));
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in rows {
        out += "<tr>";
        for (at, cell) in row.iter().enumerate() {
            let begins = cell.starts_with(|letter: char| letter.is_ascii_digit() || "+-−<".contains(letter));
            let is_number = cell.is_empty() || begins && cell.len() < LONGEST_NUMBER;
            out += &match (at, is_number) {
                (0, _) => format!("<th scope=\"row\">{}</th>", text(cell)),
                (_, true) => format!("<td class=\"number\">{}</td>", text(cell)),
                (_, false) => format!("<td>{}</td>", text(cell)),
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

/// A paragraph.
pub fn paragraph(words: &str) -> String {
    format!("<p>{}</p>\n", text(words))
}

/// A command that can be copied.
pub fn command(words: &str) -> String {
    format!("<pre class=\"command\"><code>{}</code></pre>\n", text(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hostile_stays_text() {
        assert_eq!(
            text("</script><img src=x onerror='a()'>\x1b\u{202e}"),
            "&lt;/script&gt;&lt;img src=x onerror=&#39;a()&#39;&gt; \u{fffd}"
        );
        assert_eq!(json(&"</script><!--&"), "\"\\u003c/script\\u003e\\u003c!--\\u0026\"");
        let found = table("a<b", &["<i>"], &[vec!["<b>".into(), "-3".into(), "<u>".into()]]);
        assert!(!found.contains("<b>") && !found.contains("<i>") && !found.contains("<u>"), "{found}");
        assert!(found.contains("<td class=\"number\">-3</td>"));
        assert!(picture("<svg/>", "\"><script>").contains("alt=\"&quot;&gt;&lt;script&gt;\""));
    }

    #[test]
    fn no_text_becomes_markup() {
        // Whatever letters stand beside one another, each with each.
        let letters: Vec<char> = "<>&\"'/!-\\u{}\u{0}\u{1b}\u{2028}\u{202e}\u{feff}é漢😀a ".chars().collect();
        for a in &letters {
            for b in &letters {
                for words in [format!("{a}{b}"), format!("{b}script{a}{b}>{a}")] {
                    let found = text(&words);
                    assert!(!found.contains(['<', '>', '"', '\'']), "{found}");
                    let found = json(&words);
                    assert!(!found.contains(['<', '>', '&']), "{found}");
                    assert_eq!(serde_json::from_str::<String>(&found).unwrap(), words);
                }
            }
        }
    }
}
