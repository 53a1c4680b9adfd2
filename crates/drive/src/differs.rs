//! Two runs of one schedule that differ, in words: which thread was about to do what at which line, and what the other run had
//! there instead.

use selvedge_events::SiteId;
use selvedge_events::plan::POINT_AFTER;
use selvedge_image::{Symboliser, load_or_build};
use selvedge_sched::moment::{NO_SITE, Standing};
use selvedge_sched::schedule::MASKED_THREADS;
use selvedge_sched::{Difference, Fault, LoggedPoint, OpKind};

use crate::controlled::Prepared;
use crate::guard::keys::ImageFile;
use crate::plan::ImageSpec;

/// Where a site is: `a.c:8 in put`.
type Places<'a> = &'a dyn Fn(SiteId) -> Option<String>;

/// Why a search could not go on with a run.
pub(crate) fn fault(prepared: &Prepared, fault: &Fault) -> String {
    match fault {
        Fault::Diverged(difference) => {
            format!("two runs that should begin alike {}", difference_of(prepared, difference))
        }
        other => other.to_string(),
    }
}

/// What differs, as the end of a sentence about the two runs.
pub(crate) fn difference_of(prepared: &Prepared, difference: &Difference) -> String {
    let files = prepared.surveyed.files();
    words(difference, &|site| place(&prepared.images, &files, site))
}

/// The source line of a site that is armed: `a.c:8 in put`. `None` where the program has no lines, or is no longer the one that ran.
pub fn place(images: &[ImageSpec], files: &[ImageFile], site: SiteId) -> Option<String> {
    let is_it = |(_, id): &&(u32, u32)| id & !POINT_AFTER == site.0;
    let (spec, ordinal) = images.iter().find_map(|spec| Some((spec, spec.sites.iter().find(is_it)?.0)))?;
    let file = files.iter().find(|file| file.build_id == spec.build_id)?;
    // A wrong line is worse than none.
    let loaded = load_or_build(&file.path).ok().filter(|loaded| loaded.image.build_id() == spec.build_id)?;
    let offset = loaded.entries.get(ordinal as usize)?.offset;
    let frames = Symboliser::new(&loaded.image).frames(u64::from(offset));
    let frame = frames.iter().find(|frame| frame.is_users()).or(frames.first())?;
    let file = frame.file.as_deref()?;
    Some(format!("{}:{} in {}", file.rsplit('/').next().unwrap_or(file), frame.line?, frame.function))
}

fn words(difference: &Difference, places: Places<'_>) -> String {
    let same = match difference.step {
        0 => "differ from the first step on".to_owned(),
        1 => "are the same for 1 step and then differ".to_owned(),
        steps => format!("are the same for {steps} steps and then differ"),
    };
    let (first, second) = match (&difference.expected, &difference.came) {
        (Some(one), Some(two)) => apart(one, two, places),
        (Some(one), None) => (told(one, places), "the run was over".to_owned()),
        (None, Some(two)) => ("the run was over".to_owned(), told(two, places)),
        (None, None) => return same,
    };
    format!("{same}: the first time {first}; the second time {second}")
}

/// Two steps, told so that they read differently where they differ.
fn apart(one: &LoggedPoint, two: &LoggedPoint, places: Places<'_>) -> (String, String) {
    let (first, second) = (told(one, places), told(two, places));
    if first != second {
        return (first, second);
    }
    if one.step.to != two.step.to {
        let next = |point: &LoggedPoint| format!("T{} went on", point.step.to);
        return (format!("{first}, and {}", next(one)), next(two));
    }
    if one.enabled != two.enabled {
        return (format!("{first}, and {}", able(one)), able(two));
    }
    // Nothing that a program does differs in what is left: the choice was the default one, or a thread has no name.
    (first, "it was the same operation, reached in another way".to_owned())
}

