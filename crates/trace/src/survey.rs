//! What survey runs saw: per image and offset, whether a site ran, touched shared memory or was on the
//! stack when something worth recording happened, and how often it ran.
//!
//! Merging is a union of flags and the larger of two counts: commutative and idempotent, so surveys of
//! any runs can be folded in any order, and the same one twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use selvedge_events::HookIx;
use selvedge_events::trace_file::survey as bits;

use crate::model::Process;

/// A build-id: which image, whatever its path.
pub type BuildId = Vec<u8>;

/// What surveys know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    images: BTreeMap<BuildId, SurveyedImage>,
}

/// What surveys know about one image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurveyedImage {
    /// Where it was last seen.
    pub path: PathBuf,
    /// Its sites that ran, by offset.
    pub sites: BTreeMap<u32, Seen>,
}

/// What surveys know about one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which hook it calls.
    pub hook: HookIx,
    /// It touched a location that two threads used, one of them writing.
    pub shared: bool,
    /// Its function was on the stack when something worth recording happened.
    pub on_stack: bool,
    /// How often it ran, in the busiest run.
    pub hits: u32,
}

impl Survey {
    /// No run went on to its end: what was met once may yet have been shared.
    pub fn doubt(&mut self) {
        for seen in self.images.values_mut().flat_map(|image| image.sites.values_mut()) {
            (seen.shared, seen.on_stack) = (true, true);
        }
    }

    /// Adds what one process saw. Modules without a site are kept too: they were loaded.
    pub fn add_process(&mut self, process: &Process) {
        let file = process.file();
        for module in file.modules() {
            self.image(&module.build_id, &module.path);
        }
        file.survey_words(|id, word| {
            let Some(site) = process.site(id) else { return };
            let Some(module) = process.module(site.module) else { return };
            let seen = Seen {
                hook: site.hook,
                shared: word & bits::SHARED != 0,
                on_stack: word & bits::ON_STACK != 0,
                hits: (word & bits::HITS) as u32,
            };
            self.add(&module.build_id, &module.path, site.offset, seen);
        });
    }

    /// Adds what is known about one site.
    pub fn add(&mut self, build_id: &[u8], path: &Path, offset: u32, seen: Seen) {
        let known = self.image(build_id, path).sites.entry(offset).or_insert(seen);
        known.shared |= seen.shared;
        known.on_stack |= seen.on_stack;
        known.hits = known.hits.max(seen.hits);
    }

    /// The entry of an image, made where there is none.
    pub fn image(&mut self, build_id: &[u8], path: &Path) -> &mut SurveyedImage {
        let image = self.images.entry(build_id.to_vec()).or_default();
        // The greater path wins, so that the order of merging does not matter.
        if image.path.as_path() < path {
            image.path = path.to_owned();
        }
        image
    }

    /// Adds what another survey knows.
    pub fn merge(&mut self, other: &Survey) {
        for (build_id, image) in &other.images {
            self.image(build_id, &image.path);
            for (offset, seen) in &image.sites {
                self.add(build_id, &image.path, *offset, *seen);
            }
        }
    }

    /// The images, by build-id.
    pub fn images(&self) -> &BTreeMap<BuildId, SurveyedImage> {
        &self.images
    }

    /// Sites that touched shared memory.
    pub fn shared_sites(&self) -> usize {
        self.images.values().flat_map(|image| image.sites.values()).filter(|seen| seen.shared).count()
    }

    /// Sites that ran.
    pub fn seen_sites(&self) -> usize {
        self.images.values().map(|image| image.sites.len()).sum()
    }
}
