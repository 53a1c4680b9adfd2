//! Site tables, end to end: what the compiler wrapper calls after a link ([`index()`]) and what every
//! reader calls ([`load_or_build`]).

use std::collections::BTreeMap;
use std::path::Path;

use selvedge_events::hooks::HookClass;
use selvedge_events::site_table::{Entry, MAX_BUILD_ID, Table};
use serde::Serialize;
use thiserror::Error;

use crate::bodies::Reach;
use crate::embed::{EmbedError, embed, read_table};
use crate::image::{Image, OpenImageError};
use crate::sites::{SiteCounters, find_sites, table_bytes};

/// Why an image could not be indexed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IndexError {
    /// It could not be opened.
    #[error(transparent)]
    Open(#[from] OpenImageError),
    /// The table could not be written into it.
    #[error("cannot embed the site table")]
    Embed(#[from] EmbedError),
}

/// What indexing found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IndexSummary {
    /// Of the image, in hexadecimal; empty when it has none.
    pub build_id: String,
    /// All sites.
    pub sites: u32,
    /// Functions that have a body without hooks, too.
    pub two_bodies: u32,
    /// Whether functions have two bodies and nothing says any more which is whose: sites cannot be reached.
    pub bodies_lost: bool,
    /// Sites by class of hook; classes without sites are absent.
    pub by_class: BTreeMap<&'static str, u32>,
    /// What the search could not use.
    pub counters: SiteCounters,
    /// Whether the file had to change.
    pub changed: bool,
}

/// Where a table came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the image's own section.
    Embedded,
    /// Built: there was none.
    BuiltMissing,
    /// Built: the embedded one is damaged or of another version.
    BuiltDamaged,
    /// Built: the embedded one was made for other code.
    BuiltStale,
}

/// An image with its sites.
#[derive(Debug)]
pub struct Loaded {
    /// The image.
    pub image: Image,
    /// By ascending offset; the position is the ordinal.
    pub entries: Vec<Entry>,
    /// How they are reached.
    pub reach: Reach,
    /// Where they came from.
    pub origin: Origin,
    /// What the search could not use; empty for an embedded table.
    pub counters: SiteCounters,
}

/// Builds the site table of the image at `path` and embeds it.
pub fn index(path: &Path) -> Result<IndexSummary, IndexError> {
    let image = Image::open(path)?;
    let sites = find_sites(&image);
    let changed = embed(&image, &table_bytes(image.build_id(), &sites.entries, &sites.reach))?;
    let mut by_class = BTreeMap::new();
    for hook in sites.entries.iter().filter_map(|entry| entry.hook.get()) {
        *by_class.entry(class_name(hook.class)).or_insert(0) += 1;
    }
    Ok(IndexSummary {
        build_id: image.build_id().iter().map(|byte| format!("{byte:02x}")).collect(),
        sites: u32::try_from(sites.entries.len()).unwrap_or(u32::MAX),
        two_bodies: u32::try_from(sites.reach.bodies.len()).unwrap_or(u32::MAX),
        bodies_lost: sites.bodies_lost,
        by_class,
        counters: sites.counters,
        changed,
    })
}

/// Opens the image at `path` with its sites: the embedded table where it fits the code, else one
/// built in memory.
pub fn load_or_build(path: &Path) -> Result<Loaded, OpenImageError> {
    let image = Image::open(path)?;
    let origin = match read_table(&image) {
        None => Origin::BuiltMissing,
        Some(Err(_)) => Origin::BuiltDamaged,
        Some(Ok(table)) if !fits(&image, &table) => Origin::BuiltStale,
        Some(Ok(table)) => {
            let entries = (0..table.len()).filter_map(|ordinal| table.get(ordinal)).collect();
            let counters = SiteCounters::default();
            let reach = Reach::of_table(&table);
            return Ok(Loaded { entries, image, reach, origin: Origin::Embedded, counters });
        }
    };
    let sites = find_sites(&image);
    Ok(Loaded { image, entries: sites.entries, reach: sites.reach, origin, counters: sites.counters })
}

/// Whether a table was made for this code: same build-id, and every call where the table has it.
fn fits(image: &Image, table: &Table<'_>) -> bool {
    let id = image.build_id();
    if id.get(..MAX_BUILD_ID).unwrap_or(id) != table.build_id() {
        return false;
    }
    (0..table.len()).filter_map(|ordinal| table.get(ordinal)).all(|entry| {
        let len = usize::from(entry.form.len());
        image.loaded_bytes(u64::from(entry.offset), len) == entry.code.get(..len)
    })
}

/// The summary's word for a class.
fn class_name(class: HookClass) -> &'static str {
    match class {
        HookClass::Access { .. } => "access",
        HookClass::Range { .. } => "range",
        HookClass::Copy => "copy",
        HookClass::Libc => "libc",
        HookClass::Atomic { .. } => "atomic",
        HookClass::Function { .. } => "function",
        HookClass::Block => "block",
        HookClass::Init => "init",
        HookClass::Fiber => "fiber",
        HookClass::Annotation => "annotation",
    }
}
