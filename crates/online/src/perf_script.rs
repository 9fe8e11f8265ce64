//! Memory samples as `perf script` prints them (perf-script(1)), of `perf mem record` with PEBS, IBS or SPE: which
//! thread accessed which address. Tasks that touch the same cache line share it, by the block table of CDSM,
//! symmetrically.
//!
//! Of a line, the part before the time ends with the thread (`TID` or `PID/TID`, perhaps a PU in brackets), and the
//! address is the first word after the event's name that is no `ip` in between: `perf script -F
//! comm,pid,tid,time,event,addr`. An address with a symbol after it is that of the code (`ip`), and so is the only one
//! of an event that counts time or instructions: such samples say nothing of who communicates.

use crate::faults::table::{Table, private_key};
use cohabit_formats::import::build::{Found, Imported};
use cohabit_formats::import::{Format, TASKS_LIMIT, TEXT_LIMIT_BYTES};
use cohabit_model::profile::Kind;
use cohabit_model::{Error, Matrix, Profile, Result, file};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The row for `cohabit import`.
pub const FORMAT: Format = Format {
    name: "perf-script",
    extensions: &["perf", "perfscript"],
    of_directories: false,
    about: "memory samples of `perf mem record`, as `perf script` prints them",
    read,
};

/// Lines that are remembered: more than a machine's caches hold.
const BLOCKS: u32 = 1 << 22;
/// A cache line of 64 bytes.
const BLOCK_SHIFT: u32 = 6;

/// Events whose samples have no address of data unless perf prints one before that of the code.
const WITHOUT_DATA: [&str; 6] = ["cycles", "instructions", "cpu-clock", "task-clock", "branches", "branch-misses"];
/// What to do for samples that can be read.
const REMEDY: &str = "record with `perf mem record`, and print with `perf script -F comm,pid,tid,time,event,addr`";

/// One sample.
#[derive(Debug, PartialEq, Eq)]
struct Sample<'a> {
    name: &'a str,
    /// None where perf printed the thread's id only.
    process: Option<u32>,
    tid: u32,
    /// Events since the sample before it; 0 where they are not printed.
    period: u64,
    /// None where there is none of data.
    address: Option<u64>,
}

/// What the samples say, while they are read.
struct Samples {
    ids: HashMap<(Option<u32>, u32), u32>,
    tasks: Vec<(String, Option<u32>, u32)>,
    table: Table,
    with_address: u64,
    /// Lines that are samples without an address, and the first of them.
    without_address: (u64, u64),
    /// Lines that are no samples.
    others: u64,
    /// Events that the samples with an address stand for; none once one does not say.
    events: Option<u64>,
}

fn read(path: &Path) -> Result<Profile> {
    let text = file::read_text(path, TEXT_LIMIT_BYTES)?;
    // Room enough for the few lines of a short text, so that they do not push each other out.
    let blocks = text.lines().count().saturating_mul(8).clamp(1 << 10, BLOCKS as usize) as u32;
    let mut samples = Samples {
        ids: HashMap::new(),
        tasks: Vec::new(),
        table: Table::new(blocks),
        with_address: 0,
        without_address: (0, 0),
        others: 0,
        events: Some(0),
    };
    for (line, number) in text.lines().zip(1u64..) {
        if !line.trim().is_empty() && !line.starts_with('#') {
            samples.add(line, number)?;
        }
    }
    samples.check()?;
    let both = samples.table.take_pairs().into_iter().flat_map(|(a, b, events)| [(a, b, events), (b, a, events)]);
    let matrix = Matrix::from_triplets(samples.tasks.len(), both);
    let labels = samples.tasks.iter().map(|task| task.0.clone()).collect();
    let not_seen = samples.not_seen();
    let found = Found::Messages(matrix);
    let files = vec![path.to_owned()];
    let mut profile =
        Imported { labels, not_seen, ..Imported::new("perf-script", Kind::Threads, files, found) }.profile()?;
    let processes: BTreeMap<Option<u32>, u32> = samples.tasks.iter().map(|task| (task.1, 0)).collect();
    let index: HashMap<Option<u32>, u32> = processes.into_keys().zip(0..).collect();
    for (task, (_, process, tid)) in profile.meta.tasks.iter_mut().zip(&samples.tasks) {
        (task.process, task.pid, task.tid) = (index[process], process.unwrap_or(0), *tid);
    }
    profile.meta.coverage.sample_rate = samples.rate();
    Ok(profile)
}

