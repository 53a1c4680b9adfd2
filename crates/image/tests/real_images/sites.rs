//! Sites of real images against `objdump`, in every form and kind of image.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::{Bench, c_compilers, have, marked, sites_by_objdump};
use selvedge_events::site_table::Form;
use selvedge_image::{Functions, Image, Part, Symboliser, find_sites};

/// Checks the sites of an image against the ground truth and the file; returns the forms seen.
fn check(path: &Path) -> BTreeSet<Form> {
    let image = Image::open(path).unwrap();
    let sites = find_sites(&image);
    let found: BTreeSet<(u64, String)> = sites
        .entries
        .iter()
        .map(|entry| (image.base() + u64::from(entry.offset), entry.hook.get().unwrap().name.to_owned()))
        .collect();
    let truth = sites_by_objdump(path);
    let missing: Vec<_> = truth.difference(&found).collect();
    let extra: Vec<_> = found.difference(&truth).collect();
    assert!(missing.is_empty() && extra.is_empty(), "{}: missing {missing:x?}, extra {extra:x?}", path.display());
    assert!(truth.len() > 10, "{} has only {} sites", path.display(), truth.len());
    assert_eq!(sites.counters.unpatchable, 0);
    assert_eq!(sites.counters.shared_addresses, 0);
    for entry in &sites.entries {
        let len = usize::from(entry.form.len());
        assert_eq!(image.loaded_bytes(u64::from(entry.offset), len), Some(&entry.code[..len]));
        assert!(entry.code.starts_with(entry.form.opcode()));
        assert!(entry.code[len..].iter().all(|byte| *byte == 0));
    }
    assert!(sites.entries.is_sorted_by(|a, b| a.offset < b.offset));
    sites.entries.iter().map(|entry| entry.form).collect()
}

#[test]
fn executables_have_the_sites_that_objdump_sees() {
    let bench = Bench::new();
    for compiler in c_compilers() {
        for level in ["-O0", "-O1", "-O2"] {
            let pie = bench.program(compiler, "bank.c", "pie", &[level, "-fPIE"], &["-pie"]);
            assert!(Image::open(&pie).unwrap().is_position_independent());
            check(&pie);
            let fixed = bench.program(compiler, "bank.c", "fixed", &[level, "-fno-pie"], &["-no-pie"]);
            assert_eq!(Image::open(&fixed).unwrap().base(), 0x40_0000);
            check(&fixed);
        }
    }
}

