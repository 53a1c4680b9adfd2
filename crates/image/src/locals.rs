//! From an address in a frame to the name of the variable that lies there: `main()::account.balance`.
//!
//! The debug information says of each variable of a function where it lies, counted from the frame; what lies at a place
//! inside it `types.rs` tells. Variables of inlined functions are found, too, and are named after those.
//!
//! Cannot see: variables that are in registers, in pieces, or nowhere; arrays whose size is known at run time only.

use std::cell::OnceCell;
use std::sync::Arc;

use gimli::{AttributeValue, DebuggingInformationEntry, EntriesTreeNode};

use crate::demangle::demangle;
use crate::dwarf::Reader;
use crate::evaluate::{Frame, Memory, Registers};
use crate::image::Image;
use crate::types;
use crate::variables::{At, LoadedUnit, Units};

/// Blocks are nested deeper in damaged files only.
const MAX_DEPTH: u32 = 256;

type Entry = DebuggingInformationEntry<Reader>;

/// Names variables in frames of one image's functions. The debug information is looked at when first asked.
pub struct Locals {
    base: u64,
    units: Units,
    /// First address, end and unit, by address.
    spans: OnceCell<Vec<(u64, u64, usize)>>,
}

impl std::fmt::Debug for Locals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locals").field("base", &self.base).finish_non_exhaustive()
    }
}

/// A frame of a copied stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// Where its code is, from the image's load base: for a return address, that of the call before it.
    pub offset: u64,
    /// What registers hold in it.
    pub registers: Registers,
    /// Where it ends.
    pub cfa: u64,
}

impl Locals {
    /// Prepares to name variables of `image`.
    pub fn new(image: &Image) -> Locals {
        Locals { base: image.base(), units: Units::new(image.debug()), spans: OnceCell::new() }
    }

    /// Names the byte at `addr` of a frame; `None` where no variable is known there, or more than one might be.
    pub fn name(&self, frame: &StackFrame, addr: u64, memory: &Memory<'_>) -> Option<String> {
        let vaddr = frame.offset.checked_add(self.base)?;
        let spans = self.spans.get_or_init(|| self.units.spans());
        let covers = |(start, end, _): &&(u64, u64, usize)| (*start..*end).contains(&vaddr);
        // Units may lie within each other's span.
        let (unit, function) = spans.iter().filter(covers).find_map(|(_, _, index)| {
            let unit = self.units.get(*index)?;
            let function = function_at(&unit, vaddr)?;
            Some((unit, function))
        })?;
        let mut tree = unit.unit.entries_tree(Some(function)).ok()?;
        let root = tree.root().ok()?;
        let encoding = unit.unit.encoding();
        let mut place = Frame { registers: &frame.registers, cfa: Some(frame.cfa), base: None, memory };
        if let Some(AttributeValue::Exprloc(base)) = root.entry().attr_value(gimli::DW_AT_frame_base) {
            place.base = place.base(base, encoding);
        }
        let mut search = Search { units: &self.units, unit: &unit, vaddr, addr, place, found: Vec::new() };
        let function = search.function_name(root.entry())?;
        search.look(root, &function, true, MAX_DEPTH);
        search.best()
    }
}

/// The function that code belongs to.
fn function_at(unit: &LoadedUnit, vaddr: u64) -> Option<gimli::UnitOffset> {
    let mut entries = unit.unit.entries();
    while let Some(entry) = entries.next_dfs().ok()? {
        if entry.tag() == gimli::DW_TAG_subprogram && has(unit, entry, vaddr) {
            return Some(entry.offset());
        }
    }
    None
}

/// Whether an entry's code has this address.
fn has(unit: &LoadedUnit, entry: &Entry, vaddr: u64) -> bool {
    let Ok(mut ranges) = unit.dwarf.die_ranges(&unit.unit, entry) else { return false };
    while let Ok(Some(range)) = ranges.next() {
        if (range.begin..range.end).contains(&vaddr) {
            return true;
        }
    }
    false
}

/// The search for the variable at one address.
struct Search<'a> {
    units: &'a Units,
    unit: &'a Arc<LoadedUnit>,
    vaddr: u64,
    addr: u64,
    place: Frame<'a>,
    /// Whether it can be used where the code is, and its name; in order of declaration.
    found: Vec<(bool, String)>,
}

