//! Pages of findings that are made up, with accounts that are.

use selvedge_events::ThreadIx;
use selvedge_findings::{Access, Finding, Guarded, Harm, Held, Kind, Program, RankedPoint, Report, Runs, Status};

use super::*;
use crate::account::{LockSpan, Spot, Timeline};
use crate::sheet::{EventLine, Line, Row};

const HOSTILE: &str = "</script><!--<b onclick='x'>\"&";

fn finding(id: &str, kind: Kind, status: Status, harm: Harm) -> Finding {
    let access = |thread, number| Access {
        thread,
        op: "write".into(),
        function: Some(HOSTILE.into()),
        file: Some("/src/a.c".into()),
        line: Some(7),
        variable: Some(HOSTILE.into()),
        number: Some(number),
        value: Some("1 → 2".into()),
        holds: vec![Held { lock: HOSTILE.into(), taken: Some("a.c:3".into()) }],
        ..Access::default()
    };
    let mut finding = Finding::new(id.into(), kind, vec![access(1, 4), access(2, 5)]);
    (finding.status, finding.harm) = (status, harm);
    finding.gist = Some(HOSTILE.into());
    finding.clip = Some("it's a.clip".into());
    finding.replay = Some("selvedge replay 'it'\\''s a.clip'".into());
    finding
}

fn report(findings: Vec<Finding>) -> Report {
    let program = Program { path: format!("/bin/{}", HOSTILE.replace('/', "")), build_id: "ab".into() };
    Report::new(program, Runs { total: 4, pass: 3, fail: 1, hang: 0 }, findings)
}

fn account() -> Account {
    let event = |number, thread| Spot {
        number,
        thread,
        what: format!("write {HOSTILE}"),
        value: "1 → 2".into(),
        place: "a.c:7".into(),
        function: HOSTILE.into(),
        is_marked: true,
        gap: 2,
    };
    let line = |number: u64, thread| {
        Line::Event(Box::new(EventLine {
            thread: ThreadIx(thread),
            at: number.to_string(),
            is_timed: true,
            number: Some(number),
            row: Row::Marked,
            op: "write",
            object: HOSTILE.into(),
            value: " 1 → 2".into(),
            detail: String::new(),
            snippet: Some((7, HOSTILE.into())),
            place: "a.c:7".into(),
            function: HOSTILE.into(),
        }))
    };
    Account {
        columns: vec![(1, "T1".into()), (2, HOSTILE.into())],
        lines: vec![Line::Skipped(3), line(4, 1), Line::Own(ThreadIx(2), 2), line(5, 2)],
        undone: vec![(1, "waits for m".into(), 0)],
        timeline: Timeline {
            threads: vec![(1, "T1".into()), (2, HOSTILE.into())],
            events: vec![event(4, 1), event(5, 2)],
            arrows: vec![(0, 1)],
            locks: vec![LockSpan { thread: 1, from: 0, to: None, name: HOSTILE.into() }],
            cut: 9,
            own: 1,
        },
        by_lines: false,
    }
}

fn page(report: &Report, accounts: &[Option<Result<Account, String>>]) -> String {
    html(report, &PageOptions { version: "1.2", command: HOSTILE, accounts, ..PageOptions::default() })
}

/// The page without its own style and script, which no guest has a say in.
fn content(page: &str) -> String {
    page.replace(include_str!("report.css"), "").replace(include_str!("report.js"), "")
}

#[test]
fn nothing_of_a_guest_becomes_markup() {
    let report = report(vec![finding(HOSTILE, Kind::DataRace, Status::Confirmed, Harm::Crash)]);
    let text = content(&page(&report, &[Some(Ok(account()))]));
    assert!(!text.contains("<b onclick") && !text.contains("<!--"), "{text}");
    // Two blocks: the data of the timeline, and our own script.
    assert_eq!((text.matches("<script").count(), text.matches("</script>").count()), (2, 2));
    assert!(text.contains("&#60;b onclick") || text.contains("&lt;b onclick"), "but it is shown");
    assert!(text.contains("it&#39;s a.clip") || text.contains("it&#39;\\&#39;&#39;s a.clip"), "{text}");
}

