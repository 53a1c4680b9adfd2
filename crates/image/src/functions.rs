//! The functions of an image: their ranges, names, and which ranges share one frame.
//!
//! A compiler may move the unlikely part of `foo` to `foo.cold`: it has a symbol of its own but runs
//! in `foo`'s frame, so a function-entry hook in one and the exit hook in the other belong together.
//! [`Functions::groups`] joins exactly these. `foo.part.0`, `foo.constprop.0` and the like are
//! functions of their own, with frames of their own. The body without hooks of a function that has two is a part of it, too.
//!
//! Two source files may each have a local `foo`; their cold parts are told apart by the file that
//! the symbol table lists them under. Without a symbol table the unwind table gives the ranges;
//! they have no names then, and cold parts are not joined.

use std::collections::BTreeMap;

use gimli::UnwindSection;

use crate::bodies::{Bodies, Row};
use crate::demangle::demangle;
use crate::image::{Binding, Image, Symbol, SymbolKind};
use crate::sites::is_runtime_name;

/// Which part of its function a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The part that is entered.
    Hot,
    /// The part that was moved away (`.cold`).
    Cold,
    /// A body without hooks, or its `.cold`: where the function is entered, and runs while no plan wants its hooks.
    Plain,
}

/// One range of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// First byte, from the load base.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// The linker's name; `None` where only the unwind table knows the range.
    pub symbol: Option<String>,
    /// Hot or cold.
    pub part: Part,
    /// Its group's index in [`Functions::groups`].
    pub group: u32,
    /// Whether the range belongs to the in-process runtime.
    pub(crate) runtime: bool,
    /// Whether its own name is known in one object file only.
    local: bool,
}

impl Function {
    /// Whether the range belongs to the in-process runtime.
    pub fn is_runtime(&self) -> bool {
        self.runtime
    }

    /// The readable name of the whole function: that of `foo` for `foo.cold`.
    pub fn name(&self) -> String {
        match &self.symbol {
            Some(symbol) => demangle(frame_symbol(symbol).0),
            None => format!("sub_{:x}", self.start),
        }
    }
}

/// Ranges that share one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionGroup {
    /// The symbol without `.cold`; `None` where there is none.
    pub symbol: Option<String>,
    /// Indices in [`Functions::all`], ascending.
    pub parts: Vec<u32>,
}

/// All functions of an image, by address.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    all: Vec<Function>,
    groups: Vec<FunctionGroup>,
}

impl Functions {
    /// Collects the functions of `image`.
    pub fn new(image: &Image) -> Functions {
        let sections: Vec<(u64, u64)> =
            image.code_sections().into_iter().map(|(start, code)| (start, start + code.len() as u64)).collect();
        let mut starts: BTreeMap<u64, Start<'_>> = BTreeMap::new();
        for symbol in image.symbols() {
            let name = image.symbol_name(symbol);
            let is_function = match symbol.kind {
                SymbolKind::Function | SymbolKind::Indirect => true,
                // Hand-written entries of the runtime need not be typed.
                SymbolKind::Untyped => is_runtime_name(name, symbol.binding),
                _ => false,
            };
            if is_function && section_end(&sections, symbol.vaddr).is_some() {
                starts.entry(symbol.vaddr).or_default().add(symbol, name);
            }
        }
        if !image.has_full_symbols() {
            for (start, size) in unwind_ranges(image) {
                if section_end(&sections, start).is_some() {
                    let entry = starts.entry(start).or_default();
                    entry.size = entry.size.max(size);
                }
            }
        }
        let mut functions = Functions { all: Vec::with_capacity(starts.len()), groups: Vec::new() };
        let mut files = Vec::with_capacity(starts.len());
        let mut next = starts.keys().skip(1).copied().collect::<Vec<u64>>().into_iter();
        for (start, found) in &starts {
            let limit = section_end(&sections, *start).unwrap_or(*start).min(next.next().unwrap_or(u64::MAX));
            let end = if found.size == 0 { limit } else { start.saturating_add(found.size).min(limit) };
            let symbol = found.best.map(|(_, name, _)| name);
            files.push(found.best.map_or(0, |(_, _, file)| file));
            functions.all.push(Function {
                start: start - image.base(),
                end: end - image.base(),
                symbol: symbol.map(str::to_owned),
                part: symbol.map_or(Part::Hot, |symbol| frame_symbol(symbol).1),
                group: 0,
                runtime: found.runtime,
                local: found.best.is_none_or(|(binding, ..)| binding == Binding::Local),
            });
        }
        functions.join_parts(&files, &Bodies::new(image).rows);
        functions
    }

    /// Every range, by address; they do not overlap.
    pub fn all(&self) -> &[Function] {
        &self.all
    }

    /// The ranges that share a frame, in order of their first part.
    pub fn groups(&self) -> &[FunctionGroup] {
        &self.groups
    }

