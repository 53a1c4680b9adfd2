//! The paper's Table 2, measured: each pattern as small interleavings of one variable, correct and wrong, and where each
//! invariant notices the wrong ones.
//!
//! A step is a thread, `r`ead, `w`rite or `u`pdate, and a site: `1r3` is thread 1 reading at site 3.

use super::{Violation, all};
use crate::invariant::accesses::Access;

/// The accesses of steps.
pub(crate) fn run(text: &str) -> Vec<Access> {
    let step = |(step, index): (&str, u64)| {
        let at = step.find(['r', 'w', 'u']).expect("a kind");
        let (thread, kind, site) = (&step[..at], &step[at..=at], &step[at + 1..]);
        Access {
            thread: thread.parse().expect("a thread"),
            location: 0,
            site: site.parse().expect("a site"),
            write: kind != "r",
            read: kind != "w",
            index,
            operation: index as u32 + 1,
        }
    };
    text.split_whitespace().zip(0..).map(step).collect()
}

/// A run in which the bug shows.
struct Wrong {
    steps: &'static str,
    /// The number of its turning point: once that step is made, the bug cannot be avoided.
    turn: usize,
    /// Where AI, AVIO, DUI, CCI and PSet notice.
    found: [Option<usize>; 5],
}

struct Pattern {
    name: &'static str,
    correct: &'static [&'static str],
    wrong: &'static [Wrong],
}

const fn wrong(steps: &'static str, turn: usize, found: [Option<usize>; 5]) -> Wrong {
    Wrong { steps, turn, found }
}

