//! A thread's words, chunk after chunk, read from the file a little at a time.

use std::sync::Arc;

use selvedge_events::bytes::u64_at;
use selvedge_events::trace_file::CHUNK_HEADER;

use crate::read::Piece;
use crate::source::Source;

/// The words of a thread, read a little at a time.
#[derive(Debug)]
pub(crate) struct Words {
    source: Arc<Source>,
    pieces: std::vec::IntoIter<Piece>,
    /// What is left of the current chunk in the file.
    rest: std::ops::Range<u64>,
    buffer: Vec<u8>,
    at: usize,
    /// Words handed out that were not zero.
    pub(crate) used: u64,
}

/// Bytes read at once: small, because all threads of a merge hold such a buffer.
const READ: usize = 8 * 1024;

impl Words {
    pub(crate) fn new(source: Arc<Source>, pieces: &[Piece]) -> Words {
        Words { source, pieces: Vec::from(pieces).into_iter(), rest: 0..0, buffer: Vec::new(), at: 0, used: 0 }
    }

    /// The next word of the current chunk.
    pub(crate) fn next_in_piece(&mut self) -> Option<u64> {
        loop {
            if let Some(word) = u64_at(&self.buffer, self.at) {
                self.at += 8;
                self.used += u64::from(word != 0);
                return Some(word);
            }
            let len = (self.rest.end.saturating_sub(self.rest.start)).min(READ as u64);
            self.at = 0;
            self.buffer.clear();
            if len < 8 {
                return None;
            }
            self.buffer.resize(len as usize, 0);
            let got = self.source.read_into(self.rest.start, &mut self.buffer);
            self.buffer.truncate(got);
            self.rest.start += len;
        }
    }

    /// Goes on to the next chunk; false after the last.
    pub(crate) fn next_piece(&mut self) -> bool {
        let Some(piece) = self.pieces.next() else {
            self.buffer = Vec::new();
            return false;
        };
        let begin = piece.offset + CHUNK_HEADER as u64;
        self.rest = begin..piece.offset + u64::from(piece.len);
        self.buffer.clear();
        true
    }

    /// Leaves the rest of the chunk; true where it was not all zeros.
    pub(crate) fn end_piece(&mut self) -> bool {
        let mut any = false;
        while let Some(word) = self.next_in_piece() {
            any |= word != 0;
        }
        any
    }
}
