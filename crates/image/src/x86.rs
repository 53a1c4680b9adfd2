//! x86-64 machine code: which branches a stretch of code holds, and where linkage stubs lead.
//!
//! Only this module knows an instruction set. A second architecture needs the same functions: [`stubs`],
//! [`may_branch`], [`branches`], [`references`] and [`constants`]; the flow of control ([`flow`]);
//! and what instructions make of values ([`values`]).

pub(crate) mod flow;
pub(crate) mod values;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use selvedge_events::bytes::u32_at;
use selvedge_events::site_table::Form;

/// Where a branch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To an address.
    Direct(u64),
    /// To the address that lies in the slot at this address.
    Slot(u64),
}

/// A call or jump with a target that can be known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    /// Its address.
    pub(crate) at: u64,
    /// Its form; `None` for one that cannot be patched (conditional, short, oddly prefixed).
    pub(crate) form: Option<Form>,
    pub(crate) target: Target,
    /// The instruction, zero-padded.
    pub(crate) code: [u8; 8],
}

const FORMS: [Form; 5] = [Form::Call, Form::CallPrefixed, Form::CallIndirect, Form::Jump, Form::JumpIndirect];

/// Calls `found(stub, slot)` with every stub in a linkage section: a jump through a slot, with or
/// without `endbr64` before it and `bnd` on it.
pub(crate) fn stubs(code: &[u8], vaddr: u64, mut found: impl FnMut(u64, u64)) {
    let mut decoder = Decoder::with_ip(64, code, vaddr, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut landing = None;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.code() == Code::Jmp_rm64 && instruction.is_ip_rel_memory_operand() {
            found(landing.unwrap_or(instruction.ip()), instruction.ip_rel_memory_address());
        }
        landing = (instruction.code() == Code::Endbr64).then_some(instruction.ip());
    }
}

/// Calls `candidate` with every target that some byte position of `code` would have if a branch
/// began there. A superset of [`branches`], several times as fast: what has no candidate has no site.
pub(crate) fn may_branch(code: &[u8], vaddr: u64, mut candidate: impl FnMut(Target)) {
    let relative = |at: usize, end: usize| {
        let displacement = i64::from(u32_at(code, at)?.cast_signed());
        Some(vaddr.wrapping_add(end as u64).wrapping_add_signed(displacement))
    };
    for (at, byte) in code.iter().enumerate() {
        match byte {
            0xe8 | 0xe9 => {
                if let Some(to) = relative(at + 1, at + 5) {
                    candidate(Target::Direct(to));
                }
            }
            0xff if matches!(code.get(at + 1), Some(0x15 | 0x25)) => {
                if let Some(slot) = relative(at + 2, at + 6) {
                    candidate(Target::Slot(slot));
                }
            }
            _ => {}
        }
    }
}

/// Decodes `code` from its first byte on and calls `found` with every branch. What does not decode
/// (data between functions) is stepped over byte by byte; returns how many bytes that were.
pub(crate) fn branches(code: &[u8], vaddr: u64, mut found: impl FnMut(Branch)) -> u64 {
    let mut decoder = Decoder::with_ip(64, code, vaddr, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut invalid = 0;
    while decoder.can_decode() {
        let at = decoder.position();
        decoder.decode_out(&mut instruction);
        let target = match instruction.flow_control() {
            FlowControl::Next => continue,
            FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                Target::Direct(instruction.near_branch_target())
            }
            FlowControl::IndirectCall | FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                Target::Slot(instruction.ip_rel_memory_address())
            }
            FlowControl::Exception if instruction.is_invalid() => {
                invalid += 1;
                // At the end of the code a cut-off instruction leaves no room to step into.
                if decoder.set_position(at + 1).is_err() {
                    break;
                }
                decoder.set_ip(vaddr.wrapping_add(at as u64 + 1));
                continue;
            }
            _ => continue,
        };
        let raw = code.get(at..at + instruction.len()).unwrap_or_default();
        let fits = |form: &&Form| raw.starts_with(form.opcode()) && raw.len() == usize::from(form.len());
        let mut padded = [0; 8];
        for (to, from) in padded.iter_mut().zip(raw) {
            *to = *from;
        }
        found(Branch { at: instruction.ip(), form: FORMS.iter().find(fits).copied(), target, code: padded });
    }
    invalid
}

/// Decodes `code` and calls `found` with every instruction that names an address relative to itself without
/// branching there: it reads or writes what lies there, or takes the address.
pub(crate) fn references(code: &[u8], vaddr: u64, mut found: impl FnMut(u64, u64)) {
    let mut decoder = Decoder::with_ip(64, code, vaddr, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let at = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            if decoder.set_position(at + 1).is_err() {
                break;
            }
            decoder.set_ip(vaddr.wrapping_add(at as u64 + 1));
        } else if instruction.flow_control() == FlowControl::Next && instruction.is_ip_rel_memory_operand() {
            found(instruction.ip(), instruction.ip_rel_memory_address());
        }
    }
}

