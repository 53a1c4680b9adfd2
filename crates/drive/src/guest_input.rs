//! Standard input for a guest that runs several times.
//!
//! A terminal is handed on. A regular file is opened anew for each run. Anything else (a pipe, a socket)
//! can be read only once: the first run reads it through us, as it arrives, and later runs get a copy of
//! what came. So a pipe that never ends does not stop a guest that never asks.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{ChildStdin, Stdio};

/// Where guests' standard input comes from.
#[derive(Debug)]
pub enum GuestInput {
    /// Handed on as it is.
    Inherit,
    /// Opened anew for each run.
    Reopen(PathBuf),
    /// Read once, kept in a file.
    Kept {
        /// The file.
        copy: PathBuf,
        /// Whether a run has had it.
        used: bool,
    },
}

impl GuestInput {
    /// For one run: handed on.
    pub fn once() -> GuestInput {
        GuestInput::Inherit
    }

    /// For several runs; `copy` is where a pipe's contents may be kept.
    pub fn many(copy: PathBuf) -> GuestInput {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return GuestInput::Inherit;
        }
        let kind = rustix::fs::fstat(&stdin).map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(rustix::fs::FileType::RegularFile) => GuestInput::Reopen(PathBuf::from("/proc/self/fd/0")),
            Ok(rustix::fs::FileType::CharacterDevice) | Err(_) => GuestInput::Reopen(PathBuf::from("/dev/null")),
            Ok(_) => GuestInput::Kept { copy, used: false },
        }
    }

    /// What runs have read or could read; nothing from a terminal.
    pub fn contents(&self) -> io::Result<Vec<u8>> {
        match self {
            GuestInput::Inherit => Ok(Vec::new()),
            GuestInput::Reopen(path) => std::fs::read(path),
            GuestInput::Kept { copy, .. } => std::fs::read(copy),
        }
    }

    /// Whether the guest reads from a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, GuestInput::Inherit) && io::stdin().is_terminal()
    }

    /// The standard input of the next run, and whether it must be fed (see [`GuestInput::feed`]).
    pub(crate) fn next(&mut self) -> io::Result<(Stdio, bool)> {
        match self {
            GuestInput::Inherit => Ok((Stdio::inherit(), false)),
            GuestInput::Reopen(path) => Ok((File::open(path)?.into(), false)),
            GuestInput::Kept { used: false, .. } => Ok((Stdio::piped(), true)),
            GuestInput::Kept { copy, .. } => Ok((File::open(copy)?.into(), false)),
        }
    }

    /// Feeds the first run from our own input, keeping a copy. Returns at once; the copying goes on for as
    /// long as there is input.
    pub(crate) fn feed(&mut self, mut guest: ChildStdin) -> io::Result<()> {
        let GuestInput::Kept { copy, used } = self else { return Ok(()) };
        *used = true;
        let mut copy = File::create(copy)?;
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            let mut guest_reads = true;
            // Ends with our input; a guest that stops reading does not end the copy.
            while let Ok(got @ 1..) = io::stdin().lock().read(&mut buffer) {
                let Some(bytes) = buffer.get(..got) else { break };
                if copy.write_all(bytes).is_err() {
                    break;
                }
                guest_reads = guest_reads && guest.write_all(bytes).is_ok();
            }
        });
        Ok(())
    }
}
