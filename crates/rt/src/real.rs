//! The real functions behind the interposers, and the slots through which the exported stubs jump.
//!
//! Each exported function is `jmp [slot]`. A slot starts at an *early* stub that finds the real
//! function on first use (constructors of other libraries run before us); bootstrap then fills all
//! slots: with the real function, or with our shim when the plan observes.

use core::ffi::{c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use selvedge_events::for_each_interposed;
#[cfg(not(feature = "stub"))]
use selvedge_events::interpose::{Family, Shape};
use selvedge_events::interpose::{INTERPOSED, Slot};

const COUNT: usize = INTERPOSED.len();

/// Addresses of the real functions; 0 until found.
pub static REALS: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;

macro_rules! names {
    ($(($name:ident, $family:ident, $shape:ident))*) => {
        /// Zero-terminated names, by slot.
        const NAMES: [&[u8]; COUNT] = [$(concat!(stringify!($name), "\0").as_bytes()),*];
    };
}
for_each_interposed!(names);

/// The address of a real function; found on first use; 0 where there is none.
pub fn address(slot: Slot) -> usize {
    find(slot as usize)
}

/// Where libc has a variable, if it has it; before `main` only.
pub fn data(name: &core::ffi::CStr) -> Option<usize> {
    // SAFETY: as in `find`.
    let found = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) } as usize;
    (found != 0).then_some(found)
}

fn find(index: usize) -> usize {
    let (Some(cell), Some(name)) = (REALS.get(index), NAMES.get(index)) else {
        return 0;
    };
    let known = cell.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: the name is zero-terminated; the caller (this object) is the executable, so "next"
    // means every library after it.
    let mut found = unsafe { dlsym(RTLD_NEXT, name.as_ptr().cast()) } as usize;
    if found == 0 && (name.starts_with(b"_Z") || name.starts_with(b"__cxa")) {
        found = in_cxx_library(name);
    }
    // Idempotent: every thread finds the same address.
    cell.store(found, Ordering::Relaxed);
    found
}

/// A C++ library that a C program loaded later, in a scope of its own.
#[cold]
fn in_cxx_library(name: &[u8]) -> usize {
    const RTLD_LAZY_NOLOAD: i32 = 1 | 4;
    unsafe extern "C" {
        fn dlopen(path: *const c_char, flags: i32) -> *mut c_void;
    }
    for library in [c"libstdc++.so.6", c"libc++abi.so.1"] {
        // SAFETY: only asks for what is loaded already.
        let handle = unsafe { dlopen(library.as_ptr(), RTLD_LAZY_NOLOAD) };
        if !handle.is_null() {
            // SAFETY: the handle is valid and the name zero-terminated.
            return unsafe { dlsym(handle, name.as_ptr().cast()) } as usize;
        }
    }
    0
}

/// Calls a real function with up to five arguments. The surplus registers are garbage to functions
/// that take fewer, which the C calling convention allows.
#[inline]
pub fn call(slot: Slot, a: usize, b: usize, c: usize, d: usize, e: usize) -> usize {
    let target = REALS[slot as usize].load(Ordering::Relaxed);
    let target = if target == 0 { find(slot as usize) } else { target };
    if target == 0 {
        missing(slot as usize);
    }
    // SAFETY: I3: `target` is libc's function of that name, which takes integer arguments only.
    let target: extern "C" fn(usize, usize, usize, usize, usize) -> usize = unsafe { core::mem::transmute(target) };
    target(a, b, c, d, e)
}

/// A function that libc does not have was called: the program could not have been linked without us.
#[cold]
fn missing(index: usize) -> ! {
    let name = NAMES.get(index).copied().unwrap_or(b"?");
    let mut line = crate::diag::Line::new();
    line.text("the program calls ").raw(name.split_last().map_or(name, |(_, name)| name));
    line.text(", which no loaded library defines").say();
    crate::sys::exit_group(127)
}

/// Which functions are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapped {
    /// None: the program is disarmed.
    Nothing,
    /// Those that say what a thread does, or keep it waiting.
    Observed,
    /// Those that a guard by itself has to know of.
    Guarded,
    /// All, those too that only serve control.
    All,
}

