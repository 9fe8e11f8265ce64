//! A picture as SVG, PNG or PDF, by the ending of the file's name.

use cohabit_model::file::write_whole;
use cohabit_model::{Error, Result};
use std::path::Path;
use std::sync::Arc;
use svg2pdf::usvg::{Options, Tree, fontdb};

/// Dots in a millimetre of a PNG: 400 in an inch.
const DOTS_A_MM: f32 = 400.0 / 25.4;
/// Dots in a millimetre as usvg counts: 96 in an inch.
const USVG_A_MM: f32 = 96.0 / 25.4;

/// What there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Drawn as it is.
    Svg,
    /// In dots.
    Png,
    /// For papers.
    Pdf,
}

/// By the ending.
///
/// # Errors
/// Where it is another.
pub fn format(path: &Path) -> Result<Format> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "svg" => Ok(Format::Svg),
        "png" => Ok(Format::Png),
        "pdf" => Ok(Format::Pdf),
        _ => {
            Err(Error::new(format!("{}: no kind of picture", path.display()))
                .remedy("end its name in .svg, .png or .pdf"))
        }
    }
}

/// Writes a picture, whole or not at all.
///
/// # Errors
/// Where it cannot be written, or there is no font to write its text with.
pub fn write(path: &Path, svg: &str) -> Result<()> {
    let bytes = match format(path)? {
        Format::Svg => svg.as_bytes().to_vec(),
        Format::Png => png(&tree(svg)?)?,
        Format::Pdf => {
            let options = svg2pdf::ConversionOptions::default();
            // Points: usvg's 96 dots are an inch.
            let page = svg2pdf::PageOptions { dpi: 96.0 };
            svg2pdf::to_pdf(&tree(svg)?, options, page).map_err(|error| Error::new(format!("making a PDF: {error}")))?
        }
    };
    write_whole(path, &bytes)
}

fn tree(svg: &str) -> Result<Tree> {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    let Some(family) = family(&fonts) else {
        return Err(Error::new("there is no font on this machine to write a picture's text with")
            .remedy("install one (Debian: fonts-dejavu-core), or name a file that ends in .svg"));
    };
    fonts.set_sans_serif_family(family);
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    Tree::from_str(svg, &options).map_err(|error| Error::new(format!("reading the picture: {error}")))
}

/// A family without serifs, else any.
fn family(fonts: &fontdb::Database) -> Option<String> {
    const WANTED: [&str; 5] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica"];
    let names = || fonts.faces().filter_map(|face| Some(face.families.first()?.0.clone()));
    let wanted = WANTED.iter().find_map(|wanted| names().find(|name| name == wanted));
    wanted.or_else(|| names().next())
}

fn png(tree: &Tree) -> Result<Vec<u8>> {
    let scale = DOTS_A_MM / USVG_A_MM;
    let [width, height] = [tree.size().width(), tree.size().height()].map(|side| (side * scale).ceil() as u32);
    let mut dots = resvg::tiny_skia::Pixmap::new(width, height).ok_or_else(|| {
        Error::new(format!("a picture of {width} x {height} dots is too large"))
            .remedy("make it narrower, with --width")
    })?;
    resvg::render(tree, resvg::tiny_skia::Transform::from_scale(scale, scale), &mut dots.as_mut());
    dots.encode_png().map_err(|error| Error::new(format!("making a PNG: {error}")))
}
