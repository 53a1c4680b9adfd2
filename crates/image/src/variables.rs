//! From a data offset to the name of what lies there: `balance`, `table[3].count`, `g.lock`.
//!
//! The symbol table says which global or static variable an offset is in; the debug information
//! says what lies at that place inside it (`types.rs`). Either may be missing: without types the
//! answer is `symbol+0x10`, without symbols the debug information's own name.
//!
//! Cannot see: thread-local variables (they have no offset in the image), the heap and stacks.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use gimli::{AttributeValue, DebugInfoOffset, UnitHeader, UnitOffset};

use crate::demangle::demangle;
use crate::dwarf::{DebugInfo, Dwarf, Reader, Text, Unit};
use crate::image::{Binding, Image, SymbolKind};
use crate::lines::normalise;
use crate::types;

/// The name of a place in a global or static variable.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct VariableName {
    /// What a person would call it: `table[3].count`.
    pub name: String,
    /// The variable that it lies in: `table`.
    pub symbol: String,
    /// Bytes from the variable's begin.
    pub offset: u64,
    /// Where the variable is declared, if known.
    pub file: Option<String>,
    /// The line there.
    pub line: Option<u32>,
}

/// What could not be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct VariableCounters {
    /// Units of debug information that could not be walked to their end.
    pub damaged_units: u64,
    /// Units whose split-off half was not found on this disk.
    pub split_units_missing: u64,
    /// Variables that were named by their symbol alone.
    pub without_type: u64,
}

/// Names data offsets of one image. The debug information is walked once, at the first question.
pub struct Variables {
    base: u64,
    symbols: Vec<DataSymbol>,
    units: Units,
    declared: OnceCell<Vec<Declared>>,
    without_type: Cell<u64>,
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variables").field("symbols", &self.symbols.len()).finish_non_exhaustive()
    }
}

/// A data symbol; sorted by start, then by preference.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DataSymbol {
    start: u64,
    binding: Binding,
    name: String,
    end: u64,
}

/// Where the debug information declares the variable at an address.
#[derive(Clone, Copy, Debug)]
struct Declared {
    vaddr: u64,
    unit: usize,
    entry: UnitOffset,
}

impl Variables {
    /// Prepares the data symbols of `image`.
    pub fn new(image: &Image) -> Variables {
        let objects = image.symbols().iter().filter(|symbol| symbol.kind == SymbolKind::Object && symbol.size > 0);
        let mut symbols: Vec<DataSymbol> = objects
            .map(|symbol| DataSymbol {
                start: symbol.vaddr,
                binding: symbol.binding,
                name: image.symbol_name(symbol).to_owned(),
                end: symbol.vaddr.saturating_add(symbol.size),
            })
            .collect();
        symbols.sort_unstable();
        symbols.dedup_by_key(|symbol| symbol.start);
        Variables {
            base: image.base(),
            symbols,
            units: Units::new(image.debug()),
            declared: OnceCell::new(),
            without_type: Cell::new(0),
        }
    }

    /// Names the byte at `offset`; `None` where no variable is known.
    pub fn variable(&self, offset: u64) -> Option<VariableName> {
        let vaddr = offset.checked_add(self.base)?;
        let symbol = last_at(&self.symbols, vaddr, |symbol| symbol.start).filter(|symbol| vaddr < symbol.end);
        let declared = self.declared.get_or_init(|| self.units.declared());
        let declared = last_at(declared, vaddr, |declared| declared.vaddr);
        let declared = declared.filter(|declared| symbol.is_none_or(|symbol| symbol.start == declared.vaddr));
        let known = declared.and_then(|declared| self.describe(declared, vaddr - declared.vaddr, symbol.is_some()));
        let start = symbol.map_or_else(|| declared.map(|declared| declared.vaddr), |symbol| Some(symbol.start))?;
        let base_name = match symbol {
            Some(symbol) => readable(&symbol.name),
            None => known.as_ref()?.name.clone()?,
        };
        let offset = vaddr - start;
        let known = known.unwrap_or_default();
        if known.path.is_none() {
            self.without_type.set(self.without_type.get() + 1);
        }
        let path = known.path.unwrap_or_else(|| types::plus(offset));
        Some(VariableName {
            name: format!("{base_name}{path}"),
            symbol: base_name,
            offset,
            file: known.file,
            line: known.line,
        })
    }

    /// What could not be told so far.
    pub fn counters(&self) -> VariableCounters {
        VariableCounters {
            damaged_units: self.units.damaged.get(),
            split_units_missing: self.units.split_missing.get(),
            without_type: self.without_type.get(),
        }
    }

