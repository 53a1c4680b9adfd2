//! Which sites of a build take part in the atomic sections that a run checks.
//!
//! A section takes part with the sites that it begins at, ends at and is left at, and with the begin of its function: from there on
//! nobody is inside in a frame that is gone. Each way through it, begin and end, is a branch with a number of its own.
//!
//! Sections of the executable only.

use std::collections::BTreeMap;
use std::path::Path;

use selvedge_analyze::sections::assure::Assurance;
use selvedge_analyze::sections::text::SectionFile;
use selvedge_analyze::sections::{self, Kind, Remote, Section};
use selvedge_events::detect::{PART_ONE_FRAME, PART_READS, PART_WRITES, Part, PartKind};
use selvedge_image::{Code, Functions, OpenImageError, load_or_build, site_keys};

use super::watch::WatchedSite;
use crate::arm::ImageSites;
use crate::heal::{Flow, Source, choose};
use crate::plan::ImageSpec;
use crate::sections::read;

/// A way through a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The section: the key of its begin, and its pattern.
    pub section: (String, Kind),
    /// The key of its end.
    pub end: String,
    /// What others may do meanwhile.
    pub allowed: Remote,
}

/// Sections of a build that can be checked.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    image: ImageSites,
    /// By ordinal.
    parts: BTreeMap<u32, Vec<Part>>,
    /// Branches 0, 1, …
    pub branches: Vec<Branch>,
    /// How many sections.
    pub sections: usize,
    /// Sections that were asked for and are not in this build.
    pub missing: usize,
}

impl Checked {
    /// The sections of a file that the image at `path` has.
    pub fn of(path: &Path, file: &SectionFile) -> Result<Checked, OpenImageError> {
        let loaded = load_or_build(path)?;
        let functions = Functions::new(&loaded.image);
        let read = read(&loaded, &Code::new(&loaded, &functions));
        let found = sections::find(&read.program).all;
        let (chosen, missing) = choose(&loaded, &found, &Source::Sections(file.clone()));
        let assurance = Assurance::new(&read.program);
        let flow = Flow { loaded: &loaded, read: &read };
        let keys = site_keys(&loaded);
        let key = |site: u32| keys.get(site as usize).cloned().unwrap_or_default();
        let mut out = Checked { image: ImageSites::of(&loaded), sections: chosen.len(), missing, ..Checked::default() };
        for (number, section) in (0_u32..).zip(&chosen) {
            let one_frame = assurance.is_in_one_function(section);
            let part = |kind, branch, flags| Part { kind, section: number, branch, flags };
            out.put(section.entry, part(PartKind::Enter, 0, forbids(section, one_frame)));
            for end in &section.ends {
                let branch = u32::try_from(out.branches.len()).unwrap_or(u32::MAX);
                let reads = if end.allowed.reads { PART_READS } else { 0 };
                let writes = if end.allowed.writes { PART_WRITES } else { 0 };
                out.put(end.site, part(PartKind::End, branch, reads | writes));
                out.branches.push(Branch {
                    section: (key(section.entry), section.kind),
                    end: key(end.site),
                    allowed: end.allowed,
                });
            }
            for exit in &section.exits {
                if let Some(site) = if exit.leaves { flow.leaves(exit.block) } else { exit.site } {
                    out.put(site, part(PartKind::Leave, 0, 0));
                }
            }
            if let Some(site) = flow.begin_of(section.entry) {
                out.put(site, part(PartKind::Begin, 0, 0));
            }
        }
        Ok(out)
    }

    fn put(&mut self, ordinal: u32, part: Part) {
        let parts = self.parts.entry(ordinal).or_default();
        if !parts.contains(&part) {
            parts.push(part);
        }
    }

    /// Arms sites that are not armed yet, and says what each id is to sections.
    pub fn arm(&self, specs: &mut Vec<ImageSpec>, sites: &mut Vec<WatchedSite>) -> Vec<Vec<Part>> {
        if self.parts.is_empty() {
            return Vec::new();
        }
        let own = |spec: &ImageSpec| spec.build_id == self.image.build_id;
        if !specs.iter().any(own) {
            let table = self.image.table_spec().map(|spec| spec.table).unwrap_or_default();
            specs.push(ImageSpec { build_id: self.image.build_id.clone(), table, ..ImageSpec::default() });
        }
        let mut out = vec![Vec::new(); sites.len()];
        let Some(spec) = specs.iter_mut().find(|spec| own(spec)) else { return out };
        let known: BTreeMap<u32, u32> = spec.sites.iter().copied().collect();
        for (ordinal, parts) in &self.parts {
            let id = known.get(ordinal).copied().unwrap_or_else(|| {
                let id = u32::try_from(sites.len()).unwrap_or(u32::MAX);
                let offset = self.image.entries.get(*ordinal as usize).map_or(0, |entry| entry.offset);
                let (build_id, path) = (self.image.build_id.clone(), self.image.path.clone());
                sites.push(WatchedSite { build_id, path, offset, hits: 0 });
                spec.sites.push((*ordinal, id));
                out.push(Vec::new());
                id
            });
            if let Some(room) = out.get_mut(id as usize) {
                room.clone_from(parts);
            }
        }
        spec.sites.sort_unstable();
        out
    }
}

/// What others may not do, whatever the end.
fn forbids(section: &Section, one_frame: bool) -> u32 {
    let any = |forbidden: fn(Remote) -> bool| section.ends.iter().any(|end| forbidden(end.allowed));
    let reads = if any(|allowed| !allowed.reads) { PART_READS } else { 0 };
    let writes = if any(|allowed| !allowed.writes) { PART_WRITES } else { 0 };
    reads | writes | if one_frame { PART_ONE_FRAME } else { 0 }
}
