use super::*;
use proptest::prelude::*;

const TICKS_PER_SECOND: u64 = 2_000_000_000;

/// A stream of (ticks, address, size, kind, task) that claims to have `count` records.
fn stream(records: &[(u64, u64, u32, u32, u32)], count: u64) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    let mut put = |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
    put(offset_of!(abi::cohabit_stream_t, magic), &abi::COHABIT_STREAM_MAGIC.to_le_bytes());
    put(offset_of!(abi::cohabit_stream_t, version), &abi::COHABIT_STREAM_VERSION.to_le_bytes());
    put(offset_of!(abi::cohabit_stream_t, pid), &7u32.to_le_bytes());
    put(offset_of!(abi::cohabit_stream_t, start_ticks), &1000u64.to_le_bytes());
    put(offset_of!(abi::cohabit_stream_t, ticks_per_second), &TICKS_PER_SECOND.to_le_bytes());
    put(offset_of!(abi::cohabit_stream_t, block_bytes), &64u64.to_le_bytes());
    put(offset_of!(abi::cohabit_stream_t, count), &count.to_le_bytes());
    for &(ticks, address, size, kind, task) in records {
        bytes.extend(ticks.to_le_bytes());
        bytes.extend(address.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((kind << abi::COHABIT_ACCESS_KIND_SHIFT | task).to_le_bytes());
    }
    bytes
}

fn events(bytes: &[u8]) -> Result<Vec<Event>> {
    Stream::read(bytes, Path::new("some.stream"))?.collect()
}

#[test]
fn every_kind_of_record_is_read() {
    let rows = [
        ((1000, 0x40, 8, abi::COHABIT_ACCESS_READ, 1), Event::Access(Access::new(1, AccessKind::Read, 0x40, 8))),
        (
            (3000, 0x80, 4, abi::COHABIT_ACCESS_WRITE, 0x00ff_ffff),
            Event::Access(Access { time_ns: 1000, ..Access::new(0x00ff_ffff, AccessKind::Write, 0x80, 4) }),
        ),
        ((0, 1, 2, abi::COHABIT_ACCESS_READ_WRITE, 0), Event::Access(Access::new(0, AccessKind::ReadWrite, 1, 2))),
        ((0, 0x1000, 3, abi::COHABIT_ACCESS_CLEAR, 0), Event::Clear(0x1000..0x10c0)),
        ((0, 0, 0, abi::COHABIT_ACCESS_CLEAR, 0), Event::Clear(0..u64::MAX)),
        ((0, 0x1000, 100, abi::COHABIT_ACCESS_ONLY, 0), Event::Only(0x1000..0x1064)),
    ];
    for (record, event) in rows {
        assert_eq!(events(&stream(&[record], 1)).unwrap(), [event], "{record:?}");
    }
}

#[test]
fn what_lies_behind_the_last_whole_record_is_not_read() {
    let record = (0, 0, 1, abi::COHABIT_ACCESS_READ, 0);
    assert_eq!(events(&stream(&[record; 5], 2)).unwrap().len(), 2);
    assert_eq!(events(&stream(&[record; 5], 0)).unwrap().len(), 0);
}

#[test]
fn bad_streams_are_refused_by_name() {
    let good = stream(&[(0, 0, 1, abi::COHABIT_ACCESS_READ, 0)], 1);
    let changed = |offset: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[offset] = value;
        bytes
    };
    let rows = [
        (vec![], "no access stream"),
        (changed(0, 0), "no access stream"),
        (changed(offset_of!(abi::cohabit_stream_t, version), 9), "version 9"),
        (changed(offset_of!(abi::cohabit_stream_t, block_bytes), 63), "63 bytes"),
        (good[..good.len() - 1].to_vec(), "1 records are missing"),
        (changed(good.len() - 1, 77), "kind 77"),
    ];
    for (bytes, cause) in rows {
        let error = events(&bytes).unwrap_err();
        assert!(error.cause.starts_with("some.stream: ") && error.cause.contains(cause), "{cause}: {}", error.cause);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(tail in prop::collection::vec(any::<u8>(), 0..200), count: u64) {
        let mut bytes = stream(&[], count);
        bytes.extend(&tail);
        let read = Stream::read(&bytes[..], Path::new("some.stream")).unwrap().count();
        prop_assert!(read <= tail.len() / RECORD_BYTES + 1);
    }
}
