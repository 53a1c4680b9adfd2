//! An opened image: what kind it is, its build-id, load base, symbols, and which symbol each GOT
//! slot and PLT stub is bound to.
//!
//! A slot is bound by a relocation that names a symbol (`GLOB_DAT`, `JUMP_SLOT`, `64`), by one that
//! gives an address (`RELATIVE`, `IRELATIVE`), or, where the linker resolved it for good, by the
//! word that lies in the file. A stub is bound to the slot that it jumps through.
//!
//! Cannot see: bindings of an image without section headers; retpoline stubs.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use selvedge_events::bytes::{u16_at, u32_at, u64_at};
use thiserror::Error;

use crate::dwarf::DebugInfo;
use crate::elf::{self, Elf, Section, Segment, c_string};
use crate::x86;

/// Why bytes are not an image that can be read.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageProblem {
    /// No ELF magic.
    #[error("not an ELF file (offset 0): give the linked program or shared library, not a script or an archive")]
    NotElf,
    /// ELF32.
    #[error("a 32-bit image (offset 4): build it for x86_64")]
    Is32Bit,
    /// Most significant byte first.
    #[error("a big-endian image (offset 5): build it for x86_64")]
    BigEndian,
    /// Not x86-64.
    #[error("built for another architecture (machine {machine} at offset 18): build it for x86_64")]
    OtherArchitecture {
        /// `e_machine`.
        machine: u16,
    },
    /// An object file or a core dump.
    #[error("not a linked image (type {kind} at offset 16): give what the linker wrote")]
    NotLinked {
        /// `e_type`.
        kind: u16,
    },
    /// A part reaches past the end of the file.
    #[error("truncated: the {what} at offset {at} needs {need} bytes, the file ends at {have}: link or copy it again")]
    Truncated {
        /// The part.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// Its size.
        need: u64,
        /// The file's size.
        have: u64,
    },
    /// A field has an impossible value.
    #[error("malformed {what} (offset {at}): link it again")]
    Malformed {
        /// The field.
        what: &'static str,
        /// Where it is.
        at: u64,
    },
}

impl ImageProblem {
    /// The file offset of the damage.
    pub fn offset(&self) -> u64 {
        match self {
            ImageProblem::NotElf => 0,
            ImageProblem::Is32Bit => 4,
            ImageProblem::BigEndian => 5,
            ImageProblem::NotLinked { .. } => 16,
            ImageProblem::OtherArchitecture { .. } => 18,
            ImageProblem::Truncated { at, .. } | ImageProblem::Malformed { at, .. } => *at,
        }
    }
}

/// Why an image could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenImageError {
    /// The file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not an image that can be read.
    #[error("cannot use {}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ImageProblem,
    },
}

impl OpenImageError {
    /// The file offset of the damage, where the contents are at fault.
    pub fn offset(&self) -> Option<u64> {
        match self {
            OpenImageError::Read { .. } => None,
            OpenImageError::Refused { source, .. } => Some(source.offset()),
        }
    }
}

/// What a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SymbolKind {
    Function,
    Indirect,
    Object,
    Untyped,
    Other,
}

/// Who sees a symbol; the order is that of preference among names of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binding {
    Global,
    Weak,
    Local,
}

/// A symbol that the image defines.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub(crate) vaddr: u64,
    pub(crate) size: u64,
    pub(crate) kind: SymbolKind,
    pub(crate) binding: Binding,
    /// Which source file's local symbols it is among; 0 where unknown.
    pub(crate) file: u32,
    name: (usize, usize),
}

/// What a GOT slot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The address of a symbol, by name.
    Name(String),
    /// The address of something in this image.
    Address(u64),
    /// What the resolver at this address returns.
    Resolver(u64),
}

/// An ELF image, read into memory.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    bytes: Vec<u8>,
    elf: Elf,
    base: u64,
    build_id: Vec<u8>,
    symbols: Vec<Symbol>,
    has_full_symbols: bool,
    /// By slot address.
    slots: Vec<(u64, Bound)>,
    /// By stub address: the slot.
    stubs: Vec<(u64, u64)>,
    debug: OnceLock<Arc<DebugInfo>>,
}

impl Image {
    /// Reads and checks the image at `path`.
    pub fn open(path: &Path) -> Result<Image, OpenImageError> {
        let read = |source| OpenImageError::Read { path: path.to_owned(), source };
        let bytes = std::fs::read(path).map_err(read)?;
        Image::from_bytes(path, bytes).map_err(|source| OpenImageError::Refused { path: path.to_owned(), source })
    }

