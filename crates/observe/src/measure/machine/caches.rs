//! The caches of a PU as the kernel tells of them (sysfs-devices-system-cpu, `cache/index*`).

use cohabit_host::affinity::CpuMask;
use std::fs;
use std::path::Path;

/// A data cache.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u8,
    /// Bytes.
    pub size_bytes: u64,
    /// Lines of a set; none where the kernel does not know.
    pub ways: Option<u64>,
    /// Bytes of a line; none where the kernel does not know.
    pub line_bytes: Option<u64>,
    /// The PUs that share it (OS indices).
    pub pus: Vec<u32>,
    /// Whether it holds all that the caches below it hold; none where nobody tells.
    pub inclusive: Option<bool>,
}

/// The data caches of a PU, the nearest first. The calling thread runs there.
pub(super) fn of_pu(pu: u32) -> Vec<Cache> {
    let mut found = in_folder(Path::new(&format!("/sys/devices/system/cpu/cpu{pu}/cache")));
    for (level, inclusive) in inclusive_levels() {
        found.iter_mut().filter(|cache| cache.level == level).for_each(|cache| cache.inclusive = Some(inclusive));
    }
    found
}

/// Levels of data caches, and whether they are inclusive: deterministic cache parameters (Intel 64 manual, CPUID leaf 4;
/// AMD64 manual, leaf 8000_001D).
#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "safe since Rust 1.90 or so")]
fn inclusive_levels() -> Vec<(u8, bool)> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    /// Types of caches: none any more, and of code.
    const NONE: u32 = 0;
    const CODE: u32 = 2;
    // SAFETY: every x86-64 has the instruction, and is asked for leaves that it says it has.
    let vendor = unsafe { __cpuid(0) };
    let is_amd =
        [vendor.ebx.to_le_bytes(), vendor.edx.to_le_bytes(), vendor.ecx.to_le_bytes()].concat() == b"AuthenticAMD";
    let (first, leaf) = if is_amd { (0x8000_0000, 0x8000_001d) } else { (0, 4) };
    // SAFETY: as above.
    if unsafe { __cpuid(first) }.eax < leaf {
        return Vec::new();
    }
    // SAFETY: as above.
    let caches =
        (0..16).map(|number| unsafe { __cpuid_count(leaf, number) }).take_while(|cache| cache.eax & 31 != NONE);
    caches
        .filter(|cache| cache.eax & 31 != CODE)
        .map(|cache| ((cache.eax >> 5 & 7) as u8, cache.edx >> 1 & 1 == 1))
        .collect()
}

/// Nobody tells.
#[cfg(not(target_arch = "x86_64"))]
fn inclusive_levels() -> Vec<(u8, bool)> {
    Vec::new()
}

fn in_folder(folder: &Path) -> Vec<Cache> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<Cache> = entries.filter_map(|entry| read(&entry.path())).collect();
    found.sort_by_key(|cache| cache.level);
    found
}

fn read(folder: &Path) -> Option<Cache> {
    let text = |file: &str| Some(fs::read_to_string(folder.join(file)).ok()?.trim().to_owned());
    let number = |file: &str| text(file)?.parse::<u64>().ok().filter(|&number| number > 0);
    if text("type")? == "Instruction" {
        return None;
    }
    Some(Cache {
        level: text("level")?.parse().ok()?,
        size_bytes: size(&text("size")?)?,
        ways: number("ways_of_associativity"),
        line_bytes: number("coherency_line_size"),
        pus: CpuMask::parse(&text("shared_cpu_list")?)?.pus(),
        inclusive: None,
    })
}

/// `32K`, `8M`, or bytes.
fn size(text: &str) -> Option<u64> {
    let (number, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_caches_are_read_and_those_of_code_are_not() {
        let root = tempfile::tempdir().unwrap();
        let index = |name: &str, values: [&str; 6]| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            let files = ["level", "type", "size", "ways_of_associativity", "coherency_line_size", "shared_cpu_list"];
            files
                .iter()
                .zip(values)
                .for_each(|(file, value)| fs::write(folder.join(file), format!("{value}\n")).unwrap());
        };
        index("index3", ["3", "Unified", "32768K", "16", "64", "0-3,8"]);
        index("index0", ["1", "Data", "32K", "8", "64", "0"]);
        index("index1", ["1", "Instruction", "32K", "8", "64", "0"]);
        index("index2", ["2", "Unified", "1M", "0", "64", "0"]);
        index("index4", ["4", "Unified", "many", "0", "64", "0"]);
        fs::write(root.path().join("uevent"), "").unwrap();
        let cache = |level, size_bytes, ways, pus: &[u32]| Cache {
            level,
            size_bytes,
            ways,
            line_bytes: Some(64),
            pus: pus.to_vec(),
            inclusive: None,
        };
        let wanted = [
            cache(1, 32 << 10, Some(8), &[0]),
            cache(2, 1 << 20, None, &[0]),
            cache(3, 32 << 20, Some(16), &[0, 1, 2, 3, 8]),
        ];
        assert_eq!(in_folder(root.path()), wanted);
        assert_eq!(in_folder(&root.path().join("none")), []);
    }
}
