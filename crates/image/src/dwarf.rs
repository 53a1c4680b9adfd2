//! The debug information of an image, loaded once and shared by lines and variables.
//!
//! Sections may be plain or compressed (zlib, zstd, the older `.zdebug`). Units whose bulk was split
//! off are looked up in `<image>.dwp`, then at the path that the skeleton names, then beside the
//! image; only on the local disk. What cannot be loaded is counted, not guessed.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use gimli::{EndianArcSlice, LittleEndian, SectionId};

use crate::elf::Elf;

pub(crate) type Reader = EndianArcSlice<LittleEndian>;
pub(crate) type Dwarf = gimli::Dwarf<Reader>;
pub(crate) type Unit = gimli::Unit<Reader>;

/// The debug information of one image.
#[derive(Debug)]
pub(crate) struct DebugInfo {
    pub(crate) dwarf: Arc<Dwarf>,
    /// Debug sections that are there but cannot be unpacked.
    pub(crate) unreadable: u32,
    path: PathBuf,
    package: OnceLock<Option<gimli::DwarfPackage<Reader>>>,
}

impl DebugInfo {
    pub(crate) fn load(bytes: &[u8], elf: &Elf, path: &Path) -> DebugInfo {
        let mut unreadable = 0;
        let dwarf = load(|id| section(bytes, elf, id.name(), &mut unreadable));
        DebugInfo { dwarf: Arc::new(dwarf), unreadable, path: path.to_owned(), package: OnceLock::new() }
    }

    /// The other half of a skeleton unit.
    pub(crate) fn load_split(
        &self,
        id: gimli::DwoId,
        directory: Option<&Reader>,
        name: Option<&Reader>,
    ) -> Option<Arc<Dwarf>> {
        let package = self.package.get_or_init(|| {
            let mut path = OsString::from(&self.path);
            path.push(".dwp");
            let bytes = std::fs::read(path).ok()?;
            let elf = Elf::parse(&bytes).ok()?;
            let load = |id: SectionId| Ok(section(&bytes, &elf, id.dwo_name().unwrap_or(""), &mut 0));
            gimli::DwarfPackage::load::<_, gimli::Error>(load, Reader::new(Arc::from([]), LittleEndian)).ok()
        });
        if let Some(found) = package.as_ref().and_then(|package| package.find_cu(id, &self.dwarf).ok().flatten()) {
            return Some(Arc::new(found));
        }
        let name = PathBuf::from(name?.text()?);
        let named = match directory.and_then(|directory| directory.text()) {
            Some(directory) => Path::new(&directory).join(&name),
            None => name.clone(),
        };
        let beside = self.path.parent().zip(name.file_name()).map(|(directory, name)| directory.join(name));
        [Some(named), beside].into_iter().flatten().find_map(|path| self.open_split(&path, id))
    }

    fn open_split(&self, path: &Path, id: gimli::DwoId) -> Option<Arc<Dwarf>> {
        // The name comes out of the image: it may be that of a device.
        let bytes =
            std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).and_then(|_| std::fs::read(path).ok())?;
        let elf = Elf::parse(&bytes).ok()?;
        let mut dwarf = load(|id| section(&bytes, &elf, id.dwo_name().unwrap_or(""), &mut 0));
        dwarf.make_dwo(&self.dwarf);
        // A file from another build must not lend its lines to this one.
        let header = dwarf.units().next().ok()??;
        let unit = dwarf.unit(header).ok()?;
        (unit.dwo_id == Some(id)).then(|| Arc::new(dwarf))
    }
}

/// Lossy text of a reader.
pub(crate) trait Text {
    fn text(&self) -> Option<String>;
}

impl Text for Reader {
    fn text(&self) -> Option<String> {
        gimli::Reader::to_string_lossy(self).ok().map(|text| text.into_owned())
    }
}

fn section(bytes: &[u8], elf: &Elf, name: &str, unreadable: &mut u32) -> Reader {
    let data: Arc<[u8]> = match elf.debug_section(bytes, name) {
        Some(Ok(data)) => Arc::from(data),
        Some(Err(_)) => {
            *unreadable += 1;
            Arc::from([])
        }
        None => Arc::from([]),
    };
    Reader::new(data, LittleEndian)
}

/// A section that is not there is empty, so loading cannot fail.
fn load(mut section: impl FnMut(SectionId) -> Reader) -> Dwarf {
    match Dwarf::load(|id| Ok::<Reader, Infallible>(section(id))) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}