    /// Checks an image that is already in memory; `path` is where its companions (split DWARF)
    /// would lie.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Image, ImageProblem> {
        let elf = Elf::parse(&bytes)?;
        if elf.kind != elf::ET_EXEC && elf.kind != elf::ET_DYN {
            return Err(ImageProblem::NotLinked { kind: elf.kind });
        }
        let loads = elf.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD);
        let base = loads.map(|segment| segment.vaddr).min();
        let base = base.ok_or(ImageProblem::Malformed { what: "program headers: nothing is loaded", at: 56 })?;
        let mut image = Image {
            path: path.to_owned(),
            base,
            build_id: build_id(&bytes, &elf),
            symbols: Vec::new(),
            has_full_symbols: false,
            slots: Vec::new(),
            stubs: Vec::new(),
            debug: OnceLock::new(),
            bytes,
            elf,
        };
        image.read_symbols();
        image.read_slots();
        image.read_stubs();
        Ok(image)
    }

    /// Where the image was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The GNU build-id; empty when the linker wrote none.
    pub fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// The lowest loaded link-time address; every public offset counts from it.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether the image can be loaded anywhere (PIE, shared library).
    pub fn is_position_independent(&self) -> bool {
        self.elf.kind == elf::ET_DYN
    }

    /// The executable segments as (offset, size in memory).
    pub fn exec_segments(&self) -> Vec<(u64, u64)> {
        let code = |segment: &&Segment| segment.kind == elf::PT_LOAD && segment.flags & elf::PF_X != 0;
        self.elf.segments.iter().filter(code).map(|segment| (segment.vaddr - self.base, segment.memory_size)).collect()
    }

    /// Whether what lies at an offset cannot change once the program runs.
    pub fn is_constant(&self, offset: u64) -> bool {
        let vaddr = offset.wrapping_add(self.base);
        let has = |segment: &Segment| vaddr.wrapping_sub(segment.vaddr) < segment.memory_size;
        self.elf.segments.iter().filter(|segment| has(segment)).any(|segment| match segment.kind {
            elf::PT_LOAD => segment.flags & elf::PF_W == 0,
            elf::PT_GNU_RELRO => true,
            _ => false,
        })
    }

    /// Whether `.symtab` is there: without it, hooks that the image itself defines cannot be found.
    pub fn has_full_symbols(&self) -> bool {
        self.has_full_symbols
    }

    /// The file's bytes at a loaded offset; `None` where nothing, or not enough, comes from the file.
    pub fn loaded_bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        self.loaded_from(offset)?.get(..len)
    }

    /// All of the file's bytes from a loaded offset to the end of its segment.
    pub(crate) fn loaded_from(&self, offset: u64) -> Option<&[u8]> {
        let vaddr = offset.checked_add(self.base)?;
        let of = |segment: &&Segment| {
            segment.kind == elf::PT_LOAD
                && vaddr.checked_sub(segment.vaddr).is_some_and(|at| at < segment.file.len() as u64)
        };
        let segment = self.elf.segments.iter().find(of)?;
        let at = usize::try_from(vaddr - segment.vaddr).ok()?;
        self.bytes.get(segment.file.clone())?.get(at..)
    }

    /// The symbol name that the GOT slot at `offset` is bound to by a relocation.
    pub fn slot_name(&self, offset: u64) -> Option<&str> {
        match self.slot(offset.checked_add(self.base)?)? {
            Bound::Name(name) => Some(name),
            _ => None,
        }
    }

    /// The symbol name that the PLT stub at `offset` jumps to.
    pub fn stub_name(&self, offset: u64) -> Option<&str> {
        let vaddr = offset.checked_add(self.base)?;
        let at = self.stubs.binary_search_by_key(&vaddr, |stub| stub.0).ok()?;
        self.slot_name(self.stubs[at].1.checked_sub(self.base)?)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn elf(&self) -> &Elf {
        &self.elf
    }

    pub(crate) fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    pub(crate) fn symbol_name(&self, symbol: &Symbol) -> &str {
        let raw = self.bytes.get(symbol.name.0..symbol.name.1).unwrap_or_default();
        let name = std::str::from_utf8(raw).unwrap_or("");
        name.split_once('@').map_or(name, |(name, _version)| name)
    }

    pub(crate) fn slots(&self) -> &[(u64, Bound)] {
        &self.slots
    }

    pub(crate) fn stubs(&self) -> &[(u64, u64)] {
        &self.stubs
    }

    pub(crate) fn debug(&self) -> &Arc<DebugInfo> {
        self.debug.get_or_init(|| Arc::new(DebugInfo::load(&self.bytes, &self.elf, &self.path)))
    }

    /// A section's offset in the image and its bytes.
    pub(crate) fn section_named(&self, name: &str) -> Option<(u64, &[u8])> {
        let section = self.elf.sections.iter().find(|section| section.name == name)?;
        Some((section.vaddr.checked_sub(self.base)?, self.bytes.get(section.file.clone())?))
    }

    /// The bytes of a debug section, decompressed; none where there is no such section.
    pub(crate) fn debug_bytes(&self, name: &str) -> Cow<'_, [u8]> {
        self.elf.debug_section(&self.bytes, name).and_then(Result::ok).unwrap_or_default()
    }

    /// Executable sections without the stubs, in address order, overlaps cut away: the sum of their
    /// sizes is at most that of the address space they cover.
    pub(crate) fn code_sections(&self) -> Vec<(u64, &[u8])> {
        let mut sections: Vec<&Section> =
            self.elf.sections.iter().filter(|section| section.is_code() && !is_stub_section(&section.name)).collect();
        sections.sort_by_key(|section| section.vaddr);
        let mut out = Vec::with_capacity(sections.len());
        let mut free = 0_u64;
        for section in sections {
            let code = self.bytes.get(section.file.clone()).unwrap_or_default();
            let cut = usize::try_from(free.saturating_sub(section.vaddr)).unwrap_or(usize::MAX);
            let start = section.vaddr.max(free);
            if let Some(code) = code.get(cut..).filter(|code| !code.is_empty())
                && let Some(end) = start.checked_add(code.len() as u64)
                && start >= self.base
            {
                out.push((start, code));
                free = end;
            }
        }
        out
    }

    /// Whether an address is in the linker's own tables of addresses.
    pub(crate) fn is_linkage_slot(&self, vaddr: u64) -> bool {
        let tables = self.elf.sections.iter().filter(|section| section.name.starts_with(".got"));
        tables.into_iter().any(|section| vaddr.wrapping_sub(section.vaddr) < section.file.len() as u64)
    }

    /// Loaded sections that are no code, as (address, bytes in the file).
    pub(crate) fn data_sections(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let loaded = self.elf.sections.iter().filter(|section| {
            section.flags & elf::SHF_ALLOC != 0 && section.kind == elf::SHT_PROGBITS && !section.is_code()
        });
        loaded.map(|section| (section.vaddr, self.bytes.get(section.file.clone()).unwrap_or_default()))
    }

    fn slot(&self, vaddr: u64) -> Option<&Bound> {
        let at = self.slots.binary_search_by_key(&vaddr, |slot| slot.0).ok()?;
        Some(&self.slots[at].1)
    }

    fn read_symbols(&mut self) {
        for section in &self.elf.sections {
            if section.kind != elf::SHT_SYMTAB && section.kind != elf::SHT_DYNSYM {
                continue;
            }
            self.has_full_symbols |= section.kind == elf::SHT_SYMTAB;
            let names = self.elf.sections.get(section.link as usize).map_or(0..0, |names| names.file.clone());
            let table = self.bytes.get(section.file.clone()).unwrap_or_default();
            let mut file = 0_u32;
            for raw in table.chunks_exact(24) {
                let info = raw[4];
                let index = u16_at(raw, 6).unwrap_or(0);
                if info & 15 == 4 {
                    file += 1;
                }
                let vaddr = u64_at(raw, 8).unwrap_or(0);
                // Undefined and absolute symbols, sections, files and thread-local ones have no address here.
                if index == 0
                    || (0xff00..0xffff).contains(&index)
                    || vaddr < self.base
                    || matches!(info & 15, 3 | 4 | 6)
                {
                    continue;
                }
                let start = names.start.saturating_add(u32_at(raw, 0).unwrap_or(0) as usize);
                let Some(name) = self.bytes.get(start..names.end).and_then(|rest| c_string(rest, 0)) else {
                    continue;
                };
                if name.is_empty() {
                    continue;
                }
                self.symbols.push(Symbol {
                    vaddr,
                    size: u64_at(raw, 16).unwrap_or(0),
                    kind: match info & 15 {
                        0 => SymbolKind::Untyped,
                        1 => SymbolKind::Object,
                        2 => SymbolKind::Function,
                        10 => SymbolKind::Indirect,
                        _ => SymbolKind::Other,
                    },
                    binding: match info >> 4 {
                        0 => Binding::Local,
                        2 => Binding::Weak,
                        _ => Binding::Global,
                    },
                    file: if info >> 4 == 0 { file } else { 0 },
                    name: (start, start + name.len()),
                });
            }
        }
    }

    fn read_slots(&mut self) {
        let mut slots = Vec::new();
        for section in self
            .elf
            .sections
            .iter()
            .filter(|section| section.kind == elf::SHT_RELA && section.flags & elf::SHF_ALLOC != 0)
        {
            let symbols = self.elf.sections.get(section.link as usize);
            let names = symbols.and_then(|symbols| self.elf.sections.get(symbols.link as usize));
            for raw in self.bytes.get(section.file.clone()).unwrap_or_default().chunks_exact(24) {
                let (slot, info, addend) = (u64_at(raw, 0), u64_at(raw, 8).unwrap_or(0), u64_at(raw, 16).unwrap_or(0));
                let name = || {
                    let symbols = self.bytes.get(symbols?.file.clone())?;
                    let at = usize::try_from(info >> 32).ok().filter(|at| *at > 0)?.checked_mul(24)?;
                    let name = c_string(self.bytes.get(names?.file.clone())?, u32_at(symbols, at)? as usize)?;
                    Some(Bound::Name(String::from_utf8(name.to_vec()).ok()?))
                };
                let bound = match info & 0xffff_ffff {
                    // R_X86_64_64, GLOB_DAT, JUMP_SLOT
                    1 | 6 | 7 => name(),
                    // R_X86_64_RELATIVE, IRELATIVE
                    8 => Some(Bound::Address(addend)),
                    37 => Some(Bound::Resolver(addend)),
                    _ => None,
                };
                slots.extend(slot.zip(bound));
            }
        }
        // Resolved at link time, or relocated by the packed form whose addends lie in place.
        for section in self
            .elf
            .sections
            .iter()
            .filter(|section| section.name.starts_with(".got") && section.kind == elf::SHT_PROGBITS)
        {
            let words = self.bytes.get(section.file.clone()).unwrap_or_default().chunks_exact(8);
            for (index, word) in words.enumerate() {
                let value = u64_at(word, 0).unwrap_or(0);
                if value != 0 {
                    slots.push((section.vaddr.wrapping_add(index as u64 * 8), Bound::Address(value)));
                }
            }
        }
        // Stable: a relocation goes before the word in the file.
        slots.sort_by_key(|slot| slot.0);
        slots.dedup_by_key(|slot| slot.0);
        self.slots = slots;
    }

    fn read_stubs(&mut self) {
        let mut stubs = Vec::new();
        for section in self.elf.sections.iter().filter(|section| section.is_code() && is_stub_section(&section.name)) {
            let code = self.bytes.get(section.file.clone()).unwrap_or_default();
            x86::stubs(code, section.vaddr, |stub, slot| stubs.push((stub, slot)));
        }
        stubs.sort_unstable();
        stubs.dedup_by_key(|stub| stub.0);
        self.stubs = stubs;
    }
}

fn is_stub_section(name: &str) -> bool {
    name.starts_with(".plt") || name.starts_with(".iplt")
}

/// The note of owner "GNU" and type 3.
fn build_id(bytes: &[u8], elf: &Elf) -> Vec<u8> {
    for segment in elf.segments.iter().filter(|segment| segment.kind == elf::PT_NOTE) {
        let align = if segment.align == 8 { 8 } else { 4 };
        let mut notes = bytes.get(segment.file.clone()).unwrap_or_default();
        while let (Some(owner), Some(desc), Some(kind)) = (u32_at(notes, 0), u32_at(notes, 4), u32_at(notes, 8)) {
            let desc_at = (12 + owner as usize).next_multiple_of(align);
            let desc_end = desc_at + desc as usize;
            let Some(id) = notes.get(desc_at..desc_end) else {
                break;
            };
            if kind == 3 && notes.get(12..16) == Some(b"GNU\0") {
                return id.to_vec();
            }
            notes = notes.get(desc_end.next_multiple_of(align)..).unwrap_or_default();
        }
    }
    Vec::new()
}
