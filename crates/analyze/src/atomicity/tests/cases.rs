//! Small programs for single rules, each run in every order.

use super::super::interpret::{Choice, Machine, Start};
use super::super::order::{Resolved, Unenforced, resolve};
use super::super::place::{Mode, Wanted, place};
use super::write::{Written, expected, program};

/// Threads by function, all with the same input; the enforced program keeps its promises, and so does the original its results.
fn check(written: &Written, resolved: &Resolved, threads: &[&str], choices: &[u8]) {
    let choices: Vec<Choice> = choices.iter().map(|choice| Choice::Fixed(*choice)).collect();
    let start = |name: &&str| Start { function: written.function(name), choices: choices.clone() };
    let starts: Vec<Start> = threads.iter().map(start).collect();
    let original = Machine::new(&written.program, &starts, None).explore(200_000);
    assert!(original.complete && original.stuck.is_none(), "{threads:?}");
    let enforced = Machine::new(&written.program, &starts, Some(&resolved.placement));
    let enforced = enforced.watch(&resolved.wanted.pairs).explore(200_000);
    assert!(enforced.complete && !enforced.leaked, "{threads:?}");
    assert_eq!((&enforced.broken, &enforced.stuck), (&None, &None), "{threads:?}");
    assert!(!enforced.outcomes.is_empty() && enforced.outcomes.is_subset(&original.outcomes), "{threads:?}");
}

#[test]
fn a_lock_of_the_caller_counts_until_a_wait() {
    let main = "main: 1 read x -> 2; 2 call waits -> 3; 3 read x -> 4; 4 call plain -> 5; 5 read x";
    let waits = "waits: 1 write x -> 2; 2 wait c -> 3; 3 write x";
    let other = "other: 1 signal c -> 2; 2 read x -> 3; 3 read x";
    let written = program(&[main, waits, "plain: 1 write x", other], &["main", "other"]);
    let pairs = ["main x 1 2 X", "main x 2 3 X", "main x 3 4 X", "main x 4 5 X", "other x 2 3 X"];
    let resolved = resolve(&written.program, written.pairs(&pairs));
    assert_eq!(resolved.unenforced, []);
    // Before the wait the caller has the lock, after it nobody has.
    let placed = written.placed(&resolved.placement, "waits");
    assert_eq!(placed, expected(&[("3", &["+X x@3"]), ("exit", &["-x@3"])]));
    assert_eq!(written.placed(&resolved.placement, "plain"), expected(&[]));
    check(&written, &resolved, &["main", "other"], &[]);
}

#[test]
fn a_callee_gives_back_its_own_and_not_its_caller_s() {
    let main = "main: 1 call bar -> 2; 2 -> 3; 3 read x";
    let bar = "bar: 1 read x -> 2; 2 read x -> 3; 3";
    let written = program(&[main, bar, "other: 1 call bar -> 2; 2 write x"], &["main", "other"]);
    let pairs = written.pairs(&["bar x 1 2 R", "main x 1 3 X"]);
    let resolved = resolve(&written.program, pairs);
    // `other` calls without the lock, so `bar` takes it itself; and gives it back while `main` keeps it.
    assert_eq!(written.placed(&resolved.placement, "bar"), expected(&[("1", &["+R x@1"]), ("3", &["-x@1"])]));
    check(&written, &resolved, &["main", "other", "other"], &[]);
}

#[test]
fn a_loop_holds_its_pair_and_leaves_it_behind() {
    // The pair from 2 to 3 is not held on the way back from 3 to 2, which any path from 2 to 3 would say.
    let f = "f: 1 -> 2 6; 2 read x -> 3; 3 write x -> 4; 4 -> 5; 5 -> 1; 6";
    let written = program(&[f], &["f"]);
    let placement = place(&written.program, &Wanted::new(written.pairs(&["f x 2 3 X"])));
    let once = expected(&[("2", &["+X x@2"]), ("4", &["-x@2"])]);
    assert_eq!(written.placed(&placement, "f"), once);
    // A pair around the loop is, and is given back where the loop ends.
    let placement = place(&written.program, &Wanted::new(written.pairs(&["f x 2 3 X", "f x 3 2 R"])));
    let round = expected(&[("2", &["+X x@2"]), ("4", &["R x@2"]), ("6", &["-x@2"])]);
    assert_eq!(written.placed(&placement, "f"), round);
    check(&written, &resolve(&written.program, written.pairs(&["f x 2 3 X", "f x 3 2 R"])), &["f", "f"], &[0, 0, 1]);
}

