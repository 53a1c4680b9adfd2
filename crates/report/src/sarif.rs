//! Findings as SARIF 2.1.0, in the shape that code scanning services really read.
//!
//! Such services use the first location only, want start and end of its region, and tell findings apart by
//! `partialFingerprints.primaryLocationLineHash` alone: that is the finding's id. The other accesses are related
//! locations, linked from the message; the order of events is one code flow with a thread flow for each thread; stacks are
//! stacks. The command that makes the finding happen again is a property.

use std::collections::BTreeMap;
use std::path::Path;

use selvedge_findings::bugs::named;
use selvedge_findings::{Access, Finding, Frame, Kind, Report, Status};
use serde_json::{Value, json};

/// Where the schema is published.
pub const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Services take no more results of one run.
const MOST_RESULTS: usize = 25_000;

/// What is to be said beside the findings.
#[derive(Clone, Copy, Debug)]
pub struct SarifOptions<'a> {
    /// The version of the tool.
    pub version: &'a str,
    /// The root of the sources: files below it are named from there.
    pub root: &'a Path,
    /// What the findings are of, for telling runs apart: the command.
    pub suite: &'a str,
}

/// The findings as a SARIF log: errors, and untried predictions as notes. Those with one root cause are one result.
pub fn sarif(report: &Report, options: &SarifOptions<'_>) -> Value {
    let bugs = named(&report.findings);
    let of = |at: &usize| report.findings.get(*at);
    let shown = bugs.iter().filter_map(|bug| {
        let others: Vec<&Finding> = bug.others.iter().filter_map(of).collect();
        Some((of(&bug.lead).filter(|lead| lead.is_told())?, others))
    });
    let results: Vec<Value> = shown.take(MOST_RESULTS).map(|(lead, others)| result(lead, &others, options)).collect();
    let rules: Vec<Value> = Kind::ALL.iter().map(|kind| rule(*kind)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "Selvedge",
                "semanticVersion": options.version,
                "rules": rules,
            }},
            "automationDetails": {"id": format!("selvedge/{}/", options.suite)},
            "invocations": [{
                "executionSuccessful": true,
                "workingDirectory": {"uri": directory_uri(options.root)},
            }],
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule(kind: Kind) -> Value {
    let (short, full, help) = told(kind);
    let level = if kind.is_wrong_by_itself() { "error" } else { "warning" };
    json!({
        "id": kind.name(),
        "name": kind.words(),
        "shortDescription": {"text": short},
        "fullDescription": {"text": full},
        "help": {"text": help, "markdown": help},
        "defaultConfiguration": {"level": level},
        "properties": {
            "tags": ["concurrency", kind.name()],
            "precision": "very-high",
            "problem.severity": level,
        },
    })
}

/// What a sort of bug is, and what to do about it.
fn told(kind: Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::DataRace => (
            "Two threads access the same memory at once",
            "Two threads access the same memory, at least one writes, and nothing orders the two accesses.",
            "Protect both accesses with the same lock, make them atomic, or order the threads.",
        ),
        Kind::AtomicityViolation => (
            "Another thread comes between accesses that should be one",
            "Accesses to a variable that belong together can be separated by an access of another thread.",
            "Hold one lock from the first access to the last, or use one atomic operation.",
        ),
        Kind::AtomicSetViolation => (
            "Variables that belong together are seen half changed",
            "Accesses to several variables that belong together can be separated by accesses of another thread.",
            "Hold one lock over all accesses to the variables that belong together.",
        ),
        Kind::OrderViolation => (
            "Two accesses can come in the wrong order",
            "Two accesses happen in one order in runs that pass, and nothing enforces that order.",
            "Make the later thread wait for the earlier one: a join, a condition, or a release and acquire pair.",
        ),
        Kind::Deadlock => (
            "Threads wait for each other",
            "Each thread of a circle holds what the next one waits for.",
            "Take the locks in one order everywhere, or take them together.",
        ),
        _ => (
            "A wake-up can come before anybody waits for it",
            "A thread is woken before it waits, and then waits for a wake-up that never comes again.",
            "Check the condition in a loop under the mutex, and change it under the same mutex before signalling.",
        ),
    }
}

