//! Replaying a schedule: its switches where they apply, the default policy everywhere else.
//!
//! In a faithful run each switch is met in its turn. A run that goes another way is followed as far as
//! it goes, and the first difference is kept: divergence is data, not an error.

use selvedge_events::bytes::array_at;
use selvedge_events::{SiteId, ThreadIx};

use crate::moment::{Moment, OpKind, Threads, default_choice};
use crate::schedule::{Step, Switch};

/// The switches to replay, in whichever form they are at hand.
#[derive(Clone, Copy, Debug)]
pub enum Script<'a> {
    /// Switches by themselves.
    Switches(&'a [Switch]),
    /// Switches with what the thread was about to do there.
    Steps(&'a [Step]),
    /// The same, packed: [`Step::BYTES`] each.
    Packed(&'a [u8]),
}

impl Script<'_> {
    /// A schedule without switches: the default policy.
    pub const EMPTY: Script<'static> = Script::Switches(&[]);

    /// How many switches there are.
    pub fn len(&self) -> usize {
        match self {
            Script::Switches(switches) => switches.len(),
            Script::Steps(steps) => steps.len(),
            Script::Packed(bytes) => bytes.len() / Step::BYTES,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A switch, and what is expected there.
    fn get(&self, at: usize) -> Option<(Switch, Option<Seen>)> {
        let step = match self {
            Script::Switches(switches) => return switches.get(at).map(|switch| (*switch, None)),
            Script::Steps(steps) => *steps.get(at)?,
            Script::Packed(bytes) => Step::from_bytes(&array_at(bytes, at.checked_mul(Step::BYTES)?)?),
        };
        Some((step.switch(), Some(Seen { kind: step.kind, site: step.site })))
    }
}

/// When a switch is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// Only after all those before it.
    InOrder,
    /// As soon as its thread is at its point, in whatever order the threads get there: for schedules from
    /// which switches were taken away.
    #[default]
    ByThread,
}

/// What a thread was about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The kind of operation.
    pub kind: OpKind,
    /// Where in the program.
    pub site: SiteId,
}

/// How a replay went another way than its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divergence {
    /// The thread to switch to could not run; the default policy chose.
    NotEnabled {
        /// The number of the switch in the schedule, from 0.
        index: u32,
        /// The switch.
        switch: Switch,
    },
    /// The thread was about to do something else than when the schedule was made. The switch was taken.
    Unexpected {
        /// The number of the switch in the schedule, from 0.
        index: u32,
        /// The switch.
        switch: Switch,
        /// What it did then.
        expected: Seen,
        /// What it does now.
        came: Seen,
    },
    /// The thread is past the point, and the switch was not taken: the thread was not stuck there, or
    /// (in order) earlier switches were still to come.
    Passed {
        /// The number of the switch in the schedule, from 0.
        index: u32,
        /// The switch.
        switch: Switch,
    },
    /// The run ended before these were met.
    Unreached {
        /// How many.
        count: u32,
    },
}

/// Replays a schedule. A thread's note is the number of its next switch.
#[derive(Clone, Debug)]
pub struct Replay<'a> {
    script: Script<'a>,
    matching: Matching,
    /// The next switch, where they are matched in order.
    cursor: usize,
    /// Switches that were met: taken, or not enabled.
    met: u32,
    passed: u32,
    divergences: u32,
    first: Option<Divergence>,
}

impl<'a> Replay<'a> {
    /// Replays these switches. The points of each thread must ascend.
    pub fn new(script: Script<'a>, matching: Matching) -> Self {
        Self { script, matching, cursor: 0, met: 0, passed: 0, divergences: 0, first: None }
    }

    /// Who runs next.
    pub fn choose(&mut self, moment: &Moment, threads: &mut impl Threads) -> ThreadIx {
        let found = match self.matching {
            Matching::InOrder => self.next_in_order(moment),
            Matching::ByThread => self.next_of_thread(moment, threads),
        };
        let Some((index, switch, expected)) = found else {
            return default_choice(moment, threads);
        };
        self.met = self.met.saturating_add(1);
        if let Some(expected) = expected {
            let pending = threads.pending(moment.current);
            let came = Seen { kind: pending.kind, site: pending.site };
            if came != expected {
                self.diverge(Divergence::Unexpected { index, switch, expected, came });
            }
        }
        if threads.is_enabled(switch.to) {
            return switch.to;
        }
        self.diverge(Divergence::NotEnabled { index, switch });
        default_choice(moment, threads)
    }

    /// Switches that are not met yet.
    pub fn remaining(&self) -> u32 {
        let script = u32::try_from(self.script.len()).unwrap_or(u32::MAX);
        script.saturating_sub(self.met).saturating_sub(self.passed)
    }

    /// How often the run differed so far.
    pub fn divergences(&self) -> u32 {
        self.divergences
    }

    /// The first difference so far.
    pub fn first_divergence(&self) -> Option<Divergence> {
        self.first
    }

    /// The first difference of a run that has ended.
    pub fn verdict(&self) -> Option<Divergence> {
        let unreached = Some(self.remaining()).filter(|count| *count > 0);
        self.first.or(unreached.map(|count| Divergence::Unreached { count }))
    }

    fn next_in_order(&mut self, moment: &Moment) -> Option<(u32, Switch, Option<Seen>)> {
        let (switch, expected) = self.script.get(self.cursor)?;
        if !switch.is_at(moment) {
            return None;
        }
        let index = number(self.cursor);
        self.cursor = self.cursor.saturating_add(1);
        Some((index, switch, expected))
    }

    /// The switch at this moment. All earlier ones of this thread are over, so each thread walks through
    /// the schedule once in a run.
    fn next_of_thread(&mut self, moment: &Moment, threads: &mut impl Threads) -> Option<(u32, Switch, Option<Seen>)> {
        let mut at = usize::try_from(threads.note(moment.current)).unwrap_or(usize::MAX);
        let mut found = None;
        while let Some((switch, expected)) = self.script.get(at) {
            let mine = switch.thread == moment.current;
            if mine && switch.point > moment.point {
                break;
            }
            if mine && switch.is_at(moment) {
                found = Some((number(at), switch, expected));
                at = at.saturating_add(1);
                break;
            }
            if mine && switch.point == moment.point {
                // Stuck is yet to come, perhaps.
                break;
            }
            if mine {
                self.passed = self.passed.saturating_add(1);
                self.diverge(Divergence::Passed { index: number(at), switch });
            }
            at = at.saturating_add(1);
        }
        threads.set_note(moment.current, at as u64);
        found
    }

    fn diverge(&mut self, divergence: Divergence) {
        self.divergences = self.divergences.saturating_add(1);
        self.first.get_or_insert(divergence);
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
