//! Recordings worked by hand: what is written is what is read, step by step.

use cohabit_access::file::{CHANNEL_BYTES, FORMAT, Image, Meta, MpiCode, Piece, RecordingFile, Start, Task, Writer};
use cohabit_access::locks::FreeLocks;
use cohabit_access::{AccessKind, Dependences, PARTS_OF_A_CYCLE, Reason, Recording, Step, Steps, StridedAccess, check};
use std::fs::File;
use std::path::Path;

/// Tokens and numbers as docs/formats.md has them.
#[derive(Default)]
struct Coded(Vec<u8>);

impl Coded {
    fn number(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    fn signed(self, value: i64) -> Self {
        self.number(((value << 1) ^ (value >> 63)) as u64)
    }

    fn numbers(self, values: &[u64]) -> Self {
        values.iter().fold(self, |coded, &value| coded.number(value))
    }

    /// A segment of two anchors, both of which differ from the prediction.
    fn segment(self, other: Option<u64>, differences: [i64; 2]) -> Self {
        let coded = match other {
            Some(number) => self.number(1 << 2 | 1).number(number),
            None => self.number(1),
        };
        coded.number(0b11).signed(differences[0]).signed(differences[1])
    }
}

/// The loop's body eight times: three of them coded, and five as predicted. A wait that follows is in the last.
fn eight_iterations() -> Coded {
    Coded::default().segment(Some(0), [0x1000, 0x2000]).segment(Some(0), [8, 8]).segment(None, [8, 8]).number(5 << 2)
}

/// A segment: pc, instructions, bytes of code, anchors; and of each access offset, size, anchor, kind, instructions; the
/// code, none in a format before 5, and instructions behind the last access.
fn definition(
    pc: u64,
    counts: [u32; 3],
    accesses: &[(i32, u32, u16, u16, u32)],
    (code, behind): (Option<&[u8]>, u32),
) -> Vec<u8> {
    let mut bytes = pc.to_le_bytes().to_vec();
    for count in counts.iter().chain([&(accesses.len() as u32)]) {
        bytes.extend(count.to_le_bytes());
    }
    if let Some(code) = code {
        bytes.extend((code.len() as u32).to_le_bytes());
        bytes.extend(behind.to_le_bytes());
    }
    for (offset, size, anchor, kind, instructions) in accesses {
        bytes.extend(offset.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(anchor.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(instructions.to_le_bytes());
    }
    if let Some(code) = code {
        bytes.extend(code);
        bytes.resize(bytes.len() + code.len().next_multiple_of(8) - code.len(), 0);
    }
    bytes
}

/// movsd xmm1, [rax]; addsd xmm0, xmm1; movsd [rbx], xmm0; jne.
const LOOP: &[u8] = &[0xf2, 0x0f, 0x10, 0x08, 0xf2, 0x0f, 0x58, 0xc1, 0xf2, 0x0f, 0x11, 0x03, 0x75, 0xf2];
/// imul rax, rbx five times.
const PRODUCTS: [u8; 20] = {
    let (one, mut all, mut at) = ([0x48, 0x0f, 0xaf, 0xc3], [0; 20], 0);
    while at < 20 {
        all[at] = one[at % 4];
        at += 1;
    }
    all
};

fn task(name: &str, stretches: u64, start: Option<Start>) -> Task {
    Task { name: name.to_owned(), process: 0, tid: 1, pieces: vec![Piece { image: 0, stretches }], start }
}

fn write(path: &Path, accesses: [u64; 2], steps: &[(u32, u64, &Coded)]) {
    write_mapped(path, accesses, steps, &[], None);
}

fn write_mapped(
    path: &Path,
    accesses: [u64; 2],
    steps: &[(u32, u64, &Coded)],
    changes: &[[u64; 5]],
    mpi: Option<MpiCode>,
) {
    write_format(path, FORMAT, accesses, steps, changes, mpi);
}

/// In a format; with changes of what is mapped (version, first address and the one behind the last, object, offset), and where MPI
/// is.
fn write_format(
    path: &Path,
    format: u32,
    accesses: [u64; 2],
    steps: &[(u32, u64, &Coded)],
    changes: &[[u64; 5]],
    mpi: Option<MpiCode>,
) {
    let code = |code, behind| (Some(code).filter(|_| format > 4), behind);
    // A loop's body that reads a[i] and writes b[i + 1], and a piece of code without memory on the next page.
    let segments = [
        definition(0x40_1000, [4, 12, 2], &[(0, 8, 0, 1, 1), (8, 8, 1, 2, 3)], code(LOOP, 1)),
        definition(0x40_2000, [5, 16, 0], &[], code(&PRODUCTS, 0)),
    ]
    .concat();
    let mut writer = Writer::new(File::create(path).unwrap());
    writer.segments(0, &[&segments]).unwrap();
    for &(task, stretch, coded) in steps {
        writer.steps(task, stretch, &[&coded.0]).unwrap();
    }
    if !changes.is_empty() {
        let bytes: Vec<u8> = changes.iter().flatten().copied().flat_map(u64::to_le_bytes).collect();
        writer.mappings(0, &[&bytes]).unwrap();
    }
    let stretches = |task| steps.iter().filter(|step| step.0 == task).count() as u64;
    let image = Image {
        program: "/a/program".to_owned(),
        pid: 1,
        tasks: vec![Some(0), Some(1), None],
        before: vec![0, 0, 0],
        accesses: accesses.into_iter().chain([9]).collect(),
        segments: 2,
        number: 5,
        in_run: vec![0, 42, 43],
        mappings: changes.len() as u64,
        mpi,
    };
    let meta = Meta {
        format,
        command: vec!["program".to_owned()],
        host: "here".to_owned(),
        images: vec![image],
        tasks: vec![
            task("first", stretches(0), None),
            task("second", stretches(1), Some(Start { task: 0, position: 2 })),
        ],
        events_lost: 0,
        not_seen: Vec::new(),
        channels: 2,
    };
    writer.finish(&meta).unwrap();
}

fn steps(recording: &RecordingFile, task: u32) -> Vec<Step> {
    all(recording.steps(task).unwrap())
}

fn all(mut steps: Box<dyn Steps + '_>) -> Vec<Step> {
    let mut all = Vec::new();
    while let Some(step) = steps.next_step().unwrap() {
        all.push(step);
    }
    all
}

fn body(a: u64, b: u64, stride: i64, lead: u32) -> Vec<StridedAccess> {
    let access = |kind, base, instructions| StridedAccess { stride, instructions, ..StridedAccess::new(kind, base, 8) };
    vec![access(AccessKind::Read, a, 1 + lead), access(AccessKind::Write, b + 8, 3)]
}

#[test]
fn what_processes_share_has_addresses_of_its_own() {
    const SHARED: u64 = 1 << 47;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.rec");
    let first = Coded::default()
        .segment(Some(0), [0x1000, 0x2000])
        .segment(Some(0), [8, 8])
        .numbers(&[7 << 2 | 2, 1, 2]) // the last segment is by version 2 already
        .segment(None, [8, 8])
        .number(5 << 2)
        .numbers(&[6 << 2 | 2, 0, 41, 7, 0]) // waits for a task by its number in the run, which was killed before
        .numbers(&[6 << 2 | 2, 0, 42, 2, 0]) // and for one that is left out
        .numbers(&[8 << 2 | 2, 1, 4, 2, 16, 0x100c]) // reads from what image 5 has there
        .numbers(&[9 << 2 | 2, 0x12, 7, 100, 3 << 2 | 2, 0x1000, 0x40]);
    let second = Coded::default().segment(Some(0), [0x1000, 0x2000]);
    let changes = [[2, 0x1008, 0x1020, 7, 8], [3, 0x1000, 0x3000, 0, 0]];
    write_mapped(&path, [17, 2], &[(0, 0, &first), (1, 0, &second)], &changes, None);
    let recording = RecordingFile::open(&path).unwrap();
    let once = |accesses| Step::Loop { accesses, iterations: 1 };
    let last = StridedAccess::new(AccessKind::Read, SHARED + 0xc, 16);
    let wanted = [
        Step::Code { page: 0x401 },
        once(body(0x1000, 0x2000, 0, 0)),
        once(body(SHARED + 8, 0x2008, 0, 0)),
        once(body(SHARED + 16, 0x2010, 0, 0)),
        Step::Loop { accesses: body(SHARED + 24, 0x2018, 8, 0), iterations: 1 },
        Step::Loop { accesses: body(0x1020, 0x2020, 8, 0), iterations: 3 },
        once(body(0x1038, 0x2038, 8, 0)),
        Step::Wait { task: 1, position: 2, reason: Reason::End, polled: None },
        Step::access(last),
        Step::Unmap { range: SHARED + 0x12..SHARED + 0x20 },
        Step::Unmap { range: 0x1000..0x1008 },
        Step::Unmap { range: 0x1020..0x1040 },
    ];
    assert_eq!(steps(&recording, 0), wanted);
    assert_eq!(recording.shared_memory().collect::<Vec<_>>(), [(SHARED, SHARED + 8..SHARED + 0x20)]);
    // The other task has not seen that anything is mapped.
    assert_eq!(steps(&recording, 1)[2], once(body(0x1000, 0x2000, 0, 0)));
}

#[test]
fn what_goes_through_channels_lies_in_memory_of_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.rec");
    let first = Coded::default().segment(Some(0), [0x1000, 0x2000]).numbers(&[10 << 2 | 2, 2, 1, 64, 100]);
    let second = Coded::default().segment(Some(0), [0x1000, 0x2000]).numbers(&[10 << 2 | 2, 1, 1, 64, 100]);
    write(&path, [3, 3], &[(0, 0, &first), (1, 0, &second)]);
    let recording = RecordingFile::open(&path).unwrap();
    let channels: Vec<_> = recording.channels().collect();
    assert!(channels.len() == 2 && channels[0].end == channels[1].start, "{channels:?}");
    let access =
        |kind| Step::access(StridedAccess { instructions: 2, ..StridedAccess::new(kind, channels[1].start + 64, 100) });
    assert_eq!(steps(&recording, 0)[2..], [access(AccessKind::Write)]);
    assert_eq!(steps(&recording, 1)[3..], [access(AccessKind::Read)]);
}

#[test]
fn what_a_rank_does_while_it_waits_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.rec");
    let looks = |count: usize| {
        (1..count)
            .fold(Coded::default().segment(Some(0), [0x1000, 0x2000]), |coded, _| coded.numbers(&[1 << 2 | 1, 0, 0]))
    };
    let first = looks(4)
        .numbers(&[1 << 2 | 2, 1, 1, 2, 0]) // the last look waits before its first access, for task 1's position 2
        .numbers(&[1 << 2 | 1, 1]); // the program again
    let second = looks(3);
    let mpi = MpiCode { progress: vec![0x40_1000], own: vec![(0x40_1000, 0x40_2000)], common: Vec::new() };
    for (mpi, polls) in [(Some(mpi), 4), (None, 0)] {
        write_mapped(&path, [8, 6], &[(0, 0, &first), (1, 0, &second)], &[], mpi);
        let recording = RecordingFile::open(&path).unwrap();
        let found = steps(&recording, 0);
        let of = |step: &Step| if let Step::Polled { accesses } = step { *accesses } else { 0 };
        assert_eq!(found.iter().map(of).sum::<u64>(), polls);
        let polled = (polls > 0).then_some(0x1000);
        assert!(found.contains(&Step::Wait { task: 1, position: 2, reason: Reason::Data, polled }), "{found:?}");
        assert_eq!(check::check(&recording).unwrap().tasks[0].polls, polls);
    }
}

#[test]
fn a_loop_a_wait_within_it_and_what_the_kernel_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.rec");
    let first = eight_iterations()
        .numbers(&[1 << 2 | 2, 2, 1, 2, 1]) // before its second access, for task 1's position 2, at an atomic
        .numbers(&[1 << 2 | 1, 1]) // the code without memory
        .numbers(&[2 << 2 | 2, 3, 200])
        .signed(0x5000) // the kernel reads and writes 200 bytes
        .numbers(&[3 << 2 | 2, 0x5000, 4096, 4 << 2 | 2, 1000, 5 << 2 | 2, 3]);
    let second = Coded::default().segment(Some(0), [0x1000, 0x2000]);
    write(&path, [17, 2], &[(0, 0, &first), (1, 0, &second)]);
    let recording = RecordingFile::open(&path).unwrap();
    let once = |accesses| Step::Loop { accesses, iterations: 1 };
    let last = body(0x1038, 0x2038, 8, 0);
    let kernel = StridedAccess { instructions: 4, ..StridedAccess::new(AccessKind::ReadWrite, 0x5000, 200) };
    let wanted = [
        Step::Code { page: 0x401 },
        once(body(0x1000, 0x2000, 0, 0)),
        once(body(0x1008, 0x2008, 0, 0)),
        once(body(0x1010, 0x2010, 0, 0)),
        Step::Loop { accesses: body(0x1018, 0x2018, 8, 0), iterations: 4 },
        once(last[..1].to_vec()),
        Step::Wait { task: 1, position: 2, reason: Reason::End, polled: None },
        once(last[1..].to_vec()),
        Step::Code { page: 0x402 },
        Step::compute(5),
        Step::access(kernel),
        Step::Unmap { range: 0x5000..0x6000 },
        Step::Idle { time_ns: 1000 },
        Step::Phase { number: 3 },
    ];
    assert_eq!(steps(&recording, 0), wanted);
    let started = Step::Wait { task: 0, position: 2, reason: Reason::Start, polled: None };
    assert_eq!(steps(&recording, 1), [started, Step::Code { page: 0x401 }, once(body(0x1000, 0x2000, 0, 0))]);
    let checked = check::check(&recording).unwrap();
    assert_eq!((checked.tasks[0].accesses, checked.tasks[0].waits, checked.tasks[1].accesses), (17, 1, 2));
}

