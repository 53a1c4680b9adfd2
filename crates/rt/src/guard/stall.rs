//! Stalls: a thread that is about to violate an invariant waits until the access that it should follow has come (the
//! paper's section 3.3, where it polls once a millisecond; here whoever accesses the location wakes it).
//!
//! A stall never makes a program hang: it is bounded, it ends when every other thread is blocked or stalled, and
//! under control it is a wait in the gate that ends when nothing else can run.
//!
//! A stalled thread is woken when the awaited access is about to be made; NOTE \[Hooks come first\] in [`super`] says how
//! it comes after it.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_sched::OpKind;

use super::log::Ended;
use super::owner;
use super::recorder::{self, WAITED};
use crate::gate::{self, Arrival, Woken, model, time};
use crate::sink;
use crate::sys;
use crate::thread_state::ThreadState;

/// Threads that can be stalled at a time; more go on at once, and are counted.
const PLACES: usize = 64;
/// How often a stalled thread looks around by itself.
const LOOK_NS: u64 = 500_000;
/// How long nobody else must have been able to run before one of several that are stalled goes on.
const SETTLE_NS: u64 = 100_000;
/// The same where only one is: a blocked thread may have been woken, and on a busy machine it takes long until it runs.
/// The kernel could tell, but not without a descriptor, whose number the program might just then expect for its own.
const GIVE_UP_NS: u64 = 1_000_000;
const MONOTONIC: usize = 1;

/// A stalled thread.
#[derive(Debug)]
struct Place {
    /// The word that it waits at (address / 8 + 1); 0 where nobody is here yet, or any more.
    word: AtomicU64,
    /// Changes when it should look again.
    bell: AtomicU32,
    /// Its site.
    site: AtomicU32,
    /// When it began.
    since: AtomicU64,
    /// Set by another thread that wants it to go on.
    let_go: AtomicU32,
    /// Its state's address: whose the place is; 0 where it is free.
    who: AtomicUsize,
}

static STALLED: [Place; PLACES] = [const {
    Place {
        word: AtomicU64::new(0),
        bell: AtomicU32::new(0),
        site: AtomicU32::new(0),
        since: AtomicU64::new(0),
        let_go: AtomicU32::new(0),
        who: AtomicUsize::new(0),
    }
}; PLACES];
/// When it was last decided who of the stalled goes on.
static DECIDED: AtomicU64 = AtomicU64::new(0);

/// The object that stands for a word in the gate.
fn object(word: u64) -> u64 {
    word << 3 | 3
}

/// The same for an address.
pub fn object_of(addr: u64) -> u64 {
    object((addr >> 3) + 1)
}

/// Somebody is going to wait in the gate for an access to this address.
pub fn announce(addr: u64) {
    mark((addr >> 3) + 1, true);
}

/// Marks a word, or takes the mark away.
fn mark(word: u64, waited: bool) {
    let addr = (word - 1) << 3;
    if let Some(block) = recorder::block(addr >> recorder::REGION_SHIFT, waited) {
        let shape = block.shape((addr >> 3) as usize);
        if waited {
            shape.fetch_or(WAITED, Ordering::SeqCst);
            // Who owned it until now may have stored and not seen that.
            owner::nobody(block, (addr >> 3) as usize);
        } else {
            shape.fetch_and(!WAITED, Ordering::Relaxed);
        }
    }
}

/// Somebody has accessed a word that is marked.
#[cold]
pub fn ring(addr: u64) {
    let word = (addr >> 3) + 1;
    if gate::is_on() {
        return model::wake_all(object(word));
    }
    for place in &STALLED {
        if place.word.load(Ordering::Acquire) == word {
            wake(place);
        }
    }
}

fn wake(place: &Place) {
    place.bell.fetch_add(1, Ordering::Release);
    if !sink::is_sealed() {
        sys::futex_wake(core::ptr::from_ref(&place.bell) as usize);
    }
}

fn is_waited_at(word: u64) -> bool {
    STALLED.iter().any(|place| place.word.load(Ordering::SeqCst) == word)
}

// Places are taken and left without a lock: a thread may be cancelled, or jump out of a handler, at any instruction.
fn take(word: u64, site: u32, who: usize) -> Option<&'static Place> {
    let is_free = |place: &&Place| place.who.compare_exchange(0, who, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let place = STALLED.iter().find(is_free)?;
    place.site.store(site, Ordering::Relaxed);
    place.since.store(sys::clock_ns(MONOTONIC), Ordering::Relaxed);
    place.let_go.store(0, Ordering::Relaxed);
    place.word.store(word, Ordering::SeqCst);
    mark(word, true);
    Some(place)
}

fn leave(place: &Place) {
    let word = place.word.swap(0, Ordering::SeqCst);
    if word != 0 && !is_waited_at(word) {
        mark(word, false);
        // Who has come meanwhile was seen here, or marks the word after this.
        if is_waited_at(word) {
            mark(word, true);
        }
    }
    place.who.store(0, Ordering::Release);
}

/// A thread is not stalled any more, whatever became of its stalls: it ends, or has jumped out of one.
pub fn abandon(state: &ThreadState) {
    let own = core::ptr::from_ref(state) as usize;
    for place in STALLED.iter().filter(|place| place.who.load(Ordering::Relaxed) == own) {
        leave(place);
    }
}

