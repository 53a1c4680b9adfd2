//! A race that was seen in the act, told in ThreadSanitizer's familiar shape: both accesses with their values, locks and
//! stacks, where the memory came from, what it did to the value, and how to see it again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use selvedge_findings::{Access, Finding, Held, Kind, Status};
use selvedge_image::{Image, Symboliser, Variables};
use selvedge_trace::detect_log::{ActRace, ActSide, LoadedImage};

use crate::fingerprint::of_accesses;
use crate::hang::write_stack;
use crate::names::{Source, plus};
use crate::values;
use crate::view::printable;

/// The images of watched runs, opened when first asked about.
#[derive(Debug, Default)]
pub struct Images {
    known: RefCell<BTreeMap<PathBuf, Option<Rc<Symbols>>>>,
}

#[derive(Debug)]
struct Symbols {
    build_id: Vec<u8>,
    lines: Symboliser,
    variables: Variables,
}

impl Images {
    fn symbols(&self, path: &Path, build_id: &[u8]) -> Option<Rc<Symbols>> {
        let mut known = self.known.borrow_mut();
        let symbols = known.entry(path.to_owned()).or_insert_with(|| {
            let image = Image::open(path).ok()?;
            let build_id = image.build_id().to_vec();
            Some(Rc::new(Symbols { build_id, lines: Symboliser::new(&image), variables: Variables::new(&image) }))
        });
        // A wrong name is worse than none.
        symbols.clone().filter(|symbols| symbols.build_id == build_id)
    }

    fn frames(&self, path: &Path, build_id: &[u8], offset: u64, is_return: bool) -> Vec<Source> {
        let image = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let code = image.map(|image| (image, u32::try_from(offset).unwrap_or(u32::MAX)));
        let frames = self.symbols(path, build_id).map(|symbols| match is_return {
            true => symbols.lines.frames_of_return(offset),
            false => symbols.lines.frames(offset),
        });
        let source = |frame: selvedge_image::lines::Frame| Source {
            function: Some(frame.function).filter(|name| !name.is_empty() && name != "??"),
            file: frame.file,
            line: frame.line,
            column: frame.column,
            code: code.clone(),
        };
        let sources: Vec<Source> = frames.unwrap_or_default().into_iter().map(source).collect();
        if sources.is_empty() { vec![Source { code: code.clone(), ..Source::default() }] } else { sources }
    }
}

/// A watched site, as reports need it.
#[derive(Clone, Copy, Debug)]
pub struct SitePlace<'a> {
    /// Its image's file.
    pub path: &'a Path,
    /// Its image's build-id.
    pub build_id: &'a [u8],
    /// Where it is.
    pub offset: u32,
}

/// A race with its names.
#[derive(Debug)]
pub struct InAct {
    sides: [Named; 2],
    variable: Option<String>,
    /// Where the heap block was allocated, and its size.
    block: Option<(Source, u64)>,
    values: Option<(u64, u64)>,
    size: u32,
}

/// A side, with its names.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) thread: u32,
    is_seen: bool,
    pub(crate) op: &'static str,
    pub(crate) size: u32,
    pub(crate) value: u64,
    pub(crate) stack: Vec<Source>,
    pub(crate) locks: Vec<(String, Option<Source>)>,
}

impl Named {
    pub(crate) fn own(&self) -> Option<&Source> {
        Source::of_stack(&self.stack)
    }

    pub(crate) fn name(&self) -> String {
        match self.thread {
            _ if !self.is_seen => "somebody".to_owned(),
            0 => "T0 (main)".to_owned(),
            thread => format!("T{thread}"),
        }
    }

    pub(crate) fn access(&self, variable: Option<&String>) -> Access {
        Access {
            thread: self.thread,
            op: self.op.to_owned(),
            variable: variable.cloned(),
            value: self.is_seen.then(|| format!("= {}", number(self.value, self.size))),
            holds: self.locks.iter().map(held).collect(),
            ..Source::access_of(&self.stack)
        }
    }

    pub(crate) fn brief(&self) -> String {
        self.own().map_or_else(|| "?".to_owned(), Source::brief)
    }
}

