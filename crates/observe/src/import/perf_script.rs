//! Memory samples as `perf script` prints them (perf-script(1)), of `perf mem record` with PEBS, IBS or SPE: which thread
//! accessed which address. Tasks that touch the same cache line share it, by the block table of CDSM, symmetrically.
//!
//! Of a line, the part before the time ends with the thread (`TID` or `PID/TID`, perhaps a PU in brackets), and the
//! address is the first word after the event's name that is no `ip` in between: `perf script -F comm,pid,tid,time,event,addr`.

use super::build::{Found, Imported};
use super::{TASKS_LIMIT, TEXT_LIMIT_BYTES};
use crate::faults::table::{Table, private_key};
use cohabit_model::profile::Kind;
use cohabit_model::{Error, Matrix, Profile, Result, file};
use std::collections::HashMap;
use std::path::Path;

/// Lines that are remembered: more than a machine's caches hold.
const BLOCKS: u32 = 1 << 22;
/// A cache line of 64 bytes.
const BLOCK_SHIFT: u32 = 6;

/// One sample.
#[derive(Debug, PartialEq, Eq)]
struct Sample<'a> {
    name: &'a str,
    process: u32,
    tid: u32,
    address: u64,
}

pub(super) fn read(path: &Path) -> Result<Profile> {
    let text = file::read_text(path, TEXT_LIMIT_BYTES)?;
    let mut tasks: HashMap<(u32, u32), u32> = HashMap::new();
    let mut labels = Vec::new();
    let mut table = Table::new(BLOCKS);
    let mut skipped = 0u64;
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let Some(sample) = sample(line) else {
            skipped += 1;
            continue;
        };
        let next = tasks.len() as u32;
        let task = *tasks.entry((sample.process, sample.tid)).or_insert_with(|| {
            labels.push(sample.name.to_owned());
            next
        });
        if tasks.len() > TASKS_LIMIT {
            return Err(Error::new(format!("more than {TASKS_LIMIT} threads")));
        }
        if sample.address != 0 {
            table.touch(private_key(sample.process, sample.address, BLOCK_SHIFT), 0, task);
        }
    }
    if tasks.is_empty() {
        return Err(Error::new("no memory sample in it")
            .remedy("record with `perf mem record`, and print with `perf script -F comm,pid,tid,time,event,addr`"));
    }
    let both = table.take_pairs().into_iter().flat_map(|(a, b, events)| [(a, b, events), (b, a, events)]);
    let matrix = Matrix::from_triplets(tasks.len(), both);
    let mut not_seen = vec![
        "accesses between the samples".to_owned(),
        "who wrote and who read: the matrix is symmetric".to_owned(),
        "memory that processes share at different addresses".to_owned(),
    ];
    if skipped > 0 {
        not_seen.push(format!("{skipped} lines that are no memory sample"));
    }
    let files = vec![path.to_owned()];
    let found = Found::Messages(matrix);
    Imported { kind: Kind::Threads, format: "perf-script", files, labels, found, not_seen }.profile()
}

/// Takes a line apart; none where it is no sample with an address.
fn sample(line: &str) -> Option<Sample<'_>> {
    let (head, rest) = line.split_at(time_at(line)?);
    let rest = rest.split_once(": ")?.1;
    let mut words = head.split_ascii_whitespace().rev().skip_while(|word| word.starts_with('['));
    let thread = words.next()?;
    let (process, tid) = thread.split_once('/').unwrap_or((thread, thread));
    let (process, tid) = (process.parse().ok()?, tid.parse().ok()?);
    let name = head[..head.rfind(thread)?].trim();
    // The period, where it is printed, comes before the event's name, which ends with a colon.
    let mut words = rest.split_ascii_whitespace().skip_while(|word| !word.ends_with(':'));
    words.next()?;
    let address = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    Some(Sample { name, process, tid, address })
}

/// Where the time is: the first word that is digits, a point, digits and a colon.
fn time_at(line: &str) -> Option<usize> {
    let mut from = 0;
    for word in line.split_ascii_whitespace() {
        let at = from + line[from..].find(word)?;
        from = at + word.len();
        let number = word.strip_suffix(':').and_then(|number| number.split_once('.'));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if number.is_some_and(|(whole, part)| digits(whole) && digits(part)) {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_several_versions_are_taken_apart() {
        let rows = [
            // perf script of perf mem record, PEBS (Linux 6.1): tid, PU, time, period, event, address, data source.
            (
                "          stream  4242 [003]  1001.123456:     32  cpu/mem-loads,ldlat=30/P:     7f5a1c2d3e40  68100142 |OP LOAD|LVL L3 or L3 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A            55d0 main+0x10 (/tmp/stream)",
                Some(("stream", 4242, 4242, 0x7f5a_1c2d_3e40)),
            ),
            // -F comm,pid,tid,time,event,addr, IBS.
            (
                "my prog  100/101   12.000001:  ibs_op//:     7ffe00001000",
                Some(("my prog", 100, 101, 0x7ffe_0000_1000)),
            ),
            // SPE.
            ("app 7/9 [000] 5.5: 1 l1d-access: ffff00001234", Some(("app", 7, 9, 0xffff_0000_1234))),
            ("not a sample", None),
            ("app 7/x 5.5: ev: 10", None),
            ("app 7 5.5: ev:", None),
            ("", None),
        ];
        for (line, expected) in rows {
            let found = sample(line).map(|sample| (sample.name, sample.process, sample.tid, sample.address));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn threads_on_one_line_communicate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.txt");
        let mut text = "# captured\n".to_owned();
        // Threads 1 and 2 take turns on a cache line; 3 is on the next one.
        for (tid, address) in [(1, 0x1000), (2, 0x103f), (1, 0x1008), (3, 0x1040), (2, 0x1000)] {
            text += &format!("app  10/{tid}  1.5:  mem: {address:x}\n");
        }
        std::fs::write(&path, text + "junk\n").unwrap();
        let profile = read(&path).unwrap();
        assert_eq!(profile.messages.iter().collect::<Vec<_>>(), [(0, 1, 3), (1, 0, 3)]);
        assert!(profile.meta.coverage.not_seen.iter().any(|text| text.starts_with("1 lines")));
        std::fs::write(&path, "nothing\n").unwrap();
        assert!(read(&path).unwrap_err().remedy.is_some());
    }

    proptest! {
        #[test]
        fn no_line_is_too_odd(line in "\\PC*[0-9]+\\.[0-9]+: \\PC*") {
            sample(&line);
        }
    }
}
