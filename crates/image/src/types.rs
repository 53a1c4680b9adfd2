//! What lies at a byte offset inside a type: `[3].count`, as text to append to the variable's name.
//!
//! Members, base classes, array elements and the one matching variant of a Rust enum are followed
//! down to a scalar. Of a union the first member that reaches far enough is taken. The way stops
//! above members whose names are reserved to the implementation (`__data` of a `pthread_mutex_t`,
//! `_M_i` of a `std::atomic`): nobody calls a lock by its insides. Rust's cells and atomics are seen
//! through for the same reason. Bytes that are left over are told (`+0x2`).

use gimli::{AttributeValue, DebuggingInformationEntry};

use crate::dwarf::Reader;
use crate::variables::{At, Units};

/// Types refer to themselves in damaged files only; real ones are not this deep.
const MAX_DEPTH: u32 = 64;
/// Likewise, in all: variants are tried one after the other.
const MAX_STEPS: u32 = 10_000;

type Entry = DebuggingInformationEntry<Reader>;

/// The way to the byte at `offset` inside the type.
pub(crate) fn path(units: &Units, at: &At, offset: u64) -> String {
    let mut way = Way { units, depth: MAX_DEPTH, steps: MAX_STEPS, text: String::new() };
    let left = way.walk(at, offset);
    way.text + &plus(left)
}

/// `+0x10`; nothing for nothing.
pub(crate) fn plus(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!("+{bytes:#x}") }
}

/// Bytes of a type, where they can be known.
pub(crate) fn size(units: &Units, at: &At) -> Option<u64> {
    size_within(units, at, MAX_DEPTH)
}

fn size_within(units: &Units, at: &At, depth: u32) -> Option<u64> {
    let depth = depth.checked_sub(1)?;
    let entry = at.0.unit.entry(at.1).ok()?;
    if let Some(size) = number(&entry, gimli::DW_AT_byte_size) {
        return Some(size);
    }
    match entry.tag() {
        gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => Some(8),
        gimli::DW_TAG_array_type => {
            let element = size_within(units, &type_of(units, at, &entry)?, depth)?;
            dimensions(at).into_iter().try_fold(element, |total, count| total.checked_mul(count?))
        }
        tag if is_transparent(tag) => size_within(units, &type_of(units, at, &entry)?, depth),
        _ => None,
    }
}

/// A recursive descent into a type. Each step takes the offset within its type and returns the
/// bytes left over at the end of the way.
struct Way<'a> {
    units: &'a Units,
    depth: u32,
    steps: u32,
    text: String,
}

