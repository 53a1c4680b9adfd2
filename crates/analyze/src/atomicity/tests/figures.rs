//! Figures 1, 2, 7 and 8 of the paper. The drawings are rebuilt from its text; what the text says of them is asserted as it says it.
use super::super::interpret::{Choice, Machine, Start};
use super::super::order::{Held, resolve};
use super::super::place::{Anchor, Mode, Wanted, anchor, place};
use super::super::program::{BlockId, LockId};
use super::write::{expected, program};

#[test]
fn figure_1_the_write_that_was_never_seen_is_locked_out() {
    // if (COND1) P = NULL; if (P) … = *P;
    let foo = "foo: 1 -> 2 3; 2 write P -> 3; 3 read P -> 4 5; 4 read P -> 5; 5";
    let written = program(&[foo], &["foo"]);
    let pairs = written.pairs(&["foo P 3 4 R"]);
    let placement = place(&written.program, &Wanted::new(pairs.clone()));
    // acquire before `P = NULL`, release after it; acquire before `if (P)`, release after `*P` or the branch around it.
    let figure = expected(&[("2", &["+X P@2"]), ("3", &["-P@2", "+R P@3"]), ("5", &["-P@3"])]);
    assert_eq!(written.placed(&placement, "foo"), figure);
    // Two threads, one with COND1: the pair is broken without the locks and not with them.
    let foo = written.function("foo");
    let to = |first| Start { function: foo, choices: vec![Choice::Fixed(first), Choice::Fixed(0)] };
    let starts = [to(0), to(1)];
    assert!(Machine::new(&written.program, &starts, None).watch(&pairs).explore(10_000).broken.is_some());
    let enforced = Machine::new(&written.program, &starts, Some(&placement)).watch(&pairs).explore(10_000);
    assert_eq!((enforced.broken, enforced.stuck, enforced.leaked, enforced.complete), (None, None, false, true));
    assert!(!enforced.outcomes.is_empty());
}

/// MySQL bug 791, with the paper's line numbers.
fn mysql() -> super::write::Written {
    program(
        &[
            "is_open: 150 read log_type",
            "close: 1496 write log_type",
            "open: 143 write log_type",
            // 805: if (!is_open()) return; 810: lock; 830, 834: is_open(); 867: close(); 870: open()
            "new_file: 805 call is_open -> 806; 806 -> 810 899; 810 lock LOCK_log -> 830; 830 call is_open -> 834; \
             834 call is_open -> 867; 867 call close -> 870; 870 call open -> 890; 890 unlock LOCK_log -> 899; 899",
            // 311: if (is_open()) … 1922: if (is_open())
            "mysql_insert: 311 call is_open -> 312; 312 -> 1922 1930; 1922 call is_open -> 1923; 1923 -> 1930; 1930",
        ],
        &["new_file", "mysql_insert"],
    )
}

const MYSQL: [&str; 5] = [
    "new_file log_type 805 830 R",
    "new_file log_type 830 834 R",
    "new_file log_type 834 867 R",
    "new_file log_type 867 870 X",
    "mysql_insert log_type 311 1922 R",
];

#[test]
fn figure_2_the_placement_before_deadlocks_are_resolved() {
    let written = mysql();
    let placement = place(&written.program, &Wanted::new(written.pairs(&MYSQL)));
    let new_file = expected(&[
        ("805", &["+R log_type@805"]),                // (A)
        ("899", &["-log_type@805"]),                  // (B): the branch at 805 goes past 830
        ("867", &["+X log_type@867 [log_type@805]"]), // (D): 830 and 834 go on under 805
        ("890", &["-log_type@867"]),                  // (E): right after 870
    ]);
    assert_eq!(written.placed(&placement, "new_file"), new_file);
    // (F), (G) and (H).
    let insert = expected(&[("311", &["+R log_type@311"]), ("1923", &["-log_type@311"]), ("1930", &["-log_type@311"])]);
    assert_eq!(written.placed(&placement, "mysql_insert"), insert);
    // Every caller holds the lock, so the accesses themselves need none.
    for function in ["is_open", "close", "open"] {
        assert_eq!(written.placed(&placement, function), expected(&[]), "{function}");
    }
}

