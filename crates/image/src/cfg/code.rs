//! An image's code as graphs need it: who is behind a target, which calls do not come back, where exceptions land.

use std::cell::RefCell;
use std::collections::BTreeMap;

use selvedge_events::site_table::Entry;

use super::Cfg;
use super::unwind::Unwinding;
use crate::functions::{Functions, Part};
use crate::image::{Bound, Image};
use crate::index::Loaded;
use crate::x86::Target;
use crate::x86::flow::{Flow, Step, steps};

/// Who is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Callee {
    /// A function of the image, by its group.
    Function(u32),
    /// A function by its linker name: of another image, or one that the runtime stands before.
    Name(String),
    /// Only the run knows.
    Unknown,
}

/// Makes the graphs of an image.
#[derive(Debug)]
pub struct Code<'a> {
    pub(super) image: &'a Image,
    pub(super) functions: &'a Functions,
    pub(super) entries: &'a [Entry],
    pub(super) unwinding: Unwinding,
    /// Whether the functions that were asked for come back.
    returns: RefCell<BTreeMap<u32, bool>>,
}

impl<'a> Code<'a> {
    /// Of an image with its sites and functions.
    pub fn new(loaded: &'a Loaded, functions: &'a Functions) -> Code<'a> {
        Code {
            image: &loaded.image,
            functions,
            entries: &loaded.entries,
            unwinding: Unwinding::new(&loaded.image),
            returns: RefCell::new(BTreeMap::new()),
        }
    }

    /// The graph of the function with this group; empty where there is none.
    pub fn graph(&self, group: u32) -> Cfg {
        super::build::build(self, group)
    }

    /// The graphs of all functions but the runtime's own.
    pub fn graphs(&self) -> impl Iterator<Item = Cfg> + '_ {
        (0_u32..)
            .zip(self.functions.groups())
            .filter(|(group, _)| !self.is_runtime(*group))
            .map(|row| self.graph(row.0))
    }

    pub(crate) fn image(&self) -> &'a Image {
        self.image
    }

    /// The image's functions.
    pub fn functions(&self) -> &'a Functions {
        self.functions
    }

    /// The image's sites, by ordinal.
    pub fn entries(&self) -> &'a [Entry] {
        self.entries
    }

    /// Whether a function is the in-process runtime's.
    pub fn is_runtime(&self, group: u32) -> bool {
        self.ranges(group).any(|function| function.runtime)
    }

    /// The parts of a function that have hooks where it has them, by address.
    pub(super) fn ranges(&self, group: u32) -> impl Iterator<Item = &'a crate::functions::Function> {
        let parts = self.functions.groups().get(group as usize).map_or(&[][..], |group| &group.parts);
        let all = parts.iter().filter_map(|part| self.functions.all().get(*part as usize));
        all.filter(|function| function.part != Part::Plain)
    }

    /// The steps of a range of code, and how many of its bytes are none.
    pub(super) fn steps(&self, function: &crate::functions::Function) -> (Vec<Step>, u64) {
        let len = usize::try_from(function.end - function.start).unwrap_or(0);
        match self.image.loaded_bytes(function.start, len) {
            Some(code) => steps(code, function.start + self.image.base()),
            None => (Vec::new(), 0),
        }
    }

    /// The address where a function is entered.
    pub(super) fn entry(&self, group: u32) -> Option<u64> {
        let hot = self.ranges(group).find(|function| function.part == Part::Hot);
        hot.or_else(|| self.ranges(group).next()).map(|function| function.start + self.image.base())
    }

    /// Who is behind a target; `None` where it is no function's begin.
    pub(super) fn callee(&self, target: Target) -> Option<Callee> {
        match target {
            Target::Direct(vaddr) => self.at(vaddr),
            Target::Slot(slot) => Some(self.behind(slot)),
        }
    }

    /// Who is behind a slot. One that the program may change is a variable: what the linker put there is only where it
    /// begins.
    fn behind(&self, slot: u64) -> Callee {
        if !(self.image.is_linkage_slot(slot) || self.image.is_constant(slot.wrapping_sub(self.image.base()))) {
            return Callee::Unknown;
        }
        let slots = self.image.slots();
        let bound = slots.binary_search_by_key(&slot, |row| row.0).ok().and_then(|at| slots.get(at));
        match bound {
            Some((_, Bound::Name(name))) => Callee::Name(name.split('@').next().unwrap_or_default().to_owned()),
            Some((_, Bound::Address(vaddr))) => self.at(*vaddr).unwrap_or(Callee::Unknown),
            _ => Callee::Unknown,
        }
    }

    /// The function that begins at an address, or whose stub is there.
    pub(crate) fn at(&self, vaddr: u64) -> Option<Callee> {
        let stubs = self.image.stubs();
        if let Ok(at) = stubs.binary_search_by_key(&vaddr, |stub| stub.0) {
            return stubs.get(at).map(|stub| self.behind(stub.1));
        }
        let offset = vaddr.checked_sub(self.image.base())?;
        let function = self.functions.at(offset).filter(|function| function.start == offset)?;
        match &function.symbol {
            // The runtime's own function of that name stands before the C library's.
            Some(symbol) if function.runtime => Some(Callee::Name(symbol.clone())),
            // Calls and addresses name the body without hooks, where there is one.
            _ => {
                let is_entered = function.part == Part::Plain || self.entry(function.group) == Some(vaddr);
                is_entered.then_some(Callee::Function(function.group))
            }
        }
    }

    /// Whether a call may come back.
    pub(super) fn returns(&self, callee: &Callee) -> bool {
        match callee {
            Callee::Unknown => true,
            Callee::Name(name) => !never_returns(name),
            Callee::Function(group) => {
                if let Some(known) = self.returns.borrow().get(group) {
                    return *known;
                }
                let symbol = self.functions.groups().get(*group as usize).and_then(|group| group.symbol.as_deref());
                let returns = !symbol.is_some_and(never_returns) && self.has_return(*group);
                self.returns.borrow_mut().insert(*group, returns);
                returns
            }
        }
    }

    /// Whether something in a function returns, or goes where that cannot be told.
    fn has_return(&self, group: u32) -> bool {
        let inside = |vaddr: u64| {
            let offset = vaddr.wrapping_sub(self.image.base());
            self.ranges(group).any(|function| (function.start..function.end).contains(&offset))
        };
        let mut any = false;
        for function in self.ranges(group) {
            for step in self.steps(function).0 {
                any = true;
                let leaves = match step.flow {
                    Flow::Return | Flow::Computed(_) | Flow::Jump(Target::Slot(_)) => true,
                    Flow::Jump(Target::Direct(to)) | Flow::Branch(to) => !inside(to),
                    _ => false,
                };
                if leaves {
                    return true;
                }
            }
        }
        !any
    }
}

