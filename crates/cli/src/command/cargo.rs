//! `cargo selvedge`, which is `selvedge cargo`.
//!
//! Cargo's own commands (`build`, `run`, `test`, `nextest`, `bench`) are Cargo's, with instrumentation. A command of ours that ends in a
//! program (`hunt`, `explore`, `record`, `detect`, `rank` …) gets its program from Cargo: a binary or an example, or each test that is
//! chosen, alone. All others are ours as they are.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use clap::{Args as _, CommandFactory as _};
use selvedge_drive::build::Exit;
use selvedge_drive::cargo::{
    Launch, OptionKind, Session, SessionError, Split, StandardLibrary, Test, failed_test, split, tests_in,
};
use selvedge_findings::ExitCode;

use crate::args::{Cli, OutputArgs};
use crate::messages::{Failure, note};
use crate::runtime;

const HELP: &str = "\
Cargo packages with instrumentation: built, run, tested and hunted

Usage: cargo selvedge <build|run|test|bench> [CARGO OPTIONS] [-- ARGS]
       cargo selvedge nextest run [NEXTEST OPTIONS]
       cargo selvedge hunt [CARGO OPTIONS] [HUNT OPTIONS] [TEST] [-- ARGS]
       cargo selvedge <explore|record|detect|rank|…>   in the same way
       cargo selvedge <replay|runs|trace|…>            as `selvedge` has them

The first three lines are Cargo as you know it: the same options, the same output. What is built carries the hooks and is
otherwise normal. It goes to target/selvedge, beside the ordinary builds.

hunt and its like choose with Cargo's options what to run:
  --bin NAME, --example NAME       that program; ARGS are its arguments
  --test NAME, --lib, or neither   the tests there, each alone; TEST or ARGS filter them as in `cargo test`

Options of our own, beside those of `selvedge hunt --help`:
  --build-std                      build the standard library with instrumentation too (needs rust-src); first build only

Examples:
  cargo selvedge test                             run all tests, instrumented; says how to hunt those that fail
  cargo selvedge hunt --test pool drains          hunt the test `drains` in tests/pool.rs
  cargo selvedge hunt --bin server -- --port 0    hunt a program
  cargo selvedge explore --lib queue              many schedules for each unit test with `queue` in its name
  cargo selvedge replay .selvedge/clips/NAME.clip

docs/guide/rust.md has more, and the limits.";

/// What is Cargo's own.
const OF_CARGO: &[&str] = &["build", "b", "run", "r", "test", "t", "bench"];

/// Does what the words after `cargo selvedge` say.
pub(crate) fn run(words: &[OsString]) -> Result<u8, Failure> {
    let Some((first, rest)) = words.split_first() else {
        return help();
    };
    match first.to_str() {
        Some("-h" | "--help" | "help") if rest.is_empty() => help(),
        Some("-V" | "--version") => this_again(words),
        Some("nextest") => {
            let Some((verb, rest)) = rest.split_first() else { return of_cargo(&["nextest"], &[]) };
            of_cargo(&["nextest", &verb.to_string_lossy()], rest)
        }
        Some(name) if OF_CARGO.contains(&name) => of_cargo(&[name], rest),
        Some(name) => match Cli::command().find_subcommand(name) {
            Some(command) if takes_program(command) && !rest.iter().any(|word| word == "--help" || word == "-h") => {
                on_programs(command, rest)
            }
            Some(_) => this_again(words),
            None => Err(usage(format!("there is no command `{name}`; see `cargo selvedge --help`"))),
        },
        None => Err(usage("the command's name is not text; see `cargo selvedge --help`".to_owned())),
    }
}

fn help() -> Result<u8, Failure> {
    writeln!(io::stdout(), "{HELP}")?;
    Ok(0)
}

fn usage(text: String) -> Failure {
    Failure::Error { code: ExitCode::Usage.code(), text }
}

fn failed(error: &SessionError) -> Failure {
    Failure::new(error.exit_code(), error)
}

/// These words are a command of ours as they are.
fn this_again(words: &[OsString]) -> Result<u8, Failure> {
    let status = Command::new(std::env::current_exe()?).args(words).status()?;
    Ok(Exit::from(status).code())
}

/// Whether a command of ours ends in a program.
fn takes_program(command: &clap::Command) -> bool {
    command.get_positionals().any(|arg| arg.is_trailing_var_arg_set() || arg.is_last_set())
}

