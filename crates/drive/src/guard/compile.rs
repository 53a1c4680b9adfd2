//! From invariants and a build to a guard: which sites are guarded, their numbers, and what belongs before each.
//!
//! A number stands for a key: sites with the same key, such as copies of one inlined line, are one. Sites of a group
//! have numbers in a row, so that a belonging set is a short run of bits. A guard comes in two forms. *Alone*, nothing else is
//! armed, and armed ids are site numbers. *Beside others*, sites are armed for the schedule or the recording, and the table
//! maps their ids.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use selvedge_analyze::invariant::group::groups;
use selvedge_analyze::invariant::{Colour, Invariants, SiteKey};
use selvedge_events::guard::{self as layout, Table};
use selvedge_events::plan::{Intervene, POINT_AFTER, Plan};

use crate::guard::keys::Keyed;
use crate::guard::table::{RowSpec, TableSpec};
use crate::plan::ImageSpec;

/// What a guard does about a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Stalls whoever is about to make it.
    #[default]
    Guard,
    /// Notes it.
    Watch,
}

/// How to guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardHow {
    /// What is done about a violation.
    pub mode: Mode,
    /// Most time that a thread stalls.
    pub stall: Duration,
}

impl Default for GuardHow {
    fn default() -> GuardHow {
        GuardHow { mode: Mode::Guard, stall: Duration::from_nanos(layout::DEFAULT_STALL_NS) }
    }
}

/// Where a guarded site is: build-id of the image, and ordinal.
pub type Spot = (Vec<u8>, u32);

/// A site with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// Its key; empty where a plan says no more than where it is.
    pub key: SiteKey,
    /// Where it is.
    pub spots: Vec<Spot>,
}

/// A guard for one build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Rows, shifts and flags; no ids.
    table: TableSpec,
    /// Sites 1, 2, …
    pub sites: Vec<Guarded>,
    /// How the invariants fit the build.
    pub fit: Fit,
}

/// How invariants fit a build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// Sites that the invariants speak of.
    pub wanted: usize,
    /// Those that the build does not have.
    pub missing: Vec<SiteKey>,
    /// Sites of the build that the invariants do not speak of.
    pub unknown: usize,
    /// Sites that are guarded, but not armed beside others.
    pub unarmed: usize,
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// More names than this are no help.
        const NAMED: usize = 4;
        write!(f, "fits: {} of {} sites", self.wanted - self.missing.len(), self.wanted)?;
        if !self.missing.is_empty() {
            let names: Vec<&str> = self.missing.iter().take(NAMED).map(|key| key.0.as_str()).collect();
            let more = if self.missing.len() > NAMED { ", …" } else { "" };
            let are = if self.missing.len() == 1 { "is" } else { "are" };
            write!(f, "; {} {are} not in this build: {}{more}", self.missing.len(), names.join(", "))?;
        }
        if self.unarmed > 0 {
            write!(f, "; {} touched nothing shared in the survey and are not guarded here", self.unarmed)?;
        }
        Ok(())
    }
}

/// Why there is no guard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// They know no site.
    #[error("the invariants have no sites: no run was learnt from; make some with `selvedge train -n 20 -- PROGRAM`")]
    Empty,
    /// They are another program's.
    #[error(
        "none of the {sites} sites of the invariants is in this program: they were learnt from `{program}`; \
         learn them from this one with `selvedge train -n 20 -- PROGRAM`"
    )]
    Foreign {
        /// How many sites they know.
        sites: usize,
        /// Whose they are.
        program: String,
    },
    /// A plan without a guard.
    #[error("the plan has no guard in it")]
    NoGuard,
    /// A plan that cannot be read.
    #[error("the plan cannot be read: {0}")]
    Plan(String),
}

