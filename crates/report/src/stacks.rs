//! What lies on a stack: `main()::account.balance`.
//!
//! When a thread makes another, the trace keeps its stack ([`selvedge_trace::frames`]). Its frames are walked when the first
//! address on a stack has to be named. A frame counts only as long as its thread is in the same calls as then: what was left may be
//! another function's by now, and a wrong name is worse than none.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use selvedge_events::{ModuleIx, ThreadIx};
use selvedge_image::{Image, Locals, Registers, StackFrame, Unwinder};
use selvedge_trace::frames::{KeptStack, KeptStacks};
use selvedge_trace::read::Module;
use selvedge_trace::{ContextId, Process, StackCopy};

/// Most frames of a walk.
const MAX_FRAMES: usize = 1024;

/// What was asked for before.
type Known<K, V> = RefCell<BTreeMap<K, Option<Rc<V>>>>;

/// What is known of an address on a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OnStack {
    /// The name of what lies there.
    Variable(Rc<str>),
    /// Whose stack it is, and an address in the code of the function whose frame it is.
    Frame(ThreadIx, u64),
}

/// Names what lies on the stacks of one process.
#[derive(Debug)]
pub(crate) struct Stacks<'a> {
    process: &'a Process,
    tables: Known<ModuleIx, Tables>,
    walks: RefCell<BTreeMap<(u32, ContextId), Rc<Walk>>>,
    /// By the stack's number and the address.
    names: Known<(u32, u64), str>,
}

#[derive(Debug)]
struct Tables {
    unwinder: Unwinder,
    locals: Locals,
}

/// The frames of a stack, innermost first.
#[derive(Debug, Default)]
struct Walk {
    stack: StackCopy,
    frames: Vec<Walked>,
}

#[derive(Debug)]
struct Walked {
    module: ModuleIx,
    frame: StackFrame,
    /// How many of the calls that the trace knows led to it; `None` where its own call is not among them.
    calls: Option<usize>,
}

impl<'a> Stacks<'a> {
    pub(crate) fn new(process: &'a Process) -> Stacks<'a> {
        Stacks { process, tables: RefCell::default(), walks: RefCell::default(), names: RefCell::default() }
    }

    /// What lies at an address, while these stacks are as they are.
    pub(crate) fn at(&self, addr: u64, kept: &KeptStacks) -> Option<OnStack> {
        kept.iter().find_map(|(thread, stack)| {
            let walk = self.walk(stack);
            let at = walk.frames.iter().find(|at| (at.frame.registers.sp..at.frame.cfa).contains(&addr))?;
            let calls = at.calls.filter(|calls| *calls <= self.common(stack))?;
            debug_assert!(calls > 0, "its own call is one");
            let name = self.name(stack.number, &walk, at, addr);
            Some(name.map_or(OnStack::Frame(thread, at.frame.registers.pc), OnStack::Variable))
        })
    }

    /// How many calls, the outermost first, are the same now as then.
    fn common(&self, stack: KeptStack) -> usize {
        if stack.then == stack.now {
            return usize::MAX;
        }
        let [then, now] = [stack.then, stack.now].map(|context| self.process.contexts().frames(context));
        then.iter().rev().zip(now.iter().rev()).take_while(|(then, now)| then == now).count()
    }

    fn name(&self, number: u32, walk: &Walk, at: &Walked, addr: u64) -> Option<Rc<str>> {
        if let Some(known) = self.names.borrow().get(&(number, addr)) {
            return known.clone();
        }
        let tables = self.process.module(at.module).and_then(|module| self.tables(module));
        let name = tables.and_then(|tables| tables.locals.name(&at.frame, addr, &|addr| walk.stack.word(addr)));
        let name = name.map(Rc::from);
        self.names.borrow_mut().insert((number, addr), name.clone());
        name
    }

    fn walk(&self, stack: KeptStack) -> Rc<Walk> {
        let key = (stack.number, stack.then);
        if let Some(known) = self.walks.borrow().get(&key) {
            return Rc::clone(known);
        }
        let copy = self.process.file().stack(stack.number);
        let walk = copy.map(|copy| self.frames(copy, &self.process.contexts().frames(stack.then)));
        let walk = Rc::new(walk.unwrap_or_default());
        self.walks.borrow_mut().insert(key, Rc::clone(&walk));
        walk
    }

    /// Walks a stack. `calls` are the return addresses that the trace knows of, innermost first.
    fn frames(&self, stack: StackCopy, mut calls: &[u64]) -> Walk {
        let mut frames = Vec::new();
        let mut registers = Registers { pc: stack.pc, sp: stack.sp, fp: stack.fp };
        while frames.len() < MAX_FRAMES {
            // A return address may be the first of the next function.
            let pc = if frames.is_empty() { registers.pc } else { registers.pc.saturating_sub(1) };
            let Some(module) = self.process.module_of(pc) else { break };
            let offset = pc - module.base;
            let unwound = self
                .tables(module)
                .and_then(|tables| tables.unwinder.caller(offset, &registers, &|addr| stack.word(addr)));
            let Some(unwound) = unwound else { break };
            let own = calls.iter().position(|call| *call == unwound.caller.pc);
            let frame = StackFrame { offset, registers, cfa: unwound.cfa };
            frames.push(Walked { module: module.index, frame, calls: own.map(|own| calls.len() - own) });
            calls = own.and_then(|own| calls.get(own + 1..)).unwrap_or(calls);
            registers = unwound.caller;
        }
        Walk { stack, frames }
    }

    fn tables(&self, module: &Module) -> Option<Rc<Tables>> {
        if let Some(known) = self.tables.borrow().get(&module.index) {
            return known.clone();
        }
        let image = Image::open(&module.path).ok().filter(|image| image.build_id() == module.build_id);
        let tables =
            image.map(|image| Rc::new(Tables { unwinder: Unwinder::new(&image), locals: Locals::new(&image) }));
        self.tables.borrow_mut().insert(module.index, tables.clone());
        tables
    }
}
