//! Bugs, for people: what there is and what to do about it on the first screen, then each bug in full by the finding that shows it
//! best, then how many there are.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use selvedge_drive::hunt::Hunted;
use selvedge_findings::bugs::{are_related, bugs};
use selvedge_findings::{Finding, Harm, Status};
use selvedge_report::brief;
use selvedge_report::view::printable;

use crate::command::guarding::counted;
use crate::command::made::{Made, Shown, gather, show};
use crate::messages::Failure;
use crate::outlet::Outlet;

/// A bug that is shown.
pub(crate) struct Bug {
    /// The finding that shows it best.
    pub(crate) lead: Finding,
    /// The same in full.
    text: String,
    /// What it did, in the words of the run.
    harm: Option<String>,
    /// The others of the same root cause, the better known first.
    pub(crate) others: Vec<Finding>,
    /// What is said of it beside, above the summary.
    pub(crate) lines: Vec<String>,
}

/// The bugs of a hunt.
#[derive(Default)]
pub(crate) struct Bugs {
    /// Those that are shown, the most harmful first.
    pub(crate) shown: Vec<Bug>,
    /// Findings that are not: remarks, and what was refuted.
    pub(crate) rest: Vec<Finding>,
    /// Of these, orders that could be turned around and did no harm.
    pub(crate) quiet: u32,
    /// Bugs that are not shown because a baseline has them.
    pub(crate) hidden: usize,
}

/// How bugs are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HowShown<'a> {
    /// The program's name.
    pub(crate) program: &'a str,
    /// Where clips go.
    pub(crate) clips: &'a Path,
    /// Whether everything that was made to happen is shown in full.
    pub(crate) all: bool,
    /// Most time for a run.
    pub(crate) timeout: Duration,
    /// When there is no more time for runs.
    pub(crate) until: Option<Instant>,
}

impl Bugs {
    /// Groups the findings of a hunt, and runs the one that shows each bug best once more to tell it.
    pub(crate) fn of(hunted: &Hunted, how: &HowShown<'_>, outlet: &mut Outlet<'_>) -> Result<Bugs, Failure> {
        let all = gather(hunted, how.clips, how.program, how.all)?;
        let (hidden, made): (Vec<_>, Vec<_>) = all.into_iter().partition(|made| outlet.hides(&made.finding));
        let mut made: Vec<Option<Made<'_>>> = made.into_iter().map(Some).collect();
        let findings: Vec<Finding> = made.iter().flatten().map(|made| made.finding.clone()).collect();
        let mut told = Bugs::default();
        for bug in bugs(&findings) {
            let mut take = |at: usize| made.get_mut(at).and_then(Option::take);
            let Some(lead) = take(bug.lead) else { continue };
            let others: Vec<Made<'_>> = bug.others.into_iter().filter_map(&mut take).collect();
            let is_shown = lead.finding.is_error() || (how.all && lead.happened.is_some());
            if is_shown {
                told.show(lead, others, how)?;
                continue;
            }
            let id = lead.finding.id.clone();
            for made in std::iter::once(lead).chain(others) {
                told.quiet += u32::from(made.finding.status == Status::Confirmed);
                told.rest.push(with_group(made.finding, &id));
            }
        }
        told.rest.extend(made.into_iter().flatten().chain(hidden).map(|made| made.finding));
        // What a run that shows a bug tells may be suppressed where the prediction was not.
        let (hidden, shown): (Vec<_>, Vec<_>) = told.shown.into_iter().partition(|bug| outlet.hides(&bug.lead));
        told.shown = shown;
        told.rest.extend(hidden.into_iter().flat_map(|bug| std::iter::once(bug.lead).chain(bug.others)));
        Ok(told)
    }

