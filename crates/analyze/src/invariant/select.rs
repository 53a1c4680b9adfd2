//! Which sites a guard is for: patterns that a person gives, and invariants for those sites alone.
//!
//! Paper: section 3.4.2. There, code is annotated and the sets are computed anew for what is left, because sites that are
//! left out no longer touch the recorder: whoever followed one of them then follows an older access, or none. [`restrict`]
//! does without new runs, so it must allow all that could be seen then. What it cannot know is which older access that
//! is: the one before may be by the same thread, of which the sets say nothing. So a site that never followed one that is left
//! out keeps its set as it is, exactly; any other may follow every site of its group that is kept, or none. Such a
//! site is guarded against nothing; [`loosened`] names them, and training again for the selection makes them tight.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::group::{Group, groups};
use super::{Belonging, Invariants, Section, SiteKey};

/// Sites by name: a function, a file, or a key. `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

/// Why a pattern is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternError {
    /// It is empty.
    #[error("an empty pattern matches nothing: give a function, a file or a site key, with * for any text")]
    Empty,
    /// It has blanks, which no key has.
    #[error("{0:?} has a blank, and no site key has: write * in its place")]
    Blank(String),
}

impl Pattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> Result<Pattern, PatternError> {
        match text {
            "" => Err(PatternError::Empty),
            text if text.contains(char::is_whitespace) => Err(PatternError::Blank(text.to_owned())),
            text => Ok(Pattern(text.to_owned())),
        }
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a site is meant: by its key, by its file with or without directories, by its function or one of those
    /// that it is inlined into, or by file and function (`bank.c:withdraw`).
    pub fn matches(&self, key: &SiteKey) -> bool {
        let is = |text: &str| glob(self.0.as_bytes(), text.as_bytes());
        if is(&key.0) {
            return true;
        }
        let files = key.file().map(|file| [file, file.rsplit('/').next().unwrap_or(file)]);
        let whole = key.functions().filter(|functions| !functions.is_empty());
        let functions = || whole.into_iter().flat_map(|whole| split_inlined(whole).chain([whole]));
        files
            .into_iter()
            .flatten()
            .any(|file| is(file) || functions().any(|function| is(&format!("{file}:{function}"))))
            || functions().any(is)
    }
}

/// What is guarded: everything, or what some pattern of `only` means, without what some pattern of `except` means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Empty: everything.
    pub only: Vec<Pattern>,
    /// Left out in any case.
    pub except: Vec<Pattern>,
}

impl Selection {
    /// Whether a site is guarded.
    pub fn keeps(&self, key: &SiteKey) -> bool {
        let means = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(key));
        (self.only.is_empty() || means(&self.only)) && !means(&self.except)
    }

    /// The patterns that mean none of these sites: slips of the pen, mostly.
    pub fn idle<'a>(&'a self, sites: &Invariants) -> Vec<&'a Pattern> {
        let is_idle = |pattern: &&Pattern| !sites.sites.keys().any(|key| pattern.matches(key));
        self.only.iter().chain(&self.except).filter(is_idle).collect()
    }
}

/// Invariants for the sites that are kept, when no other site touches the recorder. Whatever correct run was learnt from is
/// correct by them too; groups, as far as they are kept, stay together.
pub fn restrict(all: &Invariants, keep: impl Fn(&SiteKey) -> bool) -> Invariants {
    let mut out = Invariants {
        program: all.program.clone(),
        runs: all.runs,
        time: all.time,
        hooks: all.hooks.clone(),
        ..Invariants::default()
    };
    for Group { sites, .. } in groups(all) {
        let omits = sites.iter().any(|key| !keep(key));
        let kept: BTreeSet<SiteKey> =
            sites.into_iter().filter(|key| keep(key) && all.sites.contains_key(key)).collect();
        for key in &kept {
            let Some(from) = all.sites.get(key) else { continue };
            // The whole group through its first site; what is too much goes below.
            let touches = kept.first().filter(|first| *first != key).into_iter().cloned().collect();
            let site = if follows_omitted(from, &keep) {
                Belonging {
                    touches,
                    hits: from.hits,
                    asked: from.asked,
                    unsettled: from.unsettled,
                    ..Belonging::of(kept.iter().cloned().map(Some).chain([None]))
                }
            } else if omits {
                // An access of the thread's own that is omitted is not in between any more.
                let any = from.predecessors().into_iter().map(|one| one.cloned());
                let Belonging { hits, asked, unsettled, .. } = *from;
                Belonging { touches, hits, asked, unsettled, ..Belonging::of(any) }
            } else {
                Belonging { touches, ..from.clone() }
            };
            out.sites.insert(key.clone(), site);
        }
    }
    for mut colour in all.colours.iter().cloned() {
        colour.sites.retain(|key, _| keep(key));
        if !colour.sites.is_empty() {
            out.colours.insert(colour);
        }
    }
    for (key, section) in &all.sections {
        let first: BTreeMap<_, _> =
            section.first.iter().filter(|(site, _)| keep(site)).map(|(site, first)| (site.clone(), *first)).collect();
        if !first.is_empty() {
            out.sections.insert(key.clone(), Section { entered: section.entered, first });
        }
    }
    out.normalise();
    out
}

