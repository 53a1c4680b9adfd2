//! Programs of two or three threads with a few operations each, run one operation at a time.
//!
//! A thread has a register, one bit, which holds what it read last; an operation may say that it and some that follow are
//! skipped where the register is 0. Nothing else depends on values, and nothing loops.

use selvedge_events::{Order, SiteId, ThreadIx};
use selvedge_sched::{Moment, OpKind, Pending, Standing, Threads};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Into the register.
    Reads,
    /// This value.
    Writes(bool),
    /// Into the register, and then the other value. Atomic accesses only.
    Updates,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// An access to a variable, atomic if it has an order.
    Access(u8, How, Option<Order>),
    Lock(u8),
    /// By whoever holds it.
    Unlock(u8),
    /// To the one semaphore.
    Post,
    Take,
    /// The first of a thread that another one makes.
    Begin,
    Fork(u8),
    Join(u8),
}

/// An operation at its place in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) op: Op,
    /// How many lines, from this one on, are skipped where the register is 0.
    pub(crate) skips: u8,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// What each thread does. One that begins with [`Op::Begin`] waits until it is made.
    pub(crate) threads: Vec<Vec<Line>>,
    /// What the semaphore has at first.
    pub(crate) stock: u8,
}

/// How many threads there may be, and how many lines each may have.
pub(crate) const MOST_THREADS: usize = 3;
pub(crate) const MOST_LINES: usize = 12;

/// How many variables and locks there may be.
pub(crate) const VARIABLES: u8 = 2;
pub(crate) const LOCKS: u8 = 2;

impl Program {
    /// A line.
    pub(crate) fn op(&self, spot: Spot) -> Option<Op> {
        self.line(spot).map(|line| line.op)
    }

    fn line(&self, spot: Spot) -> Option<Line> {
        self.threads.get(usize::from(spot.thread))?.get(usize::from(spot.line)).copied()
    }

    /// Whether any line may be skipped.
    pub(crate) fn branches(&self) -> bool {
        self.threads.iter().flatten().any(|line| line.skips > 0)
    }

    /// Whether two operations race where both are next.
    pub(crate) fn could_race(&self, one: Spot, other: Spot) -> bool {
        match (self.op(one), self.op(other)) {
            (Some(Op::Access(x, how, order)), Some(Op::Access(y, and, with))) => {
                let writes = how != How::Reads || and != How::Reads;
                one.thread != other.thread && x == y && writes && (order.is_none() || with.is_none())
            }
            _ => false,
        }
    }
}

/// A place in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spot {
    pub(crate) thread: u8,
    pub(crate) line: u8,
}

impl Spot {
    /// A number for it, below [`MOST_THREADS`] times [`MOST_LINES`].
    pub(crate) fn number(self) -> u32 {
        u32::from(self.thread) * MOST_LINES as u32 + u32::from(self.line)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Thread {
    made: bool,
    line: u8,
    register: bool,
}

/// A program at some instant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    threads: [Thread; MOST_THREADS],
    values: [bool; VARIABLES as usize],
    holders: [Option<u8>; LOCKS as usize],
    stock: u8,
    /// What was done: a bit for each [`Spot::number`].
    done: u64,
}

impl State {
    /// Before the first step.
    pub(crate) fn new(program: &Program) -> State {
        let mut state = State {
            threads: Default::default(),
            values: Default::default(),
            holders: Default::default(),
            stock: program.stock,
            done: 0,
        };
        for (thread, lines) in state.threads.iter_mut().zip(&program.threads) {
            thread.made = lines.first().is_none_or(|line| line.op != Op::Begin);
        }
        for thread in 0..program.threads.len() as u8 {
            state.skip(program, thread);
        }
        state
    }

    /// What a thread is about to do; `None` before it is made and after its end.
    pub(crate) fn next(&self, program: &Program, thread: u8) -> Option<(Spot, Op)> {
        let at = self.threads.get(usize::from(thread)).filter(|at| at.made)?;
        let spot = Spot { thread, line: at.line };
        Some((spot, program.op(spot)?))
    }

    /// Whether a thread can do it.
    pub(crate) fn is_enabled(&self, program: &Program, thread: u8) -> bool {
        match self.next(program, thread) {
            None => false,
            Some((_, Op::Lock(lock))) => self.holders[usize::from(lock)].is_none(),
            Some((_, Op::Take)) => self.stock > 0,
            Some((_, Op::Join(child))) => self.is_over(program, child),
            Some(_) => true,
        }
    }

    /// Whether a thread has ended.
    pub(crate) fn is_over(&self, program: &Program, thread: u8) -> bool {
        self.threads[usize::from(thread)].made && self.next(program, thread).is_none()
    }

    /// Whether something was done.
    pub(crate) fn has_done(&self, spot: Spot) -> bool {
        self.done >> spot.number() & 1 == 1
    }

    /// The number of the operation that a thread is at, from 1; 0 before it is made.
    pub(crate) fn operation(&self, thread: u8) -> u32 {
        let own = ((1_u64 << MOST_LINES) - 1) << Spot { thread, line: 0 }.number();
        u32::from(self.threads[usize::from(thread)].made) + (self.done & own).count_ones()
    }