#[test]
fn pairs_of_one_head_and_one_type_do_not_give_each_other_s_lock_back() {
    // Figure 6 releases on 2 to 4, where the pair to 3 ends and the one to 4 goes on.
    let f = "f: 1 read x -> 2; 2 -> 3 4; 3 read x -> 5; 4 read x -> 5; 5";
    let written = program(&[f, "g: 1 write x"], &["f", "g"]);
    let pairs = written.pairs(&["f x 1 3 R", "f x 1 4 R"]);
    let resolved = resolve(&written.program, pairs);
    assert_eq!(written.placed(&resolved.placement, "f"), expected(&[("1", &["+R x@1"]), ("5", &["-x@1"])]));
    check(&written, &resolved, &["f", "g", "f"], &[1]);
}

#[test]
fn a_write_in_a_pair_that_lets_others_read_is_exclusive_and_then_reads() {
    let f = "f: 1 write x -> 2; 2 -> 3; 3 read x -> 4; 4";
    let written = program(&[f], &["f"]);
    let resolved = resolve(&written.program, written.pairs(&["f x 1 3 R"]));
    let figure = expected(&[("1", &["+X x@1"]), ("2", &["R x@1"]), ("4", &["-x@1"])]);
    assert_eq!(written.placed(&resolved.placement, "f"), figure);
    check(&written, &resolved, &["f", "f"], &[]);
}

#[test]
fn two_readers_that_go_on_to_write_do_not_wait_for_each_other() {
    let written = program(&["f: 1 read x -> 2; 2 -> 3; 3 write x -> 4; 4"], &["f"]);
    let resolved = resolve(&written.program, written.pairs(&["f x 1 3 R"]));
    let placed = written.placed(&resolved.placement, "f");
    assert_eq!(placed, expected(&[("1", &["+U x@1"]), ("3", &["+X x@3 [x@1]"]), ("4", &["-x@3"])]));
    check(&written, &resolved, &["f", "f", "f"], &[]);
    let f = written.function("f");
    let starts = [(); 2].map(|()| Start { function: f, choices: vec![] });
    let unresolved = Machine::new(&written.program, &starts, Some(&resolved.unresolved)).explore(10_000);
    assert!(unresolved.stuck.is_some(), "with plain read locks they do");
}

#[test]
fn a_call_that_may_touch_adds_to_a_pair_and_does_not_end_it() {
    let may = "may: 1 -> 2 3; 2 read x -> 3; 3";
    let f = "f: 1 read x -> 2; 2 call may -> 3; 3 -> 4 5; 4 -> 6; 5 read x -> 6; 6";
    let written = program(&[may, f, "g: 1 write x"], &["f", "g"]);
    let resolved = resolve(&written.program, written.pairs(&["f x 1 5 X", "f x 2 5 X"]));
    assert_eq!(resolved.unenforced, []);
    for choices in [[0, 1], [1, 1], [1, 0]] {
        check(&written, &resolved, &["f", "g", "f"], &choices);
    }
}

#[test]
fn what_is_wanted_under_a_lock_of_one_who_waits_is_left_alone_and_reported() {
    let written = program(
        &[
            "f: 1 write x -> 2; 2 lock k -> 3; 3 write x -> 4; 4 unlock k",
            "g: 1 lock k -> 2; 2 wait c -> 3; 3 unlock k",
            "h: 1 write x -> 2; 2 signal c",
        ],
        &["f", "g", "h"],
    );
    let pairs = written.pairs(&["f x 1 3 X"]);
    let resolved = resolve(&written.program, pairs.clone());
    assert_eq!(resolved.unenforced, [(pairs[0], Unenforced::Circle)]);
    assert_eq!(resolved.placement.counts(), [0; 4]);
    check(&written, &resolved, &["f", "g", "h"], &[]);
    let none = written.pairs(&["h x 1 1 X"]);
    assert_eq!(resolve(&written.program, none.clone()).unenforced, [(none[0], Unenforced::NoPath)]);
}

