//! The ELF container: header, segments, sections, and the bytes of a section.
//!
//! Read by hand rather than through a library, because damaged input must be told with the offset
//! of the damage. Every table must lie inside the file, so all work is bounded by the file's size.
//! Linked images and relocatable objects (split DWARF files) are both read; what an image must be
//! beyond that is checked in `image.rs`.

use std::borrow::Cow;
use std::ops::Range;

use object::read::{CompressedData, CompressionFormat};
use selvedge_events::bytes::{slice_at, u16_at, u32_at, u64_at};

use crate::image::ImageProblem;

pub(crate) const ET_EXEC: u16 = 2;
pub(crate) const ET_DYN: u16 = 3;
pub(crate) const PT_LOAD: u32 = 1;
pub(crate) const PT_NOTE: u32 = 4;
pub(crate) const PT_GNU_RELRO: u32 = 0x6474_e552;
pub(crate) const PF_X: u32 = 1;
pub(crate) const PF_W: u32 = 2;
pub(crate) const SHT_PROGBITS: u32 = 1;
pub(crate) const SHT_SYMTAB: u32 = 2;
pub(crate) const SHT_RELA: u32 = 4;
pub(crate) const SHT_NOBITS: u32 = 8;
pub(crate) const SHT_DYNSYM: u32 = 11;
pub(crate) const SHF_ALLOC: u64 = 2;
pub(crate) const SHF_EXECINSTR: u64 = 4;
const SHF_COMPRESSED: u64 = 0x800;
const SHN_XINDEX: u16 = 0xffff;
const EM_X86_64: u16 = 62;

/// Bytes of the file header.
pub(crate) const EHDR: usize = 64;
/// Bytes of a section header.
pub(crate) const SHDR: usize = 64;
const PHDR: usize = 56;
/// Largest section that is decompressed: a damaged size must not exhaust memory.
const MAX_UNCOMPRESSED: u64 = 4 << 30;
/// Most bytes that one compressed byte stands for; zlib reaches half of it.
const MAX_RATIO: u64 = 2048;

/// One program header.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) vaddr: u64,
    pub(crate) align: u64,
    pub(crate) memory_size: u64,
    /// Lies inside the file.
    pub(crate) file: Range<usize>,
}

/// One section header.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) vaddr: u64,
    pub(crate) link: u32,
    /// Lies inside the file; empty for sections without bytes.
    pub(crate) file: Range<usize>,
}

impl Section {
    pub(crate) fn is_code(&self) -> bool {
        self.kind == SHT_PROGBITS && self.flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC | SHF_EXECINSTR
    }
}

/// The parsed container.
#[derive(Clone, Debug)]
pub(crate) struct Elf {
    pub(crate) kind: u16,
    pub(crate) segments: Vec<Segment>,
    pub(crate) sections: Vec<Section>,
    /// Where the section header table lies; empty when there is none.
    pub(crate) section_headers: Range<usize>,
    /// End of the program header table.
    pub(crate) headers_end: usize,
    /// Index of the section-name table; 0 when there is none.
    pub(crate) names: usize,
}

impl Elf {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Elf, ImageProblem> {
        if bytes.get(..4) != Some(b"\x7fELF") {
            return Err(ImageProblem::NotElf);
        }
        let header = part(bytes, "file header", 0, EHDR as u64)?;
        let header = &bytes[header];
        match (header[4], header[5]) {
            (2, 1) => {}
            (1, _) => return Err(ImageProblem::Is32Bit),
            (2, 2) => return Err(ImageProblem::BigEndian),
            _ => {
                return Err(ImageProblem::Malformed { what: "file class", at: 4 });
            }
        }
        let half = |at| u16_at(header, at).unwrap_or(0);
        let long = |at| u64_at(header, at).unwrap_or(0);
        if half(18) != EM_X86_64 {
            return Err(ImageProblem::OtherArchitecture { machine: half(18) });
        }
        let (phoff, phnum) = (long(32), half(56));
        let mut segments = Vec::new();
        let mut headers_end = EHDR;
        if phnum > 0 {
            if usize::from(half(54)) != PHDR {
                return Err(ImageProblem::Malformed { what: "size of a program header", at: 54 });
            }
            let table = part(bytes, "program header table", phoff, u64::from(phnum) * PHDR as u64)?;
            headers_end = headers_end.max(table.end);
            for raw in bytes[table].chunks_exact(PHDR) {
                segments.push(segment(bytes, raw)?);
            }
        }
        let mut elf =
            Elf { kind: half(16), segments, sections: Vec::new(), section_headers: 0..0, headers_end, names: 0 };
        if long(40) > 0 {
            elf.read_sections(bytes, long(40), half(58), half(60), half(62))?;
        }
        Ok(elf)
    }

