//! Replaying a schedule: its switches where they apply, the default policy everywhere else.
//!
//! In a faithful run each switch is met in its turn. A run that goes another way is followed as far as
//! it goes, and the first difference is kept: divergence is data, not an error.

use selvedge_events::bytes::array_at;
use selvedge_events::{SiteId, ThreadIx};

use crate::moment::{Moment, NO_SITE, OpKind, Threads, default_choice};
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

    /// An entry as it is packed; switches by themselves have none.
    pub(crate) fn step(&self, at: usize) -> Option<Step> {
        match self {
            Script::Switches(_) => None,
            Script::Steps(steps) => steps.get(at).copied(),
            Script::Packed(bytes) => Some(Step::from_bytes(&array_at(bytes, at.checked_mul(Step::BYTES)?)?)),
        }
    }

    /// A switch, and what is expected there.
    fn get(&self, at: usize) -> Option<(Switch, Option<Seen>)> {
        if let Script::Switches(switches) = self {
            return switches.get(at).map(|switch| (*switch, None));
        }
        let step = self.step(at)?;
        let seen = Seen { kind: step.kind, site: step.site };
        // A step that names neither expects nothing in particular.
        let expected = Some(seen).filter(|seen| seen.kind != OpKind::Other || seen.site != NO_SITE);
        Some((step.switch(), expected))
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
    /// The thread is past the point, and the switch was not taken: it was not stuck there. Said by
    /// [`Matching::ByThread`]; in order, such a switch and all after it are [`Divergence::Unreached`].
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

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::schedule::When;
    use crate::sim::{Op, Program, Run, private, programs, run, run_spec, specs};

    fn switch(thread: u32, point: u32, to: u32) -> Switch {
        Switch { thread: ThreadIx(thread), point, when: When::Arriving, to: ThreadIx(to) }
    }

    fn replay<'a>(program: &[Vec<Op>], script: Script<'a>, matching: Matching) -> (Run, Replay<'a>) {
        let mut replay = Replay::new(script, matching);
        let run = run(program, |moment, sim| replay.choose(moment, sim));
        (run, replay)
    }

    fn pair() -> Program {
        vec![private(0, 4), private(1, 4)]
    }

    fn order(run: &Run) -> Vec<u32> {
        run.executed.iter().map(|done| done.0).collect()
    }

    #[test]
    fn switches_are_taken_where_they_say() {
        for (switches, expected) in [
            (vec![], [0, 0, 0, 0, 1, 1, 1, 1]),
            (vec![switch(0, 1, 1)], [1, 1, 1, 1, 0, 0, 0, 0]),
            (vec![switch(0, 3, 1)], [0, 0, 1, 1, 1, 1, 0, 0]),
            (vec![switch(0, 2, 1), switch(1, 2, 0), switch(0, 4, 1)], [0, 1, 0, 0, 1, 1, 1, 0]),
        ] {
            for matching in [Matching::InOrder, Matching::ByThread] {
                let (run, replay) = replay(&pair(), Script::Switches(&switches), matching);
                assert_eq!(order(&run), expected, "{switches:?}");
                assert_eq!((replay.verdict(), replay.divergences()), (None, 0));
            }
        }
    }

    #[test]
    fn by_thread_a_switch_outlives_those_before_it() {
        // 1@9 is never met; what comes after it is taken by thread, not in order.
        let switches = [switch(1, 9, 0), switch(0, 3, 1)];
        let (run, by_thread) = replay(&pair(), Script::Switches(&switches), Matching::ByThread);
        assert_eq!(order(&run), [0, 0, 1, 1, 1, 1, 0, 0]);
        assert_eq!(by_thread.verdict(), Some(Divergence::Unreached { count: 1 }));
        let (run, in_order) = replay(&pair(), Script::Switches(&switches), Matching::InOrder);
        assert_eq!(order(&run), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(in_order.verdict(), Some(Divergence::Unreached { count: 2 }));
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        // Thread 1 waits for the lock that thread 0 has.
        let program = vec![vec![Op::Lock(0), Op::Read(0), Op::Unlock(0)], vec![Op::Lock(0), Op::Unlock(0)]];
        let switches = [switch(0, 2, 1), switch(0, 3, 7)];
        let (run, replay) = replay(&program, Script::Switches(&switches), Matching::ByThread);
        assert_eq!(order(&run), [0, 0, 0, 1, 1]);
        assert_eq!(replay.verdict(), Some(Divergence::NotEnabled { index: 0, switch: switches[0] }));
        assert_eq!((replay.divergences(), replay.remaining()), (2, 0));
    }

    #[test]
    fn a_switch_of_a_thread_that_is_not_stuck_is_passed() {
        let switches = [Switch { when: When::Stuck, ..switch(0, 2, 1) }, switch(0, 4, 1)];
        let (run, replay) = replay(&pair(), Script::Switches(&switches), Matching::ByThread);
        assert_eq!(order(&run), [0, 0, 0, 1, 1, 1, 1, 0]);
        assert_eq!(replay.verdict(), Some(Divergence::Passed { index: 0, switch: switches[0] }));
    }

    #[test]
    fn about_to_wait_and_waiting_are_told_apart() {
        // Thread 0 waits at its first point; then thread 2 goes on although thread 1 could.
        let program = vec![vec![Op::Wait(0)], vec![Op::Signal(0)], private(2, 1)];
        let stuck = [Switch { when: When::Stuck, ..switch(0, 1, 2) }];
        let (run, replay) = replay(&program, Script::Switches(&stuck), Matching::ByThread);
        assert_eq!((order(&run), replay.verdict()), (vec![0, 2, 1, 0], None));
    }

    #[test]
    fn what_was_expected_and_what_came() {
        let (first, _) = replay(&pair(), Script::Switches(&[switch(0, 3, 1)]), Matching::ByThread);
        let steps = first.switches();
        let other = vec![vec![Op::Read(0); 4], private(1, 4)];
        let (_, replay) = replay(&other, Script::Steps(&steps), Matching::ByThread);
        let seen = |kind| Seen { kind, site: SiteId(2) };
        let divergence = Divergence::Unexpected {
            index: 0,
            switch: switch(0, 3, 1),
            expected: seen(OpKind::Write),
            came: seen(OpKind::Read),
        };
        assert_eq!(replay.verdict(), Some(divergence));
    }

    proptest! {
        #[test]
        fn the_switches_of_any_run_give_the_same_run(program in programs(), spec in specs()) {
            let original = run_spec(&program, &spec);
            let steps = original.switches();
            let switches: Vec<Switch> = steps.iter().map(Step::switch).collect();
            let packed: Vec<u8> = steps.iter().flat_map(Step::to_bytes).collect();
            for script in [Script::Switches(&switches), Script::Steps(&steps), Script::Packed(&packed)] {
                prop_assert_eq!(script.len(), steps.len());
                for matching in [Matching::InOrder, Matching::ByThread] {
                    let (run, replay) = replay(&program, script, matching);
                    prop_assert_eq!(&run, &original);
                    prop_assert_eq!((replay.verdict(), replay.divergences()), (None, 0));
                }
            }
        }

        #[test]
        fn any_script_is_survived(program in programs(), bytes in prop::collection::vec(0..6_u8, 0..200)) {
            for matching in [Matching::InOrder, Matching::ByThread] {
                replay(&program, Script::Packed(&bytes), matching);
            }
        }
    }
}