    /// Who has the lock that a thread waits for.
    pub(crate) fn waits_for(&self, program: &Program, thread: u8) -> Option<u8> {
        match self.next(program, thread)? {
            (_, Op::Lock(lock)) => self.holders[usize::from(lock)],
            _ => None,
        }
    }

    /// Does what a thread is about to do.
    pub(crate) fn step(&mut self, program: &Program, thread: u8) -> Spot {
        assert!(self.is_enabled(program, thread), "thread {thread} cannot go on in {self:?} of {program:?}");
        let (spot, op) = self.next(program, thread).expect("it is enabled");
        self.done |= 1 << spot.number();
        let at = &mut self.threads[usize::from(thread)];
        at.line += 1;
        match op {
            Op::Access(variable, how, _) => {
                let value = &mut self.values[usize::from(variable)];
                match how {
                    How::Reads => at.register = *value,
                    How::Writes(new) => *value = new,
                    How::Updates => {
                        at.register = *value;
                        *value = !*value;
                    }
                }
            }
            Op::Lock(lock) => self.holders[usize::from(lock)] = Some(thread),
            Op::Unlock(lock) => self.holders[usize::from(lock)] = None,
            Op::Post => self.stock += 1,
            Op::Take => self.stock -= 1,
            Op::Fork(child) => self.threads[usize::from(child)].made = true,
            Op::Begin | Op::Join(_) => {}
        }
        self.skip(program, thread);
        spot
    }

    fn skip(&mut self, program: &Program, thread: u8) {
        let at = &mut self.threads[usize::from(thread)];
        while let Some(line) = program.line(Spot { thread, line: at.line })
            && line.skips > 0
            && !at.register
        {
            at.line += line.skips;
        }
    }
}

/// A program under a strategy.
#[derive(Clone, Debug)]
pub(crate) struct Machine<'p> {
    program: &'p Program,
    state: State,
    current: u8,
    notes: [u64; MOST_THREADS],
    executed: Vec<Done>,
}

/// An operation that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) spot: Spot,
    /// Its number in its thread, from 1.
    pub(crate) operation: u32,
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// In the order in which it was done.
    pub(crate) executed: Vec<Done>,
    /// What was still to be done when nothing could.
    pub(crate) stuck: Vec<Done>,
}

impl<'p> Machine<'p> {
    /// Runs a program, asking `choose` before every operation.
    pub(crate) fn run(program: &'p Program, mut choose: impl FnMut(&Moment, &mut Machine<'p>) -> ThreadIx) -> Run {
        let (state, notes) = (State::new(program), Default::default());
        let mut machine = Machine { program, state, current: 0, notes, executed: Vec::new() };
        while machine.enabled_after(None).is_some() {
            let current = ThreadIx(machine.current.into());
            let standing = if machine.is_enabled(current) { Standing::Ready } else { Standing::Stuck };
            let step = machine.executed.len() as u64 + 1;
            let moment = Moment { step, current, point: machine.operation(current), standing };
            let to = choose(&moment, &mut machine);
            machine.current = to.0 as u8;
            let operation = machine.operation(to);
            let spot = machine.state.step(program, machine.current);
            machine.executed.push(Done { spot, operation });
        }
        let state = &machine.state;
        let stuck = |thread| {
            let (spot, _) = state.next(program, thread)?;
            Some(Done { spot, operation: state.operation(thread) })
        };
        let stuck = (0..program.threads.len() as u8).filter_map(stuck).collect();
        Run { executed: machine.executed, stuck }
    }
}

impl Threads for Machine<'_> {
    fn enabled_after(&self, after: Option<ThreadIx>) -> Option<ThreadIx> {
        let first = after.map_or(0, |after| after.0 + 1);
        let enabled = |thread: &u32| self.state.is_enabled(self.program, *thread as u8);
        (first..self.program.threads.len() as u32).find(enabled).map(ThreadIx)
    }

    fn pending(&self, thread: ThreadIx) -> Pending {
        let Some((spot, op)) = self.state.next(self.program, thread.0 as u8) else { return Pending::NONE };
        let (kind, object) = match op {
            Op::Access(variable, How::Reads, _) => (OpKind::Read, 100 + u64::from(variable)),
            Op::Access(variable, How::Writes(_), _) => (OpKind::Write, 100 + u64::from(variable)),
            Op::Access(variable, How::Updates, _) => (OpKind::Update, 100 + u64::from(variable)),
            Op::Lock(lock) => (OpKind::Lock, 200 + u64::from(lock)),
            Op::Unlock(lock) => (OpKind::Unlock, 200 + u64::from(lock)),
            Op::Post => (OpKind::Wake, 300),
            Op::Take => (OpKind::Wait, 300),
            Op::Begin => (OpKind::Start, 400 + u64::from(thread.0)),
            Op::Fork(child) => (OpKind::Create, 400 + u64::from(child)),
            Op::Join(child) => (OpKind::Join, 400 + u64::from(child)),
        };
        Pending { kind, object, site: SiteId(spot.number()) }
    }

    fn operation(&self, thread: ThreadIx) -> u32 {
        self.state.operation(thread.0 as u8)
    }

    fn note(&self, thread: ThreadIx) -> u64 {
        self.notes[thread.0 as usize]
    }

    fn set_note(&mut self, thread: ThreadIx, note: u64) {
        self.notes[thread.0 as usize] = note;
    }
}
