//! Sets of PUs and NUMA nodes as hwloc writes them: 32-bit words in hexadecimal, the highest first, separated by commas
//! (`0x00000001,0xffff0000`); `0xf...f` in front means that all higher bits are set, too.

/// A set of OS indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CpuSet {
    /// The lowest word first.
    words: Vec<u32>,
    /// Whether it holds all indices past `words`.
    infinite: bool,
}

impl CpuSet {
    /// Reads hwloc's text; none where it is no such text.
    pub fn parse(text: &str) -> Option<Self> {
        let (infinite, finite) = match text.strip_prefix("0xf...f") {
            Some(rest) => (true, rest.strip_prefix(',').unwrap_or(rest)),
            None => (false, text),
        };
        if infinite && finite.is_empty() {
            return Some(Self { words: Vec::new(), infinite });
        }
        let word = |word: &str| match word.strip_prefix("0x").unwrap_or(word) {
            "" if word.is_empty() => Some(0),
            digits => u32::from_str_radix(digits, 16).ok(),
        };
        let words = finite.split(',').rev().map(word).collect::<Option<_>>()?;
        Some(Self { words, infinite })
    }

    /// Whether it holds the index.
    pub fn contains(&self, index: u32) -> bool {
        let word = self.words.get(index as usize / 32);
        word.map_or(self.infinite, |word| (word >> (index % 32)) & 1 == 1)
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        !self.infinite && self.words.iter().all(|&word| word == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hwlocs_text_is_read() {
        let indices =
            |text: &str| CpuSet::parse(text).map(|set| (0..100).filter(|&i| set.contains(i)).collect::<Vec<_>>());
        assert_eq!(indices("0x00000005"), Some(vec![0, 2]));
        assert_eq!(indices("0x1,,0x80000000"), Some(vec![31, 64]));
        assert_eq!(indices("0x0"), Some(vec![]));
        assert_eq!(indices("0xf...f,0x0,0x0,0x2"), Some([1].into_iter().chain(96..100).collect()));
        assert_eq!(indices("0xf...f").map(|all| all.len()), Some(100));
        for bad in ["x", "0xg", "0x100000000", "0x1,-1", "1 2"] {
            assert_eq!(CpuSet::parse(bad), None, "{bad}");
        }
        assert!(CpuSet::parse("0x0,0x0").unwrap().is_empty() && !CpuSet::parse("0xf...f").unwrap().is_empty());
    }
}
