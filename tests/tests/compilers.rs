//! What every compiler behind the wrapper must make visible: racy lines, both halves of an update, and calls of
//! the program's own after it loaded a library.

use std::collections::BTreeSet;
use std::fs;

use selvedge_itest::{
    Ending, Folder, Gaps, Lab, Program, Toolchain, Trace, Verdict, find_clang, guilty_lines, run_all,
};

/// Records a program built by a compiler behind the wrapper.
fn record(compiler: &Toolchain, lab: &Lab, program: &Program) -> Result<Trace, String> {
    let built = compiler.wrapped_by(lab.selvedge()).build(program, &lab.path("wrapped"));
    let command = built.map_err(|error| error.to_string())?.command();
    let recorded = lab.record("store", command);
    match recorded.ending {
        Ending::Exit(0) => Ok(lab.latest("store")),
        other => Err(format!("recorded, it ended by {other}: {}", recorded.stderr)),
    }
}

/// Every guilty line of a racy program has events.
fn guilty_lines_are_recorded(compiler: &Toolchain, program: &Program) -> Verdict {
    let lab = Lab::new();
    let source = fs::read_to_string(&program.source).expect("readable");
    let trace = match record(compiler, &lab, program) {
        Ok(trace) => trace,
        Err(problem) => return Verdict::Fail(problem),
    };
    let seen = trace.lines(&program.source);
    let guilty = guilty_lines(&source).into_iter().map(|(line, _)| line);
    let missing: Vec<usize> = guilty.filter(|line| !seen.iter().any(|at| usize::try_from(*at) == Ok(*line))).collect();
    match missing.is_empty() {
        true => Verdict::Pass,
        false => Verdict::Fail(format!("no events at lines {missing:?}, only at {seen:?}")),
    }
}

fn every_racy_line_is_recorded(compiler: &Toolchain) {
    let mut programs = Program::all_in(Folder::Race).expect("programs are readable");
    programs.retain(|program| !program.is_rust());
    let report = run_all("record", &programs, |program| guilty_lines_are_recorded(compiler, program));
    let gaps = Gaps::default();
    assert!(report.problems(&gaps).is_empty(), "{}", report.render(&gaps));
}

/// `counter++` is a read and a write, whoever compiles it.
fn an_update_is_a_read_and_a_write(compiler: &Toolchain) {
    let lab = Lab::new();
    let program = lab.program("race/lost_update.c");
    let source = fs::read_to_string(&program.source).expect("readable");
    let trace = record(compiler, &lab, &program).unwrap_or_else(|problem| panic!("{problem}"));
    for (line, _) in guilty_lines(&source) {
        let there = trace.events.iter().filter(|event| event.line.is_some_and(|at| usize::try_from(at) == Ok(line)));
        let ops: BTreeSet<&str> = there.map(|event| event.op.as_str()).collect();
        assert!(ops.contains("read") && ops.contains("write"), "at line {line} there are only {ops:?}");
    }
}

/// The images are looked at again in `dlopen`; the executable is still the one it was.
fn a_library_does_not_cost_the_programs_lines(compiler: &Toolchain) {
    let lab = Lab::new();
    let program = lab.program("hostile/dlopen_deepbind.c");
    let source = fs::read_to_string(&program.source).expect("readable");
    let trace = record(compiler, &lab, &program).unwrap_or_else(|problem| panic!("{problem}"));
    let file = program.source.to_str();
    let calls = trace.events.iter().filter(|event| event.file.as_deref() == file && event.op == "call");
    let seen: BTreeSet<u32> = calls.filter_map(|event| event.line).collect();
    let expected = (1..).zip(source.lines()).filter(|(_, line)| line.contains("dlopen(") || line.contains("dlclose("));
    let expected: BTreeSet<u32> = expected.map(|(line, _)| line).collect();
    assert!(expected.len() == 3 && expected.is_subset(&seen), "calls at {seen:?}, not at all of {expected:?}");
}

fn clang() -> Option<Toolchain> {
    let found = find_clang().map(|(cc, cxx)| Toolchain::of(cc, cxx));
    if found.is_none() {
        println!("skipped: no clang on the path; install clang to run this test");
    }
    found
}

#[test]
fn the_platforms_compiler_shows_both_halves_of_an_update() {
    an_update_is_a_read_and_a_write(&Toolchain::native());
}

#[test]
fn clang_shows_both_halves_of_an_update() {
    if let Some(clang) = clang() {
        an_update_is_a_read_and_a_write(&clang);
    }
}

#[test]
fn the_platforms_compiler_shows_every_racy_line() {
    every_racy_line_is_recorded(&Toolchain::native());
}

#[test]
fn clang_shows_every_racy_line() {
    if let Some(clang) = clang() {
        every_racy_line_is_recorded(&clang);
    }
}

#[test]
fn the_platforms_compiler_shows_calls_after_a_library_was_loaded() {
    a_library_does_not_cost_the_programs_lines(&Toolchain::native());
}

#[test]
fn clang_shows_calls_after_a_library_was_loaded() {
    if let Some(clang) = clang() {
        a_library_does_not_cost_the_programs_lines(&clang);
    }
}
