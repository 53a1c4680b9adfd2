//! `cargo selvedge` on real packages: every command of the guide, and every way that Rust programs synchronise.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use selvedge_itest::Lab;

/// A copy of a package of ours, and the tool on `PATH`.
struct Package {
    lab: Lab,
    dir: PathBuf,
}

impl Package {
    fn copy(name: &str) -> Package {
        let lab = Lab::new();
        let dir = lab.path(name);
        copy_dir(&Path::new(env!("CARGO_MANIFEST_DIR")).join("packages").join(name), &dir);
        Package { lab, dir }
    }

    fn run(&self, line: &str) -> Output {
        let mut words = line.split_whitespace();
        let program = words.next().expect("a command");
        let mut path = vec![self.lab.selvedge().parent().expect("a directory").to_owned()];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut command = Command::new(program);
        command.args(words).current_dir(&self.dir).env("PATH", std::env::join_paths(path).expect("a path"));
        // The package is nobody's member: what the test's own build set must not reach it.
        for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUST_BACKTRACE", "RUSTC_WRAPPER"] {
            command.env_remove(name);
        }
        command.output().unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[track_caller]
    fn expect(&self, line: &str, code: i32) -> (String, String) {
        let output = self.run(line);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{line}\n{out}\n{err}");
        (out, err)
    }
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let path = entry.expect("listed").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() { copy_dir(&path, &target) } else { drop(fs::copy(&path, &target).expect("copied")) }
    }
}

/// The commands of the guide's page, in order.
fn commands_of_the_guide() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/rust.md");
    let page = fs::read_to_string(page).expect("the page");
    page.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
}

/// What the commands of the guide that do not end with 0 end with.
const CODES: [(&str, i32); 4] = [
    ("cargo selvedge hunt --test box_office", 66),
    ("selvedge replay CLIP", 66),
    ("cargo selvedge hunt --bin cinema --budget 20s", 66),
    ("cargo selvedge hunt nobody_sits_on_a_lap --budget 20s", 66),
];

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let package = Package::copy("seats");
    let codes = BTreeMap::from(CODES);
    let commands = commands_of_the_guide();
    assert!(commands.len() >= 10 && codes.keys().all(|line| commands.iter().any(|command| command == line)));
    let mut said = BTreeMap::new();
    for line in &commands {
        if line.contains("nextest") && !package.run("cargo nextest --version").status.success() {
            eprintln!("passed over: {line}: cargo-nextest is not installed");
            continue;
        }
        let clips = package.dir.join(".selvedge/clips");
        let clip = || fs::read_dir(clips).expect("clips").next().expect("a clip").expect("listed").path();
        let run = if line.contains("CLIP") { line.replace("CLIP", &clip().to_string_lossy()) } else { line.clone() };
        said.insert(line.as_str(), package.expect(&run, codes.get(line.as_str()).copied().unwrap_or(0)));
    }
    let (tests, _) = &said["cargo selvedge test"];
    assert!(tests.contains("tests::seats_run_out ... ok") && tests.contains("Seats::new (line"), "{tests}");
    let (report, progress) = &said["cargo selvedge hunt --test box_office"];
    for words in
        ["in <seats::Seats>::take / <seats::Seats>::take", "one seat was sold 2 times", "lib.rs:25", "lib.rs:29"]
    {
        assert!(report.contains(words), "no `{words}` in\n{report}");
    }
    assert!(!report.contains("__rust_begin_short_backtrace"), "{report}");
    assert!(progress.contains("hunt a_sold_out_show_stays_sold_out (1 of 2)"), "{progress}");
    let (_, again) = &said["selvedge replay CLIP"];
    assert!(again.contains("replayed"), "{again}");
    let (runs, _) = &said["cargo selvedge runs"];
    assert!(runs.contains("box_office"), "{runs}");
}

