//! The file format: what goes in comes out, NumPy agrees, and no file is believed.

use super::*;
use cohabit_model::calls::{CallPlace, Visit};
use cohabit_model::profile::{
    CallSite, Collectives, Coverage, Kind, Meta, PairSites, PhaseRow, SentBy, SeriesRow, SizeRow, TaskKind,
    UnknownArray, World,
};
use cohabit_model::trace::{Does, Message, Operation};
use cohabit_model::{Matrix, Profile, Task, Trace};
use proptest::prelude::*;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

fn task(id: u32) -> Task {
    Task {
        host: "here".into(),
        pid: 100,
        tid: 100 + id,
        parent: id.checked_sub(1),
        spawn_index: id,
        world: id / 2,
        cpus: "0-3,8".into(),
        of_mpi: id == 1,
        ..Task::new(id, TaskKind::Thread, format!("task {id}"))
    }
}

/// A ring of `tasks` tasks, with everything a profile can have.
fn example(tasks: u32) -> Profile {
    let call = CallSite { function: "halo".into(), line: "halo.c:12".into(), messages: 1 << 60, bytes: u64::MAX };
    let meta = Meta {
        requested_window_ns: Some(u64::MAX),
        requested_window_instructions: Some(7),
        unseen_channels: vec!["sockets".into()],
        arguments: vec!["profile".into(), "--hot".into(), "--".into(), "./p".into()],
        imported_from: vec!["a.csv".into(), "b.csv".into()],
        collectives: Some(Collectives::Decomposed),
        mpi_library: Some("Open MPI 5".into()),
        mpi_thread_level: Some(3),
        worlds: vec![World { first_task: 0, tasks: 2 }, World { first_task: 2, tasks: 15 }],
        call_places: (0..2).map(|at| CallPlace { module: "solver".into(), offset: u64::MAX - at }).collect(),
        sites: Some(vec![PairSites { source: 0, destination: 1, messages: 2, bytes: 3, sites: vec![call] }]),
        ..Meta::new(Kind::Threads, "test", (0..tasks).map(task).collect())
    };
    let ring = |value| {
        Matrix::from_triplets(tasks as usize, (0..tasks).map(|id| (id, (id + 1) % tasks, value + u64::from(id))))
    };
    let row = |id| SeriesRow { bin: u64::from(id), source: id, destination: (id + 1) % tasks, messages: 1, bytes: 8 };
    let size =
        |id| SizeRow { source: id, destination: (id + 1) % tasks, class: id % 64, messages: 1, bytes: 1 << (id % 64) };
    let each = |factor: u64| (0..u64::from(tasks)).map(|id| id * factor).collect();
    Profile {
        invalidations: Some(ring(1)),
        sharing: Some(ring(2)),
        transfers: Some(ring(3)),
        series: (0..tasks).map(row).collect(),
        accessed_bytes: each(64),
        polled_bytes: each(32),
        alone_bytes: each(33),
        loads: each(2),
        stores: each(3),
        sizes: (0..tasks).map(size).collect(),
        phases: (0..tasks)
            .map(|id| PhaseRow {
                phase: id / 2,
                size: size(id),
                order: id % 3,
                by: [SentBy::Program, SentBy::Collective, SentBy::Steps][id as usize % 3],
            })
            .collect(),
        trace: Some(trace(tasks)),
        visits: (0..tasks).map(visit).collect(),
        mpi_ns: each(5),
        run_ns: each(7),
        ..Profile::new(meta, ring(u64::MAX - u64::from(tasks)), ring(8))
    }
}

fn visit(id: u32) -> Visit {
    Visit { task: id, place: id % 2, begin_ns: u64::from(id), end_ns: u64::from(id) << 33, calls: u64::MAX }
}

