//! Raw system calls. Nothing here touches `errno` or can reach an intercepted function.

use core::arch::asm;

/// A system call's failure: the error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Error numbers that we look at.
impl Errno {
    /// No such call.
    pub const ENOSYS: Errno = Errno(38);
    /// Exists already.
    pub const EEXIST: Errno = Errno(17);
    /// Not supported by the file system.
    pub const EOPNOTSUPP: Errno = Errno(95);
}

mod nr {
    pub(super) const READ: usize = 0;
    pub(super) const WRITE: usize = 1;
    pub(super) const CLOSE: usize = 3;
    pub(super) const FSTAT: usize = 5;
    pub(super) const POLL: usize = 7;
    pub(super) const MMAP: usize = 9;
    pub(super) const MPROTECT: usize = 10;
    pub(super) const MUNMAP: usize = 11;
    pub(super) const MADVISE: usize = 28;
    pub(super) const PREAD: usize = 17;
    pub(super) const PWRITE: usize = 18;
    pub(super) const NANOSLEEP: usize = 35;
    pub(super) const GETPID: usize = 39;
    pub(super) const FCNTL: usize = 72;
    pub(super) const GETITIMER: usize = 36;
    pub(super) const GETSOCKOPT: usize = 55;
    pub(super) const WAITID: usize = 247;
    pub(super) const RT_TGSIGQUEUEINFO: usize = 297;
    pub(super) const RT_SIGPROCMASK: usize = 14;
    pub(super) const WAIT4: usize = 61;
    pub(super) const SETPGID: usize = 109;
    pub(super) const GETPPID: usize = 110;
    pub(super) const FUTEX: usize = 202;
    pub(super) const GETTID: usize = 186;
    pub(super) const SCHED_YIELD: usize = 24;
    pub(super) const CLOCK_GETTIME: usize = 228;
    pub(super) const SCHED_SETSCHEDULER: usize = 144;
    pub(super) const SCHED_GETSCHEDULER: usize = 145;
    pub(super) const EXIT_GROUP: usize = 231;
    pub(super) const OPENAT: usize = 257;
    pub(super) const FALLOCATE: usize = 285;
    pub(super) const PRLIMIT: usize = 302;
    pub(super) const PROCESS_VM_READV: usize = 310;
    pub(super) const MEMBARRIER: usize = 324;
}