impl Guard {
    /// The guard of these invariants, for these images.
    pub fn of(invariants: &Invariants, images: &[Keyed], how: &GuardHow) -> Result<Guard, CompileError> {
        if invariants.sites.is_empty() {
            return Err(CompileError::Empty);
        }
        let spots = spots(images);
        let here = |key: &&SiteKey| spots.contains_key(*key);
        let grouped: Vec<SiteKey> = groups(invariants).into_iter().flat_map(|group| group.sites).collect();
        let mut numbers: BTreeMap<&SiteKey, u32> = BTreeMap::new();
        let mut sites = Vec::new();
        for (number, key) in (1..).zip(grouped.iter().filter(here)) {
            numbers.insert(key, number);
            sites.push(Guarded { key: key.clone(), spots: spots.get(key).cloned().unwrap_or_default() });
        }
        if sites.is_empty() {
            return Err(CompileError::Foreign { sites: invariants.sites.len(), program: invariants.program.clone() });
        }
        let row = |site: &Guarded| match invariants.sites.get(&site.key) {
            Some(known) if !known.unsettled => {
                let number = |one: &Option<SiteKey>| one.as_ref().map_or(Some(0), |key| numbers.get(key).copied());
                let direct = known.direct.iter().filter_map(number).map(|one| (one, false));
                let beyond = known.beyond.iter().filter_map(number).map(|one| (one, true));
                RowSpec { members: direct.chain(beyond).collect() }
            }
            // It was met before others, never looked at itself, or its set is not whole: nothing is known to be wrong.
            _ => RowSpec::of(numbers.values().copied().chain([0])),
        };
        let rows = sites.iter().map(row).collect();
        let flags = if how.mode == Mode::Watch { layout::FLAG_WATCH } else { 0 };
        let missing: Vec<SiteKey> = invariants.sites.keys().filter(|key| !here(key)).cloned().collect();
        let fit = Fit {
            wanted: invariants.sites.len(),
            missing,
            unknown: spots.keys().filter(|key| !invariants.sites.contains_key(**key)).count(),
            unarmed: 0,
        };
        let stall_ns = u64::try_from(how.stall.as_nanos()).unwrap_or(u64::MAX);
        let shifts = shifts(&sites, &invariants.colours);
        let entries = entries(invariants, images, &numbers);
        Ok(Guard { table: TableSpec { stall_ns, flags, rows, ids: Vec::new(), shifts, entries }, sites, fit })
    }

    /// A guard that learns: every armed site that touches memory and is wanted has a number and no row.
    pub fn learning(
        images: &[Keyed],
        armed: &[ImageSpec],
        colours: &BTreeSet<Colour>,
        wanted: &dyn Fn(&SiteKey) -> bool,
    ) -> Guard {
        let mut sites: BTreeMap<&SiteKey, Vec<Spot>> = BTreeMap::new();
        for image in images {
            let Some(spec) = armed.iter().find(|spec| spec.build_id == image.sites.build_id) else { continue };
            let ordinals: BTreeSet<u32> = spec.sites.iter().map(|(ordinal, _)| *ordinal).collect();
            for (ordinal, key) in image.guardable().filter(|(at, key)| ordinals.contains(at) && wanted(key)) {
                sites.entry(key).or_default().push((spec.build_id.clone(), ordinal));
            }
        }
        let sites: Vec<Guarded> = sites.into_iter().map(|(key, spots)| Guarded { key: key.clone(), spots }).collect();
        let rows = vec![RowSpec::default(); sites.len()];
        let shifts = shifts(&sites, colours);
        let table = TableSpec { flags: layout::FLAG_LEARN, rows, shifts, ..TableSpec::default() };
        let fit = Fit { wanted: sites.len(), ..Fit::default() };
        Guard { table, sites, fit }
    }

