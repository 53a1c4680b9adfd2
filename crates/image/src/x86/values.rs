//! What registers and stack slots hold, as expressions over what the function was given.
//!
//! One instruction at a time: [`Machine::step`] changes a [`State`]. An expression is a root plus a number; roots are
//! numbered, and the same expression has the same number, so equal numbers mean equal values (widths and signs
//! aside: a value that was cut off and extended again keeps its number).
//!
//! Memory other than the frame is not followed: what is loaded twice from one place is one expression, whoever
//! wrote there in between. That is what names are for: `queue->head` is `queue->head`.

use std::collections::BTreeMap;

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits,
};

/// A root's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RootIx(u32);

impl RootIx {
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// An expression: a root plus a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Value {
    pub(crate) root: RootIx,
    pub(crate) plus: i64,
}

/// What an expression begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Root {
    /// Zero: the expression is a number.
    Zero,
    /// The image's load base.
    Image,
    /// The function's n-th integer argument, from 1.
    Argument(u8),
    /// Another register at the function's begin.
    Register(u8),
    /// The stack pointer at the function's begin.
    Frame,
    /// A stack pointer that was rounded down.
    Aligned(Value),
    /// Where the thread's own variables are.
    Thread,
    /// What lies at an address.
    Loaded(Value),
    /// One plus another.
    Sum(Value, Value),
    /// One times a number.
    Times(Value, i64),
    /// Another operation on a value and a number.
    Made(u16, Value, u64),
    /// Whatever the instruction at this address left in a register.
    Unknown(u64, u8),
    /// Different things, by the way that led to this block.
    Join(u32, Location),
}

/// Something that holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Location {
    /// A register, by its number.
    Register(u8),
    /// A slot of the frame, by its address.
    Slot(Value),
}

/// All roots, each once.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    rows: Vec<Root>,
    numbers: BTreeMap<Root, RootIx>,
}

impl Roots {
    pub(crate) fn number(&mut self, root: Root) -> RootIx {
        let rows = &mut self.rows;
        *self.numbers.entry(root).or_insert_with(|| {
            rows.push(root);
            RootIx(u32::try_from(rows.len() - 1).unwrap_or(u32::MAX))
        })
    }

    pub(crate) fn get(&self, root: RootIx) -> Root {
        self.rows.get(root.0 as usize).copied().unwrap_or(Root::Zero)
    }

    fn value(&mut self, root: Root) -> Value {
        Value { root: self.number(root), plus: 0 }
    }

    fn constant(&mut self, number: i64) -> Value {
        Value { root: self.number(Root::Zero), plus: number }
    }

    fn sum(&mut self, one: Value, other: Value) -> Value {
        let plus = one.plus.wrapping_add(other.plus);
        match (self.get(one.root), self.get(other.root)) {
            (Root::Zero, _) => Value { root: other.root, plus },
            (_, Root::Zero) => Value { root: one.root, plus },
            _ => {
                let (low, high) = if one.root <= other.root { (one.root, other.root) } else { (other.root, one.root) };
                let root = Root::Sum(Value { root: low, plus: 0 }, Value { root: high, plus: 0 });
                Value { root: self.number(root), plus }
            }
        }
    }

    fn times(&mut self, value: Value, by: i64) -> Value {
        match self.get(value.root) {
            _ if by == 1 => value,
            Root::Zero => self.constant(value.plus.wrapping_mul(by)),
            _ => self.value(Root::Times(value, by)),
        }
    }

    /// Whether an address lies in the function's own frame.
    pub(crate) fn is_frame(&self, value: Value) -> bool {
        match self.get(value.root) {
            Root::Frame => true,
            Root::Aligned(inner) => self.is_frame(inner),
            _ => false,
        }
    }
}

/// What registers and slots hold at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    registers: [Value; 16],
    /// By address: the value, and its bytes.
    slots: BTreeMap<Value, (Value, u8)>,
    /// What the flags were set from.
    pub(crate) compared: [Option<Value>; 2],
}

/// Arguments of a call, in order, by register number.
const ARGUMENTS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];
/// What a call leaves undefined.
const CLOBBERED: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// The number of a general register, whatever part of it is meant.
fn index(register: Register) -> Option<u8> {
    let full = register.full_register();
    full.is_gpr64().then(|| u8::try_from(full.number()).unwrap_or(0))
}

