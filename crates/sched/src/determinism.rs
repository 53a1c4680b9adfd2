//! Is the program under control? Two runs of one schedule must be the same, step by step.
//!
//! [`Twice`] wraps any source of schedules, has each one run a second time and names the first difference:
//! the idea of Shuttle's scheduler for uncontrolled nondeterminism.

use alloc::vec::Vec;
use core::fmt;

use crate::moment::NO_SITE;
use crate::schedule::LoggedPoint;
use crate::source::{Fault, Source};

/// The first place at which two runs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the step in both logs, from 0.
    pub step: usize,
    /// What the first run did; `None` if it had ended.
    pub expected: Option<LoggedPoint>,
    /// What the second run did; `None` if it had ended.
    pub came: Option<LoggedPoint>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: expected {}, came {}", self.step, Told(self.expected), Told(self.came))
    }
}

/// A step, told so that any two that differ read differently.
struct Told(Option<LoggedPoint>);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(LoggedPoint { step, enabled }) = self.0 else {
            return f.write_str("the end");
        };
        write!(f, "thread {} at point {} ({}", step.thread, step.point, step.kind.name())?;
        if step.site != NO_SITE {
            write!(f, " at site {}", step.site)?;
        }
        write!(f, ", {:?}, enabled {enabled:#x}, flags {:#x}) to thread {}", step.standing(), step.flags, step.to)
    }
}

/// The first place at which two logs differ.
pub fn first_difference(expected: &[LoggedPoint], came: &[LoggedPoint]) -> Option<Difference> {
    let same = expected.iter().zip(came).take_while(|(expected, came)| expected == came).count();
    let (expected, came) = (expected.get(same).copied(), came.get(same).copied());
    (expected != came).then_some(Difference { step: same, expected, came })
}

/// Has each run of a source made twice; the source learns from those that came out the same.
#[derive(Debug)]
pub struct Twice<S: Source> {
    source: S,
    /// The run that was asked for last, and its first log once there is one.
    pending: Option<(S::Order, Option<Vec<LoggedPoint>>)>,
}

impl<S: Source> Twice<S> {
    /// The runs of this source, twice each.
    pub fn new(source: S) -> Self {
        Self { source, pending: None }
    }

    /// The source.
    pub fn source(&self) -> &S {
        &self.source
    }
}

impl<S: Source> Source for Twice<S> {
    type Order = S::Order;

    fn next(&mut self) -> Option<S::Order> {
        if let Some((order, Some(_))) = &self.pending {
            return Some(order.clone());
        }
        let order = self.source.next()?;
        self.pending = Some((order.clone(), None));
        Some(order)
    }

    fn learn(&mut self, log: &[LoggedPoint]) -> Result<(), Fault> {
        match self.pending.take() {
            None => Err(Fault::Unasked),
            Some((order, None)) => {
                self.pending = Some((order, Some(log.to_vec())));
                Ok(())
            }
            Some((_, Some(first))) => match first_difference(&first, log) {
                Some(difference) => Err(Fault::Diverged(difference)),
                None => self.source.learn(log),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;
    use crate::bounded::Search;
    use crate::replay::Script;
    use crate::schedule::Text;
    use crate::sim::{Op, private, run, run_spec};
    use crate::source::Seeds;
    use crate::strategy::{Chooser, Spec, StrategyKind};

    #[test]
    fn the_first_difference_is_named() {
        let program = vec![private(0, 3), private(1, 3)];
        let log = run_spec(&program, &Spec::default()).log;
        assert_eq!(first_difference(&log, &log), None);
        let mut other = log.clone();
        other[2].step.point = 9;
        other[4].enabled = 0;
        let difference = first_difference(&log, &other).unwrap();
        assert_eq!((difference.step, difference.expected, difference.came), (2, Some(log[2]), Some(other[2])));
        assert_eq!(
            difference.to_string(),
            "step 2: expected thread 0 at point 3 (write at site 2, Ready, enabled 0x3, flags 0x5) to thread 0, \
             came thread 0 at point 9 (write at site 2, Ready, enabled 0x3, flags 0x5) to thread 0"
        );
        let shorter = first_difference(&log, &log[..3]).unwrap();
        assert_eq!((shorter.step, shorter.came), (3, None));
        assert!(shorter.to_string().ends_with("came the end"));
    }

    #[test]
    fn every_strategy_is_the_same_twice() {
        let program = vec![private(0, 3), vec![Op::Spin(7)], private(2, 3)];
        for kind in StrategyKind::ALL {
            let mut twice = Twice::new(Seeds::new(Spec { kind: *kind, ..Spec::default() }, 10));
            let mut runs = 0;
            while let Some(spec) = twice.next() {
                runs += 1;
                assert_eq!(twice.learn(&run_spec(&program, &spec).log), Ok(()));
            }
            assert_eq!(runs, 20);
        }
    }

    #[test]
    fn a_program_that_is_not_under_control_is_found_out() {
        // Every third run takes another branch.
        let programs = [vec![private(0, 3), private(1, 3)], vec![vec![Op::Read(7); 3], private(1, 3)]];
        let mut twice = Twice::new(Search::new(1));
        let mut faults = 0;
        for number in 1.. {
            let Some(schedule) = twice.next() else { break };
            let mut chooser = Chooser::new(&Spec::default(), Script::Switches(&schedule));
            let program = &programs[usize::from(number % 3 == 0)];
            let log = run(program, |moment, sim| chooser.choose(moment, sim)).log;
            if let Err(fault) = twice.learn(&log) {
                faults += 1;
                assert!(fault.to_string().starts_with("two runs of one schedule differ at step 0"), "{fault}");
            }
            assert!(number < 100, "no end in sight at {}", Text(&schedule));
        }
        assert!(faults > 0);
        assert!(!twice.source().complete());
    }
}