    /// The guard that a plan has.
    pub fn in_plan(bytes: &[u8]) -> Result<Guard, CompileError> {
        let plan = Plan::parse(bytes).map_err(|error| CompileError::Plan(error.to_string()))?;
        let payload = plan.interventions().find(|(kind, _)| *kind == Intervene::Guard);
        let (_, payload) = payload.ok_or(CompileError::NoGuard)?;
        let table = Table::parse(payload).map_err(|error| CompileError::Plan(error.to_string()))?;
        let nameless = Guarded { key: SiteKey(String::new()), spots: Vec::new() };
        let mut sites = vec![nameless; table.sites as usize];
        for image in plan.images() {
            for (ordinal, id) in image.sites() {
                let number = (table.site_of(id.0 & !POINT_AFTER) as usize).checked_sub(1);
                if let Some(site) = number.and_then(|number| sites.get_mut(number)) {
                    site.spots.push((image.build_id.to_vec(), ordinal));
                }
            }
        }
        let fit = Fit { wanted: sites.len(), ..Fit::default() };
        Ok(Guard { table: TableSpec::of(&table), sites, fit })
    }

    /// Most time that a thread stalls.
    pub fn stall(&self) -> Duration {
        Duration::from_nanos(self.table.stall_ns)
    }

    /// Alone: the table, and the sites that it arms.
    pub fn alone(&self, images: &[Keyed]) -> (TableSpec, Vec<ImageSpec>) {
        let mut specs: Vec<ImageSpec> = Vec::new();
        for image in images {
            let table = image.sites.table_spec().map(|spec| spec.table).unwrap_or_default();
            let mut spec = ImageSpec { build_id: image.sites.build_id.clone(), sites: Vec::new(), table };
            for (number, site) in (1_u32..).zip(&self.sites) {
                let here = site.spots.iter().filter(|(build_id, _)| *build_id == spec.build_id);
                spec.sites.extend(here.map(|(_, ordinal)| (*ordinal, number)));
            }
            spec.sites.sort_unstable();
            if !spec.sites.is_empty() || !spec.table.is_empty() {
                specs.push(spec);
            }
        }
        (self.table.clone(), specs)
    }

    /// Beside others: the table with the ids of sites that are armed already, and how many sites are not among them.
    pub fn beside(&self, armed: &[ImageSpec]) -> (TableSpec, usize) {
        let mut numbers: BTreeMap<(&[u8], u32), u32> = BTreeMap::new();
        for (number, site) in (1_u32..).zip(&self.sites) {
            numbers.extend(site.spots.iter().map(|(build_id, ordinal)| ((build_id.as_slice(), *ordinal), number)));
        }
        let all = || armed.iter().flat_map(|spec| spec.sites.iter().map(|site| (spec.build_id.as_slice(), site)));
        let most = all().map(|(_, (_, id))| id & !POINT_AFTER).max().map_or(0, |id| id as usize + 1);
        // Without any id, armed ids would be taken for site numbers.
        let mut ids = vec![0_u32; most.max(1)];
        let mut met = BTreeSet::new();
        for (build_id, (ordinal, id)) in all() {
            let number = numbers.get(&(build_id, *ordinal)).copied();
            if let (Some(number), Some(slot)) = (number, ids.get_mut((id & !POINT_AFTER) as usize)) {
                *slot = number;
                met.insert(number);
            }
        }
        (TableSpec { ids, ..self.table.clone() }, self.sites.len() - met.len())
    }
}

/// Where each key is that can be guarded.
fn spots(images: &[Keyed]) -> BTreeMap<&SiteKey, Vec<Spot>> {
    let mut spots: BTreeMap<&SiteKey, Vec<Spot>> = BTreeMap::new();
    for image in images {
        for (ordinal, key) in image.guardable() {
            spots.entry(key).or_default().push((image.sites.build_id.clone(), ordinal));
        }
    }
    spots
}

/// What critical sections of the executable do first: what always comes, where that is known.
fn entries(invariants: &Invariants, images: &[Keyed], numbers: &BTreeMap<&SiteKey, u32>) -> Vec<(u32, u32, i64)> {
    let mut entries = Vec::new();
    for lock in images.iter().flat_map(|image| &image.locks) {
        let Some(section) = invariants.sections.get(&SiteKey(lock.key.clone())) else { continue };
        let first = section.certain().filter_map(|(key, distance)| Some((*numbers.get(key)?, distance)));
        entries.extend(first.map(|(site, distance)| (lock.returns, site, distance)));
    }
    entries.sort_unstable();
    entries
}