const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "R-R|W",
        correct: &["1r1 1r2 2w3", "2w3 1r1 1r2"],
        wrong: &[wrong("1r1 2w3 1r2", 1, [Some(1), Some(2), Some(2), Some(2), Some(1)])],
    },
    // Figure 5: the second read is not reached where the first one sees nothing.
    Pattern {
        name: "R-R|W",
        correct: &["1r1 1r2 2w3", "2w3 1r1"],
        wrong: &[wrong("1r1 2w3 1r2", 1, [Some(1), Some(2), Some(2), Some(2), Some(1)])],
    },
    Pattern {
        name: "W-R|W",
        correct: &["1w1 1r2 2w3", "2w3 1w1 1r2"],
        wrong: &[wrong("1w1 2w3 1r2", 1, [Some(1), Some(2), Some(2), Some(2), Some(1)])],
    },
    Pattern {
        name: "W-W|R",
        correct: &["1w1 1w2 2r3", "2r3 1w1 1w2"],
        wrong: &[wrong("1w1 2r3 1w2", 1, [Some(1), Some(2), Some(1), Some(2), Some(1)])],
    },
    // Figure 11: a read of the writer's own in between hides it from AVIO.
    Pattern {
        name: "W-W|R",
        correct: &["1w1 1r2 1w3 2r4", "2r4 1w1 1r2 1w3"],
        wrong: &[
            wrong("1w1 2r4 1r2 1w3", 1, [Some(1), None, Some(1), Some(2), Some(1)]),
            wrong("1w1 1r2 2r4 1w3", 2, [Some(2), None, Some(2), Some(3), Some(3)]),
        ],
    },
    // Figure 2a.
    Pattern {
        name: "R-W|R-W",
        correct: &["1r1 1w2 2r3 2w4", "2r3 2w4 1r1 1w2"],
        wrong: &[
            wrong("1r1 2r3 1w2 2w4", 1, [Some(1), Some(3), None, Some(2), Some(2)]),
            wrong("1r1 2r3 2w4 1w2", 1, [Some(1), Some(3), None, Some(3), Some(3)]),
        ],
    },
    // The same where a lone read may come in between: AI tells it from the other read, CCI does not.
    Pattern {
        name: "R-W|R-W",
        correct: &["1r1 1w2 2r3 2w4", "2r3 2w4 1r1 1w2", "1r1 3r5 1w2 2r3 2w4", "2r3 3r5 2w4 1r1 1w2"],
        wrong: &[wrong("1r1 2r3 1w2 2w4", 1, [Some(1), Some(3), None, Some(3), Some(2)])],
    },
    // Figure 13, b and c: both threads run the same code.
    Pattern {
        name: "R-R-W|R-R-W",
        correct: &["1r1 1r2 1w3 2r1 2r2 2w3", "2r1 2r2 2w3 1r1 1r2 1w3"],
        wrong: &[
            wrong("1r1 2r1 2r2 2w3 1r2 1w3", 1, [Some(1), Some(4), Some(4), Some(4), Some(4)]),
            wrong("1r1 1r2 2r1 2r2 1w3 2w3", 2, [Some(2), Some(5), None, Some(4), Some(4)]),
        ],
    },
    // Figure 2b.
    Pattern {
        name: "W-R",
        correct: &["1w1 2r2"],
        wrong: &[wrong("2r2 1w1", 0, [Some(0), None, None, Some(0), Some(1)])],
    },
    // Figure 14, where another write leads: seen from the writer it is a W-W|R, and the paper's "CCI will ignore" holds for the
    // read only.
    Pattern {
        name: "W-R",
        correct: &["1w1 1w2 2r3"],
        wrong: &[wrong("1w1 2r3 1w2", 1, [Some(1), Some(2), Some(1), Some(2), Some(1)])],
    },
    // Figure 8: the reader's own accesses come before it, and the program dies at the read.
    Pattern {
        name: "W-R",
        correct: &["2r1 1w2 2r3 2r4", "1w2 2r1 2r3 2r4", "2r1 2r3 1w2 2r4"],
        wrong: &[wrong("2r1 2r3 2r4", 2, [Some(2), None, None, None, None])],
    },
    Pattern {
        name: "R-W",
        correct: &["2r1 1w2"],
        wrong: &[wrong("1w2 2r1", 0, [Some(0), None, Some(1), Some(0), Some(1)])],
    },
    Pattern {
        name: "R-W",
        correct: &["1w0 2r1 1w2"],
        wrong: &[wrong("1w0 1w2 2r1", 1, [Some(1), None, Some(2), Some(1), Some(2)])],
    },
    // Figure 6b.
    Pattern {
        name: "W-W",
        correct: &["1w1 2w2"],
        wrong: &[wrong("2w2 1w1", 0, [Some(0), None, None, Some(0), Some(1)])],
    },
    // Figure 12, where another write leads: the state of a thread, set by its maker after the thread itself set it.
    Pattern {
        name: "W-W",
        correct: &["1w0 1w1 2w2"],
        wrong: &[wrong("1w0 2w2 1w1", 1, [Some(1), None, None, Some(2), Some(1)])],
    },
    // Not in the table: the eighth pattern of Park et al., of section 5.2.5.
    Pattern {
        name: "W-W|W",
        correct: &["1w1 1w2 2w3", "2w3 1w1 1w2"],
        wrong: &[wrong("1w1 2w3 1w2", 1, [Some(1), None, None, Some(2), Some(1)])],
    },
];

/// What the invariants say of each wrong run.
fn check(pattern: &Pattern) -> Vec<Vec<Option<Violation>>> {
    let mut invariants = all();
    for invariant in &mut invariants {
        for text in pattern.correct {
            invariant.learn(&run(text));
        }
        for text in pattern.correct {
            let found = invariant.first_violation(&run(text));
            assert_eq!(found, None, "{}: {} of a run that was learnt: {text}", pattern.name, invariant.name());
        }
    }
    let found =
        |wrong: &Wrong| invariants.iter().map(|invariant| invariant.first_violation(&run(wrong.steps))).collect();
    pattern.wrong.iter().map(found).collect()
}

#[test]
fn every_pattern_is_noticed_where_it_should_be() {
    for pattern in PATTERNS {
        for (wrong, found) in pattern.wrong.iter().zip(check(pattern)) {
            let at: Vec<_> = found.iter().map(|found| found.map(|found| found.access)).collect();
            assert_eq!(at, wrong.found, "{}: {}", pattern.name, wrong.steps);
            for violation in found.into_iter().flatten() {
                let access = run(wrong.steps)[violation.access];
                let said = (violation.site, violation.thread, violation.operation);
                assert_eq!(said, (access.site, access.thread, access.operation));
            }
        }
    }
}

