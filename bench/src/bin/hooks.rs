//! `hooks`: instructions for each call of a hook: disarmed, recording, and collecting a graph.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use selvedge_bench::callgrind::{Count, Counter, grown};
use selvedge_bench::columns::{COLUMNS, Tools};
use selvedge_bench::error::{BenchError, Result, at, exit_code};
use selvedge_bench::hooks::tsan_abi;
use selvedge_bench::machine::Machine;
use selvedge_bench::options::Options;
use selvedge_bench::{controlled, place, table};

const USAGE: &str = "\
usage: hooks [--only HOOK[,HOOK]] [--work DIR] [--save] [--check]

  --only    these hooks only
  --work    where the programs are built (default: bench-work in Cargo's target folder)
  --save    write docs/results/hooks.md and bench/results/hooks.json
  --check   fail when a figure grew against bench/results/hooks.json

SELVEDGE_BIN names the selvedge binary; without it the release build of this repository is used.
";

/// The columns in which a hook has a cost.
const MEASURED: [&str; 3] = ["disarmed", "record", "graph"];

fn main() -> ExitCode {
    match run() {
        Ok(false) => ExitCode::FAILURE,
        other => exit_code("hooks", USAGE, other.map(drop)),
    }
}

/// Counts, prints, saves and checks; false when something grew.
fn run() -> Result<bool> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [controlled::GRAPH_ARGUMENT, file, dir, program] = args.iter().map(|arg| &**arg).collect::<Vec<_>>()[..] {
        controlled::write_graph_plan(Path::new(file), Path::new(dir), Path::new(program))?;
        return Ok(true);
    }
    let options = Options::parse(args)?;
    if options.help {
        print!("{USAGE}");
        return Ok(true);
    }
    let hooks = tsan_abi();
    let all: Vec<&_> = hooks.iter().collect();
    let chosen = options.select(&all, |hook| &hook.name)?;
    let work = place::work(&options.work)?;
    let tools = Tools::find();
    if let Err(why) = tools.valgrind() {
        return Err(BenchError::Missing { tool: "valgrind".to_owned(), why });
    }

    let mut counts = Vec::new();
    for key in MEASURED {
        let Some(column) = COLUMNS.iter().find(|c| c.key == key) else {
            continue;
        };
        let counter = match tools.unavailable(*column) {
            Some(why) => Err(why),
            None => Counter::new(&tools, *column, &work).map_err(|e| e.brief()),
        };
        for hook in &chosen {
            counts.push(match &counter {
                Ok(counter) => counter.count(hook),
                Err(why) => Count { hook: hook.name.clone(), column: key.to_owned(), instructions: Err(why.clone()) },
            });
        }
    }

    let page = page(&counts, chosen.iter().map(|h| &*h.name));
    print!("{page}");
    let raw = place::raw_results().join("hooks.json");
    let fine = !options.check || {
        let text = at("read", &raw, std::fs::read_to_string(&raw))?;
        let before: Vec<Count> =
            serde_json::from_str(&text).map_err(|source| BenchError::Json { what: "hooks.json".to_owned(), source })?;
        let worse = grown(&counts, &before);
        for (count, was) in &worse {
            let now = count.instructions.as_ref().copied().unwrap_or(f64::NAN);
            eprintln!("{} ({}): {was:.1} -> {now:.1} instructions", count.hook, count.column);
        }
        worse.is_empty()
    };
    if options.save {
        table::write(&place::result_pages().join("hooks.md"), &page)?;
        table::write_json(&raw, &counts)?;
    }
    Ok(fine)
}

fn page<'h>(counts: &[Count], hooks: impl Iterator<Item = &'h str>) -> String {
    let mut page = String::from(
        "# Instructions for each hook\n\n\
         Made by `cargo run --release -p selvedge-bench --bin hooks -- --save`: counted by Callgrind in a loop, less the loop itself; \
         the setting up of arguments is included.\n\n",
    );
    for line in Machine::describe().tools {
        let _ = writeln!(page, "- {line}");
    }
    let _ = writeln!(page, "\n| hook | {} |\n|---|{}", MEASURED.join(" | "), "---:|".repeat(MEASURED.len()));
    let mut reasons: Vec<String> = Vec::new();
    for hook in hooks {
        let _ = write!(page, "| `{hook}` |");
        for key in MEASURED {
            let found = counts.iter().find(|c| c.hook == hook && c.column == key);
            let text = match found.map(|c| &c.instructions) {
                Some(Ok(instructions)) => format!("{instructions:.1}"),
                Some(Err(why)) => {
                    let reason = format!("- {key}: n/a: {why}");
                    if !reasons.contains(&reason) {
                        reasons.push(reason);
                    }
                    "n/a".to_owned()
                }
                None => "n/a".to_owned(),
            };
            let _ = write!(page, " {text} |");
        }
        page.push('\n');
    }
    if !reasons.is_empty() {
        let _ = writeln!(page, "\n{}", reasons.join("\n"));
    }
    page
}
