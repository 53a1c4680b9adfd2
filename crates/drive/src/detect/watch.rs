//! Chooses the sites that a detecting run watches: those that a recording would arm, without calling contexts, and without
//! atomic operations unless they are asked for.

use std::path::PathBuf;

use selvedge_events::hooks::{AtomicOp, Flavour, HookClass};
use selvedge_events::plan::POINT_AFTER;

use crate::plan::ImageSpec;
use crate::survey::Surveyed;

/// A watched site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedSite {
    /// Its image's build-id.
    pub build_id: Vec<u8>,
    /// Its image's file.
    pub path: PathBuf,
    /// Where it is.
    pub offset: u32,
    /// How often it ran in a survey run.
    pub hits: u32,
}

/// What to leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Atomic operations.
    pub atomics: bool,
    /// `volatile` accesses.
    pub volatile: bool,
}

impl Wanted {
    fn wants(self, class: HookClass) -> bool {
        match class {
            HookClass::Access { flavour: Flavour::Volatile | Flavour::UnalignedVolatile, .. } => self.volatile,
            HookClass::Access { .. } | HookClass::Range { .. } | HookClass::Copy | HookClass::Libc => true,
            HookClass::Atomic { op: AtomicOp::ThreadFence | AtomicOp::SignalFence, .. } => false,
            HookClass::Atomic { .. } => self.atomics,
            _ => false,
        }
    }
}

/// The sites to watch, numbered from 0: plain accesses first, and of these the hottest.
pub fn watched(surveyed: &Surveyed, wanted: Wanted) -> (Vec<ImageSpec>, Vec<WatchedSite>) {
    let (mut specs, _) = surveyed.arm();
    // (id of the recording, image, ordinal)
    let mut chosen = Vec::new();
    for (number, spec) in specs.iter().enumerate() {
        let Some(image) = surveyed.images.iter().find(|image| image.build_id == spec.build_id) else { continue };
        for (ordinal, id) in &spec.sites {
            let entry = image.entries.get(*ordinal as usize);
            let class = entry.and_then(|entry| entry.hook.get()).map(|hook| hook.class);
            if let (Some(entry), true) = (entry, class.is_some_and(|class| wanted.wants(class))) {
                let seen = surveyed.survey.images().get(&image.build_id);
                let hits = seen.and_then(|seen| seen.sites.get(&entry.offset)).map_or(0, |site| site.hits);
                let (build_id, path) = (image.build_id.clone(), image.path.clone());
                let site = WatchedSite { build_id, path, offset: entry.offset, hits };
                chosen.push((*id & !POINT_AFTER, number, *ordinal, site));
            }
        }
    }
    chosen.sort_by_key(|(id, ..)| *id);
    for spec in &mut specs {
        spec.sites.clear();
    }
    let mut sites = Vec::new();
    for (id, (_, number, ordinal, site)) in (0_u32..).zip(chosen) {
        if let Some(spec) = specs.get_mut(number) {
            spec.sites.push((ordinal, id));
            sites.push(site);
        }
    }
    for spec in &mut specs {
        spec.sites.sort_unstable();
    }
    specs.retain(|spec| !spec.sites.is_empty() || !spec.table.is_empty());
    (specs, sites)
}

/// Accesses in a run, watched or not, below which no check can be felt.
const FELT: u64 = 2_000_000;
/// Budgets above this are kept by the runtime alone: a run has time enough to find out what is hot.
pub const SMALL_BUDGET: u32 = 100_000;
/// Most sites that begin switched off.
const MOST_OFF: usize = 128;

/// How many of the watched sites, which are numbered hottest first, are to begin switched off so that checks alone take less than half of a
/// budget of so many millionths. `all`: accesses in a survey run, watched or not.
///
/// How long a run takes is not known. A program that does nothing but access memory takes about half as long for an access as a check does; one
/// that does other things too takes longer, and the runtime then finds that there is room and switches sites on.
pub fn begin_off(all: u64, sites: &[WatchedSite], budget: Option<u32>) -> u32 {
    let Some(budget) = budget.filter(|budget| *budget <= SMALL_BUDGET && all > FELT) else { return 0 };
    let allowed = u128::from(all) * u128::from(budget) / 2 / 2 / 1_000_000;
    let mut left: u128 = sites.iter().map(|site| u128::from(site.hits)).sum();
    let mut off = 0;
    // In order of heat: where one is hotter than the one before it, accesses of another sort begin, which are not switched.
    let falling =
        sites.windows(2).position(|two| matches!(two, [a, b] if a.hits < b.hits)).map_or(sites.len(), |at| at + 1);
    for site in sites.iter().take(falling.min(MOST_OFF)) {
        if left <= allowed {
            break;
        }
        left -= u128::from(site.hits);
        off += 1;
    }
    off
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_begin_switched_off_until_the_rest_is_within_the_budget() {
        let sites = |hits: &[u32]| -> Vec<WatchedSite> {
            let site = |hits: &u32| WatchedSite { build_id: Vec::new(), path: PathBuf::new(), offset: 0, hits: *hits };
            hits.iter().map(site).collect()
        };
        const MILLION: u64 = 1_000_000;
        // 5 % of 100 million accesses: checks of 1.25 million.
        let rows: [(u64, &[u32], Option<u32>, u32); 8] = [
            (100 * MILLION, &[9_000_000, 2_000_000, 1_000_000, 250_000], Some(50_000), 2),
            (100 * MILLION, &[9_000_000, 2_000_000, 1_000_000, 250_001], Some(50_000), 3),
            (100 * MILLION, &[9_000_000, 2_000_000], None, 0),
            (100 * MILLION, &[9_000_000, 2_000_000], Some(250_000), 0),
            (100 * MILLION, &[1_250_000], Some(50_000), 0),
            (2 * MILLION, &[2_000_000], Some(50_000), 0),
            // Others are not switched, however hot they are.
            (100 * MILLION, &[3_000_000, 10, 9_000_000], Some(50_000), 2),
            (100 * MILLION, &[], Some(50_000), 0),
        ];
        for (all, hits, budget, expected) in rows {
            assert_eq!(begin_off(all, &sites(hits), budget), expected, "{all} {hits:?} {budget:?}");
        }
        assert_eq!(begin_off(u64::MAX, &sites(&[u32::MAX; 300]), Some(0)), 128);
    }
}
