//! Switches armed sites off and on while the program runs.
//!
//! An armed site is `call thunk`, five bytes. Changing its first byte makes it `test eax, imm32`: the same length, no effect
//! but on the flags, which are dead around a call; a tail jump becomes `ret`. One byte is stored, so whoever runs
//! the code meanwhile runs the one instruction or the other, never a mixture. Storing the old byte switches it on again. The jump at the begin of
//! a function that has two bodies is switched in the same way.
//!
//! Code pages are never writable and executable at once: the byte goes through `/proc/self/mem`, as a debugger's
//! breakpoint would, and only where the five bytes are still those that the patcher left (a library may be gone).

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sys::{self, flags};

/// Where armed sites are: address, and the five bytes there; one pair of words for each id, in pages of ours.
static PLACES: AtomicUsize = AtomicUsize::new(0);
static SITES: AtomicUsize = AtomicUsize::new(0);

/// Makes room for so many sites.
pub fn begin(sites: u32) {
    if let Ok(at) = sys::mmap_anonymous((sites as usize * 16).next_multiple_of(4096).max(4096)) {
        SITES.store(sites as usize, Ordering::Relaxed);
        PLACES.store(at, Ordering::Release);
    }
}

fn place(site: u32) -> Option<&'static [AtomicU64; 2]> {
    let at = PLACES.load(Ordering::Acquire);
    if at == 0 || site as usize >= SITES.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: I6: pages of ours that are never unmapped, with a pair for each site.
    Some(unsafe { &*((at + site as usize * 16) as *const [AtomicU64; 2]) })
}

/// The first byte of five that do nothing: `test eax, imm32`.
pub const PASS: u8 = 0xa9;

/// The first byte of a site that is switched off.
pub const fn idle(call: u8) -> u8 {
    if call == 0xe9 { 0xc3 } else { PASS }
}

/// A site was armed with this code, and does nothing but call us; with the byte `off` in the place of the first one it does nothing.
pub fn placed(site: u32, at: u64, code: &[u8], off: u8) {
    let mut bytes = [0, 0, 0, 0, 0, off, 0, 0];
    if let (Some(place), Some(room), Some(five)) = (place(site), bytes.get_mut(..5), code.get(..5)) {
        room.copy_from_slice(five);
        place[1].store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        place[0].store(at, Ordering::Release);
    }
}

/// Whether there is a site with this id that can be switched.
pub fn is_placed(site: u32) -> bool {
    place(site).is_some_and(|place| place[0].load(Ordering::Relaxed) != 0)
}

/// The code, open for single bytes.
#[derive(Debug)]
pub struct Switches(i32);

impl Switches {
    /// Opens it; nothing where the system does not allow that.
    pub fn open() -> Option<Switches> {
        if crate::sink::is_sealed() {
            return None;
        }
        sys::open(b"/proc/self/mem\0", flags::O_RDWR | flags::O_CLOEXEC, 0).ok().map(Switches)
    }

    /// Switches a site; false where that cannot be done.
    pub fn switch(&self, site: u32, on: bool) -> bool {
        let Some(place) = place(site) else { return false };
        let (at, code) = (place[0].load(Ordering::Acquire), place[1].load(Ordering::Relaxed).to_le_bytes());
        let [call, _, _, _, _, off, ..] = code;
        let (from, to) = if on { (off, call) } else { (call, off) };
        let mut there = [0_u8; 5];
        let same = at != 0 && sys::pread(self.0, &mut there, at) == Ok(5);
        if !same || there[0] != from || there[1..] != code[1..5] {
            return false;
        }
        // SAFETY: the byte is ours; the kernel checks the address, where a site of ours was just seen.
        unsafe { sys::pwrite_all(self.0, &raw const to as usize, 1, at) }.is_ok()
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}
