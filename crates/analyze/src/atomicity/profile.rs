//! Which pairs of accesses nobody came between, learnt from runs that were right.
//!
//! Paper: section 6, figures 4 and 5. Of each variable the accesses are known in their order, each with its thread, its calling
//! context and the holds of locks. Two accesses of one thread with none of its own between them are a *pair*. A pair is
//! [`Atomicity::Exclusive`] if no other thread came between, [`Atomicity::Read`] if others only read, [`Atomicity::None`]
//! if one wrote; over all occurrences the least holds. It is named by its *frontier*: the points of the deepest
//! function that both accesses are inside of.
//!
//! Departures:
//! - A context has the activation of each function, not only its call site. By sites alone, two accesses of one function that
//!   a loop called twice look like a pair inside that function, where no lock can be held from one to the other; it is a
//!   pair of the loop's call with itself.
//! - Each heap object is profiled by itself (section 9), and one that a single thread touched says nothing.
//! - Lock sets are of lock objects while a run is read and of lock classes when it has been, so that runs can be merged. The lock
//!   set of a pair is cut with that of its object first (rule Pairs), since classes would find more in common.
//!
//! - How long pairs lasted and how often a variable was accessed is known too, so that [`super::heat`] can leave out what would cost too much.
//!
//! [`Profile::merge`] takes the least atomicity and cuts lock sets, and of times and numbers the most: commutative, associative, idempotent.
//!
//! Cost: constant for each access apart from the depth of its context and its locks; memory for each live
//! object and thread, and for each pair of points.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::program::Access;

/// How atomic a pair of accesses was. The order is the paper's lattice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atomicity {
    /// Another thread wrote between them.
    None,
    /// Other threads only read between them.
    Read,
    /// No other thread came between them.
    Exclusive,
    /// They were never seen.
    Top,
}

impl Atomicity {
    /// All of them, ascending.
    pub const ALL: [Atomicity; 4] = [Atomicity::None, Atomicity::Read, Atomicity::Exclusive, Atomicity::Top];

    /// Its word in a profile.
    pub const fn word(self) -> &'static str {
        match self {
            Atomicity::None => "none",
            Atomicity::Read => "read",
            Atomicity::Exclusive => "exclusive",
            Atomicity::Top => "top",
        }
    }
}

impl fmt::Display for Atomicity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A function that was active at an access, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Which activation: a number that its thread gave to this entry of the function and to no other.
    pub activation: u64,
    /// The call in it that was being made; in the innermost frame the access itself. The caller's number.
    pub label: u32,
}

/// A lock that was held, from one acquisition to its release: the paper's lock instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold {
    /// The class of the lock: the caller's number for its name.
    pub class: u32,
    /// The lock itself.
    pub object: u64,
    /// How often it had been acquired.
    pub number: u64,
}

/// One access to a variable.
#[derive(Clone, Copy, Debug)]
pub struct Touch<'a> {
    /// Whose.
    pub thread: u32,
    /// What it does.
    pub access: Access,
    /// The active functions, the outermost first.
    pub context: &'a [Frame],
    /// The locks that were held.
    pub holds: &'a [Hold],
    /// When, in nanoseconds from the beginning; 0 where that is not known.
    pub at: u64,
    /// When the thread next came to a place where a lock can be given back: what is taken for the access is held until then.
    pub until: u64,
}

impl Touch<'_> {
    fn lingers(&self) -> u64 {
        self.until.saturating_sub(self.at)
    }
}

/// The points of the deepest activation that two contexts of one thread share (figure 5, *frontier*); nothing if they share
/// none.
pub fn frontier(first: &[Frame], second: &[Frame]) -> Option<(u32, u32)> {
    let shared = first.iter().zip(second).take_while(|(a, b)| a.activation == b.activation).last()?;
    Some((shared.0.label, shared.1.label))
}

