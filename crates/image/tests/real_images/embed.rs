//! The embedded table: it survives the tools, changes nothing that is loaded, and is checked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use selvedge_image::embed::with_table;
use selvedge_image::{Image, Origin, Reach, find_sites, index, load_or_build, read_table, table_bytes};

use crate::support::Bench;

fn origin(path: &Path) -> Origin {
    load_or_build(path).unwrap().origin
}

/// Everything that the kernel and the loader read.
fn loaded_view(path: &Path) -> String {
    let text = Command::new("readelf").args(["-lW", "--dyn-syms"]).arg(path).output().unwrap().stdout;
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn tables_survive_strip_objcopy_and_cp() {
    let bench = Bench::new();
    let library = bench.compile("gcc", "bank.c", "lib.o", &["-O2", "-fPIC", "-DAS_LIBRARY"]);
    let library = bench.link("gcc", &[&library], "libbank.so", &["-shared"]);
    let pie = bench.program("gcc", "bank.c", "pie", &["-O2", "-fPIE"], &["-pie"]);
    let fixed = bench.program("gcc", "bank.c", "fixed", &["-O2", "-fno-pie"], &["-no-pie"]);
    let whole = bench.program("gcc", "bank.c", "whole", &["-O2"], &["-static"]);
    let rust = bench.rust_program();
    for path in [&library, &pie, &fixed, &whole, &rust] {
        let runs = |path: &Path| path.extension().is_none().then(|| bench.run(&mut Command::new(path)));
        let output = runs(path);
        let before = loaded_view(path);
        let sites = find_sites(&Image::open(path).unwrap()).entries;
        assert_eq!(origin(path), Origin::BuiltMissing);
        let summary = index(path).unwrap();
        assert!(summary.changed);
        assert_eq!(summary.sites as usize, sites.len());
        assert_eq!(summary.by_class.values().sum::<u32>(), summary.sites);
        assert!(summary.by_class["access"] > 0 && summary.by_class["function"] > 0, "{summary:?}");
        assert_eq!(loaded_view(path), before);
        let tools: [&[&str]; 6] = [
            &["strip"],
            &["strip", "-g"],
            &["strip", "--strip-unneeded"],
            &["objcopy"],
            &["objcopy", "--compress-debug-sections"],
            &["cp"],
        ];
        for tool in tools {
            let copy = bench.path(if path.extension().is_some() { "copy.so" } else { "copy" });
            let mut command = Command::new(tool[0]);
            command.args(&tool[1..]).arg(path);
            if tool[0] == "strip" {
                command.arg("-o");
            }
            bench.run(command.arg(&copy));
            let loaded = load_or_build(&copy).unwrap();
            assert_eq!(loaded.origin, Origin::Embedded, "{tool:?}");
            assert_eq!(loaded.entries, sites, "{tool:?}");
            assert_eq!(runs(&copy), output, "{tool:?}");
        }
        assert_eq!(runs(path), output);
    }
    let user = bench.compile("gcc", "user.c", "user.o", &["-O1"]);
    let user = bench.link("gcc", &[&user, &library, &bench.path("standin.o")], "user", &["-rdynamic", "-Wl,-rpath,."]);
    bench.run(&mut Command::new(user));
}

#[test]
fn indexing_again_changes_nothing() {
    let bench = Bench::new();
    let path = bench.program("gcc", "bank.c", "again", &["-O1"], &[]);
    index(&path).unwrap();
    let once = fs::read(&path).unwrap();
    assert!(!index(&path).unwrap().changed);
    assert_eq!(fs::read(&path).unwrap(), once);
    // A damaged table is replaced, and the file is the same again.
    let image = Image::open(&path).unwrap();
    let broken = with_table(&image, b"not a table").unwrap();
    fs::write(&path, &broken).unwrap();
    assert!(read_table(&Image::open(&path).unwrap()).unwrap().is_err());
    assert_eq!(origin(&path), Origin::BuiltDamaged);
    assert!(index(&path).unwrap().changed);
    assert_eq!(fs::read(&path).unwrap(), once);
}

#[test]
fn stale_tables_are_not_used() {
    let bench = Bench::new();
    let path = bench.program("gcc", "bank.c", "stale", &["-O1"], &[]);
    let image = Image::open(&path).unwrap();
    let entries = find_sites(&image).entries;
    fs::write(&path, with_table(&image, &table_bytes(&[1; 20], &entries, &Reach::default())).unwrap()).unwrap();
    assert_eq!(origin(&path), Origin::BuiltStale);
    let mut moved = entries.clone();
    moved[0].code[1] ^= 1;
    fs::write(&path, with_table(&image, &table_bytes(image.build_id(), &moved, &Reach::default())).unwrap()).unwrap();
    assert_eq!(origin(&path), Origin::BuiltStale);
    assert_eq!(load_or_build(&path).unwrap().entries, entries);
}

#[test]
fn permissions_links_and_trailing_data_stay() {
    let bench = Bench::new();
    let path = bench.program("gcc", "bank.c", "kept", &["-O1"], &[]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4711)).unwrap();
    let link = bench.path("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    index(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o4711);
    assert_eq!(origin(&path), Origin::Embedded);
    // Nothing is left behind.
    let left = fs::read_dir(bench.dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".selvedge-"));
    assert_eq!(left.count(), 0);
    // Data that somebody appended to the program keeps its place.
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes.extend_from_slice(b"a payload behind the image");
    let image = Image::from_bytes(&path, bytes).unwrap();
    let out = with_table(&image, &table_bytes(image.build_id(), &[], &Reach::default())).unwrap();
    assert_eq!(&out[end..end + 26], b"a payload behind the image");
}

#[test]
fn an_unwritable_place_is_an_error_that_names_it() {
    let missing = selvedge_image::index(Path::new("no/such/program")).unwrap_err();
    assert!(format!("{missing}").contains("no/such/program"), "{missing}");
}
