//! `selvedge sites`.

use std::io::{BufWriter, Write};

use selvedge_image::{Origin, SiteInfo, SiteList, Symboliser, load_or_build};

use crate::args::SitesArgs;
use crate::messages::{Failure, note};

/// Lists the sites of an image.
pub(crate) fn run(args: &SitesArgs) -> Result<u8, Failure> {
    let loaded = load_or_build(&args.image).map_err(|error| Failure::usage(&error))?;
    if loaded.entries.is_empty() {
        note(&format!("`{}` has no sites: it was not built with selvedge", args.image.display()));
    } else if loaded.origin != Origin::Embedded {
        let name = args.image.display();
        note(&format!("`{name}` carries no site table that fits; `selvedge index {name}` writes one"));
    }
    let symboliser = Symboliser::new(&loaded.image);
    let sites = SiteList::new(&loaded.entries, &symboliser);
    let mut out = BufWriter::new(std::io::stdout().lock());
    for site in sites.iter().filter(|site| wanted(args, site)) {
        if args.json {
            serde_json::to_writer(&mut out, &site).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            line(&site, &mut out)?;
        }
    }
    out.flush()?;
    Ok(0)
}

fn wanted(args: &SitesArgs, site: &SiteInfo) -> bool {
    let in_function = |name: &String| {
        let frames = site.frames.iter().map(|frame| &frame.function);
        frames.chain(&site.function).any(|function| function.contains(name.as_str()))
    };
    args.function.as_ref().is_none_or(in_function)
        && args.hook.as_ref().is_none_or(|hook| site.hook.name.contains(hook.as_str()))
}

fn line(site: &SiteInfo, out: &mut dyn Write) -> std::io::Result<()> {
    let frame = site.frames.first();
    let place = frame.and_then(|frame| Some((frame.file.as_ref()?, frame.line?, frame.column.unwrap_or(0))));
    let place = place.map_or_else(|| "?".to_owned(), |(file, line, column)| format!("{file}:{line}:{column}"));
    let function = frame.map_or("?", |frame| frame.function.as_str());
    writeln!(out, "{:>6} {:#010x} {:<34} {function:<24} {place}", site.ordinal, site.offset, site.hook.name)
}
