//! `plan_reader`: what the runtime maps at the start of a program.

use selvedge_events::plan::{Plan, seal};

use crate::table;

/// Reads the bytes as a plan: as they are, then with length and checksum put right.
pub fn exercise(bytes: &[u8]) {
    read(bytes);
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    read(&sealed);
}

fn read(bytes: &[u8]) {
    let plan = match Plan::parse(bytes) {
        Ok(plan) => plan,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            return;
        }
    };
    assert!(plan.out_dir().len() <= bytes.len());
    for image in plan.images() {
        assert!(image.build_id.len() <= 32);
        let sites = image.sites();
        assert!(sites.len() <= bytes.len());
        let mut last = None;
        for (ordinal, _) in sites {
            assert!(last.is_none_or(|last| last < ordinal), "sites ascend");
            last = Some(ordinal);
        }
        table::read(image.table);
    }
}
