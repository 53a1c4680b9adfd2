//! Signal handlers: ours stands in front of the guest's, notes, and calls it. What the guest asks back is
//! always its own.

use core::sync::atomic::{AtomicUsize, Ordering};

use selvedge_events::counters::Counter;
use selvedge_events::event::EventKind;
use selvedge_events::interpose::Slot;
use selvedge_events::pack;
use selvedge_sched::OpKind;

use super::{Reg, thread, wrappers};
use crate::entry::function;
use crate::gate::Arrival;
use crate::thread_state::{self, Frame};
use crate::{arch, detect, gate, real, sink, stream};

/// `struct sigaction` of glibc on x86-64: handler, mask, flags, restorer.
const ACTION_WORDS: usize = 19;

/// The guest's handlers, by signal.
static HANDLERS: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];

fn ours() -> usize {
    on_signal as *const () as usize
}

/// A handler that is code, not `SIG_DFL`, `SIG_IGN` or an error.
fn is_code(handler: usize) -> bool {
    handler > 1 && handler != usize::MAX
}

const SA_RESTART: usize = 0x1000_0000;
const SA_RESETHAND: usize = 0x8000_0000;
const SA_SIGINFO: usize = 4;

/// What the gate wants to know of an action.
fn flags_of(handler: usize, flags: usize) -> u32 {
    use gate::handler::action::{HANDLED, INFORMED, RESETS, RESTARTS};
    if !is_code(handler) {
        return 0;
    }
    let known = [(SA_RESTART, RESTARTS), (SA_RESETHAND, RESETS), (SA_SIGINFO, INFORMED)];
    known.iter().filter(|(flag, _)| flags & flag != 0).fold(HANDLED, |sum, (_, own)| sum | own)
}

/// Runs in front of every handler. The kernel passes all three arguments whatever the handler takes.
extern "C" fn on_signal(signal: i32, info: usize, context: usize) {
    let handler = HANDLERS.get(signal as usize).map_or(0, |handler| handler.load(Ordering::Acquire));
    if !is_code(handler) {
        return;
    }
    // SAFETY: the kernel's own.
    if unsafe { gate::handler::defer(signal as usize, info) } {
        return;
    }
    // SAFETY: I9: the guest's own handler.
    let handler: extern "C" fn(i32, usize, usize) = unsafe { core::mem::transmute(handler) };
    sink::count(Counter::Signals, 1);
    let depth = thread_state::current().map(|state| {
        let depth = state.depth;
        // The word of the interrupted stack pointer in `ucontext_t`.
        // SAFETY: the kernel's context is valid while the handler runs.
        let interrupted = unsafe { ((context + 160) as *const usize).read() };
        if arch::stack_pointer() > interrupted {
            // On another stack, above: its frames must not pass for callers that are gone.
            if let Some(frame) = state.frames.get_mut(depth as usize) {
                *frame = Frame { pc: 0, sp: u64::MAX, site: 0 };
                state.depth = depth + 1;
            }
        }
        depth
    });
    let before = gate::handler::begins();
    detect::sections::handler();
    stream::emit(EventKind::HandlerBegin, 0, [signal as u64, 0, 0]);
    handler(signal, info, context);
    detect::sections::handler();
    stream::emit(EventKind::HandlerEnd, 0, [signal as u64, 0, 0]);
    if let Some(before) = before {
        gate::handler::ends(before, signal as usize);
    }
    if let (Some(state), Some(depth)) = (thread_state::current(), depth) {
        function::restore(state, depth);
    }
}

/// Sends a signal. Under control, whoever it wakes is in the gate before the sender goes on: otherwise the moment at
/// which it gets there would be left to chance.
fn send(slot: Slot, to: Reg, signal: Reg, value: Reg, pc: Reg) -> Reg {
    if gate::is_on() {
        gate::point(Arrival::call(OpKind::Wake, 0, slot as u16, pc));
    }
    stream::emit(EventKind::Note, pc, [pack::object(to as u64, slot as u16), 0, 0]);
    let before = gate::is_on().then(gate::signal::Waiting::now);
    let result = real::call(slot, to, signal, value, 0, 0);
    if let Some(before) = before
        && result as u32 == 0
    {
        let thread = matches!(slot, Slot::pthread_kill | Slot::pthread_sigqueue).then(|| thread::index_of(to));
        let handled = HANDLERS.get(signal).is_some_and(|handler| is_code(handler.load(Ordering::Relaxed)));
        before.settle(thread, signal, handled);
    }
    result
}

wrappers! {
    kill(process, signal; pc) => send(SLOT, process, signal, 0, pc);
    pthread_kill(thread, signal; pc) => send(SLOT, thread, signal, 0, pc);
    pthread_sigqueue(thread, signal, value; pc) => send(SLOT, thread, signal, value, pc);
    sigqueue(process, signal, value; pc) => send(SLOT, process, signal, value, pc);
    sigaction(signal, act, old; _pc) => {
        let cell = HANDLERS.get(signal as u32 as usize);
        let before = cell.map_or(0, |cell| cell.load(Ordering::Relaxed));
        let mut action;
        let mut passed = act;
        if let (Some(cell), true) = (cell, act != 0) {
            // SAFETY: I9: the guest's `struct sigaction`.
            action = unsafe { (act as *const [usize; ACTION_WORDS]).read_unaligned() };
            if is_code(action[0]) {
                // Before the kernel knows: a signal may come at once.
                cell.store(action[0], Ordering::Release);
                action[0] = ours();
            }
            passed = action.as_ptr() as usize;
        }
        let result = real::call(SLOT, signal, passed, old, 0, 0);
        if result as u32 == 0 && act != 0 {
            // SAFETY: I9: the guest's `struct sigaction`.
            let action = unsafe { (act as *const [usize; ACTION_WORDS]).read_unaligned() };
            gate::handler::set_action(signal as u32 as usize, flags_of(action[0], action[17]));
        }
        if result as u32 != 0 {
            if let Some(cell) = cell {
                cell.store(before, Ordering::Release);
            }
        } else if old != 0 {
            // SAFETY: I9: the guest's `struct sigaction`, which the real function filled.
            let handler = unsafe { (old as *mut usize).read_unaligned() };
            if handler == ours() {
                // SAFETY: as above.
                unsafe { (old as *mut usize).write_unaligned(before) };
            }
        }
        result
    };
    signal(signal, handler; _pc) => {
        let cell = HANDLERS.get(signal as u32 as usize);
        let before = cell.map_or(0, |cell| cell.load(Ordering::Relaxed));
        let mut passed = handler;
        if let (Some(cell), true) = (cell, is_code(handler)) {
            cell.store(handler, Ordering::Release);
            passed = ours();
        }
        let result = real::call(SLOT, signal, passed, 0, 0, 0);
        if result == usize::MAX {
            if let Some(cell) = cell {
                cell.store(before, Ordering::Release);
            }
            return result;
        }
        // As in BSD: calls go on.
        gate::handler::set_action(signal as u32 as usize, flags_of(handler, SA_RESTART));
        if result == ours() { before } else { result }
    };
}
