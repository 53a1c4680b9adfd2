//! Truncated, flipped, foreign and hostile files: an error or a damage, what is whole is read, and
//! never a panic, a hang or a huge allocation.

use std::path::PathBuf;

use proptest::prelude::*;
use selvedge_events::trace_file::{self as layout, at};
use selvedge_events::{EventKind, pack};
use selvedge_trace::std_text::write_std;
use selvedge_trace::write::{Stream, TraceBuilder};
use selvedge_trace::{OpenTraceError, Process, StackCopy, Survey, TraceFile};

fn sample() -> Vec<u8> {
    let mut stream = Stream::new(100);
    for step in 0..300_u64 {
        stream.access((step % 7) as u32, 0x7fff_0000_0000 + step * 8, (step % 5 == 0).then_some(step * 40));
        stream.range(2, 0x7fff_0000_0000 + step * 16, step, step % 2 == 0, (step % 3 == 0).then_some(step * 40));
        if step % 11 == 0 {
            stream.push(0x40_0000 + step);
            stream.wide(EventKind::Alloc, step * 40, pack::pc_payload(0, 9), [step << 8, 64, 0]);
        }
        if step % 13 == 0 {
            stream.pop(1);
        }
    }
    let mut file = TraceBuilder::new();
    file.module(0, 0x40_0000, 0x41_0000, &[7; 20], "/bin/p")
        .sites(0, &[(0, 4, "__tsan_read8"), (1, 8, "__tsan_write8")])
        .survey(0, &[1 << 32 | 3, 9])
        .stack(1, &StackCopy { sp: 0x7fff_0000_0000, bytes: vec![7; 5000], ..StackCopy::default() })
        .stream(0, &stream)
        .live(&[(1, 0, stream.words(), Some((3, 5, 0x40_0001)))]);
    file.finish()
}

/// Does everything that a reader does; returns the number of events.
fn exhaust(bytes: Vec<u8>) -> Result<u64, OpenTraceError> {
    let process = Process::new(TraceFile::from_bytes(bytes)?, PathBuf::new());
    let events = process.events().count() as u64;
    assert_eq!(process.summary().events, events);
    Survey::default().add_process(&process);
    let (_, _, _) = (process.blocked(), process.exactness(), process.nanos(process.summary().last));
    for number in 0..9 {
        let _ = process.file().stack(number).map(|stack| stack.word(stack.sp));
    }
    for event in process.events().take(100) {
        let _ = (process.access(&event), process.code(event.place), process.contexts().frames(event.context));
    }
    Ok(events)
}

#[test]
fn a_truncated_file_yields_what_lies_before() {
    let whole = sample();
    let all = exhaust(whole.clone()).expect("whole");
    let mut last = 0;
    for len in (layout::HEADER..whole.len()).step_by(1021) {
        let events = exhaust(whole[..len].to_vec()).expect("the header is whole");
        assert!(events >= last, "more bytes, fewer events at {len}");
        last = events;
    }
    assert!(last > 0 && last <= all);
    for len in [0, 7, 8, 11, 12, 100, layout::HEADER - 1] {
        assert!(exhaust(whole[..len].to_vec()).is_err(), "{len} bytes");
    }
}

#[test]
fn foreign_files_are_refused_with_a_reason() {
    let mut newer = sample();
    newer[at::VERSION] = 2;
    let cases: [(Vec<u8>, &str); 3] = [
        (b"\x7fELF and more".to_vec(), "not a trace"),
        (newer, "format version 2"),
        (Vec::new(), "not a trace: 0 bytes"),
    ];
    for (bytes, expect) in cases {
        let error = TraceFile::from_bytes(bytes).expect_err(expect).to_string();
        assert!(error.contains(expect), "{error}");
    }
    assert!(matches!(TraceFile::open(&std::env::temp_dir()), Err(OpenTraceError::Io { .. })));
    assert!(matches!(TraceFile::open("no/such/file".as_ref()), Err(OpenTraceError::Io { .. })));
}

#[test]
fn damage_has_an_offset_and_the_rest_is_read() {
    let whole = sample();
    let all = exhaust(whole.clone()).expect("whole");
    // The second chunk's magic: its page is skipped, the next chunk is found again.
    let mut bad = whole.clone();
    bad[layout::HEADER] ^= 1;
    let file = TraceFile::from_bytes(bad.clone()).expect("opens");
    assert_eq!(file.damages().len(), 1);
    assert_eq!(file.damages()[0].offset, layout::HEADER as u64);
    assert_eq!(exhaust(bad).expect("opens"), all);
    // A length beyond reason.
    let mut bad = whole;
    bad[layout::HEADER + at::CHUNK_LEN + 7] = 0xff;
    let file = TraceFile::from_bytes(bad).expect("opens");
    assert_eq!(file.damages()[0].offset, (layout::HEADER + at::CHUNK_LEN) as u64);
}

#[test]
fn a_missing_chunk_is_said() {
    let words = Stream::default().access(0, 8, Some(32)).words().to_vec();
    let mut file = TraceBuilder::new();
    file.log(0, 0, &words).log(0, 2, &words);
    let file = TraceFile::from_bytes(file.finish()).expect("opens");
    assert_eq!(file.damages().len(), 1);
    assert_eq!(
        file.damages()[0].to_string(),
        "damaged at offset 8192: chunks of this thread are missing before this one"
    );
}

