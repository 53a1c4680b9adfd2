//! The page of a report: the clips of its findings are run once more, and what these runs show goes into it.

use std::path::Path;
use std::time::{Duration, Instant};

use selvedge_drive::clip::Clip;
use selvedge_drive::controlled::scratch;
use selvedge_drive::intervene::Interventions;
use selvedge_drive::replay::{Alone, ready};
use selvedge_findings::{Finding, Report};
use selvedge_report::Names;
use selvedge_report::account::{Account, Extent};
use selvedge_report::critical::switch_numbers;
use selvedge_report::html::{self, MOST_TOLD, PageOptions};
use selvedge_report::shell::quoted;
use selvedge_trace::Run;

/// What a page can have beside findings.
#[derive(Debug, Default)]
pub(crate) struct Extra<'a> {
    /// What was done about bugs in the runs of the clips.
    pub(crate) interventions: Interventions,
    /// What was not looked at.
    pub(crate) notes: Vec<String>,
    /// The picture of a ranking.
    pub(crate) graph: Option<&'a str>,
    /// New members for each training run.
    pub(crate) curve: &'a [usize],
}

/// Time for all runs of clips.
const BUDGET: Duration = Duration::from_secs(60);
/// Time for one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Makes the page.
pub(crate) fn page(report: &Report, extra: &Extra<'_>) -> String {
    let accounts = accounts(report, &extra.interventions);
    let options = PageOptions {
        version: env!("CARGO_PKG_VERSION"),
        command: &command_line(),
        accounts: &accounts,
        notes: &extra.notes,
        graph: extra.graph,
        curve: extra.curve,
    };
    html::html(report, &options)
}

/// What was typed, as a shell takes it; our own name without its directory.
fn command_line() -> String {
    let words = std::env::args_os().enumerate().map(|(at, word)| {
        let word = if at == 0 { Path::new(&word).file_name().unwrap_or(&word).to_owned() } else { word };
        quoted(&word.to_string_lossy())
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What runs of the clips show, for each finding that wants it.
fn accounts(report: &Report, interventions: &Interventions) -> Vec<Option<Result<Account, String>>> {
    let mut accounts: Vec<Option<Result<Account, String>>> = report.findings.iter().map(|_| None).collect();
    let told = html::told(report);
    let wanted = |index: &usize| report.findings.get(*index).is_some_and(html::wants_account);
    let wanted: Vec<usize> = told.into_iter().take(MOST_TOLD).filter(wanted).collect();
    let (begin, extent) = (Instant::now(), html::extent(wanted.len()));
    for index in wanted {
        let (Some(finding), Some(slot)) = (report.findings.get(index), accounts.get_mut(index)) else { continue };
        *slot = Some(match begin.elapsed() < BUDGET {
            true => account(finding, interventions, extent),
            false => Err("there was no time left to run its clip again; `selvedge replay` does".to_owned()),
        });
    }
    accounts
}

/// Runs the clip of a finding once more, and reads what it left.
fn account(finding: &Finding, interventions: &Interventions, extent: Extent) -> Result<Account, String> {
    let path = finding.clip.as_deref().ok_or("it has no clip")?;
    let clip = Clip::load(Path::new(path)).map_err(|error| error.to_string())?;
    let dir = scratch().map_err(|error| error.to_string())?;
    let how = Alone { record: true, ..Alone::default() };
    let ready = ready(&clip, interventions, dir.path(), how).map_err(|error| error.to_string())?;
    let (_, answer) = ready.run(TIMEOUT).map_err(|error| error.to_string())?;
    if let Some(at) = &answer.divergence {
        return Err(format!("a run of its clip took another way at T{}@{}", at.thread, at.point));
    }
    let run = Run::open(dir.path()).map_err(|error| error.to_string())?;
    let controlled = run.processes.iter().filter(|process| process.is_controlled());
    let process = controlled.max_by_key(|process| process.summary().threads.len());
    let process = process.ok_or("a run of its clip left no trace")?;
    Ok(Account::of(&Names::new(process), finding, &switch_numbers(process, &answer.log), extent))
}
