//! A hang as a finding, with an id that is the same on every run and machine.

use selvedge_events::ThreadIx;
use selvedge_findings::{Access, Finding, Harm, Kind, Status};

use super::{Because, BlockedThread, Hang, HangKind, HeldLock, Link, Thing};
use crate::fingerprint::{Fingerprint, place};
use crate::names::Source;

impl Hang {
    /// The hang as a confirmed finding. The accesses of a deadlock go around the circle: the lock that a thread
    /// holds, then what it waits for; those of a lost wake-up are the wake-up and the wait.
    pub fn finding(&self) -> Finding {
        let kind = match self.kind {
            HangKind::Deadlock | HangKind::Stuck => Kind::Deadlock,
            HangKind::LostWakeup => Kind::LostWakeup,
        };
        let steps = self.steps();
        let mut finding = Finding::new(self.id(), kind, steps.iter().map(Step::access).collect());
        finding.status = Status::Confirmed;
        finding.harm = Harm::Hang;
        finding.gist = Some(self.in_words());
        finding
    }

    /// The same for the same hang, wherever and in whichever threads it happens.
    pub fn id(&self) -> String {
        let (kind, parts) = match self.kind {
            HangKind::Deadlock => ("deadlock", self.groups()),
            HangKind::LostWakeup => ("lost-wakeup", vec![self.steps()]),
            HangKind::Stuck => ("hang", self.groups()),
        };
        // A circle has no first thread, and what is stuck side by side has no order.
        let mut texts: Vec<Vec<String>> = parts.iter().map(|steps| steps.iter().map(Step::text).collect()).collect();
        match self.kind {
            HangKind::Deadlock => rotate_to_least(&mut texts),
            HangKind::LostWakeup => {}
            HangKind::Stuck => texts.sort(),
        }
        let mut print = Fingerprint::new(kind);
        texts.iter().flatten().for_each(|text| print.add(text));
        print.id()
    }

    /// What makes up the hang, in the order of [`Hang::finding`].
    fn steps(&self) -> Vec<Step<'_>> {
        if let (HangKind::LostWakeup, Some(lost)) = (self.kind, &self.lost) {
            let object = self.thread(lost.waiter).and_then(BlockedThread::wait).and_then(|wait| wait.object.as_ref());
            let sent = lost.sent.iter().map(|(thread, stack)| Step {
                thread: *thread,
                op: "signal",
                stack,
                thing: object,
                number: lost.number,
            });
            return sent.chain(self.thread(lost.waiter).and_then(Step::waiting)).collect();
        }
        self.groups().into_iter().flatten().collect()
    }

    /// For each thread of the circle, or for each that is not done: the lock that it holds up others with, and
    /// what it waits for.
    fn groups(&self) -> Vec<Vec<Step<'_>>> {
        if let (true, Some((waiter, ender))) = (self.cycle.is_empty(), self.kept_from()) {
            let lock = waiter.wait().and_then(|wait| wait.object.as_ref()).and_then(|thing| ender.held(thing.addr));
            let held = lock.map(|held| Step::holding(ender.thread, held));
            return vec![held.into_iter().chain(Step::waiting(waiter)).collect()];
        }
        if self.cycle.is_empty() {
            let waiting = self.threads.iter().filter_map(Step::waiting);
            return waiting.map(|step| vec![step]).collect();
        }
        let before = self.cycle.iter().cycle().skip(self.cycle.len().saturating_sub(1));
        let group = |(before, link): (&Link, &Link)| {
            let thread = self.thread(link.thread);
            let held = match before.next {
                Because::Holds(lock) => thread.and_then(|thread| thread.held(lock)),
                Because::Ends | Because::Wakes => None,
            };
            let held = held.map(|held| Step::holding(link.thread, held));
            held.into_iter().chain(thread.and_then(Step::waiting)).collect()
        };
        before.zip(&self.cycle).map(group).collect()
    }
}

/// One operation of a hang.
struct Step<'a> {
    thread: ThreadIx,
    op: &'static str,
    stack: &'a [Source],
    thing: Option<&'a Thing>,
    number: Option<u64>,
}

impl<'a> Step<'a> {
    fn holding(thread: ThreadIx, held: &'a HeldLock) -> Step<'a> {
        Step { thread, op: "lock", stack: &held.stack, thing: Some(&held.lock), number: held.number }
    }

    fn waiting(thread: &'a BlockedThread) -> Option<Step<'a>> {
        let wait = thread.wait()?;
        let (op, thing) = (wait.what.op(), wait.object.as_ref());
        Some(Step { thread: thread.thread, op, stack: &thread.stack, thing, number: None })
    }

    fn access(&self) -> Access {
        Access {
            thread: self.thread.0,
            op: self.op.to_owned(),
            variable: self.thing.map(|thing| thing.variable.name.clone()),
            number: self.number,
            ..Source::access_of(self.stack)
        }
    }

    /// What it is without anything that is only so in this run.
    fn text(&self) -> String {
        let variable = self.thing.map(|thing| &thing.variable).filter(|variable| variable.is_lasting);
        format!(
            "{} {} {}",
            self.op,
            place(Source::of_stack(self.stack)),
            variable.map_or("", |variable| &variable.name)
        )
    }
}

/// Turns a circle so that it begins where its text is least.
fn rotate_to_least(texts: &mut [Vec<String>]) {
    let turned = |by: usize| texts.iter().cycle().skip(by).take(texts.len());
    let least = (0..texts.len()).min_by(|a, b| turned(*a).cmp(turned(*b))).unwrap_or(0);
    texts.rotate_left(least);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_the_same_wherever_it_is_entered() {
        let circle = |text: &str| -> Vec<Vec<String>> { text.chars().map(|c| vec![c.to_string()]).collect() };
        for text in ["abac", "baca", "acab", "caba"] {
            let mut turned = circle(text);
            rotate_to_least(&mut turned);
            assert_eq!(turned, circle("abac"), "{text}");
        }
        rotate_to_least(&mut []);
    }
}
