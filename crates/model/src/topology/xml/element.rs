//! XML as a tree of elements, by a parser that does not recurse: files nested deeper than any machine are refused,
//! where readers that follow the nesting overflow their stack.

use crate::{Error, Result};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Elements inside each other; machines have some ten levels.
pub(super) const MAX_DEPTH: usize = 64;

/// Elements of a document: a machine of a hundred thousand PUs has a million.
const MAX_ELEMENTS: usize = 2 << 20;

/// An element with all that is in it.
#[derive(Debug)]
pub(super) struct Element {
    pub tag: String,
    attributes: Vec<(String, String)>,
    /// The elements in it.
    pub children: Vec<Element>,
    /// The text in it, that of its children left out.
    pub text: String,
    /// Where it begins: line and column, from 1.
    place: (usize, usize),
}

impl Element {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The elements of this tag in it.
    pub fn all<'a>(&'a self, tag: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.tag == tag)
    }

    /// An error at this element's place.
    pub fn error(&self, cause: impl Into<String>) -> Error {
        Error::new(cause).at(format!("{}:{}", self.place.0, self.place.1))
    }
}

/// Reads the root element of a document.
///
/// # Errors
/// Where the text is not well-formed XML, or elements are nested more than [`MAX_DEPTH`] deep.
pub(super) fn parse(text: &str) -> Result<Element> {
    let mut reader = Reader::from_str(text);
    let mut places = Places { text, offset: 0, line: 1, line_start: 0 };
    let mut open: Vec<Element> = Vec::new();
    let mut elements = 0;
    loop {
        let start = reader.buffer_position() as usize;
        let event = reader.read_event();
        let place = places.at(start);
        let broken = |cause: String| Error::new(format!("not XML: {cause}")).at(format!("{}:{}", place.0, place.1));
        elements += 1;
        if elements > 2 * MAX_ELEMENTS {
            return Err(broken(format!("more than {MAX_ELEMENTS} elements, more than any machine has")));
        }
        let closed = match event.map_err(|error| broken(error.to_string()))? {
            Event::Start(tag) => {
                if open.len() == MAX_DEPTH {
                    return Err(broken(format!("elements nested more than {MAX_DEPTH} deep")));
                }
                open.push(element(&tag, place).map_err(broken)?);
                None
            }
            Event::Empty(tag) => Some(element(&tag, place).map_err(broken)?),
            Event::End(_) => open.pop(),
            Event::Text(words) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&words.decode().map_err(|error| broken(error.to_string()))?);
                }
                None
            }
            Event::Eof if open.is_empty() => return Err(broken("no element".into())),
            Event::Eof => return Err(broken(format!("<{}> is not closed", open[open.len() - 1].tag))),
            _ => None,
        };
        match (closed, open.last_mut()) {
            (Some(element), Some(parent)) => parent.children.push(element),
            (Some(root), None) => return Ok(root),
            (None, _) => {}
        }
    }
}

fn element(tag: &BytesStart, place: (usize, usize)) -> Result<Element, String> {
    let mut attributes = Vec::new();
    for attribute in tag.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute.unescape_value().map_err(|error| error.to_string())?;
        attributes.push((String::from_utf8_lossy(attribute.key.as_ref()).into_owned(), value.into_owned()));
    }
    let tag = String::from_utf8_lossy(tag.name().as_ref()).into_owned();
    Ok(Element { tag, attributes, children: Vec::new(), text: String::new(), place })
}

/// Turns ascending offsets into lines and columns, each part of the text looked at once.
struct Places<'a> {
    text: &'a str,
    offset: usize,
    line: usize,
    line_start: usize,
}

impl Places<'_> {
    fn at(&mut self, offset: usize) -> (usize, usize) {
        let new = &self.text.as_bytes()[self.offset..offset];
        self.line += new.iter().filter(|&&byte| byte == b'\n').count();
        if let Some(last) = new.iter().rposition(|&byte| byte == b'\n') {
            self.line_start = self.offset + last + 1;
        }
        self.offset = offset;
        (self.line, offset - self.line_start + 1)
    }
}