/// Waits that the program forces come before the accesses that they name, wherever in a run of a loop these are, and
/// in place of those that were recorded.
#[test]
fn waits_that_are_forced_part_a_loop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.rec");
    let first = eight_iterations()
        .numbers(&[1 << 2 | 2, 2, 1, 1, 1]) // a wait that is not forced
        .numbers(&[2 << 2 | 2, 3, 200])
        .signed(0x5000);
    let second = Coded::default().segment(Some(0), [0x1000, 0x2000]);
    write(&path, [17, 2], &[(0, 0, &first), (1, 0, &second)]);
    let plain = steps(&RecordingFile::open(&path).unwrap(), 0);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut writer = zip::ZipWriter::new_append(file).unwrap();
    // At 2 for data, at 9 and 10 for atomic accesses, at 16 and at the end for data; task 1, positions 1 and 2.
    let waits = [(2, 0, 1), (7, 1, 1), (1, 1, 2), (6, 0, 1), (1, 0, 2)];
    let of = waits.iter().fold(Coded::default(), |coded, &(more, lock, at)| coded.numbers(&[more << 1 | lock, 1, at]));
    for (name, bytes) in [("order/0", &of.0[..]), ("order/1", &[])] {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut writer, bytes).unwrap();
    }
    writer.finish().unwrap();
    let recording = RecordingFile::open(&path).unwrap();
    let (mut position, mut found, mut made) = (0, Vec::new(), Vec::new());
    for step in steps(&recording, 0) {
        match &step {
            Step::Wait { task: 1, position: on, reason, .. } => found.push((position, *reason, *on)),
            Step::Loop { accesses, iterations } => {
                let all = (0..*iterations).flat_map(|at| accesses.iter().map(move |access| access.address(at)));
                made.extend(all);
            }
            _ => {}
        }
        position += step.access_count();
    }
    let (data, lock) = (Reason::Data, Reason::Lock);
    assert_eq!(found, [(2, data, 1), (9, lock, 1), (10, lock, 2), (16, data, 1), (17, data, 2)]);
    let plain = plain.iter().flat_map(|step| match step {
        Step::Loop { accesses, iterations } => {
            (0..*iterations).flat_map(|at| accesses.iter().map(move |access| access.address(at))).collect()
        }
        _ => Vec::new(),
    });
    assert_eq!(made, plain.collect::<Vec<_>>());
    assert_eq!(check::check(&recording).unwrap().tasks[0].waits, 5);
}