/// A cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// In all wrong runs.
    All,
    /// In some.
    Some,
    None,
    /// Not legible in the text that we have.
    Unread,
}

fn mark(hits: usize, of: usize) -> Mark {
    match hits {
        0 => Mark::None,
        hits if hits == of => Mark::All,
        _ => Mark::Some,
    }
}

/// By pattern: detected and tolerated, by AI, AVIO, DUI, CCI and PSet, as the paper's Table 2 has it.
const PAPER: &[(&str, [(Mark, Mark); 5])] = {
    use Mark::{All, None, Some, Unread};
    &[
        ("R-R|W", [(All, All), (All, None), (All, None), (All, None), (All, None)]),
        ("W-R|W", [(All, All), (All, None), (All, None), (All, None), (All, All)]),
        ("W-W|R", [(All, All), (Some, None), (All, All), (All, None), (All, All)]),
        ("R-W|R-W", [(All, All), (Some, None), (None, None), (Some, None), (All, None)]),
        ("R-R-W|R-R-W", [(All, All), (Some, None), (Some, None), (Unread, None), (All, None)]),
        ("W-R", [(All, All), (None, None), (Some, Some), (Some, Some), (Some, Some)]),
        ("R-W", [(All, All), (None, None), (All, Unread), (All, Unread), (All, Unread)]),
        ("W-W", [(All, All), (None, None), (None, None), (All, All), (All, All)]),
    ]
};

/// Where the measured table is another than the paper's: pattern, invariant, measured, and why.
const DIFFERENCES: &[(&str, &str, (Mark, Mark), &str)] = &[
    (
        "R-R|W",
        "PSet",
        (Mark::All, Mark::All),
        "the write depends on the first read, which is not in its set: noticed before the write",
    ),
    (
        "W-W|R",
        "PSet",
        (Mark::All, Mark::Some),
        "in Figure 11 the remote read may come right after a read: no dependence, noticed at the last write",
    ),
    ("R-W|R-W", "AVIO", (Mark::All, Mark::None), "the second write comes after R-W of two threads, in every wrong run"),
    (
        "R-W|R-W",
        "CCI",
        (Mark::All, Mark::None),
        "with lone reads allowed, Prev says nothing, but Havoc does at the second write",
    ),
    ("R-R-W|R-R-W", "AVIO", (Mark::All, Mark::None), "in Figure 13c the second write comes after R-W of two threads"),
    ("W-R", "AVIO", (Mark::Some, Mark::None), "Figure 14 has a remote read between two writes: noticed at the second"),
    (
        "W-W",
        "CCI",
        (Mark::All, Mark::Some),
        "with a leading write of another thread the early write is remote in both runs",
    ),
    ("W-W", "PSet", (Mark::All, Mark::Some), "without a leading write the early write depends on nothing"),
];

#[test]
fn the_table_is_the_papers_but_for_known_differences() {
    let names: Vec<_> = all().iter().map(|invariant| invariant.name()).collect();
    let mut differences = Vec::new();
    for (name, paper) in PAPER {
        let mut counts = [(0, 0); 5];
        let mut runs = 0;
        for pattern in PATTERNS.iter().filter(|pattern| pattern.name == *name) {
            for (wrong, found) in pattern.wrong.iter().zip(check(pattern)) {
                runs += 1;
                for (count, found) in counts.iter_mut().zip(found) {
                    count.0 += usize::from(found.is_some());
                    count.1 += usize::from(found.is_some_and(|found| found.before && found.access <= wrong.turn));
                }
            }
        }
        for ((invariant, count), paper) in names.iter().zip(counts).zip(paper) {
            let measured = (mark(count.0, runs), mark(count.1, runs));
            let same = |paper: Mark, measured: Mark| paper == Mark::Unread || paper == measured;
            if !(same(paper.0, measured.0) && same(paper.1, measured.1)) {
                differences.push((*name, *invariant, measured));
            }
        }
    }
    let known: Vec<_> =
        DIFFERENCES.iter().map(|(name, invariant, measured, _)| (*name, *invariant, *measured)).collect();
    assert_eq!(differences, known);
}
