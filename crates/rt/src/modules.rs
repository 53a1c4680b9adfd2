//! The images that are loaded: for naming code addresses, and for finding what to patch.
//!
//! Looked at twice only: before `main`, and when a library calls `__tsan_init` from its first constructor,
//! inside `dlopen`, before any other thread can run its code. The loader is never asked at any other time: its
//! lock may be held by a thread that waits for one of the guest's.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use selvedge_events::bytes::{checksum, slice_at, u32_at};
use selvedge_events::counters::Counter;
use selvedge_events::pack::{self, NO_PC};
use selvedge_events::trace_file::{CHUNK_HEADER, ChunkKind, at};

use crate::sink;
use crate::spin::Spin;

/// Modules that a code address can name.
const MAX: usize = 63;

#[derive(Debug)]
struct Range {
    base: AtomicU64,
    /// 0 where the image is gone.
    end: AtomicU64,
    /// Which image: the same one, loaded again, keeps its number.
    identity: AtomicU64,
    /// One of its patched sites and the bytes that the compiler put there: if they are back, so is a fresh
    /// copy of the image, at the same place. Zero where nothing was patched.
    probe: AtomicU64,
    original: AtomicU64,
}

static RANGES: [Range; MAX] = [const {
    Range {
        base: AtomicU64::new(0),
        end: AtomicU64::new(0),
        identity: AtomicU64::new(0),
        probe: AtomicU64::new(0),
        original: AtomicU64::new(0),
    }
}; MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static LOCK: Spin = Spin::new();

/// A code address as the payload of an event.
#[inline]
pub fn payload(pc: usize) -> u64 {
    match find(pc as u64) {
        Some((index, base)) => pack::pc_payload(index, (pc as u64).wrapping_sub(base) as u32),
        None => NO_PC,
    }
}

fn find(pc: u64) -> Option<(u32, u64)> {
    let count = COUNT.load(Ordering::Acquire);
    for (index, range) in RANGES.iter().enumerate().take(count) {
        let base = range.base.load(Ordering::Relaxed);
        if pc >= base && pc < range.end.load(Ordering::Relaxed) {
            return Some((index as u32, base));
        }
    }
    None
}

/// Whether an address lies in an image.
pub fn is_known(pc: u64) -> bool {
    find(pc).is_some()
}

/// Where the executable is.
pub fn executable_base() -> u64 {
    RANGES[0].base.load(Ordering::Relaxed)
}

/// Whether an address lies in the executable, which is never loaded again.
pub fn in_executable(pc: usize) -> bool {
    find(pc as u64).is_some_and(|(index, _)| index == 0)
}

/// A patched place and the bytes that were there.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Address.
    pub at: u64,
    /// The first five bytes, zero-extended.
    pub original: u64,
}

/// The first five bytes of code at an address, as a number.
///
/// # Safety
/// They must be mapped.
unsafe fn code_at(at: u64) -> u64 {
    // SAFETY: the caller's promise.
    let bytes = unsafe { (at as *const [u8; 5]).read_unaligned() };
    u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], 0, 0, 0])
}

/// One loaded image.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// Its number in the trace.
    pub index: u32,
    /// Where offsets count from.
    pub base: u64,
    /// First address after it.
    pub end: u64,
    /// Its file.
    pub path: &'a [u8],
    /// Its build-id; empty where it has none.
    pub build_id: &'a [u8],
    /// Its executable segments as (start, end) addresses; empty ones at the end.
    pub code: [(u64, u64); 4],
}

