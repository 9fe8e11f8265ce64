//! Every format with what it should give, and what it should refuse.

use super::*;
use cohabit_model::Matrix;
use cohabit_model::profile::{Kind, TaskKind};
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;

fn all() -> Vec<&'static Format> {
    FORMATS.iter().collect()
}

/// A directory with these files; the path of the first.
fn directory(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(directory.path().join(name), content).unwrap();
    }
    let path = directory.path().join(files[0].0);
    (directory, path)
}

fn read(name: &str, content: &str) -> Result<Profile> {
    let (_directory, path) = directory(&[(name, content.as_bytes())]);
    import(&all(), &path, None)
}

fn refused(name: &str, content: &str, expected: &str) {
    let error = read(name, content).unwrap_err();
    assert!(error.cause.contains(expected), "{content:?}: expected {expected:?} in {:?}", error.cause);
    assert!(error.cause.contains(name) && !error.cause.contains('\n'), "{}", error.cause);
}

fn names(profile: &Profile) -> Vec<&str> {
    profile.meta.tasks.iter().map(|task| task.name.as_str()).collect()
}

#[test]
fn the_table_is_whole() {
    for (index, format) in FORMATS.iter().enumerate() {
        assert!(!format.about.is_empty() && !format.extensions.is_empty(), "{}", format.name);
        assert!(FORMATS[..index].iter().all(|other| other.name != format.name), "{} twice", format.name);
        for extension in format.extensions {
            assert_eq!(by_path(&all(), Path::new(&format!("a.{extension}"))).unwrap().name, format.name);
        }
    }
    let error = import(&all(), Path::new("a.xyz"), None).unwrap_err();
    assert!(error.remedy.unwrap().contains("matrix-market"));
    assert!(import(&all(), Path::new("a.csv"), Some("xyz")).unwrap_err().cause.contains("\"xyz\""));
    assert!(import(&all(), Path::new("none.csv"), None).unwrap_err().cause.contains("none.csv"));
}

#[test]
fn csv_in_every_shape() {
    let cases = [
        ("bare", "0,1,2\n3,0,4\n5,6,0\n"),
        ("spaces and a comment", "# made by hand\n0, 1, 2\n 3, 0, 4\n5, 6, 0\n\n"),
        ("semicolons, no newline at the end", "0;1;2\n3;0;4\n5;6;0"),
        ("tabs", "0\t1\t2\n3\t0\t4\n5\t6\t0\n"),
        ("spaces, one at the end", "0 1 2 \n3 0 4 \n5 6 0 \n"),
        ("a comma at the end", "0,1,2,\n3,0,4,\n5,6,0,\n"),
        ("a comma at the end but of the labels", "a,b,c\n0,1,2,\n3,0,4,\n5,6,0,\n"),
        ("a byte order mark", "\u{feff}0,1,2\n3,0,4\n5,6,0\n"),
        ("carriage returns", "0,1,2\r\n3,0,4\r\n5,6,0\r\n"),
        ("floats", "0.0,1.0,2.0\n3e0,0,4\n5,6,0\n"),
        ("labels above", "a,b,c\n0,1,2\n3,0,4\n5,6,0\n"),
        ("labels at the side", "a,0,1,2\nb,3,0,4\nc,5,6,0\n"),
        ("labels on both", ",a,b,c\na,0,1,2\nb,3,0,4\nc,5,6,0\n"),
        ("a corner too", "task,a,b,c\na,0,1,2\nb,3,0,4\nc,5,6,0\n"),
        ("quotes", "\"a\",\"b\",\"c\"\n0,1,2\n3,0,4\n5,6,0\n"),
        ("pandas with an index", ",0,1,2\n0,0,1,2\n1,3,0,4\n2,5,6,0\n"),
        ("pandas without one", "0,1,2\n0,1,2\n3,0,4\n5,6,0\n"),
        ("pairs", "0,1,1\n0,2,2\n1,0,3\n1,2,4\n2,0,5\n2,1,6\n"),
        ("pairs with a heading", "source,destination,value\n0,1,1\n0,2,2\n1,0,3\n1,2,4\n2,0,5\n2,1,6\n"),
        ("pairs, one in two parts", "from,to,weight\n2,1,3\n2,1,3\n0,1,1\n0,2,2\n1,0,3\n1,2,4\n2,0,5\n"),
    ];
    for (what, content) in cases {
        let profile = read("m.csv", content).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(profile.messages.to_dense(), [0, 1, 2, 3, 0, 4, 5, 6, 0], "{what}");
        assert_eq!(profile.bytes, profile.messages, "{what}");
        let coverage = &profile.meta.coverage;
        assert!(!coverage.exact && coverage.not_seen.len() == 2, "{what}: {coverage:?}");
        if what.contains("labels") || what.contains("corner") || what.contains("quotes") {
            assert_eq!(names(&profile), ["a", "b", "c"], "{what}");
        } else {
            assert_eq!(profile.meta.tasks.len(), 3, "{what}");
        }
    }
    let both = read("m.csv", "src,dst,messages,bytes\n0,1,2,64\n").unwrap();
    assert_eq!((both.messages.get(0, 1), both.bytes.get(0, 1), both.meta.coverage.not_seen.len()), (2, 64, 1));
}

