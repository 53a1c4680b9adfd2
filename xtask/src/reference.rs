//! `gen`: the pages of `docs/reference` that are tables of the code, written from those tables.
//!
//! One module a page. A page is a pure function of the code, so `gen --check` is a comparison.

mod counters;
mod events;
mod exit_codes;
mod hooks;
mod patterns;

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::command::{cargo, output};

/// A page: its file under `docs/reference`, and what is in it.
struct Page {
    file: &'static str,
    text: String,
}

fn pages(root: &Path) -> Outcome<Vec<Page>> {
    let source = |file: &str| {
        let path = root.join("crates/events/src").join(file);
        fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    Ok(vec![
        Page { file: "hooks.md", text: hooks::page(&source("interpose.rs")?)? },
        Page { file: "events.md", text: events::page(&source("event.rs")?)? },
        Page { file: "counters.md", text: counters::page() },
        Page { file: "exit-codes.md", text: exit_codes::page() },
        Page { file: "patterns.md", text: patterns::page() },
        Page { file: "commands.md", text: of_command_line(root, "commands")? },
        Page { file: "options.md", text: of_command_line(root, "options")? },
    ])
}

/// A page that the command makes of its own tables.
fn of_command_line(root: &Path, page: &str) -> Outcome<String> {
    output(cargo(root).args([
        "run",
        "--quiet",
        "--package",
        "selvedge-cli",
        "--bin",
        "selvedge",
        "--",
        "reference",
        page,
    ]))
}

/// Writes the pages that differ.
pub(crate) fn write(root: &Path) -> Outcome {
    let folder = root.join("docs/reference");
    fs::create_dir_all(&folder)?;
    for page in pages(root)? {
        let path = folder.join(page.file);
        if fs::read_to_string(&path).is_ok_and(|text| text == page.text) {
            continue;
        }
        fs::write(&path, page.text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!("wrote docs/reference/{}", page.file);
    }
    Ok(())
}

/// Fails where a page is not what [`write()`] would write.
pub(crate) fn check(root: &Path) -> Outcome {
    let pages = pages(root)?;
    let stale: Vec<String> =
        pages.iter().filter_map(|page| Some(format!("{}: {}", page.file, difference(root, page)?))).collect();
    if !stale.is_empty() {
        let list = stale.join("\n  ");
        return Err(format!("docs/reference is not what the code says; run `cargo xtask gen`:\n  {list}").into());
    }
    println!("gen: {} pages as the code says", pages.len());
    Ok(())
}

/// How the file differs from the page, if it does.
fn difference(root: &Path, page: &Page) -> Option<String> {
    let text = match fs::read_to_string(root.join("docs/reference").join(page.file)) {
        Ok(text) => text,
        Err(error) => return Some(error.to_string()),
    };
    if text == page.text {
        return None;
    }
    let same = text.lines().zip(page.text.lines()).take_while(|(there, here)| there == here).count();
    Some(format!("differs from line {} on", same + 1))
}

/// The head of a page.
fn head(title: &str, from: &str) -> String {
    format!("# {title}\n\n*Written by `cargo xtask gen` from {from}: change the code, then run it again.*\n")
}

/// A table; cells may hold anything.
fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let mut text = line(&columns);
    text.push_str(&line(&vec!["---".to_owned(); columns.len()]));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        text.push_str(&line(&cells));
    }
    text
}

/// Text as code.
fn code(text: &str) -> String {
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_says_who_writes_it_and_has_full_rows() {
        for page in pages(&crate::root()).unwrap() {
            assert!(page.text.contains("cargo xtask gen"), "{}", page.file);
            assert!(page.text.lines().any(|line| line.starts_with("| ---")), "{}", page.file);
            for line in page.text.lines().filter(|line| line.starts_with('|')) {
                assert!(!line.contains("|  |"), "{}: an empty cell in {line}", page.file);
            }
        }
    }

    #[test]
    fn cells_cannot_break_a_table() {
        let text = table(&["a", "b"], [vec!["x|y".to_owned(), "1\n2".to_owned()]]);
        assert_eq!(text, "| a | b |\n| --- | --- |\n| x\\|y | 1 2 |\n");
    }
}
