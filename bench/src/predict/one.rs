//! One measurement: a trace read and analysed, in a process of its own so that its peak memory is its own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use selvedge_analyze::import::{Options, import};
use selvedge_analyze::{History, std_text};
use selvedge_trace::Run;
use serde::{Deserialize, Serialize};

use super::analyses::{ANALYSES, Analysis};
use crate::error::{BenchError, Result, at, tool};
use crate::exec::run_tool;

/// The argument that makes the program measure once.
pub const ARGUMENT: &str = "--one";

/// Which form a trace is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Ours: a trace file, or a folder of them.
    Selvedge,
    /// RAPID's text.
    Text,
}

impl Form {
    /// Both.
    pub const ALL: [Form; 2] = [Form::Selvedge, Form::Text];

    /// Its name on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Form::Selvedge => "selvedge",
            Form::Text => "text",
        }
    }
}

/// What one measurement gave.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct One {
    /// Events of the trace.
    pub events: u64,
    /// Events of the history.
    pub kept: u64,
    /// What the analysis found.
    pub found: u64,
    /// Seconds of wall time for all.
    pub seconds: f64,
    /// Seconds of the processor's time for all.
    pub cpu_seconds: f64,
    /// Peak resident memory in KiB.
    pub peak_kib: u64,
}

impl One {
    /// Events a second, by the processor's time: nothing here waits, and the machine may be busy with other things.
    pub fn rate(&self) -> f64 {
        self.events as f64 / self.cpu_seconds.max(1e-9)
    }
}

/// Starts this program again for one measurement.
pub fn measure(form: Form, analysis: &Analysis, path: &Path) -> Result<One> {
    let ourselves = std::env::current_exe().map_err(|e| BenchError::System("find this program", e))?;
    let said = run_tool(Command::new(ourselves).args([ARGUMENT, form.key(), analysis.key]).arg(path))?;
    serde_json::from_str(&said).map_err(|source| BenchError::Json { what: "a measurement".to_owned(), source })
}

/// What the program started by [`measure`] does with the arguments after [`ARGUMENT`].
pub fn child(args: &[String]) -> Result<()> {
    let wrong = || BenchError::Usage(format!("{ARGUMENT} needs a form, an analysis and a path"));
    let [form, analysis, path] = args else { return Err(wrong()) };
    let form = Form::ALL.into_iter().find(|known| known.key() == form).ok_or_else(wrong)?;
    let analysis = ANALYSES.iter().find(|known| known.key == analysis).ok_or_else(wrong)?;
    let (begin, cpu) = (Instant::now(), cpu_time());
    let mut one = One { events: 0, kept: 0, found: 0, seconds: 0.0, cpu_seconds: 0.0, peak_kib: 0 };
    let path = Path::new(path);
    match form {
        Form::Selvedge => {
            for process in tool("open the trace", Run::open(path))?.processes {
                let imported = import(&process, &Options::default());
                one.add(imported.events, &imported.history, analysis);
            }
        }
        Form::Text => {
            let text = at("read", path, fs::read(path))?;
            let imported = tool("read the trace", std_text::parse(&text))?;
            one.add(imported.history.len() as u64, &imported.history, analysis);
        }
    }
    one.seconds = begin.elapsed().as_secs_f64();
    one.cpu_seconds = cpu_time().saturating_sub(cpu).as_secs_f64();
    one.peak_kib = peak_kib();
    let text = serde_json::to_string(&one);
    println!("{}", text.map_err(|source| BenchError::Json { what: "a measurement".to_owned(), source })?);
    Ok(())
}

impl One {
    fn add(&mut self, events: u64, history: &History, analysis: &Analysis) {
        self.events += events;
        self.kept += history.len() as u64;
        self.found += (analysis.run)(history) as u64;
    }
}

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
