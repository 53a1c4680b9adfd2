//! Invariants from one recorded run.
//!
//! Paper: section 3.2. One pass over the events in their merged order. All accesses count: plain ones, atomic ones, failed
//! compare-exchanges too, and of copies and fills the first [`MOST_BYTES`] bytes. A thread that has slept on the word of its last atomic
//! operation goes on with it: that counts once more. What a `free` gives back, and what an allocation hands out, begins anew. This is what the runtime does when it learns, so both give the same sets for the
//! same order of events.
//!
//! Cannot see: sites that were not recorded (a survey may have left them out), and that the stack of a thread was
//! another's before. Annotations to ignore accesses are not heeded.
//!
//! Cost: one look-up an access; twelve bytes for each byte that is touched in the worst case, three in the usual one.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};
use selvedge_events::SiteId;
use selvedge_trace::{EventBody, Place, Process};

use super::recorder::{Before, Recorder};
use super::{Belonging, Colour, Invariants, SiteKey};

/// Bytes of a copy or fill that are looked at.
pub const MOST_BYTES: u64 = 4096;

/// Learns from a run that was correct. `key` names the sites; accesses at places that it does not name are as if they
/// had not been.
pub fn learn(
    process: &Process,
    key: &mut dyn FnMut(Place) -> Option<SiteKey>,
    colours: &BTreeSet<Colour>,
) -> Invariants {
    let mut learner = Learner::new(colours);
    // Sizes of heap blocks. Only looked up.
    let mut blocks: FxHashMap<u64, u64> = FxHashMap::default();
    // The last atomic operation of each thread: address, size and site. Only looked up.
    let mut atomics: FxHashMap<u32, (u64, u64, Option<u32>)> = FxHashMap::default();
    for event in process.events() {
        match event.body {
            EventBody::Alloc { addr, size } => {
                learner.recorder.forget(addr.0, size);
                blocks.insert(addr.0, size);
            }
            EventBody::Free { addr } => {
                if let Some(size) = blocks.remove(&addr.0) {
                    learner.recorder.forget(addr.0, size);
                }
            }
            EventBody::Access { .. } | EventBody::Range { .. } | EventBody::Atomic { .. } => {
                if let Some(access) = process.access(&event) {
                    let site = learner.site(event.place, key);
                    if matches!(event.body, EventBody::Atomic { .. }) {
                        atomics.insert(event.thread.0, (access.addr, access.size, site));
                    }
                    if let Some(site) = site {
                        learner.access(site, event.thread.0, access.addr, access.size);
                    }
                }
            }
            EventBody::FutexWaitEnd { addr, .. } => {
                if let Some(&(word, size, Some(site))) = atomics.get(&event.thread.0)
                    && word == addr.0
                {
                    learner.access(site, event.thread.0, word, size);
                }
            }
            _ => {}
        }
    }
    learner.finish(colours)
}

/// A named site. Its number is its place in the list plus one.
struct Site {
    key: SiteKey,
    shift: Option<i32>,
    hits: u64,
}

struct Learner<'a> {
    recorder: Recorder,
    shifts: BTreeMap<&'a SiteKey, i32>,
    sites: Vec<Site>,
    by_key: BTreeMap<SiteKey, u32>,
    /// The number of a place's site; 0 where it has no name. Only looked up.
    by_place: FxHashMap<u64, u32>,
    /// Which site saw what before it.
    seen: FxHashSet<(u32, Before)>,
}

