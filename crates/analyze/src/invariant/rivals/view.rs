//! What there was at its location when an access came: all that the invariants ask.
//!
//! Of the accesses to a location, of the reads and of the writes, the last two by different threads are kept: the last one of
//! *another* thread is always among them, as the paper's Algorithm 1 says.

use rustc_hash::FxHashMap;

use crate::invariant::accesses::Access;

/// An access that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Its number in the run.
    pub number: usize,
    /// Whose.
    pub thread: u32,
    /// Where in the code.
    pub site: u32,
    /// Whether it read.
    pub read: bool,
    /// Whether it wrote.
    pub write: bool,
}

/// What there was at its location when an access came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The last access.
    pub last: Option<Touch>,
    /// The last access of another thread.
    pub remote: Option<Touch>,
    /// The last access of this thread.
    pub local: Option<Touch>,
    /// Whether another thread read since `local`.
    pub read_between: bool,
    /// Whether another thread wrote since `local`.
    pub write_between: bool,
    /// The last write: what a read sees. `None` is what was there at the beginning.
    pub definition: Option<Touch>,
    /// The number of the write that this thread's last read saw; the outer `None` where it did not read yet.
    pub seen: Option<Option<usize>>,
}

/// The last two accesses by different threads.
#[derive(Clone, Copy, Debug, Default)]
struct LastTwo {
    last: Option<Touch>,
    other: Option<Touch>,
}

impl LastTwo {
    fn push(&mut self, touch: Touch) {
        if self.last.is_some_and(|last| last.thread != touch.thread) {
            self.other = self.last;
        }
        self.last = Some(touch);
    }

    fn remote(&self, thread: u32) -> Option<Touch> {
        self.last.filter(|last| last.thread != thread).or(self.other)
    }

    /// Whether another thread was here after an access.
    fn since(&self, thread: u32, number: usize) -> bool {
        self.remote(thread).is_some_and(|touch| touch.number > number)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    accesses: LastTwo,
    reads: LastTwo,
    writes: LastTwo,
}

/// What a thread did last to a location.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    last: Option<Touch>,
    seen: Option<Option<usize>>,
}

/// What was done to all locations. Its maps are only looked up.
#[derive(Debug, Default)]
struct Shadow {
    known: FxHashMap<u64, Known>,
    own: FxHashMap<(u64, u32), Own>,
}

impl Shadow {
    fn step(&mut self, number: usize, access: &Access) -> View {
        let Access { thread, location, site, read, write, .. } = *access;
        let known = self.known.entry(location).or_default();
        let own = self.own.entry((location, thread)).or_default();
        let since = |those: &LastTwo| own.last.is_some_and(|local| those.since(thread, local.number));
        let view = View {
            last: known.accesses.last,
            remote: known.accesses.remote(thread),
            local: own.last,
            read_between: since(&known.reads),
            write_between: since(&known.writes),
            definition: known.writes.last,
            seen: own.seen,
        };
        let touch = Touch { number, thread, site, read, write };
        known.accesses.push(touch);
        if read {
            known.reads.push(touch);
            own.seen = Some(view.definition.map(|write| write.number));
        }
        if write {
            known.writes.push(touch);
        }
        own.last = Some(touch);
        view
    }
}

/// Every access of a run with its number and what there was before it.
pub fn views(run: &[Access]) -> impl Iterator<Item = (usize, &Access, View)> {
    let mut shadow = Shadow::default();
    run.iter().enumerate().map(move |(number, access)| (number, access, shadow.step(number, access)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, found by looking back through the whole run each time.
    fn naive(run: &[Access], number: usize) -> View {
        let me = run[number];
        let touch = |number: usize| {
            let Access { thread, site, read, write, .. } = run[number];
            Touch { number, thread, site, read, write }
        };
        let last = |holds: &dyn Fn(&Access) -> bool| {
            (0..number).rev().find(|&at| run[at].location == me.location && holds(&run[at])).map(touch)
        };
        let local = last(&|access| access.thread == me.thread);
        let between = |holds: &dyn Fn(&Access) -> bool| {
            local.is_some_and(|local| {
                (local.number..number)
                    .any(|at| run[at].location == me.location && run[at].thread != me.thread && holds(&run[at]))
            })
        };
        let seen = last(&|access| access.thread == me.thread && access.read)
            .map(|read| (0..read.number).rev().find(|&at| run[at].location == me.location && run[at].write));
        View {
            last: last(&|_| true),
            remote: last(&|access| access.thread != me.thread),
            local,
            read_between: between(&|access| access.read),
            write_between: between(&|access| access.write),
            definition: last(&|access| access.write),
            seen,
        }
    }

    proptest! {
        #[test]
        fn as_by_looking_back(steps in prop::collection::vec((0u32..4, 0u64..3, 0u32..6, 0u8..3), 0..60)) {
            let run: Vec<Access> = steps
                .iter()
                .zip(0..)
                .map(|(&(thread, location, site, kind), index)| Access {
                    thread, location, site, index, write: kind != 0, read: kind != 1, operation: 0,
                })
                .collect();
            for (number, _, view) in views(&run) {
                prop_assert_eq!(view, naive(&run, number));
            }
        }
    }
}
