//! The real binary, from compiling to looking at a run.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const ACCOUNT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/account.c");

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn selvedge(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("selvedge starts")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        command.env("SELVEDGE_CACHE", self.path().join("cache")).env_remove("SELVEDGE_PLAN");
        command
    }

    fn build(&self, source: &str, program: &str) {
        let output = self.selvedge(&["cc", "-O1", "-g", "-pthread", "-o", program, source]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_is_built_recorded_and_shown() {
    let place = Place::new();
    place.build(ACCOUNT, "account");
    // Without a plan it is an ordinary program.
    let plain = Command::new(place.path().join("account")).output().expect("runs");
    assert_eq!((plain.status.code(), text(&plain.stderr).as_str()), (Some(1), ""));

    let one = place.selvedge(&["record", "--", "./account"]);
    assert_eq!(one.status.code(), Some(1), "the guest's own code: {}", text(&one.stderr));
    assert_eq!(text(&one.stdout), "the balance is -60\n");
    let many = place.selvedge(&[
        "record",
        "-n",
        "3",
        "--oracle",
        "grep -q balance $SELVEDGE_RUN_DIR/stdout",
        "--",
        "./account",
    ]);
    assert_eq!(many.status.code(), Some(0), "the oracle decides: {}", text(&many.stderr));
    assert!(text(&many.stderr).contains("kept survey") && text(&many.stderr).contains("3/3 runs, 3 pass"));

    let runs = text(&place.selvedge(&["runs"]).stdout);
    assert_eq!(runs.lines().count(), 5, "{runs}");
    let json = text(&place.selvedge(&["runs", "--json"]).stdout);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["version"], &first["outcome"]["label"]), (&1.into(), &"fail".into()));

    let balance = text(&place.selvedge(&["trace", "1", "--variable", "=balance"]).stdout);
    let accesses: Vec<&str> = balance.lines().filter(|line| line.contains("balance") && line.contains(" ns")).collect();
    assert!(accesses.len() >= 6, "{balance}");
    assert!(accesses[0].contains("account.c:15") && accesses[0].contains("covers"), "{balance}");
    assert!(text(&place.selvedge(&["trace", "1", "--std"]).stdout).contains("|acq(L0)|"));
    assert!(text(&place.selvedge(&["trace", "--columns"]).stdout).contains("T1 alice (main/1)"));
    let sites = text(&place.selvedge(&["sites", "account", "--function", "covers"]).stdout);
    assert!(sites.contains("__tsan_read4") && sites.contains("account.c:15"), "{sites}");
    assert!(text(&place.selvedge(&["index", "account"]).stdout).contains("already up to date"));
}

#[test]
fn the_demo_explains_itself() {
    let output = Place::new().selvedge(&["demo"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for expect in ["T1 alice (main/1)", "read balance", "Next:", "10/10 runs"] {
        assert!(shown.contains(expect), "no `{expect}` in\n{shown}");
    }
}

#[test]
fn a_hang_is_ended_and_says_who_was_stuck() {
    let place = Place::new();
    let source = "#include <pthread.h>\nstatic pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n\
        int main(void) { pthread_mutex_lock(&m); pthread_mutex_lock(&m); }\n";
    std::fs::write(place.path().join("stuck.c"), source).expect("written");
    place.build("stuck.c", "stuck");
    let output = place.selvedge(&["record", "--timeout", "200ms", "--", "./stuck"]);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    let summary = text(&place.selvedge(&["trace", "--summary"]).stdout);
    assert!(summary.contains("T0 was in pthread_mutex_lock(m) at stuck.c:3"), "{summary}");
}

#[test]
fn mistakes_get_a_reason_a_remedy_and_a_code() {
    let place = Place::new();
    std::fs::write(place.path().join("text"), "no trace").expect("written");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["trace"], 2, "selvedge record"),
        (&["trace", "7"], 2, "selvedge runs"),
        (&["trace", "text"], 2, "not a trace"),
        (&["record", "--", "./nothing"], 127, "was not found"),
        (&["record", "--", "/bin/true"], 2, "selvedge cc"),
        (&["record", "--out", "/proc/none", "--", "/bin/true"], 2, "--out DIR"),
        (&["sites", "text"], 2, "not an ELF file"),
    ];
    for (args, code, expect) in cases {
        let output = place.selvedge(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains("selvedge: error: ") && said.contains(expect), "{args:?}: {said}");
        assert!(!said.contains('\x1b'), "no colours into a pipe: {said:?}");
    }
    assert_eq!(place.selvedge(&["record"]).status.code(), Some(2));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    place.build(ACCOUNT, "account");
    place.selvedge(&["record", "-q", "--", "./account"]);
    let mut child =
        place.command(&["sites", "account"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn the_whole_command_line_of_a_compiler_is_the_compilers() {
    let place = Place::new();
    let ours = place.selvedge(&["cc", "--version"]);
    assert!(ours.status.success());
    let link = place.path().join("selvedge-cc");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_selvedge"), &link).expect("linked");
    let named = Command::new(&link).arg("--version").output().expect("starts");
    assert_eq!(text(&ours.stdout), text(&named.stdout));
}
