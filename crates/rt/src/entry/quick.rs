//! The short way of plain accesses at guarded sites, written by hand: [`guard::quick`] says what it does. Every guarded access comes here, and in the
//! compiler's code a third of the instructions were there to have registers.
//!
//! Only what is most common is done here: a step that is remembered, of a cell that does not change, or that this thread owns. Anything else
//! begins anew in `otherwise`, since nothing was changed.
//!
//! A shared library has none of it: where its thread-local words are is known to an executable alone. Nor have other processors.
//!
//! Budget: 37 instructions where the cell does not change, 50 where it does.

use crate::guard;

extern "C" fn otherwise<const SIZE: u64>(addr: u64, site: u32) {
    guard::quick::quick::<SIZE>(addr, site);
}

#[cfg(all(target_arch = "x86_64", not(feature = "stub")))]
mod by_hand {
    use core::arch::global_asm;
    use core::mem::offset_of;

    use crate::guard::quick::{LAST, Last, Steps};
    use crate::guard::recorder::{BUCKET_TABLE, BUCKETS, Block, Bucket, REGION_SHIFT, WORDS};
    use crate::thread_state::ThreadState;

    use super::otherwise;

    macro_rules! quick {
        ($name:ident, $size:literal) => {
            global_asm!(
                ".p2align 5",
                concat!(".globl selvedge_rt_", stringify!($name)),
                concat!(".hidden selvedge_rt_", stringify!($name)),
                concat!(".type selvedge_rt_", stringify!($name), ",@function"),
                concat!("selvedge_rt_", stringify!($name), ":"),
                ".cfi_startproc",
                // rdi: address, esi: site; rax: the thread's state.
                "mov rax, qword ptr fs:[selvedge_rt_tls@tpoff]",
                "cmp rax, 1",
                "jbe 9f",
                // r8: the block, where its bucket is the first that is looked at.
                "mov rcx, rdi",
                "shr rcx, {region}",
                "mov rdx, rdi",
                "shr rdx, {region} + {bucket_bits}",
                "xor edx, ecx",
                "and edx, {buckets} - 1",
                "shl edx, 4",
                "lea r8, [rip + {table}]",
                "inc rcx",
                "cmp qword ptr [r8 + rdx + {key}], rcx",
                "jne 9f",
                "mov r8, qword ptr [r8 + rdx + {block}]",
                "test r8, r8",
                "jz 9f",
                // rcx: the word in it, dl: the shape of the access; the word must have that.
                "mov ecx, edi",
                "shr ecx, 3",
                "and ecx, {words} - 1",
                "lea edx, [rdi * 8]",
                "and edx, 0x38",
                "add edx, {size}",
                "cmp byte ptr [r8 + rcx + {shapes}], dl",
                "jne 9f",
                // r10: the last two steps at this site, r9: the cell's value, r11: what becomes of it. As in `Steps::after`: what becomes of it first, then
                // whose it is.
                "mov r10d, esi",
                "and r10d, {last} - 1",
                "shl r10d, 6",
                "add r10, rax",
                "mov r9, qword ptr [r8 + rcx * 8 + {cells}]",
                "mov r11, qword ptr [r10 + {at} + {after}]",
                "cmp qword ptr [r10 + {at} + {now}], r9",
                "jne 7f",
                "6: cmp dword ptr [r10 + {at} + {site}], esi",
                "jne 9f",
                "cmp r11, r9",
                "je 5f",
                // The cell changes. As in `arch::store_if`, from `2:` to `3:`, but that the descriptor is left: this code is never gone.
                "mov qword ptr [rsp - 8], rsi",
                "mov r10, qword ptr [rax + {area}]",
                "lea rsi, [rip + 8f]",
                "mov qword ptr fs:[r10 + 8], rsi",
                "2:",
                "mov r10d, ecx",
                "shr r10d, {granule}",
                "mov esi, dword ptr [rax + {held}]",
                "cmp word ptr [r8 + r10 * 8 + {granules} + 2], si",
                "jne 4f",
                "cmp byte ptr [r8 + rcx + {shapes}], dl",
                "jne 4f",
                "cmp qword ptr [r8 + rcx * 8 + {cells}], r9",
                "jne 4f",
                "mov qword ptr [r8 + rcx * 8 + {cells}], r11",
                "3:",
                "5: ret",
                ".byte 0x0f, 0x1f, 0x80",
                ".long 0x53053053",
                "4: mov rsi, qword ptr [rsp - 8]",
                "9: jmp {otherwise}",
                "7: mov r11, qword ptr [r10 + {at} + {after} + 8]",
                "cmp qword ptr [r10 + {at} + {now} + 8], r9",
                "je 6b",
                "jmp 9b",
                ".cfi_endproc",
                concat!(".size selvedge_rt_", stringify!($name), ", . - selvedge_rt_", stringify!($name)),
                ".pushsection .data.rel.ro.selvedge_rseq, \"aw\", @progbits",
                ".p2align 5",
                "8:",
                ".long 0, 0",
                ".quad 2b, 3b - 2b, 4b",
                ".popsection",
                region = const REGION_SHIFT,
                bucket_bits = const BUCKETS.ilog2(),
                buckets = const BUCKETS,
                table = sym BUCKET_TABLE,
                key = const offset_of!(Bucket, key),
                block = const offset_of!(Bucket, block),
                words = const WORDS,
                size = const $size,
                shapes = const Block::SHAPES_AT,
                cells = const Block::CELLS_AT,
                granules = const Block::GRANULES_AT,
                granule = const Block::GRANULE_SHIFT,
                last = const LAST,
                at = const offset_of!(ThreadState, steps) + offset_of!(Steps, last),
                after = const offset_of!(Last, after),
                now = const offset_of!(Last, now),
                site = const offset_of!(Last, site),
                area = const offset_of!(ThreadState, area),
                held = const offset_of!(ThreadState, held),
                otherwise = sym otherwise::<$size>,
            );
        };
    }
    quick!(quick_1, 1);
    quick!(quick_2, 2);
    quick!(quick_4, 4);
    quick!(quick_8, 8);

    // What the code above takes for granted.
    const _: () = assert!(size_of::<Bucket>() == 16 && size_of::<Last>() == 64);

    unsafe extern "C" {
        fn selvedge_rt_quick_1();
        fn selvedge_rt_quick_2();
        fn selvedge_rt_quick_4();
        fn selvedge_rt_quick_8();
    }

    pub(super) const ENTRIES: [unsafe extern "C" fn(); 4] =
        [selvedge_rt_quick_1, selvedge_rt_quick_2, selvedge_rt_quick_4, selvedge_rt_quick_8];
}

/// The entry for accesses of so many bytes: called with the address and the site.
pub fn target(size: u8) -> Option<usize> {
    let place = [1, 2, 4, 8].iter().position(|known| *known == size)?;
    #[cfg(all(target_arch = "x86_64", not(feature = "stub")))]
    let entries = by_hand::ENTRIES;
    #[cfg(not(all(target_arch = "x86_64", not(feature = "stub"))))]
    let entries: [extern "C" fn(u64, u32); 4] = [otherwise::<1>, otherwise::<2>, otherwise::<4>, otherwise::<8>];
    entries.get(place).map(|entry| *entry as *const () as usize)
}
