//! Chooses the sites that a recording arms, from what a survey saw.
//!
//! Armed are: accesses, ranges and copies that touched shared memory; atomic operations, because they
//! synchronise; entry and exits of functions that were on the stack of something worth recording, because
//! calling contexts need them (whoever touches memory first does not know yet that it will be shared: such functions, and those
//! that call them, count as having been on the stack); and whatever did not run. What the survey has not seen it cannot judge: another
//! order of the threads may take the other branch, or the other inlined copy of the same line. Such sites
//! cost nothing as long as they do not run. Blocks are not armed.
//!
//! Ids are given to plain accesses first, hottest first: the first 16384 ids have a short form in the
//! trace, which only plain accesses use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use selvedge_events::hooks::{AtomicOp, HookClass};
use selvedge_events::pack::SITE_BITS;
use selvedge_events::plan::POINT_AFTER;
use selvedge_events::site_table::Entry;
use selvedge_image::{
    Functions, Loaded, Origin, Reach, beside_foreign_code, direct_callers, load_or_build, table_bytes,
};
use selvedge_trace::Survey;
use selvedge_trace::survey::{Seen, SurveyedImage};

use crate::plan::ImageSpec;

/// An image's sites, as far as arming needs to know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSites {
    /// Which image.
    pub build_id: Vec<u8>,
    /// Its file.
    pub path: PathBuf,
    /// By ascending offset; the position is the ordinal.
    pub entries: Vec<Entry>,
    /// For every entry, a number that entry and exits of one function share; `None` where it is unknown.
    pub functions: Vec<Option<u32>>,
    /// Ordinals of atomic operations beside code without instrumentation which may synchronise.
    pub foreign: BTreeSet<u32>,
    /// By function: those that call it by its address.
    pub callers: BTreeMap<u32, BTreeSet<u32>>,
    /// How the sites are reached.
    pub reach: Reach,
    /// Whether the file carries a table that fits.
    pub embedded: bool,
}

impl ImageSites {
    /// Reads an image; `None` where it cannot be read, or is no longer the one with this build-id.
    pub fn load(path: &Path, build_id: &[u8]) -> Option<ImageSites> {
        let loaded = load_or_build(path).ok().filter(|loaded| loaded.image.build_id() == build_id)?;
        Some(ImageSites::of(&loaded))
    }

    /// The sites of an image that was read.
    pub fn of(loaded: &Loaded) -> ImageSites {
        let functions = Functions::new(&loaded.image);
        let group = |entry: &Entry| functions.at(u64::from(entry.offset)).map(|function| function.group);
        ImageSites {
            build_id: loaded.image.build_id().to_vec(),
            path: loaded.image.path().to_owned(),
            functions: loaded.entries.iter().map(group).collect(),
            foreign: beside_foreign_code(&loaded.image, &functions, &loaded.entries),
            callers: direct_callers(&loaded.image, &functions),
            entries: loaded.entries.clone(),
            reach: loaded.reach.clone(),
            embedded: loaded.origin == Origin::Embedded,
        }
    }

    /// What a plan must say of the image so that the runtime knows its sites, where the file does not.
    pub fn table_spec(&self) -> Option<ImageSpec> {
        let needed = !self.embedded && !self.entries.is_empty();
        needed.then(|| ImageSpec { build_id: self.build_id.clone(), sites: Vec::new(), table: self.table() })
    }

    fn table(&self) -> Vec<u8> {
        if self.embedded || self.entries.is_empty() {
            Vec::new()
        } else {
            table_bytes(&self.build_id, &self.entries, &self.reach)
        }
    }
}

/// How many sites of which sort a plan arms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Armed {
    /// Accesses, ranges and copies.
    pub accesses: usize,
    /// Atomic operations and fences.
    pub atomics: usize,
    /// Function entries and exits.
    pub functions: usize,
    /// Sites among all these that did not run in the survey.
    pub unseen: usize,
    /// Sites beyond the number of ids, left out.
    pub left_out: usize,
}

/// As [`arm`], for controlled runs: atomic operations beside code without instrumentation have a point after them too.
pub fn arm_controlled(survey: &Survey, images: &[ImageSites]) -> (Vec<ImageSpec>, Armed) {
    let (mut specs, armed) = arm(survey, images);
    for spec in &mut specs {
        let Some(image) = images.iter().find(|image| image.build_id == spec.build_id) else { continue };
        for (_, id) in spec.sites.iter_mut().filter(|(ordinal, _)| image.foreign.contains(ordinal)) {
            *id |= POINT_AFTER;
        }
    }
    (specs, armed)
}

