//! The trace file of this process: opening, live slots, copying out, counters.
//!
//! Live slots are shared mappings of the file, so a `kill -9` loses nothing that was stored. A full slot
//! is copied out with one `pwrite` (cheaper than faulting in fresh pages for ever). Space is claimed by
//! advancing a counter in the mapped header, and made sure of with `fallocate` before it is mapped, so a
//! full disk is an error here and never a bus error in the guest.
//!
//! The guest may close or replace our descriptor: before each use it is compared with the file that
//! we opened, and reopened by name when it is not ours any more.

use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use selvedge_events::counters::{COUNTERS, Counter};
use selvedge_events::pack;
use selvedge_events::plan::Observe;
use selvedge_events::trace_file::{
    self, CHUNK_HEADER, CHUNK_MAGIC, ChunkKind, FLAG_CLEAN_EXIT, FLAG_CONTROLLED, FLAG_CUT, FLAG_SEALED, HEADER,
    LIVE_BLOCK, NO_THREAD, PAGE, SLOT, SLOTS_PER_BLOCK, at,
};

use crate::spin::Spin;
use crate::sys::{self, Errno, flags};
use crate::thread_state::ThreadState;
use crate::{arch, gate, stream};

static FD: AtomicI32 = AtomicI32::new(-1);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
static NUMBER: AtomicU32 = AtomicU32::new(0);
static HEADER_AT: AtomicUsize = AtomicUsize::new(0);
static OBSERVE: AtomicU8 = AtomicU8::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(0);
/// The plan's out dir, inside its mapping, which lives as long as the process.
static OUT_AT: AtomicUsize = AtomicUsize::new(0);
static OUT_LEN: AtomicUsize = AtomicUsize::new(0);
static SEALED: AtomicU8 = AtomicU8::new(0);
/// Why nothing more can be written, as a counter's number + 1: decided once, so that every later loss has the
/// same name.
static STOPPED: AtomicU8 = AtomicU8::new(0);
static SLOTS: Spin = Spin::new();
/// First free slot's address; the next one's is in its header at [`LINK`].
static FREE: AtomicUsize = AtomicUsize::new(0);

/// Offset and length of the chunks that describe images and sites: a forked child copies them.
static ABOUT: [(AtomicU64, AtomicU64); 128] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 128];
static ABOUT_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Where a free slot keeps the next one's address.
const LINK: usize = 56;
/// Descriptors of ours start here, away from the guest's.
const HIGH_FD: i32 = 600;

/// What this run observes.
#[inline]
pub fn observe() -> Observe {
    match OBSERVE.load(Ordering::Relaxed) {
        1 => Observe::Survey,
        2 => Observe::Record,
        3 => Observe::Graph,
        _ => Observe::Nothing,
    }
}

/// Whether there is a trace file.
#[inline]
pub fn is_open() -> bool {
    HEADER_AT.load(Ordering::Relaxed) != 0
}

/// Remembers where traces go and opens the first.
pub fn open(observe: Observe, out_dir: &'static [u8], limit: u64) -> Result<(), Errno> {
    OUT_AT.store(out_dir.as_ptr() as usize, Ordering::Relaxed);
    OUT_LEN.store(out_dir.len(), Ordering::Relaxed);
    LIMIT.store(limit, Ordering::Relaxed);
    create(observe)?;
    OBSERVE.store(observe as u8, Ordering::Release);
    Ok(())
}

fn out_dir() -> &'static [u8] {
    let (from, len) = (OUT_AT.load(Ordering::Relaxed), OUT_LEN.load(Ordering::Relaxed));
    if from == 0 {
        return &[];
    }
    // SAFETY: I6: set once from a slice of the plan's mapping, which is never unmapped.
    unsafe { core::slice::from_raw_parts(from as *const u8, len) }
}