/// Decodes `code` and calls `found` with every constant of four bytes or more that an instruction loads or stores.
pub(crate) fn constants(code: &[u8], vaddr: u64, mut found: impl FnMut(u64)) {
    let mut decoder = Decoder::with_ip(64, code, vaddr, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let kinds = [OpKind::Immediate32, OpKind::Immediate64, OpKind::Immediate32to64];
        for operand in 0..instruction.op_count() {
            if kinds.contains(&instruction.op_kind(operand)) {
                found(instruction.immediate(operand));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(code: &[u8]) -> Vec<(u64, Option<Form>, Target)> {
        let mut out = Vec::new();
        branches(code, 0x1000, |branch| out.push((branch.at, branch.form, branch.target)));
        let mut candidates = Vec::new();
        may_branch(code, 0x1000, |target| candidates.push(target));
        for (_, form, target) in &out {
            assert!(form.is_none() || candidates.contains(target), "{target:?} has no candidate");
        }
        out
    }

    #[test]
    fn every_form_is_told_apart() {
        let rows: [(&[u8], Option<Form>, Target); 9] = [
            (&[0xe8, 0, 1, 0, 0], Some(Form::Call), Target::Direct(0x1105)),
            (&[0x67, 0xe8, 0, 1, 0, 0], Some(Form::CallPrefixed), Target::Direct(0x1106)),
            (&[0xff, 0x15, 0, 1, 0, 0], Some(Form::CallIndirect), Target::Slot(0x1106)),
            (&[0xe9, 0xfb, 0xff, 0xff, 0xff], Some(Form::Jump), Target::Direct(0x1000)),
            (&[0xff, 0x25, 0, 1, 0, 0], Some(Form::JumpIndirect), Target::Slot(0x1106)),
            (&[0x0f, 0x84, 0, 1, 0, 0], None, Target::Direct(0x1106)),
            (&[0xeb, 0x10], None, Target::Direct(0x1012)),
            (&[0xf2, 0xe8, 0, 1, 0, 0], None, Target::Direct(0x1106)),
            (&[0x66, 0xff, 0x15, 0, 1, 0, 0], None, Target::Slot(0x1107)),
        ];
        for (code, form, target) in rows {
            let found = all(code);
            if code[0] == 0x66 {
                // An operand-size prefix changes what the call reads; whatever it is, no site form.
                assert!(found.iter().all(|branch| branch.1.is_none()), "{code:x?}");
            } else {
                assert_eq!(found, [(0x1000, form, target)], "{code:x?}");
            }
        }
    }

    #[test]
    fn addresses_are_named_by_loads_and_leas_alone() {
        let code = [
            0x48, 0x8b, 0x1d, 0, 1, 0, 0, // mov rbx, [rip + 0x100]
            0x48, 0x8d, 0x3d, 0, 2, 0, 0, // lea rdi, [rip + 0x200]
            0xff, 0x15, 0, 3, 0, 0, // call [rip + 0x300]
            0x06, 0xc3, // no instruction; ret
        ];
        let mut out = Vec::new();
        references(&code, 0x1000, |at, address| out.push((at, address)));
        assert_eq!(out, [(0x1000, 0x1107), (0x1007, 0x120e)]);
    }

    #[test]
    fn data_in_code_is_stepped_over() {
        // 06 is no instruction in 64-bit mode.
        assert_eq!(all(&[0x06, 0x06, 0xe8, 0, 0, 0, 0]), [(0x1002, Some(Form::Call), Target::Direct(0x1007))]);
        assert_eq!(all(&[0xe8, 0, 0]), []);
    }

    #[test]
    fn stubs_begin_at_their_landing_pad() {
        let mut out = Vec::new();
        let code = [
            0xff, 0x35, 2, 0, 0, 0, 0xff, 0x25, 4, 0, 0, 0, 0x0f, 0x1f, 0x40, 0, // first entry: push, jmp, nop
            0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0, 0, 0, 0, 0x0f, 0x1f, 0x44, 0, 0, // endbr64; bnd jmp
            0xff, 0x25, 0, 0, 0, 0, 0x66, 0x90, // plain
        ];
        stubs(&code, 0x1000, |stub, slot| out.push((stub, slot)));
        assert_eq!(out, [(0x1006, 0x1010), (0x1010, 0x101b), (0x1020, 0x1026)]);
    }
}