/// Chooses and numbers the sites to arm.
pub fn arm(survey: &Survey, images: &[ImageSites]) -> (Vec<ImageSpec>, Armed) {
    let mut armed = Armed::default();
    // (needs no short id, fewest hits last, image, ordinal)
    let mut chosen = Vec::new();
    for (number, image) in images.iter().enumerate() {
        let nothing = SurveyedImage::default();
        let seen = survey.images().get(&image.build_id).unwrap_or(&nothing);
        let on_stack = on_stack(image, seen);
        // Calls alone say nothing: somebody may have been on the stack at another time.
        let accesses =
            |site: &Seen| !matches!(site.hook.get().map(|hook| hook.class), Some(HookClass::Function { .. }));
        let ran = functions_where(image, seen, accesses);
        for (ordinal, entry) in image.entries.iter().enumerate() {
            let Some(class) = entry.hook.get().map(|hook| hook.class) else { continue };
            let site = seen.sites.get(&entry.offset);
            let shared = site.is_none_or(|site| site.shared);
            let function = image.functions.get(ordinal).copied().flatten();
            let (wanted, count) = match class {
                HookClass::Access { .. } | HookClass::Range { .. } | HookClass::Copy | HookClass::Libc => {
                    (shared, &mut armed.accesses)
                }
                // A signal fence orders nothing between threads.
                HookClass::Atomic { op: AtomicOp::SignalFence, .. } => (false, &mut armed.atomics),
                HookClass::Atomic { .. } => (true, &mut armed.atomics),
                // All hooks of a function, or none: entries and exits must pair.
                HookClass::Function { .. } => {
                    let wanted = match function {
                        Some(function) => on_stack.contains(&function) || !ran.contains(&function),
                        None => site.is_none_or(|site| site.on_stack),
                    };
                    (wanted, &mut armed.functions)
                }
                _ => continue,
            };
            if wanted {
                *count += 1;
                armed.unseen += usize::from(site.is_none());
                let plain = matches!(class, HookClass::Access { .. });
                let hits = site.map_or(0, |site| site.hits);
                chosen.push((!plain, std::cmp::Reverse(hits), number, ordinal));
            }
        }
    }
    chosen.sort_unstable();
    let most = 1 << SITE_BITS;
    armed.left_out = chosen.len().saturating_sub(most);
    chosen.truncate(most);
    let empty =
        |image: &ImageSites| ImageSpec { build_id: image.build_id.clone(), sites: Vec::new(), table: image.table() };
    let mut specs: Vec<ImageSpec> = images.iter().map(empty).collect();
    for (id, (_, _, number, ordinal)) in (0_u32..).zip(chosen) {
        if let (Some(spec), Ok(ordinal)) = (specs.get_mut(number), u32::try_from(ordinal)) {
            spec.sites.push((ordinal, id));
        }
    }
    for spec in &mut specs {
        spec.sites.sort_unstable();
    }
    // An image that carries its table and has nothing armed is disarmed without being mentioned.
    specs.retain(|spec| !spec.sites.is_empty() || !spec.table.is_empty());
    (specs, armed)
}

/// The functions that calling contexts need: those on the stack of something shared, and those that touched it before it was shared, with
/// whoever called them.
fn on_stack(image: &ImageSites, seen: &SurveyedImage) -> BTreeSet<u32> {
    let mut needed = functions_where(image, seen, |site| site.on_stack);
    let mut first: Vec<u32> = functions_where(image, seen, |site| site.shared).into_iter().collect();
    while let Some(function) = first.pop() {
        if needed.insert(function) {
            first.extend(image.callers.get(&function).into_iter().flatten());
        }
    }
    needed
}

/// The functions of an image with a site of which this holds.
fn functions_where(image: &ImageSites, seen: &SurveyedImage, holds: impl Fn(&Seen) -> bool) -> BTreeSet<u32> {
    let entries = image.entries.iter().zip(&image.functions);
    let there = |offset| seen.sites.get(offset).is_some_and(&holds);
    entries.filter(|(entry, _)| there(&entry.offset)).filter_map(|(_, function)| *function).collect()
}

#[cfg(test)]
mod tests {
    use selvedge_events::hooks::by_name;
    use selvedge_events::site_table::Form;

    use super::*;