/// The sites that [`restrict`] has to let follow anything.
pub fn loosened(all: &Invariants, keep: impl Fn(&SiteKey) -> bool) -> BTreeSet<SiteKey> {
    let is_loose = |(key, site): &(&SiteKey, &Belonging)| keep(key) && follows_omitted(site, &keep);
    all.sites.iter().filter(is_loose).map(|(key, _)| key.clone()).collect()
}

fn follows_omitted(site: &Belonging, keep: &impl Fn(&SiteKey) -> bool) -> bool {
    site.members().into_iter().any(|member| !keep(member))
}

/// The functions of `outer/inner`. A slash inside brackets or after `operator` belongs to a name.
pub(super) fn split_inlined(whole: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let mut cuts = Vec::new();
    for (at, c) in whole.char_indices() {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' | ')' | '}' | ']' => depth -= 1,
            '/' if depth <= 0 && !whole.get(..at).unwrap_or("").ends_with("operator") => cuts.push(at),
            _ => {}
        }
    }
    let begins = std::iter::once(0).chain(cuts.clone().into_iter().map(|at| at + 1));
    let ends = cuts.into_iter().chain([whole.len()]);
    begins.zip(ends).filter_map(|(begin, end)| whole.get(begin..end))
}

/// Whether a text is of the form of a pattern with `*`. Goes back to the last star only, so it takes no more than the
/// product of the lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if Some(byte) == text.get(t) => (p, t) = (p + 1, t + 1),
            _ => match &mut star {
                Some((at, from)) => {
                    *from += 1;
                    (p, t) = (*at + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::recorder::Recorder;
    use super::super::tests::{key, some_invariants};
    use super::*;

    #[test]
    fn patterns_mean_functions_files_and_keys() {
        let rows = [
            ("withdraw", "bank.c:withdraw+3:12:w4", true),
            ("with*", "bank.c:withdraw+3:12:w4", true),
            ("draw", "bank.c:withdraw+3:12:w4", false),
            ("bank.c", "bank.c:withdraw+3:12:w4", true),
            ("bank.c:withdraw", "bank.c:withdraw+3:12:w4", true),
            ("bank.c:deposit", "bank.c:withdraw+3:12:w4", false),
            ("bank.c:withdraw+3:*", "bank.c:withdraw+3:12:w4", true),
            ("bank.c:withdraw+3:12:w4", "bank.c:withdraw+3:12:w4", true),
            ("bank.c:withdraw+3:12:w4", "bank.c:withdraw+3:12:w4#2", false),
            ("util.c", "net/util.c:init+3:12:w4", true),
            ("net/*", "net/util.c:init+3:12:w4", true),
            ("list.h", "list.h(bank.c):push+3:12:w4", true),
            ("pay", "list.h:pay/push+3:12:w4", true),
            ("push", "list.h:pay/push+3:12:w4", true),
            ("pay/push", "list.h:pay/push+3:12:w4", true),
            ("std::*", "v.h:f/std::vector<a/b>::operator/+3:12:w4", true),
            ("operator/", "v.h:f/operator/+3:12:w4", true),
            ("*", "?:@4f1a4:w4", true),
            ("*:w4", "?:@4f1a4:w4", true),
            ("?", "?:@4f1a4:w4", false),
        ];
        for (pattern, text, is) in rows {
            assert_eq!(Pattern::new(pattern).unwrap().matches(&key(text)), is, "{pattern} {text}");
        }
        assert_eq!(Pattern::new(""), Err(PatternError::Empty));
        assert!(matches!(Pattern::new("a b"), Err(PatternError::Blank(_))));
    }

    #[test]
    fn only_comes_before_except() {
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(text).unwrap()).collect::<Vec<_>>();
        let rows: [(&[&str], &[&str], bool); 6] = [
            (&[], &[], true),
            (&["f"], &[], true),
            (&["g"], &[], false),
            (&["g", "f"], &[], true),
            (&[], &["a.c"], false),
            (&["f"], &["a.c"], false),
        ];
        for (only, except, keeps) in rows {
            let selection = Selection { only: patterns(only), except: patterns(except) };
            assert_eq!(selection.keeps(&key("a.c:f+1:1:w4")), keeps, "{only:?} {except:?}");
        }
        let mut all = Invariants::default();
        all.sites.insert(key("a.c:f+1:1:w4"), Belonging::default());
        let selection = Selection { only: patterns(&["f"]), except: patterns(&["b.c"]) };
        assert_eq!(selection.idle(&all), [&selection.except[0]]);
    }

    /// Stars by trying every length.
    fn naive_glob(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|from| naive_glob(rest, &text[from..])),
            Some((byte, rest)) => text.first() == Some(byte) && naive_glob(rest, &text[1..]),
        }
    }

    /// An access: thread, site, variable.
    type Access = (u32, u32, u64);

    fn named(site: u32) -> SiteKey {
        key(&format!("s{site}"))
    }

    /// Takes a run and hands each access with what came before it to `see`.
    fn watch(run: &[Access], mut see: impl FnMut(SiteKey, Option<SiteKey>, Option<SiteKey>, bool)) {
        let mut recorder = Recorder::default();
        let name = |site: u32| Some(site).filter(|site| *site != 0).map(named);
        for (thread, site, variable) in run {
            recorder.access(variable * 8, 4, *site, *thread, |before| {
                see(named(*site), name(before.remote), name(before.last), before.own);
            });
        }
    }

    fn learn_run(run: &[Access]) -> Invariants {
        let mut all = Invariants { runs: 1, ..Invariants::default() };
        watch(run, |site, remote, last, own| {
            let site = all.sites.entry(site).or_default();
            site.hits += 1;
            site.touches.extend(last);
            site.add(remote.as_ref(), own);
        });
        all.normalise();
        all
    }

    proptest! {
        #[test]
        fn globs_are_the_naive_ones(pattern in "[ab*]{0,6}", text in "[ab]{0,8}") {
            prop_assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                naive_glob(pattern.as_bytes(), text.as_bytes())
            );
        }

        #[test]
        fn correct_runs_stay_correct(
            runs in vec(vec((0..3_u32, 1..8_u32, 0..4_u64), 0..30), 1..4),
            omitted in proptest::collection::btree_set(1..8_u32, 0..5),
        ) {
            let mut all = Invariants::default();
            runs.iter().for_each(|run| all.merge(&learn_run(run)));
            all.normalise();
            let omitted: BTreeSet<SiteKey> = omitted.into_iter().map(named).collect();
            let keep = |key: &SiteKey| !omitted.contains(key);
            let restricted = restrict(&all, keep);
            let loose = loosened(&all, keep);
            for run in &runs {
                let left: Vec<Access> = run.iter().copied().filter(|(_, site, _)| keep(&named(*site))).collect();
                watch(&left, |site, remote, _, own| {
                    assert!(restricted.sites[&site].allows(remote.as_ref(), own), "{site} after {remote:?} in {left:?}");
                });
            }
            // Nothing that is left out is mentioned, and what need not be loosened is as it was.
            for (key, site) in &restricted.sites {
                prop_assert!(keep(key) && site.members().into_iter().chain(&site.touches).all(keep));
                if !loose.contains(key) {
                    prop_assert_eq!(site.predecessors(), all.sites[key].predecessors());
                }
            }
            // Groups stay together.
            let kept = |group: Group| group.sites.into_iter().filter(keep).collect::<BTreeSet<SiteKey>>();
            let before: Vec<_> = groups(&all).into_iter().map(kept).filter(|sites| !sites.is_empty()).collect();
            let after: Vec<_> = groups(&restricted).into_iter().map(|group| group.sites).collect();
            let sorted = |mut sets: Vec<BTreeSet<SiteKey>>| { sets.sort(); sets };
            prop_assert_eq!(sorted(before), sorted(after));
        }

        #[test]
        fn keeping_everything_changes_nothing(mut all in some_invariants()) {
            all.normalise();
            let named = |all: &Invariants| {
                all.sites.iter().map(|(key, site)| (key.clone(), site.direct.clone(), site.beyond.clone(), site.hits)).collect::<Vec<_>>()
            };
            let kept = restrict(&all, |_| true);
            prop_assert_eq!(named(&kept), named(&all));
            prop_assert_eq!(kept.colours, all.colours);
        }
    }

    #[test]
    fn an_older_access_of_the_same_thread_may_come_forward() {
        // T2 does a and then o; T1 does s. Nothing says that a comes before o: they are of one thread.
        let all = learn_run(&[(2, 1, 0), (2, 2, 0), (1, 3, 0)]);
        assert_eq!(all.sites[&named(3)].members(), [&named(2)].into());
        let restricted = restrict(&all, |key| *key != named(2));
        let (one, three) = (named(1), named(3));
        assert_eq!(restricted.sites[&three].predecessors(), [None, Some(&one), Some(&three)].into());
        assert_eq!(restricted.sites[&one].members(), [].into());
        assert_eq!(loosened(&all, |key| *key != named(2)), BTreeSet::from([named(3)]));
    }
}
