//! What differs between processors: the counter, the thread pointer, and single-instruction
//! reservation. x86-64 here; another architecture adds its own file with the same surface.

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

// One word of initial-exec thread-local storage: the address of the thread's state. Declared in
// assembly because `thread_local!` needs std and `#[thread_local]` is not stable.
global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".p2align 3",
    ".globl selvedge_rt_tls",
    ".hidden selvedge_rt_tls",
    ".type selvedge_rt_tls,@object",
    ".size selvedge_rt_tls,8",
    "selvedge_rt_tls: .zero 8",
    // How many accesses are left before the next one is considered for a wait, by class (`detect::noise`).
    ".globl selvedge_rt_due",
    ".hidden selvedge_rt_due",
    ".type selvedge_rt_due,@object",
    ".size selvedge_rt_due,16",
    "selvedge_rt_due: .zero 16",
    // Frame and stack pointer of the hook that was entered last, where a walk of the stack may begin with them.
    ".globl selvedge_rt_frame",
    ".hidden selvedge_rt_frame",
    ".type selvedge_rt_frame,@object",
    ".size selvedge_rt_frame,16",
    "selvedge_rt_frame: .zero 16",
    // In the place of what the kernel would look at.
    ".globl selvedge_rt_unseen",
    ".hidden selvedge_rt_unseen",
    ".type selvedge_rt_unseen,@object",
    ".size selvedge_rt_unseen,16",
    "selvedge_rt_unseen: .zero 16",
    ".text",
);

/// The thread-local word.
#[inline(always)]
pub fn tls_get() -> usize {
    let value: usize;
    // SAFETY: I1: the symbol is defined above in this very object, and every thread has it.
    unsafe {
        asm!("mov {}, qword ptr fs:[selvedge_rt_tls@tpoff]", out(reg) value, options(nostack, preserves_flags, readonly));
    }
    value
}

/// Sets the thread-local word.
#[inline(always)]
pub fn tls_set(value: usize) {
    // SAFETY: I1, as in `tls_get`.
    unsafe {
        asm!("mov qword ptr fs:[selvedge_rt_tls@tpoff], {}", in(reg) value, options(nostack, preserves_flags));
    }
}

/// The thread's countdown of a class below 4.
#[inline(always)]
pub fn due(class: usize) -> i32 {
    let value: i32;
    // SAFETY: I1, as in `tls_get`; there are four of them.
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[selvedge_rt_due@tpoff + {1}*4]", out(reg) value, in(reg) class & 3, options(nostack, preserves_flags, readonly));
    }
    value
}

/// Sets the thread's countdown of a class.
#[inline(always)]
pub fn set_due(class: usize, value: i32) {
    // SAFETY: I1, as in `tls_get`; there are four of them.
    unsafe {
        asm!("mov dword ptr fs:[selvedge_rt_due@tpoff + {1}*4], {0:e}", in(reg) value, in(reg) class & 3, options(nostack, preserves_flags));
    }
}

/// The frame and stack pointer that the entry of a range or copy left for a walk of the stack. Stale anywhere else.
#[inline(always)]
pub fn frame() -> (usize, usize) {
    let (frame, stack): (usize, usize);
    // SAFETY: I1, as in `tls_get`; there are two of them.
    unsafe {
        asm!(
            "mov {}, qword ptr fs:[selvedge_rt_frame@tpoff]",
            "mov {}, qword ptr fs:[selvedge_rt_frame@tpoff + 8]",
            out(reg) frame, out(reg) stack, options(nostack, preserves_flags, readonly)
        );
    }
    (frame, stack)
}

/// The frame pointer that this hook's entry left, once; 0 where it left none.
#[inline(always)]
pub fn take_frame() -> usize {
    let frame: usize;
    // SAFETY: I1, as in `tls_get`; the first of two.
    unsafe {
        asm!(
            "mov {}, qword ptr fs:[selvedge_rt_frame@tpoff]",
            "mov qword ptr fs:[selvedge_rt_frame@tpoff], 0",
            out(reg) frame, options(nostack, preserves_flags)
        );
    }
    frame
}

/// The time-stamp counter: constant rate and common to all cores on every processor of the last
/// decade that Linux marks `constant_tsc nonstop_tsc`.
#[inline(always)]
pub fn counter() -> u64 {
    // SAFETY: reading the counter has no effect on memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Adds to a word that only this thread and its own signal handlers touch, and returns what was
/// there before: one instruction, so no signal can come between.
///
/// # Safety
/// `word` must be valid and aligned, and no other thread may access it.
#[inline(always)]
pub unsafe fn add_local(word: *mut u64, add: u64) -> u64 {
    let mut value = add;
    // SAFETY: the caller's promise; `xadd` without `lock` is atomic towards the own thread.
    unsafe {
        asm!("xadd qword ptr [{}], {}", in(reg) word, inout(reg) value, options(nostack));
    }
    value
}

/// The stack pointer.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let value: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// The place where this is called, for an unwinder: code address, stack pointer, frame pointer.
#[inline(always)]
pub fn here() -> [usize; 3] {
    let (code, stack, frame): (usize, usize, usize);
    // SAFETY: reads registers.
    unsafe {
        asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) code, out(reg) stack, out(reg) frame,
            options(nomem, nostack, preserves_flags));
    }
    [code, stack, frame]
}

