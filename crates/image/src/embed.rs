//! The site table inside the image: appended as a section that is not loaded.
//!
//! Nothing that is mapped at run time moves or changes: the table, a copy of the section names with
//! one more name, and a new section header table go to the end of the file, and three fields of the
//! file header are turned to them. The old names and headers, when they were the last things in the
//! file, give way, so indexing twice yields the same bytes as indexing once. `strip`, `objcopy` and
//! `cp` carry the section along (`llvm-strip --strip-all` drops every section that is not loaded).
//!
//! The file is replaced by renaming, never written in place: a running or mapped image is safe, and
//! an interrupted write leaves the old one. Permissions are kept; file capabilities are not.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use selvedge_events::site_table::{SECTION, Table, TableError};
use thiserror::Error;

use crate::elf::{self, SHDR};
use crate::image::Image;

/// First section number that the file header cannot express.
const SHN_LORESERVE: usize = 0xff00;

/// Why a table could not be embedded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// There is no section header table to add to.
    #[error("the image has no section headers to add the site table to: link it without removing them")]
    NoSections,
    /// The header's fields are full.
    #[error("the image has {count} sections, no more can be numbered: link it with fewer")]
    TooManySections {
        /// How many there are.
        count: usize,
    },
    /// The file could not be replaced.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The table embedded in `image`: `None` when there is none, an error when it is damaged.
pub fn read_table(image: &Image) -> Option<Result<Table<'_>, TableError>> {
    let section = image.elf().section(SECTION)?;
    Some(Table::parse(image.bytes().get(section.file.clone()).unwrap_or_default()))
}

/// Writes `table` into the image's file; returns whether the file had to change.
pub fn embed(image: &Image, table: &[u8]) -> Result<bool, EmbedError> {
    let bytes = with_table(image, table)?;
    if bytes == image.bytes() {
        return Ok(false);
    }
    replace(image.path(), &bytes).map_err(|source| EmbedError::Write { path: image.path().to_owned(), source })?;
    Ok(true)
}

/// The image's bytes with `table` in place.
pub fn with_table(image: &Image, table: &[u8]) -> Result<Vec<u8>, EmbedError> {
    let (old, elf) = (image.bytes(), image.elf());
    if elf.sections.is_empty() || elf.names == 0 {
        return Err(EmbedError::NoSections);
    }
    let mut headers: Vec<Vec<u8>> = old[elf.section_headers.clone()].chunks_exact(SHDR).map(<[u8]>::to_vec).collect();
    let mut names = old[elf.sections[elf.names].file.clone()].to_vec();
    let table_at = elf.sections.iter().position(|section| section.name == SECTION);
    // Section names may share their table with symbol names, which must stay as they are.
    let shared = elf.sections.iter().any(|section| section.link as usize == elf.names);
    let names_at = if shared { headers.len() } else { elf.names };
    if shared {
        let header = headers[elf.names].clone();
        headers.push(header);
    }
    let new_table_at = table_at.unwrap_or(headers.len());
    if new_table_at == headers.len() {
        let mut header = vec![0; SHDR];
        put32(&mut header, 0, name_offset(&mut names));
        headers.push(header);
    }
    if headers.len() >= SHN_LORESERVE {
        return Err(EmbedError::TooManySections { count: headers.len() });
    }

    let mut out = old[..kept_end(image, table_at, names_at)].to_vec();
    out.resize(out.len().next_multiple_of(16), 0);
    let header = &mut headers[new_table_at];
    put32(header, 4, elf::SHT_PROGBITS);
    put64(header, 24, out.len());
    put64(header, 32, table.len());
    put64(header, 48, 16);
    out.extend_from_slice(table);
    put64(&mut headers[names_at], 24, out.len());
    put64(&mut headers[names_at], 32, names.len());
    out.extend_from_slice(&names);
    out.resize(out.len().next_multiple_of(8), 0);
    let shoff = out.len();
    out.extend(headers.iter().flatten());
    put64(&mut out, 40, shoff);
    put16(&mut out, 60, headers.len());
    put16(&mut out, 62, names_at);
    Ok(out)
}

/// How much of the old file stays: all but the table, the names and the section headers, where
/// these are the last things in it. What lies behind them belongs to somebody else and stays.
fn kept_end(image: &Image, table_at: Option<usize>, names_at: usize) -> usize {
    let (elf, len) = (image.elf(), image.bytes().len());
    let replaced = |at: usize| Some(at) == table_at || at == names_at;
    let mut kept = elf.headers_end;
    let mut known = elf.section_headers.end;
    for (at, section) in elf.sections.iter().enumerate() {
        known = known.max(section.file.end);
        if !replaced(at) {
            kept = kept.max(section.file.end);
        }
    }
    for segment in &elf.segments {
        kept = kept.max(segment.file.end);
    }
    if len > known.max(kept) { len } else { kept.min(len) }
}

/// The place of our section's name in the names, added where it is not there yet.
fn name_offset(names: &mut Vec<u8>) -> u32 {
    let wanted = format!("{SECTION}\0");
    let at = names.windows(wanted.len()).position(|window| window == wanted.as_bytes());
    let at = at.unwrap_or_else(|| {
        if names.last().is_some_and(|last| *last != 0) {
            names.push(0);
        }
        names.extend_from_slice(wanted.as_bytes());
        names.len() - wanted.len()
    });
    u32::try_from(at).unwrap_or(0)
}

/// Replaces a file by a new one of the same permissions, all at once.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Through links: what they point to is to change, not the link.
    let path = fs::canonicalize(path)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let old = fs::metadata(&path)?;
    let mut file = tempfile::Builder::new().prefix(".selvedge-").tempfile_in(directory)?;
    file.write_all(bytes)?;
    let new = file.as_file().metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        // Only the super-user may give a file away; for others it becomes the writer's, as any
        // rebuilt file does. Before the permissions, because giving away clears the set-id bits.
        let _ = std::os::unix::fs::chown(file.path(), Some(old.uid()), Some(old.gid()));
    }
    file.as_file().set_permissions(old.permissions())?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

fn put16(bytes: &mut [u8], at: usize, value: usize) {
    let value = u16::try_from(value).unwrap_or(u16::MAX);
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

fn put64(bytes: &mut [u8], at: usize, value: usize) {
    if let Some(field) = bytes.get_mut(at..at + 8) {
        field.copy_from_slice(&(value as u64).to_le_bytes());
    }
}