/// A pair by its names: the function and its two points.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairKey {
    /// The function that both accesses are inside of.
    pub function: String,
    /// The point of the first access: the access, or the call that it is inside of.
    pub first: String,
    /// The point of the second.
    pub second: String,
}

/// What was seen of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The least atomicity of all its occurrences.
    pub atomicity: Atomicity,
    /// The locks that were held from one access to the other each time, and at all other accesses to the object.
    pub locks: BTreeSet<String>,
    /// The time from one access to the other, all occurrences of a run together; the most of any run, in nanoseconds.
    pub lasted: u64,
}

impl Observed {
    /// Another occurrence: `Z' = min(Z, α)`, `L' = L ∩ s`.
    fn cut(&mut self, other: &Observed) {
        self.lasted = self.lasted.max(other.lasted);
        self.atomicity = self.atomicity.min(other.atomicity);
        self.locks.retain(|lock| other.locks.contains(lock));
    }
}

/// What was seen of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variable {
    /// The variables that are this one, where several belong together. They are listed for people; taking one out means
    /// profiling again.
    pub members: BTreeSet<String>,
    /// The locks that were held at every access.
    pub locks: BTreeSet<String>,
    /// How often it was accessed; the most of any run.
    pub accesses: u64,
    /// The time from accesses to where a lock can be given back, all together; the most of any run, in nanoseconds.
    pub lingers: u64,
    /// The accesses in the code that were seen to touch it.
    pub sites: BTreeSet<String>,
    /// Its pairs.
    pub pairs: BTreeMap<PairKey, Observed>,
}

impl Variable {
    /// The pairs that are to be enforced (rule Pairs): those that are atomic without a lock that all accesses hold.
    pub fn atomic_pairs(&self) -> impl Iterator<Item = (&PairKey, Atomicity)> {
        self.pairs
            .iter()
            .filter(|(_, seen)| matches!(seen.atomicity, Atomicity::Read | Atomicity::Exclusive))
            .filter(|(_, seen)| seen.locks.is_disjoint(&self.locks))
            .map(|(key, seen)| (key, seen.atomicity))
    }
}

/// What runs showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The program's name, for people.
    pub program: String,
    /// How long the longest run took, in nanoseconds; 0 where no time is known.
    pub time: u64,
    /// How long its threads were busy in the busiest run, in nanoseconds: what passes without an event counts for a little at most. 0 as above.
    pub busy: u64,
    /// Its variables, by name.
    pub variables: BTreeMap<String, Variable>,
    /// By call that takes or gives back locks of the program, or waits: the classes of these locks.
    pub calls: BTreeMap<String, BTreeSet<String>>,
}

impl Profile {
    /// Adds what other runs showed.
    pub fn merge(&mut self, other: &Profile) {
        if self.program.is_empty() || (!other.program.is_empty() && other.program < self.program) {
            self.program.clone_from(&other.program);
        }
        self.time = self.time.max(other.time);
        self.busy = self.busy.max(other.busy);
        for (call, locks) in &other.calls {
            self.calls.entry(call.clone()).or_default().extend(locks.iter().cloned());
        }
        for (name, theirs) in &other.variables {
            let Some(ours) = self.variables.get_mut(name) else {
                self.variables.insert(name.clone(), theirs.clone());
                continue;
            };
            ours.accesses = ours.accesses.max(theirs.accesses);
            ours.lingers = ours.lingers.max(theirs.lingers);
            ours.members.extend(theirs.members.iter().cloned());
            ours.sites.extend(theirs.sites.iter().cloned());
            ours.locks.retain(|lock| theirs.locks.contains(lock));
            for (key, seen) in &theirs.pairs {
                match ours.pairs.get_mut(key) {
                    Some(known) => known.cut(seen),
                    None => {
                        ours.pairs.insert(key.clone(), seen.clone());
                    }
                }
            }
        }
    }

