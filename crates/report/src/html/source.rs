//! A few lines of source around a place, where its file can be read.

use std::collections::BTreeMap;

/// Lines on both sides.
const AROUND: u32 = 2;
/// Characters of a line.
const MOST_CHARS: usize = 160;
/// Bytes of a file that is looked into.
const MOST_BYTES: u64 = 8 << 20;

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CodeLine {
    pub(super) number: u32,
    pub(super) text: String,
    /// Whether it is the place itself.
    pub(super) is_here: bool,
}

/// Files that were read.
#[derive(Default)]
pub(super) struct Files {
    known: BTreeMap<String, Vec<String>>,
}

impl Files {
    /// The lines around a place, without what all of them are indented by.
    pub(super) fn around(&mut self, file: &str, line: u32) -> Vec<CodeLine> {
        let lines = self.known.entry(file.to_owned()).or_insert_with(|| read(file));
        let first = line.saturating_sub(AROUND).max(1);
        let shown: Vec<(u32, &String)> = (first..=line.saturating_add(AROUND))
            .filter_map(|number| Some((number, lines.get(number.checked_sub(1)? as usize)?)))
            .collect();
        if !shown.iter().any(|(number, text)| *number == line && !text.trim().is_empty()) {
            return Vec::new();
        }
        let indent = |text: &&String| text.chars().take_while(|c| *c == ' ').count();
        let common = shown.iter().map(|(_, text)| text).filter(|text| !text.trim().is_empty()).map(indent);
        let common = common.min().unwrap_or(0);
        let line_of = |(number, text): (u32, &String)| CodeLine {
            number,
            text: text.chars().skip(common).take(MOST_CHARS).collect(),
            is_here: number == line,
        };
        shown.into_iter().map(line_of).collect()
    }
}

fn read(file: &str) -> Vec<String> {
    let fits = std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() <= MOST_BYTES);
    let bytes = if fits { std::fs::read(file).unwrap_or_default() } else { Vec::new() };
    let plain = |line: &str| crate::view::printable(&line.trim_end().replace('\t', "    "));
    String::from_utf8_lossy(&bytes).lines().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_with_its_neighbours_and_without_their_common_indent() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("a.c");
        std::fs::write(&file, "int x;\n\n    if (y)\n\tx = 1;\n\n}\n").expect("written");
        let lines = Files::default().around(&file.display().to_string(), 4);
        let text: Vec<(u32, &str, bool)> =
            lines.iter().map(|line| (line.number, line.text.as_str(), line.is_here)).collect();
        assert_eq!(
            text,
            [(2, "", false), (3, "    if (y)", false), (4, "    x = 1;", true), (5, "", false), (6, "}", false)]
        );
        assert!(Files::default().around(&file.display().to_string(), 99).is_empty());
        assert!(Files::default().around("/nowhere/at/all.c", 1).is_empty());
    }
}
