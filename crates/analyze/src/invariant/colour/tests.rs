//! Accesses after the kernels of several variables in the corpus.

use super::*;
use crate::invariant::accesses::{Access, LockEvent, ThreadEvent};

/// Steps such as `1w3@0+8`: thread 1 writes at site 3, in block 0 at offset 8. `g` is the image instead of a block, `s` a stack. Several
/// offsets, `0+8,12`, are one access to all. A location has four bytes, one whose offset ends in `l` eight. `1+7` and `1-7` take and give lock 7,
/// `0m1` makes thread 1 and `0j1` waits for its end.
fn run(text: &str) -> Run {
    let mut run = Run::default();
    let mut numbers: BTreeMap<(Home, u64), u64> = BTreeMap::new();
    for (step, index) in text.split_whitespace().zip(0..) {
        let at = step.find(['r', 'w', 'u', '+', '-', 'm', 'j']).expect("a kind");
        let thread: u32 = step[..at].parse().expect("a thread");
        let (kind, rest) = step[at..].split_at(1);
        if matches!(kind, "m" | "j") {
            let other = rest.parse().expect("a thread");
            run.threads.push(ThreadEvent { thread, index, other, made: kind == "m" });
            continue;
        }
        let Some((site, place)) = rest.split_once('@') else {
            let lock = rest.parse().expect("a lock");
            run.locks.push(LockEvent { thread, operation: 0, index, lock, site: None, acquires: kind == "+" });
            continue;
        };
        let (home, offsets) = place.split_once('+').expect("an offset");
        let home = match home {
            "g" => Home::Image(0),
            "s" => Home::Elsewhere,
            block => Home::Block(block.parse().expect("a block")),
        };
        for offset in offsets.split(',') {
            let size = if offset.ends_with('l') { 8 } else { 4 };
            let offset: u64 = offset.trim_end_matches('l').parse().expect("an offset");
            let location = *numbers.entry((home, offset)).or_insert_with(|| {
                run.locations.push(Location { home, offset, size });
                run.locations.len() as u64 - 1
            });
            run.accesses.push(Access {
                thread,
                location,
                site: site.parse().expect("a site"),
                write: kind != "r",
                read: kind != "w",
                index,
                operation: 0,
            });
        }
    }
    run
}

/// Shifts by site of all colours of these runs, each made so many times.
fn found(texts: &[&str], times: usize) -> Vec<Vec<(u32, i32)>> {
    let runs: Vec<Run> = texts.iter().cycle().take(texts.len() * times).map(|text| run(text)).collect();
    let colours = colours(&runs, &Options::default());
    colours.iter().map(|colour| colour.sites.iter().map(|(site, shift)| (*site, *shift)).collect()).collect()
}

/// Reflow stores offset and length of a text frame, painting loads both; a third variable is reflow's own.
const TEXT_FRAME: [&str; 2] =
    ["1w1@g+64 1u5@g+80 1w2@g+68 2r3@g+64 2r4@g+68", "2r3@g+64 2r4@g+68 1w1@g+64 1u5@g+80 1w2@g+68"];

#[test]
fn mozilla_text_frame() {
    let colour = vec![(1, 0), (2, -4), (3, 0), (4, -4)];
    assert_eq!(found(&TEXT_FRAME, 2), [colour]);
    assert_eq!(found(&TEXT_FRAME[..1], 1), Vec::<Vec<_>>::new(), "one run is too little to tell");
}

#[test]
fn mozilla_js_string() {
    // Two atomic counters that lie apart, the higher one first; main reads neither.
    let texts = ["1u1@g+16 1u2@g+8 2r3@g+16 2r4@g+8"];
    assert_eq!(found(&texts, 4), [[(1, -8), (2, 0), (3, -8), (4, 0)]]);
}

#[test]
fn mysql_binlog_order() {
    // The table has a lock, its log another: near by the order of accesses, not by critical sections.
    let texts = [
        "1+1 1w1@g+0 1-1 1+2 1w2@g+64 1-2 2+1 2u3@g+0 2+2 2w4@g+64 2-2 2-1 0r5@g+64 0r6@g+0",
        "2+1 2u3@g+0 2+2 2w4@g+64 2-2 2-1 1+1 1w1@g+0 1-1 1+2 1w2@g+64 1-2 0r5@g+64 0r6@g+0",
    ];
    assert_eq!(found(&texts, 2), [[(1, 0), (2, -64), (3, 0), (4, -64), (5, -64), (6, 0)]]);
}

#[test]
fn fields_of_many_objects() {
    // An array of structs in one block, and another block: the distance is the same, the objects are not.
    let texts = ["1w1@0+0 1w2@0+8 2r3@0+0 2r4@0+8 1w1@0+16 1w2@0+24 2r3@0+16 2r4@0+24 1w1@1+0 1w2@1+8 2r3@1+0 2r4@1+8"];
    assert_eq!(found(&texts, 2), [[(1, 0), (2, -8), (3, 0), (4, -8)]]);
}

