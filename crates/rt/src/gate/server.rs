//! The fork server: the program is loaded, linked and patched once; each run is a fork of it.
//!
//! ```text
//! driver                      server                     run
//!   command, 4 bytes   ──▶      fork      ──────────▶      main, under control
//!   pid, 4 bytes       ◀──
//!   status, 4 bytes    ◀──      wait      ◀──────────      ends
//! ```
//!
//! The server ends when its commands do.

use core::sync::atomic::{AtomicBool, Ordering};

use selvedge_events::interpose::Slot;

use crate::{real, sys};

static SERVING: AtomicBool = AtomicBool::new(false);

/// Whether this process is the server.
pub fn is_serving() -> bool {
    SERVING.load(Ordering::Relaxed)
}

/// Serves until the commands end; returns in each run.
pub fn serve(commands: i32, answers: i32) {
    SERVING.store(true, Ordering::Relaxed);
    let mut command = [0_u8; 4];
    while sys::read_exact(commands, &mut command) {
        let pid = real::call(Slot::fork, 0, 0, 0, 0, 0) as u32 as i32;
        if pid == 0 {
            SERVING.store(false, Ordering::Relaxed);
            sys::close(commands);
            sys::close(answers);
            sys::own_group();
            return;
        }
        if !say(answers, pid) {
            break;
        }
        let status = if pid > 0 { sys::wait_for_child(pid as u32) } else { -1 };
        if !say(answers, status) {
            break;
        }
    }
    sys::exit_group(0)
}

fn say(answers: i32, number: i32) -> bool {
    sys::write(answers, &number.to_le_bytes()) == Ok(4)
}
