//! The atomic sections that a program's code suggests, with names and lines: `selvedge sections`.
//!
//! `image` knows the graphs and what sites access, `analyze` knows what a section is; here the one is handed to the
//! other, and what comes back is put into words. Constants of the image and tables of virtual functions are left out:
//! nobody writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use selvedge_analyze::sections::assure::harmless;
use selvedge_analyze::sections::text::{KeyedSection, SectionFile};
use selvedge_analyze::sections::{
    self, Access, Block, Call, Function, Kind, Mode, Place, Program, Remote, Risk, Root, Section,
};
use selvedge_events::hooks::{Flavour, HookClass, Rw};
use selvedge_image::cfg::{BlockIx, GraphCounters, Leave};
use selvedge_image::{
    Callee, Cfg, Code, Functions, Loaded, OpenImageError, Operands, PlaceRoot, Symboliser, Variables, load_or_build,
    site_keys,
};
use serde::Serialize;

/// Version of the JSON form.
pub const VERSION: u32 = 1;

/// All sections of an image.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// [`VERSION`].
    pub version: u32,
    /// The image's build-id, in hexadecimal.
    pub build_id: String,
    /// By entry.
    pub sections: Vec<Listed>,
    /// Functions that were looked at: those with sites.
    pub functions: usize,
    /// What was not understood in them.
    pub graphs: GraphCounters,
    /// Accesses whose address could not be followed.
    pub without_place: usize,
    /// Variables that callers did not hear of, for their number.
    pub left_out: u64,
}

/// A section, in words.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// Its pattern.
    pub kind: Kind,
    /// The variable.
    pub variable: String,
    /// The access that it begins with.
    pub entry: At,
    /// Accesses that it may end with.
    pub ends: Vec<ListedEnd>,
    /// Where it is left without an end.
    pub exits: Vec<ListedExit>,
    /// Whether it may end where it began, the next time.
    pub circular: bool,
}

/// A place in the code.
#[derive(Clone, Debug, Default, Serialize)]
pub struct At {
    /// The site's ordinal, where it is one.
    pub site: Option<u32>,
    /// From the load base.
    pub offset: u64,
    /// `read`, `write` or `update`, where it is an access.
    pub op: Option<Mode>,
    /// The innermost function of the user's own, where there is one.
    pub function: String,
    /// The file, where known.
    pub file: Option<String>,
    /// The line there.
    pub line: Option<u32>,
}

/// An end of a section.
#[derive(Clone, Debug, Serialize)]
pub struct ListedEnd {
    /// The access.
    #[serde(flatten)]
    pub at: At,
    /// What other threads may do meanwhile.
    pub allowed: Remote,
}

/// A way out of a section.
#[derive(Clone, Debug, Serialize)]
pub struct ListedExit {
    /// The block; its first site, where it has one.
    #[serde(flatten)]
    pub at: At,
    /// Whether it is left when the block leaves its function, not when it is entered.
    pub leaves: bool,
}

/// Lists the sections of the image at `path`.
pub fn list(path: &Path) -> Result<Listing, OpenImageError> {
    let loaded = load_or_build(path)?;
    let functions = Functions::new(&loaded.image);
    let code = Code::new(&loaded, &functions);
    let read = read(&loaded, &code);
    let found = sections::find(&read.program);
    let names = Names::new(&loaded, &read.modes);
    Ok(Listing {
        version: VERSION,
        build_id: crate::program::hex(loaded.image.build_id()),
        sections: found.all.iter().map(|section| names.section(section)).collect(),
        functions: read.program.functions.len(),
        graphs: read.counters,
        without_place: read.without_place,
        left_out: found.left_out,
    })
}

