//! A baseline: bugs that are known already, so that only new ones need be looked at.
//!
//! A finding is known where the baseline has an error with its id, or one that differs in line numbers only: code above it may have
//! moved. A bug is known where one of its errors is.

use std::collections::BTreeSet;

use crate::bugs::named;
use crate::report::{Access, Finding, Kind, Report};

/// What is known.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    bugs: Vec<Vec<Known>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    id: String,
    shape: Shape,
}

/// A finding without its line numbers: kind, and for each access what is done, in which function and file, to which variable.
/// The accesses of a race have no order.
type Shape = (Kind, Vec<(String, String, String, String)>);

impl Baseline {
    /// The errors of a report.
    pub fn of(report: &Report) -> Baseline {
        let error = |at: &usize| report.findings.get(*at).filter(|finding| finding.is_error());
        let known = |finding: &Finding| Known { id: finding.id.clone(), shape: shape(finding) };
        let bugs = named(&report.findings)
            .into_iter()
            .map(|bug| std::iter::once(&bug.lead).chain(&bug.others).filter_map(error).map(known).collect::<Vec<_>>());
        Baseline { bugs: bugs.filter(|bug| !bug.is_empty()).collect() }
    }

    /// Bugs that it has.
    pub fn len(&self) -> usize {
        self.bugs.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bugs.is_empty()
    }

    /// Whether a bug with these findings is known.
    pub fn knows<'a>(&self, findings: impl IntoIterator<Item = &'a Finding>) -> bool {
        findings.into_iter().any(|finding| finding.is_error() && !self.places(finding).is_empty())
    }

    /// How many of its bugs are not among these findings.
    pub fn unseen<'a>(&self, findings: impl IntoIterator<Item = &'a Finding>) -> usize {
        let seen: BTreeSet<usize> = findings
            .into_iter()
            .filter(|finding| finding.is_error())
            .flat_map(|finding| self.places(finding))
            .collect();
        self.bugs.len() - seen.len()
    }

    /// Bugs that have this finding.
    fn places(&self, finding: &Finding) -> Vec<usize> {
        let shape = shape(finding);
        // Where nothing is known of the places, everything would be alike.
        let is_telling =
            !finding.accesses.is_empty() && finding.accesses.iter().all(|access| access.function.is_some());
        let is_it = |known: &Known| known.id == finding.id || (is_telling && known.shape == shape);
        let bugs = self.bugs.iter().enumerate();
        bugs.filter(|(_, bug)| bug.iter().any(is_it)).map(|(at, _)| at).collect()
    }
}

fn shape(finding: &Finding) -> Shape {
    let part = |access: &Access| {
        let file = access.file.as_deref().unwrap_or("");
        let variable = access.variable.as_deref().filter(|name| !name.contains("0x")).unwrap_or("");
        (
            access.op.clone(),
            access.function.clone().unwrap_or_default(),
            file.rsplit('/').next().unwrap_or(file).to_owned(),
            // Heap blocks are named by the line that made them.
            variable.split(':').next().unwrap_or("").to_owned(),
        )
    };
    let mut parts: Vec<_> = finding.accesses.iter().map(part).collect();
    if finding.kind == Kind::DataRace {
        parts.sort();
    }
    (finding.kind, parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Harm, Program, Runs, Status};

    fn finding(id: &str, function: &str, line: u32) -> Finding {
        let access = Access {
            op: "write".into(),
            function: Some(function.into()),
            file: Some("/a/x.c".into()),
            line: Some(line),
            variable: Some("n".into()),
            ..Access::default()
        };
        let mut finding = Finding::new(id.into(), Kind::DataRace, vec![access]);
        finding.status = Status::Confirmed;
        finding
    }

    fn baseline(findings: Vec<Finding>) -> Baseline {
        let program = Program { path: "p".into(), build_id: String::new() };
        Baseline::of(&Report::new(program, Runs::default(), findings))
    }

    #[test]
    fn what_moved_is_known_and_what_is_elsewhere_is_not() {
        let known = baseline(vec![finding("a", "put", 3)]);
        let moved = finding("b", "put", 30);
        let mut elsewhere = moved.clone();
        elsewhere.accesses[0].function = Some("get".into());
        assert!(known.knows([&moved]) && known.knows([&finding("a", "other", 1)]));
        assert!(!known.knows([&elsewhere]));
        assert!(known.knows([&elsewhere, &moved]), "one finding of a bug is enough");
    }

    #[test]
    fn only_errors_count_on_both_sides() {
        let mut untried = finding("a", "put", 3);
        untried.status = Status::Predicted;
        assert!(baseline(vec![untried.clone()]).is_empty());
        let known = baseline(vec![finding("a", "put", 3)]);
        assert!(!known.knows([&untried]));
        assert_eq!((known.unseen([&untried]), known.unseen([&finding("a", "put", 3)])), (1, 0));
    }

    #[test]
    fn nothing_known_of_the_places_is_no_likeness() {
        let mut bare = finding("a", "f", 1);
        bare.accesses.clear();
        bare.harm = Harm::Crash;
        let known = baseline(vec![bare.clone()]);
        bare.id = "b".into();
        assert!(!known.knows([&bare]));
    }

    #[test]
    fn a_bug_is_seen_by_any_of_its_findings() {
        let mut one = finding("a", "put", 3);
        let mut two = finding("b", "get", 4);
        one.group = Some("a".into());
        two.group = Some("a".into());
        let known = baseline(vec![one, two.clone(), finding("c", "third", 5)]);
        assert_eq!((known.len(), known.unseen([&two])), (2, 1));
    }
}
