//! What free runs showed, for people: findings with one root cause are told as one bug, one of them in full and each of the others in a
//! line. That one is of the sort that has the best evidence, and of those the one that was seen in most runs that
//! did not pass, then the one that was seen most often: it is the easiest to see again.

use std::cmp::Reverse;

use selvedge_findings::bugs::bugs;
use selvedge_findings::{Access, Finding, Harm, Kind};
use selvedge_report::brief;
use selvedge_report::view::printable;

/// A finding of free runs.
pub(crate) struct Seen {
    /// The finding.
    pub(crate) finding: Finding,
    /// The same in full.
    pub(crate) text: String,
    /// How often it was seen.
    pub(crate) count: u64,
    /// In how many runs that did not pass, where that is known.
    pub(crate) failed: u32,
    /// The same in words: `3 times in 2 runs`.
    pub(crate) often: String,
}

/// The reports of all bugs, one after the other; and the findings of each, by their places, with the one first that leads.
pub(crate) fn told(seen: &[Seen]) -> (String, Vec<Vec<usize>>) {
    let findings: Vec<Finding> = seen.iter().map(|one| one.finding.clone()).collect();
    let all = bugs(&findings);
    let mut text = String::new();
    let mut places = Vec::with_capacity(all.len());
    for bug in &all {
        let mut members: Vec<(usize, &Seen)> =
            std::iter::once(&bug.lead).chain(&bug.others).filter_map(|at| Some((*at, seen.get(*at)?))).collect();
        let Some(best) = members.first().map(|(_, best)| sort(&best.finding)) else { continue };
        // Of several that were seen as often the first, as it has the better evidence.
        let alike = members.iter().enumerate().filter(|(_, (_, one))| sort(&one.finding) == best);
        let lead = alike.min_by_key(|(_, (_, one))| Reverse((one.failed, one.count))).map_or(0, |(at, _)| at);
        members[..=lead].rotate_right(1);
        let (at, all): (Vec<usize>, Vec<&Seen>) = members.into_iter().unzip();
        if let Some((lead, others)) = all.split_first() {
            text.push_str(&of_one_bug(lead, others));
        }
        places.push(at);
    }
    (text, places)
}

/// What was seen, as reports have it: the findings of each bug together, each with the id of the one that leads.
pub(crate) fn grouped(seen: &[Seen], bugs: &[Vec<usize>]) -> Vec<Finding> {
    let of = |bug: &Vec<usize>| {
        let lead = bug.first().and_then(|lead| seen.get(*lead)).map(|lead| lead.finding.id.clone());
        let mut members: Vec<Finding> =
            bug.iter().filter_map(|at| seen.get(*at)).map(|one| one.finding.clone()).collect();
        members.iter_mut().for_each(|finding| finding.group.clone_from(&lead));
        members
    };
    bugs.iter().flat_map(of).collect()
}

/// What makes the evidence of one finding better than that of another that was seen, too.
fn sort(finding: &Finding) -> (bool, Harm, Kind) {
    (finding.is_error(), finding.harm, finding.kind)
}

/// The report of the lead, with the others above its summary.
fn of_one_bug(lead: &Seen, others: &[&Seen]) -> String {
    /// Lines past which a list says no more.
    const MOST: usize = 8;
    if others.is_empty() {
        return lead.text.clone();
    }
    let mut lines = vec![format!("And {} more of the same root cause:", others.len())];
    lines.extend(others.iter().take(MOST).map(|other| format!("  {}; {}", pair(&other.finding), other.often)));
    if others.len() > MOST {
        lines.push(format!("  and {} others: --json lists them all", others.len() - MOST));
    }
    let at = lead.text.rfind("SUMMARY: Selvedge:").unwrap_or(lead.text.len());
    let (body, summary) = lead.text.split_at(at);
    let lines: String = lines.iter().map(|line| format!("  {}\n", printable(line))).collect();
    format!("{body}{lines}{summary}")
}

