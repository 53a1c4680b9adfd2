//! Every command of the guide does what the page says. `selvedge_itest::run_page` has the form of a page.

use std::fs;
use std::path::Path;

use selvedge_itest::{PageStep, page_steps, run_page};

/// A test for a page: its commands are run, and there are some.
macro_rules! pages {
    ($($name:ident: $page:literal;)*) => {
        const PAGES: &[&str] = &[$($page),*];

        $(#[test]
        fn $name() {
            assert!(run_page($page) > 0, "{} has no commands", $page);
        })*
    };
}

pages! {
    build_systems: "docs/guide/build-systems.md";
    ci: "docs/guide/ci.md";
    configuration: "docs/guide/configuration.md";
    detecting: "docs/guide/detecting.md";
    enforcing: "docs/guide/enforcing.md";
    flaky_test: "docs/guide/flaky-test.md";
    guarding: "docs/guide/guarding.md";
    healing: "docs/guide/healing.md";
    html_report: "docs/guide/html-report.md";
    machine_output: "docs/guide/machine-output.md";
    production_guard: "docs/guide/production-guard.md";
    quick_start: "docs/guide/quick-start.md";
    reading_a_report: "docs/guide/reading-a-report.md";
    rust: "docs/guide/rust.md";
    suppressions: "docs/guide/suppressions.md";
    tuning: "docs/guide/tuning.md";
}

#[test]
fn no_page_with_commands_is_left_out() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide");
    for entry in guide.read_dir().expect("the guide") {
        let path = entry.expect("a page").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() || PAGES.contains(&format!("docs/guide/{name}").as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        let steps = page_steps(&text).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert!(
            !steps.iter().any(|step| matches!(step, PageStep::Run(_))),
            "{name} has commands and is not in the list"
        );
    }
}
