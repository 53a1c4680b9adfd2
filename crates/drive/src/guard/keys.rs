//! The sites of a build by name: images with the keys of their sites, and which images a program loads.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use selvedge_analyze::invariant::{Invariants, SiteKey};
use selvedge_events::hooks::{AtomicOp, HookClass};
use selvedge_image::{Image, LockCall, load_or_build, lock_calls, marked_sites, read_table, site_keys};

use crate::arm::ImageSites;
use crate::program::Program;

/// An image's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// Which build.
    pub build_id: Vec<u8>,
    /// Where it is.
    pub path: PathBuf,
}

/// An image with the keys of its sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyed {
    /// The image.
    pub sites: ImageSites,
    /// The key of every site, by ordinal.
    pub keys: Vec<SiteKey>,
    /// Ordinals of sites that the source asks to be guarded.
    pub asked: BTreeSet<u32>,
    /// The calls of an executable that take locks.
    pub locks: Vec<LockCall>,
}

impl Keyed {
    /// Reads an image; `None` where it cannot be read, or is another build.
    pub fn load(file: &ImageFile) -> Option<Keyed> {
        let loaded = load_or_build(&file.path).ok().filter(|loaded| loaded.image.build_id() == file.build_id)?;
        let keys = site_keys(&loaded).into_iter().map(SiteKey).collect();
        let locks = lock_calls(&loaded.image);
        Some(Keyed { sites: ImageSites::of(&loaded), keys, asked: marked_sites(&loaded), locks })
    }

    /// Reads several, without those that cannot be read.
    pub fn load_all(files: &[ImageFile]) -> Vec<Keyed> {
        files.iter().filter_map(Keyed::load).collect()
    }

    /// Ordinals and keys of the sites that can be guarded: those that touch memory.
    pub fn guardable(&self) -> impl Iterator<Item = (u32, &SiteKey)> {
        let touches = |class: HookClass| match class {
            HookClass::Access { .. } | HookClass::Range { .. } | HookClass::Copy | HookClass::Libc => true,
            HookClass::Atomic { op, .. } => !matches!(op, AtomicOp::SignalFence | AtomicOp::ThreadFence),
            _ => false,
        };
        let all = (0_u32..).zip(self.sites.entries.iter().zip(&self.keys));
        let wanted = move |(ordinal, (entry, key)): (u32, (&selvedge_events::site_table::Entry, _))| {
            entry.hook.get().filter(|hook| touches(hook.class)).map(|_| (ordinal, key))
        };
        all.filter_map(wanted)
    }
}

impl From<&ImageSites> for ImageFile {
    fn from(image: &ImageSites) -> ImageFile {
        ImageFile { build_id: image.build_id.clone(), path: image.path.clone() }
    }
}

/// Takes in what the source of these images asks to be guarded.
pub fn mark_asked(invariants: &mut Invariants, images: &[Keyed]) {
    for image in images {
        for (_, key) in image.guardable().filter(|(ordinal, _)| image.asked.contains(ordinal)) {
            if let Some(site) = invariants.sites.get_mut(key) {
                site.asked = true;
            }
        }
    }
}

/// A program and the instrumented libraries that it is linked with. Libraries that it loads later are not known here.
pub fn images_of(program: &Program) -> Vec<ImageFile> {
    let own = ImageFile { build_id: program.build_id.clone(), path: program.path.clone() };
    let linked = linked_with(&program.path).into_iter().filter_map(|path| {
        let image = Image::open(&path).ok()?;
        let instrumented = read_table(&image).is_some_and(|table| table.is_ok());
        instrumented.then(|| ImageFile { build_id: image.build_id().to_vec(), path })
    });
    std::iter::once(own).chain(linked).collect()
}

/// The libraries that the loader would load for a program, which does not run.
fn linked_with(program: &Path) -> Vec<PathBuf> {
    const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
    let mut list = Command::new(LOADER);
    list.arg("--list").arg(program).env_remove(selvedge_events::plan::ENV);
    let Ok(output) = list.stdin(Stdio::null()).stderr(Stdio::null()).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(library).collect()
}

/// The file in a line such as `libx.so => /usr/lib/libx.so (0x00007f…)`.
fn library(line: &str) -> Option<PathBuf> {
    let (_, found) = line.split_once(" => ")?;
    let (path, _) = found.rsplit_once(" (0x")?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_the_loaders_list() {
        let lines = [
            ("\tlinux-vdso.so.1 (0x00007fff)", None),
            ("\tlibx.so => /usr/l ib/libx.so (0x00007f12)", Some("/usr/l ib/libx.so")),
            ("\tliby.so => not found", None),
            ("\t/lib64/ld-linux-x86-64.so.2 (0x00007f12)", None),
        ];
        for (line, path) in lines {
            assert_eq!(library(line), path.map(PathBuf::from), "{line}");
        }
        let here = Program::find("sh".as_ref(), "/usr/bin:/bin".as_ref()).expect("a shell");
        assert!(linked_with(&here.path).iter().any(|path| path.to_string_lossy().contains("libc.so")));
        // None of its libraries is instrumented.
        assert_eq!(images_of(&here).len(), 1);
    }
}