#[test]
fn stretches_begin_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.rec");
    let some = || Coded::default().segment(Some(0), [0x1000, 0x2000]);
    write(&path, [4, 0], &[(0, 0, &some()), (0, 1, &some())]);
    let recording = RecordingFile::open(&path).unwrap();
    let one = Step::Loop { accesses: body(0x1000, 0x2000, 0, 0), iterations: 1 };
    assert_eq!(steps(&recording, 0), [Step::Code { page: 0x401 }, one.clone(), one]);
}

#[test]
fn what_is_not_sound_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.rec");
    let body = || Coded::default().segment(Some(0), [0x1000, 0x2000]);
    let rows: [(&str, [u64; 2], Coded); 10] = [
        ("makes 2 accesses, and is said to make 3", [3, 0], body()),
        ("it ends within", [2, 0], body().number(1 << 2 | 1)),
        ("segment 7 of 2", [2, 0], body().numbers(&[1 << 2 | 1, 7])),
        ("a run of nothing", [2, 0], Coded::default().number(3 << 2)),
        ("token 3", [2, 0], body().number(3)),
        ("event 11", [2, 0], body().numbers(&[11 << 2 | 2, 0])),
        ("channel 2, which it has not", [3, 0], body().numbers(&[10 << 2 | 2, 1, 2, 0, 8])),
        ("channel 1, which it has not", [3, 0], body().numbers(&[10 << 2 | 2, 1, 1, CHANNEL_BYTES - 6, 8])),
        ("memory of image 9", [2, 0], body().numbers(&[8 << 2 | 2, 1, 9, 0, 8, 0x1000])),
        ("a wait for thread 5, which it has not", [2, 0], body().numbers(&[1 << 2 | 2, 0, 5, 1, 0])),
    ];
    for (cause, accesses, coded) in rows {
        write(&path, accesses, &[(0, 0, &coded)]);
        let error = check::check(&RecordingFile::open(&path).unwrap()).unwrap_err();
        assert!(error.cause.contains(cause) && error.remedy.is_some(), "{cause}: {error}");
    }
    // Whoever reads it finds that out, and not at its end alone: few bytes stand for as many accesses as one likes.
    let endless = eight_iterations().number(1 << 40);
    write(&path, [4, 0], &[(0, 0, &endless)]);
    let recording = RecordingFile::open(&path).unwrap();
    let mut steps = recording.steps(0).unwrap();
    let error = std::iter::from_fn(|| steps.next_step().transpose()).find_map(Result::err).unwrap();
    assert!(error.cause.contains("or more accesses, and is said to make 4"), "{error}");
}

