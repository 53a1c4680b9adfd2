//! Which functions are too hot for a budget, and when they run with hooks.
//!
//! A function has two bodies, and one armed site makes it run in the one with hooks. What that takes no switching of single sites can take
//! back, so a budget is kept function by function. The survey says how many hooks each meets, a run with nothing armed how long the program
//! takes by itself. The functions that are cheap together always run with hooks (by the cold-region hypothesis that is where bugs are left,
//! LiteRace, PLDI 2009). The others:
//!
//! - *In bursts*: for some milliseconds with hooks, then without for as long as the budget asks. All of them at the same time: a race has two
//!   sides. Many calls are needed for that, because a call that has begun goes on in its body.
//! - *In turns*: functions that run for long at a time have hooks in some of the runs, so that the budget holds on average; in all runs where
//!   it is not a small one, since who asks for nothing special wants races seen in few runs.
//!
//! Functions that hardly touch memory that threads share, hot as they are, would take most of that for little: they take part in few of the bursts,
//! and have turns of their own. None is left out for ever.
//!
//! It is policy only: `rt::detect::bursts` does the switching.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use selvedge_events::detect::{MOST_OFF_NS, Turn, image_key};
use selvedge_events::hooks::HookClass;
use selvedge_trace::Survey;

use crate::arm::ImageSites;
use crate::plan::ImageSpec;

/// What a hook takes that does nothing, with how code is compiled around it, in nanoseconds.
const HOOK_NS: u64 = 1;
/// What a check takes beside that, in tenths of a nanosecond.
const CHECK_TENTHS: u64 = 25;
/// What cannot be felt, in nanoseconds of a run.
const FELT_NS: u64 = 5_000_000;
/// Budgets up to this are kept whatever that leaves unseen, in millionths.
const SMALL_BUDGET: u64 = 100_000;
/// How long a burst is, beside the calls that go on in it.
const ON_NS: u64 = 4_000_000;
/// A call that takes longer than this with hooks is long.
const LONG_NS: u64 = 30_000_000;
/// A function with fewer checks than this part of its hooks watches hardly anything.
const LEAST_CHECKS: u64 = 256;
/// What it takes to switch a function there and back.
const SWITCH_NS: u64 = 5_000;

/// A function with two bodies that a plan switches, with what that takes in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Its image.
    pub image: PathBuf,
    /// What stands for the image in a plan.
    pub key: u64,
    /// The room at its begin.
    pub room: u32,
    /// Where the body with hooks begins.
    pub hooked: u32,
    /// Hooks met.
    pub hooks: u64,
    /// Of these, armed ones.
    pub checks: u64,
    /// Calls; `None` where nothing counts them.
    pub calls: Option<u64>,
    /// The site at its entry, where one in its own code is armed.
    pub entry: Option<u32>,
}

impl Body {
    /// What running it with hooks takes, in nanoseconds of a run.
    fn cost(&self) -> u64 {
        if self.calls == Some(0) {
            // Others led there.
            return 0;
        }
        self.hooks.saturating_mul(HOOK_NS).saturating_add(self.checks.saturating_mul(CHECK_TENTHS) / 10)
    }

    /// How long a call takes then: what the hooks do not take is about as much as a half of it.
    fn call_ns(&self) -> u64 {
        self.calls.map_or(0, |calls| self.cost().saturating_mul(3) / 2 / calls.max(1))
    }
}

/// When hot functions run with hooks, as the plan has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotBodies {
    /// By image and room.
    pub rows: BTreeMap<(u64, u32), Turn>,
    /// How long a burst is, in nanoseconds.
    pub on_ns: u64,
    /// How long there is none.
    pub off_ns: u64,
    /// Of so many bursts one is whole.
    pub whole_every: u32,
}

/// Functions that run for long at a time: all of them have hooks in the same runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// The hottest first.
    pub bodies: Vec<Body>,
    /// In so many of a million runs.
    pub part: u64,
}

impl Turns {
    /// `may`: what all runs together may take for them, for each run.
    fn new(bodies: Vec<Body>, may: u64) -> Turns {
        // The runtime switches sites off where their checks take too much: what stays is the hooks.
        let hooks: u64 = bodies.iter().map(|body| body.hooks.saturating_mul(HOOK_NS)).sum();
        let part = (u128::from(may) * 1_000_000 / u128::from(hooks.max(1))).min(1_000_000) as u64;
        Turns { bodies, part }
    }

    /// Whether they have hooks in all runs.
    pub fn is_always(&self) -> bool {
        self.part == 1_000_000
    }

