//! The control file as the runtime sees it: words in a shared mapping, and the seats in it.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::control::{self as layout, NOBODY, SeatState, at, seat};
use selvedge_events::{SiteId, ThreadIx};
use selvedge_sched::{OpKind, Pending, Threads};

use crate::sys::{self, flags};

static BASE: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);

/// Maps the control file; false where it is not one.
pub fn open(path: &[u8]) -> bool {
    let mut name = [0_u8; 1024];
    let Some(room) = name.get_mut(..path.len()).filter(|room| room.len() < 1023) else { return false };
    room.copy_from_slice(path);
    let Some(path) = name.get(..=path.len()) else { return false };
    let Ok(fd) = sys::open(path, flags::O_RDWR | flags::O_CLOEXEC, 0) else { return false };
    let mapped = sys::fstat(fd).ok().and_then(|(_, _, len)| {
        let len = usize::try_from(len).ok().filter(|len| *len >= layout::file_len(1))?;
        let prot = flags::PROT_READ | flags::PROT_WRITE;
        // SAFETY: no address is asked for.
        let at = unsafe { sys::mmap(0, len, prot, flags::MAP_SHARED, fd, 0) }.ok()?;
        Some((at, len))
    });
    sys::close(fd);
    let Some((at, len)) = mapped else { return false };
    LEN.store(len, Ordering::Relaxed);
    BASE.store(at, Ordering::Release);
    let fits = word64(0).load(Ordering::Relaxed) == u64::from_le_bytes(layout::MAGIC)
        && word32(at::VERSION).load(Ordering::Relaxed) == layout::VERSION;
    if !fits {
        BASE.store(0, Ordering::Release);
    }
    fits
}

/// Forgets the file; the mapping stays.
pub fn close() {
    BASE.store(0, Ordering::Release);
}

/// Whether the file is mapped.
pub fn is_open() -> bool {
    BASE.load(Ordering::Relaxed) != 0
}

/// A word of the header.
pub fn word32(at: usize) -> &'static AtomicU32 {
    // SAFETY: I10: the mapping has at least the header and is never undone; offsets are aligned constants.
    unsafe { &*((BASE.load(Ordering::Relaxed) + at) as *const AtomicU32) }
}

/// As [`word32`].
pub fn word64(at: usize) -> &'static AtomicU64 {
    // SAFETY: as above.
    unsafe { &*((BASE.load(Ordering::Relaxed) + at) as *const AtomicU64) }
}

/// What was asked for.
pub fn get32(at: usize) -> u32 {
    word32(at).load(Ordering::Relaxed)
}

/// As [`get32`].
pub fn get64(at: usize) -> u64 {
    word64(at).load(Ordering::Relaxed)
}

/// Adds to a count.
pub fn add64(at: usize, by: u64) -> u64 {
    word64(at).fetch_add(by, Ordering::Relaxed)
}

/// The schedule to replay, packed.
pub fn switches() -> &'static [u8] {
    let room = (LEN.load(Ordering::Relaxed) - layout::SWITCHES_AT) / layout::SWITCH;
    let count = usize::try_from(get64(at::SWITCHES)).unwrap_or(0).min(room).min(layout::SWITCHES);
    let at = BASE.load(Ordering::Relaxed) + layout::SWITCHES_AT;
    // SAFETY: I10: inside the mapping; the driver does not write while a run is under way.
    unsafe { core::slice::from_raw_parts(at as *const u8, count * layout::SWITCH) }
}

/// Appends to the log; where it is full, counts.
pub fn log(entry: [u64; 3]) {
    let index = get64(at::LOG_LEN);
    let room = ((LEN.load(Ordering::Relaxed) - layout::LOG_AT) / layout::STEP) as u64;
    if index >= room.min(get64(at::LOG_CAPACITY)) {
        add64(at::LOG_LOST, 1);
        return;
    }
    let row = layout::LOG_AT + index as usize * layout::STEP;
    for (number, word) in entry.into_iter().enumerate() {
        word64(row + number * 8).store(word, Ordering::Relaxed);
    }
    // The entry before the count: whoever reads after a crash sees whole ones.
    word64(at::LOG_LEN).store(index + 1, Ordering::Release);
}

/// Where a thread sits. Its words are written by the thread itself before it parks, and otherwise only
/// under the gate's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat(pub u32);

impl Seat {
    /// The seat for a thread.
    pub fn of(thread: u32) -> Option<Seat> {
        is_open().then_some(Seat(thread % layout::SEATS as u32))
    }

    fn base(self) -> usize {
        layout::HEADER + (self.0 as usize % layout::SEATS) * layout::SEAT
    }

