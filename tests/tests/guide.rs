//! Every command of the guide does what the page says. `selvedge_itest::run_page` has the form of a page.

use selvedge_itest::run_page;

/// A test for a page: its commands are run, and there are some.
macro_rules! pages {
    ($($name:ident: $page:literal;)*) => {
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