/// All sections of a build, as a file.
pub fn file(path: &Path) -> Result<SectionFile, OpenImageError> {
    let loaded = load_or_build(path)?;
    let functions = Functions::new(&loaded.image);
    let read = read(&loaded, &Code::new(&loaded, &functions));
    let names = Names::new(&loaded, &read.modes);
    let keys = site_keys(&loaded);
    let key = |site: u32| keys.get(site as usize).cloned().unwrap_or_default();
    let program = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let section = |section: &Section| {
        let ends = section.ends.iter().map(|end| (key(end.site), end.allowed)).collect();
        let variable = names.variable(&section.variable);
        ((key(section.entry), section.kind), KeyedSection { variable, ends, ..KeyedSection::default() })
    };
    let sections = sections::find(&read.program).all.iter().map(section).collect();
    Ok(SectionFile { program, runs: 0, sections })
}

/// An image in the form that the analysis reads.
#[derive(Debug, Default)]
pub struct Read {
    /// The functions with sites.
    pub program: Program,
    /// By site: how it accesses its variable.
    pub modes: BTreeMap<u32, Mode>,
    /// The graphs of these functions, in the same order.
    pub graphs: Vec<Cfg>,
    /// What was not understood.
    pub counters: GraphCounters,
    /// Accesses whose address could not be followed.
    pub without_place: usize,
}

/// Reads the functions of an image that have sites.
pub fn read(loaded: &Loaded, code: &Code<'_>) -> Read {
    let mut out = Read::default();
    let graphs: Vec<Cfg> =
        code.graphs().filter(|graph| graph.blocks().iter().any(|block| !block.sites.is_empty())).collect();
    let numbers: BTreeMap<u32, usize> = graphs.iter().enumerate().map(|(at, graph)| (graph.group(), at)).collect();
    for graph in &graphs {
        out.counters += graph.counters();
        let operands = Operands::of(code, graph);
        let blocks = graph.numbered().map(|(at, block)| {
            let mut accesses = Vec::new();
            let mut looks = false;
            for site in block.sites.clone() {
                let Some(mode) = mode(loaded, site) else { continue };
                let atomic = matches!(class(loaded, site), Some(HookClass::Atomic { .. }));
                let private = operands.sites.get(&site).is_some_and(|place| place.is_private());
                looks |= !private && (atomic || mode != Mode::Write);
                match operands.sites.get(&site).map(place) {
                    Some(place) if !is_constant(loaded, &place) => {
                        out.modes.insert(site, mode);
                        accesses.push(Access { site, place, mode });
                    }
                    Some(_) => {}
                    None => out.without_place += 1,
                }
            }
            let call = block.call.as_ref().and_then(|call| match call.callee {
                Callee::Function(group) => {
                    Some(Call { function: *numbers.get(&group)?, arguments: arguments(&operands, at) })
                }
                _ => None,
            });
            let is_return = |leave: &Leave| matches!(leave, Leave::Return | Leave::TailCall(_));
            let risk = |callee: &Callee| match callee {
                Callee::Function(group) if numbers.contains_key(group) => None,
                Callee::Name(name) if harmless(name) => None,
                Callee::Name(name) => Some(Risk::Named(name.clone())),
                Callee::Function(_) | Callee::Unknown => Some(Risk::Unknown),
            };
            // A function that is jumped to is not followed.
            let tail_risk = || {
                let tail = |leave: &Leave| matches!(leave, Leave::TailCall(_) | Leave::Unknown);
                block.leaves.iter().any(tail).then_some(Risk::Unknown)
            };
            Block {
                start: block.start,
                site: first_site(loaded, block.sites.clone()),
                accesses,
                call,
                tests: operands.tests.get(&at).into_iter().flatten().map(place).collect(),
                successors: block.successors.iter().map(|edge| edge.to.0 as usize).collect(),
                returns: block.leaves.iter().any(is_return),
                leaves: block.leaves.iter().any(|leave| !is_return(leave)),
                looks,
                risk: block.call.as_ref().map(|call| &call.callee).and_then(risk).or_else(tail_risk),
            }
        });
        let blocks = blocks.collect();
        out.program.functions.push(Function { blocks, entry: graph.entry().map_or(0, |entry| entry.0 as usize) });
    }
    out.graphs = graphs;
    out
}

fn arguments(operands: &Operands, block: BlockIx) -> Vec<Option<Place>> {
    let known = operands.arguments.get(&block).map_or(&[][..], Vec::as_slice);
    known.iter().map(|argument| argument.as_ref().map(place)).collect()
}