#[test]
fn csv_refused() {
    let cases = [
        ("", "nothing in it"),
        ("5,1\n2,0\n3,4\n", "line 1, column 3: 2 values, but there are 3 rows"),
        ("0,1\n2\n", "line 2, column 2: 1 values, but there are 2 rows"),
        ("0,1\n2,3,4\n", "line 2, column 3: 3 values, but there are 2 rows"),
        ("1,2,3\n4,5,6\n", "line 1, column 3: 3 values, but there are 2 rows"),
        ("a,b,c\n1,2,3\n4,5,6\n", "line 1, column 1: \"a\" is not a number"),
        ("0,1,5\n1,0,7\n", "line 1, column 3: 3 values, but there are 2 rows"),
        ("9,8,7\n6,5,4\n3,2,1\n8,7,9\n", "line 1, column 4: 3 values, but there are 4 rows"),
        ("0,NA,2\n1,0,3\n2,3,0\n", "line 1, column 2: \"NA\" is not a number"),
        ("NA,1,2\n1,NA,3\n2,3,NA\n", "line 1, column 1: \"NA\" is not a number"),
        ("NA,NA,NA\n1,0,3\n2,3,0\n", "line 1, column 1: \"NA\" is not a number"),
        ("0;1,5;2\n1,5;0;3\n2;3;0\n", "line 1, column 2: \"1,5\" is not a number"),
        ("0,10k,2\n1,0,3\n2,3,0\n", "line 1, column 2: \"10k\" is not a number"),
        ("10k,20k,30k\n1,0,3\n2,3,0\n4,5,6\n", "line 1, column 1: \"10k\" is not a number"),
        ("0,,2\n1,0,3\n2,3,0\n", "line 1, column 2: a number is missing"),
        (",1,2\n1,0,3\n2,3,0\n", "line 1, column 1: a number is missing"),
        ("0,1,\n1,0,3\n2,3,0\n", "line 1, column 3: a number is missing"),
        ("[[0, 1], [1, 0]]\n", "line 1, column 1: a list in brackets"),
        ("# numpy\n [[0 1]\n [1 0]]\n", "line 2, column 2: a list in brackets"),
        ("a,b\n", "line 1, column 2: \"b\" is not a number"),
        ("0,1\n2,x\n", "line 2, column 2: \"x\" is not a number"),
        ("0,1\n2,\n", "line 2, column 2: a number is missing"),
        ("0,-1\n2,0\n", "line 1, column 2: -1 is negative"),
        ("0,1\n0.5,0\n", "line 2, column 1: 0.5 is not a whole number"),
        ("0,1\nnan,0\n", "line 2, column 1: NaN is not finite"),
        ("0,inf\n0,0\n", "line 1, column 2: inf is not finite"),
        ("0,18446744073709551616\n0,0\n", "does not fit into 64 bits"),
        ("source,destination,value\n0,1\n", "line 2, column 3: 2 fields, expected 3"),
        ("source,destination,value\n", "there is no task in it"),
        ("source,destination,value\n0,4294967296,1\n", "line 2, column 2: 4294967296 is no task's number"),
        ("source,destination,value\na,b,1\n", "line 2, column 1: \"a\" is not a number"),
    ];
    for (content, expected) in cases {
        refused("m.csv", content, expected);
    }
    for (content, expected) in [(&b"0,\xff\n"[..], "byte 2 is not UTF-8"), (b"\xff\xfe0\x00,\x001\x00", "it is UTF-16")]
    {
        let (_directory, path) = directory(&[("m.csv", content)]);
        assert!(import(&all(), &path, None).unwrap_err().cause.contains(expected), "{expected}");
    }
}