/// Whether a register is at least four bytes wide: writing it writes all of it.
fn is_whole(register: Register) -> bool {
    register.is_gpr64() || register.is_gpr32()
}

impl State {
    /// At the begin of a function.
    pub(crate) fn new(roots: &mut Roots) -> State {
        let zero = roots.constant(0);
        let mut registers = [zero; 16];
        for (number, register) in (0_u8..).zip(&mut registers) {
            *register = roots.value(Root::Register(number));
        }
        let mut state = State { registers, slots: BTreeMap::new(), compared: [None; 2] };
        for (number, register) in (1_u8..).zip(ARGUMENTS) {
            state.set(register, roots.value(Root::Argument(number)));
        }
        state.set(Register::RSP, roots.value(Root::Frame));
        state
    }

    fn get(&self, register: Register) -> Option<Value> {
        self.registers.get(usize::from(index(register)?)).copied()
    }

    fn set(&mut self, register: Register, value: Value) {
        if let Some(slot) = index(register).and_then(|at| self.registers.get_mut(usize::from(at))) {
            *slot = value;
        }
    }

    /// The n-th argument of a call that is about to be made, from 0.
    pub(crate) fn argument(&self, number: usize) -> Option<Value> {
        self.get(*ARGUMENTS.get(number)?)
    }

    /// Takes in what another way to this block has; answers whether anything is new.
    pub(crate) fn join(&mut self, other: &State, block: u32, roots: &mut Roots) -> bool {
        let mut changed = false;
        for (number, (mine, theirs)) in (0_u8..).zip(self.registers.iter_mut().zip(&other.registers)) {
            if *mine != *theirs {
                let joined = roots.value(Root::Join(block, Location::Register(number)));
                changed |= *mine != joined;
                *mine = joined;
            }
        }
        let differing: Vec<Value> = self
            .slots
            .iter()
            .filter(|(at, held)| other.slots.get(at) != Some(held))
            .map(|(at, _)| *at)
            .chain(other.slots.keys().filter(|at| !self.slots.contains_key(at)).copied())
            .collect();
        for at in differing {
            let joined = (roots.value(Root::Join(block, Location::Slot(at))), 8);
            changed |= self.slots.insert(at, joined) != Some(joined);
        }
        changed
    }

    /// What lies at an address.
    fn load(&self, at: Value, roots: &mut Roots) -> Value {
        match self.slots.get(&at) {
            Some((value, _)) => *value,
            None => roots.value(Root::Loaded(at)),
        }
    }

    fn store(&mut self, at: Value, value: Option<Value>, size: u8, roots: &Roots) {
        if !roots.is_frame(at) {
            return;
        }
        self.forget(at, i64::from(size.max(1)));
        if let Some(value) = value.filter(|_| size >= 4) {
            self.slots.insert(at, (value, size));
        }
    }

    /// Forgets slots that overlap with these bytes.
    fn forget(&mut self, at: Value, size: i64) {
        let near = |plus: i64| Value { root: at.root, plus };
        let range = near(at.plus.saturating_sub(16))..near(at.plus.saturating_add(size));
        let overlaps = |(slot, (_, bytes)): (&Value, &(Value, u8))| {
            (slot.plus.saturating_add(i64::from(*bytes)) > at.plus).then_some(*slot)
        };
        let gone: Vec<Value> = self.slots.range(range).filter_map(overlaps).collect();
        for slot in gone {
            self.slots.remove(&slot);
        }
    }

    /// A call: what it may change is unknown. Slots whose address it is given may change; those whose address was
    /// given away before are taken not to.
    pub(crate) fn call(&mut self, at: u64, roots: &mut Roots) {
        for register in ARGUMENTS {
            if let Some(value) = self.get(register).filter(|value| roots.is_frame(*value)) {
                self.forget(value, 64);
            }
        }
        self.clobber(at, roots);
    }

