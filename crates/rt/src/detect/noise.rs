//! Noise: how a thread waits, how often, and what that may cost.
//!
//! *How often.* A countdown in thread-local storage tells when the next access is considered, so the access path has neither
//! a division nor a random number. Distances are even around 1000 / strength.
//!
//! *How long.* Half to one and a half times the plan's duration; one wait in eight is eight times as long, for accesses
//! that are far apart (the paper waits for a fixed time).
//!
//! *What it may cost.* Each thread has an account: what it waited, by the clock, and its checks, by a cost that is
//! measured at the start, against the processor time that it used. Over the budget it does not wait, and is considered less often.
//! A start-up credit (`CREDIT_NS`), which all threads share, lets short programs have noise at all. Budgets are kept by each thread for itself: where
//! no thread is slowed by more than a part, neither is the whole. That is not so where threads wait for each other, at locks that
//! one sleeps under or for answers: a small budget (`SMALL`) is kept by all threads together as well, against the clock.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use selvedge_events::detect::{LogCounter, NO_BUDGET, NoiseKind};

use super::{bursts, log};
use crate::{arch, sys};

/// What the process may wait before it has used any processor time, where the budget is a quarter (`FULL`) or more; below that less, as the square:
/// who asks for little feels it in short programs too.
const CREDIT_NS: u64 = 100_000_000;
const FULL: u64 = 250_000;
/// The largest budget that all threads keep together, in millionths.
const SMALL: u32 = 100_000;
/// The part of the budget that is for usual sites where there are others: what is met all the time would have all of it.
const USUAL_PART: u32 = 4;
/// Accesses of a thread per access that a beginning thread leaves out between two waits: after so many accesses times
/// the usual distance, noise is as usual.
const EAGER: u64 = 32;
/// How often, at most, a thread asks for its processor time.
const ASK_NS: u64 = 50_000;
/// Accesses between two looks at the account, where a site never waits.
pub const QUIET_GAP: u32 = 4096;
/// The countdown of threads that are left alone.
pub const NEVER: u32 = 1 << 30;
/// The distance while there is one thread.
pub const ALONE_GAP: u32 = 1 << 16;
/// What a thread can owe at most: what went before is forgiven, or it would never wait again.
const MOST_DEBT_NS: u64 = 5_000_000;
/// Most doublings of the distance; fewer where the end of a burst must be seen, and where accesses are few: even without a wait, a look leaves a
/// mark by which near misses are known.
const MOST_THIN: u32 = 10;
const MOST_THIN_RARE: u32 = 2;
const MOST_THIN_IN_BURSTS: u32 = 5;
const MONOTONIC: usize = 1;
const THREAD_CPU: usize = 3;

/// Nanoseconds in 2^16 ticks of the counter.
static RATE: AtomicU64 = AtomicU64::new(1 << 15);
/// What is left of the start-up credit, in nanoseconds of cost.
static CREDIT: AtomicU64 = AtomicU64::new(0);
/// What it was, the counter at the start, and what all threads have waited.
static GIVEN: AtomicU64 = AtomicU64::new(0);
/// Whether usual sites leave most of it to others.
static RESERVES: AtomicBool = AtomicBool::new(false);
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ALL_WAITED: AtomicU64 = AtomicU64::new(0);
/// What a check takes, in picoseconds.
static CHECK_PS: AtomicU32 = AtomicU32::new(2000);

/// Ticks of the counter as nanoseconds.
pub fn nanos(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(RATE.load(Ordering::Relaxed))) >> 16) as u64
}

/// Nanoseconds as ticks of the counter.
pub fn ticks(ns: u64) -> u64 {
    ((u128::from(ns) << 16) / u128::from(RATE.load(Ordering::Relaxed))).min(u128::from(u64::MAX)) as u64
}

/// The start-up credit of a budget.
fn credit_of(budget: u32) -> u64 {
    let part = u64::from(budget).min(FULL);
    CREDIT_NS * part / FULL * part / FULL
}

/// What usual sites leave of so much.
fn reserved_of(all: u64) -> u64 {
    all - all / u64::from(USUAL_PART)
}

/// Gives the start-up credit. `reserves`: most of it and of the budget is for sites that noise is aimed at or that are met seldom.
pub fn begin(budget: u32, reserves: bool) {
    let credit = credit_of(budget);
    CREDIT.store(credit, Ordering::Relaxed);
    GIVEN.store(credit, Ordering::Relaxed);
    RESERVES.store(reserves, Ordering::Relaxed);
    BEGUN.store(arch::counter(), Ordering::Relaxed);
    ALL_WAITED.store(0, Ordering::Relaxed);
}

