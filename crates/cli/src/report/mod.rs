//! `cohabit report`: all that is known of a program on one page, which opens from disk, fetches nothing and is whole
//! without scripts: what is written here are tables and pictures. `report.js` puts a matrix in the place of the
//! pictures that answers to pointer and keys, from the same data ([`payload`]).

mod data;
mod html;
mod measured;
mod observed;
mod payload;
mod placement;

pub use measured::Measured;
pub use observed::Observed;
pub use placement::Placed;

use crate::plotting::colour;
use serde_json::json;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// Shades of the map of colours, as the script takes them.
const SHADES: u32 = 256;

/// What is on the page.
pub struct Page<'a> {
    /// The profiles.
    pub observed: &'a [Observed],
    /// What was measured, simulated and compared.
    pub measured: &'a Measured,
    /// The command that makes this page.
    pub made_by: String,
}

/// A part of the page: what links name it, its heading, its content.
struct Section {
    id: String,
    title: String,
    html: String,
}

impl Page<'_> {
    /// The whole document.
    pub fn html(&self) -> String {
        let mut sections = Vec::new();
        for (number, observed) in self.observed.iter().enumerate() {
            sections.extend(observed.sections(number, self.observed.len() > 1));
        }
        sections.extend(self.measured.sections());
        sections.push(self.how_made());
        let title = match self.observed {
            [one] => format!("cohabit: {}", one.title()),
            several => format!("cohabit: {} profiles", several.len()),
        };
        let links: String = sections
            .iter()
            .map(|section| format!("<li><a href=\"#{}\">{}</a></li>\n", section.id, html::text(&section.title)))
            .collect();
        let body: String = sections
            .iter()
            .map(|section| {
                let (id, title) = (&section.id, html::text(&section.title));
                format!("<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}</h2>\n{}</section>\n", section.html)
            })
            .collect();
        // Data last: what is above is painted while it is read.
        let data: String = self.observed.iter().enumerate().map(|(number, one)| data::elements(number, one)).collect();
        let shades: Vec<String> = (0..SHADES).map(|at| hex(f64::from(at) / f64::from(SHADES - 1))).collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#content\">to the content</a>\n\
             <header><h1>{title}</h1>\n<noscript><p class=\"note\">Scripts are off: pictures do not answer to the \
             pointer; everything that they show is here.</p></noscript>\n</header>\n\
             <nav aria-label=\"parts of this page\"><ul>\n{links}</ul></nav>\n<main id=\"content\">\n{body}</main>\n\
             <script type=\"application/json\" id=\"shades\">{shades}</script>\n{data}\
             <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
            title = html::text(&title),
            shades = html::json(&json!(shades)),
        )
    }

    fn how_made(&self) -> Section {
        let mut out = html::paragraph("Options that a profile does not keep are not repeated here.");
        for observed in self.observed {
            out += &observed.made();
        }
        out += &self.measured.made();
        out += &html::paragraph("This page:");
        out += &html::command(&self.made_by);
        Section { id: "made".to_owned(), title: "How each was made".to_owned(), html: out }
    }
}

/// `#440154`, of a strength from 0 to 1.
fn hex(strength: f64) -> String {
    let shade = colour(strength);
    format!("#{:02x}{:02x}{:02x}", shade.0, shade.1, shade.2)
}

#[cfg(test)]
mod tests;
