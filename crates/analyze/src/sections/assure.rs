//! Which sections a lock may be put around (Letko, Vojnar and Křena, "AtomRace", section 5.1): those in which a thread
//! synchronises with nobody, so that it never waits while it has the lock.
//!
//! All code is looked at that may run between the begin of a section and its ends, in callees too, and in callers where it
//! ends there. Refused: calls of functions outside the program that are not known to be [harmless], calls through
//! pointers, recursion, and loops that read shared memory, each of which may wait until another thread has written
//! there.
//!
//! Departures from the paper:
//! - Calls are followed, not refused.
//! - Waiting without a call, by a loop, is thought of. An atomic operation outside a loop waits for nobody.
//!
//! Never says yes to a section that may wait, as far as the graphs are right; says no to some that do not.
//!
//! Cost: linear in the code between begin and ends, but for the loops in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Program, Risk, Section};

/// Functions of the C library that wait for nobody.
const HARMLESS: &[&str] = &[
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "memchr",
    "memrchr",
    "mempcpy",
    "bcmp",
    "bcopy",
    "bzero",
    "strlen",
    "strnlen",
    "strcmp",
    "strncmp",
    "strcpy",
    "strncpy",
    "strcat",
    "strncat",
    "strchr",
    "strrchr",
    "strstr",
    "strspn",
    "strcspn",
    "strcasecmp",
    "strncasecmp",
    "stpcpy",
    "atoi",
    "atol",
    "atoll",
    "strtol",
    "strtoul",
    "strtoll",
    "strtoull",
    "strtod",
    "abs",
    "labs",
    "snprintf",
    "vsnprintf",
    "sprintf",
    "vsprintf",
    "malloc",
    "calloc",
    "realloc",
    "free",
    "_Znwm",
    "_Znam",
    "_ZdlPv",
    "_ZdlPvm",
    "_ZdaPv",
    "_ZdaPvm",
    "abort",
    "__stack_chk_fail",
    "__assert_fail",
    "_exit",
    "sqrt",
    "sin",
    "cos",
    "exp",
    "log",
    "pow",
    "floor",
    "ceil",
    "getpid",
    "__errno_location",
];

/// Whether a function of this name waits for nobody.
pub fn harmless(name: &str) -> bool {
    let name = name.strip_prefix("__tsan_").unwrap_or(name);
    let plain = name.strip_prefix("__").and_then(|name| name.strip_suffix("_chk")).unwrap_or(name);
    HARMLESS.contains(&plain)
}

/// Why a lock may not be put around a section.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// It may call this function.
    Calls(String),
    /// It may call what is not known.
    Unknown,
    /// A loop in it reads shared memory.
    Loops,
    /// It may call itself.
    Recursive,
    /// It has no begin in the code, or is too large to be looked at.
    NotSeen,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Calls(name) => write!(f, "it calls {name}"),
            Refusal::Unknown => write!(f, "it calls what is not known"),
            Refusal::Loops => write!(f, "a loop in it may wait for another thread"),
            Refusal::Recursive => write!(f, "it may call itself"),
            Refusal::NotSeen => write!(f, "it is too large to be looked at"),
        }
    }
}

/// Most blocks that are looked at for one section.
const MOST: usize = 20_000;

type Node = (usize, usize);

/// The program, ready to be asked.
#[derive(Debug)]
pub struct Assurance<'a> {
    program: &'a Program,
    /// By site: its function, block and position.
    sites: BTreeMap<u32, (usize, usize, usize)>,
    /// By function: the blocks that call it.
    callers: BTreeMap<usize, Vec<Node>>,
}

