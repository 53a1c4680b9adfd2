//! The flow of control through a stretch of code: one step an instruction.
//!
//! A jump through a table is recognised by the two shapes that compilers write: `jmp [table + r*8]` with addresses in
//! the table, and `movsxd r, [base + r*4]; add r, base; jmp r` with distances from the table's begin. Only the table's
//! place is told here; how many of its entries belong to it is for the caller to judge.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::Target;

/// What an instruction does to the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Goes on with the next one.
    Plain,
    /// Does nothing; fills the room between functions and loops.
    Padding,
    /// Goes there.
    Jump(Target),
    /// Goes there, or on.
    Branch(u64),
    /// Goes there and comes back; `None` where only a register knows where to.
    Call(Option<Target>),
    /// Goes where a register says, which was looked up in this table where that is known.
    Computed(Option<JumpTable>),
    /// Goes back to the caller.
    Return,
    /// Goes nowhere.
    Trap,
}

/// A table of places in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JumpTable {
    /// Its address.
    pub(crate) at: u64,
    /// Whether its entries are four bytes that count from its begin, or eight that are addresses.
    pub(crate) relative: bool,
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) at: u64,
    /// The address after it.
    pub(crate) next: u64,
    pub(crate) flow: Flow,
}

/// How many instructions before a computed jump may still be part of it.
const JUMP_WINDOW: usize = 24;

/// Decodes `code` from its first byte on; what does not decode is a trap of one byte. Also answers how many bytes
/// those were.
pub(crate) fn steps(code: &[u8], vaddr: u64) -> (Vec<Step>, u64) {
    let mut out = Vec::with_capacity(code.len() / 4);
    let mut invalid = 0;
    let mut decoder = Decoder::with_ip(64, code, vaddr, DecoderOptions::NONE);
    let mut window: Vec<Instruction> = Vec::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let at = decoder.position();
        decoder.decode_out(&mut instruction);
        let mut next = instruction.next_ip();
        if instruction.is_invalid() {
            invalid += 1;
            next = vaddr.wrapping_add(at as u64 + 1);
            out.push(Step { at: vaddr.wrapping_add(at as u64), next, flow: Flow::Trap });
            if decoder.set_position(at + 1).is_err() {
                break;
            }
            decoder.set_ip(next);
            continue;
        }
        out.push(Step { at: instruction.ip(), next, flow: flow(&instruction, &window) });
        if matches!(instruction.mnemonic(), Mnemonic::Movsxd | Mnemonic::Lea | Mnemonic::Add | Mnemonic::Mov) {
            if window.len() == JUMP_WINDOW {
                window.remove(0);
            }
            window.push(instruction);
        }
    }
    (out, invalid)
}

fn flow(instruction: &Instruction, before: &[Instruction]) -> Flow {
    match instruction.flow_control() {
        FlowControl::Next => match instruction.mnemonic() {
            Mnemonic::Nop => Flow::Padding,
            Mnemonic::Hlt => Flow::Trap,
            _ => Flow::Plain,
        },
        FlowControl::UnconditionalBranch => Flow::Jump(Target::Direct(instruction.near_branch_target())),
        FlowControl::ConditionalBranch => Flow::Branch(instruction.near_branch_target()),
        FlowControl::Call if instruction.is_call_near() => {
            Flow::Call(Some(Target::Direct(instruction.near_branch_target())))
        }
        FlowControl::IndirectCall => Flow::Call(slot(instruction)),
        FlowControl::IndirectBranch => match slot(instruction) {
            Some(slot) => Flow::Jump(slot),
            None => Flow::Computed(table(instruction, before)),
        },
        FlowControl::Return => Flow::Return,
        FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int3 => Flow::Padding,
        FlowControl::Exception => Flow::Trap,
        // System calls come back, and transactions go on; aborted ones are not followed.
        _ => Flow::Plain,
    }
}

fn slot(instruction: &Instruction) -> Option<Target> {
    instruction.is_ip_rel_memory_operand().then(|| Target::Slot(instruction.ip_rel_memory_address()))
}

