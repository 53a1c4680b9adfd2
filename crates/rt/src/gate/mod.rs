//! The gate: under a controlled schedule one thread runs at a time, the one that holds the *baton*.
//!
//! A thread comes to the gate before each access to an armed site and each synchronisation (a *point*). There
//! the strategy says who goes on; whoever does not, parks on a word of its seat. An operation that cannot be
//! done yet blocks its thread in the model, never in the kernel: the real object stays the truth (a mutex is
//! tried, not waited for), the gate only models the waiting. So all kinds of locks behave as they do without us.
//!
//! Departures that a reader should know:
//! - Waiters on a condition or futex are woken in order of arrival.
//! - Sleeps take no time: a sleeper may run at once where its time is near ([`time::NEAR`]), else when nothing
//!   else can. Time-outs of waits fire when nothing else can run, unless the run asks for eager ones.
//! - Input and output that is not ready parks its thread until a look at the descriptor says that it is; the
//!   looks come after every input or output of the process, so what threads send each other is deterministic. A
//!   program that does nothing but sleep while it waits for input sleeps really ([`io`]).
//! - A call that may block otherwise is made without the baton, and the thread queues for it afterwards.
//! - A thread that blocks where we cannot see it is noticed by one of those that wait ([`park`]).
//! - A deadlock is reported only where no signal, timer, input or other process could still wake anybody.
//!
//! A forked child of the guest runs free: the seats are the parent's.

pub mod control;
pub mod handler;
pub mod io;
pub mod model;
pub mod park;
pub mod server;
pub mod signal;
pub mod time;

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use selvedge_events::ThreadIx;
use selvedge_events::control::{DivergenceKind, LogMode, NOBODY, RunState, SeatState, at, seat};
use selvedge_sched::replay::{Divergence, Replay, Script, Seen};
use selvedge_sched::{Chooser, LoggedPoint, Moment, OpKind, Spec, Standing, Step, Threads as _, default_choice};

use crate::spin::{Held, Spin};
use crate::sys;
use crate::thread_state::{self, ThreadState};
use control::{Seat, Table, get32, get64, seats, word32, word64};

static ON: AtomicBool = AtomicBool::new(false);
/// Held while seats and the strategy are looked at or changed; never across a call of the guest's.
static LOCK: Spin = Spin::new();
/// The strategy, in pages of ours.
static CHOOSER: AtomicUsize = AtomicUsize::new(0);

/// Whether this process runs under control.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Whether times are numbers of events: in a process that is under control, from before it begins; not in its
/// children, which run free.
pub fn counts_events() -> bool {
    control::is_open() && (is_on() || is_ours())
}

/// The time of an event under control: one tick each, so that all are in one order.
pub fn tick() -> u64 {
    use selvedge_events::pack::TICK_SHIFT;
    (EVENTS.fetch_add(1, Ordering::Relaxed) + 1) << TICK_SHIFT
}

/// How often the guest has asked for random bytes.
pub fn draws() -> u64 {
    DRAWS.fetch_add(1, Ordering::Relaxed)
}

static DRAWS: AtomicU64 = AtomicU64::new(0);
/// How many events there have been.
pub fn events() -> u64 {
    EVENTS.load(Ordering::Relaxed)
}

static EVENTS: AtomicU64 = AtomicU64::new(0);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Woken {
    /// By somebody, or for no reason.
    Up = 0,
    /// By the time.
    TimedOut = 1,
    /// By a request to end the thread.
    Cancelled = 2,
    /// By a signal handler, after which calls fail with `EINTR`.
    Interrupted = 3,
    /// By a signal handler, after which calls go on.
    Restarted = 4,
    /// To try once more, because nobody else can run.
    Probe = 5,
}

impl Woken {
    fn of(seat: Seat) -> Woken {
        match seat.get(seat::WOKEN) {
            1 => Woken::TimedOut,
            2 => Woken::Cancelled,
            3 => Woken::Interrupted,
            4 => Woken::Restarted,
            5 => Woken::Probe,
            _ => Woken::Up,
        }
    }
}

