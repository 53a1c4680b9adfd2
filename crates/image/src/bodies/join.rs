//! Two compilations of one source file become one object: every function has a plain body and a hooked one.
//!
//! *Plain* is the file as the user's flags have it, with room for a jump at the begin of each function; *hooked* is the same
//! file with instrumentation. Variables, constructors and everything that has an address are the plain file's. Of the hooked
//! one stay the code, its unwind and debug information, and constants that only it has. So that it does not matter in which
//! of its bodies a function runs:
//!
//! - A variable that can change is there once. The two files must have the same ones, by section (each variable has its
//!   own), size, first value and symbols.
//! - A function has one address, its plain one. Hooked code that takes an address takes that; a call of a function that others
//!   can see goes through its plain begin, where a jump may stand.
//! - A function that only its own file can see and that nobody takes the address of may have a calling convention of its
//!   own in each file (compilers do that). Calls of it stay on their side, and it cannot be switched: it is *inner*.
//! - What one compilation calls the other one may have inlined. Who calls the hooked body of a function that the caller's plain body has
//!   inlined is written down ([`CALLS`]): the caller leads to it, too.
//!
//! Which function is whose body is said by address, in a section that is not loaded ([`SECTION`]), because names can be
//! taken over by other files. Members of a group stay with their group, whichever file's copy the linker takes.
//!
//! Where any of this cannot be shown, the files are not joined ([`Apart`]), and the hooked one serves alone.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::site_table::ROOM;

use super::object::{
    Group, Home, Object, Reloc, SHF_GROUP, SHF_LINK_ORDER, SHF_MERGE, SHF_WRITE, STT_FILE, STT_FUNC, STT_SECTION,
    STT_TLS, Section, Symbol, Unreadable,
};
use super::side::{BEFORE_NEXT, Place, R_64, R_PC32, Side, alike, holds_pointers, is_list, reached};
use crate::elf::{SHT_NOBITS, SHT_PROGBITS};

/// The section with rows of two addresses: the room for a jump in a plain body (0 for the hooked body of an inner function),
/// and the hooked body (0 for the plain body of an inner function). Linkers look at names: in debug information, and only
/// there, what refers to code that was left out becomes 0.
pub(super) const SECTION: &str = ".debug_selvedge_bodies";
/// The section with rows of two addresses: a hooked body, and the begin of a function that its plain body has inlined.
pub(super) const CALLS: &str = ".debug_selvedge_calls";
/// Bytes of a row of either.
pub(super) const ROW: usize = 16;

/// The compilers' list of places with room for a jump.
const PLACES: &str = "__patchable_function_entries";
/// Bytes of `endbr64`, which may stand before the room.
pub(super) const BEFORE_ROOM: usize = 4;

const R_NONE: u32 = 0;

