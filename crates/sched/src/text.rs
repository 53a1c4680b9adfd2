//! An owned schedule, and its text form read back. The grammar is in [`schedule`](crate::schedule).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::ops::Deref;
use core::str::FromStr;

use selvedge_events::ThreadIx;

use crate::schedule::{MAX_THREAD, PREFIX, Step, Switch, Text, When, flags};

/// Most switches that a text may have.
pub const MAX_SWITCHES: usize = 1 << 20;

/// A schedule of one's own: switches in the order in which they happen.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Schedule(pub Vec<Switch>);

impl Schedule {
    /// The schedule of a run: the choices that the default policy would not have made.
    pub fn of_run<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Self {
        steps.into_iter().filter(|step| !step.has(flags::DEFAULT)).map(Step::switch).collect()
    }
}

impl Deref for Schedule {
    type Target = [Switch];

    fn deref(&self) -> &[Switch] {
        &self.0
    }
}

impl FromIterator<Switch> for Schedule {
    fn from_iter<I: IntoIterator<Item = Switch>>(switches: I) -> Self {
        Self(switches.into_iter().collect())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Text(&self.0).fmt(f)
    }
}

impl FromStr for Schedule {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        let Some(rest) = text.strip_prefix(PREFIX) else {
            return Err(reader.problem(Problem::NoPrefix));
        };
        reader.at = PREFIX.len();
        let mut switches = Vec::new();
        if rest.is_empty() {
            return Ok(Self(switches));
        }
        let mut last = BTreeMap::new();
        loop {
            let at = reader.at;
            if switches.len() == MAX_SWITCHES {
                return Err(reader.problem(Problem::TooMany));
            }
            let switch = reader.switch()?;
            let place = (switch.point, switch.when);
            if last.insert(switch.thread, place).is_some_and(|last| last >= place) {
                return Err(ParseError { at, problem: Problem::NotAscending });
            }
            switches.push(switch);
            match reader.take() {
                None => return Ok(Self(switches)),
                Some(b',') => {}
                Some(_) => return Err(reader.problem_before(Problem::Expected("`,` or the end"))),
            }
        }
    }
}

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The offset of the first byte that does not fit.
    pub at: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It does not begin with [`PREFIX`].
    NoPrefix,
    /// Something else should stand there.
    Expected(&'static str),
    /// A number has zeros in front.
    LeadingZero,
    /// A number is too large.
    TooLarge {
        /// The largest.
        max: u32,
    },
    /// Points count from 1.
    PointZero,
    /// The thread was past this point already, by an earlier switch.
    NotAscending,
    /// There are more than [`MAX_SWITCHES`].
    TooMany,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: ", self.at)?;
        match self.problem {
            Problem::NoPrefix => write!(f, "a schedule of this version begins with `{PREFIX}`"),
            Problem::Expected(what) => write!(f, "expected {what}"),
            Problem::LeadingZero => f.write_str("a number with leading zeros"),
            Problem::TooLarge { max } => write!(f, "a number above {max}"),
            Problem::PointZero => f.write_str("points count from 1"),
            Problem::NotAscending => f.write_str("an earlier switch of this thread is at this point or past it"),
            Problem::TooMany => write!(f, "more than {MAX_SWITCHES} switches"),
        }
    }
}

