//! From before `main` to the end.
//!
//! ```text
//!            no plan, or one that cannot be used
//!  loaded ───────────────────────────────────────▶ disarmed   (nops, slots = real functions; for good)
//!     │ plan
//!     ▼
//!  observing ──fork──▶ (child) observing a file of its own, or disarmed where there is none
//!     │ seccomp
//!     ▼
//!  sealed     (stores into mapped slots go on; no more system calls)
//! ```

use core::ffi::c_char;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use selvedge_events::counters::Counter;
use selvedge_events::event::EventKind;
use selvedge_events::plan::{self, Intervene, Observe, Plan, Schedule};
use selvedge_events::trace_file::{self, ChunkKind};

use crate::diag::Line;
use crate::entry::copy;
use crate::gate::{self, server};
use crate::interpose::thread;
use crate::real::Wrapped;
use crate::{
    detect, enforce, graph, guard, heal, modules, patch, real, shadow, sink, stacks, stream, sys, thread_state,
};

/// The plan's bytes, mapped for good; 0 without a plan.
static PLAN_AT: AtomicUsize = AtomicUsize::new(0);
static PLAN_LEN: AtomicUsize = AtomicUsize::new(0);
static NEXT_ID: AtomicU32 = AtomicU32::new(0);

/// Sites that later images may have, beyond those of the executable.
const SURVEY_SPARE: u64 = 1 << 18;

#[cfg(all(not(test), feature = "object"))]
mod start {
    // Before every constructor, with the arguments of `main`.
    core::arch::global_asm!(
        ".section .preinit_array,\"aw\",@preinit_array",
        ".p2align 3",
        ".quad {begin}",
        ".section .fini_array,\"aw\",@fini_array",
        ".p2align 3",
        ".quad {end}",
        ".text",
        begin = sym super::begin,
        end = sym super::end,
    );
}