#[test]
fn a_lock_that_a_function_leaves_held_is_held_in_its_caller() {
    let written = program(
        &[
            "lock: 1 lock k",
            "unlock: 1 unlock k",
            "f: 1 read x -> 2; 2 call lock -> 3; 3 write x -> 4; 4 call unlock",
            "g: 1 call lock -> 2; 2 write x -> 3; 3 call unlock",
        ],
        &["f", "g"],
    );
    let resolved = resolve(&written.program, written.pairs(&["f x 1 3 X"]));
    assert_eq!(resolved.unenforced, []);
    assert!(!resolved.before.circles().is_empty());
    // Before the call that takes it, and in both functions.
    assert_eq!(written.placed(&resolved.placement, "g")["1"], ["+X x^2"]);
    check(&written, &resolved, &["f", "g", "f"], &[]);
}

#[test]
fn locks_that_a_callee_takes_are_hoisted_in_its_caller() {
    let written = program(
        &[
            "touch: 1 write x",
            "f: 1 lock k -> 2; 2 call touch -> 3; 3 unlock k",
            "g: 1 write x -> 2; 2 lock k -> 3; 3 unlock k -> 4; 4 write x",
        ],
        &["f", "g"],
    );
    let resolved = resolve(&written.program, written.pairs(&["g x 1 4 X"]));
    assert_eq!(resolved.unenforced, []);
    assert_eq!(written.placed(&resolved.placement, "f"), expected(&[("1", &["+X x^2"]), ("3", &["-x^2"])]));
    // Every caller has it now.
    assert_eq!(written.placed(&resolved.placement, "touch"), expected(&[]));
    check(&written, &resolved, &["f", "g", "f"], &[]);
}

