//! Findings of a hunt: predictions in the names of the runs that they are from, with the clips that make them happen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use selvedge_drive::clip::Clip;
use selvedge_drive::confirm::{Happened, Verdict};
use selvedge_drive::controlled::{clips_dir, scratch};
use selvedge_drive::hunt::{Hunted, Tried};
use selvedge_drive::intervene::Interventions;
use selvedge_drive::replay::{Alone, ready};
use selvedge_drive::store::Store;
use selvedge_findings::{Access, Finding, Harm, Kind, Status};
use selvedge_report::Names;
use selvedge_report::anomaly::{Anomaly, Told};
use selvedge_report::columns::ColumnOptions;
use selvedge_report::fingerprint::of_accesses;
use selvedge_report::hang::{Hang, write_hang};
use selvedge_report::names::Source;
use selvedge_report::view::{View, view};
use selvedge_trace::state::Heap;
use selvedge_trace::{EventBody, Run};

use crate::command::explain;
use crate::command::trace::width;
use crate::messages::Failure;

/// A prediction as a finding.
pub(crate) struct Made<'a> {
    /// The finding.
    pub(crate) finding: Finding,
    /// How it was made to happen, where it was.
    pub(crate) happened: Option<(&'a Tried, &'a Happened)>,
    /// The lines that say how to make it happen again.
    pub(crate) again: Vec<String>,
}

/// Every prediction of a hunt, once. Those that are wrong, and with `all` the others that happened, leave their clips in `clips`.
pub(crate) fn gather<'a>(hunted: &'a Hunted, clips: &Path, program: &str, all: bool) -> Result<Vec<Made<'a>>, Failure> {
    let foretold = Foretold::of(hunted);
    let mut made: Vec<Made<'a>> = Vec::new();
    for tried in ordered(hunted) {
        let mut finding = foretold.finding(tried);
        let Some(Verdict::Confirmed(happened)) = &tried.verdict else {
            made.push(Made { finding, happened: None, again: Vec::new() });
            continue;
        };
        // Patterns overlap: what reads the same in the source is one finding, and the first says most.
        if made.iter().any(|known| known.finding.id == finding.id && known.happened.is_some()) {
            continue;
        }
        told_by(&mut finding, &happened.clip);
        let again = match all || finding.is_error() {
            true => keep(&mut finding, &happened.clip, clips, program)?,
            false => Vec::new(),
        };
        made.push(Made { finding, happened: Some((tried, happened)), again });
    }
    Ok(made)
}

/// A finding that was made to happen, ready to be shown.
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) finding: Finding,
}

impl Shown {
    /// Whether the run that is told has what was predicted. The clip was replayed once more to be told, and a program that talks to
    /// the outside may have gone another way: then the numbers of its events are those of others. Hangs are told from
    /// where the run stands, not by numbers.
    pub(crate) fn shows(&self, predicted: &Finding) -> bool {
        let places = |finding: &Finding| {
            let mut places: Vec<_> = finding.accesses.iter().map(|access| (access.file.clone(), access.line)).collect();
            places.sort();
            places
        };
        matches!(self.finding.kind, Kind::Deadlock | Kind::LostWakeup) || places(&self.finding) == places(predicted)
    }
}

