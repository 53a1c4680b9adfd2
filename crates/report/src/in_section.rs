//! An atomic section that was broken in the act: where it began, who came between, and where it ended, with values, locks and stacks.

use std::io::{self, Write};

use selvedge_findings::{Access, Finding, Kind, Status};
use selvedge_trace::detect_log::{ActSide, ActViolation, LoadedImage};

use crate::fingerprint::of_accesses;
use crate::hang::write_stack;
use crate::in_act::{Images, Named, SitePlace, bytes, holding, memory, named, number};
use crate::names::Source;
use crate::view::printable;

/// A broken section with its names.
#[derive(Debug)]
pub struct InSection {
    begin: Named,
    between: Named,
    end: Named,
    variable: String,
    /// Where the heap block was allocated, and its size.
    block: Option<(Source, u64)>,
    pattern: String,
}

impl InSection {
    /// Names a violation of a section of this pattern; `site` says where a watched site is.
    pub fn of<'a>(
        images: &Images,
        violation: &ActViolation,
        loaded: &[LoadedImage],
        site: &dyn Fn(u32) -> Option<SitePlace<'a>>,
        pattern: &str,
    ) -> InSection {
        let [between, end] = &violation.sides;
        let name = |side: &ActSide| named(images, side, loaded, site);
        let addr = violation.begin.addr.max(between.addr).max(end.addr);
        let (variable, block) = memory(images, loaded, addr, violation.block);
        let mut begin = name(&violation.begin);
        let end = name(end);
        // Where both are in one function, so are their callers.
        let function = |side: &Named| side.own().and_then(|source| source.function.clone());
        if function(&begin).is_some() && function(&begin) == function(&end) {
            let own = |stack: &[Source]| stack.iter().position(|frame| frame.function == function(&end));
            if let (Some(first), Some(last)) = (own(&begin.stack), own(&end.stack)) {
                begin.stack.truncate(first + 1);
                begin.stack.extend(end.stack.iter().skip(last + 1).cloned());
            }
        }
        InSection { begin, between: name(between), end, variable, block, pattern: pattern.to_owned() }
    }

    /// `atomicity violation in deposit / withdraw`: whose section, and who came between.
    pub fn title(&self) -> String {
        let function = |side: &Named| side.own().and_then(|source| source.function.clone());
        let words = Kind::AtomicityViolation.words();
        match (function(&self.end), function(&self.between)) {
            (Some(one), Some(two)) => format!("{words} in {one} / {two}"),
            (Some(one), None) | (None, Some(one)) => format!("{words} in {one}"),
            (None, None) => words.to_owned(),
        }
    }

    /// The finding for programs to read: the accesses in the order in which they were made.
    pub fn finding(&self) -> Finding {
        let variable = Some(&self.variable);
        let accesses: Vec<Access> =
            [&self.begin, &self.between, &self.end].iter().map(|side| side.access(variable)).collect();
        let kind = Kind::AtomicityViolation;
        let mut finding = Finding::new(of_accesses(kind, &accesses), kind, accesses);
        finding.status = Status::Confirmed;
        finding.pattern = Some(format!("{}, seen in the act", self.pattern));
        finding
    }

    fn sentence(&self) -> String {
        let article = if self.between.op.starts_with('a') { "an" } else { "a" };
        format!(
            "{} was between its {} ({}) and its {} ({}) of `{}` when {} made {article} {} ({}): no serial order of the two explains that.",
            self.end.name(),
            self.begin.op,
            self.begin.brief(),
            self.end.op,
            self.end.brief(),
            self.variable,
            self.between.name(),
            self.between.op,
            self.between.brief()
        )
    }

    /// Writes it; `lines` stand before the summary.
    pub fn write(&self, lines: &[String], out: &mut dyn Write) -> io::Result<()> {
        let rule = "==================";
        writeln!(out, "{rule}\nWARNING: Selvedge: {}", printable(&self.title()))?;
        writeln!(out, "  {}", printable(&self.sentence()))?;
        let sides = [("begins the section", &self.begin), ("comes between", &self.between), ("ends it", &self.end)];
        for (what, side) in sides {
            let held = if what == "begins the section" { String::new() } else { format!(", {}", holding(&side.locks)) };
            let line = format!(
                "  Thread {} {what}: {} of {}, `{}` holds {}{held}:",
                side.name(),
                side.op,
                bytes(side.size),
                self.variable,
                number(side.value, side.size)
            );
            writeln!(out, "\n{}", printable(&line))?;
            write_stack(&side.stack, out)?;
        }
        writeln!(out)?;
        if let Some((source, size)) = &self.block {
            writeln!(out, "  The memory is a block of {size} bytes, allocated at {}.", printable(&source.in_words()))?;
        }
        writeln!(out, "  The section: {} of `{}`.", self.pattern, printable(&self.variable))?;
        for line in lines {
            writeln!(out, "  {line}")?;
        }
        writeln!(out, "SUMMARY: Selvedge: {} at {}\n{rule}", printable(&self.title()), self.begin.brief())
    }
}
