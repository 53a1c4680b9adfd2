//! What the page shows, in words and rows: everything that the template only has to put in its place.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_findings::{Access, Finding, Guarded, Harm, Kind, RankedPoint, Report, Status};

use super::source::{CodeLine, Files};
use super::{MOST_LISTED, MOST_TOLD, PageOptions, plot, timeline};
use crate::account::Account;
use crate::sheet::{Line, Row as Emphasis};
use crate::shell::quoted;
use crate::view::printable;

/// The whole page.
#[derive(askama::Template)]
#[template(path = "page.html")]
pub(super) struct Page {
    css: &'static str,
    js: &'static str,
    version: String,
    name: String,
    verdict: String,
    is_bad: bool,
    facts: Vec<Fact>,
    runs: Option<RunsBar>,
    kinds: Vec<KindRow>,
    figures: Vec<(u64, &'static str)>,
    notes: Vec<String>,
    sections: Vec<Section>,
    listed: Vec<Listed>,
    /// How many findings have a place of their own.
    told: usize,
    /// Code points of a ranking.
    ranking: Vec<Ranked>,
    /// Markup of ours, with guest text escaped where it was made.
    graph: String,
    curve: String,
}

pub(super) struct Fact {
    name: &'static str,
    value: String,
    is_code: bool,
}

pub(super) struct RunsBar {
    total: u64,
    parts: Vec<Part>,
}

pub(super) struct Part {
    name: &'static str,
    count: u64,
    /// Of a thousand.
    share: u64,
}

pub(super) struct KindRow {
    name: &'static str,
    kind: &'static str,
    confirmed: u64,
    harmful: u64,
    predicted: u64,
    refuted: u64,
}

/// Findings that belong together, under a heading.
pub(super) struct Section {
    title: &'static str,
    items: Vec<Item>,
}

/// A sentence, with what is code in it.
type Words = Vec<(bool, String)>;

/// Parts a sentence at its backticks. Of a name that has some itself, the rest is plain.
fn words(text: &str) -> Words {
    let parts = printable(text);
    let parts: Vec<&str> = parts.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return vec![(false, parts.join("`"))];
    }
    let part = |(at, text): (usize, &str)| (at % 2 == 1, text.to_owned());
    parts.into_iter().enumerate().map(part).filter(|(_, text)| !text.is_empty()).collect()
}