/// `DIR/trace.PID.N` and a zero byte.
fn path(into: &mut [u8; 1024], pid: u32, number: u32) -> Option<&[u8]> {
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        for byte in bytes {
            *into.get_mut(len)? = *byte;
            len += 1;
        }
        Some(())
    };
    put(out_dir())?;
    put(b"/")?;
    put(trace_file::FILE_PREFIX.as_bytes())?;
    for (value, tail) in [(pid, b"."), (number, b"\0")] {
        let mut digits = [0_u8; 10];
        let mut at = digits.len();
        let mut rest = value;
        loop {
            at -= 1;
            *digits.get_mut(at)? = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        put(digits.get(at..)?)?;
        put(tail)?;
    }
    into.get(..len)
}

fn create(observe: Observe) -> Result<(), Errno> {
    let pid = sys::getpid();
    let mut name = [0; 1024];
    let mut number = 0;
    let fd = loop {
        let path = path(&mut name, pid, number).ok_or(Errno(36))?;
        match sys::open(path, flags::O_RDWR | flags::O_CREAT | flags::O_EXCL | flags::O_CLOEXEC, 0o644) {
            Err(Errno::EEXIST) if number < 10_000 => number += 1,
            other => break other?,
        }
    };
    let fd = raise(fd);
    let (device, inode, _) = sys::fstat(fd)?;
    ensure(fd, 0, HEADER as u64)?;
    let (prot, how) = (flags::PROT_READ | flags::PROT_WRITE, flags::MAP_SHARED);
    // SAFETY: no address is asked for; the file has blocks there.
    let header = unsafe { sys::mmap(0, HEADER, prot, how, fd, 0) }?;
    FD.store(fd, Ordering::Relaxed);
    DEVICE.store(device, Ordering::Relaxed);
    INODE.store(inode, Ordering::Relaxed);
    NUMBER.store(number, Ordering::Relaxed);
    let put32 = |at: usize, value: u32| field32(header, at).store(value, Ordering::Relaxed);
    put32(at::VERSION, trace_file::VERSION);
    put32(at::HEADER_LEN, HEADER as u32);
    put32(at::PID, pid);
    put32(at::PPID, sys::getppid());
    put32(at::OBSERVE, observe as u32);
    put32(at::TICK_SHIFT, pack::TICK_SHIFT);
    field64(header, at::NEXT).store(HEADER as u64, Ordering::Relaxed);
    let (tsc, ns) = instant();
    if gate::counts_events() {
        put32(at::FLAGS, FLAG_CONTROLLED);
    }
    for (at, value) in [
        (at::START_TSC, tsc),
        (at::START_NS, ns),
        (at::LAST_TSC, tsc),
        (at::LAST_NS, ns),
        (at::WALL_NS, sys::clock_ns(0)),
    ] {
        field64(header, at).store(value, Ordering::Relaxed);
    }
    field64(header, 0).store(u64::from_le_bytes(trace_file::MAGIC), Ordering::Release);
    HEADER_AT.store(header, Ordering::Release);
    Ok(())
}

/// Moves a descriptor out of the guest's way where that is possible.
fn raise(fd: i32) -> i32 {
    match sys::dup_above(fd, HIGH_FD) {
        Ok(high) => {
            sys::close(fd);
            high
        }
        Err(_) => fd,
    }
}

/// A header field. `base` is a mapped header page or slot of ours.
fn field64(base: usize, at: usize) -> &'static AtomicU64 {
    // SAFETY: I6: header pages and slots are never unmapped, and the offsets are aligned constants.
    unsafe { &*((base + at) as *const AtomicU64) }
}

/// As [`field64`].
fn field32(base: usize, at: usize) -> &'static AtomicU32 {
    // SAFETY: as above.
    unsafe { &*((base + at) as *const AtomicU32) }
}

fn header() -> Option<usize> {
    Some(HEADER_AT.load(Ordering::Acquire)).filter(|at| *at != 0)
}

/// Adds to a counter.
#[cold]
pub fn count(counter: Counter, add: u64) {
    if let Some(header) = header() {
        field64(header, at::COUNTERS + 8 * counter as usize).fetch_add(add, Ordering::Relaxed);
    }
}