unsafe extern "C" {
    fn getauxval(kind: u64) -> u64;
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

/// The process that our state is about.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The runtime's first code. Nothing of the guest has run yet.
pub extern "C" fn begin(_argc: i32, _argv: *const *const c_char, envp: *const *const c_char) {
    let plan = plan_path(envp).and_then(load);
    let controlled = plan.as_ref().is_some_and(control);
    let observing = plan.as_ref().is_some_and(observe);
    let guarded = plan.as_ref().is_some_and(intervene);
    let plan = plan.filter(|_| observing || controlled || guarded);
    copy::find();
    let wrapped = match plan.is_some() {
        false => Wrapped::Nothing,
        true if controlled => Wrapped::All,
        true if guard::note_alone() => Wrapped::Guarded,
        true => Wrapped::Observed,
    };
    let missing = real::fill(wrapped);
    if plan.is_some() {
        sink::count(Counter::MissingReal, missing);
        thread::prepare();
        OWNER.store(sys::getpid(), Ordering::Relaxed);
        // SAFETY: the handler is a function of ours.
        unsafe { pthread_atfork(None, None, Some(in_child)) };
    }
    patch_new(plan.as_ref());
    // A run that called `exec` is a run, not a server.
    if controlled
        && !gate::is_run()
        && let Some((commands, answers)) = plan.as_ref().and_then(Plan::server)
    {
        server::serve(commands, answers);
    }
    guard::open_log();
    heal::open_log();
    enforce::open_log();
    if plan.is_some()
        && let Some(state) = thread_state::make(thread_state::reserve_index(), u32::MAX)
    {
        thread_state::enter(state);
        if let Some(state) = thread_state::current() {
            // Arguments and environment lie above everything that `main` calls.
            detect::stack(state, 0, envp as usize);
            stacks::first_ends(envp as usize);
            detect::one_more();
            if controlled || guarded {
                // It may end before the others do, and must not be waited for.
                thread::arm_exit(1);
            }
            if controlled {
                thread::remember_main(state.index);
                gate::begin(state);
            }
            stream::thread_start(state);
        }
    }
}

/// Does what the plan says about bugs; false where that is nothing.
fn intervene(plan: &Plan<'static>) -> bool {
    let mut guarded = false;
    for (kind, payload) in plan.interventions() {
        let why = match kind {
            Intervene::Guard if guarded => Err("it does so already"),
            Intervene::Guard => guard::begin(payload, plan.out_dir(), plan.memory_limit_mb),
            Intervene::Noise if guarded => Err("it guards already"),
            Intervene::Noise if plan.schedule != Schedule::Free || plan.observe != Observe::Nothing => {
                Err("does so only in free runs that nobody observes")
            }
            Intervene::Noise => detect::begin(payload, plan.out_dir()),
            Intervene::Heal if heal::is_on() => Err("it does so already"),
            Intervene::Heal if detect::is_on() => Err("it detects already"),
            Intervene::Heal if guarded && !gate::control::is_open() => Err("it guards already"),
            Intervene::Heal => heal::begin(payload, plan.out_dir()),
            Intervene::Enforce if enforce::is_on() => Err("it does so already"),
            Intervene::Enforce if guarded => Err("it guards already"),
            Intervene::Enforce => enforce::begin(payload, plan.out_dir()),
        };
        guarded |= why.is_ok();
        if let Err(why) = why {
            let mut line = Line::new();
            line.text("the plan asks to ").text(kind.name()).text(", and ").text(why);
            line.text("; the program runs without it").say();
        }
    }
    guarded
}

/// Opens the control file of a controlled schedule; false where the schedule is free, or the file is another
/// process's: children of a controlled program run free.
fn control(plan: &Plan<'static>) -> bool {
    if plan.schedule != Schedule::Controlled {
        return false;
    }
    if !gate::control::open(plan.control_file()) {
        Line::new().text("cannot use the control file ").raw(plan.control_file()).text("; the program runs free").say();
        return false;
    }
    if !gate::is_ours() {
        gate::control::close();
        return false;
    }
    true
}

/// The process ends by `exit`.
pub extern "C" fn end() {
    detect::finish();
    sink::clean_exit();
}

/// The value of the plan variable, unless the program runs with privileges of its own.
fn plan_path(envp: *const *const c_char) -> Option<&'static [u8]> {
    const AT_SECURE: u64 = 23;
    // SAFETY: asks libc for a number.
    if unsafe { getauxval(AT_SECURE) } != 0 || envp.is_null() {
        return None;
    }
    for index in 0..100_000 {
        // SAFETY: the environment is a zero-terminated array of zero-terminated strings.
        let entry = unsafe { envp.add(index).read() };
        if entry.is_null() {
            return None;
        }
        // SAFETY: as above.
        let entry = unsafe { core::ffi::CStr::from_ptr(entry) }.to_bytes();
        if let Some(value) = entry.strip_prefix(plan::ENV.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")) {
            return Some(value).filter(|value| !value.is_empty());
        }
    }
    None
}

