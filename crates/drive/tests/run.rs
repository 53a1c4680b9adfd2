//! Guests that are not instrumented: how they end, what they read and write, and how they are stopped.

use std::path::Path;
use std::time::{Duration, Instant};

use selvedge_drive::guest_input::GuestInput;
use selvedge_drive::record::{RecordError, RecordOptions, record};
use selvedge_drive::run::{End, Guest, GuestOutput, RunRequest, Stop, ask_oracle, run_guest};
use selvedge_drive::store::Store;
use selvedge_drive::survey::SurveyError;
use selvedge_findings::Outcome;

fn shell(script: &str) -> Guest {
    Guest { program: "sh".into(), args: vec!["-c".into(), script.into()] }
}

fn run(script: &str, dir: &Path, timeout: Option<Duration>) -> End {
    let guest = shell(script);
    let output = GuestOutput::Files(dir.to_owned());
    let request = RunRequest { guest: &guest, plan: Path::new("/no/plan"), output, timeout, stop: &Stop::default() };
    run_guest(&request, &mut GuestInput::Reopen("/dev/null".into())).expect("runs").0
}

#[test]
fn ends_are_told_apart() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let cases = [
        ("exit 0", End::Code(0)),
        ("exit 7", End::Code(7)),
        ("kill -ABRT $$", End::Signal(6)),
        ("test \"$SELVEDGE_PLAN\" = /no/plan && test -z \"$DEBUGINFOD_URLS\"", End::Code(0)),
    ];
    for (script, expect) in cases {
        assert_eq!(run(script, dir.path(), None), expect, "{script}");
    }
}

#[test]
fn a_guest_that_exceeds_its_time_is_ended_with_all_it_started() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let begin = Instant::now();
    // The shell ignores the request to end; its child would live on.
    let script = "trap '' TERM; sleep 60 & echo $!; wait; wait; sleep 60";
    assert_eq!(run(script, dir.path(), Some(Duration::from_millis(200))), End::TimedOut);
    assert!(begin.elapsed() < Duration::from_secs(20));
    let child = std::fs::read_to_string(dir.path().join("stdout")).expect("captured");
    let status = Path::new("/proc").join(child.trim()).join("stat");
    let gone = || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
    let deadline = Instant::now() + Duration::from_secs(5);
    while !gone() {
        assert!(Instant::now() < deadline, "{child} lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn output_goes_to_files_and_the_oracle_sees_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let end = run("echo out; echo err >&2; exit 3", dir.path(), None);
    assert_eq!(std::fs::read_to_string(dir.path().join("stdout")).expect("captured"), "out\n");
    assert_eq!(std::fs::read_to_string(dir.path().join("stderr")).expect("captured"), "err\n");
    let cases = [
        ("grep -q out $SELVEDGE_RUN_DIR/stdout", Outcome::Pass),
        ("test $SELVEDGE_EXIT_CODE = 3", Outcome::Pass),
        ("grep -q nothing $SELVEDGE_RUN_DIR/stderr", Outcome::of_code(3)),
    ];
    for (oracle, expect) in cases {
        assert_eq!(ask_oracle(oracle, dir.path(), end).expect("asked"), expect, "{oracle}");
    }
    let passed = ask_oracle("false", dir.path(), End::Code(0)).expect("asked");
    assert_eq!(passed, Outcome::Fail { code: None, signal: None });
}

#[test]
fn a_program_that_is_not_ours_is_refused_with_the_remedy() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::create(dir.path()).expect("created");
    let result = record(&store, &shell("exit 0"), &RecordOptions::default(), &Stop::default(), &mut |_| {});
    let error = result.expect_err("not instrumented");
    assert!(matches!(error, RecordError::Survey(SurveyError::NotInstrumented { .. })));
    assert!(error.to_string().contains("selvedge cc"), "{error}");
    assert_eq!(error.exit_code(), 2);
    let nothing = Guest { program: "./no-such-program".into(), args: vec![] };
    let error =
        record(&store, &nothing, &RecordOptions::default(), &Stop::default(), &mut |_| {}).expect_err("missing");
    assert_eq!(error.exit_code(), 127);
}
