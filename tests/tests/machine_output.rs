//! What other programs read: the real tool's files are held against the published schemas.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use selvedge_itest::{Ending, Lab};
use serde_json::Value;

const RACE: &str = r#"
#include <pthread.h>
static long balance = 100;
__attribute__((noinline)) static void deposit(long amount) { long now = balance; balance = now + amount; }
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *one(void *arg) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); deposit(10); return 0; }
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, one, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
"#;

fn built(lab: &Lab) -> PathBuf {
    let (file, program) = (lab.path("bank.c"), lab.path("bank"));
    fs::write(&file, RACE).expect("written");
    let words = ["cc", "-O1", "-g", "-pthread"].map(PathBuf::from);
    let made = lab.tool(words.into_iter().chain([file, "-o".into(), program.clone()]));
    assert_eq!(made.ending, Ending::Exit(0), "{}", made.stderr);
    program
}

fn json(file: &Path) -> Value {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[track_caller]
fn fits(schema: &Value, instance: &Value) {
    let validator = jsonschema::validator_for(schema).expect("a schema");
    let wrong: Vec<String> =
        validator.iter_errors(instance).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{instance:#}");
}

/// The official schema, which the package `serde-sarif` carries.
fn sarif_schema() -> Value {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Packages of other systems were not fetched.
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let words = ["metadata", "--format-version", "1", "--offline", "--filter-platform", &host, "--manifest-path"];
    let told = Command::new(cargo).args(words).arg(manifest).output().expect("cargo starts");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let metadata: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages.iter().find(|package| package["name"] == "serde-sarif").expect("a package of these tests");
    let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
    let mut schema = json(&manifest.with_file_name("src").join("schema.json"));
    // The schema has a bracket too many in two patterns, which strict readers refuse; escaped, it means the same.
    for definition in ["run", "toolComponent"] {
        let pattern = &mut schema["definitions"][definition]["properties"]["language"]["pattern"];
        assert_eq!(*pattern, "^[a-zA-Z]{2}|^[a-zA-Z]{2}-[a-zA-Z]{2}]?$");
        *pattern = "^[a-zA-Z]{2}|^[a-zA-Z]{2}-[a-zA-Z]{2}\\]?$".into();
    }
    assert!(schema["title"].as_str().is_some_and(|title| title.contains("Version 2.1.0")));
    schema
}

fn findings_schema() -> Value {
    json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/findings.schema.json"))
}

/// The command with all of its machine output.
fn found(lab: &Lab, program: &Path, words: &[&str]) -> selvedge_itest::Outcome {
    let mut all: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
    for (flag, file) in [("--json", "f.json"), ("--sarif", "f.sarif"), ("--junit", "f.xml"), ("--out", "store")] {
        all.extend([flag.into(), lab.path(file)]);
    }
    all.extend(["--github".into(), "--".into(), program.to_owned()]);
    lab.tool(all)
}

#[test]
fn what_commands_write_is_what_the_schemas_say() {
    let (sarif, findings) = (sarif_schema(), findings_schema());
    let lab = Lab::new();
    let program = built(&lab);
    let detect =
        ["detect", "--runs", "20", "--strength", "1000", "--duration", "5ms", "--overhead", "none", "--no-clip"];
    let hunt = ["hunt", "--runs", "3", "--budget", "20s"];
    for words in [&hunt[..], &detect[..]] {
        let outcome = found(&lab, &program, words);
        assert_eq!(outcome.ending, Ending::Exit(66), "{}\n{}", outcome.stdout, outcome.stderr);
        let (report, log) = (json(&lab.path("f.json")), json(&lab.path("f.sarif")));
        fits(&findings, &report);
        fits(&sarif, &log);
        let results = log["runs"][0]["results"].as_array().expect("results");
        let first = results.first().expect("a finding");
        let place = &first["locations"][0]["physicalLocation"];
        assert_eq!((first["level"].as_str(), place["region"]["startLine"].as_u64()), (Some("error"), Some(4)));
        assert!(first["stacks"][0]["frames"].as_array().is_some_and(|frames| frames.len() > 1), "{first:#}");
        let xml = fs::read_to_string(lab.path("f.xml")).expect("JUnit");
        assert!(xml.contains("<failure type=\"data-race\" message=\"data race in deposit / deposit"), "{xml}");
        let annotated = outcome.stdout.lines().any(|line| line.starts_with("::error file=") && line.contains("line=4"));
        assert!(annotated, "{}", outcome.stdout);
    }
}

#[test]
fn a_schema_that_takes_anything_would_not_do() {
    let (sarif, findings) = (sarif_schema(), findings_schema());
    let refuses = |schema: &Value, text: &str| {
        let instance: Value = serde_json::from_str(text).expect("JSON");
        !jsonschema::validator_for(schema).expect("a schema").is_valid(&instance)
    };
    assert!(refuses(&sarif, r#"{"version": "2.1.0", "runs": [{"tool": {"driver": {}}}]}"#));
    let report = |finding: &str| {
        format!(
            r#"{{"version": 1, "program": {{"path": "p", "build_id": ""}},
            "runs": {{"total": 0, "pass": 0, "fail": 0, "hang": 0}}, "findings": [{finding}]}}"#
        )
    };
    let finding = |kind: &str| {
        format!(
            r#"{{"id": "1", "kind": "{kind}", "status": "confirmed", "harm": "none-seen", "accesses": [], "clip": null,
            "replay": null, "proved": null}}"#
        )
    };
    assert!(refuses(&findings, &report("{}")));
    assert!(refuses(&findings, &report(&finding("no-such-kind"))));
    for kind in selvedge_findings::Kind::ALL {
        assert!(!refuses(&findings, &report(&finding(kind.name()))), "{kind:?}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let lab = Lab::new();
    let trace = lab.path("t.std");
    fs::write(&trace, "T1|w(x)|1\nT2|w(x)|2\n").expect("written");
    let gone = lab.path("gone/f.sarif");
    let outcome = lab.tool(["predict".into(), "--std".into(), trace, "--sarif".into(), gone.clone()]);
    assert_eq!(outcome.ending, Ending::Exit(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(&gone.display().to_string()), "{}", outcome.stderr);
}

#[test]
fn predictions_are_remarks_and_fail_no_test() {
    let lab = Lab::new();
    let trace = lab.path("t.std");
    fs::write(&trace, "T1|w(x)|1\nT2|w(x)|2\n").expect("written");
    let (log, xml) = (lab.path("f.sarif"), lab.path("f.xml"));
    let words = ["predict".into(), "--std".into(), trace, "--sarif".into(), log.clone(), "--junit".into(), xml.clone()];
    assert_eq!(lab.tool(words).ending, Ending::Exit(0));
    let log = json(&log);
    fits(&sarif_schema(), &log);
    assert_eq!(log["runs"][0]["results"][0]["level"], "note");
    let xml = fs::read_to_string(xml).expect("JUnit");
    assert!(xml.contains("failures=\"0\"") && xml.contains("<system-out>"), "{xml}");
}

/// Records one run under control and gives the timeline's file.
fn timeline(lab: &Lab, form: &str) -> Vec<u8> {
    let (program, store, file) = (built(lab), lab.path("store"), lab.path("timeline"));
    let record = ["record".into(), "--controlled".into(), "--out".into(), store.clone(), "--".into(), program];
    assert_eq!(lab.tool(record).ending, Ending::Exit(0));
    let words: [PathBuf; 7] =
        ["trace".into(), "--format".into(), form.into(), "--out".into(), store, "-o".into(), file.clone()];
    let outcome = lab.tool(words);
    assert_eq!(outcome.ending, Ending::Exit(0), "{}", outcome.stderr);
    fs::read(file).expect("a timeline")
}

#[test]
fn chrome_timelines_have_threads_events_lock_spans_and_arrows() {
    let lab = Lab::new();
    let log: Value = serde_json::from_slice(&timeline(&lab, "chrome")).expect("JSON");
    let events = log["traceEvents"].as_array().expect("events");
    let count = |ph: &str, cat: Option<&str>| {
        events.iter().filter(|event| event["ph"] == ph && cat.is_none_or(|cat| event["cat"] == cat)).count()
    };
    let names = events.iter().filter(|event| event["name"] == "thread_name").count();
    assert_eq!(names, 3);
    assert_eq!((count("b", Some("lock")), count("e", Some("lock"))), (2, 2), "each thread holds the lock once");
    assert!(events.iter().any(|event| event["ph"] == "X" && event["name"] == "write balance"));
    // An arrow ends only where one begins.
    let begun: Vec<&Value> = events.iter().filter(|event| event["ph"] == "s").map(|event| &event["id"]).collect();
    let ended: Vec<&Value> = events.iter().filter(|event| event["ph"] == "t").map(|event| &event["id"]).collect();
    assert!(ended.len() >= 4, "two threads begin and two are joined: {ended:?}");
    assert!(ended.iter().all(|id| begun.contains(id)));
}

/// The fields of a protobuf message: numbers, and the bytes of what has a length.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (byte, rest) = bytes.split_first().expect("a number ends within its message");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let (value, length) = match key & 7 {
            0 => (varint(&mut bytes), 0),
            1 => (u64::from_le_bytes(bytes[..8].try_into().expect("eight")), 8),
            2 => (0, varint(&mut bytes) as usize),
            wire => panic!("wire type {wire}"),
        };
        let (inside, rest) = bytes.split_at(length);
        all.push((key >> 3, value, inside));
        bytes = rest;
    }
    all
}

