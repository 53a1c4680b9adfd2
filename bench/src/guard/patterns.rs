//! The rows of the paper's Table 2 and its marks, and which shapes of the corpus belong to which row.

/// What the paper says of an invariant and a pattern, in its own marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// All manifestations.
    All,
    /// Some interleavings only.
    Some,
    /// Never.
    Never,
    /// The mark cannot be read in the copy at hand, and the text does not say.
    Unread,
    /// The paper has no such row.
    NoRow,
}

impl Mark {
    /// As it stands in a cell.
    pub fn text(self) -> &'static str {
        match self {
            Mark::All => "✓",
            Mark::Some => "(✓)",
            Mark::Never => "–",
            Mark::Unread => "?",
            Mark::NoRow => "",
        }
    }
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name, with the category.
    pub name: &'static str,
    /// Shapes of manifests that belong to it.
    pub shapes: &'static [&'static str],
    /// Detected and tolerated by AI, AVIO, DUI, CCI and PSet, as the paper has it.
    pub paper: [(Mark, Mark); 5],
}

use Mark::{All, Never, NoRow, Some, Unread};

const NO_ROW: [(Mark, Mark); 5] = [(NoRow, NoRow); 5];

const fn beyond(name: &'static str, shapes: &'static [&'static str]) -> Row {
    Row { name, shapes, paper: NO_ROW }
}

/// The rows, the paper's first.
pub const ROWS: &[Row] = &[
    Row {
        name: "atomicity R-R\\|W",
        shapes: &["R-R|W"],
        paper: [(All, All), (All, Never), (All, Never), (All, Never), (All, Unread)],
    },
    Row {
        name: "atomicity W-R\\|W",
        shapes: &["W-R|W"],
        paper: [(All, All), (All, Never), (All, Never), (All, Never), (All, All)],
    },
    Row {
        name: "atomicity W-W\\|R",
        shapes: &["W-W|R"],
        paper: [(All, All), (Some, Never), (All, All), (All, Never), (All, All)],
    },
    Row {
        name: "atomicity R-W\\|R-W",
        shapes: &["R-W|R-W"],
        paper: [(All, All), (Some, Never), (Never, Never), (Some, Never), (All, Never)],
    },
    Row {
        name: "atomicity R-R-W\\|R-R-W",
        shapes: &["R-R-W|R-R-W"],
        paper: [(All, All), (Some, Never), (Some, Never), (All, Never), (All, Never)],
    },
    Row {
        name: "order W-R",
        shapes: &["W-R", "use-before-init"],
        paper: [(All, All), (Never, Never), (Some, Some), (Some, Some), (Some, Some)],
    },
    Row {
        name: "order R-W",
        shapes: &["R-W", "use-after-teardown"],
        paper: [(All, All), (Never, Never), (All, Unread), (All, Unread), (All, Unread)],
    },
    Row {
        name: "order W-W",
        shapes: &["W-W", "late-overwrite"],
        paper: [(All, All), (Never, Never), (Never, Never), (All, All), (All, All)],
    },
    beyond("order allA-B", &["allA-B"]),
    beyond("atomicity R-W\\|W", &["R-W|W"]),
    beyond("atomicity W-W\\|W", &["W-W|W", "W-W|W-W"]),
    beyond("two variables, R1-R2 torn by writes", &["W1|R1-R2|W2", "W1|R2-R1|W2"]),
    beyond("two variables, W1-W2 torn by reads", &["R1|W1-W2|R2"]),
    beyond("two variables, W1-W2 torn by a write", &["R1|W1-W2|W2", "W1|W1-W2|W2"]),
    beyond("two variables, R1-W2-W1 twice", &["R1-W2-W1|R1-W2-W1"]),
];

/// The row of a shape.
pub fn row_of(shape: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.shapes.contains(&shape))
}

#[cfg(test)]
mod tests {
    use selvedge_corpus::{Pattern, load};

    use super::*;
    use crate::place;

    #[test]
    fn every_kernel_that_is_guarded_has_a_row() {
        let corpus = load(&place::repository().join("corpus")).expect("the corpus");
        for kernel in &corpus.kernels {
            let guarded = !matches!(kernel.pattern, Pattern::Deadlock | Pattern::LostWakeup);
            assert_eq!(row_of(&kernel.shape).is_some(), guarded, "{} {}", kernel.name, kernel.shape);
        }
        let shapes: Vec<_> = ROWS.iter().flat_map(|row| row.shapes).collect();
        let mut unique = shapes.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), shapes.len());
    }
}
