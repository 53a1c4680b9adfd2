//! Where exceptions land: the tables that the compiler writes for its unwinder.
//!
//! `.eh_frame` names, for every range of code that has one, a table in `.gcc_except_table`: which calls, by address, have a
//! landing pad, and where. C++ and Rust write the same format (the Itanium ABI's "language-specific data area"). Only
//! what concerns the flow is read; types are not: a pad that catches may be passed over by an exception of another type.

use gimli::{EndianSlice, LittleEndian, Pointer, Reader as _, UnwindSection as _};

use crate::image::Image;

/// What happens when a call throws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// The frame is left.
    Outside,
    /// Control goes to this address; or, unless it `always` does, the frame is left.
    Pad { at: u64, always: bool },
    /// The program ends: the call was promised not to throw.
    Nowhere,
}

/// The frame descriptions of an image, by address.
#[derive(Debug, Default)]
pub(crate) struct Unwinding {
    frames: Vec<Frame>,
    /// Frame descriptions that could not be read.
    pub(crate) damaged: u32,
}

#[derive(Debug)]
struct Frame {
    start: u64,
    end: u64,
    table: Option<u64>,
}

impl Unwinding {
    /// Reads the frame descriptions of `image`.
    pub(crate) fn new(image: &Image) -> Unwinding {
        let mut out = Unwinding::default();
        let Some(section) = image.elf().section(".eh_frame") else { return out };
        let bytes = image.bytes().get(section.file.clone()).unwrap_or_default();
        let frames = gimli::EhFrame::new(bytes, LittleEndian);
        let bases = gimli::BaseAddresses::default().set_eh_frame(section.vaddr);
        let mut entries = frames.entries(&bases);
        loop {
            match entries.next() {
                Ok(Some(gimli::CieOrFde::Fde(partial))) => {
                    match partial.parse(|frames, bases, offset| frames.cie_from_offset(bases, offset)) {
                        Ok(fde) => out.frames.push(Frame {
                            start: fde.initial_address(),
                            end: fde.initial_address().saturating_add(fde.len()),
                            table: match fde.lsda() {
                                Some(Pointer::Direct(table)) => Some(table),
                                // Through a pointer that the loader fills in: nobody writes that.
                                _ => None,
                            },
                        }),
                        Err(_) => out.damaged += 1,
                    }
                }
                Ok(Some(gimli::CieOrFde::Cie(_))) => {}
                Ok(None) => break,
                Err(_) => {
                    out.damaged += 1;
                    break;
                }
            }
        }
        out.frames.sort_by_key(|frame| frame.start);
        out
    }

    /// The calls of the code from `start` on that have landing pads.
    pub(crate) fn pads(&self, image: &Image, start: u64) -> Pads {
        let after = self.frames.partition_point(|frame| frame.start <= start);
        let frame = after.checked_sub(1).and_then(|at| self.frames.get(at)).filter(|frame| start < frame.end);
        let Some((frame, table)) = frame.and_then(|frame| Some((frame, frame.table?))) else {
            return Pads { calls: None };
        };
        let rest = table.checked_sub(image.base()).and_then(|offset| image.loaded_from(offset));
        Pads { calls: rest.and_then(|rest| call_sites(rest, table, frame.start)) }
    }
}

/// The landing pads of one range of code.
#[derive(Debug)]
pub(crate) struct Pads {
    /// By address; `None` where there is no table, or none that can be read.
    calls: Option<Vec<Row>>,
}

/// Calls with the same landing pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    /// The first address.
    start: u64,
    /// One past the last.
    end: u64,
    /// 0 for none.
    pad: u64,
    /// Whether the pad is entered whatever is thrown: it cleans up.
    always: bool,
}

impl Pads {
    /// What happens when the call at this address throws.
    pub(crate) fn at(&self, call: u64) -> Landing {
        let Some(calls) = &self.calls else { return Landing::Outside };
        let after = calls.partition_point(|row| row.start <= call);
        match after.checked_sub(1).and_then(|at| calls.get(at)).filter(|row| call < row.end) {
            None => Landing::Nowhere,
            Some(Row { pad: 0, .. }) => Landing::Outside,
            Some(Row { pad, always, .. }) => Landing::Pad { at: *pad, always: *always },
        }
    }

