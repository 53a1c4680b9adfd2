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
use crate::steer::Steer;

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
    /// The legs of a course, and what the spec says after them.
    Steer = 5, "steer";
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
    /// See [`steer`](crate::steer).
    Steer(Steer<'a>),
    /// See [`replay`](crate::replay).
    Replay(Replay<'a>),
}

impl<'a> Chooser<'a> {
    /// The strategy of a spec at the start of a run. [`StrategyKind::Replay`] reads the script as
    /// switches, [`StrategyKind::Steer`] as legs.
    pub fn new(spec: &Spec, script: Script<'a>) -> Self {
        match spec.kind {
            StrategyKind::Random => Chooser::Random(Random::new(spec.seed)),
            StrategyKind::Pct => Chooser::Pct(Pct::new(spec.seed, spec.depth, spec.length)),
            StrategyKind::Pos => Chooser::Pos(Pos::new(spec.seed)),
            StrategyKind::RoundRobin => Chooser::RoundRobin(RoundRobin::new(spec.quantum)),
            StrategyKind::Steer => Chooser::Steer(Steer::new(script, spec.seed)),
            StrategyKind::Replay => Chooser::Replay(Replay::new(script, spec.matching)),
        }
    }

    /// Who runs next: an enabled thread. If none is, there is nothing to ask, and the answer is the
    /// current thread.
    pub fn choose(&mut self, moment: &Moment, threads: &mut impl Threads) -> ThreadIx {
        let choice = self.ask(moment, threads);
        // No strategy answers with a thread that cannot run; the guest would hang if one did.
        if threads.is_enabled(choice) { choice } else { default_choice(moment, threads) }
    }

    fn ask(&mut self, moment: &Moment, threads: &mut impl Threads) -> ThreadIx {
        match self {
            Chooser::Random(random) => random.choose(moment, threads),
            Chooser::Pct(pct) => pct.choose(moment, threads),
            Chooser::Pos(pos) => pos.choose(moment, threads),
            Chooser::RoundRobin(round_robin) => round_robin.choose(moment, threads),
            Chooser::Steer(steer) => steer.choose(moment, threads),
            Chooser::Replay(replay) => replay.choose(moment, threads),
        }
    }

    /// The course, where this is one.
    pub fn as_steer(&self) -> Option<&Steer<'a>> {
        match self {
            Chooser::Steer(steer) => Some(steer),
            _ => None,
        }
    }

    /// The replay, where this is one.
    pub fn as_replay(&self) -> Option<&Replay<'a>> {
        match self {
            Chooser::Replay(replay) => Some(replay),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::sim::{End, Op, private, programs, run, run_spec, specs};

    #[test]
    fn kinds_keep_their_numbers_and_names() {
        for (number, kind) in (0_u8..).zip(StrategyKind::ALL) {
            assert_eq!((*kind as u8, StrategyKind::from_u8(number)), (number, Some(*kind)));
            assert_eq!(StrategyKind::from_name(kind.name()), Some(*kind));
        }
        assert_eq!((StrategyKind::from_u8(200), StrategyKind::from_name("dfs")), (None, None));
    }

    #[test]
    fn a_spec_keeps_its_bytes() {
        let spec = Spec {
            kind: StrategyKind::Pos,
            seed: 0x0102_0304_0506_0708,
            depth: 9,
            length: 10,
            quantum: 11,
            matching: Matching::InOrder,
        };
        let mut bytes = [0; Spec::BYTES];
        bytes[..8].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        (bytes[8], bytes[16], bytes[20], bytes[24], bytes[25]) = (10, 9, 11, 3, 1);
        assert_eq!(spec.to_bytes(), bytes);
        assert_eq!(Spec::from_bytes(&bytes), Some(spec));
        bytes[24] = 99;
        assert_eq!(Spec::from_bytes(&bytes), None);
    }

    fn every_kind() -> impl Iterator<Item = Spec> {
        let seeds = |kind| (0..200).map(move |seed| Spec { kind, seed, length: 100, ..Spec::default() });
        StrategyKind::ALL.iter().copied().flat_map(seeds)
    }

    #[test]
    fn who_spins_does_not_starve_the_others() {
        let spinners = |count: usize| vec![vec![Op::Spin(0)]; count];
        let setter = || vec![[private(1, 10), vec![Op::Read(0), Op::Write(0)]].concat()];
        let relay = vec![vec![Op::Spin(1), Op::Write(0)], vec![Op::Spin(2), Op::Write(1)], vec![Op::Write(2)]];
        let programs: [Vec<Vec<Op>>; 4] = [
            [spinners(1), setter()].concat(),
            [spinners(3), setter()].concat(),
            [setter(), spinners(3)].concat(),
            [spinners(1), relay.clone()].concat(),
        ];
        for program in &programs {
            for spec in every_kind() {
                let run = run_spec(program, &spec);
                assert_eq!(run.end, End::Done, "{spec:?}");
                assert!(run.log.len() < 200, "{spec:?}: {} steps", run.log.len());
            }
        }
    }

    proptest! {
        #[test]
        fn only_enabled_threads_are_chosen(program in programs(), spec in specs()) {
            let mut chooser = Chooser::new(&spec, Script::EMPTY);
            // Sim::go checks; past the guard in `choose`, so that the guard has nothing to do.
            run(&program, |moment, sim| chooser.ask(moment, sim));
        }

        #[test]
        fn a_seed_decides_the_run(program in programs(), spec in specs()) {
            prop_assert_eq!(run_spec(&program, &spec), run_spec(&program, &spec));
        }

        #[test]
        fn objects_matter_only_by_being_the_same(program in programs(), spec in specs(), shift in 1..u64::MAX / 2) {
            struct Shifted<'a, 'p>(&'a mut crate::sim::Sim<'p>, u64);
            impl Threads for Shifted<'_, '_> {
                fn enabled_after(&self, after: Option<ThreadIx>) -> Option<ThreadIx> {
                    self.0.enabled_after(after)
                }
                fn pending(&self, thread: ThreadIx) -> crate::Pending {
                    let pending = self.0.pending(thread);
                    crate::Pending { object: (pending.object + self.1).rotate_left(7), ..pending }
                }
                fn operation(&self, thread: ThreadIx) -> u32 {
                    self.0.operation(thread)
                }
                fn note(&self, thread: ThreadIx) -> u64 {
                    self.0.note(thread)
                }
                fn set_note(&mut self, thread: ThreadIx, note: u64) {
                    self.0.set_note(thread, note);
                }
            }
            let mut chooser = Chooser::new(&spec, Script::EMPTY);
            let shifted = run(&program, |moment, sim| chooser.choose(moment, &mut Shifted(sim, shift)));
            prop_assert_eq!(shifted, run_spec(&program, &spec));
        }
    }
}
