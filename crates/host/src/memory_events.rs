//! Events by which PMUs sample accesses to memory with their addresses, as sysfs describes them: Intel's PEBS (the
//! events `mem-loads` and `mem-stores` of the processor's PMU, or of each PMU of a hybrid processor) and AMD's IBS
//! (`ibs_op`). Nothing here knows a processor: what an event is called by, how its terms are coded, and whether it needs
//! another one beside it is all in the files (perf_event_open(2); the kernel's
//! Documentation/ABI/testing/sysfs-bus-event_source-devices-events and -format).

use crate::CpuMask;
use cohabit_model::{Error, Result};
use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

/// Where the kernel lists PMUs.
pub const DEVICES: &str = "/sys/bus/event_source/devices";

/// Events of a processor's PMU that sample accesses, each with the one that has to lead it, where there is that.
const EVENTS: [(&str, Option<&str>); 2] = [("mem-loads", Some("mem-loads-aux")), ("mem-stores", None)];
/// AMD's PMU that samples all that is executed, accesses among them: it lists no event, all its terms being 0.
const IBS: &str = "ibs_op";
/// Its term by which the kernel leaves out what itself does (Linux 6.14).
const IBS_FILTER: &str = "swfilt";
/// ARM's PMU, whose samples come in a coding of its own.
const SPE: &str = "arm_spe";

/// What to do where there is none.
pub(crate) const ELSEWHERE: &str =
    "Intel's PEBS and AMD's IBS do, seldom in a virtual machine; timer samples need none";

/// All of a machine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryEvents {
    events: Vec<MemoryEvent>,
}

/// An event that samples accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryEvent {
    /// As perf(1) writes it: `cpu/mem-loads/`.
    pub name: String,
    pub(crate) code: Code,
    /// What is to be counted with it, before it.
    pub(crate) leader: Option<Code>,
    /// The PUs that have this PMU; none where all have.
    pus: Option<CpuMask>,
}

/// What the kernel calls an event by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Code {
    /// Of its PMU.
    pub(crate) kind: u32,
    /// `config`, `config1`, `config2`.
    pub(crate) config: [u64; 3],
    /// Whether it has to be sampled precisely (`precise_ip`), by which PEBS is asked for, and with it addresses.
    pub(crate) precise: bool,
}

impl MemoryEvents {
    /// Those of the PMUs that are listed in `devices` ([`DEVICES`]).
    ///
    /// # Errors
    /// Where there is none, or what describes it is not understood.
    pub fn find(devices: &Path) -> Result<Self> {
        let listed = fs::read_dir(devices).into_iter().flatten();
        let names: BTreeSet<String> = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        let mut events = Vec::new();
        for name in &names {
            let pmu = Pmu { name, folder: &devices.join(name) };
            for (event, leader) in EVENTS {
                if let Some(terms) = pmu.read(&format!("events/{event}")) {
                    let leader = leader.and_then(|leader| pmu.read(&format!("events/{leader}")));
                    let leader = leader.map(|terms| pmu.code(&terms)).transpose()?;
                    events.push(MemoryEvent { leader, ..pmu.event(event, &terms)? });
                }
            }
            if name == IBS {
                let terms = if pmu.read(&format!("format/{IBS_FILTER}")).is_some() { IBS_FILTER } else { "" };
                events.push(pmu.event("", terms)?);
            }
        }
        match events.is_empty() {
            false => Ok(Self { events }),
            true if names.iter().any(|name| name.starts_with(SPE)) => {
                Err(Error::new("ARM's SPE is not read while a program runs")
                    .remedy("perf mem record, and cohabit import --format perf-script of what perf script prints"))
            }
            true => Err(Error::new("no PMU here samples accesses to memory").remedy(ELSEWHERE)),
        }
    }

    /// All of them.
    pub fn all(&self) -> &[MemoryEvent] {
        &self.events
    }

    /// What they are called.
    pub fn names(&self) -> String {
        self.events.iter().map(|event| event.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Those that a PU has.
    pub fn on(&self, pu: u32) -> impl Iterator<Item = &MemoryEvent> {
        self.events.iter().filter(move |event| event.pus.as_ref().is_none_or(|pus| pus.contains(pu)))
    }
}

impl MemoryEvent {
    /// Files that are open while a thread is sampled by it on a PU.
    pub fn files(&self) -> usize {
        1 + usize::from(self.leader.is_some())
    }
}

/// A folder of sysfs.
struct Pmu<'a> {
    name: &'a str,
    folder: &'a Path,
}

impl Pmu<'_> {
    fn read(&self, file: &str) -> Option<String> {
        Some(fs::read_to_string(self.folder.join(file)).ok()?.trim().to_owned())
    }

