//! The events of a circle, found again: slow, and only for what is reported.
//!
//! The graph of the regions between the beginning of the oldest region that goes on and the access that closes the
//! circle, and the shortest way through it. A region that began earlier is cut short, which can only hide a way.

use std::collections::{HashMap, VecDeque};

use crate::history::{EventNo, History};

use super::regions::{Border, Borders};
use super::{Conflicts, Touch, touch};

/// Where a circle was closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    /// Where to begin to look.
    pub(super) start: EventNo,
    /// The access on which the last one depends.
    pub(super) from: EventNo,
    /// The access that closes it.
    pub(super) to: EventNo,
}

/// An access with the number of its region.
type At = (EventNo, u32);

#[derive(Default)]
struct Last {
    write: Option<At>,
    reads: Vec<At>,
}

/// A region that comes after another, with the accesses that say so, if it is not the thread.
type After = (u32, Option<(EventNo, EventNo)>);

/// The regions of a part of a history, each event outside of them one by itself.
#[derive(Default)]
struct Graph {
    /// By region.
    after: Vec<Vec<After>>,
}

impl Graph {
    fn add(&mut self) -> u32 {
        self.after.push(Vec::new());
        self.after.len() as u32 - 1
    }

    fn order(&mut self, (from, one): At, (to, two): At) {
        if one != two {
            self.after[one as usize].push((two, Some((from, to))));
        }
    }

    /// The accesses on a shortest way.
    fn way(&self, from: u32, to: u32) -> Option<Vec<EventNo>> {
        let mut came: HashMap<u32, After> = HashMap::new();
        let mut next = VecDeque::from([from]);
        while let Some(region) = next.pop_front() {
            for &(after, accesses) in &self.after[region as usize] {
                if after != from && !came.contains_key(&after) {
                    came.insert(after, (region, accesses));
                    next.push_back(after);
                }
            }
        }
        let mut events = Vec::new();
        let mut at = to;
        while at != from {
            let (before, accesses) = came.get(&at)?;
            events.extend(accesses.iter().flat_map(|(one, two)| [*one, *two]));
            at = *before;
        }
        Some(events)
    }
}

/// The accesses of the circle in the order in which they happened; `None` where the way is not found, or more than `room`
/// events would have to be gone through.
pub(super) fn explain(
    history: &History,
    mut borders: Borders,
    conflicts: Conflicts,
    closed: Closed,
    room: &mut usize,
) -> Option<Vec<EventNo>> {
    let Closed { start, from, to } = closed;
    *room = room.checked_sub((to - start) as usize)?;
    let mut graph = Graph::default();
    let mut last: HashMap<usize, Last> = HashMap::new();
    let threads = history.threads as usize;
    // By thread: its region that goes on, and its last one with an event in it.
    let mut inside: Vec<Option<u32>> = vec![None; threads];
    let mut before: Vec<Option<At>> = vec![None; threads];
    let mut forked: Vec<Option<At>> = vec![None; threads];
    let (mut first, mut end) = (None, None);
    for (number, event) in (start..=to).zip(&history.events[start as usize..]) {
        let thread = usize::from(event.thread);
        let border = borders.step(event);
        let region = match inside[thread] {
            Some(region) => region,
            None => {
                let region = graph.add();
                if let Some((_, earlier)) = before[thread] {
                    graph.after[earlier as usize].push((region, None));
                }
                if let Some(fork) = forked[thread].take() {
                    graph.order(fork, (number, region));
                }
                region
            }
        };
        match border {
            Border::Begins => inside[thread] = Some(region),
            Border::Ends => inside[thread] = None,
            Border::None => {}
        }
        let me = (number, region);
        before[thread] = Some(me);
        if number == from {
            first = Some(region);
        }
        if number == to {
            end = Some(region);
            break;
        }
        let Some((thing, touch)) = touch(history, event, conflicts) else { continue };
        if touch == Touch::Forks {
            forked[thing] = Some(me);
            continue;
        }
        if touch == Touch::Joins {
            before[thing].or(forked[thing]).into_iter().for_each(|child| graph.order(child, me));
            continue;
        }
        let last = last.entry(thing).or_default();
        match touch {
            Touch::Writes => {
                last.write.take().into_iter().chain(last.reads.drain(..)).for_each(|at| graph.order(at, me));
                last.write = Some(me);
            }
            Touch::Reads => last.write.into_iter().for_each(|at| graph.order(at, me)),
            _ => last.reads.iter().for_each(|&at| graph.order(at, me)),
        }
        if matches!(touch, Touch::Reads | Touch::TakesAndReads)
            && last.reads.last().is_none_or(|&(_, reader)| reader != region)
        {
            last.reads.push(me);
        }
    }
    let mut events = graph.way(end?, first?)?;
    events.extend([from, to]);
    events.sort_unstable();
    events.dedup();
    Some(events)
}
