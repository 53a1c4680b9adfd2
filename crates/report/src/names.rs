//! Names for addresses and code places: `balance`, `heap:queue.c:12+8`, `main()::account`, `account.c:17:5 in withdraw`; and
//! calls.
//!
//! Images are opened when first asked about. One that is gone, or was built anew since, names nothing: a
//! wrong name is worse than none.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use selvedge_events::{ModuleIx, ThreadIx};
use selvedge_findings::{Access, Frame};
use selvedge_image::lines::is_users_file;
use selvedge_image::{Image, Symboliser, Variables};
use selvedge_trace::read::Module;
use selvedge_trace::state::Heap;
use selvedge_trace::{ContextId, Place, Process};

use crate::stacks::{OnStack, Stacks};
use crate::view::printable;

/// Where something is in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The function; the innermost of an inline stack.
    pub function: Option<String>,
    /// The file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The column.
    pub column: Option<u32>,
    /// The image and offset, where nothing better is known.
    pub code: Option<(String, u32)>,
}

impl Source {
    /// `FILE:LINE:COLUMN`, else `IMAGE+0xOFFSET`, else `FILE`, else `?`. The file is shortened.
    pub fn place(&self) -> String {
        let mut text = match (&self.file, &self.code) {
            (Some(file), _) if self.line.is_some() => shorten(Path::new(file)),
            (_, Some((image, offset))) => return format!("{image}+{offset:#x}"),
            (Some(file), None) => return shorten(Path::new(file)),
            (None, None) => return "?".to_owned(),
        };
        for number in [self.line, self.column].into_iter().flatten().filter(|number| *number > 0) {
            text.push_str(&format!(":{number}"));
        }
        text
    }

    /// As [`Source::place`], without the column.
    pub fn line_place(&self) -> String {
        Source { column: None, ..self.clone() }.place()
    }

    /// `FILE:LINE in FUNCTION` without directories, as far as that is known.
    pub fn in_words(&self) -> String {
        match &self.function {
            Some(function) => format!("{} in {function}", self.brief()),
            None => self.brief(),
        }
    }

    /// The file's name without directories: the same wherever the program is built.
    pub fn file_name(&self) -> Option<String> {
        let file = Path::new(self.file.as_deref()?).file_name()?;
        Some(file.to_string_lossy().into_owned())
    }

    /// The frame that a stack is called by: the innermost in a file of the user's own, where there is one.
    pub(crate) fn of_stack(stack: &[Source]) -> Option<&Source> {
        stack.iter().find(|source| source.is_users()).or(stack.first())
    }

    /// An access that a stack led to, so far without what it does.
    pub fn access_of(stack: &[Source]) -> Access {
        let own = Source::of_stack(stack);
        Access {
            function: own.and_then(|source| source.function.clone()),
            file: own.and_then(|source| source.file.clone()),
            line: own.and_then(|source| source.line),
            column: own.and_then(|source| source.column).filter(|column| *column > 0),
            stack: stack.iter().map(Source::frame).collect(),
            ..Access::default()
        }
    }

    fn frame(&self) -> Frame {
        Frame {
            function: self.function.clone(),
            file: self.file.clone(),
            line: self.line,
            column: self.column.filter(|column| *column > 0),
            module: self.code.as_ref().map(|(image, _)| image.clone()),
        }
    }

    /// Whether the line is in a file of the user's own, not of the system or a library.
    fn is_users(&self) -> bool {
        self.line.is_some() && self.file.as_deref().is_some_and(is_users_file)
    }

    /// `FILE:LINE` without directories, else as [`Source::place`].
    pub fn brief(&self) -> String {
        match (self.file_name(), self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            _ => self.place(),
        }
    }

    /// Whether Rust's library calls the program's own code from here: it marks the place, for backtraces of its own.
    fn is_rust_start(&self) -> bool {
        self.function.as_deref().is_some_and(|name| name.contains("::__rust_begin_short_backtrace"))
    }