/// How many threads there have been.
pub fn set_threads(threads: u32) {
    if let Some(header) = header() {
        field32(header, at::THREADS).fetch_max(threads, Ordering::Relaxed);
    }
}

fn set_flag(flag: u32) {
    if let Some(header) = header() {
        field32(header, at::FLAGS).fetch_or(flag, Ordering::Relaxed);
    }
}

/// The process ends in an orderly way.
pub fn clean_exit() {
    set_flag(FLAG_CLEAN_EXIT);
    tick();
}

/// The process is about to forbid itself system calls: from here on we make none. `counter_too`: it may
/// not even read the time-stamp counter; then nothing more is recorded.
pub fn seal(counter_too: bool) {
    crate::detect::bursts::before_seal();
    crate::guard::owner::end();
    SEALED.store(if counter_too { 2 } else { 1 }, Ordering::Relaxed);
    set_flag(FLAG_SEALED);
}

/// Whether system calls are forbidden.
#[inline]
pub fn is_sealed() -> bool {
    SEALED.load(Ordering::Relaxed) != 0
}

/// Whether even the counter is forbidden.
#[inline]
pub fn is_frozen() -> bool {
    SEALED.load(Ordering::Relaxed) == 2
}

/// Notes a later instant on both clocks, from which readers compute the rate.
pub fn tick() {
    if let Some(header) = header()
        && !is_sealed()
    {
        let (tsc, ns) = instant();
        field64(header, at::LAST_NS).store(ns, Ordering::Relaxed);
        field64(header, at::LAST_TSC).store(tsc, Ordering::Relaxed);
    }
}

/// Now, by the counter and by the clock. Under control both count events.
fn instant() -> (u64, u64) {
    if gate::counts_events() {
        let events = gate::events();
        return (events << pack::TICK_SHIFT, events);
    }
    (arch::counter(), sys::clock_ns(1))
}

/// Whether this process has inherited somebody else's trace.
pub fn is_foreign() -> bool {
    !is_sealed() && header().is_some_and(|header| field32(header, at::PID).load(Ordering::Relaxed) != sys::getpid())
}

/// Our descriptor, checked to be still ours.
fn descriptor() -> Result<i32, Counter> {
    if is_sealed() {
        return Err(Counter::DroppedSealed);
    }
    let header = header().ok_or(Counter::DroppedDisk)?;
    let pid = field32(header, at::PID).load(Ordering::Relaxed);
    if sys::getpid() != pid {
        // A child made behind our back still has the parent's mappings: it must not write them out.
        return Err(Counter::DroppedNoThread);
    }
    let ours = |fd: i32| {
        sys::fstat(fd).is_ok_and(|(device, inode, _)| {
            device == DEVICE.load(Ordering::Relaxed) && inode == INODE.load(Ordering::Relaxed)
        })
    };
    let fd = FD.load(Ordering::Relaxed);
    if ours(fd) {
        return Ok(fd);
    }
    let mut name = [0; 1024];
    let path = path(&mut name, pid, NUMBER.load(Ordering::Relaxed)).ok_or(Counter::DroppedDisk)?;
    let fd = sys::open(path, flags::O_RDWR | flags::O_CLOEXEC, 0).map_err(|_| Counter::DroppedDisk)?;
    let fd = raise(fd);
    if !ours(fd) {
        sys::close(fd);
        return Err(Counter::DroppedDisk);
    }
    FD.store(fd, Ordering::Relaxed);
    Ok(fd)
}

/// Makes sure that a stretch of the file can be stored to.
pub fn ensure(fd: i32, offset: u64, len: u64) -> Result<(), Errno> {
    if sys::file_size_limit() < offset + len {
        return Err(Errno(27));
    }
    match sys::fallocate(fd, offset, len) {
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {
            static ZEROS: [u8; PAGE] = [0; PAGE];
            let mut done = 0;
            while done < len {
                // SAFETY: a static of ours.
                unsafe { sys::pwrite_all(fd, ZEROS.as_ptr() as usize, PAGE, offset + done) }?;
                done += PAGE as u64;
            }
            Ok(())
        }
        other => other,
    }
}

