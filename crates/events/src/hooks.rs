//! The hook table: every entry of the ThreadSanitizer ABI (and the block hook) that gcc, clang and
//! rustc emit calls to. One row a hook; the runtime's exports, the patcher's nop forms, the
//! disassembler's site kinds, `docs/reference/hooks.md` and the tests all come from it.
//!
//! A hook of class [`HookClass::Access`], [`HookClass::Range`], [`HookClass::Atomic`],
//! [`HookClass::Copy`], [`HookClass::Libc`], [`HookClass::Function`] or [`HookClass::Block`] is called from *sites* and
//! is patched; the others are ordinary functions.
//!
//! An armed site calls a thunk that loads the site's id into the first integer argument register
//! which the hook's own signature leaves free ([`Hook::args`] says how many it uses), so the id
//! costs one `mov` and no look-up.

/// Index of a hook in [`HOOKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookIx(pub u8);

impl HookIx {
    /// The row of this hook, or `None` where the index is foreign.
    pub fn get(self) -> Option<&'static Hook> {
        HOOKS.get(usize::from(self.0))
    }
}

/// Reads, writes, or both at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rw {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Load and store of one location by one compound hook.
    ReadWrite,
}

/// What is special about an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Nothing.
    Plain,
    /// Not aligned to its size.
    Unaligned,
    /// Through a `volatile` lvalue.
    Volatile,
    /// Both.
    UnalignedVolatile,
    /// Of a virtual-table pointer.
    Vptr,
}

/// What an atomic hook performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// `load`
    Load,
    /// `store`
    Store,
    /// `exchange`
    Exchange,
    /// `fetch_add`
    Add,
    /// `fetch_sub`
    Sub,
    /// `fetch_and`
    And,
    /// `fetch_or`
    Or,
    /// `fetch_xor`
    Xor,
    /// `fetch_nand`
    Nand,
    /// `compare_exchange_strong`
    CasStrong,
    /// `compare_exchange_weak`
    CasWeak,
    /// `compare_exchange_val` (returns the old value)
    CasVal,
    /// `thread_fence`
    ThreadFence,
    /// `signal_fence`
    SignalFence,
}

impl AtomicOp {
    /// Whether the operation may write.
    pub fn writes(self) -> bool {
        !matches!(self, AtomicOp::Load | AtomicOp::ThreadFence | AtomicOp::SignalFence)
    }
    /// Whether the operation reads.
    pub fn reads(self) -> bool {
        !matches!(self, AtomicOp::Store | AtomicOp::ThreadFence | AtomicOp::SignalFence)
    }
}

/// What a hook is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookClass {
    /// One access of `size` bytes.
    Access {
        /// Direction.
        rw: Rw,
        /// Bytes.
        size: u8,
        /// What is special.
        flavour: Flavour,
    },
    /// An access to `size` bytes given at run time.
    Range {
        /// Direction.
        rw: Rw,
    },
    /// `memcpy`, `memmove` or `memset` performed by the hook.
    Copy,
    /// A memory or string function of libc, called from instrumented code. Not ours to export: the
    /// site is armed by turning the call to our entry, which observes and calls the real one; a
    /// disarmed site stays as the compiler made it.
    Libc,
    /// An atomic operation performed by the hook.
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// Bytes; 0 for fences.
        size: u8,
    },
    /// Function entry (`true`) or exit (`false`).
    Function {
        /// Entry or exit.
        entry: bool,
    },
    /// A basic block begins.
    Block,
    /// Module initialisation.
    Init,
    /// The fiber interface.
    Fiber,
    /// The user's annotations: acquire, release, mutexes, ignores, external tags.
    Annotation,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The exported symbol.
    pub name: &'static str,
    /// What it is about.
    pub class: HookClass,
    /// How many integer argument registers its signature uses.
    pub args: u8,
    /// The machine code (x86-64, at most five bytes) that does the hook's whole job when the site
    /// is disarmed; empty means that nothing needs doing; `None` means that the call must stay.
    pub disarmed: Option<&'static [u8]>,
}

impl Hook {
    /// Whether the runtime exports this symbol.
    pub fn is_exported(&self) -> bool {
        !matches!(self.class, HookClass::Libc)
    }

    /// Whether calls of this hook are sites.
    pub fn is_site(&self) -> bool {
        !matches!(self.class, HookClass::Init | HookClass::Fiber | HookClass::Annotation)
    }