fn level(finding: &Finding) -> &'static str {
    if finding.is_error() { "error" } else { "note" }
}

fn result(finding: &Finding, same: &[&Finding], options: &SarifOptions<'_>) -> Value {
    let primary = primary(finding);
    let index = Kind::ALL.iter().position(|kind| *kind == finding.kind).unwrap_or(0);
    let mut result = json!({
        "ruleId": finding.kind.name(),
        "ruleIndex": index,
        "level": level(finding),
        "message": {"text": message(finding, primary, same.len())},
        "locations": [],
        "partialFingerprints": {"primaryLocationLineHash": finding.id},
        "properties": properties(finding, same),
    });
    let Value::Object(fields) = &mut result else { return result };
    if let Some(known) = finding.known {
        fields.insert("baselineState".to_owned(), json!(if known { "unchanged" } else { "new" }));
    }
    if let Some(access) = primary.and_then(|at| finding.accesses.get(at)) {
        fields.insert("locations".to_owned(), json!([location(access, None, options)]));
    }
    let others: Vec<Value> =
        others(finding, primary).map(|(id, access)| location(access, Some((id, &words(access))), options)).collect();
    if !others.is_empty() {
        fields.insert("relatedLocations".to_owned(), json!(others));
    }
    if !finding.accesses.is_empty() {
        fields.insert("codeFlows".to_owned(), json!([code_flow(finding, options)]));
    }
    let stacks: Vec<Value> = finding.accesses.iter().filter_map(|access| stack(access, options)).collect();
    if !stacks.is_empty() {
        fields.insert("stacks".to_owned(), json!(stacks));
    }
    result
}

/// The access that stands for the finding: the first that has a line.
fn primary(finding: &Finding) -> Option<usize> {
    finding.accesses.iter().position(|access| access.file.is_some() && access.line.is_some())
}

/// The accesses that are related locations, with their ids, from 1.
fn others(finding: &Finding, primary: Option<usize>) -> impl Iterator<Item = (usize, &Access)> {
    let other =
        finding.accesses.iter().enumerate().filter(move |(at, access)| Some(*at) != primary && access.file.is_some());
    (1..).zip(other.map(|(_, access)| access))
}

/// `write of balance by T2`.
fn words(access: &Access) -> String {
    let variable = access.variable.as_ref().map(|variable| format!(" of {variable}")).unwrap_or_default();
    format!("{}{variable} by T{}", access.op, access.thread)
}

/// The title, then the accesses, with links to the related ones. Brackets of names would be taken for links.
fn message(finding: &Finding, primary: Option<usize>, same: usize) -> String {
    let plain = |text: &str| text.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]");
    let mut text = format!("{}: ", plain(&finding.title()));
    let mut parts = Vec::new();
    if let Some(access) = primary.and_then(|at| finding.accesses.get(at)) {
        parts.push(plain(&words(access)));
    }
    parts.extend(others(finding, primary).map(|(id, access)| format!("[{}]({id})", plain(&words(access)))));
    text.push_str(&parts.join(", "));
    if parts.is_empty() {
        text.push_str("no place in the source is known");
    }
    text.push_str(&match finding.status {
        Status::Confirmed => format!(". It was seen to happen; harm: {}.", finding.harm.words()),
        _ => ". It was predicted and not tried.".to_owned(),
    });
    if same > 0 {
        text.push_str(&format!(" And {same} more of the same root cause."));
    }
    if let Some(replay) = &finding.replay {
        text.push_str(&format!(" Again: {}", plain(replay)));
    }
    text
}