/// The thread pointer. Of a thread that libc made, its stack ends below.
#[inline(always)]
pub fn thread_pointer() -> usize {
    let value: usize;
    // SAFETY: I1: the ABI has the thread pointer there.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) value, options(nostack, preserves_flags, readonly)) };
    value
}

/// Performs a 16-byte compare-exchange; returns the old value and whether it was exchanged.
///
/// # Safety
/// `addr` must be valid and 16-byte aligned (the guest's own atomic object).
#[inline(always)]
pub unsafe fn cas128(addr: *mut u128, expected: u128, new: u128) -> (u128, bool) {
    let (mut lo, mut hi) = (expected as u64, (expected >> 64) as u64);
    // SAFETY: the caller's promise. The compiler may not be asked for rbx, so it is swapped by hand; every operand has a register of its own,
    // since "any" may be rbx itself.
    unsafe {
        asm!(
            "xchg rbx, rsi",
            "lock cmpxchg16b xmmword ptr [rdi]",
            "mov rbx, rsi",
            in("rdi") addr,
            inout("rsi") new as u64 => _,
            in("rcx") (new >> 64) as u64,
            inout("rax") lo,
            inout("rdx") hi,
            options(nostack),
        );
    }
    let old = u128::from(hi) << 64 | u128::from(lo);
    (old, old == expected)
}

/// Room for the thread's restartable sequences where the kernel does not look for any, from the thread pointer.
pub fn unseen_area() -> usize {
    let area: usize;
    // SAFETY: a constant of the linker.
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", "lea {0}, [{0} + selvedge_rt_unseen@tpoff]", out(reg) area, options(nostack, preserves_flags, readonly));
    }
    area.wrapping_sub(thread_pointer())
}

/// Whether the kernel looks for restartable sequences of this thread, `area` bytes from the thread pointer.
pub fn is_restartable(area: usize) -> bool {
    let processor: i32;
    // SAFETY: libc's `struct rseq` of this thread is there; its second word is the number of a processor, below 0 where it is not registered.
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[{1} + 4]", out(reg) processor, in(reg) area, options(nostack, preserves_flags, readonly));
    }
    processor >= 0
}

/// Stores `after` to a cell if shape, cell, and the upper half of the owner's word are as given: all of it, or nothing, whatever interrupts the thread
/// ([`crate::sys::membarrier`]).
///
/// # Safety
/// [`is_restartable`] with this area.
#[inline(always)]
pub unsafe fn store_if(
    area: usize,
    (owner, owned): (&AtomicU32, u32),
    (shape, is): (&AtomicU8, u8),
    (cell, now): (&AtomicU64, u64),
    after: u64,
) -> bool {
    let done: u64;
    // The sequence is from `2:` to its last instruction, before `3:`; its descriptor must be known right before it begins. The kernel leads to `7:`, and what
    // stands before that is a no-op with the signature that it asks for. In the end the descriptor is taken back: it must not be looked at when this
    // code is gone.
    // SAFETY: the caller's promise; what is pointed to are atomics.
    unsafe {
        asm!(
            "xor {done:e}, {done:e}",
            "lea {descriptor}, [rip + 8f]",
            "mov qword ptr fs:[{area} + 8], {descriptor}",
            "2:",
            "cmp word ptr [{owner} + 2], {owned:x}", "jne 4f",
            "cmp byte ptr [{shape}], {is}", "jne 4f",
            "cmp qword ptr [{cell}], {now}", "jne 4f",
            "mov qword ptr [{cell}], {after}",
            "3:",
            "mov {done:e}, 1",
            "4:",
            ".byte 0x0f, 0x1f, 0x80",
            ".long 0x53053053",
            "7:",
            "mov qword ptr fs:[{area} + 8], 0",
            ".pushsection .data.rel.ro.selvedge_rseq, \"aw\", @progbits",
            ".p2align 5",
            "8:",
            ".long 0, 0",
            ".quad 2b, 3b - 2b, 7b",
            ".popsection",
            done = out(reg) done, descriptor = out(reg) _, area = in(reg) area, owner = in(reg) owner.as_ptr(),
            owned = in(reg) owned, shape = in(reg) shape.as_ptr(), is = in(reg_byte) is, cell = in(reg) cell.as_ptr(),
            now = in(reg) now, after = in(reg) after, options(nostack),
        );
    }
    done != 0
}