#[test]
fn an_account_is_told_row_by_row() {
    let report = report(vec![finding("f", Kind::Deadlock, Status::Confirmed, Harm::Hang)]);
    let text = content(&page(&report, &[Some(Ok(account()))]));
    assert_eq!(text.matches("<tr class=\"marked\"").count(), 2);
    for part in [
        "<tr class=\"gap\"><td colspan=\"3\">… 3 events</td></tr>",
        "<span class=\"chip\">1</span>4</td>",
        "<span class=\"chip\">2</span>5</td><td></td>",
        "… 2 steps of its own",
        "<tr class=\"undone\"",
        "waits for m",
        "Not drawn: 9 events further away and 1 event of one thread alone.",
        "1 bug made to happen, and it did harm.",
        "4 runs: 3 passed 1 failed",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let data = text.split("<script type=\"application/json\">").nth(1).and_then(|rest| rest.split('<').next());
    let data: serde_json::Value = serde_json::from_str(data.expect("a timeline")).expect("JSON");
    assert_eq!(data["e"][1][6], 2, "the second event of the finding");
    assert_eq!(
        (&data["a"], &data["l"][0][2], &data["w"][0][0]),
        (&serde_json::json!([[0, 1]]), &(-1).into(), &0.into())
    );
}

#[test]
fn where_there_is_no_account_it_says_why() {
    let report = report(vec![finding("f", Kind::DataRace, Status::Confirmed, Harm::Crash)]);
    let text = content(&page(&report, &[Some(Err("it was built anew".into()))]));
    assert!(text.contains("No interleaving: it was built anew") && !text.contains("class=\"sheet\""));
}

#[test]
fn the_worst_comes_first_and_one_bug_once() {
    let all = vec![
        finding("refuted", Kind::DataRace, Status::Refuted, Harm::NoneSeen),
        finding("both", Kind::DataRace, Status::Refuted, Harm::NoneSeen),
        finding("predicted", Kind::DataRace, Status::Predicted, Harm::NoneSeen),
        finding("harmless", Kind::OrderViolation, Status::Confirmed, Harm::NoneSeen),
        finding("both", Kind::DataRace, Status::Confirmed, Harm::NoneSeen),
        finding("crash", Kind::OrderViolation, Status::Confirmed, Harm::Crash),
    ];
    let report = report(all);
    let ids: Vec<&str> = told(&report).into_iter().map(|index| report.findings[index].id.as_str()).collect();
    assert_eq!(ids, ["both", "crash", "predicted", "harmless", "refuted"]);
    let text = content(&page(&report, &[]));
    assert!(text.contains("1 finding is the same bug as one that is shown."));
    assert!(text.contains("2 bugs made to happen; 1 did harm."));
    assert_eq!(text.matches("<details class=\"finding").count(), 5);
    assert_eq!(text.matches(" open>").count(), 1, "the first error");
}

#[test]
fn findings_of_one_bug_are_told_together() {
    let mut all = vec![
        finding("lead", Kind::AtomicityViolation, Status::Confirmed, Harm::Crash),
        finding("apart", Kind::DataRace, Status::Confirmed, Harm::NoneSeen),
        finding("other", Kind::DataRace, Status::Confirmed, Harm::NoneSeen),
    ];
    all[0].group = Some("lead".into());
    all[2].group = Some("lead".into());
    let guard = Guarded { plan: Some("a plan".into()), verified: true, clips: 1, schedules: 100, ..Guarded::default() };
    all[0].guard = Some(guard);
    all[1].known = Some(true);
    let report = report(all);
    let ids: Vec<&str> = told(&report).into_iter().map(|index| report.findings[index].id.as_str()).collect();
    assert_eq!(ids, ["lead", "other", "apart"]);
    let text = content(&page(&report, &[]));
    assert!(text.contains("2 bugs made to happen; 1 did harm."), "{text}");
    assert_eq!(text.matches("class=\"finding confirmed other\"").count(), 1);
    assert!(text.contains("It holds: 1 failing schedule and 100 fresh ones pass with it."), "{text}");
    assert!(text.contains("SELVEDGE_PLAN=") && text.contains(">known</span>"), "{text}");
}

#[test]
fn thousands_of_findings_are_counted() {
    let many =
        |count: usize| (0..count).map(|at| finding(&format!("f{at}"), Kind::DataRace, Status::Confirmed, Harm::Crash));
    let report = report(many(MOST_TOLD + MOST_LISTED + 7).collect());
    let text = page(&report, &[]);
    assert_eq!(text.matches("<details class=\"finding").count(), MOST_TOLD);
    assert!(text.contains("7 findings are not on this page; --json has all of them."));
    assert!(text.len() < 1_500_000, "{}", text.len());
    assert_eq!(extent(1).events, 600);
    assert!(extent(MOST_TOLD).events * MOST_TOLD <= MOST_EVENTS);
}

#[test]
fn rankings_and_curves_have_their_own_parts() {
    let mut ranked = report(Vec::new());
    let point = |rank, score| RankedPoint {
        rank,
        file: Some("/far/a.c".into()),
        line: Some(3),
        function: Some(HOSTILE.into()),
        score,
        why: HOSTILE.into(),
        evidence: Vec::new(),
    };
    ranked.ranking = Some(vec![point(1, 0.8), point(2, 0.4)]);
    let options = PageOptions { graph: Some("<svg id=\"graph\"></svg>"), curve: &[], ..PageOptions::default() };
    let text = content(&html(&ranked, &options));
    assert!(text.contains("--share:500") && text.contains("a.c:3") && text.contains("<svg id=\"graph\">"), "{text}");
    assert!(text.contains("1 run failed; the likely places are ranked below."));
    let text = content(&html(&report(Vec::new()), &PageOptions { curve: &[3, 1, 0], ..PageOptions::default() }));
    assert!(text.contains("4 members of the invariants learnt from 3 runs.") && text.contains("class=\"plot\""));
}
