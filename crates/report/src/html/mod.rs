//! Findings as a page: one file that needs no network, no other file and, to be read, no script.
//!
//! `model` turns findings, accounts of their runs and rankings into what the page shows, `page.html` is its shape,
//! `report.css` and `report.js` are put into it. The template escapes whatever it is given; the timeline's data is JSON
//! in a block that is no script (`timeline`), with everything that could end the block written as an escape.
//!
//! A page stays readable whatever it is made from: findings and events past a bound are counted, not shown.

mod model;
mod plot;
mod source;
mod timeline;

#[cfg(test)]
mod tests;

use askama::Template as _;
use selvedge_findings::{Finding, Report};

use crate::account::{Account, Extent};

/// What a page is made from beside the findings.
#[derive(Debug, Default)]
pub struct PageOptions<'a> {
    /// Our version.
    pub version: &'a str,
    /// The command line that found them.
    pub command: &'a str,
    /// What runs of the findings' clips show, or why there is nothing, in the order of the report's findings.
    pub accounts: &'a [Option<Result<Account, String>>],
    /// What should be known about what was not looked at.
    pub notes: &'a [String],
    /// The neighbourhood of ranked code points: `ranking_svg::picture`.
    pub graph: Option<&'a str>,
    /// New members of the invariants, for each training run.
    pub curve: &'a [usize],
}

/// Findings that have a page of their own; the others are listed.
pub const MOST_TOLD: usize = 100;
/// Findings that are listed; the others are counted.
pub const MOST_LISTED: usize = 1000;
/// Events of all timelines of a page.
const MOST_EVENTS: usize = 6000;

/// How much is kept of the run of each finding, where a page has so many.
pub fn extent(findings: usize) -> Extent {
    Extent { lines: 120, events: (MOST_EVENTS / findings.max(1)).clamp(60, 600) }
}

/// The findings that have a place of their own on a page, as positions in the report: errors first, then what was
/// predicted, then what was refuted; of one bug the surest.
pub fn told(report: &Report) -> Vec<usize> {
    model::order(&report.findings)
}

/// Whether a finding comes with an account, where its clip can be run.
pub fn wants_account(finding: &Finding) -> bool {
    finding.is_error() && finding.clip.is_some()
}

/// The page.
pub fn html(report: &Report, options: &PageOptions<'_>) -> String {
    let page = model::Page::of(report, options);
    // Writing to a string does not fail, and the template has no filter that does.
    page.render().expect("the page is written to memory")
}