    fn not_understood(&self, file: &str, text: &str) -> Error {
        Error::new(format!("{}: `{text}` is not understood", self.folder.join(file).display()))
    }

    fn event(&self, event: &str, terms: &str) -> Result<MemoryEvent> {
        let code = self.code(terms)?;
        // Of a hybrid processor.
        let pus = self.read("cpus");
        let pus =
            pus.map(|list| CpuMask::parse(&list).ok_or_else(|| self.not_understood("cpus", &list))).transpose()?;
        Ok(MemoryEvent { name: format!("{}/{event}/", self.name), code, leader: None, pus })
    }

    /// Of terms like `event=0xcd,umask=0x1,ldlat=3`.
    fn code(&self, terms: &str) -> Result<Code> {
        let number = |file| {
            let text: String = self.read(file).unwrap_or_default();
            text.parse::<u32>().map_err(|_| self.not_understood(file, &text))
        };
        let precise = self.read("caps/max_precise").is_some() && number("caps/max_precise")? > 0;
        let mut code = Code { kind: number("type")?, config: [0; 3], precise };
        for term in terms.split(',').filter(|term| !term.is_empty()) {
            let (name, value) = term.split_once('=').unwrap_or((term, "1"));
            let value =
                value.strip_prefix("0x").map_or_else(|| value.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
            let value = value.ok_or_else(|| self.not_understood("events", terms))?;
            let file = format!("format/{name}");
            let format = self.read(&file).unwrap_or_default();
            let (word, ranges) = bits(&format).ok_or_else(|| self.not_understood(&file, &format))?;
            code.config[word] |= spread(value, &ranges).ok_or_else(|| self.not_understood("events", terms))?;
        }
        Ok(code)
    }
}

/// Which word a term is in, and which bits of it, from those for its lowest bits on: `config1:0-7,32-35`.
fn bits(format: &str) -> Option<(usize, Vec<RangeInclusive<u32>>)> {
    let (word, ranges) = format.split_once(':')?;
    let word = ["config", "config1", "config2"].iter().position(|known| *known == word)?;
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let range: RangeInclusive<u32> = first.parse().ok()?..=last.parse().ok()?;
        (range.start() <= range.end() && *range.end() < u64::BITS).then_some(range)
    };
    Some((word, ranges.split(',').map(range).collect::<Option<_>>()?))
}

