//! `cargo selvedge` on real packages: what it says when something is wrong, how Cargo builds around it, and every way that Rust
//! programs synchronise. The commands of the guide are run by its own test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use selvedge_itest::{Lab, copy};

/// A copy of a package of ours, and the tool on `PATH`.
struct Package {
    lab: Lab,
    dir: PathBuf,
}

impl Package {
    fn copy(name: &str) -> Package {
        let lab = Lab::new();
        let dir = lab.path(name);
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages").join(name);
        copy(&from, &dir).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
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
        ("tasks", "mutex"),
    ] {
        let how = "--schedules 3000 --budget 30s --stop-on-first";
        package.expect(&format!("cargo selvedge explore --test {file} {how} -- --exact buggy::{test}"), 66);
    }
}
