//! Deadlocks that did not happen: threads that could come to wait for each other in a circle.
//!
//! After SPDOffline (Tunç, Mathur, Pavlogiannis, Viswanathan: Sound dynamic deadlock prediction in linear time, PLDI
//! 2023). Acquisitions with the same thread, lock, held locks and place are one *abstract* acquisition; circles are
//! looked for among those, and each is checked for all its concrete events in one pass (see `closure`).
//!
//! Departures from the paper:
//! - Locks may be held in shared mode. Two that share do not block each other, and a lock that all hold in shared mode
//!   guards nothing. A thread that holds a lock in shared mode and takes it exclusively is a circle with any
//!   other that does (an upgrade).
//! - A thread may also wait for the end of another ([`Op::Join`](crate::Op::Join)), for a wake-up
//!   ([`Op::Woken`](crate::Op::Woken)) or for a post ([`Op::Take`](crate::Op::Take)) while it holds locks; whoever has
//!   to end, wake or post, and takes one of those locks first, closes the circle (the nested monitor).
//! - Circles are enumerated from short to long under a budget, one result for each tuple of source locations.
//!
//! Finds: every sync-preserving deadlock over locks and joins, as far as the budget goes, with its witness; and
//! circles that are not sync-preserving, to be tried, unless start, join or posts order them.
//!
//! Never reports: circles under a common lock, or with acquisitions of which one always comes after another. With a
//! proof: nothing that the history does not allow.
//!
//! Cannot see: whether an acquisition was only tried (it would fail, not wait); re-entrant readers, which a history
//! does not have, so one thread that reads a lock twice around a waiting writer is missed. A reader that has to queue
//! behind a waiting writer is a matter of the lock: glibc's default lets it pass, `PREFER_WRITER_NONRECURSIVE`, Rust's
//! standard library, parking_lot and Go make it wait. Such circles are never proved ([`Readers`]). Nor are waits
//! whose wake-up could come from a thread outside the circle, and takes: how much an object had at first is not known.
//!
//! Cost: one pass to collect, one to check, both linear in events; per circle linear in its acquisitions and the
//! critical sections before them. Memory: about 30 bytes for each acquisition, and a clock for each
//! release before which its thread learnt something.

mod acquisitions;
mod check;
mod closure;
mod cycles;
mod lock_graph;

use std::collections::BTreeMap;

use selvedge_findings::Kind;

use crate::history::{EventNo, History};
use crate::prediction::{Goal, Prediction, Proof, Relation};

use acquisitions::{Abstract, Wanted};
use check::{Checker, Verdict};
use cycles::{Circle, Cycles};

/// What a reader does when a writer waits for the lock that others read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// It reads too.
    Pass,
    /// It waits behind the writer: more circles, none of them proved.
    Queue,
}

/// What to look for, and how hard.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The most threads in a circle.
    pub longest: u32,
    /// Whether readers queue behind writers.
    pub readers: Readers,
    /// How many steps the search for circles may take, beside one for each event.
    pub search_steps: u64,
    /// How many steps the proofs may take, beside eight for each event.
    pub proof_steps: u64,
    /// How many circles with the same source locations are tried before the last is taken unproved.
    pub tries: u32,
    /// How many results are kept.
    pub results: usize,
    /// How many events all witnesses together may have.
    pub witness_events: usize,
    /// How many numbers all clocks together may have.
    pub clock_numbers: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            longest: u32::MAX,
            readers: Readers::Queue,
            search_steps: 2_000_000,
            proof_steps: 8_000_000,
            tries: 64,
            results: 1000,
            witness_events: 1 << 25,
            clock_numbers: 1 << 27,
        }
    }
}

/// What was found, and what was left out.
#[derive(Clone, Debug, Default)]
pub struct Deadlocks {
    /// One for each tuple of source locations, short circles first.
    pub predictions: Vec<Prediction>,
    /// How many different abstract acquisitions there are.
    pub abstract_acquisitions: usize,
    /// How many circles were looked at.
    pub circles: u64,
    /// How many of them start, join or posts exclude.
    pub excluded: u64,
    /// Whether the search for circles ran out of steps: long ones may be missing.
    pub search_cut: bool,
    /// How many circles were not checked for a proof, because steps or the room for witnesses or clocks ran out.
    pub unchecked: u64,
    /// How many results were dropped.
    pub dropped: u64,
}

