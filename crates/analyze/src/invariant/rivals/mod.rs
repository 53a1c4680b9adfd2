//! The invariants that the guard's is compared with (Zhang et al., TSE 2016, section 5.2 and Table 2), each learnt from correct
//! runs and checked on another one; and the anticipating invariant itself beside them.
//!
//! | module | after | what holds |
//! |---|---|---|
//! | [`ai`] | Zhang et al., TSE 2016 | the last access of another thread is one that was seen there |
//! | [`avio`] | Lu et al., ASPLOS 2006 | two accesses of a thread are not unserializably interleaved |
//! | [`pset`] | Yu and Narayanasamy, ISCA 2009 | what an access of another thread depends on was seen there |
//! | [`dui`] | Shi et al., OOPSLA 2010 | a read sees a definition as it did |
//! | [`cci`] | Jin et al., OOPSLA 2010 | whether others were here in between is as it was |
//!
//! All of them see the same thing, a [`view::View`] of each access; they differ in what they keep of it. A site that no correct run
//! reached has no invariant, so nothing is said of it.

pub mod ai;
pub mod avio;
pub mod cci;
pub mod dui;
pub mod pset;
#[cfg(test)]
mod table;
pub mod view;

pub use ai::Ai;
pub use avio::Avio;
pub use cci::Cci;
pub use dui::Dui;
pub use pset::PSet;

use super::accesses::Access;

/// Something that held in all correct runs.
///
/// What was learnt is a union or intersection over runs: their order does not matter, nor does seeing one twice.
pub trait Invariant {
    /// A short name.
    fn name(&self) -> &'static str;

    /// Learns from a correct run.
    fn learn(&mut self, run: &[Access]);

    /// The first access of a run that does not fit what was learnt.
    fn first_violation(&self, run: &[Access]) -> Option<Violation>;
}

/// An access that does not fit.
///
/// Every invariant here is checked when its access is about to happen: that is where a tool could hold the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number in the run that was checked.
    pub access: usize,
    /// Where in the code.
    pub site: u32,
    /// Whose.
    pub thread: u32,
    /// Under control: which operation of the thread; 0 where that is not known.
    pub operation: u32,
    /// Whether nothing is settled yet: what other threads do while this access waits can make the invariant hold
    /// again. Where it is false, waiting cannot help and only a roll-back could.
    pub before: bool,
}

impl Violation {
    /// The violation of an access with this number.
    pub fn of(number: usize, access: &Access, before: bool) -> Violation {
        let Access { site, thread, operation, .. } = *access;
        Violation { access: number, site, thread, operation, before }
    }
}

/// One of each, with nothing learnt, in the order of the paper's Table 2.
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(Ai::default()),
        Box::new(Avio::default()),
        Box::new(Dui::default()),
        Box::new(Cci::default()),
        Box::new(PSet::default()),
    ]
}

/// Which of two answers were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answers {
    yes: bool,
    no: bool,
}

impl Answers {
    fn add(&mut self, answer: bool) {
        *(if answer { &mut self.yes } else { &mut self.no }) = true;
    }

    /// Whether there were answers, and never this one.
    fn excludes(self, answer: bool) -> bool {
        if answer { self.no && !self.yes } else { self.yes && !self.no }
    }
}
