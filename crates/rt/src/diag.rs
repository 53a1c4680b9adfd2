//! Messages to a person: one line on standard error, built in a small stack buffer, written once.
//! Only for what a user must know (a plan that cannot be read); everything else is a counter.

use crate::sys;

/// A line under construction; what does not fit is cut.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; 400],
    len: usize,
}

impl Line {
    /// Begins with our name.
    pub fn new() -> Line {
        let mut line = Line { bytes: [0; 400], len: 0 };
        line.text("selvedge: ");
        line
    }

    /// Begins with nothing: a path.
    pub fn empty() -> Line {
        Line { bytes: [0; 400], len: 0 }
    }

    /// What is there so far.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Appends text.
    pub fn text(&mut self, text: &str) -> &mut Line {
        self.raw(text.as_bytes())
    }

    /// Appends bytes, such as a path.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Line {
        for byte in bytes {
            if let Some(room) = self.bytes.get_mut(self.len) {
                *room = *byte;
                self.len += 1;
            }
        }
        self
    }

    /// Appends a number.
    pub fn number(&mut self, mut value: u64) -> &mut Line {
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        loop {
            at = at.saturating_sub(1);
            if let Some(digit) = digits.get_mut(at) {
                *digit = b'0' + (value % 10) as u8;
            }
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.raw(digits.get(at..).unwrap_or(&[]))
    }

    /// Writes it.
    pub fn say(&mut self) {
        self.text("\n");
        let _ = sys::write(2, self.bytes());
    }
}

impl Default for Line {
    fn default() -> Line {
        Line::new()
    }
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.text(text);
        Ok(())
    }
}

/// Says what happened and ends the process with status 70 (internal error).
#[cold]
pub fn fatal(what: &str) -> ! {
    Line::new().text(what).say();
    sys::exit_group(70)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_overflow() {
        let mut line = Line::new();
        line.number(0).text(" ").number(u64::MAX);
        assert_eq!(&line.bytes[..line.len], b"selvedge: 0 18446744073709551615");
        for _ in 0..100 {
            line.text("0123456789");
        }
        assert_eq!(line.len, 400);
    }
}
