//! A relocatable object as a value: read whole, changed freely, written anew.
//!
//! Tables that only number things (symbols, strings, relocations, groups) are taken apart on reading and made again on
//! writing, so nothing has to be renumbered by hand. What is not understood is an error, never dropped.

use selvedge_events::bytes::{slice_at, u16_at, u32_at, u64_at};

use crate::elf::{EHDR, SHDR, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, SHT_PROGBITS, SHT_RELA, SHT_SYMTAB, c_string};

pub(super) const SHF_WRITE: u64 = 1;
pub(super) const SHF_MERGE: u64 = 0x10;
pub(super) const SHF_LINK_ORDER: u64 = 0x80;
pub(super) const SHF_GROUP: u64 = 0x200;
pub(super) const SHT_INIT_ARRAY: u32 = 14;
pub(super) const SHT_FINI_ARRAY: u32 = 15;
pub(super) const SHT_PREINIT_ARRAY: u32 = 16;
const SHT_STRTAB: u32 = 3;
const SHT_GROUP: u32 = 17;
const SHT_LLVM_ADDRSIG: u32 = 0x6fff_4c03;
const SHT_LLVM_CALL_GRAPH_PROFILE: u32 = 0x6fff_4c09;
const SHF_INFO_LINK: u64 = 0x40;
const SHN_LORESERVE: u16 = 0xff00;
const SHN_ABS: u16 = 0xfff1;
const SHN_COMMON: u16 = 0xfff2;
const ET_REL: u16 = 1;
const EM_X86_64: u16 = 62;
const SYMBOL: usize = 24;
const RELA: usize = 24;
const STB_LOCAL: u8 = 0;

pub(super) const STT_FUNC: u8 = 2;
pub(super) const STT_SECTION: u8 = 3;
pub(super) const STT_FILE: u8 = 4;
pub(super) const STT_TLS: u8 = 6;

/// One relocation with an addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reloc {
    pub(super) offset: u64,
    pub(super) kind: u32,
    /// Index in [`Object::symbols`].
    pub(super) symbol: usize,
    pub(super) addend: i64,
}

/// One section with what relocates it.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) kind: u32,
    pub(super) flags: u64,
    pub(super) align: u64,
    pub(super) entry_size: u64,
    /// The section that it must stay with, for [`SHF_LINK_ORDER`].
    pub(super) beside: Option<usize>,
    /// Bytes; those of sections without any in the file are counted only.
    pub(super) data: Vec<u8>,
    pub(super) size: u64,
    pub(super) relocs: Vec<Reloc>,
}

impl Section {
    pub(super) fn is_code(&self) -> bool {
        self.kind == SHT_PROGBITS && self.flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC | SHF_EXECINSTR
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.flags & SHF_ALLOC != 0
    }
}

/// Where a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Nowhere,
    Absolute,
    /// The linker makes room for it.
    Common,
    /// In [`Object::sections`].
    In(usize),
}

/// One symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: Vec<u8>,
    /// Binding and type, as the file has them.
    pub(super) info: u8,
    /// Visibility.
    pub(super) other: u8,
    pub(super) home: Home,
    pub(super) value: u64,
    pub(super) size: u64,
}

impl Symbol {
    pub(super) fn is_local(&self) -> bool {
        self.info >> 4 == STB_LOCAL
    }

    pub(super) fn kind(&self) -> u8 {
        self.info & 15
    }

    pub(super) fn of_section(section: usize) -> Symbol {
        Symbol { name: Vec::new(), info: STT_SECTION, other: 0, home: Home::In(section), value: 0, size: 0 }
    }
}

/// Sections that are linked together, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Whether one of several of that name is enough.
    pub(super) flags: u32,
    /// Index in [`Object::symbols`].
    pub(super) signature: usize,
    /// Indices in [`Object::sections`].
    pub(super) members: Vec<usize>,
}

/// A relocatable object.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    pub(super) ident: [u8; 16],
    pub(super) flags: u32,
    pub(super) sections: Vec<Section>,
    /// Without the first, empty one.
    pub(super) symbols: Vec<Symbol>,
    pub(super) groups: Vec<Group>,
}

/// What cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) &'static str);

