//! Two compilations of a file become one object, or are kept apart.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object as _, ObjectSegment as _};
use proptest::prelude::*;
use selvedge_image::{Apart, Functions, Image, Part, find_sites, join};

use crate::support::{Bench, INSTRUMENT, c_compilers};

const BOTH: &[&str] = &["-O2", "-ffunction-sections", "-fdata-sections", "-fno-ipa-ra", "-w"];

fn object(bench: &Bench, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (from, to) = (bench.path(&format!("{name}.c")), bench.path(&format!("{name}.o")));
    std::fs::write(&from, source).unwrap();
    bench.run(Command::new("gcc").args(BOTH).args(flags).arg("-c").arg(from).arg("-o").arg(&to));
    to
}

fn plain(bench: &Bench, source: &str) -> PathBuf {
    object(bench, "plain", source, &["-g", "-fpatchable-function-entry=5"])
}

fn hooked(bench: &Bench, source: &str) -> PathBuf {
    object(bench, "hooked", source, INSTRUMENT)
}

fn joined(plain: &Path, hooked: &Path) -> Result<Vec<u8>, Apart> {
    join(&std::fs::read(plain).unwrap(), &std::fs::read(hooked).unwrap())
}

const PROGRAM: &str = "
    #include <stdio.h>
    static int counter;
    static int inner(int by) { counter += by; return by > 3 ? inner(by - 1) + counter : counter; }
    int (*volatile pointer)(int);
    static int pointed(int by) { return inner(by) + 1; }
    int seen(int by) { return inner(by) * 2; }
    int main(void) { pointer = pointed; printf(\"%d %d\\n\", pointer(4), seen(2)); return 0; }
";

#[test]
fn a_joined_program_has_each_function_twice_and_each_site_once() {
    if !c_compilers().contains(&"gcc") {
        return;
    }
    let bench = Bench::new();
    let (plain, hooked) = (plain(&bench, PROGRAM), hooked(&bench, PROGRAM));
    let both = bench.path("both.o");
    std::fs::write(&both, joined(&plain, &hooked).unwrap()).unwrap();
    let standin = bench.path("standin.o");
    let alone = bench.link("gcc", &[&hooked, &standin], "alone", &[]);
    let program = bench.link("gcc", &[&both, &standin], "both", &[]);
    assert_eq!(bench.run(&mut Command::new(&program)), bench.run(&mut Command::new(&alone)));

    let (image, single) = (Image::open(&program).unwrap(), Image::open(&alone).unwrap());
    let (sites, single) = (find_sites(&image), find_sites(&single));
    let kinds = |sites: &selvedge_image::Sites| {
        let mut hooks: Vec<u8> = sites.entries.iter().map(|entry| entry.hook.0).collect();
        hooks.sort_unstable();
        hooks
    };
    assert_eq!(kinds(&sites), kinds(&single), "plain bodies have no sites");
    assert!(single.reach.bodies.is_empty() && single.reach.ranges.is_empty());
    // pointed, seen, main; inner is reached through all of them or was inlined.
    assert_eq!(sites.reach.bodies.len(), 3);
    let functions = Functions::new(&image);
    for name in ["pointed", "seen", "main"] {
        let group = functions.groups().iter().find(|group| group.symbol.as_deref() == Some(name)).unwrap();
        let parts: Vec<Part> = group.parts.iter().map(|part| functions.all()[*part as usize].part).collect();
        assert!(parts.contains(&Part::Plain) && parts.contains(&Part::Hot), "{name}: {parts:?}");
    }
    let covered: u32 = sites.reach.ranges.iter().map(|range| range.1).sum();
    assert_eq!(covered as usize, sites.entries.len(), "every site is reached through some body");
    for (first, _, bodies) in &sites.reach.ranges {
        let at = functions.at(u64::from(sites.entries[*first as usize].offset)).unwrap();
        let starts_runtime = at.symbol.as_deref().is_some_and(|name| name.starts_with("_sub_I_"));
        assert_eq!(bodies.is_empty(), starts_runtime, "{:?}", at.symbol);
    }
}

/// A function that one compilation inlines and the other calls: whoever wants its sites must switch the caller, too.
#[test]
fn who_inlined_a_function_leads_to_it() {
    if !c_compilers().contains(&"gcc") {
        return;
    }
    let bench = Bench::new();
    let common = "int x; __attribute__((noinline)) int g(void) { return x--; } int main(void) { return f() - g(); }";
    let with = |f: &str| format!("int f(void); int g(void); {common} {f}");
    let (plain, hooked) = (
        plain(&bench, &with("__attribute__((noinline)) int f(void) { return x--; }")),
        hooked(&bench, &with("__attribute__((noinline)) int f(void) { return g(); }")),
    );
    let both = bench.path("both.o");
    std::fs::write(&both, joined(&plain, &hooked).unwrap()).unwrap();
    let standin = bench.path("standin.o");
    for linker in ["-fuse-ld=bfd", "-fuse-ld=gold", "-Wl,--compress-debug-sections=zlib"] {
        let program = bench.link("gcc", &[&both, &standin], "both", &[linker]);
        let image = Image::open(&program).unwrap();
        let (sites, functions) = (find_sites(&image), Functions::new(&image));
        assert!(!sites.bodies_lost);
        let named = |offset: u32| functions.at(u64::from(offset)).and_then(|function| function.symbol.as_deref());
        let of_g =
            sites.reach.ranges.iter().find(|(first, ..)| named(sites.entries[*first as usize].offset) == Some("g"));
        let mut leads: Vec<&str> =
            of_g.unwrap().2.iter().filter_map(|body| named(sites.reach.bodies[*body as usize].hooked)).collect();
        leads.sort_unstable();
        assert_eq!(leads, ["f", "g"], "{linker}");
    }
    // Nothing says any more which is whose.
    bench.run(Command::new("strip").arg("-g").arg(&both));
    let image = Image::open(&bench.link("gcc", &[&both, &standin], "stripped", &[])).unwrap();
    assert!(find_sites(&image).bodies_lost);
    let alone = Image::open(&bench.link("gcc", &[&hooked, &standin], "alone", &[])).unwrap();
    assert!(!find_sites(&alone).bodies_lost, "one body each is nothing lost");
}

/// Where a loaded offset is in the file of a position-independent program.
fn in_file(bytes: &[u8], offset: u64) -> usize {
    let file = object::File::parse(bytes).unwrap();
    let mut segments = file.segments().map(|segment| (segment.address(), segment.file_range()));
    let place = segments.find_map(|(at, (from, len))| (at..at + len).contains(&offset).then(|| from + (offset - at)));
    usize::try_from(place.unwrap()).unwrap()
}

/// References that linkers or assemblers treat in a way of their own: thread-local variables that only the file sees, literals, and
/// functions in one section.
#[test]
fn both_bodies_mean_the_same_variables_and_addresses() {
    if !c_compilers().contains(&"gcc") {
        return;
    }
    let bench = Bench::new();
    let source = "
        #include <stdio.h>
        static __thread int mine = 3;
        __attribute__((section(\"own\"), noinline)) void *one(void) { return (void *)one; }
        __attribute__((section(\"own\"), noinline)) void *other(void) { return (void *)one; }
        __attribute__((noinline)) const char *text(void) { return \"a literal\"; }
        int main(void) { mine++; printf(\"%d %d %s\\n\", mine, one() == other(), text()); return 0; }
    ";
    let both = bench.path("both.o");
    std::fs::write(&both, joined(&plain(&bench, source), &hooked(&bench, source)).unwrap()).unwrap();
    let standin = bench.path("standin.o");
    let linkers = [("-fuse-ld=bfd", "ld.bfd"), ("-fuse-ld=gold", "ld.gold"), ("-fuse-ld=lld", "ld.lld")];
    for (linker, tool) in linkers {
        if Command::new(tool).arg("--version").output().is_err() {
            continue;
        }
        let program = bench.link("gcc", &[&both, &standin], "both", &[linker]);
        let bytes = std::fs::read(&program).unwrap();
        // Every other function runs in its hooked body.
        let image = Image::open(&program).unwrap();
        let bodies = find_sites(&image).reach.bodies;
        for switched in 0..1 << bodies.len().min(5) {
            let mut mixed = bytes.clone();
            for body in (0..).zip(&bodies).filter(|(at, _)| switched >> at & 1 != 0).map(|(_, body)| body) {
                let at = in_file(&bytes, u64::from(body.room));
                mixed[at] = 0xe9;
                mixed[at + 1..at + 5].copy_from_slice(&body.hooked.wrapping_sub(body.room + 5).to_le_bytes());
            }
            std::fs::write(&program, &mixed).unwrap();
            let said = bench.run(&mut Command::new(&program));
            assert_eq!(said.trim(), "4 1 a literal", "{linker}, switched {switched:b}");
        }
    }
}

#[test]
fn what_cannot_be_shown_to_be_the_same_is_kept_apart() {
    if !c_compilers().contains(&"gcc") {
        return;
    }
    let bench = Bench::new();
    let rows = [
        ("int x = 1; int f(void) { return x++; }", "int x = 2; int f(void) { return x++; }", "data `.data.x`"),
        ("static int x; int f(void) { return x++; }", "static long x; int f(void) { return x++; }", "data `.bss.x`"),
        ("static int x; int f(void) { return x++; }", "static int y; int f(void) { return y++; }", "data `.bss.y`"),
        (
            "static volatile int y; int x; int f(void) { y++; return x++; }",
            "int x; int f(void) { return x++; }",
            "data `.bss.y`",
        ),
        (
            "int x; int f(void) { return x++; } int g(void) { return 1; }",
            "int x; int f(void) { return x++; }",
            "`g` has no",
        ),
        (
            "int x; int f(void) { return x++; }",
            "int x; int f(void) { return x++; } int g(void) { return x--; }",
            "`g` cannot",
        ),
        (
            "int x; __attribute__((noinline)) static int g(void) { return x--; } int f(void) { return g(); }",
            "int x; static int g(void) { return x--; } int (*p)(void); int f(void) { p = g; return g(); }",
            "data `.bss.p`",
        ),
    ];
    for (one, other, why) in rows {
        let said = joined(&plain(&bench, one), &hooked(&bench, other)).expect_err(other).to_string();
        assert!(said.contains(why), "{other}: {said}");
    }
    let foreign = joined(&plain(&bench, "int x;"), Path::new("/dev/null"));
    assert!(matches!(foreign, Err(Apart::Object(_))));
}

#[test]
fn damaged_objects_are_refused_or_joined_but_never_a_panic() {
    if !c_compilers().contains(&"gcc") {
        return;
    }
    let bench = Bench::new();
    let good = [plain(&bench, PROGRAM), hooked(&bench, PROGRAM)].map(|path| std::fs::read(path).unwrap());
    let lens = [good[0].len(), good[1].len()];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 400, ..ProptestConfig::default() });
    let damage = (0..2_usize, any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    let run = runner.run(&damage, |(which, at, byte, cut)| {
        let mut bad = good.clone();
        let at = at.index(lens[which]);
        if cut {
            bad[which].truncate(at);
        } else {
            bad[which][at] = byte;
        }
        let _ = join(&bad[0], &bad[1]);
        Ok(())
    });
    run.unwrap();
}
