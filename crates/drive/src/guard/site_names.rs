//! What the numbers of a guard mean: a file beside its logs, so that these can be read without anything else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use selvedge_analyze::invariant::SiteKey;
use selvedge_image::lines::is_users_file;
use selvedge_image::{Frame, SiteInfo, SiteList, Symboliser, load_or_build};
use serde::{Deserialize, Serialize};

use crate::guard::compile::Guard;
use crate::guard::keys::Keyed;
use crate::program::{Program, hex};
use crate::store::{StoreError, write_whole};

/// The file, in the directory of the logs.
pub const FILE: &str = "sites.json";

/// Version of the file.
///
/// 1: first.
const VERSION: u32 = 1;

/// What the numbers of a guard mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteNames {
    version: u32,
    /// The guarded program.
    pub program: PathBuf,
    /// Its build-id in hexadecimal.
    pub build_id: String,
    /// The invariants' file.
    pub invariants: PathBuf,
    /// Sites 1, 2, …
    pub sites: Vec<SiteName>,
}

/// A site, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteName {
    /// Its key.
    pub key: String,
    /// The hook that it calls.
    pub hook: String,
    /// The inline stack, innermost first.
    pub frames: Vec<FrameName>,
}

/// A frame of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameName {
    /// The function.
    pub function: String,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

impl SiteNames {
    /// The names of a guard's sites.
    pub fn of(guard: &Guard, images: &[Keyed], program: &Program, invariants: &Path) -> SiteNames {
        let mut found: BTreeMap<(&[u8], u32), SiteInfo> = BTreeMap::new();
        for image in images {
            let id = image.sites.build_id.as_slice();
            let Ok(loaded) = load_or_build(&image.sites.path) else { continue };
            let symboliser = Symboliser::new(&loaded.image);
            let list = SiteList::new(&loaded.entries, &symboliser);
            let spots = guard.sites.iter().filter_map(|site| site.spots.first());
            let here = spots.filter(|(build_id, _)| build_id == id);
            found.extend(here.filter_map(|(_, ordinal)| Some(((id, *ordinal), list.get(*ordinal)?))));
        }
        let name = |site: &crate::guard::compile::Guarded| {
            let spot = site.spots.first().map(|(build_id, ordinal)| (build_id.as_slice(), *ordinal));
            let info = spot.and_then(|spot| found.get(&spot));
            let frame = |frame: &Frame| FrameName {
                function: frame.function.clone(),
                file: frame.file.clone(),
                line: frame.line,
            };
            SiteName {
                key: site.key.0.clone(),
                hook: info.map_or("", |info| info.hook.name).to_owned(),
                frames: info.map(|info| info.frames.iter().map(frame).collect()).unwrap_or_default(),
            }
        };
        let absolute = invariants.canonicalize().unwrap_or_else(|_| invariants.to_owned());
        SiteNames {
            version: VERSION,
            program: program.path.clone(),
            build_id: hex(&program.build_id),
            invariants: absolute,
            sites: guard.sites.iter().map(name).collect(),
        }
    }

    /// Writes the file into a directory.
    pub fn save(&self, dir: &Path) -> Result<(), StoreError> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        write_whole(&dir.join(FILE), &text)
    }

    /// Reads the file of a directory; `None` where there is none that can be read.
    pub fn load(dir: &Path) -> Option<SiteNames> {
        let text = std::fs::read(dir.join(FILE)).ok()?;
        serde_json::from_slice::<SiteNames>(&text).ok().filter(|names| names.version == VERSION)
    }

    /// The name of a site; `None` of nil.
    pub fn get(&self, site: u32) -> Option<&SiteName> {
        self.sites.get((site as usize).checked_sub(1)?)
    }

    /// The key of a site; `None` of nil.
    pub fn key(&self, site: u32) -> Option<SiteKey> {
        self.get(site).map(|name| SiteKey(name.key.clone()))
    }
}

impl SiteName {
    /// Whether it writes, reads or both, in a word.
    pub fn verb(&self) -> &'static str {
        use selvedge_events::hooks::{AtomicOp, HookClass, Rw, by_name};
        let hook = by_name(&self.hook).and_then(|hook| hook.get());
        match hook.map(|hook| hook.class) {
            Some(HookClass::Access { rw: Rw::Read, .. } | HookClass::Range { rw: Rw::Read }) => "read",
            Some(HookClass::Access { rw: Rw::Write, .. } | HookClass::Range { rw: Rw::Write }) => "write",
            Some(HookClass::Access { .. } | HookClass::Range { .. }) => "read and write",
            Some(HookClass::Copy | HookClass::Libc) => "copy",
            Some(HookClass::Atomic { op: AtomicOp::Load, .. }) => "atomic read",
            Some(HookClass::Atomic { op: AtomicOp::Store, .. }) => "atomic write",
            Some(HookClass::Atomic { .. }) => "atomic update",
            _ => "access",
        }
    }

    /// The frame that it is called by: the innermost in a file of the user's own, else the innermost.
    pub fn frame(&self) -> Option<&FrameName> {
        let users = |frame: &&FrameName| frame.line.is_some() && frame.file.as_deref().is_some_and(is_users_file);
        self.frames.iter().find(users).or(self.frames.first())
    }

    /// `FILE:LINE in FUNCTION` without directories, else the key.
    pub fn place(&self) -> String {
        let place = |frame: &FrameName| {
            let name = Path::new(frame.file.as_deref()?).file_name()?.to_string_lossy().into_owned();
            Some(format!("{name}:{} in {}", frame.line?, frame.function))
        };
        self.frame().and_then(place).unwrap_or_else(|| self.key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_are_read_at_a_glance() {
        let site = SiteName {
            key: "bank.c:withdraw+3:12:w4".to_owned(),
            hook: "__tsan_write4".to_owned(),
            frames: [("fetch_add", "/usr/include/c++/12/atomic", 9), ("withdraw", "/src/bank.c", 12)]
                .map(|(function, file, line)| FrameName {
                    function: function.to_owned(),
                    file: Some(file.to_owned()),
                    line: Some(line),
                })
                .into(),
        };
        assert_eq!((site.verb(), site.place().as_str()), ("write", "bank.c:12 in withdraw"));
        let bare = SiteName { key: "?:@4f:w4".to_owned(), ..SiteName::default() };
        assert_eq!((bare.verb(), bare.place().as_str()), ("access", "?:@4f:w4"));
        let names = SiteNames { version: VERSION, sites: vec![site, bare], ..SiteNames::default() };
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(SiteNames::load(dir.path()), None);
        names.save(dir.path()).expect("written");
        assert_eq!(SiteNames::load(dir.path()).as_ref(), Some(&names));
        assert_eq!((names.get(0), names.key(2)), (None, Some(SiteKey("?:@4f:w4".to_owned()))));
    }
}