#[test]
fn thread_ids_in_a_list_of_pairs_are_names() {
    let list = "source,destination,messages\n12346,12345,7\n12345,12347,9\n";
    let profile = read("m.csv", list).unwrap();
    assert_eq!(profile.messages.to_dense(), [0, 0, 9, 7, 0, 0, 0, 0, 0]);
    assert_eq!(names(&profile), ["thread 12345", "thread 12346", "thread 12347"]);
    assert_eq!(profile.meta.tasks[1].tid, 12346);
    let bare = "900,901,1\n901,900,2\n900,902,3\n902,900,4\n";
    assert_eq!(read("m.csv", bare).unwrap().messages.to_dense(), [0, 1, 3, 2, 0, 0, 4, 0, 0]);
    // Ranks keep their numbers, and a list with a few silent tasks all of them.
    let ranks = relabelled(profile, Kind::Ranks).unwrap();
    assert_eq!((ranks.meta.tasks[2].rank, names(&ranks)[2]), (Some(12347), "rank 12347"));
    assert_eq!(read("m.csv", "from_rank,to_rank,bytes\n0,9,1\n").unwrap().tasks(), 10);
    // One number says nothing about how many tasks there are.
    assert_eq!(read("m.csv", "source,destination,value\n0,1048575,7\n").unwrap().tasks(), 2);
}

#[test]
fn messages_and_bytes_in_two_files_are_one_profile() {
    let files: [(&str, &[u8]); 3] =
        [("x.size.csv", b"0,64\n32,0\n"), ("x.count.csv", b"0,2\n1,0\n"), ("x.other.csv", b"?")];
    let (_directory, path) = directory(&files);
    for name in ["x.size.csv", "x.count.csv"] {
        let profile = import(&all(), &path.with_file_name(name), None).unwrap();
        assert_eq!((profile.messages.get(0, 1), profile.bytes.get(0, 1)), (2, 64));
        assert_eq!(profile.meta.coverage.not_seen, [build::UNSAID]);
    }
    let (_directory, path) = directory(&[("x.size.csv", b"0,64\n32,0\n"), ("x.count.csv", b"1\n")]);
    assert!(import(&all(), &path, None).unwrap_err().cause.contains("messages have 1 task, bytes 2"));
}

#[test]
fn numalize_has_its_last_thread_first() {
    // Threads 0 and 1 communicated 5, 1 and 2 communicated 7.
    let profile = read("prog.full.6.comm.csv", "0,7,0\n5,0,7\n0,5,0\n\n").unwrap();
    assert_eq!(profile.messages.to_dense(), [0, 3, 0, 2, 0, 4, 0, 3, 0]);
    assert!(!profile.meta.coverage.exact);
    refused("a.comm.csv", "0,1\n0,2\n", "threads 0 and 1: 2 one way, 0 the other");
    refused("a.comm.csv", "0,1,2\n0,2,3\n", "3 values, but there are 2 rows");
}

