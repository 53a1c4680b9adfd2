//! What was predicted and confirmed against what can happen.

use std::collections::BTreeMap;
use std::fmt;

use selvedge_analyze::predict::{Graph, Options, PartialOrder, Strength};
use selvedge_analyze::{EventNo, Goal, Op as Does};

use crate::chance::Sort;
use crate::everything::Everything;
use crate::machine::{Program, Spot};
use crate::recording::{Recording, Tried};

/// How much of what can happen was found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    possible: usize,
    predicted: usize,
    confirmed: usize,
}

/// Counts over many programs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    programs: usize,
    states: usize,
    runs: usize,
    predictions: usize,
    confirmed: usize,
    proved: usize,
    /// Predictions that can happen and were not confirmed.
    lost: usize,
    races: Share,
    races_in_model: Share,
    triples: Share,
    triples_in_model: Share,
    circles: Share,
}

/// Compares all that a program can do with what is predicted from two of its runs.
pub(crate) fn compare(sort: Sort, program: &Program, seed: u64, tally: &mut Tally) {
    let all = Everything::of(program);
    tally.programs += 1;
    tally.states += all.len();
    for recording in [0, seed].into_iter().filter_map(|seed| Recording::of(program, seed)) {
        tally.runs += 1;
        Comparison { sort, program, all: &all, recording: &recording, events: recording.events() }.all(tally);
    }
}

/// For the operations of each prediction whether it was confirmed.
type Fates = BTreeMap<Vec<Spot>, bool>;

struct Comparison<'a> {
    sort: Sort,
    program: &'a Program,
    all: &'a Everything,
    recording: &'a Recording<'a>,
    events: BTreeMap<Spot, EventNo>,
}