#[test]
fn three_variables_have_one_representative() {
    let texts = ["1w1@0+8 1w2@0+0 1w3@0+4 2r4@0+8 2r5@0+0 2r6@0+4"];
    assert_eq!(found(&texts, 4), [[(1, -8), (2, 0), (3, -4), (4, -8), (5, 0), (6, -4)]]);
    let colour = &colours(&vec![run(texts[0]); 4], &Options::default())[0];
    assert_eq!(colour.variables.iter().map(|variable| variable.offset).collect::<Vec<_>>(), [0, 4, 8]);
}

#[test]
fn the_representative_is_the_largest() {
    let texts = ["1w1@0+0 1w2@0+8l 1w3@0+16l 2r4@0+0 2r5@0+8l 2r6@0+16l"];
    assert_eq!(found(&texts, 4), [[(1, 8), (2, 0), (3, -8), (4, 8), (5, 0), (6, -8)]]);
}

#[test]
fn a_critical_section_is_near_however_long() {
    let others: String = (10..20).map(|site| format!("1u{site}@g+{0} 2u{site}@g+{0} ", 1000 * site)).collect();
    let section = |thread: u32, first: u32, lock: bool| {
        let mine: String = (10..20).map(|site| format!("{thread}u{site}@g+{} ", 1000 * site)).collect();
        let (take, give) = if lock { (format!("{thread}+7 "), format!("{thread}-7 ")) } else { Default::default() };
        format!("{take}{thread}w{first}@g+0 {mine}{thread}w{}@g+4 {give}", first + 1)
    };
    let text = |lock: bool| format!("{others}{}{}", section(1, 1, lock), section(2, 3, lock));
    let has = |text: &str| {
        // The others are in the way of a colour of two: only pairs count here.
        let runs = vec![run(text); 4];
        let steps = Steps::of_all(&runs);
        let (mut classes, mut counts) = (Classes::default(), Counts::default());
        for (run, steps) in runs.iter().zip(&steps) {
            classes.learn(run, steps);
        }
        for (run, steps) in runs.iter().zip(&steps) {
            counts.learn(run, steps, &mut classes, &Options::default());
        }
        counts.correlated(&Options::default()).get(&(1, 2)).copied()
    };
    assert_eq!(has(&text(true)), Some(4));
    assert_eq!(has(&text(false)), None);
}

/// Whether the endpoint is valid is tested, and its buffer used if it is; closing clears both. Main sets one of them up and looks at it.
#[test]
fn who_tests_does_not_always_use() {
    let used = "0w9@g+72l 0m1 0m2 1r1@g+64 1r2@g+72l 2w3@g+64 2w4@g+72l 0j1 0j2 0r8@g+72l";
    let late = "0w9@g+72l 0m1 0m2 2w3@g+64 2w4@g+72l 1r1@g+64 0j1 0j2 0r8@g+72l";
    let colour = vec![(1, 8), (2, 0), (3, 8), (4, 0), (8, 0), (9, 0)];
    assert_eq!(found(&[used, late], 4), vec![colour]);
    // Where the use hardly ever comes, they do not belong together.
    assert_eq!(found(&[used, late, late, late, late], 4), Vec::<Vec<(u32, i32)>>::new());
}

/// A new context looks at the runtime's state, counts itself under the lock and uses the atoms; who destroys the last one changes all three.
/// No passing run shares the third one.
#[test]
fn what_is_shared_shows_in_all_runs_together() {
    let new = "1r1@g+64 1+7 1r2@g+68 1w3@g+68 1-7";
    let up = format!("0m1 0m2 {new} 1r4@g+72l 2+7 2r5@g+68 2w6@g+68 2-7");
    let down = format!("0m1 0m2 2+7 2r5@g+68 2w6@g+68 2w7@g+64 2w8@g+72l 2-7 {new}");
    let found = found(&[&up, &down], 4);
    assert_eq!(found, [[(1, 8), (2, 4), (3, 4), (4, 0), (5, 4), (6, 4), (7, 8), (8, 0)]]);
}

#[test]
fn not_what_is_often_alone() {
    // A quarter of the reads of one is alone, farther off than a window.
    let far: String = (0..10).map(|_| "2r9@5+0 ").collect();
    let together = "1w1@0+0 1w2@0+4 2r3@0+0 2r4@0+4 ";
    let alone = format!("1w9@5+0 {together}{far}2r3@0+0 {far}");
    assert_eq!(found(&[&alone], 4), Vec::<Vec<_>>::new());
    let seldom = format!("{}1w9@5+0 {far}2r3@0+0 {far}", together.repeat(4));
    assert_eq!(found(&[&seldom], 4), [[(1, 0), (2, -4), (3, 0), (4, -4)]]);
}

