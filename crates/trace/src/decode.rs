//! A thread's words become events.
//!
//! Every chunk restates time, regions and context, so each is read on its own. A zero word is room that
//! was reserved and never filled: the process died there, and what lies behind it in the chunk may be
//! the tail of a torn record, so it is left out and counted.
//!
//! The decoder is total: every word has a reading (see `events::pack`), kinds of a later version are
//! skipped by their length and counted, and a record that its chunk cuts off is dropped and counted.
//! Times never go backwards within a thread. An untimed access gets a time between its timed
//! neighbours, evenly spread, and says so ([`Exactness::Between`]).

use std::sync::Arc;

use selvedge_events::hooks::Rw;
use selvedge_events::pack::{self, Small, Word};
use selvedge_events::{EventKind, GuestAddr, SiteId, ThreadIx, Ticks};

use crate::context::{ContextId, Contexts, Stack};
use crate::event::{Event, EventBody, Exactness, Place, body, place};
use crate::limits;
use crate::read::TraceFile;
use crate::words::Words;

/// What a decoder had to leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Records of kinds that this version does not know.
    pub unknown: u64,
    /// Records cut off, or whose words make no sense.
    pub broken: u64,
    /// Events that the runtime says it lost.
    pub lost: u64,
}

impl std::ops::AddAssign for LeftOut {
    fn add_assign(&mut self, other: LeftOut) {
        self.unknown += other.unknown;
        self.broken += other.broken;
        self.lost = self.lost.saturating_add(other.lost);
    }
}

/// The events of one thread, in its order.
#[derive(Debug)]
pub struct ThreadEvents {
    thread: ThreadIx,
    words: Words,
    contexts: Arc<Contexts>,
    stack: Stack,
    regions: [u32; pack::REGIONS],
    /// Records with one extra word that may be repeated: first word without time, extra word.
    memo: Box<[(u64, u64); pack::MEMO]>,
    epoch: u64,
    /// Time of the last timed event.
    last: u64,
    next_index: u64,
    /// The operation under control that events are of.
    operation: u32,
    /// What the memory of the next event held.
    before: Option<u64>,
    /// Events that were read: those before `at` were handed out, those from `settled` on are accesses since the last timed
    /// event, whose time is not known yet.
    events: Vec<Event>,
    at: usize,
    settled: usize,
    left_out: LeftOut,
}

/// Events that are read at once, if there are as many: few, because all threads of a merge hold them.
const BATCH: usize = 32;

impl ThreadEvents {
    pub(crate) fn new(file: &TraceFile, thread: ThreadIx, contexts: Arc<Contexts>) -> ThreadEvents {
        ThreadEvents {
            thread,
            words: Words::new(Arc::clone(&file.source), file.pieces(thread)),
            contexts,
            stack: Stack::new(),
            regions: [0; pack::REGIONS],
            memo: Box::new([(0, 0); pack::MEMO]),
            epoch: 0,
            last: file.header().start.0 & !(pack::TICK - 1),
            next_index: 0,
            operation: 0,
            before: None,
            events: Vec::new(),
            at: 0,
            settled: 0,
            left_out: LeftOut::default(),
        }
    }

    /// Bytes of words read so far, padding not counted.
    pub fn bytes(&self) -> u64 {
        self.words.used * 8
    }

    /// The calling context after the words read so far.
    pub fn context(&self) -> ContextId {
        self.stack.top()
    }