/// `T1 was about to write at a.c:8 in put (its operation 5)`.
fn told(point: &LoggedPoint, places: Places<'_>) -> String {
    let step = &point.step;
    let about = match step.standing() {
        Standing::Ready => "was about to",
        Standing::Yielding => "gave its turn away before it would",
        Standing::Stuck => "could not go on and",
    };
    let what = match (step.standing(), step.kind) {
        (Standing::Stuck, OpKind::Exit) => "had ended".to_owned(),
        (Standing::Stuck, kind) => format!("waited in {}", noun(kind)),
        (_, kind) => verb(kind).to_owned(),
    };
    let at = (step.site != NO_SITE).then(|| places(step.site)).flatten();
    let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
    format!("T{} {about} {what}{at} (its operation {})", step.thread, step.point)
}

/// The threads that could run.
fn able(point: &LoggedPoint) -> String {
    let able: Vec<String> =
        (0..MASKED_THREADS).filter(|bit| point.enabled >> bit & 1 == 1).map(|bit| format!("T{bit}")).collect();
    match able.as_slice() {
        [] => "no thread could run".to_owned(),
        [one] => format!("only {one} could run"),
        more => format!("{} could run", more.join(", ")),
    }
}

/// What a thread is about to do.
fn verb(kind: OpKind) -> &'static str {
    match kind {
        OpKind::LockShared => "take a shared lock",
        OpKind::UnlockShared => "give a shared lock back",
        OpKind::Lock => "take a lock",
        OpKind::Unlock => "give a lock back",
        OpKind::Wake => "wake others",
        OpKind::Join => "wait for the end of a thread",
        OpKind::Create => "create a thread",
        OpKind::Fence => "pass a fence",
        OpKind::Exit => "end",
        OpKind::Yield => "let others go first",
        OpKind::Io => "read or write a file",
        OpKind::Other => "do something else",
        OpKind::Start | OpKind::Read | OpKind::Write | OpKind::Update | OpKind::Wait | OpKind::Sleep => kind.name(),
    }
}

/// What a thread waits in.
fn noun(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Lock | OpKind::LockShared => "taking a lock",
        OpKind::Join => "waiting for the end of a thread",
        OpKind::Io => "reading or writing a file",
        OpKind::Wait => "waiting for others",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_sched::Step;
    use selvedge_sched::schedule::flags;

    use super::*;

    fn point(kind: OpKind, site: u32) -> LoggedPoint {
        let step = Step { thread: 1, to: 1, point: 5, site: SiteId(site), kind, flags: flags::READY };
        LoggedPoint { step, enabled: 0b11 }
    }

    fn told_of(step: usize, expected: Option<LoggedPoint>, came: Option<LoggedPoint>) -> String {
        let place = |site: SiteId| (site.0 < 9).then(|| format!("a.c:{} in f", site.0));
        words(&Difference { step, expected, came }, &place)
    }

    #[test]
    fn differences_are_told_by_lines_and_in_words() {
        let (read, write) = (point(OpKind::Read, 3), point(OpKind::Write, 4));
        assert_eq!(
            told_of(17, Some(read), Some(write)),
            "are the same for 17 steps and then differ: the first time T1 was about to read at a.c:3 in f (its operation 5); \
             the second time T1 was about to write at a.c:4 in f (its operation 5)"
        );
        assert!(told_of(0, Some(read), None).ends_with("(its operation 5); the second time the run was over"));
        assert!(told_of(1, None, Some(write)).contains("for 1 step and then differ: the first time the run was over"));
    }

    #[test]
    fn no_two_steps_that_differ_read_the_same() {
        let one = point(OpKind::Lock, NO_SITE.0);
        let mut others = [one; 6];
        others[0].step.to = 0;
        others[1].enabled = 0b10;
        others[2].step.flags = 0;
        others[3].step.point = 6;
        others[4].step.thread = 2;
        others[5].step.flags |= flags::DEFAULT;
        let mut seen = std::collections::BTreeSet::new();
        for other in others {
            let text = told_of(2, Some(one), Some(other));
            let (first, second) = text.split_once("; the second time ").expect("two halves");
            assert!(!first.ends_with(second) && seen.insert(second.to_owned()), "{text}");
            assert!(!text.contains("0x"), "{text}");
        }
    }
}
