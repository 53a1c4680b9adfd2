use proptest::prelude::*;

use super::*;

/// Functions from text: one block a line, `[name:] r x1 w x2 u y3 call f ?x -> 1 2 ret out`, where the number behind a
/// variable is the site, `?x` a test of it, and `out` a way out that is no return. A line `fn` begins a function.
fn program(text: &str) -> Program {
    let mut out = Program::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line == "fn" {
            out.functions.push(Function::default());
            continue;
        }
        let function = out.functions.last_mut().unwrap();
        let mut block = Block { start: function.blocks.len() as u64, ..Block::default() };
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "r" | "w" | "u" => {
                    let (name, site) = words.next().unwrap().split_at(1);
                    let mode = match word {
                        "r" => Mode::Read,
                        "w" => Mode::Write,
                        _ => Mode::Update,
                    };
                    block.accesses.push(Access { site: site.parse().unwrap(), place: variable(name), mode });
                }
                "call" => {
                    let arguments = vec![Some(variable("x")), None];
                    block.call = Some(Call { function: words.next().unwrap().parse().unwrap(), arguments });
                }
                "->" => {}
                "ret" => block.returns = true,
                "out" => block.leaves = true,
                test if test.starts_with('?') => block.tests.push(variable(&test[1..])),
                next => block.successors.push(next.parse().unwrap()),
            }
        }
        function.blocks.push(block);
    }
    out
}

/// `x` and `y` are globals, `a` is what the first argument points to, `p` is private.
fn variable(name: &str) -> Place {
    match name {
        "x" => Place { root: Root::Global, path: vec![0x10] },
        "y" => Place { root: Root::Global, path: vec![0x20] },
        "a" => Place { root: Root::Argument(1), path: vec![0] },
        "p" => Place { root: Root::Private, path: vec![-8] },
        _ => panic!("no variable {name}"),
    }
}

/// `kind entry: end+what is allowed …; exit, or !exit where it leaves …`
fn told(program: &Program, kind: Kind) -> Vec<String> {
    let all = find(program).all;
    let end = |end: &End| {
        let (reads, writes) = (if end.allowed.reads { "r" } else { "" }, if end.allowed.writes { "w" } else { "" });
        format!(" {}+{reads}{writes}", end.site)
    };
    let exit = |exit: &Exit| format!(" {}{}", if exit.leaves { "!" } else { "" }, exit.block);
    all.iter()
        .filter(|section| section.kind == kind)
        .map(|section| {
            let ends: String = section.ends.iter().map(end).collect();
            let exits: String = section.exits.iter().map(exit).collect();
            format!("{}:{ends};{exits}", section.entry)
        })
        .collect()
}

#[test]
fn patterns() {
    use Kind::{Consecutive, LoadAndStore, TestAndUse};
    let rows: [(&str, &str, Kind, &[&str]); 14] = [
        ("an increment", "fn\n r x1 w x2 ret", LoadAndStore, &["1: 2+r;"]),
        ("one or more loads", "fn\n r x1 r x2 w x3 ret", LoadAndStore, &["1: 3+r;"]),
        ("a load after the store begins anew", "fn\n r x1 w x2 r x3 w x4 ret", LoadAndStore, &["1: 2+r;", "3: 4+r;"]),
        ("the store on one path", "fn\n r x1 1 2\n w x2 ret\n ret", LoadAndStore, &["1: 2+r; 2"]),
        ("an exception between", "fn\n r x1 1 2\n w x2 ret\n out", LoadAndStore, &["1: 2+r; 2"]),
        ("a throw from the block itself", "fn\n r x1 1 out\n w x2 ret", LoadAndStore, &["1: 2+r; !0"]),
        ("other variables are nothing", "fn\n r x1 w y2 ret", LoadAndStore, &[]),
        ("private ones neither", "fn\n r p1 w p2 ret", LoadAndStore, &[]),
        ("check, then use", "fn\n r x1 ?x 1 2\n r x2 r x3 ret\n ret", TestAndUse, &["1: 3+r; 2"]),
        ("a test of something else", "fn\n r x1 ?y 1 2\n r x2 ret\n ret", TestAndUse, &[]),
        ("a test and a store", "fn\n r x1 ?x 1 2\n w x2 ret\n ret", TestAndUse, &[]),
        (
            "all four pairs",
            "fn\n r x1 r x2 w x3 w x4 r x5 ret",
            Consecutive,
            &["1: 2+r;", "2: 3+r;", "3: 4+w;", "4: 5+r;"],
        ),
        ("both branches", "fn\n w x1 1 2\n r x2 ret\n w x3 ret", Consecutive, &["1: 2+r 3+w;"]),
        ("around a loop", "fn\n 1\n r x1 1 2\n ret", Consecutive, &["1: 1+r; 2"]),
    ];
    for (what, text, kind, expected) in rows {
        assert_eq!(told(&program(text), kind), expected, "{what}");
    }
}

