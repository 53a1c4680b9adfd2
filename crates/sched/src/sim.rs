//! Programs without threads to try strategies on: a list of operations for each thread over a few
//! variables, locks and conditions, run one operation at a time.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use selvedge_events::{SiteId, ThreadIx};

use crate::moment::{Moment, OpKind, Pending, Standing, Threads, default_choice};
use crate::replay::Script;
use crate::schedule::{LoggedPoint, Step, flags};
use crate::strategy::{Chooser, Spec};

/// An operation of a simulated thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Loads a variable into the thread's register.
    Read(u8),
    /// Stores the register and one more into a variable.
    Write(u8),
    /// Takes a lock.
    Lock(u8),
    /// Gives a lock back, whoever has it.
    Unlock(u8),
    /// Waits for a signal that comes later.
    Wait(u8),
    /// Wakes the first thread that waits.
    Signal(u8),
    /// Reads a variable until it is not 0, yielding in between.
    Spin(u8),
    /// The same without a sign that it is waiting.
    Poll(u8),
    /// Writes the first variable until the second is not 0.
    Hammer(u8, u8),
    /// Lets others go first.
    Yield,
}

pub(crate) type Program = Vec<Vec<Op>>;

/// An operation that was done: thread and number in its list.
pub(crate) type Done = (u32, usize);

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Running,
    Waiting(u8),
    Woken,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SimThread {
    pc: usize,
    point: u32,
    state: State,
    yielding: bool,
    register: u32,
    note: u64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Deadlock,
    /// Too many steps.
    Limit,
}

/// A simulated program at some instant.
#[derive(Clone, Debug)]
pub(crate) struct Sim<'p> {
    program: &'p [Vec<Op>],
    threads: Vec<SimThread>,
    pub(crate) variables: [u32; 8],
    /// Held or free.
    locks: [bool; 8],
    current: ThreadIx,
    /// In the order in which they were done.
    pub(crate) executed: Vec<Done>,
    pub(crate) log: Vec<LoggedPoint>,
}

impl<'p> Sim<'p> {
    pub(crate) fn new(program: &'p [Vec<Op>]) -> Self {
        let thread = SimThread { pc: 0, point: 1, state: State::Running, yielding: false, register: 0, note: 0 };
        Self {
            program,
            threads: vec![thread; program.len()],
            variables: [0; 8],
            locks: [false; 8],
            current: ThreadIx(0),
            executed: Vec::new(),
            log: Vec::new(),
        }
    }

    fn op(&self, thread: ThreadIx) -> Option<Op> {
        let at = thread.0 as usize;
        self.program.get(at)?.get(self.threads[at].pc).copied()
    }

    fn enabled(&self, thread: ThreadIx) -> bool {
        let state = &self.threads[thread.0 as usize].state;
        match self.op(thread) {
            None => false,
            Some(_) if matches!(state, State::Waiting(_)) => false,
            Some(Op::Lock(lock)) => !self.locks[lock as usize],
            Some(_) => true,
        }
    }

    /// What the strategy is asked now, or how the run ended.
    pub(crate) fn moment(&self) -> Result<Moment, End> {
        if self.enabled_after(None).is_none() {
            let done = (0..).zip(&self.threads).all(|(at, _)| self.op(ThreadIx(at)).is_none());
            return Err(if done { End::Done } else { End::Deadlock });
        }
        let thread = &self.threads[self.current.0 as usize];
        let standing = match self.enabled(self.current) {
            false => Standing::Stuck,
            true if thread.yielding => Standing::Yielding,
            true => Standing::Ready,
        };
        Ok(Moment { step: self.log.len() as u64 + 1, current: self.current, point: thread.point, standing })
    }

    /// Logs the choice and does one operation of the chosen thread.
    pub(crate) fn go(&mut self, moment: &Moment, to: ThreadIx) {
        assert!(self.enabled(to), "{to} is not enabled at {moment:?}");
        let pending = self.pending(moment.current);
        let step = Step::new(moment, &pending, default_choice(moment, self), to);
        self.log.push(LoggedPoint::new(step, self));
        self.current = to;
        let op = self.op(to).unwrap();
        let thread = &mut self.threads[to.0 as usize];
        self.executed.push((to.0, thread.pc));
        let mut next = true;
        thread.yielding = false;
        match op {
            Op::Read(at) => thread.register = self.variables[at as usize],
            Op::Write(at) => self.variables[at as usize] = thread.register + 1,
            Op::Lock(lock) => self.locks[lock as usize] = true,
            Op::Unlock(lock) => self.locks[lock as usize] = false,
            Op::Wait(_) if thread.state == State::Woken => thread.state = State::Running,
            Op::Wait(condition) => {
                thread.state = State::Waiting(condition);
                return;
            }
            Op::Signal(condition) => {
                let waiting = self.threads.iter_mut().find(|thread| thread.state == State::Waiting(condition));
                if let Some(thread) = waiting {
                    thread.state = State::Woken;
                }
            }
            Op::Spin(at) => {
                next = self.variables[at as usize] != 0;
                thread.yielding = !next;
            }
            Op::Poll(at) => next = self.variables[at as usize] != 0,
            Op::Hammer(at, until) => {
                self.variables[at as usize] = thread.register + 1;
                next = self.variables[until as usize] != 0;
            }
            Op::Yield => thread.yielding = true,
        }
        let thread = &mut self.threads[to.0 as usize];
        thread.pc += usize::from(next);
        thread.point += 1;
    }
}

