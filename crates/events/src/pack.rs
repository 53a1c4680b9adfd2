//! How events are packed into 64-bit words.
//!
//! A thread's stream is a sequence of words; the low two bits say what a word is. A zero word is
//! padding, so a buffer that starts out zeroed needs no length: whatever was stored before a
//! `kill -9` is there to read.
//!
//! ```text
//! short access   addr:32 | time:13 | site:14 | region:3 | tag:2     tag 1 = timed, 3 = between two timed ones
//! short range    addr:32 | write:1 | size:12 | site:14 | region:3 | tag:2=3   untimed; write and size not both 0
//! wide record    payload:38 | time:13 | extra:4 | kind:7 | tag:2=2  followed by `extra` words
//! small record   value:56 | sub:6 | tag:2=0
//! ```
//!
//! Time is the time-stamp counter in units of [`TICK`]; 13 bits of it go into each record and
//! [`Small::Epoch`] records carry the rest whenever it changes, so decoding needs no guessing.
//! A dense burst of accesses is timed only now and then (reading the counter costs more than
//! storing the event); an untimed access lies between its timed neighbours. It has its *extent*, what it
//! reads or writes where that is not the site's to say, in the bits of the time ([`extent`]); a range that is
//! timed or long is a wide record.
//!
//! The upper half of an address is one of eight *regions* of the thread ([`Small::Region`]).
//! Calling contexts are deltas ([`Small::Pop`], [`Small::Push`]) written only when an event needs
//! them: a function that is entered and left without an event costs nothing in the trace.
//!
//! Where a wide record has an address and a number ([`EventKind::has_number`]), the number is in the upper 16
//! bits of the address' word if it fits there, else in a word of its own ([`fold`]).
//!
//! A wide record with one extra word is remembered, by writer and reader alike, in one of [`MEMO`] places
//! that its content chooses ([`memo_slot`]); the same event at the same place again, a lock taken in a
//! loop say, is a single word ([`Small::Repeat`]). A chunk starts with none remembered.

use crate::event::EventKind;

/// log2 of the time unit in counter ticks.
pub const TICK_SHIFT: u32 = 5;
/// The time unit in counter ticks.
pub const TICK: u64 = 1 << TICK_SHIFT;
/// Bits of time in a record.
pub const TIME_BITS: u32 = 13;
/// Counter ticks per epoch are `1 << EPOCH_SHIFT`.
pub const EPOCH_SHIFT: u32 = TICK_SHIFT + TIME_BITS;
/// Bits of a site id that has a short form.
pub const SHORT_SITE_BITS: u32 = 14;
/// Bits of a size that has a short form.
pub const SHORT_SIZE_BITS: u32 = 12;
/// Regions of a thread.
pub const REGIONS: usize = 8;
/// Bits of a site id in a wide record.
pub const SITE_BITS: u32 = 24;
/// Records that a stream remembers.
pub const MEMO: usize = 64;
/// Most extra words of a record.
pub const MAX_EXTRA: usize = 15;
/// The payload of an event whose code address lies in no known module.
pub const NO_PC: u64 = (1 << 38) - 1;

const TAG_TIMED: u64 = 1;
const TAG_WIDE: u64 = 2;
const TAG_UNTIMED: u64 = 3;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const PAYLOAD_MASK: u64 = (1 << 38) - 1;
const SMALL_MASK: u64 = (1 << 56) - 1;
const EXTENT_WRITE: u16 = 1 << SHORT_SIZE_BITS;

const _: () = assert!(SHORT_SIZE_BITS + 1 == TIME_BITS, "an extent takes the place of a time");

/// The time field of a counter reading.
#[inline]
pub const fn time_field(tsc: u64) -> u64 {
    tsc >> TICK_SHIFT & TIME_MASK
}

/// The epoch of a counter reading.
#[inline]
pub const fn epoch_of(tsc: u64) -> u64 {
    tsc >> EPOCH_SHIFT
}

/// A counter reading, to the resolution of [`TICK`], from an epoch and a time field.
pub const fn tsc_of(epoch: u64, time: u16) -> u64 {
    (epoch << TIME_BITS | time as u64) << TICK_SHIFT
}

/// The region slot that an address' upper half maps to.
#[inline]
pub const fn region_slot(high: u32) -> u32 {
    (high ^ high >> 3 ^ high >> 8) & (REGIONS as u32 - 1)
}

/// Packs an untimed short access; `site` must be below `1 << SHORT_SITE_BITS`.
#[inline]
pub const fn untimed(site: u32, region: u32, addr: u64) -> u64 {
    addr << 32 | (site as u64) << 5 | (region as u64) << 2 | TAG_UNTIMED
}