    /// The access at such a site as (direction, size), where it is known statically.
    pub fn access(&self) -> Option<(Rw, u8)> {
        match self.class {
            HookClass::Access { rw, size, .. } => Some((rw, size)),
            HookClass::Atomic { op, size } if size > 0 => {
                let rw = match (op.reads(), op.writes()) {
                    (true, false) => Rw::Read,
                    (false, true) => Rw::Write,
                    _ => Rw::ReadWrite,
                };
                Some((rw, size))
            }
            _ => None,
        }
    }
}

/// Looks a hook up by symbol name.
pub fn by_name(name: &str) -> Option<HookIx> {
    let at = HOOKS.iter().position(|hook| hook.name == name)?;
    u8::try_from(at).ok().map(HookIx)
}

/// Calls `$m! { (name, rw, size, flavour) … }` with every fixed-size access hook.
#[macro_export]
macro_rules! for_each_access_hook {
    ($m:ident) => {
        $m! {
            (__tsan_read1, Read, 1, Plain) (__tsan_read2, Read, 2, Plain) (__tsan_read4, Read, 4, Plain)
            (__tsan_read8, Read, 8, Plain) (__tsan_read16, Read, 16, Plain)
            (__tsan_write1, Write, 1, Plain) (__tsan_write2, Write, 2, Plain) (__tsan_write4, Write, 4, Plain)
            (__tsan_write8, Write, 8, Plain) (__tsan_write16, Write, 16, Plain)
            (__tsan_read_write1, ReadWrite, 1, Plain) (__tsan_read_write2, ReadWrite, 2, Plain)
            (__tsan_read_write4, ReadWrite, 4, Plain) (__tsan_read_write8, ReadWrite, 8, Plain)
            (__tsan_read_write16, ReadWrite, 16, Plain)
            (__tsan_unaligned_read1, Read, 1, Unaligned) (__tsan_unaligned_read2, Read, 2, Unaligned)
            (__tsan_unaligned_read4, Read, 4, Unaligned) (__tsan_unaligned_read8, Read, 8, Unaligned)
            (__tsan_unaligned_read16, Read, 16, Unaligned)
            (__tsan_unaligned_write1, Write, 1, Unaligned) (__tsan_unaligned_write2, Write, 2, Unaligned)
            (__tsan_unaligned_write4, Write, 4, Unaligned) (__tsan_unaligned_write8, Write, 8, Unaligned)
            (__tsan_unaligned_write16, Write, 16, Unaligned)
            (__tsan_unaligned_read_write2, ReadWrite, 2, Unaligned) (__tsan_unaligned_read_write4, ReadWrite, 4, Unaligned)
            (__tsan_unaligned_read_write8, ReadWrite, 8, Unaligned) (__tsan_unaligned_read_write16, ReadWrite, 16, Unaligned)
            (__tsan_volatile_read1, Read, 1, Volatile) (__tsan_volatile_read2, Read, 2, Volatile)
            (__tsan_volatile_read4, Read, 4, Volatile) (__tsan_volatile_read8, Read, 8, Volatile)
            (__tsan_volatile_read16, Read, 16, Volatile)
            (__tsan_volatile_write1, Write, 1, Volatile) (__tsan_volatile_write2, Write, 2, Volatile)
            (__tsan_volatile_write4, Write, 4, Volatile) (__tsan_volatile_write8, Write, 8, Volatile)
            (__tsan_volatile_write16, Write, 16, Volatile)
            (__tsan_unaligned_volatile_read1, Read, 1, UnalignedVolatile) (__tsan_unaligned_volatile_read2, Read, 2, UnalignedVolatile)
            (__tsan_unaligned_volatile_read4, Read, 4, UnalignedVolatile) (__tsan_unaligned_volatile_read8, Read, 8, UnalignedVolatile)
            (__tsan_unaligned_volatile_read16, Read, 16, UnalignedVolatile)
            (__tsan_unaligned_volatile_write1, Write, 1, UnalignedVolatile) (__tsan_unaligned_volatile_write2, Write, 2, UnalignedVolatile)
            (__tsan_unaligned_volatile_write4, Write, 4, UnalignedVolatile) (__tsan_unaligned_volatile_write8, Write, 8, UnalignedVolatile)
            (__tsan_unaligned_volatile_write16, Write, 16, UnalignedVolatile)
            (__tsan_vptr_read, Read, 8, Vptr)
        }
    };
}

/// Calls `$m! { (width, type) … }` with every width of the atomic hooks that Rust can name
/// (16 bytes are performed by hand-written code).
#[macro_export]
macro_rules! for_each_atomic_width {
    ($m:ident) => {
        $m! { (8, u8, AtomicU8) (16, u16, AtomicU16) (32, u32, AtomicU32) (64, u64, AtomicU64) }
    };
}

