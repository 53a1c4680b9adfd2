//! Announcements: one word for each bucket of addresses, which says who is about to access what.
//!
//! A word holds everything that decides whether an access conflicts, so one load answers the common question (is
//! anybody near?) and one compare-exchange settles the rare one (did I catch them in the act?). Whatever else belongs to an
//! announcement lies beside it and is touched only by who has pinned the word.
//!
//! ```text
//!  empty ──announce──▶ filling ──▶ standing ──withdraw──▶ lingering ──▶ empty
//!    ▲                                │ met                  │ met          (a near miss)
//!    └────────── owner ── met ◀───────┘◀─────────────────────┘
//! ```
//!
//! Buckets are cache lines by address. An access that reaches over the end of its line is announced for the part in its
//! first line, and looks at all lines that it touches: no overlap is missed that is announced at all.

use core::sync::atomic::{AtomicU64, Ordering};

/// Buckets. Also in the entries' machine code.
pub const BUCKETS: usize = 1024;
/// Bytes of a line, as a shift. Also in the entries' machine code.
pub const LINE_SHIFT: u32 = 6;
const LINE: u64 = 1 << LINE_SHIFT;

/// Somebody is about to access it.
const STANDING: u64 = 1 << 63;
/// Somebody was, a moment ago.
const LINGERING: u64 = 1 << 62;
const WRITES: u64 = 1 << 61;
const ATOMIC: u64 = 1 << 60;
const SIZE_SHIFT: u32 = 48;
const ADDR: u64 = (1 << SIZE_SHIFT) - 1;
/// Nobody.
const EMPTY: u64 = 0;
/// Being written by its owner.
const FILLING: u64 = 1;
/// Met by another thread, which looks at it.
const MET: u64 = 2;

/// The words.
pub static TABLE: [AtomicU64; BUCKETS] = [const { AtomicU64::new(EMPTY) }; BUCKETS];

/// An access to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The first byte.
    pub addr: u64,
    /// How many.
    pub size: u64,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it is an atomic operation.
    pub atomic: bool,
}

impl Access {
    /// The part in its first line, which is what is announced; `None` where that cannot be said in a word.
    pub fn announced(self) -> Option<Access> {
        let size = self.size.min(LINE - self.addr % LINE);
        (size > 0 && self.addr.checked_add(size)? <= ADDR).then_some(Access { size, ..self })
    }

    fn word(self) -> u64 {
        let flags = if self.writes { WRITES } else { 0 } | if self.atomic { ATOMIC } else { 0 };
        flags | (self.size - 1) << SIZE_SHIFT | self.addr & ADDR
    }

    fn of(word: u64) -> Access {
        Access {
            addr: word & ADDR,
            size: (word >> SIZE_SHIFT) % LINE + 1,
            writes: word & WRITES != 0,
            atomic: word & ATOMIC != 0,
        }
    }

    /// Whether the two touch a common byte, at least one writes, and not both are atomic operations.
    pub fn conflicts(self, other: Access) -> bool {
        let overlap =
            self.addr < other.addr.saturating_add(other.size) && other.addr < self.addr.saturating_add(self.size);
        overlap && (self.writes || other.writes) && !(self.atomic && other.atomic)
    }
}

/// The bucket of an address.
pub fn bucket(addr: u64) -> usize {
    (addr >> LINE_SHIFT) as usize % BUCKETS
}

fn word(bucket: usize) -> &'static AtomicU64 {
    &TABLE[bucket % BUCKETS]
}

/// What stands in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum There {
    /// Nothing to meet.
    Nothing,
    /// An announcement.
    Standing(Seen),
    /// One that was withdrawn.
    Lingering(Seen),
}

/// An announcement as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    word: u64,
    /// What it is about.
    pub access: Access,
}

/// Looks at a bucket.
pub fn look(bucket: usize) -> There {
    // Coherence alone decides here: where an announcement was withdrawn before something that happened before this
    // load, the load cannot see it any more.
    let now = word(bucket).load(Ordering::Acquire);
    let seen = Seen { word: now, access: Access::of(now) };
    match now {
        _ if now & STANDING != 0 => There::Standing(seen),
        _ if now & LINGERING != 0 => There::Lingering(seen),
        _ => There::Nothing,
    }
}