/// A finding.
pub(super) struct Item {
    anchor: String,
    id: String,
    kind: &'static str,
    status: &'static str,
    status_words: &'static str,
    harm: &'static str,
    harm_words: String,
    /// What orders findings by how bad they are: less is worse.
    weight: u32,
    title: String,
    places: String,
    gist: Words,
    why: Words,
    how_sure: String,
    is_open: bool,
    accesses: Vec<AccessItem>,
    sheet: Option<Sheet>,
    timeline: Option<Drawn>,
    /// Why there is no account.
    problem: String,
    commands: Vec<(&'static str, String)>,
    /// How a guard against it did.
    guard: String,
    /// How locks against it did.
    locks: String,
    /// Whether it is told below the finding that leads its bug.
    is_other: bool,
    is_known: bool,
}

pub(super) struct AccessItem {
    /// From 1, in the order that goes wrong.
    number: usize,
    thread: u32,
    colour: usize,
    what: String,
    variable: String,
    value: String,
    event: String,
    place: String,
    code: Vec<CodeLine>,
    holds: Vec<(String, String)>,
    knows_locks: bool,
    stack: Vec<(String, String)>,
}

pub(super) struct Sheet {
    columns: Vec<(usize, String)>,
    rows: Vec<SheetRow>,
    by_lines: bool,
}

/// A row of the interleaving: of one thread, or of all.
pub(super) struct SheetRow {
    sort: &'static str,
    at: String,
    /// Which access of the finding it is, from 1.
    mark: usize,
    /// Cells before and after the one that has something.
    before: usize,
    after: usize,
    colour: usize,
    op: String,
    object: String,
    value: String,
    code: String,
    place: String,
}

pub(super) struct Drawn {
    data: String,
    events: usize,
    cut: String,
}

/// A finding that has only a line.
pub(super) struct Listed {
    title: String,
    status_words: &'static str,
    harm_words: String,
    place: String,
}

pub(super) struct Ranked {
    rank: u32,
    place: String,
    function: String,
    why: String,
    score: String,
    /// Of a thousand.
    share: u32,
}

impl Page {
    pub(super) fn of(report: &Report, options: &PageOptions<'_>) -> Page {
        let order = order(&report.findings);
        let mut maker = Maker { options, files: Files::default(), anchors: BTreeMap::new() };
        let mut sections: Vec<Section> = Vec::new();
        for (at, index) in order.iter().take(MOST_TOLD).enumerate() {
            let Some(finding) = report.findings.get(*index) else { continue };
            let title = section(finding);
            let item = maker.item(*index, finding, at == 0 && finding.is_error());
            match sections.iter_mut().find(|section| section.title == title) {
                Some(section) => section.items.push(item),
                None => sections.push(Section { title, items: vec![item] }),
            }
        }
        let rest = order.get(MOST_TOLD.min(order.len())..).unwrap_or_default();
        let listed = rest.iter().take(MOST_LISTED).filter_map(|index| report.findings.get(*index)).map(Listed::of);
        let name = report.program.path.rsplit('/').next().unwrap_or("").to_owned();
        let shown: Vec<&Finding> = order.iter().filter_map(|index| report.findings.get(*index)).collect();
        Page {
            css: include_str!("report.css"),
            js: include_str!("report.js"),
            version: options.version.to_owned(),
            name: if name.is_empty() { "a trace".to_owned() } else { printable(&name) },
            verdict: verdict(report, &shown, options.curve),
            is_bad: shown.iter().any(|finding| finding.is_error()),
            facts: facts(report, options),
            runs: runs(report),
            kinds: kinds(&shown),
            figures: figures(report),
            notes: notes(report, options, &order),
            listed: listed.collect(),
            told: sections.iter().map(|section| section.items.len()).sum(),
            sections,
            ranking: ranking(report.ranking.as_deref().unwrap_or_default()),
            graph: options.graph.unwrap_or_default().to_owned(),
            curve: plot::convergence(options.curve).unwrap_or_default(),
        }
    }
}

/// Errors first, the worst ahead, then what was predicted, then the rest; of one bug the surest.
pub(super) fn order(findings: &[Finding]) -> Vec<usize> {
    let mut best: BTreeMap<&str, usize> = BTreeMap::new();
    let rank = |finding: &Finding| (weight(finding), finding.clip.is_none());
    for (index, finding) in findings.iter().enumerate() {
        let known = best.entry(&finding.id).or_insert(index);
        if findings.get(*known).is_some_and(|known| rank(finding) < rank(known)) {
            *known = index;
        }
    }
    let key = |index: &usize| {
        let finding = findings.get(*index);
        let lead = finding.and_then(|finding| best.get(finding.group.as_deref()?)).copied().unwrap_or(*index);
        (finding.map_or(u32::MAX, weight) / 10, lead, lead != *index, *index)
    };
    // What the command put first stays first among its like; a finding comes after the one that leads its bug.
    let mut order: Vec<usize> = best.values().copied().collect();
    order.sort_by_cached_key(key);
    order
}

/// How bad a finding is: tens for the section, ones for the harm.
fn weight(finding: &Finding) -> u32 {
    let section = match (finding.status, finding.is_error()) {
        (_, true) => 0,
        (Status::Confirmed, false) => 20,
        (Status::Predicted, _) => 10,
        _ => 30,
    };
    let harm = match finding.harm {
        Harm::Crash => 0,
        Harm::Assertion => 1,
        Harm::Hang => 2,
        Harm::Oracle => 3,
        Harm::WrongExit => 4,
        _ => 5,
    };
    section + harm
}

fn section(finding: &Finding) -> &'static str {
    match weight(finding) / 10 {
        0 => "Made to happen",
        1 => "Predicted, not tried",
        2 => "Happened without harm",
        _ => "Could not be made to happen",
    }
}