    fn read_sections(
        &mut self,
        bytes: &[u8],
        shoff: u64,
        entry: u16,
        count: u16,
        names: u16,
    ) -> Result<(), ImageProblem> {
        if usize::from(entry) != SHDR {
            return Err(ImageProblem::Malformed { what: "size of a section header", at: 58 });
        }
        let what = "section header table";
        let first = &bytes[part(bytes, what, shoff, SHDR as u64)?];
        // Counts that do not fit the header's fields are in the first, otherwise empty, section.
        let count = if count == 0 { u64_at(first, 32).unwrap_or(0) } else { u64::from(count) };
        let names = if names == SHN_XINDEX { u32_at(first, 40).unwrap_or(0) } else { u32::from(names) };
        let need =
            count.checked_mul(SHDR as u64).ok_or(ImageProblem::Malformed { what: "number of sections", at: 60 })?;
        self.section_headers = part(bytes, what, shoff, need)?;
        let table = &bytes[self.section_headers.clone()];
        self.names = names as usize;
        if self.names as u64 >= count {
            return Err(ImageProblem::Malformed { what: "index of the section-name table", at: 62 });
        }
        let name_bytes = match table.get(self.names * SHDR..).filter(|_| self.names > 0) {
            Some(raw) => part(bytes, "section-name table", u64_at(raw, 24).unwrap_or(0), u64_at(raw, 32).unwrap_or(0))?,
            None => 0..0,
        };
        let name_bytes = &bytes[name_bytes];
        for raw in table.chunks_exact(SHDR) {
            let word = |at| u32_at(raw, at).unwrap_or(0);
            let long = |at| u64_at(raw, at).unwrap_or(0);
            let file = match word(4) {
                0 | SHT_NOBITS => 0..0,
                _ => part(bytes, "section", long(24), long(32))?,
            };
            self.sections.push(Section {
                name: String::from_utf8_lossy(c_string(name_bytes, word(0) as usize).unwrap_or_default()).into_owned(),
                kind: word(4),
                flags: long(8),
                vaddr: long(16),
                link: word(40),
                file,
            });
        }
        Ok(())
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The contents of the debug section `name` (`.debug_info`), decompressed: `None` when there is
    /// none, `Err` when it cannot be unpacked.
    pub(crate) fn debug_section<'a>(
        &self,
        bytes: &'a [u8],
        name: &str,
    ) -> Option<Result<Cow<'a, [u8]>, object::Error>> {
        if let Some(section) = self.section(name).filter(|section| section.kind != SHT_NOBITS) {
            let raw = &bytes[section.file.clone()];
            if section.flags & SHF_COMPRESSED == 0 {
                return Some(Ok(Cow::Borrowed(raw)));
            }
            let format = match u32_at(raw, 0) {
                Some(1) => CompressionFormat::Zlib,
                Some(2) => CompressionFormat::Zstandard,
                _ => CompressionFormat::Unknown,
            };
            return Some(unpack(format, raw.get(24..).unwrap_or_default(), u64_at(raw, 8).unwrap_or(0)));
        }
        // The older form, by name: "ZLIB", the size in big-endian order, the stream.
        let old = format!(".z{}", name.strip_prefix('.')?);
        let raw = &bytes[self.section(&old)?.file.clone()];
        let size = raw.get(4..12).and_then(|size| size.try_into().ok()).map_or(0, u64::from_be_bytes);
        let format = if raw.starts_with(b"ZLIB") { CompressionFormat::Zlib } else { CompressionFormat::Unknown };
        Some(unpack(format, raw.get(12..).unwrap_or_default(), size))
    }
}

fn unpack(format: CompressionFormat, data: &[u8], size: u64) -> Result<Cow<'_, [u8]>, object::Error> {
    let most = (data.len() as u64).saturating_mul(MAX_RATIO).min(MAX_UNCOMPRESSED);
    let uncompressed_size = if size > most { 0 } else { size };
    CompressedData { format, data, uncompressed_size }.decompress()
}

fn segment(bytes: &[u8], raw: &[u8]) -> Result<Segment, ImageProblem> {
    let word = |at| u32_at(raw, at).unwrap_or(0);
    let long = |at| u64_at(raw, at).unwrap_or(0);
    let file = match word(0) {
        PT_LOAD | PT_NOTE => part(bytes, "segment", long(8), long(32))?,
        _ => 0..0,
    };
    Ok(Segment { kind: word(0), flags: word(4), vaddr: long(16), memory_size: long(40), align: long(48), file })
}

/// A part of the file that must be there.
pub(crate) fn part(bytes: &[u8], what: &'static str, at: u64, need: u64) -> Result<Range<usize>, ImageProblem> {
    let truncated = ImageProblem::Truncated { what, at, need, have: bytes.len() as u64 };
    let Ok(start) = usize::try_from(at) else {
        return Err(truncated);
    };
    let Ok(len) = usize::try_from(need) else {
        return Err(truncated);
    };
    match slice_at(bytes, start, len) {
        Some(_) => Ok(start..start + len),
        None => Err(truncated),
    }
}

/// The zero-terminated string at `at`, without its terminator.
pub(crate) fn c_string(table: &[u8], at: usize) -> Option<&[u8]> {
    let rest = table.get(at..)?;
    let len = rest.iter().position(|byte| *byte == 0)?;
    rest.get(..len)
}