fn table(jump: &Instruction, before: &[Instruction]) -> Option<JumpTable> {
    if jump.op0_kind() == OpKind::Memory {
        let absolute = jump.memory_base() == Register::None && jump.memory_index_scale() == 8;
        return absolute.then(|| JumpTable { at: jump.memory_displacement64(), relative: false });
    }
    let goes_to = jump.op0_register();
    let looked_up = before.iter().rposition(|instruction| {
        instruction.mnemonic() == Mnemonic::Movsxd
            && instruction.op1_kind() == OpKind::Memory
            && instruction.memory_index_scale() == 4
    })?;
    let load = before.get(looked_up)?;
    // The sum is in either of the two registers.
    let base = load.memory_base();
    let added = before.get(looked_up..)?.iter().any(|instruction| {
        instruction.mnemonic() == Mnemonic::Add
            && [instruction.op0_register(), instruction.op1_register()].contains(&load.op0_register())
            && instruction.op0_register() == goes_to
    });
    let based = |instruction: &&Instruction| {
        instruction.mnemonic() == Mnemonic::Lea
            && instruction.op0_register() == base
            && instruction.is_ip_rel_memory_operand()
    };
    let lea = before.get(..looked_up)?.iter().rfind(based).filter(|_| added)?;
    Some(JumpTable { at: lea.ip_rel_memory_address(), relative: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_is_told_apart() {
        let rows: [(&[u8], Flow); 14] = [
            (&[0x90], Flow::Padding),
            (&[0xcc], Flow::Padding),
            (&[0x89, 0xc8], Flow::Plain),
            (&[0x0f, 0x05], Flow::Plain),
            (&[0xc3], Flow::Return),
            (&[0x0f, 0x0b], Flow::Trap),
            (&[0xf4], Flow::Trap),
            (&[0xeb, 0x10], Flow::Jump(Target::Direct(0x1012))),
            (&[0x74, 0x10], Flow::Branch(0x1012)),
            (&[0xe8, 0, 1, 0, 0], Flow::Call(Some(Target::Direct(0x1105)))),
            (&[0xff, 0xd0], Flow::Call(None)),
            (&[0xff, 0x15, 0, 1, 0, 0], Flow::Call(Some(Target::Slot(0x1106)))),
            (&[0xff, 0x25, 0, 1, 0, 0], Flow::Jump(Target::Slot(0x1106))),
            (&[0xff, 0xe0], Flow::Computed(None)),
        ];
        for (code, expected) in rows {
            let (steps, invalid) = steps(code, 0x1000);
            assert_eq!((steps.len(), steps[0].flow, invalid), (1, expected, 0), "{code:x?}");
            assert_eq!(steps[0].next, 0x1000 + code.len() as u64);
        }
    }

    #[test]
    fn tables_are_found_in_both_shapes() {
        let relative = [
            0x48, 0x8d, 0x0d, 0xf9, 0x0f, 0, 0, // lea rcx, [rip + 0xff9]
            0x48, 0x63, 0x04, 0x81, // movsxd rax, [rcx + rax*4]
            0x48, 0x01, 0xc8, // add rax, rcx
            0xff, 0xe0, // jmp rax
        ];
        let (found, _) = steps(&relative, 0x1000);
        assert_eq!(found[3].flow, Flow::Computed(Some(JumpTable { at: 0x2000, relative: true })));
        let absolute = [0xff, 0x24, 0xc5, 0, 0x20, 0x40, 0]; // jmp [rax*8 + 0x402000]
        let (found, _) = steps(&absolute, 0x1000);
        assert_eq!(found[0].flow, Flow::Computed(Some(JumpTable { at: 0x40_2000, relative: false })));
    }

    #[test]
    fn what_is_no_instruction_is_stepped_over() {
        let (steps, invalid) = steps(&[0x06, 0xc3, 0xe8], 0x1000);
        let flows: Vec<(u64, Flow)> = steps.iter().map(|step| (step.at, step.flow)).collect();
        assert_eq!(flows, [(0x1000, Flow::Trap), (0x1001, Flow::Return), (0x1002, Flow::Trap)]);
        assert_eq!(invalid, 2);
    }
}