fn status_words(finding: &Finding) -> &'static str {
    match finding.status {
        Status::Confirmed => "confirmed",
        Status::Predicted => "predicted",
        _ => "refuted",
    }
}

fn harm_name(harm: Harm) -> &'static str {
    match harm {
        Harm::NoneSeen => "none",
        Harm::Assertion => "assertion",
        Harm::Crash => "crash",
        Harm::Hang => "hang",
        Harm::WrongExit => "wrong exit",
        Harm::Oracle => "oracle",
        _ => "harm",
    }
}

fn plural(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

fn verdict(report: &Report, shown: &[&Finding], curve: &[usize]) -> String {
    if !curve.is_empty() {
        let members = plural(curve.iter().sum::<usize>() as u64, "member", "members");
        return format!("{members} of the invariants learnt from {}.", plural(curve.len() as u64, "run", "runs"));
    }
    // Findings with one root cause are one bug.
    let bugs = |wanted: &dyn Fn(&Finding) -> bool| {
        let of = |finding: &&&Finding| finding.is_error() && wanted(finding);
        let name = |finding: &&Finding| finding.group.clone().unwrap_or_else(|| finding.id.clone());
        shown.iter().filter(of).map(name).collect::<BTreeSet<String>>().len() as u64
    };
    let (errors, harmful) = (bugs(&|_| true), bugs(&|finding| finding.harm != Harm::NoneSeen));
    let predicted = shown.iter().filter(|finding| finding.status == Status::Predicted).count() as u64;
    if report.ranking.is_some() && shown.is_empty() {
        return match report.runs.fail + report.runs.hang {
            0 => "No run failed; code points are ranked by how rare they are.".to_owned(),
            failed => format!("{} failed; the likely places are ranked below.", plural(failed, "run", "runs")),
        };
    }
    match (errors, harmful, predicted) {
        (0, _, 0) => match report.runs.total {
            0 => "Nothing was found.".to_owned(),
            total => format!("Nothing was found in {}.", plural(total, "run", "runs")),
        },
        (0, _, predicted) => {
            format!("{}, none of them made to happen.", plural(predicted, "prediction", "predictions"))
        }
        (bugs, 0, _) => format!("{} made to happen; no harm seen.", plural(bugs, "bug", "bugs")),
        (1, 1, _) => "1 bug made to happen, and it did harm.".to_owned(),
        (bugs, harmful, _) if bugs == harmful => format!("{bugs} bugs made to happen, each with harm."),
        (bugs, harmful, _) => format!("{} made to happen; {harmful} did harm.", plural(bugs, "bug", "bugs")),
    }
}

fn facts(report: &Report, options: &PageOptions<'_>) -> Vec<Fact> {
    let fact = |name, value: &str, is_code| Fact { name, value: printable(value), is_code };
    let facts = [
        fact("Program", &report.program.path, true),
        fact("Build id", &report.program.build_id, true),
        fact("Command", options.command, true),
    ];
    facts.into_iter().filter(|fact| !fact.value.is_empty()).collect()
}

fn runs(report: &Report) -> Option<RunsBar> {
    let runs = &report.runs;
    let other = runs.total.saturating_sub(runs.pass + runs.fail + runs.hang);
    let parts = [("passed", runs.pass), ("failed", runs.fail), ("hung", runs.hang), ("unknown", other)];
    let part =
        |(name, count): &(&'static str, u64)| Part { name, count: *count, share: count * 1000 / runs.total.max(1) };
    let parts = parts.iter().filter(|(_, count)| *count > 0).map(part).collect();
    (runs.total > 0).then_some(RunsBar { total: runs.total, parts })
}

fn kinds(shown: &[&Finding]) -> Vec<KindRow> {
    let row = |kind: &Kind| {
        let count = |wanted: &dyn Fn(&Finding) -> bool| {
            shown.iter().filter(|finding| finding.kind == *kind && wanted(finding)).count() as u64
        };
        KindRow {
            name: kind.name(),
            kind: kind.words(),
            confirmed: count(&|finding| finding.status == Status::Confirmed),
            harmful: count(&|finding| finding.status == Status::Confirmed && finding.harm != Harm::NoneSeen),
            predicted: count(&|finding| finding.status == Status::Predicted),
            refuted: count(&|finding| finding.status == Status::Refuted),
        }
    };
    Kind::ALL.iter().map(row).filter(|row| row.confirmed + row.predicted + row.refuted > 0).collect()
}

fn figures(report: &Report) -> Vec<(u64, &'static str)> {
    let Some(figures) = &report.figures else { return Vec::new() };
    let predicted = figures.predicted.values().sum();
    let all = [
        (figures.threads, "threads"),
        (figures.variables, "shared variables"),
        (figures.events, "events looked at"),
        (predicted, "predictions"),
        (figures.proved, "proved possible"),
        (figures.confirmed, "made to happen"),
    ];
    all.into_iter().filter(|(value, _)| *value > 0).collect()
}

/// What was not looked at, not tried, not shown.
fn notes(report: &Report, options: &PageOptions<'_>, order: &[usize]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(figures) = &report.figures {
        if figures.untried > 0 {
            notes.push(format!(
                "{} not tried: the time was up. A longer --budget tries them.",
                plural(figures.untried, "prediction was", "predictions were")
            ));
        }
        if report.runs.pass == 0 && report.runs.total > 0 {
            notes.push("No recorded run passed, so nothing was predicted.".to_owned());
        }
    }
    if let Some(count) = report.suppressed.filter(|count| *count > 0) {
        notes.push(format!("{} suppressed.", plural(count, "finding is", "findings are")));
    }
    notes.extend(options.notes.iter().map(|note| printable(note)));
    let same = report.findings.len() - order.len();
    if same > 0 {
        notes.push(format!("{} the same bug as one that is shown.", plural(same as u64, "finding is", "findings are")));
    }
    let left = order.len().saturating_sub(MOST_TOLD + MOST_LISTED);
    if left > 0 {
        notes.push(format!(
            "{} not on this page; --json has all of them.",
            plural(left as u64, "finding is", "findings are")
        ));
    }
    if (report.ranking.is_none() || report.figures.is_some()) && options.curve.is_empty() {
        notes.push(
            "Code that was not built with selvedge, and programs that were started by this one, are not seen."
                .to_owned(),
        );
    }
    notes
}

fn place(access: &Access) -> String {
    let file = access.file.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file));
    match (file, access.line, access.event) {
        (Some(file), Some(line), _) => printable(&format!("{file}:{line}")),
        (_, _, Some(event)) => format!("line {}", event + 1),
        _ => printable(access.function.as_deref().unwrap_or("?")),
    }
}