/// Why two objects are not joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Apart {
    /// One of them could not be read, or the result not be written.
    #[error("{0}")]
    Object(&'static str),
    /// Data that can change is not the same in both.
    #[error("the data `{0}` is not the same in both compilations")]
    Data(String),
    /// A function is in one of them only, or cannot be switched.
    #[error("the function `{0}` {1}")]
    Function(String, &'static str),
    /// A symbol is in one of them only.
    #[error("the symbol `{0}` is not in both compilations")]
    Symbol(String),
}

impl From<Unreadable> for Apart {
    fn from(why: Unreadable) -> Apart {
        Apart::Object(why.0)
    }
}

/// Joins the two compilations of a file.
///
/// # Errors
/// Where it cannot be shown that the bodies can stand for each other.
pub fn join(plain: &[u8], hooked: &[u8]) -> Result<Vec<u8>, Apart> {
    let mut plain = Object::read(plain)?;
    let hooked = Object::read(hooked)?;
    let places = take_places(&mut plain)?;
    let before = Side::new(&plain);
    let after = Side::new(&hooked);
    no_coroutines(&after)?;
    let fates = fates(&before, &after)?;
    let mut join = Join {
        out: plain.clone(),
        before: &before,
        after: &after,
        fates,
        sections: vec![None; hooked.sections.len()],
        copies: vec![None; hooked.symbols.len()],
        mapped: vec![None; hooked.symbols.len()],
        names: BTreeMap::new(),
        section_symbols: BTreeMap::new(),
        out_groups: BTreeMap::new(),
        plain_locals: BTreeMap::new(),
    };
    for (at, symbol) in plain.symbols.iter().enumerate() {
        match symbol.home {
            _ if !symbol.is_local() => drop(join.names.insert(symbol.name.clone(), at)),
            Home::In(section) if symbol.kind() == STT_SECTION => drop(join.section_symbols.insert(section, at)),
            _ if symbol.kind() == STT_FUNC => {
                let local = join.plain_locals.entry(symbol.name.clone());
                local.and_modify(|known| *known = None).or_insert(Some(at));
            }
            _ => {}
        }
    }
    join.out_groups = (0..plain.groups.len()).map(|group| (before.signature(group).to_vec(), group)).collect();
    join.sections()?;
    join.functions(&places)?;
    join.relocations()?;
    Ok(join.out.write()?)
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Takes the list of places out of the plain object, and makes each one instruction that does nothing.
fn take_places(plain: &mut Object) -> Result<Vec<Place>, Apart> {
    let mut places = Vec::new();
    for at in 0..plain.sections.len() {
        if plain.sections[at].name != PLACES {
            continue;
        }
        let section = std::mem::take(&mut plain.sections[at]);
        for reloc in &section.relocs {
            let target = plain.symbols.get(reloc.symbol).ok_or(Apart::Object("a damaged list of places"))?;
            let Home::In(home) = target.home else { return Err(Apart::Object("a damaged list of places")) };
            places.push((home, target.value.wrapping_add_signed(reloc.addend)));
        }
        // Its number stays, so that others keep theirs; nothing is left of it.
        plain.sections[at] =
            Section { name: ".selvedge.none".to_owned(), kind: SHT_PROGBITS, align: 1, ..Section::default() };
        for group in &mut plain.groups {
            group.members.retain(|member| *member != at);
        }
    }
    for (section, offset) in &places {
        let section = plain.sections.get_mut(*section).ok_or(Apart::Object("a damaged list of places"))?;
        let at = usize::try_from(*offset).unwrap_or(usize::MAX);
        let room = section.data.get_mut(at..at.saturating_add(ROOM.len()));
        // clang's has another operand.
        let is_room = |room: &&mut [u8]| room[..4] == ROOM[..4] || room.iter().all(|byte| *byte == 0x90);
        let room = room.filter(is_room);
        room.ok_or(Apart::Object("a function without room for a jump"))?.copy_from_slice(&ROOM);
    }
    Ok(places)
}

/// clang lays out a coroutine's frame when it has optimised it, in each compilation by itself; gcc does before.
fn no_coroutines(hooked: &Side<'_>) -> Result<(), Apart> {
    let names = hooked.functions.values().flatten().map(|symbol| hooked.name(*symbol));
    match names.into_iter().find(|name| name.ends_with(b".resume")) {
        Some(name) => {
            Err(Apart::Function(text(name), "is of a coroutine, whose frame each compilation lays out by itself"))
        }
        None => Ok(()),
    }
}

/// Hooked functions by whether they are local, and name; nothing where there are several of one name.
fn bodies<'a>(after: &Side<'a>, fates: &[Fate]) -> BTreeMap<(bool, &'a [u8]), Option<Place>> {
    let mut bodies = BTreeMap::new();
    for (place, names) in after.functions.iter().filter(|(place, _)| fates[place.0] == Fate::Keep) {
        for name in names {
            let symbol = &after.object.symbols[*name];
            let body = bodies.entry((symbol.is_local(), symbol.name.as_slice()));
            body.and_modify(|known| *known = None).or_insert(Some(*place));
        }
    }
    bodies
}

/// What becomes of a section of the hooked object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It stays.
    Keep,
    /// It stays with a group that the plain object does not have: all its symbols do.
    Import,
    /// The plain object's stands for it.
    Same(usize),
    /// Its bytes go behind those of the plain object's.
    Append(usize),
    /// Nothing refers to it.
    Drop,
}