/// What a thread comes to the gate for.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// What it is about to do.
    pub kind: OpKind,
    /// To what.
    pub object: u64,
    /// At which site, or [`seat::NO_SITE`].
    pub site: u32,
    /// Interposer slot + 1; 0 for an access.
    pub slot: u32,
    /// The caller.
    pub pc: usize,
}

impl Arrival {
    /// An access at a site.
    #[inline]
    pub fn access(kind: OpKind, addr: u64, site: u32) -> Arrival {
        // Neighbours within eight bytes are one object: what conflicts must never look independent.
        Arrival { kind, object: addr >> 3 << 3 | 1, site, slot: 0, pc: 0 }
    }

    /// A call of an interposed function.
    pub fn call(kind: OpKind, object: usize, slot: u16, pc: usize) -> Arrival {
        Arrival { kind, object: object as u64, site: seat::NO_SITE, slot: u32::from(slot) + 1, pc }
    }
}

/// Starts control in this process: the calling thread is the only one, and has the baton.
pub fn begin(state: &mut ThreadState) -> bool {
    let Ok(page) = sys::mmap_anonymous(size_of::<Chooser<'static>>().next_multiple_of(4096)) else { return false };
    let mut packed = [0; Spec::BYTES];
    for (at, byte) in packed.iter_mut().enumerate() {
        *byte = (get64(at::STRATEGY + at / 8 * 8) >> (at % 8 * 8)) as u8;
    }
    let spec = Spec::from_bytes(&packed).unwrap_or_default();
    let chooser = page as *mut Chooser<'static>;
    // SAFETY: fresh pages of ours, large enough and aligned.
    unsafe { chooser.write(Chooser::new(&spec, Script::Packed(control::switches()))) };
    CHOOSER.store(page, Ordering::Release);
    for at in [at::STEPS, at::LOG_LEN, at::LOG_LOST, at::NOW, at::DIGEST, at::HIDDEN_BLOCKS, at::HANDLERS_OUTSIDE] {
        word64(at).store(0, Ordering::Relaxed);
    }
    word32(at::DIVERGENCES).store(0, Ordering::Relaxed);
    word32(at::THREADS).store(0, Ordering::Relaxed);
    word32(at::OWNER).store(sys::getpid(), Ordering::Relaxed);
    word32(at::STATE).store(RunState::Running as u32, Ordering::Relaxed);
    control::unlink_all();
    time::begin();
    park::begin();
    let Some(seat) = seat_for(state.index, u32::MAX) else { return false };
    seat.set(seat::TID, sys::gettid());
    word32(at::RUNNING).store(seat.0, Ordering::Relaxed);
    state.seat = seat.0 + 1;
    ON.store(true, Ordering::Release);
    true
}

/// Whether the control file is for this process: nobody has it yet, or it had it before it called `exec`.
pub fn is_ours() -> bool {
    let owner = get32(at::OWNER);
    owner == 0 || owner == sys::getpid()
}

/// Whether this process is a run already, and has called `exec`.
pub fn is_run() -> bool {
    get32(at::OWNER) == sys::getpid()
}

/// In a forked child of the guest: it runs free.
pub fn after_fork() {
    if !is_on() || is_ours() {
        return;
    }
    ON.store(false, Ordering::Relaxed);
    LOCK.force_open();
}

/// The guest has made another process.
pub fn forked() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Whether it ever has: that process may be at the other end of what is shared.
pub fn has_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

static FORKED: AtomicBool = AtomicBool::new(false);

/// A fresh seat for a thread that is about to be.
fn seat_for(thread: u32, parent: u32) -> Option<Seat> {
    let is_free = |seat: &Seat| !seat.is_used() || matches!(seat.state(), SeatState::Empty | SeatState::Ended);
    let seat = Seat::of(thread).filter(is_free)?;
    seat.clear();
    seat.set(seat::THREAD, thread);
    seat.set(seat::PARENT, parent);
    seat.set(seat::KIND, OpKind::Start as u32);
    seat.set(seat::SITE, seat::NO_SITE);
    seat.set64(seat::OBJECT, u64::from(thread) + 1);
    seat.set64(seat::DEADLINE, u64::MAX);
    seat.set_state(SeatState::Ready);
    control::link(seat);
    Some(seat)
}

/// A thread in the gate: its hooks are deaf until it leaves.
#[derive(Debug)]
pub struct Visit {
    state: *mut ThreadState,
    /// Where it sits.
    pub seat: Seat,
}

impl Drop for Visit {
    fn drop(&mut self) {
        // SAFETY: I4: this thread's own state, alive while the thread is in a hook.
        let state = unsafe { &mut *self.state };
        state.in_gate = 0;
        handler::settle(state);
    }
}

/// Comes to the gate. `None`: this thread is not under control here.
#[inline]
pub fn visit() -> Option<Visit> {
    if !is_on() {
        return None;
    }
    let state = thread_state::current_or_adopt()?;
    let seat = Seat(state.seat.checked_sub(1)?);
    if state.internal > 0 || state.in_gate != 0 {
        return None;
    }
    state.in_gate = 1;
    let visit = Visit { state, seat };
    if get32(at::RUNNING) != seat.0 {
        // It was outside, or somebody noticed that it was blocked and took the baton away.
        visit.come_back();
    }
    Some(visit)
}

/// Whether the calling thread acts without the baton: what it does to objects is then told to those who wait.
pub fn is_unseen() -> bool {
    is_on() && thread_state::current().is_none_or(|state| state.seat == 0 || state.in_gate != 0 || state.internal > 0)
}

/// Calls something of the C library whose inside has no points: it may hold locks of its own there, which others
/// would wait for unseen.
pub fn deaf<R>(call: impl FnOnce() -> R) -> R {
    match thread_state::current().filter(|_| is_on()) {
        Some(state) if state.in_gate == 0 => {
            state.in_gate = 1;
            let result = call();
            state.in_gate = 0;
            handler::settle(state);
            result
        }
        _ => call(),
    }
}

/// A point: somebody else may run now.
#[inline]
pub fn point(arrival: Arrival) {
    if let Some(visit) = visit() {
        visit.arrive(arrival);
    }
}

/// The number of the operation that a thread is in; 0 where it has not begun one, or is not under control.
pub fn operation(state: &ThreadState) -> u32 {
    state.seat.checked_sub(1).map_or(0, |seat| Seat(seat).get(seat::OPERATIONS))
}

/// The gate's lock, held. While it is, and until the thread to go on has been told, handlers are put off.
#[derive(Debug)]
pub struct Locked(Option<Held<'static>>);

fn critical(by: i32) {
    compiler_fence(Ordering::SeqCst);
    if let Some(state) = thread_state::current() {
        let now = state.critical.load(Ordering::Relaxed);
        state.critical.store(now.wrapping_add_signed(by), Ordering::Relaxed);
    }
    compiler_fence(Ordering::SeqCst);
}

fn lock() -> Option<Locked> {
    critical(1);
    match LOCK.lock_patiently() {
        Some(held) => Some(Locked(Some(held))),
        None => {
            critical(-1);
            give_up();
            None
        }
    }
}

impl Locked {
    /// Gives the baton to a thread.
    fn pass(mut self, chosen: Seat) {
        STREAK.store(0, Ordering::Relaxed);
        word32(at::RUNNING).store(chosen.0, Ordering::SeqCst);
        self.0 = None;
        // Still critical: a handler that waited for the baton here would wait for one who sleeps.
        park::rouse(chosen);
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.0 = None;
        critical(-1);
    }
}

/// Control is lost; everybody runs free from here on.
#[cold]
pub fn give_up() {
    ON.store(false, Ordering::SeqCst);
    word32(at::STATE).store(RunState::GaveUp as u32, Ordering::Relaxed);
    for seat in seats().take(selvedge_events::control::SEATS) {
        park::rouse(seat);
    }
}

/// Points in a row that one thread has had.
static STREAK: AtomicU32 = AtomicU32::new(0);
/// So many, and it counts as yielding: a loop that writes as it waits must not starve those that it waits for.
const LONG_STREAK: u32 = 2_000;

impl Visit {
    /// Announces what the thread is about to do, and lets the strategy choose.
    pub fn arrive(&self, arrival: Arrival) {
        crate::heal::past();
        let seat = self.seat;
        self.announce(&arrival);
        let spinning = spins(seat, &arrival) || STREAK.fetch_add(1, Ordering::Relaxed) >= LONG_STREAK;
        let yielding = spinning || matches!(arrival.kind, OpKind::Yield | OpKind::Sleep);
        if spinning {
            STREAK.store(0, Ordering::Relaxed);
        }
        self.next_point();
        seat.set(seat::OPERATIONS, seat.get(seat::OPERATIONS).wrapping_add(1));
        self.choose(if yielding { Standing::Yielding } else { Standing::Ready });
        crate::stream::catch_up();
    }

    fn announce(&self, arrival: &Arrival) {
        let seat = self.seat;
        seat.set(seat::KIND, arrival.kind as u32);
        seat.set(seat::SITE, arrival.site);
        seat.set(seat::SLOT, arrival.slot);
        seat.set64(seat::OBJECT, arrival.object);
        seat.set64(seat::PC, if arrival.pc == 0 { 0 } else { crate::modules::payload(arrival.pc) });
    }

    fn next_point(&self) {
        self.seat.set(seat::POINTS, self.seat.get(seat::POINTS).wrapping_add(1));
    }

    /// Lets the strategy choose, and returns when this thread has the baton again.
    fn choose(&self, standing: Standing) {
        let Some(held) = lock() else { return };
        match next(self.seat, standing) {
            Some(chosen) if chosen == self.seat => {}
            Some(chosen) => {
                held.pass(chosen);
                park::park(self.seat);
            }
            None => {
                park::idle(held, self.seat);
                park::park(self.seat);
            }
        }
    }

    /// Blocks until somebody wakes this thread, or until `deadline`. The caller has set what it waits for.
    pub fn block(&self, deadline: u64) -> Woken {
        let seat = self.seat;
        if self.is_cancelled() {
            return Woken::Cancelled;
        }
        time::limit(deadline);
        seat.set64(seat::DEADLINE, deadline);
        seat.set64(seat::ARRIVAL, get64(at::STEPS) << 1);
        seat.set(seat::WOKEN, Woken::Up as u32);
        seat.set_state(SeatState::Blocked);
        self.choose(Standing::Stuck);
        seat.set64(seat::DEADLINE, u64::MAX);
        Woken::of(seat)
    }

    /// Whether the thread was asked to end after it came here; it is told once.
    fn is_cancelled(&self) -> bool {
        let flags = self.seat.get(seat::FLAGS);
        self.seat.set(seat::FLAGS, flags & !seat::CANCEL);
        flags & seat::CANCEL != 0
            && matches!(self.seat.kind(), OpKind::Wait | OpKind::Join | OpKind::Sleep | OpKind::Io)
    }

    /// Blocks until `done` answers; each failed attempt is a point of its own. A handler ends the wait only where it
    /// is `interruptible`.
    pub fn retry<R>(
        &self,
        deadline: u64,
        interruptible: bool,
        mut done: impl FnMut() -> Option<R>,
    ) -> Result<R, Woken> {
        let seat = self.seat;
        let mut woken = Woken::Up;
        loop {
            if let Some(result) = done() {
                seat.set64(seat::DEADLINE, u64::MAX);
                return Ok(result);
            }
            if woken == Woken::Probe {
                seat.set64(seat::DEADLINE, deadline);
                park::probed(seat);
                woken = Woken::of(seat);
            } else {
                seat.set(seat::FLAGS, seat.get(seat::FLAGS) | seat::TRIES);
                woken = self.block(deadline);
            }
            if woken != Woken::Probe {
                seat.set(seat::FLAGS, seat.get(seat::FLAGS) & !seat::TRIES);
                self.next_point();
            }
            match woken {
                Woken::TimedOut | Woken::Cancelled => return Err(woken),
                Woken::Interrupted if interruptible => return Err(woken),
                _ => {}
            }
        }
    }

    /// Gives the baton away before a call that may block in the kernel.
    pub fn leave(self) {
        let Some(held) = lock() else { return };
        self.seat.set_state(SeatState::Outside);
        give_away(held, self.seat);
    }

    /// Queues for the baton after such a call.
    fn come_back(&self) {
        let Some(held) = lock() else { return };
        self.seat.set_state(SeatState::Ready);
        let mut chosen = None;
        if get32(at::RUNNING) == NOBODY {
            self.next_point();
            chosen = next(self.seat, Standing::Ready).or(Some(self.seat));
        }
        match chosen {
            Some(chosen) => held.pass(chosen),
            None => drop(held),
        }
        park::park(self.seat);
    }
}

/// A thread goes where it cannot be chosen: somebody else gets the baton, if anybody can run.
fn give_away(held: Locked, from: Seat) {
    match next(from, Standing::Stuck) {
        Some(chosen) => {
            park::appoint(from, Some(chosen));
            held.pass(chosen);
        }
        None => {
            park::idle(held, from);
            park::appoint_if_idle(from);
        }
    }
}

/// Queues for the baton again after [`Visit::leave`].
pub fn enter() {
    // Coming to the gate is all: the seat says that the thread was outside.
    drop(visit());
}

/// The strategy's choice. The gate's lock is held. `None`: nobody can run.
fn next(current: Seat, standing: Standing) -> Option<Seat> {
    if get64(at::STEPS).is_multiple_of(io::BETWEEN_LOOKS) {
        io::changed();
    }
    io::look();
    time::fire();
    let table = &mut Table;
    if !seats().any(|seat| seat.state() == SeatState::Ready) {
        return None;
    }
    let step = control::add64(at::STEPS, 1) + 1;
    time::pass();
    let point = current.get(seat::POINTS);
    let moment = Moment { step, current: ThreadIx(current.0), point, standing };
    let default = default_choice(&moment, table);
    let chooser = CHOOSER.load(Ordering::Acquire) as *mut Chooser<'static>;
    if chooser.is_null() {
        return Some(Seat(default.0));
    }
    // SAFETY: I10: written once by `begin`, and used only under the gate's lock, which is held.
    let chooser = unsafe { &mut *chooser };
    let chosen = chooser.choose(&moment, table);
    if let Some(replay) = chooser.as_replay() {
        word32(at::UNMET).store(replay.remaining(), Ordering::Relaxed);
        if replay.divergences() != get32(at::DIVERGENCES) {
            diverged(step, replay);
        }
    }
    if let Some(steer) = chooser.as_steer() {
        word32(at::UNMET).store(steer.remaining(), Ordering::Relaxed);
        word32(at::DIVERGENCES).store(steer.off(), Ordering::Relaxed);
    }
    note(&moment, default, chosen);
    let chosen = Seat(chosen.0);
    if chosen.kind() == OpKind::Sleep && Woken::of(chosen) == Woken::Up {
        time::at_least(chosen.get64(seat::DEADLINE));
    }
    if step >= get64(at::MOST_STEPS).wrapping_sub(1) {
        end_run(RunState::StepLimit);
    }
    if current.0 == get32(at::UNTIL_THREAD) && point == get32(at::UNTIL_POINT) {
        until();
    }
    Some(chosen)
}

/// Logs a choice, and folds it into the digest.
fn note(moment: &Moment, default: ThreadIx, chosen: ThreadIx) {
    let pending = Table.pending(moment.current);
    let mut digest = get64(at::DIGEST);
    let threads = u64::from(moment.current.0) << 32 | u64::from(chosen.0);
    for word in [threads, u64::from(pending.site.0) << 32 | pending.kind as u64] {
        digest = (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    word64(at::DIGEST).store(digest, Ordering::Relaxed);
    let all = get32(at::LOG_MODE) == LogMode::All as u32;
    if chosen == default && !all {
        return;
    }
    let step = Step::new(moment, &pending, default, chosen);
    let bytes = if all { LoggedPoint::new(step, &Table) } else { LoggedPoint { step, enabled: 0 } }.to_bytes();
    let word = |number: usize| selvedge_events::bytes::u64_at(&bytes, number * 8).unwrap_or(0);
    control::log([word(0), word(1), word(2)]);
}

#[cold]
fn diverged(step: u64, replay: &Replay<'_>) {
    let before = word32(at::DIVERGENCES).swap(replay.divergences(), Ordering::Relaxed);
    let Some(first) = replay.first_divergence().filter(|_| before == 0) else { return };
    let none = Seen { kind: OpKind::Other, site: selvedge_events::SiteId(seat::NO_SITE) };
    let (kind, switch, expected, came) = match first {
        Divergence::NotEnabled { switch, .. } => (DivergenceKind::NotEnabled, switch, none, none),
        Divergence::Unexpected { switch, expected, came, .. } => (DivergenceKind::Unexpected, switch, expected, came),
        Divergence::Passed { switch, .. } => (DivergenceKind::Passed, switch, none, none),
        // Only known when the run has ended.
        Divergence::Unreached { .. } => return,
    };
    for (field, value) in [
        (at::DIVERGENCE_KIND, kind as u32),
        (at::DIVERGENCE_THREAD, switch.thread.0),
        (at::DIVERGENCE_POINT, switch.point),
        (at::EXPECTED_SITE, expected.site.0),
        (at::EXPECTED_KIND, expected.kind as u32),
        (at::CAME_SITE, came.site.0),
        (at::CAME_KIND, came.kind as u32),
    ] {
        word32(field).store(value, Ordering::Relaxed);
    }
    word64(at::DIVERGENCE_STEP).store(step, Ordering::Relaxed);
}

/// The run is over, whatever the program thinks.
#[cold]
fn end_run(state: RunState) -> ! {
    word32(at::STATE).store(state as u32, Ordering::Relaxed);
    crate::sink::clean_exit();
    sys::exit_group(ENDED_STATUS)
}

/// Exit status of a run that the gate ended; the control file says why.
pub const ENDED_STATUS: i32 = 66;

/// The point that the user asked for: a debugger takes over, or the run ends.
#[cold]
fn until() {
    word32(at::STATE).store(RunState::Until as u32, Ordering::Relaxed);
    if sys::is_traced() {
        sys::trap();
    } else {
        end_run(RunState::Until);
    }
}

/// Reads in a row without news after which a thread is taken to wait for somebody.
const SPINS: u32 = 24;

/// Whether the thread only looks at what it has looked at before.
fn spins(seat: Seat, arrival: &Arrival) -> bool {
    if arrival.kind != OpKind::Read && arrival.kind != OpKind::Update && arrival.kind != OpKind::Fence {
        if arrival.kind == OpKind::Write {
            seat.set(seat::SPIN, 0);
        }
        return false;
    }
    let print = (arrival.object ^ u64::from(arrival.site) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let print = print as u32 | 1;
    let known = (0..8).any(|at| seat.get(seat::RECENT + at * 4) == print);
    let count = seat.get(seat::SPIN);
    if !known {
        let room = (count & 7) as usize;
        seat.set(seat::RECENT + room * 4, print);
        seat.set(seat::SPIN, ((count & 7) + 1) & 7);
        return false;
    }
    let count = count.wrapping_add(8);
    seat.set(seat::SPIN, count);
    if count >> 3 < SPINS {
        return false;
    }
    seat.set(seat::SPIN, count & 7);
    true
}

/// Threads that have no seat, because there are more than seats: they run free.
static UNSEATED: AtomicU32 = AtomicU32::new(0);
/// Whether there ever was such a thread.
static EVER_UNSEATED: AtomicBool = AtomicBool::new(false);

/// Reserves a seat for a thread that is about to be created.
pub fn create(thread: u32, parent: u32) {
    if !is_on() {
        return;
    }
    let Some(_held) = lock() else { return };
    // A sealed process may have no room for its state.
    if crate::sink::is_sealed() || seat_for(thread, parent).is_none() {
        control::add64(at::FOREIGN_THREADS, 1);
        UNSEATED.fetch_add(1, Ordering::Relaxed);
        EVER_UNSEATED.store(true, Ordering::Relaxed);
    }
}

/// The calling thread may soon be forbidden to wait for others: it runs free from here on.
pub fn withdraw() {
    let Some(visit) = visit() else { return };
    let Some(held) = lock() else { return };
    control::add64(at::FOREIGN_THREADS, 1);
    UNSEATED.fetch_add(1, Ordering::Relaxed);
    EVER_UNSEATED.store(true, Ordering::Relaxed);
    model::wake_joiners(visit.seat.get(seat::THREAD));
    control::unlink(visit.seat);
    visit.seat.set_state(SeatState::Empty);
    // SAFETY: I4: this thread's own state, alive while the thread is in a hook.
    unsafe { (*visit.state).seat = 0 };
    if seats().next().is_some() {
        give_away(held, visit.seat);
    } else {
        word32(at::RUNNING).store(NOBODY, Ordering::SeqCst);
    }
}

/// The seat that this very thread has or had.
fn seat_of(thread: u32) -> Option<Seat> {
    let is_its = |seat: &Seat| seat.is_used() && seat.state() != SeatState::Empty && seat.get(seat::THREAD) == thread;
    Seat::of(thread).filter(is_its)
}

/// It was not created after all.
pub fn create_failed(thread: u32) {
    if !is_on() {
        return;
    }
    let Some(_held) = lock() else { return };
    match seat_of(thread) {
        Some(seat) => {
            control::unlink(seat);
            seat.set_state(SeatState::Ended);
        }
        None => {
            UNSEATED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The first thing that a new thread does: it waits for its turn.
pub fn start(state: &mut ThreadState) {
    if !is_on() {
        return;
    }
    let Some(seat) = seat_of(state.index) else { return };
    seat.set(seat::TID, sys::gettid());
    state.seat = seat.0 + 1;
    state.in_gate = 1;
    park::park(seat);
    state.in_gate = 0;
}

/// Whether a thread is past its last point; `None` where it is not known.
pub fn has_ended(thread: u32) -> Option<bool> {
    match seat_of(thread) {
        Some(seat) => Some(seat.state() == SeatState::Ended),
        // Or its seat was given to another since.
        None if EVER_UNSEATED.load(Ordering::Relaxed) => None,
        None => Some(true),
    }
}

/// A thread that nobody announced: it queues up.
pub fn adopt(state: &mut ThreadState) {
    if !is_on() {
        return;
    }
    control::add64(at::FOREIGN_THREADS, 1);
    let Some(_held) = lock() else { return };
    let Some(seat) = seat_for(state.index, u32::MAX) else {
        UNSEATED.fetch_add(1, Ordering::Relaxed);
        EVER_UNSEATED.store(true, Ordering::Relaxed);
        return;
    };
    seat.set(seat::TID, sys::gettid());
    seat.set_state(SeatState::Outside);
    state.seat = seat.0 + 1;
}

/// The last thing that a thread does under control.
pub fn exit() {
    let Some(state) = thread_state::current().filter(|_| is_on()) else { return };
    if state.seat == 0 {
        UNSEATED.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    // A thread that was cancelled in the gate never left it.
    state.in_gate = 0;
    let Some(visit) = visit() else { return };
    let seat = visit.seat;
    visit.arrive(Arrival {
        kind: OpKind::Exit,
        object: u64::from(seat.get(seat::THREAD)) + 1,
        site: seat::NO_SITE,
        slot: 0,
        pc: 0,
    });
    let Some(held) = lock() else { return };
    model::wake_joiners(seat.get(seat::THREAD));
    control::unlink(seat);
    seat.set_state(SeatState::Ended);
    // SAFETY: I4: this thread's own state, alive while the thread is in a hook.
    unsafe { (*visit.state).seat = 0 };
    if seats().next().is_some() {
        give_away(held, seat);
    } else {
        word32(at::RUNNING).store(NOBODY, Ordering::SeqCst);
    }
}