impl<'a> Learner<'a> {
    fn new(colours: &'a BTreeSet<Colour>) -> Learner<'a> {
        Learner {
            recorder: Recorder::default(),
            shifts: shifts(colours),
            sites: Vec::new(),
            by_key: BTreeMap::new(),
            by_place: FxHashMap::default(),
            seen: FxHashSet::default(),
        }
    }

    fn site(&mut self, place: Place, key: &mut dyn FnMut(Place) -> Option<SiteKey>) -> Option<u32> {
        let place_number = match place {
            Place::Site(SiteId(id)) => u64::from(id),
            Place::Code { module, offset } => 1 << 63 | u64::from(module.0) << 32 | u64::from(offset),
            Place::Unknown => return None,
        };
        if let Some(site) = self.by_place.get(&place_number) {
            return Some(*site).filter(|site| *site != 0);
        }
        let site = key(place).map_or(0, |key| {
            let next = self.sites.len() as u32 + 1;
            let site = *self.by_key.entry(key.clone()).or_insert(next);
            if site == next {
                let shift = self.shifts.get(&key).copied();
                self.sites.push(Site { key, shift, hits: 0 });
            }
            site
        });
        self.by_place.insert(place_number, site);
        Some(site).filter(|site| *site != 0)
    }

    fn access(&mut self, number: u32, thread: u32, addr: u64, size: u64) {
        let Some(site) = self.sites.get_mut(number as usize - 1) else { return };
        site.hits += 1;
        // A colour is one location, whatever the sizes of its variables are.
        let (addr, size) =
            site.shift.map_or((addr, size), |shift| (addr.wrapping_add_signed(i64::from(shift)), size.min(1)));
        let seen = &mut self.seen;
        self.recorder.access(addr, size.min(MOST_BYTES), number, thread, |before| {
            seen.insert((number, before));
        });
    }

    fn finish(self, colours: &BTreeSet<Colour>) -> Invariants {
        let key = |site: u32| Some(&self.sites.get((site as usize).checked_sub(1)?)?.key);
        let mut all = Invariants { runs: 1, colours: colours.clone(), ..Invariants::default() };
        for site in &self.sites {
            all.sites.insert(site.key.clone(), Belonging { hits: site.hits, ..Belonging::default() });
        }
        // Sets do not care about the order.
        for (site, before) in &self.seen {
            let Some(site) = key(*site).and_then(|key| all.sites.get_mut(key)) else { continue };
            site.add(key(before.remote), before.own);
            site.touches.extend(key(before.last).cloned());
        }
        all.normalise();
        all
    }
}

/// What is added to each coloured site's addresses. A site of several colours has the first.
pub fn shifts(colours: &BTreeSet<Colour>) -> BTreeMap<&SiteKey, i32> {
    let mut shifts = BTreeMap::new();
    for (key, shift) in colours.iter().flat_map(|colour| &colour.sites) {
        shifts.entry(key).or_insert(*shift);
    }
    shifts
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use selvedge_events::EventKind as K;
    use selvedge_events::pack::{self, object, pc_payload};
    use selvedge_trace::TraceFile;
    use selvedge_trace::write::{Stream, TraceBuilder};

    use super::super::recorder::tests::Naive;
    use super::super::tests::{key, keys};
    use super::*;

    const SITES: &[(u32, u32, &str)] = &[
        (0, 0x10, "__tsan_read4"),
        (1, 0x14, "__tsan_write4"),
        (2, 0x18, "__tsan_read8"),
        (3, 0x1c, "__tsan_write1"),
        (4, 0x20, "__tsan_atomic32_compare_exchange_strong"),
        (5, 0x24, "__tsan_write_range"),
        (6, 0x28, "__tsan_write4"),
        (7, 0x2c, "__tsan_read4"),
    ];
    const SIZES: [u64; 8] = [4, 4, 8, 1, 4, 0, 4, 4];
    const ATOMIC: u32 = 4;
    const RANGE: u32 = 5;
    /// A site without a key.
    const NAMELESS: u32 = 6;
    const HEAP: u64 = 0x7000_0000_1000;

    #[derive(Clone, Debug)]
    enum Step {
        Access { thread: u32, site: u32, addr: u64 },
        Range { thread: u32, addr: u64, size: u64 },
        Alloc { thread: u32, addr: u64, size: u64 },
        Free { thread: u32, addr: u64 },
        Slept { thread: u32, addr: u64 },
    }

    /// The steps as a trace of a run under control: each is the next event of all.
    fn process(steps: &[Step]) -> Process {
        let mut streams: BTreeMap<u32, Stream> = BTreeMap::new();
        for (time, step) in (1_u64..).zip(steps) {
            let time = time << pack::TICK_SHIFT;
            let code = pc_payload(0, 0x100);
            match *step {
                Step::Access { thread, site: ATOMIC, addr } => {
                    let failed = pack::PAYLOAD_FLAG;
                    let stream = streams.entry(thread).or_default();
                    stream.wide(K::Atomic, time, u64::from(ATOMIC) | failed, [object(addr, 0), 0, 0]);
                }
                Step::Access { thread, site, addr } => {
                    streams.entry(thread).or_default().access(site, addr, Some(time));
                }
                Step::Range { thread, addr, size } => {
                    streams.entry(thread).or_default().range(RANGE, addr, size, true, Some(time));
                }
                Step::Alloc { thread, addr, size } => {
                    streams.entry(thread).or_default().wide(K::Alloc, time, code, [addr, size, 0]);
                }
                Step::Slept { thread, addr } => {
                    streams.entry(thread).or_default().wide(K::FutexWaitEnd, time, code, [object(addr, 0), 0, 0]);
                }
                Step::Free { thread, addr } => {
                    streams.entry(thread).or_default().wide(K::Free, time, code, [addr, 0, 0]);
                }
            }
        }
        let mut file = TraceBuilder::new();
        file.controlled().module(0, 0x40_0000, 0x41_0000, &[1; 20], "/bin/x").sites(0, SITES);
        for (thread, stream) in &streams {
            file.stream(*thread, stream);
        }
        Process::new(TraceFile::from_bytes(file.finish()).expect("valid"), PathBuf::from("trace.1.0"))
    }

    fn name(place: Place) -> Option<SiteKey> {
        match place {
            Place::Site(SiteId(id)) if id != NAMELESS => Some(SiteKey(format!("s{id}"))),
            _ => None,
        }
    }

    fn learnt(steps: &[Step]) -> Invariants {
        learn(&process(steps), &mut name, &BTreeSet::new())
    }

    /// By the definition.
    fn naive(steps: &[Step]) -> Invariants {
        let (mut memory, mut blocks) = (Naive::default(), BTreeMap::new());
        let mut all = Invariants { runs: 1, ..Invariants::default() };
        let mut atomics = BTreeMap::new();
        for step in steps {
            let (thread, site, addr, size) = match *step {
                Step::Access { thread, site, addr } => {
                    if site == ATOMIC {
                        atomics.insert(thread, addr);
                    }
                    (thread, site, addr, SIZES[site as usize])
                }
                Step::Slept { thread, addr } if atomics.get(&thread) == Some(&addr) => {
                    (thread, ATOMIC, addr, SIZES[ATOMIC as usize])
                }
                Step::Slept { .. } => continue,
                Step::Range { thread, addr, size } => (thread, RANGE, addr, size.min(MOST_BYTES)),
                Step::Alloc { addr, size, .. } => {
                    blocks.insert(addr, size);
                    memory.forget(addr, size);
                    continue;
                }
                Step::Free { addr, .. } => {
                    memory.forget(addr, blocks.remove(&addr).unwrap_or(0));
                    continue;
                }
            };
            if site == NAMELESS {
                continue;
            }
            let entry = all.sites.entry(key(&format!("s{site}"))).or_default();
            entry.hits += 1;
            for before in memory.access(addr, size, site + 1, thread) {
                let named = |site: u32| site.checked_sub(1).map(|site| key(&format!("s{site}")));
                entry.add(named(before.remote).as_ref(), before.own);
                entry.touches.extend(named(before.last));
            }
        }
        all.normalise();
        all
    }

    fn step() -> impl Strategy<Value = Step> {
        let addr = || HEAP..HEAP + 24;
        prop_oneof![
            10 => (0..3_u32, 0..8_u32, addr()).prop_filter_map("a range has a size", |(thread, site, addr)| {
                (site != RANGE).then_some(Step::Access { thread, site, addr })
            }),
            2 => (0..3_u32, addr(), 0..40_u64).prop_map(|(thread, addr, size)| Step::Range { thread, addr, size }),
            1 => (0..3_u32, 0..3_u64, 1..16_u64)
                .prop_map(|(thread, at, size)| Step::Alloc { thread, addr: HEAP + 8 * at, size }),
            2 => (0..3_u32, addr()).prop_map(|(thread, addr)| Step::Slept { thread, addr }),
            1 => (0..3_u32, 0..3_u64).prop_map(|(thread, at)| Step::Free { thread, addr: HEAP + 8 * at }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_learnt_is_the_definition(steps in vec(step(), 0..80)) {
            prop_assert_eq!(learnt(&steps), naive(&steps));
        }
    }

    /// `T1 s0, T2 s1`: accesses to one variable.
    fn run(text: &str) -> Invariants {
        let step = |step: &str| {
            let (thread, site) = step.trim().split_once(' ').expect("a thread and a site");
            let number = |text: &str| text[1..].parse().expect("a number");
            // A site of four bytes each; what they do does not matter.
            Step::Access {
                thread: number(thread),
                site: [NAMELESS, 0, 1, ATOMIC, 7][number(site) as usize],
                addr: HEAP,
            }
        };
        let mut all = learnt(&text.split(',').map(step).collect::<Vec<Step>>());
        // The paper numbers its instructions from 1.
        let rename = |key: &SiteKey| {
            SiteKey(match key.0.as_str() {
                "s0" => "S1".to_owned(),
                "s1" => "S2".to_owned(),
                "s4" => "S3".to_owned(),
                _ => "S4".to_owned(),
            })
        };
        let every = |set: &BTreeSet<Option<SiteKey>>| set.iter().map(|one| one.as_ref().map(rename)).collect();
        let renamed = |site: Belonging| Belonging { direct: every(&site.direct), beyond: every(&site.beyond), ..site };
        all.sites =
            std::mem::take(&mut all.sites).into_iter().map(|(key, site)| (rename(&key), renamed(site))).collect();
        all
    }

    /// A site, whether nil belongs to it, and what else does.
    type Set = (&'static str, bool, &'static [&'static str]);

    #[test]
    fn figures_of_the_paper() {
        let rows: [(&str, &[&str], &[Set]); 5] = [
            // 3: T1's own access in between does not count.
            (
                "3",
                &["T1 S1, T2 S2, T1 S3, T1 S4"],
                &[("S1", true, &[]), ("S2", false, &["S1"]), ("S3", false, &["S2"]), ("S4", false, &["S2"])],
            ),
            (
                "4",
                &["T1 S1, T2 S2, T1 S3, T2 S2, T1 S3"],
                &[("S1", true, &[]), ("S2", false, &["S1", "S3"]), ("S3", false, &["S2"])],
            ),
            // 5: in the second run S2 is not reached.
            (
                "5",
                &["T1 S1, T1 S2, T2 S3", "T2 S3, T1 S1"],
                &[("S1", true, &["S3"]), ("S2", true, &[]), ("S3", true, &["S2"])],
            ),
            ("6", &["T1 S1, T2 S2"], &[("S1", true, &[]), ("S2", false, &["S1"])]),
            (
                "8",
                &["T1 S1, T2 S2, T1 S3, T1 S4", "T1 S1, T1 S3, T2 S2, T1 S4"],
                &[("S1", true, &[]), ("S2", false, &["S1", "S3"]), ("S3", true, &["S2"]), ("S4", false, &["S2"])],
            ),
        ];
        for (figure, runs, sets) in rows {
            let mut all = Invariants::default();
            runs.iter().for_each(|text| all.merge(&run(text)));
            let members = |site: &Belonging| site.members().into_iter().cloned().collect::<BTreeSet<SiteKey>>();
            let found: Vec<_> =
                all.sites.iter().map(|(key, site)| (key.clone(), site.has(None), members(site))).collect();
            let wanted: Vec<_> = sets.iter().map(|(site, nil, members)| (key(site), *nil, keys(members))).collect();
            assert_eq!(found, wanted, "figure {figure}");
        }
        // What the incorrect runs would have added: each has its violation.
        let rows = [
            ("5", "T1 S1, T1 S2, T2 S3", "T1 S1, T2 S3, T1 S2", "S3", Some("S1")),
            ("6", "T1 S1, T2 S2", "T2 S2, T1 S1", "S2", None),
            ("8", "T1 S1, T1 S3, T2 S2, T1 S4", "T1 S1, T1 S3, T1 S4, T2 S2", "S4", None),
        ];
        for (figure, correct, incorrect, site, predecessor) in rows {
            let (correct, incorrect) = (run(correct), run(incorrect));
            let predecessor = predecessor.map(key);
            assert!(!correct.sites[&key(site)].has(predecessor.as_ref()), "figure {figure}");
            assert!(incorrect.sites[&key(site)].has(predecessor.as_ref()), "figure {figure}");
        }
    }

    #[test]
    fn coloured_variables_are_one_location() {
        let steps =
            [Step::Access { thread: 1, site: 0, addr: HEAP }, Step::Access { thread: 2, site: 1, addr: HEAP + 8 }];
        let colour = Colour { name: "pair".to_owned(), sites: BTreeMap::from([(key("s0"), 0), (key("s1"), -8)]) };
        let plain = learnt(&steps);
        assert_eq!(plain.sites[&key("s1")].members(), [].into());
        let coloured = learn(&process(&steps), &mut name, &BTreeSet::from([colour.clone()]));
        assert_eq!(coloured.sites[&key("s1")].predecessors(), [Some(&key("s0"))].into());
        assert_eq!(coloured.colours, BTreeSet::from([colour]));
    }

    #[test]
    fn long_ranges_count_at_their_beginning() {
        let at = |addr| {
            let steps = [
                Step::Range { thread: 1, addr: HEAP, size: 2 * MOST_BYTES },
                Step::Access { thread: 2, site: 0, addr },
            ];
            learnt(&steps).sites[&key("s0")].members().len()
        };
        assert_eq!((at(HEAP), at(HEAP + MOST_BYTES - 4), at(HEAP + MOST_BYTES)), (1, 1, 0));
    }
}