impl Samples {
    fn add(&mut self, line: &str, number: u64) -> Result<()> {
        let Some(sample) = sample(line) else {
            self.others += 1;
            return Ok(());
        };
        let Some(address) = sample.address.filter(|&address| address != 0) else {
            let (count, first) = self.without_address;
            self.without_address = (count + 1, if count == 0 { number } else { first });
            return Ok(());
        };
        let next = self.tasks.len() as u32;
        let task = *self.ids.entry((sample.process, sample.tid)).or_insert(next);
        if task == next {
            self.tasks.push((sample.name.to_owned(), sample.process, sample.tid));
        }
        if self.tasks.len() > TASKS_LIMIT {
            return Err(Error::new(format!("line {number}: more than {TASKS_LIMIT} threads")));
        }
        self.with_address += 1;
        let period = Some(sample.period).filter(|&period| period > 0);
        self.events = self.events.zip(period).map(|(sum, period)| sum.saturating_add(period));
        // Without process ids all threads are taken to be of one process, which shares all its memory.
        self.table.touch(private_key(sample.process.unwrap_or(0), address, BLOCK_SHIFT), 0, task);
        Ok(())
    }

    /// Refuses files without any sample that says something.
    fn check(&self) -> Result<()> {
        match (self.with_address, self.without_address) {
            (0, (0, _)) => Err(Error::new("no memory sample in it").remedy(REMEDY)),
            (0, (count, first)) => {
                let cause = format!("line {first}: no address of data, and in none of the {count} samples");
                Err(Error::new(cause).remedy(REMEDY))
            }
            _ => Ok(()),
        }
    }

    /// The share of the events that was sampled; 0 where perf did not print how many there were.
    fn rate(&self) -> f64 {
        self.events.map_or(0.0, |events| (self.with_address as f64 / events as f64).min(1.0))
    }

    fn not_seen(&self) -> Vec<String> {
        let mut not_seen = vec![
            "accesses between the samples".to_owned(),
            "who wrote and who read: the matrix is symmetric".to_owned(),
            "memory that processes share at different addresses".to_owned(),
        ];
        if self.tasks.iter().any(|task| task.1.is_none()) {
            not_seen
                .push("which process a thread is of: perf printed no process ids, all are taken to be of one".into());
        }
        for (count, what) in
            [(self.without_address.0, "samples without an address"), (self.others, "lines that are no memory sample")]
        {
            if count > 0 {
                not_seen.push(format!("{count} {what}"));
            }
        }
        not_seen
    }
}

/// Takes a line apart; none where it is no sample.
fn sample(line: &str) -> Option<Sample<'_>> {
    let (head, rest) = line.split_at(time_at(line)?);
    let rest = rest.split_once(": ")?.1;
    let mut words = head.split_ascii_whitespace().rev().skip_while(|word| word.starts_with('['));
    let thread = words.next()?;
    let (process, tid) = match thread.split_once('/') {
        Some((process, tid)) => (Some(process.parse().ok()?), tid.parse().ok()?),
        None => (None, thread.parse().ok()?),
    };
    let name = head[..head.rfind(thread)?].trim();
    // The period, where it is printed, comes before the event's name, which ends with a colon.
    let mut words = rest.split_ascii_whitespace();
    let (mut period, mut event) = (0, words.next()?);
    while !event.ends_with(':') {
        period = event.parse().unwrap_or(0);
        event = words.next()?;
    }
    Some(Sample { name, process, tid, period, address: address(event, words) })
}

/// The address of data in what follows the event; none where there is none, or only that of the code.
fn address<'a>(event: &str, mut words: impl Iterator<Item = &'a str>) -> Option<u64> {
    let hexadecimal = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let address = hexadecimal(words.next()?)?;
    match words.next() {
        Some(word) if hexadecimal(word).is_none() && is_symbol(word) => None,
        None => {
            let name = event.trim_end_matches(':').split([':', '/']).find(|part| !part.is_empty() && *part != "cpu");
            name.is_none_or(|name| !WITHOUT_DATA.contains(&name)).then_some(address)
        }
        Some(_) => Some(address),
    }
}

