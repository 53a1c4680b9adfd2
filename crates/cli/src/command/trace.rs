//! `selvedge trace`.

use std::io::{BufWriter, Write as _};

use selvedge_drive::store::{Store, StoreError};
use selvedge_findings::ExitCode;
use selvedge_report::columns::{ColumnOptions, write_columns};
use selvedge_report::json::write_json;
use selvedge_report::std_form::write_std_form;
use selvedge_report::text::{TextOptions, write_text};
use selvedge_report::view::Filter;
use selvedge_trace::Run;

use crate::args::TraceArgs;
use crate::messages::{Failure, note};

/// Prints a run.
pub(crate) fn run(args: &TraceArgs) -> Result<u8, Failure> {
    let run = open(args)?;
    let filter = Filter { threads: args.threads.clone(), variable: args.variable.clone() };
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
