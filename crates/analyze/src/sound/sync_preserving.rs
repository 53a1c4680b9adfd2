//! Races that a reordering shows which keeps the order of critical sections (Mathur, Pavlogiannis, Viswanathan: Optimal
//! prediction of synchronization-preserving races, POPL 2021).
//!
//! Finds: for every event, whether it races with an earlier one in a sync-preserving reordering; all of them, and no
//! others. Never reports what no reordering shows. Cannot see races that need two critical sections to change places.
//!
//! As in the paper's section 5, the earlier accesses of one thread are gone through from the first: one that must come
//! before an event must come before all later events of that event's thread, so each is passed over once for each thread.
//! Departures: the ideals are there already (see the ideals' module), so variables are gone through one after the other
//! and only one variable's accesses are at hand; plain and atomic accesses are kept apart, since two atomic
//! accesses do not race; and a thread's accesses to a variable are kept apart by place, up to `PLACES` of them,
//! since a race at a new pair of places must not hide behind a known one.
//!
//! Time: nearly linear for a given number of threads. Memory: a few words an event, and one word a thread for each
//! event after which a thread knows more of the others.

use super::ideals::{Growing, Ideals, Point};
use super::pair::{RacePair, Told, unique_by_place};
use crate::history::{Event, EventNo, History};

/// How many places of one thread's accesses to one variable are told apart.
const PLACES: usize = 4;

/// Races of a history, one for each pair of places, in the order of the second event.
pub fn races(history: &History) -> Vec<RacePair> {
    SyncPreserving::new(history).races()
}

/// For each event that races with an earlier one, one such pair, in the order of the second.
pub fn racy_seconds(history: &History) -> Vec<RacePair> {
    SyncPreserving::new(history).racy_seconds()
}

/// The analysis of one history, made once for many questions.
#[derive(Debug)]
pub struct SyncPreserving<'h> {
    ideals: Ideals<'h>,
}

