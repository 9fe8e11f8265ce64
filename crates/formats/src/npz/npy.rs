//! The `.npy` array: a header with type, order and shape, then the elements (numpy.lib.format, versions 1.0 to 3.0).
//!
//! Read here and not by a library because what was at hand multiplies the shape without a check and parses nested
//! literals by recursion: a hostile header would end the process.

use cohabit_model::{Error, Result};
use std::io::Read;

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy itself refuses longer headers unless told otherwise.
const HEADER_LIMIT: usize = 10_000;

/// What an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `u`, and `b` (bool).
    Unsigned,
    /// `i`.
    Signed,
    /// `f`.
    Float,
    /// `S`: a byte string.
    Bytes,
}

/// An entry of a matrix: row, column, value.
pub type Entry = (u32, u32, u64);

/// The header of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// What an element is.
    pub kind: Kind,
    /// Bytes of one element.
    pub element_bytes: usize,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
    /// Whether the first index varies fastest.
    pub fortran: bool,
    /// Length of each dimension.
    pub shape: Vec<u64>,
    /// The product of the shape.
    pub elements: u64,
}

impl Header {
    /// Reads and checks the header at the start of `reader`; what follows it are the elements.
    ///
    /// # Errors
    /// What is wrong with it: no magic, an unknown version, a type that is no number, a shape that overflows.
    pub fn read(reader: &mut impl Read) -> Result<Self> {
        let mut start = [0; 8];
        reader.read_exact(&mut start).map_err(|error| cut_short(&error))?;
        if &start[..6] != MAGIC {
            return Err(Error::new("not a .npy array: it does not start with \\x93NUMPY"));
        }
        let length_bytes = match start[6] {
            1 => 2,
            2 | 3 => 4,
            version => return Err(Error::new(format!(".npy version {version} is not known"))),
        };
        let mut length = [0; 4];
        reader.read_exact(&mut length[..length_bytes]).map_err(|error| cut_short(&error))?;
        let length = u32::from_le_bytes(length) as usize;
        if length > HEADER_LIMIT {
            return Err(Error::new(format!("a .npy header of {length} bytes; at most {HEADER_LIMIT} are allowed")));
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).map_err(|error| cut_short(&error))?;
        let text = std::str::from_utf8(&text).map_err(|_| Error::new("the .npy header is not text"))?;
        Self::parse(text).map_err(|error| error.at(format_args!(".npy header {:?}", text.trim_end())))
    }

    fn parse(text: &str) -> Result<Self> {
        let (descr, order, shape) =
            (value_of(text, "descr")?, value_of(text, "fortran_order")?, value_of(text, "shape")?);
        let (big_endian, kind, element_bytes) = parse_type(descr)?;
        let fortran = if order.starts_with("True") {
            true
        } else if order.starts_with("False") {
            false
        } else {
            return Err(Error::new("fortran_order is neither True nor False"));
        };
        let shape = parse_shape(shape)?;
        let product = |bytes: u64, &length: &u64| bytes.checked_mul(length);
        let bytes = shape.iter().filter(|&&length| length != 0).try_fold(element_bytes as u64, product);
        if bytes.is_none() {
            return Err(Error::new("its shape overflows 64 bits"));
        }
        let elements = shape.iter().product();
        Ok(Self { kind, element_bytes, big_endian, fortran, shape, elements })
    }

    /// Bytes of all elements.
    pub fn data_bytes(&self) -> u64 {
        self.elements * self.element_bytes as u64
    }

    /// Calls `each` with every element's index in the file's order and its value as a count, and checks that nothing
    /// follows the last.
    ///
    /// # Errors
    /// An element that is no count (negative, fractional, not finite), data cut short or too long, or what `each` said.
    pub fn read_counts(&self, reader: &mut impl Read, mut each: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
        if self.kind == Kind::Bytes {
            return Err(Error::new("it holds strings, not numbers"));
        }
        let mut buffer = vec![0; self.element_bytes * 8192];
        let mut index = 0;
        while index < self.elements {
            let now = (self.elements - index).min(8192) as usize;
            let bytes = &mut buffer[..now * self.element_bytes];
            reader.read_exact(bytes).map_err(|error| cut_short(&error))?;
            for element in bytes.chunks_exact(self.element_bytes) {
                let value = self.count(element).map_err(|error| error.at(format_args!("element {index}")))?;
                each(index, value)?;
                index += 1;
            }
        }
        end_of(reader)
    }

    /// All elements as counts.
    ///
    /// # Errors
    /// As [`Header::read_counts`].
    pub fn counts(&self, reader: &mut impl Read) -> Result<Vec<u64>> {
        // Grows with what is really there: the header may promise anything.
        let mut values = Vec::with_capacity(self.elements.min(1 << 16) as usize);
        self.read_counts(reader, |_, value| {
            values.push(value);
            Ok(())
        })?;
        Ok(values)
    }