    /// What was left out so far.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// The next event.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<&Event> {
        if self.at == self.settled {
            self.advance();
        }
        self.events.get(..self.settled).and_then(|events| events.get(self.at))
    }

    /// Goes on to the event after the one that [`ThreadEvents::peek`] gave.
    #[inline]
    pub(crate) fn pass(&mut self) {
        self.at += 1;
    }

    /// Reads words until some events are ready, or the end.
    #[cold]
    fn advance(&mut self) {
        self.events.drain(..self.at);
        (self.at, self.settled) = (0, 0);
        while self.settled < BATCH {
            let Some(word) = self.words.next_in_piece() else {
                if self.words.next_piece() {
                    self.regions = [0; pack::REGIONS];
                    *self.memo = [(0, 0); pack::MEMO];
                    self.epoch = 0;
                    continue;
                }
                self.settle(self.last);
                return;
            };
            match Word::unpack(word) {
                Word::Padding => self.left_out.broken += u64::from(self.words.end_piece()),
                Word::Short { site, region, low, time } => {
                    let addr = self.address(region, low);
                    self.take(time, Place::Site(SiteId(site)), EventBody::Access { addr });
                }
                Word::ShortRange { site, region, low, extent } => {
                    let addr = self.address(region, low);
                    let (size, write) = pack::split_extent(extent);
                    let rw = if write { Rw::Write } else { Rw::Read };
                    self.take(None, Place::Site(SiteId(site)), EventBody::Range { addr, size, rw });
                }
                Word::Wide { kind, extra, time, payload } => self.wide(word, kind, extra, time, payload),
                Word::Small(small) => self.small(small),
                Word::Unknown(_) => self.left_out.unknown += 1,
            }
        }
    }

    fn address(&self, region: u32, low: u32) -> GuestAddr {
        let high = self.regions.get(region as usize).copied().unwrap_or(0);
        GuestAddr(u64::from(high) << 32 | u64::from(low))
    }

    fn wide(&mut self, first: u64, kind: u8, extra: u8, time: u16, payload: u64) {
        let mut words = [0; 3];
        for at in 0..usize::from(extra) {
            // A record never crosses from one chunk into the next.
            let Some(word) = self.words.next_in_piece() else {
                self.left_out.broken += 1;
                return;
            };
            if let Some(slot) = words.get_mut(at) {
                *slot = word;
            }
        }
        if extra == 1 {
            let key = (pack::timeless(first), words[0]);
            if let Some(memo) = self.memo.get_mut(pack::memo_slot(key.0, key.1) as usize) {
                *memo = key;
            }
        }
        self.record(kind, extra, time, payload, words);
    }

    /// A remembered record happens again.
    fn repeat(&mut self, slot: u8, time: u16) {
        let (first, word) = self.memo.get(usize::from(slot)).copied().unwrap_or((0, 0));
        match Word::unpack(pack::with_time(first, time)) {
            Word::Wide { kind, extra, time, payload } => self.record(kind, extra, time, payload, [word, 0, 0]),
            _ => self.left_out.broken += 1,
        }
    }

    fn record(&mut self, kind: u8, extra: u8, time: u16, payload: u64, mut words: [u64; 3]) {
        let Some(kind) = EventKind::from_u8(kind) else {
            self.left_out.unknown += 1;
            return;
        };
        let whole = pack::unfold(kind, extra, &mut words);
        match body(kind, payload, &words).filter(|_| whole) {
            Some(body) => self.take(Some(time), place(kind, payload), body),
            None => self.left_out.broken += 1,
        }
    }

    fn small(&mut self, small: Small) {
        match small {
            Small::Epoch(epoch) => self.epoch = epoch & ((1 << 46) - 1),
            Small::Region { slot, high } => {
                if let Some(region) = self.regions.get_mut(slot as usize) {
                    *region = high;
                }
            }
            Small::Pop(count) => self.stack.pop(count),
            Small::Push { pops, pc } => {
                self.stack.pop(u32::from(pops));
                self.stack.push(&self.contexts, pc);
            }
            Small::Repeat { slot, time, pops } => {
                self.stack.pop(u32::from(pops));
                self.repeat(slot, time);
            }
            Small::Operation(number) => self.operation = number,
            Small::Before { upper: false, half } => self.before = Some(u64::from(half)),
            Small::Before { upper: true, half } => {
                self.before = self.before.map(|lower| lower | u64::from(half) << 32);
            }
            Small::Lost(count) => self.left_out.lost = self.left_out.lost.saturating_add(count),
        }
    }

    #[inline]
    fn take(&mut self, time: Option<u16>, place: Place, body: EventBody) {
        let before = self.before.take();
        let kept = self.stack.kept();
        let event = |time, exactness| Event {
            thread: self.thread,
            index: self.next_index,
            time: Ticks(time),
            exactness,
            context: self.stack.top(),
            kept,
            place,
            body,
            operation: self.operation,
            before,
        };
        match time {
            None => {
                let event = event(self.last, Exactness::Between);
                self.events.push(event);
                if self.events.len() - self.settled >= limits::MAX_BURST {
                    self.settle(self.last);
                }
            }
            Some(time) => {
                let time = pack::tsc_of(self.epoch, time).max(self.last);
                let event = event(time, Exactness::Timed);
                self.settle(time);
                self.last = time;
                self.events.push(event);
                self.settled += 1;
            }
        }
        self.next_index += 1;
    }

    /// Spreads the held-back accesses evenly between the last timed event and `until`.
    #[inline]
    fn settle(&mut self, until: u64) {
        let burst = self.events.get_mut(self.settled..).unwrap_or_default();
        self.settled += burst.len();
        let (span, parts) = (until.saturating_sub(self.last), burst.len() as u64 + 1);
        if span == 0 || parts == 1 {
            return;
        }
        // `span * number / parts`, added up: the remainders of the division carry over.
        let (step, rest) = (span / parts, span % parts);
        let (mut time, mut carried) = (self.last, 0);
        for event in burst {
            carried += rest;
            time += step + u64::from(carried >= parts);
            carried -= if carried >= parts { parts } else { 0 };
            event.time = Ticks(time);
        }
    }
}

impl Iterator for ThreadEvents {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        let event = *self.peek()?;
        self.pass();
        Some(event)
    }
}
