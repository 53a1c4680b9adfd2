//! `clip_reader`: what users hand each other.

use std::path::Path;

use selvedge_drive::clip::Clip;
use selvedge_sched::text::Schedule;

/// Reads the bytes as a clip, then as a schedule; what is accepted must survive being written.
pub fn exercise(bytes: &[u8]) {
    let path = Path::new("input.clip");
    match Clip::from_json(path, bytes) {
        Ok(clip) => {
            let again = Clip::from_json(path, clip.to_json().as_bytes());
            assert_eq!(again.ok(), Some(clip), "a clip that was read can be written and read");
        }
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Schedule>() {
        Ok(schedule) => assert_eq!(schedule.to_string(), text, "there is one way to write a schedule"),
        Err(refusal) => assert!(refusal.at <= text.len()),
    }
}