#[test]
fn matrix_market_layouts() {
    let cases = [
        ("%%MatrixMarket matrix coordinate integer general\n% made by hand\n2 2 2\n1 2 5\n2 1 7\n", [0, 5, 7, 0]),
        ("%%matrixmarket MATRIX Coordinate Real General\n2 2 1\n1 2 5.0e0\n", [0, 5, 0, 0]),
        ("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n2 1\n2 2\n", [0, 1, 1, 1]),
        ("%%MatrixMarket matrix coordinate integer symmetric\n\n2 2 1\n2 1 9\n", [0, 9, 9, 0]),
        ("%%MatrixMarket matrix array integer general\n2 2\n1\n2\n3\n4\n", [1, 3, 2, 4]),
        ("%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n3\n", [1, 2, 2, 3]),
    ];
    for (content, expected) in cases {
        assert_eq!(read("m.mtx", content).unwrap().messages.to_dense(), expected, "{content}");
    }
}

#[test]
fn matrix_market_refused() {
    let general = "%%MatrixMarket matrix coordinate integer general\n";
    let cases = [
        ("", "line 1: it does not start with"),
        ("%%MatrixMarket matrix coordinate complex general\n", "complex general matrices are not read"),
        ("%%MatrixMarket matrix coordinate real skew-symmetric\n", "skew-symmetric matrices are not read"),
        ("%%MatrixMarket matrix array pattern general\n", "array pattern"),
        (general, "no size line"),
        (&format!("{general}2 2\n"), "line 2, column 1: 2 sizes do not fit"),
        (&format!("{general}2 3 0\n"), "line 2, column 2: 2 rows and 3 columns"),
        (&format!("{general}9999999999 9999999999 0\n"), "at most 1048576"),
        (&format!("{general}2 2 2\n1 2 5\n"), "holds 1 entries, but promises 2"),
        (&format!("{general}2 2 1\n1 3 5\n"), "line 3, column 2: index 3 is not between 1 and 2"),
        (&format!("{general}2 2 1\n0 1 5\n"), "line 3, column 1: index 0 is not"),
        (&format!("{general}2 2 1\n1 2 -5\n"), "line 3, column 3: -5 is negative"),
        (&format!("{general}2 2 1\n1 2\n"), "line 3, column 3: 2 fields, expected 3"),
        (&format!("{general}2 2 1\n1 2 5\n2 1 7\n"), "line 4, column 1: more entries than the 1 that line 2 promises"),
        (&format!("{general}made by hand\n2 2 1\n"), "line 2, column 1: \"made\" is not a number"),
        (&format!("{general}0 0 0\n"), "there is no task in it"),
        (&format!("{general}1048576 1048576 1\n1 2 5\n"), "1048576 tasks, of which at most 2 communicate"),
        ("%%MatrixMarket matrix coordinate integer general by hand\n", "line 1, column 6: \"by\" after the banner"),
        ("%%MatrixMarket matrix coordinate integer symmetric\n2 2 1\n1 2 3\n", "above the diagonal"),
        ("%%MatrixMarket matrix array integer general\n2 2\n1\n2\n3\n", "no value for row 2, column 2"),
        ("%%MatrixMarket matrix array integer general\n1 1\n1\n2\n", "line 4, column 1: more values"),
        ("%%MatrixMarket matrix array integer general\n1000000 1000000\n1\n", "no value for row 2"),
    ];
    for (content, expected) in cases {
        refused("m.mtx", content, expected);
    }
}