fn places(finding: &Finding) -> String {
    let mut seen = BTreeSet::new();
    let places: Vec<String> =
        finding.accesses.iter().map(place).filter(|place| seen.insert(place.clone())).take(4).collect();
    places.join(" · ")
}

impl Listed {
    fn of(finding: &Finding) -> Listed {
        Listed {
            title: printable(&finding.title()),
            status_words: status_words(finding),
            harm_words: harm_of(finding),
            place: places(finding),
        }
    }
}

fn harm_of(finding: &Finding) -> String {
    match finding.harm {
        Harm::NoneSeen => String::new(),
        harm => harm.words().to_owned(),
    }
}

fn ranking(points: &[RankedPoint]) -> Vec<Ranked> {
    let most = points.iter().map(|point| point.score).fold(f64::MIN_POSITIVE, f64::max);
    let ranked = |point: &RankedPoint| {
        let file = point.file.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file)).unwrap_or("?");
        let line = point.line.map(|line| format!(":{line}")).unwrap_or_default();
        Ranked {
            rank: point.rank,
            place: printable(&format!("{file}{line}")),
            function: printable(point.function.as_deref().unwrap_or("")),
            why: printable(&point.why),
            score: format!("{:.2}", point.score),
            share: (point.score / most * 1000.0).clamp(0.0, 1000.0) as u32,
        }
    };
    points.iter().take(30).map(ranked).collect()
}