impl<'h> SyncPreserving<'h> {
    /// Makes the ideals of all events.
    pub fn new(history: &'h History) -> SyncPreserving<'h> {
        SyncPreserving { ideals: Ideals::new(history) }
    }

    /// Whether two conflicting events can be next at once.
    pub fn is_race(&self, pair: RacePair) -> bool {
        let event = |number: EventNo| self.ideals.index.history.event(number);
        let (Some(first), Some(second)) = (event(pair.first), event(pair.second)) else { return false };
        let ends = [pair.first, pair.second].map(|number| self.ideals.before(number));
        first.could_race(second) && self.ideals.co_enabled(&mut Growing::default(), ends)
    }

    /// One race for each pair of places, in the order of the second event.
    pub fn races(&self) -> Vec<RacePair> {
        let mut told = Told::default();
        let pairs = self.search(PLACES, &mut told);
        unique_by_place(self.ideals.index.history, pairs)
    }

    /// For each event that races with an earlier one, one such pair, in the order of the second.
    pub fn racy_seconds(&self) -> Vec<RacePair> {
        let mut pairs = self.search(0, &mut Told::default());
        pairs.sort_unstable_by_key(|pair| pair.second);
        pairs
    }

    /// The races of all variables. With `places` > 0 one for each pair of places, else one for each second event.
    fn search(&self, places: usize, told: &mut Told) -> Vec<RacePair> {
        let (starts, accesses) = shared_accesses(&self.ideals);
        let mut search = Search {
            ideals: &self.ideals,
            places,
            told,
            pairs: Vec::new(),
            slots: Vec::new(),
            accesses: Vec::new(),
            users: Vec::new(),
            heads: vec![NO_SLOT; 4 * self.ideals.index.width()],
            pointers: vec![Vec::new(); self.ideals.index.width()],
            growing: Growing::default(),
        };
        for range in starts.windows(2) {
            search.variable(&accesses[range[0] as usize..range[1] as usize]);
        }
        search.pairs
    }
}

/// An access with all that the search asks of it.
#[derive(Clone, Copy, Debug)]
struct Access {
    number: EventNo,
    location: u32,
    point: Point,
    sort: Sort,
}

/// The accesses to variables of which several threads make use and one writes, one variable after the other.
fn shared_accesses(ideals: &Ideals<'_>) -> (Vec<u32>, Vec<Access>) {
    #[derive(Clone, Copy)]
    struct Use {
        count: u32,
        thread: u16,
        shared: bool,
        written: bool,
    }
    let history = ideals.index.history;
    let mut uses = vec![Use { count: 0, thread: 0, shared: false, written: false }; history.variables as usize];
    for event in history.events.iter().filter(|event| event.op.is_access()) {
        let found = &mut uses[event.target as usize];
        if found.count == 0 {
            found.thread = event.thread;
        }
        found.count += 1;
        found.shared |= found.thread != event.thread;
        found.written |= event.op.writes();
    }
    let mut starts = vec![0];
    let mut end = 0;
    // From here on the count of a variable is where its next access goes.
    for found in &mut uses {
        let count = if found.shared && found.written { found.count } else { 0 };
        found.count = end;
        end += count;
        if count > 0 {
            starts.push(end);
        }
    }
    let Some(point) = ideals.points().next() else { return (starts, Vec::new()) };
    let mut accesses = vec![Access { number: 0, location: 0, point, sort: Sort::Read }; end as usize];
    for ((event, point), number) in history.events.iter().zip(ideals.points()).zip(0..) {
        if !event.op.is_access() {
            continue;
        }
        let found = &mut uses[event.target as usize];
        if found.shared && found.written {
            accesses[found.count as usize] = Access { number, location: event.location, point, sort: Sort::of(event) };
            found.count += 1;
        }
    }
    (starts, accesses)
}

const NO_SLOT: u32 = u32::MAX;

/// Accesses of one thread and sort to the variable at hand, at one place where places are told apart.
#[derive(Clone, Copy, Debug)]
struct Slot {
    thread: u16,
    sort: Sort,
    /// Whether its accesses are all at `location`; else it is for all that are not told apart.
    apart: bool,
    location: u32,
    /// How many accesses, and where the last is in its thread.
    count: u32,
    last: u32,
    /// The next slot of the same thread and sort.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Pointer {
    /// All accesses before this one must come before what the thread does now.
    at: u32,
    /// The moment at which the access was found to race.
    raced: u32,
}

const NEVER: Pointer = Pointer { at: 0, raced: u32::MAX };

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sort {
    #[default]
    Write,
    Read,
    AtomicWrite,
    AtomicRead,
}

impl Sort {
    fn of(event: &Event) -> Sort {
        match (event.op.is_atomic(), event.op.writes()) {
            (false, true) => Sort::Write,
            (false, false) => Sort::Read,
            (true, true) => Sort::AtomicWrite,
            (true, false) => Sort::AtomicRead,
        }
    }

    fn races_with(self, other: Sort) -> bool {
        let writes = |sort| matches!(sort, Sort::Write | Sort::AtomicWrite);
        let plain = |sort| matches!(sort, Sort::Write | Sort::Read);
        (writes(self) || writes(other)) && (plain(self) || plain(other))
    }
}

struct Search<'s, 'h> {
    ideals: &'s Ideals<'h>,
    places: usize,
    told: &'s mut Told,
    pairs: Vec<RacePair>,
    /// Of the variable at hand.
    slots: Vec<Slot>,
    /// For each slot its accesses.
    accesses: Vec<Vec<Access>>,
    /// The threads that accessed the variable, and where each did so last.
    users: Vec<(u16, u32)>,
    /// The first slot of each thread and sort.
    heads: Vec<u32>,
    /// For each thread and each slot how far the thread is.
    pointers: Vec<Vec<Pointer>>,
    growing: Growing,
}

impl Search<'_, '_> {
    fn variable(&mut self, accesses: &[Access]) {
        for access in accesses {
            self.second(access);
            self.remember(access);
        }
        for slot in &self.slots {
            self.heads[usize::from(slot.thread) * 4 + slot.sort as usize] = NO_SLOT;
            self.pointers[usize::from(slot.thread)].clear();
        }
        self.slots.clear();
        self.users.clear();
    }