const RANK_0: &str = "# POINT TO POINT\nE\t0\t1\t108 bytes\t3 msgs sent\t0,0,0,1\nI\t0\t1\t4 bytes\t1 msgs sent\n\
    I\t0\t2\t4 bytes\t1 msgs sent\t0,1\n# OSC\nS\t0\t2\t10 bytes\t1 msgs sent\nR\t0\t2\t20 bytes\t2 msgs sent\n# COLLECTIVES\n\
    C\t0\t1\t4 bytes\t1 msgs sent\nD\tMPI_COMM_SELF\tprocs: 0\nO2A\t0\t0 bytes\t0 msgs sent\nA2O\t0\t0 bytes\t0 msgs sent\n\
    A2A\t0\t12 bytes\t1 msgs sent\nD\tMPI_COMM_WORLD\tprocs: 0,1,2\n";

#[test]
fn open_mpi_ranks_are_put_together() {
    let one = "E\t1\t2\t36 bytes\t1 msgs sent\n".as_bytes();
    let files = [
        ("out.0.prof", RANK_0.as_bytes()),
        ("out.1.prof", one),
        ("out.2.prof", b"# POINT TO POINT\n"),
        ("other.1.prof", b"?"),
    ];
    let (_directory, path) = directory(&files);
    let profile = import(&all(), &path, None).unwrap();
    assert_eq!(profile.messages.to_dense(), [0, 4, 2, 0, 0, 1, 2, 0, 0]);
    assert_eq!(profile.bytes.to_dense(), [0, 112, 14, 0, 0, 36, 20, 0, 0]);
    assert_eq!((profile.meta.kind, profile.meta.tasks[2].rank), (Kind::Ranks, Some(2)));
    assert!(profile.meta.coverage.exact && profile.meta.coverage.not_seen.is_empty());
    assert_eq!(profile.meta.imported_from.len(), 3);

    fs::remove_file(path.with_file_name("out.2.prof")).unwrap();
    let coverage = import(&all(), &path, None).unwrap().meta.coverage;
    assert!(!coverage.exact);
    assert_eq!(coverage.not_seen, ["what ranks without a file sent: 2"]);
}

#[test]
fn open_mpi_in_one_file_and_refused() {
    let profile = read("all.prof", RANK_0).unwrap();
    assert_eq!(profile.tasks(), 3);
    assert!(!profile.meta.coverage.exact, "the file of other ranks may be missing");
    refused("a.prof", "E\t0\t1000000\t108 bytes\t3 msgs sent\n", "1000001 tasks, of which at most 2 communicate");
    refused("a.prof", "", "no line of Open MPI's monitoring");
    refused("a.prof", "E\t0\t1\t108 by", "line 1: not a line");
    refused("a.prof", "E\t0\t-1\t108 bytes\t3 msgs sent\n", "line 1: -1 is negative");
    refused("a.prof", "E\t0\t99999999\t1 bytes\t3 msgs sent\n", "at most 1048576");
}

#[test]
fn open_mpi_matrices_come_in_pairs() {
    let files: [(&str, &[u8]); 2] =
        [("monitoring_all_msg.mat", b"0 2 \n2 0 \n"), ("monitoring_all_size.mat", b"0 64 \n64 0 \n")];
    let (_directory, path) = directory(&files);
    let profile = import(&all(), &path, None).unwrap();
    assert_eq!((profile.messages.get(0, 1), profile.bytes.get(1, 0)), (2, 64));
    assert_eq!(profile.meta.kind, Kind::Ranks);
}

#[test]
fn numpy_arrays_and_profiles() {
    use crate::npz::{npy::header_bytes, write_profile};
    let bytes =
        [header_bytes("<u8", &[2, 2]), [0u64, 1, 2, 0].iter().flat_map(|value| value.to_le_bytes()).collect()].concat();
    let (_directory, path) = directory(&[("m.npy", &bytes)]);
    let profile = import(&all(), &path, None).unwrap();
    assert_eq!(profile.messages.to_dense(), [0, 1, 2, 0]);
    let ours = path.with_file_name("p.npz");
    write_profile(&ours, &profile).unwrap();
    assert_eq!(import(&all(), &ours, None).unwrap(), profile);
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(import(&all(), &path, None).unwrap_err().cause.contains("m.npy: cut short"));
}

