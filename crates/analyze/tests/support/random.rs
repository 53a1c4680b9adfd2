//! Small histories by chance: what some program could have done.

use selvedge_analyze::{Event, History, Op};

/// A generator of chance (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }
}

/// What a history is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) threads: u32,
    pub(crate) locks: u32,
    pub(crate) variables: u32,
    /// Conditions, and as many semaphores.
    pub(crate) objects: u32,
    pub(crate) events: usize,
    pub(crate) shared_locks: bool,
    pub(crate) forks: bool,
    pub(crate) regions: bool,
    /// How many places; 0 for one of its own for each event.
    pub(crate) locations: u32,
    /// Of a hundred steps, how many are about locks.
    pub(crate) lock_share: u32,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            threads: 2,
            locks: 2,
            variables: 1,
            objects: 0,
            events: 16,
            shared_locks: false,
            forks: false,
            regions: false,
            locations: 0,
            lock_share: 70,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unborn,
    Runs,
    Waits { condition: u32, mutex: u32 },
    IsWoken { condition: u32, mutex: u32 },
    Ended,
}

struct Run<'a> {
    shape: &'a Shape,
    chance: &'a mut Chance,
    history: History,
    state: Vec<State>,
    held: Vec<Vec<(u32, bool)>>,
    counts: Vec<u32>,
    inside: Vec<bool>,
    step: u64,
}

/// A history of a shape.
pub(crate) fn history(shape: &Shape, seed: u64) -> History {
    let mut chance = Chance(seed);
    let threads = shape.threads as usize;
    let mut state = vec![State::Runs; threads];
    if shape.forks {
        state[1..].fill(State::Unborn);
    }
    let mut run = Run {
        shape,
        chance: &mut chance,
        history: History {
            threads: shape.threads,
            variables: shape.variables,
            locks: shape.locks,
            objects: shape.objects * 2,
            ..History::default()
        },
        state,
        held: vec![Vec::new(); threads],
        counts: vec![0; shape.objects as usize],
        inside: vec![false; threads],
        step: 0,
    };
    for _ in 0..shape.events * 8 {
        if run.history.len() >= shape.events {
            break;
        }
        let thread = run.chance.below(shape.threads) as usize;
        run.step(thread);
        run.step += 1;
    }
    let mut history = run.history;
    history.locations = if shape.locations == 0 { history.len() as u32 } else { shape.locations };
    history
}

impl Run<'_> {
    fn put(&mut self, thread: usize, op: Op, target: u32) {
        let location = match self.shape.locations {
            0 => self.history.len() as u32,
            places => self.chance.below(places),
        };
        self.history.events.push(Event::new(thread as u16, op, target, location));
        self.history.sources.push(self.step);
    }

    fn is_free(&self, thread: usize, lock: u32, shared: bool) -> bool {
        let taken = |(t, held): (usize, &Vec<(u32, bool)>)| {
            t != thread && held.iter().any(|&(l, s)| l == lock && !(s && shared))
        };
        !self.held.iter().enumerate().any(taken)
    }

    fn step(&mut self, thread: usize) {
        match self.state[thread] {
            State::Unborn => {
                let parent = self.chance.below(self.shape.threads) as usize;
                if self.state[parent] == State::Runs {
                    self.put(parent, Op::Fork, thread as u32);
                    self.state[thread] = State::Runs;
                }
            }
            State::Ended | State::Waits { .. } => {}
            State::IsWoken { condition, mutex } => {
                if self.is_free(thread, mutex, false) {
                    self.put(thread, Op::Woken, condition);
                    self.put(thread, Op::Acquire, mutex);
                    self.held[thread].push((mutex, false));
                    self.state[thread] = State::Runs;
                }
            }
            State::Runs => self.run(thread),
        }
    }

    fn run(&mut self, thread: usize) {
        if self.chance.below(100) < self.shape.lock_share {
            return self.lock(thread);
        }
        match self.chance.below(10) {
            0 if self.shape.regions => {
                let op = if self.inside[thread] { Op::Exit } else { Op::Enter };
                self.inside[thread] = !self.inside[thread];
                self.put(thread, op, 0);
            }
            1 if self.shape.forks => {
                if thread != 0 && self.chance.one_in(3) && self.held[thread].is_empty() {
                    self.state[thread] = State::Ended;
                }
                let other = self.chance.below(self.shape.threads) as usize;
                if other != thread && self.state[other] == State::Ended && self.state[thread] == State::Runs {
                    self.put(thread, Op::Join, other as u32);
                }
            }
            2..=6 if self.shape.objects > 0 => self.object(thread),
            _ if self.shape.variables > 0 => {
                let ops = [Op::Read, Op::Write, Op::Read, Op::Write, Op::AtomicUpdate];
                let op = ops[self.chance.below(ops.len() as u32) as usize];
                let variable = self.chance.below(self.shape.variables);
                self.put(thread, op, variable);
            }
            _ => {}
        }
    }

    fn lock(&mut self, thread: usize) {
        let holds = self.held[thread].len() as u32;
        if holds > 0 && self.chance.below(4) < holds {
            let last = holds as usize - 1;
            let at = if self.chance.one_in(5) { self.chance.below(holds) as usize } else { last };
            let (lock, shared) = self.held[thread].remove(at);
            self.put(thread, if shared { Op::ReleaseShared } else { Op::Release }, lock);
            return;
        }
        let lock = self.chance.below(self.shape.locks);
        let shared = self.shape.shared_locks && self.chance.one_in(2);
        let upgrades = self.held[thread].contains(&(lock, true)) && !shared && self.chance.one_in(2);
        let has = self.held[thread].iter().any(|&(l, _)| l == lock);
        if (!has || upgrades) && !self.held[thread].contains(&(lock, false)) && self.is_free(thread, lock, shared) {
            self.held[thread].push((lock, shared));
            self.put(thread, if shared { Op::AcquireShared } else { Op::Acquire }, lock);
        }
    }

    fn object(&mut self, thread: usize) {
        let object = self.chance.below(self.shape.objects);
        let semaphore = self.shape.objects + object;
        match self.chance.below(6) {
            0 | 1 => {
                let exclusive =
                    self.held[thread].iter().position(|&(l, s)| !s && !self.held[thread].contains(&(l, true)));
                if let Some(at) = exclusive {
                    let (mutex, _) = self.held[thread].remove(at);
                    self.put(thread, Op::Release, mutex);
                    self.put(thread, Op::Wait, object);
                    self.state[thread] = State::Waits { condition: object, mutex };
                }
            }
            2 | 3 => {
                let all = self.chance.one_in(3);
                self.put(thread, if all { Op::Broadcast } else { Op::Signal }, object);
                for state in &mut self.state {
                    if let State::Waits { condition, mutex } = *state
                        && condition == object
                    {
                        *state = State::IsWoken { condition, mutex };
                        if !all {
                            break;
                        }
                    }
                }
            }
            4 => {
                self.counts[object as usize] += 1;
                self.put(thread, Op::Post, semaphore);
            }
            _ => {
                if self.counts[object as usize] > 0 {
                    self.counts[object as usize] -= 1;
                    self.put(thread, Op::Take, semaphore);
                }
            }
        }
    }
}