impl Object {
    /// Takes the bytes of an object file apart.
    pub(super) fn read(bytes: &[u8]) -> Result<Object, Unreadable> {
        let broken = || Unreadable("a damaged object");
        if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
            return Err(Unreadable("not an object of 64 bits"));
        }
        if u16_at(bytes, 16) != Some(ET_REL) || u16_at(bytes, 18) != Some(EM_X86_64) {
            return Err(Unreadable("no object for x86-64"));
        }
        let (table, count, names) = (u64_at(bytes, 40), u16_at(bytes, 60), u16_at(bytes, 62));
        let (Some(table), Some(count @ 1..SHN_LORESERVE), Some(names)) = (table, count, names) else {
            return Err(Unreadable("more sections than can be numbered"));
        };
        let raw: Vec<Raw<'_>> = (0..usize::from(count))
            .map(|index| Raw::read(bytes, usize::try_from(table).ok()?.checked_add(index * SHDR)?))
            .collect::<Option<_>>()
            .ok_or_else(broken)?;
        let names = raw.get(usize::from(names)).ok_or_else(broken)?.data;
        let mut out = Object {
            ident: bytes.get(..16).and_then(|ident| ident.try_into().ok()).ok_or_else(broken)?,
            flags: u32_at(bytes, 48).ok_or_else(broken)?,
            ..Object::default()
        };
        // New numbers of the sections that stay sections.
        let mut new = vec![None; raw.len()];
        let mut symbols_at = None;
        for (index, section) in raw.iter().enumerate() {
            match section.kind {
                SHT_SYMTAB => symbols_at = Some(index),
                0 | SHT_STRTAB | SHT_RELA | SHT_GROUP => {}
                // Hints for the linker, by numbers of symbols.
                SHT_LLVM_ADDRSIG | SHT_LLVM_CALL_GRAPH_PROFILE => {}
                9 | 18 => return Err(Unreadable("relocations or numbers of a kind that is not known")),
                kind => {
                    new[index] = Some(out.sections.len());
                    out.sections.push(Section {
                        name: String::from_utf8_lossy(c_string(names, section.name).ok_or_else(broken)?).into_owned(),
                        kind,
                        flags: section.flags,
                        align: section.align,
                        entry_size: section.entry_size,
                        beside: None,
                        data: section.data.to_vec(),
                        size: section.size,
                        relocs: Vec::new(),
                    });
                }
            }
        }
        let renumbered = |old: usize| new.get(old).copied().flatten();
        let symbols = symbols_at.and_then(|at| raw.get(at)).ok_or(Unreadable("no symbols"))?;
        let strings = raw.get(symbols.link).ok_or_else(broken)?.data;
        for row in symbols.data.chunks_exact(SYMBOL).skip(1) {
            out.symbols.push(read_symbol(row, strings, &renumbered).ok_or_else(broken)?);
        }
        for (index, section) in raw.iter().enumerate() {
            match section.kind {
                SHT_RELA => {
                    let to = renumbered(section.info).and_then(|to| out.sections.get_mut(to)).ok_or_else(broken)?;
                    for row in section.data.chunks_exact(RELA) {
                        let reloc = read_reloc(row).ok_or_else(broken)?;
                        if reloc.symbol >= out.symbols.len() && reloc.symbol != usize::MAX {
                            return Err(broken());
                        }
                        to.relocs.push(reloc);
                    }
                }
                SHT_GROUP => {
                    let word = |at: usize| u32_at(section.data, at * 4).map(|word| word as usize);
                    let members = (1..section.data.len() / 4).map(|at| word(at).ok_or_else(broken));
                    let members = members.collect::<Result<Vec<usize>, _>>()?;
                    if section.info > out.symbols.len() {
                        return Err(broken());
                    }
                    out.groups.push(Group {
                        flags: u32_at(section.data, 0).ok_or_else(broken)?,
                        signature: section.info.checked_sub(1).ok_or_else(broken)?,
                        // Relocations go with what they relocate.
                        members: members.into_iter().filter_map(renumbered).collect(),
                    });
                }
                _ => {
                    if let Some(at) = renumbered(index).filter(|_| section.flags & SHF_LINK_ORDER != 0) {
                        out.sections[at].beside = renumbered(section.link);
                    }
                }
            }
        }
        Ok(out)
    }

    /// The file.
    pub(super) fn write(&self) -> Result<Vec<u8>, Unreadable> {
        let groups = self.groups.iter().filter(|group| !group.members.is_empty()).collect::<Vec<_>>();
        let relocated = self.sections.iter().filter(|section| !section.relocs.is_empty()).count();
        // The empty one, groups, sections, relocations, symbols, their names, and section names.
        if 1 + groups.len() + self.sections.len() + relocated + 3 >= usize::from(SHN_LORESERVE) {
            return Err(Unreadable("more sections than can be numbered"));
        }
        let first = 1 + groups.len();
        let symbols_at = first + self.sections.len() + relocated;
        // Local symbols come first.
        let (local, global): (Vec<usize>, Vec<usize>) =
            (0..self.symbols.len()).partition(|at| self.symbols[*at].is_local());
        let mut numbers = vec![0_usize; self.symbols.len()];
        for (number, at) in local.iter().chain(&global).enumerate() {
            numbers[*at] = number + 1;
        }
        let mut out = Writer { bytes: vec![0; EHDR], headers: vec![0; SHDR], names: vec![0] };
        let mut relocations_at = vec![None; self.sections.len()];
        let mut next = first + self.sections.len();
        for (at, section) in self.sections.iter().enumerate() {
            if !section.relocs.is_empty() {
                relocations_at[at] = Some(next);
                next += 1;
            }
        }
        for group in &groups {
            let mut data = group.flags.to_le_bytes().to_vec();
            for member in &group.members {
                data.extend(((first + member) as u32).to_le_bytes());
                data.extend(relocations_at[*member].into_iter().flat_map(|at| (at as u32).to_le_bytes()));
            }
            let row = Header { kind: SHT_GROUP, align: 4, entry_size: 4, link: symbols_at, ..Header::default() };
            out.section(".group", Header { info: numbers[group.signature], ..row }, &data);
        }
        for section in &self.sections {
            out.section(
                &section.name,
                Header {
                    kind: section.kind,
                    flags: section.flags,
                    align: section.align,
                    entry_size: section.entry_size,
                    link: section.beside.map_or(0, |beside| first + beside),
                    info: 0,
                    size: (section.kind == SHT_NOBITS).then_some(section.size),
                },
                &section.data,
            );
        }
        for (at, section) in self.sections.iter().enumerate().filter(|(_, section)| !section.relocs.is_empty()) {
            let mut data = Vec::with_capacity(section.relocs.len() * RELA);
            for reloc in &section.relocs {
                let symbol = numbers.get(reloc.symbol).copied().unwrap_or(0) as u64;
                data.extend(reloc.offset.to_le_bytes());
                data.extend((symbol << 32 | u64::from(reloc.kind)).to_le_bytes());
                data.extend(reloc.addend.to_le_bytes());
            }
            let flags = SHF_INFO_LINK | section.flags & SHF_GROUP;
            let row = Header { kind: SHT_RELA, flags, align: 8, entry_size: RELA as u64, ..Header::default() };
            let name = format!(".rela{}", section.name);
            out.section(&name, Header { link: symbols_at, info: first + at, ..row }, &data);
        }
        let mut strings = vec![0];
        let mut table = vec![0; SYMBOL];
        for at in local.iter().chain(&global) {
            let symbol = &self.symbols[*at];
            let name = if symbol.name.is_empty() { 0 } else { strings.len() };
            if name != 0 {
                strings.extend(&symbol.name);
                strings.push(0);
            }
            let home = match symbol.home {
                Home::Nowhere => 0,
                Home::Absolute => SHN_ABS,
                Home::Common => SHN_COMMON,
                Home::In(section) => (first + section) as u16,
            };
            table.extend((name as u32).to_le_bytes());
            table.extend([symbol.info, symbol.other]);
            table.extend(home.to_le_bytes());
            table.extend(symbol.value.to_le_bytes());
            table.extend(symbol.size.to_le_bytes());
        }
        let row = Header { kind: SHT_SYMTAB, align: 8, entry_size: SYMBOL as u64, ..Header::default() };
        out.section(".symtab", Header { link: symbols_at + 1, info: local.len() + 1, ..row }, &table);
        out.section(".strtab", Header { kind: SHT_STRTAB, align: 1, ..Header::default() }, &strings);
        Ok(out.finish(&self.ident, self.flags))
    }
}

