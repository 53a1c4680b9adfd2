//! Where a function begins in the source, as the debug information declares it.
//!
//! An inlined or outlined copy refers to its abstract origin, a member function to its declaration in the class: the
//! nearest of them that has a line is the definition's own.

use std::cell::RefCell;
use std::collections::BTreeMap;

use gimli::{AttributeValue, DebugInfoOffset, UnitHeader, UnitOffset, UnitRef};

use crate::dwarf::{Reader, Text};

/// What is known of a function's declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    /// Its line, from 1.
    pub(crate) line: Option<u32>,
    /// The base name of the file of that line, where it is said.
    pub(crate) file: Option<String>,
    /// The base name of the source file that was compiled.
    pub(crate) unit: Option<String>,
}

/// The answers so far.
#[derive(Default)]
pub(crate) struct Declarations {
    /// By where the unit and, in it, the entry lie; one function has many sites.
    known: RefCell<BTreeMap<(UnitKey, usize), Declared>>,
    /// Where the units begin.
    headers: RefCell<Option<Vec<UnitHeader<Reader>>>>,
}

/// A unit's offset, or the number of its split-off half.
type UnitKey = (u64, u64);

/// References are followed this far; damaged ones may go in circles.
const MOST_STEPS: u32 = 8;

impl Declarations {
    /// The declaration of the function whose entry is at `entry` of `unit`.
    pub(crate) fn get(&self, unit: UnitRef<'_, Reader>, entry: Option<UnitOffset>) -> Declared {
        let header = unit.header.debug_info_offset().map_or(u64::MAX, |DebugInfoOffset(at)| at as u64);
        let key = ((unit.dwo_id.map_or(0, |id| id.0), header), entry.map_or(0, |entry| entry.0));
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let name = unit.name.as_ref().and_then(Text::text);
        let (line, file) = entry.and_then(|entry| self.line(unit, entry, MOST_STEPS)).unzip();
        let unit = name.as_deref().map(|name| unit_name(name).to_owned());
        let declared = Declared { line, file: file.flatten(), unit };
        self.known.borrow_mut().insert(key, declared.clone());
        declared
    }

    fn line(&self, unit: UnitRef<'_, Reader>, at: UnitOffset, steps: u32) -> Option<(u32, Option<String>)> {
        let entry = unit.entry(at).ok()?;
        if let Some(line) = entry.attr_value(gimli::DW_AT_decl_line).and_then(|value| value.udata_value()) {
            let line = u32::try_from(line).ok().filter(|line| *line > 0)?;
            return Some((line, entry.attr_value(gimli::DW_AT_decl_file).and_then(|value| file_name(unit, &value))));
        }
        let steps = steps.checked_sub(1)?;
        let origins = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
        match origins.iter().find_map(|name| entry.attr_value(*name))? {
            AttributeValue::UnitRef(at) => self.line(unit, at, steps),
            AttributeValue::DebugInfoRef(at) => {
                let header = self.header_of(unit, at)?;
                let other = unit.dwarf.unit(header).ok()?;
                let at = at.to_unit_offset(&other.header)?;
                self.line(other.unit_ref(unit.dwarf), at, steps)
            }
            _ => None,
        }
    }

    /// The unit that an offset lies in. Only units of the image itself refer to each other.
    fn header_of(&self, unit: UnitRef<'_, Reader>, at: DebugInfoOffset) -> Option<UnitHeader<Reader>> {
        if unit.dwo_id.is_some() {
            return None;
        }
        let mut headers = self.headers.borrow_mut();
        let headers = headers.get_or_insert_with(|| {
            let mut units = unit.dwarf.units();
            std::iter::from_fn(|| units.next().ok().flatten()).collect()
        });
        let begins = |header: &UnitHeader<Reader>| header.debug_info_offset().is_some_and(|begin| begin.0 <= at.0);
        headers.get(headers.partition_point(begins).checked_sub(1)?).cloned()
    }
}

fn file_name(unit: UnitRef<'_, Reader>, value: &AttributeValue<Reader>) -> Option<String> {
    let AttributeValue::FileIndex(index) = *value else { return None };
    let file = unit.line_program.as_ref()?.header().file(index)?;
    let path = unit.attr_string(file.path_name()).ok()?.text()?;
    Some(unit_name(&path).to_owned())
}

/// The base name of a unit's source; rustc appends what differs with every build (`main.rs/@/bank.1f2e-cgu.0`).
fn unit_name(name: &str) -> &str {
    let name = name.split_once("/@/").map_or(name, |(source, _)| source);
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::unit_name;

    #[test]
    fn units_are_called_by_their_source() {
        for (name, base) in
            [("a.c", "a.c"), ("/x/y/a.c", "a.c"), ("src/main.rs/@/bank.7a1f0-cgu.0", "main.rs"), ("", "")]
        {
            assert_eq!(unit_name(name), base);
        }
    }
}