const fn access(name: &'static str, rw: Rw, size: u8, flavour: Flavour) -> Hook {
    Hook { name, class: HookClass::Access { rw, size, flavour }, args: 1, disarmed: Some(&[]) }
}

const fn atomic(name: &'static str, op: AtomicOp, size: u8, args: u8, disarmed: Option<&'static [u8]>) -> Hook {
    Hook { name, class: HookClass::Atomic { op, size }, args, disarmed }
}

const fn plain(name: &'static str, class: HookClass, args: u8) -> Hook {
    Hook { name, class, args, disarmed: None }
}

const fn gone(name: &'static str, class: HookClass, args: u8) -> Hook {
    Hook { name, class, args, disarmed: Some(&[]) }
}

macro_rules! access_rows {
    ($(($name:ident, $rw:ident, $size:literal, $flavour:ident))*) => {
        [$(access(stringify!($name), Rw::$rw, $size, Flavour::$flavour)),*]
    };
}

const ACCESS: [Hook; 50] = for_each_access_hook!(access_rows);

/// Twelve rows of one width. The inline forms: an x86 load is a `mov` under every order, an
/// exchange is a full barrier, so `xchg` serves stores of every order; `lock xadd` fits in five
/// bytes only where no REX prefix is needed.
macro_rules! atomic_rows {
    ($bits:literal, $size:literal, args: $a:literal, $load:expr, $store:expr, $exchange:expr, $add:expr) => {
        [
            atomic(concat!("__tsan_atomic", $bits, "_load"), AtomicOp::Load, $size, 2, $load),
            atomic(concat!("__tsan_atomic", $bits, "_store"), AtomicOp::Store, $size, $a, $store),
            atomic(concat!("__tsan_atomic", $bits, "_exchange"), AtomicOp::Exchange, $size, $a, $exchange),
            atomic(concat!("__tsan_atomic", $bits, "_fetch_add"), AtomicOp::Add, $size, $a, $add),
            atomic(concat!("__tsan_atomic", $bits, "_fetch_sub"), AtomicOp::Sub, $size, $a, None),
            atomic(concat!("__tsan_atomic", $bits, "_fetch_and"), AtomicOp::And, $size, $a, None),
            atomic(concat!("__tsan_atomic", $bits, "_fetch_or"), AtomicOp::Or, $size, $a, None),
            atomic(concat!("__tsan_atomic", $bits, "_fetch_xor"), AtomicOp::Xor, $size, $a, None),
            atomic(concat!("__tsan_atomic", $bits, "_fetch_nand"), AtomicOp::Nand, $size, $a, None),
            atomic(
                concat!("__tsan_atomic", $bits, "_compare_exchange_strong"),
                AtomicOp::CasStrong,
                $size,
                $a + 2,
                None,
            ),
            atomic(concat!("__tsan_atomic", $bits, "_compare_exchange_weak"), AtomicOp::CasWeak, $size, $a + 2, None),
            atomic(concat!("__tsan_atomic", $bits, "_compare_exchange_val"), AtomicOp::CasVal, $size, $a + 2, None),
        ]
    };
}

// movzx eax, byte [rdi] | xchg [rdi], sil | xchg [rdi], sil; xchg eax, esi (only al counts)
const ATOMIC8: [Hook; 12] = atomic_rows!("8", 1, args: 3, Some(&[0x0f, 0xb6, 0x07]), Some(&[0x40, 0x86, 0x37]), Some(&[0x40, 0x86, 0x37, 0x96]), None);
// movzx eax, word [rdi] | xchg [rdi], si | xchg [rdi], si; xchg eax, esi
const ATOMIC16: [Hook; 12] = atomic_rows!("16", 2, args: 3, Some(&[0x0f, 0xb7, 0x07]), Some(&[0x66, 0x87, 0x37]), Some(&[0x66, 0x87, 0x37, 0x96]), None);
// mov eax, [rdi] | xchg [rdi], esi | xchg [rdi], esi; xchg eax, esi | xchg eax, esi; lock xadd [rdi], eax
const ATOMIC32: [Hook; 12] = atomic_rows!("32", 4, args: 3, Some(&[0x8b, 0x07]), Some(&[0x87, 0x37]), Some(&[0x87, 0x37, 0x96]), Some(&[0x96, 0xf0, 0x0f, 0xc1, 0x07]));
// mov rax, [rdi] | xchg [rdi], rsi | xchg [rdi], rsi; xchg rax, rsi
const ATOMIC64: [Hook; 12] = atomic_rows!("64", 8, args: 3, Some(&[0x48, 0x8b, 0x07]), Some(&[0x48, 0x87, 0x37]), Some(&[0x48, 0x87, 0x37, 0x48, 0x96]), None);
const ATOMIC128: [Hook; 12] = atomic_rows!("128", 16, args: 4, None, None, None, None);