#[test]
fn arrays_of_two_sizes_are_no_profile() {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, tasks) in [("messages.npy", 2), ("bytes.npy", 3)] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&crate::npz::npy::header_bytes("|u1", &[tasks, tasks])).unwrap();
        zip.write_all(&vec![1; tasks * tasks]).unwrap();
    }
    let (_directory, path) = directory(&[("m.npz", &zip.finish().unwrap().into_inner())]);
    let error = import(&all(), &path, None).unwrap_err();
    assert!(error.cause.contains("\"messages\" is 2 x 2, but \"bytes\" 3 x 3"), "{}", error.cause);
}

#[test]
fn the_user_says_what_the_tasks_of_a_matrix_are() {
    let rows = [
        (Kind::Ranks, "rank 1", TaskKind::Rank, 1, 0, Some(1)),
        (Kind::Processes, "process 1", TaskKind::Process, 1, 0, None),
        (Kind::Threads, "thread 1", TaskKind::Thread, 0, 1, None),
    ];
    for (kind, name, noun, process, spawn_index, rank) in rows {
        let profile = relabelled(read("m.csv", "0,1\n1,0\n").unwrap(), kind).unwrap();
        let task = &profile.meta.tasks[1];
        assert_eq!((profile.meta.kind, task.name.as_str(), task.kind), (kind, name, noun));
        assert_eq!((task.process, task.spawn_index, task.rank), (process, spawn_index, rank));
        let labelled = relabelled(read("m.csv", "a,b\n0,1\n1,0\n").unwrap(), kind).unwrap();
        assert_eq!(names(&labelled), ["a", "b"]);
    }
    let mut ours = read("m.csv", "0").unwrap();
    ours.meta.detector = "dbi".into();
    assert!(relabelled(ours.clone(), Kind::Threads).is_ok());
    assert!(relabelled(ours, Kind::Ranks).unwrap_err().cause.contains("says itself"));
}

/// The matrices of MapLib that are given to tests, where COHABIT_SHARED names their place.
#[test]
fn maplib_matrices() {
    let Some(shared) = std::env::var_os("COHABIT_SHARED") else {
        eprintln!("SKIPPED: COHABIT_SHARED does not name the directory with data/maplib");
        return;
    };
    let maplib = Path::new(&shared).join("data/maplib");
    for (name, messages_0_1) in [("cg.size.csv", Some(6004)), ("cg.count.csv", Some(6004)), ("btmz.count.csv", None)] {
        let profile = import(&all(), &maplib.join(name), None).unwrap();
        assert_eq!(profile.tasks(), 64, "{name}");
        assert!(profile.bytes.total() > profile.messages.total(), "{name}");
        assert!(messages_0_1.is_none_or(|messages| profile.messages.get(0, 1) == messages), "{name}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(content in "[-0-9a-zA-Z%.,;\t \"\n#]{0,200}", which in 0..FORMATS.len()) {
        let name = format!("x.0.{}", FORMATS[which].extensions[0]);
        if let Ok(profile) = read(&name, &content) {
            prop_assert_eq!(profile.tasks(), profile.meta.tasks.len());
        }
    }

    #[test]
    fn a_printed_matrix_comes_back(values in (1usize..7).prop_flat_map(|tasks| prop::collection::vec(any::<u64>(), tasks * tasks))) {
        let tasks = values.len().isqrt();
        let line = |row: &[u64]| row.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let text: Vec<String> = values.chunks(tasks).map(line).collect();
        let matrix = read("m.csv", &text.join("\n")).unwrap().messages;
        prop_assert_eq!(matrix, Matrix::from_dense(tasks, &values));
    }
}