/// The extent of a range that has a short form; else 0, which is that of an access whose site says it.
#[inline]
pub const fn extent(size: u64, write: bool) -> u16 {
    if size == 0 || size >> SHORT_SIZE_BITS != 0 {
        return 0;
    }
    size as u16 | if write { EXTENT_WRITE } else { 0 }
}

/// The inverse of [`extent`]: size and whether it is a write.
pub const fn split_extent(extent: u16) -> (u64, bool) {
    ((extent & (EXTENT_WRITE - 1)) as u64, extent & EXTENT_WRITE != 0)
}

/// Packs an untimed short range; `site` must be below `1 << SHORT_SITE_BITS`, and an `extent` of 0 makes it an access.
#[inline]
pub const fn untimed_range(site: u32, region: u32, addr: u64, extent: u16) -> u64 {
    untimed(site, region, addr) | (extent as u64 & TIME_MASK) << 19
}

/// Packs a timed short access; `site` must be below `1 << SHORT_SITE_BITS`.
#[inline]
pub const fn timed(site: u32, region: u32, addr: u64, tsc: u64) -> u64 {
    addr << 32 | time_field(tsc) << 19 | (site as u64) << 5 | (region as u64) << 2 | TAG_TIMED
}

/// Packs the first word of a wide record with as many extra words as its kind has at most.
#[inline]
pub const fn wide(kind: EventKind, tsc: u64, payload: u64) -> u64 {
    wide_with(kind, kind.words(), tsc, payload)
}

/// Packs the first word of a wide record with this many extra words.
#[inline]
pub const fn wide_with(kind: EventKind, extra: u8, tsc: u64, payload: u64) -> u64 {
    (payload & PAYLOAD_MASK) << 26 | time_field(tsc) << 13 | (extra as u64) << 9 | (kind as u64) << 2 | TAG_WIDE
}

/// The first word of a wide record without its time: what a memo compares.
#[inline]
pub const fn timeless(first: u64) -> u64 {
    first & !(TIME_MASK << 13)
}

/// The place where a record with one extra word is remembered.
#[inline]
pub const fn memo_slot(timeless: u64, extra: u64) -> u32 {
    let mixed = timeless.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ extra.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    (mixed >> 58) as u32
}

/// A remembered first word with a time put back.
pub const fn with_time(timeless: u64, time: u16) -> u64 {
    timeless | (time as u64 & TIME_MASK) << 13
}

/// An object address with a 16-bit argument.
#[inline]
pub const fn object(addr: u64, arg: u16) -> u64 {
    addr & 0xffff_ffff_ffff | (arg as u64) << 48
}

/// The inverse of [`object`].
pub const fn split_object(word: u64) -> (u64, u16) {
    (word & 0xffff_ffff_ffff, (word >> 48) as u16)
}

/// Puts a number that fits beside its address; how many extra words the record then has.
#[inline]
pub const fn fold(kind: EventKind, words: &mut [u64; 3]) -> u8 {
    if kind.has_number() && words[1] >> 16 == 0 {
        words[0] = object(words[0], words[1] as u16);
        return 1;
    }
    if kind.least_words() == 1 && words[1] == 0 { 1 } else { kind.words() }
}

/// The inverse of [`fold`]; false where the record has too few words.
pub const fn unfold(kind: EventKind, extra: u8, words: &mut [u64; 3]) -> bool {
    if kind.has_number() && extra == 1 {
        let (addr, number) = split_object(words[0]);
        words[0] = addr;
        words[1] = number as u64;
        return true;
    }
    extra >= kind.least_words()
}

/// A code address as a payload: module and offset.
#[inline]
pub const fn pc_payload(module: u32, offset: u32) -> u64 {
    (module as u64 & 63) << 32 | offset as u64
}

/// The inverse of [`pc_payload`]; `None` where no module was known.
pub const fn split_pc(payload: u64) -> Option<(u32, u32)> {
    if payload == NO_PC { None } else { Some(((payload >> 32) as u32, payload as u32)) }
}

/// Bit 24 of a site payload: the direction of a range (1 = write), or a failed compare-exchange.
pub const PAYLOAD_FLAG: u64 = 1 << SITE_BITS;