fn session(words: &[OsString], standard_library: StandardLibrary) -> Result<Session, Failure> {
    runtime::unpack().map_err(|error| Failure::internal(&error))?;
    let executable = std::env::current_exe()?.canonicalize()?;
    // Another program of ours must not take the links over in the middle of a build.
    let name = selvedge_events::bytes::checksum(executable.as_os_str().as_encoded_bytes());
    let shims = runtime::cache_dir().join(format!("rust-{name:016x}"));
    Session::new(&executable, &shims, words, standard_library).map_err(|error| failed(&error))
}

/// Takes our own option out of the words before `--`.
fn standard_library(words: &[OsString]) -> (StandardLibrary, Vec<OsString>) {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let asked = |(at, word): &(usize, &OsString)| *at < end && *word == "--build-std";
    let kept = words.iter().enumerate().filter(|word| !asked(word)).map(|(_, word)| word.clone()).collect();
    let library = match words.iter().enumerate().any(|word| asked(&word)) {
        true => StandardLibrary::Instrumented,
        false => StandardLibrary::Shipped,
    };
    (library, kept)
}

fn of_cargo(subcommand: &[&str], words: &[OsString]) -> Result<u8, Failure> {
    let (library, words) = standard_library(words);
    let session = session(&words, library)?;
    let command = session.command(subcommand, &words);
    match subcommand {
        ["test" | "t"] => tests(command, &words),
        ["nextest", "run" | "r"] => {
            let exit = session.run(command).map_err(|error| failed(&error))?;
            // 100: tests failed.
            if exit == Exit::Code(100) {
                note("to hunt a test that failed: cargo selvedge hunt -- --exact NAME");
            }
            Ok(exit.code())
        }
        _ => session.run(command).map(Exit::code).map_err(|error| failed(&error)),
    }
}

/// Runs tests as Cargo does, and looks which fail.
fn tests(mut command: Command, words: &[OsString]) -> Result<u8, Failure> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut failures: Vec<String> = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout);
        let mut line = Vec::new();
        let mut out = io::stdout();
        while lines.read_until(b'\n', &mut line)? > 0 {
            out.write_all(&line)?;
            failures.extend(failed_test(&String::from_utf8_lossy(&line)).map(str::to_owned));
            line.clear();
        }
        out.flush()?;
    }
    let exit = Exit::from(child.wait()?);
    let chosen: Vec<String> = words
        .iter()
        .take_while(|word| *word != "--")
        .map(|word| word.to_string_lossy())
        .filter(|word| word.starts_with('-'))
        .map(|word| format!("{word} "))
        .collect();
    // Options with values cannot be told apart here from names of tests; so only a plain line is repeated.
    let chosen = if chosen.len() == words.len() { chosen.concat() } else { String::new() };
    for name in &failures {
        note(&format!("to hunt it alone: cargo selvedge hunt {chosen}-- --exact {name}"));
    }
    Ok(exit.code())
}

/// Runs a command of ours on what Cargo builds.
fn on_programs(command: &clap::Command, words: &[OsString]) -> Result<u8, Failure> {
    let (library, words) = standard_library(words);
    let mut line = split(&words, &|name| own_option(command, name)).map_err(|error| Failure::usage(&error))?;
    // A command that has words of its own keeps them; else they are names of tests.
    let own_words = command.get_positionals().any(|arg| !arg.is_trailing_var_arg_set() && !arg.is_last_set());
    if own_words {
        line.ours.append(&mut line.words);
    }
    let session = session(&line.cargo, library)?;
    let tests = if line.names_program() { programs(&session, &line)? } else { chosen_tests(&session, &line)? };
    let (code, tests) = match tests {
        Found::Tests(tests) => (None, tests),
        Found::BuildFailed(exit) => (Some(exit.code()), Vec::new()),
    };
    if let Some(code) = code {
        return Ok(code);
    }
    if tests.len() > 1 && names_a_file(&line.ours) {
        let text = format!("{} tests are chosen, and each would write to the same file; name one test", tests.len());
        return Err(usage(text));
    }
    let mut code = 0;
    for (at, test) in tests.iter().enumerate() {
        if let Some(name) = &test.name {
            let of = if tests.len() > 1 { format!(" ({} of {})", at + 1, tests.len()) } else { String::new() };
            note(&format!("{} {name}{of}", command.get_name()));
        }
        let one = on_test(command.get_name(), &line, test)?;
        // What was found outlives what came after.
        if code != ExitCode::Findings.code() && one != 0 {
            code = one;
        }
        if one == 130 {
            return Ok(one);
        }
    }
    Ok(code)
}

