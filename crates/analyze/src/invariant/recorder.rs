//! Who touched each byte last, and the last of another thread: all that remote predecessors need.
//!
//! Paper: section 3.3, `UpdateRecorder` of Algorithm 1. The remote predecessor of an access is the last access before it,
//! if that was by another thread, else the last access that was by another thread than that one.
//!
//! Where two threads take turns at one site, the location becomes everybody's: while it is accessed there, nobody has come since anybody else.
//! The runtime's recorder needs that to leave memory alone that is only read.
//!
//! Exact to the byte. Eight bytes share one record for as long as all accesses to them are to the same ones of them, which
//! is nearly always.

use rustc_hash::FxHashMap;

/// Bytes that may share a record.
const WORD: u64 = 8;
/// Words of a page.
const PAGE: usize = 64;
const PAGE_BYTES: u64 = WORD * PAGE as u64;

/// The record of all memory. Sites are numbers from 1; 0 is nil.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// Its order means nothing.
    pages: FxHashMap<u64, Box<[Word; PAGE]>>,
}

/// The last accesses to a byte.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// The last; 0 where there is none.
    site: u32,
    /// By whom; everybody: `None`.
    thread: Option<u32>,
    /// The last by another thread than that; 0 where there is none.
    before: u32,
    /// By whom.
    before_thread: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct Word {
    /// Of the bytes in `mask`; nobody touched the others.
    record: Record,
    mask: u8,
    /// Where accesses of several shapes met, of each byte; `record` is not used then.
    bytes: Option<Box<[Record; WORD as usize]>>,
}

/// What came before an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Before {
    /// The last access by another thread; 0 is nil.
    pub remote: u32,
    /// The last access by anyone; 0 is none.
    pub last: u32,
    /// Whether that was by the same thread, and not only in turn with others at one site.
    pub own: bool,
}

impl Record {
    /// Algorithm 1.
    fn update(&mut self, site: u32, thread: u32) -> Before {
        let last = self.site;
        if last != 0 && self.thread == Some(thread) {
            self.site = site;
            return Before { remote: self.before, last, own: true };
        }
        let in_turn = self.thread.is_none() || self.before == site && self.before_thread == Some(thread);
        if last == site && in_turn {
            self.thread = None;
        } else {
            *self = Record { site, thread: Some(thread), before: last, before_thread: self.thread };
        }
        Before { remote: last, last, own: false }
    }
}

impl Word {
    fn access(&mut self, mask: u8, site: u32, thread: u32, note: &mut impl FnMut(Before)) {
        if self.bytes.is_none() && (self.mask == 0 || self.mask == mask) {
            self.mask = mask;
            note(self.record.update(site, thread));
            return;
        }
        for record in self.chosen(mask) {
            note(record.update(site, thread));
        }
    }

    fn forget(&mut self, mask: u8) {
        if self.bytes.is_none() && self.mask & !mask == 0 {
            *self = Word::default();
        } else if self.bytes.is_some() || self.mask & mask != 0 {
            self.chosen(mask).for_each(|record| *record = Record::default());
        }
    }

    /// The records of some bytes, each its own.
    fn chosen(&mut self, mask: u8) -> impl Iterator<Item = &mut Record> {
        let (shared, of) = (self.record, self.mask);
        let bytes = self.bytes.get_or_insert_with(|| {
            Box::new(std::array::from_fn(|byte| if of >> byte & 1 != 0 { shared } else { Record::default() }))
        });
        bytes.iter_mut().enumerate().filter(move |(byte, _)| mask >> byte & 1 != 0).map(|(_, record)| record)
    }
}

impl Recorder {
    /// Takes an access of `len` bytes; `note` hears of what came before it, at least once for each different
    /// answer among its bytes.
    pub fn access(&mut self, addr: u64, len: u64, site: u32, thread: u32, mut note: impl FnMut(Before)) {
        for (word, mask) in words(addr, len) {
            let page = self.pages.entry(word / PAGE as u64).or_insert_with(new_page);
            if let Some(word) = page.get_mut(word as usize % PAGE) {
                word.access(mask, site, thread, &mut note);
            }
        }
    }