    /// What the debug information says about `offset` bytes into a variable. Without a symbol to
    /// bound it, the variable's type must reach that far.
    fn describe(&self, declared: &Declared, offset: u64, bounded: bool) -> Option<Known> {
        let unit = self.units.get(declared.unit)?;
        let entry = unit.unit.entry(declared.entry).ok()?;
        // A definition may refer to its declaration for everything else.
        let origin = [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin];
        let origin = origin.iter().find_map(|at| self.units.follow(&unit, &entry.attr_value(*at)?));
        let origin = origin.and_then(|(unit, at)| Some((unit.unit.entry(at).ok()?, unit)));
        let attribute = |name| match entry.attr_value(name) {
            Some(value) => Some((value, &unit)),
            None => origin.as_ref().and_then(|(entry, unit)| Some((entry.attr_value(name)?, unit))),
        };
        let type_at = attribute(gimli::DW_AT_type).and_then(|(value, unit)| self.units.follow(unit, &value));
        let size = type_at.as_ref().and_then(|at| types::size(&self.units, at));
        if !bounded && size.is_none_or(|size| offset >= size) {
            return None;
        }
        let mangled = attribute(gimli::DW_AT_linkage_name).and_then(|(value, unit)| unit.text(value));
        let name = mangled.map(|name| demangle(&name));
        Some(Known {
            path: type_at.map(|at| types::path(&self.units, &at, offset)),
            name: name.or_else(|| attribute(gimli::DW_AT_name).and_then(|(value, unit)| unit.text(value))),
            file: attribute(gimli::DW_AT_decl_file).and_then(|(value, unit)| unit.file(&value)),
            line: attribute(gimli::DW_AT_decl_line).and_then(|(value, _)| u32::try_from(value.udata_value()?).ok()),
        })
    }
}

#[derive(Default)]
struct Known {
    path: Option<String>,
    name: Option<String>,
    file: Option<String>,
    line: Option<u32>,
}

/// The last of sorted rows that begins at or before `vaddr`.
fn last_at<T>(rows: &[T], vaddr: u64, start: impl Fn(&T) -> u64) -> Option<&T> {
    rows.get(rows.partition_point(|row| start(row) <= vaddr).checked_sub(1)?)
}

/// The readable name of a data symbol; gcc numbers static locals (`count.0`).
fn readable(symbol: &str) -> String {
    let plain = match symbol.rsplit_once('.') {
        Some((name, number)) if !name.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => symbol,
    };
    demangle(plain)
}

/// A unit of debug information, with its split-off half in its place where it has one.
pub(crate) struct LoadedUnit {
    pub(crate) dwarf: Arc<Dwarf>,
    pub(crate) unit: Unit,
    /// Whether references to other units of the image can be followed from here.
    is_main: bool,
    index: usize,
}

/// A debugging entry: where a type is described.
pub(crate) type At = (Arc<LoadedUnit>, UnitOffset);

impl LoadedUnit {
    pub(crate) fn text(&self, value: AttributeValue<Reader>) -> Option<String> {
        self.dwarf.attr_string(&self.unit, value).ok()?.text()
    }

    fn file(&self, value: &AttributeValue<Reader>) -> Option<String> {
        let AttributeValue::FileIndex(index) = *value else {
            return None;
        };
        let header = self.unit.line_program.as_ref()?.header();
        let file = header.file(index)?;
        let mut path = self.text(file.path_name())?;
        // Directory 0 is where the compiler ran, as is every relative directory's parent.
        if let Some(directory) = file.directory(header).and_then(|directory| self.text(directory))
            && !path.starts_with('/')
        {
            path = format!("{directory}/{path}");
        }
        if !path.starts_with('/')
            && let Some(directory) = self.unit.comp_dir.as_ref().and_then(Text::text)
        {
            path = format!("{directory}/{path}");
        }
        Some(normalise(&path))
    }
}

/// The units of an image, opened as they are needed.
pub(crate) struct Units {
    debug: Arc<DebugInfo>,
    headers: Vec<UnitHeader<Reader>>,
    open: RefCell<BTreeMap<usize, Option<Arc<LoadedUnit>>>>,
    damaged: Cell<u64>,
    split_missing: Cell<u64>,
}