    /// A word of it.
    pub fn word(self, at: usize) -> &'static AtomicU32 {
        word32(self.base() + at)
    }

    /// A long word of it.
    pub fn long(self, at: usize) -> &'static AtomicU64 {
        word64(self.base() + at)
    }

    /// The address of a field.
    pub fn address(self, at: usize) -> usize {
        BASE.load(Ordering::Relaxed) + self.base() + at
    }

    /// Reads a word.
    pub fn get(self, at: usize) -> u32 {
        self.word(at).load(Ordering::Relaxed)
    }

    /// Writes a word.
    pub fn set(self, at: usize, value: u32) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Reads a long word.
    pub fn get64(self, at: usize) -> u64 {
        self.long(at).load(Ordering::Relaxed)
    }

    /// Writes a long word.
    pub fn set64(self, at: usize, value: u64) {
        self.long(at).store(value, Ordering::Relaxed);
    }

    /// What it does.
    pub fn state(self) -> SeatState {
        SeatState::from_u32(self.get(seat::STATE)).unwrap_or(SeatState::Empty)
    }

    /// Says what it does.
    pub fn set_state(self, state: SeatState) {
        self.set(seat::STATE, state as u32);
    }

    /// The kind of its pending operation.
    pub fn kind(self) -> OpKind {
        OpKind::from_u8(self.get(seat::KIND) as u8)
    }

    /// Whether somebody sits or sat here in this run; what the file says otherwise is from an earlier one.
    pub fn is_used(self) -> bool {
        let index = self.0 as usize % layout::SEATS;
        USED[index / 64].load(Ordering::Relaxed) >> (index % 64) & 1 != 0
    }

    /// Forgets everything about whoever sat here.
    pub fn clear(self) {
        let index = self.0 as usize % layout::SEATS;
        USED[index / 64].fetch_or(1 << (index % 64), Ordering::Relaxed);
        for at in (0..layout::SEAT).step_by(8) {
            self.set64(at, 0);
        }
    }
}

/// A bit for each seat that was used in this run.
static USED: [AtomicU64; layout::SEATS / 64] = [const { AtomicU64::new(0) }; layout::SEATS / 64];

/// The live threads, in order of creation.
pub fn seats() -> impl Iterator<Item = Seat> {
    let first = FIRST.load(Ordering::Relaxed);
    core::iter::successors(Some(first), |at| Some(Seat(*at).get(seat::NEXT))).take_while(|at| *at != NOBODY).map(Seat)
}

static FIRST: AtomicU32 = AtomicU32::new(NOBODY);
static LAST: AtomicU32 = AtomicU32::new(NOBODY);

/// Adds a seat at the end.
pub fn link(seat: Seat) {
    let last = LAST.swap(seat.0, Ordering::Relaxed);
    seat.set(seat::PREV, last);
    seat.set(seat::NEXT, NOBODY);
    match last {
        NOBODY => FIRST.store(seat.0, Ordering::Relaxed),
        last => Seat(last).set(seat::NEXT, seat.0),
    }
    word32(at::THREADS).fetch_max(seat.0 + 1, Ordering::Relaxed);
}

/// Takes a seat out.
pub fn unlink(seat: Seat) {
    let (prev, next) = (seat.get(seat::PREV), seat.get(seat::NEXT));
    match prev {
        NOBODY => FIRST.store(next, Ordering::Relaxed),
        prev => Seat(prev).set(seat::NEXT, next),
    }
    match next {
        NOBODY => LAST.store(prev, Ordering::Relaxed),
        next => Seat(next).set(seat::PREV, prev),
    }
}

/// Nobody is live.
pub fn unlink_all() {
    for word in &USED {
        word.store(0, Ordering::Relaxed);
    }
    FIRST.store(NOBODY, Ordering::Relaxed);
    LAST.store(NOBODY, Ordering::Relaxed);
}

/// The threads, as a strategy sees them.
#[derive(Debug)]
pub struct Table;

impl Threads for Table {
    fn enabled_after(&self, after: Option<ThreadIx>) -> Option<ThreadIx> {
        let above = |seat: &Seat| after.is_none_or(|after| seat.0 > after.0);
        // A seat that is still linked leads straight on.
        let from = after.map(|after| Seat(after.0)).filter(|seat| {
            (seat.0 as usize) < layout::SEATS && !matches!(seat.state(), SeatState::Empty | SeatState::Ended)
        });
        let ready = |seat: &Seat| seat.state() == SeatState::Ready;
        match from {
            Some(seat) => core::iter::successors(Some(seat.get(seat::NEXT)), |at| Some(Seat(*at).get(seat::NEXT)))
                .take_while(|at| *at != NOBODY)
                .map(Seat)
                .find(ready),
            None => seats().filter(above).find(ready),
        }
        .map(|seat| ThreadIx(seat.0))
    }

    fn pending(&self, thread: ThreadIx) -> Pending {
        let seat = Seat(thread.0);
        Pending { kind: seat.kind(), object: seat.get64(seat::OBJECT), site: SiteId(seat.get(seat::SITE)) }
    }

    fn operation(&self, thread: ThreadIx) -> u32 {
        if (thread.0 as usize) < layout::SEATS && Seat(thread.0).is_used() {
            Seat(thread.0).get(seat::OPERATIONS)
        } else {
            0
        }
    }

    fn note(&self, thread: ThreadIx) -> u64 {
        Seat(thread.0).get64(seat::NOTE)
    }

    fn set_note(&mut self, thread: ThreadIx, note: u64) {
        Seat(thread.0).set64(seat::NOTE, note);
    }

    fn is_enabled(&self, thread: ThreadIx) -> bool {
        (thread.0 as usize) < layout::SEATS && Seat(thread.0).state() == SeatState::Ready
    }
}
