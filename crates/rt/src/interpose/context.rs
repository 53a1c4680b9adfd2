//! `swapcontext`: the context stack follows the machine's. The frames of a context that is left wait on its
//! own stack, in this wrapper's frame, until it is entered again; what is deeper than `KEPT` frames is cut.

use selvedge_events::event::EventKind;
use selvedge_events::pack;

use super::wrappers;
use crate::entry::function;
use crate::thread_state::{self, Frame};
use crate::{real, stream};

/// Frames that are kept over a switch.
const KEPT: usize = 24;

wrappers! {
    swapcontext(from, to; pc) => {
        let mut kept = [Frame { pc: 0, sp: 0, site: 0 }; KEPT];
        let mut depth = 0;
        if let Some(state) = thread_state::current_or_adopt() {
            stream::emit(EventKind::ContextSwitch, pc, [pack::object(to as u64, 0), 0, 0]);
            depth = (state.depth as usize).min(KEPT);
            for (room, frame) in kept.iter_mut().zip(&state.frames) {
                *room = *frame;
            }
            function::restore(state, 0);
        }
        let result = real::call(SLOT, from, to, 0, 0, 0);
        // Perhaps on another thread than before.
        if let Some(state) = thread_state::current_or_adopt() {
            for (room, frame) in state.frames.iter_mut().zip(&kept) {
                *room = *frame;
            }
            function::restore(state, 0);
            state.depth = depth as u32;
        }
        result
    };
}