/// What all threads together may still wait, of a small budget.
fn room(now: u64, budget: u32, reserved: u64) -> u64 {
    if budget > SMALL {
        return u64::MAX;
    }
    let run = nanos(now.wrapping_sub(BEGUN.load(Ordering::Relaxed)));
    let most = (u128::from(run) * u128::from(budget) / 1_000_000) as u64 + GIVEN.load(Ordering::Relaxed);
    most.saturating_sub(ALL_WAITED.load(Ordering::Relaxed)).saturating_sub(reserved)
}

/// Measures the counter, and what a check takes; `check` makes so many of them.
pub fn calibrate(check: impl Fn(u32)) {
    const CHECKS: u32 = 8192;
    let (ticks, ns) = (arch::counter(), sys::clock_ns(MONOTONIC));
    check(CHECKS);
    while sys::clock_ns(MONOTONIC).saturating_sub(ns) < 100_000 {
        core::hint::spin_loop();
    }
    let (passed, elapsed) = (arch::counter().wrapping_sub(ticks), sys::clock_ns(MONOTONIC).saturating_sub(ns));
    if let Some(rate) = (u128::from(elapsed) << 16).checked_div(u128::from(passed)) {
        RATE.store((rate as u64).max(1), Ordering::Relaxed);
    }
    // The best of a few: what disturbs only ever adds.
    let mut best = u64::MAX;
    for _ in 0..4 {
        let begun = arch::counter();
        check(CHECKS);
        best = best.min(arch::counter().wrapping_sub(begun));
    }
    let ps = nanos(best).saturating_mul(1000) / u64::from(CHECKS);
    CHECK_PS.store(ps.clamp(500, 50_000) as u32, Ordering::Relaxed);
    log::count(LogCounter::CheckPs, ps);
}

/// How a site is considered: the countdown that it takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// With the plan's strength.
    Usual = 0,
    /// With that of aimed noise.
    Aimed = 1,
    /// Never.
    Quiet = 2,
    /// With the plan's strength, at sites that are met seldom.
    Rare = 3,
}

/// A thread's account.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Account {
    random: u64,
    /// The last distance, by class.
    gaps: [u32; 4],
    /// Doublings of the distance, by class.
    thin: [u32; 4],
    /// Nanoseconds waited.
    waited: u64,
    /// Nanoseconds that looking at accesses took whose turn had come, beside the waits.
    spent: u64,
    /// Of the start-up credit.
    drawn: u64,
    /// Checks made.
    pub checks: u64,
    /// Processor time, when last asked for.
    cpu: u64,
    /// When that was.
    asked: u64,
    /// Checks and processor time at the last look of the switches.
    pub looked: (u64, u64),
    /// Checks in the log.
    told: u64,
    samples: u64,
    skipped: u64,
}

impl Account {
    /// A thread begins; false where it has begun already.
    pub fn begin(&mut self, seed: u64, thread: u32) -> bool {
        if self.random != 0 {
            return false;
        }
        self.random = mix(seed ^ u64::from(thread).wrapping_mul(0xd134_2543_de82_ef95)) | 1;
        true
    }