impl Units {
    pub(crate) fn new(debug: &Arc<DebugInfo>) -> Units {
        let mut headers = Vec::new();
        let mut units = debug.dwarf.units();
        let damaged = loop {
            match units.next() {
                Ok(Some(header)) => headers.push(header),
                Ok(None) => break 0,
                Err(_) => break 1,
            }
        };
        Units {
            debug: Arc::clone(debug),
            headers,
            open: RefCell::default(),
            damaged: Cell::new(damaged),
            split_missing: Cell::new(0),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Arc<LoadedUnit>> {
        if let Some(open) = self.open.borrow().get(&index) {
            return open.clone();
        }
        let unit = self.load(index).map(Arc::new);
        self.open.borrow_mut().insert(index, unit.clone());
        unit
    }

    fn load(&self, index: usize) -> Option<LoadedUnit> {
        let dwarf = &self.debug.dwarf;
        let unit = dwarf.unit(self.headers.get(index)?.clone()).ok()?;
        let whole = match unit.dwo_id {
            Some(id) => {
                let name = unit.dwo_name().ok().flatten().and_then(|name| dwarf.attr_string(&unit, name).ok());
                let split = self.debug.load_split(id, unit.comp_dir.as_ref(), name.as_ref());
                if split.is_none() {
                    self.split_missing.set(self.split_missing.get() + 1);
                }
                split.and_then(|split| {
                    let mut half = split.unit(split.units().next().ok()??).ok()?;
                    half.copy_relocated_attributes(&unit);
                    Some(LoadedUnit { dwarf: split, unit: half, is_main: false, index })
                })
            }
            None => None,
        };
        Some(whole.unwrap_or(LoadedUnit { dwarf: Arc::clone(dwarf), unit, is_main: true, index }))
    }

    /// Where a reference leads; `None` for one into another file.
    pub(crate) fn follow(&self, from: &Arc<LoadedUnit>, value: &AttributeValue<Reader>) -> Option<At> {
        match *value {
            AttributeValue::UnitRef(at) => Some((Arc::clone(from), at)),
            AttributeValue::DebugInfoRef(at) if from.is_main => {
                let start =
                    |header: &UnitHeader<Reader>| header.debug_info_offset().map(|DebugInfoOffset(start)| start);
                let after = self.headers.partition_point(|header| start(header).is_some_and(|start| start <= at.0));
                let index = after.checked_sub(1)?;
                let unit = if index == from.index { Arc::clone(from) } else { self.get(index)? };
                let at = at.to_unit_offset(&unit.unit.header)?;
                Some((unit, at))
            }
            _ => None,
        }
    }

    /// The addresses of every unit's code, with its number, by address.
    pub(crate) fn spans(&self) -> Vec<(u64, u64, usize)> {
        let dwarf = &self.debug.dwarf;
        let mut out = Vec::new();
        for (index, header) in self.headers.iter().enumerate() {
            // A skeleton says itself where its code is.
            let ranges = dwarf.unit(header.clone()).and_then(|unit| dwarf.unit_ranges(&unit));
            let Ok(mut ranges) = ranges else { continue };
            while let Ok(Some(range)) = ranges.next() {
                out.push((range.begin, range.end, index));
            }
        }
        out.sort_unstable();
        out
    }

    /// Every variable with a fixed address, by address.
    fn declared(&self) -> Vec<Declared> {
        let mut out = Vec::new();
        for index in 0..self.headers.len() {
            // Not kept open: most units have no variable that anyone will ask for.
            let walked =
                self.load(index).ok_or(gimli::Error::MissingUnitDie).and_then(|unit| variables_of(&unit, &mut out));
            if walked.is_err() {
                self.damaged.set(self.damaged.get() + 1);
            }
        }
        out.sort_by_key(|declared| declared.vaddr);
        out.dedup_by_key(|declared| declared.vaddr);
        out
    }
}

fn variables_of(unit: &LoadedUnit, out: &mut Vec<Declared>) -> Result<(), gimli::Error> {
    let mut entries = unit.unit.entries_raw(None)?;
    while !entries.is_empty() {
        let at = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        let fixed = |at: gimli::DwAt| abbreviation.attributes().iter().any(|attribute| attribute.name() == at);
        if abbreviation.tag() != gimli::DW_TAG_variable || !fixed(gimli::DW_AT_location) {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        for attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(*attribute)?;
            if attribute.name() == gimli::DW_AT_location
                && let Some(vaddr) =
                    attribute.value().exprloc_value().and_then(|location| fixed_address(unit, location))
            {
                out.push(Declared { vaddr, unit: unit.index, entry: at });
            }
        }
    }
    Ok(())
}

/// The address, where the location is nothing but one.
fn fixed_address(unit: &LoadedUnit, location: gimli::Expression<Reader>) -> Option<u64> {
    let mut operations = location.operations(unit.unit.encoding());
    let vaddr = match operations.next().ok()?? {
        gimli::Operation::Address { address } => address,
        gimli::Operation::AddressIndex { index } => unit.dwarf.address(&unit.unit, index).ok()?,
        _ => return None,
    };
    operations.next().ok()?.is_none().then_some(vaddr)
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn numbers_of_static_locals_are_dropped() {
        for (symbol, name) in [
            ("count.0", "count"),
            ("count", "count"),
            ("a.b", "a.b"),
            (".1", ".1"),
            ("_ZZ4tickvE5count", "tick()::count"),
        ] {
            assert_eq!(readable(symbol), name);
        }
    }
}