impl<'a> Assurance<'a> {
    /// Reads a program.
    pub fn new(program: &'a Program) -> Assurance<'a> {
        let mut out = Assurance { program, sites: BTreeMap::new(), callers: BTreeMap::new() };
        for (function, code) in program.functions.iter().enumerate() {
            for (block, found) in code.blocks.iter().enumerate() {
                for (position, access) in found.accesses.iter().enumerate() {
                    out.sites.insert(access.site, (function, block, position));
                }
                if let Some(call) = &found.call {
                    out.callers.entry(call.function).or_default().push((function, block));
                }
            }
        }
        out
    }

    /// The function that a site is in.
    pub fn function_of(&self, site: u32) -> Option<usize> {
        self.sites.get(&site).map(|(function, ..)| *function)
    }

    /// Whether every end of a section is in the function of its begin.
    pub fn is_in_one_function(&self, section: &Section) -> bool {
        let own = self.function_of(section.entry);
        own.is_some() && section.ends.iter().all(|end| self.function_of(end.site) == own)
    }

    /// Whether a lock may be put around a section.
    pub fn check(&self, section: &Section) -> Result<(), Refusal> {
        let start = *self.sites.get(&section.entry).ok_or(Refusal::NotSeen)?;
        let mut walk = Walk {
            all: self,
            ends: section.ends.iter().map(|end| end.site).collect(),
            exits: section.exits.iter().filter(|exit| !exit.leaves).map(|exit| exit.block).collect(),
            goes_up: !self.is_in_one_function(section),
            edges: BTreeMap::new(),
            calls: BTreeMap::new(),
            work: Vec::new(),
        };
        walk.run(start)?;
        walk.loops()
    }
}

struct Walk<'a> {
    all: &'a Assurance<'a>,
    ends: BTreeSet<u32>,
    /// Begins of blocks at which the section is left.
    exits: BTreeSet<u64>,
    /// Whether it may end in a caller.
    goes_up: bool,
    /// Blocks that are entered at their begin, and where they go next.
    edges: BTreeMap<Node, Vec<Node>>,
    /// Who calls whom.
    calls: BTreeMap<usize, BTreeSet<usize>>,
    work: Vec<Node>,
}

impl Walk<'_> {
    fn run(&mut self, (function, block, position): (usize, usize, usize)) -> Result<(), Refusal> {
        // The first block is gone through from its middle; come to again, it is a block like others.
        self.through((function, block), position + 1)?;
        while let Some(node) = self.work.pop() {
            if self.edges.contains_key(&node) {
                continue;
            }
            if self.edges.len() >= MOST {
                return Err(Refusal::NotSeen);
            }
            let next = self.through(node, 0)?;
            self.edges.insert(node, next);
        }
        Ok(())
    }

    /// Goes through a block from an access on; answers where it may go next.
    fn through(&mut self, (function, block): Node, from: usize) -> Result<Vec<Node>, Refusal> {
        let functions = &self.all.program.functions;
        let Some(found) = functions.get(function).and_then(|code| code.blocks.get(block)) else {
            return Ok(Vec::new());
        };
        if from == 0 && self.exits.contains(&found.start) {
            return Ok(Vec::new());
        }
        if found.accesses.iter().skip(from).any(|access| self.ends.contains(&access.site)) {
            return Ok(Vec::new());
        }
        match &found.risk {
            Some(Risk::Named(name)) => return Err(Refusal::Calls(name.clone())),
            Some(Risk::Unknown) => return Err(Refusal::Unknown),
            None => {}
        }
        let mut next: Vec<Node> = found.successors.iter().map(|next| (function, *next)).collect();
        if let Some(call) = &found.call {
            self.calls.entry(function).or_default().insert(call.function);
            if let Some(callee) = functions.get(call.function) {
                self.work.push((call.function, callee.entry));
            }
        }
        if found.returns && self.goes_up {
            for (caller, at) in self.all.callers.get(&function).into_iter().flatten() {
                let block = functions.get(*caller).and_then(|code| code.blocks.get(*at));
                next.extend(block.into_iter().flat_map(|block| block.successors.iter().map(|next| (*caller, *next))));
            }
        }
        self.work.extend(next.iter().copied());
        Ok(next)
    }

    /// Whether the code that was gone through has no loop that may wait, and calls nobody back.
    fn loops(&self) -> Result<(), Refusal> {
        let called = |function: &usize| self.calls.get(function).into_iter().flatten().copied().collect::<Vec<_>>();
        if self.calls.keys().any(|function| comes_back(*function, called)) {
            return Err(Refusal::Recursive);
        }
        let next = |node: &Node| self.edges.get(node).cloned().unwrap_or_default();
        let looks = |node: &&Node| {
            let block = self.all.program.functions.get(node.0).and_then(|code| code.blocks.get(node.1));
            block.is_some_and(|block| block.looks || block.call.is_some())
        };
        if self.edges.keys().filter(looks).any(|node| comes_back(*node, next)) {
            return Err(Refusal::Loops);
        }
        Ok(())
    }
}