/// What a confirmed prediction is told as. One that ended in a hang is two findings: who waits for whom, and the order that
/// led there.
pub(crate) fn show(
    tried: &Tried,
    happened: &Happened,
    clips: &Path,
    program: &str,
    timeout: Duration,
) -> Result<Vec<Shown>, Failure> {
    let dir = scratch().map_err(|error| Failure::internal(&error))?;
    let how = Alone { record: true, ..Alone::default() };
    let clip = &happened.clip;
    ready(clip, &Interventions::default(), dir.path(), how)
        .map_err(explain::usage)?
        .run(timeout)
        .map_err(explain::usage)?;
    let Ok(run) = Run::open(dir.path()) else { return Ok(Vec::new()) };
    let Some(process) = run.processes.iter().find(|process| process.is_controlled()) else { return Ok(Vec::new()) };
    let names = Names::new(process);
    let harm = clip.signature().map_or(Harm::NoneSeen, |signature| signature.harm);
    let proved = tried.prediction.proof.as_ref().map(|proof| proof.relation.name());
    let pattern = tried.prediction.pattern.as_str();
    let told = |finding: &mut Finding| {
        finding.proved = proved.map(str::to_owned);
        finding.pattern = Some(pattern.to_owned());
        keep(finding, clip, clips, program)
    };
    let mut all = Vec::new();
    let hang = (harm == Harm::Hang).then(|| Hang::of(&names)).flatten();
    if let Some((mut finding, hang)) = hang.map(|hang| (hang.finding(), hang))
        && !finding.accesses.is_empty()
    {
        let lines = told(&mut finding)?;
        let mut text = Vec::new();
        write_hang(&hang, process.file().header().pid, &lines, &mut text)?;
        all.push(Shown { text: String::from_utf8_lossy(&text).into_owned(), finding });
    }
    if !all.is_empty() && matches!(tried.prediction.kind, Kind::Deadlock | Kind::LostWakeup) {
        return Ok(all);
    }
    let anomaly = Told {
        kind: tried.prediction.kind,
        pattern,
        proved,
        numbers: &happened.shown.numbers,
        never: happened.shown.never.map(|at| (at.thread, at.place)),
        harm,
        harm_words: clip.wrong.as_ref().map(|wrong| wrong.words.as_str()),
    };
    if let Some(anomaly) = Anomaly::of(&names, anomaly) {
        let mut finding = anomaly.finding(process);
        let lines = told(&mut finding)?;
        let mut text = Vec::new();
        let options = ColumnOptions { width: width(), ..ColumnOptions::default() };
        anomaly.write(&names, &lines, options, &mut text)?;
        all.push(Shown { text: String::from_utf8_lossy(&text).into_owned(), finding });
    }
    Ok(all)
}

/// Keeps the clip of a finding; the lines that say how to make it happen again.
fn keep(finding: &mut Finding, clip: &Clip, clips: &Path, program: &str) -> Result<Vec<String>, Failure> {
    let path = clips.join(format!("{program}-{}.clip", finding.id.get(..8).unwrap_or("finding")));
    clip.save(&path).map_err(|error| Failure::usage(&error))?;
    told_by(finding, clip);
    finding.clip = Some(path.display().to_string());
    finding.replay = Some(explain::replay_command(&path));
    Ok(explain::again(clip, &path, &Interventions::default()))
}

/// What the clip says of the harm.
fn told_by(finding: &mut Finding, clip: &Clip) {
    finding.harm = clip.signature().map_or(Harm::NoneSeen, |signature| signature.harm);
    finding.failure = clip.signature().map(|signature| signature.detail.clone());
    finding.switches = Some(clip.script.len() as u64).filter(|_| clip.by_strategy.is_none());
}

/// Those that did harm first; of these the ones that are proved, and the shortest.
fn ordered(hunted: &Hunted) -> Vec<&Tried> {
    let mut tried: Vec<&Tried> = hunted.tried.iter().collect();
    tried.sort_by_key(|tried| match &tried.verdict {
        Some(Verdict::Confirmed(happened)) => {
            let clip = &happened.clip;
            (0, clip.wrong.is_none(), tried.prediction.proof.is_none(), clip.script.len())
        }
        _ => (1, true, true, 0),
    });
    tried
}

/// Predictions in the names of the runs that they are from, for the JSON.
struct Foretold {
    /// By run, then by number in its merged order.
    accesses: Vec<BTreeMap<u64, Access>>,
}