#[test]
fn a_huge_sparse_file_is_given_up_not_scanned_for_ever() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("trace.1.0");
    std::fs::write(&path, sample()).expect("written");
    let file = std::fs::File::options().write(true).open(&path).expect("opened");
    file.set_len(1 << 40).expect("sparse");
    let trace = TraceFile::open(&path).expect("opens");
    assert!(trace.damages().iter().any(|damage| damage.what.contains("rest is not read")));
}

proptest! {
    #[test]
    fn flipped_bits_never_panic(flips in proptest::collection::vec((0_usize..1 << 20, 0_u8..8), 1..40)) {
        let mut bytes = sample();
        let len = bytes.len();
        for (at, bit) in flips {
            bytes[at % len] ^= 1 << bit;
        }
        let _ = exhaust(bytes);
    }

    #[test]
    fn any_words_decode(words in proptest::collection::vec(any::<u64>(), 0..500), thread in any::<u32>()) {
        let mut file = TraceBuilder::new();
        file.sites(0, &[(0, 4, "__tsan_read8"), (1, 8, "__tsan_write_range")]).log(thread, 0, &words);
        let bytes = file.finish();
        let _ = exhaust(bytes.clone());
        let process = Process::new(TraceFile::from_bytes(bytes).expect("valid"), PathBuf::new());
        let _ = write_std(&process, &mut |_| true, &mut |_| String::new(), &mut std::io::sink());
    }

    #[test]
    fn any_chunk_headers_are_survived(heads in proptest::collection::vec((0_u16..8, any::<[u8; 56]>()), 1..8)) {
        let mut bytes = TraceBuilder::new().finish();
        for (kind, rest) in heads {
            let mut head = b"SLVC".to_vec();
            head.extend(kind.to_le_bytes());
            head.extend([1, 0]);
            head.extend(rest);
            head.resize(layout::PAGE, 0x5a);
            bytes.extend(head);
        }
        let _ = exhaust(bytes);
    }
}

#[test]
fn a_copy_that_was_cut_off_is_read_from_its_slot() {
    // The process ended while a thread copied its slot out: the slot has everything, the copy half.
    let mut stream = Stream::new(2000);
    for step in 0..1500_u64 {
        stream.access(1, 0x7fff_0000_0000 + step * 8, Some(step * 40));
    }
    let mut file = TraceBuilder::new();
    file.live(&[(1, 0, stream.words(), None)]);
    let whole = exhaust(file.finish()).expect("readable");
    file.log(1, 0, stream.words());
    let mut bytes = file.finish();
    let cut = bytes.len() - 4096;
    bytes.truncate(cut);
    let trace = TraceFile::from_bytes(bytes.clone()).expect("readable");
    assert!(!trace.damages().iter().any(|damage| damage.what.contains("inside a chunk")), "{:?}", trace.damages());
    assert_eq!(exhaust(bytes).expect("readable"), whole);
    assert!(whole >= 1500);
}

/// A slot of thread 1 with 1500 accesses, and the file around it.
fn one_slot() -> (TraceBuilder, Stream) {
    let mut stream = Stream::new(2000);
    for step in 0..1500_u64 {
        stream.access(1, 0x7fff_0000_0000 + step * 8, Some(step * 40));
    }
    let mut file = TraceBuilder::new();
    file.live(&[(1, 0, stream.words(), None)]);
    (file, stream)
}

#[test]
fn of_a_slot_and_its_copy_the_whole_one_is_read() {
    let (mut file, stream) = one_slot();
    let slot = layout::HEADER + layout::PAGE;
    let whole = exhaust(file.finish()).expect("readable");
    let copy = file.finish().len();
    file.log(1, 0, stream.words()).log(2, 0, stream.words());
    let bytes = file.finish();
    let both = exhaust(bytes.clone()).expect("readable");
    assert!(both > whole);
    for zeros in [
        // Killed inside the write of the copy, with another thread's chunk behind it.
        copy + layout::PAGE..copy + 2 * layout::PAGE,
        // Killed inside the clearing of the slot.
        slot + layout::CHUNK_HEADER..slot + layout::PAGE,
    ] {
        let mut bytes = bytes.clone();
        bytes[zeros.clone()].fill(0);
        assert_eq!(exhaust(bytes).expect("readable"), both, "{zeros:?}");
    }
}

#[test]
fn a_claim_that_a_slot_explains_is_no_damage() {
    let (file, _) = one_slot();
    let mut bytes = file.finish();
    let slot = layout::HEADER + layout::PAGE;
    for (copying, claimed, damages) in [(0, 0, 0), (0, 4096, 1), (8192_u32, 8192, 0), (8192, 4096, 0), (8192, 12288, 1)]
    {
        bytes[slot + at::COPYING..][..4].copy_from_slice(&copying.to_le_bytes());
        let next = bytes.len() as u64 + claimed;
        bytes[at::NEXT..][..8].copy_from_slice(&next.to_le_bytes());
        let file = TraceFile::from_bytes(bytes.clone()).expect("readable");
        assert_eq!(file.damages().len(), damages, "{copying} of {claimed}: {:?}", file.damages());
    }
}