const REST: [Hook; 64] = [
    gone("__tsan_vptr_update", HookClass::Access { rw: Rw::Write, size: 8, flavour: Flavour::Vptr }, 2),
    gone("__tsan_read_range", HookClass::Range { rw: Rw::Read }, 2),
    gone("__tsan_write_range", HookClass::Range { rw: Rw::Write }, 2),
    plain("__tsan_memcpy", HookClass::Copy, 3),
    plain("__tsan_memmove", HookClass::Copy, 3),
    plain("__tsan_memset", HookClass::Copy, 3),
    gone("__tsan_func_entry", HookClass::Function { entry: true }, 1),
    gone("__tsan_func_exit", HookClass::Function { entry: false }, 0),
    gone("__sanitizer_cov_trace_pc", HookClass::Block, 0),
    plain("__sanitizer_cov_trace_pc_indir", HookClass::Annotation, 1),
    atomic("__tsan_atomic_thread_fence", AtomicOp::ThreadFence, 0, 1, None),
    gone("__tsan_atomic_signal_fence", HookClass::Atomic { op: AtomicOp::SignalFence, size: 0 }, 1),
    plain("__tsan_init", HookClass::Init, 0),
    plain("__tsan_get_current_fiber", HookClass::Fiber, 0),
    plain("__tsan_create_fiber", HookClass::Fiber, 1),
    plain("__tsan_destroy_fiber", HookClass::Fiber, 1),
    plain("__tsan_switch_to_fiber", HookClass::Fiber, 2),
    plain("__tsan_set_fiber_name", HookClass::Fiber, 2),
    plain("__tsan_acquire", HookClass::Annotation, 1),
    plain("__tsan_release", HookClass::Annotation, 1),
    plain("__tsan_mutex_create", HookClass::Annotation, 2),
    plain("__tsan_mutex_destroy", HookClass::Annotation, 2),
    plain("__tsan_mutex_pre_lock", HookClass::Annotation, 2),
    plain("__tsan_mutex_post_lock", HookClass::Annotation, 3),
    plain("__tsan_mutex_pre_unlock", HookClass::Annotation, 2),
    plain("__tsan_mutex_post_unlock", HookClass::Annotation, 2),
    plain("__tsan_mutex_pre_signal", HookClass::Annotation, 2),
    plain("__tsan_mutex_post_signal", HookClass::Annotation, 2),
    plain("__tsan_mutex_pre_divert", HookClass::Annotation, 2),
    plain("__tsan_mutex_post_divert", HookClass::Annotation, 2),
    plain("__tsan_ignore_thread_begin", HookClass::Annotation, 0),
    plain("__tsan_ignore_thread_end", HookClass::Annotation, 0),
    plain("__tsan_flush_memory", HookClass::Annotation, 0),
    plain("__tsan_external_register_tag", HookClass::Annotation, 1),
    plain("__tsan_external_register_header", HookClass::Annotation, 2),
    plain("__tsan_external_assign_tag", HookClass::Annotation, 2),
    plain("__tsan_external_read", HookClass::Annotation, 3),
    plain("__tsan_external_write", HookClass::Annotation, 3),
    plain("AnnotateHappensBefore", HookClass::Annotation, 3),
    plain("AnnotateHappensAfter", HookClass::Annotation, 3),
    plain("WTFAnnotateHappensBefore", HookClass::Annotation, 3),
    plain("WTFAnnotateHappensAfter", HookClass::Annotation, 3),
    plain("AnnotateRWLockCreate", HookClass::Annotation, 3),
    plain("AnnotateRWLockCreateStatic", HookClass::Annotation, 3),
    plain("AnnotateRWLockDestroy", HookClass::Annotation, 3),
    plain("AnnotateRWLockAcquired", HookClass::Annotation, 4),
    plain("AnnotateRWLockReleased", HookClass::Annotation, 4),
    plain("AnnotateBenignRaceSized", HookClass::Annotation, 5),
    plain("AnnotateBenignRace", HookClass::Annotation, 4),
    plain("WTFAnnotateBenignRaceSized", HookClass::Annotation, 5),
    plain("AnnotateIgnoreReadsBegin", HookClass::Annotation, 2),
    plain("AnnotateIgnoreReadsEnd", HookClass::Annotation, 2),
    plain("AnnotateIgnoreWritesBegin", HookClass::Annotation, 2),
    plain("AnnotateIgnoreWritesEnd", HookClass::Annotation, 2),
    plain("AnnotateIgnoreSyncBegin", HookClass::Annotation, 2),
    plain("AnnotateIgnoreSyncEnd", HookClass::Annotation, 2),
    plain("AnnotateThreadName", HookClass::Annotation, 3),
    plain("AnnotateCondVarSignal", HookClass::Annotation, 3),
    plain("AnnotateCondVarSignalAll", HookClass::Annotation, 3),
    plain("AnnotateCondVarWait", HookClass::Annotation, 4),
    plain("AnnotateNewMemory", HookClass::Annotation, 4),
    plain("AnnotatePublishMemoryRange", HookClass::Annotation, 4),
    plain("AnnotateUnpublishMemoryRange", HookClass::Annotation, 4),
    plain("AnnotateFlushState", HookClass::Annotation, 2),
];

