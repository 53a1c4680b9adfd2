//! `invariants_reader`: reads a file of invariants, and what was read must come back.

use selvedge_analyze::invariant::{Invariants, converge, group, select, text};

/// Reads the bytes as a file of invariants.
pub fn exercise(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    match text::parse(bytes) {
        Err(error) => {
            assert!((1..=lines).contains(&error.line), "an error outside of the text");
            assert!(!error.to_string().is_empty());
        }
        Ok(mut all) => {
            let written = text::write(&all);
            all.normalise();
            assert_eq!(text::parse(written.as_bytes()).as_ref(), Ok(&all), "what was written is read");
            merge(&all);
            choose(&all);
        }
    }
}

fn merge(all: &Invariants) {
    let mut merged = Invariants::default();
    assert_eq!(converge::fold(&mut merged, all), all.members());
    assert_eq!(converge::fold(&mut merged, all), 0);
}

fn choose(all: &Invariants) {
    let groups = group::groups(all);
    let bias = group::bias(all, group::HOT);
    let shared: usize = groups.iter().filter(|group| group.is_shared).map(|group| group.sites.len()).sum();
    let listed: usize = bias.left_out.iter().map(|group| group.sites.len()).sum();
    assert_eq!(bias.kept.len() + listed, shared);
    let half = select::restrict(all, |key| key.0.len().is_multiple_of(2));
    assert!(half.sites.values().flat_map(|site| site.members()).all(|key| key.0.len().is_multiple_of(2)));
    for key in all.sites.keys() {
        let _ = (key.file(), key.functions(), key.does());
        if let Ok(pattern) = select::Pattern::new(&key.0) {
            assert!(pattern.matches(key), "a key means itself");
        }
    }
}