/// A record that is not an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Small {
    /// The upper part of the time of all records that follow.
    Epoch(u64),
    /// The upper half of addresses in this region from here on.
    Region {
        /// Which of the eight.
        slot: u32,
        /// Address bits 32 to 63.
        high: u32,
    },
    /// This many frames were left.
    Pop(u32),
    /// Frames were left, then one was entered.
    Push {
        /// How many were left; at most 255.
        pops: u8,
        /// The return address, of 48 bits.
        pc: u64,
    },
    /// This many events of this thread were lost here, for the reason that the counters give.
    Lost(u64),
    /// Frames were left, then a remembered record happened again.
    Repeat {
        /// Which record.
        slot: u8,
        /// Its time field.
        time: u16,
        /// How many frames were left.
        pops: u8,
    },
    /// Under control: the events that follow are of this operation of the thread, counted from 1.
    Operation(u32),
    /// Under control: a half of what the memory of the next event held before it. The upper half is left out where it
    /// is 0.
    Before {
        /// Which half.
        upper: bool,
        /// Its 32 bits.
        half: u32,
    },
}

impl Small {
    /// The packed form.
    #[inline]
    pub const fn pack(self) -> u64 {
        let (sub, value) = match self {
            Small::Epoch(epoch) => (1, epoch),
            Small::Region { slot, high } => (2, (high as u64) << 8 | slot as u64),
            Small::Pop(count) => (3, count as u64),
            Small::Push { pops, pc } => (4, pc & 0xffff_ffff_ffff | (pops as u64) << 48),
            Small::Lost(count) => (5, count),
            Small::Repeat { slot, time, pops } => {
                (6, slot as u64 & 63 | (time as u64 & TIME_MASK) << 6 | (pops as u64) << 19)
            }
            Small::Operation(number) => (7, number as u64),
            Small::Before { upper, half } => (8, (half as u64) << 1 | upper as u64),
        };
        (value & SMALL_MASK) << 8 | sub << 2
    }
}

/// One word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Nothing was stored here.
    Padding,
    /// A short access; the high half of the address is the region's.
    Short {
        /// The site.
        site: u32,
        /// The region slot.
        region: u32,
        /// The low half of the address.
        low: u32,
        /// The time field, where it was taken.
        time: Option<u16>,
    },
    /// An untimed short range; the high half of the address is the region's.
    ShortRange {
        /// The site.
        site: u32,
        /// The region slot.
        region: u32,
        /// The low half of the address.
        low: u32,
        /// Size and direction ([`split_extent`]).
        extent: u16,
    },
    /// The first word of a wide record.
    Wide {
        /// The kind's number; may be one that this version does not know.
        kind: u8,
        /// How many words follow.
        extra: u8,
        /// The time field.
        time: u16,
        /// Site or code address.
        payload: u64,
    },
    /// A record that is not an event.
    Small(Small),
    /// A small record of an unknown sort.
    Unknown(u64),
}