fn read_symbol(row: &[u8], strings: &[u8], renumbered: &impl Fn(usize) -> Option<usize>) -> Option<Symbol> {
    let home = match u16_at(row, 6)? {
        0 => Home::Nowhere,
        SHN_ABS => Home::Absolute,
        SHN_COMMON => Home::Common,
        SHN_LORESERVE.. => return None,
        // What is in a group's own section is nobody's.
        index => renumbered(usize::from(index)).map_or(Home::Absolute, Home::In),
    };
    let name = strings.get(u32_at(row, 0)? as usize..)?;
    let name = name.split(|byte| *byte == 0).next()?.to_vec();
    Some(Symbol { name, info: *row.get(4)?, other: *row.get(5)?, home, value: u64_at(row, 8)?, size: u64_at(row, 16)? })
}

fn read_reloc(row: &[u8]) -> Option<Reloc> {
    let info = u64_at(row, 8)?;
    Some(Reloc {
        offset: u64_at(row, 0)?,
        kind: info as u32,
        // The first symbol, which is none, gets a number that no table has.
        symbol: ((info >> 32) as usize).wrapping_sub(1),
        addend: u64_at(row, 16)? as i64,
    })
}

/// A section header as it was found.
struct Raw<'a> {
    name: usize,
    kind: u32,
    flags: u64,
    link: usize,
    info: usize,
    align: u64,
    entry_size: u64,
    size: u64,
    data: &'a [u8],
}

