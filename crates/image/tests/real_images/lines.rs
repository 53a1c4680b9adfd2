//! Lines, inline stacks and the list of sites, against marks in the sources.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use selvedge_image::{Frame, Image, SiteInfo, SiteList, Symboliser, find_sites};

use crate::support::{Bench, c_compilers, have, marked};

fn sites_of(path: &Path) -> (Vec<SiteInfo>, Symboliser) {
    let image = Image::open(path).unwrap();
    let symboliser = Symboliser::new(&image);
    let entries = find_sites(&image).entries;
    let sites = SiteList::new(&entries, &symboliser).iter().collect();
    (sites, symboliser)
}

fn at_line<'a>(sites: &'a [SiteInfo], hook: &str, line: u32) -> &'a SiteInfo {
    let here = |site: &&SiteInfo| site.hook.name == hook && site.frames[0].line == Some(line);
    sites.iter().find(here).unwrap_or_else(|| panic!("no {hook} at line {line}"))
}

fn check_bank(compiler: &str, path: &Path) {
    let (sites, symboliser) = sites_of(path);
    let line = |mark| marked("bank.c", mark);
    let write = at_line(&sites, "__tsan_write4", line("inlined"));
    let names: Vec<(&str, bool)> = write.frames.iter().map(|frame| (frame.function.as_str(), frame.inlined)).collect();
    assert_eq!(names, [("deposit", true), ("pay", false)]);
    assert_eq!(write.frames[1].line, Some(line("call")));
    assert_eq!(write.function.as_deref(), Some("pay"));
    assert!(write.frames[0].file.as_deref().unwrap().ends_with("/tests/programs/bank.c"));
    assert!(!write.frames[0].file.as_deref().unwrap().contains(".."));
    assert_eq!(at_line(&sites, "__tsan_write4", line("static")).frames[0].function, "next");
    assert_eq!(at_line(&sites, "__tsan_write2", line("grid")).frames[0].function, "copy");
    assert_eq!(at_line(&sites, "memcpy", line("libc")).frames[0].function, "copy");
    let cold = at_line(&sites, "__tsan_write4", line("cold"));
    assert_eq!((cold.function.as_deref(), cold.frames[0].function.as_str()), (Some("pick"), "pick"));
    // clang keeps the entry hook of a function that opted out, so its calls are sites there.
    let uninstrumented = line("uninstrumented");
    let seen = sites.iter().any(|site| site.frames[0].line == Some(uninstrumented) && site.hook.name == "memcpy");
    assert_eq!(seen, compiler == "clang");
    // A return address belongs to the call before it.
    let after = u64::from(write.offset) + u64::from(write.form.len());
    assert_eq!(symboliser.frames_of_return(after), write.frames);
    assert_eq!(symboliser.counters().damaged, 0);
}

#[test]
fn sites_have_their_marked_lines() {
    let bench = Bench::new();
    for compiler in c_compilers() {
        check_bank(compiler, &bench.program(compiler, "bank.c", "pie", &["-O2", "-fPIE"], &["-pie"]));
        check_bank(compiler, &bench.program(compiler, "bank.c", "fixed", &["-O2", "-fno-pie"], &["-no-pie"]));
        check_bank(compiler, &bench.program(compiler, "bank.c", "dwarf4", &["-O2", "-gdwarf-4"], &[]));
    }
}

#[test]
fn compressed_debug_information_is_read() {
    let bench = Bench::new();
    let path = bench.program("gcc", "bank.c", "plain", &["-O2"], &[]);
    for form in ["zlib", "zlib-gnu", "zlib-gabi", "zstd"] {
        let packed = bench.path(form);
        let done = Command::new("objcopy")
            .arg(format!("--compress-debug-sections={form}"))
            .arg(&path)
            .arg(&packed)
            .output()
            .unwrap();
        // Older binutils know no zstd.
        if done.status.success() && packed.exists() {
            check_bank("gcc", &packed);
        }
    }
}

#[test]
fn split_debug_information_is_read_or_counted() {
    let bench = Bench::new();
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let path = bench.program("gcc", "bank.c", "split", &["-O2", version, "-gsplit-dwarf"], &[]);
        check_bank("gcc", &path);
        let dwo = bench.path("split.dwo");
        assert!(dwo.exists());
        let package = bench.path("split.dwp");
        if have("dwp") && version == "-gdwarf-4" {
            bench.run(Command::new("dwp").arg("-e").arg(&path).arg("-o").arg(&package));
            std::fs::rename(&dwo, bench.path("elsewhere")).unwrap();
            check_bank("gcc", &path);
            std::fs::remove_file(&package).unwrap();
        } else {
            std::fs::remove_file(&dwo).unwrap();
        }
        let (sites, symboliser) = sites_of(&path);
        assert!(symboliser.counters().split_units_missing > 0);
        // Lines are still there, inlining is not.
        assert!(sites.iter().any(|site| site.frames[0].line == Some(marked("bank.c", "inlined"))));
    }
}

#[test]
fn without_debug_information_symbols_answer() {
    let bench = Bench::new();
    let path = bench.program("gcc", "bank.c", "bare", &["-O2", "-g0"], &[]);
    let (sites, symboliser) = sites_of(&path);
    let pay: Vec<&SiteInfo> = sites.iter().filter(|site| site.function.as_deref() == Some("pay")).collect();
    assert!(!pay.is_empty());
    let bare = Frame { function: "pay".to_owned(), file: None, line: None, column: None, inlined: false };
    assert_eq!(pay[0].frames, [bare]);
    assert_eq!(symboliser.counters().without_line, sites.len() as u64);
    assert_eq!(symboliser.frames(u64::MAX)[0].function, "??");
}

#[test]
fn cpp_names_are_readable() {
    let bench = Bench::new();
    let (sites, _) = sites_of(&bench.program("g++", "shapes.cpp", "shapes", &["-O1"], &[]));
    let withdraw = at_line(&sites, "__tsan_write4", marked("shapes.cpp", "withdraw"));
    assert_eq!(withdraw.frames[0].function, "bank::Account::withdraw");
    let bump = at_line(&sites, "__tsan_write4", marked("shapes.cpp", "template"));
    assert_eq!(bump.frames[0].function, "bank::bump<int>");
    let json = serde_json::to_value(bump).unwrap();
    assert_eq!((json["hook"].as_str(), json["form"].as_str()), (Some("__tsan_write4"), Some("call")));
    assert_eq!(json["frames"][0]["line"].as_u64(), Some(u64::from(marked("shapes.cpp", "template"))));
}

#[test]
fn a_hundred_thousand_offsets_are_soon_named() {
    let bench = Bench::new();
    let path = bench.rust_program();
    let image = Image::open(&path).unwrap();
    let symboliser = Symboliser::new(&image);
    let (start, size) = image.exec_segments()[0];
    let before = Instant::now();
    let step = (size / 100_000).max(1);
    let named = (0..100_000)
        .map(|nth| symboliser.frames(start + nth * step % size))
        .filter(|frames| frames[0].line.is_some())
        .count();
    let took = before.elapsed();
    assert!(named > 10_000, "{named}");
    // The bound for release builds is one second; this one is for the unoptimised test.
    assert!(took < Duration::from_secs(30), "{took:?}");
}