#[cfg(not(feature = "stub"))]
mod slots {
    use super::*;
    use crate::interpose::clock::is_for_control;
    use core::arch::{asm, global_asm};

    /// What the exported stubs jump through; starts out at the early stubs, because the loader itself calls
    /// `malloc` before any code of ours.
    fn slots() -> &'static [AtomicUsize; COUNT] {
        let at: usize;
        // SAFETY: takes an address.
        unsafe { asm!("lea {}, [rip + selvedge_rt_slots]", out(reg) at, options(nomem, nostack)) };
        // SAFETY: I3: the table below has `COUNT` words, and lives as long as the program.
        unsafe { &*(at as *const [AtomicUsize; COUNT]) }
    }

    // Common part of the early stubs: finds the real function and jumps to it with all argument
    // registers intact. On entry the slot's index is on the stack above the return address.
    global_asm!(
        ".text",
        ".p2align 4",
        ".globl selvedge_rt_early",
        ".hidden selvedge_rt_early",
        ".type selvedge_rt_early,@function",
        "selvedge_rt_early:",
        ".cfi_startproc",
        ".cfi_def_cfa_offset 16",
        "push rax", "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "sub rsp, 8",
        ".cfi_adjust_cfa_offset 64",
        "mov rdi, [rsp + 64]",
        "call {resolve}",
        "mov r11, rax",
        "add rsp, 8", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi", "pop rax",
        ".cfi_adjust_cfa_offset -64",
        "lea rsp, [rsp + 8]",
        ".cfi_adjust_cfa_offset -8",
        "jmp r11",
        ".cfi_endproc",
        ".size selvedge_rt_early, . - selvedge_rt_early",
        resolve = sym resolve,
    );

    /// Set while the real `free` is looked for.
    static SEEKING_FREE: AtomicUsize = AtomicUsize::new(0);

    /// In the place of `free` while it is looked for: the loader gives back the words of its last error first, through us.
    /// They stay where they are.
    extern "C" fn keep(_: *mut c_void) {}

    /// What an early stub calls.
    extern "C" fn resolve(index: usize) -> usize {
        let is_free = index == Slot::free as usize;
        if is_free && SEEKING_FREE.swap(1, Ordering::Relaxed) != 0 {
            return keep as extern "C" fn(*mut c_void) as usize;
        }
        let target = find(index);
        if is_free {
            SEEKING_FREE.store(0, Ordering::Relaxed);
        }
        if target == 0 {
            missing(index);
        }
        target
    }

    // Common part of the Note shims (r11 = index): note, then jump to the real function.
    global_asm!(
        ".p2align 4",
        ".globl selvedge_rt_note",
        ".hidden selvedge_rt_note",
        ".type selvedge_rt_note,@function",
        "selvedge_rt_note:",
        ".cfi_startproc",
        "push rax", "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push r11", "sub rsp, 8",
        ".cfi_adjust_cfa_offset 72",
        "mov rcx, rsi",
        "mov rsi, [rsp + 72]",
        "mov rdx, rdi",
        "mov edi, r11d",
        "call {note}",
        "add rsp, 8", "pop r11", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi", "pop rax",
        ".cfi_adjust_cfa_offset -72",
        "lea r10, [rip + {reals}]",
        "jmp [r10 + r11*8]",
        ".cfi_endproc",
        ".size selvedge_rt_note, . - selvedge_rt_note",
        note = sym crate::interpose::process::note,
        reals = sym REALS,
    );

    // Common part of the Block shims (r11 = index): begin, call the real function, end. Keeps a frame
    // that an unwinder understands: cancellation and exceptions pass through.
    global_asm!(
        ".p2align 4",
        ".globl selvedge_rt_block",
        ".hidden selvedge_rt_block",
        ".type selvedge_rt_block,@function",
        "selvedge_rt_block:",
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rax", "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push r11",
        "mov rsi, [rbp + 8]",
        "mov rdx, rsp",
        "mov edi, r11d",
        "call {begin}",
        "test eax, eax",
        "jnz 7f",
        "mov rax, [rbp - 8]", "mov rdi, [rbp - 16]", "mov rsi, [rbp - 24]", "mov rdx, [rbp - 32]",
        "mov rcx, [rbp - 40]", "mov r8, [rbp - 48]", "mov r9, [rbp - 56]", "mov r11, [rbp - 64]",
        "lea r10, [rip + {reals}]",
        "call [r10 + r11*8]",
        "mov [rbp - 8], rax",
        "7: mov rdi, [rbp - 64]",
        "mov rsi, [rbp + 8]",
        "call {end}",
        "mov rax, [rbp - 8]",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        ".size selvedge_rt_block, . - selvedge_rt_block",
        begin = sym crate::interpose::block::begin,
        end = sym crate::interpose::block::end,
        reals = sym REALS,
    );

    // `main`, on a stack that is a page's. Where the kernel puts the first stack is left to chance, in steps of 16
    // bytes; frames that are aligned to more then lie nearer to the others or farther from them from run to run, and
    // which variables come to share an address with which would be another accident each time. The stacks of
    // threads begin at pages anyway.
    global_asm!(
        ".p2align 4",
        ".globl selvedge_rt_main",
        ".hidden selvedge_rt_main",
        ".type selvedge_rt_main,@function",
        "selvedge_rt_main:",
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "and rsp, -4096",
        "call qword ptr [rip + {main}]",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        ".size selvedge_rt_main, . - selvedge_rt_main",
        main = sym MAIN,
    );
    /// The guest's `main`.
    static MAIN: AtomicUsize = AtomicUsize::new(0);

    macro_rules! stub {
        ($name:ident) => {
            global_asm!(
                concat!(".globl selvedge_i_", stringify!($name)),
                concat!(".type selvedge_i_", stringify!($name), ",@function"),
                ".p2align 4",
                concat!("selvedge_i_", stringify!($name), ":"),
                "endbr64",
                "jmp qword ptr [rip + selvedge_rt_slots + {at}]",
                concat!(".size selvedge_i_", stringify!($name), ", . - selvedge_i_", stringify!($name)),
                concat!(".globl selvedge_rt_early_", stringify!($name)),
                concat!(".hidden selvedge_rt_early_", stringify!($name)),
                concat!("selvedge_rt_early_", stringify!($name), ":"),
                "push {index}",
                "jmp selvedge_rt_early",
                at = const Slot::$name as usize * 8,
                index = const Slot::$name as usize,
            );
        };
    }

    macro_rules! shim {
        // Seven arguments: the seventh and the caller's address go on over the stack.
        (syscall, Own) => {
            global_asm!(
                ".p2align 4",
                ".globl selvedge_rt_shim_syscall",
                ".hidden selvedge_rt_shim_syscall",
                "selvedge_rt_shim_syscall:",
                ".cfi_startproc",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "push [rsp + 8]",
                ".cfi_adjust_cfa_offset 8",
                "push [rsp + 24]",
                ".cfi_adjust_cfa_offset 8",
                "call {wrapper}",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_endproc",
                wrapper = sym crate::interpose::own::syscall,
            );
        };
        // Calls our `main` instead, which calls theirs.
        (__libc_start_main, Own) => {
            global_asm!(
                ".p2align 4",
                ".globl selvedge_rt_shim___libc_start_main",
                ".hidden selvedge_rt_shim___libc_start_main",
                "selvedge_rt_shim___libc_start_main:",
                "mov qword ptr [rip + {main}], rdi",
                "lea rdi, [rip + selvedge_rt_main]",
                "jmp qword ptr [rip + {reals} + {at}]",
                main = sym MAIN,
                reals = sym REALS,
                at = const Slot::__libc_start_main as usize * 8,
            );
        };
        ($name:ident, Own) => {
            global_asm!(
                ".p2align 4",
                concat!(".globl selvedge_rt_shim_", stringify!($name)),
                concat!(".hidden selvedge_rt_shim_", stringify!($name)),
                concat!("selvedge_rt_shim_", stringify!($name), ":"),
                "mov r9, [rsp]",
                "jmp {wrapper}",
                wrapper = sym crate::interpose::own::$name,
            );
        };
        ($name:ident, Note) => {
            global_asm!(
                concat!(".globl selvedge_rt_shim_", stringify!($name)),
                concat!(".hidden selvedge_rt_shim_", stringify!($name)),
                concat!("selvedge_rt_shim_", stringify!($name), ":"),
                "mov r11d, {index}",
                "jmp selvedge_rt_note",
                index = const Slot::$name as usize,
            );
        };
        ($name:ident, Block) => {
            global_asm!(
                concat!(".globl selvedge_rt_shim_", stringify!($name)),
                concat!(".hidden selvedge_rt_shim_", stringify!($name)),
                concat!("selvedge_rt_shim_", stringify!($name), ":"),
                "mov r11d, {index}",
                "jmp selvedge_rt_block",
                index = const Slot::$name as usize,
            );
        };
        ($name:ident, Pass) => {
            global_asm!(
                concat!(".globl selvedge_rt_shim_", stringify!($name)),
                concat!(".hidden selvedge_rt_shim_", stringify!($name)),
                concat!("selvedge_rt_shim_", stringify!($name), ":"),
                "jmp qword ptr [rip + {reals} + {at}]",
                reals = sym REALS,
                at = const Slot::$name as usize * 8,
            );
        };
    }

    macro_rules! code {
        ($(($name:ident, $family:ident, $shape:ident))*) => {
            $(stub!($name); shim!($name, $shape);)*

            global_asm!(
                ".data",
                ".p2align 3",
                ".globl selvedge_rt_slots",
                ".hidden selvedge_rt_slots",
                "selvedge_rt_slots:",
                $(concat!(".quad selvedge_rt_early_", stringify!($name)),)*
                ".text",
            );

            /// Address of a slot's shim.
            fn shim(index: usize) -> usize {
                const SHIM: [fn() -> usize; COUNT] = [$({
                    fn at() -> usize {
                        let at: usize;
                        // SAFETY: takes an address.
                        unsafe { asm!(concat!("lea {}, [rip + selvedge_rt_shim_", stringify!($name), "]"), out(reg) at, options(nomem, nostack)) };
                        at
                    }
                    at
                }),*];
                SHIM.get(index).map_or(0, |at| at())
            }
        };
    }
    for_each_interposed!(code);

    /// Points every slot at the real function, or at our shim where that is wrapped. A function
    /// that no loaded library has keeps its early stub, which looks again when it is called. Returns how
    /// many are missing.
    pub fn fill(wrapped: Wrapped) -> u64 {
        let mut absent = 0;
        // The allocator first: a look-up that fails keeps its message in allocated memory.
        for (index, (slot, row)) in slots().iter().zip(INTERPOSED).enumerate() {
            if row.family == Family::Alloc && find(index) != 0 {
                slot.store(find(index), Ordering::Release);
            }
        }
        // Without a C++ library there is no point in asking for each of its functions.
        let cxx = find(Slot::__cxa_guard_acquire as usize) != 0;
        for (index, (slot, row)) in slots().iter().zip(INTERPOSED).enumerate() {
            let of_cxx = matches!(row.family, Family::New | Family::Guard);
            let real = if of_cxx && !cxx { 0 } else { find(index) };
            if real == 0 {
                absent += u64::from(!of_cxx);
                continue;
            }
            let ours = match wrapped {
                Wrapped::Nothing => false,
                Wrapped::All => true,
                Wrapped::Observed => !is_for_control(index),
                // Who blocks for the world outside makes no access meanwhile, and is not waited for.
                Wrapped::Guarded => !is_for_control(index) && row.shape != Shape::Block,
            };
            slot.store(if ours { shim(index) } else { real }, Ordering::Release);
        }
        // A failed look-up must not be the answer to the guest's first question.
        unsafe extern "C" {
            fn dlerror() -> *const c_char;
        }
        // SAFETY: forgets the message.
        unsafe { dlerror() };
        absent
    }
}

#[cfg(not(feature = "stub"))]
pub use slots::fill;