/// Claims `len` bytes (a multiple of [`PAGE`]) of the file.
fn claim(len: u64) -> Result<(i32, u64), Counter> {
    if let Some((why, _, _)) =
        usize::from(STOPPED.load(Ordering::Relaxed)).checked_sub(1).and_then(|at| COUNTERS.get(at))
    {
        return Err(*why);
    }
    let fd = descriptor()?;
    let header = header().ok_or(Counter::DroppedDisk)?;
    let limit = LIMIT.load(Ordering::Relaxed);
    let next = field64(header, at::NEXT);
    // The claim is the only thing that orders writers; a claim that is never filled is a hole, which
    // readers skip.
    let offset = next.fetch_add(len, Ordering::Relaxed);
    if offset + len > limit {
        next.fetch_sub(len, Ordering::Relaxed);
        return Err(stop(Counter::DroppedLimit));
    }
    if sys::file_size_limit() < offset + len {
        next.fetch_sub(len, Ordering::Relaxed);
        return Err(stop(Counter::DroppedDisk));
    }
    Ok((fd, offset))
}

/// Nothing more is written, for this reason.
fn stop(why: Counter) -> Counter {
    set_flag(FLAG_CUT);
    let number = why as u8 + 1;
    match STOPPED.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => why,
        Err(first) => COUNTERS.get(usize::from(first) - 1).map_or(why, |(first, _, _)| *first),
    }
}

/// Fills in a chunk header.
fn chunk_header(chunk: usize, kind: ChunkKind, len: u64, owner: u32, seq: u32) {
    field64(chunk, at::CHUNK_LEN).store(len, Ordering::Relaxed);
    field32(chunk, at::CHUNK_OWNER).store(owner, Ordering::Relaxed);
    field32(chunk, at::CHUNK_SEQ).store(seq, Ordering::Relaxed);
    field32(chunk, at::CHUNK_KIND).store(kind as u32 | trace_file::VERSION << 16, Ordering::Relaxed);
    field32(chunk, 0).store(CHUNK_MAGIC, Ordering::Release);
}