#[test]
fn perfetto_timelines_name_every_track_before_its_events_and_close_every_span() {
    let lab = Lab::new();
    let bytes = timeline(&lab, "perfetto");
    let (mut tracks, mut spans, mut kinds) = (Vec::new(), Vec::new(), [0; 4]);
    let mut text = String::new();
    for (field, _, packet) in fields(&bytes) {
        assert_eq!(field, 1, "a trace is packets");
        let packet = fields(packet);
        assert!(packet.iter().any(|(field, value, _)| (*field, *value) == (10, 1)), "a packet is of the sequence");
        for (field, _, inside) in packet {
            let number = |wanted: u64| fields(inside).iter().find(|(field, ..)| *field == wanted).map(|found| found.1);
            match field {
                60 => tracks.push(number(1).expect("a track has an id")),
                11 => {
                    let (kind, track) = (number(9).expect("a type"), number(11).expect("a track"));
                    assert!(tracks.contains(&track), "{track} was not named");
                    kinds[kind as usize] += 1;
                    match kind {
                        1 => spans.push(track),
                        2 => assert_eq!(spans.pop_if(|open| *open == track), Some(track)),
                        _ => {}
                    }
                    let name = fields(inside).into_iter().find(|(field, ..)| *field == 23).map(|found| found.2);
                    text.push_str(&String::from_utf8_lossy(name.unwrap_or_default()));
                    text.push('\n');
                }
                _ => {}
            }
        }
    }
    assert!(spans.is_empty(), "{spans:?}");
    assert_eq!((kinds[1], kinds[2]), (2, 2));
    assert!(text.contains("write balance") && text.contains("holds lock"), "{text}");
}