    /// Adds a bug by the first of its findings that a run shows.
    fn show(&mut self, lead: Made<'_>, others: Vec<Made<'_>>, how: &HowShown<'_>) -> Result<(), Failure> {
        let mut members: Vec<Made<'_>> = std::iter::once(lead).chain(others).collect();
        let mut shown: Vec<Shown> = Vec::new();
        let mut by = 0;
        for (at, made) in members.iter().enumerate() {
            let Some((tried, happened)) = made.happened else { continue };
            let is_wanted = shown.is_empty() || how.all;
            let has_time = how.until.is_none_or(|until| Instant::now() < until);
            if !is_wanted || !has_time || !(how.all || made.finding.is_error()) {
                continue;
            }
            let timeout = how.until.map_or(how.timeout, |until| {
                how.timeout.min(until.saturating_duration_since(Instant::now()).max(Duration::from_millis(200)))
            });
            let mut more = show(tried, happened, how.clips, how.program, timeout)?;
            more.retain(|one| one.shows(&made.finding));
            by = if shown.is_empty() { at } else { by };
            shown.extend(more);
        }
        let best = members.remove(by);
        let harm = best.happened.and_then(|(_, happened)| Some(happened.clip.wrong.as_ref()?.words.clone()));
        let mut texts = String::new();
        let mut findings: Vec<Finding> = Vec::new();
        for one in shown {
            if findings.iter().all(|known| known.id != one.finding.id) {
                texts.push_str(&one.text);
                findings.push(one.finding);
            }
        }
        if findings.is_empty() {
            let mut text = Vec::new();
            brief::write_finding(&best.finding, harm.as_deref(), &best.again, &mut text)?;
            texts = String::from_utf8_lossy(&text).into_owned();
            findings.push(best.finding);
        }
        findings.extend(members.into_iter().map(|made| made.finding));
        let mut findings = findings.into_iter();
        let Some(lead) = findings.next() else { return Ok(()) };
        // Different orders may end in one hang, which only their runs tell.
        if let Some(known) = self.shown.iter_mut().find(|known| known.lead.id == lead.id) {
            known.add(findings);
            return Ok(());
        }
        let id = lead.id.clone();
        let lead = with_group(lead, &id);
        let mut bug = Bug { lead, text: texts, harm, others: Vec::new(), lines: Vec::new() };
        bug.add(findings);
        self.shown.push(bug);
        Ok(())
    }

    /// Adds a finding that a free run showed: to the bug that it belongs to, or as one of its own. Whether it was new.
    pub(crate) fn join(&mut self, finding: Finding, text: String) -> bool {
        let related =
            |bug: &Bug| std::iter::once(&bug.lead).chain(&bug.others).any(|known| are_related(known, &finding));
        if let Some(bug) = self.shown.iter_mut().find(|bug| related(bug)) {
            let before = bug.others.len();
            bug.add(std::iter::once(finding));
            return bug.others.len() > before;
        }
        // It was predicted and not made to happen; now it has happened.
        self.rest.retain(|known| known.id != finding.id);
        let id = finding.id.clone();
        let lead = with_group(finding, &id);
        self.shown.push(Bug { lead, text, harm: None, others: Vec::new(), lines: Vec::new() });
        true
    }

    /// Whether a finding explains that the program fails so, be it one that is not shown because somebody suppressed it.
    pub(crate) fn fails_so(&self, detail: &str) -> bool {
        let shown = self.shown.iter().flat_map(|bug| std::iter::once(&bug.lead).chain(&bug.others));
        shown.chain(&self.rest).any(|finding| finding.failure.as_deref() == Some(detail))
    }

    /// Adds a failure of a recorded run; it comes before what did no harm.
    pub(crate) fn add_failure(&mut self, finding: Finding, text: String, harm: Option<String>) {
        let id = finding.id.clone();
        let bug = Bug { lead: with_group(finding, &id), text, harm, others: Vec::new(), lines: Vec::new() };
        let at = self.shown.iter().take_while(|bug| bug.lead.harm != Harm::NoneSeen).count();
        self.shown.insert(at, bug);
    }

    /// Makes the clip of the worst bug the latest: it is meant where a command names none.
    pub(crate) fn mark_latest(&self) {
        let clip = self.shown.first().and_then(|bug| bug.lead.clip.as_deref());
        let file = clip.and_then(|clip| std::fs::File::options().append(true).open(clip).ok());
        if let Some(file) = file {
            // Without it another clip is the latest, and it says which.
            let _ = file.set_modified(std::time::SystemTime::now());
        }
    }

    /// Every finding, bug after bug.
    pub(crate) fn into_findings(self) -> Vec<Finding> {
        let shown = self.shown.into_iter().flat_map(|bug| std::iter::once(bug.lead).chain(bug.others));
        shown.chain(self.rest).collect()
    }

