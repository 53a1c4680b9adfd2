//! Damaged images: an error or an answer, never a panic, never a hang.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use proptest::prelude::*;
use selvedge_events::bytes::{u16_at, u64_at};
use selvedge_events::site_table::Entry;
use selvedge_image::embed::with_table;
use selvedge_image::{
    CallGraph, Cfg, Code, Functions, Image, ImageProblem, Loaded, Locals, Operands, Origin, Registers, StackFrame,
    Symboliser, Unwinder, Variables, find_sites, read_table, site_keys, table_bytes,
};

use crate::support::Bench;

/// Small images of several kinds, with a table embedded.
fn samples() -> &'static [Vec<u8>] {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let bench = Bench::new();
        let library = bench.compile("gcc", "bank.c", "lib.o", &["-O2", "-fPIC", "-DAS_LIBRARY"]);
        let library = bench.link("gcc", &[&library], "libbank.so", &["-shared"]);
        let paths = [
            bench.program("gcc", "bank.c", "pie", &["-O2"], &[]),
            bench.program("g++", "shapes.cpp", "shapes", &["-O1"], &["-Wl,--compress-debug-sections=zlib"]),
            library,
        ];
        let with = |path: &std::path::PathBuf| {
            let image = Image::open(path).unwrap();
            let sites = find_sites(&image);
            let table = table_bytes(image.build_id(), &sites.entries, &sites.reach);
            with_table(&image, &table).unwrap()
        };
        paths.iter().map(with).collect()
    })
}

/// Asks everything that can be asked of an image.
fn exercise(bytes: Vec<u8>) -> Result<(), ImageProblem> {
    let image = Image::from_bytes(Path::new("damaged"), bytes)?;
    let sites = find_sites(&image);
    let _ = Functions::new(&image);
    let _ = read_table(&image);
    let _ = with_table(&image, &table_bytes(image.build_id(), &sites.entries, &sites.reach));
    let symboliser = Symboliser::new(&image);
    let variables = Variables::new(&image);
    for entry in sites.entries.iter().step_by(7) {
        assert!(!symboliser.frames(u64::from(entry.offset)).is_empty());
    }
    let (unwinder, locals) = (Unwinder::new(&image), Locals::new(&image));
    let registers = Registers { pc: 0, sp: 0x7000, fp: 0x7040 };
    for offset in (0..0x6000).step_by(0x48) {
        if let Some(unwound) = unwinder.caller(offset, &registers, &|addr| (addr < 0x7100).then_some(addr)) {
            let frame = StackFrame { offset, registers, cfa: unwound.cfa };
            assert!(unwound.cfa > registers.sp);
            let _ = locals.name(&frame, unwound.cfa - 32, &|_| None);
        }
        let _ = variables.variable(offset);
        let _ = image.slot_name(offset);
        let _ = image.stub_name(offset);
    }
    let functions = Functions::new(&image);
    let (entries, reach, counters) = (sites.entries, sites.reach, sites.counters);
    let loaded = Loaded { image, entries, reach, origin: Origin::BuiltDamaged, counters };
    let code = Code::new(&loaded, &functions);
    let graphs: Vec<Cfg> = code.graphs().collect();
    let _ = CallGraph::new(&code, &graphs);
    for graph in &graphs {
        let _ = (graph.dominators(), graph.post_dominators(), Operands::of(&code, graph));
    }
    let entries: Vec<Entry> = loaded.entries.iter().step_by(7).copied().collect();
    let loaded = Loaded { entries, ..loaded };
    let keys = site_keys(&loaded);
    let different: BTreeSet<&String> = keys.iter().collect();
    assert_eq!((keys.len(), different.len()), (loaded.entries.len(), loaded.entries.len()));
    Ok(())
}

#[test]
fn truncation_at_every_boundary_is_an_error_with_its_offset() {
    for bytes in samples() {
        let shoff = u64_at(bytes, 40).unwrap() as usize;
        let count = usize::from(u16_at(bytes, 60).unwrap());
        let mut cuts: Vec<usize> = (0..64).collect();
        for at in (shoff..).step_by(64).take(count) {
            let (start, size) = (u64_at(bytes, at + 24).unwrap() as usize, u64_at(bytes, at + 32).unwrap() as usize);
            cuts.extend([start, start + 1, start + size, at, at + 63]);
        }
        for cut in cuts.into_iter().filter(|cut| *cut < bytes.len()) {
            let problem = exercise(bytes[..cut].to_vec()).expect_err("cut short");
            match problem {
                ImageProblem::NotElf => assert!(cut < 4),
                ImageProblem::Truncated { at, need, have, .. } => {
                    assert_eq!(have, cut as u64);
                    assert!(at + need > have, "{problem}");
                }
                other => panic!("cut at {cut}: {other}"),
            }
        }
    }
}

#[test]
fn foreign_files_are_refused_with_a_remedy() {
    let good = &samples()[0];
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        exercise(bytes).unwrap_err()
    };
    assert_eq!(with(4, 1), ImageProblem::Is32Bit);
    assert_eq!(with(5, 2), ImageProblem::BigEndian);
    assert_eq!(with(18, 183), ImageProblem::OtherArchitecture { machine: 183 });
    assert_eq!(with(16, 1), ImageProblem::NotLinked { kind: 1 });
    assert_eq!(exercise(b"#!/bin/sh\n".to_vec()), Err(ImageProblem::NotElf));
    for problem in [with(4, 1), with(16, 1), with(18, 183)] {
        assert!(format!("{problem}").contains(": "), "{problem}");
    }
}

#[test]
fn every_header_field_may_be_nonsense() {
    let good = &samples()[2];
    let shoff = u64_at(good, 40).unwrap() as usize;
    let phoff = u64_at(good, 32).unwrap() as usize;
    let places = (0..64).step_by(2).chain((phoff..phoff + 56 * 4).step_by(4)).chain((shoff..good.len()).step_by(4));
    for at in places {
        for value in [0_u32, 1, 0x7fff_ffff, u32::MAX] {
            let mut bytes = good.clone();
            for (to, from) in bytes[at..].iter_mut().zip(value.to_le_bytes()) {
                *to = from;
            }
            let _ = exercise(bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bits_never_panic(which in 0..3_usize, flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 1..40)) {
        let mut bytes = samples()[which].clone();
        let len = bytes.len();
        for (at, bit) in flips {
            bytes[at.index(len)] ^= 1 << bit;
        }
        let _ = exercise(bytes);
    }

    #[test]
    fn noise_is_never_an_image(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = exercise(bytes);
    }

    #[test]
    fn overwritten_stretches_never_panic(which in 0..3_usize, at in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 1..200)) {
        let mut bytes = samples()[which].clone();
        let at = at.index(bytes.len());
        for (to, from) in bytes[at..].iter_mut().zip(with) {
            *to = from;
        }
        let _ = exercise(bytes);
    }
}