    /// The entries of a square matrix that are not zero, and how many rows there are.
    ///
    /// # Errors
    /// As [`Header::read_counts`]; also when it is not square, or not of `expected` rows where that is known.
    pub fn read_square(&self, reader: &mut impl Read, expected: Option<usize>) -> Result<(usize, Vec<Entry>)> {
        let &[rows, columns] = &self.shape[..] else {
            return Err(Error::new(format!("its shape is {:?}, expected two dimensions", self.shape)));
        };
        let wanted = expected.map_or(rows, |tasks| tasks as u64);
        if rows != wanted || columns != wanted || rows > u64::from(u32::MAX) {
            let expected = expected.map_or("a square".to_string(), |tasks| format!("[{tasks}, {tasks}]"));
            return Err(Error::new(format!("its shape is {:?}, expected {expected}", self.shape)));
        }
        let mut entries = Vec::new();
        self.read_counts(reader, |index, value| {
            if value != 0 {
                let (slow, fast) = ((index / columns) as u32, (index % columns) as u32);
                entries.push(if self.fortran { (fast, slow, value) } else { (slow, fast, value) });
            }
            Ok(())
        })?;
        Ok((rows as usize, entries))
    }

    /// The elements as the bytes they are, for byte strings and arrays of bytes.
    ///
    /// # Errors
    /// When they are anything else, cut short or too long.
    pub fn bytes(&self, reader: &mut impl Read) -> Result<Vec<u8>> {
        if self.kind != Kind::Bytes && (self.kind != Kind::Unsigned || self.element_bytes != 1) {
            return Err(Error::new("it holds numbers, not bytes"));
        }
        let mut bytes = Vec::new();
        reader.take(self.data_bytes()).read_to_end(&mut bytes).map_err(|error| cut_short(&error))?;
        if (bytes.len() as u64) < self.data_bytes() {
            return Err(Error::new("cut short"));
        }
        end_of(reader)?;
        Ok(bytes)
    }

    fn count(&self, element: &[u8]) -> Result<u64> {
        let mut little = [0; 8];
        for (at, byte) in element.iter().enumerate() {
            little[if self.big_endian { element.len() - 1 - at } else { at }] = *byte;
        }
        let bits = u64::from_le_bytes(little);
        match self.kind {
            Kind::Float if self.element_bytes == 4 => {
                crate::import::number::from_float(f64::from(f32::from_bits(bits as u32)))
            }
            Kind::Float => crate::import::number::from_float(f64::from_bits(bits)),
            Kind::Signed => {
                let unused = 64 - 8 * self.element_bytes;
                let signed = ((bits << unused) as i64) >> unused;
                u64::try_from(signed).map_err(|_| Error::new(format!("{signed} is negative, a count cannot be")))
            }
            _ => Ok(bits),
        }
    }
}

/// The bytes of an array: header and elements, little endian, in C order.
pub fn header_bytes(descr: &str, shape: &[usize]) -> Vec<u8> {
    let lengths: String = shape.iter().map(|length| length.to_string() + ", ").collect();
    let shape =
        if shape.len() == 1 { lengths.trim_end().to_string() } else { lengths.trim_end_matches(", ").to_string() };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Elements start at a multiple of 64 bytes, as NumPy aligns them.
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes
}

/// What follows `'key':` in the header's dictionary.
fn value_of<'a>(text: &'a str, key: &str) -> Result<&'a str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let after = quoted.iter().find_map(|quoted| text.split_once(quoted.as_str())).map(|(_, after)| after.trim_start());
    let value = after.and_then(|after| after.strip_prefix(':'));
    value.map(str::trim_start).ok_or_else(|| Error::new(format!("no '{key}'")))
}

fn parse_type(descr: &str) -> Result<(bool, Kind, usize)> {
    let unknown = || Error::new("its type is not a plain number").remedy("convert it with numpy's astype('u8') first");
    let quote = descr.chars().next().filter(|quote| matches!(quote, '\'' | '"')).ok_or_else(unknown)?;
    let descr = descr[1..].split(quote).next().unwrap_or_default();
    let big_endian = descr.starts_with('>');
    let plain = descr.trim_start_matches(['<', '>', '|', '=']);
    let letter = plain.chars().next().ok_or_else(unknown)?;
    let bytes: usize = plain[letter.len_utf8()..].parse().map_err(|_| unknown())?;
    let kind = match (letter, bytes) {
        ('u', 1 | 2 | 4 | 8) | ('b', 1) => Kind::Unsigned,
        ('i', 1 | 2 | 4 | 8) => Kind::Signed,
        ('f', 4 | 8) => Kind::Float,
        ('S', 1..=0x7fff_ffff) => Kind::Bytes,
        _ => return Err(unknown()),
    };
    Ok((big_endian, kind, bytes))
}