impl Word {
    /// Takes a word apart. Total: every word has a reading.
    pub const fn unpack(word: u64) -> Word {
        match word & 3 {
            tag @ (TAG_TIMED | TAG_UNTIMED) => {
                let site = (word >> 5) as u32 & ((1 << SHORT_SITE_BITS) - 1);
                let region = (word >> 2) as u32 & (REGIONS as u32 - 1);
                let low = (word >> 32) as u32;
                match (word >> 19 & TIME_MASK) as u16 {
                    time if tag == TAG_TIMED => Word::Short { site, region, low, time: Some(time) },
                    0 => Word::Short { site, region, low, time: None },
                    extent => Word::ShortRange { site, region, low, extent },
                }
            }
            TAG_WIDE => Word::Wide {
                kind: (word >> 2 & 127) as u8,
                extra: (word >> 9 & 15) as u8,
                time: (word >> 13 & TIME_MASK) as u16,
                payload: word >> 26,
            },
            _ => {
                let value = word >> 8;
                match word >> 2 & 63 {
                    _ if word == 0 => Word::Padding,
                    1 => Word::Small(Small::Epoch(value)),
                    2 => Word::Small(Small::Region { slot: value as u32 & 7, high: (value >> 8) as u32 }),
                    3 => Word::Small(Small::Pop(value as u32)),
                    4 => Word::Small(Small::Push { pops: (value >> 48) as u8, pc: value & 0xffff_ffff_ffff }),
                    5 => Word::Small(Small::Lost(value)),
                    6 => Word::Small(Small::Repeat {
                        slot: value as u8 & 63,
                        time: (value >> 6 & TIME_MASK) as u16,
                        pops: (value >> 19) as u8,
                    }),
                    7 => Word::Small(Small::Operation(value as u32)),
                    8 => Word::Small(Small::Before { upper: value & 1 != 0, half: (value >> 1) as u32 }),
                    _ => Word::Unknown(word),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::KINDS;

    #[test]
    fn short_accesses_round_trip() {
        let addr = 0x7fff_8123_4567_u64;
        for site in [0, 1, 777, (1 << SHORT_SITE_BITS) - 1] {
            for tsc in [0, TICK, 0x1234_5678_9abc, u64::MAX] {
                let region = region_slot((addr >> 32) as u32);
                let expect = |time| Word::Short { site, region, low: 0x8123_4567, time };
                assert_eq!(Word::unpack(untimed(site, region, addr)), expect(None));
                assert_eq!(Word::unpack(timed(site, region, addr, tsc)), expect(Some(time_field(tsc) as u16)));
            }
        }
    }

    #[test]
    fn short_ranges_round_trip() {
        let (addr, site) = (0x7fff_8123_4567_u64, (1 << SHORT_SITE_BITS) - 1);
        let region = region_slot((addr >> 32) as u32);
        for size in [1, 2, 8, 24, (1 << SHORT_SIZE_BITS) - 1] {
            for write in [false, true] {
                let extent = extent(size, write);
                assert_eq!(split_extent(extent), (size, write));
                let word = untimed_range(site, region, addr, extent);
                assert_eq!(Word::unpack(word), Word::ShortRange { site, region, low: 0x8123_4567, extent });
            }
        }
        for size in [0, 1 << SHORT_SIZE_BITS, (1 << 32) + 8, u64::MAX] {
            assert_eq!(extent(size, true), 0, "{size} has no short form");
        }
        assert_eq!(untimed_range(site, region, addr, 0), untimed(site, region, addr));
    }

    #[test]
    fn numbers_sit_beside_addresses_where_they_fit() {
        for kind in KINDS {
            for (number, extra) in [(0, 1), (8, 1), (65535, 1), (65536, 2), (u64::MAX, 2)] {
                let extra = match number {
                    _ if kind.has_number() => extra,
                    0 => kind.least_words(),
                    _ => kind.words(),
                };
                let plain = [0x7fff_8123_4567, number, 0];
                let mut words = plain;
                assert_eq!(fold(kind, &mut words), extra, "{kind:?} {number}");
                for missing in words.iter_mut().skip(usize::from(extra)) {
                    *missing = 0;
                }
                assert!(unfold(kind, extra, &mut words));
                if extra > 0 {
                    assert_eq!(words[0], plain[0], "{kind:?} {number}");
                }
                if kind.words() > 1 {
                    assert_eq!(words[1], plain[1], "{kind:?} {number}");
                }
            }
            if kind.words() > 0 {
                assert!(!unfold(kind, 0, &mut [0; 3]), "{kind:?} needs words");
            }
        }
    }

    #[test]
    fn wide_records_round_trip() {
        for kind in KINDS {
            for payload in [0, 1, pc_payload(3, 0xdead_beef), NO_PC] {
                let tsc = 0x0102_0304_0506_u64;
                assert_eq!(
                    Word::unpack(wide(kind, tsc, payload)),
                    Word::Wide { kind: kind as u8, extra: kind.words(), time: time_field(tsc) as u16, payload }
                );
            }
        }
        assert_eq!(split_pc(pc_payload(3, 0xdead_beef)), Some((3, 0xdead_beef)));
        assert_eq!(split_pc(NO_PC), None);
    }

    #[test]
    fn small_records_round_trip_and_are_never_padding() {
        for small in [
            Small::Epoch(0),
            Small::Epoch((1 << 46) - 1),
            Small::Region { slot: 0, high: 0 },
            Small::Region { slot: 7, high: u32::MAX },
            Small::Pop(0),
            Small::Push { pops: 0, pc: 0x7fff_ffff_ffff },
            Small::Push { pops: 255, pc: 0 },
            Small::Lost(9),
            Small::Repeat { slot: 0, time: 0, pops: 0 },
            Small::Repeat { slot: 63, time: 8191, pops: 255 },
            Small::Operation(0),
            Small::Operation(u32::MAX),
            Small::Before { upper: false, half: 0 },
            Small::Before { upper: true, half: u32::MAX },
        ] {
            assert_ne!(small.pack(), 0);
            assert_eq!(Word::unpack(small.pack()), Word::Small(small));
        }
        assert_eq!(Word::unpack(0), Word::Padding);
    }

    #[test]
    fn time_is_epoch_and_field() {
        for tsc in [0, 31, 32, 0x3_ffff, 0x4_0000, 0x1234_5678_9abc] {
            assert_eq!(tsc_of(epoch_of(tsc), time_field(tsc) as u16), tsc & !(TICK - 1));
        }
    }

    #[test]
    fn objects_round_trip() {
        assert_eq!(split_object(object(0x7fff_1234_5678, 0xbeef)), (0x7fff_1234_5678, 0xbeef));
    }
}