    /// Whether this run is one of them: they are evenly spread, from a begin that the seed decides.
    pub fn is_in(&self, seed: u64, run: u32) -> bool {
        let begin = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        let place = (begin + u64::from(run).wrapping_mul(self.part)) % 1_000_000;
        place < self.part
    }
}

/// The hot functions of a program and what is done with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hot {
    /// In bursts, the hottest first.
    pub bursts: Vec<Body>,
    /// In whole bursts only.
    pub seldom: Vec<Body>,
    /// Long ones.
    pub turns: Turns,
    /// Long ones that hardly watch anything.
    pub rare: Turns,
    /// Of so many bursts one is whole.
    pub whole_every: u32,
    on_ns: u64,
    off_ns: u64,
}

fn cost(bodies: &[Body]) -> u64 {
    bodies.iter().map(Body::cost).sum()
}

/// The functions that these armed sites switch.
pub fn bodies(images: &[ImageSites], survey: &Survey, armed: &[ImageSpec]) -> Vec<Body> {
    let mut bodies = Vec::new();
    for image in images.iter().filter(|image| !image.reach.bodies.is_empty()) {
        let Some(spec) = armed.iter().find(|spec| spec.build_id == image.build_id) else { continue };
        let armed: BTreeSet<u32> = spec.sites.iter().map(|(ordinal, _)| *ordinal).collect();
        let seen = survey.images().get(&image.build_id);
        let mut own: BTreeMap<u32, Body> = BTreeMap::new();
        for (first, sites, leads) in &image.reach.ranges {
            let ordinals = *first..first.saturating_add(*sites);
            let (mut hooks, mut checks) = (0, 0);
            // (offset, ordinal, calls) of each function that begins in the range
            let mut entered = Vec::new();
            let is_armed = armed.range(ordinals.clone()).next().is_some();
            for ordinal in ordinals.clone() {
                let Some(entry) = image.entries.get(ordinal as usize) else { continue };
                let hits = seen.and_then(|seen| seen.sites.get(&entry.offset)).map_or(0, |site| u64::from(site.hits));
                match entry.hook.get().map(|hook| hook.class) {
                    Some(HookClass::Function { entry: true }) => entered.push((entry.offset, ordinal, hits)),
                    _ => hooks += hits,
                }
                checks += if armed.contains(&ordinal) { hits } else { 0 };
            }
            for number in leads {
                let Some(body) = image.reach.bodies.get(*number as usize) else { continue };
                let is_own = first_ordinal(image, body.hooked) == Some(*first);
                if !is_armed && hooks == 0 && !is_own {
                    continue;
                }
                let known = own.entry(*number).or_insert_with(|| Body {
                    image: image.path.clone(),
                    key: image_key(&image.build_id),
                    room: body.room,
                    hooked: body.hooked,
                    hooks: 0,
                    checks: 0,
                    calls: None,
                    entry: None,
                });
                known.hooks += hooks;
                known.checks += checks;
                // The first one after the begin of the body is its own; others were inlined.
                let begins = entered.iter().find(|(offset, ..)| *offset >= body.hooked);
                if is_own {
                    known.calls = begins.map(|(_, _, calls)| *calls);
                    known.entry = begins.filter(|_| is_armed).map(|(_, ordinal, _)| *ordinal);
                }
            }
        }
        let leading: BTreeSet<u32> = image
            .reach
            .ranges
            .iter()
            .filter(|(first, sites, _)| armed.range(*first..first.saturating_add(*sites)).next().is_some())
            .flat_map(|(_, _, leads)| leads.iter().copied())
            .collect();
        bodies.extend(own.into_iter().filter(|(number, _)| leading.contains(number)).map(|(_, body)| body));
    }
    bodies
}

/// The first site of the range that begins where a body does.
fn first_ordinal(image: &ImageSites, hooked: u32) -> Option<u32> {
    let first = image.entries.partition_point(|entry| entry.offset < hooked);
    u32::try_from(first).ok()
}

/// How long the program takes where nobody has measured it: about as long as its hooks would.
pub fn presumed_time(survey: &Survey) -> u64 {
    let sites = survey.images().values().flat_map(|image| image.sites.values());
    sites.map(|site| u64::from(site.hits)).sum::<u64>().saturating_mul(HOOK_NS)
}

/// Whether these functions can be felt at all.
pub fn is_felt(bodies: &[Body]) -> bool {
    cost(bodies) > FELT_NS
}