fn parse_shape(text: &str) -> Result<Vec<u64>> {
    let bad = || Error::new("its shape is not a tuple of lengths");
    let inside =
        text.strip_prefix('(').and_then(|rest| rest.split_once(')')).map(|(inside, _)| inside).ok_or_else(bad)?;
    let lengths = inside.split(',').map(str::trim).filter(|length| !length.is_empty());
    let shape: Vec<u64> = lengths.map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
    if shape.len() > 8 { Err(Error::new(format!("it has {} dimensions", shape.len()))) } else { Ok(shape) }
}

fn end_of(reader: &mut impl Read) -> Result<()> {
    // Reading on to the end is also what makes the zip reader check its checksum.
    match reader.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Error::new("there is more data than its shape says")),
        Err(error) => Err(cut_short(&error)),
    }
}

fn cut_short(error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::new("cut short"),
        _ => Error::new(format!("damaged: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Header> {
        Header::parse(text)
    }

    #[test]
    fn what_is_written_is_read() {
        for shape in [vec![], vec![0], vec![3], vec![2, 5], vec![4096, 4096]] {
            let bytes = header_bytes("<u8", &shape);
            assert_eq!(bytes.len() % 64, 0);
            let header = Header::read(&mut bytes.as_slice()).unwrap();
            assert_eq!(header.shape, shape.iter().map(|&length| length as u64).collect::<Vec<_>>());
            assert_eq!((header.kind, header.element_bytes, header.big_endian), (Kind::Unsigned, 8, false));
        }
    }

    #[test]
    fn every_number_type_gives_its_count() {
        let cases: [(&str, &[u8], u64); 9] = [
            ("|u1", &[200], 200),
            ("|b1", &[1], 1),
            ("<u2", &[1, 2], 0x201),
            (">u2", &[1, 2], 0x102),
            (">u8", &[0, 0, 0, 0, 0, 0, 1, 0], 256),
            ("<i4", &[5, 0, 0, 0], 5),
            ("<i8", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], i64::MAX as u64),
            ("<f4", &[0, 0, 0x80, 0x3f], 1),
            (">f8", &[0x40, 0, 0, 0, 0, 0, 0, 0], 2),
        ];
        for (descr, bytes, expected) in cases {
            let header = parse(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}")).unwrap();
            assert_eq!(header.counts(&mut &bytes[..]).unwrap(), [expected], "{descr}");
        }
    }

    #[test]
    fn what_is_no_count_says_which_element() {
        let cases: [(&str, &[u8], &str); 6] = [
            ("|i1", &[1, 0xfe], "element 1: -2 is negative"),
            ("<f4", &[0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f], "element 1: NaN"),
            ("<f4", &[0, 0, 0, 0x3f, 0, 0, 0, 0], "element 0: 0.5"),
            ("|u1", &[1], "cut short"),
            ("|u1", &[1, 2, 3], "more data than its shape"),
            ("|S1", &[1, 2], "strings"),
        ];
        for (descr, bytes, expected) in cases {
            let header = parse(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}")).unwrap();
            let error = header.counts(&mut &bytes[..]).unwrap_err();
            assert!(error.cause.contains(expected), "{descr}: {}", error.cause);
        }
    }

    #[test]
    fn hostile_headers_are_errors() {
        let cases = [
            ("{'descr': '<u8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "overflows"),
            ("{'descr': '<u8', 'fortran_order': False, 'shape': (0, 18446744073709551615, 2), }", "overflows"),
            ("{'descr': '<u8', 'fortran_order': False, 'shape': (18446744073709551616,), }", "tuple of lengths"),
            ("{'descr': '<u8', 'fortran_order': False, 'shape': (-1,), }", "tuple of lengths"),
            ("{'descr': '<u8', 'fortran_order': False, 'shape': 3, }", "tuple of lengths"),
            ("{'descr': '<u8', 'fortran_order': 1, 'shape': (), }", "neither True nor False"),
            ("{'descr': [('a', '<u8')], 'fortran_order': False, 'shape': (), }", "plain number"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (), }", "plain number"),
            ("{'descr': '<c16', 'fortran_order': False, 'shape': (), }", "plain number"),
            ("{'descr': 'é8', 'fortran_order': False, 'shape': (), }", "plain number"),
            ("{'fortran_order': False, 'shape': (), }", "no 'descr'"),
            ("((((((((((((((((", "no 'descr'"),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.cause.contains(expected), "{text}: {}", error.cause);
        }
        let long = [MAGIC, &[2, 0], &u32::MAX.to_le_bytes()].concat();
        assert!(Header::read(&mut long.as_slice()).unwrap_err().cause.contains("at most 10000"));
    }
}
