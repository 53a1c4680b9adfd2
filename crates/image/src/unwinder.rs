//! From a frame of a copied stack to its caller's, by the tables that the compiler writes for exceptions.
//!
//! `.eh_frame` says for every instruction where the frame ends and where the caller's registers were saved. The C
//! library and the languages' own have it too, so a walk goes through code that was built without frame pointers. It ends where
//! something is not known, and never goes down.

use gimli::{CfaRule, CieOrFde, EhFrame, EhFrameOffset, RegisterRule, UnwindContext, UnwindSection as _, X86_64};

use crate::dwarf::Reader;
use crate::evaluate::{Frame, Memory, Registers};
use crate::image::Image;

const ENCODING: gimli::Encoding = gimli::Encoding { format: gimli::Format::Dwarf32, version: 4, address_size: 8 };

/// How one image's frames are unwound.
#[derive(Debug)]
pub struct Unwinder {
    base: u64,
    table: EhFrame<Reader>,
    bases: gimli::BaseAddresses,
    /// First address, end and description, by address.
    parts: Vec<(u64, u64, EhFrameOffset)>,
}

/// A frame and what it was called from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwound {
    /// Where the frame ends: the stack pointer before the call.
    pub cfa: u64,
    /// The caller's registers.
    pub caller: Registers,
}

impl Unwinder {
    /// Reads the frame descriptions of `image`; what is damaged is as if it were not there.
    pub fn new(image: &Image) -> Unwinder {
        let (offset, bytes) = image.section_named(".eh_frame").unwrap_or_default();
        let mut table = EhFrame::from(Reader::new(bytes.into(), gimli::LittleEndian));
        table.set_address_size(8);
        let bases = gimli::BaseAddresses::default().set_eh_frame(offset.saturating_add(image.base()));
        let mut parts = Vec::new();
        let mut entries = table.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            if let CieOrFde::Fde(partial) = entry
                && let Ok(part) = partial.parse(EhFrame::cie_from_offset)
            {
                let start = part.initial_address();
                parts.push((start, start.saturating_add(part.len()), EhFrameOffset(part.offset())));
            }
        }
        parts.sort_unstable_by_key(|(start, ..)| *start);
        Unwinder { base: image.base(), table, bases, parts }
    }

    /// The caller of the frame with these registers, whose code is at `offset`: for a return address, that of the
    /// call before it.
    pub fn caller(&self, offset: u64, registers: &Registers, memory: &Memory<'_>) -> Option<Unwound> {
        let vaddr = offset.checked_add(self.base)?;
        let after = self.parts.partition_point(|(start, ..)| *start <= vaddr);
        let (_, _, part) = self.parts.get(after.checked_sub(1)?).filter(|(_, end, _)| vaddr < *end)?;
        let part = self.table.fde_from_offset(&self.bases, *part, EhFrame::cie_from_offset).ok()?;
        if part.is_signal_trampoline() {
            return None;
        }
        let mut context = UnwindContext::new();
        let row = part.unwind_info_for_address(&self.table, &self.bases, &mut context, vaddr).ok()?;
        let frame = Frame { registers, cfa: None, base: None, memory };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => registers.get(*register)?.checked_add_signed(*offset)?,
            CfaRule::Expression(program) => frame.address(program.get(&self.table).ok()?, ENCODING)?,
        };
        let saved = |rule: &RegisterRule<usize>| match rule {
            RegisterRule::Offset(offset) => memory(cfa.checked_add_signed(*offset)?),
            RegisterRule::ValOffset(offset) => cfa.checked_add_signed(*offset),
            RegisterRule::Expression(program) => {
                memory(frame.value_from(program.get(&self.table).ok()?, ENCODING, cfa)?)
            }
            RegisterRule::Register(register) => registers.get(*register),
            _ => None,
        };
        let pc = saved(&row.register(X86_64::RA)?).filter(|pc| *pc != 0)?;
        let fp = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => registers.fp,
            Some(rule) => saved(&rule)?,
        };
        (cfa > registers.sp).then_some(Unwound { cfa, caller: Registers { pc, sp: cfa, fp } })
    }
}