    /// All pairs that are to be enforced, with their variables.
    pub fn atomic_pairs(&self) -> impl Iterator<Item = (&str, &PairKey, Atomicity)> {
        self.variables.iter().flat_map(|(name, variable)| {
            variable.atomic_pairs().map(move |(key, atomicity)| (name.as_str(), key, atomicity))
        })
    }
}

/// Reads the accesses of one run, in the order in which they happened at each object.
///
/// Variables, labels and lock classes are the caller's numbers; [`Learner::finish`] asks for their names.
#[derive(Debug, Default)]
pub struct Learner {
    objects: HashMap<(u32, u64), Object>,
    /// What objects that are gone have shown, by variable.
    done: BTreeMap<u32, Done>,
    /// Pairs whose contexts had no activation in common.
    without_frontier: u64,
}

/// Pairs by their labels, with their atomicity and locks, and how long they lasted.
type Seen<L> = BTreeMap<(u32, u32), (Atomicity, BTreeSet<L>, u64)>;

/// What the objects of one variable have shown, with numbers instead of names.
#[derive(Debug, Default)]
struct Done {
    locks: Option<BTreeSet<u32>>,
    accesses: u64,
    lingers: u64,
    pairs: Seen<u32>,
}

/// One object: a global, or a field of one heap object.
#[derive(Debug, Default)]
struct Object {
    touches: u64,
    lingers: u64,
    any: Latest,
    writes: Latest,
    /// Locks that were held at every access so far.
    locks: Option<BTreeSet<(u32, u64)>>,
    last: HashMap<u32, Last>,
    pairs: Seen<(u32, u64)>,
}

/// The last access of a thread.
#[derive(Debug)]
struct Last {
    time: u64,
    at: u64,
    context: Vec<Frame>,
    holds: Vec<Hold>,
}

/// The time of the last access, and of the last one by another thread than that one's.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    thread: u32,
    time: u64,
    others: u64,
}

impl Latest {
    fn set(&mut self, thread: u32, time: u64) {
        if self.time == 0 || self.thread == thread {
            *self = Latest { thread, time, ..*self };
        } else {
            *self = Latest { thread, time, others: self.time };
        }
    }

    /// The time of the last access by another thread; 0 for none.
    fn by_others(&self, thread: u32) -> u64 {
        if self.thread == thread { self.others } else { self.time }
    }
}

impl Object {
    /// Figure 5: rules Exclusive, Read, None and LockSet, as the accesses come. Says whether there is a frontier.
    fn touch(&mut self, touch: &Touch<'_>) -> bool {
        self.touches += 1;
        self.lingers = self.lingers.saturating_add(touch.lingers());
        let time = self.touches;
        let held = || touch.holds.iter().map(|hold| (hold.class, hold.object));
        match &mut self.locks {
            Some(locks) if locks.is_empty() => {}
            Some(locks) => {
                let held: BTreeSet<_> = held().collect();
                locks.retain(|lock| held.contains(lock));
            }
            None => self.locks = Some(held().collect()),
        }
        let mut found = true;
        if let Some(last) = self.last.get(&touch.thread) {
            let atomicity = if self.writes.by_others(touch.thread) > last.time {
                Atomicity::None
            } else if self.any.by_others(touch.thread) > last.time {
                Atomicity::Read
            } else {
                Atomicity::Exclusive
            };
            let both = || -> BTreeSet<(u32, u64)> {
                let before: BTreeSet<&Hold> = last.holds.iter().collect();
                let held = touch.holds.iter().filter(|hold| before.contains(hold));
                held.map(|hold| (hold.class, hold.object)).collect()
            };
            match frontier(&last.context, touch.context) {
                Some(key) => {
                    let seen = self.pairs.entry(key).or_insert_with(|| (Atomicity::Top, both(), 0));
                    seen.0 = seen.0.min(atomicity);
                    seen.2 = seen.2.saturating_add(touch.at.saturating_sub(last.at)).saturating_add(touch.lingers());
                    if !seen.1.is_empty() {
                        let both = both();
                        seen.1.retain(|lock| both.contains(lock));
                    }
                }
                None => found = false,
            }
        }
        self.any.set(touch.thread, time);
        if touch.access == Access::Write {
            self.writes.set(touch.thread, time);
        }
        let last = Last { time, at: touch.at, context: touch.context.to_vec(), holds: touch.holds.to_vec() };
        self.last.insert(touch.thread, last);
        found
    }