fn properties(finding: &Finding, same: &[&Finding]) -> Value {
    let mut all = serde_json::Map::new();
    let mut add = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            all.insert(name.to_owned(), json!(value));
        }
    };
    add("replay", finding.replay.as_deref());
    add("clip", finding.clip.as_deref());
    add("pattern", finding.pattern.as_deref());
    add("proved", finding.proved.as_deref());
    add("harm", Some(finding.harm.words()));
    if !same.is_empty() {
        let ids: Vec<&str> = same.iter().map(|finding| finding.id.as_str()).collect();
        all.insert("same_root_cause".to_owned(), json!(ids));
    }
    for (name, made) in [("guard", &finding.guard), ("locks", &finding.locks)] {
        if let Some(made) = made {
            all.insert(name.to_owned(), json!(made));
        }
    }
    Value::Object(all)
}

fn location(access: &Access, related: Option<(usize, &str)>, options: &SarifOptions<'_>) -> Value {
    let frame = Frame {
        function: access.function.clone(),
        file: access.file.clone(),
        line: access.line,
        column: access.column,
        module: None,
    };
    let mut value = frame_location(&frame, options);
    if let (Value::Object(fields), Some((id, words))) = (&mut value, related) {
        fields.insert("id".to_owned(), json!(id));
        fields.insert("message".to_owned(), json!({"text": words}));
    }
    value
}

fn frame_location(frame: &Frame, options: &SarifOptions<'_>) -> Value {
    let mut fields = serde_json::Map::new();
    if let Some(file) = &frame.file {
        let mut physical = json!({"artifactLocation": {"uri": file_uri(Path::new(file), options.root)}});
        if let (Value::Object(physical), Some(line)) = (&mut physical, frame.line.filter(|line| *line > 0)) {
            // The compiler says where an access begins, not where it ends.
            let column = frame.column.filter(|column| *column > 0).unwrap_or(1);
            let region = json!({"startLine": line, "startColumn": column, "endLine": line,
                                "endColumn": column.saturating_add(1)});
            physical.insert("region".to_owned(), region);
        }
        fields.insert("physicalLocation".to_owned(), physical);
    }
    let name = frame.function.clone().or_else(|| frame.module.clone());
    if let Some(name) = name {
        fields.insert("logicalLocations".to_owned(), json!([{"name": name, "kind": "function"}]));
    }
    Value::Object(fields)
}

/// One thread flow for each thread, the order of events over all of them.
fn code_flow(finding: &Finding, options: &SarifOptions<'_>) -> Value {
    let mut threads: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
    for (order, access) in (1_u32..).zip(&finding.accesses) {
        let mut place = location(access, None, options);
        if let Value::Object(fields) = &mut place {
            fields.insert("message".to_owned(), json!({"text": words(access)}));
        }
        let step = json!({"location": place, "executionOrder": order});
        threads.entry(access.thread).or_default().push(step);
    }
    let flows: Vec<Value> =
        threads.into_iter().map(|(thread, steps)| json!({"id": format!("T{thread}"), "locations": steps})).collect();
    json!({"threadFlows": flows})
}

fn stack(access: &Access, options: &SarifOptions<'_>) -> Option<Value> {
    if access.stack.is_empty() {
        return None;
    }
    let frame = |frame: &Frame| {
        let mut value = json!({"location": frame_location(frame, options)});
        if let (Value::Object(fields), Some(module)) = (&mut value, &frame.module) {
            fields.insert("module".to_owned(), json!(module));
        }
        value
    };
    let frames: Vec<Value> = access.stack.iter().map(frame).collect();
    Some(json!({"message": {"text": words(access)}, "frames": frames}))
}

/// From the root where the file lies below it, else absolute.
fn file_uri(file: &Path, root: &Path) -> String {
    match file.strip_prefix(root) {
        Ok(below) => escaped(&below.to_string_lossy()),
        Err(_) if file.is_absolute() => format!("file://{}", escaped(&file.to_string_lossy())),
        Err(_) => escaped(&file.to_string_lossy()),
    }
}

fn directory_uri(dir: &Path) -> String {
    format!("file://{}/", escaped(dir.to_string_lossy().trim_end_matches('/')))
}