impl Hot {
    /// Sorts functions of a program that takes so long by itself, in nanoseconds of processor time, for a budget in millionths.
    pub fn new(mut bodies: Vec<Body>, time: u64, budget: u32) -> Hot {
        let part = |millionths: u64| (u128::from(time) * u128::from(millionths) / 1_000_000) as u64;
        let budget = u64::from(budget);
        if cost(&bodies) <= part(budget / 2).max(FELT_NS) {
            return Hot::default();
        }
        bodies.sort_by_key(|body| (body.cost(), body.key, body.room));
        let cold = part(budget / 8).max(FELT_NS / 4);
        let mut sum = 0;
        let kept = bodies.iter().take_while(|body| {
            sum += body.cost();
            sum <= cold
        });
        let kept = kept.count();
        let [mut bursts, mut seldom, mut turns, mut rare] = [const { Vec::new() }; 4];
        for body in bodies.into_iter().skip(kept).rev() {
            let watches = body.checks.saturating_mul(LEAST_CHECKS) >= body.hooks;
            match (watches, body.call_ns() > LONG_NS) {
                (true, false) => bursts.push(body),
                (false, false) => seldom.push(body),
                (true, true) => turns.push(body),
                (false, true) => rare.push(body),
            }
        }
        if bursts.is_empty() {
            std::mem::swap(&mut bursts, &mut seldom);
        }
        // Three eighths of the budget, by weight among those that there are.
        let weights = [(&bursts, 2), (&seldom, 1), (&turns, 2), (&rare, 1)];
        let weighed = |(bodies, weight): &(&Vec<Body>, u64)| if bodies.is_empty() { 0 } else { *weight };
        let total = weights.iter().map(weighed).sum::<u64>().max(1);
        let [for_bursts, for_seldom, for_turns, for_rare] = weights.map(|kind| budget * 3 * weighed(&kind) / total / 8);
        let long = |share| if budget > SMALL_BUDGET { u64::MAX } else { part(share) };
        let mut hot = Hot {
            turns: Turns::new(turns, long(for_turns)),
            rare: Turns::new(rare, long(for_rare)),
            bursts,
            seldom,
            whole_every: 1,
            ..Hot::default()
        };
        hot.time_bursts(time.max(1), for_bursts, for_seldom);
        hot
    }

    /// How long bursts are, and how often they come, of parts of the time in millionths.
    fn time_bursts(&mut self, time: u64, for_bursts: u64, for_seldom: u64) {
        let usual = cost(&self.bursts);
        if usual == 0 {
            return;
        }
        // What the hooks of these add to a burst: a call that is going on at its end goes on with hooks.
        let added = |bodies: &[Body]| {
            let cost = u128::from(cost(bodies));
            let calls: u128 = bodies.iter().map(|body| u128::from(body.call_ns()) * u128::from(body.cost())).sum();
            let long = u128::from(ON_NS) + calls / cost.max(1);
            long * cost / (cost + u128::from(time))
        };
        let period = added(&self.bursts) * 1_000_000 / u128::from(for_bursts.max(1));
        let count = self.bursts.len() + self.seldom.len();
        let switching =
            u128::from(SWITCH_NS) * count as u128 * 16_000_000 / u128::from((for_bursts + for_seldom).max(1));
        let period = (period.max(switching) as u64).max(2 * ON_NS);
        (self.on_ns, self.off_ns) = (ON_NS, (period - ON_NS).min(MOST_OFF_NS));
        let most = u128::from(period) * u128::from(for_seldom.max(1)) / 1_000_000;
        self.whole_every = u32::try_from(added(&self.seldom).div_ceil(most.max(1))).unwrap_or(u32::MAX).max(1);
    }