    /// Whether this is how threads begin, before any code of the program's own.
    fn is_start(&self) -> bool {
        /// What lies between the begin of a `std::thread` of C++ and the function that it was given.
        const CPP: [&str; 3] = ["std::__invoke", "std::thread::_Invoker<", "std::thread::_State_impl<"];
        let name = self.function.as_deref().unwrap_or_default();
        let is_cpp = !self.is_users() && CPP.iter().any(|start| name.starts_with(start));
        is_cpp || name.starts_with("selvedge_rt::") || self.line.is_none()
    }

    /// Takes from a stack how the system begins a thread, and how the libraries of C++ and Rust do.
    pub(crate) fn leave_out_start(stack: &mut Vec<Source>) {
        let own = stack.iter().rposition(|frame| !frame.is_start()).map_or(stack.len().min(1), |last| last + 1);
        stack.truncate(own);
        if let Some(begin) = stack.iter().position(Source::is_rust_start) {
            stack.truncate(begin.max(1));
        }
    }
}

/// What a memory location is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The name.
    pub name: String,
    /// Whether the name is the same on every run and machine: it has no address in it.
    pub is_lasting: bool,
}

/// A file as seen from here: relative where it lies below the working directory.
pub(crate) fn shorten(file: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    file.strip_prefix(&here).unwrap_or(file).display().to_string()
}

/// Names things of one process.
#[derive(Debug)]
pub struct Names<'a> {
    process: &'a Process,
    modules: RefCell<BTreeMap<ModuleIx, Option<Rc<Symbols>>>>,
    sources: RefCell<BTreeMap<(ModuleIx, u32), Rc<Source>>>,
    /// The innermost caller that is the user's own code.
    callers: RefCell<BTreeMap<ContextId, Option<Rc<Source>>>>,
    globals: RefCell<BTreeMap<u64, Option<Rc<str>>>>,
    stacks: Stacks<'a>,
}

#[derive(Debug)]
struct Symbols {
    lines: Symboliser,
    variables: Variables,
}

impl<'a> Names<'a> {
    /// Names things of this process.
    pub fn new(process: &'a Process) -> Names<'a> {
        Names {
            process,
            modules: RefCell::default(),
            sources: RefCell::default(),
            callers: RefCell::default(),
            globals: RefCell::default(),
            stacks: Stacks::new(process),
        }
    }

    /// The process.
    pub fn process(&self) -> &'a Process {
        self.process
    }

    /// Images that were loaded and cannot be used for names: gone, or built anew since.
    pub fn unusable_images(&self) -> Vec<PathBuf> {
        let modules = self.process.file().modules().iter();
        let real = modules.filter(|module| module.path.is_absolute());
        real.filter(|module| self.symbols(module).is_none()).map(|module| module.path.clone()).collect()
    }

    /// Where a place is in the source: the innermost frame of the inline stack that is the user's own code,
    /// else the innermost caller that is, else the innermost frame.
    pub fn source(&self, place: Place, context: ContextId) -> Rc<Source> {
        let own = self.at(place);
        if own.is_users() || context == ContextId::ROOT {
            return own;
        }
        if let Some(known) = self.callers.borrow().get(&context) {
            return known.clone().unwrap_or(own);
        }
        let callers = self.process.contexts().frames(context);
        let mut callers = callers.into_iter().map(|pc| self.at(self.process.place_of(pc)));
        let found = callers.find(|source| source.is_users());
        self.callers.borrow_mut().insert(context, found.clone());
        found.unwrap_or(own)
    }

    /// As [`Names::source`], without looking at callers.
    fn at(&self, place: Place) -> Rc<Source> {
        let Some((module, offset)) = self.process.code(place) else { return Rc::default() };
        let key = (module.index, offset);
        if let Some(known) = self.sources.borrow().get(&key) {
            return Rc::clone(known);
        }
        let mut sources = self.frames(place).into_iter();
        let innermost = sources.next().unwrap_or_default();
        let users = if innermost.is_users() { None } else { sources.find(Source::is_users) };
        let source = Rc::new(users.unwrap_or(innermost));
        self.sources.borrow_mut().insert(key, Rc::clone(&source));
        source
    }