fn fates(before: &Side<'_>, after: &Side<'_>) -> Result<Vec<Fate>, Apart> {
    let all: Vec<Fate> =
        (0..after.object.sections.len()).map(|at| fate(before, after, at)).collect::<Result<_, _>>()?;
    // Nor may the plain file alone have a variable.
    let same: BTreeSet<usize> =
        all.iter().filter_map(|fate| if let Fate::Same(there) = fate { Some(*there) } else { None }).collect();
    for (at, section) in before.object.sections.iter().enumerate() {
        let is_data = section.is_loaded() && matches!(section.kind, SHT_PROGBITS | SHT_NOBITS) && section.size > 0;
        let changes = section.flags & SHF_WRITE != 0 && !section.name.starts_with(RELRO) && !is_list(section);
        if is_data && changes && before.groups[at].is_none() && !same.contains(&at) {
            return Err(Apart::Data(section.name.clone()));
        }
    }
    Ok(all)
}

/// What cannot change once it is relocated.
const RELRO: &str = ".data.rel.ro";

fn fate(before: &Side<'_>, after: &Side<'_>, at: usize) -> Result<Fate, Apart> {
    let section = &after.object.sections[at];
    let group = after.groups[at].map(|group| after.signature(group));
    if group.is_some_and(|signature| !before.signatures.contains(signature)) {
        return Ok(Fate::Import);
    }
    let there = before.only(after.key(at));
    let different = || Apart::Data(section.name.clone());
    if section.is_code() || section.name.starts_with(".gcc_except_table") {
        return Ok(Fate::Keep);
    }
    if section.name == ".eh_frame" {
        return Ok(there.map_or(Fate::Keep, Fate::Append));
    }
    if !section.is_loaded() {
        return Ok(match there {
            _ if !section.name.starts_with(".debug") => Fate::Drop,
            Some(there) if group.is_some() => Fate::Same(there),
            _ => Fate::Keep,
        });
    }
    if is_list(section) {
        // What only the hooked file has starts the runtime.
        return match there {
            Some(there) if before.object.sections[there].size == section.size => Ok(Fate::Drop),
            Some(_) => Err(different()),
            None => Ok(Fate::Keep),
        };
    }
    if !matches!(section.kind, SHT_PROGBITS | SHT_NOBITS) {
        return Ok(Fate::Drop);
    }
    let is_constant = section.flags & SHF_WRITE == 0 || section.name.starts_with(RELRO);
    // What linkers merge has one address anyway.
    let has_name = section.flags & SHF_MERGE == 0;
    match there {
        Some(there) if section.size == 0 => Ok(Fate::Same(there)),
        None if section.size == 0 => Ok(Fate::Drop),
        _ if is_constant && !has_name => Ok(Fate::Keep),
        Some(there) if alike(before, there, after, at) => Ok(Fate::Same(there)),
        _ if is_constant => Ok(Fate::Keep),
        _ => Err(different()),
    }
}

/// A plain body's room and a hooked body, each where there is one.
type Row = (Option<Place>, Option<Place>);

/// A hooked caller, and the symbol of its callee.
type Call = (Place, usize);

/// The work in progress.
struct Join<'a> {
    out: Object,
    before: &'a Side<'a>,
    after: &'a Side<'a>,
    fates: Vec<Fate>,
    /// By hooked section: where it is in `out`, and how far into it.
    sections: Vec<Option<Place>>,
    /// By hooked symbol: the local one of a hooked body, by which debuggers know it.
    copies: Vec<Option<usize>>,
    mapped: Vec<Option<(usize, i64)>>,
    /// What others can see, by name.
    names: BTreeMap<Vec<u8>, usize>,
    /// By section of `out`: the symbol that stands for it.
    section_symbols: BTreeMap<usize, usize>,
    /// Groups of `out`, by signature.
    out_groups: BTreeMap<Vec<u8>, usize>,
    /// Plain functions that only their file can see; nothing where there are several of one name.
    plain_locals: BTreeMap<Vec<u8>, Option<usize>>,
}

