//! What every compiler behind the wrapper must make visible.

use std::collections::BTreeSet;

use selvedge_itest::{Ending, Lab, Toolchain, find_clang, guilty_lines};

/// `counter++` is a read and a write, whoever compiles it.
fn an_update_is_a_read_and_a_write(compiler: &Toolchain) {
    let lab = Lab::new();
    let program = lab.program("race/lost_update.c");
    let source = std::fs::read_to_string(&program.source).expect("readable");
    let built = compiler.wrapped_by(lab.selvedge()).build(&program, &lab.path("wrapped"));
    let executable = built.unwrap_or_else(|error| panic!("{error}")).executable;
    assert_eq!(lab.record("store", [&executable]).ending, Ending::Exit(0));
    let trace = lab.latest("store");
    for (line, _) in guilty_lines(&source) {
        let there = trace.events.iter().filter(|event| event.line.is_some_and(|at| usize::try_from(at) == Ok(line)));
        let ops: BTreeSet<&str> = there.map(|event| event.op.as_str()).collect();
        assert_eq!(ops, BTreeSet::from(["read", "write"]), "at line {line}");
    }
}

#[test]
fn the_platforms_compiler_shows_both_halves_of_an_update() {
    an_update_is_a_read_and_a_write(&Toolchain::native());
}

#[test]
fn clang_shows_both_halves_of_an_update() {
    let Some((cc, cxx)) = find_clang() else {
        println!("skipped: no clang on the path; install clang to run this test");
        return;
    };
    an_update_is_a_read_and_a_write(&Toolchain::of(cc, cxx));
}