impl Search<'_> {
    /// Looks at the variables below an entry. `in_scope`: the code is inside of it.
    fn look(&mut self, node: EntriesTreeNode<'_, '_, Reader>, function: &str, in_scope: bool, depth: u32) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let mut children = node.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            match entry.tag() {
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    if let Some((is_there, name)) = self.variable(entry) {
                        self.found.push((in_scope && is_there, format!("{function}()::{name}")));
                    }
                }
                gimli::DW_TAG_lexical_block => {
                    let inside = has(self.unit, entry, self.vaddr);
                    self.look(child, function, in_scope && inside, depth);
                }
                gimli::DW_TAG_inlined_subroutine => {
                    let inside = has(self.unit, entry, self.vaddr);
                    if let Some(function) = self.function_name(entry) {
                        self.look(child, &function, in_scope && inside, depth);
                    }
                }
                _ => {}
            }
        }
    }

    /// The name of a variable with what lies at the address in it, where it reaches there; and whether it surely lies there while
    /// the code is at this place.
    fn variable(&self, entry: &Entry) -> Option<(bool, String)> {
        let (is_there, start) = self.start(entry)?;
        let offset = self.addr.checked_sub(start)?;
        let origin = self.origin(entry);
        let type_at = self
            .attribute(entry, &origin, gimli::DW_AT_type)
            .and_then(|(value, unit)| self.units.follow(&unit, &value))?;
        if offset >= types::size(self.units, &type_at)? {
            return None;
        }
        let (name, unit) = self.attribute(entry, &origin, gimli::DW_AT_name)?;
        Some((is_there, unit.text(name)? + &types::path(self.units, &type_at, offset)))
    }

    /// Where a variable lies: where the code is, else the one other place that is told.
    fn start(&self, entry: &Entry) -> Option<(bool, u64)> {
        let encoding = self.unit.unit.encoding();
        let value = entry.attr_value(gimli::DW_AT_location)?;
        if let AttributeValue::Exprloc(place) = value {
            return Some((true, self.place.address(place, encoding)?));
        }
        let mut places = self.unit.dwarf.attr_locations(&self.unit.unit, value).ok()??;
        let mut elsewhere = None;
        while let Ok(Some(place)) = places.next() {
            let is_here = (place.range.begin..place.range.end).contains(&self.vaddr);
            match self.place.address(place.data, encoding) {
                Some(start) if is_here => return Some((true, start)),
                Some(start) => elsewhere = elsewhere.or(Some((false, start))),
                None if is_here => return None,
                None => {}
            }
        }
        elsewhere
    }

    /// The one that is meant: of those that can be used here the outermost, which is the first; else the only one.
    fn best(self) -> Option<String> {
        let mut others = Vec::new();
        for (in_scope, name) in self.found {
            if in_scope {
                return Some(name);
            }
            others.push(name);
        }
        others.dedup();
        let only = others.pop()?;
        others.is_empty().then_some(only)
    }

    fn function_name(&self, entry: &Entry) -> Option<String> {
        let origin = self.origin(entry);
        if let Some((mangled, unit)) = self.attribute(entry, &origin, gimli::DW_AT_linkage_name) {
            return Some(demangle(&unit.text(mangled)?));
        }
        let (name, unit) = self.attribute(entry, &origin, gimli::DW_AT_name)?;
        unit.text(name)
    }

    /// What an entry refers to for everything that it does not say itself: an inlined function's own entry, and that
    /// one's declaration.
    fn origin(&self, entry: &Entry) -> Vec<(Entry, Arc<LoadedUnit>)> {
        let mut out: Vec<(Entry, Arc<LoadedUnit>)> = Vec::new();
        for _ in 0..4 {
            let (entry, unit) = out.last().map_or((entry, self.unit), |(entry, unit)| (entry, unit));
            let next = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification]
                .iter()
                .find_map(|at| self.units.follow(unit, &entry.attr_value(*at)?));
            let Some((unit, at)): Option<At> = next else { break };
            let Ok(entry) = unit.unit.entry(at) else { break };
            out.push((entry, unit));
        }
        out
    }

    fn attribute(
        &self,
        entry: &Entry,
        origin: &[(Entry, Arc<LoadedUnit>)],
        at: gimli::DwAt,
    ) -> Option<(AttributeValue<Reader>, Arc<LoadedUnit>)> {
        let own = entry.attr_value(at).map(|value| (value, Arc::clone(self.unit)));
        own.or_else(|| origin.iter().find_map(|(entry, unit)| Some((entry.attr_value(at)?, Arc::clone(unit)))))
    }
}