    /// Adds what is known at the object's end to its variable.
    fn end(self, done: &mut Done) {
        // Its locks would be taken for objects of one thread too.
        done.accesses = done.accesses.saturating_add(self.touches);
        done.lingers = done.lingers.saturating_add(self.lingers);
        if self.last.len() < 2 {
            return;
        }
        let own = self.locks.unwrap_or_default();
        let classes: BTreeSet<u32> = own.iter().map(|lock| lock.0).collect();
        match &mut done.locks {
            Some(locks) => locks.retain(|lock| classes.contains(lock)),
            None => done.locks = Some(classes),
        }
        for (key, (atomicity, locks, lasted)) in self.pairs {
            let classes: BTreeSet<u32> = locks.intersection(&own).map(|lock| lock.0).collect();
            match done.pairs.get_mut(&key) {
                Some(seen) => {
                    seen.0 = seen.0.min(atomicity);
                    seen.2 = seen.2.saturating_add(lasted);
                    seen.1.retain(|lock| classes.contains(lock));
                }
                None => {
                    done.pairs.insert(key, (atomicity, classes, lasted));
                }
            }
        }
    }
}

/// The names that a profile is written with.
#[derive(Clone, Debug, Default)]
pub struct ProfileNames {
    /// The program's.
    pub program: String,
    /// By variable: its name, and its members where several belong together.
    pub variables: Vec<(String, BTreeSet<String>)>,
    /// By label: the function, and the point in it.
    pub labels: Vec<(String, String)>,
    /// By class of locks.
    pub locks: Vec<String>,
}

impl Learner {
    /// An access to an object of a variable.
    pub fn touch(&mut self, variable: u32, object: u64, touch: &Touch<'_>) {
        if !self.objects.entry((variable, object)).or_default().touch(touch) {
            self.without_frontier += 1;
        }
    }

    /// The object is gone; what has its number from now on is another one.
    pub fn gone(&mut self, variable: u32, object: u64) {
        if let Some(object) = self.objects.remove(&(variable, object)) {
            object.end(self.done.entry(variable).or_default());
        }
    }

    /// Pairs that were passed over: their contexts had no activation in common.
    pub fn without_frontier(&self) -> u64 {
        self.without_frontier
    }