/// Performs a system call with up to six arguments.
///
/// # Safety
/// The arguments must be what that call takes; memory named by them must be ours.
#[inline]
pub unsafe fn raw(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller's promise; rcx and r11 are clobbered by the instruction.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") args[0], in("rsi") args[1],
            in("rdx") args[2], in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

fn check(result: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// Writes bytes to a descriptor; returns how many.
pub fn write(fd: i32, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the slice is ours to read.
    check(unsafe { raw(nr::WRITE, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) })
}

/// Writes all of `len` bytes at `at` into a file at `offset`.
///
/// # Safety
/// `at..at+len` must be mapped and readable.
pub unsafe fn pwrite_all(fd: i32, mut at: usize, mut len: usize, mut offset: u64) -> Result<(), Errno> {
    while len > 0 {
        // SAFETY: the caller's promise.
        let done = check(unsafe { raw(nr::PWRITE, [fd as usize, at, len, offset as usize, 0, 0]) })?;
        if done == 0 {
            return Err(Errno(28));
        }
        at += done;
        len -= done;
        offset += done as u64;
    }
    Ok(())
}

/// Reads bytes of a file at an offset.
pub fn pread(fd: i32, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the slice is ours to write.
    check(unsafe { raw(nr::PREAD, [fd as usize, into.as_mut_ptr() as usize, into.len(), offset as usize, 0, 0]) })
}

/// Opens a file; `path` must end with a zero byte.
pub fn open(path: &[u8], flags: i32, mode: u32) -> Result<i32, Errno> {
    const AT_FDCWD: isize = -100;
    if path.last() != Some(&0) {
        return Err(Errno(22));
    }
    // SAFETY: the path is zero-terminated, checked above.
    check(unsafe { raw(nr::OPENAT, [AT_FDCWD as usize, path.as_ptr() as usize, flags as usize, mode as usize, 0, 0]) })
        .map(|fd| fd as i32)
}

/// Open flags.
pub mod flags {
    #![expect(missing_docs, reason = "the kernel's names")]
    pub const O_RDONLY: i32 = 0;
    pub const O_RDWR: i32 = 2;
    pub const O_CREAT: i32 = 0o100;
    pub const O_EXCL: i32 = 0o200;
    pub const O_CLOEXEC: i32 = 0o2000000;
    pub const O_NONBLOCK: i32 = 0o4000;
    pub const PROT_READ: usize = 1;
    pub const PROT_WRITE: usize = 2;
    pub const PROT_EXEC: usize = 4;
    pub const MAP_SHARED: usize = 1;
    pub const MAP_PRIVATE: usize = 2;
    pub const MAP_ANONYMOUS: usize = 0x20;
    pub const MAP_NORESERVE: usize = 0x4000;
    pub const MAP_POPULATE: usize = 0x8000;
    pub const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
}

/// Closes a descriptor of ours.
pub fn close(fd: i32) {
    // SAFETY: closing touches no memory.
    let _ = unsafe { raw(nr::CLOSE, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Device, inode and size of an open file.
pub fn fstat(fd: i32) -> Result<(u64, u64, u64), Errno> {
    let mut stat = [0_u64; 18];
    // SAFETY: `struct stat` has 144 bytes on x86-64, the array's size.
    check(unsafe { raw(nr::FSTAT, [fd as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) })?;
    Ok((stat[0], stat[1], stat[6]))
}

/// Duplicates a descriptor to one at or above `least`, close-on-exec.
pub fn dup_above(fd: i32, least: i32) -> Result<i32, Errno> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    // SAFETY: touches no memory.
    check(unsafe { raw(nr::FCNTL, [fd as usize, F_DUPFD_CLOEXEC, least as usize, 0, 0, 0]) }).map(|fd| fd as i32)
}

/// Makes sure that a stretch of a file has blocks.
pub fn fallocate(fd: i32, offset: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: touches no memory.
    check(unsafe { raw(nr::FALLOCATE, [fd as usize, 0, offset as usize, len as usize, 0, 0]) }).map(|_| ())
}

/// Maps memory.
///
/// # Safety
/// With a fixed address, that range must not be in use by anyone (`MAP_FIXED_NOREPLACE` makes sure).
pub unsafe fn mmap(hint: usize, len: usize, prot: usize, flags: usize, fd: i32, offset: u64) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    check(unsafe { raw(nr::MMAP, [hint, len, prot, flags, fd as usize, offset as usize]) })
}

/// Maps fresh zeroed pages.
pub fn mmap_anonymous(len: usize) -> Result<usize, Errno> {
    let (prot, how) =
        (flags::PROT_READ | flags::PROT_WRITE, flags::MAP_PRIVATE | flags::MAP_ANONYMOUS | flags::MAP_NORESERVE);
    // SAFETY: no address is asked for, so the kernel picks unused pages.
    unsafe { mmap(0, len, prot, how, -1, 0) }
}

/// Maps `len` fresh zeroed bytes at a multiple of `len`, a power of two, in pages as large as the system has them.
pub fn mmap_aligned(len: usize) -> Result<usize, Errno> {
    const HUGEPAGE: usize = 14;
    let at = mmap_anonymous(2 * len)?;
    let aligned = at.next_multiple_of(len);
    // SAFETY: what lies around it in the mapping, which nobody has seen.
    unsafe {
        for (from, to) in [(at, aligned), (aligned + len, at + 2 * len)] {
            if from < to {
                munmap(from, to - from);
            }
        }
        // A wish: where it is not granted, pages are small.
        let _ = raw(nr::MADVISE, [aligned, len, HUGEPAGE, 0, 0, 0]);
    }
    Ok(aligned)
}

/// Unmaps memory.
///
/// # Safety
/// The range must be ours and never used again.
pub unsafe fn munmap(at: usize, len: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { raw(nr::MUNMAP, [at, len, 0, 0, 0, 0]) };
}

/// Changes the protection of pages.
///
/// # Safety
/// Nobody may be relying on a permission that is taken away.
pub unsafe fn mprotect(at: usize, len: usize, prot: usize) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    check(unsafe { raw(nr::MPROTECT, [at, len, prot, 0, 0, 0]) }).map(|_| ())
}

/// The process id.
pub fn getpid() -> u32 {
    // SAFETY: touches no memory.
    (unsafe { raw(nr::GETPID, [0; 6]) }) as u32
}

/// The parent's process id.
pub fn getppid() -> u32 {
    // SAFETY: touches no memory.
    (unsafe { raw(nr::GETPPID, [0; 6]) }) as u32
}

/// The kernel's thread id.
pub fn gettid() -> u32 {
    // SAFETY: touches no memory.
    (unsafe { raw(nr::GETTID, [0; 6]) }) as u32
}

/// Lets somebody else run.
pub fn sched_yield() {
    // SAFETY: touches no memory.
    let _ = unsafe { raw(nr::SCHED_YIELD, [0; 6]) };
}

/// A clock in nanoseconds: 0 is the wall clock, 1 the monotonic one.
pub fn clock_ns(clock: usize) -> u64 {
    let mut time = [0_u64; 2];
    // SAFETY: `struct timespec` is two words.
    let _ = unsafe { raw(nr::CLOCK_GETTIME, [clock, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1])
}

/// The soft limit on file size, which the kernel enforces with a deadly signal.
pub fn file_size_limit() -> u64 {
    const RLIMIT_FSIZE: usize = 1;
    let mut limit = [u64::MAX; 2];
    // SAFETY: `struct rlimit` is two words.
    let _ = unsafe { raw(nr::PRLIMIT, [0, RLIMIT_FSIZE, 0, limit.as_mut_ptr() as usize, 0, 0]) };
    limit[0]
}

/// Ends the process.
pub fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: touches no memory.
        let _ = unsafe { raw(nr::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Waits while a word is `value`, at most so long; true where the time was up.
pub fn futex_wait(word: usize, value: u32, ns: Option<u64>) -> bool {
    const FUTEX_WAIT: usize = 0;
    const ETIMEDOUT: isize = 110;
    let time = [ns.unwrap_or(0) / 1_000_000_000, ns.unwrap_or(0) % 1_000_000_000];
    let timeout = if ns.is_some() { time.as_ptr() as usize } else { 0 };
    // SAFETY: the word is in a mapping of ours, the time on our stack.
    let result = unsafe { raw(nr::FUTEX, [word, FUTEX_WAIT, value as usize, timeout, 0, 0]) };
    result == -ETIMEDOUT
}

/// Wakes whoever waits for a word of ours.
pub fn futex_wake(word: usize) {
    const FUTEX_WAKE: usize = 1;
    // SAFETY: touches no memory.
    let _ = unsafe { raw(nr::FUTEX, [word, FUTEX_WAKE, 1, 0, 0, 0]) };
}

/// How many of these descriptors are ready now.
///
/// # Safety
/// `at` must be an array of `count` `struct pollfd`.
pub unsafe fn poll(at: usize, count: usize) -> usize {
    // SAFETY: the caller's promise.
    let result = unsafe { raw(nr::POLL, [at, count, 0, 0, 0, 0]) };
    const EINTR: isize = 4;
    // What cannot be polled is ready: the real call tells why. A signal that waits to be taken is no reason.
    if result == -EINTR { 0 } else { usize::try_from(result).unwrap_or(1) }
}

/// What the kernel says about a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It runs, or could, or it is not known.
    Runs,
    /// It is asleep in the kernel.
    Sleeps,
    /// There is no such thread any more.
    Gone,
}

/// Opens a file about a thread of this process; the name ends in a zero byte.
fn open_task(tid: u32, file: &[u8]) -> Result<i32, Errno> {
    let mut path = [0_u8; 48];
    let mut len = 0;
    let mut put = |byte: u8| {
        if let Some(room) = path.get_mut(len) {
            *room = byte;
        }
        len += 1;
    };
    b"/proc/self/task/".iter().for_each(|byte| put(*byte));
    let mut power = 1_000_000_000;
    while power > 0 {
        if tid >= power || power == 1 {
            put(b'0' + (tid / power % 10) as u8);
        }
        power /= 10;
    }
    file.iter().for_each(|byte| put(*byte));
    open(path.get(..len).unwrap_or(b"\0"), flags::O_RDONLY | flags::O_CLOEXEC, 0)
}

/// What a thread of this process does.
pub fn doing(tid: u32) -> Doing {
    const ENOENT: Errno = Errno(2);
    let fd = match open_task(tid, b"/stat\0") {
        Ok(fd) => fd,
        Err(ENOENT) if tid != 0 => return Doing::Gone,
        Err(_) => return Doing::Runs,
    };
    let mut stat = [0_u8; 256];
    let read = pread(fd, &mut stat, 0).unwrap_or(0);
    close(fd);
    // The state follows the name, which may itself have parentheses.
    let stat = stat.get(..read).unwrap_or(&[]);
    let state = stat.iter().rposition(|byte| *byte == b')').and_then(|end| stat.get(end + 2));
    if matches!(state, Some(b'S' | b'D')) { Doing::Sleeps } else { Doing::Runs }
}

/// Whether a signal was sent to a thread of this process that will take it as soon as it runs: it does not block it.
pub fn is_about_to_take(tid: u32, signal: usize) -> bool {
    let Ok(fd) = open_task(tid, b"/status\0") else { return false };
    let mut status = [0_u8; 4096];
    let read = pread(fd, &mut status, 0).unwrap_or(0);
    close(fd);
    let status = status.get(..read).unwrap_or(&[]);
    let set = |name: &[u8]| {
        let mut lines = status.split(|byte| *byte == b'\n');
        let digits = lines.find_map(|line| line.strip_prefix(name)).unwrap_or(&[]);
        let digit = |byte: &u8| (*byte as char).to_digit(16).map(u64::from);
        digits.iter().filter_map(digit).fold(0_u64, |set, digit| set << 4 | digit)
    };
    let bit = 1_u64.checked_shl((signal as u32).wrapping_sub(1)).unwrap_or(0);
    set(b"SigPnd:") & !set(b"SigBlk:") & bit != 0
}

/// Whether a descriptor is not to block; one that is none is not.
pub fn is_nonblocking(fd: i32) -> bool {
    const F_GETFL: usize = 3;
    const O_NONBLOCK: isize = 0o4000;
    // SAFETY: touches no memory.
    let flags = unsafe { raw(nr::FCNTL, [fd as usize, F_GETFL, 0, 0, 0, 0]) };
    flags < 0 || flags & O_NONBLOCK != 0
}

/// Whether a descriptor is a pipe or a socket.
pub fn is_stream(fd: i32) -> bool {
    const FORMAT: u32 = 0o170_000;
    const FIFO: u32 = 0o010_000;
    const SOCKET: u32 = 0o140_000;
    let mut stat = [0_u32; 36];
    // SAFETY: a `struct stat` of ours, with its 144 bytes.
    let result = unsafe { raw(nr::FSTAT, [fd as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    result == 0 && matches!(stat[6] & FORMAT, FIFO | SOCKET)
}

/// How long a socket's calls wait: the option's number is of `SOL_SOCKET`. `None`: for ever, or no socket.
pub fn socket_patience(fd: i32, option: usize) -> Option<u64> {
    const SOL_SOCKET: usize = 1;
    let (mut time, mut len) = ([0_u64; 2], 16_u32);
    let (at, len_at) = (time.as_mut_ptr() as usize, &raw mut len as usize);
    // SAFETY: both are ours and as long as the kernel is told.
    let result = unsafe { raw(nr::GETSOCKOPT, [fd as usize, SOL_SOCKET, option, at, len_at, 0]) };
    (result == 0 && time != [0; 2]).then(|| time[0].saturating_mul(1_000_000_000).saturating_add(time[1] * 1000))
}

/// Whether something other than this process's threads may send it signals soon: timers, and children that end.
pub fn signals_may_come(handled: impl Fn(usize) -> bool) -> bool {
    const SIGNALS: [usize; 3] = [14, 26, 27];
    let armed = |(which, signal): (usize, usize)| {
        let mut timer = [0_u64; 4];
        // SAFETY: a `struct itimerval` of ours.
        let result = unsafe { raw(nr::GETITIMER, [which, timer.as_mut_ptr() as usize, 0, 0, 0, 0]) };
        result == 0 && handled(signal) && timer[2..] != [0; 2]
    };
    SIGNALS.into_iter().enumerate().any(armed)
        || has_content(b"/proc/self/timers\0")
        || has_children() && (1..65).any(handled)
}

fn has_content(path: &[u8]) -> bool {
    let Ok(fd) = open(path, flags::O_RDONLY | flags::O_CLOEXEC, 0) else { return false };
    let some = pread(fd, &mut [0], 0) == Ok(1);
    close(fd);
    some
}

/// Whether there are children, dead or alive.
pub fn has_children() -> bool {
    const P_ALL: usize = 0;
    // EXITED, NOHANG, NOWAIT
    const OPTIONS: usize = 4 | 1 | 0x0100_0000;
    let mut info = [0_u64; 16];
    // SAFETY: a `siginfo_t` of ours.
    unsafe { raw(nr::WAITID, [P_ALL, 0, info.as_mut_ptr() as usize, OPTIONS, 0, 0]) == 0 }
}

/// All signals but those of the C library itself.
pub const ALL_SIGNALS: u64 = !(0b11 << 31 | 1 << 8 | 1 << 18);

/// Makes `mask` the set of signals that the calling thread blocks; answers what it was.
pub fn swap_signal_mask(mask: u64) -> u64 {
    const SIG_SETMASK: usize = 2;
    let mut old = 0_u64;
    // SAFETY: both sets are ours, and have the kernel's eight bytes.
    let _ = unsafe { raw(nr::RT_SIGPROCMASK, [SIG_SETMASK, &raw const mask as usize, &raw mut old as usize, 8, 0, 0]) };
    old
}

/// Sends the calling thread a signal again, with what the kernel said about it.
pub fn send_again(info: &[u64; 16]) {
    let signal = info[0] as u32 as usize;
    let (pid, tid) = (getpid() as usize, gettid() as usize);
    // SAFETY: a `siginfo_t` that the kernel filled.
    let _ = unsafe { raw(nr::RT_TGSIGQUEUEINFO, [pid, tid, signal, info.as_ptr() as usize, 0, 0]) };
}

/// Whether a debugger is attached.
pub fn is_traced() -> bool {
    let Ok(fd) = open(b"/proc/self/status\0", flags::O_RDONLY | flags::O_CLOEXEC, 0) else { return false };
    let mut status = [0_u8; 2048];
    let read = pread(fd, &mut status, 0).unwrap_or(0);
    close(fd);
    let key = b"TracerPid:\t";
    let status = status.get(..read).unwrap_or(&[]);
    let at = status.windows(key.len()).position(|window| window == key);
    at.and_then(|at| status.get(at + key.len())).is_some_and(|digit| *digit != b'0')
}

/// Stops for the debugger.
pub fn trap() {
    // SAFETY: the debugger that is attached takes the trap.
    unsafe { asm!("int3", options(nomem, nostack)) };
}

unsafe extern "C" {
    fn __errno_location() -> *mut i32;
}

/// The calling thread's errno: for modelled functions that fail by it.
pub fn set_errno(value: i32) {
    // SAFETY: libc's own variable of this thread.
    unsafe { __errno_location().write(value) };
}

/// The calling thread's errno: so that what a model tries on the way leaves no trace.
pub fn errno() -> i32 {
    // SAFETY: as above.
    unsafe { __errno_location().read() }
}

/// Reads exactly so many bytes; false at the end of the file or on an error.
pub fn read_exact(fd: i32, into: &mut [u8]) -> bool {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        // SAFETY: the slice is ours to write.
        match check(unsafe { raw(nr::READ, [fd as usize, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0]) }) {
            Ok(0) => return false,
            Ok(read) => done += read,
            Err(Errno(4)) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Copies memory of this process that may not be there; returns how many bytes, from the first on, were.
pub fn peek(from: usize, into: &mut [u8]) -> usize {
    let local = [into.as_mut_ptr() as usize, into.len()];
    let remote = [from, into.len()];
    let (local, remote) = (local.as_ptr() as usize, remote.as_ptr() as usize);
    // SAFETY: two `struct iovec` of ours; what is written to is ours, and what is read the kernel looks after.
    check(unsafe { raw(nr::PROCESS_VM_READV, [getpid() as usize, local, 1, remote, 1, 0]) }).unwrap_or(0)
}

/// Waits for a child; its status as `wait` gives it.
pub fn wait_for_child(pid: u32) -> i32 {
    let mut status = 0_i32;
    loop {
        // SAFETY: the status is ours.
        match check(unsafe { raw(nr::WAIT4, [pid as usize, (&raw mut status) as usize, 0, 0, 0, 0]) }) {
            Err(Errno(4)) => {}
            _ => return status,
        }
    }
}

/// Makes the calling process the leader of a group of its own.
pub fn own_group() {
    // SAFETY: touches no memory.
    let _ = unsafe { raw(nr::SETPGID, [0; 6]) };
}

/// Lets all other threads go first, as far as an ordinary thread may; answers what is to be undone.
pub fn step_back() -> usize {
    const BATCH: usize = 3;
    // SAFETY: touches no memory.
    let now = unsafe { raw(nr::SCHED_GETSCHEDULER, [0; 6]) };
    if now == 0 { set_policy(BATCH) } else { false }.into()
}

/// Undoes [`step_back`].
pub fn step_forward(stepped: usize) {
    if stepped != 0 {
        set_policy(0);
    }
}

fn set_policy(policy: usize) -> bool {
    let priority = 0_i32;
    // SAFETY: the parameter is ours; 0 is the calling thread.
    unsafe { raw(nr::SCHED_SETSCHEDULER, [0, policy, &raw const priority as usize, 0, 0, 0]) == 0 }
}

/// Sleeps for a moment.
pub fn nap(ns: u64) {
    let time = [ns / 1_000_000_000, ns % 1_000_000_000];
    // SAFETY: the time is on our stack.
    let _ = unsafe { raw(nr::NANOSLEEP, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

const PRIVATE_EXPEDITED_RSEQ: usize = 1 << 7;
const REGISTER_PRIVATE_EXPEDITED_RSEQ: usize = 1 << 8;

/// Asks for [`membarrier`]; false where the kernel has none.
pub fn membarrier_register() -> bool {
    // SAFETY: touches no memory.
    unsafe { raw(nr::MEMBARRIER, [REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0, 0, 0, 0]) == 0 }
}

/// Interrupts all threads of the process that run: those in a restartable sequence begin it anew, and all see what was stored before this.
pub fn membarrier() -> bool {
    // SAFETY: touches no memory.
    unsafe { raw(nr::MEMBARRIER, [PRIVATE_EXPEDITED_RSEQ, 0, 0, 0, 0, 0]) == 0 }
}