impl<'a> Raw<'a> {
    fn read(bytes: &'a [u8], at: usize) -> Option<Raw<'a>> {
        let row = slice_at(bytes, at, SHDR)?;
        let (kind, offset, size) = (u32_at(row, 4)?, u64_at(row, 24)?, u64_at(row, 32)?);
        let is_empty = kind == SHT_NOBITS || kind == 0;
        let data = if is_empty { &[] } else { slice_at(bytes, offset.try_into().ok()?, size.try_into().ok()?)? };
        Some(Raw {
            name: u32_at(row, 0)? as usize,
            kind,
            flags: u64_at(row, 8)?,
            link: u32_at(row, 40)? as usize,
            info: u32_at(row, 44)? as usize,
            align: u64_at(row, 48)?,
            entry_size: u64_at(row, 56)?,
            size,
            data,
        })
    }
}

/// What a section header says besides its name and place.
#[derive(Clone, Copy, Default)]
struct Header {
    kind: u32,
    flags: u64,
    align: u64,
    entry_size: u64,
    link: usize,
    info: usize,
    /// Where it is not that of the bytes.
    size: Option<u64>,
}

struct Writer {
    bytes: Vec<u8>,
    headers: Vec<u8>,
    names: Vec<u8>,
}

impl Writer {
    fn section(&mut self, name: &str, header: Header, data: &[u8]) {
        let align = usize::try_from(header.align.clamp(1, 4096)).unwrap_or(1);
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(data);
        self.headers.extend((self.names.len() as u32).to_le_bytes());
        self.names.extend(name.as_bytes());
        self.names.push(0);
        self.headers.extend(header.kind.to_le_bytes());
        self.headers.extend(header.flags.to_le_bytes());
        self.headers.extend(0_u64.to_le_bytes());
        self.headers.extend((at as u64).to_le_bytes());
        self.headers.extend(header.size.unwrap_or(data.len() as u64).to_le_bytes());
        self.headers.extend((header.link as u32).to_le_bytes());
        self.headers.extend((header.info as u32).to_le_bytes());
        self.headers.extend(header.align.to_le_bytes());
        self.headers.extend(header.entry_size.to_le_bytes());
    }

    fn finish(mut self, ident: &[u8; 16], flags: u32) -> Vec<u8> {
        let mut names = std::mem::take(&mut self.names);
        let name = names.len() as u32;
        names.extend(b".shstrtab\0");
        self.section("", Header { kind: SHT_STRTAB, align: 1, ..Header::default() }, &names);
        let last = self.headers.len() - SHDR;
        self.headers[last..last + 4].copy_from_slice(&name.to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let (at, count) = (self.bytes.len() as u64, (self.headers.len() / SHDR) as u16);
        self.bytes.extend_from_slice(&self.headers);
        self.bytes[..16].copy_from_slice(ident);
        self.bytes[16..18].copy_from_slice(&ET_REL.to_le_bytes());
        self.bytes[18..20].copy_from_slice(&EM_X86_64.to_le_bytes());
        self.bytes[20..24].copy_from_slice(&1_u32.to_le_bytes());
        self.bytes[40..48].copy_from_slice(&at.to_le_bytes());
        self.bytes[48..52].copy_from_slice(&flags.to_le_bytes());
        self.bytes[52..54].copy_from_slice(&(EHDR as u16).to_le_bytes());
        self.bytes[58..60].copy_from_slice(&(SHDR as u16).to_le_bytes());
        self.bytes[60..62].copy_from_slice(&count.to_le_bytes());
        self.bytes[62..64].copy_from_slice(&(count - 1).to_le_bytes());
        self.bytes
    }
}
