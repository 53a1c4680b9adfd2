//! Source lines as code points, and edges of a graph with the names of their lines.

use std::collections::BTreeMap;
use std::path::Path;

use selvedge_analyze::graph::Node;
use selvedge_analyze::graph::rank::{Evidence, PointNo};
use selvedge_analyze::graph::value::BuildId;
use selvedge_findings::{RankedEdge, RankedNode};
use selvedge_report::code_points::CodePoints;
use selvedge_report::names::Source;

/// Source lines as code points.
pub(crate) struct Lines {
    pub(crate) code: CodePoints,
    numbers: BTreeMap<(String, Option<u32>), PointNo>,
    sources: Vec<Source>,
}

impl Lines {
    pub(crate) fn new(images: &[(&BuildId, &Path)]) -> Lines {
        let mut code = CodePoints::new();
        for (build_id, path) in images {
            code.add(build_id, path);
        }
        Lines { code, numbers: BTreeMap::new(), sources: Vec::new() }
    }

    pub(crate) fn number(&mut self, build_id: &BuildId, offset: u32) -> PointNo {
        let source = self.code.source(build_id, offset);
        let key = match (&source.file, source.line) {
            (Some(file), Some(line)) => (file.clone(), Some(line)),
            _ => (source.place(), None),
        };
        let next = PointNo::try_from(self.sources.len()).unwrap_or(PointNo::MAX);
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.sources.push(Source::clone(&source));
        }
        number
    }

    pub(crate) fn source(&self, point: PointNo) -> Option<&Source> {
        self.sources.get(point as usize)
    }

    pub(crate) fn node(&self, images: &[BuildId], node: Node) -> Option<RankedNode> {
        let site = node.site()?;
        let image = images.get(usize::from(site.image))?;
        let source = self.code.source(image, site.offset);
        Some(RankedNode {
            place: source.brief(),
            function: source.function.clone(),
            access: self.code.access(image, site.offset).to_owned(),
            context: node.context().events().map(|event| event.name().to_owned()).collect(),
        })
    }

    pub(crate) fn edge(&self, images: &[BuildId], evidence: &Evidence) -> Option<RankedEdge> {
        Some(RankedEdge {
            from: self.node(images, evidence.from),
            to: self.node(images, evidence.to)?,
            failing: evidence.failing,
            passing: evidence.passing,
            pair_passes: evidence.pair_passes,
            is_missing: evidence.is_missing,
        })
    }
}