impl Threads for Sim<'_> {
    fn enabled_after(&self, after: Option<ThreadIx>) -> Option<ThreadIx> {
        let first = after.map_or(0, |after| after.0 + 1);
        (first..self.program.len() as u32).map(ThreadIx).find(|thread| self.enabled(*thread))
    }

    fn pending(&self, thread: ThreadIx) -> Pending {
        let (kind, object) = match self.op(thread) {
            None => (OpKind::Exit, 400 + u64::from(thread.0)),
            Some(Op::Read(at) | Op::Spin(at) | Op::Poll(at)) => (OpKind::Read, 100 + u64::from(at)),
            Some(Op::Write(at) | Op::Hammer(at, _)) => (OpKind::Write, 100 + u64::from(at)),
            Some(Op::Lock(lock)) => (OpKind::Lock, 200 + u64::from(lock)),
            Some(Op::Unlock(lock)) => (OpKind::Unlock, 200 + u64::from(lock)),
            Some(Op::Wait(condition)) => (OpKind::Wait, 300 + u64::from(condition)),
            Some(Op::Signal(condition)) => (OpKind::Wake, 300 + u64::from(condition)),
            Some(Op::Yield) => (OpKind::Yield, 0),
        };
        let pc = self.threads[thread.0 as usize].pc as u32;
        Pending { kind, object, site: SiteId(thread.0 << 16 | pc) }
    }

    fn operation(&self, thread: ThreadIx) -> u32 {
        self.threads.get(thread.0 as usize).map_or(0, |thread| thread.pc as u32 + 1)
    }

    fn note(&self, thread: ThreadIx) -> u64 {
        self.threads[thread.0 as usize].note
    }

    fn set_note(&mut self, thread: ThreadIx, note: u64) {
        self.threads[thread.0 as usize].note = note;
    }
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) log: Vec<LoggedPoint>,
    pub(crate) executed: Vec<Done>,
    pub(crate) variables: [u32; 8],
    pub(crate) end: End,
}

impl Run {
    /// The choices that are not the default policy's.
    pub(crate) fn switches(&self) -> Vec<Step> {
        self.log.iter().map(|point| point.step).filter(|step| !step.has(flags::DEFAULT)).collect()
    }

    /// Whether one operation was done before another.
    pub(crate) fn before(&self, first: Done, second: Done) -> bool {
        let at = |op| self.executed.iter().position(|done| *done == op);
        at(first).is_some_and(|first| at(second).is_none_or(|second| first < second))
    }
}

/// More steps than any simulated program takes that ends at all.
pub(crate) const LIMIT: usize = 3_000;

/// Runs a program, asking `choose` at every moment.
pub(crate) fn run(program: &[Vec<Op>], choose: impl FnMut(&Moment, &mut Sim<'_>) -> ThreadIx) -> Run {
    run_long(program, LIMIT, choose)
}

/// As [`run`], for programs that take up to `limit` steps.
pub(crate) fn run_long(
    program: &[Vec<Op>],
    limit: usize,
    mut choose: impl FnMut(&Moment, &mut Sim<'_>) -> ThreadIx,
) -> Run {
    let mut sim = Sim::new(program);
    let end = loop {
        match sim.moment() {
            Err(end) => break end,
            Ok(_) if sim.log.len() == limit => break End::Limit,
            Ok(moment) => {
                let to = choose(&moment, &mut sim);
                sim.go(&moment, to);
            }
        }
    };
    Run { log: sim.log, executed: sim.executed, variables: sim.variables, end }
}

/// Runs a program under a strategy.
pub(crate) fn run_spec(program: &[Vec<Op>], spec: &Spec) -> Run {
    let mut chooser = Chooser::new(spec, Script::EMPTY);
    run(program, |moment, sim| chooser.choose(moment, sim))
}

/// Operations that touch nothing that another thread touches.
pub(crate) fn private(thread: u8, count: usize) -> Vec<Op> {
    vec![Op::Write(7 - thread); count]
}

/// Small programs of all sorts; some deadlock, some spin for ever.
pub(crate) fn programs() -> impl Strategy<Value = Program> {
    let op = prop_oneof![
        4 => (0..3_u8).prop_map(Op::Read),
        4 => (0..3_u8).prop_map(Op::Write),
        2 => (0..2_u8).prop_map(Op::Lock),
        2 => (0..2_u8).prop_map(Op::Unlock),
        1 => (0..2_u8).prop_map(Op::Wait),
        2 => (0..2_u8).prop_map(Op::Signal),
        1 => (0..3_u8).prop_map(Op::Spin),
    ];
    prop::collection::vec(prop::collection::vec(op, 0..6), 1..5)
}

/// Every kind of strategy but replay, with parameters of all sorts.
pub(crate) fn specs() -> impl Strategy<Value = Spec> {
    let kind = prop::sample::select(&crate::strategy::StrategyKind::ALL[1..]);
    (kind, any::<u64>(), 0..20_u32, 0..60_u64, 0..5_u32).prop_map(|(kind, seed, depth, length, quantum)| Spec {
        kind,
        seed,
        depth,
        length,
        quantum,
        ..Spec::default()
    })
}