/// Functions that do not come back to their caller, by linker name.
const NEVER_RETURN: &[&str] = &[
    "_Exit",
    "_Unwind_Resume",
    "_Unwind_Resume_or_Rethrow",
    "__assert_fail",
    "__assert_perror_fail",
    "__chk_fail",
    "__clang_call_terminate",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_pure_virtual",
    "__cxa_rethrow",
    "__cxa_throw",
    "__cxa_throw_bad_array_new_length",
    "__fortify_fail",
    "__libc_start_main",
    "__longjmp_chk",
    "__stack_chk_fail",
    "_exit",
    "_longjmp",
    "abort",
    "err",
    "errx",
    "exit",
    "longjmp",
    "pthread_exit",
    "quick_exit",
    "rust_begin_unwind",
    "siglongjmp",
    "thrd_exit",
    "verr",
    "verrx",
    "_ZSt9terminatev",
    "_ZSt10unexpectedv",
];

fn never_returns(name: &str) -> bool {
    NEVER_RETURN.contains(&name) || (name.starts_with("_ZSt") && name.contains("__throw_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_never_return() {
        let rows = [
            ("abort", true),
            ("_ZSt20__throw_length_errorPKc", true),
            ("_ZSt9terminatev", true),
            ("printf", false),
            ("_ZN3foo5abortEv", false),
            ("_ZN2my9__throw_xEv", false),
        ];
        for (name, never) in rows {
            assert_eq!(never_returns(name), never, "{name}");
        }
    }
}
