//! From an offset to source lines, with the inline stack.
//!
//! An offset means the instruction that begins there: a site's own offset, a function's entry. A
//! *return address* names the instruction after the call, which may belong to another line or even
//! another function; [`Symboliser::frames_of_return`] steps back into the call, so callers hand over
//! what they captured and subtract nothing themselves.
//!
//! Without debug information a frame has the symbol's name and no line. Files are absolute where the
//! compiler said from where it was run; `.` and `..` are resolved as text. Answers are kept, so
//! asking again is a look-up.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use addr2line::{Context, LookupContinuation, LookupResult};

use crate::declared::{Declarations, Declared};
use crate::demangle::demangle;
use crate::dwarf::{DebugInfo, Reader};
use crate::functions::{Function, Functions};
use crate::image::Image;

/// One frame of an inline stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Frame {
    /// The readable function name; `??` where not even a symbol is known.
    pub function: String,
    /// The source file, where known.
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u32>,
    /// From 1.
    pub column: Option<u32>,
    /// Whether this function was inlined into the next frame's.
    pub inlined: bool,
}

impl Frame {
    /// Whether the line is in a file of the user's own.
    pub fn is_users(&self) -> bool {
        self.line.is_some() && self.file.as_deref().is_some_and(is_users_file)
    }
}

/// Whether a source file is the user's own, not of the system or a library.
pub fn is_users_file(file: &str) -> bool {
    // Rust's own library has its place in the toolchain where its sources are installed, else one of the build machine's.
    const FOREIGN: [&str; 5] = ["/usr/include/", "/usr/lib/", "/rustc/", "/rustlib/src/rust/", "/.cargo/registry/"];
    !FOREIGN.iter().any(|part| file.contains(part))
}

/// What could not be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LineCounters {
    /// Offsets without a source line.
    pub without_line: u64,
    /// Offsets that the compiler gave no line of their own, named by the line before them in their
    /// function and file (or, at its begin, the line after).
    pub neighbouring_line: u64,
    /// Offsets for which not even a function is known.
    pub without_function: u64,
    /// Units whose split-off half was not found on this disk.
    pub split_units_missing: u64,
    /// Debug sections that could not be unpacked.
    pub unreadable_sections: u32,
    /// Look-ups that ended in damaged debug information.
    pub damaged: u64,
}

/// Answers questions about source lines of one image.
pub struct Symboliser {
    base: u64,
    debug: Arc<DebugInfo>,
    context: Option<Context<Reader>>,
    functions: Functions,
    known: RefCell<BTreeMap<u64, Vec<Frame>>>,
    /// By mangled name; one function has many offsets.
    names: RefCell<BTreeMap<String, String>>,
    declarations: Declarations,
    counters: Cell<LineCounters>,
}

impl std::fmt::Debug for Symboliser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symboliser")
            .field("base", &self.base)
            .field("counters", &self.counters.get())
            .finish_non_exhaustive()
    }
}

impl Symboliser {
    /// Prepares the debug information of `image`.
    pub fn new(image: &Image) -> Symboliser {
        let debug = Arc::clone(image.debug());
        let context = Context::from_arc_dwarf(Arc::clone(&debug.dwarf));
        let counters = LineCounters {
            unreadable_sections: debug.unreadable,
            damaged: u64::from(context.is_err()),
            ..LineCounters::default()
        };
        Symboliser {
            base: image.base(),
            debug,
            context: context.ok(),
            functions: Functions::new(image),
            known: RefCell::default(),
            names: RefCell::default(),
            declarations: Declarations::default(),
            counters: Cell::new(counters),
        }
    }

    /// The frames at the instruction at `offset`, innermost first; never empty.
    pub fn frames(&self, offset: u64) -> Vec<Frame> {
        if let Some(frames) = self.known.borrow().get(&offset) {
            return frames.clone();
        }
        let frames = self.look_up(offset);
        self.known.borrow_mut().insert(offset, frames.clone());
        frames
    }

    /// The frames at the call that returns to `offset`: looks one byte before it.
    pub fn frames_of_return(&self, offset: u64) -> Vec<Frame> {
        self.frames(offset.saturating_sub(1))
    }

    /// The functions of the image.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// What could not be told so far; each offset counts once.
    pub fn counters(&self) -> LineCounters {
        self.counters.get()
    }

    /// Where the innermost function at `offset` begins in the source, and which unit it was compiled in.
    pub(crate) fn declared(&self, offset: u64) -> Option<Declared> {
        let vaddr = offset.checked_add(self.base).filter(|vaddr| *vaddr < u64::MAX)?;
        let context = self.context.as_ref()?;
        let innermost = self.resolve(context.find_frames(vaddr)).ok()?.next().ok()??;
        let unit = self.resolve(context.find_dwarf_and_unit(vaddr))?;
        Some(self.declarations.get(unit, innermost.dw_die_offset))
    }

