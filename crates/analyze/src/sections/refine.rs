//! Refinement (Letko, Vojnar and Křena, "AtomRace", section 4.3): what correct runs break was not meant to be atomic.
//!
//! Of a run that passed, each way through a section that somebody broke is allowed from then on; each that was gone through
//! counts as seen. Runs that did not pass teach nothing: what was broken there may be the bug. It is over when a number of
//! correct runs, one after the other, have changed nothing.
//!
//! Departure from the paper: ways that were not seen are not removed but left unmarked, which has the same effect
//! ([`SectionFile::kept`]) and lets refinements of different machines be merged.

use super::Kind;
use super::Remote;
use super::text::SectionFile;

/// What came of a way through a section, in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked<'a> {
    /// The section: the key of its begin, and its pattern.
    pub section: &'a (String, Kind),
    /// The key of its end.
    pub end: &'a str,
    /// Whether it was gone through.
    pub seen: bool,
    /// Whether somebody broke it.
    pub broken: bool,
}

/// A refinement under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refinement {
    /// The sections, as far as they are refined.
    pub file: SectionFile,
    /// Correct runs since the last change.
    pub quiet: u32,
    /// Ways that were found not to be meant.
    pub pruned: usize,
}

impl Refinement {
    /// Begins with a file, which may be refined already.
    pub fn new(file: SectionFile) -> Refinement {
        Refinement { file, quiet: 0, pruned: 0 }
    }

    /// Learns from a run.
    pub fn learn<'a>(&mut self, passed: bool, walked: impl IntoIterator<Item = Walked<'a>>) {
        if !passed {
            return;
        }
        let mut changed = false;
        for one in walked.into_iter().filter(|one| one.seen) {
            let Some(section) = self.file.sections.get_mut(one.section) else { continue };
            let Some(allowed) = section.ends.get_mut(one.end) else { continue };
            if one.broken && *allowed != Remote::ALL {
                *allowed = Remote::ALL;
                self.pruned += 1;
                changed = true;
            }
            changed |= section.seen.insert(one.end.to_owned());
        }
        self.file.runs = self.file.runs.saturating_add(1);
        self.quiet = if changed { 0 } else { self.quiet + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::KeyedSection;
    use super::*;

    #[test]
    fn correct_runs_prune_and_mark_and_others_teach_nothing() {
        let key = ("a".to_owned(), Kind::Consecutive);
        let ends = ["b", "c", "d"].map(|end| (end.to_owned(), Remote::READS)).into();
        let section = KeyedSection { ends, ..KeyedSection::default() };
        let file = SectionFile { sections: [(key.clone(), section)].into(), ..SectionFile::default() };
        let mut all = Refinement::new(file);
        assert_eq!(all.file.kept_sections().count(), 1, "before, all are kept");
        let walked = |end, seen, broken| Walked { section: &key, end, seen, broken };
        all.learn(false, [walked("b", true, true)]);
        assert_eq!((all.pruned, all.quiet, all.file.runs), (0, 0, 0));
        all.learn(true, [walked("b", true, true), walked("c", true, false), walked("d", false, false)]);
        assert_eq!((all.pruned, all.quiet, all.file.runs), (1, 0, 1));
        all.learn(true, [walked("b", true, true), walked("c", true, false)]);
        assert_eq!((all.pruned, all.quiet), (1, 1));
        let section = &all.file.sections[&key];
        let kept = ["b", "c", "d"].map(|end| all.file.kept(section, end));
        assert_eq!(kept, [None, Some(Remote::READS), None], "broken, seen, not seen");
    }
}