/// What differs in one bit is not the recording, though it may decode as well.
#[test]
fn checksums_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.rec");
    write(&path, [2, 0], &[(0, 0, &Coded::default().segment(Some(0), [0x1000, 0x2000]))]);
    let whole = std::fs::read(&path).unwrap();
    for member in ["segments/0", "steps/0/0"] {
        // Its entry in the list at the end: a header of 46 bytes, the checksum 16 bytes into it, and the name.
        let at = whole.windows(member.len()).rposition(|bytes| bytes == member.as_bytes()).unwrap() - 46;
        assert_eq!(whole[at..at + 4], *b"PK\x01\x02");
        let mut damaged = whole.clone();
        damaged[at + 16] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let read = RecordingFile::open(&path).and_then(|recording| check::check(&recording).map(|_| ()));
        let error = read.unwrap_err();
        assert!(error.cause.contains(member), "{error}");
    }
}

/// Steps without what they wait for, and that, in cycles.
fn waited(steps: Vec<Step>) -> (Vec<Step>, f64) {
    let mut parts = 0;
    let told = steps.into_iter().map(|mut step| {
        match &mut step {
            Step::Loop { accesses, iterations } => {
                for access in accesses {
                    parts += u64::from(std::mem::take(&mut access.latency)) * *iterations;
                }
            }
            Step::Compute { latency, .. } => parts += std::mem::take(latency),
            _ => {}
        }
        step
    });
    let told = told.collect();
    (told, parts as f64 / PARTS_OF_A_CYCLE as f64)
}