/// The shift of every site; none where no site has one.
fn shifts(sites: &[Guarded], colours: &BTreeSet<Colour>) -> Vec<Option<i32>> {
    let shift = |site: &Guarded| colours.iter().find_map(|colour| colour.sites.get(&site.key)).copied();
    let shifts: Vec<Option<i32>> = sites.iter().map(shift).collect();
    if shifts.iter().all(Option::is_none) { Vec::new() } else { shifts }
}

#[cfg(test)]
mod tests {
    use selvedge_analyze::invariant::Belonging;
    use selvedge_events::HookIx;
    use selvedge_events::hooks::by_name;
    use selvedge_events::plan::Observe;
    use selvedge_events::site_table::{Entry, Form};

    use super::*;
    use crate::arm::ImageSites;
    use crate::guard::keys::mark_asked;
    use crate::plan::PlanSpec;

    fn key(name: &str) -> SiteKey {
        SiteKey(name.to_owned())
    }

    fn image(id: u8, sites: &[(&str, &str)]) -> Keyed {
        let entry = |(at, (hook, _)): (usize, &(&str, &str))| Entry {
            offset: at as u32 * 16,
            hook: by_name(hook).unwrap_or(HookIx(0)),
            form: Form::Call,
            code: [0xe8, 0, 0, 0, 0, 0, 0, 0],
        };
        Keyed {
            sites: ImageSites {
                build_id: vec![id; 20],
                entries: sites.iter().enumerate().map(entry).collect(),
                embedded: true,
                ..ImageSites::default()
            },
            keys: sites.iter().map(|(_, name)| key(name)).collect(),
            locks: Vec::new(),
            asked: BTreeSet::from([1]),
        }
    }

    fn images() -> Vec<Keyed> {
        let first = [
            ("__tsan_func_entry", "f"),
            ("__tsan_write4", "a"),
            ("__tsan_read4", "b"),
            ("__tsan_read4", "new"),
            ("__tsan_read4", "b"),
        ];
        vec![image(1, &first), image(2, &[("__tsan_atomic32_load", "c"), ("__tsan_atomic_thread_fence", "fence")])]
    }

    /// Two groups: `a` may come first and after `c`, `c` after `a`; `b` after itself and what is gone.
    fn invariants() -> Invariants {
        let belonging = |nil: bool, members: &[&str]| {
            Belonging::of(nil.then_some(None).into_iter().chain(members.iter().map(|name| Some(key(name)))))
        };
        let sites = [
            ("a", belonging(true, &["c"])),
            ("b", belonging(false, &["b", "gone"])),
            ("c", belonging(false, &["a"])),
            ("gone", belonging(true, &["b"])),
        ];
        let colour = Colour { name: "x, y".to_owned(), sites: [(key("b"), -4), (key("gone"), 8)].into() };
        Invariants {
            hooks: BTreeMap::new(),
            program: "prog".to_owned(),
            runs: 1,
            time: 0,
            sites: sites.map(|(name, belonging)| (key(name), belonging)).into(),
            colours: [colour].into(),
            sections: BTreeMap::new(),
        }
    }

    fn guard() -> Guard {
        Guard::of(&invariants(), &images(), &GuardHow::default()).expect("fits")
    }

    #[test]
    fn groups_are_numbered_in_a_row_and_rows_name_what_is_there() {
        let guard = guard();
        let names: Vec<&str> = guard.sites.iter().map(|site| site.key.0.as_str()).collect();
        assert_eq!(names, ["a", "c", "b"]);
        let row = |members: &[u32]| RowSpec::of(members.iter().copied());
        assert_eq!(guard.table.rows, [row(&[0, 2]), row(&[1]), row(&[3])]);
        assert_eq!(guard.table.shifts, [None, None, Some(-4)]);
        assert_eq!((guard.table.flags, guard.stall()), (0, Duration::from_millis(10)));
        let text = guard.fit.to_string();
        assert_eq!(text, "fits: 3 of 4 sites; 1 is not in this build: gone");
        assert_eq!(guard.fit.unknown, 1, "neither hooks of functions nor fences can be guarded");
    }

