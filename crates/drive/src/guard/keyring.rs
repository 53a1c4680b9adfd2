//! Keys of places in recorded runs.

use std::collections::BTreeMap;

use selvedge_analyze::invariant::SiteKey;
use selvedge_trace::{Place, Process};

use crate::guard::keys::{ImageFile, Keyed};

/// The images of recorded runs, read when first asked about.
#[derive(Debug, Default)]
pub struct Keyring(BTreeMap<Vec<u8>, Option<BTreeMap<u32, SiteKey>>>);

impl Keyring {
    /// The key of a place, where that is a site which can be guarded and its image is still there.
    pub fn key(&mut self, process: &Process, place: Place) -> Option<SiteKey> {
        let (module, offset) = process.code(place)?;
        if !self.0.contains_key(&module.build_id) {
            let file = ImageFile { build_id: module.build_id.clone(), path: module.path.clone() };
            self.0.insert(file.build_id.clone(), Keyed::load(&file).as_ref().map(by_offset));
        }
        self.0.get(&module.build_id)?.as_ref()?.get(&offset).cloned()
    }

    /// Whether no image that was asked about could be read.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(Option::is_none)
    }
}

fn by_offset(image: &Keyed) -> BTreeMap<u32, SiteKey> {
    let offset = |ordinal: u32| image.sites.entries.get(ordinal as usize).map(|entry| entry.offset);
    image.guardable().filter_map(|(ordinal, key)| Some((offset(ordinal)?, key.clone()))).collect()
}