/// A value in these bits; none where it has more.
fn spread(mut value: u64, ranges: &[RangeInclusive<u32>]) -> Option<u64> {
    let mut word = 0;
    for at in ranges.iter().cloned().flatten() {
        word |= (value & 1) << at;
        value >>= 1;
    }
    (value == 0).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A folder of sysfs with these files.
    fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        folder
    }

    fn found(files: &[(&str, &str)]) -> Result<MemoryEvents> {
        MemoryEvents::find(sysfs(files).path())
    }

    const SOFTWARE: [(&str, &str); 2] = [("software/type", "1"), ("msr/events/tsc", "event=0x00")];

    #[test]
    fn intels_events_are_found() {
        // Skylake, Linux 6.1.
        let found = found(&[
            ("cpu/type", "4"),
            ("cpu/caps/max_precise", "3"),
            ("cpu/events/cpu-cycles", "event=0x3c"),
            ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
            ("cpu/events/mem-stores", "event=0xd0,umask=0x82"),
            ("cpu/format/event", "config:0-7"),
            ("cpu/format/umask", "config:8-15"),
            ("cpu/format/ldlat", "config1:0-15"),
            SOFTWARE[0],
            SOFTWARE[1],
        ]);
        let event = |name: &str, config| MemoryEvent {
            name: name.to_owned(),
            code: Code { kind: 4, config, precise: true },
            leader: None,
            pus: None,
        };
        let events = found.unwrap();
        assert_eq!(events.all(), [event("cpu/mem-loads/", [0x1cd, 3, 0]), event("cpu/mem-stores/", [0x82d0, 0, 0])]);
        assert_eq!((events.on(7).count(), events.all()[0].files()), (2, 1));
    }

    #[test]
    fn those_of_a_hybrid_processor_are_each_on_its_own_pus() {
        // Alder Lake: the large cores need the event beside it; umask has bits at two places from Linux 6.11 on.
        let events = found(&[
            ("cpu_core/type", "4"),
            ("cpu_core/cpus", "0-3,8"),
            ("cpu_core/caps/max_precise", "3"),
            ("cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
            ("cpu_core/events/mem-loads-aux", "event=0x03,umask=0x82"),
            ("cpu_core/events/mem-stores", "event=0xcd,umask=0x2"),
            ("cpu_core/format/event", "config:0-7"),
            ("cpu_core/format/umask", "config:8-15,40-47"),
            ("cpu_core/format/ldlat", "config1:0-15"),
            ("cpu_atom/type", "10"),
            ("cpu_atom/cpus", "4-7"),
            ("cpu_atom/caps/max_precise", "3"),
            ("cpu_atom/events/mem-loads", "event=0xd0,umask=0x5,ldlat=3"),
            ("cpu_atom/events/mem-stores", "event=0xd0,umask=0x6"),
            ("cpu_atom/format/event", "config:0-7"),
            ("cpu_atom/format/umask", "config:8-15"),
            ("cpu_atom/format/ldlat", "config1:0-15"),
        ])
        .unwrap();
        let on = |pu| -> Vec<(&str, u32, [u64; 3], Option<u64>)> {
            let event = |event: &'_ MemoryEvent| (event.code.kind, event.code.config, event.leader);
            events
                .on(pu)
                .map(|found| {
                    let (kind, config, leader) = event(found);
                    (found.name.as_str(), kind, config, leader.map(|leader| leader.config[0]))
                })
                .collect()
        };
        let core =
            [("cpu_core/mem-loads/", 4, [0x1cd, 3, 0], Some(0x8203)), ("cpu_core/mem-stores/", 4, [0x2cd, 0, 0], None)];
        let atom =
            [("cpu_atom/mem-loads/", 10, [0x5d0, 3, 0], None), ("cpu_atom/mem-stores/", 10, [0x6d0, 0, 0], None)];
        assert_eq!((on(0), on(8), on(5)), (core.to_vec(), core.to_vec(), atom.to_vec()));
        assert_eq!((on(9), events.on(0).map(MemoryEvent::files).sum::<usize>()), (vec![], 3));
    }

    #[test]
    fn amds_ibs_is_found_with_its_filter_where_it_has_one() {
        let plain = [("ibs_op/type", "11"), ("ibs_op/format/cnt_ctl", "config:19"), ("cpu/type", "4")];
        let filter = [plain[0], plain[1], plain[2], ("ibs_op/format/swfilt", "config2:0")];
        for (files, config) in [(&plain[..], [0, 0, 0]), (&filter, [0, 0, 1])] {
            let events = found(files).unwrap();
            let [event] = events.all() else { panic!("{events:?}") };
            assert_eq!((event.name.as_str(), event.code), ("ibs_op//", Code { kind: 11, config, precise: false }));
        }
    }

    #[test]
    fn what_is_not_there_or_not_understood_is_said() {
        let event = |terms, format| [("cpu/type", "4"), ("cpu/events/mem-loads", terms), ("cpu/format/event", format)];
        let spe = [("arm_spe_0/type", "8")];
        for (files, cause) in [
            (&SOFTWARE[..], "no PMU here samples accesses"),
            (&[], "no PMU here"),
            (&spe, "ARM's SPE"),
            (&event("event=0x1", "config:0-7")[1..], "type: `` is not understood"),
            (&event("event=?", "config:0-7"), "events: `event=?` is not understood"),
            (&event("event=0x100", "config:0-7"), "events: `event=0x100` is not understood"),
            (&event("event=1", "config9:0-7"), "format/event: `config9:0-7` is not understood"),
            (&event("event=1", "config:0-64"), "format/event: `config:0-64` is not understood"),
            (&event("umask=1", "config:0-7"), "format/umask: `` is not understood"),
        ] {
            let error = found(files).unwrap_err();
            assert!(error.cause.contains(cause), "{cause}: {}", error.cause);
        }
        assert!(MemoryEvents::find(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn values_are_spread_over_their_bits() {
        for (format, value, word) in [
            ("config:0-7", 0xcd, Some(0xcd)),
            ("config:8-15,40-47", 0x1ff, Some(0xff00 | 1 << 40)),
            ("config:19", 1, Some(1 << 19)),
            ("config:19", 2, None),
            ("config:0-63", u64::MAX, Some(u64::MAX)),
        ] {
            let (_, ranges) = bits(format).unwrap();
            assert_eq!(spread(value, &ranges), word, "{format}");
        }
    }

    proptest! {
        #[test]
        fn no_format_is_too_odd(format in "config[12]?:[0-9,-]*", value in any::<u64>()) {
            if let Some((_, ranges)) = bits(&format) {
                spread(value, &ranges);
            }
        }
    }
}