struct Maker<'a> {
    options: &'a PageOptions<'a>,
    files: Files,
    anchors: BTreeMap<String, u32>,
}

impl Maker<'_> {
    fn item(&mut self, index: usize, finding: &Finding, is_open: bool) -> Item {
        let account = self.options.accounts.get(index).and_then(Option::as_ref);
        let marks: Vec<u64> = match account {
            Some(Ok(account)) if account.by_lines => marked(account),
            _ => finding.accesses.iter().map(|access| access.number.unwrap_or(0)).collect(),
        };
        let (sheet, timeline, problem) = match account {
            Some(Ok(account)) => (Some(Sheet::of(account, &marks)), drawn(account, &marks), String::new()),
            Some(Err(why)) => (None, None, printable(why)),
            None => (None, None, String::new()),
        };
        let colours = colours(finding, account.and_then(|account| account.as_ref().ok()));
        let accesses = finding.accesses.iter().enumerate().map(|(at, access)| self.access(at, access, &colours));
        Item {
            accesses: accesses.collect(),
            anchor: self.anchor(&finding.id),
            id: printable(&finding.id),
            kind: finding.kind.name(),
            status: status_words(finding),
            status_words: status_words(finding),
            harm: harm_name(finding.harm),
            harm_words: harm_of(finding),
            weight: weight(finding),
            title: capital(&printable(&finding.title())),
            places: places(finding),
            gist: words(finding.gist.as_deref().unwrap_or("")),
            why: words(finding.why.as_deref().unwrap_or("")),
            how_sure: how_sure(finding),
            is_open,
            sheet,
            timeline,
            problem,
            commands: commands(finding),
            guard: finding.guard.as_ref().map(guard_words).unwrap_or_default(),
            locks: finding.locks.as_ref().map(guard_words).unwrap_or_default(),
            is_other: finding.group.as_ref().is_some_and(|group| *group != finding.id),
            is_known: finding.known == Some(true),
        }
    }

    fn anchor(&mut self, id: &str) -> String {
        let plain: String = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
        let count = self.anchors.entry(plain.clone()).or_default();
        *count += 1;
        if *count == 1 { format!("f-{plain}") } else { format!("f-{plain}-{count}") }
    }

    fn access(&mut self, at: usize, access: &Access, colours: &BTreeMap<u32, usize>) -> AccessItem {
        let code = match (&access.file, access.line) {
            (Some(file), Some(line)) => self.files.around(file, line),
            _ => Vec::new(),
        };
        let frame = |frame: &selvedge_findings::Frame| {
            let at = match (&frame.file, frame.line) {
                (Some(file), Some(line)) => format!("{}:{line}", shorter(file)),
                (Some(file), None) => shorter(file),
                _ => frame.module.clone().unwrap_or_default(),
            };
            (printable(frame.function.as_deref().unwrap_or("??")), printable(&at))
        };
        let held =
            |held: &selvedge_findings::Held| (printable(&held.lock), printable(held.taken.as_deref().unwrap_or("")));
        AccessItem {
            number: at + 1,
            thread: access.thread,
            colour: colours.get(&access.thread).copied().unwrap_or(0),
            what: printable(&access.op.replace('-', " ")),
            variable: printable(access.variable.as_deref().unwrap_or("")),
            value: printable(access.value.as_deref().unwrap_or("")),
            event: access.number.map(|number| format!("#{number}")).unwrap_or_default(),
            place: place(access),
            code,
            holds: access.holds.iter().map(held).collect(),
            knows_locks: access.value.is_some() || !access.holds.is_empty(),
            stack: access.stack.iter().map(frame).collect(),
        }
    }
}