    /// A hook: only registers change. A load that the hook did is its result.
    pub(crate) fn hook(&mut self, at: u64, loads: bool, roots: &mut Roots) {
        let loaded = self.get(Register::RDI).filter(|_| loads).map(|place| roots.value(Root::Loaded(place)));
        self.clobber(at, roots);
        if let Some(loaded) = loaded {
            self.set(Register::RAX, loaded);
        }
    }

    fn clobber(&mut self, at: u64, roots: &mut Roots) {
        for register in CLOBBERED {
            let value = roots.value(Root::Unknown(at, index(register).unwrap_or(0)));
            self.set(register, value);
        }
        self.compared = [None; 2];
    }
}

/// Runs instructions on states.
pub(crate) struct Machine {
    factory: InstructionInfoFactory,
    /// The image's load base.
    base: u64,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Machine {
    pub(crate) fn new(base: u64) -> Machine {
        Machine { factory: InstructionInfoFactory::new(), base }
    }

    /// Decodes `code` and calls `each` with every instruction's address and whether it is a call; what is no call is
    /// run on the state first.
    pub(crate) fn run(
        &mut self,
        code: &[u8],
        vaddr: u64,
        state: &mut State,
        roots: &mut Roots,
        mut each: impl FnMut(u64, &mut State, &mut Roots),
    ) {
        let mut decoder = Decoder::with_ip(64, code, vaddr, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                return;
            }
            if instruction.is_call_near() || instruction.is_call_near_indirect() {
                each(instruction.ip(), state, roots);
            } else if instruction.is_jmp_short_or_near() || instruction.is_jmp_near_indirect() {
                // A tail jump may be a site, too.
                each(instruction.ip(), state, roots);
            } else {
                self.step(&instruction, state, roots);
            }
        }
    }

