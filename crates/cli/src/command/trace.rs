//! `selvedge trace`.

use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::path::Path;

use selvedge_drive::store::{Store, StoreError};
use selvedge_findings::ExitCode;
use selvedge_report::columns::{ColumnOptions, write_columns};
use selvedge_report::json::write_json;
use selvedge_report::std_form::write_std_form;
use selvedge_report::text::{TextOptions, write_text};
use selvedge_report::timeline::chrome::write_chrome;
use selvedge_report::timeline::perfetto::write_perfetto;
use selvedge_report::view::Filter;
use selvedge_trace::Run;

use crate::args::TraceArgs;
use crate::messages::{Failure, note};

/// Prints a run.
pub(crate) fn run(args: &TraceArgs) -> Result<u8, Failure> {
    let run = open(args)?;
    let filter = Filter { threads: args.threads.clone(), variable: args.variable.clone() };
    if let Some(form) = &args.format {
        return timeline(&run, form, &filter, args.output.as_deref());
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    if args.std {
        for process in &run.processes {
            let summary = write_std_form(process, &filter, &mut out)?;
            if summary.left_out > 0 {
                note(&format!("{} synchronisation events have no form in std text and are left out", summary.left_out));
            }
        }
    } else if args.json {
        let options = TextOptions { filter, summary_only: args.summary, limit: args.limit };
        write_json(&run, &options, &mut out)?;
    } else if args.columns {
        for process in &run.processes {
            let rows = args.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
            write_columns(process, ColumnOptions { width: width(), rows }, &mut out)?;
        }
    } else {
        let options = TextOptions { filter, summary_only: args.summary, limit: args.limit };
        write_text(&run, &options, &mut out)?;
    }
    out.flush()?;
    Ok(0)
}

/// Writes a timeline to a file or to standard output, but not to a terminal where it is no text.
fn timeline(run: &Run, form: &str, filter: &Filter, file: Option<&Path>) -> Result<u8, Failure> {
    let usage = |text: String| Failure::Error { code: ExitCode::Usage.code(), text };
    let write = if form == "perfetto" { write_perfetto } else { write_chrome };
    let Some(file) = file else {
        if form == "perfetto" && std::io::stdout().is_terminal() {
            return Err(usage("Perfetto's form is no text: name a file, as in -o run.pftrace".to_owned()));
        }
        let mut out = BufWriter::new(std::io::stdout().lock());
        write(run, filter, &mut out)?;
        out.flush()?;
        return Ok(ExitCode::Success.code());
    };
    let made = File::create(file).and_then(|made| {
        let mut out = BufWriter::new(made);
        write(run, filter, &mut out)?;
        out.flush()
    });
    made.map_err(|error| usage(format!("cannot write `{}`: {error}", file.display())))?;
    note(&format!("open {} in https://ui.perfetto.dev", file.display()));
    Ok(ExitCode::Success.code())
}

fn open(args: &TraceArgs) -> Result<Run, Failure> {
    let store = Store::open(&args.store.out);
    let name = match &args.run {
        Some(name) => name.clone(),
        None => match store.latest().map_err(|error| Failure::usage(&error))? {
            Some(id) => id.to_string(),
            None => {
                let dir = args.store.out.display();
                let text = format!("no runs in `{dir}`: record one with `selvedge record -- ./prog`");
                return Err(Failure::Error { code: ExitCode::Usage.code(), text });
            }
        },
    };
    let path = store.find(&name).map_err(|error: StoreError| Failure::usage(&error))?;
    Run::open(&path).map_err(|error| Failure::usage(&error))
}

/// Characters of a line of the terminal; a plain size where there is none.
pub(crate) fn width() -> usize {
    match rustix::termios::tcgetwinsize(rustix::stdio::stdout()) {
        Ok(size) if size.ws_col >= 40 => usize::from(size.ws_col),
        _ => ColumnOptions::default().width,
    }
}
