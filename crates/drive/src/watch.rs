//! Watching a deployed program: it runs free, its runtime collects a graph in bounded memory, and the graph is looked at
//! now and then while the program goes on.
//!
//! Nothing of the program waits for a look: the table of edges is a mapping of a file, and looking reads the file. A look
//! costs as much as the table has rows, however long the program has been running.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use selvedge_analyze::graph::{Graph, live};
use selvedge_events::plan::Observe;
use selvedge_trace::Process;
use selvedge_trace::model::trace_files;

use crate::controlled::Prepared;
use crate::guest_input::GuestInput;
use crate::plan::{PlanSpec, WritePlanError};
use crate::run::{End, Guest, GuestOutput, RunGuestError, RunRequest, Stop, run_guest};
use crate::store::{StoreError, write_whole};

/// How to watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Where files of the run go.
    pub dir: PathBuf,
    /// Events of a context, and bits of an address below a location's number.
    pub graph: (u8, u8),
    /// Memory that the runtime may use for itself, in MiB.
    pub memory_limit_mb: u32,
    /// Time between looks.
    pub every: Duration,
    /// Most time for the run.
    pub timeout: Option<Duration>,
}

/// Why a program was not watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The plan.
    #[error("cannot write the plan")]
    Plan(#[from] WritePlanError),
    /// A file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run.
    #[error(transparent)]
    Guest(#[from] RunGuestError),
    /// The thread that waits for the program.
    #[error("the program could not be waited for")]
    Lost,
}

/// Runs a program and looks at its graph: `look` is called with the graph of each process now and then, and at the end.
pub fn watch(
    prepared: &Prepared,
    guest: &Guest,
    options: &WatchOptions,
    stop: &Stop,
    look: &mut dyn FnMut(&Graph, &Process),
) -> Result<(End, Duration), WatchError> {
    let mut plan = PlanSpec::new(Observe::Graph, &options.dir);
    plan.graph = options.graph;
    plan.memory_limit_mb = options.memory_limit_mb;
    (plan.images, _) = prepared.surveyed.arm();
    let plan_file = options.dir.join("plan");
    write_whole(&plan_file, &plan.to_bytes()?)?;
    // What we found is what runs, also if PATH has something else by then.
    let found = Guest { program: prepared.program.path.clone().into_os_string(), args: guest.args.clone() };
    let mut input = GuestInput::Reopen(prepared.inputs.stdin.clone());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let output = GuestOutput::Inherit;
            let request = RunRequest { guest: &found, plan: &plan_file, output, timeout: options.timeout, stop };
            run_guest(&request, &mut input)
        });
        let mut last = Instant::now();
        while !running.is_finished() {
            std::thread::sleep(Duration::from_millis(5).min(options.every));
            if last.elapsed() >= options.every {
                look_at(&options.dir, look);
                last = Instant::now();
            }
        }
        let ended = running.join().map_err(|_| WatchError::Lost)?;
        look_at(&options.dir, look);
        Ok(ended?)
    })
}

/// Looks at what there is; a file that is just being made is for the next time.
fn look_at(dir: &Path, look: &mut dyn FnMut(&Graph, &Process)) {
    for file in trace_files(dir).unwrap_or_default() {
        if let Ok(process) = Process::open(&file)
            && let Some(graph) = live::collected(&process)
        {
            look(&graph, &process);
        }
    }
}
