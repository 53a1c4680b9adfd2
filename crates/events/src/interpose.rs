//! The interposer table: every libc function that the runtime stands in front of.
//!
//! Each is exported as one indirect jump through a slot. Disarmed, the slot holds the real function
//! and the price is that jump; armed, it holds our wrapper. Exports are weak, so that a program which
//! defines such a function itself keeps its own.

/// What a function is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Threads: create, join, detach, names, exit, cancel.
    Thread,
    /// Mutexes of all kinds.
    Mutex,
    /// Reader-writer locks.
    Rwlock,
    /// Spin locks.
    Spin,
    /// Condition variables.
    Cond,
    /// Barriers.
    Barrier,
    /// Semaphores.
    Semaphore,
    /// One-time initialisation.
    Once,
    /// C++ static-initialisation guards.
    Guard,
    /// Futex operations through `syscall`.
    Futex,
    /// The malloc family: wrapped, never replaced.
    Alloc,
    /// `operator new` and `delete`.
    New,
    /// fork, exec, exit, and what seals the process (seccomp).
    Process,
    /// Handlers, sending, waiting.
    Signal,
    /// Sleeps and yields.
    Sleep,
    /// Clock readings.
    Clock,
    /// Random sources.
    Random,
    /// Blocking input and output.
    Io,
    /// Loading and unloading of images.
    Load,
    /// User-level context switches.
    Context,
}

/// How it is wrapped when the plan observes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A wrapper of its own.
    Own,
    /// Noted before and after: it may block.
    Block,
    /// Noted before, then jumped to: it may not return, or takes any arguments.
    Note,
    /// Straight to the real one; the row holds the place for plans that virtualise it.
    Pass,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interposed {
    /// The exported symbol.
    pub name: &'static str,
    /// What it is about.
    pub family: Family,
    /// How it is wrapped.
    pub shape: Shape,
}