#[test]
fn counts_are_by_what_is_done() {
    let written = program(&["f: 1 write x -> 2; 2 -> 3; 3 read x -> 4; 4"], &["f"]);
    let resolved = resolve(&written.program, written.pairs(&["f x 1 3 R"]));
    assert_eq!(resolved.placement.counts(), [0, 1, 1, 1]);
    assert!(Mode::ALL.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn an_upgrade_that_waits_for_a_reader_is_part_of_a_circle() {
    // One reads x and wants k; one has k and wants to update x; one updates x and wants to write it.
    let reads = "reads: 1 read x -> 2; 2 lock k -> 3; 3 unlock k -> 4; 4 read x";
    let writes = "writes: 1 lock k -> 2; 2 read x -> 3; 3 unlock k -> 4; 4 write x";
    let written = program(&[reads, writes], &["reads", "writes"]);
    let resolved = resolve(&written.program, written.pairs(&["reads x 1 4 R", "writes x 2 4 R"]));
    assert_eq!(resolved.unenforced, []);
    check(&written, &resolved, &["reads", "writes", "writes"], &[]);
}

#[test]
fn a_lock_that_is_wanted_after_a_wait_cannot_be_had_ahead() {
    // x is wanted under k after a wait that takes our locks and leaves k: in the function that has k, and in one that it calls.
    let other = "other: 1 write x -> 2; 2 lock k -> 3; 3 unlock k -> 4; 4 write x";
    for texts in [
        &["main: 1 lock k -> 2; 2 wait c -> 3; 3 write x -> 4; 4 unlock k"][..],
        &["main: 1 lock k -> 2; 2 call g -> 3; 3 unlock k", "g: 1 wait c -> 2; 2 write x"],
    ] {
        let all: Vec<&str> = texts.iter().copied().chain([other, "signals: 1 signal c"]).collect();
        let written = program(&all, &["main", "other", "signals"]);
        let pairs = written.pairs(&["other x 1 4 X"]);
        let resolved = resolve(&written.program, pairs.clone());
        assert_eq!(resolved.unenforced, [(pairs[0], Unenforced::Circle)]);
        check(&written, &resolved, &["main", "other", "signals"], &[]);
    }
    // x was had before k, and is lost at the wait all the same; k is had again.
    for (texts, pair) in [
        (&["main: 1 write x -> 2; 2 lock k -> 3; 3 wait c k -> 4; 4 write x -> 5; 5 unlock k"][..], "main x 1 4 X"),
        (
            &["main: 1 write x -> 2; 2 lock k -> 3; 3 call g -> 4; 4 unlock k", "g: 1 wait c k -> 2; 2 write x"],
            "main x 1 3 X",
        ),
    ] {
        let all: Vec<&str> = texts.iter().copied().chain([other, "signals: 1 signal c"]).collect();
        let written = program(&all, &["main", "other", "signals"]);
        let resolved = resolve(&written.program, written.pairs(&[pair, "other x 1 4 X"]));
        assert!(resolved.unenforced.iter().all(|(_, why)| *why == Unenforced::Circle));
        check(&written, &resolved, &["main", "other", "signals"], &[]);
    }
    // The condition's own mutex is given back while it waits: nobody waits for it because of that.
    let main = "main: 1 lock k -> 2; 2 wait c k -> 3; 3 unlock k";
    let written = program(&[main, other, "signals: 1 signal c"], &["main", "other", "signals"]);
    let resolved = resolve(&written.program, written.pairs(&["other x 1 4 X"]));
    assert_eq!(resolved.unenforced, []);
    check(&written, &resolved, &["main", "other", "other", "signals"], &[]);
}

#[test]
fn a_lock_that_a_loop_wants_again_and_again_is_held_around_it() {
    let f = "f: 1 lock k -> 2; 2 -> 3 5; 3 write x -> 4; 4 -> 2; 5 unlock k -> 6; 6";
    let g = "g: 1 write x -> 2; 2 lock k -> 3; 3 unlock k -> 4; 4 write x -> 5; 5";
    let written = program(&[f, g], &["f", "g"]);
    let resolved = resolve(&written.program, written.pairs(&["g x 1 4 X"]));
    assert_eq!(resolved.unenforced, []);
    assert_eq!(written.placed(&resolved.placement, "f"), expected(&[("1", &["+X x^3"]), ("5", &["-x^3"])]));
    check(&written, &resolved, &["f", "g", "f"], &[0, 0, 1]);
}

#[test]
fn recursion_and_indirect_calls_are_seen_through() {
    let f = "f: 1 lock k -> 2; 2 unlock k -> 3; 3 -> 4 5; 4 call f|g -> 5; 5";
    let g = "g: 1 write x -> 2; 2 call f -> 3; 3 write x -> 4; 4";
    let h = "h: 1 lock k -> 2; 2 read x -> 3; 3 unlock k";
    let written = program(&[f, g, h], &["f", "g", "h"]);
    let resolved = resolve(&written.program, written.pairs(&["g x 1 3 X"]));
    assert_eq!(resolved.unenforced, []);
    assert!(resolved.before.circles().len() == 1 && resolved.after.circles().is_empty());
    check(&written, &resolved, &["g", "h", "g"], &[0, 0, 0, 1, 1]);
}

#[test]
fn a_pair_across_two_critical_sections_is_taken_ahead_of_the_first() {
    // MySQL 14747: tested under the latch, dropped under the latch, and the latch is given up between.
    let f =
        "f: 1 lock k -> 2; 2 read x -> 3; 3 unlock k -> 4; 4 -> 5 9; 5 lock k -> 6; 6 write x -> 7; 7 unlock k -> 9; 9";
    let written = program(&[f], &["f"]);
    let resolved = resolve(&written.program, written.pairs(&["f x 2 6 X"]));
    assert_eq!(resolved.unenforced, []);
    check(&written, &resolved, &["f", "f"], &[0]);
    check(&written, &resolved, &["f", "f"], &[1]);
}

#[test]
fn a_slot_that_a_loop_takes_again_more_strongly_waits_like_any_other() {
    // pbzip2: the consumer's slot comes back to its own head for reading and is taken exclusively again; who tears down holds for update.
    let f = "f: 1 -> 2 5; 2 read x -> 3; 3 read x -> 4; 4 -> 1; 5";
    let g = "g: 1 read x -> 2; 2 -> 3; 3 write x -> 4; 4";
    let written = program(&[f, g], &["f", "g"]);
    let resolved = resolve(&written.program, written.pairs(&["f x 2 3 X", "f x 3 2 R", "g x 1 3 R"]));
    assert_eq!(resolved.unenforced, []);
    check(&written, &resolved, &["f", "g"], &[0, 0, 1]);
    check(&written, &resolved, &["f", "f", "g"], &[0, 0, 1]);
}