    /// The profile of the run. What has no name is left out.
    pub fn finish(mut self, names: &ProfileNames) -> Profile {
        for ((variable, _), object) in std::mem::take(&mut self.objects) {
            object.end(self.done.entry(variable).or_default());
        }
        let lock_names = |locks: &BTreeSet<u32>| {
            locks.iter().filter_map(|&lock| names.locks.get(lock as usize).cloned()).collect::<BTreeSet<_>>()
        };
        let mut profile = Profile { program: names.program.clone(), ..Profile::default() };
        for (number, done) in &self.done {
            let (Some(locks), Some((name, members))) = (&done.locks, names.variables.get(*number as usize)) else {
                continue;
            };
            let (members, accesses, lingers) = (members.clone(), done.accesses, done.lingers);
            let mut variable = Variable { members, accesses, lingers, locks: lock_names(locks), ..Variable::default() };
            for ((first, second), (atomicity, locks, lasted)) in &done.pairs {
                let (Some(a), Some(b)) = (names.labels.get(*first as usize), names.labels.get(*second as usize)) else {
                    continue;
                };
                let key = PairKey { function: a.0.clone(), first: a.1.clone(), second: b.1.clone() };
                let seen = Observed { atomicity: *atomicity, locks: lock_names(locks), lasted: *lasted };
                match variable.pairs.get_mut(&key) {
                    Some(known) => known.cut(&seen),
                    None => {
                        variable.pairs.insert(key, seen);
                    }
                }
            }
            let one = Profile { variables: BTreeMap::from([(name.clone(), variable)]), ..Profile::default() };
            profile.merge(&one);
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An access of a random run.
    #[derive(Clone, Debug)]
    struct Entry {
        variable: u32,
        object: u64,
        thread: u32,
        access: Access,
        context: Vec<Frame>,
        holds: Vec<Hold>,
    }

    fn names() -> ProfileNames {
        ProfileNames {
            program: "p".into(),
            variables: vec![("x".into(), BTreeSet::new()), ("y".into(), BTreeSet::from(["y.a".into(), "y.b".into()]))],
            labels: (0..40).map(|label| (format!("f{}", label / 10), format!("{label}"))).collect(),
            locks: vec!["k".into(), "m".into()],
        }
    }

    fn learn(run: &[Entry]) -> Profile {
        let mut learner = Learner::default();
        for entry in run {
            let Entry { thread, access, context, holds, .. } = entry;
            let touch = Touch { thread: *thread, access: *access, context, holds, at: 0, until: 0 };
            learner.touch(entry.variable, entry.object, &touch);
        }
        learner.finish(&names())
    }

    /// The rules of figure 5 as they stand: every object's trace is read from its end, again and again.
    fn by_the_rules(run: &[Entry]) -> Profile {
        let mut profile = Profile { program: "p".into(), ..Profile::default() };
        let objects: BTreeSet<(u32, u64)> = run.iter().map(|entry| (entry.variable, entry.object)).collect();
        for object in objects {
            let trace: Vec<&Entry> = run.iter().filter(|entry| (entry.variable, entry.object) == object).collect();
            if trace.iter().map(|entry| entry.thread).collect::<BTreeSet<_>>().len() < 2 {
                continue;
            }
            let held = |entry: &Entry| entry.holds.iter().map(|h| (h.class, h.object)).collect::<BTreeSet<_>>();
            let all =
                trace.iter().map(|entry| held(entry)).reduce(|a, b| a.intersection(&b).copied().collect()).unwrap();
            let lock_names = |set: &BTreeSet<(u32, u64)>| {
                set.iter().map(|lock| names().locks[lock.0 as usize].clone()).collect::<BTreeSet<_>>()
            };
            let (name, members) = names().variables[object.0 as usize].clone();
            let of_it = run.iter().filter(|entry| entry.variable == object.0).count() as u64;
            let mut variable = Variable { members, locks: lock_names(&all), accesses: of_it, ..Variable::default() };
            // One object of a class may show a pair several times with different lock objects: cut these first.
            let mut pairs: BTreeMap<PairKey, (Atomicity, BTreeSet<(u32, u64)>)> = BTreeMap::new();
            for (end, second) in trace.iter().enumerate().rev() {
                let Some(start) = trace[..end].iter().rposition(|entry| entry.thread == second.thread) else {
                    continue;
                };
                let between = &trace[start + 1..end];
                let atomicity = match between {
                    [] => Atomicity::Exclusive,
                    some if some.iter().any(|entry| entry.access == Access::Write) => Atomicity::None,
                    _ => Atomicity::Read,
                };
                let first = trace[start];
                let depth = first.context.iter().zip(&second.context).take_while(|(a, b)| a.activation == b.activation);
                let depth = depth.count();
                if depth == 0 {
                    continue;
                }
                let (a, b) = (first.context[depth - 1].label, second.context[depth - 1].label);
                let s = first.holds.iter().filter(|hold| second.holds.contains(hold));
                let s: BTreeSet<(u32, u64)> =
                    s.map(|h| (h.class, h.object)).filter(|lock| all.contains(lock)).collect();
                let point = |label: u32| names().labels[label as usize].clone();
                let key = PairKey { function: point(a).0, first: point(a).1, second: point(b).1 };
                let entry = pairs.entry(key).or_insert((Atomicity::Top, s.clone()));
                *entry = (entry.0.min(atomicity), entry.1.intersection(&s).copied().collect());
            }
            for (key, (atomicity, locks)) in pairs {
                variable.pairs.insert(key, Observed { atomicity, locks: lock_names(&locks), lasted: 0 });
            }
            let variables = BTreeMap::from([(name, variable)]);
            profile.merge(&Profile { program: "p".into(), variables, ..Profile::default() });
        }
        profile
    }

    prop_compose! {
        fn entry()(
            (variable, object, thread) in (0..2_u32, 0..2_u64, 0..3_u32),
            writes in any::<bool>(),
            frames in prop::collection::vec((0..2_u64, 0..10_u32), 0..3),
            holds in prop::collection::btree_set((0..2_u32, 0..2_u64, 0..2_u64), 0..3),
        ) -> Entry {
            // An activation is of one function: the label's function and the activation go together.
            let mut context = vec![Frame { activation: u64::from(thread), label: 0 }];
            for (depth, (which, label)) in frames.into_iter().enumerate() {
                let function = depth as u32 + 1;
                context.push(Frame { activation: 100 * u64::from(function) + which, label: 10 * function + label });
            }
            let access = if writes { Access::Write } else { Access::Read };
            let holds = holds.into_iter().map(|(class, object, number)| Hold { class, object, number }).collect();
            Entry { variable, object, thread, access, context, holds }
        }
    }

    fn runs() -> impl Strategy<Value = Vec<Vec<Entry>>> {
        prop::collection::vec(prop::collection::vec(entry(), 0..24), 1..4)
    }

    proptest! {
        #[test]
        fn learning_in_one_pass_follows_the_rules(runs in runs()) {
            for run in &runs {
                prop_assert_eq!(learn(run), by_the_rules(run));
            }
        }

        #[test]
        fn merging_is_commutative_associative_and_idempotent(runs in runs()) {
            let merged = |order: &[usize]| {
                let mut all = Profile::default();
                for &number in order {
                    all.merge(&learn(&runs[number % runs.len()]));
                }
                all
            };
            prop_assert_eq!(merged(&[0, 1, 2]), merged(&[2, 1, 0]));
            prop_assert_eq!(merged(&[0, 1, 2]), merged(&[1, 0, 2, 1, 0]));
            let mut right = learn(&runs[0]);
            right.merge(&merged(&[1, 2]));
            prop_assert_eq!(merged(&[0, 1, 2]), right);
        }
    }

    fn plain(thread: u32, access: Access, label: u32, holds: &[Hold]) -> Entry {
        let context = vec![Frame { activation: u64::from(thread), label }];
        Entry { variable: 0, object: 0, thread, access, context, holds: holds.to_vec() }
    }

    #[test]
    fn the_frontier_is_in_the_deepest_activation_that_is_shared() {
        let frame = |activation, label| Frame { activation, label };
        // The paper's example: [l1 l2 l3 l4] and [l1 l2 l5 l6] give l3 and l5.
        let first = [frame(0, 1), frame(1, 2), frame(2, 3), frame(3, 4)];
        let second = [frame(0, 1), frame(1, 2), frame(2, 5), frame(4, 6)];
        assert_eq!(frontier(&first, &second), Some((3, 5)));
        // One is deeper than the other, in the same activation.
        assert_eq!(frontier(&first[..3], &first), Some((3, 3)));
        // The same call site twice: the pair is the caller's.
        assert_eq!(frontier(&[frame(0, 1), frame(1, 9)], &[frame(0, 1), frame(2, 9)]), Some((1, 1)));
        assert_eq!(frontier(&[frame(0, 1)], &[frame(1, 1)]), None);
        assert_eq!(frontier(&[], &first), None);
    }

    #[test]
    fn figure_1_only_reads_are_seen_and_the_pair_is_atomic() {
        use Access::Read;
        let apart = [plain(0, Read, 1, &[]), plain(0, Read, 2, &[]), plain(1, Read, 1, &[]), plain(1, Read, 2, &[])];
        let mixed = [plain(0, Read, 1, &[]), plain(1, Read, 1, &[]), plain(0, Read, 2, &[]), plain(1, Read, 2, &[])];
        let key = PairKey { function: "f0".into(), first: "1".into(), second: "2".into() };
        let mut profile = learn(&apart);
        let pairs = |profile: &Profile| profile.atomic_pairs().map(|(_, key, a)| (key.clone(), a)).collect::<Vec<_>>();
        assert_eq!(pairs(&profile), [(key.clone(), Atomicity::Exclusive)]);
        profile.merge(&learn(&mixed));
        assert_eq!(pairs(&profile), [(key, Atomicity::Read)]);
    }

    #[test]
    fn pairs_that_a_lock_of_the_program_keeps_are_left_out() {
        use Access::Write;
        let hold = |number| [Hold { class: 0, object: 7, number }];
        // One critical section around both: kept. Two sections of the same lock: not.
        let kept = [plain(0, Write, 1, &hold(1)), plain(0, Write, 2, &hold(1)), plain(1, Write, 1, &hold(2))];
        let open = [plain(0, Write, 1, &hold(1)), plain(0, Write, 2, &hold(2)), plain(1, Write, 1, &hold(3))];
        assert_eq!(learn(&kept).atomic_pairs().count(), 0);
        assert_eq!(learn(&open).atomic_pairs().count(), 1);
        // Somebody touches it without the lock: the section does not keep the pair any more (figure 3).
        let mut raced = kept.to_vec();
        raced.push(plain(1, Write, 3, &[]));
        assert!(learn(&raced).atomic_pairs().any(|(_, key, _)| key.first == "1" && key.second == "2"));
    }

    #[test]
    fn how_often_and_for_how_long_is_known() {
        let mut learner = Learner::default();
        for (thread, label, at) in [(0, 1, 100), (0, 2, 150), (1, 1, 200), (0, 1, 300), (0, 2, 310), (1, 2, 400)] {
            let context = [Frame { activation: thread, label }];
            let until = if at == 310 { 360 } else { 0 };
            let touch = Touch { thread: thread as u32, access: Access::Read, context: &context, holds: &[], at, until };
            learner.touch(0, 0, &touch);
        }
        let profile = learner.finish(&names());
        let lasted: Vec<(&str, u64)> =
            profile.variables["x"].pairs.iter().map(|(key, seen)| (key.second.as_str(), seen.lasted)).collect();
        assert_eq!(profile.variables["x"].accesses, 6);
        assert_eq!(profile.variables["x"].lingers, 50);
        // From 1 to 2 three times, in two threads, once held for longer than it lasted; from 2 to 1 once.
        assert_eq!(lasted, [("2", 50 + 10 + 50 + 200), ("1", 150)]);
    }

    #[test]
    fn what_one_thread_touches_says_nothing() {
        let alone = [plain(0, Access::Write, 1, &[]), plain(0, Access::Write, 2, &[])];
        assert_eq!(learn(&alone).variables.len(), 0);
    }

    #[test]
    fn an_object_that_is_gone_begins_anew() {
        let mut learner = Learner::default();
        let context = |thread: u32| [Frame { activation: u64::from(thread), label: 1 }];
        let touch = |learner: &mut Learner, thread| {
            let context = context(thread);
            learner.touch(
                0,
                0,
                &Touch { thread, access: Access::Read, context: &context, holds: &[], at: 0, until: 0 },
            );
        };
        touch(&mut learner, 0);
        touch(&mut learner, 1);
        learner.gone(0, 0);
        touch(&mut learner, 0);
        touch(&mut learner, 1);
        let profile = learner.finish(&names());
        assert_eq!(profile.variables["x"].pairs.len(), 0);
    }
}
