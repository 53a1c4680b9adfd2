//! `site_table`, first half: the table on its own.

use selvedge_events::site_table::{Table, seal};

/// Reads the bytes as a table: as they are, then with the checksum put right.
pub fn exercise(bytes: &[u8]) {
    read(bytes);
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    read(&sealed);
}

/// Reads every entry.
pub(crate) fn read(bytes: &[u8]) {
    let table = match Table::parse(bytes) {
        Ok(table) => table,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            return;
        }
    };
    assert!(table.build_id().len() <= 32);
    let mut last = None;
    for ordinal in 0..table.len() {
        let Some(entry) = table.get(ordinal) else { panic!("entry {ordinal} of {} was checked", table.len()) };
        assert!(last.is_none_or(|last| last < entry.offset), "entries ascend");
        assert!(entry.hook.get().is_some_and(selvedge_events::Hook::is_site));
        last = Some(entry.offset);
    }
    assert_eq!(table.get(table.len()), None);
    let mut free = 0;
    for range in table.ranges() {
        assert!(range.first >= free && range.first + range.sites <= table.len(), "ranges ascend");
        free = range.first + range.sites;
        assert!(table.entrances(&range).all(|body| table.body(body).is_some()), "bodies that are there");
    }
}