#[test]
fn sections_cross_calls() {
    use Kind::{Consecutive, LoadAndStore};
    let rows: [(&str, &str, Kind, &[&str]); 6] = [
        (
            "to a store behind the callee's load",
            "fn\n r x1 call 1 1\n ret\nfn\n r x2 w x3 ret",
            LoadAndStore,
            &["1: 3+r;", "2: 3+r;"],
        ),
        ("into a callee", "fn\n r x1 call 1 1\n ret\nfn\n w x2 ret", LoadAndStore, &["1: 2+r;"]),
        ("out of a callee", "fn\n call 1 1\n w x1 ret\nfn\n r x2 ret", LoadAndStore, &["2: 1+r;"]),
        (
            "through one that may not touch it",
            "fn\n r x1 call 1 1\n w x2 ret\nfn\n 1 2\n w x3 ret\n ret",
            Consecutive,
            &["1: 2+r 3+r;", "3: 2+w;"],
        ),
        ("by its argument", "fn\n r x1 call 1 1\n ret\nfn\n w a2 ret", LoadAndStore, &["1: 2+r;"]),
        (
            "between two callees",
            "fn\n call 1 1\n call 2 2\n ret\nfn\n r x1 ret\nfn\n w x2 ret",
            LoadAndStore,
            &["1: 2+r;"],
        ),
    ];
    for (what, text, kind, expected) in rows {
        assert_eq!(told(&program(text), kind), expected, "{what}");
    }
}

#[test]
fn the_own_function_names_the_variable() {
    let found = find(&program("fn\n call 1 1\n w x1 ret\nfn\n r a2 w a3 ret"));
    let names: Vec<(u32, &Place)> = found.all.iter().map(|section| (section.entry, &section.variable)).collect();
    let (a, x) = (variable("a"), variable("x"));
    assert_eq!(names, [(2, &a), (2, &a), (3, &x)]);
}

#[test]
fn a_circle_is_told() {
    let found = find(&program("fn\n u x1 0 1\n ret"));
    assert!(found.all.iter().all(Section::is_circular) && found.all.len() == 1);
}

/// A block's accesses as (variable, mode), its call, where it goes next, whether it returns.
type AnyBlock = (Vec<(usize, usize)>, Option<usize>, Vec<usize>, bool);

/// A random program: functions call only later ones, and each may return.
fn any_program() -> impl Strategy<Value = Program> {
    let access = (0..2_usize, 0..3_usize);
    let block = (
        proptest::collection::vec(access, 0..3),
        proptest::option::of(1..3_usize),
        proptest::collection::vec(0..5_usize, 0..3),
        any::<bool>(),
    );
    let function = proptest::collection::vec(block, 5);
    proptest::collection::vec(function, 3).prop_map(|functions| {
        let mut site = 0;
        let build = |(number, blocks): (usize, Vec<AnyBlock>)| {
            let blocks = blocks.into_iter().enumerate().map(|(start, (accesses, call, successors, returns))| Block {
                start: start as u64,
                accesses: accesses
                    .into_iter()
                    .map(|(name, mode)| {
                        site += 1;
                        let mode = [Mode::Read, Mode::Write, Mode::Update][mode];
                        Access { site, place: variable(["x", "y"][name]), mode }
                    })
                    .collect(),
                call: call.filter(|to| *to > number).map(|function| Call { function, arguments: Vec::new() }),
                returns,
                successors,
                ..Block::default()
            });
            let mut function = Function { blocks: blocks.collect(), entry: 0 };
            if !summary::reachable(&function).iter().any(|at| function.blocks[*at].returns) {
                function.blocks[0].returns = true;
            }
            function
        };
        Program { functions: functions.into_iter().enumerate().map(build).collect() }
    })
}

/// A point of a run: frames as (function, block, position), innermost last. Position counts the accesses done.
type Point = Vec<(usize, usize, usize)>;

/// Where a run may go from a point, and the access that it does on the way.
fn steps<'a>(program: &'a Program, point: &Point) -> Vec<(Point, Option<&'a Access>)> {
    let Some(((function, block, position), below)) = point.split_last() else { return Vec::new() };
    let here = &program.functions[*function].blocks[*block];
    let with = |next: Option<(usize, usize, usize)>| -> Point { below.iter().copied().chain(next).collect() };
    if let Some(access) = here.accesses.get(*position) {
        return vec![(with(Some((*function, *block, position + 1))), Some(access))];
    }
    if let Some(call) = here.call.as_ref().filter(|_| *position == here.accesses.len()) {
        let mut next = with(Some((*function, *block, position + 1)));
        next.push((call.function, program.functions[call.function].entry, 0));
        return vec![(next, None)];
    }
    let onward = here.successors.iter().map(|next| (with(Some((*function, *next, 0))), None));
    onward.chain(here.returns.then(|| (with(None), None))).collect()
}