fn commands(finding: &Finding) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if let Some(replay) = &finding.replay {
        all.push(("See it again", printable(replay)));
    }
    if let Some(clip) = &finding.clip {
        let clip = printable(&quoted(clip));
        all.push(("Debug it", format!("selvedge replay --gdb {clip}")));
        match finding.guard.as_ref().and_then(|guard| guard.plan.as_ref().filter(|_| guard.verified)) {
            Some(plan) => {
                all.push(("Run with its guard", format!("export SELVEDGE_PLAN={}", printable(&quoted(plan)))))
            }
            None => all.push(("Guard against it", format!("selvedge patch {clip}"))),
        }
    }
    all
}

/// How a guard did, in words.
fn guard_words(guard: &Guarded) -> String {
    let without = match guard.failures_without {
        Some(failures) => format!(" (without it {failures} of them fail)"),
        None => String::new(),
    };
    let clips = plural(guard.clips, "failing schedule", "failing schedules");
    let fresh = plural(guard.schedules, "fresh one", "fresh ones");
    let held = match guard.verified {
        true => format!("It holds: {clips} and {fresh} pass with it{without}."),
        false => format!(
            "It does not hold: with it {} of {clips} and {} of {fresh} fail.",
            guard.clips_failed, guard.failures
        ),
    };
    match (&guard.plan, &guard.why) {
        (None, Some(why)) => format!("None could be made: {}.", printable(why).trim_end_matches('.')),
        (None, None) => "None could be made.".to_owned(),
        (Some(_), Some(why)) => format!("{held} {}", printable(why)),
        (Some(_), None) => held,
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The last directories of a file.
fn shorter(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    parts.get(parts.len().saturating_sub(2)..).map_or_else(|| file.to_owned(), |last| last.join("/"))
}

fn how_sure(finding: &Finding) -> String {
    let proved = finding.proved.as_deref().map(|relation| format!(", proved possible ({})", printable(relation)));
    let proved = proved.unwrap_or_default();
    let by_pattern = finding.pattern.is_some();
    match finding.status {
        Status::Confirmed if finding.pattern.as_deref() == Some("seen in the act") => {
            "Seen in the act in a free run.".to_owned()
        }
        Status::Confirmed if by_pattern => format!("Predicted from a run that passed{proved}, and made to happen."),
        Status::Confirmed => "It happened in a run whose schedule was chosen.".to_owned(),
        Status::Predicted => format!("Predicted from a recorded run{proved}; nobody tried to make it happen."),
        _ => {
            let why = match finding.refuted.as_deref() {
                Some("no-order") => "no order of the recorded events leads there",
                Some("diverged") => "a thread took another way",
                Some("blocked") => "a thread had to wait where it should have gone on",
                Some("did-not-happen") => "all went as planned, and it did not happen",
                Some("timed-out") => "the time for it was up",
                _ => "it could not be made to happen",
            };
            format!("Predicted from a recorded run{proved}, and refuted: {why}.")
        }
    }
}

/// Threads have colours by their place among those of the finding, the same in every part of it.
fn colours(finding: &Finding, account: Option<&Account>) -> BTreeMap<u32, usize> {
    let mut threads: BTreeSet<u32> = finding.accesses.iter().map(|access| access.thread).collect();
    if let Some(account) = account {
        threads.extend(account.columns.iter().map(|(thread, _)| thread));
        threads.extend(account.timeline.threads.iter().map(|(thread, _)| thread));
    }
    threads.into_iter().map(|thread| (thread, colour(thread))).collect()
}

/// The colours there are.
const COLOURS: usize = 6;

/// The script does the same.
fn colour(thread: u32) -> usize {
    thread as usize % COLOURS
}

/// The numbers of the events that stand out.
fn marked(account: &Account) -> Vec<u64> {
    account.timeline.events.iter().filter(|event| event.is_marked).map(|event| event.number).collect()
}

fn drawn(account: &Account, marks: &[u64]) -> Option<Drawn> {
    let timeline = &account.timeline;
    let mut cut = Vec::new();
    if timeline.cut > 0 {
        cut.push(format!("{} further away", plural(timeline.cut, "event", "events")));
    }
    if timeline.own > 0 {
        cut.push(format!("{} of one thread alone", plural(timeline.own, "event", "events")));
    }
    let cut = if cut.is_empty() { String::new() } else { format!("Not drawn: {}.", cut.join(" and ")) };
    Some(Drawn { data: timeline::data(account, marks)?, events: timeline.events.len(), cut })
}

impl Sheet {
    fn of(account: &Account, marks: &[u64]) -> Sheet {
        let columns: Vec<(usize, String)> =
            account.columns.iter().map(|(thread, name)| (colour(*thread), name.clone())).collect();
        let at = |thread: u32| account.columns.iter().position(|(index, _)| *index == thread);
        let width = columns.len();
        let in_column = |thread: u32, row: SheetRow| {
            let before = at(thread)?;
            let after = width.saturating_sub(before + 1);
            Some(SheetRow { before, after, colour: colour(thread), ..row })
        };
        let row = |line: &Line| match line {
            Line::Event(event) => {
                let mark = event.number.and_then(|number| marks.iter().position(|mark| *mark == number));
                let sort = if event.row == Emphasis::Marked { "marked" } else { "plain" };
                let row = SheetRow {
                    sort,
                    at: event.at.clone(),
                    mark: mark.map_or(0, |at| at + 1),
                    op: match event.object.is_empty() && !event.detail.is_empty() {
                        true => format!("{}, {}", event.op.replace('-', " "), event.detail),
                        false => event.op.replace('-', " "),
                    },
                    object: event.object.clone(),
                    value: event.value.trim().to_owned(),
                    code: event.snippet.as_ref().map(|(_, text)| text.clone()).unwrap_or_default(),
                    place: event.place.clone(),
                    ..SheetRow::blank("plain")
                };
                in_column(event.thread.0, row)
            }
            Line::Own(thread, count) => {
                let text = format!("… {}", plural(*count, "step of its own", "steps of its own"));
                in_column(thread.0, SheetRow { op: text, ..SheetRow::blank("own") })
            }
            Line::Skipped(count) | Line::More(count) => {
                Some(SheetRow { op: format!("… {}", plural(*count, "event", "events")), ..SheetRow::blank("gap") })
            }
        };
        let mut rows: Vec<SheetRow> = account.lines.iter().filter_map(row).collect();
        let undone = |(thread, text, at): &(u32, String, usize)| {
            in_column(*thread, SheetRow { op: text.clone(), mark: at + 1, ..SheetRow::blank("undone") })
        };
        rows.extend(account.undone.iter().filter_map(undone));
        Sheet { columns, rows, by_lines: account.by_lines && !marks.is_empty() }
    }

    fn width(&self) -> usize {
        self.columns.len() + 1
    }
}

impl SheetRow {
    fn blank(sort: &'static str) -> SheetRow {
        SheetRow {
            sort,
            at: String::new(),
            mark: 0,
            before: 0,
            after: 0,
            colour: 0,
            op: String::new(),
            object: String::new(),
            value: String::new(),
            code: String::new(),
            place: String::new(),
        }
    }
}

#[cfg(test)]
mod word_tests {
    use super::*;

    #[test]
    fn what_is_in_backticks_is_code() {
        let plain = |text: &str| (false, text.to_owned());
        let code = |text: &str| (true, text.to_owned());
        assert_eq!(words("read of `a` and `b`"), [plain("read of "), code("a"), plain(" and "), code("b")]);
        assert_eq!(words("one ` alone"), [plain("one ` alone")]);
        assert!(words("").is_empty());
    }
}