#[test]
fn statically_linked_libc_functions_are_found_through_their_resolvers() {
    let bench = Bench::new();
    let whole = bench.program("gcc", "bank.c", "static", &["-O2"], &["-static"]);
    let shared = bench.program("gcc", "bank.c", "shared", &["-O2"], &[]);
    // The disassembler does not name these stubs, so the truth is the same program linked otherwise.
    let hooks = |path| {
        let names =
            find_sites(&Image::open(path).unwrap()).entries.into_iter().map(|entry| entry.hook.get().unwrap().name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(hooks(&whole), hooks(&shared));
    assert!(hooks(&whole).contains(&"memcpy"));
}

#[test]
fn shared_libraries_reach_hooks_through_stubs_and_slots() {
    let bench = Bench::new();
    for compiler in c_compilers() {
        let flags = ["-O2", "-fPIC", "-DAS_LIBRARY"];
        let object = bench.compile(compiler, "bank.c", "lib.o", &flags);
        let plt = bench.link(compiler, &[&object], "libplt.so", &["-shared"]);
        assert!(check(&plt).contains(&Form::Call));
        let ibt = bench.link(compiler, &[&object], "libibt.so", &["-shared", "-Wl,-z,ibtplt"]);
        check(&ibt);
        let now = bench.link(compiler, &[&object], "libnow.so", &["-shared", "-Wl,-z,now"]);
        check(&now);
        let object = bench.compile(compiler, "bank.c", "noplt.o", &["-O2", "-fPIC", "-DAS_LIBRARY", "-fno-plt"]);
        let slots = bench.link(compiler, &[&object], "libnoplt.so", &["-shared"]);
        assert!(check(&slots).contains(&Form::CallIndirect));
        // Stripped, the dynamic symbols still tell the hooks and the unwind table the functions.
        let before = find_sites(&Image::open(&plt).unwrap()).entries;
        let stripped = bench.path("libstripped.so");
        bench.run(Command::new("strip").arg(&plt).arg("-o").arg(&stripped));
        let after = find_sites(&Image::open(&stripped).unwrap()).entries;
        assert_eq!(before, after);
    }
}

#[test]
fn relaxed_calls_keep_their_prefix() {
    let bench = Bench::new();
    for compiler in c_compilers() {
        let path = bench.program(compiler, "bank.c", "relaxed", &["-O2", "-fPIE", "-fno-plt"], &["-pie"]);
        let forms = check(&path);
        // clang calls what it inserts itself directly, whatever -fno-plt says.
        let expected = if compiler == "clang" { Form::Call } else { Form::CallPrefixed };
        assert!(forms.contains(&expected), "{forms:?}");
    }
}

#[test]
fn unrelaxed_slots_of_a_static_definition_are_followed() {
    let bench = Bench::new();
    let path = bench.program("gcc", "bank.c", "slots", &["-O2", "-fPIE", "-fno-plt"], &["-pie", "-Wl,--no-relax"]);
    let image = Image::open(&path).unwrap();
    let sites = find_sites(&image).entries;
    let relaxed = bench.program("gcc", "bank.c", "relaxed", &["-O2", "-fPIE", "-fno-plt"], &["-pie"]);
    assert_eq!(sites.len(), find_sites(&Image::open(&relaxed).unwrap()).entries.len());
    assert!(sites.iter().any(|entry| entry.form == Form::CallIndirect));
}

#[test]
fn tail_jumps_are_sites() {
    let bench = Bench::new();
    let path = bench.program("gcc", "bank.c", "tails", &["-O2", "-foptimize-sibling-calls"], &[]);
    let forms = check(&path);
    assert!(forms.contains(&Form::Jump), "{forms:?}");
}

#[test]
fn cpp_images_have_the_sites_that_objdump_sees() {
    let bench = Bench::new();
    for compiler in ["g++", "clang++"].into_iter().filter(|tool| have(tool)) {
        for level in ["-O1", "-O2"] {
            check(&bench.program(compiler, "shapes.cpp", "shapes", &[level], &[]));
        }
    }
}

#[test]
fn rust_images_have_the_sites_that_objdump_sees() {
    let bench = Bench::new();
    let path = bench.rust_program();
    check(&path);
    let image = Image::open(&path).unwrap();
    let symboliser = Symboliser::new(&image);
    let line = marked("bank.rs", "slot");
    let entries = find_sites(&image).entries;
    let here = entries
        .iter()
        .map(|entry| symboliser.frames(u64::from(entry.offset)))
        .find(|frames| frames[0].line == Some(line));
    let here = here.expect("a site at the marked line");
    assert_eq!(here[0].function, "bank::bump");
    assert!(here[0].file.as_deref().unwrap().ends_with("tests/programs/bank.rs"));
}

#[test]
fn cold_parts_join_their_functions() {
    let bench = Bench::new();
    let a = bench.compile("gcc", "twin_a.c", "a.o", &["-O2"]);
    let b = bench.compile("gcc", "twin_b.c", "b.o", &["-O2"]);
    let path = bench.link("gcc", &[&a, &b, &bench.path("standin.o")], "twins", &[]);
    check(&path);
    let image = Image::open(&path).unwrap();
    let functions = Functions::new(&image);
    let symboliser = Symboliser::new(&image);
    let file_of = |offset| symboliser.frames(offset)[0].file.clone().unwrap();
    let mut pairs = 0;
    for group in functions.groups().iter().filter(|group| group.symbol.as_deref() == Some("step")) {
        let parts: Vec<_> = group.parts.iter().map(|part| &functions.all()[*part as usize]).collect();
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert_eq!(parts.iter().filter(|part| part.part == Part::Cold).count(), 1);
        // Each with the cold part of its own file.
        assert_eq!(file_of(parts[0].start), file_of(parts[1].start));
        pairs += 1;
    }
    assert_eq!(pairs, 2);
    assert!(functions.all().is_sorted_by(|a, b| a.end <= b.start));
    for function in functions.all() {
        assert_eq!(functions.at(function.start), Some(function));
        assert!(
            functions.groups()[function.group as usize]
                .parts
                .iter()
                .any(|part| functions.all()[*part as usize] == *function)
        );
    }
}

#[test]
fn stubs_and_slots_have_names() {
    let bench = Bench::new();
    let object = bench.compile("gcc", "bank.c", "lib.o", &["-O2", "-fPIC", "-DAS_LIBRARY"]);
    let path = bench.link("gcc", &[&object], "libnames.so", &["-shared"]);
    let image = Image::open(&path).unwrap();
    let entry = find_sites(&image)
        .entries
        .into_iter()
        .find(|entry| entry.hook.get().unwrap().name == "__tsan_func_entry")
        .unwrap();
    let rel = i32::from_le_bytes(entry.code[1..5].try_into().unwrap());
    let stub = (i64::from(entry.offset) + 5 + i64::from(rel)).cast_unsigned();
    assert_eq!(image.stub_name(stub), Some("__tsan_func_entry"));
    assert_eq!(image.stub_name(stub + 1), None);
    assert_eq!(image.build_id().len(), 20);
    assert!(!image.exec_segments().is_empty());
}