/// The site at which a run tells best that a block was entered: its block hook, else its first.
fn first_site(loaded: &Loaded, sites: std::ops::Range<u32>) -> Option<u32> {
    let is_block = |site: &u32| class(loaded, *site).is_some_and(|class| class == HookClass::Block);
    sites.clone().find(is_block).or_else(|| sites.clone().next())
}

fn class(loaded: &Loaded, site: u32) -> Option<HookClass> {
    loaded.entries.get(site as usize)?.hook.get().map(|hook| hook.class)
}

/// How a site accesses a variable; `None` where it does not, or where nobody else would write there.
fn mode(loaded: &Loaded, site: u32) -> Option<Mode> {
    let rw = match class(loaded, site)? {
        HookClass::Access { flavour: Flavour::Vptr, .. } => return None,
        HookClass::Range { rw } => rw,
        _ => loaded.entries.get(site as usize)?.hook.get()?.access()?.0,
    };
    Some(match rw {
        Rw::Read => Mode::Read,
        Rw::Write => Mode::Write,
        Rw::ReadWrite => Mode::Update,
    })
}

fn is_constant(loaded: &Loaded, place: &Place) -> bool {
    match (place.root, place.path.as_slice()) {
        (Root::Global, [offset]) => loaded.image.is_constant(offset.cast_unsigned()),
        _ => false,
    }
}

fn place(place: &selvedge_image::Place) -> Place {
    let root = match place.root {
        PlaceRoot::Image => Root::Global,
        PlaceRoot::Argument(number) => Root::Argument(number),
        PlaceRoot::Frame | PlaceRoot::Thread => Root::Private,
        PlaceRoot::Local(number) => Root::Local(number),
    };
    Place { root, path: place.path.clone() }
}

/// Puts sections into words.
pub(crate) struct Names<'a> {
    loaded: &'a Loaded,
    symboliser: Symboliser,
    variables: Variables,
    modes: &'a BTreeMap<u32, Mode>,
}

impl<'a> Names<'a> {
    /// The names of an image; `modes` says how its sites access their variables.
    pub(crate) fn new(loaded: &'a Loaded, modes: &'a BTreeMap<u32, Mode>) -> Names<'a> {
        let (symboliser, variables) = (Symboliser::new(&loaded.image), Variables::new(&loaded.image));
        Names { loaded, symboliser, variables, modes }
    }

    /// Where a section is, in one line: `` `money`, purse.c:8 to purse.c:9 in shop``, `` `money` in shop`` where no lines are known. `None`
    /// where not even a function is.
    pub(crate) fn span(&self, section: &Section) -> Option<String> {
        let (entry, ends) = (self.site(section.entry), section.ends.iter().map(|end| self.site(end.site)));
        let is_named = |offset: &i64| self.variables.variable(offset.cast_unsigned()).is_some();
        let has_name = section.variable.root == Root::Global && section.variable.path.first().is_some_and(is_named);
        let variable = has_name.then(|| format!("`{}`", self.variable(&section.variable)));
        match (span(&entry, &ends.collect::<Vec<At>>()), variable) {
            (Some(span), Some(variable)) => Some(format!("{variable}, {span}")),
            (Some(span), None) => Some(span),
            (None, _) if entry.function == "??" => None,
            (None, variable) => Some(format!("{} in {}", variable.as_deref().unwrap_or("a section"), entry.function)),
        }
    }

    fn section(&self, section: &Section) -> Listed {
        Listed {
            kind: section.kind,
            variable: self.variable(&section.variable),
            entry: self.site(section.entry),
            ends: section.ends.iter().map(|end| ListedEnd { at: self.site(end.site), allowed: end.allowed }).collect(),
            exits: section
                .exits
                .iter()
                .map(|exit| ListedExit { at: At { site: exit.site, ..self.at(exit.block) }, leaves: exit.leaves })
                .collect(),
            circular: section.is_circular(),
        }
    }

    fn site(&self, site: u32) -> At {
        let offset = self.loaded.entries.get(site as usize).map_or(0, |entry| u64::from(entry.offset));
        At { site: Some(site), op: self.modes.get(&site).copied(), ..self.at(offset) }
    }

    fn at(&self, offset: u64) -> At {
        let frames = self.symboliser.frames(offset);
        let frame = frames.iter().find(|frame| frame.is_users()).or(frames.first()).cloned();
        At {
            offset,
            function: frame.as_ref().map_or_else(|| "??".to_owned(), |frame| frame.function.clone()),
            file: frame.as_ref().and_then(|frame| frame.file.clone()),
            line: frame.and_then(|frame| frame.line),
            ..At::default()
        }
    }

    /// `balance`, `queue->+0x8`, `*argument 1`.
    fn variable(&self, place: &Place) -> String {
        let Some((first, rest)) = place.path.split_first() else { return "?".to_owned() };
        let mut text = match place.root {
            Root::Global => {
                let offset = first.cast_unsigned();
                self.variables.variable(offset).map_or_else(|| format!("data+{offset:#x}"), |variable| variable.name)
            }
            Root::Argument(number) => pointed(&format!("argument {number}"), *first),
            Root::Private => pointed("own", *first),
            Root::Local(number) => pointed(&format!("value {number}"), *first),
        };
        for step in rest {
            text = pointed(&text, *step);
        }
        text
    }
}