#[test]
fn what_fails_is_told_with_the_way_on() {
    let package = Package::copy("seats");
    let (_, said) = package.expect("cargo selvedge hunt --buget 3", 2);
    assert!(said.contains("`--buget` is an option neither of Cargo nor of this command"), "{said}");
    let (_, said) = package.expect("cargo selvedge build --target aarch64-unknown-linux-gnu", 2);
    assert!(said.contains("only x86_64-unknown-linux-gnu is"), "{said}");
    let (_, said) = package.expect("cargo selvedge hunt no_such_test", 2);
    assert!(said.contains("no test matches"), "{said}");
    let (_, said) = package.expect("cargo selvedge hunt --test box_office --json found.json", 2);
    assert!(said.contains("name one test"), "{said}");
    let broken = package.dir.join("tests/box_office.rs");
    let text = fs::read_to_string(&broken).expect("readable");
    fs::write(&broken, text.replace("assert_eq!(sold, 1,", "assert_eq!(sold, 2,")).expect("written");
    let (_, said) = package.expect("cargo selvedge test --tests", 101);
    assert!(said.contains("to hunt it alone: cargo selvedge hunt --tests -- --exact nobody_sits_on_a_lap"), "{said}");
    fs::write(&broken, "not Rust").expect("written");
    let (_, said) = package.expect("cargo selvedge hunt --test box_office", 101);
    assert!(said.contains("error"), "{said}");
}

/// Build scripts and procedural macros are not instrumented, a wrapper of the user's own is called for every crate, and nothing is
/// built twice without need.
#[test]
fn cargo_builds_as_ever_around_it() {
    let package = Package::copy("seats");
    fs::write(package.dir.join("build.rs"), "fn main() { println!(\"cargo::rustc-env=SHOW=tonight\"); }")
        .expect("written");
    let wrapper = package.lab.path("wrapper");
    let log = package.lab.path("wrapped");
    fs::write(&wrapper, format!("#!/bin/sh\necho \"$@\" >> {}\nexec \"$@\"\n", log.display())).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&wrapper, mode).expect("made executable");
    fs::create_dir(package.dir.join(".cargo")).expect("made");
    let config = format!("[build]\nrustc-wrapper = {:?}\n", wrapper.display().to_string());
    fs::write(package.dir.join(".cargo/config.toml"), config).expect("written");
    package.expect("cargo selvedge build", 0);
    let lines = fs::read_to_string(&log).expect("the wrapper was called");
    let of = |name: &str| lines.lines().find(|line| line.contains(&format!("--crate-name {name} "))).expect("compiled");
    assert!(of("seats").contains("-Zsanitizer=thread"), "{lines}");
    assert!(!of("build_script_build").contains("-Zsanitizer"), "{lines}");
    let (_, said) = package.expect("cargo selvedge build", 0);
    assert!(!said.contains("Compiling"), "{said}");
    assert!(package.dir.join("target/selvedge/x86_64-unknown-linux-gnu/debug/cinema").is_file());
}

/// Threads by every means: what is right passes under many schedules, what is wrong is found.
#[test]
fn every_way_to_synchronise_is_controlled() {
    let package = Package::copy("sync");
    let fetched = package.run("cargo fetch");
    if !fetched.status.success() && !package.run("cargo fetch --offline").status.success() {
        eprintln!("passed over: the registry cannot be reached: {}", String::from_utf8_lossy(&fetched.stderr));
        return;
    }
    package.expect("cargo selvedge test -- correct", 0);
    package.expect("cargo selvedge record --test standard correct::condvar", 0);
    for (file, tests) in [("standard", 12), ("parking", 5), ("crossbeam", 5), ("tasks", 5)] {
        let line = format!("cargo selvedge explore --test {file} --schedules 15 --budget 20s -- correct");
        let (_, said) = package.expect(&line, 0);
        assert_eq!(said.matches("no failures").count(), tests, "{said}");
    }
    // Of each sort one: the rest differ in what is counted.
    for (file, test) in [
        ("standard", "channel"),
        ("standard", "once"),
        ("standard", "two_locks"),
        ("parking", "condvar"),
        ("crossbeam", "epochs"),
    ] {
        let line =
            format!("cargo selvedge explore --test {file} --schedules 3000 --budget 20s -- --exact buggy::{test}");
        package.expect(&line, 66);
    }
    package.expect("cargo selvedge hunt --test tasks --budget 30s -- --exact buggy::tasks", 66);
}
