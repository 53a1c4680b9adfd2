//! Functions that may block: noted before and after, by slot number.

use selvedge_events::event::EventKind;
use selvedge_events::pack;

use super::Reg;
use crate::stream;

/// Called by the shim before the real function.
pub extern "C" fn begin(index: u32, pc: Reg, first: Reg) {
    stream::emit(EventKind::BlockBegin, pc, [pack::object(first as u64, index as u16), 0, 0]);
    stream::pend(index as u16, first as u64, pc);
}

/// Called by the shim after the real function.
pub extern "C" fn end(index: u32, pc: Reg) {
    stream::unpend();
    stream::emit(EventKind::BlockEnd, pc, [pack::object(0, index as u16), 0, 0]);
}