/// Its accesses in one line: ``data race on `hits`: write in put (a.c:8), read in get (a.c:9)``.
fn pair(finding: &Finding) -> String {
    let access = |access: &Access| match &access.function {
        Some(function) if access.line.is_some() => format!("{} in {function} ({})", access.op, brief::place(access)),
        _ => format!("{} in {}", access.op, brief::place(access)),
    };
    let accesses: Vec<String> = finding.accesses.iter().map(access).collect();
    let variable = finding.accesses.iter().find_map(|access| access.variable.as_deref());
    let variable = variable.map(|name| format!(" on `{name}`")).unwrap_or_default();
    format!("{}{variable}: {}", finding.kind.words(), accesses.join(", "))
}

#[cfg(test)]
mod tests {
    use selvedge_findings::Status;

    use super::*;

    fn seen(id: &str, variable: &str, sides: [(&str, u32); 2]) -> Seen {
        let access = |(op, line): (&str, u32)| Access {
            op: op.to_owned(),
            function: Some("put".to_owned()),
            file: Some("/src/a.c".to_owned()),
            line: Some(line),
            variable: Some(variable.to_owned()),
            ..Access::default()
        };
        let mut finding = Finding::new(id.to_owned(), Kind::DataRace, sides.map(access).to_vec());
        finding.status = Status::Confirmed;
        let text = format!("WARNING: {id}\nSUMMARY: Selvedge: {id}\n==\n");
        Seen { finding, text, count: 2, failed: 0, often: "2 times in 1 run".to_owned() }
    }

    #[test]
    fn one_bug_is_told_once_and_the_rest_of_it_in_lines() {
        let all = [
            seen("1", "hits", [("write", 8), ("read", 9)]),
            seen("2", "miss", [("write", 20), ("write", 20)]),
            seen("3", "hits", [("write", 8), ("write", 8)]),
        ];
        let (text, bugs) = told(&all);
        assert_eq!(bugs, [vec![0, 2], vec![1]]);
        let groups: Vec<_> = grouped(&all, &bugs).into_iter().map(|finding| (finding.id, finding.group)).collect();
        assert_eq!(
            groups,
            [("1", "1"), ("3", "1"), ("2", "2")].map(|(id, group)| (id.to_owned(), Some(group.to_owned())))
        );
        assert_eq!(
            text,
            "WARNING: 1\n  And 1 more of the same root cause:\n    data race on `hits`: write in put (a.c:8), write in put \
             (a.c:8); 2 times in 1 run\nSUMMARY: Selvedge: 1\n==\nWARNING: 2\nSUMMARY: Selvedge: 2\n==\n"
        );
    }

    #[test]
    fn what_was_seen_most_often_leads_unless_another_did_harm() {
        let mut all = [seen("1", "hits", [("write", 8), ("read", 9)]), seen("2", "hits", [("write", 8), ("write", 8)])];
        all[1].count = 27;
        assert!(told(&all).0.starts_with("WARNING: 2\n"), "{}", told(&all).0);
        all[0].failed = 1;
        assert!(told(&all).0.starts_with("WARNING: 1\n"), "{}", told(&all).0);
        all[1].failed = 2;
        all[0].finding.harm = Harm::WrongExit;
        assert!(told(&all).0.starts_with("WARNING: 1\n"), "{}", told(&all).0);
    }

    #[test]
    fn a_long_list_is_cut_and_says_where_the_rest_is() {
        let all: Vec<Seen> = (0..12).map(|n| seen(&n.to_string(), "hits", [("write", 8), ("read", 9 + n)])).collect();
        let (text, bugs) = told(&all);
        assert_eq!(bugs.len(), 1);
        assert_eq!(text.matches("data race on").count(), 8, "{text}");
        assert!(text.contains("And 11 more") && text.contains("and 3 others: --json lists them all"), "{text}");
    }
}