    /// The function around an offset.
    pub fn at(&self, offset: u64) -> Option<&Function> {
        let after = self.all.partition_point(|function| function.start <= offset);
        self.all.get(after.checked_sub(1)?).filter(|function| offset < function.end)
    }

    /// Whether other object files may have a function of this name: no part of it has a name that all share.
    pub(crate) fn is_local(&self, function: &Function) -> bool {
        let parts = self.groups.get(function.group as usize).map_or(&[][..], |group| &group.parts);
        function.local && parts.iter().filter_map(|part| self.all.get(*part as usize)).all(|part| part.local)
    }

    fn join_parts(&mut self, files: &[u32], bodies: &[Row]) {
        // Plain bodies, with the hooked one of those that have one.
        let index = |offset: u64| self.all.partition_point(|function| function.start <= offset).checked_sub(1);
        let mut plain: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        for row in bodies {
            if let Some(room) = row.room.and_then(index) {
                plain.insert(room, row.hooked.and_then(index));
            }
        }
        // The hot part by (source file, name); file 0 for global names.
        let mut hot: BTreeMap<(u32, &str), usize> = BTreeMap::new();
        for (at, function) in self.all.iter().enumerate() {
            if let Some(symbol) = function.symbol.as_deref().filter(|_| function.part == Part::Hot) {
                hot.entry((files[at], symbol)).or_insert(at);
            }
        }
        let mut owner: Vec<usize> = self
            .all
            .iter()
            .enumerate()
            .map(|(at, function)| {
                let name = function
                    .symbol
                    .as_deref()
                    .filter(|_| function.part == Part::Cold)
                    .map(|symbol| frame_symbol(symbol).0);
                name.and_then(|name| hot.get(&(files[at], name)).or_else(|| hot.get(&(0, name)))).copied().unwrap_or(at)
            })
            .collect();
        for (at, hot) in owner.iter_mut().enumerate() {
            if let Some(hooked) = plain.get(hot) {
                self.all[at].part = Part::Plain;
                *hot = hooked.unwrap_or(*hot);
            }
        }
        let mut groups: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (at, owner) in (0_u32..).zip(&owner) {
            groups.entry(*owner).or_default().push(at);
        }
        for (group, (owner, parts)) in (0_u32..).zip(groups) {
            for part in &parts {
                self.all[*part as usize].group = group;
            }
            let symbol = self.all[owner].symbol.as_deref().map(|symbol| frame_symbol(symbol).0.to_owned());
            self.groups.push(FunctionGroup { symbol, parts });
        }
    }
}

/// What the symbols say about one start address.
#[derive(Default)]
struct Start<'a> {
    size: u64,
    /// The preferred name, by binding and then by spelling, so that the choice is the same always.
    best: Option<(Binding, &'a str, u32)>,
    runtime: bool,
}

impl<'a> Start<'a> {
    fn add(&mut self, symbol: &Symbol, name: &'a str) {
        self.size = self.size.max(symbol.size);
        self.runtime |= is_runtime_name(name, symbol.binding);
        let new = (symbol.binding, name, symbol.file);
        if self.best.is_none_or(|best| new < best) {
            self.best = Some(new);
        }
    }
}

/// The symbol whose frame this one runs in, and which part it is.
fn frame_symbol(symbol: &str) -> (&str, Part) {
    match symbol.strip_suffix(".cold") {
        Some(hot) => (hot, Part::Cold),
        None => (symbol, Part::Hot),
    }
}

fn section_end(sections: &[(u64, u64)], vaddr: u64) -> Option<u64> {
    let after = sections.partition_point(|section| section.0 <= vaddr);
    let end = sections.get(after.checked_sub(1)?)?.1;
    (vaddr < end).then_some(end)
}

/// (address, size) of every frame description.
fn unwind_ranges(image: &Image) -> Vec<(u64, u64)> {
    let Some(section) = image.elf().section(".eh_frame") else {
        return Vec::new();
    };
    let bytes = image.bytes().get(section.file.clone()).unwrap_or_default();
    let frames = gimli::EhFrame::new(bytes, gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(section.vaddr);
    let mut entries = frames.entries(&bases);
    let mut out = Vec::new();
    // Damage ends the walk; the sweep does without the rest.
    while let Ok(Some(entry)) = entries.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(|frames, bases, offset| frames.cie_from_offset(bases, offset))
        {
            out.push((fde.initial_address(), fde.len()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cold_parts_share_a_frame() {
        let rows = [
            ("foo", "foo", Part::Hot),
            ("foo.cold", "foo", Part::Cold),
            ("foo.part.0", "foo.part.0", Part::Hot),
            ("foo.constprop.0.cold", "foo.constprop.0", Part::Cold),
            ("foo.cold.1", "foo.cold.1", Part::Hot),
        ];
        for (symbol, frame, part) in rows {
            assert_eq!(frame_symbol(symbol), (frame, part));
        }
    }
}
