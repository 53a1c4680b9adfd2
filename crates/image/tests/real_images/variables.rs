//! Names of data, looked up through the addresses that `nm` gives.

use std::path::Path;
use std::process::Command;

use selvedge_image::{Image, Variables};

use crate::support::{Bench, marked, programs};

/// The offset of a data symbol, by what its name contains.
fn offset_of(path: &Path, image: &Image, symbol: &str) -> u64 {
    let text = String::from_utf8(Command::new("nm").arg("-C").arg(path).output().unwrap().stdout).unwrap();
    let line = text
        .lines()
        .find(|line| line.get(19..).is_some_and(|name| name == symbol || name.starts_with(&format!("{symbol}."))));
    let line = line.unwrap_or_else(|| panic!("no symbol {symbol}"));
    u64::from_str_radix(&line[..16], 16).unwrap() - image.base()
}

fn check(path: &Path, rows: &[(&str, u64, &str)]) {
    let image = Image::open(path).unwrap();
    let variables = Variables::new(&image);
    for (symbol, offset, name) in rows {
        let found = variables.variable(offset_of(path, &image, symbol) + offset).unwrap();
        assert_eq!(found.name, *name, "{symbol}+{offset}");
        assert_eq!(found.offset, *offset);
        assert!(name.starts_with(&found.symbol));
    }
    assert_eq!(variables.counters().damaged_units, 0);
}

const C_ROWS: &[(&str, u64, &str)] = &[
    ("balance", 0, "balance"),
    ("balance", 2, "balance+0x2"),
    ("table", 0, "table[0].key"),
    ("table", 3 * 16 + 4, "table[3].count"),
    ("table", 2 * 16 + 8, "table[2].whole"),
    ("table", 2 * 16 + 12, "table[2].whole+0x4"),
    ("g", 0, "g.label"),
    ("g", 8, "g.lock"),
    ("g", 8 + 16, "g.lock+0x10"),
    ("g", 48, "g.value"),
    ("g", 56, "g.low"),
    ("grid", 2 * (5 + 2), "grid[1][2]"),
    ("text", 63, "text[63]"),
    ("calls", 0, "calls"),
    ("ready", 0, "ready"),
];

#[test]
fn c_variables_are_named() {
    let bench = Bench::new();
    check(&bench.program("gcc", "bank.c", "pie", &["-O2", "-fPIE"], &["-pie"]), C_ROWS);
    check(&bench.program("gcc", "bank.c", "fixed", &["-O1", "-fno-pie"], &["-no-pie"]), C_ROWS);
    check(&bench.program("gcc", "bank.c", "dwarf4", &["-O1", "-gdwarf-4"], &[]), C_ROWS);
    check(&bench.program("gcc", "bank.c", "split", &["-O1", "-gsplit-dwarf"], &[]), C_ROWS);
    let path = bench.program("gcc", "bank.c", "declared", &["-O1"], &[]);
    let image = Image::open(&path).unwrap();
    let variables = Variables::new(&image);
    let found = variables.variable(offset_of(&path, &image, "calls")).unwrap();
    assert_eq!(found.line, Some(marked("bank.c", "static") - 1));
    assert_eq!(found.file.as_deref(), programs().join("bank.c").to_str());
    assert_eq!(variables.variable(0), None);
    assert_eq!(variables.variable(u64::MAX), None);
}

#[test]
fn without_types_the_symbol_answers() {
    let bench = Bench::new();
    let path = bench.program("gcc", "bank.c", "bare", &["-O1", "-g0"], &[]);
    check(&path, &[("table", 0, "table"), ("table", 52, "table+0x34"), ("calls", 0, "calls")]);
}

#[test]
fn without_symbols_the_debug_information_answers() {
    let bench = Bench::new();
    let path = bench.program("gcc", "bank.c", "full", &["-O1"], &[]);
    let image = Image::open(&path).unwrap();
    let (table, balance) = (offset_of(&path, &image, "table"), offset_of(&path, &image, "balance"));
    let text = offset_of(&path, &image, "text");
    let bare = bench.path("unnamed");
    bench.run(Command::new("objcopy").args(["--strip-all", "--keep-section=.debug*"]).arg(&path).arg(&bare));
    let image = Image::open(&bare).unwrap();
    assert!(!image.has_full_symbols());
    let variables = Variables::new(&image);
    let name = |offset| variables.variable(offset).map(|found| found.name);
    assert_eq!(name(table + 52).as_deref(), Some("table[3].count"));
    assert_eq!(name(balance).as_deref(), Some("balance"));
    assert_ne!(name(text + 64).as_deref(), Some("text[64]"));
}

#[test]
fn cpp_variables_are_named() {
    let bench = Bench::new();
    let rows = [
        ("bank::first", 8, "bank::first.id"),
        ("bank::first", 12, "bank::first.total"),
        ("bank::first", 16, "bank::first.lock"),
        ("bank::hits", 0, "bank::hits"),
        ("bank::Account::opened", 0, "bank::Account::opened"),
        ("bank::table", 16, "bank::table[2]"),
        ("tick()::count", 0, "tick()::count"),
    ];
    check(&bench.program("g++", "shapes.cpp", "shapes", &["-O1"], &[]), &rows);
}

#[test]
fn rust_variables_are_named() {
    let bench = Bench::new();
    let path = bench.rust_program();
    let image = Image::open(&path).unwrap();
    let variables = Variables::new(&image);
    let name = |symbol, offset| variables.variable(offset_of(&path, &image, symbol) + offset).unwrap().name;
    assert_eq!(name("bank::HITS", 0), "bank::HITS");
    let total: Vec<String> = (0..12).map(|at| name("bank::TOTAL", at)).collect();
    assert!(total.contains(&"bank::TOTAL.data".to_owned()), "{total:?}");
    assert!(total.contains(&"bank::TOTAL.inner.futex".to_owned()), "{total:?}");
    // The compiler chooses the order of fields.
    let slot: Vec<String> = (24..48).map(|at| name("bank::SLOTS", at)).collect();
    for field in ["key", "pair.0", "pair.1"] {
        assert!(slot.contains(&format!("bank::SLOTS[1].{field}")), "{slot:?}");
    }
}