    fn next(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `most`, by chance.
    fn below(&mut self, most: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(most)) >> 64) as u64
    }

    /// Books the accesses of a countdown that has run out; answers the next distance.
    pub fn next_gap(&mut self, class: Class, strength: u16, eager: bool) -> u32 {
        let at = class as usize % 4;
        self.checks += u64::from(self.gaps[at]);
        let gap = match (class, strength) {
            (Class::Quiet, _) => QUIET_GAP,
            (_, 0) => QUIET_GAP,
            (_, 1000..) => 1,
            (_, strength) => {
                let mean = 1000 / u64::from(strength);
                let mean = if eager { mean.min(1 + self.checks / EAGER) } else { mean };
                1 + self.below(2 * mean) as u32
            }
        };
        let gap = gap.saturating_mul(1 << self.thin[at]).min(NEVER);
        self.gaps[at] = gap;
        gap
    }

    /// So many accesses of the last distance were not made.
    pub fn unused(&mut self, class: Class, left: u32) {
        let gap = &mut self.gaps[class as usize % 4];
        *gap = gap.saturating_sub(left);
    }

    /// Books as [`Account::next_gap`], while there is one thread.
    pub fn alone_gap(&mut self, class: Class) -> u32 {
        let at = class as usize % 4;
        self.checks += u64::from(core::mem::replace(&mut self.gaps[at], ALONE_GAP));
        ALONE_GAP
    }

    /// A sample was taken; now and then what is known goes to the log.
    pub fn sampled(&mut self) {
        self.samples += 1;
        if self.samples >= 64 {
            self.tell();
        }
    }

    /// Writes what is not in the log yet.
    pub fn tell(&mut self) {
        log::count(LogCounter::Samples, core::mem::take(&mut self.samples));
        log::count(LogCounter::OverBudget, core::mem::take(&mut self.skipped));
        log::count(LogCounter::Checks, self.checks - self.told);
        self.told = self.checks;
    }

    /// Whether this time is one of so many in a thousand.
    pub fn chance(&mut self, strength: u16) -> bool {
        self.below(1000) < u64::from(strength)
    }

    /// How long to wait.
    pub fn duration(&mut self, ns: u64) -> u64 {
        let long = if self.below(8) == 0 { 8 } else { 1 };
        (ns / 2 + self.below(ns.max(1))).saturating_mul(long)
    }

    /// How much of so long a wait the budget allows; `None` where it is too little to be worth it.
    pub fn may(&mut self, ns: u64, budget: u32, kind: NoiseKind, class: Class) -> Option<u64> {
        if budget == NO_BUDGET {
            return Some(ns);
        }
        let now = arch::counter();
        if self.asked == 0 || nanos(now.wrapping_sub(self.asked)) >= ASK_NS {
            self.asked = now;
            self.cpu = sys::clock_ns(THREAD_CPU);
        }
        let checks = self.checks_ns().saturating_add(self.spent);
        // What was waited on the processor is no work of the program's.
        let waited = if kind == NoiseKind::Sleep { 0 } else { self.waited };
        let work = self.cpu.saturating_sub(waited).saturating_sub(checks);
        let reserved = class == Class::Usual && RESERVES.load(Ordering::Relaxed);
        let limit = |budget: u32| (u128::from(work) * u128::from(budget) / 1_000_000) as u64 + self.drawn;
        let taken = self.waited.saturating_add(checks).saturating_add(ns);
        let short = taken.saturating_sub(limit(if reserved { budget / USUAL_PART } else { budget }));
        let debt = taken.saturating_sub(limit(budget)).saturating_sub(ns);
        // What the credit cannot give is taken from the wait, as long as most of it is left.
        let least = short.saturating_sub(ns - ns / 4);
        let reserved = if reserved { reserved_of(GIVEN.load(Ordering::Relaxed)) } else { 0 };
        let draw = |credit: u64| (credit >= least.saturating_add(reserved)).then(|| credit - credit.min(short));
        let may = match (short, ns) {
            (0, _) if ns <= room(now, budget, reserved) => Some(0),
            // Only a wait is worth the credit.
            (_, 0) => None,
            _ if ns > room(now, budget, reserved) => None,
            _ => {
                let credit = CREDIT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, draw);
                credit.ok().map(|credit| credit.min(short))
            }
        };
        if let Some(drawn) = may {
            self.drawn = self.drawn.saturating_add(drawn);
        } else {
            self.drawn = self.drawn.saturating_add(debt.saturating_sub(MOST_DEBT_NS));
        }
        let thin = &mut self.thin[class as usize % 4];
        if may.is_some() {
            *thin = thin.saturating_sub(1);
        } else {
            let most = match class {
                Class::Rare => MOST_THIN_RARE,
                _ if bursts::are_there() => MOST_THIN_IN_BURSTS,
                _ => MOST_THIN,
            };
            *thin = (*thin + 1).min(most);
            self.skipped += 1;
        }
        may.map(|drawn| ns.saturating_sub(short - drawn))
    }

    /// What its checks took.
    pub fn checks_ns(&self) -> u64 {
        (u128::from(self.checks) * u128::from(CHECK_PS.load(Ordering::Relaxed)) / 1000) as u64
    }

    /// Processor time, when last asked for.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu
    }

    /// It waited.
    pub fn waited(&mut self, ns: u64) {
        self.waited = self.waited.saturating_add(ns);
        ALL_WAITED.fetch_add(ns, Ordering::Relaxed);
    }

    /// What looking at an access takes that has its turn, from here on.
    pub fn begin_look(&self) -> (u64, u64) {
        (arch::counter(), self.waited)
    }

    /// It has been looked at.
    pub fn end_look(&mut self, (begun, waited): (u64, u64)) {
        let all = nanos(arch::counter().wrapping_sub(begun));
        self.spent = self.spent.saturating_add(all.saturating_sub(self.waited - waited));
    }
}

/// Scatters the bits of a number.
pub fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// What a check takes, as nanoseconds for so many.
pub fn check_ns(checks: u64) -> u64 {
    (u128::from(checks) * u128::from(CHECK_PS.load(Ordering::Relaxed)) / 1000) as u64
}

