//! Memory and string functions: the three that the ABI has of its own, and libc's when they are called
//! from instrumented code. Observed, then performed by libc.

use core::arch::global_asm;
#[cfg(not(feature = "stub"))]
use core::arch::naked_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use selvedge_events::HookIx;

#[cfg(not(feature = "stub"))]
use crate::detect;
use crate::entry::access::range;

// What the compiler makes calls to inside this crate must never reach a function of the guest: the build
// script renames those references to these.
global_asm!(
    ".text",
    ".p2align 4",
    ".globl selvedge_rt_memcpy",
    ".hidden selvedge_rt_memcpy",
    ".type selvedge_rt_memcpy,@function",
    "selvedge_rt_memcpy: mov rax, rdi; mov rcx, rdx; rep movsb; ret",
    ".size selvedge_rt_memcpy, . - selvedge_rt_memcpy",
    ".globl selvedge_rt_memset",
    ".hidden selvedge_rt_memset",
    ".type selvedge_rt_memset,@function",
    "selvedge_rt_memset: mov r8, rdi; mov eax, esi; mov rcx, rdx; rep stosb; mov rax, r8; ret",
    ".size selvedge_rt_memset, . - selvedge_rt_memset",
    ".globl selvedge_rt_memmove",
    ".hidden selvedge_rt_memmove",
    ".type selvedge_rt_memmove,@function",
    "selvedge_rt_memmove: mov rax, rdi; mov rcx, rdx; mov r8, rdi; sub r8, rsi; cmp r8, rdx; jb 2f; rep movsb; ret",
    "2: std; lea rdi, [rdi + rcx - 1]; lea rsi, [rsi + rcx - 1]; rep movsb; cld; ret",
    ".size selvedge_rt_memmove, . - selvedge_rt_memmove",
    ".globl selvedge_rt_memcmp",
    ".hidden selvedge_rt_memcmp",
    ".type selvedge_rt_memcmp,@function",
    ".globl selvedge_rt_bcmp",
    ".hidden selvedge_rt_bcmp",
    "selvedge_rt_bcmp:",
    "selvedge_rt_memcmp: mov rcx, rdx; xor eax, eax; cmp rcx, rcx; repe cmpsb; je 3f; movzx eax, byte ptr [rdi - 1]; movzx ecx, byte ptr [rsi - 1]; sub eax, ecx; 3: ret",
    ".size selvedge_rt_memcmp, . - selvedge_rt_memcmp",
    ".globl selvedge_rt_strlen",
    ".hidden selvedge_rt_strlen",
    ".type selvedge_rt_strlen,@function",
    "selvedge_rt_strlen: xor eax, eax; 4: cmp byte ptr [rdi + rax], 0; je 5f; inc rax; jmp 4b; 5: ret",
    ".size selvedge_rt_strlen, . - selvedge_rt_strlen",
);

// The ABI's own three jump to libc's functions once bootstrap has found them.
global_asm!(
    ".globl __tsan_memcpy", ".type __tsan_memcpy,@function", "__tsan_memcpy: endbr64; mov r11, [rip + {memcpy}]; test r11, r11; je selvedge_rt_memcpy; jmp r11",
    ".size __tsan_memcpy, . - __tsan_memcpy",
    ".globl __tsan_memmove", ".type __tsan_memmove,@function", "__tsan_memmove: endbr64; mov r11, [rip + {memmove}]; test r11, r11; je selvedge_rt_memmove; jmp r11",
    ".size __tsan_memmove, . - __tsan_memmove",
    ".globl __tsan_memset", ".type __tsan_memset,@function", "__tsan_memset: endbr64; mov r11, [rip + {memset}]; test r11, r11; je selvedge_rt_memset; jmp r11",
    ".size __tsan_memset, . - __tsan_memset",
    memcpy = sym memcpy::REAL,
    memmove = sym memmove::REAL,
    memset = sym memset::REAL,
);

/// The length that a string function sees, and one for the zero byte; at most `most`.
fn span(text: u64, most: u64) -> u64 {
    let mut len = 0;
    while len < most {
        // SAFETY: I9: the function that the guest called reads these bytes itself.
        let byte = unsafe { (text as *const u8).add(len as usize).read_volatile() };
        len += 1;
        if byte == 0 {
            break;
        }
    }
    len
}

/// Both strings up to where they differ.
fn common(a: u64, b: u64, most: u64) -> u64 {
    let mut len = 0;
    while len < most {
        // SAFETY: I9: as in `span`.
        let (x, y) = unsafe {
            ((a as *const u8).add(len as usize).read_volatile(), (b as *const u8).add(len as usize).read_volatile())
        };
        len += 1;
        if x != y || x == 0 {
            break;
        }
    }
    len
}

