//! Our own pages. Objects are typed, zeroed, recycled through free lists, and never given back: their
//! number is bounded by the most threads (or start records) alive at once.

use core::marker::PhantomData;
use core::mem::{align_of, size_of};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::spin::Spin;
use crate::sys;

/// A pool of equal objects.
#[derive(Debug)]
pub struct Pool<T> {
    lock: Spin,
    /// Address of the first free object; each free object's first word is the next one's address.
    free: AtomicUsize,
    of: PhantomData<fn() -> T>,
}

impl<T> Pool<T> {
    /// An empty pool.
    pub const fn new() -> Pool<T> {
        Pool { lock: Spin::new(), free: AtomicUsize::new(0), of: PhantomData }
    }

    const SIZE: usize = {
        let size = size_of::<T>();
        assert!(align_of::<T>() <= 64);
        assert!(size >= size_of::<usize>());
        (size + 63) & !63
    };

    /// A zeroed object, or `None` where memory cannot be had.
    pub fn take(&self) -> Option<*mut T> {
        let _held = self.lock.lock()?;
        let mut first = self.free.load(Ordering::Relaxed);
        if first == 0 {
            first = self.grow()?;
        }
        // SAFETY: I2: a free object is ours and its first word is the link.
        let next = unsafe { (first as *const usize).read() };
        self.free.store(next, Ordering::Relaxed);
        // SAFETY: I2: nobody else has this object.
        unsafe { core::ptr::write_bytes(first as *mut u8, 0, Self::SIZE) };
        Some(first as *mut T)
    }

    /// Gives an object back.
    ///
    /// # Safety
    /// It must have come from `take` of this pool, and never be used again.
    pub unsafe fn give(&self, object: *mut T) {
        if let Some(_held) = self.lock.lock() {
            // SAFETY: the caller's promise makes it a free object: I2.
            unsafe { object.cast::<usize>().write(self.free.load(Ordering::Relaxed)) };
            self.free.store(object as usize, Ordering::Relaxed);
        }
    }

    fn grow(&self) -> Option<usize> {
        let bytes = if Self::SIZE >= 16 * 1024 { Self::SIZE } else { 16 * 1024 };
        let bytes = (bytes + 4095) & !4095;
        if crate::sink::is_sealed() {
            return None;
        }
        let base = sys::mmap_anonymous(bytes).ok()?;
        let count = bytes / Self::SIZE;
        for object in 0..count {
            let at = base + object * Self::SIZE;
            let next = if object + 1 < count { at + Self::SIZE } else { 0 };
            // SAFETY: I2: fresh pages of ours.
            unsafe { (at as *mut usize).write(next) };
        }
        Some(base)
    }

    /// Opens the lock in a forked child.
    pub fn after_fork(&self) {
        self.lock.force_open();
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_distinct_zeroed_and_recycled() {
        static POOL: Pool<[u64; 9]> = Pool::new();
        let a = POOL.take().unwrap();
        let b = POOL.take().unwrap();
        assert_ne!(a, b);
        // SAFETY: both come from the pool.
        unsafe {
            assert_eq!(*a, [0; 9]);
            *a = [7; 9];
            POOL.give(a);
        }
        let c = POOL.take().unwrap();
        assert_eq!(c, a);
        // SAFETY: from the pool.
        unsafe { assert_eq!(*c, [0; 9]) };
    }
}