/// Waits for so long, or until the bell is no longer 0; answers how long that was.
pub fn wait(kind: NoiseKind, ns: u64, bell: &AtomicU32) -> u64 {
    let begun = sys::clock_ns(MONOTONIC);
    let passed = || sys::clock_ns(MONOTONIC).saturating_sub(begun);
    let rung = || bell.load(Ordering::Acquire) != 0;
    match kind {
        _ if ns == 0 => {}
        NoiseKind::Sleep => {
            sys::futex_wait(core::ptr::from_ref(bell) as usize, 0, Some(ns));
        }
        NoiseKind::Spin => {
            let start = arch::counter();
            while nanos(arch::counter().wrapping_sub(start)) < ns && !rung() {
                core::hint::spin_loop();
            }
        }
        NoiseKind::Yield => {
            while passed() < ns && !rung() {
                sys::sched_yield();
            }
        }
        NoiseKind::Priority => {
            let before = sys::step_back();
            while passed() < ns && !rung() {
                sys::sched_yield();
            }
            sys::step_forward(before);
        }
    }
    passed()
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    fn account() -> Account {
        // SAFETY: all fields are integers.
        let mut account: Account = unsafe { core::mem::zeroed() };
        account.begin(7, 1);
        account
    }

    #[test]
    fn distances_have_the_mean_that_was_asked_for() {
        let mut account = account();
        for (strength, mean) in [(1, 1000.0), (20, 50.0), (200, 5.0), (500, 2.0), (1000, 1.0)] {
            let sum: u64 = (0..20_000).map(|_| u64::from(account.next_gap(Class::Usual, strength, false))).sum();
            let seen = sum as f64 / 20_000.0;
            assert!((seen - mean).abs() <= 0.6 + mean * 0.05, "strength {strength}: {seen}");
        }
        assert_eq!(account.next_gap(Class::Usual, 0, false), QUIET_GAP);
        let mut early = self::account();
        let first: Vec<u32> = (0..8).map(|_| early.next_gap(Class::Usual, 10, true)).collect();
        assert!(first.iter().all(|gap| *gap <= 4), "{first:?}");
        let later: u64 = (0..20_000).map(|_| u64::from(early.next_gap(Class::Usual, 10, true))).sum();
        assert!((90..110).contains(&(later / 20_000)), "{later}");
    }

    #[test]
    fn the_same_seed_gives_the_same_noise() {
        let (mut one, mut two) = (account(), account());
        for _ in 0..100 {
            assert_eq!(one.next_gap(Class::Aimed, 30, false), two.next_gap(Class::Aimed, 30, false));
            assert_eq!(one.duration(1000), two.duration(1000));
        }
        // SAFETY: all fields are integers.
        let mut other: Account = unsafe { core::mem::zeroed() };
        assert!(other.begin(8, 1) && !other.begin(9, 1));
        assert!((0..10).any(|_| one.duration(1 << 40) != other.duration(1 << 40)));
    }

    #[test]
    fn the_budget_ends_waits_and_thins_them() {
        let mut account = account();
        begin(50_000, false);
        let mut waited = 0;
        for _ in 0..100_000 {
            if let Some(ns) = account.may(10_000, 50_000, NoiseKind::Sleep, Class::Usual) {
                assert!((2_500..=10_000).contains(&ns), "{ns}");
                account.waited(ns);
                waited += ns;
            }
        }
        // The credit, and a twentieth of the little time that this took.
        let credit = credit_of(50_000);
        assert_eq!((credit, credit_of(250_000), credit_of(NO_BUDGET)), (CREDIT_NS / 25, CREDIT_NS, CREDIT_NS));
        assert!(waited >= credit / 2, "{waited}");
        assert!(waited <= credit + 5_000_000_000 / 20, "{waited}");
        assert_eq!(account.thin, [MOST_THIN, 0, 0, 0]);
        // Another thread that has worked for long finds nothing left, unless the budget is large.
        let mut other = self::account();
        (other.cpu, other.asked) = (1 << 40, arch::counter());
        ALL_WAITED.fetch_add(1 << 50, Ordering::Relaxed);
        assert_eq!(other.may(10_000, 50_000, NoiseKind::Sleep, Class::Usual), None);
        assert_eq!(other.may(10_000, 250_000, NoiseKind::Sleep, Class::Usual), Some(10_000));
        assert_eq!(account.may(u64::MAX, NO_BUDGET, NoiseKind::Sleep, Class::Usual), Some(u64::MAX));
    }

    #[test]
    fn a_wait_ends_when_the_bell_rings() {
        calibrate(|_| {});
        for kind in NoiseKind::ALL {
            let rung = AtomicU32::new(1);
            assert!(wait(*kind, 5_000_000_000, &rung) < 2_000_000_000, "{kind:?}");
            let silent = AtomicU32::new(0);
            assert!(wait(*kind, 200_000, &silent) >= 150_000, "{kind:?}");
        }
    }
}