impl Comparison<'_> {
    fn all(&self, tally: &mut Tally) {
        let (mut races, mut orders, mut deadlocks) = (Fates::new(), Fates::new(), Fates::new());
        for mut tried in self.recording.tried() {
            self.is_true(&tried, tally);
            let fates = match tried.goal {
                Goal::Race(..) => &mut races,
                Goal::Order(_) => &mut orders,
                _ => &mut deadlocks,
            };
            if !matches!(tried.goal, Goal::Order(_)) {
                tried.spots.sort_unstable();
            }
            *fates.entry(tried.spots).or_default() |= tried.shown.is_some();
        }
        self.races(&races, tally);
        self.triples(&orders, tally);
        for circle in self.all.circles.iter().filter(|circle| self.were_done(circle)) {
            let found = tally.circles.count(deadlocks.get(circle));
            assert!(found || self.program.branches() || self.takes(), "the circle {circle:?} is missed: {self}");
        }
    }

    /// Nothing is confirmed that cannot be, and what is proved is confirmed at once.
    fn is_true(&self, tried: &Tried, tally: &mut Tally) {
        let confirmed = tried.shown.is_some();
        tally.predictions += 1;
        tally.confirmed += usize::from(confirmed);
        tally.proved += usize::from(tried.proved);
        let can_be = match tried.goal {
            Goal::Race(..) => self.all.has_race(&tried.spots),
            Goal::Order(_) => self.all.has_order(&tried.spots),
            _ => self.all.has_dead_end(&tried.spots),
        };
        assert!(can_be || !confirmed, "confirmed, and cannot be: {tried:?} of {self}");
        assert!(!tried.proved || tried.shown == Some(0), "proved, and not confirmed at once: {tried:?} of {self}");
        let lost = can_be && !confirmed;
        tally.lost += usize::from(lost);
        let sure = !self.program.branches() && !self.takes();
        assert!(!(lost && sure), "can be, and is not confirmed: {tried:?} of {self}");
    }

    fn races(&self, fates: &Fates, tally: &mut Tally) {
        let order = PartialOrder::new(&self.recording.history);
        for race in self.all.races.iter().filter(|race| self.were_done(&race[..])) {
            let found = tally.races.count(fates.get(&race[..]));
            let free = order.unordered(self.events[&race[0]], self.events[&race[1]], Strength::Full);
            assert!(free || self.sort != Sort::Plain, "nothing but forks and joins orders {race:?} of {self}");
            if free && !self.program.branches() && !self.takes() {
                tally.races_in_model.count(fates.get(&race[..]));
                assert!(found, "the race {race:?} is missed: {self}");
            }
        }
    }

    /// Accesses of one variable: two of one thread with one of another between them, in an order that is none of
    /// one after the other.
    fn triples(&self, fates: &Fates, tally: &mut Tally) {
        let graph = Graph::new(&self.recording.history, Options::default().near);
        let accesses = || self.events.iter().filter(|(_, event)| graph.event(**event).op.is_access());
        for (&a, &first) in accesses() {
            for (&c, &last) in accesses().filter(|(c, _)| c.thread == a.thread && c.line > a.line) {
                for (&b, &between) in accesses().filter(|(b, _)| b.thread != a.thread) {
                    let [p, q, r] = [first, between, last].map(|event| graph.event(event));
                    let serial = !(q.op.writes() || p.op.writes() && r.op.writes());
                    if serial || p.target != q.target || q.target != r.target || !self.all.has_order(&[a, b, c]) {
                        continue;
                    }
                    let fate = fates.get(&[a, b, c][..]);
                    let found = tally.triples.count(fate);
                    if self.belong_together(&graph, first, last)
                        && self.may_come_between(&graph, first, between, last)
                        && self.nested()
                        && !self.takes()
                        && !self.program.branches()
                    {
                        tally.triples_in_model.count(fate);
                        assert!(found, "the order {a:?} {b:?} {c:?} is missed: {self}");
                    }
                }
            }
        }
    }

    /// Whether two accesses of one thread are in one region, and the first is the last read or the last write before
    /// the second.
    fn belong_together(&self, graph: &Graph<'_>, first: EventNo, last: EventNo) -> bool {
        let (one, other) = (graph.event(first), graph.event(last));
        let hides = |reads: bool| {
            let does = |op: Does| if reads { op.reads() } else { op.writes() };
            let mut between = (first + 1..last).map(|event| graph.event(event));
            !does(one.op)
                || between.any(|event| event.thread == other.thread && event.target == other.target && does(event.op))
        };
        graph.scope(first, last).is_some() && !(hides(true) && hides(false))
    }

    /// Whether nothing orders an access of another thread before the first or after the last.
    fn may_come_between(&self, graph: &Graph<'_>, first: EventNo, between: EventNo, last: EventNo) -> bool {
        let atomic = [first, between, last].iter().any(|event| graph.event(*event).op.is_atomic());
        let strength = if atomic { Strength::Firm } else { Strength::Full };
        !graph.order.before(between, first, strength) && !graph.order.before(last, between, strength)
    }

    fn nested(&self) -> bool {
        matches!(self.sort, Sort::Plain | Sort::Ordered)
    }

    fn takes(&self) -> bool {
        self.recording.history.events.iter().any(|event| event.op == Does::Take)
    }

    fn were_done(&self, spots: &[Spot]) -> bool {
        spots.iter().all(|spot| self.events.contains_key(spot))
    }
}

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a program with {} in the semaphore that ran so:", self.program.stock)?;
        for done in &self.recording.run.executed {
            let Spot { thread, line } = done.spot;
            writeln!(f, "  T{thread} line {line}: {:?}", self.program.threads[usize::from(thread)][usize::from(line)])?;
        }
        Ok(())
    }
}

impl Share {
    fn count(&mut self, fate: Option<&bool>) -> bool {
        let confirmed = fate.copied().unwrap_or(false);
        self.possible += 1;
        self.predicted += usize::from(fate.is_some());
        self.confirmed += usize::from(confirmed);
        confirmed
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} possible, {} predicted, {} confirmed", self.possible, self.predicted, self.confirmed)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} programs with {} states, {} runs", self.programs, self.states, self.runs)?;
        let Tally { predictions, confirmed, proved, lost, .. } = self;
        writeln!(
            f,
            "  {predictions} predictions, {confirmed} confirmed, {proved} proved, {lost} possible and refuted"
        )?;
        writeln!(f, "  races: {}; in the model {}", self.races, self.races_in_model)?;
        writeln!(f, "  triples: {}; in the model {}", self.triples, self.triples_in_model)?;
        write!(f, "  circles: {}", self.circles)
    }
}
