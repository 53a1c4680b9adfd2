//! What exploring is worth: how soon it finds the bugs of the corpus, and whether what it finds can be had again.
//!
//! ```text
//! workshop (builds, surveys) ─┬─▶ find, stress      schedules until the first failure, next to plain runs
//!                             ├─▶ again             replays and smaller clips of what was found
//!                             ├─▶ twins             fixed programs under many schedules
//!                             ├─▶ rate              schedules in a second, with and without the fork server
//!                             ├─▶ repeat            one schedule again and again, event by event
//!                             └─▶ counted           bounded search, counted by hand
//!                                   └─▶ bars ─▶ page, JSON
//! ```

pub mod again;
pub mod alone;
pub mod bars;
pub mod counted;
pub mod find;
pub mod options;
pub mod page;
pub mod rate;
pub mod repeat;
pub mod stress;
pub mod twins;
pub mod workshop;