/// Stalls at the word of an address until `settled` says so, for `ns` at most. `belongs(site, before, own)` tells
/// whether an access may follow another.
pub fn stall(
    state: &mut ThreadState,
    addr: u64,
    site: u32,
    ns: u64,
    settled: &mut dyn FnMut() -> bool,
    belongs: &dyn Fn(u32, u32, bool) -> bool,
) -> Ended {
    let word = (addr >> 3) + 1;
    if gate::is_on() && state.seat != 0 {
        return in_gate(word, site, ns, settled);
    }
    let own = core::ptr::from_ref(state) as usize;
    let Some(place) = take(word, site, own) else { return Ended::Crowded };
    let begun = place.since.load(Ordering::Relaxed);
    // Since when nobody else could run.
    let mut alone = None;
    let ended = loop {
        let bell = place.bell.load(Ordering::Acquire);
        if settled() {
            break Ended::Resolved;
        }
        if sink::is_sealed() {
            // From here on there is no clock.
            break Ended::Futile;
        }
        let now = sys::clock_ns(MONOTONIC);
        let left = ns.saturating_sub(now.saturating_sub(begun));
        if left == 0 {
            break Ended::TimedOut;
        }
        if place.let_go.load(Ordering::Relaxed) != 0 {
            break Ended::Mutual;
        }
        let mut nap = LOOK_NS;
        if nobody_can_come(state) {
            let since = *alone.get_or_insert(now);
            if now.saturating_sub(since) >= SETTLE_NS
                && let Some(ended) = resolve(place, since, now, belongs)
            {
                break ended;
            }
            nap = SETTLE_NS;
        } else {
            alone = None;
        }
        sys::futex_wait(core::ptr::from_ref(&place.bell) as usize, bell, Some(nap.min(left)));
    };
    // In a forked child, or after a handler of this thread took it for gone, the place may be another's.
    if place.who.load(Ordering::Relaxed) == own {
        leave(place);
    }
    ended
}

/// Under control a stall is a wait in the gate.
fn in_gate(word: u64, site: u32, ns: u64, settled: &mut dyn FnMut() -> bool) -> Ended {
    mark(word, true);
    let arrival = Arrival { object: object(word), ..Arrival::access(OpKind::Other, 0, site) };
    let waited = model::acquire(arrival, time::after(ns), false, || settled().then_some(()));
    // Others may be stalled here too; they mark it again when they look.
    match waited {
        Some(Ok(())) => Ended::Resolved,
        Some(Err(Woken::TimedOut)) => Ended::TimedOut,
        _ => Ended::Futile,
    }
}

/// Whether every other thread is stalled, or blocked for as long as it takes.
fn nobody_can_come(state: &ThreadState) -> bool {
    let own = core::ptr::from_ref(state) as usize;
    let is_stalled = |at: usize| STALLED.iter().any(|place| place.who.load(Ordering::Relaxed) == at);
    let none_expected = super::EXPECTED.load(Ordering::Acquire) == 0;
    none_expected
        && super::threads().all(|other| {
            let at = core::ptr::from_ref(other) as usize;
            at == own || other.blocked.load(Ordering::Relaxed) != 0 || is_stalled(at)
        })
}

/// The others that are stalled.
fn others(place: &Place) -> impl Iterator<Item = &'static Place> {
    let is_other = |other: &&Place| !core::ptr::eq(*other, place) && other.word.load(Ordering::Relaxed) != 0;
    STALLED.iter().filter(is_other)
}

/// Nobody can come, `since` then: who of the stalled goes on? One whose access another one waits for; else the one that
/// has waited longest. `None`: this one stays.
fn resolve(place: &Place, since: u64, now: u64, belongs: &dyn Fn(u32, u32, bool) -> bool) -> Option<Ended> {
    if others(place).next().is_none() {
        return (now.saturating_sub(since) >= GIVE_UP_NS).then_some(Ended::Futile);
    }
    // One decision at a time, and time for it to show.
    let last = DECIDED.load(Ordering::Relaxed);
    if now.saturating_sub(last) < SETTLE_NS {
        return None;
    }
    DECIDED.compare_exchange(last, now, Ordering::AcqRel, Ordering::Relaxed).ok()?;
    let (word, site) = (place.word.load(Ordering::Relaxed), place.site.load(Ordering::Relaxed));
    let others = || others(place);
    if others().any(|other| other.let_go.load(Ordering::Relaxed) != 0) {
        return None;
    }
    let here = |other: &&Place| other.word.load(Ordering::Relaxed) == word;
    if others().filter(here).any(|other| belongs(other.site.load(Ordering::Relaxed), site, false)) {
        return Some(Ended::Mutual);
    }
    let helper = others().filter(here).find(|other| belongs(site, other.site.load(Ordering::Relaxed), false));
    let since = |place: &Place| place.since.load(Ordering::Relaxed);
    let oldest = || others().min_by_key(|other| since(other)).filter(|other| since(other) < since(place));
    match helper.or_else(oldest) {
        Some(other) => {
            other.let_go.store(1, Ordering::Relaxed);
            wake(other);
            None
        }
        None => Some(Ended::Mutual),
    }
}

/// In a forked child: nobody is stalled but the caller, who is not.
pub fn after_fork() {
    for place in &STALLED {
        place.word.store(0, Ordering::Relaxed);
        place.who.store(0, Ordering::Relaxed);
    }
}