impl InAct {
    /// Names a race; `site` says where a watched site is.
    pub fn of<'a>(
        images: &Images,
        race: &ActRace,
        loaded: &[LoadedImage],
        site: &dyn Fn(u32) -> Option<SitePlace<'a>>,
    ) -> InAct {
        let [one, two] = &race.sides;
        let name = |side: &ActSide| named(images, side, loaded, site);
        // Where the two begin at different bytes, the later one is what both touch.
        let (variable, block) = memory(images, loaded, one.addr.max(two.addr), race.block);
        InAct { sides: [name(one), name(two)], variable: Some(variable), block, values: race.values, size: one.size }
    }

    /// `data race in deposit / withdraw`: the functions sorted, so that one bug has one title.
    pub fn title(&self) -> String {
        let function = |side: &Named| side.own().and_then(|source| source.function.clone());
        let functions: BTreeSet<String> = self.sides.iter().filter_map(function).collect();
        let functions: Vec<String> = functions.into_iter().collect();
        match functions.as_slice() {
            [] => Kind::DataRace.words().to_owned(),
            [one] => format!("{} in {one} / {one}", Kind::DataRace.words()),
            more => format!("{} in {}", Kind::DataRace.words(), more.join(" / ")),
        }
    }

    /// The variable's name.
    pub fn variable(&self) -> Option<&str> {
        self.variable.as_deref()
    }

    /// The finding for programs to read.
    pub fn finding(&self) -> Finding {
        let accesses: Vec<Access> = self.sides.iter().map(|side| side.access(self.variable.as_ref())).collect();
        let mut finding = Finding::new(of_accesses(Kind::DataRace, &accesses), Kind::DataRace, accesses);
        finding.status = Status::Confirmed;
        finding.pattern = Some("seen in the act".to_owned());
        finding.gist = Some(self.sentence());
        finding.why = Some(self.locks());
        finding
    }

    fn sentence(&self) -> String {
        let [one, two] = &self.sides;
        let variable = self.variable.as_deref().unwrap_or("it");
        if !two.is_seen {
            return format!(
                "While {} was about to {} `{variable}` ({}), its value changed; who wrote it was not seen.",
                one.name(),
                one.op,
                one.brief()
            );
        }
        format!(
            "{} was about to {} `{variable}` ({}) when {} was about to {} it ({}): nothing orders them.",
            one.name(),
            one.op,
            one.brief(),
            two.name(),
            two.op,
            two.brief()
        )
    }

    fn locks(&self) -> String {
        let [one, two] = &self.sides;
        match (one.locks.first(), two.locks.first()) {
            (None, None) => "Neither thread holds a lock.".to_owned(),
            (Some(_), None) => format!("{} holds a lock, {} holds none.", one.name(), two.name()),
            (None, Some(_)) => format!("{} holds a lock, {} holds none.", two.name(), one.name()),
            (Some(_), Some(_)) => "Both hold locks, but none that keeps the other out.".to_owned(),
        }
    }

    /// Writes it; `lines` stand before the summary.
    pub fn write(&self, lines: &[String], out: &mut dyn Write) -> io::Result<()> {
        let rule = "==================";
        writeln!(out, "{rule}\nWARNING: Selvedge: {}", printable(&self.title()))?;
        writeln!(out, "  {}", printable(&self.sentence()))?;
        for side in self.sides.iter().filter(|side| side.is_seen) {
            let line = format!(
                "  Thread {}: {} of {}, `{}` holds {}, {}:",
                side.name(),
                side.op,
                bytes(side.size),
                self.variable.as_deref().unwrap_or("?"),
                number(side.value, side.size),
                holding(&side.locks)
            );
            writeln!(out, "\n{}", printable(&line))?;
            write_stack(&side.stack, out)?;
        }
        writeln!(out)?;
        if let Some((source, size)) = &self.block {
            writeln!(out, "  The memory is a block of {size} bytes, allocated at {}.", printable(&source.in_words()))?;
        }
        match self.values {
            Some((old, new)) if old != new => {
                writeln!(
                    out,
                    "  The value went from {} to {} meanwhile.",
                    number(old, self.size),
                    number(new, self.size)
                )?;
            }
            _ => {}
        }
        writeln!(out, "  {}", self.locks())?;
        for line in lines {
            writeln!(out, "  {line}")?;
        }
        let place = self.sides.first().map_or_else(String::new, Named::brief);
        writeln!(out, "SUMMARY: Selvedge: {} at {place}\n{rule}", printable(&self.title()))
    }
}