/// `a.c:8 to a.c:9 in f`, `a.c:10 in get to a.c:17 in put`, `a.c:8 to a.c:9 or 2 other lines in f`.
fn span(entry: &At, ends: &[At]) -> Option<String> {
    let place = |at: &At| {
        let file = at.file.as_deref()?;
        Some((file.rsplit('/').next().unwrap_or(file).to_owned(), at.line?, at.function.clone()))
    };
    let (file, line, function) = place(entry)?;
    let ends: BTreeSet<(String, u32, String)> = ends.iter().filter_map(place).collect();
    let (end_file, end_line, of_end) = ends.first()?;
    let others = match ends.len() {
        1 => String::new(),
        2 => " or another line".to_owned(),
        more => format!(" or {} other lines", more - 1),
    };
    Some(match *of_end == function {
        true => format!("{file}:{line} to {end_file}:{end_line}{others} in {function}"),
        false => format!("{file}:{line} in {function} to {end_file}:{end_line} in {of_end}{others}"),
    })
}

/// What lies behind a pointer.
fn pointed(pointer: &str, offset: i64) -> String {
    match offset {
        0 => format!("*{pointer}"),
        1.. => format!("{pointer}->+{offset:#x}"),
        _ => format!("{pointer}->-{:#x}", offset.unsigned_abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_read_well() {
        let rows = [("p", 0, "*p"), ("p", 8, "p->+0x8"), ("*q", -16, "*q->-0x10")];
        for (pointer, offset, text) in rows {
            assert_eq!(pointed(pointer, offset), text);
        }
    }

    #[test]
    fn spans_are_lines_of_functions() {
        let at = |line, function: &str| At {
            file: Some("/src/a.c".to_owned()),
            line: Some(line),
            function: function.to_owned(),
            ..At::default()
        };
        let told = |entry: &At, ends: &[At]| span(entry, ends);
        assert_eq!(told(&at(8, "f"), &[at(9, "f")]).as_deref(), Some("a.c:8 to a.c:9 in f"));
        assert_eq!(told(&at(8, "get"), &[at(17, "put")]).as_deref(), Some("a.c:8 in get to a.c:17 in put"));
        let many = [at(9, "f"), at(9, "f"), at(12, "f"), at(13, "f")];
        assert_eq!(told(&at(8, "f"), &many[..3]).as_deref(), Some("a.c:8 to a.c:9 or another line in f"));
        assert_eq!(told(&at(8, "f"), &many).as_deref(), Some("a.c:8 to a.c:9 or 2 other lines in f"));
        assert_eq!(told(&At::default(), &many), None);
        assert_eq!(told(&at(8, "f"), &[At::default()]), None);
    }
}
