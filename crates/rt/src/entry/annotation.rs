//! The user's annotations: happens-before edges, hand-made locks, things to ignore.
//!
//! Each reads its caller's address in a naked entry and goes on as an ordinary function with it as the
//! last argument.

use core::arch::global_asm;

use selvedge_events::event::{Acquire, EventKind, Mode, Primitive};
use selvedge_events::pack;

use crate::stream;

/// Exports `$name` as an entry that calls `$body` with the caller's address in the sixth register.
macro_rules! export {
    ($name:ident $body:path) => {
        global_asm!(
            ".text",
            concat!(".globl ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            ".p2align 4",
            concat!(stringify!($name), ":"),
            "endbr64",
            "mov r9, [rsp]",
            "jmp {body}",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            body = sym $body,
        );
    };
}

#[cfg(not(feature = "stub"))]
macro_rules! annotations {
    ($($($name:ident)+ => $body:path;)*) => { $($(export!($name $body);)+)* };
}

/// A shared library's stub has nothing to tell: all its annotations do nothing.
#[cfg(feature = "stub")]
macro_rules! annotations {
    ($($($name:ident)+ => $body:path;)*) => { $($(export!($name nothing);)+)* };
}

annotations! {
    __tsan_acquire => acquire;
    __tsan_release => release;
    AnnotateHappensBefore WTFAnnotateHappensBefore AnnotateCondVarSignal AnnotateCondVarSignalAll => before_at;
    AnnotateHappensAfter WTFAnnotateHappensAfter => after_at;
    AnnotateCondVarWait => after_at;
    __tsan_mutex_create __tsan_mutex_pre_lock __tsan_mutex_post_unlock __tsan_mutex_pre_signal __tsan_mutex_post_signal
        __tsan_mutex_pre_divert __tsan_mutex_post_divert __tsan_flush_memory __tsan_external_register_header
        __tsan_external_assign_tag __tsan_external_read __tsan_external_write AnnotateRWLockCreate AnnotateRWLockCreateStatic AnnotateThreadName AnnotateNewMemory
        AnnotatePublishMemoryRange AnnotateUnpublishMemoryRange AnnotateFlushState => nothing;
    __tsan_external_register_tag => nothing;
    __tsan_mutex_destroy => mutex_destroy;
    __tsan_mutex_post_lock => mutex_locked;
    __tsan_mutex_pre_unlock => mutex_unlock;
    AnnotateRWLockDestroy => rwlock_destroy;
    AnnotateRWLockAcquired => rwlock_acquired;
    AnnotateRWLockReleased => rwlock_released;
    AnnotateBenignRaceSized WTFAnnotateBenignRaceSized => benign_sized;
    AnnotateBenignRace => benign;
    __tsan_ignore_thread_begin AnnotateIgnoreReadsBegin AnnotateIgnoreWritesBegin => ignore_begin;
    __tsan_ignore_thread_end AnnotateIgnoreReadsEnd AnnotateIgnoreWritesEnd => ignore_end;
    AnnotateIgnoreSyncBegin AnnotateIgnoreSyncEnd => nothing;
    __tsan_init => init;
    selvedge_guard_address => guard_address;
    selvedge_section_begin => section_begin;
    selvedge_section_end => section_end;
}

type Arg = usize;

fn emit(kind: EventKind, object: Arg, arg: u16, second: u64, pc: Arg) {
    if crate::sink::is_open() {
        stream::emit(kind, pc, [pack::object(object as u64, arg), second, 0]);
    }
}

extern "C" fn nothing(_: Arg, _: Arg, _: Arg, _: Arg, _: Arg, _: Arg) -> usize {
    0
}

extern "C" fn guard_address(addr: Arg, _: Arg, _: Arg, _: Arg, _: Arg, _: Arg) {
    crate::guard::ask(addr as u64);
}

extern "C" fn section_begin(addr: Arg, size: Arg, _: Arg, _: Arg, _: Arg, _: Arg) {
    crate::detect::sections::declare(addr as u64, size as u64);
}

extern "C" fn section_end(addr: Arg, _: Arg, _: Arg, _: Arg, _: Arg, _: Arg) {
    crate::detect::sections::undeclare(addr as u64);
}

extern "C" fn acquire(addr: Arg, _: Arg, _: Arg, _: Arg, _: Arg, pc: Arg) {
    emit(EventKind::HappensAfter, addr, 0, 0, pc);
}

extern "C" fn release(addr: Arg, _: Arg, _: Arg, _: Arg, _: Arg, pc: Arg) {
    emit(EventKind::HappensBefore, addr, 0, 0, pc);
}

extern "C" fn before_at(_file: Arg, _line: Arg, addr: Arg, _: Arg, _: Arg, pc: Arg) {
    emit(EventKind::HappensBefore, addr, 0, 0, pc);
}

extern "C" fn after_at(_file: Arg, _line: Arg, addr: Arg, _: Arg, _: Arg, pc: Arg) {
    emit(EventKind::HappensAfter, addr, 0, 0, pc);
}

/// Flags of `__tsan_mutex_*`.
const MUTEX_READ_LOCK: usize = 1 << 3;
const MUTEX_TRY_LOCK: usize = 1 << 4;
const MUTEX_TRY_LOCK_FAILED: usize = 1 << 5;

fn annotated(flags: usize) -> Acquire {
    Acquire {
        primitive: Primitive::Annotated,
        mode: if flags & MUTEX_READ_LOCK != 0 { Mode::Shared } else { Mode::Exclusive },
        bounded: flags & MUTEX_TRY_LOCK != 0,
        result: if flags & MUTEX_TRY_LOCK_FAILED != 0 { 16 } else { 0 },
    }
}

extern "C" fn mutex_destroy(addr: Arg, _: Arg, _: Arg, _: Arg, _: Arg, pc: Arg) {
    emit(EventKind::Destroy, addr, annotated(0).pack(), 0, pc);
}

extern "C" fn mutex_locked(addr: Arg, flags: Arg, _: Arg, _: Arg, _: Arg, pc: Arg) {
    emit(EventKind::Acquire, addr, annotated(flags).pack(), 0, pc);
}

/// Returns how many levels were released: one, as recursion is not followed here.
extern "C" fn mutex_unlock(addr: Arg, flags: Arg, _: Arg, _: Arg, _: Arg, pc: Arg) -> usize {
    emit(EventKind::Release, addr, annotated(flags).pack(), 0, pc);
    1
}

extern "C" fn rwlock_destroy(_file: Arg, _line: Arg, addr: Arg, _: Arg, _: Arg, pc: Arg) {
    emit(EventKind::Destroy, addr, annotated(0).pack(), 0, pc);
}

fn reader(is_writer: usize) -> usize {
    if is_writer == 0 { MUTEX_READ_LOCK } else { 0 }
}

extern "C" fn rwlock_acquired(_file: Arg, _line: Arg, addr: Arg, is_writer: Arg, _: Arg, pc: Arg) {
    emit(EventKind::Acquire, addr, annotated(reader(is_writer)).pack(), 0, pc);
}

extern "C" fn rwlock_released(_file: Arg, _line: Arg, addr: Arg, is_writer: Arg, _: Arg, pc: Arg) {
    emit(EventKind::Release, addr, annotated(reader(is_writer)).pack(), 0, pc);
}

extern "C" fn benign_sized(_file: Arg, _line: Arg, addr: Arg, size: Arg, _text: Arg, pc: Arg) {
    emit(EventKind::Benign, addr, 0, size as u64, pc);
}

extern "C" fn benign(_file: Arg, _line: Arg, addr: Arg, _text: Arg, _: Arg, pc: Arg) {
    emit(EventKind::Benign, addr, 0, 8, pc);
}

fn ignore(begin: bool, pc: usize) {
    if !crate::sink::is_open() {
        return;
    }
    if let Some(state) = crate::thread_state::current_or_adopt() {
        stream::emit_on(state, EventKind::Ignore, pc, [u64::from(begin), 0, 0]);
        state.ignore = if begin { state.ignore + 1 } else { state.ignore.saturating_sub(1) };
    }
}

extern "C" fn ignore_begin(_: Arg, _: Arg, _: Arg, _: Arg, _: Arg, pc: Arg) {
    ignore(true, pc);
}

extern "C" fn ignore_end(_: Arg, _: Arg, _: Arg, _: Arg, _: Arg, pc: Arg) {
    ignore(false, pc);
}

/// Every instrumented file calls this from a constructor: a library may have been loaded. (The executable's own
/// constructors need no look, but where they *jump* here, as optimised Rust does, the caller seems to be libc.)
extern "C" fn init(_: Arg, _: Arg, _: Arg, _: Arg, _: Arg, pc: Arg) {
    #[cfg(not(feature = "stub"))]
    if !crate::modules::in_executable(pc) {
        crate::lifecycle::image_loaded();
    }
    #[cfg(feature = "stub")]
    let _ = pc;
}
