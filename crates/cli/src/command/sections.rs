//! `selvedge sections`.

use std::io::{BufWriter, Write};

use selvedge_analyze::sections::{Kind, Mode};
use selvedge_drive::sections::{At, Listed, ListedExit, Listing, list};

use crate::args::SectionsArgs;
use crate::messages::{Failure, note};

/// Lists the atomic sections that an image's code suggests.
pub(crate) fn run(args: &SectionsArgs) -> Result<u8, Failure> {
    let mut listing = list(&args.image).map_err(|error| Failure::usage(&error))?;
    if listing.functions == 0 {
        note(&format!("`{}` has no sites: it was not built with selvedge", args.image.display()));
    }
    listing.sections.retain(|section| wanted(args, section));
    if let Some(file) = &args.json {
        let text = serde_json::to_vec_pretty(&listing).map_err(|error| Failure::internal(&error))?;
        std::fs::write(file, text)?;
    }
    if let Some(file) = &args.output {
        let all = selvedge_drive::sections::file(&args.image).map_err(|error| Failure::usage(&error))?;
        std::fs::write(file, selvedge_analyze::sections::text::write(&all))?;
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    for section in &listing.sections {
        show(section, &mut out)?;
    }
    out.flush()?;
    tell(&listing);
    Ok(0)
}

fn wanted(args: &SectionsArgs, section: &Listed) -> bool {
    args.variable.as_ref().is_none_or(|name| section.variable.contains(name.as_str()))
        && args.function.as_ref().is_none_or(|name| section.entry.function.contains(name.as_str()))
        && args.pattern.as_ref().is_none_or(|pattern| pattern == word(section.kind))
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::LoadAndStore => "load-and-store",
        Kind::TestAndUse => "test-and-use",
        Kind::Consecutive => "consecutive",
    }
}

fn show(section: &Listed, out: &mut dyn Write) -> std::io::Result<()> {
    let circular = if section.circular { ", circular" } else { "" };
    writeln!(out, "{} of {}{circular}", word(section.kind), section.variable)?;
    writeln!(out, "  from {}", place(&section.entry))?;
    for end in &section.ends {
        let allowed = match (end.allowed.reads, end.allowed.writes) {
            (true, true) => "anything",
            (true, false) => "reads",
            (false, true) => "writes",
            (false, false) => "nothing",
        };
        writeln!(out, "  to   {}; others: {allowed}", place(&end.at))?;
    }
    // One line has many blocks: each line once.
    let mut told: Vec<String> = Vec::new();
    for exit in &section.exits {
        let line = left(exit);
        if !told.contains(&line) {
            writeln!(out, "  left {line}")?;
            told.push(line);
        }
    }
    Ok(())
}

fn left(exit: &ListedExit) -> String {
    match exit.leaves {
        true => format!("with the function, {}", place(&exit.at)),
        false => format!("at {}", place(&exit.at)),
    }
}

fn place(at: &At) -> String {
    let op = match at.op {
        Some(Mode::Read) => "read ",
        Some(Mode::Write) => "write ",
        Some(Mode::Update) => "update ",
        None => "",
    };
    match (&at.file, at.line) {
        (Some(file), Some(line)) => format!("{op}{file}:{line} in {}", at.function),
        _ => format!("{op}+{:#x} in {}", at.offset, at.function),
    }
}

fn tell(listing: &Listing) {
    let mut text = format!("{} sections in {} functions", listing.sections.len(), listing.functions);
    if listing.without_place > 0 {
        text.push_str(&format!("; {} accesses have no name", listing.without_place));
    }
    if listing.graphs.unknown_jumps > 0 {
        text.push_str(&format!("; {} jumps may lead anywhere", listing.graphs.unknown_jumps));
    }
    if listing.left_out > 0 {
        text.push_str(&format!("; {} variables were too many for their callers", listing.left_out));
    }
    note(&text);
}