/// Each task sends to the next one.
fn trace(tasks: u32) -> Trace {
    let messages =
        (0..tasks).map(|id| Message { source: id, destination: (id + 1) % tasks, bytes: u64::from(id) << 33 });
    let of = |id: u32| {
        let before = (id + tasks - 1) % tasks;
        [(Does::Post, before), (Does::Send, id), (Does::Wait, before)]
            .map(|(does, message)| Operation { does, message })
    };
    Trace { messages: messages.collect(), operations: (0..tasks).map(|id| of(id).to_vec()).collect() }
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.npz");
    (directory, path)
}

fn round_trip(profile: &Profile) -> Profile {
    let (_directory, path) = scratch();
    write_profile(&path, profile).unwrap();
    read_profile(&path).unwrap()
}

#[test]
fn comes_back_as_it_went() {
    for tasks in [1, 2, 17, DENSE_TASKS as u32 + 1] {
        let profile = example(tasks);
        assert!(round_trip(&profile) == profile, "{tasks} tasks");
    }
    let bare = Profile::new(Meta::new(Kind::Ranks, "bare", Vec::new()), Matrix::zero(0), Matrix::zero(0));
    assert_eq!(round_trip(&bare), bare);
}

#[test]
fn keys_and_arrays_of_later_versions_are_kept() {
    let mut profile = example(3);
    let later: serde_json::Value =
        serde_json::from_str(r#"{"deep": [1, {"er": null}, 18446744073709551616, 0.1000000000000000055]}"#).unwrap();
    profile.meta.unknown.insert("later".into(), later.clone());
    profile.meta.tasks[1].unknown.insert("later".into(), later.clone());
    profile.meta.coverage = Coverage {
        exact: false,
        sample_rate: 0.25,
        events_lost: 3,
        not_seen: vec!["io".into()],
        unknown: Default::default(),
    };
    profile.meta.coverage.unknown.insert("later".into(), later);
    let npy = [npy::header_bytes("<f8", &[2]), vec![7; 16]].concat();
    profile.unknown = vec![UnknownArray { name: "task_later".into(), npy }];
    assert_eq!(round_trip(&round_trip(&profile)), profile);
}

#[test]
fn equal_profiles_are_equal_files() {
    let (_directory, path) = scratch();
    let bytes = |path: &Path| {
        write_profile(path, &example(5)).unwrap();
        fs::read(path).unwrap()
    };
    assert_eq!(bytes(&path), bytes(&path));
}

#[test]
fn a_profile_that_contradicts_itself_is_not_written() {
    let (_directory, path) = scratch();
    let profile = Profile { messages: Matrix::zero(4), ..example(3) };
    let error = write_profile(&path, &profile).unwrap_err();
    assert!(error.cause.contains("messages has 4 rows for 3 tasks"), "{}", error.cause);
    let error = write_profile(&path, &Profile { loads: vec![1], ..example(3) }).unwrap_err();
    assert!(error.cause.contains("task_loads has 1 values for 3 tasks"), "{}", error.cause);
    assert!(!path.exists());
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(directory.path()).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: a small tmpfs to fill needs root and mount(8)");
        return;
    }
    let path = directory.path().join("p.npz");
    let small = write_profile(&path, &example(2));
    let before = fs::read(&path);
    let noise = |id: u32| (id, id.wrapping_mul(7919) % 500, u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let large = Profile { messages: Matrix::from_triplets(500, (0..500).map(noise)), ..example(500) };
    let large = Profile { unknown: vec![UnknownArray { name: "z".into(), npy: pseudo_random(100_000) }], ..large };
    let error = write_profile(&path, &large);
    let (after, names) = (fs::read(&path), fs::read_dir(directory.path()).unwrap().count());
    assert!(Command::new("umount").arg(directory.path()).status().unwrap().success());
    let error = error.unwrap_err();
    assert_eq!(small, Ok(()));
    assert!(error.cause.contains("p.npz") && error.remedy.as_ref().unwrap().contains("space"), "{error}");
    assert_eq!(before.unwrap(), after.unwrap());
    assert_eq!(names, 1);
}

/// Bytes that deflate cannot shrink.
fn pseudo_random(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn numpy_reads_it() {
    let script = "import json, sys, numpy as np\n\
        z = np.load(sys.argv[1])\n\
        m = json.loads(bytes(z['meta']))\n\
        assert m['format'] == 1 and len(m['tasks']) == 3, m\n\
        assert z['messages'].dtype == np.uint64 and z['messages'].shape == (3, 3)\n\
        assert z['bytes'].tolist() == [[0, 8, 0], [0, 0, 9], [10, 0, 0]], z['bytes']\n\
        assert z['series_source'].dtype == np.uint32 and z['series_bin'].tolist() == [0, 1, 2]\n\
        assert z['task_loads'].tolist() == [0, 2, 4]\n\
        changed = dict(z); changed['extra'] = np.arange(4.0); changed['messages'] = np.asfortranarray(z['messages'].astype('>u8'))\n\
        np.savez(sys.argv[2], **changed)\n";
    let (directory, path) = scratch();
    let changed = directory.path().join("changed.npz");
    write_profile(&path, &example(3)).unwrap();
    let has_numpy = |python: &&str| {
        Command::new(python).args(["-c", "import numpy"]).output().is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_numpy) else {
        eprintln!("SKIPPED: no python3 with numpy here");
        return;
    };
    let output = Command::new(python).args(["-c", script]).args([&path, &changed]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut read = read_profile(&changed).unwrap();
    assert_eq!(read.unknown.pop().unwrap().name, "extra");
    assert_eq!(read, example(3));
}

/// A zip of these members, packed.
fn zip_of(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in members {
        zip.start_file(format!("{name}.npy"), SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn array<const BYTES: usize>(descr: &str, shape: &[usize], elements: &[[u8; BYTES]]) -> Vec<u8> {
    [npy::header_bytes(descr, shape), elements.concat()].concat()
}

fn matrix(shape: &[usize], values: &[u64]) -> Vec<u8> {
    array("<u8", shape, &values.iter().map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

fn meta(text: &str) -> Vec<u8> {
    [npy::header_bytes("|u1", &[text.len()]), text.as_bytes().to_vec()].concat()
}

fn cause_of(content: &[u8]) -> String {
    let (_directory, path) = scratch();
    fs::write(&path, content).unwrap();
    let error = read_profile(&path).unwrap_err();
    assert!(error.cause.contains("p.npz"), "it names the file: {}", error.cause);
    error.cause
}

#[test]
fn bad_files_are_errors_that_say_where() {
    let good_meta = serde_json::to_string(&example(2).meta).unwrap();
    let square = matrix(&[2, 2], &[0, 1, 2, 0]);
    let with = |more: &[(&str, Vec<u8>)]| {
        let mut members = vec![("meta", meta(&good_meta)), ("messages", square.clone()), ("bytes", square.clone())];
        members.retain(|member| more.iter().all(|other| other.0 != member.0));
        members.extend_from_slice(more);
        zip_of(&members)
    };
    let with_meta = |from: &str, to: &str| with(&[("meta", meta(&good_meta.replace(from, to)))]);
    let pairs = |sources: &[u64], values: &[u64]| {
        let column = |values: &[u64]| matrix(&[values.len()], values);
        [
            ("sharing_source", column(sources)),
            ("sharing_destination", column(&[0, 1])),
            ("sharing_value", column(values)),
        ]
    };
    let phase = |numbers: &[u64], classes: &[u64]| {
        let column = |values: &[u64]| matrix(&[values.len()], values);
        let ones = || column(&vec![1; classes.len()]);
        [
            ("phase_number", column(numbers)),
            ("phase_source", ones()),
            ("phase_destination", ones()),
            ("phase_class", column(classes)),
            ("phase_messages", ones()),
            ("phase_bytes", ones()),
        ]
    };
    let ordered = |orders: &[u64]| {
        let mut columns = phase(&[1], &[1]).to_vec();
        columns.push(("phase_order", matrix(&[orders.len()], orders)));
        columns
    };
    // Messages from task 0 to 1, and what task 0 does with which of them.
    let traced = |does: &[u64], messages: &[u64]| {
        let column = |values: &[u64]| matrix(&[values.len()], values);
        [
            ("trace_source", column(&[0])),
            ("trace_destination", column(&[1])),
            ("trace_bytes", column(&[8])),
            ("trace_task", column(&vec![0; does.len()])),
            ("trace_does", column(does)),
            ("trace_message", column(messages)),
        ]
    };
    // A visit of task 0 to a place, of which `meta` has two.
    let visited = |place: u64, end: u64| {
        let column = |value| matrix(&[1], &[value]);
        [
            ("visit_task", column(0)),
            ("visit_place", column(place)),
            ("visit_begin_ns", column(7)),
            ("visit_end_ns", column(end)),
            ("visit_calls", column(1)),
        ]
    };
    let cases = [
        (Vec::new(), "not a .npz file"),
        (b"PK\x03\x04 and no more".to_vec(), "not a .npz file"),
        (zip_of(&[("messages", square.clone())]), "no array \"meta\""),
        (zip_of(&[("meta", meta(&good_meta)), ("bytes", square.clone())]), "no array \"messages\""),
        (with(&[("meta", b"\x93NUMPY".to_vec())]), "meta: cut short"),
        (with(&[("meta", meta("{\"format\": 1,,"))]), "meta: not a profile: key must be a string at line 1 column 14"),
        (
            with(&[("meta", [npy::header_bytes("|u1", &[3]), vec![b'{', 0xff, b'}']].concat())]),
            "meta: not UTF-8 at byte 1",
        ),
        (with_meta("\"format\":1", "\"format\":2"), "meta: profile format 2"),
        (with_meta("\"id\":1", "\"id\":7"), "meta: task 1 has id 7"),
        (with_meta("\"parent\":0", "\"parent\":2"), "meta: task 1 has a parent that is no task"),
        (with_meta("\"kind\":\"threads\"", "\"kind\":\"hamsters\""), "unknown variant `hamsters`"),
        (with(&[("messages", matrix(&[3, 3], &[0; 9]))]), "messages: its shape is [3, 3], expected [2, 2]"),
        (with(&[("messages", matrix(&[4], &[0; 4]))]), "messages: its shape is [4], expected two"),
        (with(&[("messages", matrix(&[2, 2], &[0; 3]))]), "messages: cut short"),
        (with(&[("task_loads", matrix(&[1 << 30], &[0; 3]))]), "task_loads: its shape [1073741824] needs 8589934592"),
        (with(&[("messages", matrix(&[2, 2], &[0; 5]))]), "messages: there is more data"),
        (with(&[("messages", matrix(&[1 << 40, 1 << 40], &[0; 5]))]), "messages: .npy header"),
        (with(&[("messages", b"hello, hello".to_vec())]), "messages: not a .npy array"),
        (with(&[("bytes", array("<f8", &[2, 2], &[1.5f64.to_le_bytes(); 4]))]), "bytes: element 0: 1.5 is not"),
        (with(&[("bytes", array("|i1", &[2, 2], &[[0xff]; 4]))]), "bytes: element 0: -1 is negative"),
        (with(&[("task_loads", matrix(&[3], &[0; 3]))]), "task_loads: 3 values for 2 tasks"),
        (with(&pairs(&[0, 2], &[1, 1])), "sharing_source: element 1 names task 2, there are 2"),
        (with(&pairs(&[0, 1], &[1])), "sharing: its columns differ in length: [2, 2, 1]"),
        (with(&[("messages_value", matrix(&[1], &[1]))]), "messages: stored both dense and as triplets"),
        (with(&[("series_bin", matrix(&[1], &[1]))]), "series_source: damaged"),
        (with(&phase(&[1, 0], &[1])), "phase: its columns differ in length: [2, 1, 1, 1]"),
        (with(&phase(&[1 << 32], &[1])), "phase_number: element 0 is 4294967296, a phase is below 2^32"),
        (with(&phase(&[1], &[64])), "phase_class: element 0 is 64, a class is below 64"),
        (with(&phase(&[1], &[1])[1..]), "phase: its columns differ in length: [0, 1, 1, 1]"),
        (with(&ordered(&[1, 2])), "phase: its columns differ in length: [1, 1, 2, 1]"),
        (
            with(&[&ordered(&[1])[..], &[("phase_collective", matrix(&[1], &[3]))]].concat()),
            "phase_collective: element 0 is 3, it is 0, 1 or 2",
        ),
        (with(&ordered(&[1 << 32])), "phase_order: element 0 is 4294967296, a place is below 2^32"),
        (with(&traced(&[0], &[0])[..1]), "trace_destination: "),
        (with(&traced(&[0, 0], &[0])), "the operations of the trace: its columns differ in length: [2, 2, 1]"),
        (with(&traced(&[0, 3], &[0, 0])), "trace_does: element 1 is 3, it is 0, 1 or 2"),
        (with(&traced(&[0, 0], &[0, 1])), "the trace of task 0, operation 1: there is no message 1"),
        (with(&traced(&[0, 0], &[0, 1 << 32])), "trace_message: element 1 names no message"),
        (with(&traced(&[0, 0], &[0, 0])), "the trace of task 0, operation 1: the message is sent twice"),
        (with(&visited(2, 7)), "visit_place: element 0 names place 2, there are 2"),
        (with(&visited(0, 6)), "visit_end_ns: element 0 is before its beginning"),
        (with(&visited(0, 7)[..3]), "visit_end_ns: "),
    ];
    for (content, expected) in cases {
        let cause = cause_of(&content);
        assert!(cause.contains(expected), "expected {expected:?} in {cause:?}");
        assert!(!cause.contains('\n'), "one line: {cause}");
    }
}

#[test]
fn sizes_are_not_believed() {
    // A gigabyte of zeroes, packed a thousandfold: refused by what it declares.
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for index in 0..5 {
        zip.start_file(format!("bomb{index}.npy"), SimpleFileOptions::default()).unwrap();
        (0..500).for_each(|_| zip.write_all(&[0; 1 << 20]).unwrap());
    }
    let bomb = zip.finish().unwrap().into_inner();
    assert!(bomb.len() < 4 << 20);
    assert!(cause_of(&bomb).contains("declares 2621440000 bytes in all; at most"));

    // The same file, its directory claiming more for one member than a member may have, and more than it can hold.
    let declared = (500u32 << 20).to_le_bytes();
    let at = bomb.windows(4).rposition(|window| window == declared).unwrap();
    let mut claims = bomb.clone();
    claims[at..at + 4].copy_from_slice(&(u32::MAX - 1).to_le_bytes());
    assert!(cause_of(&claims).contains("bomb4.npy: declares 4294967294 bytes; at most"));
    let mut small = zip_of(&[("meta", vec![0; 100])]);
    let at = small.windows(4).rposition(|window| window == 100u32.to_le_bytes()).unwrap();
    small[at..at + 4].copy_from_slice(&(400u32 << 20).to_le_bytes());
    assert!(cause_of(&small).contains("packed bytes cannot hold as many"));
}

#[test]
fn every_cut_is_an_error() {
    let (_directory, path) = scratch();
    write_profile(&path, &example(3)).unwrap();
    let content = fs::read(&path).unwrap();
    for length in 0..content.len() {
        fs::write(&path, &content[..length]).unwrap();
        assert!(read_profile(&path).is_err(), "cut to {length} of {} bytes", content.len());
    }
}

#[test]
fn a_damaged_byte_is_found_by_the_checksum() {
    let values: Vec<u64> = (0..64 * 64).map(|value| value * 0x0123_4567_89ab).collect();
    let profile = Profile { messages: Matrix::from_dense(64, &values), ..example(64) };
    let (_directory, path) = scratch();
    write_profile(&path, &profile).unwrap();
    let mut content = fs::read(&path).unwrap();
    let name = content.windows(12).position(|window| window == b"messages.npy").unwrap();
    content[name + 4000] ^= 0x10;
    fs::write(&path, content).unwrap();
    let cause = read_profile(&path).unwrap_err().cause;
    assert!(cause.contains("messages: ") && cause.contains("damaged"), "{cause}");
}

fn profiles() -> impl Strategy<Value = Profile> {
    (1u32..12).prop_flat_map(|tasks| {
        let entries = prop::collection::vec((0..tasks, 0..tasks, any::<u64>()), 0..40);
        let series =
            prop::collection::btree_map((any::<u64>(), 0..tasks, 0..tasks), (any::<u64>(), any::<u64>()), 0..20);
        let counts = prop::option::of(prop::collection::vec(any::<u64>(), tasks as usize));
        let matrices = (entries.clone(), entries.clone(), prop::option::of(entries.clone()), prop::option::of(entries));
        (Just(tasks), matrices, series, counts, ".{0,20}").prop_map(|(tasks, matrices, series, counts, name)| {
            let of = |entries: Vec<(u32, u32, u64)>| Matrix::from_triplets(tasks as usize, entries);
            let mut meta = Meta::new(Kind::Hybrid, name.clone(), (0..tasks).map(task).collect());
            meta.command = vec![name];
            let row = |((bin, source, destination), (messages, bytes))| SeriesRow {
                bin,
                source,
                destination,
                messages,
                bytes,
            };
            Profile {
                invalidations: matrices.2.map(of),
                sharing: matrices.3.map(of),
                series: series.into_iter().map(row).collect(),
                stores: counts.unwrap_or_default(),
                ..Profile::new(meta, of(matrices.0), of(matrices.1))
            }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_profile_comes_back(profile in profiles()) {
        prop_assert_eq!(round_trip(&profile), profile);
    }

    #[test]
    fn random_bytes_never_panic(content in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(!cause_of(&content).is_empty());
    }

    #[test]
    fn mutated_files_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), stored in any::<bool>()) {
        let (_directory, path) = scratch();
        write_profile(&path, &example(3)).unwrap();
        let mut content = if stored { stored_copy(&path) } else { fs::read(&path).unwrap() };
        for (index, byte) in changes {
            let at = index.index(content.len());
            content[at] = byte;
        }
        fs::write(&path, content).unwrap();
        if let Ok(profile) = read_profile(&path) {
            prop_assert_eq!(profile.meta.tasks.len(), profile.tasks());
        }
    }

    #[test]
    fn mutated_arrays_never_panic(which in 0..9usize, at in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 1..12)) {
        let (_directory, path) = scratch();
        write_profile(&path, &example(3)).unwrap();
        let mut archive = archive::Archive::open(&path).unwrap();
        let names = archive.names();
        let mut members: Vec<_> = names.iter().map(|name| (name.as_str(), archive.raw(name).unwrap())).collect();
        let content = &mut members[which].1;
        let start = at.index(content.len());
        for (byte, new) in content[start..].iter_mut().zip(bytes) {
            *byte = new;
        }
        fs::write(&path, zip_of(&members)).unwrap();
        if let Ok(profile) = read_profile(&path) {
            prop_assert_eq!(profile.meta.tasks.len(), profile.tasks());
        }
    }
}

/// The file's members, unpacked, so that a changed byte meets the parsers and not only the checksum.
fn stored_copy(path: &Path) -> Vec<u8> {
    let mut archive = archive::Archive::open(path).unwrap();
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for name in archive.names() {
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        zip.start_file(format!("{name}.npy"), options).unwrap();
        zip.write_all(&archive.raw(&name).unwrap()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