#[test]
fn figure_2_the_exclusive_lock_is_hoisted_over_the_program_s() {
    let written = mysql();
    let pairs = written.pairs(&MYSQL);
    let resolved = resolve(&written.program, pairs.clone());
    assert_eq!((&resolved.unenforced[..], &resolved.merged[..]), (&[][..], &[][..]));
    let log = Held::Program(LockId(0));
    assert!(resolved.before.circles().iter().any(|circle| circle.contains(&log)));
    assert_eq!(resolved.after.circles(), Vec::<Vec<Held>>::new());
    let picture = resolved.before.dot(&written.program);
    assert!(picture.contains("  \"LOCK_log\" -> \"exclusive lock of log_type\" [color=red];\n"), "{picture}");
    assert!(!resolved.after.dot(&written.program).contains("red"));
    // (C) is the extra acquisition before 810. (A) reads, and says that it will want more: two threads at (C) would wait for
    // each other otherwise, which the paper does not see.
    let new_file = expected(&[
        ("805", &["+U log_type@805"]),                             // (A)
        ("810", &["+X log_type^867"]),                             // (C)
        ("867", &["+X log_type@867 [log_type@805 log_type^867]"]), // (D)
        ("890", &["-log_type@867"]),                               // (E)
        ("899", &["-log_type@805"]),                               // (B)
    ]);
    assert_eq!(written.placed(&resolved.placement, "new_file"), new_file);
    let insert = expected(&[("311", &["+R log_type@311"]), ("1923", &["-log_type@311"]), ("1930", &["-log_type@311"])]);
    assert_eq!(written.placed(&resolved.placement, "mysql_insert"), insert);
    // Three threads in every order.
    let [new_file, insert] = ["new_file", "mysql_insert"].map(|name| written.function(name));
    let starts = [new_file, new_file, insert].map(|function| Start { function, choices: vec![Choice::Fixed(0)] });
    let original = Machine::new(&written.program, &starts, None).watch(&pairs).explore(200_000);
    assert!(original.complete && original.broken.is_some() && original.stuck.is_none());
    let enforced = Machine::new(&written.program, &starts, Some(&resolved.placement)).watch(&pairs).explore(200_000);
    assert!(enforced.complete && !enforced.leaked);
    assert_eq!((&enforced.broken, &enforced.stuck), (&None, &None));
    assert!(enforced.outcomes.is_subset(&original.outcomes));
    // The placement before does stand still.
    let unresolved = Machine::new(&written.program, &starts, Some(&resolved.unresolved)).explore(200_000);
    assert!(unresolved.stuck.is_some());
}

#[test]
fn figure_7_constraints_degrade_and_what_is_redundant() {
    // x is accessed at 2, 7, 9 and 12; 2 and 3 join at 4, 5 and 6 part there, 7 follows 6.
    let f = "f: 1 -> 2 3; 2 read x -> 4; 3 -> 4; 4 -> 5 6; 5 -> 11; 6 -> 7; 7 read x -> 8; 8 -> 9 10; 9 read x -> 13; \
             10 -> 11; 11 -> 12; 12 read x -> 13; 13";
    let written = program(&[f], &["f"]);
    let pairs = written.pairs(&["f x 2 12 X", "f x 2 7 R", "f x 7 12 R"]);
    let placement = place(&written.program, &Wanted::new(pairs));
    let placed = &placement.functions[0];
    // The sets of the pairs, as the text has them; N is not kept.
    let set = |label: u32| {
        let node = written.node("f", label);
        let mut set: Vec<String> = placed
            .constraints_at(node)
            .filter_map(|constraint| constraint.pair)
            .map(|pair| {
                let name = |node| written.program.name(pair.function, node);
                let mode = if pair.exclusive { "X" } else { "R" };
                format!("{mode} {} {}", name(pair.first), name(pair.second))
            })
            .collect();
        set.sort();
        set
    };
    // Blocks count from 0: node n is block n - 1.
    let (x212, r27, r712) = ("X f 1.0 f 11.0", "R f 1.0 f 6.0", "R f 6.0 f 11.0");
    assert_eq!(set(1), [""; 0]);
    assert_eq!(set(3), [""; 0]);
    assert_eq!(set(2), [r27, x212]);
    assert_eq!(set(4), [r27, x212]);
    assert_eq!(set(5), [x212], "7 cannot be reached");
    assert_eq!(set(6), [r27], "7 comes before 12");
    assert_eq!(set(7), [r27, r712]);
    assert_eq!(set(9), [""; 0]);
    assert_eq!(set(12), [r712, x212]);
    let figure = expected(&[
        ("2", &["+X x@2"]),
        ("6", &["R x@2"]),          // 4 to 6: ?degrade. Release A on 4 to 5 is not there.
        ("7", &["+R x@7 [x@2]"]),   // needed for the path by way of 3. Release B after it is not there.
        ("9", &["-x@7", "+R x@9"]), // a single access
        // The tail of both pairs: it is reached by way of 3 and 5 without the lock, so it takes it itself.
        ("12", &["+R x@12 [x@7]"]),
        ("13", &["-x@2", "-x@9", "-x@12"]),
    ]);
    assert_eq!(written.placed(&placement, "f"), figure);
}

