//! Evaluates the little programs by which debug information says where things are, for one frame of a copied stack.
//!
//! Three registers are known, and the memory of the stack; a program that asks for anything else has no answer.

use gimli::{EvaluationResult, Expression, Location, Register, Value, X86_64};

use crate::dwarf::Reader;

/// Real programs are a few steps long; those of a damaged file may go on for ever.
const MAX_STEPS: u32 = 1000;

/// Memory of the thread whose stack is read: the word at an address, where it was copied.
pub type Memory<'a> = dyn Fn(u64) -> Option<u64> + 'a;

/// What registers hold in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The code address. Of all frames but the innermost it is where a call returns to.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer, or whatever else the code has there.
    pub fp: u64,
}

impl Registers {
    pub(crate) fn get(&self, register: Register) -> Option<u64> {
        match register {
            X86_64::RSP => Some(self.sp),
            X86_64::RBP => Some(self.fp),
            X86_64::RA => Some(self.pc),
            _ => None,
        }
    }
}

/// Where a program of debug information is evaluated.
pub(crate) struct Frame<'a> {
    pub(crate) registers: &'a Registers,
    pub(crate) cfa: Option<u64>,
    /// What `fbreg` counts from.
    pub(crate) base: Option<u64>,
    pub(crate) memory: &'a Memory<'a>,
}

impl Frame<'_> {
    /// Where a thing is; `None` where it is in no memory, or cannot be told.
    pub(crate) fn address(&self, program: Expression<Reader>, encoding: gimli::Encoding) -> Option<u64> {
        match self.location(program, encoding, None)? {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }

    /// What a program gives that begins with this value.
    pub(crate) fn value_from(&self, program: Expression<Reader>, encoding: gimli::Encoding, first: u64) -> Option<u64> {
        match self.location(program, encoding, Some(first))? {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }

    /// A place to count from: an address, or what a register holds.
    pub(crate) fn base(&self, program: Expression<Reader>, encoding: gimli::Encoding) -> Option<u64> {
        match self.location(program, encoding, None)? {
            Location::Address { address } => Some(address),
            Location::Register { register } => self.registers.get(register),
            _ => None,
        }
    }

    fn location(
        &self,
        program: Expression<Reader>,
        encoding: gimli::Encoding,
        first: Option<u64>,
    ) -> Option<Location<Reader>> {
        let mut evaluation = program.evaluation(encoding);
        evaluation.set_max_iterations(MAX_STEPS);
        if let Some(first) = first {
            evaluation.set_initial_value(first);
        }
        let mut asked = evaluation.evaluate().ok()?;
        // What is answered may be asked for again and again by a damaged program.
        for _ in 0..MAX_STEPS {
            asked = match asked {
                EvaluationResult::Complete => {
                    let mut pieces = evaluation.result();
                    let whole = pieces.pop().filter(|_| pieces.is_empty())?;
                    return whole.size_in_bits.is_none().then_some(whole.location);
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.registers.get(register)?))
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic((self.memory)(address)?))
                }
                EvaluationResult::RequiresFrameBase => evaluation.resume_with_frame_base(self.base?),
                EvaluationResult::RequiresCallFrameCfa => evaluation.resume_with_call_frame_cfa(self.cfa?),
                _ => return None,
            }
            .ok()?;
        }
        None
    }
}