    /// Sites at offsets 0, 16, 32, … as (hook, function, shared, on stack, hits; `None` where it did not run).
    type Row = (&'static str, Option<u32>, Option<(bool, bool, u32)>);

    fn image(id: u8, rows: &[Row], survey: &mut Survey) -> ImageSites {
        let mut sites = ImageSites { build_id: vec![id; 20], embedded: true, ..ImageSites::default() };
        for (at, (hook, function, seen)) in rows.iter().enumerate() {
            let hook = by_name(hook).expect("a hook");
            let offset = at as u32 * 16;
            let code = [0xe8, 0, 0, 0, 0, 0, 0, 0];
            sites.entries.push(Entry { offset, hook, form: Form::Call, code });
            sites.functions.push(*function);
            if let Some((shared, on_stack, hits)) = *seen {
                survey.add(&[id; 20], Path::new("/p"), offset, Seen { hook, shared, on_stack, hits });
            }
        }
        sites
    }

    #[test]
    fn the_right_sites_are_armed_hottest_first() {
        let mut survey = Survey::default();
        let rows: &[Row] = &[
            ("__tsan_func_entry", Some(1), Some((false, true, 9))),
            ("__tsan_read4", Some(1), Some((true, false, 5))),
            ("__tsan_write4", Some(1), Some((false, false, 50))),
            ("__tsan_write8", Some(1), Some((true, false, 70))),
            ("__tsan_func_exit", Some(1), Some((false, false, 9))),
            ("__tsan_func_entry", Some(2), Some((false, false, 9))),
            ("__tsan_func_exit", Some(2), None),
            ("__tsan_atomic32_load", Some(2), Some((false, false, 3))),
            ("__tsan_atomic32_store", Some(2), None),
            ("__tsan_atomic_thread_fence", Some(2), None),
            ("__sanitizer_cov_trace_pc", Some(1), Some((true, true, 99))),
            ("memcpy", Some(1), Some((true, false, 1000))),
            ("__tsan_read4", None, None),
            ("__tsan_func_entry", Some(3), None),
            ("__tsan_func_exit", Some(3), None),
        ];
        let first = image(1, rows, &mut survey);
        let second = image(2, &[("__tsan_read1", None, Some((true, false, 60)))], &mut survey);
        let (specs, armed) = arm(&survey, &[first, second]);
        assert_eq!(armed, Armed { accesses: 5, atomics: 3, functions: 4, unseen: 5, left_out: 0 });
        let wanted = [(0, 5), (1, 2), (3, 0), (4, 6), (7, 7), (8, 8), (9, 9), (11, 4), (12, 3), (13, 10), (14, 11)];
        assert_eq!(specs[0].sites, wanted);
        assert_eq!(specs[1].sites, [(0, 1)]);
    }

    #[test]
    fn who_touched_memory_before_it_was_shared_is_in_contexts_too() {
        let mut survey = Survey::default();
        let function = |number| ("__tsan_func_entry", Some(number), Some((false, number == 4, 1)));
        let touch = |number, shared| ("__tsan_write4", Some(number), Some((shared, false, 1)));
        // 1 touches what is shared later, 2 calls it, 3 calls nobody, 4 was on the stack and is called by 5, 6 was called, and no more is known.
        let rows =
            [function(1), touch(1, true), function(2), function(3), touch(3, false), function(4), touch(4, true)];
        let others = [function(5), touch(5, false), function(6)];
        let mut sites = image(1, &[&rows[..], &others[..]].concat(), &mut survey);
        sites.callers = BTreeMap::from([(1, BTreeSet::from([2])), (4, BTreeSet::from([5])), (3, BTreeSet::from([1]))]);
        let (specs, _) = arm(&survey, &[sites]);
        let armed: Vec<u32> = specs[0].sites.iter().map(|(ordinal, _)| *ordinal).collect();
        assert_eq!(armed, [0, 1, 2, 5, 6, 9]);
    }

    #[test]
    fn images_without_a_table_get_one_and_quiet_ones_are_left_out() {
        let mut survey = Survey::default();
        let private: &[Row] = &[("__tsan_read4", None, Some((false, false, 1)))];
        let quiet = image(1, private, &mut survey);
        let mut bare = image(2, private, &mut survey);
        bare.embedded = false;
        assert_eq!(quiet.table_spec(), None);
        assert!(bare.table_spec().is_some());
        let (specs, _) = arm(&survey, &[quiet, bare]);
        assert_eq!(specs.len(), 1);
        assert_eq!(specs[0].build_id, [2; 20]);
        let table = selvedge_events::site_table::Table::parse(&specs[0].table).expect("valid");
        assert_eq!(table.len(), 1);
    }
}