/// `1 byte`, `8 bytes`.
pub(crate) fn bytes(size: u32) -> String {
    if size == 1 { "1 byte".to_owned() } else { format!("{size} bytes") }
}

pub(crate) fn number(value: u64, size: u32) -> String {
    match size {
        0..=8 => values::value(value, u64::from(size)),
        _ => format!("{value:#x}… (its first 8 bytes)"),
    }
}

fn held((lock, taken): &(String, Option<Source>)) -> Held {
    Held { lock: lock.clone(), taken: taken.as_ref().map(Source::brief) }
}

pub(crate) fn holding(locks: &[(String, Option<Source>)]) -> String {
    if locks.is_empty() {
        return "holding no lock".to_owned();
    }
    let name = |(name, taken): &(String, Option<Source>)| match taken {
        Some(source) => format!("`{name}` (taken at {})", source.brief()),
        None => format!("`{name}`"),
    };
    format!("holding {}", locks.iter().map(name).collect::<Vec<_>>().join(", "))
}

pub(crate) fn named<'a>(
    images: &Images,
    side: &ActSide,
    loaded: &[LoadedImage],
    site: &dyn Fn(u32) -> Option<SitePlace<'a>>,
) -> Named {
    let mut stack: Vec<Source> = Vec::new();
    if side.frames.is_empty()
        && let Some(place) = side.site.and_then(site)
    {
        stack = images.frames(place.path, place.build_id, u64::from(place.offset), false);
    }
    stack.extend(side.frames.iter().filter_map(|pc| code(images, loaded, *pc)).flatten());
    Source::leave_out_start(&mut stack);
    let lock = |(lock, pc): &(u64, u64)| {
        let name = global(images, loaded, *lock).unwrap_or_else(|| format!("{lock:#x}"));
        (name, code(images, loaded, *pc).and_then(|stack| Source::of_stack(&stack).cloned()))
    };
    Named {
        thread: side.thread,
        is_seen: side.site.is_some(),
        op: match (side.atomic, side.writes) {
            (false, false) => "read",
            (false, true) => "write",
            (true, false) => "atomic-load",
            (true, true) => "atomic-update",
        },
        size: side.size,
        value: side.value,
        stack,
        locks: side.locks.iter().map(lock).collect(),
    }
}

/// The name of what lies at an address, and where the block there was allocated, with its size.
pub(crate) fn memory(
    images: &Images,
    loaded: &[LoadedImage],
    addr: u64,
    block: Option<(u64, u64, u64)>,
) -> (String, Option<(Source, u64)>) {
    let block = block.map(|(pc, at, size)| {
        let source = code(images, loaded, pc).and_then(|stack| Source::of_stack(&stack).cloned());
        (source.unwrap_or_default(), at, size)
    });
    let name = match &block {
        Some((source, at, _)) => Some(format!("heap:{}{}", source.brief(), plus(addr.saturating_sub(*at)))),
        None => global(images, loaded, addr),
    };
    (name.unwrap_or_else(|| format!("{addr:#x}")), block.map(|(source, _, size)| (source, size)))
}

/// The inline stack at a return address.
fn code(images: &Images, loaded: &[LoadedImage], pc: u64) -> Option<Vec<Source>> {
    let image = loaded.iter().find(|image| (image.base..image.end).contains(&pc))?;
    Some(images.frames(&image.path, &image.build_id, pc - image.base, true))
}

/// The global variable at an address.
fn global(images: &Images, loaded: &[LoadedImage], addr: u64) -> Option<String> {
    let image = loaded.iter().find(|image| (image.base..image.end).contains(&addr))?;
    let symbols = images.symbols(&image.path, &image.build_id);
    let name = symbols.and_then(|symbols| symbols.variables.variable(addr - image.base)).map(|name| name.name);
    let file = image.path.file_name().map(|name| name.to_string_lossy().into_owned());
    name.or_else(|| file.map(|file| format!("{file}{}", plus(addr - image.base))))
}
