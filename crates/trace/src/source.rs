//! Where a trace's bytes are: a file, read by position, or memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where the bytes are.
#[derive(Debug)]
pub(crate) enum Source {
    File(File, u64),
    Bytes(Vec<u8>),
}

impl Source {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Source::File(_, len) => *len,
            Source::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Up to `len` bytes from `offset`; fewer at the end of the file or where it cannot be read.
    /// Callers bound `len` by a limit.
    pub(crate) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let len = len.min(self.len().saturating_sub(offset));
        let mut out = vec![0; usize::try_from(len).unwrap_or(0)];
        let got = self.read_into(offset, &mut out);
        out.truncate(got);
        out
    }

    /// Fills as much of `out` as there is.
    pub(crate) fn read_into(&self, offset: u64, out: &mut [u8]) -> usize {
        match self {
            Source::File(file, _) => {
                let mut got = 0;
                while let Some(rest) = out.get_mut(got..).filter(|rest| !rest.is_empty()) {
                    match file.read_at(rest, offset.saturating_add(got as u64)) {
                        Ok(0) => break,
                        Ok(more) => got += more,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(_) => break,
                    }
                }
                got
            }
            Source::Bytes(bytes) => {
                let from = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
                let got = from.len().min(out.len());
                for (to, from) in out.iter_mut().zip(from) {
                    *to = *from;
                }
                got
            }
        }
    }
}