impl Foretold {
    fn of(hunted: &Hunted) -> Foretold {
        let mut wanted: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); hunted.recorded.len()];
        for tried in &hunted.tried {
            if let Some(wanted) = wanted.get_mut(tried.run) {
                wanted.extend(&tried.events);
            }
        }
        let accesses = hunted.recorded.iter().zip(&wanted).map(|(run, wanted)| match run.process() {
            Some(process) => accesses(process, wanted),
            None => BTreeMap::new(),
        });
        Foretold { accesses: accesses.collect() }
    }

    fn finding(&self, tried: &Tried) -> Finding {
        let known = self.accesses.get(tried.run);
        let of = |event: &u64| known.and_then(|known| known.get(event)).cloned();
        let mut finding = as_finding(tried.prediction.kind, tried.events.iter().filter_map(of).collect());
        finding.proved = tried.prediction.proof.as_ref().map(|proof| proof.relation.name().to_owned());
        finding.pattern = Some(tried.prediction.pattern.clone());
        match &tried.verdict {
            Some(Verdict::Confirmed(_)) => finding.status = Status::Confirmed,
            Some(Verdict::Refuted(why)) => {
                finding.status = Status::Refuted;
                finding.refuted = Some(why.name().to_owned());
            }
            None => finding.status = Status::Predicted,
        }
        finding
    }
}

/// Events of a run, by their numbers in the merged order, as accesses of a finding.
pub(crate) fn accesses(process: &selvedge_trace::Process, wanted: &BTreeSet<u64>) -> BTreeMap<u64, Access> {
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let names = Names::new(process);
    let mut heap = Heap::default();
    let mut found = BTreeMap::new();
    for (number, event) in (0_u64..).zip(process.events()) {
        // A freed block must still be named at its `free`.
        let is_free = matches!(event.body, EventBody::Free { .. });
        if !is_free {
            heap.apply(&event);
        }
        // Of millions few are wanted: naming takes longer than reading.
        if wanted.contains(&number) {
            found.insert(number, access(&names, &view(&names, &heap, event)));
        }
        if is_free {
            heap.apply(&event);
        }
    }
    found
}

fn access(names: &Names<'_>, view: &View) -> Access {
    Access {
        thread: view.event.thread.0,
        op: view.op.to_owned(),
        function: view.source.function.clone(),
        file: view.source.file.clone(),
        line: view.source.line,
        column: view.source.column.filter(|column| *column > 0),
        variable: view.object.as_ref().map(|(name, _)| name.clone()),
        ..Source::access_of(&names.stack(view.event.place, view.event.context))
    }
}

/// A prediction that nothing has confirmed.
pub(crate) fn as_finding(kind: Kind, accesses: Vec<Access>) -> Finding {
    Finding::new(of_accesses(kind, &accesses), kind, accesses)
}

/// Clips of those findings of a hunt whose ids are wanted, kept in the store: each finding as it was made to happen, and
/// the lines that say how to make it happen again.
pub(crate) fn clips_of(
    hunted: &Hunted,
    store: &Store,
    program: &Clip,
    wanted: &BTreeSet<String>,
) -> Result<BTreeMap<String, (Finding, Vec<String>)>, Failure> {
    let clips = clips_dir(store).map_err(|error| Failure::usage(&error))?;
    let name = program.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let foretold = Foretold::of(hunted);
    let mut all = BTreeMap::new();
    for tried in &hunted.tried {
        let Some(Verdict::Confirmed(happened)) = &tried.verdict else { continue };
        let mut finding = foretold.finding(tried);
        // Harm is worth more than the first clip.
        let better = all.get(&finding.id).is_none_or(|(known, _): &(Finding, _)| known.harm == Harm::NoneSeen);
        if wanted.contains(&finding.id) && better {
            let lines = keep(&mut finding, &happened.clip, &clips, &name)?;
            all.insert(finding.id.clone(), (finding, lines));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_went_another_way_does_not_show_what_was_predicted() {
        let finding = |kind, lines: &[u32]| {
            let access = |line: &u32| Access { file: Some("a.c".to_owned()), line: Some(*line), ..Access::default() };
            Finding::new("1".to_owned(), kind, lines.iter().map(access).collect())
        };
        let shows = |kind, shown: &[u32], predicted: &[u32]| {
            let shown = Shown { text: String::new(), finding: finding(kind, shown) };
            shown.shows(&finding(Kind::DataRace, predicted))
        };
        assert!(shows(Kind::DataRace, &[8, 9], &[9, 8]));
        assert!(!shows(Kind::DataRace, &[8, 8], &[9, 8]));
        assert!(!shows(Kind::OrderViolation, &[8], &[9, 8]));
        assert!(shows(Kind::Deadlock, &[3], &[9, 8]));
    }
}