    fn step(&mut self, instruction: &Instruction, state: &mut State, roots: &mut Roots) {
        let op0 = instruction.op0_register();
        let whole = instruction.op0_kind() == OpKind::Register && is_whole(op0);
        match instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movsxd if whole => {
                if let Some(value) = self.operand(instruction, 1, state, roots) {
                    return state.set(op0, value);
                }
            }
            Mnemonic::Mov if instruction.op0_kind() == OpKind::Memory => {
                let value = self.operand(instruction, 1, state, roots);
                let size = instruction.memory_size().size();
                let at = self.address(instruction, state, roots);
                return state.store(at, value, u8::try_from(size).unwrap_or(u8::MAX), roots);
            }
            Mnemonic::Movzx | Mnemonic::Movsx if whole => {
                if let Some(value) = self.operand(instruction, 1, state, roots) {
                    let made = Root::Made(code(instruction), value, 0);
                    return state.set(op0, roots.value(made));
                }
            }
            Mnemonic::Cdqe => return,
            Mnemonic::Lea if whole => {
                let at = self.address(instruction, state, roots);
                return state.set(op0, at);
            }
            Mnemonic::Xor | Mnemonic::Sub
                if whole && instruction.op1_kind() == OpKind::Register && op0 == instruction.op1_register() =>
            {
                let zero = roots.constant(0);
                state.compared = [None; 2];
                return state.set(op0, zero);
            }
            Mnemonic::Cmp | Mnemonic::Test => {
                state.compared =
                    [self.operand(instruction, 0, state, roots), self.operand(instruction, 1, state, roots)];
                return;
            }
            Mnemonic::Push => {
                let value = self.operand(instruction, 0, state, roots);
                if let Some(top) = state.get(Register::RSP) {
                    let top = Value { plus: top.plus.wrapping_sub(8), ..top };
                    state.set(Register::RSP, top);
                    state.store(top, value, 8, roots);
                }
                return;
            }
            Mnemonic::Pop if whole => return self.pop(op0, state, roots),
            Mnemonic::Leave => {
                if let Some(frame) = state.get(Register::RBP) {
                    state.set(Register::RSP, frame);
                }
                return self.pop(Register::RBP, state, roots);
            }
            mnemonic if whole && instruction.op_count() == 2 => {
                let (mine, other) =
                    (self.operand(instruction, 0, state, roots), self.operand(instruction, 1, state, roots));
                if let (Some(mine), Some(other)) = (mine, other)
                    && let Some(result) = compute(instruction, mnemonic, mine, other, roots)
                {
                    state.set(op0, result);
                    state.compared = [Some(result), None];
                    return;
                }
            }
            Mnemonic::Inc | Mnemonic::Dec if whole => {
                if let Some(mine) = state.get(op0) {
                    let by = if instruction.mnemonic() == Mnemonic::Inc { 1 } else { -1 };
                    let result = Value { plus: mine.plus.wrapping_add(by), ..mine };
                    state.compared = [Some(result), None];
                    return state.set(op0, result);
                }
            }
            Mnemonic::Imul if whole && instruction.op_count() == 3 => {
                if let Some(mine) = self.operand(instruction, 1, state, roots) {
                    let result = roots.times(mine, instruction.immediate(2).cast_signed());
                    return state.set(op0, result);
                }
            }
            _ => {}
        }
        self.other(instruction, state, roots);
    }

    /// An instruction that is not understood: what it writes is unknown.
    fn other(&mut self, instruction: &Instruction, state: &mut State, roots: &mut Roots) {
        let writes = |access: OpAccess| {
            matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
        };
        let info = self.factory.info(instruction);
        let written: Vec<Register> = info
            .used_registers()
            .iter()
            .filter(|used| writes(used.access()))
            .map(iced_x86::UsedRegister::register)
            .collect();
        let stores = info.used_memory().iter().any(|used| writes(used.access()));
        let has_operand = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
        if stores && has_operand {
            let at = self.address(instruction, state, roots);
            let size = instruction.memory_size().size();
            state.store(at, None, u8::try_from(size).unwrap_or(u8::MAX), roots);
        }
        for register in written {
            if let Some(number) = index(register) {
                let unknown = roots.value(Root::Unknown(instruction.ip(), number));
                state.set(register, unknown);
            }
        }
        if instruction.rflags_modified() & RflagsBits::ZF != 0 {
            state.compared = [None; 2];
        }
    }

    fn pop(&self, into: Register, state: &mut State, roots: &mut Roots) {
        if let Some(top) = state.get(Register::RSP) {
            let value = state.load(top, roots);
            state.set(Register::RSP, Value { plus: top.plus.wrapping_add(8), ..top });
            state.set(into, value);
        }
    }

    /// The value of an operand that is read.
    fn operand(&self, instruction: &Instruction, operand: u32, state: &State, roots: &mut Roots) -> Option<Value> {
        match instruction.op_kind(operand) {
            OpKind::Register => state.get(instruction.op_register(operand)),
            OpKind::Memory => {
                let at = self.address(instruction, state, roots);
                // The thread's own variables are found through a pointer to themselves.
                if roots.get(at.root) == Root::Thread && at.plus == 0 {
                    return Some(at);
                }
                Some(state.load(at, roots))
            }
            OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64 => {
                let number = instruction.immediate(operand).cast_signed();
                Some(self.number(number, roots))
            }
            _ => None,
        }
    }

    /// A number; one that can only be an address of the image is one.
    fn number(&self, number: i64, roots: &mut Roots) -> Value {
        match number.cast_unsigned().checked_sub(self.base) {
            Some(offset) if self.base >= 0x1_0000 && offset < 1 << 31 => {
                Value { root: roots.number(Root::Image), plus: offset.cast_signed() }
            }
            _ => roots.constant(number),
        }
    }

    /// The address of an instruction's memory operand.
    fn address(&self, instruction: &Instruction, state: &State, roots: &mut Roots) -> Value {
        if instruction.is_ip_rel_memory_operand() {
            let offset = instruction.ip_rel_memory_address().wrapping_sub(self.base);
            return Value { root: roots.number(Root::Image), plus: offset.cast_signed() };
        }
        let displacement = instruction.memory_displacement64().cast_signed();
        let thread = matches!(instruction.memory_segment(), Register::FS);
        let mut value = match thread {
            true => Value { root: roots.number(Root::Thread), plus: displacement },
            false => self.number(displacement, roots),
        };
        if let Some(base) = state.get(instruction.memory_base()) {
            value = roots.sum(base, value);
        }
        if let Some(by) = state.get(instruction.memory_index()) {
            let scaled = roots.times(by, i64::from(instruction.memory_index_scale()));
            value = roots.sum(value, scaled);
        }
        value
    }
}

