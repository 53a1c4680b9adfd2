//! The runtime's hooks, if there is a runtime: weak symbols, looked up where they are called.
//!
//! Stable Rust cannot declare a weak symbol, assembly can. The address is read from the global offset table, where the linker or the
//! loader leaves zero for a weak symbol that nobody defines.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
macro_rules! hook {
    ($(#[$doc:meta])* $name:ident, $symbol:literal, ($($type:ty = $value:expr),*)) => {
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name<T: ?Sized>(object: &T) {
            let address: usize;
            // SAFETY: one load of this image's own table; no stack, no flags.
            unsafe {
                core::arch::asm!(
                    concat!(".weak ", $symbol),
                    concat!("mov {}, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
                    out(reg) address,
                    options(pure, readonly, nostack, preserves_flags)
                );
            }
            if address != 0 {
                // SAFETY: the symbol is a function of the ThreadSanitizer interface or of `selvedge.h` with these arguments.
                let call: unsafe extern "C" fn(*const () $(, $type)*) = unsafe { core::mem::transmute(address) };
                // SAFETY: the hooks take any address and only note it.
                unsafe { call(core::ptr::from_ref(object).cast() $(, $value)*) }
            }
        }
    };
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
macro_rules! hook {
    ($(#[$doc:meta])* $name:ident, $symbol:literal, ($($type:ty = $value:expr),*)) => {
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name<T: ?Sized>(_: &T) {}
    };
}

hook!(
    /// A lock that only this thread knows is held from here.
    locked, "__tsan_mutex_post_lock", (u32 = 0, i32 = 0)
);
hook!(
    /// It is given back.
    unlock, "__tsan_mutex_pre_unlock", (u32 = 0)
);
hook!(
    /// An order begins.
    release, "__tsan_release", ()
);
hook!(
    /// An order ends.
    acquire, "__tsan_acquire", ()
);
hook!(
    /// An address for the guard.
    guard_address, "selvedge_guard_address", ()
);