#[test]
fn not_what_is_shared_with_nobody_or_by_others() {
    assert_eq!(found(&["1w1@0+0 1w2@0+4 1r3@0+0 1r4@0+4"], 4), Vec::<Vec<_>>::new(), "one thread");
    assert_eq!(found(&["1r1@0+0 1w2@0+4 2r3@0+0 2r4@0+4"], 4), Vec::<Vec<_>>::new(), "one is never written");
    assert_eq!(found(&["1w1@s+0 1w2@s+4 2r3@s+0 2r4@s+4"], 4), Vec::<Vec<_>>::new(), "on a stack");
    assert_eq!(found(&["1w1@0+0 1w2@1+4 2r3@0+0 2r4@1+4"], 4), Vec::<Vec<_>>::new(), "in two blocks");
    // Each is shared, but with another thread: only thread 1 has both.
    assert_eq!(found(&["1w1@0+0 1w2@0+4 2r3@0+0 3r4@0+4"], 4), Vec::<Vec<_>>::new());
}

#[test]
fn not_where_a_site_touches_both() {
    // One function adds to whichever counter it is given.
    assert_eq!(found(&["1u1@0+0 1u1@0+4 2r3@0+0 2r4@0+4"], 4), Vec::<Vec<_>>::new());
    // Distances that differ from object to object: none of them is of most accesses.
    let varies = ["1w1@0+0 1w2@0+4 2r3@0+0 2r4@0+4", "1w1@0+0 1w2@0+8 2r3@0+0 2r4@0+8"];
    assert_eq!(found(&varies, 4), Vec::<Vec<_>>::new());
}

#[test]
fn copies_and_fills() {
    // The whole object is cleared before it is used: its site gets no shift.
    let cleared = "0w9@0+0,4 1w1@0+0 1w2@0+4 2r3@0+0 2r4@0+4";
    assert_eq!(found(&[cleared], 4), [[(1, 0), (2, -4), (3, 0), (4, -4)]]);
    // Only the second half is: it would miss the representative.
    let free = "1w1@0+0 1w2@0+4 2r3@0+0 2r4@0+4 1w5@0+8 2w6@0+8";
    assert!(found(&[free], 4).iter().flatten().any(|(site, _)| [1, 2, 3, 4].contains(site)));
    let half = "0w9@0+4,8 1w1@0+0 1w2@0+4 2r3@0+0 2r4@0+4 1w5@0+8 2w6@0+8";
    assert!(!found(&[half], 4).iter().flatten().any(|(site, _)| [1, 2, 3, 4].contains(site)));
}

#[test]
fn not_too_many() {
    let text = |count: u32| {
        let of = |thread: u32| {
            let step = |field: u32| format!("{thread}w{}@0+{} ", 100 * thread + field, 4 * field);
            (0..count).map(step).collect::<String>()
        };
        of(1) + &of(2)
    };
    assert_eq!(found(&[&text(8)], 4).len(), 1);
    assert_eq!(found(&[&text(9)], 4).len(), 0);
    let sites = |count: u32| {
        (0..count)
            .map(|site| format!("1w{}@0+0 2w{}@0+4 1w{0}@0+0 2w{1}@0+4 ", 2 * site, 2 * site + 1))
            .collect::<String>()
    };
    let shared = |count: u32| format!("1w900@0+0 1w901@0+4 2w902@0+0 2w903@0+4 {}", sites(count).replace("2w", "1w"));
    assert_eq!(found(&[&shared(30)], 4).first().map(Vec::len), Some(64));
    assert_eq!(found(&[&shared(31)], 4), Vec::<Vec<_>>::new());
}

fn key(site: u32) -> SiteKey {
    SiteKey(format!("a.c:f+0:{site}:w4"))
}

#[test]
fn names_for_sites() {
    let colour = Found { sites: BTreeMap::from([(1, 0), (2, -4)]), variables: Vec::new() };
    let named = colour.named("x, y", |site| Some(key(site))).expect("named");
    assert_eq!(named.sites, BTreeMap::from([(key(1), 0), (key(2), -4)]));
    assert_eq!(colour.named("x, y", |site| (site == 1).then(|| key(1))), None);
    assert_eq!(colour.named("x, y", |_| Some(key(1))), None, "one name for two shifts");
}

#[test]
fn merging_moves_to_one_representative() {
    let colour = |name: &str, sites: &[(u32, i32)]| Colour {
        name: name.to_owned(),
        sites: sites.iter().map(|(site, shift)| (key(*site), *shift)).collect(),
    };
    let before = vec![colour("a", &[(1, 0), (2, -4)]), colour("z", &[(9, 0)]), colour("b", &[(3, 0), (4, -8)])];
    let mut colours = before.clone();
    // b's representative lies 16 bytes behind a's.
    assert!(merge(&mut colours, 0, 2, 16));
    assert_eq!(colours, [colour("a, b", &[(1, 0), (2, -4), (3, -16), (4, -24)]), colour("z", &[(9, 0)])]);
    for (a, b, apart) in [(0, 0, 4), (0, 3, 4), (3, 0, 4), (0, 2, i32::MAX)] {
        let mut colours = before.clone();
        assert!(!merge(&mut colours, a, b, apart), "{a} {b} {apart}");
        assert_eq!(colours, before);
    }
    let mut overlapping = vec![colour("a", &[(1, 0), (2, -4)]), colour("b", &[(2, 0)])];
    assert!(!merge(&mut overlapping, 0, 1, 8), "site 2 cannot have two shifts");
    assert!(merge(&mut overlapping, 0, 1, 4));
}
