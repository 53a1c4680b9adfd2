//! docs/reference/invariants.md says what the code does.

use std::collections::BTreeSet;

use selvedge_analyze::invariant::select::Pattern;
use selvedge_analyze::invariant::{Invariants, SiteKey, text};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/invariants.md");
    std::fs::read_to_string(path).expect("the page is there")
}

fn example(page: &str) -> &str {
    let (_, rest) = page.split_once("```invariants\n").expect("the page has an example");
    rest.split_once("```").expect("the example ends").0
}

fn read(text: &str) -> Invariants {
    text::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// The first cells of the table with this head.
fn rows<'a>(page: &'a str, head: &str) -> Vec<&'a str> {
    let (_, table) = page.split_once(head).unwrap_or_else(|| panic!("no table {head}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.trim_start_matches("| ").split(" | ").next()).collect()
}

#[test]
fn the_example_is_what_is_written() {
    let page = page();
    let all = read(example(&page));
    assert_eq!((all.program.as_str(), all.runs, all.sites.len(), all.colours.len()), ("bank", 40, 6, 1));
    let without_comments: String =
        example(&page).lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    assert_eq!(text::write(&all), without_comments);
}

#[test]
fn every_line_of_the_form_is_explained() {
    let page = page();
    let first_word = |line: &str| line.trim_matches('`').split(' ').next().map(str::to_owned);
    let explained: BTreeSet<String> =
        rows(&page, "| line | meaning |").into_iter().filter_map(first_word).filter(|word| !word.is_empty()).collect();
    let lines = example(&page).lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let used: BTreeSet<String> = lines.filter_map(first_word).collect();
    assert_eq!(explained, used);
}

#[test]
fn every_key_of_the_page_is_read() {
    let page = page();
    let keys = rows(&page, "| key | means |");
    assert!(keys.len() > 5, "{keys:?}");
    for key in keys {
        let key = SiteKey(key.trim_matches('`').to_owned());
        assert!(key.functions().is_some() && key.does().is_some(), "{key}");
        assert_eq!(key.file().is_none(), key.0.starts_with('?'), "{key}");
    }
    for site in read(example(&page)).sites.keys() {
        assert_eq!(site.file(), Some("bank.c"), "{site}");
    }
    let withdraw = SiteKey("bank.c:withdraw+3:12:w4".to_owned());
    for pattern in ["withdraw", "bank.c", "bank.c:withdraw", "bank.c:withdraw+3:*"] {
        assert!(page.contains(&format!("`{pattern}`")), "{pattern}");
        assert!(Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(&withdraw)), "{pattern}");
    }
}