#[repr(C)]
struct PhdrInfo {
    addr: u64,
    name: *const c_char,
    phdr: *const Phdr,
    phnum: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Phdr {
    kind: u32,
    flags: u32,
    offset: u64,
    vaddr: u64,
    paddr: u64,
    filesz: u64,
    memsz: u64,
    align: u64,
}

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_X: u32 = 1;

unsafe extern "C" {
    fn dl_iterate_phdr(
        callback: extern "C" fn(*const PhdrInfo, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// Calls `each` with every image that was not there at the last call, and forgets those that are gone. What
/// `each` answers is how to tell later that the image was loaded anew.
pub fn refresh(each: &mut dyn FnMut(&Module<'_>) -> Option<Probe>) {
    let mut visit = Visit { each, seen: 0 };
    // SAFETY: the callback gets back exactly the pointer given here, during this call only.
    unsafe { dl_iterate_phdr(on_image, (&raw mut visit).cast()) };
    let seen = visit.seen;
    for (index, range) in RANGES.iter().enumerate().take(COUNT.load(Ordering::Relaxed)) {
        if seen & 1 << index == 0 {
            range.end.store(0, Ordering::Relaxed);
        }
    }
}

struct Visit<'a> {
    each: &'a mut dyn FnMut(&Module<'_>) -> Option<Probe>,
    /// Bit per module index.
    seen: u64,
}

extern "C" fn on_image(info: *const PhdrInfo, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid record, and `data` is the `Visit` given by `refresh`.
    let (info, visit) = unsafe { (&*info, &mut *data.cast::<Visit<'_>>()) };
    // SAFETY: the program headers of a loaded image stay mapped while the loader iterates.
    let headers = unsafe { core::slice::from_raw_parts(info.phdr, usize::from(info.phnum)) };
    let loads = || headers.iter().filter(|header| header.kind == PT_LOAD);
    let (Some(low), Some(high)) =
        (loads().map(|header| header.vaddr).min(), loads().map(|header| header.vaddr + header.memsz).max())
    else {
        return 0;
    };
    let base = info.addr.wrapping_add(low & !4095);
    let end = info.addr.wrapping_add(high);
    let mut code = [(0, 0); 4];
    for (room, header) in code.iter_mut().zip(loads().filter(|header| header.flags & PF_X != 0)) {
        let start = info.addr.wrapping_add(header.vaddr);
        *room = (start, start + header.memsz);
    }
    let build_id = headers.iter().filter(|header| header.kind == PT_NOTE).find_map(|header| {
        // SAFETY: notes of a loaded image are mapped.
        let notes = unsafe {
            core::slice::from_raw_parts(info.addr.wrapping_add(header.vaddr) as *const u8, header.filesz as usize)
        };
        build_id(notes)
    });
    // SAFETY: the loader's names are zero-terminated strings.
    let name = unsafe { core::ffi::CStr::from_ptr(info.name) }.to_bytes();
    let Some(_held) = LOCK.lock() else { return 0 };
    // The executable comes first and without a name, whenever the loader is asked. It must get the same path each
    // time: under another it would be taken for a new image, and the one that was announced for gone.
    let path = if name.is_empty() && visit.seen == 0 { b"/proc/self/exe" } else { name };
    let build_id = build_id.unwrap_or(&[]);
    let identity = checksum(build_id) ^ checksum(path).rotate_left(1) | 1;
    if let Some(index) = still_there(base, end, identity, &code) {
        visit.seen |= 1 << index;
        return 0;
    }
    let Some(index) = place(identity) else {
        sink::count(Counter::ModulesUnnamed, 1);
        return 0;
    };
    let range = &RANGES[index];
    range.identity.store(identity, Ordering::Relaxed);
    range.base.store(base, Ordering::Relaxed);
    range.end.store(end, Ordering::Relaxed);
    COUNT.fetch_max(index + 1, Ordering::Release);
    visit.seen |= 1 << index;
    let module = Module { index: index as u32, base, end, path, build_id, code };
    announce(&module);
    let probe = (visit.each)(&module).unwrap_or(Probe { at: 0, original: 0 });
    range.original.store(probe.original, Ordering::Relaxed);
    range.probe.store(probe.at, Ordering::Relaxed);
    0
}

/// The number of an image that is where it was and still as we patched it.
fn still_there(base: u64, end: u64, identity: u64, code: &[(u64, u64); 4]) -> Option<usize> {
    let known = RANGES.iter().take(COUNT.load(Ordering::Relaxed)).position(|range| {
        range.base.load(Ordering::Relaxed) == base
            && range.end.load(Ordering::Relaxed) == end
            && range.identity.load(Ordering::Relaxed) == identity
    })?;
    let probe = RANGES[known].probe.load(Ordering::Relaxed);
    let mapped = code.iter().any(|(start, end)| probe >= *start && probe + 5 <= *end);
    // SAFETY: `mapped` says that the bytes belong to a code segment of the image that is loaded now.
    let fresh = mapped && unsafe { code_at(probe) } == RANGES[known].original.load(Ordering::Relaxed);
    (!fresh).then_some(known)
}

/// The number for an image: the one it had, else a new one.
fn place(identity: u64) -> Option<usize> {
    let count = COUNT.load(Ordering::Relaxed);
    let again = RANGES.iter().take(count).position(|range| range.identity.load(Ordering::Relaxed) == identity);
    again.or(Some(count).filter(|index| *index < MAX))
}

/// Writes the module into the trace.
fn announce(module: &Module<'_>) {
    if !sink::is_open() {
        return;
    }
    let mut exe = [0_u8; 1024];
    let path = if module.path == b"/proc/self/exe" { readlink(&mut exe) } else { module.path };
    let body = module.build_id.len() + path.len();
    let written = sink::write_chunk(ChunkKind::Module, module.index, 0, body, |chunk| {
        let put = |at: usize, bytes: &[u8]| {
            // SAFETY: the chunk's buffer has room for the header and `body` bytes.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), (chunk + at) as *mut u8, bytes.len()) };
        };
        put(at::MODULE_BASE, &module.base.to_le_bytes());
        put(at::MODULE_END, &module.end.to_le_bytes());
        put(at::MODULE_BUILD_ID_LEN, &(module.build_id.len() as u32).to_le_bytes());
        put(at::MODULE_PATH_LEN, &(path.len() as u32).to_le_bytes());
        put(CHUNK_HEADER, module.build_id);
        put(CHUNK_HEADER + module.build_id.len(), path);
    });
    if let Err(why) = written {
        sink::count(why, 1);
    }
}

fn readlink(into: &mut [u8; 1024]) -> &[u8] {
    const READLINK: usize = 89;
    let path = b"/proc/self/exe\0";
    // SAFETY: the path is zero-terminated, the buffer is ours.
    let len =
        unsafe { crate::sys::raw(READLINK, [path.as_ptr() as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) };
    usize::try_from(len).ok().and_then(|len| into.get(..len)).unwrap_or(b"/proc/self/exe")
}

/// The GNU build-id among notes.
fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    loop {
        let (name_len, len, kind) = (u32_at(notes, 0)? as usize, u32_at(notes, 4)? as usize, u32_at(notes, 8)?);
        let body = 12 + name_len.next_multiple_of(4);
        if kind == NT_GNU_BUILD_ID && slice_at(notes, 12, name_len)? == b"GNU\0" {
            return slice_at(notes, body, len.min(32));
        }
        notes = notes.get(body.checked_add(len.next_multiple_of(4))?..)?;
    }
}

/// In a forked child: the lock may have been held by a thread that is not there any more.
pub fn after_fork() {
    LOCK.force_open();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_new_once_and_the_executable_stays_the_first() {
        let mine = an_image_is_new_once_and_the_executable_stays_the_first as fn() as usize;
        let mut new = 0;
        refresh(&mut |_| {
            new += 1;
            None
        });
        assert!(new > 1, "the executable and libc");
        let before = payload(mine);
        assert!(in_executable(mine));
        refresh(&mut |_| {
            new += 1000;
            None
        });
        assert!(new < 1000, "nothing was loaded in between");
        assert!(in_executable(mine));
        assert_eq!(payload(mine), before);
    }
}