#[test]
fn figure_8_hoisting_y_over_x() {
    let f = "f: 1 -> 2 3; 2 write x -> 4; 3 -> 4; 4 -> 5 6; 5 -> 7; 6 read y -> 7; 7 -> 8; 8 write x -> 9; 9 read y -> 10; 10";
    // The other thread has them in the other order, cheaply: one more node, and the same for both.
    let g = "g: 1 write y -> 2; 2 -> 3; 3 -> 4; 4 -> 5; 5 -> 6; 6 -> 7; 7 -> 8; 8 write x -> 9; 9 write y -> 10; 10";
    let written = program(&[f, g], &["f", "g"]);
    let pairs = written.pairs(&["f x 2 8 X", "f y 6 9 R", "g y 1 9 X"]);
    let before = place(&written.program, &Wanted::new(pairs.clone()));
    let a = expected(&[
        ("2", &["+X x@2"]),
        ("6", &["+R y@6"]),
        ("8", &["+X x@8 [x@2]"]),
        ("9", &["-x@8", "+R y@9 [y@6]"]),
        ("10", &["-y@9"]),
    ]);
    assert_eq!(written.placed(&before, "f"), a, "(a)");
    let resolved = resolve(&written.program, pairs.clone());
    assert_eq!(resolved.unenforced, []);
    assert!(!resolved.before.circles().is_empty() && resolved.after.circles().is_empty());
    let placed = written.placed(&resolved.placement, "f");
    // (b): the extra acquisition on 1 to 2, its release on 4 to 5, and none after 6, where the original takes its place.
    assert_eq!(placed["2"], ["+R y^6", "+X x@2"]);
    assert_eq!(placed["5"], ["-y^6"]);
    assert_eq!(placed["6"], ["+R y@6 [y^6]"]);
    let hoist =
        resolved.wanted.hoists.values().find(|hoist| hoist.mode == Mode::Read && hoist.nodes.len() == 3).unwrap();
    let nodes: Vec<_> = [2, 4, 6].map(|label| written.node("f", label)).into_iter().collect();
    assert_eq!(hoist.nodes.iter().copied().collect::<Vec<_>>(), nodes, "R from 2 to 6 is in the sets of 2, 4 and 6");
    for choices in [[0, 1], [1, 1], [0, 0], [1, 0]] {
        let choices = choices.map(Choice::Fixed).to_vec();
        let starts = ["f", "g", "f"].map(|name| Start { function: written.function(name), choices: choices.clone() });
        let original = Machine::new(&written.program, &starts, None).explore(200_000);
        let enforced =
            Machine::new(&written.program, &starts, Some(&resolved.placement)).watch(&pairs).explore(200_000);
        assert!(original.complete && enforced.complete && !enforced.leaked);
        assert_eq!((&enforced.broken, &enforced.stuck), (&None, &None));
        assert!(enforced.outcomes.is_subset(&original.outcomes));
    }
}

#[test]
fn figure_9_a_wait_gives_our_locks_back() {
    let written = program(
        &[
            "waits: 1 read x -> 2; 2 wait c -> 3; 3 read x -> 4; 4",
            "holds: 1 lock k -> 2; 2 wait c -> 3; 3 unlock k",
            "blocks: 1 write x -> 2; 2 lock k -> 3; 3 unlock k -> 4; 4 write x",
            "signals: 1 write x -> 2; 2 signal c",
        ],
        &["waits", "holds", "blocks", "signals"],
    );
    let pairs = written.pairs(&["waits x 1 3 X", "blocks x 1 4 X"]);
    let resolved = resolve(&written.program, pairs.clone());
    assert_eq!(resolved.unenforced, []);
    let placement = &resolved.placement;
    let start = |name: &str| Start { function: written.function(name), choices: vec![] };
    // The thread itself waits; and one waits for the lock of one who waits.
    for names in [&["waits", "signals"][..], &["holds", "blocks", "signals"]] {
        let starts: Vec<Start> = names.iter().map(|name| start(name)).collect();
        let enforced = Machine::new(&written.program, &starts, Some(placement)).watch(&pairs).explore(100_000);
        assert!(enforced.complete && !enforced.leaked, "{names:?}");
        assert_eq!((&enforced.broken, &enforced.stuck), (&None, &None), "{names:?}");
    }
}

#[test]
fn anchors_are_the_hooks_that_there_are() {
    let written = mysql();
    let placement = place(&written.program, &Wanted::new(written.pairs(&MYSQL)));
    let function = written.function("new_file");
    let flow = written.program.flow(function);
    let placed = &placement.functions[function.0 as usize];
    let at = |label: u32| {
        let node = written.node("new_file", label);
        placed.before[node.0 as usize].iter().map(|action| anchor(flow, node, action).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(at(805), [Anchor::Before(BlockId(0), 0)]);
    assert_eq!(at(899), [Anchor::Entry(BlockId(8))]);
}