    /// Looks for earlier accesses that race with this one.
    fn second(&mut self, second: &Access) {
        let moment = second.point.moment();
        let known = self.ideals.known(second.point);
        let pointers = &mut self.pointers[usize::from(second.point.thread)];
        pointers.resize(self.slots.len(), NEVER);
        let mut open = 0_u64;
        for &(thread, last) in &self.users {
            let races = last >= known[usize::from(thread)] && thread != second.point.thread;
            open |= u64::from(races) << (thread % 64);
        }
        for (at, (slot, pointer)) in self.slots.iter().zip(pointers).enumerate() {
            if open >> (slot.thread % 64) & 1 == 0 {
                continue;
            }
            let thread = usize::from(slot.thread);
            let nothing = pointer.at == slot.count || slot.last < known[thread];
            if nothing || slot.thread == second.point.thread || !slot.sort.races_with(second.sort) {
                continue;
            }
            if slot.apart && self.told.contains(slot.location, second.location) {
                continue;
            }
            let accesses = &self.accesses[at];
            if pointer.raced != moment {
                pointer.at = pass(accesses, pointer.at, known[thread]);
            }
            while let Some(first) = accesses.get(pointer.at as usize).filter(|_| pointer.raced != moment) {
                if self.ideals.co_enabled(&mut self.growing, [first.point, second.point]) {
                    pointer.raced = moment;
                } else {
                    pointer.at = pass(accesses, pointer.at + 1, self.growing.ideal[thread]);
                }
            }
            if pointer.raced == moment {
                let first = &accesses[pointer.at as usize];
                if self.places == 0 || self.told.insert(first.location, second.location) {
                    self.pairs.push(RacePair { first: first.number, second: second.number });
                }
                if self.places == 0 {
                    return;
                }
            }
        }
    }

    fn remember(&mut self, access: &Access) {
        let head = usize::from(access.point.thread) * 4 + access.sort as usize;
        let (mut at, mut last, mut count) = (self.heads[head], NO_SLOT, 0);
        while let Some(slot) = self.slots.get(at as usize) {
            if !slot.apart || slot.location == access.location {
                break;
            }
            count += 1;
            (last, at) = (at, slot.next);
        }
        if at == NO_SLOT {
            at = self.slots.len() as u32;
            // The slot for all other places is made last, and stays the last of its list.
            match self.slots.get_mut(last as usize) {
                Some(last) => last.next = at,
                None => self.heads[head] = at,
            }
            self.slots.push(Slot {
                thread: access.point.thread,
                sort: access.sort,
                apart: count < self.places,
                location: access.location,
                count: 0,
                last: 0,
                next: NO_SLOT,
            });
            match self.accesses.get_mut(at as usize) {
                Some(accesses) => accesses.clear(),
                None => self.accesses.push(Vec::new()),
            }
        }
        match self.users.iter_mut().find(|user| user.0 == access.point.thread) {
            Some(user) => user.1 = access.point.place,
            None => self.users.push((access.point.thread, access.point.place)),
        }
        self.accesses[at as usize].push(*access);
        let slot = &mut self.slots[at as usize];
        slot.count += 1;
        slot.last = access.point.place;
    }
}

/// The first access from `at` on that is not among the first `known` events of its thread.
fn pass(accesses: &[Access], at: u32, known: u32) -> u32 {
    let rest = accesses[(at as usize).min(accesses.len())..].iter();
    at + rest.take_while(|access| access.point.place < known).count() as u32
}
