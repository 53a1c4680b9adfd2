//! Marks that the user put into the code (`selvedge.h`): which sites they speak of.
//!
//! A mark is a row of the section `.selvedge.marks`: the distance from the row to the place, and a number. A mark for a
//! block means the sites from the block hook before the mark to the one after it, as the code lies in memory.

use std::collections::BTreeSet;

use selvedge_events::bytes::u32_at;
use selvedge_events::hooks::HookClass;

use crate::{Functions, Image, Loaded};

const SECTION: &str = ".selvedge.marks";
const ROW: usize = 8;

/// What a mark asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The function that it stands in.
    Function,
    /// The block.
    Block,
    /// Nothing: an atomic section is declared here, when the program comes to it.
    Section,
}

/// A mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where it stands.
    pub offset: u64,
    /// What it asks for.
    pub kind: MarkKind,
}

/// The marks of an image.
pub fn marks(image: &Image) -> Vec<Mark> {
    let Some((at, bytes)) = image.section_named(SECTION) else { return Vec::new() };
    let row = |(row, from): (&[u8], u64)| {
        let offset = from.checked_add_signed(i64::from(u32_at(row, 0)? as i32))?;
        let kind = match u32_at(row, 4)? {
            1 => MarkKind::Function,
            2 => MarkKind::Block,
            3 => MarkKind::Section,
            _ => return None,
        };
        Some(Mark { offset, kind })
    };
    bytes.chunks_exact(ROW).zip((at..).step_by(ROW)).filter_map(row).collect()
}

/// The sites that an image's marks speak of, by ordinal.
pub fn marked_sites(loaded: &Loaded) -> BTreeSet<u32> {
    let marks = marks(&loaded.image);
    if marks.is_empty() {
        return BTreeSet::new();
    }
    let functions = Functions::new(&loaded.image);
    let group = |offset: u64| functions.at(offset).map(|function| function.group);
    let is_block = |index: usize| {
        let hook = loaded.entries.get(index).and_then(|entry| entry.hook.get());
        hook.is_some_and(|hook| matches!(hook.class, HookClass::Block))
    };
    let mut sites = BTreeSet::new();
    for mark in marks {
        let Some(function) = group(mark.offset) else { continue };
        let here = |index: &usize| {
            loaded.entries.get(*index).is_some_and(|entry| group(u64::from(entry.offset)) == Some(function))
        };
        let after = loaded.entries.partition_point(|entry| u64::from(entry.offset) <= mark.offset);
        match mark.kind {
            MarkKind::Section => {}
            MarkKind::Function => sites.extend((0..loaded.entries.len()).filter(here)),
            MarkKind::Block => {
                let before = (0..after).rev().take_while(here);
                let first = before.take_while(|index| !is_block(*index)).last().unwrap_or(after);
                let last = (after..loaded.entries.len()).take_while(here).take_while(|index| !is_block(*index)).last();
                sites.extend(first..last.map_or(after, |last| last + 1));
            }
        }
    }
    sites.into_iter().filter_map(|index| u32::try_from(index).ok()).collect()
}