    /// These bytes begin anew.
    pub fn forget(&mut self, addr: u64, len: u64) {
        let end = addr.saturating_add(len);
        let (first, last) = (addr.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        if first >= last {
            self.forget_words(addr, len);
            return;
        }
        self.forget_words(addr, first * PAGE_BYTES - addr);
        self.forget_words(last * PAGE_BYTES, end - last * PAGE_BYTES);
        if last - first > self.pages.len() as u64 {
            self.pages.retain(|page, _| !(first..last).contains(page));
        } else {
            for page in first..last {
                self.pages.remove(&page);
            }
        }
    }

    fn forget_words(&mut self, addr: u64, len: u64) {
        for (word, mask) in words(addr, len) {
            let page = self.pages.get_mut(&(word / PAGE as u64));
            if let Some(word) = page.and_then(|page| page.get_mut(word as usize % PAGE)) {
                word.forget(mask);
            }
        }
    }
}

fn new_page() -> Box<[Word; PAGE]> {
    Box::new(std::array::from_fn(|_| Word::default()))
}

/// The words of some bytes, each with a mask of which of its bytes.
fn words(addr: u64, len: u64) -> impl Iterator<Item = (u64, u8)> {
    let end = addr.saturating_add(len);
    let last = if end > addr { end.div_ceil(WORD) } else { 0 };
    (addr / WORD..last).map(move |word| {
        let below = |to: u64| (1_u16 << to.saturating_sub(word * WORD).min(WORD)) - 1;
        (word, (below(end) & !below(addr)) as u8)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Whether a thread counts as the last that came. Nobody does in a stretch of accesses at one site in which two threads took turns, from
    /// the access on that makes it the second turn.
    fn own_of(all: &[(u32, u32)], thread: u32) -> bool {
        let mut everybody = false;
        for at in 1..all.len() {
            let (site, who) = all[at];
            if everybody {
                everybody = site == all[at - 1].0;
                continue;
            }
            // The last access of the thread before it, and the one before that by anybody else.
            let other = all[at - 1];
            let own = all[..at].iter().rposition(|(_, by)| *by == who);
            let third = |from: usize| all[from..at].iter().any(|(_, by)| *by != who && *by != other.1);
            everybody = other.1 != who
                && other.0 == site
                && own.is_some_and(|own| all[own].0 == site && !third(own) && !was_everybodys(&all[..=own]));
        }
        !everybody && all.last().is_some_and(|(_, who)| *who == thread)
    }

    /// Whether the last of these accesses was one in turn.
    fn was_everybodys(all: &[(u32, u32)]) -> bool {
        all.last().is_some_and(|(_, who)| !own_of(all, *who))
    }

    /// The definition: of each byte, all accesses.
    #[derive(Default)]
    pub(crate) struct Naive {
        bytes: BTreeMap<u64, Vec<(u32, u32)>>,
    }

    impl Naive {
        pub(crate) fn access(&mut self, addr: u64, len: u64, site: u32, thread: u32) -> BTreeSet<Before> {
            let mut seen = BTreeSet::new();
            for byte in addr..addr + len {
                let all = self.bytes.entry(byte).or_default();
                let remote = all.iter().rev().find(|(_, by)| *by != thread).map_or(0, |(site, _)| *site);
                seen.insert(Before { remote, last: all.last().map_or(0, |(site, _)| *site), own: own_of(all, thread) });
                all.push((site, thread));
            }
            seen
        }

        pub(crate) fn forget(&mut self, addr: u64, len: u64) {
            self.bytes.retain(|byte, _| !(addr..addr + len).contains(byte));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Access(u64, u64, u32, u32),
        Forget(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Around a page's end, so that two pages are met.
        let addr = || PAGE_BYTES - 20..PAGE_BYTES + 20;
        let len = || prop_oneof![Just(1_u64), Just(2), Just(4), Just(8), Just(16), 1..1100_u64];
        prop_oneof![
            8 => (addr(), len(), 1..6_u32, 0..3_u32).prop_map(|(a, l, s, t)| Step::Access(a, l, s, t)),
            1 => (addr(), len()).prop_map(|(a, l)| Step::Forget(a, l)),
            1 => (0..PAGE_BYTES, 0..4 * PAGE_BYTES).prop_map(|(a, l)| Step::Forget(a, l)),
        ]
    }

    proptest! {
        #[test]
        fn every_byte_has_its_own_history(steps in vec(step(), 1..60)) {
            let (mut recorder, mut naive) = (Recorder::default(), Naive::default());
            for step in steps {
                match step {
                    Step::Access(addr, len, site, thread) => {
                        let mut seen = BTreeSet::new();
                        recorder.access(addr, len, site, thread, |before| {
                            seen.insert(before);
                        });
                        prop_assert_eq!(seen, naive.access(addr, len, site, thread));
                    }
                    Step::Forget(addr, len) => {
                        recorder.forget(addr, len);
                        naive.forget(addr, len);
                    }
                }
            }
        }
    }

    #[test]
    fn the_end_of_memory_is_no_danger() {
        let mut recorder = Recorder::default();
        recorder.access(u64::MAX - 3, 64, 1, 1, |before| assert_eq!(before, Before { remote: 0, last: 0, own: false }));
        recorder.forget(0, u64::MAX);
        recorder.forget(u64::MAX, u64::MAX);
        recorder.access(5, 0, 1, 1, |_| unreachable!("no byte"));
    }
}