/// Calls `$m! { (name, family, shape) … }` with every row.
#[macro_export]
macro_rules! for_each_interposed {
    ($m:ident) => {
        $m! {
            (pthread_create, Thread, Own)
            (pthread_join, Thread, Own)
            (pthread_tryjoin_np, Thread, Own)
            (pthread_timedjoin_np, Thread, Own)
            (pthread_clockjoin_np, Thread, Own)
            (pthread_detach, Thread, Own)
            (pthread_setname_np, Thread, Own)
            (thrd_create, Thread, Own)
            (thrd_join, Thread, Own)
            (thrd_detach, Thread, Own)
            (pthread_exit, Thread, Note)
            (thrd_exit, Thread, Note)
            (pthread_cancel, Thread, Note)
            (pthread_mutex_lock, Mutex, Own)
            (pthread_mutex_trylock, Mutex, Own)
            (pthread_mutex_timedlock, Mutex, Own)
            (pthread_mutex_clocklock, Mutex, Own)
            (pthread_mutex_unlock, Mutex, Own)
            (pthread_mutex_destroy, Mutex, Own)
            (pthread_mutex_consistent, Mutex, Own)
            (mtx_lock, Mutex, Own)
            (mtx_trylock, Mutex, Own)
            (mtx_timedlock, Mutex, Own)
            (mtx_unlock, Mutex, Own)
            (mtx_destroy, Mutex, Own)
            (pthread_rwlock_rdlock, Rwlock, Own)
            (pthread_rwlock_tryrdlock, Rwlock, Own)
            (pthread_rwlock_timedrdlock, Rwlock, Own)
            (pthread_rwlock_clockrdlock, Rwlock, Own)
            (pthread_rwlock_wrlock, Rwlock, Own)
            (pthread_rwlock_trywrlock, Rwlock, Own)
            (pthread_rwlock_timedwrlock, Rwlock, Own)
            (pthread_rwlock_clockwrlock, Rwlock, Own)
            (pthread_rwlock_unlock, Rwlock, Own)
            (pthread_rwlock_destroy, Rwlock, Own)
            (pthread_spin_lock, Spin, Own)
            (pthread_spin_trylock, Spin, Own)
            (pthread_spin_unlock, Spin, Own)
            (pthread_spin_destroy, Spin, Own)
            (pthread_cond_wait, Cond, Own)
            (pthread_cond_timedwait, Cond, Own)
            (pthread_cond_clockwait, Cond, Own)
            (pthread_cond_signal, Cond, Own)
            (pthread_cond_broadcast, Cond, Own)
            (pthread_cond_destroy, Cond, Own)
            (cnd_wait, Cond, Own)
            (cnd_timedwait, Cond, Own)
            (cnd_signal, Cond, Own)
            (cnd_broadcast, Cond, Own)
            (cnd_destroy, Cond, Own)
            (pthread_barrier_wait, Barrier, Own)
            (pthread_barrier_destroy, Barrier, Own)
            (sem_wait, Semaphore, Own)
            (sem_trywait, Semaphore, Own)
            (sem_timedwait, Semaphore, Own)
            (sem_clockwait, Semaphore, Own)
            (sem_post, Semaphore, Own)
            (sem_destroy, Semaphore, Own)
            (pthread_once, Once, Own)
            (call_once, Once, Own)
            (__cxa_guard_acquire, Guard, Own)
            (__cxa_guard_release, Guard, Own)
            (__cxa_guard_abort, Guard, Own)
            (syscall, Futex, Own)
            (malloc, Alloc, Own)
            (calloc, Alloc, Own)
            (realloc, Alloc, Own)
            (reallocarray, Alloc, Own)
            (free, Alloc, Own)
            (memalign, Alloc, Own)
            (posix_memalign, Alloc, Own)
            (aligned_alloc, Alloc, Own)
            (valloc, Alloc, Own)
            (pvalloc, Alloc, Own)
            (_Znwm, New, Own)
            (_Znam, New, Own)
            (_ZnwmRKSt9nothrow_t, New, Own)
            (_ZnamRKSt9nothrow_t, New, Own)
            (_ZnwmSt11align_val_t, New, Own)
            (_ZnamSt11align_val_t, New, Own)
            (_ZnwmSt11align_val_tRKSt9nothrow_t, New, Own)
            (_ZnamSt11align_val_tRKSt9nothrow_t, New, Own)
            (_ZdlPv, New, Own)
            (_ZdaPv, New, Own)
            (_ZdlPvm, New, Own)
            (_ZdaPvm, New, Own)
            (_ZdlPvSt11align_val_t, New, Own)
            (_ZdaPvSt11align_val_t, New, Own)
            (_ZdlPvmSt11align_val_t, New, Own)
            (_ZdaPvmSt11align_val_t, New, Own)
            (fork, Process, Own)
            (_Fork, Process, Own)
            (execve, Process, Note)
            (execv, Process, Note)
            (execvp, Process, Note)
            (execvpe, Process, Note)
            (fexecve, Process, Note)
            (execl, Process, Note)
            (execle, Process, Note)
            (execlp, Process, Note)
            (_exit, Process, Note)
            (_Exit, Process, Note)
            (abort, Process, Note)
            (quick_exit, Process, Note)
            (prctl, Process, Note)
            (sigaction, Signal, Own)
            (signal, Signal, Own)
            (raise, Signal, Note)
            (kill, Signal, Own)
            (pthread_kill, Signal, Own)
            (pthread_sigqueue, Signal, Own)
            (sigqueue, Signal, Own)
            (sigwait, Signal, Block)
            (sigwaitinfo, Signal, Block)
            (sigtimedwait, Signal, Block)
            (sigsuspend, Signal, Block)
            (pause, Signal, Block)
            (sleep, Sleep, Block)
            (usleep, Sleep, Block)
            (nanosleep, Sleep, Block)
            (clock_nanosleep, Sleep, Block)
            (thrd_sleep, Sleep, Block)
            (sched_yield, Sleep, Note)
            (thrd_yield, Sleep, Note)
            (clock_gettime, Clock, Own)
            (gettimeofday, Clock, Own)
            (time, Clock, Own)
            (read, Io, Block)
            (write, Io, Block)
            (pread, Io, Block)
            (pread64, Io, Block)
            (pwrite, Io, Block)
            (pwrite64, Io, Block)
            (readv, Io, Block)
            (writev, Io, Block)
            (preadv, Io, Block)
            (pwritev, Io, Block)
            (recv, Io, Block)
            (recvfrom, Io, Block)
            (recvmsg, Io, Block)
            (recvmmsg, Io, Block)
            (send, Io, Block)
            (sendto, Io, Block)
            (sendmsg, Io, Block)
            (sendmmsg, Io, Block)
            (accept, Io, Block)
            (accept4, Io, Block)
            (connect, Io, Block)
            (poll, Io, Block)
            (ppoll, Io, Block)
            (select, Io, Block)
            (pselect, Io, Block)
            (epoll_wait, Io, Block)
            (epoll_pwait, Io, Block)
            (wait, Io, Block)
            (waitpid, Io, Block)
            (wait3, Io, Block)
            (wait4, Io, Block)
            (waitid, Io, Block)
            (flock, Io, Block)
            (lockf, Io, Block)
            (fsync, Io, Block)
            (fdatasync, Io, Block)
            (msgrcv, Io, Block)
            (msgsnd, Io, Block)
            (semop, Io, Block)
            (semtimedop, Io, Block)
            (mq_receive, Io, Block)
            (mq_timedreceive, Io, Block)
            (mq_send, Io, Block)
            (mq_timedsend, Io, Block)
            (splice, Io, Block)
            (sendfile, Io, Block)
            (tcdrain, Io, Block)
            (getaddrinfo, Io, Block)
            (dlopen, Load, Note)
            (dlmopen, Load, Note)
            (dlclose, Load, Note)
            (swapcontext, Context, Own)
            (setcontext, Context, Note)
            (pthread_barrier_init, Barrier, Own)
            (getrandom, Random, Own)
            (getentropy, Random, Own)
            (__libc_start_main, Process, Own)
        }
    };
}

macro_rules! rows {
    ($(($name:ident, $family:ident, $shape:ident))*) => {
        /// Every interposed function. The index is the slot, and the `op` of input, sleep and note
        /// events: append only within a trace-format version.
        pub const INTERPOSED: &[Interposed] = &[
            $(Interposed { name: stringify!($name), family: Family::$family, shape: Shape::$shape }),*
        ];

        /// Slot numbers by name.
        #[expect(non_camel_case_types, missing_docs, reason = "the variants are the C names")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Slot { $($name),* }
    };
}
for_each_interposed!(rows);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (at, row) in INTERPOSED.iter().enumerate() {
            assert!(INTERPOSED[..at].iter().all(|other| other.name != row.name), "{}", row.name);
        }
        assert_eq!(INTERPOSED[Slot::sem_post as usize].name, "sem_post");
    }
}