impl Way<'_> {
    fn walk(&mut self, at: &At, offset: u64) -> u64 {
        let (Some(depth), Some(steps)) = (self.depth.checked_sub(1), self.steps.checked_sub(1)) else {
            return offset;
        };
        (self.depth, self.steps) = (depth, steps);
        let left = self.step(at, offset);
        self.depth += 1;
        left
    }

    fn step(&mut self, at: &At, offset: u64) -> u64 {
        let Ok(entry) = at.0.unit.entry(at.1) else {
            return offset;
        };
        match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let owner = name(at, &entry).unwrap_or_default();
                self.enter_members(at, &owner, offset)
            }
            gimli::DW_TAG_array_type => self.enter_array(at, &entry, offset),
            tag if is_transparent(tag) => match type_of(self.units, at, &entry) {
                Some(inner) => self.walk(&inner, offset),
                None => offset,
            },
            _ => offset,
        }
    }

    fn enter_members(&mut self, at: &At, owner: &str, offset: u64) -> u64 {
        // A member without a known size (a flexible array) takes what no other does.
        let mut open_end = None;
        for child in children(at) {
            match child.tag() {
                gimli::DW_TAG_member | gimli::DW_TAG_inheritance => {}
                gimli::DW_TAG_variant_part => {
                    let before = self.text.len();
                    let left = self.enter_variant(at, &child, offset);
                    if self.text.len() > before {
                        return left;
                    }
                    continue;
                }
                _ => continue,
            }
            let (Some(inner), Some(start)) = (type_of(self.units, at, &child), member_start(&child)) else {
                continue;
            };
            let Some(within) = offset.checked_sub(start) else {
                continue;
            };
            match size(self.units, &inner) {
                Some(size) if within < size => open_end = Some((child, inner, within)),
                Some(size) if size > 0 => continue,
                _ => {
                    open_end = Some((child, inner, within));
                    continue;
                }
            }
            break;
        }
        let Some((member, inner, within)) = open_end else {
            return offset;
        };
        match name(at, &member) {
            // An anonymous member, or a base class: its members are the owner's.
            None => {}
            Some(_) if member.tag() == gimli::DW_TAG_inheritance => {}
            Some(name) if is_wrapper(owner, &name) => {}
            Some(name) => match tuple_field(&name) {
                Some(field) => self.text.push_str(&format!(".{field}")),
                None if name.starts_with("__") || name.starts_with("_M_") => return offset,
                None => self.text.push_str(&format!(".{name}")),
            },
        }
        self.walk(&inner, within)
    }

    /// The variant is chosen at run time: the way goes on only where one variant alone has
    /// something at this offset.
    fn enter_variant(&mut self, at: &At, part: &Entry, offset: u64) -> u64 {
        let before = self.text.len();
        let mut found: Option<(String, u64)> = None;
        let part = (at.0.clone(), part.offset());
        for variant in children(&part).into_iter().filter(|child| child.tag() == gimli::DW_TAG_variant) {
            let variant = (at.0.clone(), variant.offset());
            for member in children(&variant).into_iter().filter(|child| child.tag() == gimli::DW_TAG_member) {
                let (Some(inner), Some(start)) = (type_of(self.units, at, &member), member_start(&member)) else {
                    continue;
                };
                let Some(within) = offset.checked_sub(start) else {
                    continue;
                };
                let left = self.walk(&inner, within);
                let way = self.text.split_off(before);
                if way.is_empty() {
                    continue;
                }
                if found.is_some() {
                    return offset;
                }
                let name = name(at, &member).unwrap_or_default();
                found = Some((format!(".{name}{way}"), left));
            }
        }
        let Some((way, left)) = found else {
            return offset;
        };
        self.text.push_str(&way);
        left
    }

    fn enter_array(&mut self, at: &At, entry: &Entry, offset: u64) -> u64 {
        let inner = type_of(self.units, at, entry).filter(|_| entry.attr(gimli::DW_AT_GNU_vector).is_none());
        let Some(inner) = inner else { return offset };
        let Some(step) = size(self.units, &inner).filter(|step| *step > 0) else {
            return offset;
        };
        let mut index = offset / step;
        let mut indices = Vec::new();
        for (nth, count) in dimensions(at).iter().enumerate().rev() {
            match count {
                // The outermost index takes what is left, in bounds or not.
                Some(count) if nth > 0 && *count > 0 => {
                    indices.push(index % count);
                    index /= count;
                }
                _ => indices.push(index),
            }
        }
        for index in indices.iter().rev() {
            self.text.push_str(&format!("[{index}]"));
        }
        self.walk(&inner, offset % step)
    }
}

/// The number of elements of each dimension, outermost first.
fn dimensions(at: &At) -> Vec<Option<u64>> {
    let count = |entry: &Entry| {
        number(entry, gimli::DW_AT_count)
            .or_else(|| number(entry, gimli::DW_AT_upper_bound).and_then(|last| last.checked_add(1)))
    };
    children(at).iter().filter(|entry| entry.tag() == gimli::DW_TAG_subrange_type).map(count).collect()
}

fn children(at: &At) -> Vec<Entry> {
    let mut out = Vec::new();
    let Ok(mut tree) = at.0.unit.entries_tree(Some(at.1)) else {
        return out;
    };
    let Ok(root) = tree.root() else { return out };
    let mut children = root.children();
    while let Ok(Some(child)) = children.next() {
        out.push(child.entry().clone());
    }
    out
}

/// Bytes from the owner's begin; `None` for members that are not in it (static ones).
fn member_start(member: &Entry) -> Option<u64> {
    if member.attr(gimli::DW_AT_external).is_some() {
        return None;
    }
    if let Some(bits) = number(member, gimli::DW_AT_data_bit_offset) {
        return Some(bits / 8);
    }
    match member.attr_value(gimli::DW_AT_data_member_location) {
        Some(value) => value.udata_value(),
        // A union's members all begin with it.
        None => Some(0),
    }
}

fn type_of(units: &Units, at: &At, entry: &Entry) -> Option<At> {
    units.follow(&at.0, &entry.attr_value(gimli::DW_AT_type)?)
}

fn name(at: &At, entry: &Entry) -> Option<String> {
    at.0.text(entry.attr_value(gimli::DW_AT_name)?)
}

fn number(entry: &Entry, attribute: gimli::DwAt) -> Option<u64> {
    entry.attr_value(attribute).as_ref().and_then(AttributeValue::udata_value)
}

fn is_transparent(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_atomic_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_packed_type
    )
}

/// Whether `member` is the only inside of a type that people see through.
fn is_wrapper(owner: &str, member: &str) -> bool {
    match member {
        "value" => owner.starts_with("UnsafeCell<") || owner.starts_with("SyncUnsafeCell<"),
        "v" => owner.starts_with("Atomic"),
        _ => false,
    }
}

/// `0` for `__0`, as rustc calls the fields of tuples.
fn tuple_field(name: &str) -> Option<&str> {
    let digits = name.strip_prefix("__")?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}