/// Maps and checks the plan. One that cannot be used is said so, and the program runs as without.
fn load(path: &'static [u8]) -> Option<Plan<'static>> {
    let Some(bytes) = patch::map_for_good(path) else {
        Line::new().text("cannot read the plan ").raw(path).text("; the program runs without it").say();
        return None;
    };
    match Plan::parse(bytes) {
        Ok(plan) => {
            PLAN_LEN.store(bytes.len(), Ordering::Relaxed);
            PLAN_AT.store(bytes.as_ptr() as usize, Ordering::Release);
            Some(plan)
        }
        Err(why) => {
            let mut line = Line::new();
            line.text("plan ").raw(path).text(": ");
            let _ = core::fmt::write(&mut line, format_args!("{why}"));
            line.text("; the program runs without it").say();
            None
        }
    }
}

/// Opens what the plan's observer needs; false where there is nothing to observe or no way to.
fn observe(plan: &Plan<'static>) -> bool {
    if plan.observe == Observe::Nothing {
        return false;
    }
    if let Err(why) = sink::open(plan.observe, plan.out_dir(), plan.trace_limit) {
        let mut line = Line::new();
        line.text("cannot write a trace in ").raw(plan.out_dir()).text(" (error ").number(why.0 as u64);
        line.text("); the program runs unobserved").say();
        return false;
    }
    if plan.observe == Observe::Graph {
        let rows = trace_file::graph::ROWS;
        match sink::map_chunk(ChunkKind::Graph, 0, rows as u32, rows * trace_file::graph::ROW) {
            Ok(chunk) => {
                let (depth, shift) = plan.graph();
                graph::begin(chunk, depth, shift, plan.memory_limit_mb);
            }
            Err(why) => {
                sink::count(why, 1);
                let mut line = Line::new();
                line.text("the graph cannot be written in ").raw(plan.out_dir());
                line.text("; the program runs unobserved").say();
                return false;
            }
        }
    }
    if plan.observe == Observe::Survey {
        let words = patch::site_count(b"/proc/self/exe") + SURVEY_SPARE;
        match sink::map_chunk(ChunkKind::Survey, 0, words as u32, words as usize * 8) {
            Ok(chunk) => shadow::begin(chunk, words, plan.memory_limit_mb),
            Err(why) => {
                sink::count(why, 1);
                let mut line = Line::new();
                line.text("the survey cannot be written in ").raw(plan.out_dir()).text(" (").number((words * 8) >> 10);
                line.text(" KiB are needed); the program runs unobserved").say();
                return false;
            }
        }
    }
    true
}

/// Patches every image that is new.
fn patch_new(plan: Option<&Plan<'static>>) {
    modules::refresh(&mut |module| {
        detect::loaded(module);
        let mut next = NEXT_ID.load(Ordering::Relaxed);
        let probe = patch::apply(module, plan, &mut next);
        NEXT_ID.store(next, Ordering::Relaxed);
        probe
    });
}

/// An instrumented library runs a constructor: it may be new.
#[cold]
pub fn image_loaded() {
    let (at, len) = (PLAN_AT.load(Ordering::Acquire), PLAN_LEN.load(Ordering::Relaxed));
    let plan = if at == 0
        || (sink::observe() == Observe::Nothing
            && !gate::control::is_open()
            && !guard::is_on()
            && !heal::is_on()
            && !detect::is_on()
            && !enforce::is_on())
    {
        None
    } else {
        // SAFETY: I6: the plan is mapped for good.
        Plan::parse(unsafe { core::slice::from_raw_parts(at as *const u8, len) }).ok()
    };
    patch_new(plan.as_ref());
}

/// In a forked child, before anything of the guest runs in it: a new trace, one thread.
pub extern "C" fn in_child() {
    if server::is_serving() {
        return;
    }
    // Once only: by the second time handlers of the guest may have made threads.
    if !sink::is_sealed() {
        let own = sys::getpid();
        if OWNER.swap(own, Ordering::Relaxed) == own {
            return;
        }
    }
    // Whoever held one of our locks is not there any more.
    modules::after_fork();
    stacks::after_fork();
    thread::after_fork();
    thread_state::open_pool();
    gate::after_fork();
    guard::after_fork(thread_state::current());
    heal::after_fork(thread_state::current());
    enforce::after_fork(thread_state::current());
    graph::after_fork();
    detect::after_fork();
    if sink::observe() == Observe::Nothing || !sink::is_foreign() {
        return;
    }
    if !sink::after_fork() {
        sink::give_up();
        return;
    }
    if let Some(state) = thread_state::after_fork() {
        stream::thread_start(state);
        stream::emit_on(state, EventKind::Fork, 0, [u64::from(sys::getppid()), 0, 0]);
    }
}