macro_rules! functions {
    ($($name:ident($a:ident, $b:ident, $c:ident, $d:ident, $site:ident) $body:block)*) => {
        $(mod $name {
            use super::*;
            /// libc's own; 0 until bootstrap.
            pub(super) static REAL: AtomicUsize = AtomicUsize::new(0);

            /// The armed entry. The site's id is in the first register that the function leaves free, which
            /// the parameter list names.
            pub(super) extern "C" fn seen($a: u64, $b: u64, $c: u64, $d: u64, fifth: u64) -> u64 {
                let (first, second, third, fourth) = ($a, $b, $c, $d);
                let _ = fifth;
                let $site = functions!(@site $name first second third fourth fifth) as u32;
                $body
                let real = REAL.load(Ordering::Relaxed);
                // SAFETY: I3: libc's function of that name; it is armed only when it was found.
                let real: extern "C" fn(u64, u64, u64, u64) -> u64 = unsafe { core::mem::transmute(real) };
                real(first, second, third, fourth)
            }

            /// As `seen`, where a walk of the stack may begin here.
            #[cfg(not(feature = "stub"))]
            #[unsafe(naked)]
            pub(super) extern "C" fn walked() {
                naked_asm!(
                    "mov qword ptr fs:[selvedge_rt_frame@tpoff], rbp",
                    "mov qword ptr fs:[selvedge_rt_frame@tpoff + 8], rsp",
                    "jmp {seen}",
                    seen = sym seen,
                )
            }
        })*

        /// Finds libc's functions.
        #[cfg(not(feature = "stub"))]
        pub fn find() {
            unsafe extern "C" {
                fn dlsym(handle: *mut core::ffi::c_void, name: *const core::ffi::c_char) -> *mut core::ffi::c_void;
            }
            $(
                let name = concat!(stringify!($name), "\0");
                // SAFETY: the name is zero-terminated; -1 is RTLD_NEXT.
                let real = unsafe { dlsym(-1_isize as *mut _, name.as_ptr().cast()) };
                $name::REAL.store(real as usize, Ordering::Relaxed);
            )*
        }

        /// The armed entry of a memory or string function.
        pub fn target(index: HookIx) -> Option<usize> {
            let name = index.get()?.name;
            let name = name.strip_prefix("__tsan_").unwrap_or(name);
            $(
                if name == stringify!($name) {
                    let found = $name::REAL.load(Ordering::Relaxed) != 0;
                    #[cfg(not(feature = "stub"))]
                    if detect::is_on() {
                        return found.then_some($name::walked as *const () as usize);
                    }
                    return found.then_some($name::seen as *const () as usize);
                }
            )*
            None
        }
    };
    (@site strlen $a:ident $b:ident $c:ident $d:ident $e:ident) => { $b };
    (@site bzero $a:ident $b:ident $c:ident $d:ident $e:ident) => { $c };
    (@site strcmp $a:ident $b:ident $c:ident $d:ident $e:ident) => { $c };
    (@site strcpy $a:ident $b:ident $c:ident $d:ident $e:ident) => { $c };
    (@site __memcpy_chk $a:ident $b:ident $c:ident $d:ident $e:ident) => { $e };
    (@site __memmove_chk $a:ident $b:ident $c:ident $d:ident $e:ident) => { $e };
    (@site __memset_chk $a:ident $b:ident $c:ident $d:ident $e:ident) => { $e };
    (@site $name:ident $a:ident $b:ident $c:ident $d:ident $e:ident) => { $d };
}

functions! {
    memcpy(to, from, len, _d, site) { range(from, len, false, site); range(to, len, true, site); }
    memmove(to, from, len, _d, site) { range(from, len, false, site); range(to, len, true, site); }
    memset(to, _b, len, _d, site) { range(to, len, true, site); }
    mempcpy(to, from, len, _d, site) { range(from, len, false, site); range(to, len, true, site); }
    bzero(to, len, _c, _d, site) { range(to, len, true, site); }
    bcopy(from, to, len, _d, site) { range(from, len, false, site); range(to, len, true, site); }
    memcmp(a, b, len, _d, site) { range(a, len, false, site); range(b, len, false, site); }
    memchr(a, _b, len, _d, site) { range(a, len, false, site); }
    strlen(a, _b, _c, _d, site) { range(a, span(a, u64::MAX), false, site); }
    strcmp(a, b, _c, _d, site) { let len = common(a, b, u64::MAX); range(a, len, false, site); range(b, len, false, site); }
    strncmp(a, b, len, _d, site) { let len = common(a, b, len); range(a, len, false, site); range(b, len, false, site); }
    strcpy(to, from, _c, _d, site) { let len = span(from, u64::MAX); range(from, len, false, site); range(to, len, true, site); }
    strncpy(to, from, len, _d, site) { range(from, span(from, len), false, site); range(to, len, true, site); }
    __memcpy_chk(to, from, len, _d, site) { range(from, len, false, site); range(to, len, true, site); }
    __memmove_chk(to, from, len, _d, site) { range(from, len, false, site); range(to, len, true, site); }
    __memset_chk(to, _b, len, _d, site) { range(to, len, true, site); }
}