/// A path as a part of a URI.
fn escaped(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use selvedge_findings::{Harm, Program, Runs};

    use super::*;

    fn access(thread: u32, op: &str, file: Option<&str>, line: Option<u32>) -> Access {
        Access {
            thread,
            op: op.into(),
            function: Some(format!("f{thread}")),
            file: file.map(str::to_owned),
            line,
            column: Some(7),
            variable: Some("a[1]".into()),
            ..Access::default()
        }
    }

    fn log(findings: Vec<Finding>) -> Value {
        let program = Program { path: "./p".into(), build_id: "ab".into() };
        let options = SarifOptions { version: "1.2.3", root: Path::new("/home/me/src"), suite: "hunt" };
        sarif(&Report::new(program, Runs::default(), findings), &options)
    }

    fn race() -> Finding {
        let accesses = vec![
            access(1, "read", None, None),
            access(2, "write", Some("/home/me/src/a b.c"), Some(9)),
            access(1, "read", Some("/usr/x.h"), Some(3)),
        ];
        let mut finding = Finding::new("00ff".into(), Kind::DataRace, accesses);
        finding.status = Status::Confirmed;
        finding.harm = Harm::Crash;
        finding.replay = Some("selvedge replay x.clip".into());
        finding
    }

    #[test]
    fn the_first_access_with_a_line_is_the_place_and_the_others_are_linked() {
        let log = log(vec![race()]);
        let result = &log["runs"][0]["results"][0];
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b.c");
        assert_eq!(place["region"], json!({"startLine": 9, "startColumn": 7, "endLine": 9, "endColumn": 8}));
        assert_eq!(result["partialFingerprints"]["primaryLocationLineHash"], "00ff");
        assert_eq!(result["relatedLocations"][0]["id"], 1);
        let uri = &result["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(uri, "file:///usr/x.h");
        let text = result["message"]["text"].as_str().expect("a text");
        assert!(text.contains("[read of a\\[1\\] by T1](1)"), "{text}");
        assert_eq!(result["properties"]["replay"], "selvedge replay x.clip");
        assert_eq!(log["runs"][0]["tool"]["driver"]["rules"][0]["id"], result["ruleId"]);
    }

    #[test]
    fn what_has_one_root_cause_is_one_result() {
        let with = |id: &str, group: &str| {
            let mut finding = race();
            (finding.id, finding.group) = (id.into(), Some(group.into()));
            finding
        };
        let log = log(vec![with("a", "a"), with("b", "a"), with("c", "c")]);
        let results = log["runs"][0]["results"].as_array().expect("results");
        assert_eq!(results.len(), 2);
        assert_eq!(results[0]["properties"]["same_root_cause"], json!(["b"]));
        let text = results[0]["message"]["text"].as_str().expect("a text");
        assert!(text.contains("And 1 more of the same root cause."), "{text}");
    }

    #[test]
    fn threads_have_flows_of_their_own_in_one_order() {
        let log = log(vec![race()]);
        let flows = &log["runs"][0]["results"][0]["codeFlows"][0]["threadFlows"];
        let order = |flow: usize| -> Vec<u64> {
            let steps = flows[flow]["locations"].as_array().expect("steps");
            steps.iter().filter_map(|step| step["executionOrder"].as_u64()).collect()
        };
        assert_eq!((order(0), order(1)), (vec![1, 3], vec![2]));
    }

    #[test]
    fn levels_say_how_sure_it_is_and_what_did_not_happen_or_did_no_harm_is_left_out() {
        let with = |kind, status, harm| {
            let mut finding = Finding::new("1".into(), kind, Vec::new());
            (finding.status, finding.harm) = (status, harm);
            finding
        };
        let log = log(vec![
            with(Kind::DataRace, Status::Confirmed, Harm::NoneSeen),
            with(Kind::OrderViolation, Status::Confirmed, Harm::NoneSeen),
            with(Kind::Deadlock, Status::Refuted, Harm::NoneSeen),
            with(Kind::Deadlock, Status::Predicted, Harm::NoneSeen),
        ]);
        let results = log["runs"][0]["results"].as_array().expect("results");
        let levels: Vec<&str> = results.iter().filter_map(|result| result["level"].as_str()).collect();
        assert_eq!(levels, ["error", "note"]);
    }
}