    /// All that is shown, as [`Bugs::write`] writes it.
    pub(crate) fn text(&self, program: &Path, verbose: bool, more: &str) -> io::Result<String> {
        let mut text = Vec::new();
        self.write(program, verbose, more, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Writes all that is shown, with `more` above the last line; nothing where there is nothing.
    fn write(&self, program: &Path, verbose: bool, more: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.shown.is_empty() {
            return write!(out, "{more}");
        }
        self.write_overview(program, out)?;
        for bug in &self.shown {
            bug.write(verbose, out)?;
        }
        write!(out, "{more}")?;
        let harmful = self.shown.iter().filter(|bug| bug.lead.harm != Harm::NoneSeen).count();
        let findings: usize = self.shown.iter().map(|bug| 1 + bug.others.len()).sum();
        writeln!(
            out,
            "SUMMARY: Selvedge: {} in {}, {harmful} with harm; {}",
            counted(self.shown.len(), "bug"),
            printable(&program.file_name().unwrap_or_default().to_string_lossy()),
            counted(findings, "finding")
        )
    }

    /// What there is, how to see it again, and what to do next.
    fn write_overview(&self, program: &Path, out: &mut dyn Write) -> io::Result<()> {
        /// Bugs past which a list is no overview.
        const MOST: usize = 10;
        let count = counted(self.shown.len(), "bug");
        writeln!(out, "Selvedge: {count} in {}", printable(&program.display().to_string()))?;
        for (number, bug) in (1..).zip(&self.shown).take(MOST) {
            writeln!(out, "\n{number:>3}  {}", brief::line(&bug.lead))?;
            let harm = bug.harm.as_deref().unwrap_or_else(|| bug.lead.harm.words());
            writeln!(out, "     harm:   {}", printable(harm))?;
            if let Some(replay) = &bug.lead.replay {
                writeln!(out, "     again:  {}", printable(replay))?;
            }
            for line in bug.lines.iter().filter_map(|line| line.strip_prefix(GUARD)) {
                writeln!(out, "     guard:  {}", printable(line.trim_start()))?;
            }
            for line in bug.lines.iter().filter_map(|line| line.strip_prefix(LOCKS)) {
                writeln!(out, "     locks:  {}", printable(line.trim_start()))?;
            }
        }
        if self.shown.len() > MOST {
            writeln!(out, "\n     and {} more below", self.shown.len() - MOST)?;
        }
        if let Some(replay) = self.shown.iter().find_map(|bug| bug.lead.replay.as_deref()) {
            let replay = printable(replay);
            writeln!(out, "\nNext: read the report below; `{replay} --gdb` stops in it with a debugger.")?;
        }
        writeln!(out)
    }
}

/// How a line about a guard begins.
pub(crate) const GUARD: &str = "Guard:";

/// How a line about locks begins.
pub(crate) const LOCKS: &str = "Locks:";

impl Bug {
    /// Adds findings that are not there yet.
    fn add(&mut self, findings: impl Iterator<Item = Finding>) {
        for finding in findings {
            let is_known = self.lead.id == finding.id || self.others.iter().any(|known| known.id == finding.id);
            if !is_known {
                self.others.push(with_group(finding, &self.lead.id));
            }
        }
    }

    /// The report of the lead, with what is said beside above its summary.
    fn write(&self, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
        let mut lines = self.lines.clone();
        if !self.others.is_empty() {
            let how = if verbose { ":" } else { "; -v lists them" };
            lines.push(format!("And {} more of the same root cause{how}", self.others.len()));
        }
        if verbose {
            lines.extend(self.others.iter().map(|other| format!("  {}: {}", word(other), brief::line(other))));
        }
        let at = self.text.rfind("SUMMARY: Selvedge:").unwrap_or(self.text.len());
        let (body, summary) = self.text.split_at(at);
        write!(out, "{body}")?;
        for line in lines {
            writeln!(out, "  {}", printable(&line))?;
        }
        write!(out, "{summary}")
    }
}

/// How a finding stands.
fn word(finding: &Finding) -> &'static str {
    match (finding.status, finding.harm) {
        (Status::Predicted, _) => "not tried",
        (_, Harm::NoneSeen) => "no harm seen",
        (_, harm) => harm.words(),
    }
}

fn with_group(mut finding: Finding, id: &str) -> Finding {
    finding.group = Some(id.to_owned());
    finding
}