/// Whether this is what perf prints after an address of code: a symbol with its offset, or that there is none.
fn is_symbol(word: &str) -> bool {
    word == "[unknown]" || word.starts_with('(') || word.contains("+0x")
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
                Some(("stream", None, 4242, 32, Some(0x7f5a_1c2d_3e40))),
            ),
            // -F comm,pid,tid,time,event,addr, IBS.
            (
                "my prog  100/101   12.000001:  ibs_op//:     7ffe00001000",
                Some(("my prog", Some(100), 101, 0, Some(0x7ffe_0000_1000))),
            ),
            // SPE.
            ("app 7/9 [000] 5.5: 1 l1d-access: ffff00001234", Some(("app", Some(7), 9, 1, Some(0xffff_0000_1234)))),
            // Of code only: with its symbol, without one, and alone.
            ("app 7/9 5.5: 1000 cycles:  55d0c0ffee10 work+0x10 (/a.out)", Some(("app", Some(7), 9, 1000, None))),
            ("app 7/9 5.5: cpu/mem-loads/P:  55d0c0ffee10 [unknown] (/a.out)", Some(("app", Some(7), 9, 0, None))),
            ("app 9 5.5: 1000 cycles:u:  55d0c0ffee10", Some(("app", None, 9, 1000, None))),
            ("app 9 5.5: cpu/cycles/u:  55d0c0ffee10", Some(("app", None, 9, 0, None))),
            // Data, then code.
            ("app 9 5.5: cycles:pp:  7f8a 401176 work+0x36 (/a.out)", Some(("app", None, 9, 0, Some(0x7f8a)))),
            ("app 7 5.5: ev:", Some(("app", None, 7, 0, None))),
            ("not a sample", None),
            ("app 7/x 5.5: ev: 10", None),
            ("", None),
        ];
        for (line, expected) in rows {
            let found =
                sample(line).map(|sample| (sample.name, sample.process, sample.tid, sample.period, sample.address));
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
        let coverage = &profile.meta.coverage;
        assert!(coverage.not_seen.iter().any(|text| text.starts_with("1 lines")));
        assert!(!coverage.exact && coverage.sample_rate == 0.0, "no period is printed");
        let ids: Vec<_> = profile.meta.tasks.iter().map(|task| (task.process, task.pid, task.tid)).collect();
        assert_eq!(ids, [(0, 10, 1), (0, 10, 2), (0, 10, 3)]);
        std::fs::write(&path, "nothing\n").unwrap();
        assert!(read(&path).unwrap_err().remedy.is_some());
    }

    #[test]
    fn threads_are_told_apart_without_process_ids() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.txt");
        let line = |tid: u32, address: &str| {
            format!("app  {tid} [000] 1.5:  5 cpu/mem-loads/P: {address}  401176 f+0x1 (/app)\n")
        };
        std::fs::write(&path, [line(7, "1000"), line(8, "1008"), line(7, "1010"), line(8, "0")].concat()).unwrap();
        let profile = read(&path).unwrap();
        assert_eq!(profile.messages.to_dense(), [0, 2, 2, 0]);
        let coverage = profile.meta.coverage;
        assert_eq!((coverage.exact, coverage.sample_rate), (false, 0.2));
        for said in ["which process a thread is of", "1 samples without an address"] {
            assert!(coverage.not_seen.iter().any(|text| text.starts_with(said)), "{said}");
        }
    }

    #[test]
    fn samples_of_code_are_no_communication() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.txt");
        let line = |tid: u32| format!("app 1/{tid} 1.5: 1000 cycles:  55d0c0ffee10 work+0x10 (/app)\n");
        std::fs::write(&path, ["# captured\n".to_owned(), line(2), line(3), line(2)].concat()).unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.cause.contains("line 2: no address of data, and in none of the 3 samples"), "{}", error.cause);
        assert!(error.remedy.unwrap().contains("perf mem record"));
    }

    proptest! {
        #[test]
        fn no_line_is_too_odd(line in "\\PC*[0-9]+\\.[0-9]+: \\PC*") {
            sample(&line);
        }
    }
}