#[test]
fn how_long_instructions_wait_is_told_to_whoever_asks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.rec");
    let core = Dependences { window: 224, load: 4 * PARTS_OF_A_CYCLE };
    // Products, the loop, and products again.
    let products = || Coded::default().number(1 << 2 | 1).number(1);
    let first = Coded([products().0, eight_iterations().0, products().0].concat());
    for (format, cycles) in [(4, 0.0), (5, 46.0)] {
        write_format(&path, format, [16, 0], &[(0, 0, &first)], &[], None);
        let recording = RecordingFile::open(&path).unwrap();
        assert_eq!(recording.has_code(), format > 4);
        let plain = steps(&recording, 0);
        assert_eq!(waited(plain.clone()), (plain.clone(), 0.0), "nobody asks");
        // Five products of 3 make the address of a load of 6; then eight sums of 3, one behind the other, and the last
        // store. The other products are made meanwhile.
        let (told, found) = waited(all(recording.steps_with(0, core).unwrap()));
        assert_eq!(told, plain);
        assert!((found - cycles).abs() < 0.1, "format {format}: {found}");
        let free = FreeLocks { recording: &recording, tells_counts: true };
        assert_eq!(waited(all(free.steps_with(0, core).unwrap())), (told, found), "format {format}");
    }
}