fn code(instruction: &Instruction) -> u16 {
    u16::try_from(instruction.mnemonic() as u32).unwrap_or(u16::MAX)
}

/// What an operation on two values makes; `None` where it is not understood.
fn compute(
    instruction: &Instruction,
    mnemonic: Mnemonic,
    mine: Value,
    other: Value,
    roots: &mut Roots,
) -> Option<Value> {
    let constant = (roots.get(other.root) == Root::Zero).then_some(other.plus);
    Some(match (mnemonic, constant) {
        (Mnemonic::Add, _) => roots.sum(mine, other),
        (Mnemonic::Sub, Some(by)) => Value { plus: mine.plus.wrapping_sub(by), ..mine },
        (Mnemonic::And, Some(_)) if roots.is_frame(mine) => roots.value(Root::Aligned(mine)),
        (Mnemonic::Shl, Some(by @ 0..=6)) => roots.times(mine, 1 << by),
        (Mnemonic::Imul, Some(by)) => roots.times(mine, by),
        (Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar, Some(by)) => {
            roots.value(Root::Made(code(instruction), mine, by.cast_unsigned()))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs code and shows what the first argument register then holds.
    fn first_argument(code: &[u8]) -> (Root, i64) {
        let mut roots = Roots::default();
        let mut state = State::new(&mut roots);
        Machine::new(0).run(code, 0x1000, &mut state, &mut roots, |_, _, _| {});
        let value = state.argument(0).unwrap();
        (roots.get(value.root), value.plus)
    }

    #[test]
    fn addresses_are_followed_through_registers_and_slots() {
        let rows: [(&[u8], Root, i64); 6] = [
            (&[0x48, 0x8d, 0x3d, 0, 1, 0, 0], Root::Image, 0x1107), // lea rdi, [rip + 0x100]
            (&[0x48, 0x83, 0xc7, 8], Root::Argument(1), 8),         // add rdi, 8
            // mov rax, rsi; lea rdi, [rax + 16]
            (&[0x48, 0x89, 0xf0, 0x48, 0x8d, 0x78, 16], Root::Argument(2), 16),
            // push rbp; mov rbp, rsp; mov [rbp - 8], rsi; mov rdi, [rbp - 8]
            (&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x75, 0xf8, 0x48, 0x8b, 0x7d, 0xf8], Root::Argument(2), 0),
            // push rdx; pop rdi
            (&[0x52, 0x5f], Root::Argument(3), 0),
            // xor edi, edi
            (&[0x31, 0xff], Root::Zero, 0),
        ];
        for (code, root, plus) in rows {
            assert_eq!(first_argument(code), (root, plus), "{code:x?}");
        }
    }

    #[test]
    fn a_slot_that_is_written_over_is_forgotten() {
        // mov [rsp - 8], rsi; mov byte [rsp - 6], 0; mov rdi, [rsp - 8]
        let code = [0x48, 0x89, 0x74, 0x24, 0xf8, 0xc6, 0x44, 0x24, 0xfa, 0, 0x48, 0x8b, 0x7c, 0x24, 0xf8];
        assert!(matches!(first_argument(&code).0, Root::Loaded(_)));
    }

    #[test]
    fn equal_expressions_have_equal_numbers() {
        let mut roots = Roots::default();
        let state = State::new(&mut roots);
        // lea rdi, [rsi + rdx*8 + 4], twice
        let code = [0x48, 0x8d, 0x7c, 0xd6, 4];
        let mut run = || {
            let mut state = state.clone();
            Machine::new(0).run(&code, 0x1000, &mut state, &mut roots, |_, _, _| {});
            state.argument(0)
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn ways_that_differ_are_joined_once() {
        let mut roots = Roots::default();
        let mut one = State::new(&mut roots);
        let mut other = one.clone();
        let number = roots.constant(7);
        other.set(Register::RBX, number);
        assert!(one.join(&other, 3, &mut roots));
        let joined = one.get(Register::RBX).map(|value| roots.get(value.root));
        assert_eq!(joined, Some(Root::Join(3, Location::Register(3))));
        assert!(!one.join(&other, 3, &mut roots));
    }
}
