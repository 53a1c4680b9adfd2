//! Anticipating invariants: which access may come right after which access of another thread.
//!
//! Paper: Zhang et al., "A Lightweight System for Detecting and Tolerating Concurrency Bugs" (TSE 2016), section 2. The
//! *remote predecessor* of an access is the last access to the same location by another thread, or *nil*; whether
//! they read or write does not matter. The *belonging set* of a site has every remote predecessor that its accesses
//! had in correct runs.
//!
//! Departures:
//! - A location is a byte: an access of several bytes has a predecessor for each, and all of them belong.
//! - Memory that is freed begins anew, with nil.
//! - Sites are named by [`SiteKey`]s, which are the same after a rebuild of unchanged code.
//! - Variables that belong together have one *colour*: their accesses count as accesses to one location (the paper's
//!   section 5.2.5, after ColorSafe).

pub mod accesses;
pub mod colour;
pub mod expose;
pub mod rivals;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The name of a site that survives a rebuild of unchanged code, such as `bank.c:withdraw+3:12:w4`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteKey(pub String);

impl fmt::Display for SiteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is known of one site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Belonging {
    /// Whether nil belongs.
    pub nil: bool,
    /// The sites that belong.
    pub members: BTreeSet<SiteKey>,
    /// Sites that touched the same memory, as far as `members` does not say so: enough to know the site's group.
    pub touches: BTreeSet<SiteKey>,
    /// How often the site ran, over all runs.
    pub hits: u64,
}

/// Variables that belong together: accesses at these sites count as accesses to one location, found by adding the
/// number to the address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Colour {
    /// What a person calls it: the variables.
    pub name: String,
    /// Its sites with their shifts in bytes.
    pub sites: BTreeMap<SiteKey, i32>,
}

/// What correct runs showed. Sets unite and counts add up, so merging is commutative and associative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invariants {
    /// The program's name, for people.
    pub program: String,
    /// Runs that it was learnt from.
    pub runs: u64,
    /// The sites.
    pub sites: BTreeMap<SiteKey, Belonging>,
    /// The colours that it was learnt with.
    pub colours: BTreeSet<Colour>,
}