    /// Loads the split-off halves that a look-up asks for.
    fn resolve<L: LookupContinuation<Buf = Reader>>(&self, mut step: LookupResult<L>) -> L::Output {
        loop {
            match step {
                LookupResult::Output(found) => return found,
                LookupResult::Load { load, continuation } => {
                    let split = self.debug.load_split(load.dwo_id, load.comp_dir.as_ref(), load.path.as_ref());
                    if split.is_none() {
                        self.count(|counters| counters.split_units_missing += 1);
                    }
                    step = continuation.resume(split);
                }
            }
        }
    }

    fn look_up(&self, offset: u64) -> Vec<Frame> {
        let symbol = self.functions.at(offset);
        let mut frames = self.frames_from_debug_info(offset).unwrap_or_else(|_| {
            self.count(|counters| counters.damaged += 1);
            Vec::new()
        });
        if let Some(innermost) = frames.first_mut()
            && innermost.line.is_none()
            && let Some(function) = symbol
        {
            innermost.line = self.neighbouring_line(function, offset, innermost.file.as_deref());
            self.count(|counters| counters.neighbouring_line += u64::from(innermost.line.is_some()));
        }
        if frames.is_empty() {
            frames.push(Frame { function: String::new(), file: None, line: None, column: None, inlined: false });
        }
        for frame in frames.iter_mut().filter(|frame| frame.function.is_empty()) {
            frame.function = match symbol {
                Some(function) => {
                    function.symbol.as_ref().map_or_else(|| function.name(), |_| self.readable(&function.name()))
                }
                None => "??".to_owned(),
            };
        }
        self.count(|counters| {
            counters.without_line += u64::from(frames[0].line.is_none());
            counters.without_function += u64::from(frames[0].function == "??");
        });
        frames
    }

    fn frames_from_debug_info(&self, offset: u64) -> Result<Vec<Frame>, gimli::Error> {
        // The library asks for the range from an address to the next.
        let vaddr = offset.checked_add(self.base).filter(|vaddr| *vaddr < u64::MAX);
        let (Some(context), Some(vaddr)) = (&self.context, vaddr) else {
            return Ok(Vec::new());
        };
        let mut found = self.resolve(context.find_frames(vaddr))?;
        let mut frames: Vec<Frame> = Vec::new();
        while let Some(frame) = found.next()? {
            let function = match &frame.function {
                Some(name) => self.readable(&name.raw_name()?),
                None => String::new(),
            };
            let location = frame.location.as_ref();
            frames.push(Frame {
                function,
                file: location.and_then(|location| location.file).map(normalise),
                line: location.and_then(|location| location.line).filter(|line| *line > 0),
                column: location.and_then(|location| location.column).filter(|column| *column > 0),
                inlined: true,
            });
        }
        if let Some(outermost) = frames.last_mut() {
            outermost.inlined = false;
        }
        Ok(frames)
    }

    /// The line of the nearest instruction in the same function and file. Compilers give line 0 to
    /// what they cannot attribute; rustc does so for the hooks at most function entries.
    fn neighbouring_line(&self, function: &Function, offset: u64, file: Option<&str>) -> Option<u32> {
        let lines = |from: u64, to: u64| {
            let rows = self.context.as_ref().and_then(|context| {
                context.find_location_range(from.checked_add(self.base)?, to.checked_add(self.base)?).ok()
            });
            rows.into_iter().flatten().filter_map(|(_, _, row)| {
                let line = row.line.filter(|line| *line > 0)?;
                (row.file.map(normalise).as_deref() == file).then_some(line)
            })
        };
        // Backwards in growing windows: it is nearly always close by.
        let mut window = 32;
        loop {
            let from = offset.saturating_sub(window).max(function.start);
            if let Some(line) = lines(from, offset).last() {
                return Some(line);
            }
            if from == function.start {
                return lines(offset, function.end).next();
            }
            window *= 4;
        }
    }

    fn readable(&self, raw: &str) -> String {
        if let Some(name) = self.names.borrow().get(raw) {
            return name.clone();
        }
        let name = demangle(raw);
        self.names.borrow_mut().insert(raw.to_owned(), name.clone());
        name
    }

    fn count(&self, change: impl FnOnce(&mut LineCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

/// Takes `.`, `..` and doubled slashes out of a path, as text: the file need not be on this machine.
pub(crate) fn normalise(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let absolute = path.starts_with('/');
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if absolute { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::normalise;

    #[test]
    fn paths_lose_their_detours() {
        let rows = [
            ("/a/./b//c.c", "/a/b/c.c"),
            ("/a/b/../c.c", "/a/c.c"),
            ("../x.c", "../x.c"),
            ("a/../../x.c", "../x.c"),
            ("/../x.c", "/x.c"),
            ("x.c", "x.c"),
        ];
        for (path, plain) in rows {
            assert_eq!(normalise(path), plain);
        }
    }
}
