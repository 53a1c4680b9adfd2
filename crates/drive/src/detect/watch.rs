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

/// The sites to watch, numbered from 0, hottest first.
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
                let site =
                    WatchedSite { build_id: image.build_id.clone(), path: image.path.clone(), offset: entry.offset };
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