/// Looks for deadlocks.
///
/// Each prediction has a [`Goal::Deadlock`] of the events that are next and cannot be done, each waiting for the thread
/// of the one after it, the last for that of the first. Beside acquisitions these can be a [`Join`](crate::Op::Join), a
/// [`Woken`](crate::Op::Woken) or a [`Take`](crate::Op::Take).
///
/// ```
/// use selvedge_analyze::{Event, History, Op, deadlock};
///
/// // Two threads take two locks, one after the other, in opposite orders.
/// let ops = [Op::Acquire, Op::Acquire, Op::Release, Op::Release];
/// let one = ops.iter().zip([0, 1, 1, 0]).map(|(op, lock)| Event::new(0, *op, lock, 1));
/// let two = ops.iter().zip([1, 0, 0, 1]).map(|(op, lock)| Event::new(1, *op, lock, 2));
/// let events: Vec<Event> = one.chain(two).collect();
/// let sources = (0..8).collect();
/// let history = History { events, sources, threads: 2, locks: 2, locations: 3, ..History::default() };
///
/// let found = deadlock::deadlocks(&history, &deadlock::Options::default());
/// let proof = found.predictions[0].proof.as_ref().expect("sync-preserving");
/// assert_eq!(proof.witness, [0, 4]);
/// ```
pub fn deadlocks(history: &History, options: &Options) -> Deadlocks {
    let nodes = Abstract::collect(history);
    let mut found = Deadlocks { abstract_acquisitions: nodes.len(), ..Deadlocks::default() };
    let events = history.len() as u64;
    let search_steps = options.search_steps.saturating_add(events);
    let proof_steps = options.proof_steps.saturating_add(events * 8);
    let options = &Options { search_steps, proof_steps, ..*options };
    let mut cycles = Cycles::new(&nodes, options);
    if cycles.is_empty() {
        return found;
    }
    let mut checker = Checker::new(history, &nodes, cycles.kept(), options);
    let mut results = Results { places: BTreeMap::new(), found: 0, room: options.witness_events };
    cycles.each(|circle| results.look_at(history, &nodes, circle, &mut checker, options, &mut found));
    found.search_cut = cycles.was_cut();
    found.predictions = results.into_predictions();
    found
}

/// The results so far, by length and source locations.
struct Results {
    places: BTreeMap<(usize, Vec<u32>), Place>,
    /// How many of them have a prediction; the others are excluded so far.
    found: usize,
    /// How many events witnesses may still have.
    room: usize,
}

/// What is known about one tuple of source locations.
struct Place {
    tries: u32,
    best: Option<Prediction>,
}

impl Results {
    fn look_at(
        &mut self,
        history: &History,
        nodes: &Abstract,
        circle: &Circle,
        checker: &mut Checker<'_>,
        options: &Options,
        found: &mut Deadlocks,
    ) {
        found.circles += 1;
        let key = (circle.nodes.len(), rotated(circle.nodes.iter().map(|&n| nodes.location(n)).collect()));
        let is_full = self.found >= options.results || self.places.len() >= options.results.saturating_mul(16);
        if is_full && self.places.get(&key).is_none_or(|place| place.best.is_none()) {
            found.dropped += 1;
            return;
        }
        let place = self.places.entry(key).or_insert(Place { tries: 0, best: None });
        let proved = place.best.as_ref().is_some_and(|p| p.proof.is_some());
        if proved || place.tries >= options.tries {
            return;
        }
        place.tries += 1;
        let (events, bounds) = match checker.check(circle) {
            Verdict::Excluded => {
                found.excluded += 1;
                return;
            }
            Verdict::Possible { events, unchecked } => {
                found.unchecked += u64::from(unchecked);
                (events, None)
            }
            Verdict::Proved { events, bounds } => (events, Some(bounds)),
        };
        let mut proof = None;
        if let Some(bounds) = bounds {
            let witness = witness(history, &bounds, self.room);
            found.unchecked += u64::from(witness.is_none());
            if let Some(witness) = witness {
                self.room -= witness.len();
                proof = Some(Proof { relation: Relation::SyncPreserving, witness });
            }
        }
        self.found += usize::from(place.best.is_none());
        if place.best.is_none() || proof.is_some() {
            place.best = Some(Prediction {
                kind: Kind::Deadlock,
                pattern: pattern(nodes, circle).to_owned(),
                goal: Goal::Deadlock(rotated(events)),
                proof,
                unnested: false,
            });
        }
    }

    fn into_predictions(self) -> Vec<Prediction> {
        self.places.into_values().filter_map(|place| place.best).collect()
    }
}

/// The events below the bounds of their threads, in the order of the history; `None` where they are more than `room`.
fn witness(history: &History, bounds: &[u32], room: usize) -> Option<Vec<EventNo>> {
    let end = bounds.iter().copied().max().unwrap_or(0);
    let mut witness = Vec::new();
    for (number, event) in (0..end).zip(&history.events) {
        if number < bounds[usize::from(event.thread)] {
            if witness.len() == room {
                return None;
            }
            witness.push(number);
        }
    }
    Some(witness)
}

/// The pattern's name.
fn pattern(nodes: &Abstract, circle: &Circle) -> &'static str {
    let wanted = |test: fn(Wanted) -> bool| circle.nodes.iter().any(|&n| test(nodes.wanted(n)));
    if wanted(|w| matches!(w, Wanted::Wake(_))) {
        "wait-holding-lock"
    } else if wanted(|w| matches!(w, Wanted::Post(_))) {
        "take-holding-lock"
    } else if wanted(|w| matches!(w, Wanted::End(_))) {
        "join-holding-lock"
    } else if circle.queued {
        "lock-cycle-waiting-writer"
    } else if circle.nodes.iter().all(|&n| nodes.is_upgrade(n)) {
        "lock-upgrade"
    } else {
        "lock-cycle"
    }
}

/// The same circle from its least element.
fn rotated<T: Ord + Clone>(mut circle: Vec<T>) -> Vec<T> {
    let twice: Vec<T> = circle.iter().chain(&circle).cloned().collect();
    let first = (0..circle.len()).min_by(|&a, &b| twice[a..a + circle.len()].cmp(&twice[b..b + circle.len()]));
    circle.rotate_left(first.unwrap_or(0));
    circle
}
