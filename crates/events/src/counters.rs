//! What was lost, skipped or done differently, each with a sentence. Kept in the trace file's
//! header, so that they are there after a crash too.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// A counter of the runtime.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Counter { $($(#[doc = $doc])+ $name),* }

        /// Every counter with its key and its sentence, in order.
        pub const COUNTERS: &[(Counter, &str, &str)] =
            &[$((Counter::$name, stringify!($name), $text)),*];
    };
}

counters! {
    /// Sites armed.
    SitesArmed = "sites armed",
    /// Sites turned into nops.
    SitesDisarmed = "sites turned into nops",
    /// Sites whose code did not match the table; left as they were.
    SitesRefused = "sites left alone because their code was not what the site table says",
    /// Images that call hooks but carry no site table.
    ImagesWithoutTable = "instrumented images without a site table: their accesses are not seen",
    /// Code pages that could not be made writable.
    PatchFailures = "images that could not be patched (the system refused to make code writable)",
    /// Events dropped because the trace reached its size limit.
    DroppedLimit = "events dropped: the trace reached its size limit",
    /// Events dropped because the disk was full or a write failed.
    DroppedDisk = "events dropped: the trace could not be written (disk full or write error)",
    /// Events dropped because the process sealed itself (seccomp).
    DroppedSealed = "events dropped after the process sealed itself with seccomp",
    /// Events dropped in a signal handler that interrupted the recorder at work.
    DroppedReentry = "events dropped in signal handlers that interrupted the recorder",
    /// Events of threads that had already ended or never got a buffer.
    DroppedNoThread = "events dropped from threads without a buffer",
    /// Frames beyond the depth of the context stack.
    ContextOverflow = "calling contexts cut at the depth limit",
    /// Shadow memory not available: locations treated as shared.
    SurveyConservative = "accesses taken for shared because the survey reached its memory limit",
    /// Threads seen that `pthread_create` did not announce.
    ForeignThreads = "threads that were not made through pthread_create",
    /// Functions that could not be found in libc.
    MissingReal = "interposed functions that libc does not have",
    /// Child processes given a trace of their own.
    Forks = "child processes forked",
    /// Signals whose handler ran under the recorder.
    Signals = "signals handled",
    /// Modules beyond the 63 that a code address can name.
    ModulesUnnamed = "images beyond the number that a trace can name",
    /// Edges that found no room in the graph's table.
    GraphFull = "communication that is not in the graph because its table was full",
    /// Locations that found no memory for the graph.
    GraphNoMemory = "accesses that the graph does not know because it reached its memory limit",
    /// Threads made from a stack that was not kept, since enough were.
    StacksFull = "threads made where the variables on their maker's stack are not known by name: enough stacks were kept",
    /// Functions that were switched to the body with hooks.
    FunctionsHooked = "functions switched to their body with hooks",
    /// Functions that have two bodies but could not be switched.
    FunctionsStuck = "functions not switched to their hooks because their begin was not what the site table says",
}

/// Room for counters in the trace header.
pub const ROOM: usize = 64;
const _: () = assert!(COUNTERS.len() <= ROOM);