/// Every pair of an access and one that ends the way from it, by going through all points. A way goes on over accesses
/// that end it not; only those to the same variable are asked about.
fn naive(program: &Program, begins: fn(Mode) -> bool, ends: fn(Mode) -> bool) -> BTreeSet<(u32, u32)> {
    let mut reached: BTreeSet<Point> = BTreeSet::new();
    let mut work: Vec<Point> =
        (0..program.functions.len()).map(|at| vec![(at, program.functions[at].entry, 0)]).collect();
    let mut out = BTreeSet::new();
    while let Some(point) = work.pop() {
        if !reached.insert(point.clone()) {
            continue;
        }
        for (next, access) in steps(program, &point) {
            if let Some(entry) = access.filter(|access| begins(access.mode)) {
                let mut seen: BTreeSet<Point> = BTreeSet::new();
                let mut behind = vec![next.clone()];
                while let Some(point) = behind.pop() {
                    if !seen.insert(point.clone()) {
                        continue;
                    }
                    for (next, access) in steps(program, &point) {
                        match access {
                            Some(end) if end.place == entry.place && ends(end.mode) => {
                                out.insert((entry.site, end.site));
                            }
                            _ => behind.push(next),
                        }
                    }
                }
            }
            work.push(next);
        }
    }
    out
}

proptest! {
    #[test]
    fn pairs_are_what_runs_can_do(program in any_program()) {
        let found = find(&program);
        let pairs: BTreeSet<(u32, u32)> = found
            .all
            .iter()
            .filter(|section| section.kind == Kind::Consecutive)
            .flat_map(|section| section.ends.iter().map(|end| (section.entry, end.site)))
            .collect();
        prop_assert_eq!(pairs, naive(&program, |_| true, |_| true));
    }

    /// A load and a store: every section is one; every store that follows a load ends one.
    #[test]
    fn loads_and_stores_are_what_runs_can_do(program in any_program()) {
        let pairs: BTreeSet<(u32, u32)> = find(&program)
            .all
            .iter()
            .filter(|section| section.kind == Kind::LoadAndStore)
            .flat_map(|section| section.ends.iter().map(|end| (section.entry, end.site)))
            .collect();
        let naive = naive(&program, |mode| mode == Mode::Read, Mode::writes);
        prop_assert!(pairs.is_subset(&naive), "{:?}", pairs.difference(&naive));
        let stores = |pairs: &BTreeSet<(u32, u32)>| pairs.iter().map(|pair| pair.1).collect::<BTreeSet<u32>>();
        prop_assert_eq!(stores(&pairs), stores(&naive));
    }

    /// In one function: a run from the entry comes to an end, or through an exit, never first to an exit and then to an
    /// end, and it does not return without either.
    #[test]
    fn every_way_out_is_an_exit(mut program in any_program()) {
        program.functions.truncate(1);
        for block in &mut program.functions[0].blocks {
            block.call = None;
        }
        for section in find(&program).all.iter().filter(|section| section.kind == Kind::Consecutive) {
            let blocks = &program.functions[0].blocks;
            let (start, at) = blocks
                .iter()
                .enumerate()
                .find_map(|(at, block)| Some((at, block.accesses.iter().position(|access| access.site == section.entry)?)))
                .unwrap();
            let is_end = |site: u32| section.ends.iter().any(|end| end.site == site);
            let is_exit = |block: usize, leaves: bool| {
                section.exits.iter().any(|exit| exit.block == block as u64 && exit.leaves == leaves)
            };
            // (block, position, whether an exit was passed)
            let mut seen = BTreeSet::new();
            let mut work = vec![(start, at + 1, false)];
            while let Some((block, position, gone)) = work.pop() {
                if !seen.insert((block, position, gone)) {
                    continue;
                }
                let rest = &blocks[block].accesses[position..];
                match rest.iter().find(|access| access.place == section.variable) {
                    Some(end) => {
                        prop_assert!(is_end(end.site));
                        prop_assert!(!gone, "{section:?} was left before its end");
                    }
                    None => {
                        if blocks[block].returns {
                            prop_assert!(gone || is_exit(block, true), "{section:?} is not left in {block}");
                        }
                        work.extend(blocks[block].successors.iter().map(|next| (*next, 0, gone || is_exit(*next, false))));
                    }
                }
            }
        }
    }
}
