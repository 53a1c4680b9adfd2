//! The strategies as one closed set, chosen by a [`Spec`].

use core::fmt;

use selvedge_events::ThreadIx;
use selvedge_events::bytes::{u32_at, u64_at};

use crate::moment::{Moment, Threads, default_choice};
use crate::pct::Pct;
use crate::pos::Pos;
use crate::random::Random;
use crate::replay::{Matching, Replay, Script};
use crate::round_robin::RoundRobin;

macro_rules! strategies {
    ($($(#[doc = $doc:literal])+ $kind:ident = $code:literal, $name:literal;)*) => {
        /// The strategies.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum StrategyKind {
            $($(#[doc = $doc])+ $kind = $code,)*
            /// The switches of a schedule, and the default policy everywhere else.
            #[default]
            Replay = 0,
        }

        impl StrategyKind {
            /// Every strategy.
            pub const ALL: &[StrategyKind] = &[StrategyKind::Replay, $(StrategyKind::$kind),*];

            /// The strategy with this number.
            pub const fn from_u8(code: u8) -> Option<StrategyKind> {
                match code {
                    0 => Some(StrategyKind::Replay),
                    $($code => Some(StrategyKind::$kind),)*
                    _ => None,
                }
            }

            /// Its name on a command line.
            pub const fn name(self) -> &'static str {
                match self {
                    StrategyKind::Replay => "replay",
                    $(StrategyKind::$kind => $name,)*
                }
            }
        }
    };
}

strategies! {
    /// Each enabled thread with the same chance.
    Random = 1, "random";
    /// Random priorities with a few change points.
    Pct = 2, "pct";
    /// Random priorities of operations.
    Pos = 3, "pos";
    /// Each thread in turn for a number of points.
    RoundRobin = 4, "round-robin";
}

impl StrategyKind {
    /// The strategy with this name.
    pub fn from_name(name: &str) -> Option<StrategyKind> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A strategy and its parameters; each strategy reads those that it has a use for.
///
/// Packed, for plans:
///
/// ```text
/// 0 seed u64   8 length u64   16 depth u32   20 quantum u32   24 kind u8   25 matching u8   26 zero
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Which one.
    pub kind: StrategyKind,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// PCT: ordering constraints of the bugs looked for, up to [`MAX_DEPTH`](crate::pct::MAX_DEPTH).
    pub depth: u32,
    /// PCT: moments that a run is expected to have at most.
    pub length: u64,
    /// Round robin: points of a turn.
    pub quantum: u32,
    /// Replay: when a switch is taken.
    pub matching: Matching,
}

impl Default for Spec {
    fn default() -> Self {
        Self { kind: StrategyKind::Replay, seed: 0, depth: 3, length: 10_000, quantum: 1, matching: Matching::ByThread }
    }
}

impl Spec {
    /// Bytes of the packed form.
    pub const BYTES: usize = 32;

    /// The packed form.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let matching = match self.matching {
            Matching::ByThread => 0,
            Matching::InOrder => 1,
        };
        let fields = self.seed.to_le_bytes().into_iter();
        let fields = fields.chain(self.length.to_le_bytes()).chain(self.depth.to_le_bytes());
        let fields = fields.chain(self.quantum.to_le_bytes()).chain([self.kind as u8, matching]);
        let mut bytes = [0; Self::BYTES];
        for (to, from) in bytes.iter_mut().zip(fields) {
            *to = from;
        }
        bytes
    }

    /// Reads the packed form; `None` for a strategy that this version does not have.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let matching = match bytes.get(25)? {
            0 => Matching::ByThread,
            1 => Matching::InOrder,
            _ => return None,
        };
        Some(Self {
            seed: u64_at(bytes, 0)?,
            length: u64_at(bytes, 8)?,
            depth: u32_at(bytes, 16)?,
            quantum: u32_at(bytes, 20)?,
            kind: StrategyKind::from_u8(*bytes.get(24)?)?,
            matching,
        })
    }
}

/// A strategy at work in one run.
#[derive(Clone, Debug)]
pub enum Chooser<'a> {
    /// See [`random`](crate::random).
    Random(Random),
    /// See [`pct`](crate::pct).
    Pct(Pct),
    /// See [`pos`](crate::pos).
    Pos(Pos),
    /// See [`round_robin`](crate::round_robin).
    RoundRobin(RoundRobin),
    /// See [`replay`](crate::replay).
    Replay(Replay<'a>),
}

impl<'a> Chooser<'a> {
    /// The strategy of a spec at the start of a run. Only [`StrategyKind::Replay`] reads the script.
    pub fn new(spec: &Spec, script: Script<'a>) -> Self {
        match spec.kind {
            StrategyKind::Random => Chooser::Random(Random::new(spec.seed)),
            StrategyKind::Pct => Chooser::Pct(Pct::new(spec.seed, spec.depth, spec.length)),
            StrategyKind::Pos => Chooser::Pos(Pos::new(spec.seed)),
            StrategyKind::RoundRobin => Chooser::RoundRobin(RoundRobin::new(spec.quantum)),
            StrategyKind::Replay => Chooser::Replay(Replay::new(script, spec.matching)),
        }
    }

    /// Who runs next: an enabled thread. If none is, there is nothing to ask, and the answer is the
    /// current thread.
    pub fn choose(&mut self, moment: &Moment, threads: &mut impl Threads) -> ThreadIx {
        let choice = match self {
            Chooser::Random(random) => random.choose(moment, threads),
            Chooser::Pct(pct) => pct.choose(moment, threads),
            Chooser::Pos(pos) => pos.choose(moment, threads),
            Chooser::RoundRobin(round_robin) => round_robin.choose(moment, threads),
            Chooser::Replay(replay) => replay.choose(moment, threads),
        };
        // No strategy answers with a thread that cannot run; the guest would hang if one did.
        if threads.is_enabled(choice) { choice } else { default_choice(moment, threads) }
    }

    /// The replay, where this is one.
    pub fn as_replay(&self) -> Option<&Replay<'a>> {
        match self {
            Chooser::Replay(replay) => Some(replay),
            _ => None,
        }
    }
}
