//! What a thread has lately seen of the others: the last few communication events, whatever the address.

use std::fmt;

use serde::Serialize;

/// One communication event, as the thread sees it that has it in its context (section 3.3 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[repr(u8)]
pub enum Comm {
    /// It read what another thread had written.
    LocalRead = 0,
    /// It wrote over what another thread had read or written.
    LocalWrite = 1,
    /// Another thread read what it had written.
    RemoteRead = 2,
    /// Another thread wrote over what it had read or written.
    RemoteWrite = 3,
}

impl Comm {
    const ALL: [Comm; 4] = [Comm::LocalRead, Comm::LocalWrite, Comm::RemoteRead, Comm::RemoteWrite];

    /// The paper's name.
    pub const fn name(self) -> &'static str {
        match self {
            Comm::LocalRead => "LcRd",
            Comm::LocalWrite => "LcWr",
            Comm::RemoteRead => "RmRd",
            Comm::RemoteWrite => "RmWr",
        }
    }

    /// What happened, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Comm::LocalRead => "read from another thread",
            Comm::LocalWrite => "overwrote another thread's data",
            Comm::RemoteRead => "was read by another thread",
            Comm::RemoteWrite => "was overwritten by another thread",
        }
    }
}

/// How many events a context keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Depth(u8);

impl Depth {
    /// Most events.
    pub const MOST: u8 = 8;
    /// None: graphs without context.
    pub const NONE: Depth = Depth(0);

    /// As many events as asked for, at most [`Depth::MOST`].
    pub const fn new(events: u8) -> Option<Depth> {
        if events <= Depth::MOST { Some(Depth(events)) } else { None }
    }

    /// How many.
    pub const fn events(self) -> u8 {
        self.0
    }
}

impl Default for Depth {
    /// The paper's choice (section 6.4).
    fn default() -> Depth {
        Depth(5)
    }
}

/// The last few communication events of a thread, oldest first: two bits each below a mark that says how many there are.
///
/// The paper's shift register has no such mark: there, a thread that has not communicated looks like one that has only
/// read. Invariant: at least the mark is set, at bit 2n for n events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context(u32);

impl Context {
    /// Nothing has happened yet.
    pub const EMPTY: Context = Context(1);

    /// Bits of [`Context::bits`].
    pub const BITS: u32 = 2 * Depth::MOST as u32 + 1;

    /// The context after another event; the oldest goes where there is no room.
    #[must_use]
    pub const fn push(self, event: Comm, depth: Depth) -> Context {
        let mark = 1 << (2 * depth.0 as u32);
        let next = self.0 << 2 | event as u32;
        Context(if next >= mark << 1 { next & (mark - 1) | mark } else { next })
    }

    /// How many events it has.
    pub const fn len(self) -> u32 {
        (31 - self.0.leading_zeros()) / 2
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 1
    }

    /// The events, oldest first.
    pub fn events(self) -> impl Iterator<Item = Comm> {
        let code = move |at: u32| Comm::ALL.get((self.0 >> (2 * at) & 3) as usize).copied();
        (0..self.len()).rev().filter_map(code)
    }

    /// As a number below 2^[`Context::BITS`]; never 0.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The inverse of [`Context::bits`].
    pub const fn from_bits(bits: u32) -> Option<Context> {
        let is_marked = bits != 0 && bits >> Context::BITS == 0 && (31 - bits.leading_zeros()).is_multiple_of(2);
        if is_marked { Some(Context(bits)) } else { None }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({self})")
    }
}

/// `RmRd,RmRd,LcWr`; `-` where it is empty.
impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        for (at, event) in self.events().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { "," }, event.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_papers_example_reads_as_printed() {
        let context = [Comm::RemoteRead, Comm::RemoteRead, Comm::LocalWrite]
            .into_iter()
            .fold(Context::EMPTY, |context, event| context.push(event, Depth::default()));
        assert_eq!(context.to_string(), "RmRd,RmRd,LcWr");
        assert_eq!(Context::EMPTY.to_string(), "-");
    }

    #[test]
    fn without_room_nothing_is_kept() {
        assert_eq!(Context::EMPTY.push(Comm::RemoteWrite, Depth::NONE), Context::EMPTY);
        assert_eq!(Depth::new(9), None);
    }

    proptest! {
        #[test]
        fn it_is_the_tail_of_what_happened(codes in proptest::collection::vec(0_usize..4, 0..20), depth in 0_u8..=8) {
            let all: Vec<Comm> = codes.iter().map(|code| Comm::ALL[*code]).collect();
            let depth = Depth::new(depth).expect("small");
            let context = all.iter().fold(Context::EMPTY, |context, event| context.push(*event, depth));
            let kept = all.len().min(usize::from(depth.events()));
            prop_assert_eq!(context.events().collect::<Vec<_>>(), all[all.len() - kept..].to_vec());
            prop_assert_eq!(Context::from_bits(context.bits()), Some(context));
        }

        #[test]
        fn only_whole_contexts_are_read(bits: u32) {
            if let Some(context) = Context::from_bits(bits) {
                prop_assert_eq!(context.bits(), bits);
                prop_assert!(context.len() <= u32::from(Depth::MOST));
            }
        }
    }
}
