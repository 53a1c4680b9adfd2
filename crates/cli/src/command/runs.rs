//! `selvedge runs`.

use std::io::{BufWriter, Write as _};

use selvedge_drive::record::Amount;
use selvedge_drive::store::{RunRecord, Store};
use selvedge_findings::Outcome;

use crate::args::RunsArgs;
use crate::messages::{Failure, note};

/// Lists recorded runs.
pub(crate) fn run(args: &RunsArgs) -> Result<u8, Failure> {
    let store = Store::open(&args.store.out);
    let (runs, without) = store.runs().map_err(|error| Failure::usage(&error))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    if args.json {
        for record in &runs {
            serde_json::to_writer(&mut out, record).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
    } else if runs.is_empty() {
        note(&format!("no runs in `{}`: record one with `selvedge record -- ./prog`", args.store.out.display()));
    } else {
        writeln!(out, "  id label   exit   seconds threads   events    bytes  b/event program")?;
        for record in &runs {
            writeln!(out, "{}", line(record))?;
        }
    }
    out.flush()?;
    if without > 0 {
        note(&format!("{without} runs have no record: they are going on, or were cut off"));
    }
    Ok(0)
}

fn line(record: &RunRecord) -> String {
    let totals = &record.totals;
    let exit = match record.outcome {
        Outcome::Pass => "0".to_owned(),
        Outcome::Fail { code: Some(code), .. } => code.to_string(),
        Outcome::Fail { signal: Some(signal), .. } => format!("sig {signal}"),
        _ => "-".to_owned(),
    };
    let words: Vec<&str> = record.argv.iter().map(String::as_str).collect();
    format!(
        "{:>4} {:<7} {exit:<6} {:>7.3} {:>7} {:>8} {:>8} {:>8.1} {}",
        record.id,
        record.outcome,
        record.seconds,
        totals.threads,
        Amount(totals.events).to_string(),
        Amount(totals.bytes).to_string(),
        record.bytes_per_event(),
        words.join(" ")
    )
}