    /// Every landing pad.
    pub(crate) fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.calls.iter().flatten().map(|row| row.pad).filter(|pad| *pad != 0)
    }
}

/// The call-site table at the begin of `bytes`, which lie at `vaddr` and belong to the code at `function`.
fn call_sites(bytes: &[u8], vaddr: u64, function: u64) -> Option<Vec<Row>> {
    let mut input = EndianSlice::new(bytes, LittleEndian);
    let encoding = input.read_u8().ok()?;
    let pads_from = if encoding == OMITTED { function } else { encoded(&mut input, encoding, vaddr.wrapping_add(1))? };
    if input.read_u8().ok()? != OMITTED {
        input.read_uleb128().ok()?;
    }
    let encoding = input.read_u8().ok()?;
    let length = usize::try_from(input.read_uleb128().ok()?).ok()?;
    let mut input = input.split(length).ok()?;
    let mut out = Vec::new();
    while !input.is_empty() {
        let start = function.checked_add(encoded(&mut input, encoding, 0)?)?;
        let length = encoded(&mut input, encoding, 0)?;
        let pad = encoded(&mut input, encoding, 0)?;
        let always = input.read_uleb128().ok()? == 0;
        let pad = if pad == 0 { 0 } else { pads_from.checked_add(pad)? };
        out.push(Row { start, end: start.checked_add(length)?, pad, always });
    }
    out.sort_unstable();
    Some(out)
}

const OMITTED: u8 = 0xff;

/// A value in one of the encodings of `DW_EH_PE`, where `here` is its own address.
fn encoded(input: &mut EndianSlice<'_, LittleEndian>, encoding: u8, here: u64) -> Option<u64> {
    let value = match encoding & 15 {
        0 | 4 => input.read_u64().ok()?,
        1 => input.read_uleb128().ok()?,
        2 => u64::from(input.read_u16().ok()?),
        3 => u64::from(input.read_u32().ok()?),
        9 => input.read_sleb128().ok()?.cast_unsigned(),
        10 => i64::from(input.read_i16().ok()?).cast_unsigned(),
        11 => i64::from(input.read_i32().ok()?).cast_unsigned(),
        12 => input.read_i64().ok()?.cast_unsigned(),
        _ => return None,
    };
    match encoding & 0x70 {
        0 => Some(value),
        0x10 => Some(here.wrapping_add(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_find_their_pads() {
        // No base of its own, no types; calls in ULEB128: 0..4 leaves, 8..12 lands at 0x20.
        let table = [0xff, 0xff, 0x01, 8, 0, 4, 0, 0, 8, 4, 0x20, 1];
        let pads = Pads { calls: call_sites(&table, 0x9000, 0x1000) };
        let rows = [
            (0x1000, Landing::Outside),
            (0x1003, Landing::Outside),
            (0x1004, Landing::Nowhere),
            (0x1008, Landing::Pad { at: 0x1020, always: false }),
            (0x100c, Landing::Nowhere),
        ];
        for (call, landing) in rows {
            assert_eq!(pads.at(call), landing, "{call:#x}");
        }
        assert_eq!(pads.all().collect::<Vec<u64>>(), [0x1020]);
    }

    #[test]
    fn pads_may_count_from_elsewhere() {
        // The base is 16 before its own place, relative to it; a type table of 5 bytes; calls in four bytes.
        let mut table = vec![0x1b, 0xf0, 0xff, 0xff, 0xff, 0x9b, 5, 0x03, 13];
        for word in [4_u32, 4, 0x40] {
            table.extend(word.to_le_bytes());
        }
        table.push(0);
        assert_eq!(
            call_sites(&table, 0x9000, 0x1000),
            Some(vec![Row { start: 0x1004, end: 0x1008, pad: 0x9001 - 16 + 0x40, always: true }])
        );
    }

    #[test]
    fn a_damaged_table_is_none() {
        for cut in 0..11 {
            let table = [0xff, 0xff, 0x01, 8, 0, 4, 0, 0, 8, 4, 0x20, 1];
            assert_eq!(call_sites(&table[..cut], 0x9000, 0x1000), None, "{cut}");
        }
        assert_eq!(call_sites(&[0x55, 0, 0xff, 1, 0], 0x9000, 0x1000), None);
    }
}