/// Runs a command of ours on one test or program.
fn on_test(name: &str, line: &Split, test: &Test) -> Result<u8, Failure> {
    let mut command = test.launch.command(&std::env::current_exe()?);
    command.arg(name);
    let here = std::env::current_dir()?;
    // The store stays where the user is, not where the test starts.
    if test.launch.dir != here
        && !line.ours.iter().any(|word| word == "--out" || word.to_string_lossy().starts_with("--out="))
    {
        command.arg("--out").arg(here.join(selvedge_drive::store::DEFAULT_DIR));
    }
    let (program, args) = test.command();
    command.args(&line.ours).arg("--").arg(program).args(args);
    Ok(Exit::from(command.status()?).code())
}

enum Found {
    Tests(Vec<Test>),
    BuildFailed(Exit),
}

fn programs(session: &Session, line: &Split) -> Result<Found, Failure> {
    let mut words = line.cargo.clone();
    words.push("--".into());
    words.extend(line.words.iter().chain(&line.rest).cloned());
    let launches = session.launches("run", &words).map_err(|error| failed(&error))?;
    Ok(match launches {
        Err(exit) => Found::BuildFailed(exit),
        Ok(launches) => Found::Tests(launches.into_iter().map(|launch| Test { name: None, launch }).collect()),
    })
}

fn chosen_tests(session: &Session, line: &Split) -> Result<Found, Failure> {
    let mut words = line.cargo.clone();
    if !line.names_targets() {
        // All but those in documentation, which are no programs that stay.
        words.push("--tests".into());
    }
    words.push("--".into());
    words.extend(line.words.iter().chain(&line.rest).cloned());
    let launches = match session.launches("test", &words).map_err(|error| failed(&error))? {
        Err(exit) => return Ok(Found::BuildFailed(exit)),
        Ok(launches) => launches,
    };
    let list = |launch: &Launch| {
        let text = || format!("cannot list the tests in {}", launch.program.display());
        tests_in(launch)
            .map_err(|error| Failure::Error { code: ExitCode::Internal.code(), text: format!("{}: {error}", text()) })
    };
    let lists: Vec<Vec<Test>> = launches.iter().map(list).collect::<Result<_, _>>()?;
    let tests: Vec<Test> = lists.into_iter().flatten().collect();
    let filtered = !line.words.is_empty() || !line.rest.is_empty();
    match tests.is_empty() {
        false => Ok(Found::Tests(tests)),
        true if filtered || line.names_targets() => Err(usage(no_test(&launches))),
        true => {
            note("there are no tests here; taking the program that `cargo run` runs");
            programs(session, line)
        }
    }
}

fn no_test(launches: &[Launch]) -> String {
    let names: Vec<String> =
        launches.iter().filter_map(|launch| Some(launch.program.file_name()?.to_string_lossy().into_owned())).collect();
    format!(
        "no test matches, in {} test program(s) ({}); `cargo selvedge test -- --list` lists them, and `--bin NAME` takes a \
         program instead",
        names.len(),
        names.join(", ")
    )
}

/// What an option is to a command of ours.
fn own_option(command: &clap::Command, name: &str) -> Option<OptionKind> {
    let is = |arg: &&clap::Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
        None => arg.get_short().is_some_and(|short| name.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4]))),
    };
    let arg = command.get_arguments().find(is)?;
    Some(if arg.get_action().takes_values() { OptionKind::WithValue } else { OptionKind::Alone })
}

/// Whether a machine-readable file is asked for.
fn names_a_file(ours: &[OsString]) -> bool {
    let output = OutputArgs::augment_args(clap::Command::new("output"));
    let names: Vec<&str> =
        output.get_arguments().filter(|arg| arg.get_action().takes_values()).filter_map(clap::Arg::get_long).collect();
    ours.iter()
        .filter_map(|word| word.to_str()?.strip_prefix("--"))
        .any(|word| names.contains(&word.split_once('=').map_or(word, |(name, _)| name)))
}
