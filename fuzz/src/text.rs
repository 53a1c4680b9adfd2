//! `std_reader`: reads text and checks that what comes of it is a history.

use selvedge_analyze::std_text::parse;
use selvedge_analyze::{History, Op};

/// Reads the bytes as RAPID's text.
pub fn exercise(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').count() as u64;
    match parse(bytes) {
        Err(error) => {
            assert!((1..=lines).contains(&error.line), "an error outside of the text");
            assert!(error.column >= 1 && error.column <= bytes.len() as u64 + 1);
            assert!(!error.to_string().is_empty());
        }
        Ok(imported) => {
            history(&imported.history);
            assert!(imported.history.sources.iter().all(|line| *line < lines));
            assert!(imported.diagnostics.iter().all(|found| (1..=lines).contains(&found.line)));
            for event in &imported.history.events {
                assert!(imported.threads.get(u32::from(event.thread)).is_some());
                assert!(imported.locations.get(event.location).is_some());
            }
        }
    }
}

/// Checks what every history promises.
pub fn history(history: &History) {
    assert_eq!(history.sources.len(), history.len());
    assert!(history.sources.is_sorted());
    let mut owners = vec![None; history.locks as usize];
    let mut readers = vec![0_u32; history.locks as usize];
    let mut begun = vec![false; history.threads as usize];
    let mut joined = vec![false; history.threads as usize];
    for event in &history.events {
        let (thread, target) = (usize::from(event.thread), event.target as usize);
        assert!(event.location < history.locations);
        assert!(!joined[thread], "an event after the join");
        begun[thread] = true;
        match event.op {
            op if op.is_access() => assert!(event.target < history.variables),
            Op::Acquire => {
                assert_eq!(owners[target].replace(thread), None, "two owners");
                assert_eq!(readers[target], 0, "an owner beside readers");
            }
            Op::Release => assert_eq!(owners[target].take(), Some(thread), "not its own"),
            Op::AcquireShared => {
                assert_eq!(owners[target], None, "a reader beside the owner");
                readers[target] += 1;
            }
            Op::ReleaseShared => readers[target] = readers[target].checked_sub(1).expect("a reader leaves twice"),
            Op::Fork => assert!(!std::mem::replace(&mut begun[target], true), "an event before the fork"),
            Op::Join => assert!(!std::mem::replace(&mut joined[target], true), "joined twice"),
            op if op.posts() || op.takes() => assert!(event.target < history.objects),
            _ => {}
        }
    }
}