    #[test]
    fn alone_ids_are_numbers_and_beside_others_they_are_mapped() {
        let guard = guard();
        let (table, specs) = guard.alone(&images());
        assert!(table.ids.is_empty());
        assert_eq!(
            specs.iter().map(|spec| spec.sites.as_slice()).collect::<Vec<_>>(),
            [&[(1, 1), (2, 3), (4, 3)][..], &[(0, 2)]]
        );
        let spec = |id: u8, sites: &[(u32, u32)]| ImageSpec {
            build_id: vec![id; 20],
            sites: sites.to_vec(),
            table: Vec::new(),
        };
        // The first image's `b` is armed once, its `a` not at all.
        let armed = [spec(1, &[(0, 5), (3, 2), (4, 0)]), spec(2, &[(0, 3 | POINT_AFTER)])];
        let (table, unarmed) = guard.beside(&armed);
        assert_eq!((table.ids, unarmed), (vec![3, 0, 0, 2, 0, 0], 1));
        assert_eq!(guard.beside(&[]).0.ids, [0]);
    }

    #[test]
    fn a_plan_gives_its_guard_back() {
        let guard = guard();
        let (table, specs) = guard.alone(&images());
        let mut plan = PlanSpec::new(Observe::Nothing, std::path::Path::new("/x"));
        plan.interventions = vec![(Intervene::Guard, table.to_bytes().expect("small"))];
        plan.images = specs;
        let again = Guard::in_plan(&plan.to_bytes().expect("small")).expect("a guard");
        assert_eq!(again.table, guard.table);
        let spots = |guard: &Guard| -> Vec<Vec<Spot>> { guard.sites.iter().map(|site| site.spots.clone()).collect() };
        assert_eq!(spots(&again), spots(&guard));
        plan.interventions.clear();
        assert_eq!(Guard::in_plan(&plan.to_bytes().expect("small")), Err(CompileError::NoGuard));
        assert!(matches!(Guard::in_plan(b"SLVPLAN1"), Err(CompileError::Plan(_))));
    }

    #[test]
    fn whoever_learns_numbers_what_is_armed() {
        let armed = [ImageSpec { build_id: vec![1; 20], sites: vec![(0, 0), (1, 1), (2, 2), (4, 3)], table: vec![] }];
        let guard = Guard::learning(&images(), &armed, &invariants().colours, &|_| true);
        let names: Vec<&str> = guard.sites.iter().map(|site| site.key.0.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!((guard.table.flags, guard.table.shifts.as_slice()), (layout::FLAG_LEARN, &[None, Some(-4)][..]));
        assert_eq!(guard.beside(&armed).0.ids, [0, 1, 2, 2]);
    }

    #[test]
    fn what_the_source_asks_for_is_taken_in() {
        let mut all = invariants();
        mark_asked(&mut all, &images());
        let asked: Vec<&str> = all.sites.iter().filter(|(_, site)| site.asked).map(|(key, _)| key.0.as_str()).collect();
        assert_eq!(asked, ["a"], "fences and sites that never ran are not guarded");
    }

    #[test]
    fn foreign_and_empty_invariants_are_refused() {
        let mut foreign = invariants();
        foreign.sites = [(key("elsewhere"), Belonging::default())].into();
        let error = Guard::of(&foreign, &images(), &GuardHow::default()).expect_err("nothing fits");
        assert!(error.to_string().contains("learnt from `prog`"), "{error}");
        foreign.sites.clear();
        assert_eq!(Guard::of(&foreign, &images(), &GuardHow::default()), Err(CompileError::Empty));
    }
}