    /// The inline stack at a place, innermost first; empty for a place in no known image.
    pub fn frames(&self, place: Place) -> Vec<Source> {
        let Some((module, offset)) = self.process.code(place) else { return Vec::new() };
        let image = module.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let code = image.map(|image| (image, offset));
        let frames = self.symbols(module).map(|symbols| symbols.lines.frames(u64::from(offset))).unwrap_or_default();
        if frames.is_empty() {
            return vec![Source { code, ..Source::default() }];
        }
        let source = |frame: selvedge_image::lines::Frame| Source {
            function: Some(frame.function).filter(|name| !name.is_empty() && name != "??"),
            file: frame.file,
            line: frame.line,
            column: frame.column,
            code: code.clone(),
        };
        frames.into_iter().map(source).collect()
    }

    /// The function whose code a place is in, whatever was inlined into it there.
    pub fn function(&self, place: Place) -> Option<String> {
        self.frames(place).pop().and_then(|frame| frame.function)
    }

    /// The calls that led to a place, innermost first, with what was inlined. How the system begins a thread is
    /// left out, and how the libraries of C++ and Rust do.
    pub fn stack(&self, place: Place, context: ContextId) -> Vec<Source> {
        let callers = self.process.contexts().frames(context).into_iter().map(|pc| self.process.place_of(pc));
        let mut stack: Vec<Source> = std::iter::once(place).chain(callers).flat_map(|at| self.frames(at)).collect();
        Source::leave_out_start(&mut stack);
        stack
    }

    /// The name of the memory at an address, while these heap blocks are alive.
    pub fn variable(&self, addr: u64, heap: &Heap) -> String {
        self.variable_at(addr, heap).name
    }

    /// As [`Names::variable`], with what the name is worth.
    pub fn variable_at(&self, addr: u64, heap: &Heap) -> Variable {
        let (name, is_lasting) = if let Some(block) = heap.block_of(addr) {
            let source = self.source(block.place, block.context);
            (format!("heap:{}{}", source.brief(), plus(addr - block.addr)), true)
        } else if let Some(name) = self.global(addr) {
            (name.to_string(), true)
        } else {
            match self.stacks.at(addr, heap.stacks()) {
                Some(OnStack::Variable(name)) => (name.to_string(), true),
                Some(OnStack::Frame(thread, pc)) => (self.in_frame(thread, pc, addr), false),
                // The system puts the main stack into the last 16 GiB of the address space; where other threads' stacks
                // lie, a trace says only of those that make threads.
                None if (0x7ffb_0000_0000..0x8000_0000_0000).contains(&addr) => {
                    (format!("stack of main:{addr:#x}"), false)
                }
                None => (format!("{addr:#x}"), false),
            }
        };
        Variable { name, is_lasting }
    }

    /// `stack of main, in serve():0x7ffd…`: an address in a frame of which no variable is known to lie there.
    fn in_frame(&self, thread: ThreadIx, pc: u64, addr: u64) -> String {
        let is_main = self.process.thread(thread).is_some_and(|thread| thread.path == "main");
        let whose = if is_main { "main".to_owned() } else { format!("T{thread}") };
        let function = self.function(self.process.place_of(pc));
        let frame = function.map(|function| format!(", in {function}()")).unwrap_or_default();
        format!("stack of {whose}{frame}:{addr:#x}")
    }

    /// `T1`, with the program's name for the thread where it has one.
    pub fn thread(&self, thread: ThreadIx) -> String {
        match self.process.thread(thread).and_then(|thread| thread.name.as_deref()) {
            Some(name) => format!("T{thread} {name}"),
            None => format!("T{thread}"),
        }
    }