/// Writes a chunk whose body `fill` stores at the address it is given (after the header).
pub fn write_chunk(
    kind: ChunkKind,
    owner: u32,
    seq: u32,
    body: usize,
    fill: impl FnOnce(usize),
) -> Result<(), Counter> {
    let len = (CHUNK_HEADER + body).next_multiple_of(PAGE);
    let buffer = sys::mmap_anonymous(len).map_err(|_| Counter::DroppedDisk)?;
    fill(buffer);
    // SAFETY: the buffer is ours and has `len` bytes.
    let written = unsafe { write_pages(kind, owner, seq, buffer, len) };
    // SAFETY: ours, and not used again.
    unsafe { sys::munmap(buffer, len) };
    let offset = written?;
    if let Some((at, size)) = ABOUT.get(ABOUT_COUNT.fetch_add(1, Ordering::Relaxed)) {
        at.store(offset, Ordering::Relaxed);
        size.store(len as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Writes a chunk that is there but for its header; returns where. A forked child does not get it.
///
/// # Safety
/// The buffer must be ours and have `len` bytes, a multiple of [`PAGE`].
pub unsafe fn write_pages(kind: ChunkKind, owner: u32, seq: u32, buffer: usize, len: usize) -> Result<u64, Counter> {
    let (fd, offset) = claim(len as u64)?;
    chunk_header(buffer, kind, len as u64, owner, seq);
    // SAFETY: the caller's promise.
    let written = unsafe { sys::pwrite_all(fd, buffer, len, offset) };
    written.map_err(|_| stop(Counter::DroppedDisk))?;
    Ok(offset)
}

/// Copies the chunks about images and sites from the parent's file into ours.
fn copy_about(parent: i32) {
    for (at, size) in ABOUT.iter().take(ABOUT_COUNT.load(Ordering::Relaxed)) {
        let (from, len) = (at.load(Ordering::Relaxed), size.load(Ordering::Relaxed) as usize);
        let (Ok((fd, to)), Ok(buffer)) = (claim(len as u64), sys::mmap_anonymous(len)) else {
            return;
        };
        // SAFETY: fresh pages of ours.
        let bytes = unsafe { core::slice::from_raw_parts_mut(buffer as *mut u8, len) };
        if sys::pread(parent, bytes, from) == Ok(len) {
            // SAFETY: as above.
            let _ = unsafe { sys::pwrite_all(fd, buffer, len, to) };
        }
        // SAFETY: ours, and not used again.
        unsafe { sys::munmap(buffer, len) };
        at.store(to, Ordering::Relaxed);
    }
}

/// Maps a chunk of the file for storing; returns its address.
pub fn map_chunk(kind: ChunkKind, owner: u32, seq: u32, body: usize) -> Result<usize, Counter> {
    let len = (CHUNK_HEADER + body).next_multiple_of(PAGE);
    let (fd, offset) = claim(len as u64)?;
    ensure(fd, offset, len as u64).map_err(|_| stop(Counter::DroppedDisk))?;
    let (prot, how) = (flags::PROT_READ | flags::PROT_WRITE, flags::MAP_SHARED);
    // SAFETY: no address is asked for; the file has blocks there.
    let chunk = unsafe { sys::mmap(0, len, prot, how, fd, offset) }.map_err(|_| Counter::DroppedDisk)?;
    chunk_header(chunk, kind, len as u64, owner, seq);
    Ok(chunk)
}

/// Gives a thread a live slot; without one its events are counted as dropped.
pub fn attach_slot(state: &mut ThreadState) {
    state.slot = 0;
    if observe_opening() != Observe::Record {
        return;
    }
    let Some(slot) = take_slot() else {
        count(Counter::DroppedNoThread, 1);
        return;
    };
    chunk_header(slot, ChunkKind::Log, SLOT as u64, state.index, state.seq);
    state.slot = slot;
    state.cursor = (slot + CHUNK_HEADER) as u64;
    stream::restart(state);
}

/// What is observed, also while bootstrap has not announced it yet.
fn observe_opening() -> Observe {
    match header().map(|header| field32(header, at::OBSERVE).load(Ordering::Relaxed)) {
        Some(2) => Observe::Record,
        Some(1) => Observe::Survey,
        Some(3) => Observe::Graph,
        _ => Observe::Nothing,
    }
}

fn take_slot() -> Option<usize> {
    let _held = SLOTS.lock()?;
    if FREE.load(Ordering::Relaxed) == 0 {
        let block = match map_chunk(ChunkKind::Live, 0, SLOTS_PER_BLOCK as u32, LIVE_BLOCK - CHUNK_HEADER) {
            Ok(block) => block,
            Err(why) => {
                count(why, 1);
                return None;
            }
        };
        for index in (0..SLOTS_PER_BLOCK).rev() {
            let slot = block + PAGE + index * SLOT;
            chunk_header(slot, ChunkKind::Log, SLOT as u64, NO_THREAD, 0);
            push_free(slot);
        }
    }
    let slot = FREE.load(Ordering::Relaxed);
    FREE.store(field64(slot, LINK).load(Ordering::Relaxed) as usize, Ordering::Relaxed);
    field64(slot, LINK).store(0, Ordering::Relaxed);
    Some(slot)
}

fn push_free(slot: usize) {
    field64(slot, LINK).store(FREE.load(Ordering::Relaxed) as u64, Ordering::Relaxed);
    FREE.store(slot, Ordering::Relaxed);
}

/// Copies a thread's words out and starts its slot again. False, counted, where that cannot be: the
/// slot then stays as it is, to be read from the mapping.
#[cold]
#[inline(never)]
pub fn flush(state: &mut ThreadState) -> bool {
    let slot = state.slot;
    let used = (state.cursor as usize).saturating_sub(slot).min(SLOT);
    let len = used.next_multiple_of(PAGE);
    // A process that dies from here on leaves a claim without a chunk, and its words where they are.
    field32(slot, at::COPYING).store(len as u32, Ordering::Relaxed);
    let written = claim(len as u64).and_then(|(fd, offset)| {
        field64(slot, at::CHUNK_LEN).store(len as u64, Ordering::Relaxed);
        // SAFETY: I6: the slot is mapped and has `SLOT` bytes.
        unsafe { sys::pwrite_all(fd, slot, len, offset) }.map_err(|_| stop(Counter::DroppedDisk))
    });
    field64(slot, at::CHUNK_LEN).store(SLOT as u64, Ordering::Relaxed);
    field32(slot, at::COPYING).store(0, Ordering::Relaxed);
    if let Err(why) = written {
        count(why, 1);
        field64(slot, at::LOST).fetch_add(1, Ordering::Relaxed);
        return false;
    }
    // SAFETY: I6, I4: our thread's slot; the words are in the file.
    unsafe { core::ptr::write_bytes((slot + CHUNK_HEADER) as *mut u8, 0, SLOT - CHUNK_HEADER) };
    state.seq += 1;
    field32(slot, at::CHUNK_SEQ).store(state.seq, Ordering::Release);
    state.cursor = (slot + CHUNK_HEADER) as u64;
    tick();
    stream::restart(state);
    true
}

/// Takes a thread's slot back: its words are copied out first.
pub fn detach_slot(state: &mut ThreadState) {
    let slot = state.slot;
    if slot == 0 || !flush(state) {
        return;
    }
    state.slot = 0;
    field32(slot, at::CHUNK_OWNER).store(NO_THREAD, Ordering::Release);
    // SAFETY: I6, I4: still only ours.
    unsafe { core::ptr::write_bytes((slot + CHUNK_HEADER) as *mut u8, 0, 128) };
    clear_pending(slot);
    if let Some(_held) = SLOTS.lock() {
        push_free(slot);
    }
}

/// Stores what a thread is about to block in.
#[inline]
pub fn set_pending(slot: usize, op: u16, object: u64, pc: u64) {
    field64(slot, at::PENDING_OBJECT).store(object, Ordering::Relaxed);
    field64(slot, at::PENDING_PC).store(pc, Ordering::Relaxed);
    field32(slot, at::PENDING_SLOT).store(u32::from(op) + 1, Ordering::Relaxed);
}

/// Nothing any more.
#[inline]
pub fn clear_pending(slot: usize) {
    field32(slot, at::PENDING_SLOT).store(0, Ordering::Relaxed);
}

/// In a forked child that records: a file of its own; the parent's mappings stay, untouched. (A survey
/// goes on in the parent's file: its words are shared memory, and marks only ever get set.) False
/// where no file is to be had: the child then runs unobserved.
pub fn after_fork() -> bool {
    SLOTS.force_open();
    if observe() != Observe::Record {
        return true;
    }
    FREE.store(0, Ordering::Relaxed);
    STOPPED.store(0, Ordering::Relaxed);
    let parent = descriptor_of_parent();
    HEADER_AT.store(0, Ordering::Relaxed);
    FD.store(-1, Ordering::Relaxed);
    if is_sealed() || create(Observe::Record).is_err() {
        return false;
    }
    if let Some(parent) = parent {
        copy_about(parent);
        sys::close(parent);
    }
    true
}

fn descriptor_of_parent() -> Option<i32> {
    let fd = FD.load(Ordering::Relaxed);
    let (device, inode, _) = sys::fstat(fd).ok()?;
    let ours = device == DEVICE.load(Ordering::Relaxed) && inode == INODE.load(Ordering::Relaxed);
    ours.then_some(fd)
}

/// Stops observing: slots of interposers stay, but nothing is stored any more.
pub fn give_up() {
    OBSERVE.store(0, Ordering::Relaxed);
    HEADER_AT.store(0, Ordering::Relaxed);
}
