//! `selvedge graph`: kept communication graphs as values.

use std::path::{Path, PathBuf};

use selvedge_analyze::graph::{Graph, export, file};
use selvedge_drive::program::hex;
use selvedge_findings::ExitCode;
use selvedge_report::code_points::CodePoints;

use crate::args::GraphArgs;
use crate::messages::Failure;

/// Adds graphs, takes others away, and writes or shows what is left.
pub(crate) fn run(args: &GraphArgs) -> Result<u8, Failure> {
    let mut sum: Option<Graph> = None;
    for path in &args.graphs {
        let graph = read(path)?;
        sum = Some(match sum {
            Some(known) => known.union(&graph).map_err(|_| unlike(path, &known, &graph))?,
            None => graph,
        });
    }
    let mut graph = sum.unwrap_or_default();
    for path in &args.minus {
        let other = read(path)?;
        graph = graph.difference(&other).map_err(|_| unlike(path, &graph, &other))?;
    }
    if let Some(path) = &args.output {
        write(path, &file::to_bytes(&graph))?;
    }
    write_exports(&graph, &named(&graph, &args.programs)?, args.dot.as_deref(), args.json.as_deref())?;
    tell(&graph, &mut anstream::stdout().lock())?;
    Ok(ExitCode::Success.code())
}

/// Reads a graph that `selvedge rank --save` or `selvedge graph -o` wrote.
pub(crate) fn read(path: &Path) -> Result<Graph, Failure> {
    let bytes =
        std::fs::read(path).map_err(|error| usage(format!("cannot read the graph `{}`: {error}", path.display())))?;
    file::from_bytes(&bytes).map_err(|error| usage(format!("`{}`: {error}", path.display())))
}

/// Writes a graph for other tools.
pub(crate) fn write_exports(
    graph: &Graph,
    code: &CodePoints,
    dot: Option<&Path>,
    json: Option<&Path>,
) -> Result<(), Failure> {
    let name = |site: selvedge_analyze::graph::Site| {
        let image = graph.images().get(usize::from(site.image)).cloned().unwrap_or_default();
        code.source(&image, site.offset).brief()
    };
    if let Some(path) = dot {
        write(path, export::dot(graph, name).as_bytes())?;
    }
    if let Some(path) = json {
        let text = serde_json::to_vec(&export::exported(graph, name)).map_err(|error| Failure::internal(&error))?;
        write(path, &text)?;
    }
    Ok(())
}

/// Writes a file that was asked for.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| usage(format!("cannot write `{}`: {error}", path.display())))
}

/// How a graph was collected, in words.
pub(crate) fn how(graph: &Graph) -> String {
    let kind = graph.kind();
    let (events, granularity, rules) = (kind.depth.events(), kind.granularity.name(), kind.rules.name());
    format!("contexts of {events} events, by {granularity}, {rules} rules")
}

fn usage(text: String) -> Failure {
    Failure::Error { code: ExitCode::Usage.code(), text }
}

fn unlike(path: &Path, known: &Graph, other: &Graph) -> Failure {
    usage(format!(
        "`{}` cannot be held against the others: it has {}, they have {}",
        path.display(),
        how(other),
        how(known)
    ))
}

/// The names of sites in these programs and libraries.
fn named(graph: &Graph, files: &[PathBuf]) -> Result<CodePoints, Failure> {
    let mut code = CodePoints::new();
    for path in files {
        for image in graph.images() {
            code.add(image, path);
        }
        if !code.has(path) {
            return Err(usage(format!("`{}` is none of the builds that the graph is of", path.display())));
        }
    }
    Ok(code)
}

fn tell(graph: &Graph, out: &mut dyn std::io::Write) -> Result<(), Failure> {
    let size = graph.size();
    writeln!(out, "runs        {}", graph.runs())?;
    writeln!(out, "collected   {}", how(graph))?;
    writeln!(out, "code points {}, {} pairs of them", size.sites, size.site_pairs)?;
    writeln!(out, "nodes       {}", size.nodes)?;
    writeln!(out, "edges       {}", size.edges)?;
    for image in graph.images() {
        writeln!(out, "build       {}", hex(image))?;
    }
    Ok(out.flush()?)
}