impl Error for ParseError {}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn switch(&mut self) -> Result<Switch, ParseError> {
        let thread = ThreadIx(self.number("a thread's number", MAX_THREAD.0)?);
        if self.take() != Some(b'@') {
            return Err(self.problem_before(Problem::Expected("`@`")));
        }
        let at = self.at;
        let point = self.number("a point's number", u32::MAX)?;
        if point == 0 {
            return Err(ParseError { at, problem: Problem::PointZero });
        }
        let when = match self.take() {
            Some(b'-') => When::Arriving,
            Some(b'/') => When::Stuck,
            _ => return Err(self.problem_before(Problem::Expected("`-` or `/`"))),
        };
        let to = ThreadIx(self.number("a thread's number", MAX_THREAD.0)?);
        Ok(Switch { thread, point, when, to })
    }

    fn number(&mut self, what: &'static str, max: u32) -> Result<u32, ParseError> {
        let start = self.at;
        let mut number = 0_u32;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            let next = number.checked_mul(10).and_then(|number| number.checked_add(u32::from(digit - b'0')));
            match next.filter(|number| *number <= max) {
                Some(next) => number = next,
                None => return Err(ParseError { at: start, problem: Problem::TooLarge { max } }),
            }
            self.at += 1;
        }
        match self.at - start {
            0 => Err(self.problem(Problem::Expected(what))),
            2.. if self.text.get(start) == Some(&b'0') => Err(ParseError { at: start, problem: Problem::LeadingZero }),
            _ => Ok(number),
        }
    }

    /// The next byte. The place moves even at the end, so that [`problem_before`](Self::problem_before) is right.
    fn take(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn problem(&self, problem: Problem) -> ParseError {
        ParseError { at: self.at, problem }
    }

    fn problem_before(&self, problem: Problem) -> ParseError {
        ParseError { at: self.at - 1, problem }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::sim::{programs, run_spec, specs};

    #[test]
    fn good_texts_come_back() {
        for text in ["s1:", "s1:0@12-1", "s1:0@12-1,1@3/0,0@12/1,0@4294967295-65535"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        let switch = Switch { thread: ThreadIx(3), point: 2, when: When::Stuck, to: ThreadIx(1) };
        assert_eq!("s1:3@2/1".parse(), Ok(Schedule(vec![switch])));
    }

    #[test]
    fn bad_texts_are_told_where() {
        for (text, at, words) in [
            ("", 0, "begins with `s1:`"),
            ("s2:0@1-1", 0, "begins with `s1:`"),
            (" s1:", 0, "begins with `s1:`"),
            ("s1:,", 3, "expected a thread's number"),
            ("s1:0", 4, "expected `@`"),
            ("s1:0@", 5, "expected a point's number"),
            ("s1:0@1", 6, "expected `-` or `/`"),
            ("s1:0@1>1", 6, "expected `-` or `/`"),
            ("s1:0@1-", 7, "expected a thread's number"),
            ("s1:0@1-1,", 9, "expected a thread's number"),
            ("s1:0@1-1 ", 8, "expected `,` or the end"),
            ("s1:0@1-1;1@1-0", 8, "expected `,` or the end"),
            ("s1:0@0-1", 5, "points count from 1"),
            ("s1:0@01-1", 5, "leading zeros"),
            ("s1:00@1-1", 3, "leading zeros"),
            ("s1:65536@1-1", 3, "above 65535"),
            ("s1:0@4294967296-1", 5, "above 4294967295"),
            ("s1:0@1-99999999999999999999", 7, "above 65535"),
            ("s1:0@2-1,1@1-0,0@2-1", 15, "at this point or past it"),
            ("s1:0@2/1,0@2-1", 9, "at this point or past it"),
            ("s1:é", 3, "expected a thread's number"),
        ] {
            let error = text.parse::<Schedule>().unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn no_text_is_too_long_to_be_refused() {
        let text: String = core::iter::once(PREFIX.into())
            .chain((1..=MAX_SWITCHES + 1).map(|point| alloc::format!("0@{point}-1,")))
            .collect();
        assert_eq!(text.parse::<Schedule>().unwrap_err().problem, Problem::TooMany);
    }

    proptest! {
        #[test]
        fn every_runs_schedule_comes_back(program in programs(), spec in specs()) {
            let run = run_spec(&program, &spec);
            let schedule = Schedule::of_run(run.log.iter().map(|point| &point.step));
            prop_assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }

        #[test]
        fn any_switches_come_back(points in prop::collection::btree_set(
            (0..=MAX_THREAD.0, 1..=u32::MAX, prop::bool::ANY, 0..=MAX_THREAD.0), 0..50)) {
            let when = |stuck| if stuck { When::Stuck } else { When::Arriving };
            let mut switches: Vec<Switch> = points.into_iter().map(|(thread, point, stuck, to)| {
                Switch { thread: ThreadIx(thread), point, when: when(stuck), to: ThreadIx(to) }
            }).collect();
            switches.dedup_by_key(|switch| (switch.thread, switch.point, switch.when));
            let schedule = Schedule(switches);
            prop_assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(s1:)?[0-9@,/-]{0,30}\\PC{0,3}") {
            if let Ok(schedule) = text.parse::<Schedule>() {
                prop_assert_eq!(schedule.to_string(), text);
            }
        }
    }
}