/// Pins an announcement that was seen, for who met it. False where it is gone.
pub fn meet(bucket: usize, seen: Seen) -> bool {
    // Acquires what `stand` released; `withdraw` fails from now on.
    word(bucket).compare_exchange(seen.word, MET, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Empties a bucket that the caller has pinned.
pub fn clear(bucket: usize) {
    word(bucket).store(EMPTY, Ordering::Release);
}

/// Puts back what the caller had pinned by [`meet`].
pub fn put_back(bucket: usize, seen: Seen) {
    word(bucket).store(seen.word, Ordering::Release);
}

/// Takes a bucket for an announcement to be made. False where one stands there already.
pub fn take(bucket: usize) -> bool {
    let now = word(bucket).load(Ordering::Relaxed);
    (now == EMPTY || now & LINGERING != 0)
        && word(bucket).compare_exchange(now, FILLING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// The announcement stands. The caller has taken the bucket, and `access` is [`Access::announced`].
pub fn stand(bucket: usize, access: Access) {
    word(bucket).store(STANDING | access.word(), Ordering::Release);
}

/// Leaves a mark instead of an announcement; the caller has taken the bucket.
pub fn linger(bucket: usize, access: Access) {
    word(bucket).store(LINGERING | access.word(), Ordering::Release);
}

/// Withdraws an announcement; false where somebody met it.
pub fn withdraw(bucket: usize, access: Access) -> bool {
    let now = STANDING | access.word();
    word(bucket).compare_exchange(now, LINGERING | access.word(), Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Nobody announces anything: in a forked child.
pub fn clear_all() {
    for word in &TABLE {
        word.store(EMPTY, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    fn access(addr: u64, size: u64, writes: bool, atomic: bool) -> Access {
        Access { addr, size, writes, atomic }
    }

    #[test]
    fn words_hold_accesses() {
        for (addr, size) in [(0, 1), (0x7fff_ffff_fff8, 8), (0x1001, 63), (0x40, 64)] {
            for (writes, atomic) in [(false, false), (true, false), (false, true), (true, true)] {
                let access = access(addr, size, writes, atomic);
                assert_eq!(Access::of(STANDING | access.word()), access);
            }
        }
    }

    #[test]
    fn conflicts_are_exact_to_the_byte() {
        // Against the plain definition, over all small sizes and distances.
        for one in 0..24_u64 {
            for size in 1..20_u64 {
                for two in 0..24_u64 {
                    for other in [1, 2, 4, 8, 16] {
                        let common = (one..one + size).any(|byte| (two..two + other).contains(&byte));
                        let (a, b) = (access(one, size, true, false), access(two, other, false, false));
                        assert_eq!(a.conflicts(b), common, "{a:?} {b:?}");
                        assert_eq!(b.conflicts(a), common);
                    }
                }
            }
        }
        let at = |writes, atomic| access(8, 4, writes, atomic);
        assert!(!at(false, false).conflicts(at(false, false)), "reads do not race");
        assert!(!at(true, true).conflicts(at(true, true)), "atomic operations do not race");
        assert!(at(true, true).conflicts(at(false, false)));
        assert!(at(true, false).conflicts(at(false, true)));
    }

    #[test]
    fn what_is_announced_stays_in_its_line() {
        assert_eq!(access(60, 16, true, false).announced(), Some(access(60, 4, true, false)));
        assert_eq!(access(64, 4096, true, false).announced(), Some(access(64, 64, true, false)));
        assert_eq!(access(0, 0, true, false).announced(), None);
        assert_eq!(access(u64::MAX - 3, 4, true, false).announced(), None);
    }

    // One test for all: the table is shared.
    #[test]
    fn an_announcement_lives_as_drawn() {
        let access = access(0x5000_0040, 4, true, false);
        let at = bucket(access.addr);
        assert_eq!(look(at), There::Nothing);
        assert!(take(at));
        assert!(!take(at), "it is being filled");
        assert_eq!(look(at), There::Nothing, "and cannot be met yet");
        stand(at, access);
        assert!(!take(at));
        let There::Standing(seen) = look(at) else { panic!("it stands") };
        assert_eq!(seen.access, access);
        assert!(withdraw(at, access));
        assert!(!meet(at, seen), "it is withdrawn");
        let There::Lingering(mark) = look(at) else { panic!("it lingers") };
        assert!(take(at), "a mark gives way");
        assert!(!meet(at, mark));
        stand(at, access);
        let There::Standing(seen) = look(at) else { panic!("it stands") };
        assert!(meet(at, seen));
        assert!(!meet(at, seen), "only one meets it");
        assert!(!withdraw(at, access) && !take(at));
        clear(at);
        assert_eq!(look(at), There::Nothing);
    }

    #[test]
    fn of_two_who_race_to_withdraw_and_meet_one_wins() {
        let access = access(0x6000_0080, 8, true, false);
        let at = bucket(access.addr);
        for _ in 0..2_000 {
            assert!(take(at));
            stand(at, access);
            let other = std::thread::spawn(move || match look(at) {
                There::Standing(seen) => meet(at, seen),
                _ => false,
            });
            let withdrawn = withdraw(at, access);
            let met = other.join().expect("it ends");
            assert!(withdrawn != met, "withdrawn {withdrawn}, met {met}");
            clear(at);
        }
    }
}