impl Join<'_> {
    /// Brings in the sections that stay, without their relocations.
    fn sections(&mut self) -> Result<(), Apart> {
        for (at, section) in self.after.object.sections.iter().enumerate() {
            match self.fates[at] {
                Fate::Keep | Fate::Import => {
                    self.sections[at] = Some((self.out.sections.len(), 0));
                    self.out.sections.push(Section { relocs: Vec::new(), beside: None, ..section.clone() });
                }
                Fate::Append(there) => {
                    let into = &mut self.out.sections[there];
                    into.data.resize(into.data.len().next_multiple_of(8), 0);
                    self.sections[at] = Some((there, into.data.len() as u64));
                    into.data.extend_from_slice(&section.data);
                    into.size = into.data.len() as u64;
                }
                Fate::Same(there) => {
                    let same = &mut self.out.sections[there];
                    same.align = same.align.max(section.align);
                }
                Fate::Drop => {}
            }
        }
        for (at, section) in self.after.object.sections.iter().enumerate() {
            let new = |old: usize| self.sections.get(old).copied().flatten().map(|(new, _)| new);
            if let (Some(here), Some(beside)) = (new(at), section.beside) {
                match new(beside) {
                    Some(beside) => self.out.sections[here].beside = Some(beside),
                    None => self.out.sections[here].flags &= !SHF_LINK_ORDER,
                }
            }
        }
        for (at, group) in self.after.object.groups.iter().enumerate() {
            let kept = group.members.iter().filter_map(|member| self.sections[*member].map(|(new, _)| new));
            let members: Vec<usize> = kept.collect();
            if members.is_empty() {
                continue;
            }
            match self.out_groups.get(self.after.signature(at)) {
                Some(there) => self.out.groups[*there].members.extend(members),
                None => {
                    let signature = self.symbol(group.signature)?.0;
                    self.out_groups.insert(self.after.signature(at).to_vec(), self.out.groups.len());
                    self.out.groups.push(Group { flags: group.flags, signature, members });
                }
            }
        }
        Ok(())
    }

    /// The symbol that stands for a section of `out`, made where there is none.
    fn section_symbol(&mut self, section: usize) -> usize {
        let next = self.out.symbols.len();
        let symbols = &mut self.out.symbols;
        *self.section_symbols.entry(section).or_insert_with(|| {
            symbols.push(Symbol::of_section(section));
            next
        })
    }

    /// The symbol in `out` that a hooked one stands for, and what to add to it.
    fn symbol(&mut self, at: usize) -> Result<(usize, i64), Apart> {
        if let Some(known) = self.mapped[at] {
            return Ok(known);
        }
        let found = self.find_symbol(at)?;
        self.mapped[at] = Some(found);
        Ok(found)
    }

    fn find_symbol(&mut self, at: usize) -> Result<(usize, i64), Apart> {
        let symbol = &self.after.object.symbols[at];
        let missing = || Apart::Symbol(text(&symbol.name));
        let named = self.names.get(&symbol.name).copied();
        match symbol.home {
            Home::Nowhere => Ok((named.unwrap_or_else(|| self.add(symbol.clone())), 0)),
            Home::Absolute if symbol.is_local() => Ok((self.add(symbol.clone()), 0)),
            Home::Absolute | Home::Common => named.map(|named| (named, 0)).ok_or_else(missing),
            Home::In(home) => match self.fates[home] {
                Fate::Same(there) if symbol.is_local() && symbol.kind() == STT_TLS => {
                    // Linkers take a thread-local relocation only against a thread-local symbol, not against a section's.
                    let is_it = |old: &&Symbol| {
                        old.home == Home::In(there)
                            && old.kind() == STT_TLS
                            && old.is_local()
                            && old.value == symbol.value
                    };
                    let at = self.before.object.symbols.iter().position(|old| is_it(&old));
                    at.map(|at| (at, 0)).ok_or_else(missing)
                }
                Fate::Same(there) if symbol.is_local() => {
                    let value = i64::try_from(symbol.value).map_err(|_| missing())?;
                    Ok((self.section_symbol(there), value))
                }
                Fate::Import if !symbol.is_local() => {
                    let (new, _) = self.sections[home].ok_or_else(missing)?;
                    let moved = Symbol { home: Home::In(new), ..symbol.clone() };
                    match named {
                        // The plain object only asks for it.
                        Some(named) => self.out.symbols[named] = moved,
                        None => return Ok((self.add(moved), 0)),
                    }
                    named.map(|named| (named, 0)).ok_or_else(missing)
                }
                Fate::Keep | Fate::Import | Fate::Append(_) if symbol.is_local() => {
                    let (new, shift) = self.sections[home].ok_or_else(missing)?;
                    if symbol.kind() == STT_SECTION {
                        return Ok((self.section_symbol(new), i64::try_from(shift).map_err(|_| missing())?));
                    }
                    let moved = Symbol { home: Home::In(new), value: symbol.value + shift, ..symbol.clone() };
                    Ok((self.add(moved), 0))
                }
                Fate::Drop => Err(missing()),
                // Others can see it: the plain object's it is.
                _ => {
                    let is_there = |named: &usize| !matches!(self.out.symbols[*named].home, Home::Nowhere);
                    named.filter(is_there).map(|named| (named, 0)).ok_or_else(missing)
                }
            },
        }
    }

    fn add(&mut self, symbol: Symbol) -> usize {
        let at = self.out.symbols.len();
        if !symbol.is_local() {
            self.names.insert(symbol.name.clone(), at);
        }
        self.out.symbols.push(symbol);
        at
    }

    /// Finds which function is whose body, and writes it down.
    fn functions(&mut self, places: &[Place]) -> Result<(), Apart> {
        let file = self.after.object.symbols.iter().find(|symbol| symbol.kind() == STT_FILE);
        if let Some(file) = file.cloned() {
            self.add(file);
        }
        let bodies = bodies(self.after, &self.fates);
        for (at, symbol) in self.after.object.symbols.iter().enumerate() {
            let Home::In(home) = symbol.home else { continue };
            let code = self.after.object.sections[home].is_code() && self.fates[home] == Fate::Keep;
            if let Some((new, _)) = self.sections[home].filter(|_| code && symbol.kind() == STT_FUNC) {
                let info = STT_FUNC;
                let copy = self.add(Symbol { info, other: 0, home: Home::In(new), ..symbol.clone() });
                self.copies[at] = Some(copy);
                if symbol.is_local() {
                    self.mapped[at] = Some((copy, 0));
                }
            }
        }
        let mut rows: BTreeMap<Option<usize>, Vec<Row>> = BTreeMap::new();
        let mut paired = BTreeSet::new();
        for place in places {
            let Some((start, names)) = self.before.functions.range(..=(place.0, place.1)).next_back() else { continue };
            let is_own = start.0 == place.0 && place.1 - start.1 <= BEFORE_ROOM as u64;
            if !is_own {
                return Err(Apart::Object("room for a jump that is no function's"));
            }
            let hooked = names.iter().find_map(|name| {
                let symbol = &self.before.object.symbols[*name];
                bodies.get(&(symbol.is_local(), symbol.name.as_slice())).copied().flatten()
            });
            let name = || text(self.before.name(names[0]));
            let is_seen = names.iter().any(|name| !self.before.object.symbols[*name].is_local());
            let is_taken = self.before.taken.contains(start);
            if hooked.is_none() && (is_seen || is_taken) {
                return Err(Apart::Function(name(), "has no hooked body"));
            }
            if !is_seen && hooked.is_some_and(|hooked| is_taken != self.after.taken.contains(&hooked)) {
                return Err(Apart::Function(name(), "has its address taken in one compilation only"));
            }
            // Two plain functions may share a hooked body: compilers fold what is the same.
            let hooked = hooked.filter(|_| is_seen || is_taken);
            paired.extend(hooked);
            rows.entry(self.before.groups[place.0]).or_default().push((Some(*place), hooked));
        }
        let starts = self.starts();
        for (hooked, names) in &self.after.functions {
            if self.fates[hooked.0] != Fate::Keep || paired.contains(hooked) {
                continue;
            }
            let is_seen = names.iter().any(|name| !self.after.object.symbols[*name].is_local());
            if !starts.contains(hooked) && (is_seen || self.after.taken.contains(hooked)) {
                if self.has_hooks(*hooked, names) {
                    return Err(Apart::Function(text(self.after.name(names[0])), "cannot be switched to its hooks"));
                }
                continue;
            }
            rows.entry(self.group_of(*hooked)).or_default().push((None, Some(*hooked)));
        }
        for (group, rows) in rows {
            self.table(group, &rows)?;
        }
        for (group, rows) in self.inlined(&paired)? {
            self.calls(group, &rows)?;
        }
        Ok(())
    }

    /// Functions that start the runtime: only the hooked file lists them.
    fn starts(&self) -> BTreeSet<Place> {
        let lists = self.after.object.sections.iter().zip(&self.fates);
        let own = lists.filter(|(section, fate)| is_list(section) && matches!(fate, Fate::Keep | Fate::Import));
        own.flat_map(|(section, _)| section.relocs.iter().filter_map(|reloc| self.after.pointed(section, reloc)))
            .collect()
    }

    /// Whether hooks of accesses are called between a function's begin and its end.
    fn has_hooks(&self, start: Place, names: &[usize]) -> bool {
        let size = names.iter().map(|name| self.after.object.symbols[*name].size).max().unwrap_or(0);
        let inside = |reloc: &&Reloc| reloc.offset.wrapping_sub(start.1) < size;
        self.after.object.sections[start.0].relocs.iter().filter(inside).any(|reloc| {
            let name = self.after.object.symbols.get(reloc.symbol).map_or(&[][..], |symbol| &symbol.name);
            // What compilers add by themselves (what starts the runtime, what ends the program) accesses nothing.
            let counts_only = [&b"__tsan_init"[..], b"__tsan_func_entry", b"__tsan_func_exit"].contains(&name);
            name.starts_with(b"__tsan_") && !counts_only
        })
    }

    /// Functions with two bodies that the hooked body of a caller calls and the plain one does not, because they were inlined there:
    /// whoever wants their hooks must switch the caller, too. By group: the hooked caller, and the symbol of the callee.
    fn inlined(&self, paired: &BTreeSet<Place>) -> Result<BTreeMap<Option<usize>, Vec<Call>>, Apart> {
        let names =
            |place: &Place| self.after.functions.get(place).into_iter().flatten().map(|name| self.after.name(*name));
        let switched: BTreeSet<&[u8]> = paired.iter().flat_map(names).collect();
        let (plain, hooked) = (self.before.calls(), self.after.calls());
        let mut rows: BTreeMap<Option<usize>, Vec<Call>> = BTreeMap::new();
        for (place, caller) in paired.iter().flat_map(|place| names(place).map(move |name| (place, name))) {
            let there = reached(&plain, caller, &switched);
            for callee in reached(&hooked, caller, &switched).difference(&there) {
                let seen = self.names.get(*callee).copied();
                let symbol = seen.or_else(|| self.plain_locals.get(*callee).copied().flatten());
                let why = "is inlined in one compilation and called in the other";
                let symbol = symbol.ok_or_else(|| Apart::Function(text(callee), why))?;
                rows.entry(self.group_of(*place)).or_default().push((*place, symbol));
            }
        }
        Ok(rows)
    }

    /// The group that a hooked function has in the result.
    fn group_of(&self, hooked: Place) -> Option<usize> {
        let group = self.after.groups[hooked.0].map(|group| self.after.signature(group));
        group.and_then(|signature| self.out_groups.get(signature).copied())
    }

    /// Where a hooked function is in the result: the symbol of its section, and how far into that it begins.
    fn body(&mut self, hooked: Place) -> Result<(usize, i64), Apart> {
        let missing = || Apart::Object("code that is not there");
        let (home, shift) = self.sections[hooked.0].ok_or_else(missing)?;
        Ok((self.section_symbol(home), i64::try_from(hooked.1 + shift).map_err(|_| missing())?))
    }

    /// Writes rows of calls of one group.
    fn calls(&mut self, group: Option<usize>, rows: &[Call]) -> Result<(), Apart> {
        let mut relocs = Vec::new();
        for (row, (caller, callee)) in (0_u64..).zip(rows) {
            let offset = row * ROW as u64;
            let (symbol, addend) = self.body(*caller)?;
            relocs.push(Reloc { offset, kind: R_64, symbol, addend });
            relocs.push(Reloc { offset: offset + 8, kind: R_64, symbol: *callee, addend: 0 });
        }
        self.note(CALLS, group, rows.len(), relocs);
        Ok(())
    }

    /// Adds a section with rows that readers of the image want.
    fn note(&mut self, name: &str, group: Option<usize>, rows: usize, relocs: Vec<Reloc>) {
        let data = vec![0; rows * ROW];
        let at = self.out.sections.len();
        self.out.sections.push(Section {
            name: name.to_owned(),
            kind: SHT_PROGBITS,
            flags: if group.is_some() { SHF_GROUP } else { 0 },
            align: 8,
            entry_size: 0,
            beside: None,
            size: data.len() as u64,
            data,
            relocs,
        });
        if let Some(group) = group {
            self.out.groups[group].members.push(at);
        }
    }

    /// Writes rows of one group.
    fn table(&mut self, group: Option<usize>, rows: &[Row]) -> Result<(), Apart> {
        let missing = || Apart::Object("code that is not there");
        let signed = |offset: u64| i64::try_from(offset).map_err(|_| missing());
        let mut relocs = Vec::new();
        for (row, (plain, hooked)) in (0_u64..).zip(rows) {
            let offset = row * ROW as u64;
            if let Some((section, place)) = plain {
                let symbol = self.section_symbol(*section);
                relocs.push(Reloc { offset, kind: R_64, symbol, addend: signed(*place)? });
            }
            let Some(hooked) = hooked else { continue };
            let (body, addend) = self.body(*hooked)?;
            relocs.push(Reloc { offset: offset + 8, kind: R_64, symbol: body, addend });
            if let Some((section, place)) = plain {
                // Where the plain body is linked, the hooked one is.
                let edge = Reloc { offset: *place, kind: R_NONE, symbol: body, addend: 0 };
                self.out.sections[*section].relocs.push(edge);
            }
        }
        self.note(SECTION, group, rows.len(), relocs);
        Ok(())
    }

    /// Turns the relocations of sections that stay to where their targets are now.
    fn relocations(&mut self) -> Result<(), Apart> {
        for (at, section) in self.after.object.sections.iter().enumerate() {
            let Some((home, shift)) = self.sections[at] else { continue };
            let mut relocs = Vec::with_capacity(section.relocs.len());
            for reloc in &section.relocs {
                relocs.extend(self.relocation(section, reloc)?.map(|new| Reloc { offset: new.offset + shift, ..new }));
            }
            self.out.sections[home].relocs.extend(relocs);
        }
        for (function, at) in &self.after.own {
            if let Some((home, shift)) = self.sections[function.0].filter(|_| self.fates[function.0] == Fate::Keep) {
                let symbol = self.plain_function(*function)?;
                let reloc = Reloc { offset: at + shift, kind: R_PC32, symbol, addend: -BEFORE_NEXT };
                self.out.sections[home].relocs.push(reloc);
            }
        }
        Ok(())
    }

    fn relocation(&mut self, section: &Section, reloc: &Reloc) -> Result<Option<Reloc>, Apart> {
        let Some(target) = self.after.object.symbols.get(reloc.symbol) else { return Ok(Some(*reloc)) };
        if !holds_pointers(section) {
            // Debug and unwind information is of the body that it was made for.
            if let Some(copy) = self.copies[reloc.symbol] {
                return Ok(Some(Reloc { symbol: copy, ..*reloc }));
            }
            return match self.symbol(reloc.symbol) {
                Ok((symbol, more)) => Ok(Some(Reloc { symbol, addend: reloc.addend + more, ..*reloc })),
                Err(_) if !section.is_loaded() => Ok(None),
                Err(why) => Err(why),
            };
        }
        // Lists that only the hooked file has are of functions that only it has.
        let pointed = if is_list(section) { None } else { self.after.pointed(section, reloc) };
        if let Some(function) = pointed.filter(|place| target.is_local() && self.fates[place.0] == Fate::Keep) {
            let symbol = self.plain_function(function)?;
            let addend = if reloc.kind == R_PC32 { -BEFORE_NEXT } else { 0 };
            return Ok(Some(Reloc { symbol, addend, ..*reloc }));
        }
        let (symbol, more) = self.symbol(reloc.symbol)?;
        Ok(Some(Reloc { symbol, addend: reloc.addend + more, ..*reloc }))
    }

    /// The plain function of the name that a hooked one has.
    fn plain_function(&self, hooked: Place) -> Result<usize, Apart> {
        let names = self.after.functions.get(&hooked).map_or(&[][..], Vec::as_slice);
        let found = names.iter().find_map(|name| {
            let symbol = &self.after.object.symbols[*name];
            if !symbol.is_local() {
                return self.names.get(&symbol.name).copied();
            }
            self.plain_locals.get(&symbol.name).copied().flatten()
        });
        let name = || names.first().map_or_else(String::new, |name| text(self.after.name(*name)));
        found.ok_or_else(|| Apart::Function(name(), "has its address taken in the hooked compilation only"))
    }
}