    /// Whether anything is left to the budget.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all().count()
    }

    fn all(&self) -> impl Iterator<Item = &Body> {
        [&self.bursts, &self.seldom, &self.turns.bodies, &self.rare.bodies].into_iter().flatten()
    }

    /// Arms the entries of those in bursts, where the clock is looked at; `next`: the first id that is free.
    pub fn arm(&self, images: &mut [ImageSpec], next: u32) {
        let entries = self.bursts.iter().chain(&self.seldom).filter_map(|body| Some((body.key, body.entry?)));
        for (id, (key, entry)) in (next..).zip(entries) {
            if let Some(spec) = images.iter_mut().find(|spec| image_key(&spec.build_id) == key)
                && let Err(place) = spec.sites.binary_search_by_key(&entry, |(ordinal, _)| *ordinal)
            {
                spec.sites.insert(place, (entry, id));
            }
        }
    }

    /// How long a burst is, and how long there is none, about.
    pub fn times(&self) -> (Duration, Duration) {
        let rounded = |ns: u64| Duration::from_millis((ns + 500_000) / 1_000_000);
        (rounded(self.on_ns), rounded(self.off_ns))
    }

    /// All of them, the hottest first.
    pub fn hottest(&self) -> Vec<&Body> {
        let mut all: Vec<&Body> = self.all().collect();
        all.sort_by_key(|body| (Reverse(body.cost()), body.key, body.room));
        all
    }

    /// What a run does; `seed` says in which runs the long ones have their turn.
    pub fn of_run(&self, seed: u64, run: u32) -> HotBodies {
        let out = [&self.turns, &self.rare].into_iter().filter(|turns| !turns.is_in(seed, run));
        let never = out.flat_map(|turns| &turns.bodies).map(|body| (body, Turn::Never));
        let bursts = self.bursts.iter().map(|body| (body, Turn::Bursts));
        let seldom = self.seldom.iter().map(|body| (body, Turn::Seldom));
        let rows = never.chain(bursts).chain(seldom).map(|(body, turn)| ((body.key, body.room), turn)).collect();
        HotBodies { rows, on_ns: self.on_ns, off_ns: self.off_ns, whole_every: self.whole_every }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use selvedge_events::HookIx;
    use selvedge_events::hooks::by_name;
    use selvedge_events::site_table::{self, Entry, Form};
    use selvedge_image::Reach;
    use selvedge_trace::survey::Seen;

    use super::*;

    const MS: u64 = 1_000_000;

    fn body(room: u32, hooks: u64, checks: u64, calls: u64) -> Body {
        Body {
            image: "/p".into(),
            key: 7,
            room,
            hooked: room + 5,
            hooks,
            checks,
            calls: Some(calls),
            entry: Some(room),
        }
    }

    #[test]
    fn what_fits_the_budget_is_left_alone() {
        let few = vec![body(1, 10 * MS, 0, 1), body(2, 2 * MS, 2 * MS, 5)];
        // 17 ms of 340 ms are a half of ten percent.
        assert!(Hot::new(few.clone(), 340 * MS, 100_000).is_empty());
        assert!(!Hot::new(few.clone(), 339 * MS, 100_000).is_empty());
        assert!(is_felt(&few) && !is_felt(&few[1..1]));
        // What cannot be felt never counts.
        assert!(Hot::new(vec![body(1, 5 * MS, 0, 1)], 1, 1).is_empty());
    }

    #[test]
    fn hot_functions_are_told_apart() {
        let all = vec![
            body(1, MS / 4, MS / 4, 1000),
            body(2, 200 * MS, 0, 1000),
            body(3, 200 * MS, 200 * MS, 1000),
            body(4, 200 * MS, 200 * MS, 2),
            body(5, 200 * MS, 0, 2),
        ];
        let hot = Hot::new(all.clone(), 1000 * MS, 80_000);
        let rooms = |bodies: &[Body]| bodies.iter().map(|body| body.room).collect::<Vec<_>>();
        let kinds = [&hot.bursts, &hot.seldom, &hot.turns.bodies, &hot.rare.bodies].map(|bodies| rooms(bodies));
        assert_eq!(kinds, [[3], [2], [4], [5]]);
        // Of 3 % of a second a third for 200 ms of hooks: one run in 20. A sixth for others: one in 40.
        assert_eq!((hot.turns.part, hot.rare.part), (50_000, 25_000));
        let usual = Hot::new(all, 1000 * MS, 250_000);
        assert!(usual.turns.is_always() && usual.rare.is_always() && !hot.turns.is_always());
        assert_eq!(usual.of_run(9, 0).rows.into_values().collect::<Vec<_>>(), [Turn::Seldom, Turn::Bursts]);
        let turns = (0..1000).filter(|run| hot.turns.is_in(9, *run)).count();
        assert_eq!(turns, 50);
        let first = |seed| (0..40).find(|run| hot.turns.is_in(seed, *run));
        assert!((1..9).map(first).collect::<BTreeSet<_>>().len() > 3);
        let rows = |run| hot.of_run(9, run).rows.into_iter().map(|((_, room), turn)| (room, turn)).collect::<Vec<_>>();
        let bursts = [(2, Turn::Seldom), (3, Turn::Bursts)];
        let is_in = |turns: &Turns, room, run| (!turns.is_in(9, run)).then_some((room, Turn::Never));
        for run in 0..200 {
            let long = [is_in(&hot.turns, 4, run), is_in(&hot.rare, 5, run)];
            assert_eq!(rows(run), bursts.into_iter().chain(long.into_iter().flatten()).collect::<Vec<_>>());
        }
        // Where nothing else is left, those that hardly watch have the bursts to themselves.
        let hot = Hot::new(vec![body(2, 200 * MS, 0, 1000)], 1000 * MS, 160_000);
        assert_eq!((rooms(&hot.bursts), hot.seldom.len(), hot.whole_every), (vec![2], 0, 1));
    }

    #[test]
    fn bursts_take_their_part_of_the_time() {
        // Calls of 1.05 ms; with hooks the program takes 1.7 s instead of 1 s.
        let watching = body(3, 200 * MS, 200 * MS, 1000);
        let hot = Hot::new(vec![watching.clone()], 1000 * MS, 80_000);
        let (on, period) = (hot.on_ns as f64, (hot.on_ns + hot.off_ns) as f64);
        let added = (on + 1_050_000.0) * 700.0 / 1700.0;
        assert!((added / period - 0.03).abs() < 0.0003, "{on} {period}");
        let rows = hot.of_run(1, 0);
        assert_eq!((rows.on_ns, rows.off_ns, rows.whole_every), (hot.on_ns, hot.off_ns, 1));
        // Others that take as long and hardly watch: a third of the time for them.
        let hot = Hot::new(vec![watching, body(2, 700 * MS, 0, 1000)], 1000 * MS, 80_000);
        let period = (hot.on_ns + hot.off_ns) as f64;
        assert!((added / period - 0.02).abs() < 0.0003, "{on} {period}");
        let whole = added / (period * f64::from(hot.whole_every));
        assert!((0.005..=0.01).contains(&whole), "{}", hot.whole_every);
        // Switching thousands of functions takes time, too.
        let many = (0..4000).map(|room| body(room, MS, MS, 1000)).collect();
        let hot = Hot::new(many, 1000 * MS, 80_000);
        let switched = (hot.bursts.len() as u64 * SWITCH_NS) as f64;
        assert!(switched / ((hot.on_ns + hot.off_ns) as f64) <= 0.03 / 16.0 + 1e-9);
    }

    #[test]
    fn a_body_has_the_hooks_of_all_that_it_leads_to() {
        let hooks = ["__tsan_func_entry", "__tsan_read4", "__tsan_write4", "__tsan_func_entry", "__tsan_read8"];
        let entry = |(at, name): (usize, &&str)| Entry {
            offset: 100 + at as u32 * 16,
            hook: by_name(name).expect("a hook"),
            form: Form::Call,
            code: [0; 8],
        };
        // `f` with three sites, and what it may call with two.
        let image = ImageSites {
            build_id: vec![1; 20],
            path: "/p".into(),
            entries: hooks.iter().enumerate().map(entry).collect(),
            reach: Reach {
                bodies: vec![site_table::Body { room: 4, hooked: 90 }, site_table::Body { room: 40, hooked: 145 }],
                ranges: vec![(0, 3, vec![0]), (3, 2, vec![0, 1])],
            },
            ..ImageSites::default()
        };
        let mut survey = Survey::default();
        for (offset, hits) in [(100, 10), (116, 1000), (132, 50), (148, 3), (164, 7)] {
            let seen = Seen { hook: HookIx(3), shared: true, on_stack: false, hits };
            survey.add(&[1; 20], Path::new("/p"), offset, seen);
        }
        let spec =
            |sites: &[(u32, u32)]| vec![ImageSpec { build_id: vec![1; 20], sites: sites.to_vec(), table: Vec::new() }];
        let counts = |sites: &[(u32, u32)]| {
            let bodies = bodies(std::slice::from_ref(&image), &survey, &spec(sites));
            bodies.iter().map(|body| (body.room, body.hooks, body.checks, body.calls.unwrap_or(0))).collect::<Vec<_>>()
        };
        assert_eq!(counts(&[(1, 0), (4, 1)]), [(4, 1057, 1007, 10), (40, 7, 7, 3)]);
        // A site that only `f` leads to switches `f` alone.
        assert_eq!(counts(&[(2, 0)]), [(4, 1057, 50, 10)]);
        assert_eq!(counts(&[]), []);
        let all = bodies(std::slice::from_ref(&image), &survey, &spec(&[(1, 0), (2, 1)]));
        assert_eq!(all.iter().map(|body| body.entry).collect::<Vec<_>>(), [Some(0)]);
        let mut armed = spec(&[(1, 0), (2, 1)]);
        Hot { bursts: all, ..Hot::default() }.arm(&mut armed, 7);
        assert_eq!(armed[0].sites, [(0, 7), (1, 0), (2, 1)]);
        assert_eq!(presumed_time(&survey), 1070);
    }
}
