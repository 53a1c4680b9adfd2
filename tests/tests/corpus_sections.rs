//! Atomic sections found in code alone, on the corpus: a kernel whose bug is that two accesses were not atomic has a
//! section that begins and ends at its guilty lines.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use selvedge_corpus::{Command, Compiler, Kernel, Pattern, Variant, build, load};
use selvedge_drive::sections::{Listed, list};
use selvedge_itest::{Lab, instrumented_rustc};

/// Kernels without such a section, and why; one that has it is a failure here, too.
const NOT_FOUND: &[(&str, &str)] =
    &[("tree-set", "the root is written through a pointer to it, another name of the same variable")];

/// Whether a section lies between two guilty lines.
fn is_guilty(section: &Listed, kernel: &Kernel) -> bool {
    let guilty = |line: Option<u32>| kernel.guilty.iter().any(|guilty| Some(guilty.line) == line);
    guilty(section.entry.line) && section.ends.iter().any(|end| guilty(end.at.line))
}

#[test]
fn atomicity_bugs_have_their_sections() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").canonicalize().expect("the corpus is there");
    let corpus = load(&root).unwrap_or_else(|error| panic!("{error}"));
    let lab = Lab::new();
    let out_dir = lab.path("built");
    fs::create_dir_all(&out_dir).expect("created");
    let rustc = instrumented_rustc(lab.selvedge(), &out_dir).expect("linked");
    let compiler = Compiler {
        cc: Command::new(lab.selvedge(), ["cc"]),
        cxx: Command::new(lab.selvedge(), ["c++"]),
        rustc: Command::new(rustc[0].clone(), rustc[1..].iter().cloned()),
        out_dir,
    };
    let mut missed = BTreeSet::new();
    let mut looked_at = 0;
    for kernel in corpus.kernels.iter().filter(|kernel| kernel.pattern == Pattern::AtomicityViolation) {
        looked_at += 1;
        let program = build(&kernel.program(), Variant::Buggy, &compiler).unwrap_or_else(|error| panic!("{error}"));
        let listing = list(&program).unwrap_or_else(|error| panic!("{}: {error}", kernel.name));
        let found = listing.sections.iter().filter(|section| is_guilty(section, kernel)).count();
        println!("{}: {} sections, {found} between guilty lines", kernel.name, listing.sections.len());
        if found == 0 {
            missed.insert(kernel.name.as_str());
        }
    }
    assert!(looked_at > 20, "only {looked_at} kernels");
    let expected: BTreeSet<&str> = NOT_FOUND.iter().map(|(name, _)| *name).collect();
    assert_eq!(missed, expected);
}