const LIBC: [Hook; 16] = [
    plain("memcpy", HookClass::Libc, 3),
    plain("memmove", HookClass::Libc, 3),
    plain("memset", HookClass::Libc, 3),
    plain("mempcpy", HookClass::Libc, 3),
    plain("bzero", HookClass::Libc, 2),
    plain("bcopy", HookClass::Libc, 3),
    plain("memcmp", HookClass::Libc, 3),
    plain("memchr", HookClass::Libc, 3),
    plain("strlen", HookClass::Libc, 1),
    plain("strcmp", HookClass::Libc, 2),
    plain("strncmp", HookClass::Libc, 3),
    plain("strcpy", HookClass::Libc, 2),
    plain("strncpy", HookClass::Libc, 3),
    plain("__memcpy_chk", HookClass::Libc, 4),
    plain("__memmove_chk", HookClass::Libc, 4),
    plain("__memset_chk", HookClass::Libc, 4),
];

/// Annotations of `selvedge.h`.
const OWN: [Hook; 3] = [
    plain("selvedge_guard_address", HookClass::Annotation, 1),
    plain("selvedge_section_begin", HookClass::Annotation, 2),
    plain("selvedge_section_end", HookClass::Annotation, 1),
];

const COUNT: usize = ACCESS.len() + 5 * 12 + REST.len() + LIBC.len() + OWN.len();
const _: () = assert!(COUNT <= 256, "a hook index is one byte");

/// Every hook, one row each. The order is part of the site-table format: append only, and raise
/// [`crate::site_table::VERSION`] on any other change.
pub const HOOKS: [Hook; COUNT] = {
    let mut all = [ACCESS[0]; COUNT];
    let groups: [&[Hook]; 9] = [&ACCESS, &ATOMIC8, &ATOMIC16, &ATOMIC32, &ATOMIC64, &ATOMIC128, &REST, &LIBC, &OWN];
    let mut group = 0;
    let mut at = 0;
    while group < groups.len() {
        let mut row = 0;
        while row < groups[group].len() {
            all[at] = groups[group][row];
            at += 1;
            row += 1;
        }
        group += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (at, hook) in HOOKS.iter().enumerate() {
            assert_eq!(by_name(hook.name), Some(HookIx(at as u8)), "{}", hook.name);
        }
    }

    #[test]
    fn rows_keep_the_patchers_promises() {
        for hook in &HOOKS {
            assert!(hook.args <= 6, "{}", hook.name);
            if let Some(code) = hook.disarmed {
                assert!(hook.is_site(), "{}", hook.name);
                assert!(code.len() <= 5, "{} has no room in a call", hook.name);
            }
        }
    }

    #[test]
    fn directions_follow_the_operation() {
        let find = |name| by_name(name).and_then(HookIx::get).and_then(Hook::access);
        assert_eq!(find("__tsan_atomic64_load"), Some((Rw::Read, 8)));
        assert_eq!(find("__tsan_atomic8_store"), Some((Rw::Write, 1)));
        assert_eq!(find("__tsan_atomic32_fetch_add"), Some((Rw::ReadWrite, 4)));
        assert_eq!(find("__tsan_atomic_thread_fence"), None);
        assert_eq!(find("__tsan_vptr_update"), Some((Rw::Write, 8)));
    }
}