    /// `T1 'teller'`, `T0 (main)`, `T2`: a thread in a sentence.
    pub fn thread_in_words(&self, index: ThreadIx) -> String {
        let thread = self.process.thread(index);
        match thread.map(|thread| (thread.name.as_deref(), thread.path.as_str())) {
            Some((Some(name), _)) => format!("T{index} '{}'", printable(name)),
            Some((None, "main")) => format!("T{index} (main)"),
            _ => format!("T{index}"),
        }
    }

    fn global(&self, addr: u64) -> Option<Rc<str>> {
        if let Some(known) = self.globals.borrow().get(&addr) {
            return known.clone();
        }
        let module = self.process.module_of(addr)?;
        let name = self.symbols(module).and_then(|symbols| symbols.variables.variable(addr - module.base));
        let image = module.path.file_name().map(|name| name.to_string_lossy());
        let name = match (name, image) {
            (Some(name), _) => name.name,
            (None, Some(image)) => format!("{image}{}", plus(addr - module.base)),
            (None, None) => return None,
        };
        let name: Rc<str> = Rc::from(name);
        self.globals.borrow_mut().insert(addr, Some(Rc::clone(&name)));
        Some(name)
    }

    fn symbols(&self, module: &Module) -> Option<Rc<Symbols>> {
        if let Some(known) = self.modules.borrow().get(&module.index) {
            return known.clone();
        }
        let image = Image::open(&module.path).ok().filter(|image| image.build_id() == module.build_id);
        let symbols =
            image.map(|image| Rc::new(Symbols { lines: Symboliser::new(&image), variables: Variables::new(&image) }));
        self.modules.borrow_mut().insert(module.index, symbols.clone());
        symbols
    }
}

pub(crate) fn plus(offset: u64) -> String {
    if offset == 0 { String::new() } else { format!("+{offset:#x}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_fall_back_to_what_is_known() {
        let line = Source { file: Some("/far/a.c".into()), line: Some(7), column: Some(3), ..Source::default() };
        assert_eq!((line.place().as_str(), line.brief().as_str()), ("/far/a.c:7:3", "a.c:7"));
        let code = Source { code: Some(("libx.so".into(), 0x1f0)), ..Source::default() };
        assert_eq!(code.place(), "libx.so+0x1f0");
        assert_eq!(Source::default().place(), "?");
        assert!(line.is_users() && !code.is_users());
        let library = Source { file: Some("/usr/include/c++/12/mutex".into()), line: Some(7), ..Source::default() };
        assert!(!library.is_users());
        let no_column = Source { column: Some(0), ..line };
        assert_eq!(no_column.place(), "/far/a.c:7");
    }

    #[test]
    fn how_threads_begin_is_left_out() {
        let frame = |function: &str, file: &str| Source {
            function: Some(function.into()),
            file: Some(file.into()),
            line: Some(7),
            ..Source::default()
        };
        let (cpp, rust) = ("/usr/include/c++/12/bits/invoke.h", "/rustc/1/library/std/src/thread.rs");
        let kept = |mut stack: Vec<Source>| {
            Source::leave_out_start(&mut stack);
            stack.into_iter().filter_map(|source| source.function).collect::<Vec<_>>()
        };
        let of_cpp = vec![
            // A call in the program's own code is no begin.
            frame("std::__invoke<f>", cpp),
            frame("work", "/far/a.cpp"),
            frame("std::__invoke_impl<void, void (*)()>", cpp),
            frame("std::thread::_Invoker<std::tuple<void (*)()> >::operator()", cpp),
            frame("std::thread::_State_impl<x>::_M_run", cpp),
            Source::default(),
        ];
        assert_eq!(kept(of_cpp), ["std::__invoke<f>", "work"]);
        let of_rust = vec![
            frame("work", "/far/a.rs"),
            frame("std::sys::backtrace::__rust_begin_short_backtrace::<f>", rust),
            frame("std::thread::spawn", rust),
        ];
        assert_eq!(kept(of_rust), ["work"]);
        assert_eq!(kept(vec![frame("std::__invoke_of_mine", "/far/a.cpp")]), ["std::__invoke_of_mine"]);
    }
}
