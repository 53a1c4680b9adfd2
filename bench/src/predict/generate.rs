//! Histories that could have happened, the same for the same shape on every machine.
//!
//! The first thread makes the others and joins them. Each lock guards variables of its own; some accesses stray.

use selvedge_analyze::{Event, History, Op};

use super::shapes::Shape;

/// Locks that a thread holds at once, at most.
const DEPTH: usize = 3;
/// Accesses in a thousand that write.
const WRITES: u32 = 300;

/// Makes a history of this shape.
pub fn generate(shape: &Shape) -> History {
    let mut maker = Maker {
        shape: *shape,
        random: Random(0x9e37_79b9_7f4a_7c15 ^ shape.events as u64),
        owned: vec![false; shape.locks as usize],
        held: vec![Vec::new(); usize::from(shape.threads)],
        events: Vec::with_capacity(shape.events + 4 * usize::from(shape.threads)),
    };
    for child in 1..shape.threads {
        maker.push(0, Op::Fork, u32::from(child));
    }
    while maker.events.len() < shape.events {
        let thread = maker.random.below(u32::from(shape.threads)) as u16;
        for _ in 0..=maker.random.below(2 * shape.run) {
            maker.step(thread);
        }
    }
    for thread in (0..shape.threads).rev() {
        while maker.release(thread) {}
        if thread > 0 {
            maker.push(0, Op::Join, u32::from(thread));
        }
    }
    let events = maker.events;
    History {
        sources: (0..events.len() as u64).collect(),
        events,
        threads: u32::from(shape.threads),
        variables: shape.variables,
        locks: shape.locks,
        objects: 0,
        locations: shape.locations,
    }
}

struct Maker {
    shape: Shape,
    random: Random,
    owned: Vec<bool>,
    /// The locks that each thread holds, outermost first.
    held: Vec<Vec<u32>>,
    events: Vec<Event>,
}

impl Maker {
    fn push(&mut self, thread: u16, op: Op, target: u32) {
        let location = self.random.below(self.shape.locations);
        self.events.push(Event::new(thread, op, target, location));
    }

    fn step(&mut self, thread: u16) {
        let Shape { acquires, locks, .. } = self.shape;
        let draw = self.random.below(1000);
        if draw < acquires {
            let lock = self.random.below(locks);
            let room = self.held[usize::from(thread)].len() < DEPTH;
            if room && !std::mem::replace(&mut self.owned[lock as usize], room) {
                self.held[usize::from(thread)].push(lock);
                self.push(thread, Op::Acquire, lock);
                return;
            }
        }
        if draw >= 1000 - acquires * 3 / 2 && self.release(thread) {
            return;
        }
        self.access(thread);
    }

    fn access(&mut self, thread: u16) {
        let Shape { locks, variables, stray, .. } = self.shape;
        let op = if self.random.below(1000) < WRITES { Op::Write } else { Op::Read };
        let each = variables / (locks + u32::from(self.shape.threads)).max(1);
        let strays = self.random.below(1000) < stray || each == 0;
        let target = match self.held[usize::from(thread)].last() {
            _ if strays => self.random.below(variables),
            Some(lock) => lock * each + self.often(each),
            None => (locks + u32::from(thread)) * each + self.often(each),
        };
        self.push(thread, op, target);
    }

    /// A number below `bound`, small ones more often: programs come back to where they were.
    fn often(&mut self, bound: u32) -> u32 {
        let once = self.random.below(bound) + 1;
        self.random.below(once)
    }

    fn release(&mut self, thread: u16) -> bool {
        let Some(lock) = self.held[usize::from(thread)].pop() else { return false };
        self.owned[lock as usize] = false;
        self.push(thread, Op::Release, lock);
        true
    }
}

/// Numbers that look like chance.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed >> 32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::shapes::SHAPES;

    #[test]
    fn generated_histories_are_valid_and_repeat() {
        for shape in &SHAPES[..2] {
            let history = generate(shape);
            assert_eq!(history.events, generate(shape).events);
            assert!(history.len() >= shape.events && history.len() < shape.events + 1000);
            let mut owners = vec![None; shape.locks as usize];
            for event in &history.events {
                assert!(u32::from(event.thread) < history.threads && event.location < history.locations);
                match event.op {
                    Op::Acquire => assert_eq!(owners[event.target as usize].replace(event.thread), None),
                    Op::Release => assert_eq!(owners[event.target as usize].take(), Some(event.thread)),
                    Op::Fork | Op::Join => assert!(event.target < history.threads),
                    _ => assert!(event.target < history.variables),
                }
            }
            let acquires = history.events.iter().filter(|event| event.op == Op::Acquire).count() * 1000 / history.len();
            assert!(acquires >= shape.acquires as usize / 2, "{acquires}");
        }
    }
}