/// Whether something can be come to from itself.
fn comes_back<T: Ord + Copy>(from: T, next: impl Fn(&T) -> Vec<T>) -> bool {
    let mut seen = BTreeSet::new();
    let mut work = next(&from);
    while let Some(at) = work.pop() {
        if at == from {
            return true;
        }
        if seen.insert(at) {
            work.extend(next(&at));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Block, Call, End, Function, Kind, Mode, Place, Remote, Root};
    use super::*;

    fn access(site: u32) -> Access {
        Access { site, place: Place { root: Root::Global, path: vec![8] }, mode: Mode::Read }
    }

    fn block(sites: &[u32], successors: &[usize]) -> Block {
        Block {
            accesses: sites.iter().map(|site| access(*site)).collect(),
            successors: successors.to_vec(),
            returns: successors.is_empty(),
            looks: !sites.is_empty(),
            ..Block::default()
        }
    }

    fn calls(block: Block, function: usize) -> Block {
        Block { call: Some(Call { function, arguments: Vec::new() }), ..block }
    }

    fn risky(block: Block, risk: Risk) -> Block {
        Block { risk: Some(risk), ..block }
    }

    fn check(functions: &[Vec<Block>], entry: u32, ends: &[u32]) -> Result<(), Refusal> {
        let functions = functions.iter().map(|blocks| Function { blocks: blocks.clone(), entry: 0 }).collect();
        let section = Section {
            entry,
            kind: Kind::Consecutive,
            mode: Mode::Read,
            variable: access(0).place,
            function: 0,
            ends: ends.iter().map(|site| End { site: *site, allowed: Remote::READS }).collect(),
            exits: Vec::new(),
        };
        Assurance::new(&Program { functions }).check(&section)
    }

    #[test]
    fn what_may_wait_between_begin_and_end_is_refused() {
        let lock = || Risk::Named("pthread_mutex_lock".to_owned());
        let refused = || Err(Refusal::Calls("pthread_mutex_lock".to_owned()));
        let rows = [
            ("in one block", vec![vec![block(&[1, 2], &[])]], Ok(())),
            ("a call behind the end", vec![vec![risky(block(&[1, 2], &[]), lock())]], Ok(())),
            ("a call before the begin", vec![vec![risky(block(&[], &[1]), lock()), block(&[1, 2], &[])]], Ok(())),
            ("a call between", vec![vec![risky(block(&[1], &[1]), lock()), block(&[2], &[])]], refused()),
            (
                "a call on one way",
                vec![vec![block(&[1], &[1, 2]), risky(block(&[], &[2]), lock()), block(&[2], &[])]],
                refused(),
            ),
            ("a pointer", vec![vec![risky(block(&[1], &[1]), Risk::Unknown), block(&[2], &[])]], Err(Refusal::Unknown)),
            (
                "a callee that does nothing",
                vec![vec![calls(block(&[1], &[1]), 1), block(&[2], &[])], vec![block(&[9], &[])]],
                Ok(()),
            ),
            (
                "a callee that locks",
                vec![vec![calls(block(&[1], &[1]), 1), block(&[2], &[])], vec![risky(block(&[9], &[]), lock())]],
                refused(),
            ),
            (
                "recursion",
                vec![vec![calls(block(&[1], &[1]), 1), block(&[2], &[])], vec![calls(block(&[9], &[]), 1)]],
                Err(Refusal::Recursive),
            ),
            (
                "a loop that reads",
                vec![vec![block(&[1], &[1]), block(&[9], &[1, 2]), block(&[2], &[])]],
                Err(Refusal::Loops),
            ),
            ("a loop that reads nothing", vec![vec![block(&[1], &[1]), block(&[], &[1, 2]), block(&[2], &[])]], Ok(())),
            ("no begin", vec![vec![block(&[2], &[])]], Err(Refusal::NotSeen)),
            ("a loop of one section", vec![vec![block(&[2, 1], &[0])]], Ok(())),
            (
                "an end in a caller",
                vec![vec![calls(block(&[], &[1]), 1), block(&[2], &[])], vec![block(&[1], &[])]],
                Ok(()),
            ),
            (
                "a lock in a caller",
                vec![
                    vec![calls(block(&[], &[1]), 1), risky(block(&[], &[2]), lock()), block(&[2], &[])],
                    vec![block(&[1], &[])],
                ],
                refused(),
            ),
        ];
        for (name, functions, verdict) in rows {
            assert_eq!(check(&functions, 1, &[2]), verdict, "{name}");
        }
    }

    #[test]
    fn names_are_known_in_all_their_forms() {
        for name in ["memcpy", "__memcpy_chk", "__tsan_memcpy", "malloc"] {
            assert!(harmless(name), "{name}");
        }
        for name in ["pthread_mutex_lock", "read", "usleep", "", "memcp", "printf"] {
            assert!(!harmless(name), "{name}");
        }
    }
}
